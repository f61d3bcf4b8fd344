//! The mount as a whole: made, unmounted, closed.

use std::io;
use std::path::Path;
use std::sync::Arc;

use forebay_files::{FileBuffer, FileBufferOptions};
use forebay_serve::fuse_ring::RingCounts;
use forebay_serve::mount_point::{self, MOUNT_SOURCE, MountIdentity};
use fuser::{Config, MountOption, Session, SessionACL};

use crate::options::MountOptions;
use crate::paths;
use crate::prepared::{Prepared, Serving};
use crate::restrictions::Restrictions;

/// A mounted directory. Dropping it unmounts where that is possible.
#[derive(Debug)]
pub struct FileMount {
    identity: MountIdentity,
    serving: Serving,
}

impl FileMount {
    /// Opens the pool, recovers, and mounts `data` on `directory`.
    ///
    /// `on_end` is called once when the mount has ended, no matter what unmounted it.
    ///
    /// # Errors
    /// The directories overlap, the directory is served already, the pool cannot be opened or is of
    /// another directory, or the kernel does not mount.
    pub fn new(
        data: &Path,
        directory: &Path,
        buffer: &FileBufferOptions,
        options: &MountOptions,
        on_end: impl FnOnce() + Send + Sync + 'static,
    ) -> io::Result<FileMount> {
        let directory = mount_point::resolve(directory)?;
        let data = paths::data_directory(data)?;
        paths::check_places(&data, &directory, &std::path::absolute(buffer.pool())?)?;
        mount_point::check_empty(&directory)?;
        let restrictions = Restrictions::of(&data)?;
        let prepared = Prepared::new(data, buffer, options)?;
        let serving = prepared.serve(on_end, |tree| {
            let configuration = configuration(options, restrictions);
            let session = Session::new(tree, &directory, &configuration);
            session.map_err(|error| not_mounted(&directory, &error))
        })?;
        let identity = MountIdentity::of(&directory)?;
        Ok(FileMount { identity, serving })
    }

    /// The directory it is mounted on, absolute.
    pub fn directory(&self) -> &Path {
        &self.identity.directory
    }

    /// What tells this mount from any other at the same place.
    pub fn identity(&self) -> &MountIdentity {
        &self.identity
    }

    /// What the rings have done by which the kernel's requests come; nothing where they come by `/dev/fuse`.
    pub fn ring_counts(&self) -> Option<RingCounts> {
        self.serving.ring_counts()
    }

    /// Unmounts; fails with [`io::ErrorKind::ResourceBusy`] while files are in use, unless `lazily`:
    /// then the mount vanishes at once and its users get errors when the process ends. Fails with
    /// [`io::ErrorKind::NotFound`] where it has been unmounted already.
    ///
    /// # Errors
    /// As said.
    pub fn unmount(&self, lazily: bool) -> io::Result<()> {
        self.identity.unmount(lazily)
    }

    /// Waits until the mount has ended, brings the backing up to date, and closes the pool.
    ///
    /// # Errors
    /// The session's, or the backing's: then what it lacks is still in the pool.
    pub fn join(self) -> io::Result<()> {
        self.serving.join()
    }

    /// Brings the backing up to date and closes the pool while files may still be in use; they are
    /// written straight through until the process ends.
    ///
    /// # Errors
    /// The backing's; what it lacks is still in the pool.
    pub fn close_in_use(self) -> io::Result<()> {
        self.serving.close_in_use()
    }

    /// The pool with the files that it buffers.
    pub fn buffer(&self) -> &Arc<FileBuffer> {
        self.serving.buffer()
    }
}

fn not_mounted(directory: &Path, error: &io::Error) -> io::Error {
    // One of ours says what is missing.
    let message = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::Unsupported, None) => error.to_string(),
        _ => format!(
            "nothing could be mounted on {} through /dev/fuse ({error}); run as root, or install fuse3",
            directory.display()
        ),
    };
    io::Error::new(error.kind(), message)
}

fn configuration(options: &MountOptions, restrictions: Restrictions) -> Config {
    let is_root = rustix::process::geteuid().is_root();
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(MOUNT_SOURCE.to_owned()),
        MountOption::Subtype("files".to_owned()),
        MountOption::DefaultPermissions,
    ];
    config.mount_options.extend(restrictions.options(is_root));
    config.acl = if is_root {
        SessionACL::All
    } else {
        SessionACL::Owner
    };
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = true;
    config
}
