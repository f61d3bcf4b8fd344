//! Commits that a panic ends half-way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::*;
use crate::table::index::{Bucket, StripeLock};
use crate::{Error, MemoryStore, Pool, PoolOptions, Region, Volume};

const BLOCK: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Plan,
    Stream,
    Publish,
    Note,
}

/// A batch that changes nothing, of which one step panics.
struct Panicking<'e> {
    stripe: StripeLock<'e>,
    at: Step,
}

impl Panicking<'_> {
    fn step(&self, step: Step) {
        if step == self.at {
            // As an assertion, but without the text.
            std::panic::resume_unwind(Box::new(step));
        }
    }
}

impl<'e> Shape for Panicking<'e> {
    type Stripes = StripeLock<'e>;

    fn record_bytes(&self) -> u64 {
        64
    }
    fn stripes(&mut self) -> StripeLock<'e> {
        self.stripe
    }
    fn plan(&mut self, _: &Engine) -> Result<Option<Outcome>> {
        self.step(Step::Plan);
        Ok(None)
    }
    fn stream(&mut self, _: &Engine, _: &HeldLane<'_>, _: u64) -> u64 {
        self.step(Step::Stream);
        64
    }
    fn publish(&self, _: &Engine) {
        self.step(Step::Publish);
    }
    fn note(&self, _: &Engine) {
        self.step(Step::Note);
    }
    fn effects(&self) -> usize {
        0
    }
}

fn volume() -> (Pool, Volume) {
    let mut options = PoolOptions::default();
    options.format.block_bytes = BLOCK as u32;
    options.format.unit_bytes = 256;
    options.format.volumes = 2;
    options.format.lanes = Some(1);
    options.runtime.background = false;
    let pool = Pool::create_on(vec![Region::shadow(1 << 20)], &options).expect("create");
    let store = Arc::new(MemoryStore::new(1 << 20));
    let volume = pool
        .attach(crate::Backing::from_store(store))
        .expect("attach");
    (pool, volume)
}

/// A commit of the block's stripe panics in this step.
fn panic_at(volume: &Volume, block: u64, at: Step) -> Bucket {
    let engine = volume.memory().expect("in memory").pipeline.engine();
    let bucket = engine
        .table
        .bucket(volume.memory().expect("in memory").key(block));
    let stripe = engine.table.index().stripe(bucket.stripe);
    // On a thread of its own: this one counts the stripes that it has locked.
    let commit = || engine.commit_batch(Panicking { stripe, at }).map(drop);
    let run = || catch_unwind(AssertUnwindSafe(commit)).is_err();
    let has_panicked = std::thread::scope(|scope| scope.spawn(run).join().expect("it is caught"));
    assert!(has_panicked, "{at:?}");
    bucket
}

#[test]
fn a_record_followed_that_of_a_commit_which_panicked() {
    for at in [Step::Plan, Step::Stream, Step::Publish, Step::Note] {
        let (_pool, volume) = volume();
        volume.write(0, &[1; BLOCK]).expect("write");
        panic_at(&volume, 0, at);
        let engine = volume.memory().expect("in memory").pipeline.engine();
        let drawn = engine.log.lanes().last_sequence();
        let other = (1..)
            .find(|block| {
                let bucket = |block| {
                    engine
                        .table
                        .bucket(volume.memory().expect("in memory").key(block))
                };
                bucket(*block).stripe != bucket(0).stripe
            })
            .expect("there is another stripe");
        let refused = volume.write(other, &[2; BLOCK]);
        assert!(
            matches!(
                refused.as_ref().map_err(Error::kind),
                Err(ErrorKind::Poisoned { .. })
            ),
            "{at:?}: {refused:?}"
        );
        assert_eq!(engine.log.lanes().last_sequence(), drawn, "{at:?}");
    }
}

#[test]
fn what_a_commit_that_panicked_published_in_part_was_to_be_had() {
    for at in [Step::Plan, Step::Stream, Step::Publish] {
        let (_pool, volume) = volume();
        let stripe = panic_at(&volume, 0, at).stripe;
        let index = volume
            .memory()
            .expect("in memory")
            .pipeline
            .engine()
            .table
            .index();
        assert!(!index.try_lock(stripe), "{at:?}");
        let is_hidden = index.try_read_begin(stripe).is_none();
        assert_eq!(is_hidden, at == Step::Publish, "{at:?}");
    }
}

#[test]
fn slots_of_a_transaction_that_panicked_were_given_back() {
    let (_pool, volume) = volume();
    let slots = volume.memory().expect("in memory").pipeline.table().slots();
    let free = slots.free_count();
    let mut transaction = volume.begin();
    for block in 0..8 {
        transaction.write(block, &[1; BLOCK]).expect("write");
    }
    panic_at(&volume, 0, Step::Publish);
    // As unwinding does.
    drop(transaction);
    // The first two wait in memory.
    let streamed = 6;
    assert_eq!(
        slots.free_count(),
        free - streamed,
        "the record may name them"
    );
}

#[test]
fn a_commit_in_a_destructor_that_a_panic_ran_poisoned_the_pool() {
    struct WritesAtTheEnd<'v>(&'v Volume);
    impl Drop for WritesAtTheEnd<'_> {
        fn drop(&mut self) {
            self.0.write(0, &[1; BLOCK]).expect("write");
        }
    }
    let (_pool, volume) = volume();
    let run = || {
        let _writes = WritesAtTheEnd(&volume);
        panic!("on purpose");
    };
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    volume.write(0, &[2; BLOCK]).expect("write");
}

#[test]
fn a_pool_could_not_be_closed_after_a_commit_panicked() {
    for at in [Step::Plan, Step::Stream, Step::Publish, Step::Note] {
        let (pool, volume) = volume();
        volume.write(0, &[1; BLOCK]).expect("write");
        panic_at(&volume, 0, at);
        assert!(pool.close().is_err(), "its writes are refused since");
    }
}
