//! What a mapped region of width 1 costs in bytes, cache lines and fences, counted exactly.

use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay_dax::DaxRegion;

use super::Bench;
use crate::regions::RegionFiles;
use forebay_harness::stores::{PAGE_WORDS, PacedStores};
use forebay_harness::{Result, Row};

const PAGE_BYTES: u64 = 4096;
/// Syncs that are counted.
const SYNCS: u64 = 1000;
/// Pages of the pass that is counted.
const PASS_PAGES: u64 = 10_000;
/// Longer than the counting takes, so that all passes are those of `sync`.
const LONG_PERIOD: Duration = Duration::from_secs(30);

/// Bytes of the sidecars in a hundred of the region.
pub fn space(bench: &Bench) -> Result<Vec<Row>> {
    let (_files, created) = RegionFiles::create(&bench.scratch, bench.pool_bytes)?;
    let mut beside_bytes = 0;
    for extent in &created.paths {
        let mut sidecar = extent.clone().into_os_string();
        sidecar.push(".sums");
        beside_bytes += std::fs::metadata(sidecar)?.len();
    }
    let percent = 100.0 * beside_bytes as f64 / created.size_bytes as f64;
    Ok(vec![Row::new("dax_space_percent", percent, "%")])
}

/// Lines and fences of a sync of one page that was stored to, and lines of a pass for each page that was.
pub fn lines(bench: &Bench) -> Result<Vec<Row>> {
    let (files, _) = RegionFiles::create(&bench.scratch, bench.pool_bytes)?;
    let region = files.open(LONG_PERIOD)?;
    let tracker = region.status().tracker;
    // The first pass compares every page: somebody may have had the file before anybody watched.
    region.sync(0..region.len())?;
    let syncs = count(&region, || sync_pages(&region))?;
    let pages = pass_pages(&region);
    let mut stores = PacedStores::new(region.words(), pages, (0, 1));
    let pass = count(&region, || {
        stores.store_due(Duration::from_secs(1));
        Ok(region.sync(0..region.len())?)
    })?;
    bench.say(&format!(
        "  {SYNCS} syncs: {} lines streamed, {} flushed, {} fences; a pass over {pages} pages: {}, {}, {}; \
         tracker {tracker}",
        syncs.lines_streamed,
        syncs.lines_flushed,
        syncs.fences,
        pass.lines_streamed,
        pass.lines_flushed,
        pass.fences,
    ));
    region.close()?;
    let each = |number: u64, of: u64| number as f64 / of as f64;
    Ok(vec![
        Row::new("dax_sync_4k_lines", each(syncs.lines(), SYNCS), "lines"),
        Row::new("dax_sync_4k_fences", each(syncs.fences, SYNCS), "fences"),
        Row::new(
            "dax_pass_lines_per_page",
            each(pass.lines(), pages),
            "lines",
        ),
        Row::new("dax_pass_fences", pass.fences as f64, "fences"),
    ])
}

fn sync_pages(region: &DaxRegion) -> Result<()> {
    let words = region.words();
    let pages = region.len() / PAGE_BYTES;
    for number in 0..SYNCS {
        let page = number * 7919 % pages;
        words[page as usize * PAGE_WORDS].store(number + 1, Ordering::Relaxed);
        let offset = page * PAGE_BYTES;
        region.sync(offset..offset + PAGE_BYTES)?;
    }
    Ok(())
}

fn pass_pages(region: &DaxRegion) -> u64 {
    PASS_PAGES.min(region.len() / PAGE_BYTES / 2)
}

/// What was persisted while `work` ran. A pass of the region's own adds nothing but itself: it would be counted.
fn count(region: &DaxRegion, work: impl FnOnce() -> Result<()>) -> Result<forebay_dax::Counters> {
    let (before, passes) = (region.counters(), region.status().counts.passes);
    work()?;
    let counted = region.counters() - before;
    match region.status().counts.passes == passes {
        true => Ok(counted),
        false => Err("a pass of the region's own fell into what was counted".into()),
    }
}
