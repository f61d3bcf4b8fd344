//! A directory mounted over itself, in a mount namespace that only one program and its children are in
//! (`forebay run --shared`).
//!
//! Two processes share the work. The one that becomes the program makes the namespace and the mount; the one that
//! has the pool serves it and stays outside. Invariant: the server neither is in the namespace nor holds it. So the
//! mount, and with it the session, ends exactly when the last process of the program has ended, and not before: none
//! of them ever sees the directory below by its path, which lags behind; and the server sees only that one.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use forebay_files::{FileBuffer, FileBufferOptions};
use forebay_serve::mount_point::MOUNT_SOURCE;
use fuser::{Config, Session, SessionACL};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};

use crate::options::MountOptions;
use crate::paths::{self, DirectoryIdentity};
use crate::prepared::{Prepared, Serving};
use crate::restrictions::Restrictions;

/// The kernel's end of a mount in a namespace of its own, which the server has to be given.
#[derive(Debug)]
pub struct PrivateMount {
    /// The open `/dev/fuse`.
    pub device: OwnedFd,
    /// Root's, in the host's user namespace: processes that give root up keep the files that they have rights to.
    pub is_of_root: bool,
}

impl PrivateMount {
    /// Gives this process, which has one thread, a mount namespace of its own and mounts on `directory` there, which is to
    /// be the one that is served. A process that looks into it waits until it is.
    ///
    /// # Errors
    /// It is another directory, the process may neither mount nor have a user namespace, or `/dev/fuse` is not its to open.
    pub fn new(directory: &Path, served: DirectoryIdentity) -> io::Result<PrivateMount> {
        let directory = paths::data_directory(directory)?;
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let restrictions = Restrictions::of(&directory)?;
        let has_rights = enter_namespaces(user.as_raw(), group.as_raw())?;
        // What the host mounts and unmounts arrives here, and nothing goes back.
        let from_host = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", from_host)?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        // Opened in the namespace: the kernel takes no device of another user namespace.
        let device = rustix::fs::open("/dev/fuse", flags, Mode::empty())
            .map_err(|error| no_device(error.into()))?;
        let is_of_root = has_rights && user.is_root();
        let mut options = format!(
            "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
            device.as_raw_fd(),
            user.as_raw(),
            group.as_raw()
        );
        if is_of_root {
            options.push_str(",allow_other");
        }
        let options = CString::new(options)?;
        served.check(&directory)?;
        rustix::mount::mount(
            MOUNT_SOURCE,
            directory.as_path(),
            "fuse.files",
            flags_of(restrictions, is_of_root),
            options.as_c_str(),
        )
        .map_err(|error| {
            let message = format!(
                "nothing could be mounted on {} through /dev/fuse ({error}); use forebay mount",
                directory.display()
            );
            io::Error::new(io::Error::from(error).kind(), message)
        })?;
        Ok(PrivateMount { device, is_of_root })
    }
}

/// Whether it took no user namespace.
fn enter_namespaces(user: u32, group: u32) -> io::Result<bool> {
    match unshare(CloneFlags::CLONE_NEWNS) {
        Ok(()) => return Ok(true),
        Err(nix::Error::EPERM) => {}
        Err(error) => return Err(error.into()),
    }
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).map_err(|error| {
        let message = format!(
            "this user may not have a user namespace ({error}); allow it (user.max_user_namespaces, \
             kernel.apparmor_restrict_unprivileged_userns), run as root, or use forebay mount"
        );
        io::Error::new(io::Error::from(error).kind(), message)
    })?;
    // The kernel lets a process without rights map itself only, and once it cannot change its groups.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    Ok(false)
}

fn no_device(error: io::Error) -> io::Error {
    let message = format!(
        "/dev/fuse cannot be opened ({error}); load the module fuse, and let this user open it (mode 0666, as \
         distributions have it)"
    );
    io::Error::new(error.kind(), message)
}

fn flags_of(restrictions: Restrictions, is_of_root: bool) -> MountFlags {
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::NOSUID, restrictions.no_suid || !is_of_root);
    flags.set(MountFlags::NODEV, restrictions.no_devices || !is_of_root);
    flags.set(MountFlags::NOEXEC, restrictions.no_programs);
    flags.set(MountFlags::RDONLY, restrictions.read_only);
    flags
}

/// A directory whose pool is open, for a mount that another process makes.
#[derive(Debug)]
pub struct PrivateServer {
    prepared: Prepared,
    options: MountOptions,
}

impl PrivateServer {
    /// Opens the pool and recovers.
    ///
    /// # Errors
    /// The directory is served already, or the pool lies in it, cannot be opened or is of another directory.
    pub fn new(
        data: &Path,
        buffer: &FileBufferOptions,
        options: &MountOptions,
    ) -> io::Result<PrivateServer> {
        let data: PathBuf = paths::data_directory(data)?;
        paths::check_pool_outside(&data, "the directory", &std::path::absolute(buffer.pool())?)?;
        Ok(PrivateServer {
            prepared: Prepared::new(data, buffer, options)?,
            options: options.clone(),
        })
    }

    /// Which directory it is.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn identity(&self) -> io::Result<DirectoryIdentity> {
        self.prepared.identity()
    }

    /// The pool with the files that it buffers.
    pub fn buffer(&self) -> &FileBuffer {
        self.prepared.buffer()
    }

    /// Serves the mount; `on_end` is called once when the last process that had it has ended. Nothing is served where
    /// that is so already; the pool is closed then.
    ///
    /// # Errors
    /// There are no threads, or the pool could not be closed.
    pub fn serve(
        self,
        mount: PrivateMount,
        on_end: impl FnOnce() + Send + Sync + 'static,
    ) -> io::Result<Option<Serving>> {
        let PrivateMount { device, is_of_root } = mount;
        let mut config = Config::default();
        config.n_threads = Some(self.options.threads.max(1));
        // A device that this process opens is one of its own user namespace.
        config.clone_fd = is_of_root;
        let users = match is_of_root {
            true => SessionACL::All,
            false => SessionACL::Owner,
        };
        let begin = |tree| Session::from_fd(tree, device, users, config);
        match self.prepared.serve(on_end, begin) {
            // The kernel ended the session before the first request of it was read.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(None),
            served => served.map(Some),
        }
    }

    /// Closes the pool: there is no mount to serve.
    ///
    /// # Errors
    /// The backing's: then what it lacks is still in the pool.
    pub fn close(self) -> io::Result<()> {
        self.prepared.close()
    }
}
