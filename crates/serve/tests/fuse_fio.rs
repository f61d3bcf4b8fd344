//! fio writes with 32 requests in flight and verifies every byte, through the mounted file and
//! through loop devices of every kind over it, while the pool writes back and evicts.

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use common::{LoopDevice, TestMount, TestVolume, no_fuse, no_loop, skip};

/// Several times what the pool holds.
const DISK_BYTES: u64 = 48 << 20;
const POOL_BYTES: u64 = 16 << 20;
const BLOCK_SIZES: &str = "4k/50:64k/30:256k/15:1m/5";
const SMALL_BLOCK_SIZES: &str = "512/40:1536/20:4k/20:64k/15:4m/5";

fn no_fio() -> Option<&'static str> {
    let works = Command::new("fio").arg("--version").output();
    (!works.is_ok_and(|output| output.status.success())).then_some("needs fio (apt install fio)")
}

/// One run of fio over the whole disk; what it says if it is not content.
fn fio(name: &str, path: &Path, engine: &str, block_sizes: &str) {
    let output = Command::new("fio")
        .args(["--name=verify", "--rw=randwrite", "--direct=1"])
        .args(["--iodepth=32", "--verify=crc32c", "--verify_fatal=1"])
        .args([
            "--verify_backlog=512",
            "--verify_state_save=0",
            "--eta=never",
        ])
        .arg(format!("--ioengine={engine}"))
        .arg(format!("--bssplit={block_sizes}"))
        .arg(format!("--size={DISK_BYTES}"))
        .arg(format!("--filename={}", path.display()))
        .current_dir(std::env::temp_dir())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{name}: {}\n{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
}

fn check_pool(volume: &TestVolume) {
    let (_, bad) = volume.pool.check(|_, _| {});
    assert_eq!(bad, []);
    volume.device.volume().flush().unwrap();
    assert_eq!(volume.pool.stats().dirty_blocks, 0);
    assert!(volume.pool.stats().totals.evictions > 0, "it was too small");
}

#[test]
fn fio_verifies_the_mounted_file_at_depth_32() {
    if let Some(why) = no_fuse().or_else(no_fio) {
        return skip("fio_verifies_the_mounted_file_at_depth_32", why);
    }
    let volume = TestVolume::new(POOL_BYTES, DISK_BYTES);
    let mount = TestMount::new(Arc::clone(&volume.device));
    for engine in ["io_uring", "libaio"] {
        fio(engine, &mount.disk_path(), engine, BLOCK_SIZES);
    }
    fio("small", &mount.disk_path(), "libaio", SMALL_BLOCK_SIZES);
    check_pool(&volume);
}

#[test]
fn fio_verifies_loop_devices_of_every_kind_at_depth_32() {
    if let Some(why) = no_loop().or_else(no_fio) {
        return skip("fio_verifies_loop_devices_of_every_kind", why);
    }
    let volume = TestVolume::new(POOL_BYTES, DISK_BYTES);
    let mount = TestMount::new(Arc::clone(&volume.device));
    for (is_direct, sector_bytes) in [(false, 512), (false, 4096), (true, 512), (true, 4096)] {
        let looped = LoopDevice::with_sectors(&mount.disk_path(), is_direct, sector_bytes);
        let sizes = if sector_bytes == 512 {
            SMALL_BLOCK_SIZES
        } else {
            BLOCK_SIZES
        };
        let name = format!("direct {is_direct}, sectors of {sector_bytes}");
        fio(&name, &looped.path, "libaio", sizes);
    }
    check_pool(&volume);
}
