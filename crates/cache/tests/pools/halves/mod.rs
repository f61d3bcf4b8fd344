//! A mirror in shadows, mostly two, whose halves a test makes wrong.

use std::ops::ControlFlow;
use std::sync::Arc;

use forebay::unstable::{BlockLocation, locate_block};
use forebay::{
    Backing, MemoryStore, Pool, PoolOptions, Redundancy, Region, ScrubOptions, ScrubReport, Volume,
};
use forebay_pmem::shadow::{Fault, Shadow, ShadowModel};

pub const BLOCK: usize = 4096;
pub const BLOCKS: u64 = 128;

/// A mirrored pool in shadows, with a volume over a store in memory.
pub struct Mirror {
    pub members: Vec<Arc<Shadow>>,
    pub store: Arc<MemoryStore>,
    pub pool: Pool,
    pub volume: Volume,
}

pub fn options() -> PoolOptions {
    PoolOptions::default()
        .volumes(2)
        .lanes(2)
        .lane_bytes(64 << 10)
        .background(false)
        .accept_stale(true)
        .always_compare(true)
        .redundancy(Redundancy::Mirror)
}

pub fn noise(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..BLOCK).map(|_| random.u8(..)).collect()
}

impl Mirror {
    pub fn new() -> Mirror {
        Mirror::of(2)
    }
    pub fn of(count: usize) -> Mirror {
        Mirror::with(&options(), count)
    }
    /// The same of other options, also without copies.
    pub fn with(options: &PoolOptions, count: usize) -> Mirror {
        let shadow = |_| Arc::new(Shadow::new(2 << 20, ShadowModel::Lines));
        let members: Vec<Arc<Shadow>> = (0..count).map(shadow).collect();
        let on = members.iter().cloned().map(Region::on_shadow).collect();
        let pool = Pool::create_on(on, options).expect("create");
        let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
        let volume = pool
            .attach(Backing::from_store(store.clone()))
            .expect("attach");
        Mirror {
            members,
            store,
            pool,
            volume,
        }
    }
    pub fn put(&self, block: u64, seed: u64) {
        self.volume.write(block, &noise(seed)).expect("write");
    }
    pub fn read(&self, block: u64) -> Vec<u8> {
        let mut out = vec![0; BLOCK];
        self.volume.read(block, &mut out).expect("read");
        out
    }
    pub fn locate(&self, block: u64) -> BlockLocation {
        locate_block(&self.volume, block).expect("cached")
    }
    /// The number of a half, 0 the one that is read first, of a slot of a block: where it is.
    pub fn half(&self, block: u64, slot: usize, half: usize) -> (&Arc<Shadow>, u64) {
        let (member, bytes) = self.locate(block).bytes[2 * slot + half].clone();
        (&self.members[member], bytes.start)
    }
    pub fn flip(&self, (member, start): (&Arc<Shadow>, u64), at: u64) {
        let offset = start + at;
        member.inject(Fault::BitFlip { offset, bit: 3 });
    }
    pub fn scrub(&self) -> ScrubReport {
        let mut go_on = |_| ControlFlow::Continue(());
        let report = self.pool.scrub(&ScrubOptions::default(), &mut go_on);
        report.expect("scrub")
    }
    /// What was found and repaired, and that nothing is wrong any more.
    pub fn scrub_finds(&self, count: u64) {
        let report = self.scrub();
        assert!(report.is_whole);
        let counts = (report.found, report.repaired, report.lost, report.transient);
        assert_eq!(counts, (count, count, 0, 0), "{report:?}");
        let again = self.scrub();
        assert_eq!((again.found, again.slots), (0, report.slots), "{again:?}");
    }
    /// Opens a copy of all members but each, so of two of each alone, as a power cut leaves it, and reads.
    pub fn each_alone_reads(&self, expected: &[(u64, Vec<u8>)]) {
        let states = self.members.iter().map(|member| member.crash_state());
        let states: Vec<_> = states.collect();
        for gone in 0..states.len() {
            let left = (0..states.len()).filter(|member| *member != gone);
            let images: Vec<&[u8]> = left.map(|member| states[member].durable()).collect();
            self.images_read(&images, expected);
        }
    }
    /// Opens what a power cut leaves of the members, all or all but one, and reads.
    pub fn images_read(&self, images: &[&[u8]], expected: &[(u64, Vec<u8>)]) {
        let on = images.iter().map(|image| Region::shadow_from(image));
        let runtime = options().runtime_options().clone().without_missing(true);
        let pool = Pool::open_on(on.collect(), runtime).expect("open");
        let backing = Backing::from_store(self.store.clone());
        let volume = pool.attach(backing).expect("attach");
        for (block, bytes) in expected {
            let mut out = vec![0; BLOCK];
            volume.read(*block, &mut out).expect("read");
            assert!(out == *bytes, "block {block}");
        }
    }
    pub fn counts(&self) -> (u64, u64, u64) {
        let totals = self.pool.stats().totals;
        (totals.repaired, totals.transient, totals.lost)
    }
}

/// A block, and one that is packed on it: which differ in a few bytes of this piece.
pub fn packed(mirror: &Mirror) -> [(u64, Vec<u8>); 2] {
    mirror.put(1, 1);
    let mut like = noise(1);
    like[640..650].fill(3);
    mirror.volume.write(2, &like).expect("write");
    assert_eq!(mirror.pool.stats().totals.blocks_packed, 1);
    assert_eq!(mirror.locate(2).bytes.len(), 4);
    assert_eq!(mirror.locate(2).bytes[2..], mirror.locate(1).bytes[..]);
    [(1, noise(1)), (2, like)]
}
