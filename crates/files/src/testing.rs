//! Small pools for this crate's tests.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use forebay::{Backing, Pool, PoolOptions, Region, RuntimeOptions, Volume};
use forebay_log::shadow::{Image, ShadowDevice, ShadowState};
use forebay_pmem::shadow::{Shadow, ShadowModel};

use crate::buffer::{COLD_AFTER_BYTES, FileBuffer, FileBufferParts, PoolSource};
use crate::cuts::SIDE_BYTES;
use crate::identity::FileIdentity;
use crate::observe::{Observer, SeenIdentity, Synced};
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

/// Pages of a segment of a small pool on an SSD, and how many there are, the first one's worth among them.
const SEGMENT_PAGES: u32 = 32;
const SEGMENTS: u32 = 13;

fn log_options() -> forebay_log::Options {
    forebay_log::Options {
        gathers: false,
        segment_pages: Some(SEGMENT_PAGES),
        ..forebay_log::Options::default()
    }
}

/// What a pool lies on.
#[derive(Clone)]
pub(crate) enum Medium {
    Memory(Arc<Shadow>),
    Ssd(Arc<ShadowDevice>),
}

/// A pool of files in memory over a directory; it survives the buffer.
pub(crate) struct Rig {
    pub(crate) directory: tempfile::TempDir,
    medium: Medium,
    side: Backing,
    pub(crate) cold_after_bytes: u64,
    /// How long a writer waits for room.
    pub(crate) deadline: Duration,
}

impl Rig {
    pub(crate) fn new(pool_bytes: u64) -> Rig {
        let shadow = Arc::new(Shadow::new(pool_bytes, ShadowModel::Lines));
        let region = Region::on_shadow(shadow.clone());
        let pool = Pool::create_on(vec![region], &quiet_pool()).expect("create");
        pool.close().expect("close");
        Rig::on(Medium::Memory(shadow))
    }

    /// The same with a pool on an SSD, of about a hundred blocks a third.
    pub(crate) fn on_ssd() -> Rig {
        Rig::on_ssd_of(SEGMENT_PAGES)
    }

    /// The same with segments of so many pages.
    pub(crate) fn on_ssd_of(segment_pages: u32) -> Rig {
        let pages = (segment_pages * SEGMENTS) as usize;
        let state = ShadowState::new(Image::zeroed(pages), 4096);
        let device = Arc::new(ShadowDevice::new(state));
        let options = forebay_log::Options {
            segment_pages: Some(segment_pages),
            ..log_options()
        };
        let log = forebay_log::create(device.clone(), options).expect("create");
        log.close().expect("close");
        Rig::on(Medium::Ssd(device))
    }

    fn on(medium: Medium) -> Rig {
        Rig {
            directory: tempfile::tempdir().expect("a directory"),
            medium,
            side: Backing::memory(SIDE_BYTES),
            cold_after_bytes: COLD_AFTER_BYTES,
            deadline: Duration::from_secs(10),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Opens the pool as it stands, as after a kill if it was not closed.
    pub(crate) fn open(&self) -> io::Result<Arc<FileBuffer>> {
        FileBuffer::open_on(self.parts())
    }

    /// What of the pool would survive now.
    pub(crate) fn durable(&self) -> Medium {
        self.cut(&mut fastrand::Rng::with_seed(1))
    }

    /// What a power cut now would leave of the pool.
    fn cut(&self, rng: &mut fastrand::Rng) -> Medium {
        match &self.medium {
            Medium::Memory(shadow) => {
                let state = shadow.crash_state();
                let shadow = Shadow::from_image(state.durable(), ShadowModel::Lines);
                Medium::Memory(Arc::new(shadow))
            }
            Medium::Ssd(device) => {
                let state = ShadowState::new(device.state().cut(rng), 4096);
                Medium::Ssd(Arc::new(ShadowDevice::new(state)))
            }
        }
    }

    /// The same directory, with this pool.
    pub(crate) fn with_pool(self, medium: Medium) -> Rig {
        Rig { medium, ..self }
    }

    /// A pool of either kind.
    pub(crate) fn each(pool_bytes: u64) -> [Rig; 2] {
        [Rig::new(pool_bytes), Rig::on_ssd()]
    }

    /// The device of the pool on an SSD.
    pub(crate) fn device(&self) -> &Arc<ShadowDevice> {
        match &self.medium {
            Medium::Ssd(device) => device,
            Medium::Memory(_) => panic!("it is no pool on an SSD"),
        }
    }

    /// The pool is what a power cut now would leave of it.
    pub(crate) fn cut_power(&mut self, rng: &mut fastrand::Rng) {
        self.medium = self.cut(rng);
    }

    /// The member of the pool in memory.
    pub(crate) fn region(&self) -> Region {
        match &self.medium {
            Medium::Memory(shadow) => Region::on_shadow(shadow.clone()),
            Medium::Ssd(_) => panic!("it is no pool in memory"),
        }
    }

    fn pool(&self) -> PoolSource {
        match &self.medium {
            Medium::Memory(_) => PoolSource::Regions(vec![self.region()]),
            Medium::Ssd(device) => {
                let log = forebay_log::open(device.clone(), log_options()).expect("open");
                PoolSource::Open(Box::new(Pool::on_log(log, self.runtime()).expect("a pool")))
            }
        }
    }

    /// What it is opened from.
    pub(crate) fn parts(&self) -> FileBufferParts {
        FileBufferParts {
            cold_after_bytes: self.cold_after_bytes,
            root: Some(self.directory.path().to_owned()),
            runtime: self.runtime(),
            ..FileBufferParts::of(self.pool(), self.side.clone())
        }
    }

    fn runtime(&self) -> RuntimeOptions {
        quiet().throttle_deadline(self.deadline)
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

/// Notes what of the backing is synced.
#[derive(Default)]
pub(crate) struct Syncs(pub(crate) RefCell<Vec<Synced>>);

impl Observer for Syncs {
    fn identity(&self, _: FileIdentity) -> Option<SeenIdentity> {
        None
    }
    fn mounting(&self) -> u64 {
        1
    }
    fn before_sync(&self) {}
    fn synced(&self, what: Synced) {
        self.0.borrow_mut().push(what);
    }
}
