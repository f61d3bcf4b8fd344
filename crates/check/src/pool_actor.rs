//! What an actor asks of a pool, and what it notes about the answers.

use crate::content::{make_similar, noise, one_call, whole_content};
use crate::oracle::{Operation, Outcome, Patch};
use crate::pool::OpenPool;
use crate::scenario::{Change, Item, Shape, Step};
use crate::world::World;
use forebay::Transaction;
use std::collections::BTreeMap;

/// Operations without an outcome after which no more discards are tried: they may fail in parts, and
/// each part doubles what the oracle has to keep.
const OPEN_MAX: usize = 4;

/// One actor.
pub struct PoolActor<'a> {
    world: &'a World,
    shape: &'a Shape,
    pool: &'a OpenPool,
    /// (volume, block): where this actor's next append begins.
    ends: BTreeMap<(usize, usize), usize>,
}

impl<'a> PoolActor<'a> {
    /// An actor that has done nothing yet.
    pub fn new(world: &'a World, shape: &'a Shape, pool: &'a OpenPool) -> PoolActor<'a> {
        PoolActor {
            world,
            shape,
            pool,
            ends: BTreeMap::new(),
        }
    }

    /// Does one step; the error is a violation in words.
    pub fn act(&mut self, step: &Step) -> Result<(), String> {
        let pool = self.pool;
        let done = match step {
            Step::Transaction {
                volume,
                items,
                abort,
            } => self.transact(*volume, items, *abort),
            Step::Read { volume, block } => self.read(*volume, *block, 1),
            Step::ReadAtomic {
                volume,
                block,
                count,
            } => self.read(*volume, *block, *count),
            Step::DiscardRange {
                volume,
                block,
                count,
            } => self.discard(*volume, *block, *count),
            Step::WriteBack => pool.write_back(),
            Step::Reclaim(blocks) => pool.reclaim(*blocks),
            Step::Checkpoint => pool.checkpoint(),
            Step::Flush(volume) => pool.volume(*volume).flush(),
            Step::Detach(volume) => pool.detach(*volume, self.world.backing(*volume)),
            Step::GrowVolume(volume) => pool.grow_volume(*volume),
            Step::SwitchReplacement => {
                pool.switch_replacement();
                Ok(())
            }
            Step::FailStore {
                volume,
                writes,
                syncs,
            } => {
                self.world.fail_store(*volume, *writes, *syncs);
                Ok(())
            }
            Step::FailFence { after } => {
                self.world.fail_fence(*after);
                Ok(())
            }
            Step::ReadRange { .. } => unreachable!("scripts for pools have no {step:?}"),
        };
        done.or_else(|error| self.excuse(error))
    }

    /// Lets errors pass that were asked for; every other one is a violation.
    fn excuse(&self, error: forebay::Error) -> Result<(), String> {
        use forebay::Error::{Backing, Media, NoSpace, OutOfRange, Poisoned, Volume};
        let has_small_volumes = self.shape.first_blocks < self.shape.volume_blocks;
        match error {
            Volume(_) if self.pool.has_detached() => Ok(()),
            OutOfRange { .. } if has_small_volumes => Ok(()),
            // A script may well fill the pool.
            Backing { .. } | NoSpace { .. } => Ok(()),
            Media(_) | Poisoned { .. } if self.world.has_failed_fences() => Ok(()),
            error => Err(error.to_string()),
        }
    }

    fn transact(
        &mut self,
        volume: usize,
        items: &[Item],
        abort: bool,
    ) -> Result<(), forebay::Error> {
        let handle = self.pool.volume(volume);
        let items = &items[..items.len().min(self.pool.transaction_blocks_max())];
        if let (false, Some(patches)) = (abort, self.one_call(volume, items)) {
            let data: Vec<u8> = patches.iter().flat_map(|p| p.bytes.clone()).collect();
            let call = self.world.call(Operation::Write(patches));
            let done = handle.write(items[0].block as u64, &data);
            return self.world.written(call, done);
        }
        let mut transaction = handle.begin();
        let mut patches = Vec::new();
        for item in items {
            self.change(&mut transaction, volume, item, &mut patches)?;
        }
        if abort {
            transaction.abort();
            return Ok(());
        }
        let call = self.world.call(Operation::Write(patches));
        let done = transaction.commit();
        self.world.written(call, done)
    }

    /// As [`one_call`], and no append goes on in these blocks.
    fn one_call(&mut self, volume: usize, items: &[Item]) -> Option<Vec<Patch>> {
        let index = |block| self.shape.block_index(volume, block);
        let patches = one_call(items, self.shape.block_bytes, index)?;
        for item in items {
            self.ends.remove(&(volume, item.block));
        }
        Some(patches)
    }

    fn read(&self, volume: usize, block: usize, count: usize) -> Result<(), forebay::Error> {
        let block_bytes = self.shape.block_bytes;
        let mut buffer = vec![0; block_bytes * count];
        let call = self.world.call(Operation::Read {
            block: self.shape.block_index(volume, block),
            found: Vec::new(),
        });
        // After the call: a read through the handle of a volume that is gone is as old as the handle.
        let handle = self.pool.volume(volume);
        let done = if count == 1 {
            handle.read(block as u64, &mut buffer)
        } else {
            handle.read_atomic(block as u64, &mut buffer)
        };
        let first = self.shape.block_index(volume, block);
        let is_unsettled = self.world.is_unsettled(first..first + count);
        let (outcome, found) = match &done {
            // It proves nothing then.
            Ok(_) if is_unsettled => (Outcome::Refused, Vec::new()),
            Ok(_) => (
                Outcome::Done,
                buffer.chunks(block_bytes).map(<[u8]>::to_vec).collect(),
            ),
            Err(_) => (Outcome::Refused, Vec::new()),
        };
        self.world.returned(call, outcome, found);
        done.map(drop)
    }

    /// A discard behind transactions: every sector for itself, and open if it fails.
    fn discard(&mut self, volume: usize, block: usize, count: usize) -> Result<(), forebay::Error> {
        let has_room = (block + count) as u64 <= self.pool.volume(volume).blocks();
        if self.world.open_for_good() >= OPEN_MAX || !has_room {
            return Ok(());
        }
        let sector_bytes = self.shape.sector_bytes();
        let mut calls = Vec::new();
        for number in block..block + count {
            self.ends.remove(&(volume, number));
            for offset in (0..self.shape.block_bytes).step_by(sector_bytes) {
                let patch = Patch {
                    block: self.shape.block_index(volume, number),
                    offset,
                    bytes: vec![0; sector_bytes],
                };
                calls.push(self.world.call(Operation::Write(vec![patch])));
            }
        }
        let first = self.shape.block_index(volume, block);
        self.world.set_unsettled(first..first + count, true);
        let handle = self.pool.volume(volume);
        let done = handle.discard(block as u64..(block + count) as u64);
        self.world
            .set_unsettled(first..first + count, done.is_err());
        for call in calls {
            let outcome = match &done {
                Ok(_) => Outcome::Done,
                Err(_) => Outcome::Unknown,
            };
            self.world.returned(call, outcome, Vec::new());
        }
        done.map(drop)
    }

    fn change(
        &mut self,
        transaction: &mut Transaction<'_>,
        volume: usize,
        item: &Item,
        patches: &mut Vec<Patch>,
    ) -> forebay::Result<()> {
        let block_bytes = self.shape.block_bytes;
        let block = item.block as u64;
        let start = block * block_bytes as u64;
        let mut patch = Patch {
            block: self.shape.block_index(volume, item.block),
            offset: 0,
            bytes: Vec::new(),
        };
        match item.change {
            Change::Whole(_) | Change::Known(_) => {
                patch.bytes = whole_content(item.change, block_bytes).expect("it is whole");
                transaction.write(block, &patch.bytes)?;
                self.ends.remove(&(volume, item.block));
            }
            Change::Similar(seed) => {
                patch.bytes = vec![0; block_bytes];
                transaction.read(block, &mut patch.bytes)?;
                make_similar(&mut patch.bytes, seed);
                transaction.write(block, &patch.bytes)?;
            }
            Change::Part { offset, len, seed } => {
                patch.bytes = noise(seed, len);
                patch.offset = offset;
                transaction.write_at(start + offset as u64, &patch.bytes)?;
            }
            Change::Append { len, seed } => {
                let end = self.ends.entry((volume, item.block)).or_insert(0);
                patch.offset = *end;
                let len = len.min(block_bytes - *end);
                patch.bytes = noise(seed, len);
                transaction.append(block, *end, &patch.bytes)?;
                // What lies behind appended bytes is zero.
                patch.bytes.resize(block_bytes - *end, 0);
                *end = (*end + len) % block_bytes;
            }
            Change::Discard => {
                patch.bytes = vec![0; block_bytes];
                transaction.discard(block..block + 1)?;
                self.ends.remove(&(volume, item.block));
            }
            Change::Update(_) => unreachable!("scripts for pools have no {item:?}"),
        }
        patches.push(patch);
        Ok(())
    }
}
