//! Mirrors of three members and more whose members come and go in any order, with crashes at any store, flush and fence: in
//! recovery, in a rebuilding and while a member dies, too. Whichever members are given next, no operator says a word; what
//! opens has all that was acknowledged, and all members together always open, unless a crash kept a roster from some.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use forebay::{
    Backing, ErrorKind, MemberState, MemoryStore, Pool, PoolOptions, Region, RuntimeOptions, Volume,
};
use forebay_pmem::shadow::{Distribution, FenceFailure, Shadow, ShadowModel};

use crate::small_mirror::{self, BLOCK, MEMBER_BYTES};

const BLOCKS: u64 = 32;
/// Blocks that are written.
const USED: usize = 24;
const SEEDS: u64 = 300;
/// Openings for each seed.
const OPENINGS: usize = 14;

type Image = Vec<u8>;
type Data = [u8; BLOCK];

fn options(strict: bool) -> PoolOptions {
    small_mirror::options().strict(strict)
}

fn runtime() -> RuntimeOptions {
    options(false).runtime_options().clone()
}

/// The crash of an incarnation: at which event, and what it leaves of the members that are there.
struct Crash {
    rng: fastrand::Rng,
    members: Vec<Option<Arc<Shadow>>>,
    /// Events until then.
    left_events: usize,
    left: Option<Vec<Option<Image>>>,
}

impl Crash {
    fn note(&mut self) {
        if self.left.is_some() {
            return;
        }
        match self.left_events.checked_sub(1) {
            Some(left) => self.left_events = left,
            None => self.strike(),
        }
    }
    fn strike(&mut self) {
        let is_killed = self.rng.u8(..4) == 0;
        let rng = &mut self.rng;
        let members = self.members.iter().map(|member| {
            let member = member.as_ref()?;
            let mut image = vec![0; MEMBER_BYTES as usize];
            if is_killed {
                Region::on_shadow(member.clone()).read(0, &mut image);
            } else {
                let distribution = Distribution::ALL[rng.usize(..Distribution::ALL.len())];
                let state = member.crash_state();
                state.sample_from(distribution, rng, &mut image);
            }
            Some(image)
        });
        self.left = Some(members.collect());
    }
}

/// What a seed does, and what the blocks may hold by then.
struct Play {
    seed: u64,
    rng: fastrand::Rng,
    images: Vec<Image>,
    store: Arc<MemoryStore>,
    may_hold: Vec<Vec<Data>>,
    refused_as_two: usize,
    opened: usize,
}

fn hook(crash: &Arc<Mutex<Crash>>, member: &Arc<Shadow>) {
    let crash = Arc::clone(crash);
    member.set_hook(Some(Arc::new(move |_| crash.lock().unwrap().note())));
}

fn has_struck(crash: &Mutex<Crash>) -> bool {
    crash.lock().unwrap().left.is_some()
}

impl Play {
    fn write(&mut self, volume: &Volume, crash: &Mutex<Crash>) -> bool {
        let count = if self.rng.bool() {
            1
        } else {
            self.rng.usize(1..5)
        };
        let first = self.rng.usize(..USED - count);
        let mut change = volume.begin();
        let mut is_staged = true;
        for block in first..first + count {
            let mut data = *self.may_hold[block].last().expect("it holds something");
            if self.rng.u8(..4) > 0 {
                data = [self.rng.u8(1..); BLOCK];
                is_staged &= change.write(block as u64, &data).is_ok();
            } else {
                let at = self.rng.usize(..BLOCK - 9);
                let bytes = [self.rng.u8(..); 9];
                let offset = (block * BLOCK + at) as u64;
                is_staged &= change.write_at(offset, &bytes).is_ok();
                data[at..at + 9].copy_from_slice(&bytes);
            }
            self.may_hold[block].push(data);
        }
        let is_committed = is_staged && change.commit().is_ok();
        let is_acknowledged = is_committed && !has_struck(crash);
        for held in &mut self.may_hold[first..first + count] {
            if is_acknowledged {
                held.drain(..held.len() - 1);
            }
        }
        is_committed
    }

    fn rebuild(&mut self, pool: &Pool, crash: &Arc<Mutex<Crash>>) {
        for member in pool.members() {
            if member.state != MemberState::Out {
                continue;
            }
            let blank = Arc::new(Shadow::new(MEMBER_BYTES, ShadowModel::Lines));
            // The file that it was may come back instead of what a crash leaves of the new one.
            if self.rng.u8(..4) > 0 || !has_struck(crash) {
                crash.lock().unwrap().members[member.number as usize] = Some(blank.clone());
                hook(crash, &blank);
            }
            let go_on = &mut |_| ControlFlow::Continue(());
            // A fence may fail meanwhile.
            drop(pool.replace_member_on(member.number, Region::on_shadow(blank), go_on));
        }
    }

    fn use_pool(&mut self, pool: &Pool, volume: &Volume, crash: &Arc<Mutex<Crash>>) {
        for _ in 0..self.rng.usize(1..40) {
            if has_struck(crash) {
                return;
            }
            match self.rng.u8(..20) {
                0..9 => {
                    if !self.write(volume, crash) {
                        return;
                    }
                }
                9 => drop(pool.checkpoint()),
                10 => drop(pool.write_back_once()),
                11 => drop(pool.reclaim_once(4)),
                12 => drop(pool.fail_member(self.rng.u32(..self.images.len() as u32))),
                13 => {
                    let dying = self.rng.usize(..self.images.len());
                    let members = crash.lock().unwrap().members.clone();
                    if let Some(member) = &members[dying] {
                        member.set_fence_failure(FenceFailure::From(self.rng.u32(..9)));
                    }
                }
                14..16 => self.rebuild(pool, crash),
                _ => {
                    let mut out = [0; BLOCK];
                    let block = self.rng.usize(..USED);
                    if volume.read(block as u64, &mut out).is_ok() {
                        assert!(self.may_hold[block].contains(&out), "seed {}", self.seed);
                    }
                }
            }
        }
    }

    fn check(&mut self, volume: &Volume, is_settled: bool, what: &str) {
        let mut out = [0; BLOCK];
        // Of the one transaction that was in flight: whether each of its blocks has what it wrote.
        let mut are_new = Vec::new();
        for block in 0..USED {
            let read = volume.read(block as u64, &mut out);
            let seed = self.seed;
            read.unwrap_or_else(|error| panic!("seed {seed}, {what}, block {block}: {error}"));
            let held = &mut self.may_hold[block];
            assert!(
                held.contains(&out),
                "seed {seed}, {what}, block {block}: {:?}, not one of {:?}",
                &out[..4],
                held.iter().map(|data| &data[..4]).collect::<Vec<_>>()
            );
            if let [old, new] = held[..]
                && old != new
            {
                are_new.push(out == new);
            }
            if is_settled {
                *held = vec![out];
            }
        }
        let is_whole = are_new.windows(2).all(|two| two[0] == two[1]);
        assert!(is_whole, "seed {}, {what}: half a transaction", self.seed);
    }

    /// Opens some of the members, uses what opens, and has it crash.
    fn open_some(&mut self, is_given: &[bool]) {
        let shadow = |(image, is_given): (&Image, &bool)| {
            is_given.then(|| Arc::new(Shadow::from_image(image, ShadowModel::Lines)))
        };
        let members: Vec<_> = self.images.iter().zip(is_given).map(shadow).collect();
        let mut regions: Vec<Region> = members
            .iter()
            .flatten()
            .map(|shadow| Region::on_shadow(shadow.clone()))
            .collect();
        self.rng.shuffle(&mut regions);
        let scale = [60, 200, 4000][self.rng.usize(..3)];
        let crash = Arc::new(Mutex::new(Crash {
            rng: self.rng.fork(),
            members: members.clone(),
            left_events: self.rng.usize(..scale),
            left: None,
        }));
        members
            .iter()
            .flatten()
            .for_each(|member| hook(&crash, member));
        let what = format!("given {is_given:?}");
        match Pool::open_on(regions, runtime()) {
            Ok(pool) => {
                self.opened += 1;
                let is_settled = !has_struck(&crash);
                let backing = Backing::from_store(self.store.clone());
                let volume = pool.attach(backing).expect("attach");
                self.check(&volume, is_settled, &what);
                if is_settled {
                    self.use_pool(&pool, &volume, &crash);
                }
            }
            Err(error) => {
                let is_refused = matches!(error.kind(), ErrorKind::Refused { .. });
                assert!(is_refused, "seed {}, {what}: {error}", self.seed);
                let is_as_two = error.to_string().contains("each has writes");
                self.refused_as_two += usize::from(is_as_two);
                let are_all = is_given.iter().all(|is_given| *is_given);
                assert!(is_as_two || !are_all, "seed {}, {what}: {error}", self.seed);
            }
        }
        let mut crash = crash.lock().unwrap();
        if crash.left.is_none() {
            crash.strike();
        }
        let left = crash.left.take().expect("it has crashed");
        for (image, left) in self.images.iter_mut().zip(left) {
            if let Some(left) = left {
                *image = left;
            }
        }
    }

    fn run(seed: u64) -> (usize, usize) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let strict = rng.u8(..4) == 0;
        let count = 3 + (seed % 3) as usize;
        let members: Vec<_> = (0..count)
            .map(|_| Arc::new(Shadow::new(MEMBER_BYTES, ShadowModel::Lines)))
            .collect();
        let on = members.iter().cloned().map(Region::on_shadow).collect();
        let pool = Pool::create_on(on, &options(strict)).expect("create");
        let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
        drop(
            pool.attach(Backing::from_store(store.clone()))
                .expect("attach"),
        );
        drop(pool);
        let durable = |member: &Arc<Shadow>| member.crash_state().durable().to_vec();
        let mut play = Play {
            seed,
            rng,
            images: members.iter().map(durable).collect(),
            store,
            may_hold: vec![vec![[0; BLOCK]]; USED],
            refused_as_two: 0,
            opened: 0,
        };
        for _ in 0..OPENINGS {
            let mut is_given = vec![true; count];
            for _ in 0..play.rng.usize(..3) {
                is_given[play.rng.usize(..count)] = false;
            }
            play.open_some(&is_given);
        }
        (play.opened, play.refused_as_two)
    }
}

#[test]
fn in_whatever_order_members_come_and_go_what_opens_has_all_that_was_acknowledged() {
    let counts: Vec<_> = (0..SEEDS).map(Play::run).collect();
    let opened: usize = counts.iter().map(|(opened, _)| opened).sum();
    let refused: usize = counts.iter().map(|(_, refused)| refused).sum();
    let all = SEEDS as usize * OPENINGS;
    assert!(
        opened > all / 2 && refused < all / 50,
        "{opened}, {refused}"
    );
}
