//! A pool as one of the caches that are crashed: what an actor asks of it, and what it notes about the answers.

use crate::cache::{Actor, Cache};
use crate::content::{make_similar, noise, one_call, whole_content};
use crate::image::Standing;
use crate::lost;
use crate::oracle::{Operation, Outcome, Patch};
use crate::pool::OpenPool;
use crate::scenario::{Change, Item, Shape, Step};
use crate::world::World;
use forebay::unstable::{self, MediumArea};
use forebay::{MemberState, Transaction};
use forebay_pmem::PAGE_BYTES;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Operations without an outcome after which no more discards are tried: they may fail in parts, and
/// each part doubles what the oracle has to keep.
const OPEN_MAX: usize = 4;

/// How a violation begins that is a false alarm.
pub const FALSE_DAMAGE: &str = "false damage";

/// One actor.
pub(crate) struct PoolActor<'a> {
    pub(crate) world: &'a World,
    pub(crate) shape: &'a Shape,
    pub(crate) pool: &'a OpenPool,
    /// (volume, block): where this actor's next append begins.
    ends: BTreeMap<(usize, usize), usize>,
}

impl Cache for OpenPool {
    fn actor<'a>(&'a self, world: &'a World, shape: &'a Shape) -> Box<dyn Actor + 'a> {
        Box::new(PoolActor {
            world,
            shape,
            pool: self,
            ends: BTreeMap::new(),
        })
    }

    fn evict_clean(&self, blocks: usize) -> Result<(), String> {
        (0..blocks)
            .try_for_each(|_| self.pool.reclaim_once(1).map(drop))
            .map_err(|error| format!("reclaim after recovery: {error}"))
    }

    fn read_block(
        &self,
        shape: &Shape,
        volume: usize,
        block: usize,
    ) -> forebay::Result<Option<Vec<u8>>> {
        let handle = self.volume(volume);
        if block as u64 >= handle.blocks() {
            return Ok(None);
        }
        let mut bytes = vec![0; shape.block_bytes];
        handle.read(block as u64, &mut bytes)?;
        bytes.truncate(shape.bytes_of(handle.size_bytes(), block));
        Ok(Some(bytes))
    }

    fn check(&self) -> Result<(), String> {
        self.assert_left_refuse();
        match self.pool.check(|_, _| {}) {
            (_, bad) if bad.is_empty() => Ok(()),
            (_, bad) => Err(format!("blocks {bad:?} do not match their checks")),
        }
    }

    fn check_undamaged(&self) -> Result<(), String> {
        match self.scrub() {
            Ok(false) => Ok(()),
            Ok(true) => Err(format!(
                "{FALSE_DAMAGE}: a scrub found something, and nothing went wrong"
            )),
            Err(error) => Err(format!("scrub: {error}")),
        }
    }

    fn check_nothing_dirty(&self) -> Result<(), String> {
        match self.pool.stats().dirty_blocks {
            0 => Ok(()),
            dirty => Err(format!(
                "the marks say whole, and {dirty} blocks are dirty that may be older than the backings"
            )),
        }
    }

    fn close(self: Box<Self>, world: &World) -> Result<(), String> {
        let is_excused = |error: &forebay::Error| {
            matches!(error.kind(), forebay::ErrorKind::Backing { .. }) && world.has_failing_stores()
        };
        match OpenPool::close(*self) {
            Err(error) if is_excused(&error) => Ok(()),
            Err(error) if world.harming().is_on() => {
                world.harming().note_error(format!("close: {error}"));
                Ok(())
            }
            Err(error) if !world.has_failed_fences() && !world.has_lost_pages() => {
                Err(format!("close: {error}"))
            }
            _ => Ok(()),
        }
    }
}

impl Actor for PoolActor<'_> {
    fn act(&mut self, step: &Step) -> Result<(), String> {
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
            Step::WriteBack => pool.pool.write_back_once().map(drop),
            Step::Background(thread) => unstable::background_turn(&pool.pool, *thread),
            Step::Reclaim(blocks) => pool.pool.reclaim_once(*blocks).map(drop),
            Step::Checkpoint => pool.pool.checkpoint(),
            Step::Flush(volume) => pool.volume(*volume).flush(),
            Step::Detach(volume) => pool.detach(*volume, self.world.backing(*volume)),
            Step::GrowVolume(volume) => {
                let volume = pool.volume(*volume);
                pool.pool.grow_volume(&volume).map(drop)
            }
            Step::Forget { volume, block } => self.forget(*volume, *block),
            Step::AppendWord {
                volume,
                block,
                len,
                word_at,
                seed,
            } => self.append_word(*volume, (*block, *len), *word_at, *seed),
            Step::SwitchReplacement => {
                pool.switch_replacement();
                Ok(())
            }
            Step::LosePage { member, page } => {
                let dirty = lost::dirty_blocks(self.shape, |volume| pool.volume(volume));
                self.world.lose_page(*member, *page, dirty);
                unstable::load(&pool.pool, *member, page * PAGE_BYTES as u64);
                Ok(())
            }
            Step::LoseSlot { member, pick } => {
                lost::lose_slot(self.world, pool, (self.shape, *member, *pick));
                Ok(())
            }
            Step::Harm(harm) => {
                let mut map = pool.medium_map(self.shape, harm.member);
                if self.shape.sealed {
                    // What tells that the last record was committed has no copy.
                    map.spare(MediumArea::CommitWords);
                }
                self.world.harm(*harm, &map);
                Ok(())
            }
            Step::Scrub => self.scrub(),
            Step::FailMember(member) => self.fail_member(*member),
            Step::ReplaceMember { member, is_blank } => self.replace_member(*member, *is_blank),
            Step::ReadRange { block, count } => self.read_range(*block, *count),
            Step::FailStore { .. } | Step::FailFence { .. } | Step::Evict => {
                unreachable!("scripts for pools have no {step:?}")
            }
        };
        done.or_else(|error| self.excuse(error))
    }
}

impl PoolActor<'_> {
    /// Lets errors pass that were asked for; every other one is a violation.
    fn excuse(&self, error: forebay::Error) -> Result<(), String> {
        use forebay::ErrorKind::{
            Backing, Corrupt, Damaged, Media, NoSpace, OutOfRange, Poisoned, Stale, Stalled, Volume,
        };
        let has_lost_pages = self.world.has_lost_pages();
        let has_small_volumes = self.shape.first_blocks < self.shape.volume_blocks;
        match error.kind() {
            Volume(_) if self.pool.has_detached() => Ok(()),
            OutOfRange { .. } if has_small_volumes => Ok(()),
            // A script may well fill the pool.
            Backing { .. } | NoSpace { .. } | Stalled { .. } => Ok(()),
            Media(_) | Poisoned { .. } if self.world.has_failed_fences() || has_lost_pages => {
                Ok(())
            }
            // Which reads may fail so, they say themselves.
            Corrupt { .. } | Damaged { .. } if has_lost_pages => Ok(()),
            Media(_) | Poisoned { .. } | Corrupt { .. } | Damaged { .. } | Stale { .. }
                if self.world.harming().is_on() =>
            {
                self.world.harming().note_error(error.to_string());
                Ok(())
            }
            _ => Err(error.to_string()),
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
            let call = self.call(patches);
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
        let call = self.call(patches);
        let done = transaction.commit();
        self.world.written(call, done)
    }

    /// As [`one_call`], and no append goes on in these blocks.
    fn one_call(&mut self, volume: usize, items: &[Item]) -> Option<Vec<Patch>> {
        let index = |block| self.shape.block_index(volume, block);
        let mut patches = one_call(items, self.shape.block_bytes, index)?;
        for (item, patch) in items.iter().zip(&mut patches) {
            self.ends.remove(&(volume, item.block));
            self.keep_tail(volume, item.block, &mut patch.bytes);
        }
        Some(patches)
    }

    fn scrub(&self) -> Result<(), forebay::Error> {
        self.world.set_scrubbing(true);
        let scrubbed = self.pool.scrub();
        self.world.set_scrubbing(false);
        if matches!(scrubbed, Ok(true)) {
            self.world.harming().note_told();
            assert!(
                self.world.may_be_damaged(),
                "{FALSE_DAMAGE}: a scrub found something, and nothing went wrong"
            );
        }
        scrubbed.map(drop)
    }

    /// Takes a member out, if all are there and in.
    fn fail_member(&self, member: u32) -> Result<(), forebay::Error> {
        let standings = self.world.standings();
        let are_all_there = self.shape.mirrored && standings.len() == self.shape.members;
        if !are_all_there || standings.iter().any(|one| *one != Standing::In) {
            return Ok(());
        }
        self.world.note_standing(member as usize, Standing::Out);
        // A person who takes a member out has seen that the others are well.
        for (lost, pages) in self.world.lost_pages().iter().enumerate() {
            for page in pages {
                unstable::load(&self.pool.pool, lost, *page);
            }
        }
        let failed = self.pool.pool.fail_member(member);
        match failed {
            // It has the only half of a block.
            Err(error) if self.world.has_lost_pages() && is_of_member(&error) => {
                self.world.note_standing(member as usize, Standing::In);
                Ok(())
            }
            failed => failed,
        }
    }

    /// Rebuilds a member that is out, if it is there.
    fn replace_member(&self, number: u32, is_blank: bool) -> Result<(), forebay::Error> {
        let member = number as usize;
        let members = self.pool.pool.members();
        let is_out = members[member].state == MemberState::Out;
        if self.world.standings().len() < self.shape.members || !is_out {
            return Ok(());
        }
        let region = self.world.region_to_rebuild(member, is_blank);
        if is_blank {
            self.world.note_standing(member, Standing::New);
        }
        self.world.set_rebuilding(true);
        let watcher = &mut |_| ControlFlow::Continue(());
        let done = self.pool.pool.replace_member_on(number, region, watcher);
        self.world.set_rebuilding(false);
        if done.is_ok() {
            self.world.note_standing(member, Standing::In);
        }
        match done {
            Err(error)
                if is_of_member(&error)
                    && (self.world.has_failed_fences() || self.world.has_lost_pages()) =>
            {
                Ok(())
            }
            done => done,
        }
    }

    /// A discard behind transactions: every sector for itself, and open if it fails.
    fn discard(&mut self, volume: usize, block: usize, count: usize) -> Result<(), forebay::Error> {
        let blocks = block..block + count;
        let is_odd = self
            .shape
            .odd_end()
            .is_some_and(|(block, _)| blocks.contains(&block));
        let has_room = !is_odd && blocks.end as u64 <= self.pool.volume(volume).blocks();
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
                calls.push(self.call(vec![patch]));
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

    /// Notes that a write begins. Of what it brings the oracle hears what the backing has room for.
    fn call(&self, mut patches: Vec<Patch>) -> usize {
        for patch in &mut patches {
            let block = patch.block % self.shape.volume_blocks;
            let valid_bytes = self.shape.bytes_of(u64::MAX, block);
            patch.offset = patch.offset.min(valid_bytes);
            patch.bytes.truncate(valid_bytes - patch.offset);
        }
        self.world.call(Operation::Write(patches))
    }

    /// Where a volume ends within a block, a whole block brings what the backing has behind that end:
    /// it makes no difference then whether the volume grows before or after it is written.
    fn keep_tail(&self, volume: usize, block: usize, bytes: &mut [u8]) {
        if let Some((odd, end)) = self.shape.odd_end()
            && odd == block
        {
            bytes[end..].copy_from_slice(self.world.tail(volume));
        }
    }

    /// What a block had in the pool alone is gone; it is what the backing has of it.
    fn forget(&mut self, volume: usize, block: usize) -> Result<(), forebay::Error> {
        let size_bytes = self.pool.volume(volume).size_bytes();
        let start = block * self.shape.block_bytes;
        let end = start + self.shape.bytes_of(size_bytes, block);
        let behind = self.world.store(volume).settled_bytes(start..end);
        let Some(bytes) = behind.filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        self.ends.remove(&(volume, block));
        let patch = Patch {
            block: self.shape.block_index(volume, block),
            offset: 0,
            bytes,
        };
        let call = self.call(vec![patch]);
        let done = self.pool.volume(volume).forget_blocks([block as u64]);
        self.world.written(call, done)
    }

    fn append_word(
        &mut self,
        volume: usize,
        (block, len): (usize, usize),
        word_at: usize,
        seed: u64,
    ) -> Result<(), forebay::Error> {
        let shape = self.shape;
        let word_block = word_at / shape.block_bytes;
        let odd_end = shape.odd_end().map(|(block, _)| block);
        let is_odd = odd_end.is_some_and(|odd| [block, word_block].contains(&odd));
        if is_odd || self.pool.transaction_blocks_max() < 2 {
            return Ok(());
        }
        let valid_bytes = shape.bytes_of(u64::MAX, block);
        let end = self.ends.entry((volume, block)).or_insert(0);
        let (offset, len) = (*end, len.min(valid_bytes - *end));
        *end = (*end + len) % valid_bytes;
        let mut appended = Patch {
            block: shape.block_index(volume, block),
            offset,
            bytes: noise(seed, len),
        };
        let data = appended.bytes.clone();
        // What lies behind appended bytes is zero.
        appended.bytes.resize(shape.block_bytes - offset, 0);
        let word: [u8; 8] = seed.to_le_bytes();
        let patch = Patch {
            block: shape.block_index(volume, word_block),
            offset: word_at % shape.block_bytes,
            bytes: word.to_vec(),
        };
        let patches = vec![appended, patch];
        let handle = self.pool.volume(volume);
        let call = self.call(patches.clone());
        let done =
            handle.append_with_word(block as u64, offset, &data, Some((word_at as u64, word)));
        if !matches!(done, Ok(false)) {
            return self.world.written(call, done.map(drop));
        }
        self.world.returned(call, Outcome::Refused, Vec::new());
        let mut transaction = handle.begin();
        transaction.append(block as u64, offset, &data)?;
        transaction.write_at(word_at as u64, &word)?;
        let call = self.call(patches);
        let done = transaction.commit();
        self.world.written(call, done)
    }

    fn change(
        &mut self,
        transaction: &mut Transaction<'_>,
        volume: usize,
        item: &Item,
        patches: &mut Vec<Patch>,
    ) -> forebay::Result<()> {
        let block_bytes = self.shape.block_bytes;
        let valid_bytes = self.shape.bytes_of(u64::MAX, item.block);
        let block = item.block as u64;
        let start = block * block_bytes as u64;
        let odd_end = self.shape.odd_end().filter(|(odd, _)| *odd == item.block);
        let (change, valid_bytes) = match (item.change, odd_end) {
            // Whether the bytes behind the end go with it depends on when it is done.
            (Change::Append { seed, .. }, Some(_)) => (Change::Whole(seed), valid_bytes),
            (Change::Discard, Some(_)) => (Change::Whole(block), valid_bytes),
            (change, Some((_, end))) => (change, end),
            (change, None) => (change, valid_bytes),
        };
        let mut patch = Patch {
            block: self.shape.block_index(volume, item.block),
            offset: 0,
            bytes: Vec::new(),
        };
        match change {
            Change::Whole(_) | Change::Known(_) => {
                patch.bytes = whole_content(change, block_bytes).expect("it is whole");
                self.keep_tail(volume, item.block, &mut patch.bytes);
                transaction.write(block, &patch.bytes)?;
                self.ends.remove(&(volume, item.block));
            }
            Change::Similar(seed) => {
                patch.bytes = vec![0; block_bytes];
                transaction.read(block, &mut patch.bytes)?;
                make_similar(&mut patch.bytes, seed);
                self.keep_tail(volume, item.block, &mut patch.bytes);
                transaction.write(block, &patch.bytes)?;
            }
            Change::Copy(from) => {
                patch.bytes = vec![0; block_bytes];
                transaction.read(from as u64, &mut patch.bytes)?;
                transaction.write(block, &patch.bytes)?;
                self.ends.remove(&(volume, item.block));
            }
            Change::Part { offset, len, seed } => {
                patch.offset = offset.min(valid_bytes - 1);
                patch.bytes = noise(seed, len.min(valid_bytes - patch.offset));
                transaction.write_at(start + patch.offset as u64, &patch.bytes)?;
            }
            Change::Append { len, seed } => {
                let end = self.ends.entry((volume, item.block)).or_insert(0);
                patch.offset = *end;
                let len = len.min(valid_bytes - *end);
                patch.bytes = noise(seed, len);
                transaction.append(block, *end, &patch.bytes)?;
                // What lies behind appended bytes is zero.
                patch.bytes.resize(block_bytes - *end, 0);
                *end = (*end + len) % valid_bytes;
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

/// Whether it is the member that failed, which was to be rebuilt.
fn is_of_member(error: &forebay::Error) -> bool {
    use forebay::ErrorKind::{Options, Refused};
    matches!(error.kind(), Options(_) | Refused { .. })
}
