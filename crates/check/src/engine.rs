//! The calls that the checker makes into an engine of the lab, the image that it starts from, and what an actor
//! asks of it and notes about the answers.

use crate::cache::{Actor, Cache};
use crate::content::{make_similar, noise, one_call, whole_content};
use crate::engine_shape::{EngineShape, INODE_BYTES, Role};
use crate::image::Image;
use crate::oracle::{Operation, Outcome, Patch};
use crate::refusal::Refusal;
use crate::scenario::{Change, Item, Shape, Step};
use crate::world::World;
use forebay::{Backing, Error, ErrorKind};
use forebay_lab::engines::EngineOptions;
use forebay_lab::{Engine, EngineTransaction};
use forebay_pmem::Region;
use forebay_pmem::shadow::{Shadow, ShadowModel};
use forebay_volatile::VolatileDisk;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// By how much a region grows until an engine has as many slots in it as its shape says.
const REGION_STEP_BYTES: u64 = 256;
/// A region that is too small even so.
const REGION_BYTES_MAX: u64 = 1 << 20;

/// An engine that runs; nothing happens in it but what is asked for.
pub struct OpenEngine {
    engine: Box<dyn Engine>,
    /// A file system lets one of its threads at a time update a block of metadata.
    updates: Vec<Mutex<()>>,
}

fn options(shape: &Shape, engine: &EngineShape) -> EngineOptions {
    EngineOptions {
        block_bytes: shape.block_bytes,
        ring_elements: Some(engine.ring_elements),
        inode_bytes: INODE_BYTES,
        journal_blocks: Some(engine.journal_blocks as u64),
        set_blocks: engine.set_blocks,
        as_printed: engine.as_printed,
        cleaner: engine.cleaner,
        fill_on_read: shape.fill_on_read,
        background: false,
        ..EngineOptions::default()
    }
}

/// What an engine leaves to chance is the same in every run of an incarnation.
fn repeat_choices(incarnation: u64) {
    forebay::unstable::set_thread_hint(0);
    forebay::unstable::set_random_seed(Some(incarnation));
}

/// Opens the engine on `region`, or makes it anew over whatever that holds.
pub fn open(
    shape: &Shape,
    engine: &EngineShape,
    incarnation: u64,
    on: (Region, Backing),
    anew: bool,
) -> Result<OpenEngine, Refusal> {
    repeat_choices(incarnation);
    let options = EngineOptions {
        accept_stale: anew,
        ..options(shape, engine)
    };
    let made = engine.maker.start(on, &options, anew);
    let made = made.map_err(|error| Refusal::new("open", &error))?;
    let disk_bytes = (shape.volume_blocks * shape.block_bytes) as u64;
    if (made.size_bytes(), made.block_bytes()) != (disk_bytes, shape.block_bytes) {
        return Err(format!(
            "a disk of {} bytes in blocks of {}, not of {disk_bytes} in blocks of {}",
            made.size_bytes(),
            made.block_bytes(),
            shape.block_bytes
        )
        .into());
    }
    Ok(OpenEngine {
        engine: made,
        updates: (0..shape.volume_blocks).map(|_| Mutex::default()).collect(),
    })
}

/// An engine of `shape` that holds nothing, over a backing that holds `stores`, in the smallest
/// region that has room for its slots.
pub fn template(
    shape: &Shape,
    engine: &EngineShape,
    stores: Vec<Vec<u8>>,
) -> Result<Image, String> {
    let mut region_bytes = (shape.slots * shape.block_bytes) as u64;
    region_bytes = region_bytes.next_multiple_of(REGION_STEP_BYTES);
    loop {
        let shadow = Arc::new(Shadow::new(region_bytes, ShadowModel::Lines));
        let sector_bytes = shape.sector_bytes();
        let disk = VolatileDisk::new("volume-0", &stores[0], sector_bytes);
        let store = Arc::new(disk.with_mark(Vec::new()));
        let region = Region::on_shadow(Arc::clone(&shadow));
        let backing = Backing::from_store(store.clone());
        let made = open(shape, engine, u64::MAX, (region, backing), true);
        let has_room = match &made {
            Ok(made) => made.engine.stats().slots >= shape.slots as u64,
            Err(_) => false,
        };
        if has_room {
            let state = store.crash_state();
            return Ok(Image {
                media: vec![shadow.crash_state().durable().to_vec()],
                stores: vec![state.durable()],
                marks: vec![state.mark.durable()],
                ..Image::default()
            });
        }
        region_bytes += REGION_STEP_BYTES;
        if region_bytes > REGION_BYTES_MAX {
            let refusal = made.err().map(|refusal| refusal.text).unwrap_or_default();
            return Err(format!("create {} of {shape:?}: {refusal}", engine.maker));
        }
    }
}

impl OpenEngine {
    /// Waits until no other actor updates this block.
    fn lock_updates(&self, block: usize) -> MutexGuard<'_, ()> {
        forebay_pmem::lock_or_yield(&self.updates[block])
    }

    /// Lets errors pass that were asked for; every other one is a violation.
    fn excuse(&self, world: &World, error: Error) -> Result<(), String> {
        match error.kind() {
            ErrorKind::Backing { .. } | ErrorKind::NoSpace { .. } | ErrorKind::Stalled { .. }
                if world.has_failing_stores() =>
            {
                Ok(())
            }
            ErrorKind::Media(_) | ErrorKind::Poisoned { .. } if world.has_failed_fences() => Ok(()),
            _ => Err(error.to_string()),
        }
    }

    /// Reads a block.
    fn block(&self, block: usize) -> forebay::Result<Vec<u8>> {
        let mut bytes = vec![0; self.engine.block_bytes()];
        self.engine.read(block as u64, &mut bytes)?;
        Ok(bytes)
    }

    /// Brings everything to the backing, which then has to hold it alone.
    fn drain(&self, store: &VolatileDisk) -> forebay::Result<Result<(), String>> {
        self.engine.flush()?;
        let dirty_blocks = self.engine.stats().dirty_blocks;
        if dirty_blocks > 0 {
            return Ok(Err(format!(
                "{dirty_blocks} blocks are dirty after a flush"
            )));
        }
        let state = store.crash_state();
        let durable = state.durable();
        let on_disk = durable.chunks(self.engine.block_bytes());
        for (block, on_disk) in (0..self.updates.len()).zip(on_disk) {
            if self.block(block)? != on_disk {
                let text = format!("the backing does not have block {block} after a flush");
                return Ok(Err(text));
            }
        }
        Ok(Ok(()))
    }
}

impl Cache for OpenEngine {
    fn actor<'a>(&'a self, world: &'a World, shape: &'a Shape) -> Box<dyn Actor + 'a> {
        Box::new(EngineActor {
            world,
            shape,
            engine: self,
        })
    }

    fn read_block(&self, _: &Shape, _: usize, block: usize) -> forebay::Result<Option<Vec<u8>>> {
        self.block(block).map(Some)
    }

    fn check(&self) -> Result<(), String> {
        let stats = self.engine.stats();
        if stats.dirty_blocks <= stats.cached_blocks && stats.cached_blocks <= stats.slots {
            return Ok(());
        }
        Err(format!("more dirty than cached than slots: {stats:?}"))
    }

    fn empty(&self, stores: &[Arc<VolatileDisk>]) -> Result<(), String> {
        let drained = self.drain(&stores[0]);
        drained.map_err(|error| format!("flush after recovery: {error}"))?
    }

    fn close(self: Box<Self>, world: &World) -> Result<(), String> {
        match self.drain(world.store(0)) {
            Ok(verdict) => verdict,
            Err(error) => self
                .excuse(world, error)
                .map_err(|error| format!("close: {error}")),
        }
    }
}

/// Transactions without an outcome after which no more are tried: each doubles what the oracle has
/// to keep.
const OPEN_MAX: usize = 3;

/// One actor.
struct EngineActor<'a> {
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
            Step::Flush(_) => self.engine.engine.flush(),
            Step::Background(_) => self.engine.engine.background_turn(),
            _ => unreachable!("scripts for engines have no {step:?}"),
        };
        done.or_else(|error| self.engine.excuse(self.world, error))
    }
}

impl EngineActor<'_> {
    fn transact(&self, items: &[Item], abort: bool) -> Result<(), Error> {
        if self.world.open_for_good() >= OPEN_MAX {
            return Ok(());
        }
        let engine = &self.engine.engine;
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
        let done = self.engine.engine.read(block as u64, &mut buffer);
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
