//! Pages that are wrong on one member, or that it does not give: read from the other one, and later written again.
//!
//! A reader takes the right bytes and notes the page; the thread that maintains the log repairs it in its turn. **A page is written
//! only while an entry names it and the turn is held**: a segment comes free in a turn alone, so nothing else was written to its
//! place. What is written is bytes that match the entry's check.

use super::core::Log;
use crate::device::copies;
use crate::error::Result;
use crate::mutants::{Mutant, mutated};
use crate::page::Pages;
use crate::state::Entry;

impl Log {
    /// Loads a block from the member that has it right, if one has; a page that another one has wrong is noted.
    pub(super) fn load_other(&self, entry: Entry, out: &mut [u8]) -> bool {
        if self.device.members().is_none() {
            return false;
        }
        let mut found = Pages::zeroed(1);
        let mut is_found = false;
        let mut is_wrong = false;
        for copy in copies(&*self.device) {
            let read = copy.read(u64::from(entry.page), &mut found);
            match read.is_ok() && entry.has_bytes(&found) {
                true if !is_found => {
                    out.copy_from_slice(&found);
                    is_found = true;
                }
                true => {}
                false => is_wrong = true,
            }
        }
        if is_found && is_wrong {
            self.repairs.note(entry);
        }
        is_found
    }

    /// Whether pages wait to be repaired.
    pub fn has_repairs(&self) -> bool {
        self.repairs.is_any()
    }

    /// Repairs what was noted; how many pages.
    ///
    /// # Errors
    /// A member does not take its page, and the other one cannot be gone on with alone.
    pub fn repair(&self) -> Result<u64> {
        if !self.has_repairs() {
            return Ok(0);
        }
        let _alone = self.maintain();
        let mut repaired = 0;
        for entry in self.repairs.take() {
            let named = {
                let state = self.lock();
                let now = state.table.get(entry.key());
                now.filter(|now| now.page == entry.page)
            };
            // By the check that the table has: a newer version of the block may have come to the same page since it was noted.
            if let Some(now) = named {
                repaired += self.repair_page(now)?;
            }
        }
        Ok(repaired)
    }

    fn repair_page(&self, entry: Entry) -> Result<u64> {
        let Some(members) = self.device.members() else {
            return Ok(0);
        };
        let page = u64::from(entry.page);
        let (mut right, mut wrong) = (None, Vec::new());
        for (number, device) in members.served() {
            let mut bytes = Pages::zeroed(1);
            let is_read = device.read(page, &mut bytes).is_ok();
            match is_read && entry.has_bytes(&bytes) {
                true => right = right.or(Some((number, bytes))),
                false => wrong.push((number, device, bytes)),
            }
        }
        let Some((from, bytes)) = right else {
            return Ok(0);
        };
        let mut repaired = 0;
        for (number, device, wrong) in wrong {
            let (onto, onto_device, bytes) = match mutated(Mutant::SsdMirrorRepairFromWrong) {
                true => {
                    let other = members.served().into_iter().find(|one| one.0 == from);
                    let other = other.expect("it was read");
                    (other.0, other.1, &wrong)
                }
                false => (number, device, &bytes),
            };
            // Durable before it counts as repaired; it orders nothing else.
            match onto_device.write_durable(page, &[bytes]) {
                Ok(()) => {
                    members.note_repaired();
                    repaired += 1;
                }
                Err(error) => {
                    let expelled = members.expel(onto, &error);
                    expelled.map_err(self.failed("repair a page"))?;
                }
            }
        }
        Ok(repaired)
    }
}
