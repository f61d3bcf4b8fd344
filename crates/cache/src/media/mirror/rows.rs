//! Which places of rows count.
//!
//! A row has one note, as a pair has: the generation in which it was begun. Its places are written behind that, so
//! that those count of members that are stored to and have been there since.

use super::Mirror;
use crate::media::served::{BOTH, Served};
use crate::media::view::{Half, View};
use crate::sync::Ordering;

impl Mirror {
    #[inline]
    fn row_note(&self, row: u32) -> u8 {
        self.row_notes[row as usize].load(Ordering::Relaxed)
    }

    /// Whether rows may be begun: every member has everything.
    #[inline]
    pub(in crate::media) fn fills_rows(&self) -> bool {
        self.served().lacking().is_none()
    }

    /// Says that the places of a row are written from here on, or that each has been, on the members of this moment. The
    /// caller has the row to itself, or the lock of a key that is in it.
    #[inline]
    pub(in crate::media) fn note_row(&self, row: u32, served: Served) {
        self.row_notes[row as usize].store(served.note(BOTH), Ordering::Relaxed);
    }

    /// The place of a row on a member, if what is there counts.
    #[inline]
    pub(in crate::media) fn row_place<'m>(
        &self,
        view: View<'m>,
        row: u32,
        (member, offset): (u32, u64),
    ) -> Option<Half<'m>> {
        if !view.served.counts(self.row_note(row), member) {
            return None;
        }
        let region = view.region(member)?;
        Some(Half { region, offset })
    }
}
