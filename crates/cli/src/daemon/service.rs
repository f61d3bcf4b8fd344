//! The daemon's state: one pool or published design, the disks it serves, and their front ends.
//!
//! Disks come and go one at a time, under `changes`; readers do not wait for that.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use forebay::{Backing, FaultyStore, FileBackingOptions, FileStore, Pool};
use forebay_lab_cli::EngineDevice;
use forebay_serve::nbd::{Exports, NbdServer};
use forebay_serve::{
    BlockDevice, DeviceMeters, DiskMount, DiskOptions, MeteredDevice, Refusal, RefusalKind,
    VolumeDevice, mount_point,
};

use forebay_serve::mount_point::MountIdentity;

use super::confinement::Confinement;
use super::store::{Core, Store};
use super::ublk::UblkFrontEnds;
use super::unmounter::Unmounter;
use super::vhost::VhostFrontEnds;
use crate::config::{UblkNumber, VolumeSettings};
use forebay_command::Failure;
use forebay_command::end::Event;
use forebay_command::plain::plain_path;

/// The longest name of a disk.
const NAME_BYTES_MAX: usize = 255;

/// A mount with a number of its own, so that an event of an earlier one is not taken for this
/// one's.
pub struct Mounted {
    number: u64,
    mount: DiskMount,
}

/// A disk that is served.
pub struct Served {
    /// What clients and commands call it.
    pub name: String,
    /// Its backing.
    pub backing: PathBuf,
    /// The disk, whose requests are timed.
    pub disk: Arc<dyn BlockDevice>,
    /// How long they took.
    pub meters: Arc<DeviceMeters>,
    /// What is behind the disk.
    pub core: Core,
    /// Where it is mounted, if it is.
    pub mount: Mutex<Option<Mounted>>,
    /// Makes its backing fail on request, in a test pool.
    pub faults: Option<Arc<FaultyStore>>,
}

impl Served {
    /// A disk without front ends.
    fn new<D: BlockDevice>(
        name: String,
        backing: PathBuf,
        disk: MeteredDevice<D>,
        core: Core,
        faults: Option<Arc<FaultyStore>>,
    ) -> Served {
        Served {
            name,
            backing,
            meters: disk.meters(),
            disk: Arc::new(disk),
            core,
            mount: Mutex::new(None),
            faults,
        }
    }

    /// Where it is mounted.
    pub fn mounted_on(&self) -> Option<PathBuf> {
        let mount = lock(&self.mount);
        mount
            .as_ref()
            .map(|mounted| mounted.mount.directory().to_path_buf())
    }

    /// What tells its mount from others, if it is mounted.
    pub fn mount_identity(&self) -> Option<MountIdentity> {
        let mount = lock(&self.mount);
        mount
            .as_ref()
            .map(|mounted| mounted.mount.identity().clone())
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.name, self.backing.display())
    }
}

/// A disk's own front ends, NBD apart.
pub struct FrontEnds<'d> {
    /// The directory that it is mounted in.
    pub fuse: Option<&'d Path>,
    /// The block device that the kernel makes of it.
    pub ublk: Option<UblkNumber>,
    /// The socket at which a virtual machine connects to it.
    pub vhost_user: Option<&'d Path>,
}

/// Everything that the daemon holds.
pub struct Service {
    /// The pool, or the published design.
    pub store: Store,
    /// The disks that NBD clients can open.
    pub exports: Arc<Exports>,
    /// The NBD front ends.
    pub servers: Mutex<Vec<NbdServer>>,
    /// The block devices that the kernel has made of disks.
    pub ublk: UblkFrontEnds,
    /// The disks that virtual machines can have.
    pub vhost: VhostFrontEnds,
    /// When the daemon began to serve.
    pub started: Instant,
    served: Mutex<Vec<Arc<Served>>>,
    changes: Mutex<()>,
    mounts: AtomicU64,
    events: Sender<Event>,
    disk_options: DiskOptions,
    unmounter: Mutex<Option<Unmounter>>,
    confinement: Option<Confinement>,
    is_confined: AtomicBool,
}

/// Why a disk is not attached as it was asked for.
#[derive(Debug)]
pub enum AttachError {
    /// It is not there at all.
    Refused(Failure),
    /// It is there, and a front end did not open.
    HalfDone(Failure, Arc<Served>),
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Failure {
        let (AttachError::Refused(failure) | AttachError::HalfDone(failure, _)) = error;
        failure
    }
}

/// A poisoned lock guards plain data here; the daemon has ended anyway when a thread panics.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    /// Serves nothing yet.
    pub fn new(
        store: Store,
        disk_options: DiskOptions,
        vhost: VhostFrontEnds,
        events: Sender<Event>,
        confinement: Option<Confinement>,
    ) -> Service {
        Service {
            store,
            exports: Arc::new(Exports::new()),
            servers: Mutex::default(),
            ublk: UblkFrontEnds::default(),
            vhost,
            started: Instant::now(),
            served: Mutex::default(),
            changes: Mutex::new(()),
            mounts: AtomicU64::new(0),
            events,
            disk_options,
            unmounter: Mutex::new(None),
            confinement,
            is_confined: AtomicBool::new(false),
        }
    }

    /// What the disks lived in; they and their front ends are gone.
    pub fn into_store(self) -> Store {
        self.store
    }

    /// The disks, in the order in which they came.
    pub fn served(&self) -> Vec<Arc<Served>> {
        lock(&self.served).clone()
    }

    /// The disk of that name.
    ///
    /// Errors: there is none; the message lists those that are.
    pub fn find(&self, name: &str) -> Result<Arc<Served>, Refusal> {
        let served = self.served();
        let found = served.iter().find(|served| served.name == name);
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = served.iter().map(|served| served.name.as_str()).collect();
            Refusal::new(
                RefusalKind::NotFound,
                format!(
                    "no disk is called {name}; the daemon serves: {}",
                    names.join(", ")
                ),
            )
        })
    }

    /// The right to change which disks are served; a caller that finds it taken is told to try
    /// again.
    ///
    /// Errors: another thread has it.
    pub fn change(&self) -> Result<MutexGuard<'_, ()>, Refusal> {
        match self.changes.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Refusal::new(
                RefusalKind::Busy,
                "another disk is being attached or detached; ask again when that is done",
            )),
        }
    }

    /// Attaches a backing and opens its front ends. The caller holds the right to change.
    ///
    /// Errors: a name that is taken or no name, a backing or a mount point that cannot be used. Where
    /// a front end fails at last, the disk is there with some of them, and `undo` takes it away.
    pub fn attach(
        &self,
        settings: &VolumeSettings,
        accepts_stale: bool,
    ) -> Result<Arc<Served>, AttachError> {
        let admitted = self.admit(settings, accepts_stale);
        let served = admitted.map_err(AttachError::Refused)?;
        let front_ends = FrontEnds {
            fuse: settings.fuse.as_deref(),
            ublk: settings.ublk,
            vhost_user: settings.vhost_user.as_deref(),
        };
        if let Err(failure) = self.open_front_ends(&served, &front_ends) {
            return Err(AttachError::HalfDone(failure, served));
        }
        tracing::info!(
            volume = served.name,
            backing = %served.backing.display(),
            "attached"
        );
        Ok(served)
    }

    /// Takes a disk away that was attached and whose front ends did not all open. The caller holds the
    /// right to change.
    ///
    /// Errors: the backing does not take what the pool had of it before; the disk is attached without
    /// a front end then.
    pub fn undo(&self, served: &Arc<Served>) -> Result<(), Failure> {
        let unmounted = self.unmount(served, false);
        if let Err(error) = unmounted.or_else(|_| self.unmount(served, true)) {
            tracing::error!(volume = served.name, %error, "not unmounted");
        }
        self.exports.remove_and_wait(&served.name, Duration::ZERO);
        self.vhost.close(&served.name);
        self.ublk.remove(&served.name)?;
        if let (Ok(pool), Ok(volume)) = (self.store.pool(), served.core.volume()) {
            pool.detach(volume.clone())?;
        }
        self.forget(served);
        Ok(())
    }

    /// The disk, without a front end.
    fn admit(
        &self,
        settings: &VolumeSettings,
        accepts_stale: bool,
    ) -> Result<Arc<Served>, Failure> {
        let name = match &settings.name {
            Some(name) => checked_name(name)?,
            None => name_of_backing(&settings.backing),
        };
        if self.served().iter().any(|served| served.name == name) {
            return Err(Failure::Arguments(format!(
                "there is a disk called {name} already; give {} another name",
                settings.backing.display()
            )));
        }
        if let Some(confinement) = &self.confinement {
            confinement.check(&settings.backing)?;
        }
        let is_confined = self.is_confined.load(Ordering::Relaxed);
        if is_confined && (settings.fuse.is_some() || settings.ublk.is_some()) {
            return Err(Failure::Arguments(
                "a daemon that --allow-backing confines mounts nothing and makes no device once it \
                 serves; give the disk its front end at the start, or use NBD or vhost-user"
                    .into(),
            ));
        }
        if let Some(directory) = &settings.fuse {
            mount_point::prepare(directory)?;
        }
        let served = Arc::new(match &self.store {
            Store::Pool(pool) => {
                let (backing, faults) = open_backing(pool, &settings.backing)?;
                let path = backing.identity().path;
                let volume = match accepts_stale {
                    true => pool.attach_stale(backing)?,
                    false => pool.attach(backing)?,
                };
                let disk = MeteredDevice::new(VolumeDevice::new(volume.clone()));
                Served::new(name, path, disk, Core::Volume(volume), faults)
            }
            Store::Design(design) => {
                let (path, engine) = (design.backing.clone(), Arc::clone(&design.engine));
                let disk = MeteredDevice::new(EngineDevice::new(Arc::clone(&engine)));
                Served::new(name, path, disk, Core::Engine(design.name, engine), None)
            }
        });
        lock(&self.served).push(Arc::clone(&served));
        Ok(served)
    }

    /// Mounts and exports a disk.
    ///
    /// Errors: the ublk driver, the socket, the mount point; the disk is not exported then.
    pub fn open_front_ends(
        &self,
        served: &Arc<Served>,
        front_ends: &FrontEnds<'_>,
    ) -> Result<(), Failure> {
        if let Some(number) = front_ends.ublk {
            self.ublk.open(&self.store, served, number)?;
        }
        if let Some(socket) = front_ends.vhost_user {
            self.vhost.open(served, socket)?;
        }
        if let Some(directory) = front_ends.fuse {
            let events = self.events.clone();
            let number = self.mounts.fetch_add(1, Ordering::Relaxed);
            let mount = DiskMount::new(
                Arc::clone(&served.disk),
                directory,
                &self.disk_options,
                // The receiver is gone only when the process is about to end.
                move || events.send(Event::Unmounted(number)).unwrap_or_default(),
            )?;
            *lock(&served.mount) = Some(Mounted { number, mount });
        }
        let description = plain_path(&served.backing);
        let exported = self
            .exports
            .add(&served.name, &description, served.disk.clone());
        exported.map_err(|error| Failure::Failed(error.to_string()))
    }

    /// The disk is no longer served; whatever its front ends and the pool still hold is the caller's.
    pub fn forget(&self, served: &Arc<Served>) {
        lock(&self.served).retain(|other| !Arc::ptr_eq(other, served));
    }

    /// It is served again.
    pub fn remember(&self, served: Arc<Served>) {
        lock(&self.served).push(served);
    }

    /// Makes `unmounter` unmount from now on, for the mounts that it knows.
    pub fn use_unmounter(&self, unmounter: Unmounter) {
        *lock(&self.unmounter) = Some(unmounter);
    }

    /// From now on no file is opened but where it was allowed; none if nothing was said of that, false
    /// where the kernel cannot see to it.
    ///
    /// Errors: the kernel's.
    pub fn confine(&self, sockets: &[PathBuf]) -> Result<Option<bool>, Failure> {
        let Some(confinement) = &self.confinement else {
            return Ok(None);
        };
        let is_confined = confinement.enter(sockets)?;
        self.is_confined.store(is_confined, Ordering::Relaxed);
        Ok(Some(is_confined))
    }

    /// Unmounts a disk, if it is mounted.
    ///
    /// Errors: it is in use and not `lazily` unmounted; then it stays mounted. It has been
    /// unmounted already ([`std::io::ErrorKind::NotFound`]): its end is reported when no process
    /// has it open.
    pub fn unmount(&self, served: &Served, lazily: bool) -> std::io::Result<()> {
        let mut place = lock(&served.mount);
        let Some(Mounted { mount, .. }) = place.as_ref() else {
            return Ok(());
        };
        let by_helper = lock(&self.unmounter)
            .as_ref()
            .and_then(|unmounter| unmounter.unmount(mount.identity(), lazily));
        match by_helper.unwrap_or_else(|| mount.unmount(lazily)) {
            Err(error) if lazily && error.kind() == std::io::ErrorKind::NotFound => {}
            result => result?,
        }
        let ended = place.take();
        // A forced end must not wait for a request that hangs.
        drop(place);
        match ended {
            Some(Mounted { mount, .. }) if !lazily => mount.join(),
            _ => Ok(()),
        }
    }

    /// The mount of this number has ended; the name of its disk, if the daemon did not unmount it.
    pub fn was_unmounted(&self, number: u64) -> Option<String> {
        let is_it = |mounted: &mut Mounted| mounted.number == number;
        for served in self.served() {
            let Some(Mounted { mount, .. }) = lock(&served.mount).take_if(is_it) else {
                continue;
            };
            if let Err(error) = mount.join() {
                tracing::warn!(volume = served.name, %error, "the mount ended with an error");
            }
            return Some(served.name.clone());
        }
        None
    }

    /// Whether a disk is mounted, or was and is still open.
    pub fn has_mounts(&self) -> bool {
        let is_mounted = |served: &Arc<Served>| lock(&served.mount).is_some();
        self.served().iter().any(is_mounted)
    }

    /// Whether a disk can still be reached.
    pub fn has_front_ends(&self) -> bool {
        let has_devices = !self.ublk.is_empty() || !self.vhost.is_empty();
        !lock(&self.servers).is_empty() || self.has_mounts() || has_devices
    }
}

/// The backing of a pool's disk; in a test pool, one that fails on request.
fn open_backing(pool: &Pool, path: &Path) -> Result<(Backing, Option<Arc<FaultyStore>>), Failure> {
    if !pool.is_test() {
        return Ok((Backing::file(path)?, None));
    }
    let store = FileStore::open(path, FileBackingOptions::default())?;
    let faults = Arc::new(FaultyStore::new(Arc::new(store)));
    Ok((Backing::from_store(faults.clone()), Some(faults)))
}

/// A name that the user chose.
fn checked_name(name: &str) -> Result<String, Failure> {
    let is_plain = |letter: char| !letter.is_control() && letter != '/';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
        return Err(Failure::Arguments(format!(
            "{name:?} is no name for a disk; it has 1 to {NAME_BYTES_MAX} bytes, no slash and no \
             control characters"
        )));
    }
    Ok(name.to_owned())
}

/// The file name of a backing, as far as it is a name.
fn name_of_backing(backing: &Path) -> String {
    let name = backing.file_name().unwrap_or(backing.as_os_str());
    let replace = |letter: char| if letter.is_control() { '-' } else { letter };
    let name: String = name.to_string_lossy().chars().map(replace).collect();
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        "disk".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        assert_eq!(checked_name("my disk.img").unwrap(), "my disk.img");
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for wrong in ["", "a/b", "a\nb", long.as_str()] {
            let error = checked_name(wrong).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{wrong:?}");
        }
        assert_eq!(name_of_backing(Path::new("/srv/disk.img")), "disk.img");
        assert_eq!(name_of_backing(Path::new("/srv/a\tb")), "a-b");
    }
}
