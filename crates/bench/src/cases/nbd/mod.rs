//! 4 KiB over NBD on a Unix socket, beside qemu-storage-daemon's export of a raw file in the same
//! memory. Each server is a process of its own; one client measures both, in turn.
//!
//! Ours serves a pool with checksums on, every block of the volume cached. A write is a write and
//! then a flush, each answered, on both sides.

mod client;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_serve::VolumeDevice;
use forebay_serve::nbd::{Exports, NbdAddress, NbdOptions, NbdServer};

use self::client::{Client, Work};
use super::Bench;
use crate::Result;
use crate::contest::{self, Clock, Contender, Pace};
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools;
use crate::report::Row;

const OURS: &str = "forebay";
const THEIRS: &str = "qemu-storage-daemon";

/// Operations between two looks at the clock: so many that filling and emptying a queue of 32 does
/// not matter.
const BATCH: u64 = 1024;
/// The same at depth 1.
const BATCH_SINGLE: u64 = 64;

/// How long a server may take to listen.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// What is measured: its row, rates of both sides, the work and the queue depth.
type Contest = (&'static str, &'static str, &'static str, Work, usize);

const CONTESTS: [Contest; 4] = [
    (
        "nbd_read_qd1_vs_qsd",
        "nbd_read_qd1_per_second",
        "qsd_read_qd1_per_second",
        Work::Read,
        1,
    ),
    (
        "nbd_read_qd32_vs_qsd",
        "nbd_read_qd32_per_second",
        "qsd_read_qd32_per_second",
        Work::Read,
        32,
    ),
    (
        "nbd_write_qd1_vs_qsd",
        "nbd_write_qd1_per_second",
        "qsd_write_qd1_per_second",
        Work::WriteAndFlush,
        1,
    ),
    (
        "nbd_write_qd32_vs_qsd",
        "nbd_write_qd32_per_second",
        "qsd_write_qd32_per_second",
        Work::WriteAndFlush,
        32,
    ),
];

/// A server's process, ended when this is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It holds nothing that a kill would harm: the scratch folder goes with us.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads and writes at queue depths 1 and 32.
pub fn against_qemu(bench: &Bench) -> Result<Vec<Row>> {
    let (pool, socket) = (bench.scratch.file("pool"), bench.scratch.file("nbd"));
    let _ours = start_ours(pool.path(), socket.path(), bench.pool_bytes)?;
    let blocks = Client::open(socket.path(), 1)?.blocks;
    let (raw, raw_socket) = (bench.scratch.file("raw"), bench.scratch.file("qsd"));
    let theirs = match start_qemu(raw.path(), raw_socket.path(), blocks) {
        Ok(server) => Some(server),
        Err(error) => {
            bench.say(&format!("reference left out: {error}"));
            None
        }
    };
    let mut rows = Vec::new();
    for (ratio, our_rate, their_rate, work, depth) in CONTESTS {
        let mut sides = vec![(OURS, socket.path())];
        if theirs.is_some() {
            sides.push((THEIRS, raw_socket.path()));
        }
        let clients = sides
            .iter()
            .map(|(name, socket)| Ok((*name, Client::open(socket, depth)?)));
        let clients = std::sync::Mutex::new(clients.collect::<Result<Vec<_>>>()?);
        // Both sides mostly wait for each other, so only the wall clock says how long it takes.
        let pace = Pace {
            clock: Clock::Wall,
            ..bench.pace
        };
        let outcome = contest::run(1, pace, &bench.progress, &|_| {
            let mut clients = clients.lock().unwrap_or_else(|e| e.into_inner());
            let contenders = clients
                .drain(..)
                .map(|(name, client)| contender(name, client, work, depth));
            contenders.collect()
        })?;
        for name in sides.iter().map(|(name, _)| name) {
            let rate = outcome.rate(name).unwrap_or(0.0);
            bench.say(&format!(
                "  {}, {name}: {rate:.0}/s",
                ratio.trim_end_matches("_vs_qsd")
            ));
        }
        rows.push(Row::new(ratio, outcome.ratio(OURS, THEIRS), "ratio"));
        rows.push(Row::new(our_rate, outcome.rate(OURS), "1/s"));
        rows.push(Row::new(their_rate, outcome.rate(THEIRS), "1/s"));
    }
    Ok(rows)
}

fn contender<'a>(
    name: &'static str,
    mut client: Client,
    work: Work,
    depth: usize,
) -> Contender<'a> {
    let batch = if depth == 1 { BATCH_SINGLE } else { BATCH };
    let mut blocks = Blocks::new(41, 0, client.blocks);
    let mut payload = Payload::new(42);
    Contender::new(name, move || {
        client.run(work, batch, &mut blocks, &mut payload)?;
        Ok(batch)
    })
}

fn start_ours(pool: &Path, socket: &Path, pool_bytes: u64) -> Result<Server> {
    let child = Command::new(std::env::current_exe()?)
        .arg("nbd-server")
        .args([pool, socket])
        .arg(pool_bytes.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut server = Server(child);
    let output = server.0.stdout.take().ok_or("the server has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    match line.trim() {
        "serving" => Ok(server),
        _ => Err("our server ended before it served".into()),
    }
}

/// The process that serves a pool until its input ends.
pub fn serve(pool: &Path, socket: &Path, pool_bytes: u64) -> Result<()> {
    let cached = pools::half_full(&pools::options(pool, pool_bytes))?;
    let exports = Arc::new(Exports::new());
    let device = Arc::new(VolumeDevice::new(cached.volume));
    exports.add("disk", "", device)?;
    let address = NbdAddress::Unix(socket.to_path_buf());
    let _server = NbdServer::start(exports, &address, NbdOptions::default())?;
    println!("serving");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn start_qemu(raw: &Path, socket: &Path, blocks: u64) -> Result<Server> {
    let mut file = std::fs::File::create(raw)?;
    let mut payload = Payload::new(43);
    for _ in 0..blocks {
        std::io::Write::write_all(&mut file, payload.next())?;
    }
    let child = Command::new(THEIRS)
        .arg("--blockdev")
        .arg(format!(
            "driver=file,node-name=disk,filename={}",
            raw.display()
        ))
        .arg("--nbd-server")
        .arg(format!("addr.type=unix,addr.path={}", socket.display()))
        .args([
            "--export",
            "type=nbd,id=export,node-name=disk,name=disk,writable=on",
        ])
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("{THEIRS}: {error}"))?;
    let mut server = Server(child);
    let start = Instant::now();
    while start.elapsed() < START_TIMEOUT {
        if let Ok(client) = Client::open(socket, 1) {
            return match client.blocks == blocks {
                true => Ok(server),
                false => {
                    Err(format!("{THEIRS} exports {} blocks, not {blocks}", client.blocks).into())
                }
            };
        }
        if server.0.try_wait()?.is_some() {
            return Err(format!("{THEIRS} ended before it served").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("{THEIRS} does not listen on {}", socket.display()).into())
}

const _: () = assert!(BLOCK_BYTES == 4096, "the rows say 4 KiB");
