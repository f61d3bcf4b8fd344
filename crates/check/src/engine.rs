//! The calls that the checker makes into an engine of the lab, and the image that it starts from.

use crate::engine_actor::EngineActor;
use crate::engine_scenario::{EngineShape, INODE_BYTES};
#[cfg(test)]
use crate::faulty;
use crate::scenario::Shape;
use crate::subject::{Actor, Cache, Refusal};
use crate::world::{Image, World};
use forebay::{Backing, Error};
use forebay_lab::Engine;
use forebay_lab::engines::{self, EngineName, EngineOptions};
use forebay_pmem::Region;
use forebay_pmem::shadow::{Shadow, ShadowModel};
use forebay_volatile::VolatileDisk;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

/// By how much a region grows until an engine has as many slots in it as its shape says.
const REGION_STEP_BYTES: u64 = 256;
/// A region that is too small even so.
const REGION_BYTES_MAX: u64 = 1 << 20;

/// What makes and opens an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Maker {
    /// The lab.
    Lab(EngineName),
    /// One of its engines, perhaps with a fault around it.
    #[cfg(test)]
    Faulty(faulty::Fault),
}

impl Maker {
    /// Whether the engine has a journal on the disk.
    pub fn has_journal(self) -> bool {
        self == Maker::Lab(EngineName::Classic)
    }

    fn create(
        self,
        region: Region,
        backing: Backing,
        options: &EngineOptions,
    ) -> forebay::Result<Box<dyn Engine>> {
        match self {
            Maker::Lab(name) => engines::create(name, region, backing, options),
            #[cfg(test)]
            Maker::Faulty(fault) => faulty::start(fault, region, backing, options, true),
        }
    }

    fn open(
        self,
        region: Region,
        backing: Backing,
        options: &EngineOptions,
    ) -> forebay::Result<Box<dyn Engine>> {
        match self {
            Maker::Lab(name) => engines::open(name, region, backing, options),
            #[cfg(test)]
            Maker::Faulty(fault) => faulty::start(fault, region, backing, options, false),
        }
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The name alone is the pool's, without the engine's trait before it.
            Maker::Lab(EngineName::Forebay) => f.write_str("forebay-engine"),
            Maker::Lab(name) => f.write_str(name.as_str()),
            #[cfg(test)]
            Maker::Faulty(fault) => write!(f, "faulty {fault:?}"),
        }
    }
}

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
        fill_on_read: shape.fill_on_read,
        background: false,
        ..EngineOptions::default()
    }
}

/// What an engine leaves to chance is the same in every run of an incarnation.
fn repeat_choices(incarnation: u64) {
    forebay::testing::set_thread_hint(0);
    forebay::testing::set_random_seed(Some(incarnation));
}

/// Opens the engine on `region`, or makes it anew over whatever that holds.
pub fn open(
    shape: &Shape,
    engine: &EngineShape,
    incarnation: u64,
    (region, backing): (Region, Backing),
    anew: bool,
) -> Result<OpenEngine, Refusal> {
    repeat_choices(incarnation);
    let options = EngineOptions {
        accept_stale: anew,
        ..options(shape, engine)
    };
    let made = if anew {
        engine.maker.create(region, backing, &options)
    } else {
        engine.maker.open(region, backing, &options)
    };
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
                lost: Vec::new(),
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
    /// The engine.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Waits until no other actor updates this block.
    pub fn lock_updates(&self, block: usize) -> MutexGuard<'_, ()> {
        forebay_pmem::lock_or_yield(&self.updates[block])
    }

    /// Lets errors pass that were asked for; every other one is a violation.
    pub fn excuse(&self, world: &World, error: Error) -> Result<(), String> {
        match error {
            Error::Backing { .. } | Error::NoSpace { .. } | Error::Stalled { .. }
                if world.has_failing_stores() =>
            {
                Ok(())
            }
            Error::Media(_) | Error::Poisoned { .. } if world.has_failed_fences() => Ok(()),
            error => Err(error.to_string()),
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
        Box::new(EngineActor::new(world, shape, self))
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
