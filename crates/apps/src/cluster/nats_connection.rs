//! A connection to a NATS server, for one request at a time (NATS' own documentation, "Client Protocol"): a message is
//! published with a subject for the answer, which is then waited for.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use forebay_harness::Result;

const CONNECT_DEADLINE: Duration = Duration::from_secs(1);
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);
/// Where answers go: the name of no other connection to the servers of a run.
const INBOX: &str = "_INBOX";

/// As whom a connection is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    Client,
    /// May remove servers.
    System,
}

#[derive(Debug)]
pub struct NatsConnection {
    stream: BufReader<TcpStream>,
    /// Before the number of each request.
    inbox: String,
    requests: u64,
}

impl NatsConnection {
    /// # Errors
    /// There is no server.
    pub fn open(server: SocketAddr, user: User) -> Result<NatsConnection> {
        let stream = TcpStream::connect_timeout(&server, CONNECT_DEADLINE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
        stream.set_write_timeout(Some(ANSWER_DEADLINE))?;
        let port = stream.local_addr()?.port();
        let mut connection = NatsConnection {
            stream: BufReader::new(stream),
            inbox: format!(
                "{INBOX}.{port}-{}",
                server.ip().to_string().replace('.', "-")
            ),
            requests: 0,
        };
        let as_whom = match user {
            User::Client => "",
            User::System => r#","user":"system","pass":"system""#,
        };
        // Headers only for the answer that nobody answers.
        let options = format!(
            r#"CONNECT {{"verbose":false,"pedantic":false,"headers":true,"no_responders":true{as_whom}}}"#
        );
        let inbox = &connection.inbox;
        let hello = format!("{options}\r\nSUB {inbox}.* 1\r\nPING\r\n");
        connection.send(hello.as_bytes())?;
        loop {
            match connection.line()?.as_str() {
                "PONG" => return Ok(connection),
                line if line.starts_with("-ERR") => return Err(line.into()),
                // What the server says of itself.
                _ => {}
            }
        }
    }

    /// Publishes a message and waits for its answer.
    ///
    /// # Errors
    /// Nobody answers, or the connection failed, which is not to be used any more then. What was asked for may have been done.
    pub fn request(&mut self, subject: &str, message: &[u8]) -> Result<Vec<u8>> {
        self.requests += 1;
        let answer_to = format!("{}.{}", self.inbox, self.requests);
        let mut all = format!("PUB {subject} {answer_to} {}\r\n", message.len()).into_bytes();
        all.extend(message);
        all.extend(b"\r\n");
        self.send(&all)?;
        loop {
            let line = self.line()?;
            let words: Vec<&str> = line.split(' ').collect();
            let length = || words.last().and_then(|length| length.parse().ok());
            match words[0] {
                "PING" => self.send(b"PONG\r\n")?,
                "MSG" | "HMSG" => {
                    let payload = self.payload(length().ok_or("a message without a length")?)?;
                    // The answer to an earlier request comes late.
                    if words.get(1) != Some(&answer_to.as_str()) {
                        continue;
                    }
                    return match words[0] {
                        "MSG" => Ok(payload),
                        _ => Err(format!("nobody answers {subject}").into()),
                    };
                }
                "-ERR" => return Err(line.into()),
                _ => {}
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.get_mut().write_all(bytes)?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err("the server ended the connection".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    fn payload(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut payload = vec![0; length + 2];
        self.stream.read_exact(&mut payload)?;
        payload.truncate(length);
        Ok(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A server that greets, reads a request and answers as `answer` makes of where the answer goes.
    fn request_of(answer: fn(&str) -> String) -> Result<Vec<u8>> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.write_all(b"INFO {}\r\n").expect("written");
            let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
            let mut next = || lines.next().expect("a line").expect("read");
            while next() != "PING" {}
            stream.write_all(b"PONG\r\n").expect("written");
            let asked = next();
            let to = asked.split(' ').nth(2).expect("where the answer goes");
            stream.write_all(answer(to).as_bytes()).expect("written");
            // What was asked, and perhaps more, until the client goes.
            while lines.next().is_some_and(|line| line.is_ok()) {}
            asked
        });
        let answered = NatsConnection::open(address, User::Client)
            .and_then(|mut connection| connection.request("k.a", b"value"));
        let asked = server.join().expect("a server");
        assert!(
            asked.starts_with("PUB k.a _INBOX.") && asked.ends_with(" 5"),
            "{asked}"
        );
        answered
    }

    #[test]
    fn an_answer_is_the_one_to_the_request() {
        let answered =
            request_of(|to| format!("PING\r\nMSG other 1 3\r\nold\r\nMSG {to} 1 4\r\ntrue\r\n"));
        assert_eq!(answered.expect("an answer"), b"true");
    }

    #[test]
    fn that_nobody_answers_is_an_error_and_so_is_one() {
        let nobody = request_of(|to| format!("HMSG {to} 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"));
        assert!(
            nobody
                .expect_err("nobody")
                .to_string()
                .contains("nobody answers k.a")
        );
        let refused = request_of(|_| "-ERR 'Slow Consumer'\r\n".into());
        assert!(
            refused
                .expect_err("refused")
                .to_string()
                .contains("Slow Consumer")
        );
    }
}
