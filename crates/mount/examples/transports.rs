//! Requests by `/dev/fuse` beside the same by io_uring: round about, each round on a new pool and a new directory.
//!
//! ```text
//!   echo Y > /sys/module/fuse/parameters/enable_uring
//!   cargo run --release -p forebay-mount --example transports -- 7
//!   echo N > /sys/module/fuse/parameters/enable_uring
//! ```
//!
//! A process of its own uses the mount. It prints each load's operations a second, by the median of the rounds,
//! and the system calls that the rings made for a request.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use forebay::{Pool, PoolOptions};
use forebay_files::FileBufferOptions;
use forebay_mount::{FileMount, MountOptions, Transport};
use rustix::fs::{Advice, AtFlags, StatxFlags};

const POOL_BYTES: u64 = 512 << 20;
const BLOCK: usize = 4096;
const FILE_BLOCKS: u64 = 16 << 10;
const OPERATIONS: u64 = 10_000;
const FILES: u64 = 5_000;
const READERS: u64 = 8;

/// What each load did, in operations or MiB a second.
type Rates = BTreeMap<String, f64>;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("load") => load(Path::new(&arguments[2])),
        rounds => measure(rounds.map_or(5, |rounds| rounds.parse().expect("a number of rounds"))),
    }
}

fn measure(rounds: usize) {
    let mut found: [BTreeMap<String, Vec<f64>>; 2] = Default::default();
    for round in 0..rounds {
        let both = [Transport::DevFuse, Transport::IoUring];
        // Each begins in turn.
        for place in [round % 2, (round + 1) % 2] {
            for (load, rate) in serve(both[place]) {
                found[place].entry(load).or_default().push(rate);
            }
        }
    }
    let [by_device, by_rings] = found.map(medians);
    println!(
        "{:<40} {:>12} {:>12} {:>7}",
        "load", "/dev/fuse", "io_uring", "ratio"
    );
    for (load, device) in &by_device {
        let rings = by_rings.get(load).copied().unwrap_or(f64::NAN);
        println!(
            "{load:<40} {device:>12.0} {rings:>12.0} {:>7.2}",
            rings / device
        );
    }
    for (load, calls) in by_rings
        .iter()
        .filter(|(load, _)| !by_device.contains_key(*load))
    {
        println!("{load:<40} {calls:>12.3}");
    }
}

fn medians(found: BTreeMap<String, Vec<f64>>) -> Rates {
    let median = |mut rates: Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    found
        .into_iter()
        .map(|(load, rates)| (load, median(rates)))
        .collect()
}

/// Mounts, has another process use it, and unmounts.
fn serve(transport: Transport) -> Rates {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    fs::create_dir(path("data")).unwrap();
    fs::create_dir(path("mount")).unwrap();
    let pool = Path::new("/dev/shm").join(format!("forebay-transports-{}", std::process::id()));
    let made = Pool::create(&PoolOptions::new(&pool, POOL_BYTES)).unwrap();
    made.close().unwrap();
    let options = MountOptions {
        transport,
        ..MountOptions::default()
    };
    let buffer = FileBufferOptions::new(&pool);
    let mount = FileMount::new(&path("data"), &path("mount"), &buffer, &options, || ());
    let mount = mount.unwrap_or_else(|error| panic!("{error}"));
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child
        .arg("load")
        .arg(path("mount"))
        .stderr(Stdio::inherit());
    let output = child.output().unwrap();
    assert!(output.status.success(), "the load failed");
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut rates: Rates = printed
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(load, rate)| (load.to_owned(), rate.parse().unwrap()))
        .collect();
    if let Some(counts) = mount.ring_counts() {
        let calls = counts.calls as f64 / counts.requests as f64;
        rates.insert("system calls for a request".to_owned(), calls);
    }
    while mount.unmount(false).is_err() {
        std::thread::yield_now();
    }
    mount.join().unwrap();
    fs::remove_file(&pool).unwrap();
    let _ = fs::remove_file(pool.with_extension("files"));
    let _ = fs::remove_file(format!("{}.files", pool.display()));
    rates
}

/// Times `operations` calls and prints how many a second.
fn timed(load: &str, operations: u64, mut act: impl FnMut(u64)) {
    let began = Instant::now();
    (0..operations).for_each(&mut act);
    println!(
        "{load} {}",
        operations as f64 / began.elapsed().as_secs_f64()
    );
}

/// A block somewhere in the file, another one each time.
fn somewhere(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % FILE_BLOCKS * BLOCK as u64
}

fn load(place: &Path) {
    let path = place.join("file");
    let bytes = [7; BLOCK];
    let mut options = File::options();
    options.create_new(true).read(true).write(true);
    let file = options.open(&path).unwrap();
    file.write_all_at(&vec![1; FILE_BLOCKS as usize * BLOCK], 0)
        .unwrap();
    file.sync_all().unwrap();
    timed("4 KiB write and fdatasync", OPERATIONS, |number| {
        file.write_all_at(&bytes, somewhere(number)).unwrap();
        file.sync_data().unwrap();
    });
    let durable = File::options()
        .write(true)
        .custom_flags(libc::O_DSYNC)
        .open(&path)
        .unwrap();
    timed("4 KiB write with O_DSYNC", OPERATIONS, |number| {
        durable.write_all_at(&bytes, somewhere(number)).unwrap();
    });
    timed("stat, past the kernel's cache", OPERATIONS, |_| {
        let flags = AtFlags::STATX_FORCE_SYNC | AtFlags::EMPTY_PATH;
        rustix::fs::statx(&file, c"", flags, StatxFlags::BASIC_STATS).unwrap();
    });
    read_all(&path);
    read_beside_each_other(&path);
    let name = |number: u64| place.join(format!("small-{number}"));
    timed("create, write 100 bytes, close", FILES, |number| {
        fs::write(name(number), [3; 100]).unwrap();
    });
    timed("unlink", FILES, |number| {
        fs::remove_file(name(number)).unwrap()
    });
}

/// The file from the daemon, not from the kernel's pages.
fn read_all(path: &Path) {
    let mut piece = vec![0; 1 << 20];
    let passes = 8;
    let began = Instant::now();
    let mut total = 0;
    for _ in 0..passes {
        let mut file = File::open(path).unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        loop {
            match file.read(&mut piece).unwrap() {
                0 => break,
                length => total += length,
            }
        }
    }
    let rate = total as f64 / (1 << 20) as f64 / began.elapsed().as_secs_f64();
    println!("sequential reads (MiB/s) {rate}");
}

fn read_beside_each_other(path: &Path) {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for reader in 0..READERS {
            scope.spawn(move || {
                let direct = File::options()
                    .read(true)
                    .custom_flags(libc::O_DIRECT)
                    .open(path);
                let direct = direct.unwrap();
                let mut room = vec![0; 2 * BLOCK];
                let start = room.as_ptr().align_offset(BLOCK);
                for number in 0..OPERATIONS / READERS * 4 {
                    let place = somewhere(number + reader * OPERATIONS);
                    direct
                        .read_exact_at(&mut room[start..start + BLOCK], place)
                        .unwrap();
                }
            });
        }
    });
    let rate = (OPERATIONS * 4) as f64 / began.elapsed().as_secs_f64();
    println!("4 KiB direct reads by 8 threads {rate}");
}
