//! Lanes: rings of log records, each held by one committing thread at a time.
//!
//! I3: bytes at or above a lane's tail are never overwritten; the tail rises only after the
//! checkpoint that covers what lies below it is durable. I5: sequences in one lane only rise,
//! since only the thread that holds it draws them.

use std::cell::Cell;
use std::num::NonZeroU32;

use crate::media::layout::LINE_BYTES;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// `in_flight` of a lane in which nothing is being committed.
const IDLE: u64 = u64::MAX;

#[repr(align(128))]
struct Lane {
    busy: AtomicBool,
    /// The lap of the last published record; changed by the holder.
    lap: AtomicU32,
    /// Absolute position below which bytes may be reused.
    tail: AtomicU64,
    /// Absolute position where the last published record ends and the next one begins; changed by the
    /// holder.
    published: AtomicU64,
    /// A lower bound of the drawn, unpublished sequence.
    in_flight: AtomicU64,
    /// Above all sequences that were drawn for it (I5); changed by the holder.
    next_bound: AtomicU64,
}

/// All lanes of a pool.
pub(crate) struct Lanes {
    lanes: Box<[Lane]>,
    /// How many, for a short division without a check.
    count: NonZeroU32,
    lane_bytes: u64,
    /// Records start at multiples of this: a line, or a page where the medium is a plain file.
    align: u64,
    /// The next sequence to be drawn.
    next_sequence: Padded,
    /// Every sequence up to this one is known to be published; lags behind.
    acknowledged: Padded,
}

/// A word that all threads write, on a line of its own: what stands beside it is read by all.
#[repr(align(128))]
struct Padded(AtomicU64);

impl std::ops::Deref for Padded {
    type Target = AtomicU64;

    #[inline]
    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}

thread_local! {
    static HINT: Cell<usize> = const { Cell::new(usize::MAX) };
}
static NEXT_HINT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// A small number that differs between threads: where a thread starts to look for a lane or slot.
#[inline]
pub(crate) fn thread_hint() -> usize {
    HINT.with(|hint| {
        if hint.get() == usize::MAX {
            hint.set(NEXT_HINT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) & 0xFFFF);
        }
        hint.get()
    })
}

pub(crate) fn set_thread_hint(value: usize) {
    HINT.with(|hint| hint.set(value));
}

/// Why a lane is not to be had.
enum Refused {
    /// Another thread holds it.
    Busy,
    /// It has no room.
    Full,
}

/// The lane a thread holds; released on drop.
pub(crate) struct HeldLane<'a> {
    lanes: &'a Lanes,
    lane: &'a Lane,
    pub(crate) number: u32,
    /// Where the record goes.
    pub(crate) lap: u32,
    pub(crate) offset: u64,
}

impl Lanes {
    /// Empty lanes of a new incarnation; sequences go on after `last_sequence`.
    pub(crate) fn new(lanes: u32, lane_bytes: u64, align: u64, last_sequence: u64) -> Lanes {
        assert!(align.is_power_of_two());
        Lanes {
            lanes: (0..lanes).map(|_| Lane::new(last_sequence + 1)).collect(),
            count: NonZeroU32::new(lanes).expect("a pool has a lane"),
            lane_bytes,
            align,
            next_sequence: Padded(AtomicU64::new(last_sequence + 1)),
            acknowledged: Padded(AtomicU64::new(last_sequence)),
        }
    }

    /// Takes a lane with room for `bytes`; `None`, for a checkpoint to make room, if one was full and no other
    /// was to be had. Spins only while other threads hold all of them, which never wait for this one.
    #[cfg(any(test, loom))]
    pub(crate) fn try_hold(&self, bytes: u64) -> Option<HeldLane<'_>> {
        self.try_hold_preferred(bytes)
            .or_else(|| self.try_hold_any(bytes).map(|(lane, _)| lane))
    }

    /// Takes the lane that this thread prefers, if that is free and has room for `bytes`.
    #[inline(always)]
    pub(crate) fn try_hold_preferred(&self, bytes: u64) -> Option<HeldLane<'_>> {
        let bytes = self.aligned(bytes);
        debug_assert!(
            bytes <= (self.lane_bytes / 2).next_multiple_of(self.align),
            "a record fits half a lane"
        );
        let number = thread_hint() as u32 % self.count;
        self.hold(number as usize, bytes).ok()
    }

    /// As `try_hold`; also whether a lane before it had no room: the log fills up.
    #[cold]
    pub(crate) fn try_hold_any(&self, bytes: u64) -> Option<(HeldLane<'_>, bool)> {
        let (bytes, start, count) = (self.aligned(bytes), thread_hint(), self.lanes.len());
        let mut is_any_full = false;
        loop {
            for turn in 0..count {
                match self.hold((start + turn) % count, bytes) {
                    Ok(lane) => {
                        set_thread_hint(start + turn);
                        return Some((lane, is_any_full));
                    }
                    Err(Refused::Full) => is_any_full = true,
                    Err(Refused::Busy) => {}
                }
            }
            if is_any_full {
                return None;
            }
            crate::sync::spin_hint();
        }
    }

    /// Takes this very lane.
    #[inline(always)]
    fn hold(&self, number: usize, bytes: u64) -> Result<HeldLane<'_>, Refused> {
        let lane = &self.lanes[number];
        if lane.busy.load(Ordering::Relaxed) || lane.busy.swap(true, Ordering::Acquire) {
            return Err(Refused::Busy);
        }
        let Some((lap, offset)) = self.room(lane, bytes) else {
            lane.busy.store(false, Ordering::Release);
            return Err(Refused::Full);
        };
        Ok(HeldLane {
            lanes: self,
            lane,
            number: number as u32,
            lap,
            offset,
        })
    }

    /// Lap and offset where a record of `bytes` would go. It does not cross the end of the ring.
    #[inline(always)]
    fn room(&self, lane: &Lane, bytes: u64) -> Option<(u32, u64)> {
        let head = lane.published.load(Ordering::Relaxed);
        // No division: the lap's number is kept.
        let lap = lane.lap.load(Ordering::Relaxed);
        let offset = head - u64::from(lap) * self.lane_bytes;
        if offset + bytes > self.lane_bytes {
            return self.room_in_next_lap(lane, bytes);
        }
        let used = head + bytes - lane.tail.load(Ordering::Acquire);
        (used <= self.lane_bytes).then_some((lap, offset))
    }

    #[cold]
    fn room_in_next_lap(&self, lane: &Lane, bytes: u64) -> Option<(u32, u64)> {
        // A lap that no header can tell would make the record look older than it is.
        let lap = lane.lap.load(Ordering::Relaxed).checked_add(1)?;
        let end = u64::from(lap) * self.lane_bytes + bytes;
        let used = end - lane.tail.load(Ordering::Acquire);
        (used <= self.lane_bytes).then_some((lap, 0))
    }

    /// Whether no checkpoint makes room any more: all lanes are in the last lap of this incarnation, which
    /// has room for fewer than `bytes`.
    pub(crate) fn are_worn_out(&self, bytes: u64) -> bool {
        let end = self.lane_bytes << u32::BITS;
        let bytes = bytes.next_multiple_of(self.align);
        let is_worn_out = |lane: &Lane| lane.published.load(Ordering::Relaxed) + bytes > end;
        self.lanes.iter().all(is_worn_out)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }
    /// Share of the log that waits for a checkpoint, per mille.
    pub(crate) fn used_per_mille(&self) -> u64 {
        let used: u64 = self.lanes.iter().map(Lane::used).sum();
        used * 1000 / (self.lane_bytes * self.lanes.len() as u64)
    }
    /// Share of each lane that waits for a checkpoint, per mille.
    pub(crate) fn each_used_per_mille(&self) -> Vec<u64> {
        let used = self.lanes.iter().map(Lane::used);
        used.map(|used| used * 1000 / self.lane_bytes).collect()
    }
    /// The last sequence that was drawn.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.next_sequence.load(Ordering::Relaxed) - 1
    }
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }
    pub(crate) fn lane_bytes(&self) -> u64 {
        self.lane_bytes
    }

    /// Position below which nothing needs to be remembered.
    pub(crate) fn tail(&self, lane: u32) -> u64 {
        self.lanes[lane as usize].tail.load(Ordering::Relaxed)
    }
    /// Bytes a record takes in its lane.
    pub(crate) fn aligned(&self, bytes: u64) -> u64 {
        // A power of two: no division on the commit path.
        (bytes + self.align - 1) & !(self.align - 1)
    }

    /// Ends of the last published records, to be taken before `settle`.
    pub(crate) fn published_positions(&self) -> Vec<u64> {
        self.lanes
            .iter()
            .map(|lane| lane.published.load(Ordering::Acquire))
            .collect()
    }

    /// Waits until everything drawn so far is published; returns the last sequence of that, or
    /// nothing once `is_dead` says that it never will be. With `passing` it does not wait (that is
    /// a mutant).
    pub(crate) fn settle(&self, passing: bool, is_dead: impl Fn() -> bool) -> Option<u64> {
        // Acquire pairs with `draw`: a thread that drew below this bound has its mark set or is done.
        let next = self.next_sequence.load(Ordering::Acquire);
        for lane in &self.lanes {
            while !passing && lane.in_flight.load(Ordering::Acquire) < next {
                if is_dead() {
                    return None;
                }
                crate::sync::spin_hint();
            }
        }
        // Release: a record with this watermark vouches for those fences.
        self.acknowledged.fetch_max(next - 1, Ordering::Release);
        Some(next - 1)
    }

    /// Brings the acknowledged watermark up to date without waiting; `passing` what is in flight, too
    /// (that is a mutant).
    pub(crate) fn refresh_acknowledged(&self, passing: bool) {
        let next = self.next_sequence.load(Ordering::Acquire);
        let oldest = self
            .lanes
            .iter()
            .map(|lane| lane.in_flight.load(Ordering::Acquire))
            .min()
            .filter(|_| !passing)
            .unwrap_or(IDLE);
        self.acknowledged
            .fetch_max(next.min(oldest) - 1, Ordering::Release);
    }

    /// Calls `visit` with each lane and the position of its next record, while no other thread holds the lane.
    pub(crate) fn visit_each(&self, mut visit: impl FnMut(u32, u64)) {
        for (number, lane) in (0..).zip(&self.lanes) {
            while lane.busy.load(Ordering::Relaxed) || lane.busy.swap(true, Ordering::Acquire) {
                crate::sync::spin_hint();
            }
            visit(number, lane.published.load(Ordering::Relaxed));
            lane.busy.store(false, Ordering::Release);
        }
    }
    /// The checkpoint that covers everything below `positions` is durable.
    pub(crate) fn advance_tails(&self, positions: &[u64]) {
        for (lane, position) in self.lanes.iter().zip(positions) {
            let before = lane.tail.fetch_max(*position, Ordering::Release);
            assert!(before <= *position, "tails only rise");
        }
    }
}

impl HeldLane<'_> {
    /// Where the record goes: laps × lane bytes + offset.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        u64::from(self.lap) * self.lanes.lane_bytes + self.offset
    }
    /// Draws the transaction's sequence; the caller holds all its locks. Until `publish` no
    /// checkpoint passes it (I4).
    #[inline]
    pub(crate) fn draw(&self) -> u64 {
        let lane = self.lane;
        // Not `next_sequence`: a look at it first would fetch its line twice where others draw too. Low as
        // this bound may be, a thread that waits for it waits for one commit of the lane, no more.
        let bound = lane.next_bound.load(Ordering::Relaxed);
        lane.in_flight.store(bound, Ordering::Release);
        // Release, as every draw: a thread that sees this or a later sequence drawn sees the mark, or that
        // it is gone again.
        let sequence = self.lanes.next_sequence.fetch_add(1, Ordering::AcqRel);
        debug_assert!(bound <= sequence, "sequences in one lane only rise");
        lane.next_bound.store(sequence + 1, Ordering::Relaxed);
        sequence
    }
    /// The record of `bytes` at the lane's position is published.
    #[inline]
    pub(crate) fn publish(&self, bytes: u64) {
        let lane = self.lane;
        let end = self.position() + self.lanes.aligned(bytes);
        if lane.lap.load(Ordering::Relaxed) != self.lap {
            lane.lap.store(self.lap, Ordering::Relaxed);
        }
        lane.published.store(end, Ordering::Release);
        lane.in_flight.store(IDLE, Ordering::Release);
    }
}

impl Drop for HeldLane<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lane.busy.store(false, Ordering::Release);
    }
}

impl Lane {
    fn new(next_bound: u64) -> Lane {
        Lane {
            busy: AtomicBool::new(false),
            lap: AtomicU32::new(0),
            tail: AtomicU64::new(0),
            published: AtomicU64::new(0),
            in_flight: AtomicU64::new(IDLE),
            next_bound: AtomicU64::new(next_bound),
        }
    }
    fn used(&self) -> u64 {
        self.published
            .load(Ordering::Relaxed)
            .saturating_sub(self.tail.load(Ordering::Relaxed))
    }
}

const _: () = assert!(LINE_BYTES == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_lane_asks_for_a_checkpoint_and_wraps_after_it() {
        let lanes = Lanes::new(1, 512, 64, 10);
        for n in 0..4 {
            let lane = lanes.try_hold(128).expect("room");
            assert_eq!(lane.position(), n * 128);
            assert_eq!(lane.draw(), 11 + n);
            lane.publish(128);
        }
        assert!(lanes.try_hold(64).is_none());
        let positions = lanes.published_positions();
        assert_eq!(lanes.settle(false, || false), Some(14));
        lanes.advance_tails(&positions);
        let lane = lanes.try_hold(192).expect("room again");
        assert_eq!((lane.position(), lane.offset), (512, 0));
    }

    #[test]
    fn a_bound_is_below_what_is_drawn_and_rises_with_it() {
        let lanes = Lanes::new(2, 512, 64, 10);
        let hold = |number| {
            set_thread_hint(number);
            lanes.try_hold(64).expect("room")
        };
        let bound = |number: usize| lanes.lanes[number].in_flight.load(Ordering::Relaxed);
        let first = hold(0);
        assert_eq!((first.draw(), bound(0)), (11, 11));
        let second = hold(1);
        assert_eq!((second.draw(), bound(1)), (12, 11));
        first.publish(64);
        lanes.refresh_acknowledged(false);
        assert_eq!(
            lanes.acknowledged(),
            10,
            "no more is known of the other one"
        );
        assert_eq!((first.draw(), bound(0)), (13, 12));
        second.publish(64);
        first.publish(64);
        assert_eq!(lanes.settle(false, || false), Some(13));
        assert_eq!((second.draw(), bound(1)), (14, 13));
    }

    #[test]
    fn a_lane_in_its_last_lap_is_left_for_another() {
        let lanes = Lanes::new(2, 512, 64, 0);
        let last = (u64::from(u32::MAX) << 9) + 384;
        let wear_out = |number: usize| {
            let lane = &lanes.lanes[number];
            lane.lap.store(u32::MAX, Ordering::Relaxed);
            for position in [&lane.tail, &lane.published] {
                position.store(last, Ordering::Relaxed);
            }
        };
        set_thread_hint(0);
        wear_out(0);
        let lane = lanes.try_hold(128).expect("it just fits");
        assert_eq!(
            (lane.number, lane.position(), lane.lap),
            (0, last, u32::MAX)
        );
        drop(lane);
        assert_eq!(lanes.try_hold(192).expect("the other").number, 1);
        assert!(!lanes.are_worn_out(192));
        wear_out(1);
        assert!(lanes.try_hold(192).is_none() && lanes.are_worn_out(192));
        assert!(!lanes.are_worn_out(128));
    }

    #[test]
    fn half_a_lane_may_be_half_a_line_more() {
        let lanes = Lanes::new(1, 3 * 64, 64, 0);
        for _ in 0..4 {
            let lane = lanes.try_hold(2 * 64).expect("room");
            lane.draw();
            lane.publish(2 * 64);
            drop(lane);
            lanes.advance_tails(&lanes.published_positions());
        }
    }

    #[test]
    fn a_record_does_not_cross_the_end() {
        let lanes = Lanes::new(1, 512, 64, 0);
        let lane = lanes.try_hold(192).expect("room");
        lane.draw();
        lane.publish(192);
        drop(lane);
        let lane = lanes.try_hold(192).expect("room");
        lane.draw();
        lane.publish(192);
        drop(lane);
        lanes.advance_tails(&lanes.published_positions());
        let lane = lanes.try_hold(256).expect("room");
        assert_eq!(lane.position(), 512);
    }
}
