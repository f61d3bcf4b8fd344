//! Small pools for this crate's tests.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use forebay::{Backing, Medium, Pool, PoolOptions, Region, RuntimeOptions, Volume};
use forebay_pmem::shadow::{Shadow, ShadowModel};

use crate::buffer::{FileBuffer, FileBufferParts};
use crate::cuts::SIDE_BYTES;
use crate::store::VirtualStore;

pub(crate) fn quiet() -> RuntimeOptions {
    RuntimeOptions::default()
        .background(false)
        .fill_on_read(false)
}

pub(crate) fn quiet_pool() -> PoolOptions {
    PoolOptions::default().runtime(quiet())
}

/// A pool in memory with the volume of a pool of files.
pub(crate) fn small_volume() -> (Pool, Volume) {
    let region = Region::shadow(4 << 20);
    let pool = Pool::create_on(vec![region], &quiet_pool()).expect("create");
    let side = Backing::memory(SIDE_BYTES);
    let store = VirtualStore::new(PathBuf::from("files:"), side, None, 4096).expect("store");
    let backing = Backing::from_store(Arc::new(store));
    let volume = pool.attach(backing).expect("attach");
    (pool, volume)
}

/// A pool of files over a directory; it survives the buffer.
pub(crate) struct Rig {
    pub(crate) directory: tempfile::TempDir,
    pool: RigPool,
    side: Backing,
}

enum RigPool {
    Memory(Arc<Shadow>),
    /// The file is gone with its directory.
    Ssd(tempfile::TempDir),
}

impl Rig {
    pub(crate) fn new(pool_bytes: u64) -> Rig {
        let shadow = Arc::new(Shadow::new(pool_bytes, ShadowModel::Lines));
        let region = Region::on_shadow(shadow.clone());
        let pool = Pool::create_on(vec![region], &quiet_pool()).expect("create");
        pool.close().expect("close");
        Rig {
            directory: tempfile::tempdir().expect("a directory"),
            pool: RigPool::Memory(shadow),
            side: Backing::memory(SIDE_BYTES),
        }
    }

    /// The same with a pool on an SSD; none, which is said, where temporary files lie on a file system that has none.
    pub(crate) fn on_ssd(test: &str, pool_bytes: u64) -> Option<Rig> {
        let place = tempfile::tempdir().expect("a directory");
        let options = PoolOptions::new(place.path().join("pool"), pool_bytes);
        match Pool::create(&options.medium(Medium::Ssd).runtime(quiet())) {
            Ok(pool) => pool.close().expect("close"),
            Err(error) => {
                eprintln!("skipped {test}: {error}");
                return None;
            }
        }
        Some(Rig {
            directory: tempfile::tempdir().expect("a directory"),
            pool: RigPool::Ssd(place),
            side: Backing::memory(SIDE_BYTES),
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Opens the pool as it stands, as after a kill if it was not closed.
    pub(crate) fn open(&self) -> io::Result<Arc<FileBuffer>> {
        FileBuffer::open_on(self.parts())
    }

    /// What of the pool would survive now.
    pub(crate) fn durable(&self) -> Vec<u8> {
        let RigPool::Memory(shadow) = &self.pool else {
            panic!("it is in memory");
        };
        shadow.crash_state().durable().to_vec()
    }

    /// The same directory, with a pool that holds this.
    pub(crate) fn with_pool(self, image: &[u8]) -> Rig {
        let shadow = Arc::new(Shadow::from_image(image, ShadowModel::Lines));
        let pool = RigPool::Memory(shadow);
        Rig { pool, ..self }
    }

    /// What it is opened from.
    pub(crate) fn parts(&self) -> FileBufferParts {
        let (regions, ssd) = match &self.pool {
            RigPool::Memory(shadow) => (vec![Region::on_shadow(shadow.clone())], None),
            RigPool::Ssd(place) => {
                let pool = Pool::open_with(&[place.path().join("pool")], quiet());
                (Vec::new(), Some(pool.expect("open")))
            }
        };
        FileBufferParts {
            regions,
            ssd,
            side: self.side.clone(),
            mark: None,
            log_bytes: crate::metadata::LOG.end - crate::metadata::LOG.start,
            root: Some(self.directory.path().to_owned()),
            runtime: quiet(),
        }
    }
}

/// A file system of a MiB in memory; unmounted when dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where this user may not mount.
    pub(crate) fn new(at: &Path) -> Option<SmallDisk> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(at);
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        is_mounted.then(|| SmallDisk(at.to_owned()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

/// Opens a file to read and write, made if it is not there.
pub(crate) fn open_file(path: &Path) -> OwnedFd {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    opened.map(File::into).expect("open")
}
