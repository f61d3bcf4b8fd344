//! Reads of what no pool has yet: a stream of 1 MiB, and 4 KiB anywhere at depths 1 and 32, by the FUSE disk and over NBD, beside the
//! same reads of the bare file past the kernel's cache. Each round has a fresh pool and a daemon as people run it; every read of
//! it is of another place, so that each is a miss. `fio` reads.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use forebay_harness::{PoolMedium, Result, Row, TestEnv, find_program, median, mount_obstacle};
use rustix::fs::Advice;
use rustix::process::Signal;
use serde_json::Value;

use super::Bench;
use crate::payload::Payload;

const POOL_BYTES: u64 = 512 << 20;
/// Of each kind of read.
const REGION_BYTES: u64 = 256 << 20;
const DEADLINE: Duration = Duration::from_secs(120);

/// What is read: its name, `fio`'s options, and the front ends that have a row of it.
const READS: [(&str, &[&str], &[&str]); 3] = [
    (
        "cold_read_1m",
        &["--rw=read", "--bs=1M", "--iodepth=1"],
        &["fuse", "nbd"],
    ),
    (
        "cold_randread_qd1",
        &["--rw=randread", "--bs=4k", "--iodepth=1"],
        &["fuse"],
    ),
    (
        "cold_randread_qd32",
        &["--rw=randread", "--bs=4k", "--iodepth=32"],
        &["fuse", "nbd"],
    ),
];
const RAW: &str = "raw";

/// Bytes a second of each kind of read, in the order of [`READS`].
type Rates = [f64; READS.len()];

/// How many times as fast as the bare file.
pub fn beside_raw(bench: &Bench) -> Result<Vec<Row>> {
    let forebay = std::env::current_exe()?.with_file_name("forebay");
    let lack = match find_program("fio") {
        None => Some("needs fio".into()),
        Some(_) if !forebay.is_file() => Some(format!("needs {}", forebay.display())),
        Some(_) => mount_obstacle().map(String::from),
    };
    if let Some(lack) = lack {
        bench.say(&format!("  not measured: {lack}"));
        let name = |read: &str, front: &str| format!("{read}_{front}_vs_{RAW}");
        let all = READS.iter().flat_map(|(read, _, fronts)| {
            fronts
                .iter()
                .map(move |front| Row::new(name(read, front), None, "-"))
        });
        return Ok(all.collect());
    }
    let disk = bench.scratch.disk_file("cold");
    fill(disk.path())?;
    let seconds = if bench.repeats == 1 { "0.2" } else { "2" };
    let mut rounds: Vec<[Rates; 3]> = Vec::new();
    for round in 0..bench.repeats.min(3) {
        let mut rates = [[0.0; READS.len()]; 3];
        for turn in 0..3 {
            let front = (round + turn) % 3;
            File::open(disk.path())
                .and_then(|file| Ok(rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?))?;
            rates[front] = match front {
                0 => read(&Target::File(disk.path().to_owned()), seconds)?,
                _ => by_front_end(&forebay, disk.path(), front == 1, seconds)?,
            };
        }
        rounds.push(rates);
    }
    let mut rows = Vec::new();
    for (at, (name, _, fronts)) in READS.iter().enumerate() {
        for (front, told) in ["fuse", "nbd"].into_iter().enumerate() {
            if fronts.contains(&told) {
                let ratios = rounds
                    .iter()
                    .map(|rates| rates[front + 1][at] / rates[0][at]);
                let ratio = median(ratios.collect());
                rows.push(Row::new(format!("{name}_{told}_vs_{RAW}"), ratio, "ratio"));
            }
        }
        let raw = median(rounds.iter().map(|rates| rates[0][at] / 1e6).collect());
        rows.push(Row::new(format!("{name}_{RAW}"), raw, "MB/s"));
    }
    Ok(rows)
}

fn fill(path: &Path) -> Result<()> {
    let mut file = File::create_new(path)?;
    let mut payload = Payload::new(61);
    for _ in 0..REGION_BYTES * READS.len() as u64 / 4096 {
        file.write_all(payload.next())?;
    }
    Ok(file.sync_all()?)
}

enum Target {
    File(PathBuf),
    Nbd(PathBuf),
}

/// A daemon with a fresh pool, and the reads by one of its front ends.
fn by_front_end(forebay: &Path, disk: &Path, is_fuse: bool, seconds: &str) -> Result<Rates> {
    let folder = disk.parent().ok_or("the disk has no folder")?;
    let env = TestEnv::new(forebay, folder)?;
    let pool = env.path("pool");
    env.create_pool((&pool, PoolMedium::Memory), POOL_BYTES, &[])?;
    let socket = env.path("nbd");
    let mut serve = env.command(&["serve", "--name", "disk", "--pool"]);
    serve.arg(&pool).arg("--backing").arg(disk);
    let target = match is_fuse {
        true => {
            serve.arg("--fuse").arg(env.mount_point());
            Target::File(env.mount_point().join("disk"))
        }
        false => {
            serve.arg("--nbd").arg(format!("unix:{}", socket.display()));
            Target::Nbd(socket)
        }
    };
    let daemon = env.start(&mut serve)?;
    let rates = read(&target, seconds);
    daemon.end(Signal::TERM)?;
    rates
}

/// All kinds of reads, each in its own part of the disk.
fn read(target: &Target, seconds: &str) -> Result<Rates> {
    let mut rates = [0.0; READS.len()];
    for (at, (name, options, _)) in READS.iter().enumerate() {
        let mut fio = Command::new("fio");
        fio.args(["--output-format=json", "--readonly", "--thread"]);
        fio.arg(format!("--name={name}")).args(*options);
        fio.arg(format!("--offset={}", REGION_BYTES * at as u64));
        fio.arg(format!("--size={REGION_BYTES}"));
        fio.arg(format!("--runtime={seconds}"));
        match target {
            Target::File(path) => {
                fio.args(["--ioengine=libaio", "--direct=1"]);
                fio.arg(format!("--filename={}", path.display()));
            }
            Target::Nbd(socket) => {
                fio.arg("--ioengine=nbd");
                fio.arg(format!(
                    "--uri=nbd+unix:///disk?socket={}",
                    socket.display()
                ));
            }
        }
        rates[at] = rate(&forebay_harness::output(&mut fio, DEADLINE)?)?;
    }
    Ok(rates)
}

/// Bytes a second, of what `fio` printed.
fn rate(printed: &str) -> Result<f64> {
    let start = printed.find('{').unwrap_or_default();
    let report: Value = serde_json::from_str(&printed[start..])?;
    let read = &report["jobs"][0]["read"];
    match read["bw_bytes"].as_f64() {
        Some(rate) if rate > 0.0 => Ok(rate),
        _ => Err(format!("fio read nothing: {printed}").into()),
    }
}
