//! The witness of a mirror: a file on another device that has the newest roster, a third vote beside the two members.
//!
//! No member ever has a roster that is newer than the witness's: each roster is durable here before it is stored there. So
//! a member that is alone, and whose roster is the witness's, knows that the other one did not go on without it.
//!
//! The file has two lines, a page each, that are written in turn, so that a torn one leaves the other. It is written
//! through the descriptor of the opening, which also holds its lock: a process that has given up its rights can write it,
//! and no two processes ask it at the same time. It must lie where it was named: a file that was moved or removed is none.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Mutex;

use forebay_pmem::{Opening, Region, lock_exclusively, open_own};

use crate::error::{Error, ErrorKind, Result, refused};
use crate::media::layout::{
    FORMAT_VERSION, WITNESS_BYTES, WITNESS_MAGIC, WITNESS_PATH_BYTES, WitnessLine,
};
use crate::media::roster::{Roster, WitnessName};
use crate::repeatable::{self, sync_mark};

/// Bytes from one line to the other.
const LINE_DISTANCE: u64 = 4096;

/// See the module.
pub(crate) struct Witness {
    file: File,
    name: WitnessName,
    pool_uuid: [u8; 16],
    turn: Mutex<Turn>,
}

/// Which line counts, and how often one was written.
#[derive(Clone, Copy)]
struct Turn {
    line: u64,
    number: u64,
}

/// What is said of a witness that cannot be written or read.
pub(crate) fn absent(path: &Path, why: &str) -> Error {
    refused(
        path,
        format!("it is the pool's witness, and {why}"),
        "bring it back, or give it up: while both members are in with forebay member witness POOL --none, else by \
         opening the pool without it (on the command line --without-missing)",
    )
}

impl Witness {
    /// A new file, of which no roster says anything yet.
    ///
    /// # Errors
    /// It is there already, in no place of our own, or on the device of a member.
    pub(crate) fn make<'r>(
        path: &Path,
        members: impl IntoIterator<Item = &'r Region>,
        pool_uuid: [u8; 16],
    ) -> Result<Witness> {
        let path = std::path::absolute(path).map_err(|error| told(path, &error))?;
        if path.as_os_str().len() > WITNESS_PATH_BYTES {
            return Err(ErrorKind::Options(format!(
                "{}: the roster has room for a path of {WITNESS_PATH_BYTES} bytes; use a shorter one",
                path.display()
            ))
            .into());
        }
        let folder = path.parent().unwrap_or(Path::new("/")).to_path_buf();
        let device = std::fs::metadata(&folder).map_err(|error| told(&folder, &error))?;
        let shares = |member: &&Region| {
            let own = std::fs::metadata(member.path());
            own.is_ok_and(|own| own.is_file() && own.dev() == device.dev())
        };
        if let Some(member) = members.into_iter().find(shares) {
            return Err(ErrorKind::Options(format!(
                "{}: {} is on the same device, and the witness would be lost with it; name a file beside the backing",
                path.display(),
                member.path().display()
            ))
            .into());
        }
        let file = open_own(&path, Opening::Make, false)
            .map_err(|error| refused(&path, error.to_string(), "name another file as witness"))?;
        let mut identity = [0; 8];
        identity.copy_from_slice(&repeatable::fresh_uuid()?[..8]);
        let made = lock_exclusively(&file)
            // With its room: a device that is full by then must not keep the next roster from it.
            .and_then(|()| file.write_all_at(&[0; 2 * LINE_DISTANCE as usize], 0))
            .and_then(|()| sync_mark(&file))
            // Orders the name before the roster that has it.
            .and_then(|()| sync_mark(&File::open(&folder)?));
        if let Err(error) = made {
            // The caller needs this error, not another one.
            let _ = std::fs::remove_file(&path);
            return Err(told(&path, &error));
        }
        let identity = u64::from_le_bytes(identity) | 1;
        Ok(Witness {
            file,
            name: WitnessName { identity, path },
            pool_uuid,
            turn: Mutex::new(Turn { line: 1, number: 0 }),
        })
    }

    /// The file that a roster names, at `path`, and the roster that it has. The text says why there is none.
    pub(crate) fn open(
        name: &WitnessName,
        path: &Path,
        members: u32,
        pool_uuid: &[u8; 16],
        is_private: bool,
    ) -> std::result::Result<(Witness, Roster), String> {
        let opening = match is_private {
            true => Opening::Read,
            false => Opening::Write,
        };
        let path = std::path::absolute(path).map_err(|error| error.to_string())?;
        let file = open_own(&path, opening, false).map_err(|error| error.to_string())?;
        if !is_private {
            lock_exclusively(&file).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => String::from("another process has it open"),
                _ => error.to_string(),
            })?;
        }
        let lines = (0..2).filter_map(|line| {
            let mut raw = [0; WITNESS_BYTES];
            file.read_exact_at(&mut raw, line * LINE_DISTANCE).ok()?;
            let found = WitnessLine::decode(&raw)?;
            let is_one = found.magic == WITNESS_MAGIC && found.format == FORMAT_VERSION;
            is_one.then_some((line, found))
        });
        let Some((line, found)) = lines.max_by_key(|(_, found)| found.number) else {
            return Err(String::from("it is no witness, or damaged"));
        };
        if found.identity != name.identity {
            return Err(String::from("it is another pool's, or another witness"));
        }
        let roster = Roster::of_line(&found.roster, pool_uuid, members);
        let Some(roster) = roster else {
            return Err(String::from("it is another pool's"));
        };
        let name = WitnessName {
            identity: found.identity,
            path,
        };
        let turn = Mutex::new(Turn {
            line,
            number: found.number,
        });
        let pool_uuid = *pool_uuid;
        let witness = Witness {
            file,
            name,
            pool_uuid,
            turn,
        };
        Ok((witness, roster))
    }

    /// What a roster is to say of it.
    pub(crate) fn name(&self) -> &WitnessName {
        &self.name
    }

    /// Makes a roster durable here. Called before it is stored on any member.
    ///
    /// # Errors
    /// It is not there any more, or cannot be written; it may have the roster all the same.
    pub(crate) fn tell(&self, roster: &Roster) -> Result<()> {
        let mut turn = forebay_pmem::lock_or_yield(&self.turn);
        if !self.is_there() {
            return Err(absent(&self.name.path, "is not where it was"));
        }
        let (_, roster) = roster.line(self.pool_uuid);
        let next = Turn {
            line: turn.line ^ 1,
            number: turn.number + 1,
        };
        let line = WitnessLine {
            magic: WITNESS_MAGIC,
            format: FORMAT_VERSION,
            reserved0: 0,
            identity: self.name.identity,
            number: next.number,
            roster,
            reserved: [0; 28],
            crc: 0,
        };
        self.file
            .write_all_at(&line.encode(), next.line * LINE_DISTANCE)
            // Orders the roster here before it is stored on a member.
            .and_then(|()| sync_mark(&self.file))
            .map_err(|error| absent(&self.name.path, &format!("cannot be written: {error}")))?;
        *turn = next;
        Ok(())
    }

    /// Whether the file still has its name: what is written to another one nobody finds.
    pub(crate) fn is_there(&self) -> bool {
        let Ok(own) = self.file.metadata() else {
            return false;
        };
        match std::fs::symlink_metadata(&self.name.path) {
            Ok(named) => (named.dev(), named.ino()) == (own.dev(), own.ino()),
            // A process that has given up its rights may not look there.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => own.nlink() == 1,
            Err(_) => false,
        }
    }

    /// Removes the file, which no roster names any more.
    pub(crate) fn remove(&self) {
        if self.is_there() {
            // One that stays is asked by nobody.
            let _ = std::fs::remove_file(&self.name.path);
        }
    }
}

fn told(path: &Path, error: &io::Error) -> Error {
    refused(path, error.to_string(), "name another file as witness")
}
