//! The files of a trial, the fault below them, and what programs stored.

use std::sync::Arc;

use forebay_pmem::shadow::{Fault, Shadow, ShadowModel};

use super::kinds::Kind;
use super::place::Placed;
use super::told::Outcome;
use crate::format::{Geometry, PAGE_BYTES};
use crate::model::world::{Disks, Promise, World, content};

pub const PAGE: usize = PAGE_BYTES as usize;

/// How a process's time with the region ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Sealed,
    Killed,
    PowerCut,
}

/// All of it.
pub struct Ground {
    pub model: ShadowModel,
    pub geometry: Geometry,
    pub disks: Disks,
    pub promise: Promise,
    pub end: End,
    /// What a program that has the region reads of each page.
    pub bytes: Vec<Vec<u8>>,
    /// The oldest version that a program reads a word of, by page.
    pub oldest: Vec<u64>,
    /// Of the region's last line.
    pub epoch: u32,
    /// The latest versions, as they were looked at last.
    pub seen: Vec<u64>,
    /// Pages that hold what nobody stored, and that the trial knows why of; until they are stored to.
    pub garbage: Vec<bool>,
    /// Once it was put there.
    pub placed: Option<Placed>,
    /// All rows that it reaches rested when it struck, and nothing was stored to them since.
    pub rests: bool,
    /// A process ended without order since it struck.
    pub has_crashed: bool,
    pub outcome: Outcome,
}

impl Ground {
    pub fn of_fault(&self) -> Option<&Arc<Shadow>> {
        let placed = self.placed.as_ref()?;
        match placed.is_sidecar {
            true => self.disks.sidecars[placed.role].as_ref(),
            false => self.disks.parts[placed.role].as_ref(),
        }
    }

    /// Puts the fault there.
    pub fn inject(&mut self, placed: Placed) {
        self.outcome.tell(|| format!("{placed:?}"));
        self.placed = Some(placed.clone());
        let shadow = Arc::clone(self.of_fault().expect("it is there"));
        match placed.fault {
            Some(fault) => shadow.inject(fault),
            None => {
                shadow.lose_page(placed.offset / PAGE_BYTES * PAGE_BYTES);
                self.outcome.is_struck = true;
            }
        }
    }

    /// Whether the page's extent has lost it.
    pub fn is_page_lost(&self, page: u64) -> bool {
        let (extent, row) = self.geometry.place(page);
        let part = self.disks.parts[extent].as_ref();
        part.is_some_and(|part| part.lost_pages().contains(&(row * PAGE_BYTES)))
    }

    /// Whether the fault can have changed what the page holds.
    pub fn can_be_wrong(&self, page: u64) -> bool {
        let (extent, row) = self.geometry.place(page);
        let Some(placed) = &self.placed else {
            return false;
        };
        let is_of_file = self.outcome.what.0.loses_bytes() || !placed.is_sidecar;
        is_of_file && placed.role == extent && placed.rows.contains(&row)
    }

    /// Whether a page of the row was stored to and not covered, as far as was promised.
    pub fn is_row_in_window(&self, row: u64) -> bool {
        (0..self.geometry.extents()).any(|extent| {
            let page = self.geometry.page(extent, row) as usize;
            self.promise.latest[page] > self.promise.covered[page] || self.garbage[page]
        })
    }

    /// Notes what was stored, whether the fault has struck, and what it did to pages in their window.
    pub fn observe(&mut self, world: &World) {
        self.disks = world.disks.lock().expect("nobody panicked").clone();
        self.promise = world.promise.lock().expect("nobody panicked").clone();
        self.promise_what_is_there();
        let covered = self.promise.covered.clone();
        world.promise.lock().expect("nobody panicked").covered = covered;
        let is_in_window = |page| world.known.is_written(page) || world.engine.is_waiting(page);
        for page in 0..self.geometry.pages() {
            let at = page as usize;
            let stored = content(page, self.promise.latest[at]);
            let is_new = self.seen[at] != self.promise.latest[at];
            if is_new {
                self.seen[at] = self.promise.latest[at];
                self.bytes[at] = stored.to_vec();
                self.oldest[at] = self.promise.latest[at];
                self.garbage[at] = false;
                self.moved(page);
            }
        }
        self.note_strike(is_in_window);
        for page in (0..self.geometry.pages()).filter(|&page| is_in_window(page)) {
            let at = page as usize;
            if self.is_page_lost(page) {
                continue;
            }
            let (extent, row) = self.geometry.place(page);
            let mut found = vec![0; PAGE];
            world.engine.medium.read_page(extent, row, &mut found);
            if found == self.bytes[at] {
                continue;
            }
            if !self.outcome.is_struck || !self.can_be_wrong(page) {
                self.outcome
                    .is_wrong(|| format!("page {page} changed in its window"));
            }
            self.outcome
                .tell(|| format!("page {page} is damaged in its window"));
            self.outcome.is_in_window = true;
            self.bytes[at] = found;
            self.garbage[at] = true;
        }
    }

    /// What a crash took of the latest version is not promised by a pass.
    pub fn promise_what_is_there(&mut self) {
        for at in 0..self.bytes.len() {
            if self.seen[at] == self.promise.latest[at] {
                let covered = &mut self.promise.covered[at];
                *covered = self.oldest[at].min(*covered);
            }
        }
    }

    fn moved(&mut self, page: u64) {
        let (_, row) = self.geometry.place(page);
        let placed = self.placed.as_ref();
        if self.outcome.is_struck && placed.is_some_and(|placed| placed.rows.contains(&row)) {
            self.rests = false;
        }
    }

    /// Notes whether the fault has struck by now.
    pub fn note_strike(&mut self, is_in_window: impl Fn(u64) -> bool) {
        let Some(shadow) = self.of_fault() else {
            return;
        };
        if self.outcome.is_struck || shadow.struck() == 0 {
            return;
        }
        self.outcome.is_struck = true;
        self.has_crashed = false;
        let rows = self.placed.iter().flat_map(|placed| &placed.rows);
        let extents = 0..self.geometry.extents();
        let mut pages = rows.flat_map(|&row| {
            let geometry = self.geometry;
            extents
                .clone()
                .map(move |extent| geometry.page(extent, row))
        });
        self.rests = !pages.any(is_in_window);
        self.outcome.tell(|| "it strikes".to_owned());
    }

    /// The power fails: of what is not durable anything may be there. What is wrong with a medium stays so.
    pub fn cut(&mut self, rng: &mut fastrand::Rng) {
        let image = self.disks.sample(rng);
        let before = self.of_fault().cloned();
        self.disks = Disks::of(&image, self.model);
        let Some((before, after)) = before.zip(self.of_fault()) else {
            return;
        };
        for page in before.lost_pages() {
            after.lose_page(page);
        }
        let fault = self.placed.as_ref().and_then(|placed| placed.fault);
        let goes_on = match fault {
            None | Some(Fault::BitFlip { .. }) => false,
            Some(_) if self.outcome.what.0 == Kind::MisdirectedRead => true,
            Some(_) => !self.outcome.is_struck,
        };
        if let Some(fault) = fault.filter(|_| goes_on) {
            after.inject(fault);
        }
    }

    /// A process is over.
    pub fn ended(&mut self, end: End, rng: &mut fastrand::Rng) {
        // Programs are gone: what they stored is in caches.
        for shadow in self.disks.all() {
            shadow.end_threads();
        }
        if end == End::PowerCut {
            self.cut(rng);
        }
        self.has_crashed |= end != End::Sealed;
        self.end = end;
        self.outcome.tell(|| format!("{end:?}"));
    }
}
