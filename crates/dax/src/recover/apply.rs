//! Making a region whole: pages that their rows give, parity, then sums of what is there.

use super::scan::{Page, Scan, Sources};
use crate::error::Result;
use crate::format::PAGE_BYTES;
use crate::medium::{Medium, PageSum, Tally};

/// Rows whose sums are durable together.
const BATCH_ROWS: u64 = 4096;

/// Stores the pages that were decided and the parity of every row, and sends everything that is there on its way, **fence**;
/// then the sums, **fence**. Cut short anywhere it decides the same the next time: until it has ended nothing of a file that
/// does not count is believed, and of a row that gives a page the parity stays what it is.
pub(super) fn apply(
    medium: &Medium,
    trusted: &[bool],
    is_orderly: bool,
    new_pass: u64,
) -> Result<Tally> {
    let sources = || Sources::of_medium(medium, trusted.to_vec(), is_orderly);
    store_pages(medium, &mut Scan::new(sources(), new_pass));
    // What a killed program or process stored may be in a cache only, also where it matches its sum.
    for part in &medium.parts {
        part.flush_foreign(0, part.region.len() as usize);
    }
    // Pages and parity are durable before the sums that vouch for them.
    medium.fence_parts()?;
    store_sums(medium, &mut Scan::new(sources(), new_pass), new_pass)
}

fn store_pages(medium: &Medium, scan: &mut Scan<'_>) {
    let role = medium.geometry.parity_role();
    let mut found: Page = [0; PAGE_BYTES as usize];
    for row in 0..medium.geometry.rows() {
        let decided = scan.look(row);
        let mut is_changed = false;
        for (extent, page) in decided.iter().enumerate() {
            let is_new = medium.sums(extent, row) != [page.sum, page.sum];
            is_changed |= is_new;
            match &page.page {
                Some(page) => medium.stream_page(extent, row, &page[..]),
                // It, and its parity, may be what a pass whose fence failed could not make durable.
                None if is_new => medium.flush_found_page(extent, row),
                None => {}
            }
        }
        let parity = scan.parity(&decided);
        let is_there = medium.read_page(role, row, &mut found).is_some();
        if is_changed || !is_there || found != parity {
            medium.stream_page(role, row, &parity);
        }
    }
}

/// The pages that were stored match their sums by now, and are decided as before.
fn store_sums(medium: &Medium, scan: &mut Scan<'_>, new_pass: u64) -> Result<Tally> {
    let geometry = medium.geometry;
    let mut tally = Tally::default();
    medium.flush_sums();
    for start in (0..geometry.rows()).step_by(BATCH_ROWS as usize) {
        let mut changed = Vec::new();
        for row in start..geometry.rows().min(start + BATCH_ROWS) {
            for (extent, decided) in scan.look(row).into_iter().enumerate() {
                let sum = decided.sum;
                tally.note(sum);
                if medium.sums(extent, row) != [sum, sum] {
                    changed.push(PageSum { extent, row, sum });
                }
            }
        }
        medium.put_sums(&changed);
        // The sums are durable before a line that believes them.
        medium.fence_sidecars()?;
    }
    tally.pass = new_pass;
    Ok(tally)
}
