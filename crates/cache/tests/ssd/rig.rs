//! Pools and backings for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay::{Backing, BackingStore, Medium, Pool, PoolOptions, RuntimeOptions};

pub const BLOCK: usize = 4096;
/// The smallest pool but for a few segments.
pub const POOL_BYTES: u64 = 12 << 20;

/// A directory for a pool, on a file system that takes one; where there is none the test is skipped.
pub struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub fn find(test: &str) -> Option<Place> {
        let directory = tempfile::tempdir().expect("a directory");
        let place = Place { directory };
        match Pool::create(&place.options().background(false)) {
            Ok(pool) => drop(pool),
            Err(error) => {
                eprintln!("skipped {test}: {error}");
                return None;
            }
        }
        std::fs::remove_file(place.path()).expect("it was made");
        Some(place)
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("pool")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn options(&self) -> PoolOptions {
        PoolOptions::new(self.path(), POOL_BYTES)
            .medium(Medium::Ssd)
            .runtime(runtime())
    }

    pub fn create(&self) -> Pool {
        Pool::create(&self.options()).expect("create")
    }

    pub fn open(&self) -> Pool {
        Pool::open_with(&[self.path()], runtime()).expect("open")
    }

    /// A disk image of so many bytes.
    pub fn image(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.file(name);
        std::fs::File::create(&path)
            .and_then(|file| file.set_len(bytes))
            .expect("an image");
        path
    }
}

/// Writers do not wait for long.
pub fn runtime() -> RuntimeOptions {
    RuntimeOptions::default().throttle_deadline(Duration::from_secs(20))
}

pub fn backing<S: BackingStore + 'static>(store: &Arc<S>) -> Backing {
    Backing::from_store(store.clone())
}

pub fn image(path: &Path) -> Backing {
    Backing::file(path).expect("a backing")
}

/// Bytes of a block that has this number.
pub fn bytes(number: u64) -> Vec<u8> {
    let word = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    word.to_le_bytes().repeat(BLOCK / 8)
}

pub fn read(volume: &forebay::Volume, block: u64) -> Vec<u8> {
    let mut out = vec![0xA5; BLOCK];
    volume.read(block, &mut out).expect("read");
    out
}
