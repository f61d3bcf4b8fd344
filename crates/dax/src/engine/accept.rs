//! A caller's word that pages are right which an end without order left in doubt.

use std::ops::Range;

use super::state::Engine;
use crate::error::{ErrorKind, Result};
use crate::format::{PAGE_BYTES, Sum};
use crate::medium::PageSum;

/// Pages whose sums are durable together.
const BATCH: usize = 64 * 1024;

impl Engine {
    /// Names these pages no more; how many were named. Their content stays what it is.
    ///
    /// A sum that says less takes the number of a new pass: one of its copies that a power cut brings back is older then,
    /// and does not count. Of a page that is stored to at the time, or is damaged, it is not known what it says.
    pub fn accept(&self, pages: &Range<u64>) -> Result<u64> {
        let mut state = self.lock();
        let geometry = self.medium.geometry;
        let pass = state.pass + 1;
        let named: Vec<u64> = pages
            .clone()
            .filter(|&page| {
                let (extent, row) = geometry.place(page);
                self.medium.sum(extent, row).newest().is_named()
            })
            .collect();
        for batch in named.chunks(BATCH) {
            let mut sums = Vec::with_capacity(batch.len());
            for &page in batch {
                let (extent, row) = geometry.place(page);
                let mut bytes = [0; PAGE_BYTES as usize];
                let check = self.medium.read_page(extent, row, &mut bytes);
                let copies = self.medium.sum(extent, row);
                let vouching = check.and_then(|check| copies.vouching_for(check));
                let Some(vouching) = vouching.filter(|_| !state.waits.is_waiting(page)) else {
                    let offset = page * PAGE_BYTES;
                    let found = format!(
                        "the page at {offset} matches no sum: it is being stored to, or is damaged"
                    );
                    let todo = "sync and verify the region first";
                    return Err(ErrorKind::Invalid { found, todo }.into());
                };
                let sum = Sum::from_check(vouching.check(), pass);
                sums.push(PageSum { extent, row, sum });
            }
            self.medium.put_sums(&sums);
            // Durable before the caller takes it for done.
            self.medium.fence_sidecars()?;
            state.pass = pass;
        }
        let tally = self.medium.tally(state.line.pass);
        state.line.unverified_pages = tally.unverified_pages;
        state.line.lost_pages = tally.lost_pages;
        Ok(named.len() as u64)
    }
}
