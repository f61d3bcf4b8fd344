//! A device in memory with a volatile cache, of which every state that a power cut or a kill can leave is to be had.
//!
//! A write is under way from its submission until it is completed. A *unit*, 512 or 4096 bytes, is never torn. After a power cut
//! a unit is what was durable there, or what any write has there that was not made durable since, also one that another has overwritten.
//! A durable write, once it is completed, makes itself durable and nothing else; a flush makes durable what had been completed.
//! A kill keeps all completed writes as they are; those under way may still land, whole or in part.

mod fault;
mod image;
mod state;

pub use fault::Fault;
pub use image::{Image, ShadowPage};
pub use state::{ShadowState, WriteId};

use crate::device::{Counters, Device, DeviceCounters};
use crate::page::PAGE_BYTES;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// Told of every moment at which a crash would leave something new.
pub type Observer = Box<dyn FnMut(&ShadowState) + Send>;

struct Inner {
    state: ShadowState,
    observer: Option<Observer>,
    /// After so many more writes one fails.
    fault: Option<(u64, Fault)>,
    /// It answers nothing any more.
    is_dead: bool,
}

/// A write that was begun, and how it is to end.
pub struct Begun {
    id: WriteId,
    fault: Option<Fault>,
}

/// The device.
pub struct ShadowDevice {
    path: PathBuf,
    inner: Mutex<Inner>,
    counters: Counters,
}

impl ShadowDevice {
    /// A device in this state.
    #[must_use]
    pub fn new(state: ShadowState) -> ShadowDevice {
        ShadowDevice {
            path: PathBuf::from("shadow"),
            inner: Mutex::new(Inner {
                state,
                observer: None,
                fault: None,
                is_dead: false,
            }),
            counters: Counters::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        let locked = self.inner.lock();
        locked.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Who is told of every moment from now on.
    pub fn observe(&self, observer: Option<Observer>) {
        self.lock().observer = observer;
    }

    /// The next write or flush but so many fails.
    pub fn fail(&self, after: u64, fault: Fault) {
        self.lock().fault = Some((after, fault));
    }

    /// Nothing fails that was to.
    pub fn heal(&self) {
        self.lock().fault = None;
    }

    /// From now on everything fails, and nothing of it lands.
    pub fn die(&self) {
        self.lock().is_dead = true;
    }

    /// A page is other bytes from now on, durably, as a disk that forgets leaves it.
    pub fn rot(&self, page: u64, bytes: &[u8]) {
        self.lock().state.rot(page, bytes);
    }

    /// As it is now.
    #[must_use]
    pub fn state(&self) -> ShadowState {
        self.state_with(|| ()).0
    }

    /// As it is now, and what `other` makes meanwhile: nothing happens to the device before it returns.
    pub fn state_with<T>(&self, other: impl FnOnce() -> T) -> (ShadowState, T) {
        let inner = self.lock();
        (inner.state.clone(), other())
    }

    /// Begins a write.
    pub fn submit(&self, page: u64, parts: &[&[u8]], is_durable: bool) -> WriteId {
        let mut inner = self.lock();
        self.counters.note_write(pages_of(parts) as u64, is_durable);
        let id = inner.state.submit(page, parts, is_durable);
        inner.tell();
        id
    }

    /// It has returned, without an error.
    pub fn complete(&self, id: WriteId) {
        let mut inner = self.lock();
        inner.state.complete(id);
        inner.tell();
    }

    /// It has returned with an error.
    pub fn complete_with(&self, id: WriteId, fault: Fault) -> io::Error {
        let mut inner = self.lock();
        inner.state.fail(id, fault);
        inner.tell();
        error_of(fault)
    }

    /// Begins a write that ends as the device is made to.
    pub fn begin(&self, page: u64, parts: &[&[u8]], is_durable: bool) -> Begun {
        let fault = self.lock().next_fault();
        let id = self.submit(page, parts, is_durable);
        Begun { id, fault }
    }

    /// It returns.
    ///
    /// # Errors
    /// The device was made to fail.
    pub fn end(&self, begun: Begun) -> io::Result<()> {
        match begun.fault {
            None => {
                self.complete(begun.id);
                Ok(())
            }
            Some(fault) => Err(self.complete_with(begun.id, fault)),
        }
    }

    fn transfer(&self, page: u64, parts: &[&[u8]], is_durable: bool) -> io::Result<()> {
        let begun = self.begin(page, parts, is_durable);
        self.end(begun)
    }
}

fn error_of(fault: Fault) -> io::Error {
    let kind = match fault {
        Fault::Error | Fault::ErrorButDurable => io::ErrorKind::Other,
        Fault::Short => io::ErrorKind::WriteZero,
        Fault::NoSpace => io::ErrorKind::StorageFull,
    };
    io::Error::new(kind, "made to fail")
}

fn pages_of(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum::<usize>() / PAGE_BYTES
}

impl Inner {
    fn tell(&mut self) {
        if let Some(observer) = &mut self.observer {
            observer(&self.state);
        }
    }

    fn next_fault(&mut self) -> Option<Fault> {
        if self.is_dead {
            return Some(Fault::NoSpace);
        }
        let (after, fault) = self.fault?;
        self.fault = after.checked_sub(1).map(|after| (after, fault));
        (after == 0).then_some(fault)
    }
}

impl Device for ShadowDevice {
    fn path(&self) -> &Path {
        &self.path
    }

    fn pages(&self) -> u64 {
        self.lock().state.page_count()
    }

    fn read(&self, page: u64, out: &mut [u8]) -> io::Result<()> {
        self.counters.note_read((out.len() / PAGE_BYTES) as u64);
        let inner = self.lock();
        match inner.is_dead {
            true => Err(error_of(Fault::Error)),
            false => inner.state.read(page, out),
        }
    }

    fn write_durable(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.transfer(page, parts, true)
    }

    fn write(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.transfer(page, parts, false)
    }

    fn flush(&self) -> io::Result<()> {
        self.counters.note_flush();
        let mut inner = self.lock();
        inner.tell();
        let fault = inner.next_fault();
        if matches!(fault, None | Some(Fault::ErrorButDurable)) {
            inner.state.flush();
        }
        inner.tell();
        fault.map_or(Ok(()), |fault| Err(error_of(fault)))
    }

    fn counters(&self) -> DeviceCounters {
        self.counters.get()
    }
}

#[cfg(test)]
mod tests;
