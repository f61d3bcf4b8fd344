//! How often a file system's bytes are written, on ext4 with its data in the journal and without: bytes
//! that reach the fast memory and blocks that reach the disk, for each that the application wrote. Ours
//! with what it does against double writes and without, published designs behind the same daemon, and
//! dm-writecache.
//!
//! All caches have `CACHE_BYTES` and their own watermarks; the journal has 7/16 of that. Journals are often as large
//! as caches: ext4 takes 64 MiB on 16 GiB and a GiB on 128. The file system is unmounted at the end, which
//! writes its journal out, and the cache drained.

use std::time::Duration;

use forebay_harness::Row;
use indicatif::ProgressBar;

use super::ours::{FrontEnd, Ours, Written};
use super::writer::Work;
use super::{MIB, has_tool};
use crate::{Daemon, Disk, Guest, GuestOptions, Result, Scratch};

const CACHE_BYTES: u64 = 64 * MIB;
const JOURNAL_MIB: u64 = 28;
/// Ram disks of [`CACHE_BYTES`] behind dm-writecache, and as many bytes behind ours.
const SLOW_DISKS: u64 = 4;
const SPAN_BYTES: u64 = 64 * MIB;
const LIMIT: Duration = Duration::from_secs(600);

/// What ours does against double writes, as `forebay set` calls it.
const SWITCHES: [&str; 3] = ["share-duplicates", "compare-writes", "defer-journal"];

/// Percent of the pool that is dirty when ours begins to write back, and when writers wait for it: as it
/// is by itself.
const WATERMARKS: (u8, u8) = (50, 90);
/// As late as can be.
const LATE_WATERMARKS: (u8, u8) = (100, 100);

/// How ext4 treats data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Through the journal.
    Journal,
    /// To its place, before the metadata that points there.
    Ordered,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Journal => "journal",
            Mode::Ordered => "ordered",
        }
    }
}

/// What is written through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    /// Ours, with these switches on.
    Ours([bool; 3], &'static str),
    /// Ours with everything on, which keeps dirty blocks until the pool is full of them, as the published
    /// designs do: what is overwritten meanwhile never reaches the disk.
    OursLate,
    /// A published design, by its name and its place among [`DESIGNS`].
    Design(&'static str, usize),
    /// The kernel's, told to write back while it is written to, as ours does.
    DmWritecache,
    /// The same as it is by itself: it writes back only when nothing has passed it by for three seconds,
    /// so that under load it fills up, and most further writes go to the disk past it.
    DmWritecacheBypassed,
}

impl Cache {
    /// The ends of the rows' names.
    fn name(self) -> &'static str {
        match self {
            Cache::Ours(_, name) | Cache::Design(name, _) => name,
            Cache::OursLate => "late",
            Cache::DmWritecache => "dm_writecache",
            Cache::DmWritecacheBypassed => "dm_writecache_bypassed",
        }
    }

    fn device(self) -> &'static str {
        match self {
            Cache::Ours(..) | Cache::OursLate => "/dev/vda",
            Cache::Design(_, place) => ["/dev/vdb", "/dev/vdc"][place],
            Cache::DmWritecache | Cache::DmWritecacheBypassed => "/dev/mapper/writecache",
        }
    }
}

/// The designs that are measured, in the order of their disks in the guest.
const DESIGNS: [&str; 2] = ["classic", "tinca"];
const CLASSIC: Cache = Cache::Design(DESIGNS[0], 0);
const TINCA: Cache = Cache::Design(DESIGNS[1], 1);

const ON: Cache = Cache::Ours([true; 3], "on");
const OFF: Cache = Cache::Ours([false; 3], "off");
const WITHOUT: [Cache; 3] = [
    Cache::Ours([false, true, true], "without_sharing"),
    Cache::Ours([true, false, true], "without_comparing"),
    Cache::Ours([true, true, false], "without_deferring"),
];

/// What has to come out, on any machine: these are counts.
const AT_MOST: [(&str, f64); 2] = [
    ("nvm_bytes_per_app_byte_journal_on", 1.6),
    ("disk_blocks_per_app_block_journal_on", 1.1),
];
/// Of theirs, ours at most: the rows, whose they are, the share.
const AT_MOST_OF_THEIRS: [(&str, &str, f64); 4] = [
    ("disk_blocks_per_app_block_journal", "dm_writecache", 0.7),
    ("disk_blocks_per_app_block_journal", "classic", 0.7),
    ("nvm_bytes_per_app_byte_journal", "classic", 0.5),
    ("nvm_bytes_per_app_byte_journal", "tinca", 0.5),
];

/// What is above its bar. A quick run is too short for the disk's: the journal, which the end writes back
/// once, outweighs the rest.
pub fn missed(rows: &[Row], is_quick: bool) -> Vec<String> {
    let value = |name: &str| rows.iter().find(|row| row.name == name)?.value;
    let mut bars = AT_MOST.map(|(name, bar)| (name.to_owned(), bar)).to_vec();
    for (row, theirs, share) in AT_MOST_OF_THEIRS {
        let theirs = value(&format!("{row}_{theirs}"));
        bars.extend(theirs.map(|theirs| (format!("{row}_on"), theirs * share)));
    }
    let above = |(name, bar): (String, f64)| {
        let value = value(&name).filter(|_| !(is_quick && name.starts_with("disk")))?;
        (value > bar).then(|| format!("{name} is {value:.2}, at most {bar:.2}"))
    };
    bars.into_iter().filter_map(above).collect()
}

/// Runs all of it, or what has one of `only` in its name; the rows.
pub fn run(
    daemon: &Daemon,
    is_quick: bool,
    only: &[String],
    progress: &ProgressBar,
) -> Result<Vec<Row>> {
    let scratch = Scratch::new()?;
    let mut bench = Bench::new(&scratch, daemon, is_quick)?;
    let mut rows = Vec::new();
    let mut plan = Vec::new();
    for (work, works) in [(Work::Random, ""), (Work::Fileserver, "fileserver_")] {
        for mode in [Mode::Journal, Mode::Ordered] {
            let mut caches = vec![
                ON,
                OFF,
                Cache::OursLate,
                CLASSIC,
                TINCA,
                Cache::DmWritecache,
            ];
            if work == Work::Random {
                caches.push(Cache::DmWritecacheBypassed);
            }
            if work == Work::Random && !is_quick {
                caches.extend(WITHOUT);
            }
            plan.extend(caches.into_iter().map(|cache| (work, works, mode, cache)));
        }
    }
    for (work, works, mode, cache) in plan {
        let name = format!("{works}{}_{}", mode.name(), cache.name());
        let is_kernels = matches!(cache, Cache::DmWritecache | Cache::DmWritecacheBypassed);
        let is_wanted = only.is_empty() || only.iter().any(|only| name.contains(only));
        if !is_wanted || (is_kernels && !has_tool("dmsetup", &name)) {
            continue;
        }
        progress.set_message(format!("double writes: {name}"));
        let measured = bench.measure(work, mode, cache)?;
        let (fast, slow) = measured.unzip();
        let row = format!("nvm_bytes_per_app_byte_{name}");
        rows.push(Row::new(row, fast, "bytes/byte"));
        let row = format!("disk_blocks_per_app_block_{name}");
        rows.push(Row::new(row, slow, "blocks/block"));
    }
    bench.guest.shut_down()?;
    bench.designs.into_iter().try_for_each(Ours::end)?;
    bench.ours.end()?;
    Ok(rows)
}

struct Bench {
    guest: Guest,
    ours: Ours,
    /// As many of [`DESIGNS`] as this daemon has: all or none.
    designs: Vec<Ours>,
    /// What dm-writecache needs has been made.
    has_devices: bool,
    /// Which of them this daemon has; what it has not is on.
    has_switch: [bool; 3],
    is_quick: bool,
}

impl Bench {
    fn new(scratch: &Scratch, daemon: &Daemon, is_quick: bool) -> Result<Bench> {
        let folder = scratch.new_folder("ours")?;
        let backing = scratch.sparse_file("backing", SLOW_DISKS * CACHE_BYTES)?;
        let socket = folder.join("socket");
        let front_end = FrontEnd::VhostUser(socket.clone());
        let ours = Ours::start(daemon, &folder, CACHE_BYTES, &backing, &front_end, &[])?;
        let help = daemon.run(&mut daemon.command(&["set", "--help"]))?;
        let has_switch = SWITCHES.map(|name| help.contains(&format!("--{name}")));
        let mut disks = vec![Disk::Vhost(socket)];
        let designs = start_designs(scratch, daemon, &mut disks)?;
        let options = GuestOptions::with_disks(disks);
        let ram_disks = (SLOW_DISKS + 1, CACHE_BYTES);
        let options = options.with_ram_disks(1024, ram_disks, &["dm-writecache"]);
        let guest = Guest::boot(scratch, &options)?;
        Ok(Bench {
            guest,
            ours,
            designs,
            has_devices: false,
            has_switch,
            is_quick,
        })
    }

    /// Bytes of fast memory for each byte of the application's, blocks of the disk for each block of its;
    /// none where the daemon has no such switches, or no designs.
    fn measure(&mut self, work: Work, mode: Mode, cache: Cache) -> Result<Option<(f64, f64)>> {
        match cache {
            Cache::Ours(switches, _) if !self.can_switch(switches) => return Ok(None),
            Cache::Ours(switches, _) => self.switch(switches, WATERMARKS)?,
            Cache::OursLate => self.switch([true; 3], LATE_WATERMARKS)?,
            Cache::Design(..) if self.server(cache).is_none() => return Ok(None),
            Cache::Design(..) => {}
            Cache::DmWritecache => self.make_writecache("2 pause_writeback 0")?,
            Cache::DmWritecacheBypassed => self.make_writecache("0")?,
        }
        let device = cache.device();
        // Blocks as on a disk of usual size; no tables or journals that are initialised meanwhile.
        let script = format!(
            "mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 -J size={JOURNAL_MIB} {device}\n\
             mount -t ext4 -o data={} {device} /mnt/a",
            mode.name()
        );
        self.guest.must_run(&script, LIMIT)?;
        self.work(work, 0)?;
        self.drain(cache)?;
        let before = self.below(cache)?;
        let application_bytes = self.work(work, self.count(work))?;
        self.guest.must_run("umount /mnt/a", LIMIT)?;
        let fast_bytes = self.below(cache)?.nvm_bytes - before.nvm_bytes;
        self.drain(cache)?;
        let slow_bytes = self.below(cache)?.backing_bytes - before.backing_bytes;
        // Blocks for each block are bytes for each byte.
        let per_byte = |bytes: f64| bytes / application_bytes;
        Ok(Some((per_byte(fast_bytes), per_byte(slow_bytes))))
    }

    /// Several times the journal, so that it wraps.
    fn count(&self, work: Work) -> u64 {
        match (work, self.is_quick) {
            (Work::Random, false) => 80_000,
            (Work::Random, true) => 4_000,
            (Work::Fileserver, false) => 12_000,
            (Work::Fileserver, true) => 1_500,
        }
    }

    /// Has the guest write; the bytes.
    fn work(&mut self, work: Work, count: u64) -> Result<f64> {
        let work = format!("{work:?}").to_lowercase();
        let script = format!(
            "$GUEST writer --work {work} --folder /mnt/a --span {SPAN_BYTES} --count {count}"
        );
        let text = self.guest.must_run(&script, LIMIT)?;
        let last = text.lines().last();
        let bytes = last.and_then(|line| line.trim().parse().ok());
        bytes.ok_or_else(|| format!("the writer said {text:?}, not how many bytes").into())
    }

    fn can_switch(&self, switches: [bool; 3]) -> bool {
        let mut all = switches.iter().zip(self.has_switch);
        all.all(|(is_on, has_switch)| *is_on || has_switch)
    }

    fn switch(&self, switches: [bool; 3], (low, high): (u8, u8)) -> Result<()> {
        let mut arguments = vec![format!("--dirty-low={low}"), format!("--dirty-high={high}")];
        for ((name, is_on), has_switch) in SWITCHES.iter().zip(switches).zip(self.has_switch) {
            if has_switch {
                arguments.push(format!("--{name}"));
                arguments.push(if is_on { "on" } else { "off" }.to_owned());
            }
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.ours.ask("set", &arguments).map(drop)
    }

    /// A fresh dm-writecache with these options.
    fn make_writecache(&mut self, options: &str) -> Result<()> {
        if !self.has_devices {
            self.guest.must_run(&devices_script(), LIMIT)?;
            self.has_devices = true;
        }
        let script = format!(
            "[ ! -b /dev/mapper/writecache ] || dmsetup remove writecache || exit\n\
             dd if=/dev/zero of=/dev/mapper/fast bs=1M count=1 conv=fsync status=none || exit\n\
             dmsetup create writecache --table \"0 $(blockdev --getsz /dev/mapper/slow) \
             writecache s /dev/mapper/slow /dev/mapper/fast 4096 {options}\""
        );
        self.guest.must_run(&script, LIMIT).map(drop)
    }

    /// Our daemon that has the disk; none where the guest's kernel does the caching.
    fn server(&self, cache: Cache) -> Option<&Ours> {
        match cache {
            Cache::Ours(..) | Cache::OursLate => Some(&self.ours),
            Cache::Design(_, place) => self.designs.get(place),
            Cache::DmWritecache | Cache::DmWritecacheBypassed => None,
        }
    }

    fn drain(&mut self, cache: Cache) -> Result<()> {
        self.guest.must_run("sync", LIMIT)?;
        match self.server(cache) {
            Some(server) => server.drain(),
            None => {
                let script = "dmsetup message writecache 0 flush";
                self.guest.must_run(script, LIMIT).map(drop)
            }
        }
    }

    /// What was written below the file system.
    fn below(&mut self, cache: Cache) -> Result<Written> {
        if let Some(server) = self.server(cache) {
            return server.written();
        }
        let mut bytes = |name: &str| -> Result<f64> {
            let script = format!(
                "awk '{{print $7}}' \
                 /sys/block/$(dmsetup info -c --noheadings -o blkdevname {name})/stat"
            );
            let sectors: f64 = self.guest.must_run(&script, LIMIT)?.trim().parse()?;
            Ok(sectors * 512.0)
        };
        Ok(Written {
            nvm_bytes: bytes("fast")?,
            backing_bytes: bytes("slow")?,
        })
    }
}

/// Serves the designs to the guest, each over a disk of its own that joins `disks`; beside a `forebay` of
/// another build that has no `forebay-lab` there are none.
fn start_designs(scratch: &Scratch, daemon: &Daemon, disks: &mut Vec<Disk>) -> Result<Vec<Ours>> {
    if !daemon.of_designs().forebay.exists() {
        return Ok(Vec::new());
    }
    let start = |name: &str| {
        let folder = scratch.new_folder(name)?;
        let backing = folder.join("backing");
        std::fs::File::create(&backing)?.set_len(SLOW_DISKS * CACHE_BYTES)?;
        let socket = folder.join("socket");
        disks.push(Disk::Vhost(socket.clone()));
        let front_end = FrontEnd::VhostUser(socket);
        Ours::start_design(daemon, name, &folder, CACHE_BYTES, &backing, &front_end)
    };
    DESIGNS.into_iter().map(start).collect()
}

/// Ram disks behind dm-linear, which counts what is written to them.
fn devices_script() -> String {
    format!(
        "set -euo pipefail\n\
         sectors=$(blockdev --getsz /dev/ram0)\n\
         dmsetup create fast --table \"0 $sectors linear /dev/ram0 0\"\n\
         for ((i = 0; i < {SLOW_DISKS}; i++)); do\n\
         echo \"$((i * sectors)) $sectors linear /dev/ram$((i + 1)) 0\"\n\
         done | dmsetup create slow"
    )
}
