//! Clients of HDFS: the bridge's, which asks HDFS, and one that reads the replicas of a data node past it.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_harness::Result;

use crate::cluster::engine::Client;
use crate::cluster::hosts::{CLIENT, server};
use crate::cluster::workload::Workload;

pub const BRIDGE_PORT: u16 = 9999;
/// Of a file that asks for no other number.
const REPLICAS: u8 = 3;
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);
const CONNECT_DEADLINE: Duration = Duration::from_secs(1);

/// A client behind the bridge.
#[derive(Default)]
pub struct HdfsClient(Option<BufReader<TcpStream>>);

impl HdfsClient {
    /// Has all files closed that are being written, also those whose writer failed.
    ///
    /// # Errors
    /// Some are not closed yet.
    pub fn close_files(&mut self) -> Result<()> {
        self.ask("C\n", &[]).map(drop)
    }

    /// Where the replicas of a file of one block are; none where there is no such block.
    fn block_of(&mut self, key: &str) -> Result<Option<Block>> {
        let told = self.ask(&format!("B {key}\n"), &[])?;
        match told.as_str() {
            "-" => Ok(None),
            told => block_in(told).map(Some),
        }
    }

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
        let replicas = match workload {
            Workload::Records { replicas } => replicas,
            _ => REPLICAS,
        };
        let line = format!("W {key} {version} {} {replicas}\n", bytes.len());
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

/// The one block of a file.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// Of blocks of one name node.
    pool: String,
    number: u64,
    /// The addresses of the data nodes that the name node counts on.
    replicas: Vec<String>,
}

/// In an answer of the bridge.
fn block_in(told: &str) -> Result<Block> {
    let mut words = told.split(' ');
    let mut next = || words.next().ok_or_else(|| format!("no block in {told}"));
    Ok(Block {
        pool: next()?.to_owned(),
        number: next()?.parse()?,
        replicas: next()?.split(',').map(str::to_owned).collect(),
    })
}

impl Block {
    /// Where a data node keeps it in its directory, once nothing writes it.
    fn place(&self) -> PathBuf {
        let number = self.number;
        let folder = |shift: u32| format!("subdir{}", number >> shift & 31);
        let finalized = Path::new("current")
            .join(&self.pool)
            .join("current/finalized");
        finalized
            .join(folder(16))
            .join(folder(8))
            .join(format!("blk_{number}"))
    }
}

/// What a data node has of a file, read past HDFS, where the name node counts on its replica; of others, what HDFS answers.
pub struct Replica {
    pub address: String,
    /// The data node's directory.
    pub directory: PathBuf,
    pub client: HdfsClient,
}

impl Client for Replica {
    fn write(&mut self, _: Workload, _: &str, _: u32) -> Result<()> {
        Err("replicas are only read".into())
    }

    fn read(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let block = self.client.block_of(key)?;
        match block.filter(|block| block.replicas.contains(&self.address)) {
            None => self.client.read(key),
            Some(block) => finished(&self.directory.join(block.place())).map(Some),
        }
    }
}

/// A replica that is not among the finished ones is being written or copied: it is asked for again.
fn finished(path: &Path) -> Result<Vec<u8>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!(
            "{} is not there: the name node counts on it",
            path.display()
        )
        .into()),
        read => Ok(read?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_where_a_data_node_keeps_finished_blocks() {
        let block = block_in("BP-1-10.77.0.254-2 1073741825 10.77.0.1,10.77.0.3").expect("a block");
        assert_eq!(block.replicas, ["10.77.0.1", "10.77.0.3"]);
        let place = "current/BP-1-10.77.0.254-2/current/finalized/subdir0/subdir0/blk_1073741825";
        assert_eq!(block.place(), Path::new(place));
        let number = 1_073_741_825 + (3 << 16) + (33 << 8);
        let place = Block { number, ..block }.place();
        assert!(
            place.ends_with(format!("subdir3/subdir1/blk_{number}")),
            "{place:?}"
        );
        assert!(block_in("BP-1 12").is_err());
    }

    #[test]
    fn a_replica_that_is_not_finished_is_asked_for_again_and_no_missing_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("blk_1");
        assert!(finished(&path).is_err());
        std::fs::write(&path, b"one").expect("written");
        assert_eq!(finished(&path).expect("read"), b"one");
    }
}
