//! Devices, backings and logs for tests.

use forebay_log::shadow::{Image, ShadowDevice, ShadowState};
use forebay_log::{Backing, Device, DeviceCounters, Log, Options, PAGE_BYTES, Transaction, create};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Pages of a segment of the smallest pools.
pub const SEGMENT_PAGES: u32 = 16;
/// Segments of these.
pub const SEGMENTS: usize = 8;

/// A disk in memory that can be made to fail.
#[derive(Default)]
pub struct MemoryBacking {
    blocks: Mutex<HashMap<u64, Vec<u8>>>,
    pub fails: AtomicBool,
}

impl MemoryBacking {
    /// What it has of a block.
    pub fn bytes(&self, block: u64) -> Option<Vec<u8>> {
        self.blocks.lock().unwrap().get(&block).cloned()
    }

    fn check(&self) -> io::Result<()> {
        match self.fails.load(Ordering::Relaxed) {
            true => Err(io::Error::other("made to fail")),
            false => Ok(()),
        }
    }
}

impl Backing for MemoryBacking {
    fn read(&self, block: u64, out: &mut [u8]) -> io::Result<()> {
        match self.blocks.lock().unwrap().get(&block) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => out.fill(0),
        }
        Ok(())
    }

    fn write(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        self.blocks.lock().unwrap().insert(block, bytes.to_vec());
        Ok(())
    }

    fn zero(&self, first: u64, count: u64) -> io::Result<()> {
        self.check()?;
        let mut blocks = self.blocks.lock().unwrap();
        blocks.retain(|block, _| !(first..first + count).contains(block));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.check()
    }
}

/// A device that does not give some of its pages.
pub struct Unreadable(pub Arc<ShadowDevice>, pub Mutex<std::ops::Range<u64>>);

impl Device for Unreadable {
    fn path(&self) -> &std::path::Path {
        self.0.path()
    }
    fn pages(&self) -> u64 {
        self.0.pages()
    }
    fn read(&self, page: u64, out: &mut [u8]) -> io::Result<()> {
        let read = page..page + (out.len() / PAGE_BYTES) as u64;
        let bad = self.1.lock().unwrap();
        match read.start < bad.end && bad.start < read.end {
            true => Err(io::Error::from_raw_os_error(5)),
            false => self.0.read(page, out),
        }
    }
    fn write_durable(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.0.write_durable(page, parts)
    }
    fn write(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.0.write(page, parts)
    }
    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
    fn counters(&self) -> DeviceCounters {
        self.0.counters()
    }
}

/// A device that fails all writes after so many durable ones.
pub struct Dying(pub Arc<ShadowDevice>, pub AtomicU64);

impl Device for Dying {
    fn path(&self) -> &std::path::Path {
        self.0.path()
    }
    fn pages(&self) -> u64 {
        self.0.pages()
    }
    fn read(&self, page: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(page, out)
    }
    fn write_durable(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        let one_less = |left: u64| left.checked_sub(1);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        match self.1.fetch_update(set, get, one_less) {
            Ok(_) => self.0.write_durable(page, parts),
            Err(_) => Err(io::Error::from_raw_os_error(5)),
        }
    }
    fn write(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.0.write(page, parts)
    }
    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
    fn counters(&self) -> DeviceCounters {
        self.0.counters()
    }
}

/// Options of the smallest pools, which repeat.
pub fn options() -> Options {
    Options {
        seed: Some(7),
        segment_pages: Some(SEGMENT_PAGES),
        // What is read comes from the device.
        keeps_recent: false,
        ..Options::default()
    }
}

/// A device for a pool of the smallest segments.
pub fn device(segments: usize) -> Arc<ShadowDevice> {
    let pages = SEGMENT_PAGES as usize * (segments + 1);
    let state = ShadowState::new(Image::zeroed(pages), PAGE_BYTES);
    Arc::new(ShadowDevice::new(state))
}

/// The smallest pool with one volume, its device and its backing.
pub fn small() -> (Arc<ShadowDevice>, Arc<MemoryBacking>, Log) {
    let device = device(SEGMENTS);
    let log = create(device.clone(), options()).unwrap();
    let backing = Arc::new(MemoryBacking::default());
    log.attach(1, backing.clone());
    (device, backing, log)
}

/// The bytes of a block that has this number.
pub fn bytes(number: u64) -> Vec<u8> {
    let word = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    word.repeat(PAGE_BYTES / 8)
}

/// A transaction of one block.
pub fn one(block: u64, number: u64) -> Transaction {
    let mut transaction = Transaction::new();
    transaction.write(1, block, &bytes(number)).unwrap();
    transaction
}

/// What a block reads as.
pub fn read(log: &Log, block: u64) -> Vec<u8> {
    let mut out = vec![0xAA; PAGE_BYTES];
    log.read(1, block, &mut out).unwrap();
    out
}
