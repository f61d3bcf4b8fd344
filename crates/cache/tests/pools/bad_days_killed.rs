//! SIGKILL at any moment: everything that the killed process acknowledged is there for the next.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::rig::{BLOCK, bytes_of, get, put};
use forebay::{Backing, Pool, PoolOptions, RegionOptions};

/// Names the folder to the process that is to be killed.
const VICTIM_VARIABLE: &str = "FOREBAY_TEST_VICTIM_POOL";
/// Several times what the pool holds, so that it dies writing back and evicting, too.
const BLOCKS: u64 = 3000;
const ROUNDS: u64 = 8;

fn open(folder: &Path) -> (Pool, forebay::Volume) {
    let path = folder.join("pool");
    let pool = if path.exists() {
        Pool::open(&[path]).unwrap()
    } else {
        let options =
            PoolOptions::new(path, 6 << 20).region(RegionOptions::default().huge_pages(false));
        Pool::create(&options).unwrap()
    };
    pool.set_watermarks(50, 800).unwrap();
    let backing = Backing::file(folder.join("image")).unwrap();
    let volume = pool.attach(backing).unwrap();
    (pool, volume)
}

/// The block that a step writes; a step is also the version.
fn block_of(step: u64) -> u64 {
    step * 7919 % BLOCKS
}

/// Not a test of its own: the process that is killed. It says what is acknowledged.
#[test]
fn victim_writer() {
    let Ok(folder) = std::env::var(VICTIM_VARIABLE) else {
        return;
    };
    let (folder, first) = folder.split_once('?').unwrap();
    let (_pool, volume) = open(Path::new(folder));
    let mut out = std::io::stderr();
    for step in first.parse().unwrap().. {
        put(&volume, block_of(step), step);
        writeln!(out, "acknowledged {step}").unwrap();
    }
}

#[test]
fn what_a_killed_process_acknowledged_is_there() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let image = std::fs::File::create(folder.path().join("image")).unwrap();
    image.set_len(BLOCKS * BLOCK as u64).unwrap();
    let mut versions = vec![0; BLOCKS as usize];
    let mut step = 1;
    for round in 0..ROUNDS {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "bad_days_killed::victim_writer", "--nocapture"])
            .env(
                VICTIM_VARIABLE,
                format!("{}?{step}", folder.path().display()),
            )
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stderr.take().unwrap()).lines();
        let mut acknowledge = |line: &str| {
            let number = line.strip_prefix("acknowledged ").unwrap_or_default();
            // The last line may be cut short by the kill.
            if number.parse() == Ok(step) {
                versions[block_of(step) as usize] = step;
                step += 1;
            }
        };
        for _ in 0..300 + round * 571 {
            acknowledge(&lines.next().unwrap().unwrap());
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        for line in lines {
            acknowledge(&line.unwrap());
        }
        let (pool, volume) = open(folder.path());
        for block in 0..BLOCKS {
            let found = get(&volume, block);
            let version = versions[block as usize];
            let is_last = block == block_of(step) && found == bytes_of(block, step);
            let is_right = match version {
                0 => found.iter().all(|byte| *byte == 0),
                version => found == bytes_of(block, version),
            };
            assert!(
                is_right || is_last,
                "round {round}: block {block}, version {version}"
            );
            if is_last && !is_right {
                versions[block as usize] = step;
            }
        }
        let unacknowledged = step;
        step = unacknowledged + 1;
        drop((volume, pool));
    }
}
