//! The program that is killed: it does what it is told, by libc's calls, and answers each before it
//! takes the next.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::operation::{Answer, Kind, Operation, SLOTS, bytes, checksum};
use forebay_harness::Result;

/// Serves as many connections as there are threads, until they end.
pub fn run(directory: &Path, socket: &Path, threads: usize) -> Result<()> {
    // Modes are to be as asked.
    rustix::process::umask(rustix::fs::Mode::empty());
    std::thread::scope(|scope| {
        let each = |_| scope.spawn(|| serve(directory, socket));
        let all: Vec<_> = (0..threads).map(each).collect();
        for one in all {
            one.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })
}

fn serve(directory: &Path, socket: &Path) -> Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    writeln!(stream, "{}", std::process::id())?;
    let mut worker = Worker {
        directory: directory.to_owned(),
        files: [const { None }; SLOTS],
    };
    for line in BufReader::new(stream.try_clone()?).lines() {
        let operation: Operation = serde_json::from_str(&line?)?;
        let answer: Answer = worker
            .perform(&operation)
            .map_err(|error| error.to_string());
        writeln!(stream, "{}", serde_json::to_string(&answer)?)?;
    }
    Ok(())
}

#[derive(Debug)]
struct Worker {
    directory: PathBuf,
    files: [Option<(File, Kind)>; SLOTS],
}

impl Worker {
    fn path(&self, path: &str) -> PathBuf {
        self.directory.join(path)
    }

    fn file(&self, slot: usize) -> Result<&(File, Kind)> {
        Ok(self.files[slot].as_ref().ok_or("the slot is empty")?)
    }

    fn perform(&mut self, operation: &Operation) -> Result<u64> {
        match operation {
            Operation::Create {
                slot,
                path,
                mode,
                kind,
            } => {
                let file = options(*kind)
                    .create_new(true)
                    .mode(*mode)
                    .open(self.path(path))?;
                self.files[*slot] = Some((file, *kind));
            }
            Operation::Open { slot, path, kind } => {
                self.files[*slot] = Some((options(*kind).open(self.path(path))?, *kind));
            }
            Operation::Close { slot } => self.files[*slot] = None,
            Operation::Write {
                slot,
                offset,
                len,
                seed,
            } => {
                let bytes = bytes(*seed, *len);
                let (file, kind) = self.file(*slot)?;
                // One call: a second would be a second write.
                let written = match kind {
                    Kind::Append => (&*file).write(&bytes)?,
                    _ => file.write_at(&bytes, *offset)?,
                };
                if written < *len {
                    return Err(format!("{written} of {len} bytes written").into());
                }
            }
            Operation::Truncate { slot, size } => self.file(*slot)?.0.set_len(*size)?,
            Operation::Sync { slot, is_data_only } => match is_data_only {
                true => self.file(*slot)?.0.sync_data()?,
                false => self.file(*slot)?.0.sync_all()?,
            },
            Operation::Read { slot, offset, len } => {
                let mut found = vec![0; *len];
                let read = self.file(*slot)?.0.read_at(&mut found, *offset)?;
                return Ok(checksum(&found[..read]));
            }
            _ => self.change_names(operation)?,
        }
        Ok(0)
    }

    fn change_names(&self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::MakeDirectory { path, mode } => {
                DirBuilder::new().mode(*mode).create(self.path(path))?;
            }
            Operation::RemoveDirectory { path } => std::fs::remove_dir(self.path(path))?,
            Operation::SyncDirectory { path } => File::open(self.path(path))?.sync_all()?,
            Operation::Rename { from, to } => std::fs::rename(self.path(from), self.path(to))?,
            Operation::Exchange { from, to } => {
                let (from, to) = (self.path(from), self.path(to));
                renameat2(AT_FDCWD, &from, AT_FDCWD, &to, RenameFlags::RENAME_EXCHANGE)?;
            }
            Operation::Link { from, to } => std::fs::hard_link(self.path(from), self.path(to))?,
            Operation::Unlink { path } => std::fs::remove_file(self.path(path))?,
            Operation::MakeLink { path, target } => {
                std::os::unix::fs::symlink(target, self.path(path))?;
            }
            _ => return Err("not of names".into()),
        }
        Ok(())
    }
}

fn options(kind: Kind) -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(match kind {
        Kind::Plain => 0,
        Kind::DataSync => libc::O_DSYNC,
        Kind::Append => libc::O_APPEND,
    });
    options
}
