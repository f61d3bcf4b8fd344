//! The programs that are measured, each in every place in turn.

mod mariadb;
mod names;
mod own;
mod postgres;
mod redis;
mod rocksdb;
mod tools;
mod ycsb;

use forebay_harness::Result;

use crate::outcome::Outcome;
use crate::place::{Place, Session};
use crate::worker::Kind;

#[derive(Debug)]
pub struct Case {
    pub name: &'static str,
    pub places: &'static [Place],
    pub pool_bytes: u64,
    pub run: fn(&Session<'_>) -> Result<Outcome>,
}

const POOL_BYTES: u64 = 1 << 30;
const SHARD_POOL_BYTES: u64 = 256 << 20;
/// Much less than what is appended.
const SMALL_POOL_BYTES: u64 = 64 << 20;

/// Where programs of one process, or one tree, may run.
const EVERYWHERE: &[Place] = &[Place::Disk, Place::Tmpfs, Place::Mount, Place::Preload];
/// The same, and over pools on an SSD.
const WITH_SSD: &[Place] = &[
    Place::Disk,
    Place::Tmpfs,
    Place::Mount,
    Place::Preload,
    Place::MountSsd,
    Place::PreloadSsd,
];
/// The same, and in front of a slow disk.
const WITH_SLOW_DISK: &[Place] = &[
    Place::Disk,
    Place::Tmpfs,
    Place::Mount,
    Place::Preload,
    Place::MountSsd,
    Place::PreloadSsd,
    Place::SlowDisk,
    Place::SlowDiskMountSsd,
];
/// Where programs of many processes with many opens run.
const BY_MOUNT: &[Place] = &[Place::Disk, Place::Tmpfs, Place::Mount];
/// The same, over pools on an SSD too, and in front of a slow disk.
const BY_MOUNT_WITH_SLOW_DISK: &[Place] = &[
    Place::Disk,
    Place::Tmpfs,
    Place::Mount,
    Place::MountSsd,
    Place::SlowDisk,
    Place::SlowDiskMountSsd,
];

const fn case(
    name: &'static str,
    places: &'static [Place],
    run: fn(&Session<'_>) -> Result<Outcome>,
) -> Case {
    Case {
        name,
        places,
        pool_bytes: POOL_BYTES,
        run,
    }
}

/// Of programs that may have a pool each.
const fn shards(name: &'static str, run: fn(&Session<'_>) -> Result<Outcome>) -> Case {
    Case {
        pool_bytes: SHARD_POOL_BYTES,
        ..case(name, EVERYWHERE, run)
    }
}

pub const CASES: &[Case] = &[
    case("redis", WITH_SSD, redis::run),
    case("rocksdb", WITH_SSD, rocksdb::run),
    case("sqlite", WITH_SLOW_DISK, own::sqlite),
    case("wiredtiger", EVERYWHERE, ycsb::wiredtiger_puts),
    case("postgres", BY_MOUNT_WITH_SLOW_DISK, postgres::run),
    case("mariadb", BY_MOUNT, mariadb::run),
    case("ycsb-redis", EVERYWHERE, |at| ycsb::whole(at, Kind::Redis)),
    case("ycsb-rocksdb", EVERYWHERE, |at| {
        ycsb::whole(at, Kind::Rocksdb)
    }),
    case("ycsb-wiredtiger", EVERYWHERE, |at| {
        ycsb::whole(at, Kind::Wiredtiger)
    }),
    shards("shards-redis", |at| ycsb::shards(at, Kind::Redis)),
    shards("shards-rocksdb", |at| ycsb::shards(at, Kind::Rocksdb)),
    shards("shards-wiredtiger", |at| ycsb::shards(at, Kind::Wiredtiger)),
    case("small-writes", own::SMALL_WRITES, own::small_writes),
    case("sync-4k", own::SYNCED, own::sync_4k),
    case("buffered", own::BUFFERED, own::buffered),
    case("small-files", names::SMALL_FILES, names::small_files),
    case("attributes", names::ATTRIBUTES, names::attributes),
    case("maildir", EVERYWHERE, names::maildir),
    case("git", EVERYWHERE, names::git),
    case("rsync", EVERYWHERE, names::rsync),
    Case {
        name: "append-past-pool",
        places: own::STREAM,
        pool_bytes: SMALL_POOL_BYTES,
        run: own::stream,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let mut names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CASES.len());
    }

    #[test]
    fn four_programs_run_over_ssd_pools_by_mount_and_all_but_postgres_by_run() {
        let over = |place| {
            let cases = CASES.iter().filter(|case| case.places.contains(&place));
            cases.map(|case| case.name).collect::<Vec<_>>()
        };
        let by_mount = ["redis", "rocksdb", "sqlite", "postgres", "sync-4k"];
        assert_eq!(over(Place::MountSsd), by_mount);
        assert_eq!(over(Place::PreloadSsd), by_mount[..3]);
        assert_eq!(over(Place::SlowDisk), by_mount[2..]);
        assert_eq!(over(Place::SlowDiskMountSsd), by_mount[2..]);
        for case in CASES {
            // What it is compared with.
            let is_with_pool = case.places.contains(&Place::MountSsd);
            assert!(!is_with_pool || case.places.contains(&Place::Disk));
        }
    }
}
