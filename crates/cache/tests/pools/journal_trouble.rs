//! Corrupt blocks and hostile disks do not keep journals, or other blocks, from being written back.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use crate::fixtures::journal_locate::seed_disk;
use crate::journal_disk::{Disk, HOME, RING_BLOCKS, Ring, seed_image};
use crate::rig::{BLOCK, PATIENCE, bytes_of, rig, wait_until};
use forebay::{Backing, BackingCounters, BackingIdentity, BackingStore, MemoryStore, WriteRun};

/// Blocks that one look may read from the backing.
const READS_OF_A_LOOK: u64 = 512;

#[test]
fn a_corrupt_block_elsewhere_does_not_keep_the_journal_from_going() {
    let mut disk = Disk::new(16 << 20, 4096, |options| options);
    let mut ring = Ring::of_seed_disk();
    ring.transaction(&mut disk, 500);
    for block in [HOME, HOME + 70] {
        disk.write(block, bytes_of(block, 1));
        disk.rig.pool.flip_bit(&disk.volume, block, 77).unwrap();
    }
    for _ in 0..40 {
        drop(disk.rig.pool.write_back_once());
    }
    assert_eq!(disk.stats().dirty_blocks, 2);
    // What comes later is held as before while something else is there to write.
    ring.transaction(&mut disk, 100);
    for block in HOME + 100..HOME + 200 {
        disk.write(block, bytes_of(block, 1));
    }
    drop(disk.rig.pool.write_back_once());
    assert_eq!(disk.stats().journal_deferred_blocks, 102);
    for block in [HOME, HOME + 70] {
        disk.write(block, bytes_of(block, 2));
    }
    disk.check_drained();
}

/// Writes a block elsewhere, lets `trouble` have it, and then more of a journal than the pool has room for.
fn fill(disk: &mut Disk, trouble: impl FnOnce(&Disk)) {
    let slots = disk.stats().slots;
    assert!(slots < RING_BLOCKS, "{slots} slots");
    // So that the journal is known before the first of its blocks.
    wait_until("it is found", || {
        drop(disk.rig.pool.write_back_once());
        disk.stats().journal_blocks == 1040
    });
    disk.write(HOME, bytes_of(HOME, 1));
    trouble(disk);
    let mut ring = Ring::of_seed_disk();
    for _ in 0..RING_BLOCKS / 4 {
        ring.transaction(disk, 2);
    }
}

#[test]
fn writers_find_room_where_a_corrupt_block_is_all_that_is_queued() {
    for background in [false, true] {
        let mut disk = Disk::new(3 << 20, 8192, |options| options.background(background));
        fill(&mut disk, |disk| {
            disk.rig.pool.flip_bit(&disk.volume, HOME, 77).unwrap();
        });
        disk.write(HOME, bytes_of(HOME, 2));
        disk.check_drained();
    }
}

#[test]
fn what_a_flush_wrote_is_no_work_for_the_next_round() {
    let mut disk = Disk::new(16 << 20, 4096, |options| options);
    disk.rig.pool.write_back_once().unwrap();
    let mut ring = Ring::of_seed_disk();
    for block in HOME..HOME + 100 {
        disk.write(block, bytes_of(block, 1));
    }
    disk.volume.flush().unwrap();
    ring.transaction(&mut disk, 500);
    assert_eq!(disk.rig.pool.write_back_once().unwrap(), 64);
    disk.check_drained();
}

#[test]
fn a_backing_that_fails_does_not_keep_anothers_journal_from_going() {
    let mut disk = Disk::new(16 << 20, 4096, |options| options);
    let other = Arc::new(forebay::FaultyStore::new(Arc::new(
        MemoryStore::from_bytes(vec![0; 64 * BLOCK]),
    )));
    let failing = Backing::from_store(other.clone());
    let failing = disk.rig.pool.attach(failing).unwrap();
    for block in 0..64 {
        failing.write(block, &bytes_of(block, 1)).unwrap();
    }
    Ring::of_seed_disk().transaction(&mut disk, 500);
    other.fail_writes(u64::MAX);
    for _ in 0..40 {
        drop(disk.rig.pool.write_back_once());
    }
    assert_eq!(disk.stats().dirty_blocks, 64);
    other.fail_writes(0);
    failing.flush().unwrap();
    disk.check_drained();
}

/// A disk whose ext4 says that its journal has 4 G blocks, mapped by two and three levels of indirect
/// blocks that lie all over the disk.
fn forged_image() -> Vec<u8> {
    const BACKUP: usize = 1024 + 268;
    let mut image = seed_disk(1);
    image.resize(8192 * BLOCK, 0);
    let mut put = |at: usize, value: u32| image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(17 * BLOCK + 16, u32::MAX);
    put(BACKUP + 52, 20);
    put(BACKUP + 56, 21);
    for number in 0..1024 {
        put(20 * BLOCK + 4 * number, 3000 + 5 * number as u32 % 5000);
        put(21 * BLOCK + 4 * number, 20);
    }
    image
}

#[test]
fn a_forged_journal_costs_few_reads_each_time() {
    let mut disk = Disk::of(forged_image(), 16 << 20, |options| options);
    let reads = |disk: &Disk| disk.stats().volumes[0].backing.reads;
    let before = reads(&disk);
    disk.rig.pool.write_back_once().unwrap();
    let first = reads(&disk) - before;
    assert!(
        (READS_OF_A_LOOK / 2..=READS_OF_A_LOOK).contains(&first),
        "{first}"
    );
    for turn in 0..3 {
        let mut superblock = forged_image()[..BLOCK].to_vec();
        superblock[1024 + 48] = turn;
        disk.write(0, superblock);
        let before = reads(&disk);
        disk.rig.pool.write_back_once().unwrap();
        assert!(reads(&disk) - before <= READS_OF_A_LOOK);
    }
    assert_eq!(disk.stats().journal_blocks, 0);
    disk.check_drained();
}

#[test]
fn an_honest_journal_costs_a_handful_of_reads() {
    let disk = Disk::new(16 << 20, 4096, |options| options);
    disk.rig.pool.write_back_once().unwrap();
    let stats = disk.stats();
    assert_eq!(stats.journal_blocks, 1040);
    let reads = stats.volumes[0].backing.reads;
    assert!(reads <= 8, "{reads}");
}

/// A disk that does not answer reads of the journal's superblock until it is told to, or for good.
struct Stalling {
    inner: MemoryStore,
    state: Mutex<Stall>,
    changed: Condvar,
}

#[derive(Default)]
struct Stall {
    is_over: bool,
    waiting: usize,
    gave_up: bool,
}

impl Stalling {
    fn stall(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        let (mut state, waited) = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| !state.is_over)
            .unwrap();
        state.gave_up |= waited.timed_out();
        state.waiting -= 1;
    }

    fn end(&self) {
        self.state.lock().unwrap().is_over = true;
        self.changed.notify_all();
    }

    /// Whether a caller is waiting for an answer now, and none went without.
    fn is_waited_for(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.waiting > 0 && !state.gave_up
    }
}

impl BackingStore for Stalling {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn identity(&self) -> BackingIdentity {
        self.inner.identity()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset == 17 * BLOCK as u64 {
            self.stall();
        }
        self.inner.read_at(offset, out)
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
fn no_thread_waits_for_a_look() {
    let rig = rig(3 << 20, true);
    let stalling = Arc::new(Stalling {
        inner: MemoryStore::from_bytes(seed_image(4096)),
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    let looked_at = Backing::from_store(stalling.clone());
    let looked_at = rig.pool.attach(looked_at).unwrap();
    wait_until("it looks", || stalling.is_waited_for());
    let other = MemoryStore::from_bytes(vec![0; 4096 * BLOCK]);
    let other = rig.pool.attach(Backing::from_store(Arc::new(other)));
    let other = other.unwrap();
    // More than the pool has room for.
    for number in 0..4 * rig.pool.stats().slots {
        other.write(number, &bytes_of(number, 1)).unwrap();
    }
    looked_at.write(HOME, &bytes_of(HOME, 1)).unwrap();
    looked_at.flush().unwrap();
    other.flush().unwrap();
    rig.pool.detach(other).unwrap();
    assert!(stalling.is_waited_for(), "it still looks");
    stalling.end();
    wait_until("it has found the journal", || {
        rig.pool.stats().journal_blocks == 1040
    });
    // A process that locks a backing has it for itself once it is detached.
    rig.pool.detach(looked_at).unwrap();
    assert_eq!(Arc::strong_count(&stalling), 1);
}
