//! The exported file, used directly: every size and alignment, holes, and how a mount ends.

use std::fs::{self};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use forebay_serve::{BlockDevice, DiskMount, MemoryDevice, mount_point};

use crate::common::{check_transfer, open, skip};
use crate::mounting::{mount, mount_as_offered, mounted, no_fuse, while_offered};

const DISK_BYTES: usize = 16 << 20;

#[test]
fn every_size_and_alignment_arrives_whole() {
    if let Some(why) = no_fuse() {
        return skip("every_size_and_alignment_arrives_whole", why);
    }
    let device = Arc::new(MemoryDevice::new(DISK_BYTES, 4096));
    let mount = mounted(Arc::clone(&device));
    for flags in [0, libc::O_DIRECT] {
        let file = open(&mount.disk_path(), flags);
        for (seed, length) in [
            512,
            4096,
            65_536,
            524_288,
            1 << 20,
            (1 << 20) + 4096,
            4 << 20,
        ]
        .into_iter()
        .enumerate()
        {
            for offset in [0_u64, 512, 4096, (1 << 20) - 512] {
                let seed = (seed as u64) << 32 | offset;
                check_transfer(&file, &device, (offset, length), seed);
            }
        }
    }
    let file = open(&mount.disk_path(), 0);
    file.write_all_at(b"odd", 4095).unwrap();
    let mut stored = [0; 3];
    device.read_at(4095, &mut stored).unwrap();
    assert_eq!(&stored, b"odd");
}

#[test]
fn the_end_of_the_disk_reads_short_and_refuses_writes() {
    if let Some(why) = no_fuse() {
        return skip("the_end_of_the_disk_reads_short_and_refuses_writes", why);
    }
    let mount = mounted(Arc::new(MemoryDevice::new(DISK_BYTES, 4096)));
    let file = open(&mount.disk_path(), 0);
    let end = DISK_BYTES as u64;
    assert_eq!(file.read_at(&mut [0; 100], end - 10).unwrap(), 10);
    assert_eq!(file.read_at(&mut [0; 100], end).unwrap(), 0);
    let refused = file.write_at(&[1; 100], end - 10).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC));
    let refused = file.set_len(end * 2).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    assert_eq!(file.metadata().unwrap().len(), end);
}

#[test]
fn fsync_succeeds_and_a_punched_hole_reads_as_zeroes() {
    if let Some(why) = no_fuse() {
        return skip("fsync_succeeds_and_a_punched_hole_reads_as_zeroes", why);
    }
    let device = Arc::new(MemoryDevice::new(DISK_BYTES, 4096));
    let mount = mounted(Arc::clone(&device));
    let file = open(&mount.disk_path(), 0);
    file.write_all_at(&[7; 65_536], 0).unwrap();
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    use rustix::fs::FallocateFlags;
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 4096, 8192).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 20_000, 100).unwrap();
    let mut expected = vec![7; 65_536];
    expected[4096..12_288].fill(0);
    expected[20_000..20_100].fill(0);
    let mut stored = vec![1; 65_536];
    device.read_at(0, &mut stored).unwrap();
    assert!(stored == expected);
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 4096).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096).unwrap_err();
}

#[test]
fn the_disk_is_one_stretch_of_data() {
    if let Some(why) = no_fuse() {
        return skip("the_disk_is_one_stretch_of_data", why);
    }
    let mount = mounted(Arc::new(MemoryDevice::new(DISK_BYTES, 4096)));
    let file = open(&mount.disk_path(), 0);
    use rustix::fs::SeekFrom;
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(100)), Ok(100));
    let end = DISK_BYTES as u64;
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(100)), Ok(end));
    assert_eq!(
        rustix::fs::seek(&file, SeekFrom::Data(end)),
        Err(rustix::io::Errno::NXIO)
    );
    let names: Vec<_> = fs::read_dir(mount.mount.as_ref().unwrap().directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["disk"]);
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_busy_mount_stays_and_an_idle_one_ends_with_its_device_released() {
    if let Some(why) = no_fuse() {
        return skip("a_busy_mount_stays_and_an_idle_one_ends", why);
    }
    let device = Arc::new(MemoryDevice::new(DISK_BYTES, 4096));
    let mut mount = mounted(Arc::clone(&device));
    let file = open(&mount.disk_path(), 0);
    let busy = mount.mount.as_ref().unwrap().unmount(false).unwrap_err();
    assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
    file.write_all_at(b"still served", 0).unwrap();
    drop(file);
    let ended = mount.mount.take().unwrap();
    unmount_soon(&ended);
    mount.ended.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(Arc::strong_count(&device), 1);
    ended.join().unwrap();
}

/// Closing is asynchronous in FUSE: the mount stays busy until the release was sent.
fn unmount_soon(mount: &DiskMount) {
    for _ in 0..200 {
        match mount.unmount(false) {
            Ok(()) => return,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the mount stayed busy");
}

/// Names the mount point to the process that is to be killed.
const VICTIM_VARIABLE: &str = "FOREBAY_TEST_VICTIM_MOUNT";

/// Not a test of its own: it is the process that the next test kills.
#[test]
fn victim_daemon() {
    let Ok(directory) = std::env::var(VICTIM_VARIABLE) else {
        return;
    };
    let (sender, ended) = std::sync::mpsc::channel();
    let device = MemoryDevice::new(DISK_BYTES, 4096);
    let _mount = mount_as_offered(device, Path::new(&directory), move || {
        sender.send(()).unwrap_or_default();
    });
    let _ = ended.recv();
}

#[test]
fn the_dead_mount_of_a_killed_daemon_is_cleaned_by_the_next() {
    if let Some(why) = no_fuse() {
        return skip("the_dead_mount_of_a_killed_daemon_is_cleaned", why);
    }
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    let mut victim = while_offered(|| {
        let victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "disk::victim_daemon", "--nocapture"])
            .env(VICTIM_VARIABLE, directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..2000 {
            if disk.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        victim
    });
    assert!(disk.exists(), "the victim did not mount");
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(mount_point::is_dead(directory.path()));
    let device = MemoryDevice::new(DISK_BYTES, 4096);
    let mount = mount(device, directory.path(), || ()).unwrap();
    assert_eq!(fs::metadata(&disk).unwrap().len(), DISK_BYTES as u64);
    unmount_soon(&mount);
    mount.join().unwrap();
}
