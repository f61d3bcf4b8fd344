//! Whether the logs tell of attributes what they are.

use super::media::Record;

/// What the logs tell of attributes: the one that counts, and the next one where that is being made.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Of some.
    is_any: bool,
    /// Perhaps of some what was so before a change that could not be recorded.
    is_old: bool,
    is_old_in_next: bool,
}

impl Told {
    pub(super) fn note(&mut self, records: &[Record]) {
        self.is_any |= has_attributes(records);
    }

    pub(super) fn next_log_begins(&mut self) {
        self.is_old_in_next = false;
    }

    pub(super) fn switched(&mut self, records: &[Record]) {
        self.is_any = has_attributes(records);
        self.is_old = self.is_old_in_next && self.is_any;
    }

    pub(super) fn is_old(&self) -> bool {
        self.is_old
    }

    pub(super) fn not_recorded(&mut self) {
        self.is_old |= self.is_any;
        self.is_old_in_next |= self.is_any;
    }
}

fn has_attributes(records: &[Record]) -> bool {
    let is_attribute = |record: &Record| matches!(record, Record::Attribute { .. });
    records.iter().any(is_attribute)
}
