//! Which of two lines is newer, and whether one follows from the other.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};

/// Epochs of which a line remembers the ids.
pub(crate) const HISTORY: usize = 16;

/// The number of a line: an epoch, then a count that rises with every line. An epoch begins where an opening goes on without
/// a file, so that nothing that was written on that file before, seen or not, is as new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation(u64);

impl Generation {
    /// Whether nothing but the creation of the region wrote it.
    pub fn is_of_creation(self) -> bool {
        self.count() <= 1
    }

    pub fn from_word(word: u64) -> Generation {
        Generation(word)
    }

    pub fn word(self) -> u64 {
        self.0
    }

    /// How many openings went on without a file.
    pub fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Rises with every line.
    pub fn count(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }

    /// The next one.
    pub fn next(self) -> Generation {
        // A carry begins an epoch, which loses nothing but the id of that.
        Generation(self.0 + 1)
    }

    /// The next one, in the next epoch.
    pub fn next_epoch(self) -> Generation {
        Generation((u64::from(self.epoch()) + 1) << 32 | (self.count() + 1))
    }
}

/// A random id for each of the last epochs, the newest first; 0 where there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct History(pub [u64; HISTORY]);

impl History {
    /// That of a new region.
    pub fn first() -> Result<History> {
        History([0; HISTORY]).next_epoch()
    }

    /// With another epoch.
    pub fn next_epoch(self) -> Result<History> {
        let id = getrandom::u64().map_err(|error| {
            let error = io::Error::other(error);
            Error::io("get random bytes from", Path::new("the system"), error)
        })?;
        let mut ids = self.0;
        ids.rotate_right(1);
        ids[0] = id.max(1);
        Ok(History(ids))
    }
}
