//! The log as recovery appends to it: it never fails for lack of room where it failed not before. What is no longer needed of
//! the log is left out of a new one where room ends, and what recovery can do without is not recorded then.

use std::collections::HashMap;
use std::io;

use super::errors::{damaged, no_room};
use super::log::Log;
use super::record::Record;
use super::space::Identity;
use crate::metadata::FileId;

/// Whether the log says that this recovery is at work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    /// Nothing has been changed yet.
    NotBegun,
    /// It does.
    Recorded,
    /// It has no room for that, so it must not say that it ended either.
    WithoutRecord,
}

/// See the module.
pub(super) struct RecoveryLog<'a> {
    pub(super) log: &'a mut Log,
    /// All that the half that counts holds.
    pub(super) records: &'a mut Vec<Record>,
    /// Whether it says that this recovery is at work.
    pub(super) attempt: &'a mut Attempt,
}

impl RecoveryLog<'_> {
    /// What recovery cannot do without is recorded when this returns.
    ///
    /// # Errors
    /// The pool's; there is no room.
    pub(super) fn must(&mut self, record: Record) -> io::Result<()> {
        match self.may(std::slice::from_ref(&record))? {
            true => Ok(()),
            false => Err(no_room()),
        }
    }

    /// Records it, all in one, if there is room.
    ///
    /// # Errors
    /// The pool's.
    pub(super) fn may(&mut self, records: &[Record]) -> io::Result<bool> {
        if !self.log.append_in_recovery(records)? {
            self.compact()?;
            if !self.log.append_in_recovery(records)? {
                return Ok(false);
            }
        }
        self.records.extend_from_slice(records);
        Ok(true)
    }

    /// Whether it tells of attributes.
    pub(super) fn has_attributes(&self) -> bool {
        self.log.has_attributes()
    }

    /// Begins a new log without identities that are no more: of what was made anew again and again, the last one alone can be
    /// found. It is as long as it was before anything was made anew, or shorter.
    fn compact(&mut self) -> io::Result<()> {
        let mut last: HashMap<FileId, Identity> = HashMap::new();
        for record in self.records.iter() {
            if let Record::Remade { id, identity } = record {
                last.insert(*id, *identity);
            }
        }
        if last.is_empty() {
            return Ok(());
        }
        let records = self.records.iter().filter_map(|record| match record {
            Record::Remade { .. } => None,
            Record::Create { id, .. } if last.contains_key(id) => {
                let mut record = record.clone();
                if let Record::Create {
                    id,
                    identity,
                    is_remade,
                    ..
                } = &mut record
                {
                    (*identity, *is_remade) = (last[id], true);
                }
                Some(record)
            }
            record => Some(record.clone()),
        });
        let records: Vec<Record> = records.collect();
        if !self.log.begin_in_recovery(&records)? {
            return Err(damaged("what is left of it is longer than all of it"));
        }
        *self.records = records;
        Ok(())
    }
}
