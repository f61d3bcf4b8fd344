//! Setting a stale directory aside: a member of an engine that rebuilds what an empty one lacks goes on by itself when its pool is lost.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

/// A directory whose content lies beside it under another name, and an empty one in its place.
#[derive(Debug)]
pub struct SetAside {
    data: PathBuf,
    /// Where its content lies.
    pub beside: PathBuf,
}

impl SetAside {
    /// Puts an empty directory of the same owner and mode in the place of `data`, in one step: after a crash `data` is the one or the
    /// other. Nothing is deleted.
    ///
    /// # Errors
    /// `data` is a mount point or the root, or what lies around it may not be written.
    pub fn new(data: &Path) -> io::Result<SetAside> {
        // The directory itself, not a link that leads to it.
        let data = data.canonicalize()?;
        let name = data.file_name();
        let name = name.ok_or_else(|| io::Error::other("it is the root directory"))?;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = since_epoch.map_or(0, |time| time.as_secs());
        let mut stale = name.to_owned();
        stale.push(format!(".stale-{seconds}"));
        let beside = data.with_file_name(stale);
        let found = std::fs::metadata(&data)?;
        DirBuilder::new().mode(0o700).create(&beside)?;
        let made = like(&beside, &found).and_then(|()| exchange(&beside, &data));
        if let Err(error) = made {
            // It is empty, and of no use.
            let _ = std::fs::remove_dir(&beside);
            return Err(error);
        }
        Ok(SetAside { data, beside })
    }

    /// As it was.
    ///
    /// # Errors
    /// The system's. Then the content stays where it lies.
    pub fn undo(&self) -> io::Result<()> {
        exchange(&self.beside, &self.data)?;
        std::fs::remove_dir(&self.beside)
    }
}

/// Gives the new directory the owner and the mode of the other one; no link that another user put there is followed.
fn like(made: &Path, found: &Metadata) -> io::Result<()> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits() as i32;
    let made = File::options().read(true).custom_flags(flags).open(made)?;
    fchown(&made, Some(found.uid()), Some(found.gid()))?;
    made.set_permissions(Permissions::from_mode(found.mode() & 0o7777))
}

/// Each gets the other's name, durably.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?;
    let around = other.parent().unwrap_or(Path::new("/"));
    File::open(around)?.sync_all()
}
