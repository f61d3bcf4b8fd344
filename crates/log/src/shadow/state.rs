//! Everything that is known of the device: what is durable, what readers see, and what is pending.

use super::fault::Fault;
use super::image::{Image, ShadowPage};
use crate::page::PAGE_BYTES;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Which write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId(u64);

#[derive(Clone, Debug)]
struct Write {
    id: WriteId,
    page: u64,
    /// Those that were made durable since, or overwritten durably, are no longer pending.
    pages: Vec<Option<Arc<ShadowPage>>>,
    is_durable: bool,
    is_completed: bool,
}

/// The state of a device.
#[derive(Clone, Debug)]
pub struct ShadowState {
    unit: usize,
    durable: Image,
    visible: Image,
    /// In the order of their submission, and those that are completed in that of their completion.
    writes: Vec<Write>,
    next_id: u64,
}

impl ShadowState {
    /// A device that holds `image`, all of it durable, whose units have so many bytes.
    ///
    /// # Panics
    /// They have neither 512 nor 4096.
    #[must_use]
    pub fn new(image: Image, unit: usize) -> ShadowState {
        assert!(
            unit == 512 || unit == PAGE_BYTES,
            "units are of 512 or 4096 bytes"
        );
        ShadowState {
            unit,
            visible: image.clone(),
            durable: image,
            writes: Vec::new(),
            next_id: 1,
        }
    }

    pub(super) fn page_count(&self) -> u64 {
        self.durable.len() as u64
    }

    pub(super) fn read(&self, page: u64, out: &mut [u8]) -> io::Result<()> {
        for (number, out) in (page..).zip(out.chunks_mut(PAGE_BYTES)) {
            if number >= self.page_count() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            out.copy_from_slice(self.visible.page(number as usize).bytes());
        }
        Ok(())
    }

    pub(super) fn submit(&mut self, page: u64, parts: &[&[u8]], is_durable: bool) -> WriteId {
        let id = WriteId(self.next_id);
        self.next_id += 1;
        let chunks = parts.iter().flat_map(|part| part.chunks_exact(PAGE_BYTES));
        let pages: Vec<_> = chunks.map(|bytes| Some(ShadowPage::new(bytes))).collect();
        assert!(page + pages.len() as u64 <= self.page_count());
        self.writes.push(Write {
            id,
            page,
            pages,
            is_durable,
            is_completed: false,
        });
        id
    }

    fn take(&mut self, id: WriteId) -> Write {
        let place = self.writes.iter().position(|write| write.id == id);
        self.writes.remove(place.expect("it is under way"))
    }

    pub(super) fn complete(&mut self, id: WriteId) {
        let mut write = self.take(id);
        assert!(!write.is_completed);
        self.show(&write);
        if write.is_durable {
            self.settle(&write);
        } else {
            write.is_completed = true;
            self.writes.push(write);
        }
    }

    pub(super) fn fail(&mut self, id: WriteId, fault: Fault) {
        match fault {
            // It is as if it were under way for ever.
            Fault::Error => {}
            Fault::ErrorButDurable => {
                let write = self.take(id);
                self.show(&write);
                self.settle(&write);
            }
            Fault::Short => {
                let mut write = self.take(id);
                write.pages.truncate(write.pages.len() / 2);
                write.is_completed = true;
                self.show(&write);
                self.writes.push(write);
            }
            Fault::NoSpace => drop(self.take(id)),
        }
    }

    /// Readers see it.
    fn show(&mut self, write: &Write) {
        for (number, page) in (write.page as usize..).zip(&write.pages) {
            if let Some(page) = page {
                self.visible.set(number, page.clone());
            }
        }
    }

    /// It is durable. What was completed before it at its pages can come back no more; what is under way can.
    fn settle(&mut self, write: &Write) {
        for (number, page) in (write.page as usize..).zip(&write.pages) {
            let Some(page) = page else { continue };
            self.durable.set(number, page.clone());
            for other in self.writes.iter_mut().filter(|other| other.is_completed) {
                let place = number.checked_sub(other.page as usize);
                if let Some(page) = place.and_then(|place| other.pages.get_mut(place)) {
                    *page = None;
                }
            }
        }
        self.writes
            .retain(|write| write.pages.iter().any(Option::is_some));
    }

    /// A page is other bytes, whatever was written there.
    pub(super) fn rot(&mut self, page: u64, bytes: &[u8]) {
        let rotten = Write {
            id: WriteId(0),
            page,
            pages: vec![Some(ShadowPage::new(bytes))],
            is_durable: true,
            is_completed: true,
        };
        self.show(&rotten);
        self.settle(&rotten);
    }

    pub(super) fn flush(&mut self) {
        let (completed, under_way) = std::mem::take(&mut self.writes)
            .into_iter()
            .partition(|write| write.is_completed);
        self.writes = under_way;
        let completed: Vec<Write> = completed;
        for write in &completed {
            self.settle(write);
        }
    }

    /// Whether a power cut could leave different images.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.writes.is_empty()
    }

    /// How many units a power cut could leave as they were durable, or otherwise.
    #[must_use]
    pub fn pending_units(&self) -> usize {
        self.candidates(|_| true).len() * (PAGE_BYTES / self.unit)
    }

    /// What each page that is not settled may be, in the order of the writes.
    fn candidates(
        &self,
        is_wanted: impl Fn(&Write) -> bool,
    ) -> BTreeMap<usize, Vec<Arc<ShadowPage>>> {
        let mut candidates: BTreeMap<usize, Vec<Arc<ShadowPage>>> = BTreeMap::new();
        for write in self.writes.iter().filter(|write| is_wanted(write)) {
            for (number, page) in (write.page as usize..).zip(&write.pages) {
                if let Some(page) = page {
                    candidates.entry(number).or_default().push(page.clone());
                }
            }
        }
        candidates
    }

    /// What a power cut leaves, one of all possible images.
    #[must_use]
    pub fn cut(&self, rng: &mut fastrand::Rng) -> Image {
        let mut image = self.durable.clone();
        let chance = Chance::draw(rng);
        for (number, candidates) in self.candidates(|_| true) {
            let page = chance.pick(rng, image.page(number), &candidates, self.unit);
            image.set(number, page);
        }
        image
    }

    /// The device as the next process finds it after a kill: what was completed is as it was, and of what was under way
    /// some has landed since.
    #[must_use]
    pub fn killed(&self, rng: &mut fastrand::Rng) -> ShadowState {
        let mut state = self.clone();
        let chance = Chance::draw(rng);
        let under_way = self.candidates(|write| !write.is_completed);
        state.writes.retain(|write| write.is_completed);
        for (number, candidates) in under_way {
            let page = chance.pick(rng, state.visible.page(number), &candidates, self.unit);
            if Arc::ptr_eq(&page, state.visible.page(number)) {
                continue;
            }
            let id = state.next_id;
            state.next_id += 1;
            let write = Write {
                id: WriteId(id),
                page: number as u64,
                pages: vec![Some(page)],
                is_durable: false,
                is_completed: true,
            };
            state.show(&write);
            state.writes.push(write);
        }
        state
    }

    /// A number that tells it from others.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.durable.hash() ^ self.visible.hash().rotate_left(17)
    }
}

/// How probable it is that a unit is one that is pending.
enum Chance {
    None,
    Newest,
    One(u8),
}

impl Chance {
    fn draw(rng: &mut fastrand::Rng) -> Chance {
        match rng.u8(..8) {
            0 => Chance::None,
            1 => Chance::Newest,
            2 => Chance::One(32),
            3 => Chance::One(224),
            _ => Chance::One(128),
        }
    }

    fn pick(
        &self,
        rng: &mut fastrand::Rng,
        old: &Arc<ShadowPage>,
        candidates: &[Arc<ShadowPage>],
        unit: usize,
    ) -> Arc<ShadowPage> {
        let newest = candidates.last().expect("there is one");
        let mut pick = |chance: u8| match rng.u8(..) < chance {
            true => candidates[rng.usize(..candidates.len())].clone(),
            false => old.clone(),
        };
        match self {
            Chance::None => old.clone(),
            Chance::Newest => newest.clone(),
            Chance::One(chance) if unit == PAGE_BYTES => pick(*chance),
            Chance::One(chance) => {
                let mut bytes = vec![0; PAGE_BYTES];
                for (number, out) in bytes.chunks_exact_mut(unit).enumerate() {
                    let page = pick(*chance);
                    out.copy_from_slice(&page.bytes()[number * unit..][..unit]);
                }
                ShadowPage::new(&bytes)
            }
        }
    }
}
