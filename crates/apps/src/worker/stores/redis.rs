//! Redis over its socket: records are strings, a sorted set holds the keys for scans, as YCSB has it.
//!
//! Four commands of a protocol of lines: a client library would bring more packages than this has lines.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::worker::stores::{Client, Store};
use forebay_harness::Result;

/// Commands sent before their answers are read, where each is not waited for.
const UNDER_WAY_MAX: usize = 256;
const INDEX: &str = "index";

#[derive(Debug)]
pub struct Redis {
    socket: PathBuf,
}

impl Redis {
    pub fn new(socket: PathBuf) -> Redis {
        Redis { socket }
    }
}

impl Store for Redis {
    fn client(&self, is_durable: bool) -> Result<Box<dyn Client + '_>> {
        let stream = UnixStream::connect(&self.socket)
            .map_err(|error| format!("{}: {error}", self.socket.display()))?;
        Ok(Box::new(Connection {
            stream: BufReader::new(stream),
            request: Vec::new(),
            under_way: 0,
            // The server syncs before it answers: a client that waits for no answer does not wait for
            // the disk.
            under_way_max: if is_durable { 0 } else { UNDER_WAY_MAX },
        }))
    }
}

#[derive(Debug, PartialEq)]
enum Answer {
    Nothing,
    /// A line, or a number as text.
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Answer>),
}

#[derive(Debug)]
struct Connection {
    stream: BufReader<UnixStream>,
    request: Vec<u8>,
    under_way: usize,
    under_way_max: usize,
}

impl Connection {
    fn ask(&mut self, words: &[&[u8]]) {
        self.request.extend(format!("*{}\r\n", words.len()).bytes());
        for word in words {
            self.request.extend(format!("${}\r\n", word.len()).bytes());
            self.request.extend_from_slice(word);
            self.request.extend_from_slice(b"\r\n");
        }
        self.under_way += 1;
    }

    fn answer(&mut self) -> Result<Answer> {
        if !self.request.is_empty() {
            self.stream.get_mut().write_all(&self.request)?;
            self.request.clear();
        }
        self.under_way -= 1;
        read_answer(&mut self.stream)
    }
}

fn read_answer(stream: &mut impl BufRead) -> Result<Answer> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1).ok_or("the server is gone")?;
    match (kind, rest) {
        ("-", why) => Err(format!("redis: {why}").into()),
        ("+" | ":", text) => Ok(Answer::Text(text.to_owned())),
        ("$" | "*", "-1") => Ok(Answer::Nothing),
        ("$", length) => {
            let mut bytes = vec![0; length.parse::<usize>()? + 2];
            stream.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            Ok(Answer::Bytes(bytes))
        }
        ("*", length) => {
            let answers = (0..length.parse::<usize>()?).map(|_| read_answer(stream));
            Ok(Answer::List(answers.collect::<Result<_>>()?))
        }
        _ => Err(format!("redis says {line:?}").into()),
    }
}

impl Client for Connection {
    fn put(&mut self, key: &str, value: &[u8], is_new: bool) -> Result<()> {
        self.ask(&[b"SET", key.as_bytes(), value]);
        if is_new {
            self.ask(&[b"ZADD", INDEX.as_bytes(), b"0", key.as_bytes()]);
        }
        if self.under_way > self.under_way_max {
            self.finish()?;
        }
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        self.finish()?;
        self.ask(&[b"GET", key.as_bytes()]);
        match self.answer()? {
            Answer::Bytes(bytes) => Ok(Some(bytes)),
            Answer::Nothing => Ok(None),
            other => Err(format!("redis answers GET by {other:?}").into()),
        }
    }

    fn scan(&mut self, key: &str, count: usize) -> Result<usize> {
        self.finish()?;
        let from = format!("[{key}");
        let count = count.to_string();
        self.ask(&[
            b"ZRANGEBYLEX",
            INDEX.as_bytes(),
            from.as_bytes(),
            b"+",
            b"LIMIT",
            b"0",
            count.as_bytes(),
        ]);
        let Answer::List(keys) = self.answer()? else {
            return Err("redis gives no list of keys".into());
        };
        let mut words: Vec<&[u8]> = vec![b"MGET"];
        for key in &keys {
            if let Answer::Bytes(bytes) = key {
                words.push(bytes);
            }
        }
        if words.len() == 1 {
            return Ok(0);
        }
        self.ask(&words);
        match self.answer()? {
            Answer::List(values) if !values.contains(&Answer::Nothing) => Ok(values.len()),
            _ => Err("redis has keys without their records".into()),
        }
    }

    fn finish(&mut self) -> Result<()> {
        while self.under_way > 0 {
            self.answer()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_answer_is_read() {
        let mut said: &[u8] =
            b"+OK\r\n:7\r\n$-1\r\n$4\r\na\r\nb\r\n*2\r\n$1\r\nx\r\n$-1\r\n-ERR no\r\n";
        let mut next = || read_answer(&mut said);
        assert_eq!(next().expect("a line"), Answer::Text("OK".into()));
        assert_eq!(next().expect("a number"), Answer::Text("7".into()));
        assert_eq!(next().expect("nothing"), Answer::Nothing);
        assert_eq!(next().expect("bytes"), Answer::Bytes(b"a\r\nb".to_vec()));
        let list = Answer::List(vec![Answer::Bytes(b"x".to_vec()), Answer::Nothing]);
        assert_eq!(next().expect("a list"), list);
        assert!(next().expect_err("an error").to_string().contains("ERR no"));
        assert!(next().is_err(), "the end");
    }
}
