//! What a pool knows of a volume besides its blocks: where its backing is, and how that fares.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::ahead_windows::Windows;
use super::health::Health;
use super::zeroings::Zeroings;
use crate::backing::{Backing, BackingIdentity, BackingWait, FaultDomain, Limited};
use crate::error::{Error, ErrorKind, Result};
use crate::mutants::{Mutant, mutated};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// What the pool knows of a volume.
pub(crate) struct VolumeState {
    pub(crate) id: u32,
    pub(crate) path: PathBuf,
    /// Grows; a concurrent reader sees the old size or the new one.
    pub(crate) size_bytes: AtomicU64,
    pub(crate) backing: OnceLock<Backing>,
    /// The same as `backing`: what may be used of it.
    pub(crate) limited: OnceLock<Arc<Limited>>,
    pub(crate) health: Health,
    /// What bulk discards have zeroed behind the cache and no sync has made durable.
    pub(crate) zeroings: Zeroings,
    /// What was read ahead.
    pub(crate) ahead: Windows,
    /// Another volume may be attached to the backing by now: what that has may be older than what was acknowledged
    /// there, and change between two reads.
    is_gone: AtomicBool,
}

impl VolumeState {
    /// The attached backing.
    pub(crate) fn backing(&self) -> Result<&Backing> {
        self.backing.get().ok_or_else(|| {
            ErrorKind::Volume(format!(
                "{} is not attached; attach its backing",
                self.path.display()
            ))
            .into()
        })
    }
    pub(crate) fn backing_error(&self, source: std::io::Error) -> Error {
        ErrorKind::Backing {
            path: self.path.clone(),
            source,
        }
        .into()
    }
    /// What was asked longest ago of what the backing has not answered.
    pub(crate) fn waits_for(&self) -> Option<BackingWait> {
        self.limited.get()?.waits_for()
    }

    pub(crate) fn named(&self, (domain, error): (FaultDomain, String)) -> String {
        let name = self
            .backing
            .get()
            .and_then(|backing| backing.domain_name(domain));
        name.map_or(error.clone(), |name| format!("{name}: {error}"))
    }

    /// The backing's last error, or what it has not answered for longer than is usual.
    pub(crate) fn trouble(&self, usual: Duration) -> Option<String> {
        let last_error = self.health.last_error().map(|last| self.named(last));
        last_error.or_else(|| {
            let wait = self.waits_for().filter(|wait| wait.elapsed >= usual)?;
            let (request, elapsed_s) = (wait.request, wait.elapsed.as_secs());
            Some(format!("a {request} has had no answer for {elapsed_s} s"))
        })
    }

    /// The volume's last blocks are on its backing, or they are not after all and it is in use as before.
    pub(crate) fn set_gone(&self, is_gone: bool) {
        self.is_gone.store(is_gone, Ordering::Release);
        // A thread that reads ahead has the backing no longer than this.
        self.ahead.set_closed(is_gone);
    }

    /// Fails once the volume was detached. Asked after the backing answered: what it gave before that is right.
    pub(crate) fn check_here(&self) -> Result<()> {
        if self.is_gone.load(Ordering::Acquire) && !mutated(Mutant::ReadAfterDetach) {
            return Err(ErrorKind::Volume(format!(
                "{} was detached; attach its backing again and use what that returns",
                self.path.display()
            ))
            .into());
        }
        Ok(())
    }

    /// A volume without a backing.
    pub(crate) fn new(id: u32, identity: &BackingIdentity) -> VolumeState {
        VolumeState {
            id,
            path: identity.path.clone(),
            size_bytes: AtomicU64::new(identity.size_bytes),
            backing: OnceLock::new(),
            limited: OnceLock::new(),
            health: Health::default(),
            zeroings: Zeroings::default(),
            ahead: Windows::default(),
            is_gone: AtomicBool::new(false),
        }
    }

    /// The size that the backing has now, which the volume of `old_bytes` may grow to.
    ///
    /// # Errors
    /// The backing failed, or shrank, which a volume never does.
    pub(crate) fn size_to_grow_to(&self, backing: &Backing, old_bytes: u64) -> Result<u64> {
        let found = backing.refresh_size();
        let size_bytes = found.map_err(|source| self.backing_error(source))?;
        if size_bytes < old_bytes {
            return Err(ErrorKind::Volume(format!(
                "{}: the backing has {size_bytes} bytes, the volume {old_bytes}; a volume cannot \
                 shrink: restore the backing's size",
                self.path.display()
            ))
            .into());
        }
        Ok(size_bytes)
    }

    pub(crate) fn attached_already(&self) -> Error {
        ErrorKind::Volume(format!("{}: it is attached already", self.path.display())).into()
    }

    /// A killed process, ours or another, may have written what it did not sync; a clean block stands on
    /// durable bytes only (I7).
    pub(crate) fn sync_unsynced(&self, backing: &Backing) -> Result<()> {
        if mutated(Mutant::AttachedWithoutSync) {
            return Ok(());
        }
        let synced = self
            .health
            .sync_all_since(self.health.sync_epoch(), backing);
        synced.map_err(|source| self.backing_error(source))
    }

    pub(crate) fn set_backing(&self, backing: Backing, size_bytes: u64) -> Result<()> {
        let limited = Arc::new(Limited::new(backing, size_bytes));
        self.limited
            .set(limited.clone())
            .map_err(|_| self.attached_already())?;
        let backing = Backing::from_store(limited);
        self.backing
            .set(backing)
            .map_err(|_| unreachable!("it is set together with its limit"))
    }
}
