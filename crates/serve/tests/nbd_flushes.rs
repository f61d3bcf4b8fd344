//! FLUSH of disks with a volatile write cache: what it costs, whose writes it covers, and what does not wait for it.

mod nbd_client;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay::{Backing, Medium, Pool, PoolOptions};
use forebay_serve::nbd::NbdOptions;
use forebay_serve::{BlockDevice, DeviceError, MemoryDevice, VolumeDevice};
use nbd_client::*;

const MIB: usize = 1 << 20;

#[test]
fn a_flush_covers_what_was_answered_on_other_connections() {
    let folder = tempfile::tempdir().unwrap();
    let options = PoolOptions::new(folder.path().join("pool"), 64 << 20).medium(Medium::Ssd);
    // Its thread would sync after a while.
    let pool = match Pool::create(&options.background(false)) {
        Ok(pool) => pool,
        Err(error) => return println!("skipped: {error}"),
    };
    let volume = pool.attach(Backing::memory(8 << 20)).unwrap();
    let rig = Rig::new(Arc::new(VolumeDevice::new(volume)), NbdOptions::default());
    let flushes = || pool.stats().ssd.expect("it is one").flushes;
    let (mut one, mut other) = (rig.open(), rig.open());
    let flush = |client: &mut Client<_>| client.ask(FLUSH, 0, 0, 0, &[]).unwrap().errno;
    let before = flushes();
    for block in 0..8 {
        one.write(block * 8192, &[7; 5000]);
    }
    assert_eq!(flushes() - before, 0, "nobody has flushed");
    assert_eq!(flush(&mut other), 0);
    assert_eq!(flushes() - before, 1);
    assert_eq!(flush(&mut one), 0);
    assert_eq!(flushes() - before, 1, "there was nothing new");
    one.write(0, &[8; 512]);
    let forced = other.ask(WRITE, 1, 4096, 512, &[9; 512]).unwrap();
    assert_eq!((forced.errno, flushes() - before), (0, 2));
    assert_eq!(flush(&mut one), 0);
    assert_eq!(flushes() - before, 2, "it was durable with what is");
}

/// Its flush waits until it is let go.
struct SlowFlush {
    memory: MemoryDevice,
    is_let_go: AtomicBool,
}

impl BlockDevice for SlowFlush {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }
    fn block_size(&self) -> u32 {
        4096
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.memory.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.memory.write_at(offset, data)
    }
    fn has_volatile_cache(&self) -> bool {
        true
    }
    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.memory.write_zeroes(offset, length)
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.memory.discard(offset, length)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        while !self.is_let_go.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

#[test]
fn reads_and_writes_do_not_wait_for_a_flush() {
    let device = Arc::new(SlowFlush {
        memory: MemoryDevice::new(4 * MIB, 4096),
        is_let_go: AtomicBool::new(false),
    });
    let rig = Rig::new(device.clone(), NbdOptions::default());
    let mut client = rig.open();
    client.send_request(FLUSH, 0, 77, 0, 0).unwrap();
    client.write(0, &[3; 4096]);
    assert_eq!(client.read(0, 1), [3]);
    device.is_let_go.store(true, Ordering::SeqCst);
    let flushed = client.reply(0).unwrap();
    assert_eq!((flushed.cookie, flushed.errno), (77, 0));
}
