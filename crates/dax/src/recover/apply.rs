//! Making a region whole: pages that their rows give, then parity and sums of what is there.

use super::roles::Roles;
use super::scan::{Page, Scan, Verdict};
use crate::error::Result;
use crate::format::{PAGE_BYTES, Sum};
use crate::medium::{Medium, PageSum};

/// Rows whose parity is durable before their sums are written.
const BATCH_ROWS: u64 = 4096;

/// Writes the pages that rows give, and zeroes where the loss was accepted, and sends everything that is there on its
/// way, **fence**: a page that is rebuilt is durable before the parity that gave it changes.
pub(super) fn rebuild(roles: &Roles, is_orderly: bool) -> Result<()> {
    let geometry = roles.geometry();
    let mut scan = Scan::new(roles, is_orderly);
    let stream = |extent: usize, row: u64, page: &Page| {
        let part = roles.roles[extent].part.as_ref();
        let region = &part.expect("every role has its part by now").region;
        region.stream(row * PAGE_BYTES, page);
    };
    for row in 0..geometry.rows() {
        match scan.look(row)? {
            Verdict::Stands => {}
            Verdict::Rebuilt(extent, page) => stream(extent, row, &page),
            Verdict::Lost(extents) => {
                for extent in extents {
                    stream(extent, row, &[0; PAGE_BYTES as usize]);
                }
            }
        }
    }
    for part in roles.roles.iter().filter_map(|role| role.part.as_ref()) {
        // What a killed program stored may be in a cache only.
        part.region.flush(0, part.region.len() as usize);
        part.region.note_foreign_stores();
        part.region.fence()?;
    }
    Ok(())
}

/// Gives every row the parity, and every page the sums, of what is there: parity, **fence**, sums, **fence**.
pub(super) fn make_consistent(medium: &Medium, pass: u64) -> Result<()> {
    let geometry = medium.geometry;
    let mut pages: Vec<Page> = vec![[0; PAGE_BYTES as usize]; geometry.extents()];
    for start in (0..geometry.rows()).step_by(BATCH_ROWS as usize) {
        let mut sums = Vec::new();
        for row in start..geometry.rows().min(start + BATCH_ROWS) {
            for (extent, page) in pages.iter_mut().enumerate() {
                let check = medium.read_page(extent, row, page);
                let check = check.unwrap_or_else(|| Sum::of(page, extent, row, 0).check());
                let copies = medium.sums(extent, row);
                if copies.iter().any(|sum| sum.check() != check) {
                    let sum = Sum::from_check(check, pass);
                    sums.push(PageSum { extent, row, sum });
                }
            }
            let parity = parity_of(&pages);
            let mut found = [0; PAGE_BYTES as usize];
            let role = geometry.parity_role();
            if medium.read_page(role, row, &mut found).is_none() || found != parity {
                medium.stream_page(role, row, &parity);
            }
        }
        // Parity is durable before the sums that vouch for its row.
        medium.fence_parts()?;
        medium.put_sums(&sums);
        // And the sums before a line that believes them.
        medium.fence_sidecars()?;
    }
    Ok(())
}

fn parity_of(pages: &[Page]) -> Page {
    let mut parity = [0; PAGE_BYTES as usize];
    for page in pages {
        for (into, byte) in parity.iter_mut().zip(page) {
            *into ^= byte;
        }
    }
    parity
}
