//! Joining: a transaction gets its place in a group and its sequences, under the lock, without any I/O.
//!
//! One critical section draws the sequences and takes the place, so the order of sequences is the order in the log.

use super::core::{Head, Log, State};
use super::group::{Contents, Group, Member, Size};
use super::waiter::{Ticket, Waiter};
use crate::error::{LogError, Result};
use crate::media::{Element, Geometry, Key, Shape, check_of};
use crate::mutants::{Mutant, mutated};
use crate::page::{PAGE_BYTES, Pages};
use crate::state::{Newest, Patch, Pending};
use crate::transaction::{Item, Transaction, fill_around};
use std::sync::Arc;

/// What may take the last free segments: what makes more of them free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A user's transaction, a fill, a clean block that is carried forward.
    User,
    /// What lets go of blocks, a record of clean points.
    Usual,
    /// What lets go of a volume of which everything is on its backing. It leaves the last free segment, and does not begin the only one
    /// that a rescue of several groups may begin.
    Detach,
    /// A block that is carried forward since its backing does not take it; what lets go of a whole volume, or of all that is clean of it.
    /// It leaves the last free segment. What takes several groups is asked first whether all of them have room.
    Rescue,
    /// A record by which a segment comes free.
    Tail,
}

impl Class {
    /// Segments that must be free for it to begin one, where so many are kept back for openings.
    fn free_min(self, kept_back: u64) -> u64 {
        match self {
            Class::User => 3 + kept_back,
            Class::Usual => 3,
            Class::Rescue if mutated(Mutant::SsdCarriedIntoLastSegment) => 1,
            Class::Detach | Class::Rescue => 2,
            Class::Tail => 1,
        }
    }

    /// Segments that must be free behind the one that it joins: else what is to be carried next has the rest of that one alone. Where it
    /// had no room there, none is kept back for it.
    fn left_min(self, kept_back: u64) -> u64 {
        match self {
            Class::User | Class::Usual => self.free_min(kept_back) - 1,
            Class::Detach | Class::Rescue | Class::Tail => 0,
        }
    }

    /// The page of a segment before which its groups end.
    fn end(self, geometry: Geometry) -> u32 {
        match self {
            Class::Tail => geometry.groups_end(),
            _ => geometry.carried_end(),
        }
    }

    /// Whether it leaves room for a rescue of several groups that has begun. The others join in the turn that the rescue has.
    fn yields_to_rescue(self) -> bool {
        matches!(self, Class::User | Class::Usual)
    }
}

/// What a part of a block is merged with, as it was read without the lock.
pub(crate) struct Base {
    pub(crate) key: Key,
    /// The version that it had then.
    pub(crate) version: u32,
    pub(crate) bytes: Pages,
}

/// What became of a transaction that was to join.
pub(crate) enum Joined {
    /// It is in a group.
    Ticket(Ticket),
    /// A base has changed since it was read.
    Stale,
}

/// Elements that are ready, with their blocks.
pub(crate) struct Ready {
    pub(crate) elements: Vec<Element>,
    pub(crate) pages: Arc<Pages>,
    /// The bytes of those that are inline, in their order.
    pub(crate) inline: Vec<u8>,
    pub(crate) is_fill: bool,
    /// It is over when it is written; some flush later on makes it durable.
    pub(crate) is_unsynced: bool,
}

impl State {
    /// Whether as many segments are free as have to be behind the one that it joins.
    pub(super) fn leaves_enough(&self, geometry: Geometry, class: Class) -> bool {
        let kept_back = match self.is_held_up {
            true => 0,
            false => self.kept_back,
        };
        self.free_segments(geometry) >= class.left_min(kept_back)
    }

    /// The group that a transaction of such a size joins.
    fn open_group(&mut self, geometry: Geometry, size: Size, class: Class) -> Option<&mut Group> {
        let is_any = mutated(Mutant::SsdSegmentReusedBeforeTail);
        if !self.leaves_enough(geometry, class) && !is_any {
            return None;
        }
        let yields = class.yields_to_rescue();
        if yields && !self.leaves_rescue_room(geometry, size) {
            return None;
        }
        let before = self.head.as_ref().map_or((0, 0), Head::before);
        let place = (geometry, class.end(geometry));
        let has_room = self
            .queue
            .back()
            .is_some_and(|group| group.is_open && group.has_room(size, before, place));
        if !has_room {
            self.close_last(geometry);
            self.begin_group(geometry, size, class)?;
        }
        if let Some(rescue) = self.rescue.as_mut().filter(|_| yields) {
            rescue.note_joined(size.elements);
        }
        self.queue.back_mut()
    }

    /// Closes the last group, if it is open.
    pub(crate) fn close_last(&mut self, geometry: Geometry) {
        let Some(group) = self.queue.back_mut().filter(|group| group.is_open) else {
            return;
        };
        group.close(geometry);
        let head = self.head.as_mut().expect("a group has a segment");
        head.cursor = group.start + group.pages_with(Size::default());
        head.contents.last_group = group.number;
        head.contents.elements.extend(group.all_elements());
        head.contents.kept_pages += group.size.kept_pages;
    }

    fn new_group(&self, segment: u64, start: u32) -> Group {
        Group {
            number: self.next_group,
            segment,
            start,
            first_sequence: self.next_sequence,
            members: Vec::new(),
            size: Size::default(),
            is_open: true,
            has_only_fills: true,
            is_unsynced: true,
            seal: None,
        }
    }

    /// A new group behind those that are closed; none if it needs a segment and none is free.
    fn begin_group(&mut self, geometry: Geometry, size: Size, class: Class) -> Option<()> {
        if let Some(head) = &self.head {
            let group = self.new_group(head.contents.segment, head.cursor);
            let place = (geometry, class.end(geometry));
            if group.has_room(size, head.before(), place) {
                self.queue.push_back(group);
                self.next_group += 1;
                return Some(());
            }
        }
        let (tail, free_min) = match mutated(Mutant::SsdSegmentReusedBeforeTail) {
            true => (self.tail, 1),
            false => (self.settled.tail_durable(), class.free_min(self.kept_back)),
        };
        let segment = self.next_segment;
        let free = tail + u64::from(geometry.places) - segment;
        if free < free_min || class == Class::Detach && self.is_next_the_spare(geometry) {
            return None;
        }
        // S8: once this group is durable, one segment at least is free, for a record of the tail.
        let left = self.tail + u64::from(geometry.places) - segment - 1;
        assert!(
            left >= 1 || mutated(Mutant::SsdCarriedIntoLastSegment),
            "segment {segment} is the last, and {class:?} frees none"
        );
        // Whatever was there is gone, and a durable record says so.
        let is_empty = self.live.of_segment(segment) == 0;
        assert!(is_empty, "segment {segment} would be written over blocks");
        let mut group = self.new_group(segment, 0);
        group.seal = self.head.take().map(|head| head.contents);
        let place = (geometry, class.end(geometry));
        assert!(group.has_room(size, (0, 0), place), "it was checked before");
        let contents = Contents {
            segment,
            first_sequence: group.first_sequence,
            first_group: group.number,
            last_group: group.number,
            elements: Vec::new(),
            kept_pages: 0,
        };
        self.head = Some(Head {
            contents,
            cursor: 0,
        });
        self.queue.push_back(group);
        self.next_segment += 1;
        self.next_group += 1;
        Some(())
    }

    /// What the mutant does with ranges of zeroes: they are published, and stand in no record.
    fn zero_at_once(&mut self, transaction: &mut Transaction) {
        let sequence = self.published;
        for item in &transaction.items {
            if let Item::Zero { first, count } = item {
                let count = *count;
                let element = Element {
                    key: *first,
                    shape: Shape::Zero { count },
                    is_clean: false,
                };
                self.apply(&element, sequence, u64::MAX, None);
            }
        }
        let is_block = |item: &Item| matches!(item, Item::Block { .. });
        transaction.items.retain(is_block);
    }

    /// What a block is merged with: the newest staged version, else what was read, if that still holds. Before the lock
    /// is given up the result is staged itself.
    fn merge(
        &self,
        (key, page): (Key, &mut [u8]),
        written: &[std::ops::Range<usize>],
        base: &Base,
    ) -> bool {
        let is_asked = !mutated(Mutant::SsdPendingIgnored);
        let mut bytes = match self.pending.newest(key).filter(|_| is_asked) {
            Some(Newest::Page(pages, number)) => pages.page(number).to_vec(),
            Some(Newest::Zeroes) => vec![0; PAGE_BYTES],
            // A version that was read while it was let go of is stale as soon as that is published.
            Some(Newest::Gone) => return false,
            None if self.versions.of(key) != base.version => return false,
            None => base.bytes.to_vec(),
        };
        if !mutated(Mutant::SsdPatchIgnoredByMerge) {
            self.pending.put_patches_over(key, &mut bytes);
        }
        fill_around(page, written, bytes);
        true
    }
}

impl Log {
    /// Refuses what no group has room for.
    pub(crate) fn check_size(&self, transaction: &Transaction) -> Result<()> {
        let (elements, blocks) = transaction.counts();
        let (elements_max, blocks_max) = (
            self.geometry.group_elements_max(),
            self.geometry.group_blocks_max(),
        );
        if elements <= elements_max && blocks <= blocks_max {
            return Ok(());
        }
        Err(LogError::Transaction(format!(
            "{elements} changes with {blocks} blocks are too many for one transaction: this pool takes {elements_max}, \
             {blocks_max} of them with blocks; divide it, or make the pool larger"
        )))
    }

    /// Joins a transaction whose partial blocks have the bases `bases`, in their order.
    pub(crate) fn join_transaction(
        &self,
        transaction: &mut Transaction,
        bases: &[Base],
    ) -> Result<Joined> {
        let mut state = self.lock();
        // What is staged stays so: a caller that waited until a block is not staged any more would wait for ever.
        if let Some(why) = &state.poisoned {
            return Err(self.poisoned(why));
        }
        let mut bases = bases.iter();
        let mut page = 0;
        for item in &mut transaction.items {
            let Item::Block { key, written, .. } = item else {
                continue;
            };
            page += 1;
            let Some(ranges) = written else { continue };
            let base = bases.next().expect("a base for each part");
            assert_eq!(base.key, *key);
            let pages = transaction.pages.as_mut().expect("it has blocks");
            let pages = Arc::make_mut(pages);
            if !state.merge((*key, pages.page_mut(page - 1)), ranges, base) {
                return Ok(Joined::Stale);
            }
        }
        if mutated(Mutant::SsdDiscardWithoutRecord) {
            state.zero_at_once(transaction);
        }
        let ready = ready_of(transaction);
        self.join(&mut state, ready, Class::User)
            .map(Joined::Ticket)
    }

    /// Takes a place in a group and the sequences.
    pub(crate) fn join(&self, state: &mut State, ready: Ready, class: Class) -> Result<Ticket> {
        if let Some(why) = &state.poisoned {
            return Err(self.poisoned(why));
        }
        let size = Size::of(&ready.elements);
        assert_eq!(size.blocks, ready.pages.count());
        let first_sequence = state.next_sequence;
        let Some(group) = state.open_group(self.geometry, size, class) else {
            return Err(self.no_room());
        };
        let waiter = Waiter::new();
        group.size = group.size.and(size);
        group.has_only_fills &= ready.is_fill;
        group.is_unsynced &= ready.is_unsynced;
        group.members.push(Member {
            waiter: waiter.clone(),
            pages: ready.pages,
            elements: ready.elements,
            inline: ready.inline,
            first_sequence,
        });
        state.next_sequence += size.elements as u64;
        let joined = state.queue.back().and_then(|group| group.members.last());
        joined.expect("it has joined").stage(&mut state.pending);
        Ok(Ticket(waiter))
    }
}

impl Member {
    /// Notes what it stages.
    fn stage(&self, pending: &mut Pending) {
        let mut page = 0;
        for (element, sequence, bytes) in self.each() {
            let key = element.key;
            match element.shape {
                Shape::Block { .. } => {
                    pending.add_block(key, sequence, &self.pages, page);
                    page += 1;
                }
                Shape::Inline(inline) if inline.is_whole() => {
                    let mut whole = Pages::zeroed(1);
                    whole[..bytes.len()].copy_from_slice(bytes);
                    pending.add_block(key, sequence, &Arc::new(whole), 0);
                    pending.note_append(sequence);
                }
                Shape::Inline(inline) => {
                    pending.add_patch(key, sequence, Patch::new(&inline, bytes));
                }
                Shape::Zero { count } => pending.add_range(key, count, sequence, true),
                Shape::Gone { count } => pending.add_range(key, count, sequence, false),
            }
        }
    }
}

/// A transaction whose blocks are all whole now, their checks computed.
fn ready_of(transaction: &mut Transaction) -> Ready {
    let pages = transaction.pages.take().unwrap_or_default();
    let mut page = 0;
    let elements = transaction.items.iter().map(|item| match item {
        Item::Block { key, check, .. } => {
            page += 1;
            let check = check.unwrap_or_else(|| check_of(*key, pages.page(page - 1)));
            Element {
                key: *key,
                shape: Shape::Block { page: 0, check },
                is_clean: false,
            }
        }
        Item::Zero { .. } => item.zeroes().expect("it is one"),
    });
    let elements = elements.collect();
    Ready {
        elements,
        pages,
        inline: Vec::new(),
        is_fill: false,
        is_unsynced: transaction.is_unsynced,
    }
}
