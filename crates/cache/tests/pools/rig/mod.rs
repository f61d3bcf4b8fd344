//! What the write-back tests share: a small pool, a backing that fails on command, telling blocks.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::{Backing, FaultyStore, MemoryStore, Pool, PoolOptions, Volume};

pub const BLOCK: usize = 4096;
/// How long a test waits for background threads before it calls them stuck.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Rig {
    folder: tempfile::TempDir,
    pub path: std::path::PathBuf,
    pub pool: Pool,
}

impl Rig {
    /// Closes the pool; its file stays as long as what this returns.
    pub fn into_folder(self) -> tempfile::TempDir {
        self.folder
    }
}

pub fn rig(pool_bytes: u64, background: bool) -> Rig {
    rig_with(pool_bytes, |options| options.background(background))
}

pub fn rig_with(pool_bytes: u64, adjust: impl FnOnce(PoolOptions) -> PoolOptions) -> Rig {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let options = adjust(PoolOptions::new(&path, pool_bytes));
    let pool = Pool::create(&options).unwrap();
    Rig { folder, path, pool }
}

/// A store that fails when told to, and the memory behind it.
pub fn faulty(blocks: usize) -> (Arc<MemoryStore>, Arc<FaultyStore>, Backing) {
    let memory = Arc::new(MemoryStore::new((blocks * BLOCK) as u64));
    let faulty = Arc::new(FaultyStore::new(memory.clone()));
    let backing = Backing::from_store(faulty.clone());
    (memory, faulty, backing)
}

/// Bytes that no other block and no other version has.
pub fn bytes_of(block: u64, version: u64) -> Vec<u8> {
    let seed = block << 32 | version;
    (0..BLOCK as u64)
        .map(|at| {
            ((seed.wrapping_mul(0x9E37_79B9) ^ at).wrapping_mul(0xFF51_AFD7_ED55_8CCD) >> 40) as u8
        })
        .collect()
}

pub fn put(volume: &Volume, block: u64, version: u64) {
    try_put(volume, block, version).unwrap();
}

pub fn try_put(volume: &Volume, block: u64, version: u64) -> forebay::Result<()> {
    let mut transaction = volume.begin();
    transaction.write(block, &bytes_of(block, version))?;
    transaction.commit()
}

pub fn get(volume: &Volume, block: u64) -> Vec<u8> {
    let mut out = vec![0; BLOCK];
    volume.read(block, &mut out).unwrap();
    out
}

pub fn behind(memory: &MemoryStore, block: u64) -> Vec<u8> {
    memory.snapshot()[block as usize * BLOCK..][..BLOCK].to_vec()
}

pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
