//! A directory, a pool and a mount, gone when the test ends.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::{Pool, PoolOptions};
use forebay_files::FileBufferOptions;
use forebay_mount::{FileMount, MountOptions, Transport};

use crate::offer::{has_rings, with_the_offer};

const POOL_BYTES: u64 = 64 << 20;

/// A mounted scratch directory.
pub struct Mounted {
    scratch: tempfile::TempDir,
    mount: Option<FileMount>,
    has_ended: Arc<AtomicBool>,
}

/// Says that a test could not run here, where the harness does not swallow it.
pub fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped {test}: {why}");
}

impl Mounted {
    /// A mount, or `None` (said aloud) where there is no FUSE or no root.
    pub fn new(test: &str) -> Option<Mounted> {
        Mounted::with(test, &MountOptions::default())
    }

    /// As [`Mounted::new`], served in another way.
    pub fn with(test: &str, options: &MountOptions) -> Option<Mounted> {
        Mounted::prepared(test, options, |_| {})
    }

    /// As [`Mounted::with`]; the directory is prepared before it is mounted.
    pub fn prepared(
        test: &str,
        options: &MountOptions,
        prepare: impl FnOnce(&Path),
    ) -> Option<Mounted> {
        if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
            skip(test, "needs root and /dev/fuse");
            return None;
        }
        if crate::TRANSPORT == Transport::IoUring && !has_rings() {
            skip(
                test,
                "this kernel has no FUSE over io_uring, or allows no io_uring",
            );
            return None;
        }
        let scratch = tempfile::tempdir().unwrap();
        for folder in ["data", "mount"] {
            std::fs::create_dir(scratch.path().join(folder)).unwrap();
        }
        let pool = PoolOptions::new(scratch.path().join("pool"), POOL_BYTES);
        Pool::create(&pool).unwrap().close().unwrap();
        let mut mounted = Mounted {
            scratch,
            mount: None,
            has_ended: Arc::default(),
        };
        prepare(&mounted.data(""));
        mounted.mount = Some(mounted.mount_when_unlocked(options));
        Some(mounted)
    }

    /// Mounts the same directory.
    pub fn mount_with(&self, options: &MountOptions) -> std::io::Result<FileMount> {
        match crate::TRANSPORT {
            Transport::IoUring => with_the_offer(true, || self.mount_now(options)),
            _ => self.mount_now(options),
        }
    }

    /// As [`Mounted::mount_with`], with whatever the kernel offers.
    pub fn mount_now(&self, options: &MountOptions) -> std::io::Result<FileMount> {
        let buffer = FileBufferOptions::new(self.scratch.path().join("pool"));
        let has_ended = Arc::clone(&self.has_ended);
        let options = MountOptions {
            transport: crate::TRANSPORT,
            ..options.clone()
        };
        FileMount::new(
            &self.data(""),
            &self.scratch.path().join("mount"),
            &buffer,
            &options,
            move || has_ended.store(true, Ordering::SeqCst),
        )
    }

    /// The same; a program that another test starts has all our descriptors for a moment, and with them
    /// the lock of a pool that is closed.
    fn mount_when_unlocked(&self, options: &MountOptions) -> FileMount {
        let mut tries = 0;
        loop {
            match self.mount_with(options) {
                Ok(mount) => return mount,
                Err(error) if tries < 500 && error.to_string().contains("another process") => {}
                Err(error) => panic!("{error}"),
            }
            tries += 1;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// A path as programs see it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join("mount").join(name)
    }

    /// The same path behind the mount.
    pub fn data(&self, name: &str) -> PathBuf {
        self.scratch.path().join("data").join(name)
    }

    /// The mount.
    pub fn mount(&self) -> &FileMount {
        self.mount.as_ref().unwrap()
    }

    /// Whether the mount has said that it ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Unmounts and closes.
    pub fn end(&mut self) {
        let mount = self.mount.take().unwrap();
        // The kernel lets go of closed files a moment later.
        let mut tries = 0;
        while let Err(error) = mount.unmount(false) {
            tries += 1;
            assert!(tries < 500, "still in use: {error}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        mount.join().unwrap();
    }

    /// Waits for the end of a mount that has been unmounted.
    pub fn join(&mut self) {
        self.mount.take().unwrap().join().unwrap();
    }

    /// Unmounts, closes, and mounts again.
    pub fn remount(&mut self) {
        self.end();
        self.mount = Some(self.mount_when_unlocked(&MountOptions::default()));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take() {
            let _ = mount.unmount(true);
            // A test that failed may still have files open.
            if std::thread::panicking() {
                let _ = mount.close_in_use();
            } else {
                mount.join().unwrap();
            }
        }
    }
}
