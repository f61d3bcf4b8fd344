//! Small pools for this crate's tests.

use std::path::PathBuf;
use std::sync::Arc;

use forebay::{Backing, Pool, PoolOptions, Region, RuntimeOptions, Volume};

use crate::metadata::LOG;
use crate::store::VirtualStore;

pub(crate) fn quiet() -> RuntimeOptions {
    RuntimeOptions {
        background: false,
        fill_on_read: false,
        ..RuntimeOptions::default()
    }
}

fn attach(pool: &Pool, side: Backing) -> Volume {
    let store = VirtualStore::new(PathBuf::from("files:"), side, 4096);
    let backing = Backing::from_store(Arc::new(store));
    pool.attach(backing).expect("attach")
}

/// A pool in memory with the volume of a pool of files.
pub(crate) fn small_volume() -> (Pool, Volume) {
    let options = PoolOptions {
        runtime: quiet(),
        ..PoolOptions::default()
    };
    let pool = Pool::create_on(vec![Region::shadow(4 << 20)], &options).expect("create");
    let volume = attach(&pool, Backing::memory(LOG.end));
    (pool, volume)
}
