//! Media and backings of one incarnation of a pool, with the history of what was asked of it and the
//! crashes that were noted on the way.

use crate::digest::{Digest, Tracing};
use crate::harm::{Harm, Harming, MediumMap};
use crate::image::{self, CrashCase, Image, Standing};
use crate::oracle::{Event, Operation, Outcome};
use crate::refusal::{Cause, Refusal};
use crate::scenario::Shape;
use crate::scheduler::{self, Point};
use forebay::{Backing, BackingStore, ErrorKind, Result};
use forebay_pmem::shadow::{FenceFailure, Shadow, ShadowEvent, ShadowEventKind, WORD_BYTES};
use forebay_pmem::{PAGE_BYTES, Region};
use forebay_volatile::{DiskEvent, VolatileDisk};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which moments are noted.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Decides.
    pub rng: fastrand::Rng,
    /// Chances in 256 for each moment.
    pub chances: u32,
    /// For each one before a fence, if they are more.
    pub fence_chances: u32,
    /// Noted at most.
    pub limit: usize,
}

struct Recorder {
    events: Vec<Event>,
    operations: Vec<Operation>,
    cases: Vec<CrashCase>,
    capture: Capture,
    /// Blocks that are being zeroed outside transactions, or that this failed for: what a read
    /// finds there may be gone after a crash.
    unsettled: BTreeSet<usize>,
    /// Blocks that their backings lacked when a page went bad.
    dirty_when_lost: BTreeSet<usize>,
    /// Operations of which it stays unknown whether they took effect.
    open_for_good: usize,
    /// Something was stored since the last crash was noted.
    is_news: bool,
    trace: Option<Vec<String>>,
    digest: Option<Digest>,
}

/// See the [module](self).
pub struct World {
    shadows: Vec<Arc<Shadow>>,
    stores: Vec<Arc<VolatileDisk>>,
    /// What the backings have behind the ends of volumes that have not grown.
    tails: Vec<Vec<u8>>,
    recorder: Mutex<Recorder>,
    has_failed_fences: AtomicBool,
    has_failing_stores: AtomicBool,
    is_made: AtomicBool,
    is_killed: AtomicBool,
    are_mirrored: bool,
    standings: Mutex<Vec<Standing>>,
    is_rebuilding: AtomicBool,
    is_scrubbing: AtomicBool,
    is_opening: AtomicBool,
    rebuilt: Mutex<Vec<usize>>,
    harming: Harming,
}

/// What an incarnation leaves behind.
pub struct Record {
    /// The history.
    pub events: Vec<Event>,
    /// What its entries name.
    pub operations: Vec<Operation>,
    /// The crashes, in order.
    pub cases: Vec<CrashCase>,
    /// Every store, flush and fence in words, if asked for.
    pub trace: Option<Vec<String>>,
    /// The same as a number.
    pub digest: Option<Digest>,
}

impl World {
    /// Media and backings that hold `image`.
    pub fn new(
        shape: &Shape,
        image: &Image,
        capture: Capture,
        seed: u64,
        tracing: Tracing,
    ) -> World {
        let stores = image.crash_stores(shape, seed);
        let tail = |bytes: &Vec<u8>| {
            let odd_end = shape.odd_end();
            odd_end.map_or_else(Vec::new, |(block, at)| {
                let start = block * shape.block_bytes;
                let tail = bytes.get(start + at..start + shape.block_bytes);
                tail.map_or_else(Vec::new, <[u8]>::to_vec)
            })
        };
        World {
            shadows: image.shadows(shape),
            stores,
            tails: image.stores.iter().map(tail).collect(),
            recorder: Mutex::new(Recorder {
                events: Vec::new(),
                operations: Vec::new(),
                cases: Vec::new(),
                capture,
                unsettled: BTreeSet::new(),
                dirty_when_lost: BTreeSet::new(),
                open_for_good: 0,
                is_news: true,
                trace: (tracing == Tracing::Words).then(Vec::new),
                digest: (tracing == Tracing::Digest).then(Digest::default),
            }),
            has_failed_fences: AtomicBool::new(false),
            has_failing_stores: AtomicBool::new(false),
            is_made: AtomicBool::new(true),
            is_killed: AtomicBool::new(false),
            are_mirrored: shape.mirrored,
            standings: Mutex::new(vec![Standing::In; image.media.len()]),
            is_rebuilding: AtomicBool::new(false),
            is_scrubbing: AtomicBool::new(false),
            is_opening: AtomicBool::new(false),
            rebuilt: Mutex::default(),
            harming: Harming::default(),
        }
    }

    /// The same, where one member will do something wrong: no error is excused, and each is noted.
    pub fn harmed(self) -> World {
        World {
            harming: Harming::on(),
            ..self
        }
    }

    /// What is wrong with the members.
    pub fn harming(&self) -> &Harming {
        &self.harming
    }

    /// A member does something wrong, now or at its next occasion.
    pub fn harm(&self, harm: Harm, map: &MediumMap) {
        self.harming.begin(harm, &self.shadows[harm.member], map);
        let mut recorder = self.recorder.lock();
        recorder.is_news = true;
        recorder.say(|| format!("-- {harm:?}"));
    }

    /// Whether the members have done anything wrong.
    pub fn is_harmed(&self) -> bool {
        self.harming.is_on() && self.harming.has_struck(&self.shadows)
    }

    /// Caches forget what they hold of the members.
    pub fn evict(&self) {
        for shadow in &self.shadows {
            shadow.evict(0, shadow.len());
        }
    }

    /// The members, for a pool; not one that is gone.
    pub fn regions(&self) -> Vec<Region> {
        let mut regions = image::regions(&self.shadows);
        if let Some(dead) = self.harming.dead() {
            regions.remove(dead);
        }
        regions
    }

    /// The backing of a volume.
    pub fn backing(&self, volume: usize) -> Backing {
        let store: Arc<dyn BackingStore> = self.stores[volume].clone();
        Backing::from_store(store)
    }

    /// What a volume's backing has, at the beginning, in the block where the volume ends until it grows.
    pub fn tail(&self, volume: usize) -> &[u8] {
        &self.tails[volume]
    }

    /// The store behind a volume.
    pub fn store(&self, volume: usize) -> &VolatileDisk {
        &self.stores[volume]
    }

    /// Makes a fence of some member fail after `after` that succeed.
    pub fn fail_fence(&self, after: u32) {
        self.has_failed_fences.store(true, Ordering::Relaxed);
        let member = after as usize % self.shadows.len();
        self.shadows[member].set_fence_failure(FenceFailure::After(after));
        self.standings.lock()[member] = Standing::Out;
    }

    /// The same, with members that stand so; those that are not named are in.
    pub fn with_standings(self, standings: &[Standing]) -> World {
        for (own, standing) in self.standings.lock().iter_mut().zip(standings) {
            *own = *standing;
        }
        self
    }

    /// How the members stand.
    pub fn standings(&self) -> Vec<Standing> {
        self.standings.lock().clone()
    }

    /// Notes how a member stands from here on. While fences are to fail, which members they take out is not known.
    pub fn note_standing(&self, member: usize, standing: Standing) {
        if standing != Standing::In || !self.has_failed_fences() {
            self.standings.lock()[member] = standing;
        }
    }

    /// Notes that every member of a new pool is in.
    pub fn note_all_in(&self) {
        for member in 0..self.shadows.len() {
            self.note_standing(member, Standing::In);
        }
    }

    /// Says whether a member is being rebuilt.
    pub fn set_rebuilding(&self, is_rebuilding: bool) {
        self.is_rebuilding.store(is_rebuilding, Ordering::Relaxed);
    }

    /// Says whether a pool is being scrubbed.
    pub fn set_scrubbing(&self, is_scrubbing: bool) {
        self.is_scrubbing.store(is_scrubbing, Ordering::Relaxed);
    }

    /// Says whether a pool is being opened.
    pub fn set_opening(&self, is_opening: bool) {
        self.is_opening.store(is_opening, Ordering::Relaxed);
    }

    /// The region of a member to rebuild, made blank if `is_blank`, the start of it first, as whatever makes a member
    /// of it does.
    pub fn region_to_rebuild(&self, member: usize, is_blank: bool) -> Region {
        let shadow = &self.shadows[member];
        self.rebuilt.lock().push(member);
        if is_blank {
            let zeroes = vec![0; shadow.len() as usize];
            for bytes in [0..WORD_BYTES, 0..zeroes.len()] {
                shadow.stream(bytes.start as u64, &zeroes[bytes]);
                // A fence that is to fail leaves what it may.
                let _ = shadow.fence();
            }
        }
        Region::on_shadow(Arc::clone(shadow))
    }

    /// Whether fences were made to fail.
    pub fn has_failed_fences(&self) -> bool {
        self.has_failed_fences.load(Ordering::Relaxed)
    }

    /// Makes the next writes and syncs of a volume's backing fail.
    pub fn fail_store(&self, volume: usize, writes: u32, syncs: u32) {
        self.has_failing_stores.store(true, Ordering::Relaxed);
        self.stores[volume].fail_next(writes, syncs);
    }

    /// Whether backings were made to fail.
    pub fn has_failing_stores(&self) -> bool {
        self.has_failing_stores.load(Ordering::Relaxed)
    }

    /// A page of a member goes bad; the backings lack these blocks until now.
    pub fn lose_page(&self, member: usize, page: u64, dirty: impl IntoIterator<Item = usize>) {
        self.shadows[member].lose_page(page * PAGE_BYTES as u64);
        let mut recorder = self.recorder.lock();
        recorder.dirty_when_lost.extend(dirty);
        recorder.is_news = true;
        recorder.say(|| format!("-- page {page} of member {member} goes bad"));
    }

    /// Pages that went bad, member by member.
    pub fn lost_pages(&self) -> Vec<Vec<u64>> {
        let shadows = self.shadows.iter();
        shadows.map(|shadow| shadow.lost_pages()).collect()
    }

    /// Whether the backing lacked the block when one did.
    pub fn was_dirty(&self, block: usize) -> bool {
        self.recorder.lock().dirty_when_lost.contains(&block)
    }

    /// Whether any did, and nothing else has what lay there.
    pub fn has_lost_pages(&self) -> bool {
        !self.harming.is_on() && self.lost_pages().iter().any(|pages| !pages.is_empty())
    }

    /// Whether anything has happened by which a member may have something wrong.
    pub fn may_be_damaged(&self) -> bool {
        let is_in = |standing: &Standing| *standing == Standing::In;
        let has_changed = !self.rebuilt.lock().is_empty() || !self.standings().iter().all(is_in);
        has_changed || self.harming.is_on() || self.has_failed_fences() || self.has_lost_pages()
    }

    /// From here on nothing fails any more, but for pages that are lost.
    pub fn fail_no_more(&self) {
        for shadow in &self.shadows {
            shadow.set_fence_failure(FenceFailure::Never);
        }
        self.stores.iter().for_each(|store| store.fail_next(0, 0));
        self.has_failed_fences.store(false, Ordering::Relaxed);
        self.has_failing_stores.store(false, Ordering::Relaxed);
    }

    /// Whether it was asked for that a cache does not open.
    pub fn excuses(&self, refusal: &Refusal) -> bool {
        if self.harming.is_on() {
            self.harming.note_refusal(refusal.text.clone());
            return true;
        }
        match refusal.cause {
            Cause::Fence => self.has_failed_fences() || self.has_lost_pages(),
            Cause::Damage => self.has_lost_pages(),
            Cause::Backing => self.has_failing_stores(),
            Cause::Other => false,
        }
    }

    /// Whether the pool has been made.
    pub fn is_made(&self) -> bool {
        self.is_made.load(Ordering::Relaxed)
    }

    /// Says whether the pool has been made.
    pub fn set_made(&self, is_made: bool) {
        self.is_made.store(is_made, Ordering::Relaxed);
    }

    /// Starts to note crashes, and to let the scheduler switch, around every store, stream,
    /// flush, fence, backing write and sync.
    pub fn watch(self: &Arc<Self>) {
        for (member, shadow) in self.shadows.iter().enumerate() {
            let world = Arc::downgrade(self);
            shadow.set_hook(Some(Arc::new(move |event: ShadowEvent| {
                let Some(world) = world.upgrade() else { return };
                world.harming.meet(member, &world.shadows[member], &event);
                if let Some(digest) = &mut world.recorder.lock().digest {
                    digest.add(member, &event);
                }
                // A flush changes nothing that a crash could leave.
                let is_news = event.kind != ShadowEventKind::Flush;
                let point = match event.kind {
                    ShadowEventKind::Fence => Point::Fence,
                    _ => Point::Event,
                };
                world.moment(is_news, point, || {
                    let ShadowEvent {
                        kind,
                        thread: _,
                        offset,
                        len,
                        bytes: _,
                    } = event;
                    format!("{kind:?} member {member} bytes {offset}+{len}")
                });
            })));
        }
        for (volume, store) in self.stores.iter().enumerate() {
            let world = Arc::downgrade(self);
            store.set_hook(Some(Arc::new(move |event| {
                let Some(world) = world.upgrade() else { return };
                let is_news = event != DiskEvent::Read;
                world.moment(is_news, Point::Backing, || {
                    format!("{event:?} volume {volume}")
                });
            })));
        }
    }

    /// Stops noting crashes.
    pub fn unwatch(&self) {
        self.shadows.iter().for_each(|shadow| shadow.set_hook(None));
        self.stores.iter().for_each(|store| store.set_hook(None));
    }

    fn moment(&self, changes: bool, point: Point, describe: impl Fn() -> String) {
        {
            let mut recorder = self.recorder.lock();
            if let Some(trace) = &mut recorder.trace {
                let thread = std::thread::current();
                trace.push(format!("{}: {}", thread.name().unwrap_or("?"), describe()));
            }
            if recorder.wants_case(point) {
                let case = self.crash_case(recorder.events.len(), describe());
                recorder.cases.push(case);
                recorder.is_news = false;
            }
            recorder.is_news |= changes;
        }
        scheduler::point(point);
    }

    /// Notes a crash now, wanted or not.
    pub fn note_crash(&self, moment: &str) {
        let mut recorder = self.recorder.lock();
        let case = self.crash_case(recorder.events.len(), moment.to_string());
        recorder.cases.push(case);
    }

    fn crash_case(&self, events: usize, moment: String) -> CrashCase {
        let media = self.shadows.iter().map(|shadow| shadow.crash_state());
        let stores = self.stores.iter().map(|store| store.crash_state());
        CrashCase {
            media: media.collect(),
            stores: stores.collect(),
            events,
            moment,
            is_made: self.is_made(),
            lost: self.lost_pages(),
            is_killed: self.is_killed.load(Ordering::Relaxed),
            is_harmed: self.is_harmed(),
            are_mirrored: self.are_mirrored,
            is_rebuilding: self.is_rebuilding.load(Ordering::Relaxed),
            is_scrubbing: self.is_scrubbing.load(Ordering::Relaxed),
            is_opening: self.is_opening.load(Ordering::Relaxed),
            rebuilt: self.rebuilt.lock().clone(),
            standings: self.standings(),
        }
    }

    /// Notes the call of an operation; returns its number.
    pub fn call(&self, operation: Operation) -> usize {
        let mut recorder = self.recorder.lock();
        let number = recorder.operations.len();
        recorder.operations.push(operation);
        recorder.events.push(Event::Call(number));
        recorder.is_news = true;
        recorder.say(|| format!("-- operation {number} is called"));
        number
    }

    /// Says whether what is read in these blocks may be gone after a crash.
    pub fn set_unsettled(&self, blocks: Range<usize>, unsettled: bool) {
        let mut recorder = self.recorder.lock();
        for block in blocks {
            if unsettled {
                recorder.unsettled.insert(block);
            } else {
                recorder.unsettled.remove(&block);
            }
        }
    }

    /// Whether what is read in some of these blocks may be gone after a crash.
    pub fn is_unsettled(&self, blocks: Range<usize>) -> bool {
        self.recorder
            .lock()
            .unsettled
            .range(blocks)
            .next()
            .is_some()
    }

    /// Operations of which it stays unknown whether they took effect; each of them doubles
    /// the states that the oracle keeps.
    pub fn open_for_good(&self) -> usize {
        self.recorder.lock().open_for_good
    }

    /// Notes how an operation came back.
    pub fn returned(&self, call: usize, outcome: Outcome, found: Vec<Vec<u8>>) {
        let mut recorder = self.recorder.lock();
        if let Operation::Read { found: slot, .. } = &mut recorder.operations[call] {
            *slot = found;
        }
        recorder.events.push(Event::Return(call, outcome));
        recorder.open_for_good += usize::from(outcome == Outcome::Unknown);
        recorder.is_news = true;
        recorder.say(|| format!("-- operation {call} returns: {outcome:?}"));
    }

    /// Notes how a write came back, and passes its result on.
    pub fn written(&self, call: usize, done: Result<()>) -> Result<()> {
        let outcome = match &done {
            Ok(()) => Outcome::Done,
            // Only a failed fence leaves it open whether the transaction is durable.
            Err(error) if matches!(error.kind(), ErrorKind::Media(_)) => Outcome::Unknown,
            Err(_) => Outcome::Refused,
        };
        self.returned(call, outcome, Vec::new());
        done
    }

    /// Notes that a process ended: what it was asked and did not answer is done or never will be.
    pub fn note_end(&self, is_killed: bool) {
        self.shadows.iter().for_each(|shadow| shadow.end_threads());
        self.is_killed.fetch_or(is_killed, Ordering::Relaxed);
        self.set_rebuilding(false);
        self.set_scrubbing(false);
        let mut recorder = self.recorder.lock();
        recorder.events.push(Event::Ended);
        // An attach knows what its backing has.
        recorder.unsettled.clear();
        recorder.open_for_good = 0;
        recorder.is_news = true;
        let how = if is_killed { "is killed" } else { "ends" };
        recorder.say(|| format!("-- the process {how}"));
    }

    /// Notes that a pool is opened whose making a kill ended: it may still be the one that it was to
    /// replace.
    pub fn note_half_made(&self) {
        self.recorder.lock().events.push(Event::HalfMade);
    }

    /// Chances in 256 for each moment from here on, and for each one before a fence.
    pub fn set_chances(&self, chances: u32, fence_chances: u32) {
        let capture = &mut self.recorder.lock().capture;
        (capture.chances, capture.fence_chances) = (chances, fence_chances);
    }

    /// What happened.
    pub fn take_record(&self) -> Record {
        let mut recorder = self.recorder.lock();
        Record {
            events: std::mem::take(&mut recorder.events),
            operations: std::mem::take(&mut recorder.operations),
            cases: std::mem::take(&mut recorder.cases),
            trace: recorder.trace.take(),
            digest: recorder.digest.take(),
        }
    }
}

impl Recorder {
    /// Tells what happens, if that is asked for.
    fn say(&mut self, words: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(words());
        }
    }

    fn wants_case(&mut self, point: Point) -> bool {
        let Capture {
            rng,
            chances,
            fence_chances,
            limit,
        } = &mut self.capture;
        let chances = match point {
            Point::Fence => (*chances).max(*fence_chances),
            _ => *chances,
        };
        self.is_news && self.cases.len() < *limit && rng.u32(..256) < chances
    }
}
