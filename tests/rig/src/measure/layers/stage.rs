//! Where requests are followed: one guest with devices of three kinds, caches over pairs of them, ext4 in
//! ordered mode over each, and a file on it.
//!
//! ```text
//!   fio            user: what is neither below
//!   ext4, aio      above the cache
//!   NAME-top       dm's linear target, counts
//!   cache          bcache, dm-cache, nothing
//!   NAME-fast/slow/meta    linear targets, count: the devices
//!   ram disk, scsi_debug, nbd, vhost-user
//! ```
//!
//! dm's own statistics are the trace: the package's kernel has no tracer (`CONFIG_FTRACE`, and with it blktrace, is
//! off), but every dm target counts the requests through it and adds up their time in nanoseconds. What is alone
//! passes as many targets as what is cached.

use std::time::Duration;

use super::contender::Contender;
use super::points::SPAN_BYTES;
use crate::measure::fio;
use crate::measure::ours::Ours;
use crate::measure::stage::{FAST_BYTES, SSD, serve};
use crate::measure::{MIB, size_name};
use crate::{Daemon, Disk, Guest, GuestOptions, Result, Scratch};

/// Bytes of a slow device below a cache; ours has more, which no request reaches.
const SLOW_BYTES: u64 = 96 * MIB;
/// Bytes for what dm-cache remembers of its blocks.
const META_BYTES: u64 = 8 * MIB;
/// What the HDD takes for a request, whatever its place; one at a time.
const HDD_MS: u64 = 4;
/// Requests that the SSD works on at a time, as the lab's does.
const SSD_CHANNELS: u64 = 9;
/// All parts of the SSD: alone, below two caches, before two with one's metadata.
const SSD_BYTES: u64 = 3 * FAST_BYTES + 2 * SLOW_BYTES + META_BYTES;
/// The NVM alone, before two caches, one's metadata.
const RAM_DISKS: u64 = 4;
const GUEST_MEMORY_MIB: u32 = 1600;
const MODULES: [&str; 6] = [
    "scsi_debug",
    "sd_mod",
    "nbd",
    "dm-cache",
    "dm-cache-smq",
    "bcache",
];
const SET_UP_LIMIT: Duration = Duration::from_secs(180);

/// The guest with everything in it.
#[derive(Debug)]
pub struct Stage {
    /// The guest.
    pub guest: Guest,
    /// Our daemon, if it takes part.
    pub ours: Option<Ours>,
}

impl Stage {
    /// Sets it, for `contenders`; each has written its file and read it.
    pub fn set(scratch: &Scratch, daemon: &Daemon, contenders: &[Contender]) -> Result<Stage> {
        let mut disks = Vec::new();
        let mut ours = None;
        if contenders.contains(&Contender::Ours) {
            let folder = scratch.new_folder("ours")?;
            let socket = folder.join("socket");
            ours = Some(serve(daemon, &folder, &socket, SSD)?);
            disks.push(Disk::Vhost(socket));
        }
        let options = GuestOptions::with_disks(disks);
        let ram_disks = (RAM_DISKS, FAST_BYTES);
        let mut options = options.with_ram_disks(GUEST_MEMORY_MIB, ram_disks, &MODULES);
        options.parameters.extend([
            format!("scsi_debug.dev_size_mb={}", SSD_BYTES / MIB),
            format!("scsi_debug.ndelay={}", SSD.shown_us * 1000),
            format!("scsi_debug.max_queue={SSD_CHANNELS}"),
        ]);
        let mut guest = Guest::boot(scratch, &options)?;
        let wanted: Vec<&str> = contenders.iter().map(|one| one.device()).collect();
        let script = format!(
            "WANTED='{}' FAST_MIB={} SLOW_MIB={} META_MIB={} HDD_MS={HDD_MS}\n{}",
            wanted.join(" "),
            FAST_BYTES / MIB,
            SLOW_BYTES / MIB,
            META_BYTES / MIB,
            include_str!("../guest/layers.sh"),
        );
        guest.must_run(&script, SET_UP_LIMIT)?;
        for contender in contenders {
            // Written in whole blocks of the caches, and read, so that what misses is taken in.
            for is_write in [true, false] {
                fio::pass(&mut guest, &contender.file(), SPAN_BYTES, is_write)?;
            }
        }
        Ok(Stage { guest, ours })
    }

    /// Ends everything in order; file systems over caches of a guest that ends are of no use.
    pub fn strike(self) -> Result<()> {
        self.guest.cut_power()?;
        self.ours.map_or(Ok(()), Ours::end)
    }
}

/// What the stage is, for people.
pub fn description() -> String {
    format!(
        "NVM is a ram disk. The SSD is the guest kernel's scsi_debug: {} µs a request by a high-resolution timer, up to \
         {SSD_CHANNELS} at a time. The HDD is a server behind nbd in the guest: {HDD_MS} ms a request wherever it is, one at a \
         time. Fast devices have {}, slow ones {}, each file {}.",
        SSD.shown_us,
        size_name(FAST_BYTES),
        size_name(SLOW_BYTES),
        size_name(SPAN_BYTES),
    )
}
