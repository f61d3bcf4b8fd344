//! What a process has mapped where, as /proc/PID/maps tells.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;

/// A file, as mappings name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    major: u32,
    minor: u32,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(file: &File) -> io::Result<FileId> {
        let metadata = file.metadata()?;
        Ok(FileId {
            major: libc::major(metadata.dev()),
            minor: libc::minor(metadata.dev()),
            inode: metadata.ino(),
        })
    }
}

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) file: FileId,
}

/// The mappings of one process.
#[derive(Debug)]
pub(crate) struct Maps {
    file: File,
}

impl Maps {
    /// Of the memory that the process has now: none once that has gone, be it that the process executed another program.
    pub(crate) fn of_process(pid: u32) -> io::Result<Maps> {
        let file = File::open(format!("/proc/{pid}/maps"))?;
        Ok(Maps { file })
    }

    /// All of them, ascending.
    pub(crate) fn read(&mut self) -> io::Result<Vec<Mapped>> {
        let mut text = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut text)?;
        let lines = text.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        lines
            .map(|line| {
                parsed(line).ok_or_else(|| {
                    let line = String::from_utf8_lossy(line).into_owned();
                    io::Error::new(io::ErrorKind::InvalidData, line)
                })
            })
            .collect()
    }
}

/// `start-end permissions offset major:minor inode path` (proc_pid_maps(5)); the path may hold anything.
fn parsed(line: &[u8]) -> Option<Mapped> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let (start, end) = field()?.split_once('-')?;
    let (major, minor) = {
        field()?;
        field()?;
        field()?.split_once(':')?
    };
    Some(Mapped {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        file: FileId {
            major: u32::from_str_radix(major, 16).ok()?,
            minor: u32::from_str_radix(minor, 16).ok()?,
            inode: field()?.parse().ok()?,
        },
    })
}
