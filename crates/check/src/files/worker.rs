//! The program: does steps, and reads what it has open.

use super::backing::Backing;
use super::script::PROGRAM_MODE;
use super::step::{Space, Step};
use forebay_files::observe::{Observer, Synced};
use forebay_files::{AttributeChange, BufferedFile, Directory};
use forebay_files::{FileBuffer, FileIdentity, SyncKind};
use forebay_harness::files::{CAPABILITY, CAPABILITY_VALUE, DIRECTORY_MODE, EXTENDED};
use forebay_harness::files::{FILE_MODE, Id, Model};
use rustix::fs::XattrFlags;
use rustix::fs::{FallocateFlags, Mode, OFlags, RenameFlags};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The program.
pub struct Worker<'a> {
    buffer: Arc<FileBuffer>,
    root: &'a Path,
    backing: &'a Backing,
    open: BTreeMap<Id, Arc<BufferedFile>>,
}

impl Worker<'_> {
    /// One that has opened nothing yet.
    pub fn new<'a>(buffer: Arc<FileBuffer>, root: &'a Path, backing: &'a Backing) -> Worker<'a> {
        Worker {
            buffer,
            root,
            backing,
            open: BTreeMap::new(),
        }
    }

    /// What it has open.
    pub fn open(&self) -> Vec<Id> {
        self.open.keys().copied().collect()
    }

    /// Does a step.
    pub fn act(&mut self, step: &Step, opened: Option<Id>, before: &Model) -> io::Result<()> {
        match step {
            Step::Create(path) | Step::CreateProgram(path) | Step::Open(path) => {
                let (directory, name) = self.place(path)?;
                let flags = match step {
                    Step::Open(_) => OFlags::RDWR,
                    _ => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
                };
                let mode = Mode::from_raw_mode(match step {
                    Step::CreateProgram(_) => PROGRAM_MODE,
                    _ => FILE_MODE,
                });
                let file = directory.open(name, flags | OFlags::CLOEXEC, mode)?;
                let file = self.buffer.adopt(file.descriptor)?;
                self.open.insert(opened.expect("it has a name"), file);
            }
            Step::MakeDirectory(path) => {
                let (directory, name) = self.place(path)?;
                directory.make_directory(name, Mode::from_raw_mode(DIRECTORY_MODE))?;
            }
            Step::MakeLink(path, target) => {
                let (directory, name) = self.place(path)?;
                directory.make_symbolic_link(name, target)?;
            }
            Step::Link(from, to) => {
                let (source, from) = self.place(from)?;
                let (directory, to) = self.place(to)?;
                directory.link(&source, from, to)?;
            }
            Step::Unlink(path) => {
                let (directory, name) = self.place(path)?;
                directory.unlink(name)?;
                self.forget(before.names[path], before);
            }
            Step::RemoveDirectory(path) => {
                let (directory, name) = self.place(path)?;
                directory.remove_directory(name)?;
            }
            Step::Rename(from, to, exchange) => self.rename(from, to, *exchange, before)?,
            Step::Close(file) => drop(self.open.remove(file)),
            Step::Write(file, offset, bytes, durable) => {
                self.open[file].write_at(*offset as u64, bytes, *durable)?;
            }
            Step::Append(file, bytes, durable) => {
                self.open[file].append(bytes, *durable)?;
            }
            Step::Truncate(file, len) => self.open[file].truncate(*len as u64)?,
            Step::Allocate(file, space, offset, len) => {
                let mode = match space {
                    Space::Grown => FallocateFlags::empty(),
                    Space::Kept => FallocateFlags::KEEP_SIZE,
                    Space::Punched => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                };
                self.open[file].allocate(mode, *offset as u64, *len as u64)?;
            }
            Step::SetMode(path, mode) => {
                let file = File::open(self.root.join(path))?;
                rustix::fs::fchmod(&file, Mode::from_raw_mode(*mode))?;
                self.buffer.attributes_changed(FileIdentity::of(&file)?);
            }
            Step::ChangeMode(path, mode) => self.change(path, AttributeChange::Mode(*mode))?,
            Step::OthersMode(path, mode) => {
                let mode = Mode::from_raw_mode(*mode);
                rustix::fs::chmod(self.root.join(path), mode)?;
                self.backing.synced(Synced::Everything);
            }
            Step::ChangeOwner(path, owner) => {
                let user = Some(*owner);
                self.change(path, AttributeChange::Owner { user, group: None })?;
            }
            Step::GiveCapability(path) => {
                let change = AttributeChange::Set {
                    name: OsStr::new(CAPABILITY),
                    value: &CAPABILITY_VALUE,
                    flags: XattrFlags::empty(),
                };
                self.change(path, change)?;
            }
            Step::SetExtended(path, value) => {
                let change = match value {
                    Some(value) => AttributeChange::Set {
                        name: OsStr::new(EXTENDED),
                        value,
                        flags: XattrFlags::empty(),
                    },
                    None => AttributeChange::Remove(OsStr::new(EXTENDED)),
                };
                self.change(path, change)?;
            }
            Step::SyncDirectory(path) => {
                let directory = File::open(self.root.join(path))?;
                self.buffer.directory(directory.into())?.sync()?;
            }
            Step::Sync(file, kind) => self.open[file].sync(*kind)?,
            Step::OthersSync(file) => {
                let file = self.open[file].identity();
                self.backing.synced(Synced::Data(file));
            }
            Step::Drain(file) => self.open[file].drain()?,
            Step::Suspend(file) => self.open[file].suspend()?,
            Step::Resume(file) => self.open[file].resume(),
            Step::SyncBacking => self.buffer.sync_backing()?,
            Step::NewLog => self.buffer.begin_new_log()?,
            Step::NewLogBeside(file) => {
                let file = Arc::clone(&self.open[file]);
                let (told, done) = std::sync::mpsc::channel();
                self.backing.beside_next_sync_of_all(move || {
                    // The other end waits for it.
                    let _ = told.send(file.sync(SyncKind::All));
                });
                self.buffer.begin_new_log()?;
                done.try_recv().expect("all was synced")?;
            }
            Step::Work => self.buffer.work_once()?,
            // What it could not do is still to be done.
            Step::WorkFailing => drop(self.buffer.work_once()),
            Step::End => self.buffer.close()?,
        }
        Ok(())
    }

    /// Reads every open file; the error is what is wrong with one.
    pub fn read_all(&self, model: &Model) -> Result<(), String> {
        for (id, file) in &self.open {
            let expected = model.content(*id);
            let mut found = vec![0; expected.len() + 10];
            let read = file.read_at(0, &mut found).map_err(|e| e.to_string())?;
            let size_bytes = file.size_bytes().map_err(|e| e.to_string())?;
            if found[..read] != *expected || size_bytes != expected.len() as u64 {
                let first = found
                    .iter()
                    .zip(expected)
                    .position(|(one, other)| one != other);
                return Err(format!(
                    "file {id} reads otherwise than it was written: {read} bytes of {size_bytes}, \
                     expected {}, other from {first:?} on",
                    expected.len()
                ));
            }
        }
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path, exchange: bool, before: &Model) -> io::Result<()> {
        let (source, from) = self.place(from)?;
        let (directory, name) = self.place(to)?;
        let flags = match exchange {
            true => RenameFlags::EXCHANGE,
            false => RenameFlags::empty(),
        };
        source.rename(from, &directory, name, flags)?;
        if let (false, Some(victim)) = (exchange, before.names.get(to)) {
            self.forget(*victim, before);
        }
        Ok(())
    }

    /// A file that has lost its last name is not looked at again.
    fn forget(&mut self, victim: Id, before: &Model) {
        if before.names.values().filter(|id| **id == victim).count() == 1 {
            self.open.remove(&victim);
        }
    }

    fn change(&self, path: &Path, change: AttributeChange<'_>) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inode = rustix::fs::open(self.root.join(path), flags, Mode::empty())?;
        self.buffer.change_attributes(inode, &change).map(drop)
    }

    /// The directory of a path, and the last name.
    fn place<'p>(&self, path: &'p Path) -> io::Result<(Directory, &'p OsStr)> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let directory = File::open(self.root.join(parent))?;
        let name = path.file_name().expect("paths have a last name");
        Ok((self.buffer.directory(directory.into())?, name))
    }
}
