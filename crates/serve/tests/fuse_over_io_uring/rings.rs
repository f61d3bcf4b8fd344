//! That it is the rings by which requests come, how many system calls that takes, and what requests that wait hold up.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use forebay_serve::{
    BlockDevice, DeviceError, DiskMount, DiskOptions, MemoryDevice, RingCounts, Transport,
};
use rustix::mount::{UnmountFlags, unmount};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::common::{TestMount, skip};
use crate::mounting::{mounted, no_fuse};
use crate::offer::with_the_offer;

const DISK_BYTES: usize = 16 << 20;
/// A read here or beyond waits until it is let go.
const SLOW_FROM: u64 = 8 << 20;
/// More than the threads that a queue begins with.
const SLOW_READS: usize = 9;

/// Memory, the end of which is a device that answers when it is told to.
struct SlowDevice {
    memory: MemoryDevice,
    is_let_go: Mutex<bool>,
    told: Condvar,
    waiting: AtomicUsize,
}

impl SlowDevice {
    fn new() -> Arc<SlowDevice> {
        Arc::new(SlowDevice {
            memory: MemoryDevice::new(DISK_BYTES, 4096),
            is_let_go: Mutex::new(false),
            told: Condvar::new(),
            waiting: AtomicUsize::new(0),
        })
    }

    fn let_go(&self) {
        *self.is_let_go.lock().unwrap() = true;
        self.told.notify_all();
    }
}

impl BlockDevice for SlowDevice {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }
    fn block_size(&self) -> u32 {
        self.memory.block_size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        if offset >= SLOW_FROM {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let mut is_let_go = self.is_let_go.lock().unwrap();
            while !*is_let_go {
                is_let_go = self.told.wait(is_let_go).unwrap();
            }
        }
        self.memory.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.memory.write_at(offset, data)
    }
    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.memory.write_zeroes(offset, length)
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.memory.discard(offset, length)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.memory.flush()
    }
}

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

fn counts(mount: &TestMount) -> RingCounts {
    let mount = mount.mount.as_ref().unwrap();
    mount.ring_counts().expect("it has rings")
}

/// The calling thread's requests come by one queue from now on.
fn stay() {
    let mut first = CpuSet::new();
    first.set(0);
    // Elsewhere they come by whatever core there is.
    let _ = sched_setaffinity(None, &first);
}

#[test]
fn a_write_is_one_request_and_one_system_call() {
    if let Some(why) = no_fuse() {
        return skip("a_write_is_one_request_and_one_system_call", why);
    }
    let mount = mounted(Arc::new(MemoryDevice::new(DISK_BYTES, 4096)));
    let file = open(&mount.disk_path());
    file.write_all_at(&[1; 4096], 0).unwrap();
    let before = counts(&mount);
    const WRITES: u64 = 1000;
    for number in 0..WRITES {
        file.write_all_at(&[number as u8; 4096], 0).unwrap();
    }
    let after = counts(&mount);
    let (requests, calls) = (after.requests - before.requests, after.calls - before.calls);
    println!("{WRITES} writes: {requests} requests, {calls} system calls");
    assert!((WRITES..WRITES + 20).contains(&requests), "{requests}");
    // Each thread may be in one that has not returned.
    assert!(calls <= requests + 2 * after.threads as u64, "{calls}");
}

#[test]
fn reads_that_wait_hold_up_no_other_of_their_core() {
    if let Some(why) = no_fuse() {
        return skip("reads_that_wait_hold_up_no_other_of_their_core", why);
    }
    let device = SlowDevice::new();
    let mount = mounted(Arc::clone(&device));
    let path = mount.disk_path();
    let at_first = counts(&mount);
    std::thread::scope(|scope| {
        for number in 0..SLOW_READS {
            let path = &path;
            scope.spawn(move || {
                stay();
                let file = open(path);
                let offset = SLOW_FROM + number as u64 * 4096;
                file.read_exact_at(&mut [0; 4096], offset).unwrap();
            });
        }
        stay();
        let file = open(&path);
        // More threads than the queue began with wait at the same time, since others are started before.
        while device.waiting.load(Ordering::SeqCst) < SLOW_READS {
            file.read_exact_at(&mut [0; 4096], 0).unwrap();
        }
        for _ in 0..1000 {
            file.read_exact_at(&mut [0; 4096], 0).unwrap();
        }
        let waiting = device.waiting.load(Ordering::SeqCst);
        assert_eq!(waiting, SLOW_READS, "they still wait");
        device.let_go();
    });
    let grown = counts(&mount).threads - at_first.threads;
    println!("{SLOW_READS} reads that wait: {grown} threads more");
    assert!((1..=56).contains(&grown), "{grown}");
}

#[test]
fn a_mount_that_is_cut_off_while_reads_wait_ends_when_they_are_answered() {
    if let Some(why) = no_fuse() {
        return skip("a_mount_that_is_cut_off_while_reads_wait", why);
    }
    let device = SlowDevice::new();
    let mut mount = mounted(Arc::clone(&device));
    let path = mount.disk_path();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..SLOW_READS)
            .map(|number| {
                let path = &path;
                scope.spawn(move || {
                    let file = open(path);
                    let offset = SLOW_FROM + number as u64 * 4096;
                    file.read_exact_at(&mut [0; 4096], offset)
                })
            })
            .collect();
        while device.waiting.load(Ordering::SeqCst) < SLOW_READS {
            std::thread::yield_now();
        }
        let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
        unmount(mount.mount.as_ref().unwrap().directory(), flags).unwrap();
        // They are told at once; the daemon's threads still wait for the device.
        for reader in readers {
            reader.join().unwrap().unwrap_err();
        }
        assert!(mount.ended.try_recv().is_err());
        device.let_go();
    });
    mount.ended.recv().unwrap();
    assert_eq!(Arc::strong_count(&device), 1);
    mount.mount.take().unwrap().join().unwrap();
}

#[test]
fn a_kernel_that_does_not_offer_it_is_named() {
    if let Some(why) = no_fuse() {
        return skip("a_kernel_that_does_not_offer_it_is_named", why);
    }
    let directory = tempfile::tempdir().unwrap();
    let mount = |transport| {
        let options = DiskOptions {
            transport,
            ..DiskOptions::default()
        };
        let device = MemoryDevice::new(DISK_BYTES, 4096);
        with_the_offer(false, || {
            DiskMount::new(device, directory.path(), &options, || ())
        })
    };
    let refused = mount(Transport::IoUring).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    for part in ["enable_uring", "--transport dev-fuse"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    let served = mount(Transport::Auto).unwrap();
    assert_eq!(served.ring_counts(), None);
    served.unmount(false).unwrap();
    served.join().unwrap();
}
