//! Whether others open files while their owner closes these and opens them anew.

use std::io;
use std::os::fd::BorrowedFd;

use super::events::{Events, LOST};

const CLOSED: u32 = libc::IN_CLOSE_WRITE | libc::IN_CLOSE_NOWRITE;

/// Files under watch from the owner's last look at what their tracker saw.
#[derive(Debug)]
pub(crate) struct Openers(Vec<Events>);

impl Openers {
    /// Watches from here on.
    pub(crate) fn new<'f>(files: impl Iterator<Item = BorrowedFd<'f>>) -> io::Result<Openers> {
        let kinds = libc::IN_OPEN | CLOSED;
        let watched: io::Result<_> = files.map(|file| Events::new(file, kinds)).collect();
        watched.map(Openers)
    }

    /// Whether nobody has opened one, the owner included, who has closed them by now.
    pub(crate) fn are_unopened(&mut self) -> io::Result<bool> {
        Ok(self.take()? & (libc::IN_OPEN | LOST) == 0)
    }

    /// Whether nobody has closed one since [`Openers::are_unopened`]: nobody then opened one before the owner, who has them
    /// alone by now, was alone.
    pub(crate) fn are_unclosed(&mut self) -> io::Result<bool> {
        Ok(self.take()? & (CLOSED | LOST) == 0)
    }

    fn take(&mut self) -> io::Result<u32> {
        let mut all = 0;
        for events in &mut self.0 {
            all |= events.take()?;
        }
        Ok(all)
    }
}
