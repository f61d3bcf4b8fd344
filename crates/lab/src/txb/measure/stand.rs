//! The files of a region, under one design.

use std::path::Path;
use std::time::Duration;

use forebay_dax::{CreateOptions, DaxPool, DaxRegion, OpenOptions};
use forebay_harness::{TempDir, temporary_folder};
use forebay_pmem::{Region, RegionOptions};

use crate::txb::design::Design;
use crate::txb::error::Result;
use crate::txb::heap::Heap;
use crate::txb::media::{Media, UNIT_BYTES};

const NAME: &str = "region";
/// Data extents: with the parity four files, as the paper has four DIMMs.
pub(super) const WIDTH: u32 = 3;
/// Longer than a measurement takes, so that passes come when they are asked for.
const LONG_PERIOD: Duration = Duration::from_secs(30);

/// A heap in files of its own.
pub(super) struct Stand {
    pub heap: Heap,
    // After what maps its files.
    _folder: TempDir,
}

impl Stand {
    /// Makes the region's files in `directory`, of which nothing stays, and a heap in them.
    pub fn new(
        directory: &Path,
        design: Design,
        size_bytes: u64,
    ) -> std::result::Result<Stand, String> {
        let folder = temporary_folder(directory).map_err(|error| error.to_string())?;
        let heap = heap(folder.path(), design, size_bytes).map_err(|error| error.to_string())?;
        Ok(Stand {
            heap,
            _folder: folder,
        })
    }
}

fn heap(folder: &Path, design: Design, size_bytes: u64) -> Result<Heap> {
    let members: Vec<_> = (0..=WIDTH)
        .map(|member| folder.join(format!("member{member}")))
        .collect();
    let pool = DaxPool::new(&members, [0x6c; 16]);
    let options = CreateOptions::new(size_bytes).width(WIDTH);
    let created = DaxRegion::create(&pool, NAME, &options)?;
    if design == Design::Async {
        let options = OpenOptions::default().period(LONG_PERIOD);
        let region = DaxRegion::open(&pool, NAME, &options)?;
        return Heap::create(Media::mapped(region, u64::from(WIDTH)));
    }
    // As the library maps them: small pages.
    let options = RegionOptions::default().huge_pages(false);
    let mut extents = Vec::new();
    for path in &created.paths {
        extents.push(Region::open(path, &options)?);
    }
    let sums = || {
        Region::create(
            &folder.join("sums"),
            Media::sums_bytes(size_bytes),
            &options,
        )
    };
    let parity = extents.pop();
    let parity = || parity.unwrap_or_else(|| unreachable!("a region has a parity"));
    let media = match design {
        Design::None | Design::Async => Media::bare(extents, UNIT_BYTES),
        Design::TxbObject => Media::with_object_sums(extents, parity(), UNIT_BYTES),
        Design::TxbPage => Media::with_page_sums(extents, [parity(), sums()?], UNIT_BYTES),
    };
    Heap::create(media)
}
