//! How HDFS is set: where its servers are, and that what they acknowledge is durable.

use std::fmt::Write as _;
use std::path::PathBuf;

use forebay_harness::Result;

use crate::cluster::hosts::{CLIENT, Hosts, server};

const NAME_PORT: u16 = 9000;
pub const STATUS_PORT: u16 = 9870;

const LOGGING: &str = "log4j.rootLogger=WARN,e
log4j.appender.e=org.apache.log4j.ConsoleAppender
log4j.appender.e.target=System.err
log4j.appender.e.layout=org.apache.log4j.PatternLayout
log4j.appender.e.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
";

/// Where settings and the name node's own files are: in memory, so that only the data nodes' disks count.
pub fn folder(hosts: &Hosts<'_>) -> PathBuf {
    hosts.env.path("hdfs")
}

/// Writes them.
pub fn configure(hosts: &Hosts<'_>) -> Result<()> {
    let folder = folder(hosts);
    for empty in ["hdfs", "datanode", "static"] {
        // The jars lack what the servers' pages would be made of.
        std::fs::create_dir_all(folder.join("webapps").join(empty))?;
    }
    let name = server(CLIENT, NAME_PORT);
    let core = [
        ("fs.defaultFS", format!("hdfs://{name}")),
        ("hadoop.tmp.dir", folder.join("tmp").display().to_string()),
    ];
    let directory = folder.join("name");
    let hdfs = [
        (
            "dfs.namenode.name.dir",
            format!("file://{}", directory.display()),
        ),
        (
            "dfs.namenode.http-address",
            server(CLIENT, STATUS_PORT).to_string(),
        ),
        // Nodes have no names.
        (
            "dfs.namenode.datanode.registration.ip-hostname-check",
            "false".into(),
        ),
        ("dfs.permissions.enabled", "false".into()),
        // Closed blocks are as durable as synced ones.
        ("dfs.datanode.synconclose", "true".into()),
        ("dfs.blocksize", (32 << 20).to_string()),
        ("dfs.namenode.safemode.extension", "0".into()),
        ("dfs.heartbeat.interval", "1".into()),
        ("dfs.namenode.heartbeat.recheck-interval", "3000".into()),
        ("dfs.namenode.redundancy.interval.seconds", "1s".into()),
        // A copy that was asked of a data node that died is asked of another.
        (
            "dfs.namenode.reconstruction.pending.timeout-sec",
            "5".into(),
        ),
        ("dfs.client.socket-timeout", "10000".into()),
        (
            "dfs.client.block.write.replace-datanode-on-failure.policy",
            "NEVER".into(),
        ),
    ];
    std::fs::write(folder.join("core-site.xml"), configuration(&core))?;
    std::fs::write(folder.join("hdfs-site.xml"), configuration(&hdfs))?;
    Ok(std::fs::write(folder.join("log4j.properties"), LOGGING)?)
}

/// A file of Hadoop's settings.
fn configuration(settings: &[(&str, String)]) -> String {
    let mut text = "<configuration>\n".to_owned();
    for (name, value) in settings {
        let _ = writeln!(
            text,
            "<property><name>{name}</name><value>{value}</value></property>"
        );
    }
    text + "</configuration>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_as_hadoop_reads_them() {
        let text = configuration(&[("a.b", "c".into())]);
        assert_eq!(
            text,
            "<configuration>\n<property><name>a.b</name><value>c</value></property>\n</configuration>\n"
        );
    }
}
