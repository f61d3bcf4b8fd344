//! What an actor asks of an engine, and what it notes about the answers.

use crate::content::{make_similar, noise, one_call, whole_content};
use crate::engine::OpenEngine;
use crate::engine_scenario::Role;
use crate::oracle::{Operation, Outcome, Patch};
use crate::scenario::{Change, Item, Shape, Step};
use crate::subject::Actor;
use crate::world::World;
use forebay::Error;
use forebay_lab::EngineTransaction;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::MutexGuard;

/// Transactions without an outcome after which no more are tried: each doubles what the oracle has
/// to keep.
const OPEN_MAX: usize = 3;

/// One actor.
pub struct EngineActor<'a> {
    world: &'a World,
    shape: &'a Shape,
    engine: &'a OpenEngine,
}

/// A transaction being filled.
struct Filling<'a> {
    transaction: Box<dyn EngineTransaction + 'a>,
    patches: Vec<Patch>,
    /// By block: what the transaction has to read there.
    own: BTreeMap<usize, Vec<u8>>,
}

impl Actor for EngineActor<'_> {
    fn act(&mut self, step: &Step) -> Result<(), String> {
        let done = match step {
            Step::Transaction { items, abort, .. } => self.transact(items, *abort),
            Step::Read { block, .. } => self.read(*block, 1),
            Step::ReadRange { block, count } => self.read(*block, *count),
            Step::Flush(_) => self.engine.engine().flush(),
            _ => unreachable!("scripts for engines have no {step:?}"),
        };
        done.or_else(|error| self.engine.excuse(self.world, error))
    }
}

impl<'a> EngineActor<'a> {
    /// An actor that has done nothing yet.
    pub fn new(world: &'a World, shape: &'a Shape, engine: &'a OpenEngine) -> EngineActor<'a> {
        EngineActor {
            world,
            shape,
            engine,
        }
    }

    fn transact(&self, items: &[Item], abort: bool) -> Result<(), Error> {
        if self.world.open_for_good() >= OPEN_MAX {
            return Ok(());
        }
        let engine = self.engine.engine();
        let items = &items[..items.len().min(engine.transaction_blocks_max())];
        let _updates = self.lock_updates(items);
        let one_call = one_call(items, self.shape.block_bytes, |block| block);
        if let (false, Some(patches)) = (abort, one_call) {
            let data: Vec<u8> = patches.iter().flat_map(|p| p.bytes.clone()).collect();
            let call = self.world.call(Operation::Write(patches));
            let done = engine.write(items[0].block as u64, &data);
            return self.world.written(call, done);
        }
        let mut filling = Filling {
            transaction: engine.begin(),
            patches: Vec::new(),
            own: BTreeMap::new(),
        };
        for item in items {
            filling.change(item, self.shape.block_bytes)?;
        }
        filling.check_own_reads()?;
        if abort {
            filling.transaction.abort();
            return Ok(());
        }
        let call = self.world.call(Operation::Write(filling.patches));
        let done = filling.transaction.commit();
        self.world.written(call, done)
    }

    /// What an update says is not to be changed must not change until it is committed.
    fn lock_updates(&self, items: &[Item]) -> Vec<MutexGuard<'_, ()>> {
        let roles = self.shape.engine.expect("engines have it").roles;
        let blocks: BTreeSet<usize> = items.iter().map(|item| item.block).collect();
        let updated = blocks
            .into_iter()
            .filter(|&block| roles.of(block) != Role::Data);
        updated
            .map(|block| self.engine.lock_updates(block))
            .collect()
    }

    fn read(&self, block: usize, count: usize) -> Result<(), Error> {
        let block_bytes = self.shape.block_bytes;
        let mut buffer = vec![0; block_bytes * count];
        // Every block is read at some moment; not all of them at the same.
        let calls: Vec<usize> = (block..block + count)
            .map(|block| {
                self.world.call(Operation::Read {
                    block,
                    found: Vec::new(),
                })
            })
            .collect();
        let done = self.engine.engine().read(block as u64, &mut buffer);
        for (call, bytes) in calls.into_iter().zip(buffer.chunks(block_bytes)) {
            match &done {
                Ok(()) => self
                    .world
                    .returned(call, Outcome::Done, vec![bytes.to_vec()]),
                Err(_) => self.world.returned(call, Outcome::Refused, Vec::new()),
            }
        }
        done
    }
}

impl Filling<'_> {
    fn change(&mut self, item: &Item, block_bytes: usize) -> forebay::Result<()> {
        let block = item.block as u64;
        let bytes = match item.change {
            Change::Similar(seed) => {
                let mut bytes = vec![0; block_bytes];
                self.transaction.read(block, &mut bytes)?;
                make_similar(&mut bytes, seed);
                bytes
            }
            Change::Update(seed) => return self.update(item.block, seed, block_bytes),
            change => whole_content(change, block_bytes)
                .unwrap_or_else(|| unreachable!("scripts for engines have no {change:?}")),
        };
        self.transaction.write(block, &bytes)?;
        self.own.insert(item.block, bytes.clone());
        self.patches.push(Patch {
            block: item.block,
            offset: 0,
            bytes,
        });
        Ok(())
    }

    /// New bytes for one to three ranges, as many as an inode or a few bytes long. The oracle is told
    /// of these alone: what else is in the block is the engine's to keep.
    fn update(&mut self, block: usize, seed: u64, block_bytes: usize) -> forebay::Result<()> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut bytes = vec![0; block_bytes];
        self.transaction.read(block as u64, &mut bytes)?;
        let ranges: Vec<Range<usize>> = (0..rng.usize(1..=3))
            .map(|_| {
                let start = rng.usize(..block_bytes);
                let len = [8, 40, 64, 100][rng.usize(..4)];
                start..(start + rng.usize(1..=len)).min(block_bytes)
            })
            .collect();
        for range in &ranges {
            let new = noise(rng.u64(..), range.len());
            bytes[range.clone()].copy_from_slice(&new);
            self.patches.push(Patch {
                block,
                offset: range.start,
                bytes: new,
            });
        }
        self.transaction.update(block as u64, &bytes, &ranges)?;
        self.own.insert(block, bytes);
        Ok(())
    }

    /// A transaction reads what it wrote.
    fn check_own_reads(&self) -> forebay::Result<()> {
        for (block, own) in &self.own {
            let mut bytes = vec![0; own.len()];
            self.transaction.read(*block as u64, &mut bytes)?;
            assert!(
                bytes == *own,
                "block {block} is not what its transaction wrote"
            );
        }
        Ok(())
    }
}
