//! Where the grid plays: one guest in which every contender has a fast and a slow device of its own.
//!
//! ```text
//!   raw fast        ram disk                      raw slow   dm-delay over ram disks
//!   dm-writecache   ram disk over its own such    dm-cache, bcache   likewise
//!   ours            /dev/vda: vhost-user to `forebay serve`, a pool in memory over a delayed file
//! ```
//!
//! The slow device is a latency and nothing else: no queue, no head, no neighbours. dm-delay counts in
//! ticks of the guest's clock, a hundredth of a second, and one tick comes out as two; the file of ours
//! is delayed by as much on the host. All hold the same kind of bytes, and as many.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use super::fio;
use super::ours::{FrontEnd, Ours};
use super::{MIB, size_name};
use crate::{Daemon, Disk, Guest, GuestOptions, Result, Scratch};

/// Bytes of every fast device, of our pool with its log and tables too.
pub const FAST_BYTES: u64 = 64 * MIB;
/// How many ram disks of that size a slow device is.
const SLOW_DISKS: u64 = 3;
/// Bytes of every slow device.
pub const SLOW_BYTES: u64 = SLOW_DISKS * FAST_BYTES;
/// Percent of the fast device from which on dirty blocks are written back, ours and dm-writecache's.
const DIRTY: (u32, u32) = (85, 90);
const GUEST_MEMORY_MIB: u32 = 1600;
const MODULES: [&str; 5] = [
    "dm-delay",
    "dm-writecache",
    "dm-cache",
    "dm-cache-smq",
    "bcache",
];
const SET_UP_LIMIT: Duration = Duration::from_secs(120);

/// How slow the slow devices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// What dm-delay is told, in the guest.
    guest_ms: u32,
    /// What comes out of that, which ours is told.
    pub shown_us: u64,
}

/// A disk: what dm-delay makes of its shortest delay in a guest with 100 ticks a second.
pub const DISK: Latency = Latency {
    guest_ms: 10,
    shown_us: 20_000,
};
/// An SSD, without a delay of the guest's: other devices there are as slow by themselves.
pub const SSD: Latency = Latency {
    guest_ms: 0,
    shown_us: 100,
};
/// Memory: what a miss costs a cache itself.
pub const NONE: Latency = Latency {
    guest_ms: 0,
    shown_us: 0,
};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Contender {
    /// The fast device alone.
    RawFast,
    /// The slow device alone.
    RawSlow,
    /// The kernel's write cache, on an SSD.
    DmWritecache,
    /// The kernel's dm-cache with its policy smq.
    DmCache,
    /// The kernel's bcache.
    Bcache,
    /// Forebay.
    Ours,
}

impl Contender {
    /// All of them.
    pub const ALL: [Contender; 6] = [
        Contender::Ours,
        Contender::DmWritecache,
        Contender::DmCache,
        Contender::Bcache,
        Contender::RawFast,
        Contender::RawSlow,
    ];

    /// What it is called, for people and in names of rows, and its disk in the guest.
    fn names(self) -> [&'static str; 3] {
        match self {
            Contender::RawFast => ["fast alone", "raw_fast", "/dev/ram0"],
            Contender::RawSlow => ["slow alone", "raw_slow", "/dev/mapper/slow"],
            Contender::DmWritecache => ["dm-writecache", "dm_writecache", "/dev/mapper/writecache"],
            Contender::DmCache => ["dm-cache", "dm_cache", "/dev/mapper/cache"],
            Contender::Bcache => ["bcache", "bcache", "/dev/bcache0"],
            Contender::Ours => ["Forebay", "ours", "/dev/vda"],
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    /// What it is called in names of rows.
    pub fn key(self) -> &'static str {
        self.names()[1]
    }

    /// Its disk in the guest.
    pub fn device(self) -> &'static str {
        self.names()[2]
    }

    /// Whether it is a fast device before a slow one.
    pub fn is_cache(self) -> bool {
        !matches!(self, Contender::RawFast | Contender::RawSlow)
    }
}

/// The guest with everything in it.
#[derive(Debug)]
pub struct Stage {
    /// The guest.
    pub guest: Guest,
    ours: Option<Ours>,
}

impl Stage {
    /// Sets it, for `contenders`, empty caches over full slow devices.
    pub fn set(
        scratch: &Scratch,
        daemon: &Daemon,
        contenders: &[Contender],
        latency: Latency,
    ) -> Result<Stage> {
        let mut disks = Vec::new();
        let mut ours = None;
        if contenders.contains(&Contender::Ours) {
            let folder = scratch.new_folder("ours")?;
            let socket = folder.join("socket");
            ours = Some(serve(daemon, &folder, &socket, latency)?);
            disks.push(Disk::Vhost(socket));
        }
        let ram_disks = 5 + 4 * SLOW_DISKS;
        let options = GuestOptions::with_disks(disks);
        let ram_disks = (ram_disks, FAST_BYTES);
        let options = options.with_ram_disks(GUEST_MEMORY_MIB, ram_disks, &MODULES);
        let mut guest = Guest::boot(scratch, &options)?;
        let wanted: Vec<&str> = contenders.iter().map(|one| one.name()).collect();
        let script = format!(
            "WANTED='{}' SLOW_DISKS={SLOW_DISKS} DELAY_MS={} DIRTY_LOW={} DIRTY_HIGH={}\n{}",
            wanted.join(" "),
            latency.guest_ms,
            DIRTY.0,
            DIRTY.1,
            include_str!("guest/contenders.sh"),
        );
        guest.must_run(&script, SET_UP_LIMIT)?;
        Ok(Stage { guest, ours })
    }

    /// Reads the first bytes of a contender's disk once, so that its cache has what it keeps of them.
    pub fn warm(&mut self, contender: Contender, span_bytes: u64, latency: Latency) -> Result<()> {
        // Ours asks its backing block by block: what takes minutes here is no part of what is measured.
        let ours = self.ours.as_ref().filter(|_| contender == Contender::Ours);
        if let Some(ours) = ours {
            ours.delay_backing(0)?;
        }
        fio::pass(&mut self.guest, contender.device(), span_bytes, false)?;
        ours.map_or(Ok(()), |ours| ours.delay_backing(latency.shown_us))
    }

    /// Ends everything in order.
    pub fn strike(self) -> Result<()> {
        self.guest.shut_down()?;
        self.ours.map_or(Ok(()), Ours::end)
    }
}

/// Our daemon: a pool as large as the peers' fast devices over a file as large as their slow ones.
pub fn serve(daemon: &Daemon, folder: &Path, socket: &Path, latency: Latency) -> Result<Ours> {
    let backing = folder.join("disk");
    fill(&backing)?;
    let (low, high) = (DIRTY.0.to_string(), DIRTY.1.to_string());
    let more = ["--dirty-low", &low, "--dirty-high", &high];
    let front_end = FrontEnd::VhostUser(socket.to_owned());
    let ours = Ours::start(daemon, folder, FAST_BYTES, &backing, &front_end, &more)?;
    ours.delay_backing(latency.shown_us)?;
    Ok(ours)
}

/// Bytes that are there: a hole could be answered without the disk.
fn fill(backing: &Path) -> Result<()> {
    let mut file = std::fs::File::create(backing)?;
    let mut noise = vec![0; MIB as usize];
    fastrand::Rng::with_seed(1).fill(&mut noise);
    for _ in 0..SLOW_BYTES / MIB {
        file.write_all(&noise)?;
    }
    Ok(())
}

/// What the stage is, for people.
pub fn description(latency: Latency) -> String {
    let slow = match latency.shown_us {
        0 => "no latency of its own".into(),
        us => format!("a latency of {} ms and no other limit", us / 1000),
    };
    format!(
        "Fast devices have {}, slow ones {} and {slow}.",
        size_name(FAST_BYTES),
        size_name(SLOW_BYTES)
    )
}
