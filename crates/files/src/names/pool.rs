//! The names of real directories in a pool: what the data of files needs of them.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::log::LogArea;
use super::real::{KeepDescriptor, link_of};
use super::reconcile::{Outcome, Reconciled};
use super::{Names, RealSpace};
use crate::identity::FileIdentity;
use crate::metadata::{FileId, MetadataArea};
use crate::naming::{Found, NamesRecovery, Naming};
use crate::observe;

/// Names of the kernel's directories.
pub(crate) type RealNames = Names<RealSpace>;

impl RealNames {
    /// Descriptors that stay open go through `keep`.
    ///
    /// # Errors
    /// `keep`'s.
    pub(crate) fn keep_descriptors_by(&self, keep: KeepDescriptor) -> io::Result<()> {
        self.space.keep_descriptors_by(keep)
    }
}

impl LogArea for MetadataArea {
    fn len_bytes(&self) -> u64 {
        self.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        MetadataArea::read(self, offset, out)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        MetadataArea::write(self, &[(offset, bytes)])
    }

    fn zero(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        MetadataArea::zero(self, offset, len_bytes)
    }
}

impl Naming for Arc<RealNames> {
    fn introduce(&self, descriptor: BorrowedFd<'_>, _identity: FileIdentity) -> io::Result<FileId> {
        // Closing a duplicate would take the program's record locks with it; an O_PATH one does not.
        let handle = Arc::new(RealSpace::path_only(descriptor)?);
        self.acquire(&handle, &|| observe::sync_all(descriptor))
    }

    fn is_new(&self, descriptor: BorrowedFd<'_>) -> bool {
        RealSpace::seen_of(descriptor).is_ok_and(|seen| self.has_made(&seen.identity))
    }

    fn left_pool(&self, id: FileId) {
        self.release(id);
    }
}

/// Begins new logs in the background, so that no operation has to sync the backing because the log is
/// full.
///
/// # Errors
/// No thread can be started.
pub(crate) fn checkpoint_in_background(names: &Arc<RealNames>) -> io::Result<()> {
    let (ask, asked) = sync_channel(1);
    names.ask_for_checkpoints(ask);
    let names = Arc::downgrade(names);
    let work = move || {
        while asked.recv().is_ok() {
            if let Some(names) = names.upgrade() {
                // What fails goes on with the old log; a caller that finds that full gets an error.
                drop(names.checkpoint());
            }
        }
    };
    let thread = std::thread::Builder::new().name(String::from("forebay-names"));
    thread.spawn(work).map(drop)
}

/// Recovery of the names of a pool.
pub(crate) struct RealRecovery {
    names: Arc<RealNames>,
    reconciled: Option<Reconciled<RealSpace>>,
}

impl RealRecovery {
    pub(crate) fn new(names: &Arc<RealNames>) -> RealRecovery {
        RealRecovery {
            names: Arc::clone(names),
            reconciled: None,
        }
    }

    /// What was found and done, once it is recovered.
    pub(crate) fn into_reconciled(self) -> Option<Reconciled<RealSpace>> {
        self.reconciled
    }
}

impl NamesRecovery for RealRecovery {
    fn recover(&mut self, with_data: &HashSet<FileId>) -> io::Result<()> {
        self.reconciled = Some(self.names.recover(with_data)?);
        Ok(())
    }

    fn open(&mut self, id: FileId) -> io::Result<Found> {
        let reconciled = self.reconciled.as_ref();
        let reconciled = reconciled.expect("names are recovered before files are opened");
        match reconciled.outcome(id) {
            Outcome::Gone => Ok(Found::Removed),
            Outcome::Missing(why) => Ok(Found::Missing(why)),
            Outcome::There => match reconciled.hold(&self.names.space, id)? {
                Some(file) => open_for_writing(&file).map(Found::Open),
                None => Ok(Found::Missing(format!("file {id} is in no directory"))),
            },
        }
    }

    fn name(&self, id: FileId) -> String {
        let path = self.reconciled.as_ref().map(|names| names.path(id));
        let path = path.filter(|path| !path.as_os_str().is_empty());
        path.map_or_else(|| format!("file {id}"), |path| path.display().to_string())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.names.begin()
    }
}

/// A file that its owner may not write is written all the same: what is in the pool was written while
/// the owner still could.
fn open_for_writing(held: &OwnedFd) -> io::Result<OwnedFd> {
    let link = link_of(held.as_fd());
    let open = || rustix::fs::open(&link, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    match open() {
        Ok(file) => Ok(file),
        Err(Errno::ACCESS) => {
            let mode = Mode::from_raw_mode(RealSpace::seen_of(held.as_fd())?.mode & 0o7777);
            rustix::fs::chmod(&link, mode | Mode::WUSR | Mode::RUSR)?;
            let file = open();
            rustix::fs::chmod(&link, mode)?;
            Ok(file?)
        }
        Err(error) => Err(error.into()),
    }
}
