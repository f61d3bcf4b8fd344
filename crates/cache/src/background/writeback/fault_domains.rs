//! Fault domains, parts of backings that fail by themselves: what a round takes, and what it leaves alone.
//!
//! A domain in trouble delays its own blocks and no others: these stay dirty and are served, rounds drop
//! them, reclaim does not choose them, and they are announced again once the domain is due or something
//! went through to it. So a pool fills only with what cannot go.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::WritebackBatch;
use super::merge::InFlightBlock;
use crate::background::Pipeline;
use crate::background::volume_state::VolumeState;
use crate::backing::{Backing, FailedDomains, FaultDomain};
use crate::media::entry::Key;

/// What a round may take.
pub(super) enum RoundScope<'a> {
    /// Of all volumes what may be asked now.
    Due,
    /// Of this volume everything, in trouble or not, but these domains.
    Only(u32, &'a BTreeSet<FaultDomain>),
}

/// Domains that are in trouble and not due.
pub(super) struct BackedOff(Vec<(Arc<VolumeState>, BTreeSet<FaultDomain>)>);

impl BackedOff {
    /// Whether the key's block lies in one.
    pub(super) fn contains(&self, pipeline: &Pipeline, key: Key) -> bool {
        let mut known = self.0.iter();
        let found = known.find(|(volume, _)| volume.id == key.volume());
        found.is_some_and(|(volume, domains)| {
            domains.contains(&pipeline.domain_of_volume(volume, key))
        })
    }
}

impl Pipeline {
    /// The domain of the backing that the key's block lies in.
    pub(super) fn domain_of(&self, backing: &Backing, key: Key) -> FaultDomain {
        backing.domain_at(key.block() * self.engine.block_bytes() as u64)
    }

    /// The same; a volume without a backing is in trouble as a whole.
    fn domain_of_volume(&self, volume: &VolumeState, key: Key) -> FaultDomain {
        let backing = volume.backing();
        backing.map_or(FaultDomain::default(), |backing| {
            self.domain_of(backing, key)
        })
    }

    /// The blocks of a volume that a round is to serve; none if not the volume.
    pub(super) fn served<'g>(
        &self,
        volume: &VolumeState,
        group: &'g [(Key, u32)],
        serving: &RoundScope<'_>,
    ) -> Option<Cow<'g, [(Key, u32)]>> {
        let left_out = match serving {
            RoundScope::Due => Cow::Owned(self.backed_off_of(volume)),
            RoundScope::Only(id, domains) if *id == volume.id => Cow::Borrowed(*domains),
            RoundScope::Only(..) => return None,
        };
        if left_out.is_empty() {
            return Some(Cow::Borrowed(group));
        }
        let is_served = |(key, _): &&(Key, u32)| {
            let domain = self.domain_of_volume(volume, *key);
            !left_out.contains(&domain)
        };
        let served: Vec<(Key, u32)> = group.iter().filter(is_served).copied().collect();
        (!served.is_empty()).then_some(Cow::Owned(served))
    }

    /// Whether a domain may be asked that is to be left alone for so long. Without background threads the
    /// caller decides when to try again, and its call is the decision.
    fn is_due(&self, wait: Duration) -> bool {
        !self.has_background() || wait.is_zero()
    }

    fn backed_off_of(&self, volume: &VolumeState) -> BTreeSet<FaultDomain> {
        let in_trouble = volume.health.in_trouble().into_iter();
        let rest = in_trouble.filter(|(_, wait)| !self.is_due(*wait));
        rest.map(|(domain, _)| domain).collect()
    }

    /// The domains of all volumes that are in trouble and not due.
    pub(super) fn backed_off(&self) -> BackedOff {
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
        let known = volumes.iter().flatten();
        let domains = known.map(|volume| (volume.clone(), self.backed_off_of(volume)));
        BackedOff(domains.filter(|(_, domains)| !domains.is_empty()).collect())
    }

    /// Announces what is dirty in domains in trouble that are to be asked again.
    pub(super) fn retry_degraded(&self) {
        // The list is not locked meanwhile: what looks through the table would keep volumes from coming and going.
        for volume in &self.volumes() {
            let in_trouble = volume.health.in_trouble().into_iter();
            let due = in_trouble.filter(|(_, wait)| self.is_due(*wait));
            let due: BTreeSet<FaultDomain> = due.map(|(domain, _)| domain).collect();
            for (domain, blocks) in self.announce_domains(volume, due) {
                if blocks == 0 {
                    // Discarded meanwhile: there is nothing left that it could refuse.
                    volume.health.succeeded(domain);
                }
            }
        }
    }

    /// How long until the next domain in trouble is due.
    pub(crate) fn next_retry(&self) -> Option<Duration> {
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
        volumes
            .iter()
            .flatten()
            .filter_map(|volume| volume.health.retry_in())
            .min()
    }

    /// Puts all dirty blocks of a volume into the queue, when its backing is there.
    pub(crate) fn announce_dirty(&self, id: u32) {
        for index in self.table().dirty_entries(id) {
            self.table().states().announce(index);
        }
    }

    /// The same of some domains; returns how many each has.
    fn announce_domains(
        &self,
        volume: &VolumeState,
        domains: BTreeSet<FaultDomain>,
    ) -> BTreeMap<FaultDomain, u64> {
        let mut blocks: BTreeMap<_, _> = domains.into_iter().map(|domain| (domain, 0)).collect();
        if blocks.is_empty() {
            return blocks;
        }
        for index in self.table().dirty_entries(volume.id) {
            let domain = self.domain_of_volume(volume, self.table().entries().load(index).key());
            if let Some(count) = blocks.get_mut(&domain) {
                self.table().states().announce(index);
                *count += 1;
            }
        }
        blocks
    }

    /// Notes how the domains of a round have done. Others that the sync found failing are not asked later
    /// for that.
    pub(super) fn note_health(
        &self,
        volume: &VolumeState,
        in_flight: &[InFlightBlock],
        mut failed: FailedDomains,
        round: &mut WritebackBatch,
    ) {
        let asked: BTreeSet<FaultDomain> = in_flight.iter().map(|block| block.domain).collect();
        let mut back = BTreeSet::new();
        for domain in asked {
            let Some(error) = failed.remove(&domain) else {
                if volume.health.succeeded(domain) {
                    back.insert(domain);
                }
                continue;
            };
            let counts = volume.health.failed(domain, &error);
            self.engine
                .tallies()
                .mine()
                .write_back_errors(u64::from(counts));
            round.failed_domains.insert(domain);
            round.note(volume.backing_error(error));
        }
        // What earlier rounds dropped while they failed.
        self.announce_domains(volume, back);
    }
}

#[cfg(test)]
mod tests;
