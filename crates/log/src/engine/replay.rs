//! Replaying: the state that the segments which count make, oldest first, the newest version of each block last.

use super::core::{Options, State};
use super::load::Loads;
use crate::media::{Element, Geometry};
use crate::mutants::{Mutant, mutated};
use crate::state::{LiveCounts, Pending, Progress, Recent, Settled, Table, Versions, Zeroed};
use std::collections::VecDeque;
use std::time::Duration;

impl State {
    /// What the log knows when it opens.
    pub(crate) fn replayed(geometry: Geometry, loads: &Loads, options: &Options) -> State {
        let mut state = State {
            table: Table::new(geometry.blocks_max()),
            zeroed: Zeroed::default(),
            live: LiveCounts::new(geometry),
            versions: Versions::new(),
            pending: Pending::default(),
            recent: Recent::new(geometry, options.keeps_recent),
            next_sequence: loads.next_sequence,
            next_group: loads.next_group,
            next_segment: loads.next_segment,
            head: None,
            queue: VecDeque::new(),
            flights: VecDeque::new(),
            tail: loads.tail,
            settled: Settled::new(loads.next_group, loads.tail),
            kept_back: 0,
            rescue: None,
            is_held_up: false,
            points: loads.points,
            points_recorded: loads.points,
            published: loads.next_sequence - 1,
            poisoned: None,
            is_led: false,
            last_company: 0,
            last_write: Duration::ZERO,
            tallies: super::core::Tallies::default(),
            progress: Progress::default(),
        };
        let ranges_first = mutated(Mutant::SsdTombstoneWithoutOrder);
        if ranges_first {
            state.apply_all(loads, |element| !element.has_block());
        }
        state.apply_all(loads, |element| !ranges_first || element.has_block());
        state
    }

    /// Applies what is wanted, in the order of the sequences. Below its volume's clean point an element is clean.
    fn apply_all(&mut self, loads: &Loads, is_wanted: impl Fn(&Element) -> bool) {
        for loaded in &loads.segments {
            let contents = &loaded.contents;
            let elements = contents.elements.iter().zip(contents.first_sequence..);
            for (element, sequence) in elements.filter(|(element, _)| is_wanted(element)) {
                let is_below = sequence < loads.points.of(element.key.volume);
                let element = Element {
                    is_clean: element.is_clean || is_below,
                    ..*element
                };
                self.apply(&element, sequence, contents.segment);
            }
        }
    }
}
