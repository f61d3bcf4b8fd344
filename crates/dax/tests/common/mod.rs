//! A pool for tests, and a program's stores into a region of it.

#![allow(unsafe_code, reason = "programs store into what is mapped")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_dax::{DaxPool, DaxRegion, OpenOptions};

pub const UUID: [u8; 16] = [7; 16];
pub const PAGE: u64 = 4096;
pub const UNIT: u64 = 2 << 20;

/// A pool of so many members in a directory of its own.
pub struct Place {
    pub directory: tempfile::TempDir,
    pub members: Vec<PathBuf>,
}

impl Place {
    pub fn new(members: usize) -> Place {
        Place::below(Path::new("/dev/shm"), members)
    }

    pub fn below(parent: &Path, members: usize) -> Place {
        let directory = tempfile::tempdir_in(parent).unwrap();
        let member = |number: usize| directory.path().join(format!("member{number}"));
        let members = (0..members).map(member).collect();
        Place { directory, members }
    }

    pub fn pool(&self) -> DaxPool {
        DaxPool::new(&self.members, UUID)
    }

    pub fn file(&self, member: usize, name: &str) -> PathBuf {
        self.directory
            .path()
            .join(format!("member{member}.dax"))
            .join(name)
    }

    pub fn open(&self) -> forebay_dax::Result<DaxRegion> {
        DaxRegion::open(&self.pool(), "r", &quiet())
    }
}

/// Passes come when the test asks for them.
pub fn quiet() -> OpenOptions {
    OpenOptions::default().period(Duration::from_secs(30))
}

pub fn put(region: &DaxRegion, at: u64, bytes: &[u8]) {
    assert!(at + bytes.len() as u64 <= region.len());
    // SAFETY: inside the mapping, and no other thread of the test stores there.
    unsafe {
        let to = region.as_ptr().add(at as usize);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
    }
}

pub fn get(region: &DaxRegion, at: u64, len: usize) -> Vec<u8> {
    assert!(at + len as u64 <= region.len());
    // SAFETY: inside the mapping, and no other thread of the test stores there.
    unsafe { std::slice::from_raw_parts(region.as_ptr().add(at as usize), len).to_vec() }
}
