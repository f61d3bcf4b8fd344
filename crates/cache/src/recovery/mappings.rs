//! What recovery decides about the table: entries by their numbers.

use crate::media::entry::Entry;

/// What is to be stored into the table once nothing can be refused any more.
pub(super) type Stores = Vec<(u32, Entry)>;

/// The table as recovery leaves it: (entry number, entry), each entry once.
pub(crate) type Mappings = Vec<(u32, Entry)>;
