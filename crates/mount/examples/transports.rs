//! Requests by `/dev/fuse` beside the same by io_uring: two mounts, which take turns in slices.
//!
//! ```text
//!   echo Y > /sys/module/fuse/parameters/enable_uring
//!   cargo run --release -p forebay-mount --example transports -- 20
//!   echo N > /sys/module/fuse/parameters/enable_uring
//! ```
//!
//! A process of its own uses the mounts. A ratio is the median over the pairs of slices of io_uring's rate ÷
//! `/dev/fuse`'s in the same pair; processor time is that of both processes, for one operation.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use forebay::{Pool, PoolOptions};
use forebay_files::FileBufferOptions;
use forebay_mount::{FileMount, MountOptions, Transport};
use rustix::fs::{Advice, AtFlags, StatxFlags};

const POOL_BYTES: u64 = 256 << 20;
const BLOCK: usize = 4096;
const FILE_BLOCKS: u64 = 8 << 10;
const FILES: u64 = 100;
const READERS: u64 = 8;

/// How long a slice goes on, where it is not a fixed number of operations.
const SLICE: Duration = Duration::from_millis(200);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("load") => load(&arguments[2..]),
        pairs => serve(pairs.unwrap_or("10")),
    }
}

/// Mounts twice, has another process use both, and unmounts.
fn serve(pairs: &str) {
    let served = [Transport::DevFuse, Transport::IoUring].map(Served::new);
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child
        .arg("load")
        .arg(pairs)
        .arg(std::process::id().to_string());
    let paths = served.iter().map(|served| served.path("mount"));
    let status = child.args(paths).status().unwrap();
    assert!(status.success(), "the load failed");
    for served in served {
        served.end();
    }
}

/// A mount with a directory and a pool of its own.
struct Served {
    scratch: tempfile::TempDir,
    pool: tempfile::TempDir,
    mount: FileMount,
}

impl Served {
    fn new(transport: Transport) -> Served {
        let scratch = tempfile::tempdir().unwrap();
        let pool = tempfile::tempdir_in("/dev/shm").unwrap();
        for folder in ["data", "mount"] {
            fs::create_dir(scratch.path().join(folder)).unwrap();
        }
        let made = Pool::create(&PoolOptions::new(pool.path().join("pool"), POOL_BYTES));
        made.unwrap().close().unwrap();
        let options = MountOptions {
            transport,
            ..MountOptions::default()
        };
        let buffer = FileBufferOptions::new(pool.path().join("pool"));
        let (data, directory) = (scratch.path().join("data"), scratch.path().join("mount"));
        let mount = FileMount::new(&data, &directory, &buffer, &options, || ());
        Served {
            mount: mount.unwrap_or_else(|error| panic!("{error}")),
            scratch,
            pool,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn end(self) {
        if let Some(counts) = self.mount.ring_counts() {
            let calls = counts.calls as f64 / counts.requests as f64;
            println!(
                "io_uring: {calls:.3} system calls for each of {} requests",
                counts.requests
            );
        }
        while self.mount.unmount(false).is_err() {
            std::thread::yield_now();
        }
        self.mount.join().unwrap();
        drop(self.pool);
    }
}

/// What a load uses of one mount.
struct Place {
    directory: PathBuf,
    file: File,
    durable: File,
    /// Operations so far.
    done: u64,
}

impl Place {
    fn new(directory: &str) -> Place {
        let directory = PathBuf::from(directory);
        let path = directory.join("file");
        let mut options = File::options();
        options.create_new(true).read(true).write(true);
        let file = options.open(&path).unwrap();
        file.write_all_at(&vec![1; FILE_BLOCKS as usize * BLOCK], 0)
            .unwrap();
        file.sync_all().unwrap();
        let mut options = File::options();
        let durable = options
            .write(true)
            .custom_flags(libc::O_DSYNC)
            .open(&path)
            .unwrap();
        Place {
            directory,
            file,
            durable,
            done: 0,
        }
    }

    /// A block somewhere in the file, another one each time.
    fn somewhere(&mut self) -> u64 {
        self.done += 1;
        block(self.done)
    }

    fn small(&self, number: u64) -> PathBuf {
        self.directory.join(format!("small-{number}"))
    }
}

fn block(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % FILE_BLOCKS * BLOCK as u64
}

/// Repeats it for a slice: how often that was.
fn for_a_slice(mut act: impl FnMut()) -> u64 {
    let (began, mut operations) = (Instant::now(), 0);
    while began.elapsed() < SLICE {
        act();
        operations += 1;
    }
    operations
}

type Slice = fn(&mut Place) -> u64;

const LOADS: [(&str, Slice); 7] = [
    ("4 KiB write and fdatasync", |place| {
        for_a_slice(|| {
            let offset = place.somewhere();
            place.file.write_all_at(&[7; BLOCK], offset).unwrap();
            place.file.sync_data().unwrap();
        })
    }),
    ("4 KiB write with O_DSYNC", |place| {
        for_a_slice(|| {
            let offset = place.somewhere();
            place.durable.write_all_at(&[7; BLOCK], offset).unwrap();
        })
    }),
    ("stat, past the kernel's cache", |place| {
        for_a_slice(|| {
            let flags = AtFlags::STATX_FORCE_SYNC | AtFlags::EMPTY_PATH;
            rustix::fs::statx(&place.file, c"", flags, StatxFlags::BASIC_STATS).unwrap();
        })
    }),
    ("create, write 100 bytes, close", |place| {
        let names = (0..FILES).map(|number| place.small(number));
        names.for_each(|name| fs::write(name, [3; 100]).unwrap());
        FILES
    }),
    ("unlink", |place| {
        let names = (0..FILES).map(|number| place.small(number));
        names.for_each(|name| fs::remove_file(name).unwrap());
        FILES
    }),
    ("128 KiB of sequential reads", |place| {
        let mut piece = vec![0; 128 << 10];
        let mut file = File::open(place.directory.join("file")).unwrap();
        // From the daemon, not from the kernel's pages.
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        for_a_slice(|| {
            if file.read(&mut piece).unwrap() == 0 {
                file = File::open(place.directory.join("file")).unwrap();
                rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            }
        })
    }),
    ("4 KiB direct reads by 8 threads", |place| {
        let path = place.directory.join("file");
        let mut options = File::options();
        let direct = options
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)
            .unwrap();
        let read = |reader: u64| {
            let mut room = vec![0; 2 * BLOCK];
            let start = room.as_ptr().align_offset(BLOCK);
            let mut number = reader << 32;
            for_a_slice(|| {
                number += 1;
                direct
                    .read_exact_at(&mut room[start..start + BLOCK], block(number))
                    .unwrap();
            })
        };
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .map(|reader| scope.spawn(move || read(reader)))
                .collect();
            readers
                .into_iter()
                .map(|reader| reader.join().unwrap())
                .sum()
        })
    }),
];

/// What came of one slice, or of many.
#[derive(Clone, Copy, Default)]
struct Found {
    operations: u64,
    wall: Duration,
    processor: Duration,
}

impl Found {
    fn rate(&self) -> f64 {
        self.operations as f64 / self.wall.as_secs_f64()
    }

    fn processor_us(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / self.operations as f64
    }
}

fn load(arguments: &[String]) {
    let (pairs, daemon) = (arguments[0].parse().unwrap(), &arguments[1]);
    let mut places = [Place::new(&arguments[2]), Place::new(&arguments[3])];
    println!(
        "{:<34} {:>10} {:>10} {:>6} {:>12} {:>12}",
        "a second", "/dev/fuse", "io_uring", "ratio", "processor us", "io_uring us"
    );
    // Creations and removals are of the same files, and so take turns as well.
    let mut found = vec![[Vec::new(), Vec::new()]; LOADS.len()];
    for pair in 0..pairs {
        for (index, (_, slice)) in LOADS.iter().enumerate() {
            for side in [pair % 2, (pair + 1) % 2] {
                found[index][side].push(measured(*slice, &mut places[side], daemon));
            }
        }
    }
    for ((name, _), [device, rings]) in LOADS.iter().zip(&found) {
        let ratios = device
            .iter()
            .zip(rings)
            .map(|(device, rings)| rings.rate() / device.rate());
        let (by_device, by_rings) = (sum(device), sum(rings));
        println!(
            "{name:<34} {:>10.0} {:>10.0} {:>6.2} {:>12.1} {:>12.1}",
            median(device.iter().map(Found::rate)),
            median(rings.iter().map(Found::rate)),
            median(ratios),
            by_device.processor_us(),
            by_rings.processor_us(),
        );
    }
}

fn measured(slice: Slice, place: &mut Place, daemon: &str) -> Found {
    let (began, used) = (Instant::now(), processor_time(daemon));
    let operations = slice(place);
    Found {
        operations,
        wall: began.elapsed(),
        processor: processor_time(daemon) - used,
    }
}

fn sum(found: &[Found]) -> Found {
    found.iter().fold(Found::default(), |sum, found| Found {
        operations: sum.operations + found.operations,
        wall: sum.wall + found.wall,
        processor: sum.processor + found.processor,
    })
}

fn median(rates: impl Iterator<Item = f64>) -> f64 {
    let mut rates: Vec<f64> = rates.collect();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// What the daemon and this process have used so far.
fn processor_time(daemon: &str) -> Duration {
    [daemon, "self"].map(used_by).into_iter().sum()
}

/// Both times of `/proc/PID/stat`, in hundredths of a second.
fn used_by(process: &str) -> Duration {
    let text = fs::read_to_string(Path::new("/proc").join(process).join("stat")).unwrap();
    let (_, fields) = text.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2);
    Duration::from_millis(ticks.map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum())
}
