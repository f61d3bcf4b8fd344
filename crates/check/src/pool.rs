//! The calls that the checker makes into the core, and the images that pools start from.

use crate::scenario::Shape;
use crate::world::{Capture, Image, World};
use forebay::Backing;
use forebay::{Pool, PoolOptions, Volume};
use forebay_pmem::Region;
use forebay_pmem::shadow::Shadow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A pool with its volumes attached; nothing happens in it but what is asked for.
pub struct OpenPool {
    pool: Pool,
    volumes: Vec<Volume>,
}

/// Options for a pool of `shape`.
fn options(shape: &Shape) -> PoolOptions {
    let mut options = PoolOptions {
        member_bytes: shape.member_bytes(),
        ..PoolOptions::default()
    };
    options.format.block_bytes = shape.block_bytes as u32;
    options.format.strict = shape.strict;
    options.format.checksums = shape.checksums;
    options.format.lanes = Some(shape.lanes);
    options.format.lane_bytes = Some(shape.lane_bytes);
    options.format.volumes = shape.volumes as u32;
    options.format.unit_bytes = shape.unit_bytes() as u32;
    options.runtime.background = false;
    options.runtime.throttle_deadline = Duration::ZERO;
    options.runtime.fill_on_read = shape.fill_on_read;
    options
}

/// Opens the pool on `regions` and attaches its volumes. Lives of one medium need different `life`
/// numbers: their salts are made of them.
pub fn open(
    shape: &Shape,
    life: u64,
    regions: Vec<Region>,
    backing: impl Fn(usize) -> Backing,
) -> Result<OpenPool, String> {
    forebay::testing::set_thread_hint(0);
    forebay::testing::set_random_seed(Some(life));
    let pool = Pool::open_on(regions, options(shape).runtime).map_err(|error| error.to_string())?;
    attach(shape, pool, backing)
}

fn attach(
    shape: &Shape,
    pool: Pool,
    backing: impl Fn(usize) -> Backing,
) -> Result<OpenPool, String> {
    let volumes = (0..shape.volumes).map(|volume| pool.attach(backing(volume)));
    let volumes: Result<Vec<Volume>, _> = volumes.collect();
    let volumes = volumes.map_err(|error| format!("attach: {error}"))?;
    Ok(OpenPool { pool, volumes })
}

impl OpenPool {
    /// A volume.
    pub fn volume(&self, volume: usize) -> &Volume {
        &self.volumes[volume]
    }

    /// Blocks that one transaction can change.
    pub fn transaction_blocks_max(&self) -> usize {
        self.pool.transaction_limit_bytes() as usize / self.volumes[0].block_size()
    }

    /// Reads a block.
    pub fn read(&self, volume: usize, block: usize, buffer: &mut [u8]) -> forebay::Result<()> {
        self.volumes[volume].read(block as u64, buffer)
    }

    /// One round of write-back.
    pub fn write_back(&self) -> forebay::Result<()> {
        self.pool.write_back_once().map(drop)
    }

    /// Evicts up to so many clean blocks.
    pub fn reclaim(&self, blocks: usize) -> forebay::Result<()> {
        self.pool.reclaim_once(blocks).map(drop)
    }

    /// A checkpoint.
    pub fn checkpoint(&self) -> forebay::Result<()> {
        self.pool.checkpoint()
    }

    /// Compares every cached block with its check; the error names those that do not match.
    pub fn check(&self) -> Result<(), String> {
        match self.pool.check(|_, _| {}) {
            (_, bad) if bad.is_empty() => Ok(()),
            (_, bad) => Err(format!("blocks {bad:?} do not match their checks")),
        }
    }

    /// Closes the pool in order.
    pub fn close(self) -> forebay::Result<()> {
        drop(self.volumes);
        self.pool.close()
    }
}

/// Freshly made pools by shape: making one takes longer than recovering one.
#[derive(Default)]
pub struct Templates(HashMap<Shape, Image>);

impl Templates {
    /// A pool of `shape` that holds nothing, over backings that do.
    pub fn get(&mut self, shape: &Shape) -> Result<&Image, String> {
        if !self.0.contains_key(shape) {
            let image = create(shape)?;
            self.0.insert(shape.clone(), image);
        }
        Ok(&self.0[shape])
    }
}

fn create(shape: &Shape) -> Result<Image, String> {
    forebay::testing::set_random_seed(Some(u64::MAX));
    let stores = (0..shape.volumes).map(|volume| {
        let seed = 0x5eed + volume as u64;
        let mut bytes = crate::life::noise(seed, shape.volume_bytes());
        // One block in four is zero, as most of a new disk is.
        for block in (3..shape.volume_blocks).step_by(4) {
            bytes[block * shape.block_bytes..][..shape.block_bytes].fill(0);
        }
        bytes
    });
    let image = Image {
        media: Vec::new(),
        stores: stores.collect(),
    };
    let idle = Capture {
        rng: fastrand::Rng::with_seed(0),
        chances: 0,
        limit: 0,
    };
    let world = World::new(shape, &image, idle, 0, false);
    let shadows: Vec<Arc<Shadow>> = (0..shape.members)
        .map(|_| Arc::new(Shadow::new(shape.member_bytes(), shape.model())))
        .collect();
    let regions = shadows
        .iter()
        .map(|shadow| Region::on_shadow(Arc::clone(shadow)))
        .collect();
    let pool = Pool::create_on(regions, &options(shape))
        .map_err(|error| format!("create a pool of {shape:?}: {error}"))?;
    if shape.starts_attached {
        drop(attach(shape, pool, |volume| world.backing(volume))?);
    }
    let media = shadows
        .iter()
        .map(|shadow| shadow.crash_state().durable().to_vec());
    Ok(Image {
        media: media.collect(),
        stores: image.stores,
    })
}
