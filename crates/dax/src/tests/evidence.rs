//! What a file's times tell.

use std::os::unix::fs::FileExt;

use forebay_pmem::{Region, RegionOptions};

use crate::format::PAGE_BYTES;
use crate::medium::Part;

/// Times tick slowly: two writes in a row often have the same ones.
#[test]
fn a_change_after_times_were_settled_shows() {
    for parent in ["/dev/shm", "/tmp"] {
        let directory = tempfile::tempdir_in(parent).unwrap();
        let path = directory.path().join("extent");
        let region = Region::create(&path, PAGE_BYTES, &RegionOptions::default()).unwrap();
        let part = Part::new(region, path.clone());
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        for round in 0..20 {
            file.write_all_at(&[round], 0).unwrap();
            let settled = part.settled_evidence().unwrap();
            assert_eq!(settled, part.evidence().unwrap());
            file.write_all_at(&[round], 1).unwrap();
            assert_ne!(settled, part.evidence().unwrap());
        }
    }
}
