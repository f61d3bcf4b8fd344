//! Members of a mirror that leave and join while it is used.

use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use forebay_pmem::Region;

use crate::error::{Error, ErrorKind, Result};
use crate::media::Media;
use crate::media::layout::{INCARNATION_BYTES, WITNESSED_MEMBERS};
use crate::media::mirror::{Lacking, Mirror, unusable};
use crate::media::superblock;
use crate::media::witness::Witness;

impl Media {
    fn mirror_with(&self, number: u32) -> Result<&Mirror> {
        let is_member = number < self.geometry.members;
        let mirror = self.mirror.as_deref().filter(|_| is_member);
        mirror.ok_or_else(|| {
            ErrorKind::Options(format!(
                "member {number}: the pool is no mirror, or has no member of that number"
            ))
            .into()
        })
    }

    /// Whether the member of this number is stored to, and whether it has everything.
    pub(crate) fn standing(&self, number: u32) -> (bool, bool) {
        let mirror = self.mirror.as_ref();
        mirror.map_or((true, true), |mirror| mirror.standing(number))
    }

    /// Bytes of DRAM in the notes of slots.
    pub(crate) fn dram_bytes(&self) -> u64 {
        let notes = self.geometry.pairs() + self.geometry.rows();
        self.mirror.as_ref().map_or(0, |_| u64::from(notes))
    }

    /// The path of a member, if it has been there since the pool was opened.
    pub(crate) fn member_path(&self, number: u32) -> Option<std::path::PathBuf> {
        Some(self.member_at(number)?.path().to_path_buf())
    }

    /// A member, if it has been there since the pool was opened.
    pub(crate) fn member_at(&self, number: u32) -> Option<&Region> {
        match &self.mirror {
            None => self.members().nth(number as usize),
            Some(mirror) => mirror.at(self.opened(), number),
        }
    }

    /// Takes a member of a mirror out. `is_held` says whether a published block is in a slot.
    ///
    /// # Errors
    /// It is none, or another one is out; it has the only half of some block; a fence fails.
    pub(crate) fn take_out(&self, number: u32, is_held: &dyn Fn(u32) -> bool) -> Result<()> {
        self.mirror_with(number)?
            .take_out_number(&self.geometry, self.opened(), number, is_held)
    }

    /// Whether a slot may be read where its block is not: where a member left or joined, or places are bad, what no half
    /// of counts is.
    #[inline]
    pub(crate) fn must_verify(&self) -> bool {
        let mirror = self.mirror.as_ref();
        let lacks_columns = self.geometry.has_rows && self.missing.is_some();
        mirror.is_some_and(|mirror| lacks_columns || mirror.has_changed() || mirror.bad().are_any())
    }

    /// Whether a member of this pool has writes that the pool lacks: it was served without those that are in.
    pub(crate) fn was_served_without_us(&self, region: &Region, number: u32) -> bool {
        let Some(mirror) = &self.mirror else {
            return false;
        };
        mirror.was_served_without_us(region, &self.geometry, number)
    }

    /// Of a pool that cannot be recovered: has the next opening ask again for the member that this one went on without. That
    /// one may have what is damaged here.
    ///
    /// # Errors
    /// A fence fails, or the witness cannot be written.
    pub(crate) fn call_back(&self) -> Result<()> {
        let mirror = self.mirror.as_ref();
        mirror.map_or(Ok(()), |mirror| {
            mirror.call_back(&self.geometry, self.opened())
        })
    }

    /// Whether the member of this number is not stored to.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn is_out(&self, number: u32) -> Result<bool> {
        Ok(!self.mirror_with(number)?.standing(number).0)
    }

    /// Unmaps a member that was taken out, so that its file can be opened anew.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn retire_gone(&self, number: u32) -> Result<()> {
        let mirror = self.mirror_with(number)?;
        if let Some(region) = mirror.gone(self.opened(), number) {
            region.retire()?;
        }
        Ok(())
    }

    /// Makes a blank member of a region, and has it join: everything is stored to it, too, from now on.
    ///
    /// # Errors
    /// The number is in use; the region is too small; a fence fails.
    pub(crate) fn join(&self, number: u32, region: Region) -> Result<()> {
        let mirror = self.mirror_with(number)?;
        let (superblock, identity) = superblock::joining(self.main(), number)?;
        superblock::make_member(&region, &superblock, self.geometry.slot_area)
            .map_err(|error| unusable(&region, &error))?;
        mirror.join(&self.geometry, self.opened(), number, identity, region)
    }

    /// A member that joined has everything: from now on it counts.
    ///
    /// # Errors
    /// It was taken out; a fence fails.
    pub(crate) fn call_in(&self, number: u32) -> Result<()> {
        self.mirror_with(number)?
            .call_in(&self.geometry, self.opened(), number)
    }

    /// Gives a mirror a witness, a new file at `path`, or takes it away.
    ///
    /// # Errors
    /// It is no mirror of two members that are in; the file is no place for one; a fence fails.
    pub(crate) fn set_witness(&self, path: Option<&Path>, pool_uuid: [u8; 16]) -> Result<()> {
        let mirror = self.mirror_with(0)?;
        if self.geometry.members as usize != WITNESSED_MEMBERS {
            return Err(ErrorKind::Options(
                "three members and more need no witness: most of them are enough".into(),
            )
            .into());
        }
        let made = path.map(|path| Witness::make(path, self.members(), pool_uuid));
        let made = made.transpose()?;
        let path = made.as_ref().map(|made| made.name().path.clone());
        let set = mirror.set_witness(&self.geometry, self.opened(), made);
        let is_unnamed = |error: &Error| {
            let kind = error.kind();
            matches!(kind, ErrorKind::Options(_) | ErrorKind::Refused { .. })
        };
        if let (Err(error), Some(path)) = (&set, path)
            && is_unnamed(error)
        {
            // No member has a roster yet that names it. The caller needs the first error.
            let _ = std::fs::remove_file(path);
        }
        set
    }

    /// Where a mirror's witness is, if it has one, and whether it is there.
    pub(crate) fn witness(&self) -> Option<(PathBuf, bool)> {
        self.mirror.as_ref()?.witness()
    }

    /// Lets the next opening have the witness, though this one may still be held.
    pub(crate) fn release_witness(&self) {
        if let Some(mirror) = &self.mirror {
            mirror.release_witness();
        }
    }

    /// Whether that member is still being rebuilt.
    pub(crate) fn is_rebuilding(&self, number: u32) -> bool {
        self.standing(number) == (true, false)
    }

    /// A member that has everything, and the one that is being rebuilt.
    fn rebuilding(&self) -> Option<(&Region, &Region)> {
        let view = self.mirror.as_ref()?.view(self.opened());
        let (_, complete) = view.complete().next()?;
        Some((complete, view.rebuilding()?))
    }

    /// Copies the lines of incarnation and checkpoint to the member that lacks them. The caller keeps every other
    /// thread from storing them.
    pub(crate) fn copy_current_lines(&self) {
        let Some((complete, joined)) = self.rebuilding() else {
            return;
        };
        for which in 0..2 {
            let lines = [
                self.geometry.incarnation_line(which),
                self.geometry.checkpoint_line(which),
            ];
            for offset in lines {
                let mut line = [0; INCARNATION_BYTES];
                complete.read(offset, &mut line);
                joined.store(offset, &line);
                joined.flush(offset, INCARNATION_BYTES);
            }
        }
    }

    /// Copies the records of a lane in its first lap, where one that has none before it would look like the end of a
    /// hole. The caller keeps every other thread from the lane, whose next record goes to `position`.
    pub(crate) fn copy_first_lap(&self, lane: u32, position: u64) {
        let Some((complete, joined)) = self.rebuilding() else {
            return;
        };
        if position < self.geometry.lane_bytes {
            let mut records = vec![0; position as usize];
            complete.read(self.geometry.lane_offset(lane), &mut records);
            joined.stream(self.geometry.lane_offset(lane), &records);
        }
    }

    /// Held by a thread that stores lines of the volume table; of a mirror, where a joining member is sent them.
    pub(crate) fn hold_volume_lines(&self) -> Option<MutexGuard<'_, ()>> {
        self.mirror
            .as_ref()
            .map(|mirror| mirror.hold_volume_lines())
    }

    /// Whether the block of a slot is wherever recovery expects it: a dirty one in both halves, a clean one in its
    /// first; one in a row with all places of that.
    pub(crate) fn is_in_place(&self, slot: u32, is_dirty: bool) -> bool {
        if let Some(column) = self.column_of(slot) {
            return self.is_row_in_place(column.row);
        }
        matches!(self.lacking(slot, is_dirty), Lacking::Nothing)
    }

    fn lacking(&self, slot: u32, is_dirty: bool) -> Lacking<'_> {
        let Some(mirror) = &self.mirror else {
            return Lacking::Nothing;
        };
        let view = mirror.view(self.opened());
        mirror.lacking(view, slot, self.pair(slot), is_dirty)
    }

    /// Copies the block of a slot to where it is lacking, as it stands in the half that is there; durable with the next
    /// fence. False if none is there. The caller has the slot to itself, or a lock of a key that holds it, and has
    /// seen that the half is right. Of a row it is the place that is lacking, whichever that is.
    pub(crate) fn copy_half(&self, slot: u32, is_dirty: bool) -> bool {
        if let Some(column) = self.column_of(slot) {
            return self.complete_row(column.row);
        }
        let Lacking::Half { from, to, note } = self.lacking(slot, is_dirty) else {
            return matches!(self.lacking(slot, is_dirty), Lacking::Nothing);
        };
        let mut block = vec![0; self.block_bytes()];
        from.region.read(from.offset, &mut block);
        to.region.stream(to.offset, &block);
        // Orders the copy before what the next holder of the lock changes in it.
        to.region.order_streams();
        if let Some(mirror) = &self.mirror {
            mirror.note_halves(slot, note);
        }
        true
    }

    /// Copies a block out that was streamed into a private slot, of which this is the CRC32C, from whichever member has
    /// it, also from one that is out. False if none has.
    pub(crate) fn read_staged(&self, slot: u32, crc: u32, out: &mut [u8]) -> bool {
        if self.read_slot_crc(slot, out) == crc && !self.slot_lost(slot) {
            return true;
        }
        let mirror = self.mirror.as_ref();
        mirror.is_some_and(|mirror| self.read_staged_anywhere(mirror, slot, crc, out))
    }

    #[cold]
    fn read_staged_anywhere(&self, mirror: &Mirror, slot: u32, crc: u32, out: &mut [u8]) -> bool {
        let pair = self.pair(slot);
        let halves = [
            (pair.first, pair.first_offset),
            (pair.second, pair.second_offset),
        ];
        halves.into_iter().any(|(number, offset)| {
            let mut regions = mirror.ever_at(self.opened(), number);
            regions.any(|region| {
                region.read_crc32c(offset, out) == crc && !region.has_media_error(offset, out.len())
            })
        })
    }

    /// Completes a private slot that was filled before a member joined, whose block has this CRC32C. False if no member
    /// has it any more.
    #[cold]
    pub(crate) fn complete_staged(&self, slot: u32, crc: u32) -> bool {
        if self.is_protected(slot) {
            return true;
        }
        let mut block = vec![0; self.block_bytes()];
        self.read_staged(slot, crc, &mut block) && self.stream_slot(slot, &block) == crc
    }
}
