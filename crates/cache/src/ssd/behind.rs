//! A backing as the log asks it: block by block, neighbours written by one request, and what fails told to the volume.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_log::PAGE_BYTES;

use crate::background::health::SyncEpoch;
use crate::background::volume_state::VolumeState;
use crate::backing::{Backing, FailedDomains, FaultDomain, WriteRun};
use crate::tallies::Tallies;

/// The most bytes of one request.
const RUN_BYTES_MAX: usize = 1 << 20;

/// What is behind a volume.
pub(super) struct Behind {
    state: Arc<VolumeState>,
    since_sync: Mutex<SinceSync>,
    tallies: Arc<Tallies>,
    /// A backing that has not answered for so long is left alone.
    answer_deadline: Duration,
}

/// What was written since the last sync.
#[derive(Default)]
struct SinceSync {
    /// Of the first write: a sync that failed for another caller since then counts as this one's.
    epoch: Option<SyncEpoch>,
    /// Domains of which something failed.
    failed: BTreeSet<FaultDomain>,
}

impl Behind {
    pub(super) fn new(
        state: Arc<VolumeState>,
        tallies: Arc<Tallies>,
        answer_deadline: Duration,
    ) -> Behind {
        Behind {
            state,
            since_sync: Mutex::default(),
            tallies,
            answer_deadline,
        }
    }

    fn since_sync(&self) -> MutexGuard<'_, SinceSync> {
        self.since_sync
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn backing(&self) -> io::Result<&Backing> {
        let backing = self.state.backing.get();
        backing.ok_or_else(|| io::Error::other("it is not attached"))
    }

    /// Before anything is written.
    fn begin(&self) {
        let epoch = &mut self.since_sync().epoch;
        epoch.get_or_insert_with(|| self.state.health.sync_epoch());
    }

    /// Notes what of a domain failed.
    fn note<T>(&self, domain: FaultDomain, done: io::Result<T>) -> io::Result<T> {
        done.inspect_err(|error| {
            self.tallies.mine().write_back_errors(1);
            self.since_sync().failed.insert(domain);
            self.state.health.failed(domain, error);
        })
    }

    fn domain_of(backing: &Backing, block: u64) -> FaultDomain {
        backing.domain_at(block * PAGE_BYTES as u64)
    }
}

/// Neighbours of one domain that are written together, by the places of their first and last in the list.
fn runs(blocks: &[(u64, &[u8])], domain_of: impl Fn(u64) -> FaultDomain) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (place, (block, _)) in blocks.iter().enumerate() {
        match runs.last_mut() {
            Some((first, last))
                if blocks[*last].0 + 1 == *block
                    && domain_of(blocks[*last].0) == domain_of(*block)
                    && (place - *first) * PAGE_BYTES < RUN_BYTES_MAX =>
            {
                *last = place;
            }
            _ => runs.push((place, place)),
        }
    }
    runs
}

impl forebay_log::Backing for Behind {
    fn read(&self, block: u64, out: &mut [u8]) -> io::Result<()> {
        self.backing()?.read_at(block * PAGE_BYTES as u64, out)
    }

    fn write(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        let mut written = self.write_many(&[(block, bytes)]);
        written.pop().expect("a result for each block")
    }

    fn write_many(&self, blocks: &[(u64, &[u8])]) -> Vec<io::Result<()>> {
        let backing = match self.backing() {
            Ok(backing) => backing,
            Err(error) => {
                let text = error.to_string();
                return blocks
                    .iter()
                    .map(|_| Err(io::Error::other(text.clone())))
                    .collect();
            }
        };
        self.begin();
        let domain_of = |block| Behind::domain_of(backing, block);
        let runs = runs(blocks, domain_of);
        let joined: Vec<Vec<u8>> = runs
            .iter()
            .map(|(first, last)| {
                let parts: Vec<&[u8]> = blocks[*first..=*last].iter().map(|one| one.1).collect();
                parts.concat()
            })
            .collect();
        let asked = runs
            .iter()
            .zip(&joined)
            .map(|((first, _), bytes)| WriteRun {
                offset: blocks[*first].0 * PAGE_BYTES as u64,
                bytes,
            });
        let answers = backing.write_runs(&asked.collect::<Vec<_>>());
        let tally = self.tallies.mine();
        tally.write_back_runs(runs.len() as u64);
        let mut results = Vec::with_capacity(blocks.len());
        for ((first, last), answer) in runs.into_iter().zip(answers) {
            let count = last - first + 1;
            match self.note(domain_of(blocks[first].0), answer) {
                Ok(()) => {
                    tally.write_backs(count as u64);
                    results.extend((0..count).map(|_| Ok(())));
                }
                Err(error) => {
                    results.extend((0..count).map(|_| Err(again(&error))));
                }
            }
        }
        results
    }

    fn zero(&self, first: u64, count: u64) -> io::Result<()> {
        let backing = self.backing()?;
        self.begin();
        let (offset, len) = (first * PAGE_BYTES as u64, count * PAGE_BYTES as u64);
        let domain = Behind::domain_of(backing, first);
        self.note(domain, backing.zero_range(offset, len))
    }

    fn unanswered(&self) -> Option<io::Error> {
        let wait = self.state.waits_for()?;
        (wait.elapsed >= self.answer_deadline).then(|| {
            let (request, elapsed_s) = (wait.request, wait.elapsed.as_secs());
            let told = format!("a {request} has had no answer for {elapsed_s} s");
            io::Error::new(io::ErrorKind::TimedOut, told)
        })
    }

    fn sync(&self) -> io::Result<()> {
        let mut failed = self.sync_domains()?;
        failed.pop_first().map_or(Ok(()), |(_, error)| Err(error))
    }

    fn sync_of(&self, blocks: &[u64]) -> io::Result<Vec<(usize, io::Error)>> {
        let failed = self.sync_domains()?;
        let backing = self.backing()?;
        let of = |(place, block): (usize, &u64)| {
            let error = failed.get(&Behind::domain_of(backing, *block))?;
            Some((place, again(error)))
        };
        Ok(blocks.iter().enumerate().filter_map(of).collect())
    }
}

impl Behind {
    /// Syncs, and tells the volume of each domain how it fared.
    fn sync_domains(&self) -> io::Result<FailedDomains> {
        let backing = self.backing()?;
        let health = &self.state.health;
        let since = std::mem::take(&mut *self.since_sync());
        let epoch = since.epoch.unwrap_or_else(|| health.sync_epoch());
        let failed = health.sync_since(epoch, backing);
        for (domain, error) in &failed {
            self.tallies.mine().write_back_errors(1);
            health.failed(*domain, error);
        }
        for (domain, _) in health.in_trouble() {
            if !failed.contains_key(&domain) && !since.failed.contains(&domain) {
                health.succeeded(domain);
            }
        }
        Ok(failed)
    }
}

/// The same error once more.
fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_written_together_up_to_a_length() {
        let page = [0; PAGE_BYTES];
        let block = |number: u64| (number, &page[..]);
        let one = |_| FaultDomain::default();
        assert_eq!(runs(&[], one), []);
        assert_eq!(runs(&[block(3)], one), [(0, 0)]);
        let three = [block(3), block(4), block(6)];
        assert_eq!(runs(&three, one), [(0, 1), (2, 2)]);
        assert_eq!(runs(&three, FaultDomain), [(0, 0), (1, 1), (2, 2)]);
        let many: Vec<_> = (0..300).map(block).collect();
        assert_eq!(runs(&many, one), [(0, 255), (256, 299)]);
    }
}
