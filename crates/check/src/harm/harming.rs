//! One thing that a member does wrong, from when it is asked for until it has struck.

use super::kinds::{Harm, Kind, is_of_membership};
use forebay::unstable::MediumArea;
use forebay_pmem::PAGE_BYTES;
use forebay_pmem::shadow::{Fault, FenceFailure, Shadow, ShadowEvent, ShadowEventKind};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// What lies where on a member.
#[derive(Clone, Debug, Default)]
pub struct MediumMap {
    /// The parts.
    pub areas: Vec<(MediumArea, Range<u64>)>,
    /// Slots that hold blocks.
    pub live: Vec<Range<u64>>,
    /// Where nothing arrives that was meant for elsewhere.
    pub spared: Vec<Range<u64>>,
}

impl MediumMap {
    /// Spares these parts of what is meant for elsewhere.
    pub fn spare(&mut self, area: MediumArea) {
        let found = self.areas.iter().filter(|(found, _)| *found == area);
        self.spared.extend(found.map(|(_, bytes)| bytes.clone()));
    }

    fn is_spared(&self, offset: u64, len: u64) -> bool {
        let mut spared = self.spared.iter();
        spared.any(|spared| spared.start < offset + len && offset < spared.end)
    }
}

/// A fault that waits.
struct Waiting {
    harm: Harm,
    /// Of the part that it is about.
    places: Vec<Range<u64>>,
    map: MediumMap,
    rng: fastrand::Rng,
    /// Writes, or fences, to let pass.
    to_pass: u32,
}

/// What is wrong with the members of a mirrored pool, and what the pool said of it.
#[derive(Default)]
pub struct Harming {
    is_on: AtomicBool,
    is_waiting: AtomicBool,
    waiting: Mutex<Option<Waiting>>,
    has_struck: AtomicBool,
    dead: Mutex<Option<usize>>,
    errors: Mutex<Vec<String>>,
    refusals: Mutex<Vec<String>>,
    has_told: AtomicBool,
}

impl Harming {
    /// One that notes errors.
    pub fn on() -> Harming {
        Harming {
            is_on: AtomicBool::new(true),
            ..Harming::default()
        }
    }

    /// Whether the run is about one thing that goes wrong.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Notes an error that the pool gave.
    pub fn note_error(&self, error: String) {
        self.errors.lock().push(error);
    }

    /// Those that it gave.
    pub fn errors(&self) -> Vec<String> {
        self.errors.lock().clone()
    }

    /// Notes why the pool did not open.
    pub fn note_refusal(&self, why: String) {
        self.refusals.lock().push(why);
    }

    /// Why it did not, whenever that was.
    pub fn refusals(&self) -> Vec<String> {
        self.refusals.lock().clone()
    }

    /// Notes that the pool said that something was wrong.
    pub fn note_told(&self) {
        self.has_told.store(true, Ordering::Relaxed);
    }

    /// Whether it has.
    pub fn has_told(&self) -> bool {
        self.has_told.load(Ordering::Relaxed)
    }

    /// The member that is gone.
    pub fn dead(&self) -> Option<usize> {
        *self.dead.lock()
    }

    /// Whether anything has gone wrong so far.
    pub fn has_struck(&self, shadows: &[impl AsRef<Shadow>]) -> bool {
        self.has_struck.load(Ordering::Relaxed)
            || shadows.iter().any(|shadow| shadow.as_ref().struck() > 0)
    }

    /// The member does it now, or at its next occasion.
    pub fn begin(&self, harm: Harm, shadow: &Shadow, map: &MediumMap) {
        let (kind, area) = harm.what;
        let mut rng = fastrand::Rng::with_seed(harm.seed);
        let areas = map.areas.iter();
        let places: Vec<Range<u64>> = areas
            .filter(|(found, _)| Some(*found) == area)
            .map(|(_, bytes)| bytes.clone())
            .collect();
        match kind {
            Kind::StaleMember => return,
            Kind::DeadMember => {
                *self.dead.lock() = Some(harm.member);
                shadow.kill();
            }
            Kind::Poison => {
                let place = place(&places, map, shadow, area, &mut rng);
                shadow.lose_page(place / PAGE_BYTES as u64 * PAGE_BYTES as u64);
            }
            Kind::BitFlip => {
                let offset = place(&places, map, shadow, area, &mut rng);
                let bit = rng.u8(..8);
                shadow.inject(Fault::BitFlip { offset, bit });
            }
            Kind::MisdirectedRead => {
                let offset = place(&places, map, shadow, area, &mut rng);
                shadow.inject(misdirected_read(offset, (&places, map), shadow, &mut rng));
            }
            Kind::FailedFence | Kind::LostWrite | Kind::MisdirectedWrite | Kind::TornLine => {
                // What is written now and then is written once more, if at all.
                let is_rare = is_of_membership(area) || area == Some(MediumArea::Incarnation);
                let to_pass = rng.u32(..if is_rare { 2 } else { 4 });
                if kind == Kind::FailedFence {
                    shadow.set_fence_failure(FenceFailure::After(to_pass));
                }
                *self.waiting.lock() = Some(Waiting {
                    harm,
                    places,
                    map: map.clone(),
                    rng,
                    to_pass,
                });
                self.is_waiting.store(true, Ordering::Relaxed);
                return;
            }
        }
        let is_told = !matches!(kind, Kind::BitFlip | Kind::MisdirectedRead);
        self.has_struck.fetch_or(is_told, Ordering::Relaxed);
    }

    /// Before something is stored to a member, or it is fenced.
    pub fn meet(&self, member: usize, shadow: &Shadow, event: &ShadowEvent<'_>) {
        if !self.is_waiting.load(Ordering::Relaxed) {
            return;
        }
        let mut waiting = self.waiting.lock();
        let Some(found) = waiting.as_mut().filter(|found| found.harm.member == member) else {
            return;
        };
        let is_failed_fence = found.harm.what.0 == Kind::FailedFence;
        let is_it = match event.kind {
            ShadowEventKind::Fence => is_failed_fence,
            ShadowEventKind::Store | ShadowEventKind::Stream => {
                !is_failed_fence && found.meets(event)
            }
            ShadowEventKind::Flush | ShadowEventKind::Fenced => false,
        };
        if !is_it {
            return;
        }
        if found.to_pass > 0 {
            found.to_pass -= 1;
            return;
        }
        match is_failed_fence {
            true => self.has_struck.store(true, Ordering::Relaxed),
            false => shadow.inject(found.of_write(shadow, event)),
        }
        *waiting = None;
        self.is_waiting.store(false, Ordering::Relaxed);
    }
}

impl Waiting {
    fn meets(&self, event: &ShadowEvent<'_>) -> bool {
        let end = event.offset + event.len;
        let mut places = self.places.iter();
        places.any(|place| place.start < end && event.offset < place.end)
    }

    /// What becomes of this write, or of the first unit of it.
    fn of_write(&mut self, shadow: &Shadow, event: &ShadowEvent<'_>) -> Fault {
        let unit = shadow.model().unit_bytes() as u64;
        let offset = event.offset / unit * unit;
        let end = (event.offset + event.len).next_multiple_of(unit);
        let len = match self.rng.bool() {
            true => unit,
            false => end.min(shadow.len()) - offset,
        };
        match self.harm.what.0 {
            Kind::LostWrite => Fault::LostWrite { offset, len },
            Kind::TornLine => Fault::TornWrite {
                offset,
                words: self.rng.u64(..),
            },
            _ => Fault::MisdirectedWrite {
                offset,
                len,
                target: elsewhere(
                    (offset, len),
                    (&self.places, &self.map),
                    shadow,
                    &mut self.rng,
                ),
            },
        }
    }
}

/// A byte of the part; of one that is in use, if chance finds it.
fn place(
    places: &[Range<u64>],
    map: &MediumMap,
    shadow: &Shadow,
    area: Option<MediumArea>,
    rng: &mut fastrand::Rng,
) -> u64 {
    let is_of_blocks = area == Some(MediumArea::Slots);
    let places = match is_of_blocks && !map.live.is_empty() && rng.u8(..8) > 0 {
        true => &map.live,
        false => places,
    };
    let any = |rng: &mut fastrand::Rng| {
        let place = &places[rng.usize(..places.len())];
        rng.u64(place.clone())
    };
    let state = shadow.crash_state();
    let unit = shadow.model().unit_bytes();
    let mut chosen = any(rng);
    for _ in 0..8 {
        let start = chosen as usize / unit * unit;
        let bytes = &state.durable()[start..];
        if bytes.iter().take(unit).any(|byte| *byte != 0) {
            break;
        }
        chosen = any(rng);
    }
    chosen
}

/// A unit, or the whole slot, that is read from elsewhere: once, or from here on.
fn misdirected_read(
    place: u64,
    (places, map): (&[Range<u64>], &MediumMap),
    shadow: &Shadow,
    rng: &mut fastrand::Rng,
) -> Fault {
    let unit = shadow.model().unit_bytes() as u64;
    let mut live = map.live.iter();
    let slot = live.find(|slot| slot.contains(&place) && slot.start.is_multiple_of(unit));
    let (offset, len) = match slot {
        Some(slot) if rng.bool() => (slot.start, (slot.end - slot.start).next_multiple_of(unit)),
        _ => (place / unit * unit, unit),
    };
    Fault::MisdirectedRead {
        offset,
        len,
        source: elsewhere((offset, len), (places, map), shadow, rng),
        is_once: rng.bool(),
    }
}

/// Where another range of whole units begins that has room for as many bytes: mostly in the same part.
fn elsewhere(
    (offset, len): (u64, u64),
    (places, map): (&[Range<u64>], &MediumMap),
    shadow: &Shadow,
    rng: &mut fastrand::Rng,
) -> u64 {
    let unit = shadow.model().unit_bytes() as u64;
    let last = (shadow.len() - len) / unit * unit;
    let mut chosen = offset;
    for _ in 0..8 {
        let (_, other) = &map.areas[rng.usize(..map.areas.len())];
        let range = match rng.u8(..4) {
            0 => other,
            _ => &places[rng.usize(..places.len())],
        };
        chosen = (rng.u64(range.clone()) / unit * unit).min(last);
        if chosen != offset && !map.is_spared(chosen, len) {
            return chosen;
        }
    }
    match map.is_spared(chosen, len) {
        true => offset,
        false => chosen,
    }
}
