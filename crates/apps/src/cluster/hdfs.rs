//! HDFS with three replicas: a name node beside the clients, a data node on each of four nodes. A record is acknowledged when
//! `hsync` returns: every data node of the file's pipeline has synced it then.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_harness::{Daemon, Result, output, sleep, tail_of, wait_for};
use serde_json::Value;

use crate::cluster::engine::{Batch, Client, Engine};
use crate::cluster::hosts::{CLIENT, Hosts, server};
use crate::cluster::workload::Workload;

const NODES: usize = 4;
const REPLICAS: &str = "3";
const NAME_PORT: u16 = 9000;
const STATUS_PORT: u16 = 9870;
const BRIDGE_PORT: u16 = 9999;
/// Where `scripts/setup.sh cluster` puts the jars, and the bridge beside them.
const JARS: &str = "target/hdfs";
const START_DEADLINE: Duration = Duration::from_secs(120);
const SETTLE_DEADLINE: Duration = Duration::from_secs(180);
const BATCH_DEADLINE: Duration = Duration::from_secs(300);
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);
const CONNECT_DEADLINE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(300);
/// TeraGen's rows.
const ROW_BYTES: u64 = 100;
const BATCH_BYTES: u64 = 128 << 20;

const LOGGING: &str = "log4j.rootLogger=WARN,e
log4j.appender.e=org.apache.log4j.ConsoleAppender
log4j.appender.e.target=System.err
log4j.appender.e.layout=org.apache.log4j.PatternLayout
log4j.appender.e.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
";

#[derive(Debug, Default)]
pub struct Hdfs {
    /// Of each node its last data node; those whose node was killed are dead.
    data_nodes: BTreeMap<usize, Daemon>,
    /// The name node and the bridge.
    others: Vec<Daemon>,
}

/// The folder with the jars, if it is there.
pub fn jars() -> Option<PathBuf> {
    let jars = std::path::absolute(JARS).ok()?;
    jars.join("classes/Bridge.class").is_file().then_some(jars)
}

impl Hdfs {
    /// A class of HDFS in a node.
    fn java(&self, hosts: &Hosts<'_>, number: usize, heap: &str) -> Result<Command> {
        let jars = jars().ok_or("no jars of HDFS here")?;
        let class_path = format!(
            "{}:{}/classes:{}/*",
            folder(hosts).display(),
            jars.display(),
            jars.display()
        );
        let mut command = hosts.node(number)?.command("java");
        command
            .arg(format!("-Xmx{heap}"))
            .args(["-XX:+UseSerialGC", "-cp", &class_path]);
        Ok(command)
    }

    fn start_data_node(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        let places = hosts.places(number);
        let mut command = self.java(hosts, number, "256m")?;
        let directory = places.brick.join("hdfs");
        command
            .arg("org.apache.hadoop.hdfs.server.datanode.DataNode")
            .args([
                "-D",
                &format!("dfs.datanode.data.dir=file://{}", directory.display()),
            ]);
        for (name, port) in [
            ("address", 9866),
            ("http.address", 9864),
            ("ipc.address", 9867),
        ] {
            let address = server(number, port);
            command.args(["-D", &format!("dfs.datanode.{name}={address}")]);
        }
        let daemon = Daemon::start(&mut command, &places.log)?;
        self.data_nodes.insert(number, daemon);
        Ok(())
    }

    fn start_name_node(&mut self, hosts: &Hosts<'_>) -> Result<()> {
        const NAME_NODE: &str = "org.apache.hadoop.hdfs.server.namenode.NameNode";
        configure(hosts)?;
        let mut format = self.java(hosts, CLIENT, "256m")?;
        output(
            format.args([NAME_NODE, "-format", "-nonInteractive"]),
            START_DEADLINE,
        )?;
        let mut command = self.java(hosts, CLIENT, "256m")?;
        let daemon = Daemon::start(command.arg(NAME_NODE), &hosts.env.log())?;
        self.others.push(daemon);
        Ok(())
    }

    fn start_bridge(&mut self, hosts: &Hosts<'_>) -> Result<()> {
        let at = server(CLIENT, BRIDGE_PORT);
        let mut command = self.java(hosts, CLIENT, "256m")?;
        command.args([
            "Bridge",
            &at.ip().to_string(),
            &at.port().to_string(),
            REPLICAS,
        ]);
        self.others
            .push(Daemon::start(&mut command, &hosts.env.log())?);
        let network = hosts.network()?;
        let is_up = network.run(|| {
            wait_for(START_DEADLINE, || {
                match TcpStream::connect_timeout(&at, CONNECT_DEADLINE) {
                    Ok(_) => Ok(Some(())),
                    Err(_) => sleep(PAUSE).map(|()| None),
                }
            })
        })?;
        is_up.ok_or_else(|| format!("no bridge to HDFS:\n{}", tail_of(&hosts.env.log())).into())
    }

    /// Waits until all data nodes whose nodes are alive are known, and nothing lacks a replica.
    fn wait_until_whole(&self, hosts: &Hosts<'_>) -> Result<()> {
        let alive = hosts.numbers().filter(|number| hosts.is_alive(*number));
        let alive = alive.count() as u64;
        let at = server(CLIENT, STATUS_PORT);
        let is_whole = hosts.network()?.run(|| {
            wait_for(SETTLE_DEADLINE, || match status(at) {
                Ok(status) if status.live == alive && status.lacking == 0 => Ok(Some(())),
                _ => sleep(PAUSE).map(|()| None),
            })
        })?;
        is_whole.ok_or_else(|| format!("HDFS is not whole:\n{}", tail_of(&hosts.env.log())).into())
    }
}

impl Engine for Hdfs {
    fn nodes(&self) -> usize {
        NODES
    }

    fn workload(&self) -> Workload {
        Workload::Records
    }

    fn has_quorum(&self) -> bool {
        false
    }

    fn start(&mut self, hosts: &Hosts<'_>) -> Result<()> {
        self.start_name_node(hosts)?;
        for number in hosts.numbers() {
            self.start_data_node(hosts, number)?;
        }
        self.wait_until_whole(hosts)?;
        self.start_bridge(hosts)
    }

    fn stop(&mut self, _: &Hosts<'_>, number: usize) -> Result<()> {
        self.data_nodes.remove(&number).map_or(Ok(()), Daemon::kill)
    }

    fn restart(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        self.start_data_node(hosts, number)
    }

    fn settle(&mut self, hosts: &Hosts<'_>, _: &[usize]) -> Result<()> {
        // Files that are being written get no new replicas.
        let close = || HdfsClient::default().ask("C\n", &[]).map(drop);
        hosts.network()?.run(close)?;
        self.wait_until_whole(hosts)
    }

    fn readmit(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        self.start_data_node(hosts, number)
    }

    fn clients(&self, _: &Hosts<'_>, count: usize) -> Result<Vec<Box<dyn Client>>> {
        let client = |_| Box::<HdfsClient>::default() as Box<dyn Client>;
        Ok((0..count).map(client).collect())
    }

    fn client_of(&self, _: &Hosts<'_>, _: usize) -> Result<Box<dyn Client>> {
        Ok(Box::<HdfsClient>::default())
    }

    /// TeraGen, the start of its virtual machine in its time.
    fn batch(&self, hosts: &Hosts<'_>) -> Result<Option<Batch>> {
        let mut command = self.java(hosts, CLIENT, "512m")?;
        command
            .arg("org.apache.hadoop.examples.terasort.TeraGen")
            .args([
                "-D",
                "mapreduce.framework.name=local",
                "-D",
                "mapreduce.job.maps=2",
            ])
            .args(["-D", "mapreduce.local.map.tasks.maximum=2"])
            .args(["-D", &format!("dfs.replication={REPLICAS}")])
            .args([&(BATCH_BYTES / ROW_BYTES).to_string(), "/teragen"]);
        let began = Instant::now();
        output(&mut command, BATCH_DEADLINE)?;
        Ok(Some(Batch {
            name: "teragen_r3",
            bytes: BATCH_BYTES,
            elapsed: began.elapsed(),
        }))
    }
}

/// Where settings and the name node's own files are: in memory, so that only the data nodes' disks count.
fn folder(hosts: &Hosts<'_>) -> PathBuf {
    hosts.env.path("hdfs")
}

fn configure(hosts: &Hosts<'_>) -> Result<()> {
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

/// What the name node says of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Status {
    /// Data nodes that it hears from.
    live: u64,
    /// Blocks that lack a replica, or all.
    lacking: u64,
}

fn status(at: SocketAddr) -> Result<Status> {
    let mut stream = TcpStream::connect_timeout(&at, CONNECT_DEADLINE)?;
    stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
    let query = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystem*";
    write!(stream, "GET {query} HTTP/1.0\r\nHost: {at}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    status_in(&answer)
}

/// In an answer of HTTP: the name node's beans.
fn status_in(answer: &str) -> Result<Status> {
    let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer of HTTP")?;
    let told: Value = serde_json::from_str(body)?;
    let beans = || told["beans"].as_array().into_iter().flatten();
    let number = |name: &str| -> Result<u64> {
        let found = beans().find_map(|bean| bean[name].as_u64());
        found.ok_or_else(|| format!("the name node says nothing of {name}").into())
    };
    Ok(Status {
        live: number("NumLiveDataNodes")?,
        lacking: number("UnderReplicatedBlocks")?
            + number("PendingReplicationBlocks")?
            + number("MissingBlocks")?,
    })
}

/// A client behind the bridge.
#[derive(Default)]
struct HdfsClient(Option<BufReader<TcpStream>>);

impl HdfsClient {
    /// The answer's first line. After a failure the next question has a connection of its own.
    fn ask(&mut self, line: &str, bytes: &[u8]) -> Result<String> {
        let answered = self.ask_once(line, bytes);
        match answered {
            Err(_) => self.0 = None,
            Ok(ref answer) if answer.starts_with("no ") => return Err(answer.as_str().into()),
            Ok(_) => {}
        }
        answered
    }

    fn ask_once(&mut self, line: &str, bytes: &[u8]) -> Result<String> {
        if self.0.is_none() {
            let at = server(CLIENT, BRIDGE_PORT);
            let stream = TcpStream::connect_timeout(&at, CONNECT_DEADLINE)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
            self.0 = Some(BufReader::new(stream));
        }
        let stream = self.0.as_mut().expect("connected");
        stream
            .get_mut()
            .write_all(&[line.as_bytes(), bytes].concat())?;
        let mut answer = String::new();
        match stream.read_line(&mut answer)? {
            0 => Err("the bridge ended".into()),
            _ => Ok(answer.trim_end().to_owned()),
        }
    }
}

impl Client for HdfsClient {
    fn write(&mut self, workload: Workload, key: &str, version: u32) -> Result<()> {
        let (_, bytes) = workload.written(key, version);
        let line = format!("W {key} {version} {}\n", bytes.len());
        self.ask(&line, &bytes).map(drop)
    }

    fn read(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let length = self.ask(&format!("R {key}\n"), &[])?;
        let Ok(length) = length.parse::<usize>() else {
            return Ok(None);
        };
        let mut bytes = vec![0; length];
        self.0
            .as_mut()
            .ok_or("no connection")?
            .read_exact(&mut bytes)?;
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_a_replica_or_all_is_waited_for() {
        let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n\
                      {\"beans\": [{\"name\": \"FSNamesystem\", \"MissingBlocks\": 1, \"UnderReplicatedBlocks\": 2,\
                      \"PendingReplicationBlocks\": 4}, {\"NumLiveDataNodes\": 3}]}";
        let found = status_in(answer).expect("a status");
        assert_eq!((found.live, found.lacking), (3, 7));
        assert!(status_in("HTTP/1.1 200 OK\r\n\r\n{\"beans\": []}").is_err());
    }

    #[test]
    fn settings_are_written_as_hadoop_reads_them() {
        let text = configuration(&[("a.b", "c".into())]);
        assert_eq!(
            text,
            "<configuration>\n<property><name>a.b</name><value>c</value></property>\n</configuration>\n"
        );
    }
}
