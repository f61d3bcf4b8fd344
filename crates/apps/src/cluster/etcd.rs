//! etcd with three members. A put is acknowledged when a majority has it in its log, synced (etcd's own documentation,
//! "KV API guarantees"); reads are linearizable, so they see every put that was acknowledged.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use forebay_harness::{Daemon, Result, output, wait_for};

use crate::cluster::engine::{Client, Engine};
use crate::cluster::hosts::{CLIENT, Hosts, address, server};
use crate::cluster::messages::{Message, bytes, fields, number};
use crate::cluster::rpc::Connection;
use crate::cluster::workload::Workload;
use crate::context::program;

const MEMBERS: usize = 3;
const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;
const SETTLE_DEADLINE: Duration = Duration::from_secs(90);
const SETTLE_PAUSE: Duration = Duration::from_millis(100);
const TOOL_DEADLINE: Duration = Duration::from_secs(60);

const PUT: &str = "/etcdserverpb.KV/Put";
const RANGE: &str = "/etcdserverpb.KV/Range";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";

/// Whether members know each other from the start, or ask those that there are.
#[derive(Clone, Copy, Debug)]
enum Beginning {
    New,
    Existing,
}

#[derive(Debug, Default)]
pub struct Etcd {
    /// Of each member its last; those whose node was killed are dead.
    daemons: BTreeMap<usize, Daemon>,
}

/// What a member says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Status {
    is_leader: bool,
    has_leader: bool,
}

impl Etcd {
    fn start_member(
        &mut self,
        hosts: &Hosts<'_>,
        number: usize,
        beginning: Beginning,
    ) -> Result<()> {
        let url = |number: usize, port: u16| format!("http://{}:{port}", address(number));
        let all = hosts.numbers();
        let all: Vec<String> = all
            .map(|number| format!("n{number}={}", url(number, PEER_PORT)))
            .collect();
        let state = match beginning {
            Beginning::New => "new",
            Beginning::Existing => "existing",
        };
        let places = hosts.places(number);
        let mut command = hosts.node(number)?.command(program("etcd")?);
        command
            .args(["--name", &format!("n{number}"), "--data-dir"])
            .arg(places.brick.join("etcd"))
            // No snapshot while it is measured.
            .args(["--snapshot-count", "1000000"])
            .args(["--listen-peer-urls", &url(number, PEER_PORT)])
            .args(["--initial-advertise-peer-urls", &url(number, PEER_PORT)])
            .args(["--listen-client-urls", &url(number, CLIENT_PORT)])
            .args(["--advertise-client-urls", &url(number, CLIENT_PORT)])
            .args(["--initial-cluster", &all.join(",")])
            .args(["--initial-cluster-state", state])
            .args(["--logger", "zap", "--log-level", "warn"]);
        let daemon = Daemon::start(&mut command, &places.log)?;
        self.daemons.insert(number, daemon);
        Ok(())
    }

    /// What `etcdctl` prints, asked of a member.
    fn control(&self, hosts: &Hosts<'_>, number: usize, arguments: &[&str]) -> Result<String> {
        let mut command = hosts.node(CLIENT)?.command(program("etcdctl")?);
        let endpoints = format!("--endpoints=http://{}", server(number, CLIENT_PORT));
        command
            .env("ETCDCTL_API", "3")
            .arg(endpoints)
            .args(arguments);
        output(&mut command, TOOL_DEADLINE)
    }
}

impl Engine for Etcd {
    fn nodes(&self) -> usize {
        MEMBERS
    }

    fn workload(&self) -> Workload {
        Workload::Puts
    }

    fn has_quorum(&self) -> bool {
        true
    }

    fn start(&mut self, hosts: &Hosts<'_>) -> Result<()> {
        for number in hosts.numbers() {
            self.start_member(hosts, number, Beginning::New)?;
        }
        self.settle(hosts, &hosts.numbers().collect::<Vec<_>>())
    }

    fn stop(&mut self, _: &Hosts<'_>, number: usize) -> Result<()> {
        self.daemons.remove(&number).map_or(Ok(()), Daemon::kill)
    }

    fn restart(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        self.start_member(hosts, number, Beginning::New)
    }

    fn settle(&mut self, hosts: &Hosts<'_>, numbers: &[usize]) -> Result<()> {
        let network = hosts.network()?;
        for member in numbers.iter().copied() {
            let mut client = EtcdClient::new(vec![server(member, CLIENT_PORT)]);
            let settled = network.run(|| {
                wait_for(SETTLE_DEADLINE, || {
                    // A linearizable read waits until the member has everything up to now.
                    let is_settled = client.read("any").is_ok()
                        && client.status().is_ok_and(|status| status.has_leader);
                    if !is_settled {
                        std::thread::sleep(SETTLE_PAUSE);
                    }
                    Ok(is_settled.then_some(()))
                })
            })?;
            let log = || forebay_harness::tail_of(&hosts.places(member).log);
            settled.ok_or_else(|| format!("etcd's member {member} does not serve:\n{}", log()))?;
        }
        Ok(())
    }

    fn readmit(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        let others = hosts.numbers();
        let other = others.into_iter().find(|other| *other != number);
        let other = other.ok_or("there is no other member")?;
        let list = self.control(hosts, other, &["member", "list"])?;
        let name = format!("n{number}");
        let id = member_id(&list, &name).ok_or_else(|| format!("no {name} in {list}"))?;
        self.control(hosts, other, &["member", "remove", &id])?;
        let url = format!("--peer-urls=http://{}", server(number, PEER_PORT));
        // A change of members is refused for a few seconds after an election.
        let added = wait_for(SETTLE_DEADLINE, || {
            let added = self.control(hosts, other, &["member", "add", &name, &url]);
            Ok(added.ok())
        })?;
        added.ok_or("etcd does not add the member")?;
        self.start_member(hosts, number, Beginning::Existing)
    }

    fn clients(&self, hosts: &Hosts<'_>, count: usize) -> Result<Vec<Box<dyn Client>>> {
        let mut servers: Vec<SocketAddr> = hosts
            .numbers()
            .filter(|number| hosts.is_alive(*number))
            .map(|number| server(number, CLIENT_PORT))
            .collect();
        // One that begins elsewhere has each put sent on, which would differ from round to round.
        let leader = hosts.network()?.run(|| {
            Ok(servers.iter().position(|server| {
                let mut client = EtcdClient::new(vec![*server]);
                client.status().is_ok_and(|status| status.is_leader)
            }))
        })?;
        servers.rotate_left(leader.unwrap_or(0));
        let client = |number: usize| {
            let mut servers = servers.clone();
            let count = servers.len();
            servers.rotate_left(number % count);
            Box::new(EtcdClient::new(servers)) as Box<dyn Client>
        };
        Ok((0..count).map(client).collect())
    }

    fn client_of(&self, _: &Hosts<'_>, number: usize) -> Result<Box<dyn Client>> {
        Ok(Box::new(EtcdClient::new(vec![server(number, CLIENT_PORT)])))
    }
}

/// The identity of a member in what `etcdctl member list` prints.
fn member_id(list: &str, name: &str) -> Option<String> {
    list.lines().find_map(|line| {
        let mut columns = line.split(", ");
        let id = columns.next()?;
        (columns.nth(1)? == name).then(|| id.to_owned())
    })
}

struct EtcdClient {
    servers: Vec<SocketAddr>,
    /// To the first of them.
    connection: Option<Connection>,
}

impl EtcdClient {
    fn new(servers: Vec<SocketAddr>) -> EtcdClient {
        EtcdClient {
            servers,
            connection: None,
        }
    }

    /// After a failure the next call asks another member.
    fn call(&mut self, method: &str, message: &Message) -> Result<Vec<u8>> {
        let called = self.call_first(method, message);
        if called.is_err() {
            self.connection = None;
            self.servers.rotate_left(1);
        }
        called
    }

    fn call_first(&mut self, method: &str, message: &Message) -> Result<Vec<u8>> {
        if self.connection.is_none() {
            self.connection = Some(Connection::open(self.servers[0])?);
        }
        let connection = self.connection.as_mut().expect("opened");
        connection.call(method, message.as_slice())
    }

    fn status(&mut self) -> Result<Status> {
        status(&self.call(STATUS, &Message::default())?)
    }
}

impl Client for EtcdClient {
    fn write(&mut self, workload: Workload, key: &str, version: u32) -> Result<()> {
        let value = workload.content(key, version).ok_or("etcd's keys stay")?;
        let message = Message::default().bytes(1, key.as_bytes()).bytes(2, &value);
        self.call(PUT, &message).map(drop)
    }

    fn read(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let message = Message::default().bytes(1, key.as_bytes());
        value(&self.call(RANGE, &message)?)
    }
}

/// Of etcd's `RangeResponse`: the value of its one key.
fn value(answer: &[u8]) -> Result<Option<Vec<u8>>> {
    const KVS: u64 = 2;
    const VALUE: u64 = 5;
    let Some(pair) = bytes(&fields(answer)?, KVS) else {
        return Ok(None);
    };
    Ok(Some(bytes(&fields(pair)?, VALUE).unwrap_or(&[]).to_vec()))
}

/// Of etcd's `StatusResponse`.
fn status(answer: &[u8]) -> Result<Status> {
    const HEADER: u64 = 1;
    const MEMBER_ID: u64 = 2;
    const LEADER: u64 = 4;
    let all = fields(answer)?;
    let header = fields(bytes(&all, HEADER).ok_or("a status without a header")?)?;
    let (own, leader) = (number(&header, MEMBER_ID), number(&all, LEADER));
    Ok(Status {
        is_leader: own == leader,
        has_leader: leader != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_by_its_name() {
        let list = "8211f1d0f64f3269, started, n1, http://10.77.0.1:2380, http://10.77.0.1:2379, false\n\
                    91bc3c398fb3c146, started, n2, http://10.77.0.2:2380, http://10.77.0.2:2379, false\n";
        assert_eq!(member_id(list, "n2").as_deref(), Some("91bc3c398fb3c146"));
        assert_eq!(member_id(list, "n3"), None);
    }

    #[test]
    fn answers_are_read() {
        let pair = Message::default().bytes(1, b"a").bytes(5, b"value");
        let answer = Message::default().bytes(1, b"").bytes(2, pair.as_slice());
        let found = value(answer.as_slice()).expect("an answer");
        assert_eq!(found.as_deref(), Some(&b"value"[..]));
        let none = Message::default().bytes(1, b"");
        assert_eq!(value(none.as_slice()).expect("an answer"), None);
        // A header with member 7, and leader 7.
        let leads = [0x0a, 2, 0x10, 7, 0x20, 7];
        let found = status(&leads).expect("a status");
        assert!(found.is_leader && found.has_leader);
        let follows = status(&[0x0a, 2, 0x10, 7, 0x20, 8]).expect("a status");
        assert!(!follows.is_leader && follows.has_leader);
        assert!(status(&[0x20, 8]).is_err());
    }
}
