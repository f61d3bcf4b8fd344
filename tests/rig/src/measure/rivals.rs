//! Our pool on an SSD beside the kernel's caches, in one guest: 4 KiB random writes with fsync each, by one thread and
//! by sixteen, the contenders in turn, round after round; the median of the rounds' ratios. And how many bytes the SSD is
//! written for each of the program's.
//!
//! ```text
//!   dm-writecache, dm-cache, bcache   /dev/ubda … /dev/ubdf: files of this machine, an SSD and a disk for each
//!   ours                              /dev/vda: vhost-user to `forebay serve`, a pool on such a file over such a file
//! ```
//!
//! All files lie on one disk of this machine, have the same sizes, and were written once. Nothing is written back while
//! it is measured: what is written takes less than half of an SSD, and ours is drained between its turns. *New* blocks are
//! those that a cache does not have, each written once, the same number of them in every turn; the others are written again
//! and again, dirty already.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_harness::{Row, median, temporary_folder};
use indicatif::ProgressBar;

use super::fio::{self, Access, Counted, Engine, GRACE, Job, Pace};
use super::ours::{FrontEnd, Ours};
use super::stage::Contender;
use super::{KIB, MIB, has_tool, in_turn};
use crate::{Daemon, Disk, Guest, GuestOptions, Result, Scratch};

const SSD_BYTES: u64 = 256 * MIB;
const DISK_BYTES: u64 = 256 * MIB;
/// What a turn writes. The first such part is written again and again, of the others each once. All of them are less than
/// half of the SSD, from which on dm-writecache would write back.
const PART_BYTES: u64 = 16 * MIB;
const ROUNDS: u64 = 3;
const BLOCK_BYTES: u64 = 4 * KIB;
const GUEST_MEMORY_MIB: u32 = 512;
const MODULES: [&str; 4] = ["dm-writecache", "dm-cache", "dm-cache-smq", "bcache"];
const LIMIT: Duration = Duration::from_secs(180);
const THREADS: [u32; 2] = [1, 16];
const _: () = assert!(PART_BYTES * (1 + THREADS.len() as u64 * ROUNDS) < SSD_BYTES / 2);
const RIVALS: [Contender; 3] = [
    Contender::DmWritecache,
    Contender::Bcache,
    Contender::DmCache,
];
const SECTOR_BYTES: f64 = 512.0;

/// Which blocks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocks {
    /// None that was written before.
    New,
    /// Those of one part, at random.
    Again,
}

/// What came out, and what the SSD was written meanwhile.
#[derive(Clone, Copy, Debug)]
struct Turn {
    iops: f64,
    bytes_per_byte: f64,
}

/// Runs it, or the rivals that have one of `only` in their names; the rows.
pub fn run(
    daemon: &Daemon,
    is_quick: bool,
    only: &[String],
    progress: &ProgressBar,
) -> Result<Vec<Row>> {
    let is_wanted = |rival: &Contender| {
        only.is_empty() || only.iter().any(|only| rival.key().contains(only.as_str()))
    };
    let is_there = |rival: &Contender| match rival {
        Contender::Bcache => has_tool("make-bcache", "bcache"),
        _ => has_tool("dmsetup", rival.name()),
    };
    let rivals: Vec<Contender> = RIVALS.into_iter().filter(is_wanted).collect();
    let rivals: Vec<Contender> = rivals.into_iter().filter(is_there).collect();
    let scratch = Scratch::new()?;
    // Not the folder of the run, which is in memory.
    let files = temporary_folder(&std::env::current_dir()?)?;
    progress.set_message("rivals: files");
    let mut bench = Bench::new(&scratch, files.path(), daemon, &rivals)?;
    let (time_ms, rounds) = if is_quick { (400, 1) } else { (1500, ROUNDS) };
    let time = Duration::from_millis(time_ms);
    let mut rows = Vec::new();
    // The first part is that which is written again.
    let mut new_parts = 1;
    for (blocks, threads) in [Blocks::New, Blocks::Again]
        .into_iter()
        .flat_map(|blocks| THREADS.map(|threads| (blocks, threads)))
    {
        progress.set_message(format!("rivals: {blocks:?} blocks, {threads} threads"));
        let turns = in_turn(bench.contenders.len(), rounds, |number, round| {
            progress.tick();
            let device = bench.contenders[number].device();
            let command = match blocks {
                Blocks::New => once(device, threads, new_parts + round - 1),
                Blocks::Again => again(device, threads, time, round),
            };
            bench.turn(number, &command)
        })?;
        if blocks == Blocks::New {
            new_parts += rounds;
        }
        rows.extend(rows_of((blocks, threads), &bench.contenders, &turns));
    }
    bench.guest.shut_down()?;
    bench.ours.end()?;
    Ok(rows)
}

/// The shell command that writes each block of a part once, each thread its share of them in an order of its own.
fn once(device: &str, threads: u32, part: u64) -> String {
    let share = PART_BYTES / u64::from(threads);
    format!(
        "fio --name=once --filename={device} --direct=1 --rw=randwrite --ioengine=psync --bs={BLOCK_BYTES} \
         --size={share} --offset={} --offset_increment={share} --numjobs={threads} --fsync=1 --randseed={part} \
         --thread --group_reporting --eta=never --output-format=json",
        part * PART_BYTES
    )
}

/// That which writes blocks of the first part for so long.
fn again(device: &str, threads: u32, time: Duration, seed: u64) -> String {
    let job = Job {
        access: Access::Random,
        engine: Engine::Synchronous,
        write_percent: 100,
        block_bytes: BLOCK_BYTES,
        span_bytes: PART_BYTES,
        jobs: threads,
        is_synced: true,
    };
    // What is counted is all that is written.
    let ramp = Duration::ZERO;
    job.command(device, Pace { ramp, time }, seed)
}

/// The rows of so many threads. Ours is the first contender.
fn rows_of(
    (blocks, threads): (Blocks, u32),
    contenders: &[Contender],
    turns: &[Vec<Turn>],
) -> Vec<Row> {
    let plural = if threads == 1 { "" } else { "s" };
    let again = if blocks == Blocks::Again {
        "_again"
    } else {
        ""
    };
    let what = format!("ssd_fsync_{threads}thread{plural}{again}");
    let mut rows = Vec::new();
    let pairs = |theirs: &[Turn], value: fn(&Turn) -> f64| {
        let rounds = turns[0].iter().zip(theirs);
        median(
            rounds
                .map(|(ours, theirs)| value(ours) / value(theirs))
                .collect(),
        )
    };
    for (contender, turns) in contenders.iter().zip(turns) {
        let key = contender.key();
        let iops = median(turns.iter().map(|turn| turn.iops).collect());
        let bytes = median(turns.iter().map(|turn| turn.bytes_per_byte).collect());
        rows.push(Row::new(format!("{what}_iops_{key}"), iops, "IOPS"));
        let name = format!("{what}_device_bytes_per_byte_{key}");
        rows.push(Row::new(name, bytes, "bytes/byte"));
        if *contender != Contender::Ours {
            let ratio = pairs(turns, |turn| turn.iops);
            rows.push(Row::new(format!("{what}_vs_{key}"), ratio, "ratio"));
            let ratio = pairs(turns, |turn| turn.bytes_per_byte);
            let name = format!("{what}_device_bytes_vs_{key}");
            rows.push(Row::new(name, ratio, "ratio"));
        }
    }
    rows
}

struct Bench {
    guest: Guest,
    ours: Ours,
    /// Ours first.
    contenders: Vec<Contender>,
}

impl Bench {
    fn new(
        scratch: &Scratch,
        files: &Path,
        daemon: &Daemon,
        rivals: &[Contender],
    ) -> Result<Bench> {
        let socket = scratch.path("socket");
        let backing = written_file(files, "ours.disk", DISK_BYTES)?;
        let front_end = FrontEnd::VhostUser(socket.clone());
        let ours = Ours::start_on_ssd(daemon, files, SSD_BYTES, &backing, &front_end)?;
        let mut disks = vec![Disk::Vhost(socket)];
        for rival in rivals {
            for (kind, bytes) in [("ssd", SSD_BYTES), ("disk", DISK_BYTES)] {
                let name = format!("{}.{kind}", rival.key());
                disks.push(Disk::File(written_file(files, &name, bytes)?));
            }
        }
        let options = GuestOptions {
            memory_mib: GUEST_MEMORY_MIB,
            modules: MODULES.map(String::from).to_vec(),
            ..GuestOptions::with_disks(disks)
        };
        let mut guest = Guest::boot(scratch, &options)?;
        let wanted: Vec<&str> = rivals.iter().map(|rival| rival.name()).collect();
        let script = format!(
            "WANTED='{}'\n{}",
            wanted.join(" "),
            include_str!("guest/rivals.sh")
        );
        guest.must_run(&script, LIMIT)?;
        let mut contenders = vec![Contender::Ours];
        contenders.extend(rivals);
        for contender in &contenders {
            fio::pass(&mut guest, contender.device(), PART_BYTES, true)?;
        }
        Ok(Bench {
            guest,
            ours,
            contenders,
        })
    }

    fn turn(&mut self, number: usize, command: &str) -> Result<Turn> {
        if self.contenders[number] == Contender::Ours {
            self.ours.drain()?;
        }
        let before = self.ssd_bytes(number)?;
        let text = self.guest.must_run(command, GRACE)?;
        let Counted { requests, outcome } = fio::parse(&text)?;
        let written = self.ssd_bytes(number)? - before;
        Ok(Turn {
            iops: outcome.iops,
            bytes_per_byte: written / (requests * BLOCK_BYTES as f64),
        })
    }

    /// What was written to a contender's SSD so far.
    fn ssd_bytes(&mut self, number: usize) -> Result<f64> {
        // Ours is the first contender, and each rival has two disks.
        let Some(rival) = number.checked_sub(1) else {
            return self.ours.ssd_bytes_written();
        };
        let letter = char::from(b'a' + 2 * rival as u8);
        let script = format!("awk '{{print $7}}' /sys/block/ubd{letter}/stat");
        let sectors: f64 = self.guest.must_run(&script, LIMIT)?.trim().parse()?;
        Ok(sectors * SECTOR_BYTES)
    }
}

/// A file of zeroes all of which was written: the first write of a hole or of a reserved extent costs more.
fn written_file(folder: &Path, name: &str, bytes: u64) -> Result<PathBuf> {
    let path = folder.join(name);
    let mut file = File::create(&path)?;
    let zeroes = vec![0; MIB as usize];
    (0..bytes / MIB).try_for_each(|_| file.write_all(&zeroes))?;
    file.sync_all()?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_same_round_and_their_median_counts() {
        let turn = |iops, bytes_per_byte| Turn {
            iops,
            bytes_per_byte,
        };
        let ours = vec![turn(10.0, 1.0), turn(90.0, 1.0), turn(40.0, 2.0)];
        let theirs = vec![turn(10.0, 4.0), turn(30.0, 4.0), turn(20.0, 4.0)];
        let contenders = [Contender::Ours, Contender::DmCache];
        let rows = rows_of((Blocks::New, 16), &contenders, &[ours, theirs]);
        let value = |name: &str| rows.iter().find(|row| row.name == name).unwrap().value;
        assert_eq!(value("ssd_fsync_16threads_vs_dm_cache"), Some(2.0));
        let bytes = value("ssd_fsync_16threads_device_bytes_vs_dm_cache");
        assert_eq!(bytes, Some(0.25));
        assert_eq!(value("ssd_fsync_16threads_iops_ours"), Some(40.0));
    }
}
