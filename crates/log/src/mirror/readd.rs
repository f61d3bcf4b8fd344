//! A member in the place of one that is out: a copy of the other, made while nobody has the pool open.
//!
//! 1 The new one is blank, durably: what is half copied is no member. 2 It gets all pages, flushed. 3 It gets a roster by which it
//! counts for nothing by itself, and the superblock, durably. 4 The other member's roster calls it in: from here on both are needed.
//! 5 It gets that roster. A crash before step 4 leaves the pool as it was; after it an opening with both does step 5.

use super::claim::Claim;
use crate::device::Device;
use crate::error::{LogError, Result};
use crate::media::{ROSTER_PAGE, Roster, SUPERBLOCK_PAGE, Standing};
use crate::mutants::{Mutant, mutated};
use crate::page::{PAGE_BYTES, Pages};
use std::io;
use std::ops::ControlFlow;

/// Pages that are copied at once.
const COPIED_PAGES: u64 = 256;

/// The member that has everything, and the new one.
struct Copying<'d> {
    claim: Claim,
    from: &'d dyn Device,
    onto: &'d dyn Device,
    id: u64,
}

/// Whether a device was the other member of the pool on `from`, and was never served without it: what it holds, the pool has.
#[must_use]
pub fn was_other_member(from: &dyn Device, device: &dyn Device) -> bool {
    let (Ok(from), Ok(claim)) = (Claim::read(from), Claim::read(device)) else {
        return false;
    };
    claim.superblock.uuid == from.superblock.uuid
        && claim.member == from.member ^ 1
        && claim.roster.calls_in(from.member, from.id())
}

/// Makes `onto` the member of the pool on `from` that is out, whatever it holds; or that is missing, if the caller says that it `is_gone` for
/// good. `id` tells the new member from all others. `watch` is told bytes that are copied, of how many, and may end it. Returns all bytes.
///
/// # Errors
/// Both members are in; `onto` is too small; one of the two fails; `watch` ended it. The pool is as before then, or, where the
/// last roster was not written to `onto` alone, has both.
pub fn readd(
    (from, onto): (&dyn Device, &dyn Device),
    is_gone: bool,
    id: u64,
    watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<u64> {
    let claim = Claim::read(from)?;
    let refuse = |path: &std::path::Path, reason: String| {
        let path = path.to_owned();
        Err(LogError::Unsuitable { path, reason })
    };
    if !claim.is_in() {
        return refuse(
            from.path(),
            "it is a copy that was not finished; name the member that is in".into(),
        );
    }
    let other = claim.member ^ 1;
    if claim.roster.standings[other] == Standing::In && !is_gone {
        return refuse(
            from.path(),
            format!(
                "its roster calls member {other} in, so that one may have what this one lacks; open the pool with both, or say that it is \
                 gone for good (--without-missing)"
            ),
        );
    }
    let pages = claim.superblock.geometry.pages();
    if onto.pages() < pages {
        return refuse(
            onto.path(),
            format!(
                "it has {} bytes, and the pool {}; choose a larger one",
                onto.pages() * PAGE_BYTES as u64,
                pages * PAGE_BYTES as u64
            ),
        );
    }
    let copying = Copying {
        claim,
        from,
        onto,
        id,
    };
    copying.blank()?;
    if mutated(Mutant::SsdMirrorReaddBeforeCopy) {
        copying.name()?;
        copying.copy(pages, watch)?;
    } else {
        copying.copy(pages, watch)?;
        copying.name()?;
    }
    Ok(pages * PAGE_BYTES as u64)
}

impl Copying<'_> {
    fn failed(device: &dyn Device, action: &'static str) -> impl FnOnce(io::Error) -> LogError {
        LogError::of_device(device.path(), action)
    }

    /// Step 1.
    fn blank(&self) -> Result<()> {
        // The superblock alone at first: a power cut within a write of several pages may clear the newest roster and leave the one
        // before it, by which the file would count again.
        let rest = ROSTER_PAGE + 1 - SUPERBLOCK_PAGE;
        for (first, count) in [(SUPERBLOCK_PAGE, 1), (SUPERBLOCK_PAGE + 1, rest)] {
            let pages = Pages::zeroed(count as usize);
            let written = self.onto.write_durable(first, &[&pages]);
            written.map_err(Copying::failed(self.onto, "clear it"))?;
        }
        Ok(())
    }

    /// Step 2.
    fn copy(&self, pages: u64, watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> Result<()> {
        // What is read here is durable there as well: the copy must not outlive what it was made of.
        let flushed = self.from.flush();
        flushed.map_err(Copying::failed(self.from, "flush it"))?;
        let bytes = |pages: u64| pages * PAGE_BYTES as u64;
        // The superblock and the rosters come last.
        for part in [SUPERBLOCK_PAGE + 1..ROSTER_PAGE, ROSTER_PAGE + 2..pages] {
            let mut next = part.start;
            while next < part.end {
                let count = COPIED_PAGES.min(part.end - next);
                let mut some = Pages::zeroed(count as usize);
                let read = self.from.read(next, &mut some);
                read.map_err(Copying::failed(self.from, "read it"))?;
                let written = self.onto.write(next, &[&some]);
                written.map_err(Copying::failed(self.onto, "write it"))?;
                next += count;
                if watch(bytes(next), bytes(pages)).is_break() {
                    return Err(LogError::Unsuitable {
                        path: self.onto.path().to_owned(),
                        reason: "the copy was called off; the pool is as before".into(),
                    });
                }
            }
        }
        // Orders the copy before the rosters that count on it.
        let flushed = self.onto.flush();
        flushed.map_err(Copying::failed(self.onto, "flush it"))
    }

    /// Steps 3 to 5.
    fn name(&self) -> Result<()> {
        let (member, other) = (self.claim.member, self.claim.member ^ 1);
        let mut joining = self.claim.roster;
        joining.ids[other] = self.id;
        joining.standings[other] = Standing::Joining;
        let called_in = joining.with(other, Standing::In);
        self.write_roster(self.onto, other, &joining)?;
        let mut page = Pages::zeroed(1);
        self.claim.superblock.encode(&mut page);
        let written = self.onto.write_durable(SUPERBLOCK_PAGE, &[&page]);
        written.map_err(Copying::failed(self.onto, "write its superblock"))?;
        self.write_roster(self.from, member, &called_in)?;
        self.write_roster(self.onto, other, &called_in)
    }

    /// Durable when it returns, before the next step.
    fn write_roster(&self, device: &dyn Device, member: usize, roster: &Roster) -> Result<()> {
        let mut page = Pages::zeroed(1);
        roster.encode(self.claim.superblock.uuid, member, &mut page);
        let place = ROSTER_PAGE + roster.epoch % 2;
        let written = device.write_durable(place, &[&page]);
        written.map_err(Copying::failed(device, "write its roster"))
    }
}
