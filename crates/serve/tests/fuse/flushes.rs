//! What clients of a disk over a pool on an SSD cost that SSD: flushes for their syncs, none for what they have not synced.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use forebay::{Backing, Medium, Pool, PoolOptions};
use forebay_serve::VolumeDevice;

use crate::common::{open, skip};
use crate::mounting::{mounted, no_fuse};

const NAME: &str = "a_sync_of_a_disk_over_an_ssd_is_one_flush";

#[test]
fn a_sync_of_a_disk_over_an_ssd_is_one_flush() {
    if let Some(why) = no_fuse() {
        return skip(NAME, why);
    }
    let folder = tempfile::tempdir().unwrap();
    let options = PoolOptions::new(folder.path().join("pool"), 64 << 20).medium(Medium::Ssd);
    // Its thread would sync after a while.
    let options = options.background(false);
    let pool = match Pool::create(&options) {
        Ok(pool) => pool,
        Err(error) => return skip(NAME, &error.to_string()),
    };
    let volume = pool.attach(Backing::memory(8 << 20)).unwrap();
    let mount = mounted(Arc::new(VolumeDevice::new(volume)));
    let flushes = || pool.stats().ssd.expect("it is one").flushes;
    let disk = open(&mount.disk_path(), 0);
    for round in 0..3 {
        let before = flushes();
        for block in 0..8 {
            disk.write_all_at(&[block; 5000], u64::from(block) * 8192)
                .unwrap();
        }
        assert_eq!(flushes(), before, "nobody has synced");
        disk.sync_data().unwrap();
        // The kernel asks each time: it was not told that there is nothing to sync.
        assert_eq!(flushes(), before + 1, "round {round}");
        disk.sync_data().unwrap();
        assert_eq!(flushes(), before + 1, "there was nothing new");
    }
    let before = flushes();
    disk.write_all_at(&[1; 512], 0).unwrap();
    let synced = open(&mount.disk_path(), libc::O_DSYNC);
    synced.write_all_at(&[2; 512], 4096).unwrap();
    assert_eq!(
        flushes(),
        before + 1,
        "it is durable with what was before it"
    );
    disk.sync_data().unwrap();
    assert_eq!(flushes(), before + 1);
}
