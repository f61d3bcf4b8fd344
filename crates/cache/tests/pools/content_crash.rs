//! Shared, packed and patched blocks of every size through crashes: what the crash checker does on
//! tiny blocks, with power cuts within operations and recoveries that are cut off themselves.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use forebay::{Backing, MemoryStore, Pool, PoolOptions, Region, RuntimeOptions, Volume};
use forebay_pmem::shadow::{CrashState, FenceFailure, Shadow, ShadowModel};

/// Blocks of the volume.
const BLOCKS: usize = 12;
const STEPS: usize = 100;

/// One pool's kind.
#[derive(Clone, Copy, Debug)]
struct Kind {
    block_bytes: usize,
    model: ShadowModel,
    strict: bool,
    checksums: bool,
}

struct Run {
    kind: Kind,
    shadow: Arc<Shadow>,
    store: Arc<MemoryStore>,
    pool: Pool,
    volume: Volume,
    /// What each block must hold.
    truth: Vec<Vec<u8>>,
    rng: fastrand::Rng,
}

fn runtime() -> RuntimeOptions {
    RuntimeOptions::default()
        .background(false)
        .always_compare(true)
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..len)
        .map(|_| if seed == 0 { 0 } else { rng.u8(..) })
        .collect()
}

fn open(image: &[u8], kind: Kind, store: &Arc<MemoryStore>) -> (Pool, Volume) {
    let shadow = Arc::new(Shadow::from_image(image, kind.model));
    let pool = Pool::open_on(vec![Region::on_shadow(shadow)], runtime()).expect("open");
    let volume = pool
        .attach(Backing::from_store(store.clone()))
        .expect("attach");
    (pool, volume)
}

fn contents(volume: &Volume) -> Vec<Vec<u8>> {
    let read = |number| {
        let mut block = vec![0; volume.block_size()];
        volume.read(number as u64, &mut block).expect("read");
        block
    };
    (0..BLOCKS).map(read).collect()
}

impl Run {
    fn new(kind: Kind, seed: u64) -> Run {
        let options = PoolOptions::default()
            .block_bytes(kind.block_bytes as u32)
            .lanes(2)
            .lane_bytes(256 << 10)
            .volumes(2)
            .strict(kind.strict)
            .checksums(kind.checksums)
            .runtime(runtime());
        let bytes = 600_000 + 24 * kind.block_bytes as u64;
        let shadow = Arc::new(Shadow::new(bytes, kind.model));
        let region = Region::on_shadow(shadow.clone());
        let pool = Pool::create_on(vec![region], &options).expect("create");
        let store = Arc::new(MemoryStore::new((BLOCKS * kind.block_bytes) as u64));
        let backing = Backing::from_store(store.clone());
        let volume = pool.attach(backing).expect("attach");
        Run {
            kind,
            shadow,
            store,
            pool,
            volume,
            truth: vec![vec![0; kind.block_bytes]; BLOCKS],
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// A block like the present one, or one of three, with few to many pieces changed.
    fn content(&mut self, number: usize) -> Vec<u8> {
        let (bytes, rng) = (self.kind.block_bytes, &mut self.rng);
        let mut block = match rng.u8(..4) {
            0 | 1 => self.truth[number].clone(),
            _ => noise(rng.u64(..3), bytes),
        };
        for _ in 0..[0, 1, 2, 12, 20, 60][rng.usize(..6)] {
            block[rng.usize(..64) * (bytes / 64) + rng.usize(..8)] = rng.u8(..4);
        }
        if rng.u8(..8) == 0 {
            block = noise(rng.u64(4..), bytes);
        }
        block
    }

    /// One operation, which the truth follows.
    fn step(&mut self) {
        let number = self.rng.usize(..BLOCKS);
        match self.rng.u8(..12) {
            0..=6 => {
                let block = self.content(number);
                self.volume.write(number as u64, &block).expect("write");
                self.truth[number] = block;
            }
            7 => {
                let other = self.rng.usize(..BLOCKS);
                let volume = self.volume.clone();
                let mut transaction = volume.begin();
                for number in [number, other] {
                    let block = self.content(number);
                    transaction.write(number as u64, &block).expect("write");
                    self.truth[number] = block;
                }
                transaction.commit().expect("commit");
            }
            8 => {
                let at = self.kind.block_bytes / 2 + 60;
                let mut transaction = self.volume.begin();
                let offset = number * self.kind.block_bytes + at;
                transaction
                    .write_at(offset as u64, b"patched")
                    .expect("write");
                transaction.commit().expect("commit");
                self.truth[number][at..at + 7].copy_from_slice(b"patched");
            }
            9 => {
                self.pool.write_back_once().expect("write-back");
                self.pool.reclaim_once(2).expect("reclaim");
            }
            10 => self.pool.checkpoint().expect("checkpoint"),
            _ => assert!(contents(&self.volume) == self.truth),
        }
    }

    /// One operation with a power cut somewhere in it: the pool holds what it did before or after.
    fn step_with_a_cut(&mut self) {
        let before = self.truth.clone();
        let cut: Arc<Mutex<Option<CrashState>>> = Arc::default();
        let left = AtomicI64::new(self.rng.i64(..12));
        let (shadow, keep) = (Arc::downgrade(&self.shadow), cut.clone());
        self.shadow.set_hook(Some(Arc::new(move |_| {
            if left.fetch_sub(1, Ordering::Relaxed) == 0
                && let Some(shadow) = shadow.upgrade()
            {
                *keep.lock().expect("no panic") = Some(shadow.crash_state());
            }
        })));
        self.step();
        self.shadow.set_hook(None);
        let Some(state) = cut.lock().expect("no panic").take() else {
            return;
        };
        let mut image = state.sample(&mut self.rng);
        for _ in 0..2 {
            image = self.failed_recovery(&image);
        }
        let (_pool, volume) = open(&image, self.kind, &self.store);
        let found = contents(&volume);
        assert!(found == before || found == self.truth, "{:?}", self.kind);
    }

    /// What a recovery leaves that loses power at one of its fences.
    fn failed_recovery(&mut self, image: &[u8]) -> Vec<u8> {
        let shadow = Arc::new(Shadow::from_image(image, self.kind.model));
        shadow.set_fence_failure(FenceFailure::From(self.rng.u32(..4)));
        drop(Pool::open_on(
            vec![Region::on_shadow(shadow.clone())],
            runtime(),
        ));
        shadow.crash_state().sample(&mut self.rng)
    }

    /// What was acknowledged is durable, and every slot comes back.
    fn check(&mut self) {
        let (pool, volume) = open(self.shadow.crash_state().durable(), self.kind, &self.store);
        assert!(contents(&volume) == self.truth, "{:?}", self.kind);
        volume.flush().expect("flush");
        while pool.reclaim_once(64).expect("reclaim") > 0 {}
        let stats = pool.stats();
        assert_eq!((stats.free_slots, stats.shared_slots), (stats.slots, 0));
    }
}

fn run(kind: Kind, seed: u64) {
    let mut run = Run::new(kind, seed);
    for step in 0..STEPS {
        run.step_with_a_cut();
        if step % 4 == 0 {
            run.check();
        }
    }
    let totals = run.pool.stats().totals;
    assert!(totals.blocks_packed > 0 && totals.deltas_found > 0);
    assert!(totals.blocks_shared > 0 || !kind.checksums);
}

#[test]
fn blocks_of_every_size_survive_cuts_in_operations_and_in_recoveries() {
    for block_bytes in [1024, 4096, 16 << 10, 64 << 10] {
        for model in [ShadowModel::Lines, ShadowModel::Pages] {
            for (strict, checksums, seed) in [(false, true, 1), (true, true, 2), (true, false, 3)] {
                let kind = Kind {
                    block_bytes,
                    model,
                    strict,
                    checksums,
                };
                run(kind, seed);
            }
        }
    }
}

#[test]
fn a_block_that_differs_throughout_goes_whole_however_large() {
    for block_bytes in [4096, 8192, 16 << 10, 32 << 10, 64 << 10] {
        let kind = Kind {
            block_bytes,
            model: ShadowModel::Lines,
            strict: false,
            checksums: true,
        };
        let mut run = Run::new(kind, 1);
        for seed in [5, 6] {
            let block = noise(seed, block_bytes);
            run.volume.write(1, &block).expect("write");
            run.truth[1] = block;
        }
        assert_eq!(run.pool.stats().totals.deltas_found, 0);
        run.check();
    }
}
