//! A pool on an SSD between the pool that programs use and its disks.

use std::path::PathBuf;
use std::sync::Arc;

use forebay::{Backing, Behind, Pool, RuntimeOptions, Volume};
use forebay_command::Failure;

use crate::idle_pool;

/// The pool behind. It is opened, and so recovered, before the other is attached to it, and closed after it.
pub struct PoolBehind {
    /// The pool.
    pub pool: Arc<Pool>,
    /// By which path.
    pub given: PathBuf,
}

/// A disk that is attached to the pool, and to the one behind if there is one.
pub struct Attached {
    /// In the pool.
    pub volume: Volume,
    /// In the one behind.
    pub lower: Option<Volume>,
}

impl PoolBehind {
    /// Opens it.
    ///
    /// # Errors
    /// It is no pool on an SSD, or cannot be opened.
    pub fn open(path: PathBuf, options: RuntimeOptions) -> Result<PoolBehind, Failure> {
        let paths = [path];
        let pool = idle_pool::open(&paths, options)?;
        let [given] = paths;
        if !pool.is_ssd() {
            return Err(Failure::Arguments(format!(
                "{} is a pool in memory; --behind names one on an SSD (forebay create)",
                given.display()
            )));
        }
        Ok(PoolBehind {
            pool: Arc::new(pool),
            given,
        })
    }
}

/// Attaches a disk to a pool, through the one behind if there is one.
///
/// # Errors
/// As [`Pool::attach`]; of the pool behind as [`Pool::attach_behind`].
pub fn attach(
    pool: &Pool,
    behind: Option<&PoolBehind>,
    backing: Backing,
    accepts_stale: bool,
) -> Result<Attached, forebay::Error> {
    let in_front = |backing| match accepts_stale {
        true => pool.attach_stale(backing),
        false => pool.attach(backing),
    };
    let Some(behind) = behind else {
        let volume = in_front(backing)?;
        return Ok(Attached {
            volume,
            lower: None,
        });
    };
    if !accepts_stale && let Some(place) = backing.front_mark_place() {
        // Asked first: what the pool in front refuses changes nothing in the one behind.
        pool.check_mark(&backing.identity().path, place)?;
    }
    let Behind {
        volume: lower,
        backing,
    } = match accepts_stale {
        true => behind.pool.attach_behind_stale(backing),
        false => behind.pool.attach_behind(backing),
    }?;
    match in_front(backing) {
        Ok(volume) => Ok(Attached {
            volume,
            lower: Some(lower),
        }),
        Err(refusal) => {
            // With something dirty that would write all of it to the disk.
            let is_clean = lower.usage().dirty_blocks == 0;
            if !is_clean || behind.pool.detach(lower).is_err() {
                tracing::error!(
                    pool = %behind.given.display(),
                    "the disk stays attached to the pool behind until the daemon ends"
                );
            }
            Err(refusal)
        }
    }
}
