//! What the layers above are told of a mirror's bad places, and tell of the slots there.

use crate::error::Result;
use crate::media::Media;
use crate::media::copies::LineState;
use crate::media::halves::Wrong;

impl Media {
    /// Whether blocks may be in slots of which a half is bad, or the list of bad places is not what it should be.
    #[inline]
    pub(crate) fn has_bad_places_to_leave(&self) -> bool {
        let mirror = self.mirror.as_ref();
        mirror.is_some_and(|mirror| mirror.bad().are_any_unsettled() || mirror.bad().is_unlisted())
    }

    /// Learns of the bad places that the members' lists name, before anything rests on any.
    pub(crate) fn find_listed_places(&self) {
        if let Some(mirror) = &self.mirror {
            mirror.find_listed(&self.geometry, self.opened());
        }
    }

    /// Makes the list of bad places durable on each member, if it is another one by now.
    pub(crate) fn list_bad_places(&self) {
        if let Some(mirror) = &self.mirror {
            mirror.list(&self.geometry, self.opened());
        }
    }

    /// Compares the members' lists of bad places with what was stored.
    pub(crate) fn settle_bad_list(&self, evict: bool) -> LineState {
        let mirror = self.mirror.as_ref();
        let settled = mirror.and_then(|mirror| {
            mirror.on_listed(&self.geometry, |offset, line| {
                self.settle_copies(offset, line.len(), evict, |found| found == line)
            })
        });
        settled.unwrap_or(LineState::Same)
    }

    /// Has `is_empty` say of each of these slots whether no block is in it, nor will be; returns the others, ascending.
    pub(crate) fn settle_bad_places(&self, is_empty: impl Fn(u32) -> bool) -> Vec<u32> {
        let mirror = self.mirror.as_ref();
        mirror.map_or(Vec::new(), |mirror| mirror.bad().settle(is_empty))
    }

    /// Pages on which the medium failed since the pool was opened, of all members.
    pub(crate) fn lost_page_count(&self) -> u64 {
        let members = self.members();
        members
            .map(|member| member.media_errors().len() as u64)
            .sum()
    }

    /// Whether a half that is wrong lies on a page that the medium lost, so that nothing can be written there.
    pub(crate) fn is_on_lost_page(&self, wrong: &Wrong<'_>) -> bool {
        let len = self.block_bytes();
        let mut halves = wrong.halves();
        halves.any(|(half, _)| half.region.has_media_error(half.offset, len))
    }

    /// Notes pages that the medium lost, if the members of a mirror can go on without; `is_held` says whether a published
    /// block is in a slot.
    #[cold]
    pub(crate) fn note_lost_pages(&self, is_held: &dyn Fn(u32) -> bool) {
        if let Some(mirror) = &self.mirror {
            mirror.note_all_lost(&self.geometry, self.opened(), is_held);
        }
    }

    /// Notes halves that took no second write.
    ///
    /// # Errors
    /// A member has too many, and cannot be taken out.
    #[cold]
    pub(crate) fn note_unrepaired(
        &self,
        wrong: &Wrong<'_>,
        is_held: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        let Some(mirror) = &self.mirror else {
            return Ok(());
        };
        let mut halves = wrong.halves();
        halves.try_for_each(|half| {
            mirror.note_unrepaired(&self.geometry, self.opened(), half, is_held)
        })
    }
}
