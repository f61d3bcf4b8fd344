//! What holds of every engine alike: a page of the medium that goes bad is an error, never wrong bytes,
//! and nothing wrong on the disk; numbers that overflow are refused.
//!
//! A file cut short under its mapping fails the way a bad page does.

use std::fs::File;
use std::sync::Arc;

use crate::Engine;
use forebay::{Backing, Region, RegionOptions};
use tempfile::TempDir;

use super::{EngineName, EngineOptions, create, open};
use crate::testing::{VolatileDisk, disk_holding};

const BLOCK: usize = 4096;
const DISK_BLOCKS: u64 = 200;
/// Blocks that are written, and then fill a good part of the region.
const WRITTEN: u64 = 120;
const REGION_BYTES: u64 = 1 << 20;

const DESIGNS: [EngineName; 4] = [
    EngineName::Classic,
    EngineName::Ubj,
    EngineName::Tinca,
    EngineName::Spindle,
];

struct Case {
    place: TempDir,
    disk: Arc<VolatileDisk>,
    options: EngineOptions,
    name: EngineName,
}

impl Case {
    fn new(name: EngineName) -> Case {
        let mut bytes = vec![1; DISK_BLOCKS as usize * BLOCK];
        let options = EngineOptions {
            journal_blocks: (name == EngineName::Classic).then_some(40),
            background: false,
            ..EngineOptions::default()
        };
        bytes.resize(
            bytes.len() + options.journal_blocks.unwrap_or(0) as usize * BLOCK,
            0,
        );
        Case {
            place: TempDir::new().expect("a directory"),
            disk: disk_holding(&bytes),
            options,
            name,
        }
    }

    fn backing(&self) -> Backing {
        Backing::from_store(self.disk.clone())
    }

    fn region_options() -> RegionOptions {
        RegionOptions::default().huge_pages(false)
    }

    /// An engine with blocks that the disk does not have.
    fn written(&self) -> Box<dyn Engine> {
        let path = self.place.path().join("region");
        let region = Region::create(&path, REGION_BYTES, &Case::region_options());
        let region = region.expect("a region");
        let engine = create(self.name, region, self.backing(), &self.options);
        let engine = engine.expect("an engine");
        for block in 0..WRITTEN {
            engine.write(block, &[2; BLOCK]).expect("a write");
        }
        engine
    }

    /// All pages from `good_bytes` on go bad.
    fn cut(&self, good_bytes: u64) {
        let file = File::options()
            .write(true)
            .open(self.place.path().join("region"));
        file.and_then(|file| file.set_len(good_bytes)).expect("cut");
    }
}

#[test]
fn a_block_on_a_bad_page_is_an_error_and_never_other_bytes() {
    for name in DESIGNS {
        let case = Case::new(name);
        let engine = case.written();
        case.cut(96 << 10);
        let mut failed = 0;
        for block in 0..WRITTEN {
            let mut out = vec![0; BLOCK];
            match engine.read(block, &mut out) {
                Ok(()) => assert!(out == [2; BLOCK], "{name}: block {block} reads otherwise"),
                Err(_) => failed += 1,
            }
        }
        assert!(name == EngineName::Classic || failed > 0, "{name}");
        assert!(engine.flush().is_err(), "{name} flushed what it lost");
        for attempt in 0..4 {
            let written = engine.write(attempt, &[3; BLOCK]);
            assert!(written.is_err(), "{name} wrote to a bad medium");
        }
        for block in case.disk.bytes().chunks(BLOCK).take(DISK_BLOCKS as usize) {
            let is_known = block == [1; BLOCK] || block == [2; BLOCK];
            assert!(is_known, "{name} wrote to the disk what was never written");
        }
    }
}

#[test]
fn metadata_on_a_bad_page_is_not_an_empty_cache() {
    for name in DESIGNS {
        // Rings come first and are larger than the entries of those that have none.
        let has_ring = matches!(name, EngineName::Tinca | EngineName::Spindle);
        for good_bytes in [4096, if has_ring { 12288 } else { 4096 }] {
            let case = Case::new(name);
            drop(case.written());
            let path = case.place.path().join("region");
            let region = Region::open(&path, &Case::region_options()).expect("a region");
            case.cut(good_bytes);
            let opened = open(name, region, case.backing(), &case.options);
            assert!(opened.is_err(), "{name} after {good_bytes} good bytes");
        }
    }
}

#[test]
fn blocks_at_the_end_of_all_numbers_are_refused() {
    for name in EngineName::ALL {
        let case = Case::new(name);
        let engine = case.written();
        let mut bytes = vec![0; 3 * BLOCK];
        for block in [
            u64::MAX,
            u64::MAX - 1,
            u64::MAX / BLOCK as u64,
            DISK_BLOCKS - 2,
        ] {
            assert!(
                engine.write(block, &bytes).is_err(),
                "{name}: write {block}"
            );
            assert!(
                engine.read(block, &mut bytes).is_err(),
                "{name}: read {block}"
            );
        }
    }
}
