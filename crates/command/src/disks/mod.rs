//! The disks that a daemon serves, and their front ends: FUSE, NBD, vhost-user and ublk.

pub mod report;
mod served;
mod settings;
mod shutdown;
mod ublk;
mod ublk_number;
mod vhost;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

use forebay_serve::mount_point::MountIdentity;
use forebay_serve::nbd::{Exports, NbdAddress, NbdOptions, NbdServer};
use forebay_serve::{BlockDevice, DiskMount, DiskOptions, Refusal, RefusalKind};
use parking_lot::Mutex;

use crate::end::Event;
use crate::plain::plain_path;
use crate::{Failure, output};

use served::Mounted;
pub use served::Served;
pub use settings::{DiskSettings, FrontEnds};
pub use shutdown::serve_until_end;
pub use ublk::UblkFrontEnds;
pub use ublk_number::UblkNumber;
pub use vhost::VhostFrontEnds;

/// The longest name of a disk.
const NAME_BYTES_MAX: usize = 255;

/// Unmounts for a daemon that may not do so itself.
pub trait Unmount: Send + Sync {
    /// Unmounts, if this is one of the mounts that it knows; `None` if it is not.
    fn unmount(&self, mount: &MountIdentity, lazily: bool) -> Option<std::io::Result<()>>;
}

/// The disks and their front ends.
pub struct Disks<T> {
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
    served: Mutex<Vec<Arc<Served<T>>>>,
    mounts: AtomicU64,
    events: Sender<Event>,
    disk_options: DiskOptions,
    unmounter: Mutex<Option<Box<dyn Unmount>>>,
}

impl<T> Disks<T> {
    /// None yet. The ends of mounts are told as `events`.
    pub fn new(
        disk_options: DiskOptions,
        vhost: VhostFrontEnds,
        events: Sender<Event>,
    ) -> Disks<T> {
        Disks {
            exports: Arc::new(Exports::new()),
            servers: Mutex::default(),
            ublk: UblkFrontEnds::default(),
            vhost,
            started: Instant::now(),
            served: Mutex::default(),
            mounts: AtomicU64::new(0),
            events,
            disk_options,
            unmounter: Mutex::new(None),
        }
    }

    /// The disks, in the order in which they came.
    pub fn served(&self) -> Vec<Arc<Served<T>>> {
        self.served.lock().clone()
    }

    /// The disk of that name.
    ///
    /// # Errors
    /// There is none; the message lists those that are.
    pub fn find(&self, name: &str) -> Result<Arc<Served<T>>, Refusal> {
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

    /// What a disk is to be called: the name that was chosen, or the file name of its backing.
    ///
    /// # Errors
    /// It is no name; another disk has it.
    pub fn new_name(&self, chosen: Option<&str>, backing: &Path) -> Result<String, Failure> {
        let name = match chosen {
            Some(name) => checked_name(name)?,
            None => name_of_backing(backing),
        };
        if self.served().iter().any(|served| served.name == name) {
            return Err(Failure::Arguments(format!(
                "there is a disk called {name} already; give {} another name",
                backing.display()
            )));
        }
        Ok(name)
    }

    /// The disk is served from now on, or again; its front ends are opened by the caller.
    pub fn add(&self, served: Arc<Served<T>>) {
        self.served.lock().push(served);
    }

    /// The disk is no longer served; whatever its front ends and the daemon still hold is the caller's.
    pub fn forget(&self, served: &Arc<Served<T>>) {
        self.served
            .lock()
            .retain(|other| !Arc::ptr_eq(other, served));
    }

    /// Mounts and exports a disk.
    ///
    /// # Errors
    /// The ublk driver, the socket, the mount point; the disk is not exported then.
    pub fn open_front_ends(
        &self,
        served: &Arc<Served<T>>,
        front_ends: &FrontEnds<'_>,
    ) -> Result<(), Failure> {
        if let Some(number) = front_ends.ublk {
            self.ublk.open(served, number)?;
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
            *served.mount.lock() = Some(Mounted { number, mount });
        }
        let description = plain_path(&served.backing);
        let exported = self
            .exports
            .add(&served.name, &description, served.disk.clone());
        exported.map_err(|error| Failure::Failed(error.to_string()))
    }

    /// Exports the disks to NBD clients at these addresses.
    ///
    /// # Errors
    /// One cannot be listened at.
    pub fn listen(&self, addresses: &[NbdAddress], options: &NbdOptions) -> Result<(), Failure> {
        for address in addresses {
            let exports = Arc::clone(&self.exports);
            let server = NbdServer::start(exports, address, options.clone())
                .map_err(|error| Failure::Failed(error.to_string()))?;
            if let NbdAddress::Tcp { .. } = address {
                tracing::info!(address = %server.address(), tls = options.tls.is_some(), "listening on TCP");
            }
            self.servers.lock().push(server);
        }
        Ok(())
    }

    /// Says where each disk is, for a script that waits for it, then that all of it is ready.
    pub fn announce(&self) {
        for served in self.served() {
            let size_bytes = served.disk.size_bytes();
            if let Some(directory) = served.mounted_on() {
                let path = directory.join("disk");
                output::line(&format!("serving {} ({size_bytes} bytes)", path.display()));
            }
            if let Some(path) = self.ublk.path_of(&served.name) {
                output::line(&format!("serving {} ({size_bytes} bytes)", path.display()));
            }
            if let Some(path) = self.vhost.path_of(&served.name) {
                output::line(&format!(
                    "serving {} over vhost-user at {} ({size_bytes} bytes)",
                    served.name,
                    path.display()
                ));
            }
            for server in self.servers.lock().iter() {
                output::line(&format!(
                    "serving {} over NBD at {} ({size_bytes} bytes)",
                    served.name,
                    server.address()
                ));
            }
        }
        output::line("ready");
    }

    /// Makes `unmounter` unmount from now on, for the mounts that it knows.
    pub fn use_unmounter(&self, unmounter: impl Unmount + 'static) {
        *self.unmounter.lock() = Some(Box::new(unmounter));
    }

    /// Unmounts a disk, if it is mounted.
    ///
    /// # Errors
    /// It is in use and not `lazily` unmounted; then it stays mounted. It has been unmounted already
    /// ([`std::io::ErrorKind::NotFound`]): its end is reported when no process has it open.
    pub fn unmount(&self, served: &Served<T>, lazily: bool) -> std::io::Result<()> {
        let mut place = served.mount.lock();
        let Some(Mounted { mount, .. }) = place.as_ref() else {
            return Ok(());
        };
        let by_helper = self
            .unmounter
            .lock()
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
            let Some(Mounted { mount, .. }) = served.mount.lock().take_if(is_it) else {
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
        let is_mounted = |served: &Arc<Served<T>>| served.mount.lock().is_some();
        self.served().iter().any(is_mounted)
    }

    /// Whether a disk can still be reached.
    pub fn has_front_ends(&self) -> bool {
        let has_devices = !self.ublk.is_empty() || !self.vhost.is_empty();
        !self.servers.lock().is_empty() || self.has_mounts() || has_devices
    }
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
