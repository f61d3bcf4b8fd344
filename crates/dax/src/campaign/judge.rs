//! What an opening and a look at everything may find.

use super::ground::{End, Ground, PAGE};
use super::kinds::{Area, Kind};
use crate::format::PAGE_BYTES;
use crate::medium::Medium;
use crate::model::world::{World, versions};
use crate::report::Verified;

/// Which pages are named by their sums.
pub fn names(ground: &Ground, medium: &Medium) -> Vec<bool> {
    let is_named = |page| {
        let (extent, row) = ground.geometry.place(page);
        medium.sum(extent, row).newest().is_named()
    };
    (0..ground.geometry.pages()).map(is_named).collect()
}

/// What an opening called lost: only a page whose file is gone, in a row that was stored to.
pub fn losses(ground: &mut Ground, offsets: &[u64]) {
    for offset in offsets {
        let page = offset / PAGE_BYTES;
        let (_, row) = ground.geometry.place(page);
        let may_be = ground.outcome.is_struck && ground.outcome.what.0.loses_bytes();
        if !may_be || !ground.can_be_wrong(page) || !ground.is_row_in_window(row) {
            ground
                .outcome
                .is_wrong(|| format!("page {page} is lost, although its row gives it"));
        }
    }
    ground.outcome.says(|| format!("{offsets:?} are lost"));
}

/// Compares every page of an opened region with what was promised, and takes it from there.
pub fn opened(ground: &mut Ground, medium: &Medium, lost: &[u64], was_missing: bool) {
    let named = names(ground, medium);
    for page in 0..ground.geometry.pages() {
        let (extent, row) = ground.geometry.place(page);
        let mut found = vec![0; PAGE];
        if medium.read_page(extent, row, &mut found).is_none() {
            // The medium says so itself, each time.
            ground.outcome.says(|| format!("page {page} is gone"));
            continue;
        }
        let is_named = named[page as usize];
        if lost.contains(&(page * PAGE_BYTES)) {
            if !is_named || found.iter().any(|&byte| byte != 0) {
                ground.outcome.is_wrong(|| {
                    format!("page {page} was accepted as lost, and is not zero, or not named")
                });
            }
            take(ground, page, found, true);
            continue;
        }
        page_opened(ground, page, found, is_named, was_missing);
    }
    ground.promise.named = named;
}

fn page_opened(ground: &mut Ground, page: u64, found: Vec<u8>, is_named: bool, was_missing: bool) {
    let at = page as usize;
    let (covered, latest) = (ground.promise.covered[at], ground.promise.latest[at]);
    let is_harmed = was_missing && ground.can_be_wrong(page);
    let persisted = match is_harmed && is_named {
        true => 0,
        false => ground.promise.persisted[at],
    };
    let is_exact = ground.end != End::PowerCut && !was_missing;
    let is_right = match (is_exact, versions(page, &found)) {
        (true, _) => found == ground.bytes[at],
        (false, Some((oldest, newest))) => oldest >= covered.max(persisted) && newest <= latest,
        (false, None) => false,
    };
    if ground.promise.named[at] && !is_named {
        ground
            .outcome
            .is_wrong(|| format!("page {page} was named, and is so no more"));
    }
    if ground.garbage[at] {
        take(ground, page, found, true);
        return;
    }
    if is_right {
        if is_named && !ground.promise.named[at] && covered == latest && !is_harmed {
            ground
                .outcome
                .says(|| format!("page {page}, which was covered, is unverified"));
        }
        take(ground, page, found, false);
        return;
    }
    // What the program made durable by itself in the page's window, and did not arrive, nothing tells.
    let is_as_covered = versions(page, &found)
        .is_some_and(|(oldest, newest)| oldest >= covered && newest <= latest);
    let is_in_window = covered < latest && is_as_covered && !is_exact;
    if ground.outcome.is_struck && is_in_window && ground.can_be_wrong(page) {
        ground.outcome.is_in_window = true;
        ground
            .outcome
            .tell(|| format!("page {page} lost what was in its window"));
        take(ground, page, found, false);
        return;
    }
    // A seal is believed, and nothing is read: it is seen later.
    let is_unread = ground.end == End::Sealed && !is_named;
    let (_, row) = ground.geometry.place(page);
    // What rested when its file went is given by its row.
    let may_be_gone = !ground.outcome.what.0.loses_bytes() || ground.is_row_in_window(row);
    let may_be_wrong = ground.can_be_wrong(page) && may_be_gone;
    if ground.outcome.is_struck && may_be_wrong && (is_named || is_unread) {
        if is_named {
            ground
                .outcome
                .says(|| format!("page {page} is damaged, and named"));
            take(ground, page, found, true);
        }
        return;
    }
    let found = versions(page, &found);
    ground.outcome.is_wrong(|| {
        format!(
            "page {page} is of versions {found:?}, promised {} to {latest}, named: {is_named}",
            covered.max(persisted)
        )
    });
}

/// What is there is what a program reads from now on.
fn take(ground: &mut Ground, page: u64, found: Vec<u8>, is_garbage: bool) {
    let at = page as usize;
    let oldest = versions(page, &found).map_or(0, |(oldest, _)| oldest);
    if !is_garbage {
        ground.promise.covered[at] = oldest;
        ground.promise.persisted[at] = oldest;
    } else {
        ground.promise.covered[at] = 0;
        ground.promise.persisted[at] = 0;
    }
    ground.oldest[at] = match is_garbage {
        true => 0,
        false => oldest,
    };
    ground.seen[at] = ground.promise.latest[at];
    ground.bytes[at] = found;
    ground.garbage[at] = is_garbage;
}

/// Compares everything at the end of a look by `verify`, of which `verified` is the last one.
pub fn looked(ground: &mut Ground, world: &World, verified: &Verified) {
    let named = names(ground, &world.engine.medium);
    let status = world.engine.status();
    let mut all_right = verified.damaged.is_empty() && verified.repaired == 0;
    let mut is_named_anew = false;
    for page in 0..ground.geometry.pages() {
        let at = page as usize;
        let offset = page * PAGE_BYTES;
        let (extent, row) = ground.geometry.place(page);
        let mut found = vec![0; PAGE];
        let is_there = world
            .engine
            .medium
            .read_page(extent, row, &mut found)
            .is_some();
        let is_told = named[at]
            || verified.damaged.contains(&offset)
            || status.damaged.contains(&offset)
            || !is_there;
        is_named_anew |= named[at] && !ground.promise.named[at];
        if found == ground.bytes[at] {
            continue;
        }
        all_right = false;
        if !is_told || !ground.outcome.is_struck || !ground.can_be_wrong(page) {
            let found = versions(page, &found);
            ground.outcome.is_wrong(|| {
                format!("page {page} reads as versions {found:?}, which is not what was stored; told: {is_told}")
            });
        }
    }
    // What lies over a sum may name its page, a bit that was turned over, or a write from elsewhere: then it is named.
    let may_be_named = matches!(ground.outcome.what.1, Area::PageSum | Area::RegionLine);
    if must_be_repaired(ground) && !(all_right && (may_be_named || !is_named_anew)) {
        ground
            .outcome
            .is_wrong(|| format!("it rested, and was not repaired: {verified:?}"));
    }
    ground.outcome.is_repaired = ground.outcome.is_found && all_right && !is_named_anew;
}

/// A single fault below rows that rest, and no crash since.
fn must_be_repaired(ground: &Ground) -> bool {
    let what = ground.outcome.what.0;
    let is_lasting = what == Kind::MisdirectedRead || what.loses_bytes();
    ground.outcome.is_struck && ground.rests && !ground.has_crashed && !is_lasting
}
