//! The record that introduces the root.

use super::record::Record;
use super::space::{Place, Seen};
use crate::metadata::FileId;

/// What introduces the root.
pub(super) fn root_record(seen: &Seen) -> Record {
    Record::Introduce {
        id: FileId::ROOT,
        mode: seen.mode,
        identity: seen.identity,
        place: Place {
            parent: FileId(0),
            name: Default::default(),
        },
    }
}
