//! Reads over NBD of what no pool has, many at a time, from a file that they may wait for together.

mod common;
mod nbd_client;

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use common::{TestVolume, pattern_of, patterned_file};
use forebay::{Backing, BackingCounters, BackingIdentity, BackingStore, WriteRun};
use forebay_serve::nbd::NbdOptions;
use nbd_client::*;

const BLOCKS: u64 = 1024;
const POOL_BYTES: u64 = 16 << 20;

/// Blocks far apart, each once: most are of no run.
fn apart(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|number| number * 389 % BLOCKS)
}

fn requests(count: u64) -> Vec<u8> {
    let one = |block| request(READ, 0, block, block * 4096, 4096);
    apart(count).flat_map(one).collect()
}

fn served() -> (tempfile::NamedTempFile, TestVolume, Rig) {
    let file = patterned_file(BLOCKS);
    let volume = TestVolume::before(Backing::file(file.path()).unwrap(), POOL_BYTES);
    let rig = Rig::new(volume.device.clone(), NbdOptions::default());
    (file, volume, rig)
}

#[test]
fn misses_that_come_together_are_each_answered_with_their_own_block() {
    // More than wait without a worker.
    const COUNT: u64 = 200;
    for is_structured in [true, false] {
        let (_file, volume, rig) = served();
        let mut client = rig.client();
        match is_structured {
            true => client.open("disk").unwrap(),
            false => client.go("disk").unwrap(),
        }
        client.stream.write_all(&requests(COUNT)).unwrap();
        let mut answered: Vec<u64> = (0..COUNT)
            .map(|_| client.reply(if is_structured { 0 } else { 4096 }).unwrap())
            .inspect(|reply| assert_eq!(reply.errno, 0))
            .inspect(|reply| assert!(reply.data == pattern_of(reply.cookie)))
            .map(|reply| reply.cookie)
            .collect();
        answered.sort_unstable();
        let mut asked: Vec<u64> = apart(COUNT).collect();
        asked.sort_unstable();
        assert_eq!(answered, asked);
        // They count until a moment after their replies.
        while rig.server.stats().requests_in_flight > 0 {
            std::thread::yield_now();
        }
        let stats = rig.server.stats();
        assert_eq!((stats.reads, stats.read_bytes), (COUNT, COUNT * 4096));
        client.send_request(DISCONNECT, 0, 0, 0, 0).unwrap();
        assert!(client.is_closed());
        let totals = volume.pool.stats().totals;
        assert_eq!(totals.read_misses, COUNT);
        // Where another block of its stripe is brought in between its answer and its own turn, one is not.
        assert!(totals.fills >= COUNT * 9 / 10, "{totals:?}");
    }
}

#[test]
fn a_client_that_leaves_with_reads_under_way_leaves_nothing_behind() {
    let (_file, volume, rig) = served();
    for _ in 0..20 {
        let mut client = rig.open();
        client.stream.write_all(&requests(48)).unwrap();
        drop(client);
    }
    while rig.server.stats().connections_open > 0 {
        std::thread::yield_now();
    }
    assert_eq!(rig.server.stats().requests_in_flight, 0);
    let (_, bad) = volume.pool.check(|_, _| {});
    assert_eq!(bad, []);
}

#[test]
fn a_file_that_was_cut_short_fails_the_reads_behind_its_end_alone() {
    let (file, _volume, rig) = served();
    file.as_file().set_len(512 * 4096).unwrap();
    let mut client = rig.open();
    client.stream.write_all(&requests(60)).unwrap();
    for _ in 0..60 {
        let reply = client.reply(0).unwrap();
        match reply.cookie < 512 {
            true => assert!(reply.data == pattern_of(reply.cookie)),
            false => assert_eq!(reply.errno, 5, "{reply:?}"),
        }
    }
}

/// A store on whose direct file the kernel takes no read.
struct Refusing {
    inner: Backing,
    write_only: File,
}

impl BackingStore for Refusing {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn identity(&self) -> BackingIdentity {
        self.inner.identity()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(offset, out)
    }
    fn direct_file(&self) -> Option<&File> {
        Some(&self.write_only)
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        self.inner.write_runs(runs)
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.inner.zero_range(offset, len_bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
    fn counters(&self) -> BackingCounters {
        self.inner.counters()
    }
    fn transport(&self) -> String {
        self.inner.transport()
    }
}

#[test]
fn reads_that_the_kernel_does_not_take_are_answered_all_the_same() {
    const COUNT: u64 = 100;
    let file = patterned_file(BLOCKS);
    let inner = Backing::file(file.path()).unwrap();
    let write_only = File::options().write(true).open(file.path()).unwrap();
    let store = Refusing { inner, write_only };
    let volume = TestVolume::before(Backing::from_store(Arc::new(store)), POOL_BYTES);
    let rig = Rig::new(volume.device.clone(), NbdOptions::default());
    let mut client = rig.open();
    let patience = Duration::from_secs(20);
    client.stream.set_read_timeout(Some(patience)).unwrap();
    // Together, and one by one.
    client.stream.write_all(&requests(COUNT)).unwrap();
    for _ in 0..COUNT {
        let reply = client.reply(0).unwrap();
        assert!(reply.data == pattern_of(reply.cookie));
    }
    for block in apart(2 * COUNT).skip(COUNT as usize) {
        client
            .send_request(READ, 0, block, block * 4096, 4096)
            .unwrap();
        assert!(client.reply(0).unwrap().data == pattern_of(block));
    }
}
