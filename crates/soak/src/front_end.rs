//! How a client reaches its disk: NBD, many requests at a time, or the FUSE mount, one at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, fallocate};

use crate::model::Model;
use crate::requests::{Kind, Request};
use crate::tally::{Start, Tally};
use forebay_harness::nbd::{self, Client};

#[derive(Debug)]
pub enum Outcome {
    /// It was done; what was read.
    Done(Vec<u8>),
    /// It was refused with this errno.
    Failed(u32),
    /// No answer came.
    Unknown,
}

/// How a client breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// In the middle of a write's data.
    InData,
    /// When all was sent, before any reply.
    BeforeReplies,
    /// It closes its half and waits for the replies.
    HalfClosed,
}

#[derive(Clone, Debug)]
pub enum Address {
    /// A socket and the name of an export.
    Nbd(PathBuf, String),
    Fuse(PathBuf),
}

#[derive(Debug)]
pub enum FrontEnd {
    /// Connections to one export; any of them shows the same disk.
    Nbd(Vec<Client>),
    Fuse(File),
}

/// Connections that a client has at a time.
pub const CONNECTIONS: usize = 2;

impl Address {
    /// Opens it.
    pub fn open(&self) -> io::Result<FrontEnd> {
        match self {
            Address::Nbd(socket, export) => (0..CONNECTIONS)
                .map(|_| Client::open(socket, export))
                .collect::<io::Result<Vec<Client>>>()
                .map(FrontEnd::Nbd),
            Address::Fuse(path) => {
                let mut options = File::options();
                // Past any cache of the kernel's: what is compared comes from the daemon.
                let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
                let file = options
                    .read(true)
                    .write(true)
                    .custom_flags(flags)
                    .open(path)?;
                Ok(FrontEnd::Fuse(file))
            }
        }
    }

    pub fn name(&self) -> String {
        match self {
            Address::Nbd(_, export) => format!("NBD {export}"),
            Address::Fuse(path) => format!("FUSE {}", path.display()),
        }
    }
}

/// Has the requests done, and says what became of each.
pub struct Errand<'a> {
    pub tally: &'a Tally,
    pub model: &'a Model,
    pub requests: &'a [Request],
    pub name: &'a str,
}

impl Errand<'_> {
    fn answered(&self, start: Start, request: &Request) {
        self.tally.answered(start, request.length(), || {
            format!("{}: {:?} {:?}", self.name, request.kind, request.bytes)
        });
    }

    fn wire(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (cookie, request) in self.requests.iter().enumerate() {
            let (command, flags) = match request.kind {
                Kind::Read => (nbd::READ, 0),
                Kind::Write => (nbd::WRITE, 0),
                Kind::WriteFua => (nbd::WRITE, nbd::FUA),
                Kind::Zero => (nbd::WRITE_ZEROES, 0),
                Kind::ZeroNoHole => (nbd::WRITE_ZEROES, nbd::NO_HOLE),
                Kind::Trim => (nbd::TRIM, 0),
                Kind::Flush => (nbd::FLUSH, 0),
            };
            let (offset, length) = (request.bytes.start, request.length() as u32);
            Client::push(&mut out, command, flags, cookie as u64, offset, length);
            if request.kind.has_data() {
                out.extend(self.model.data(&request.bytes, request.version));
            }
        }
        out
    }

    /// Sends all of them and receives what comes. The error is that of the connection.
    pub fn over_nbd(
        &self,
        client: &mut Client,
        half_close: bool,
    ) -> (Vec<Outcome>, io::Result<()>) {
        let mut outcomes: Vec<Outcome> = self.requests.iter().map(|_| Outcome::Unknown).collect();
        let start = self.tally.start();
        let result = client.send(&self.wire()).and_then(|()| {
            if half_close {
                client.finish_sending()?;
            }
            for _ in self.requests {
                let reply = client.reply()?;
                let index = reply.cookie as usize;
                let (Some(request), Some(Outcome::Unknown)) =
                    (self.requests.get(index), outcomes.get(index))
                else {
                    return Err(io::Error::other(format!("a reply with cookie {index}")));
                };
                outcomes[index] = match (reply.errno, request.kind) {
                    (0, Kind::Read) => Outcome::Done(client.data(request.length() as usize)?),
                    (0, _) => Outcome::Done(Vec::new()),
                    (errno, _) => Outcome::Failed(errno),
                };
                self.answered(start, request);
            }
            Ok(())
        });
        (outcomes, result)
    }

    /// Breaks off instead of waiting for replies. Returns how many requests the server got whole.
    pub fn and_leave(&self, mut client: Client, departure: Departure) -> usize {
        let wire = self.wire();
        let mut sent = wire.len();
        let mut whole = self.requests.len();
        let last = self.requests.last();
        if departure == Departure::InData
            && let Some(last) = last.filter(|last| last.kind.has_data())
        {
            sent -= last.length() as usize / 2;
            whole -= 1;
        }
        // Whether it fails or not, the end is not known.
        let _ = client.send(&wire[..sent]);
        whole
    }

    /// One after the other.
    pub fn over_fuse(&self, file: &File) -> (Vec<Outcome>, io::Result<()>) {
        let mut outcomes = Vec::new();
        let mut result = Ok(());
        for request in self.requests {
            if result.is_err() {
                // It was never sent, and so is not there; to say "unknown" allows more, and is true.
                outcomes.push(Outcome::Unknown);
                continue;
            }
            let start = self.tally.start();
            let outcome = match self.by_file(file, request) {
                Ok(data) => Outcome::Done(data),
                Err(error) if is_gone(&error) => {
                    result = Err(error);
                    Outcome::Unknown
                }
                Err(error) => Outcome::Failed(error.raw_os_error().unwrap_or(0) as u32),
            };
            if result.is_ok() {
                self.answered(start, request);
            }
            outcomes.push(outcome);
        }
        (outcomes, result)
    }

    fn by_file(&self, file: &File, request: &Request) -> io::Result<Vec<u8>> {
        let (offset, length) = (request.bytes.start, request.length());
        match request.kind {
            Kind::Read => {
                return with_pages(length as usize, |data| {
                    file.read_exact_at(data, offset)?;
                    Ok(data.to_vec())
                });
            }
            Kind::Write | Kind::WriteFua => {
                let data = self.model.data(&request.bytes, request.version);
                with_pages(data.len(), |pages| {
                    pages.copy_from_slice(&data);
                    file.write_all_at(pages, offset)
                })?;
                if request.kind == Kind::WriteFua {
                    file.sync_data()?;
                }
            }
            Kind::Zero | Kind::ZeroNoHole => {
                let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
                fallocate(file, flags, offset, length)?;
            }
            Kind::Trim => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(file, flags, offset, length)?;
            }
            Kind::Flush => file.sync_all()?,
        }
        Ok(Vec::new())
    }
}

/// Calls `use_it` with memory that starts at a page: the kernel cuts requests at pages of memory, and
/// a MiB that starts elsewhere has one page too many.
fn with_pages<T>(bytes: usize, use_it: impl FnOnce(&mut [u8]) -> T) -> T {
    const PAGE_BYTES: usize = 4096;
    let mut memory = vec![0; bytes + PAGE_BYTES];
    let start = memory.as_ptr().align_offset(PAGE_BYTES);
    use_it(&mut memory[start..start + bytes])
}

/// Whether the daemon behind a mount is no more.
fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let gone = [
        Errno::NOTCONN,
        Errno::CONNABORTED,
        Errno::NODEV,
        Errno::NXIO,
    ];
    let found = error.raw_os_error();
    gone.iter().any(|errno| found == Some(errno.raw_os_error()))
}
