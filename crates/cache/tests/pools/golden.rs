//! Pool images that an earlier build wrote still open and hold what they held.
//!
//! The format is not frozen before the first release: until then it may change, and these images
//! with it, on purpose and in the same commit. Write them again with
//! `FOREBAY_WRITE_GOLDEN=1 cargo test -p forebay --test pools golden`.

use std::path::PathBuf;

use crate::fixtures::{BLOCK, Rig, block, get, open, quiet, tiny};
use forebay::{Error, ErrorKind, Pool, PoolOptions, Redundancy};

/// All are dirty, with records in the log.
struct Golden {
    name: &'static str,
    members: usize,
    options: PoolOptions,
}

impl Golden {
    fn all() -> Vec<Golden> {
        let golden = |name, members, options| Golden {
            name,
            members,
            options,
        };
        let mirror = || tiny().redundancy(Redundancy::Mirror);
        let checksum = || tiny().redundancy(Redundancy::Checksum);
        vec![
            golden("plain", 1, tiny()),
            golden("strict", 1, tiny().strict(true)),
            golden("unchecked", 1, tiny().checksums(false)),
            golden("two-members", 2, tiny()),
            golden("mirror", 2, mirror()),
            golden("mirror-of-three", 3, mirror()),
            golden("checksum", 1, checksum()),
            golden("checksum-all-sealed", 1, checksum()),
            golden("rows", 3, tiny().redundancy(Redundancy::Parity)),
        ]
    }
}

fn path(name: &str, member: usize) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/golden");
    PathBuf::from(format!("{folder}/{name}-{member}.pool"))
}

fn write_again() {
    for (number, golden) in Golden::all().iter().enumerate() {
        forebay::unstable::set_random_seed(Some(number as u64 + 1));
        let rig = Rig::new(&golden.options, golden.members);
        crate::fixtures::media_open::fill(&rig);
        for (member, image) in rig.images().iter().enumerate() {
            std::fs::write(path(golden.name, member), image).expect("write the image");
        }
    }
    forebay::unstable::set_random_seed(None);
}

#[test]
fn images_of_format_1_open_and_hold_what_they_held() {
    if std::env::var_os("FOREBAY_WRITE_GOLDEN").is_some() {
        write_again();
    }
    for golden in Golden::all() {
        let name = golden.name;
        let images: Vec<Vec<u8>> = (0..golden.members)
            .map(|member| std::fs::read(path(name, member)).expect("the image"))
            .collect();
        assert_eq!(
            &images[0][..12],
            b"FOREBAY\x01\x01\0\0\0",
            "magic and version"
        );
        let pool = open(&images, quiet()).unwrap_or_else(|error| panic!("{name}: {error}"));
        check(&pool, name);
        let is_mirror = pool.redundancy().is_mirrored();
        for gone in (0..images.len()).filter(|_| is_mirror) {
            let mut left = images.clone();
            left.remove(gone);
            let options = quiet().without_missing(left.len() == 1);
            let pool = open(&left, options).unwrap_or_else(|error| panic!("{name}: {error}"));
            check(&pool, name);
        }
    }
}

/// A pool holds what the images were made with.
fn check(pool: &Pool, name: &str) {
    let report = pool.recovery_report();
    assert!(
        report.records >= 3 && report.damage.is_empty(),
        "{name}: {report:?}"
    );
    assert_eq!(
        (pool.volumes().len(), report.dirty_blocks),
        (1, 5),
        "{name}"
    );
    // No backing: only what the pool holds can be read.
    let volume = pool.volumes().remove(0);
    let mut delta = block(4, 1);
    delta[20..28].copy_from_slice(b"delagain");
    let mut partial = vec![0; BLOCK];
    partial[..25].copy_from_slice(b"the beginning and the end");
    let zeroes = vec![0; BLOCK];
    let expected = [
        (1, block(1, 2)),
        (4, delta),
        (6, zeroes),
        (9, partial),
        (11, block(11, 1)),
    ];
    for (number, bytes) in expected {
        assert!(
            get(&volume, number).expect("read") == bytes,
            "{name}: block {number}"
        );
    }
    assert!(
        matches!(
            get(&volume, 12).as_ref().map_err(Error::kind),
            Err(ErrorKind::Volume(_))
        ),
        "{name}: not cached"
    );
    assert_eq!(pool.check(|_, _| {}).1, [], "{name}");
}
