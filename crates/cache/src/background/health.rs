//! How a volume's backing has been doing, fault domain by fault domain, and when each is asked again after
//! a failure.
//!
//! All syncs of a backing go through [`Health::sync_since`]. The system tells a failed sync to one caller
//! and may drop what it could not write, so the next sync would succeed without it: every caller
//! that wrote before the failure must learn of it too.
//!
//! A domain that failed makes its volume *degraded*: its dirty blocks stay in the pool and are
//! served from there, and it is asked again after a pause that doubles from failure to failure. Nothing
//! that happens to one domain delays the blocks of another.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::backing::{Backing, FailedDomains, FaultDomain};
use crate::mutants::{Mutant, mutated};
use crate::policy::plan::retry_pause;
use crate::sync::{AtomicU64, Ordering};

/// What a caller is told whose own sync went through after another one that failed.
#[derive(Debug)]
struct AnotherSyncFailed;

impl std::fmt::Display for AnotherSyncFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("another sync failed since these blocks were written")
    }
}

impl std::error::Error for AnotherSyncFailed {}

/// The health of one backing.
#[derive(Default)]
pub(crate) struct Health {
    trouble: Mutex<BTreeMap<FaultDomain, Trouble>>,
    past: Mutex<Past>,
    /// Changed while a sync is under way.
    syncs: Mutex<FailedSyncs>,
    /// As many as have failed.
    failed_syncs: AtomicU64,
}

/// What was known of domains in trouble, also when that is over.
#[derive(Default)]
struct Past {
    /// First failures after a success.
    count: u64,
    last: Option<(FaultDomain, String)>,
}

/// Syncs that failed since the backing was attached.
#[derive(Default)]
struct FailedSyncs {
    /// The number of each domain's last one; as many as ever failed.
    last: BTreeMap<FaultDomain, u64>,
}

/// How many syncs had failed when a caller began to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncEpoch(u64);

/// What is known of a domain since the first failure after its last success.
struct Trouble {
    failures: u32,
    retry_at: Instant,
    error: String,
    is_full: bool,
}

impl Trouble {
    fn retry_in(&self) -> Duration {
        self.retry_at.saturating_duration_since(Instant::now())
    }
}

impl Health {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<FaultDomain, Trouble>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be taken before the writes that [`Health::sync_since`] is to make durable.
    pub(crate) fn sync_epoch(&self) -> SyncEpoch {
        let _syncs = self.lock_syncs();
        self.sync_epoch_beside()
    }

    /// The same without a wait for a sync that is under way: if that one fails, it counts as one that failed after the writes.
    pub(crate) fn sync_epoch_beside(&self) -> SyncEpoch {
        // Acquired: what is written from now on comes after the failed syncs that are counted.
        SyncEpoch(self.failed_syncs.load(Ordering::Acquire))
    }

    fn lock_syncs(&self) -> MutexGuard<'_, FailedSyncs> {
        // Held across a sync, during which a checker may switch threads.
        forebay_pmem::lock_or_yield(&self.syncs)
    }

    /// Makes what was written since `epoch` durable, but for the domains that it returns: their syncs
    /// failed, be it another caller's since `epoch`.
    pub(crate) fn sync_since(&self, epoch: SyncEpoch, backing: &Backing) -> FailedDomains {
        let mut syncs = self.lock_syncs();
        let mut failed = backing.sync_domains();
        if !failed.is_empty() {
            // Under the lock, so that each has its number.
            let count = self.failed_syncs.fetch_add(1, Ordering::AcqRel) + 1;
            syncs
                .last
                .extend(failed.keys().map(|domain| (*domain, count)));
        }
        let is_older = |at: u64| at > epoch.0 && !mutated(Mutant::SyncEpochIgnored);
        for domain in syncs.last.iter().filter(|(_, at)| is_older(**at)) {
            let another = || io::Error::other(AnotherSyncFailed);
            failed.entry(*domain.0).or_insert_with(another);
        }
        failed
    }

    /// The same for all domains together.
    ///
    /// # Errors
    /// The first domain's that failed.
    pub(crate) fn sync_all_since(&self, epoch: SyncEpoch, backing: &Backing) -> io::Result<()> {
        let first = self.sync_since(epoch, backing).into_values().next();
        first.map_or(Ok(()), Err)
    }

    /// Writes of the domain and a sync went through; true where it was in trouble until now.
    pub(crate) fn succeeded(&self, domain: FaultDomain) -> bool {
        self.lock().remove(&domain).is_some()
    }

    /// Nothing is known against any domain any more.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    /// A write or a sync of the domain failed; whether that counts as a failure more. One failed sync is told to each round that
    /// had written before, and counts once: a domain in trouble is left alone no longer for it.
    pub(crate) fn failed(&self, domain: FaultDomain, error: &io::Error) -> bool {
        let is_another_s = error
            .get_ref()
            .is_some_and(|inner| inner.is::<AnotherSyncFailed>());
        if is_another_s && self.lock().contains_key(&domain) {
            return false;
        }
        if self.is_first_trouble(domain, error) {
            let mut past = self.past();
            past.count += 1;
            past.last = Some((domain, error.to_string()));
        }
        true
    }

    /// There is no backing yet, which is waited for like one that fails, and no failure of it.
    pub(crate) fn not_there(&self) {
        self.is_first_trouble(FaultDomain::default(), &io::Error::other("not attached"));
    }

    /// Notes trouble of a domain; true where it was well until now.
    fn is_first_trouble(&self, domain: FaultDomain, error: &io::Error) -> bool {
        let mut trouble = self.lock();
        let failures = trouble
            .get(&domain)
            .map_or(0, |before| before.failures)
            .saturating_add(1);
        let now = Trouble {
            failures,
            retry_at: Instant::now() + retry_pause(failures),
            error: error.to_string(),
            is_full: matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ),
        };
        trouble.insert(domain, now);
        failures == 1
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often a domain got into trouble, and the last time's domain and error.
    pub(crate) fn failures(&self) -> (u64, Option<(FaultDomain, String)>) {
        let past = self.past();
        (past.count, past.last.clone())
    }

    /// Whether a domain says that it has no room.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().values().any(|trouble| trouble.is_full)
    }

    pub(crate) fn is_degraded(&self) -> bool {
        !self.lock().is_empty()
    }

    /// The domains in trouble, and how long each is to be left alone.
    pub(crate) fn in_trouble(&self) -> Vec<(FaultDomain, Duration)> {
        let trouble = self.lock();
        let retries = trouble
            .iter()
            .map(|(domain, trouble)| (*domain, trouble.retry_in()));
        retries.collect()
    }

    /// A domain in trouble, and its last error.
    pub(crate) fn last_error(&self) -> Option<(FaultDomain, String)> {
        let trouble = self.lock();
        let (domain, trouble) = trouble.first_key_value()?;
        Some((*domain, trouble.error.clone()))
    }

    /// How long until the next domain is due; `None` where all are well.
    pub(crate) fn retry_in(&self) -> Option<Duration> {
        self.lock().values().map(Trouble::retry_in).min()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backing::{FaultyStore, MemoryStore};

    const ONE: FaultDomain = FaultDomain(1);
    const OTHER: FaultDomain = FaultDomain(2);

    #[test]
    fn a_success_ends_the_trouble_of_its_part_alone() {
        let health = Health::default();
        assert!(!health.succeeded(ONE) && health.retry_in().is_none());
        let error = io::Error::from_raw_os_error(libc::EIO);
        health.failed(ONE, &error);
        health.failed(OTHER, &error);
        assert!(health.is_degraded());
        assert!(health.retry_in().is_some_and(|wait| wait <= retry_pause(1)));
        assert!(
            health
                .last_error()
                .is_some_and(|(domain, error)| domain == ONE && error.contains("os error 5"))
        );
        assert!(health.succeeded(ONE) && !health.succeeded(ONE));
        let in_trouble = health.in_trouble();
        assert_eq!(in_trouble.len(), 1);
        assert_eq!(in_trouble[0].0, OTHER);
        assert!(health.succeeded(OTHER));
        assert!(!health.is_degraded() && health.last_error().is_none());
    }

    #[test]
    fn a_round_that_wrote_before_a_failed_sync_is_told_of_it_and_no_other() {
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(4096))));
        let backing = Backing::from_store(store.clone());
        let health = Health::default();
        let before = health.sync_epoch();
        store.fail_syncs(1);
        assert_eq!(health.sync_since(before, &backing).len(), 1);
        let after = health.sync_epoch();
        assert_eq!(health.sync_since(before, &backing).len(), 1);
        assert!(health.sync_since(after, &backing).is_empty());
        assert!(health.sync_all_since(before, &backing).is_err());
        assert!(health.sync_all_since(after, &backing).is_ok());
    }

    #[test]
    fn a_failed_sync_counted_once_for_each_round_that_had_written() {
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(4096))));
        let backing = Backing::from_store(store.clone());
        let health = Health::default();
        let failures = || health.lock().values().map(|one| one.failures).sum::<u32>();
        let before = health.sync_epoch();
        store.fail_syncs(1);
        let note = || -> Vec<bool> {
            let failed = health.sync_since(before, &backing).into_iter();
            failed
                .map(|(domain, error)| health.failed(domain, &error))
                .collect()
        };
        assert_eq!((note(), failures()), (vec![true], 1));
        assert_eq!((note(), failures()), (vec![false], 1), "the second round's");
        // Where no round noted the first one, as it was a detach's, it is the second's to note.
        health.forget();
        assert_eq!((note(), failures()), (vec![true], 1));
        assert_eq!(health.failures().0, 2);
    }
}
