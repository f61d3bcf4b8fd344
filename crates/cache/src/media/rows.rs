//! Rows: blocks of one transaction and their parity, each on another member.
//!
//! The XOR of all places of a row in which an entry names a column is zero, from the fence of the commit that filled it
//! on, and until none names one no place is stored to but with what that says. So each place is that of the
//! others, whether an entry names it, none does any more, or it is the parity. Nothing vouches for a place that no entry
//! names; what is made of it is judged by the check of the block that it is to be.

use forebay_pmem::{Region, xor_into};

use crate::media::Media;
use crate::media::geometry::MIRROR_MEMBERS_MAX;
use crate::media::mirror::Mirror;
use crate::media::row_places::Column;
use crate::media::view::{Half, Halves, View};
use crate::mutants::{Mutant, mutated};

/// A member, if it is stored to.
fn stored_to(view: View<'_>, member: u32) -> Option<&Region> {
    let region = view.region(member);
    region.filter(|_| view.served.is_live(member))
}

/// Columns of the widest row.
const ROW_WIDTH_MAX: usize = MIRROR_MEMBERS_MAX as usize - 1;

/// What is known of the XOR of a row's places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RowSum {
    /// It is zero, or some place does not count, so that it tells nothing.
    Sound,
    /// It is not: a column is wrong, one that no entry names any more, or the parity.
    Wrong,
}

impl Media {
    /// Whether large transactions fill rows at this moment.
    #[inline]
    pub(crate) fn fills_rows(&self) -> bool {
        let mirror = self.mirror.as_ref().filter(|_| self.geometry.has_rows);
        mirror.is_some_and(|mirror| mirror.fills_rows())
    }
    /// The column of a row that a slot is.
    #[inline]
    pub(crate) fn column_of(&self, slot: u32) -> Option<Column> {
        self.geometry.column_of(slot)
    }
    fn mirror_of_rows(&self) -> &Mirror {
        self.mirror.as_ref().expect("a pool with rows is a mirror")
    }

    /// Streams the block at `data[at..]` into a column of a row that the caller has to itself, from the first to the last in
    /// turn, and behind that one the parity of all; returns the block's CRC-32C. `row` is told where they are. Durable after
    /// a fence.
    #[inline(never)]
    pub(crate) fn stream_column(
        &self,
        column: Column,
        data: &[u8],
        at: usize,
        row: &mut Vec<usize>,
    ) -> u32 {
        let (mirror, geometry) = (self.mirror_of_rows(), &self.geometry);
        let view = mirror.view(self.opened());
        if column.number == 0 {
            // Before any of its places: what a member has of the row that joins behind this does not count.
            mirror.note_row(column.row, view.served);
            row.clear();
        }
        assert!(
            row.len() as u32 == column.number,
            "a row is filled from its first column to its last"
        );
        row.push(at);
        let block = &data[at..at + self.block_bytes()];
        let offset = geometry.row_offset(column.row);
        let crc = match stored_to(view, geometry.column_member(column)) {
            Some(region) => region.stream_crc32c(offset, block),
            None => self.crc(block),
        };
        if column.number + 1 == geometry.row_width() {
            self.stream_parity(view, column.row, data, row);
        }
        crc
    }

    /// Streams the parity of a row whose columns have been streamed.
    fn stream_parity(&self, view: View<'_>, row: u32, data: &[u8], blocks: &[usize]) {
        let Some(region) = stored_to(view, self.geometry.parity_member(row)) else {
            return;
        };
        let mut sources = [data; ROW_WIDTH_MAX];
        for (source, at) in sources.iter_mut().zip(blocks) {
            *source = &data[*at..at + self.block_bytes()];
        }
        let summed = match mutated(Mutant::ParityBeforeLastBlock) {
            true => blocks.len() - 1,
            false => blocks.len(),
        };
        if !mutated(Mutant::ParityNotStreamed) {
            region.stream_xor(self.geometry.row_offset(row), &sources[..summed]);
        }
    }

    /// A row's place on a member, if what is there counts.
    fn row_place(&self, row: u32, member: u32) -> Option<Half<'_>> {
        let mirror = self.mirror_of_rows();
        let place = (member, self.geometry.row_offset(row));
        mirror.row_place(mirror.view(self.opened()), row, place)
    }

    /// Where a column is, if what is there counts.
    pub(super) fn column_place(&self, column: Column) -> Option<Half<'_>> {
        self.row_place(column.row, self.geometry.column_member(column))
    }

    /// Whether a slot is a column whose place does not count, so that the others of its row alone tell of it.
    #[cold]
    pub(crate) fn is_column_absent(&self, slot: u32) -> bool {
        let column = self.column_of(slot);
        column.is_some_and(|column| self.column_place(column).is_none())
    }

    /// Where a column is read. Where it does not count something is, which is wrong by its check.
    pub(super) fn column_halves<'m>(&'m self, mirror: &'m Mirror, column: Column) -> Halves<'m> {
        match self.column_place(column) {
            Some(one) => Halves { one, other: None },
            None => {
                let leading = mirror.view(self.opened()).leading();
                Halves::one(leading, self.geometry.row_offset(column.row))
            }
        }
    }

    /// The XOR of a row's places but for that on one member; false if one of them does not count, or is lost.
    fn xor_of_others(&self, row: u32, member: Option<u32>, out: &mut [u8]) -> bool {
        out.fill(0);
        let mut place = vec![0; out.len()];
        let others = (0..self.geometry.members).filter(|other| Some(*other) != member);
        others.into_iter().all(|other| {
            let Some(half) = self.row_place(row, other) else {
                return false;
            };
            half.region.read(half.offset, &mut place);
            xor_into(out, &place);
            !half.region.has_media_error(half.offset, place.len())
        })
    }

    /// What the other places of its row say is in a column; false if they do not. Its check tells whether that is so.
    #[cold]
    pub(crate) fn read_column_of_others(&self, column: Column, out: &mut [u8]) -> bool {
        self.xor_of_others(column.row, Some(self.geometry.column_member(column)), out)
    }

    /// Looks at the XOR of a row of which a column is named, by the caller who has that one's lock, or looks again with it.
    pub(crate) fn sum_row(&self, row: u32) -> RowSum {
        let mut sum = vec![0; self.block_bytes()];
        let is_told = self.xor_of_others(row, None, &mut sum);
        match is_told && sum.iter().any(|byte| *byte != 0) {
            true => RowSum::Wrong,
            false => RowSum::Sound,
        }
    }

    /// Has the next loads of a row's places see what the medium has.
    pub(crate) fn evict_row(&self, row: u32) {
        let offset = self.geometry.row_offset(row);
        let places = (0..self.geometry.members).filter_map(|member| self.row_place(row, member));
        places.for_each(|half| half.region.evict(offset, self.block_bytes()));
    }

    /// Where the columns of a row do not make its parity, writes what they make; durable with the next fence. The caller
    /// has seen that each column that is named is right. Returns whether it was wrong.
    #[cold]
    pub(crate) fn settle_parity(&self, row: u32) -> bool {
        if self.sum_row(row) == RowSum::Sound || mutated(Mutant::TestedRowNotSettled) {
            return false;
        }
        let member = self.geometry.parity_member(row);
        let mut parity = vec![0; self.block_bytes()];
        let is_told = self.xor_of_others(row, Some(member), &mut parity);
        if let (true, Some(half)) = (is_told, self.row_place(row, member)) {
            half.region.stream(half.offset, &parity);
        }
        true
    }

    /// The same while the pool is used: durable when it returns, as far as a fence of that member tells, and what is loaded
    /// next comes from the medium. If that fence fails, so will the next commit's, which takes the member out.
    pub(crate) fn repair_parity(&self, row: u32) -> bool {
        self.evict_row(row);
        let was_wrong = self.settle_parity(row);
        if let (true, Some(half)) = (
            was_wrong,
            self.row_place(row, self.geometry.parity_member(row)),
        ) {
            let _ = half.region.fence();
            half.region.evict(half.offset, self.block_bytes());
        }
        was_wrong
    }

    /// The member that is stored to and whose place of a row does not count.
    fn lacks_row(&self, row: u32) -> Option<u32> {
        if mutated(Mutant::RowNotRebuilt) {
            return None;
        }
        let served = self.mirror_of_rows().view(self.opened()).served;
        let live = (0..self.geometry.members).filter(|member| served.is_live(*member));
        live.into_iter()
            .find(|member| self.row_place(row, *member).is_none())
    }

    /// Whether each member that is stored to has its place of a row.
    pub(super) fn is_row_in_place(&self, row: u32) -> bool {
        self.lacks_row(row).is_none()
    }

    /// Gives the member that lacks its place of a row what the others say; durable with the next fence. False if they do not.
    /// The caller has the lock of a key that is in the row, so that it is not filled anew meanwhile.
    pub(super) fn complete_row(&self, row: u32) -> bool {
        let Some(member) = self.lacks_row(row) else {
            return true;
        };
        let mirror = self.mirror_of_rows();
        let view = mirror.view(self.opened());
        let mut bytes = vec![0; self.block_bytes()];
        let is_told = self.xor_of_others(row, Some(member), &mut bytes);
        let Some(region) = view.region(member).filter(|_| is_told) else {
            return false;
        };
        region.stream(self.geometry.row_offset(row), &bytes);
        // Orders it before what the next holder of the row stores there.
        region.order_streams();
        mirror.note_row(row, view.served);
        true
    }

    /// Sends the places of a row that recovery found towards the medium.
    pub(super) fn flush_found_row(&self, row: u32) {
        for member in 0..self.geometry.members {
            if let Some(half) = self.row_place(row, member) {
                self.flush_found(half.region, half.offset, self.block_bytes());
            }
        }
    }
}
