//! What a row's blocks are to each other: they leave together, and their parity is looked at with the first of them.

use super::Engine;
use super::scrub::ScrubReport;
use crate::media::copies::LineState;
use crate::media::entry::Entry;
use crate::media::row_places::Column;
use crate::media::rows::RowSum;

impl Engine {
    /// These entries, and those of the other columns of their rows as far as one record takes them: the room of a row is
    /// free only when all of it is.
    #[cold]
    pub(super) fn with_row_mates(&self, mut entries: Vec<u32>) -> Vec<u32> {
        let most = self.batch_of(usize::MAX);
        for at in 0..entries.len() {
            let entry = self.media().sound(self.table.entries().load(entries[at]));
            let column = entry.and_then(|entry| self.media().column_of(entry.slot()?));
            let Some(Column { row, .. }) = column else {
                continue;
            };
            for (index, _) in self.table.named_columns(row) {
                if entries.len() < most && !entries.contains(&index) {
                    entries.push(index);
                }
            }
        }
        entries
    }

    /// Looks at the parity of a row with the first of its blocks, which was right by its check. With `evict` it is read from
    /// the medium.
    #[cold]
    pub(super) fn scrub_row(&self, seen: Entry, evict: bool, report: &mut ScrubReport) {
        let Some((slot, column)) = seen
            .slot()
            .and_then(|slot| Some((slot, self.media().column_of(slot)?)))
        else {
            return;
        };
        if !self.table.slots().is_first_of_row(slot, column.row) {
            return;
        }
        if evict {
            self.media().evict_row(column.row);
        }
        if self.media().sum_row(column.row) == RowSum::Sound {
            return;
        }
        let stripe = self.table.bucket(seen.key()).stripe;
        // With it the row stays, so that no place of it is stored to but by repairs.
        self.table.index().lock(stripe);
        let state = self.settle_row_locked(seen, column);
        self.table.index().unlock(stripe);
        report.note_line(state);
    }

    fn settle_row_locked(&self, seen: Entry, column: Column) -> LineState {
        let key = seen.key();
        let found = self.table.find(self.table.bucket(key), key);
        let now = found.and_then(|(_, raw)| self.media().sound(raw));
        if now.is_none_or(|now| now.slot() != seen.slot()) || self.check_writable().is_err() {
            return LineState::Same;
        }
        self.media().evict_row(column.row);
        if self.media().sum_row(column.row) == RowSum::Sound {
            return LineState::Transient;
        }
        let mut named = self.table.named_columns(column.row);
        let are_right = named.all(|(_, entry)| self.media().is_column_right(entry));
        if !are_right {
            // Not the parity then, which is what such a block is repaired from.
            return LineState::Same;
        }
        self.media().repair_parity(column.row);
        match self.media().sum_row(column.row) {
            RowSum::Sound => {
                self.tallies.mine().repaired(1);
                LineState::Repaired
            }
            RowSum::Wrong => {
                self.tallies.mine().unrepaired(1);
                LineState::Unrepaired
            }
        }
    }
}
