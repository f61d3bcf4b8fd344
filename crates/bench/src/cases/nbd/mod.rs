//! 4 KiB over NBD on a Unix socket, beside qemu-storage-daemon's export of a raw file in the same
//! memory. Each server is a process of its own; one client measures both, in turn.
//!
//! Ours serves a pool with checksums on, every block of the volume cached. A write is a write and
//! then a flush, each answered, on both sides.

mod client;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use forebay_harness::{Daemon, Result, Row};

use forebay_serve::VolumeDevice;
use forebay_serve::nbd::{Exports, NbdAddress, NbdOptions, NbdServer};

use self::client::{Client, Work};
use super::Bench;
use crate::contest::{Clock, Contender, Pace};
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools;

const OURS: &str = "forebay";
const THEIRS: &str = "qemu-storage-daemon";

/// Operations between two looks at the clock: so many that filling and emptying a queue of 32 does
/// not matter.
const BATCH: u64 = 1024;
/// The same at depth 1.
const BATCH_SINGLE: u64 = 64;

/// How long a server may take to listen.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// What is measured: what it is called, the work and the queue depth.
const CONTESTS: [(&str, Work, usize); 4] = [
    ("read_qd1", Work::Read, 1),
    ("read_qd32", Work::Read, 32),
    ("write_qd1", Work::WriteAndFlush, 1),
    ("write_qd32", Work::WriteAndFlush, 32),
];

/// Reads and writes at queue depths 1 and 32.
pub fn against_qemu(bench: &Bench) -> Result<Vec<Row>> {
    let (pool, socket) = (bench.scratch.file("pool"), bench.scratch.file("nbd"));
    let _ours = start_ours(bench, pool.path(), socket.path())?;
    let blocks = Client::open(socket.path(), 1)?.blocks;
    let (raw, raw_socket) = (bench.scratch.file("raw"), bench.scratch.file("qsd"));
    let theirs = match start_qemu(bench, raw.path(), raw_socket.path(), blocks) {
        Ok(server) => Some(server),
        Err(error) => {
            bench.say(&format!("reference left out: {error}"));
            None
        }
    };
    let mut rows = Vec::new();
    for (name, work, depth) in CONTESTS {
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
        let outcome = bench.contest_at(pace, &format!("nbd_{name}"), 1, |_| {
            let mut clients = clients.lock().unwrap_or_else(|e| e.into_inner());
            let contenders = clients
                .drain(..)
                .map(|(name, client)| contender(name, client, work, depth));
            contenders.collect()
        })?;
        let ratio = outcome.ratio(OURS, THEIRS);
        rows.push(Row::new(format!("nbd_{name}_vs_qsd"), ratio, "ratio"));
        for (server, rate) in [("nbd", outcome.rate(OURS)), ("qsd", outcome.rate(THEIRS))] {
            rows.push(Row::new(format!("{server}_{name}_per_second"), rate, "1/s"));
        }
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

fn start_ours(bench: &Bench, pool: &Path, socket: &Path) -> Result<Daemon> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("nbd-server").args([pool, socket]);
    command.arg(bench.pool_bytes.to_string());
    Daemon::start_ready(
        &mut command,
        bench.scratch.file("log").path(),
        START_TIMEOUT,
    )
}

/// The process that serves a pool until it is ended.
pub fn serve(pool: &Path, socket: &Path, pool_bytes: u64) -> Result<()> {
    // It must not outlive a parent that is killed itself.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let cached = pools::half_full(&pools::options(pool, pool_bytes))?;
    let exports = Arc::new(Exports::new());
    let device = Arc::new(VolumeDevice::new(cached.volume));
    exports.add("disk", "", device)?;
    let address = NbdAddress::Unix(socket.to_path_buf());
    let _server = NbdServer::start(exports, &address, NbdOptions::default())?;
    println!("ready");
    loop {
        std::thread::park();
    }
}

fn start_qemu(bench: &Bench, raw: &Path, socket: &Path, blocks: u64) -> Result<Daemon> {
    let mut file = std::fs::File::create(raw)?;
    let mut payload = Payload::new(43);
    for _ in 0..blocks {
        std::io::Write::write_all(&mut file, payload.next())?;
    }
    let mut command = Command::new(THEIRS);
    command
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
        ]);
    let mut server = Daemon::start(&mut command, bench.scratch.file("log").path())?;
    server.wait_until(START_TIMEOUT, || Client::open(socket, 1).is_ok())?;
    match Client::open(socket, 1)?.blocks {
        found if found == blocks => Ok(server),
        found => Err(format!("{THEIRS} exports {found} blocks, not {blocks}").into()),
    }
}

const _: () = assert!(BLOCK_BYTES == 4096, "the rows say 4 KiB");
