//! Random work on a mirror, and on one with rows, whose members go and come, with power cuts between: all that are in but one are enough.

use std::ops::ControlFlow;
use std::sync::Arc;

use forebay::{
    Backing, MemberState, MemoryStore, Pool, PoolOptions, Redundancy, Region, RuntimeOptions,
    Transaction, VerifyPolicy, Volume,
};
use forebay_pmem::shadow::{Distribution, Shadow, ShadowModel};

const BLOCK: usize = 128;
const BLOCKS: u64 = 64;
/// Blocks that are written.
const USED: usize = 40;
const MEMBER_BYTES: u64 = 32 << 10;
/// Power cuts for each seed.
const LIVES: usize = 4;

fn options(strict: bool, redundancy: Redundancy) -> PoolOptions {
    PoolOptions::default()
        .block_bytes(BLOCK as u32)
        .unit_bytes(256)
        .volumes(2)
        .lanes(2)
        .lane_bytes(4096)
        .background(false)
        .accept_stale(true)
        .strict(strict)
        .redundancy(redundancy)
}

fn runtime() -> RuntimeOptions {
    options(false, Redundancy::Mirror).runtime_options().clone()
}

type Data = [u8; BLOCK];

/// What a seed does, and what the blocks hold by then.
struct Play {
    seed: u64,
    rng: fastrand::Rng,
    members: Vec<Arc<Shadow>>,
    store: Arc<MemoryStore>,
    held: Vec<Data>,
    has_rows: bool,
}

/// A transaction that is held open, with what it will have written.
type Open<'v> = Option<(Transaction<'v>, Vec<(usize, Data)>)>;

impl Play {
    fn attach(&self, pool: &Pool) -> Volume {
        pool.attach(Backing::from_store(self.store.clone()))
            .expect("attach")
    }

    fn whole(&mut self, volume: &Volume, block: usize) {
        let mut data = [self.rng.u8(1..); BLOCK];
        match self.rng.u8(..8) {
            // Half of it zeroes, what another block has, or nearly what it had.
            0 | 1 => data[..64].fill(0),
            2 => data = self.held[self.rng.usize(..USED)],
            3 => {
                data = self.held[block];
                data[self.rng.usize(..BLOCK)] ^= 0x55;
            }
            _ => {}
        }
        volume.write(block as u64, &data).expect("write");
        self.held[block] = data;
    }

    /// Several blocks by one transaction, which fill rows.
    fn wide(&mut self, volume: &Volume) {
        let count = self.rng.usize(2..10);
        let first = self.rng.usize(..USED - count);
        let blocks: Vec<Data> = (0..count)
            .map(|_| std::array::from_fn(|_| self.rng.u8(..)))
            .collect();
        volume.write(first as u64, &blocks.concat()).expect("write");
        self.held[first..first + count].copy_from_slice(&blocks);
    }

    fn part(&mut self, volume: &Volume, block: usize) {
        let (at, len) = (self.rng.usize(..BLOCK - 20), self.rng.usize(1..20));
        let bytes = vec![self.rng.u8(..); len];
        let mut transaction = volume.begin();
        let offset = (block * BLOCK + at) as u64;
        transaction.write_at(offset, &bytes).expect("staged");
        transaction.commit().expect("commit");
        self.held[block][at..at + len].copy_from_slice(&bytes);
    }

    fn append(&mut self, volume: &Volume, block: usize) {
        let used = self.held[block].iter().rposition(|byte| *byte != 0);
        let end = used.map_or(0, |last| last + 1);
        let at = if self.rng.bool() { 0 } else { end };
        let bytes = vec![self.rng.u8(1..); self.rng.usize(..=BLOCK - at)];
        let mut transaction = volume.begin();
        transaction
            .append(block as u64, at, &bytes)
            .expect("staged");
        transaction.commit().expect("commit");
        let (kept, rest) = self.held[block].split_at_mut(at);
        let _ = kept;
        rest.fill(0);
        rest[..bytes.len()].copy_from_slice(&bytes);
    }

    fn open<'v>(&mut self, volume: &'v Volume) -> Open<'v> {
        let mut transaction = volume.begin();
        let blocks: Vec<(usize, Data)> = (USED - 4..USED - 1)
            .map(|block| (block, [self.rng.u8(1..); BLOCK]))
            .collect();
        for (block, data) in &blocks {
            transaction.write(*block as u64, data).expect("staged");
        }
        Some((transaction, blocks))
    }

    /// Rebuilds whatever is out.
    fn rebuild(&mut self, pool: &Pool) {
        for member in pool.members() {
            if member.state == MemberState::Out {
                let new = Arc::new(Shadow::new(MEMBER_BYTES, ShadowModel::Lines));
                let on = Region::on_shadow(new.clone());
                let go_on = &mut |_| ControlFlow::Continue(());
                pool.replace_member_on(member.number, on, go_on)
                    .expect("rebuilt");
                self.members[member.number as usize] = new;
            }
        }
    }

    fn step<'v>(&mut self, pool: &Pool, volume: &'v Volume, open: &mut Open<'v>) {
        let block = self.rng.usize(..USED);
        match self.rng.u8(..24) {
            0..4 if self.has_rows => self.wide(volume),
            0..6 => self.whole(volume, block),
            6..10 => self.part(volume, block),
            10..12 => self.append(volume, block),
            12..14 => {
                volume
                    .discard(block as u64..block as u64 + 1)
                    .expect("discard");
                self.held[block] = [0; BLOCK];
            }
            14 => drop(pool.write_back_once().expect("write back")),
            15 => drop(pool.reclaim_once(4).expect("reclaim")),
            16 => pool.checkpoint().expect("checkpoint"),
            17..19 => {
                let mut out = [0; BLOCK];
                volume.read(block as u64, &mut out).expect("read");
                assert_eq!(out, self.held[block], "seed {}, block {block}", self.seed);
            }
            // Another one stays while one is out.
            19 => drop(pool.fail_member(self.rng.u32(..self.members.len() as u32))),
            20 if open.is_none() => *open = self.open(volume),
            21 => {
                if let Some((transaction, blocks)) = open.take()
                    && transaction.commit().is_ok()
                {
                    for (block, data) in blocks {
                        self.held[block] = data;
                    }
                }
            }
            _ => self.rebuild(pool),
        }
    }

    /// Whether a pool has everything.
    fn check(&self, pool: &Pool, volume: &Volume, what: &str) {
        let seed = self.seed;
        let (_, bad) = pool.check(|_, _| {});
        assert_eq!(bad, [], "seed {seed}, {what}");
        pool.set_verify(VerifyPolicy::Never);
        let mut out = [0; BLOCK];
        for (block, data) in self.held.iter().enumerate() {
            volume.read(block as u64, &mut out).expect(what);
            assert_eq!(&out, data, "seed {seed}, {what}, block {block}");
        }
        pool.set_verify(VerifyPolicy::Always);
    }

    /// What a power cut leaves of each member.
    fn cut(&mut self) -> Vec<Vec<u8>> {
        let rng = &mut self.rng;
        let members = self.members.iter().map(|member| {
            let all = Distribution::ALL;
            let distribution = all[rng.usize(..all.len())];
            let mut image = Vec::new();
            member
                .crash_state()
                .sample_from(distribution, rng, &mut image);
            image
        });
        members.collect()
    }

    /// Opens what a power cut left without each member that may be gone, and compares.
    fn check_without(&self, images: &[Vec<u8>], states: &[MemberState]) {
        let is_in = |member: usize| states[member] == MemberState::In;
        for gone in 0..images.len() {
            let left = (0..images.len()).filter(|member| *member != gone);
            if !left.clone().all(is_in) {
                continue;
            }
            let left = left.map(|member| Region::shadow_from(&images[member]));
            // One of two is alone; the others of more know enough.
            let options = runtime().without_missing(images.len() == 2);
            let pool = Pool::open_on(left.collect(), options).expect("open the others");
            self.check(&pool, &self.attach(&pool), "one is gone");
        }
    }

    fn run(seed: u64, redundancy: Redundancy) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let strict = rng.u8(..4) == 0;
        let has_rows = redundancy == Redundancy::Parity;
        let members = 2 + u64::from(has_rows) + seed % 3;
        let new = |_| Arc::new(Shadow::new(MEMBER_BYTES, ShadowModel::Lines));
        let members = (0..members).map(new).collect();
        let mut play = Play {
            seed,
            rng,
            members,
            store: Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64)),
            held: vec![[0; BLOCK]; USED],
            has_rows,
        };
        let on = play.members.iter().cloned().map(Region::on_shadow);
        let mut pool = Pool::create_on(on.collect(), &options(strict, redundancy)).expect("create");
        for _ in 0..LIVES {
            let volume = play.attach(&pool);
            play.check(&pool, &volume, "all");
            let mut open = None;
            for _ in 0..play.rng.usize(1..60) {
                play.step(&pool, &volume, &mut open);
            }
            drop(open);
            let states = pool.members();
            let states: Vec<_> = states.iter().map(|member| member.state).collect();
            let images = play.cut();
            drop((volume, pool));
            play.check_without(&images, &states);
            let images = images.iter();
            let found = images.map(|image| Arc::new(Shadow::from_image(image, ShadowModel::Lines)));
            play.members = found.collect();
            let on = play.members.iter().cloned().map(Region::on_shadow);
            pool = Pool::open_on(on.collect(), runtime()).expect("open all");
        }
    }
}

#[test]
fn whatever_happens_all_members_that_are_in_but_one_are_enough() {
    (0..300).for_each(|seed| Play::run(seed, Redundancy::Mirror));
}

#[test]
fn whatever_happens_all_members_with_rows_that_are_in_but_one_are_enough() {
    (0..300).for_each(|seed| Play::run(seed, Redundancy::Parity));
}
