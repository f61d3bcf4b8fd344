//! The names of real directories in a pool: what the data of files needs of them.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::log::LogArea;
use super::real::{KeepDescriptor, link_of};
use super::reconcile::{Outcome, Reconciled};
use super::{Names, RealSpace};
use crate::identity::FileIdentity;
use crate::metadata::{Durable, FileId, MetadataArea};
use crate::naming::{Found, NamesRecovery, Naming, WithoutData};
use crate::observe;

/// How often the thread in the background looks how long the log has told of attributes.
const ATTRIBUTES_LOOKED_AT: Duration = Duration::from_secs(15);

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

    fn write(&self, offset: u64, bytes: &[u8], durable: Durable) -> io::Result<()> {
        MetadataArea::write(self, &[(offset, bytes)], durable)
    }

    fn zero(&self, offset: u64, len_bytes: u64, durable: Durable) -> io::Result<()> {
        MetadataArea::zero(self, offset, len_bytes, durable)
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

    fn changed_without_record(&self, identity: FileIdentity) {
        RealNames::changed_without_record(self, number_of(identity));
    }

    fn settle(&self, identity: FileIdentity, sync: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        RealNames::settle(self, number_of(identity), sync)
    }

    fn is_removed(&self, id: FileId) -> bool {
        RealNames::is_removed(self, id)
    }

    fn left_pool(&self, id: FileId) {
        self.release(id);
    }
}

/// An inode's device and number, as the log has them.
fn number_of(identity: FileIdentity) -> (u64, u64) {
    let said = observe::identity(identity);
    let inode = said.map_or(identity.inode, |said| said.inode);
    (identity.device, inode)
}

/// Begins new logs in the background, so that no operation has to sync the backing because the log is
/// full, and so that attributes are in the backing after a while.
///
/// # Errors
/// No thread can be started.
pub(crate) fn checkpoint_in_background(names: &Arc<RealNames>) -> io::Result<()> {
    let (ask, asked) = sync_channel(1);
    names.ask_for_checkpoints(ask);
    let names = Arc::downgrade(names);
    let work = move || {
        loop {
            let is_asked = match asked.recv_timeout(ATTRIBUTES_LOOKED_AT) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let Some(names) = names.upgrade() else { break };
            if is_asked || names.has_aged() {
                // What fails goes on with the old log; a caller that finds that full gets an error.
                names.checkpoint_unheard();
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
        let mut reconciled = self.names.recover(with_data)?;
        self.names.restrict(&mut reconciled);
        if !with_data.is_empty() {
            // Before any of them gets its data, and the pool forgets it: else the next crash takes the file, and recovery
            // makes an empty one.
            self.names.keep_made()?;
        }
        self.reconciled = Some(reconciled);
        Ok(())
    }

    fn open(&mut self, id: FileId) -> io::Result<Found> {
        let reconciled = self.reconciled.as_ref();
        let reconciled = reconciled.expect("names are recovered before files are opened");
        if let Some(why) = reconciled.is_barred(id) {
            return Err(io::Error::other(why.to_owned()));
        }
        match reconciled.outcome(id) {
            Outcome::Gone => Ok(Found::Removed),
            Outcome::Missing(why) => Ok(Found::Missing(why)),
            Outcome::There => match reconciled.hold(&self.names.space, id)? {
                Some(file) => Ok(Found::Open(open_for_writing(&file)?)),
                None => Ok(Found::Missing(format!("file {id} is in no directory"))),
            },
        }
    }

    fn name(&self, id: FileId) -> String {
        let path = self.reconciled.as_ref().map(|names| names.path(id));
        let path = path.filter(|path| !path.as_os_str().is_empty());
        path.map_or_else(|| format!("file {id}"), |path| path.display().to_string())
    }

    fn restore(&mut self, without: &WithoutData, gives_up: bool) -> io::Result<()> {
        let Some(reconciled) = &mut self.reconciled else {
            return Ok(());
        };
        let failed = self.names.restore(reconciled, without);
        let Some(first) = failed.first().filter(|_| !gives_up) else {
            reconciled.attributes_left += failed.len() as u64;
            reconciled.complaints.extend(failed);
            return Ok(());
        };
        let others = match failed.len() - 1 {
            0 => String::new(),
            count => format!(" (and {count} more)"),
        };
        Err(io::Error::other(format!(
            "{first}{others}; all files have their data; remove the cause and recover again, or give these attributes up: \
             forebay recover --save-lost POOL"
        )))
    }

    fn rest(&mut self) -> io::Result<()> {
        self.names.rest()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.names.begin()
    }
}

fn open_for_writing(held: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(
        link_of(held.as_fd()),
        flags,
        Mode::empty(),
    )?)
}
