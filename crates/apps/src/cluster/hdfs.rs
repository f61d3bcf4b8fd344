//! HDFS, with three replicas or fewer: a name node beside the clients, a data node on each of four nodes. A record is acknowledged when
//! `hsync` returns: every data node of the file's pipeline has synced it then.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_harness::{Daemon, Result, output, sleep, tail_of, wait_for};
use serde_json::Value;

use crate::cluster::engine::{Batch, Client, Engine};
use crate::cluster::hdfs_client::{BRIDGE_PORT, HdfsClient, Replica};
use crate::cluster::hdfs_settings::{STATUS_PORT, configure, folder};
use crate::cluster::hosts::{CLIENT, Hosts, address, server};
use crate::cluster::workload::Workload;

const NODES: usize = 4;
/// Of a data node.
const DATA_STATUS_PORT: u16 = 9864;
/// Where `scripts/setup.sh cluster` puts the jars, and the bridge beside them.
const JARS: &str = "target/hdfs";
const START_DEADLINE: Duration = Duration::from_secs(120);
const SETTLE_DEADLINE: Duration = Duration::from_secs(180);
const BATCH_DEADLINE: Duration = Duration::from_secs(300);
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);
const CONNECT_DEADLINE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(300);
/// A data node's, on its brick.
const DIRECTORY: &str = "hdfs";
/// TeraGen's rows.
const ROW_BYTES: u64 = 100;
const BATCH_BYTES: u64 = 128 << 20;
/// TeraGen with so many replicas; the most first, so that caches are full when the others are counted.
const TERAGENS: [&str; 3] = ["teragen_r3", "teragen_r2", "teragen_r1"];

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
        let directory = places.brick.join(DIRECTORY);
        command
            .arg("org.apache.hadoop.hdfs.server.datanode.DataNode")
            .args([
                "-D",
                &format!("dfs.datanode.data.dir=file://{}", directory.display()),
            ]);
        for (name, port) in [
            ("address", 9866),
            ("http.address", DATA_STATUS_PORT),
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
        command.args(["Bridge", &at.ip().to_string(), &at.port().to_string()]);
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

    /// Waits until all data nodes whose nodes are alive have told the name node which blocks they have: until then it counts
    /// on what a data node had before it died.
    fn wait_until_reported(&self, hosts: &Hosts<'_>) -> Result<()> {
        for number in hosts.numbers().filter(|number| hosts.is_alive(*number)) {
            let at = server(number, DATA_STATUS_PORT);
            let reported = hosts.network()?.run(|| {
                wait_for(SETTLE_DEADLINE, || match has_reported(at) {
                    Ok(true) => Ok(Some(())),
                    _ => sleep(PAUSE).map(|()| None),
                })
            })?;
            let log = &hosts.places(number).log;
            let complaint = || format!("data node {number} does not report:\n{}", tail_of(log));
            reported.ok_or_else(complaint)?;
        }
        Ok(())
    }

    /// Files that are being written get no new replicas.
    fn close_files(&self, hosts: &Hosts<'_>) -> Result<()> {
        let mut last = None;
        let are_closed = hosts.network()?.run(|| {
            let mut client = HdfsClient::default();
            wait_for(SETTLE_DEADLINE, || match client.close_files() {
                Ok(()) => Ok(Some(())),
                Err(error) => {
                    last = Some(error);
                    sleep(PAUSE).map(|()| None)
                }
            })
        })?;
        let last = || last.map_or(String::new(), |error| error.to_string());
        are_closed.ok_or_else(|| format!("HDFS does not close files: {}", last()).into())
    }

    /// Waits until all data nodes whose nodes are alive are known, and nothing lacks a replica.
    fn wait_until_whole(&self, hosts: &Hosts<'_>) -> Result<()> {
        let alive = hosts.numbers().filter(|number| hosts.is_alive(*number));
        let alive = alive.count() as u64;
        let at = server(CLIENT, STATUS_PORT);
        let mut last = None;
        let is_whole = hosts.network()?.run(|| {
            wait_for(SETTLE_DEADLINE, || {
                let found = status(at);
                let is_whole = matches!(&found, Ok(found) if found.is_whole(alive));
                last = Some(found);
                match is_whole {
                    true => Ok(Some(())),
                    false => sleep(PAUSE).map(|()| None),
                }
            })
        })?;
        let log = tail_of(&hosts.env.log());
        is_whole.ok_or_else(|| format!("HDFS is not whole, {last:?}:\n{log}").into())
    }
}

impl Engine for Hdfs {
    fn nodes(&self) -> usize {
        NODES
    }

    fn workload(&self) -> Workload {
        Workload::Records { replicas: 3 }
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

    fn outlives_all(&self) -> bool {
        true
    }

    fn stop(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        self.close_files(hosts)?;
        self.data_nodes.remove(&number).map_or(Ok(()), Daemon::kill)
    }

    fn restart(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        self.start_data_node(hosts, number)
    }

    fn settle(&mut self, hosts: &Hosts<'_>, _: &[usize]) -> Result<()> {
        self.wait_until_reported(hosts)?;
        self.close_files(hosts)?;
        self.wait_until_whole(hosts)
    }

    /// A data node with an empty directory is a new one.
    fn readmit(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        self.start_data_node(hosts, number)
    }

    fn clients(&self, _: &Hosts<'_>, count: usize) -> Result<Vec<Box<dyn Client>>> {
        let client = |_| Box::<HdfsClient>::default() as Box<dyn Client>;
        Ok((0..count).map(client).collect())
    }

    fn client_of(&self, hosts: &Hosts<'_>, number: usize) -> Result<Box<dyn Client>> {
        let directory = hosts.places(number).brick.join(DIRECTORY);
        Ok(Box::new(Replica {
            address: address(number).to_string(),
            directory: hosts.node(number)?.path(&directory),
            client: HdfsClient::default(),
        }))
    }

    fn batches(&self) -> &'static [&'static str] {
        &TERAGENS
    }

    /// TeraGen, the start of its virtual machine in its time.
    fn batch(&self, hosts: &Hosts<'_>, name: &str) -> Result<Batch> {
        let replicas = name.trim_start_matches("teragen_r");
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
            .args(["-D", &format!("dfs.replication={replicas}")])
            // A single replica on a slow disk has no other data node to go to.
            .args(["-D", "dfs.client.socket-timeout=180000"])
            .args([&(BATCH_BYTES / ROW_BYTES).to_string(), &format!("/{name}")]);
        let began = Instant::now();
        output(&mut command, BATCH_DEADLINE)?;
        Ok(Batch {
            bytes: BATCH_BYTES,
            elapsed: began.elapsed(),
        })
    }
}

/// What the name node says of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Status {
    /// Data nodes that it hears from.
    live: u64,
    /// Blocks that lack a replica, or all.
    lacking: u64,
}

impl Status {
    fn is_whole(self, alive: u64) -> bool {
        self.live == alive && self.lacking == 0
    }
}

fn status(at: SocketAddr) -> Result<Status> {
    // Its neighbour FSNamesystem is up to ten seconds old.
    let told = beans(at, "Hadoop:service=NameNode,name=FSNamesystemState")?;
    Ok(Status {
        live: number_in(&told, "NumLiveDataNodes")?,
        lacking: number_in(&told, "UnderReplicatedBlocks")?
            + number_in(&told, "PendingReplicationBlocks")?,
    })
}

/// Whether a data node has told the name node, since its start, which blocks it has.
fn has_reported(at: SocketAddr) -> Result<bool> {
    let told = beans(at, "Hadoop:service=DataNode,name=DataNodeActivity*")?;
    Ok(number_in(&told, "BlockReportsNumOps")? > 0)
}

/// What a server of HDFS says of itself.
fn beans(at: SocketAddr, query: &str) -> Result<Value> {
    let mut stream = TcpStream::connect_timeout(&at, CONNECT_DEADLINE)?;
    stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
    write!(
        stream,
        "GET /jmx?qry={query} HTTP/1.0\r\nHost: {at}\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer of HTTP")?;
    Ok(serde_json::from_str(body)?)
}

fn number_in(told: &Value, name: &str) -> Result<u64> {
    let mut beans = told["beans"].as_array().into_iter().flatten();
    let found = beans.find_map(|bean| bean[name].as_u64());
    found.ok_or_else(|| format!("nothing is said of {name}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_a_replica_is_waited_for() {
        let told = serde_json::json!({"beans": [{"name": "State", "UnderReplicatedBlocks": 2}, {"NumLiveDataNodes": 3}]});
        assert_eq!(number_in(&told, "UnderReplicatedBlocks").expect("said"), 2);
        assert_eq!(number_in(&told, "NumLiveDataNodes").expect("said"), 3);
        assert!(number_in(&told, "MissingBlocks").is_err());
        let status = |live, lacking| Status { live, lacking };
        assert!(status(4, 0).is_whole(4));
        assert!(!status(4, 1).is_whole(4) && !status(3, 0).is_whole(4));
    }
}
