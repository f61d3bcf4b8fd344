//! Publishing: what is durable, or written for callers that asked for no more, becomes what readers see, in the order of the sequences.

use super::core::{Log, State};
use super::group::{Group, InFlight, Settles};
use super::waiter::{Outcome, Waiter};
use crate::media::{Element, Shape};
use crate::mutants::{Mutant, mutated};
use crate::state::{Entry, ZeroRange};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// What became of transactions.
pub(super) type Told = Vec<(Arc<Waiter>, Outcome)>;

/// Tells what became of transactions, and wakes those that wait for it.
pub(super) fn tell_all(state: MutexGuard<'_, State>, told: Told) {
    for (waiter, outcome) in &told {
        waiter.tell(*outcome);
    }
    drop(state);
    for (waiter, _) in &told {
        waiter.wake();
    }
}

/// Whether a mutant publishes groups that others precede.
fn is_out_of_order() -> bool {
    let mutants = [
        Mutant::SsdAckOutOfOrder,
        Mutant::SsdPublishedOutOfOrder,
        Mutant::SsdPoisonForgotten,
        Mutant::SsdDurableBehindGap,
    ];
    mutants.into_iter().any(mutated)
}

impl State {
    /// One element, the newest of all published ones, which stands in that segment. Recovery makes the table of the same.
    pub(crate) fn apply(&mut self, element: &Element, sequence: u64, segment: u64) {
        let first = element.key;
        match element.shape {
            Shape::Block { page, check } => {
                let entry = Entry::new(first, page, check, element.is_clean);
                self.live.add(page);
                if let Some(old) = self.table.insert(entry) {
                    self.live.remove(old.page);
                }
                self.zeroed.remove(first, 1, None);
                self.versions.raise(first);
            }
            Shape::Zero { count } | Shape::Gone { count } => {
                for entry in self.table.in_range(first, count) {
                    self.evict(entry);
                }
                self.zeroed.remove(first, count, None);
                if matches!(element.shape, Shape::Zero { .. }) && !element.is_clean {
                    self.zeroed.insert(ZeroRange {
                        first,
                        count,
                        sequence,
                        segment,
                    });
                }
                self.versions.raise_range(first, count);
            }
        }
    }

    /// A block leaves the table.
    pub(crate) fn evict(&mut self, entry: Entry) {
        let old = self.table.remove(entry.key());
        assert_eq!(old.map(|old| old.page), Some(entry.page));
        self.live.remove(entry.page);
        self.versions.raise(entry.key());
    }

    /// A group whose write has returned.
    fn publish(&mut self, flight: InFlight) -> Told {
        self.settle_with(&flight);
        let InFlight {
            group,
            settles,
            points,
            ..
        } = flight;
        self.remember(&group);
        let members = group.members.iter();
        let mut elements: Vec<(Element, u64)> = members
            .flat_map(|one| one.elements.iter().copied().zip(one.first_sequence..))
            .collect();
        if mutated(Mutant::SsdPublishedOutOfOrder) {
            elements.reverse();
        }
        for (element, sequence) in &elements {
            self.apply(element, *sequence, group.segment);
            self.pending.remove(element.key, *sequence);
            self.tallies.blocks += u64::from(element.has_block());
        }
        let in_order = mutated(Mutant::SsdAckOutOfOrder)
            || mutated(Mutant::SsdPublishedOutOfOrder)
            || group.first_sequence == self.published + 1;
        assert!(in_order, "groups are published in order");
        self.published += elements.len() as u64;
        self.points_recorded.join(&points);
        self.tallies.groups += 1;
        self.tallies.commits += group.members.len() as u64;
        self.last_company = group.members.len();
        let outcome = match settles {
            Settles::Later => Outcome::Written,
            Settles::ByItself | Settles::ByFlush => Outcome::Durable,
        };
        let waiters = group.members.into_iter().map(|one| one.waiter);
        waiters.map(|waiter| (waiter, outcome)).collect()
    }

    /// Its blocks are likely to be asked for soon.
    fn remember(&mut self, group: &Group) {
        if group.has_header() {
            self.recent.begin_segment(group.segment);
        }
        for member in &group.members {
            let mut elements = member.elements.iter();
            let first = elements.find_map(|element| match element.shape {
                Shape::Block { page, .. } => Some(page),
                Shape::Zero { .. } | Shape::Gone { .. } => None,
            });
            if let Some(first) = first {
                self.recent.add(first, &member.pages);
            }
        }
    }

    /// What is durable with a group whose write has returned, and the flushes around it.
    fn settle_with(&mut self, flight: &InFlight) {
        let number = flight.group.number;
        if let Some(flushed) = flight.flushed_first {
            self.settled.settle(flushed);
        }
        let is_prefix = self.settled.is_all() || is_out_of_order();
        self.settled.publish(number, flight.tail);
        match flight.settles {
            Settles::Later => return,
            Settles::ByItself => assert!(
                is_prefix,
                "group {number} is durable, and one before it is not"
            ),
            Settles::ByFlush => {}
        }
        let flushed = self.settled.begin_flush();
        self.settled.settle(flushed);
    }

    /// Whether so many transactions wait for the next group, or it takes no more.
    pub(crate) fn has_company(&self, wanted: usize) -> bool {
        match self.queue.front() {
            Some(group) => !group.is_open || group.members.len() >= wanted,
            None => false,
        }
    }

    /// Every group whose write has returned and that no earlier one holds up.
    fn publish_returned(&mut self) -> Told {
        let mut published = Vec::new();
        loop {
            let next = match mutated(Mutant::SsdAckOutOfOrder) {
                true => self
                    .flights
                    .iter()
                    .position(|flight| flight.outcome == Some(true)),
                false => self
                    .flights
                    .front()
                    .and_then(|flight| (flight.outcome == Some(true)).then_some(0)),
            };
            let Some(flight) = next.and_then(|next| self.flights.remove(next)) else {
                return published;
            };
            published.extend(self.publish(flight));
        }
    }

    /// A write has failed: its group is not published, nor is any after it. What is staged stays so, for nobody may build
    /// on what it replaces.
    pub(super) fn poison(&mut self, why: &str) -> Told {
        self.poisoned.get_or_insert_with(|| why.to_owned());
        let under_way = self.flights.drain(..).map(|flight| flight.group);
        let groups = under_way.chain(self.queue.drain(..));
        let members = groups.flat_map(|group| group.members);
        members.map(|one| (one.waiter, Outcome::Failed)).collect()
    }

    /// What the mutant does instead: only the group that failed is not published.
    fn forget_failed(&mut self, number: u64) -> Told {
        let failed = self
            .flights
            .iter()
            .position(|flight| flight.group.number == number);
        let failed = failed.and_then(|place| self.flights.remove(place));
        let members = failed.into_iter().flat_map(|flight| flight.group.members);
        let mut waiters = Vec::new();
        for member in members {
            self.published += member.elements.len() as u64;
            waiters.push((member.waiter, Outcome::Failed));
        }
        waiters
    }
}

impl Log {
    /// A group's write has returned, as `written` says after so long. Publishes what that allows, and wakes those that
    /// wait for it.
    pub(crate) fn note_written(&self, number: u64, written: Result<(), String>, took: Duration) {
        let mut state = self.lock();
        let told = match written {
            Ok(()) => {
                let flight = state
                    .flights
                    .iter_mut()
                    .find(|flight| flight.group.number == number);
                // The pool may have been poisoned by another group since.
                if let Some(flight) = flight {
                    flight.outcome = Some(true);
                }
                state.last_write = took;
                state.publish_returned()
            }
            Err(why) if mutated(Mutant::SsdPoisonForgotten) => {
                drop(why);
                state.forget_failed(number)
            }
            Err(why) => state.poison(&why),
        };
        tell_all(state, told);
    }
}
