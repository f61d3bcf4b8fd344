//! NATS JetStream with three servers and a stream of three replicas, `sync_interval: always`: a message is acknowledged
//! when a majority has it, synced. By default NATS syncs every two minutes, and no cache makes that faster.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use forebay_harness::{Daemon, Result, find_program, sleep, tail_of, wait_for};
use serde_json::{Value, json};

use crate::cluster::engine::{Client, Engine};
use crate::cluster::hosts::{Hosts, address, server};
use crate::cluster::nats_connection::{NatsConnection, User};
use crate::cluster::workload::Workload;

const SERVERS: usize = 3;
const CLIENT_PORT: u16 = 4222;
const ROUTE_PORT: u16 = 6222;
const SETTLE_DEADLINE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(200);
const STREAM: &str = "KEYS";
/// Where `scripts/setup.sh cluster` puts it.
const BUILT: &str = "target/tools/bin/nats-server";
/// What the server says of a key that is not there.
const NOT_FOUND: u64 = 404;
/// And of a server that is not one of the cluster's.
const NO_SUCH_SERVER: u64 = 10_044;

#[derive(Debug, Default)]
pub struct Nats {
    /// Of each server its last; those whose node was killed are dead.
    daemons: BTreeMap<usize, Daemon>,
    /// How often a server was emptied: each time it is another one.
    emptied: BTreeMap<usize, u32>,
}

/// The program, where it is.
pub fn nats_server() -> Option<PathBuf> {
    let built = std::path::absolute(BUILT)
        .ok()
        .filter(|path| path.is_file());
    built.or_else(|| find_program("nats-server"))
}

impl Nats {
    fn server_name(&self, number: usize) -> String {
        match self.emptied.get(&number) {
            None => format!("n{number}"),
            Some(times) => format!("n{number}-{times}"),
        }
    }

    fn configuration(&self, hosts: &Hosts<'_>, number: usize) -> String {
        let routes = hosts.numbers().map(|other| {
            let route = server(other, ROUTE_PORT);
            format!("\"nats://{route}\"")
        });
        let routes = routes.collect::<Vec<_>>().join(", ");
        let (name, store) = (
            self.server_name(number),
            hosts.places(number).brick.join("nats"),
        );
        let (listen, route) = (server(number, CLIENT_PORT), server(number, ROUTE_PORT));
        format!(
            "server_name: \"{name}\"\nlisten: \"{listen}\"\n\
             jetstream {{ store_dir: \"{}\", max_file_store: 1G, max_memory_store: 64M, sync_interval: always }}\n\
             cluster {{ name: forebay, listen: \"{route}\", routes: [{routes}] }}\n\
             accounts {{\n\
             \x20 $SYS: {{ users: [{{ user: system, password: system }}] }}\n\
             \x20 KEYS: {{ jetstream: enabled, users: [{{ user: client, password: client }}] }}\n\
             }}\nno_auth_user: client\n",
            store.display()
        )
    }

    fn start_server(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        let places = hosts.places(number);
        let file = places.log.with_file_name("nats.conf");
        std::fs::write(&file, self.configuration(hosts, number))?;
        let program = nats_server().ok_or("no nats-server here")?;
        let mut command = hosts.node(number)?.command(program);
        command.arg("-c").arg(&file);
        let daemon = Daemon::start(&mut command, &places.log)?;
        self.daemons.insert(number, daemon);
        Ok(())
    }

    /// Asks one of the servers that are alive until it answers with what is wanted of it.
    fn insist<T: Send>(
        &self,
        hosts: &Hosts<'_>,
        (user, subject, message): (User, &str, &Value),
        wanted: impl Fn(&Value) -> Option<T> + Send + Sync,
    ) -> Result<T> {
        let alive = hosts.numbers().filter(|number| hosts.is_alive(*number));
        let servers: Vec<SocketAddr> = alive.map(|number| server(number, CLIENT_PORT)).collect();
        let message = message.to_string();
        let ask = |server: SocketAddr| -> Result<Value> {
            let answer =
                NatsConnection::open(server, user)?.request(subject, message.as_bytes())?;
            Ok(serde_json::from_slice(&answer)?)
        };
        let mut last = String::new();
        let found = hosts.network()?.run(|| {
            wait_for(SETTLE_DEADLINE, || {
                for server in servers.iter().copied() {
                    match ask(server) {
                        Ok(answer) => match wanted(&answer) {
                            Some(found) => return Ok(Some(found)),
                            None => last = answer.to_string(),
                        },
                        Err(error) => last = error.to_string(),
                    }
                }
                sleep(PAUSE).map(|()| None)
            })
        })?;
        let log = || {
            hosts
                .numbers()
                .map(|number| tail_of(&hosts.places(number).log))
        };
        let log = || log().collect::<Vec<_>>().join("\n");
        found.ok_or_else(|| format!("NATS does not do {subject}: {last}\n{}", log()).into())
    }
}

impl Engine for Nats {
    fn nodes(&self) -> usize {
        SERVERS
    }

    fn workload(&self) -> Workload {
        Workload::Puts
    }

    fn has_quorum(&self) -> bool {
        true
    }

    fn start(&mut self, hosts: &Hosts<'_>) -> Result<()> {
        for number in hosts.numbers() {
            self.start_server(hosts, number)?;
        }
        let create = format!("$JS.API.STREAM.CREATE.{STREAM}");
        // The newest message of a subject is the value of a key.
        let stream = json!({
            "name": STREAM, "subjects": ["k.>"], "storage": "file",
            "num_replicas": SERVERS, "max_msgs_per_subject": 1,
        });
        self.insist(hosts, (User::Client, &create, &stream), |answer| {
            answer["error"].is_null().then_some(())
        })?;
        self.settle(hosts, &hosts.numbers().collect::<Vec<_>>())
    }

    fn stop(&mut self, _: &Hosts<'_>, number: usize) -> Result<()> {
        self.daemons.remove(&number).map_or(Ok(()), Daemon::kill)
    }

    fn restart(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        self.start_server(hosts, number)
    }

    fn settle(&mut self, hosts: &Hosts<'_>, numbers: &[usize]) -> Result<()> {
        let info = format!("$JS.API.STREAM.INFO.{STREAM}");
        let names: Vec<String> = numbers
            .iter()
            .map(|number| self.server_name(*number))
            .collect();
        self.insist(hosts, (User::Client, &info, &json!({})), |answer| {
            are_current(answer, &names).then_some(())
        })
    }

    fn readmit(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        let info = format!("$JS.API.STREAM.INFO.{STREAM}");
        // By its number: servers that were restarted since it died have never heard its name.
        let gone = self.insist(hosts, (User::Client, &info, &json!({})), offline_peer)?;
        let gone = json!({ "peer": "", "peer_id": gone });
        let remove = (User::System, "$JS.API.SERVER.REMOVE", &gone);
        self.insist(hosts, remove, |answer| {
            // An answer that was lost is followed by the refusal to remove it again.
            let is_gone = answer["error"]["err_code"].as_u64() == Some(NO_SUCH_SERVER);
            (is_gone || answer["success"] == true).then_some(())
        })?;
        *self.emptied.entry(number).or_default() += 1;
        self.start_server(hosts, number)
    }

    fn clients(&self, hosts: &Hosts<'_>, count: usize) -> Result<Vec<Box<dyn Client>>> {
        let info = format!("$JS.API.STREAM.INFO.{STREAM}");
        // One that begins elsewhere has each message sent on, which would differ from round to round.
        let leader = self.insist(hosts, (User::Client, &info, &json!({})), |answer| {
            Some(answer["cluster"]["leader"].as_str()?.to_owned())
        })?;
        let mut alive: Vec<usize> = hosts
            .numbers()
            .filter(|number| hosts.is_alive(*number))
            .collect();
        let first = alive
            .iter()
            .position(|number| self.server_name(*number) == leader);
        alive.rotate_left(first.unwrap_or(0));
        let client = |number: usize| {
            let mut servers: Vec<SocketAddr> = alive
                .iter()
                .map(|number| server(*number, CLIENT_PORT))
                .collect();
            let count = servers.len();
            servers.rotate_left(number % count);
            let client = NatsClient {
                servers,
                connection: None,
            };
            Box::new(client) as Box<dyn Client>
        };
        Ok((0..count).map(client).collect())
    }

    fn client_of(&self, _: &Hosts<'_>, number: usize) -> Result<Box<dyn Client>> {
        Ok(Box::new(NatsClient {
            servers: vec![SocketAddr::new(address(number), CLIENT_PORT)],
            connection: None,
        }))
    }
}

/// Whether a stream has a leader, and those of these names have all that it has.
fn are_current(info: &Value, names: &[String]) -> bool {
    let cluster = &info["cluster"];
    let leader = cluster["leader"].as_str();
    let is_current = |name: &String| {
        let replicas = cluster["replicas"].as_array().into_iter().flatten();
        let mut found = replicas.filter(|replica| replica["name"] == **name);
        let is_current = |replica: &Value| {
            replica["current"] == true && replica["lag"].as_u64().unwrap_or(0) == 0
        };
        leader == Some(name) || found.any(is_current)
    };
    leader.is_some() && names.iter().all(is_current)
}

/// The number of the stream's replica that is not there.
fn offline_peer(info: &Value) -> Option<String> {
    let replicas = info["cluster"]["replicas"].as_array()?;
    let offline = replicas.iter().find(|replica| replica["offline"] == true)?;
    Some(offline["peer"].as_str()?.to_owned())
}

struct NatsClient {
    servers: Vec<SocketAddr>,
    /// To the first of them.
    connection: Option<NatsConnection>,
}

impl NatsClient {
    /// After a failure the next request asks another server.
    fn request(&mut self, subject: &str, message: &[u8]) -> Result<Value> {
        let answered = self.request_first(subject, message);
        if answered.is_err() {
            self.connection = None;
            self.servers.rotate_left(1);
        }
        answered
    }

    fn request_first(&mut self, subject: &str, message: &[u8]) -> Result<Value> {
        if self.connection.is_none() {
            self.connection = Some(NatsConnection::open(self.servers[0], User::Client)?);
        }
        let connection = self.connection.as_mut().expect("opened");
        Ok(serde_json::from_slice(
            &connection.request(subject, message)?,
        )?)
    }
}

impl Client for NatsClient {
    fn write(&mut self, workload: Workload, key: &str, version: u32) -> Result<()> {
        let value = workload.content(key, version).ok_or("NATS' keys stay")?;
        let answer = self.request(&format!("k.{key}"), &value)?;
        match answer["error"].is_null() && answer["seq"].is_u64() {
            true => Ok(()),
            false => Err(format!("not acknowledged: {answer}").into()),
        }
    }

    fn read(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let ask = json!({ "last_by_subj": format!("k.{key}") });
        let subject = format!("$JS.API.STREAM.MSG.GET.{STREAM}");
        value(&self.request(&subject, ask.to_string().as_bytes())?)
    }
}

/// The message in an answer; none where there is no such key.
fn value(answer: &Value) -> Result<Option<Vec<u8>>> {
    if answer["error"]["code"].as_u64() == Some(NOT_FOUND) {
        return Ok(None);
    }
    let data = answer["message"]["data"].as_str();
    let data = data.ok_or_else(|| format!("no message in {answer}"))?;
    decoded(data)
        .map(Some)
        .ok_or_else(|| format!("not base64: {data}").into())
}

/// Base64 (RFC 4648, section 4).
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded() {
        for (text, wanted) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
        ] {
            assert_eq!(decoded(text).as_deref(), Some(wanted));
        }
        assert_eq!(
            decoded("+/9AAf8=").as_deref(),
            Some(&[0xfb, 0xff, 0x40, 1, 0xff][..])
        );
        assert_eq!(decoded("a b"), None);
    }

    #[test]
    fn a_key_that_is_not_there_is_no_error_and_no_answer_is_one() {
        let found = value(&json!({ "message": { "data": "Zm9v" } })).expect("an answer");
        assert_eq!(found.as_deref(), Some(&b"foo"[..]));
        let none = json!({ "error": { "code": 404, "err_code": 10037 } });
        assert_eq!(value(&none).expect("an answer"), None);
        assert!(value(&json!({ "error": { "code": 503 } })).is_err());
    }

    #[test]
    fn all_have_what_the_leader_has_or_are_waited_for() {
        let info = |lag: u64| {
            json!({ "cluster": { "leader": "n1", "replicas": [
                { "name": "n2", "current": true, "lag": lag },
                { "name": "n3", "current": false },
            ] } })
        };
        let names = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(are_current(&info(0), &names(&["n1", "n2"])));
        assert!(!are_current(&info(3), &names(&["n1", "n2"])));
        assert!(!are_current(&info(0), &names(&["n3"])));
        assert!(!are_current(&json!({ "error": {} }), &[]));
        assert_eq!(offline_peer(&info(0)), None);
        let offline = json!({ "cluster": { "replicas": [
            { "name": "n2", "peer": "a" }, { "name": "unknown", "offline": true, "peer": "b" },
        ] } });
        assert_eq!(offline_peer(&offline).as_deref(), Some("b"));
    }
}
