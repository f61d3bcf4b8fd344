//! Pools and scripts that bring about what random ones seldom do: the corners where a fault would hide
//! from them. A small share of each campaign; everything is drawn from the scenario's seed all the same.

use crate::cache::Begins;
use crate::directed;
use crate::focus_scripts as scripts;
use crate::long_rounds;
use crate::scenario::{Script, Shape};
use crate::scheduler::{Kill, Policy};
use crate::streamed;

/// Fences of an opening until its incarnation has begun.
const SWITCH_FENCES: usize = 3;

/// A corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// Few contents that blocks share, leave and overwrite.
    Twins,
    /// Blocks that appends make whole, and copies of them.
    Completed,
    /// A fence fails while others bring blocks in and write.
    FailedFence,
    /// Ranges are zeroed while others write back, read and write, and syncs fail.
    Zeroings,
    /// One incarnation after the other, each of few steps, most of them crashed while the pool opens.
    Relay,
    /// Transactions of two blocks, and reads of both at one moment.
    Pairs,
    /// Blocks without checks that are read while they are written.
    Unchecked,
    /// Many writers of the same few blocks, and few slots.
    Crowd,
    /// A volume grows, perhaps within a block, while others write back; a sync fails.
    Growth,
    /// A process is killed while it zeroes a range; the next one reads that.
    Killed,
    /// On a plain file: a fence fails, and another process goes on before the power does.
    Pages,
    /// Short: two actors that meet while each is at the backing; a sync fails.
    AtBacking,
    /// Short: a discard's sync fails, or its process is killed before it; the next process reads that.
    Restarted,
    /// Short: a reader brings a block in just after a fence failed, or a writer goes on.
    AfterFailedFence,
    /// Short: the line of an incarnation is torn, and incarnations later the pool opens beside it.
    TornIncarnation,
    /// Short: a process is killed while it attaches, grows or detaches a volume; the next one writes there.
    VolumeLines,
    /// Short: the fence of a volume's line fails, and another line of it is asked for.
    FailedLine,
    /// Short: a volume is detached while another actor is in the midst of something.
    Detached,
    /// Short: two actors change over where one of them has looked and will look again.
    Rechecked,
    /// Short: a process writes, and the pool grows with the next one.
    Grown,
    /// Short: what some blocks of a transaction had is overwritten, and the power fails.
    Overtaken,
    /// Short: packed blocks whose base no block has any more, and another process that writes.
    Packed,
    /// Short: a block is written, and what it leaves is taken, while a reader that checks nothing is at it.
    ReadUnchecked,
    /// Short: reads that follow one another pass the pool by ([`crate::streamed`]).
    Streamed,
    /// Short: a round of write-back writes while the one before is synced ([`crate::long_rounds`]).
    LongRounds,
}

impl Focus {
    /// How often each comes in a round of all of them: the more, the less often it is what it is about.
    const ROUND: [(Focus, u64); 11] = [
        (Focus::Twins, 6),
        (Focus::Completed, 1),
        (Focus::FailedFence, 6),
        (Focus::Zeroings, 6),
        (Focus::Relay, 2),
        (Focus::Pairs, 1),
        (Focus::Unchecked, 3),
        (Focus::Crowd, 3),
        (Focus::Growth, 4),
        (Focus::Killed, 6),
        (Focus::Pages, 2),
    ];

    /// Scenarios of a round; seeds that follow each other make one.
    pub const ROUND_SCENARIOS: u64 = 40;

    /// The short ones, which come before those of a round.
    const DIRECTED: [(Focus, u64); 12] = [
        (Focus::AtBacking, 10),
        (Focus::Restarted, 4),
        (Focus::AfterFailedFence, 6),
        (Focus::TornIncarnation, 2),
        (Focus::VolumeLines, 5),
        (Focus::Detached, 3),
        (Focus::Rechecked, 6),
        (Focus::Grown, 1),
        (Focus::Overtaken, 1),
        (Focus::Packed, 4),
        (Focus::ReadUnchecked, 5),
        (Focus::FailedLine, 2),
    ];

    /// Scenarios of all of these.
    pub const DIRECTED_SCENARIOS: u64 = 49;

    /// The corner of the directed scenario with this seed.
    pub fn directed(seed: u64) -> Focus {
        Focus::at(&Focus::DIRECTED, seed % Focus::DIRECTED_SCENARIOS)
    }

    /// The corner of the scenario with this seed.
    pub fn of(seed: u64) -> Focus {
        Focus::at(&Focus::ROUND, seed % Focus::ROUND_SCENARIOS)
    }

    /// What the scenario of a stream with this seed is about: reads or rounds that follow one another.
    pub fn of_stream(seed: u64) -> Focus {
        match seed % 3 {
            0 => Focus::LongRounds,
            _ => Focus::Streamed,
        }
    }

    fn at(all: &[(Focus, u64)], mut rest: u64) -> Focus {
        let found = all.iter().find(|(_, count)| {
            let is_here = rest < *count;
            rest = rest.saturating_sub(*count);
            is_here
        });
        found.expect("a round has so many").0
    }

    /// Incarnations after the first, at most.
    pub fn incarnations_max(self) -> usize {
        match self {
            Focus::Relay => 8,
            Focus::TornIncarnation => 2,
            Focus::Completed | Focus::FailedFence | Focus::Zeroings => 2,
            Focus::AtBacking | Focus::Restarted | Focus::AfterFailedFence => 0,
            Focus::VolumeLines | Focus::FailedLine => 0,
            Focus::Detached | Focus::Rechecked => 0,
            Focus::Grown | Focus::Overtaken | Focus::Packed | Focus::ReadUnchecked => 0,
            Focus::Streamed | Focus::LongRounds => 0,
            _ => 1,
        }
    }

    /// Chances in 256 to go on after crash number `case` of incarnation `number`, be it while the pool opens.
    pub fn chances_of_more(self, number: usize, case: usize, is_opening: bool) -> u32 {
        match self {
            // From the fence of the switch, and then from the end.
            Focus::TornIncarnation if number == 0 => 256 * u32::from(case + 1 == SWITCH_FENCES),
            Focus::TornIncarnation => 256 * u32::from(!is_opening),
            Focus::Relay if is_opening => 48,
            Focus::Relay => 24,
            _ => 3,
        }
    }

    /// Crashes of incarnation `number` noted at most, if they are fewer than elsewhere; those at its end come
    /// on top.
    pub fn cases_max(self, number: usize) -> Option<usize> {
        (self == Focus::TornIncarnation).then_some(if number == 1 { 0 } else { SWITCH_FENCES })
    }

    /// Chances in 256 that a moment's crash is looked at. Few, where what goes wrong is seen by readers: many
    /// short scenarios find more than few long ones.
    pub fn chances(self) -> u32 {
        match self {
            Focus::Relay => 96,
            Focus::Completed => 12,
            Focus::Crowd | Focus::FailedFence => 6,
            Focus::Zeroings | Focus::Twins => 2,
            Focus::Growth => 2,
            Focus::Killed | Focus::Pages => 4,
            Focus::Restarted => 8,
            Focus::Pairs | Focus::Unchecked => 0,
            Focus::AtBacking | Focus::AfterFailedFence | Focus::TornIncarnation => 0,
            Focus::VolumeLines | Focus::FailedLine => 0,
            Focus::Detached | Focus::Rechecked => 0,
            Focus::Grown | Focus::Overtaken | Focus::Packed | Focus::ReadUnchecked => 0,
            Focus::Streamed | Focus::LongRounds => 2,
        }
    }

    /// The same of one before a fence, if they are more.
    pub fn fence_chances(self) -> u32 {
        match self {
            Focus::TornIncarnation => 256,
            Focus::VolumeLines => 224,
            Focus::Grown => 32,
            _ => 0,
        }
    }

    /// Images of a crash.
    pub fn samples(self, is_opening: bool) -> usize {
        match self {
            Focus::Relay if is_opening => 2,
            Focus::TornIncarnation if is_opening => 3,
            Focus::AfterFailedFence | Focus::VolumeLines | Focus::Detached | Focus::Overtaken => 2,
            Focus::AtBacking | Focus::FailedLine => 2,
            _ => 1,
        }
    }

    /// Whether a crash tears all that was being stored, after the first event of its incarnation.
    pub fn tears_everything(self, shape: &Shape) -> bool {
        match self {
            Focus::VolumeLines | Focus::FailedLine => true,
            Focus::AfterFailedFence => !shape.strict,
            _ => false,
        }
    }

    /// Where the first process of an incarnation ends before its time, and how many follow; none if it is alone.
    pub fn others(self, rng: &mut fastrand::Rng, shape: &Shape) -> Option<(Option<Kill>, usize)> {
        match self {
            Focus::Killed => Some((Some(Kill::Step(rng.u64(1..120))), 1)),
            Focus::Pages => Some((None, rng.usize(1..3))),
            Focus::Grown | Focus::Packed => Some((None, 1)),
            Focus::Restarted => {
                let kill = rng.bool().then(|| Kill::Backing(rng.u64(4..10)));
                Some((kill, 1))
            }
            Focus::VolumeLines => {
                let fence = directed::volume_line_fence(rng, shape);
                Some((fence.map(Kill::Fence), 1))
            }
            _ => None,
        }
    }

    /// Whether every image is looked at closely.
    pub fn looks_closer(self) -> bool {
        matches!(
            self,
            Focus::Zeroings | Focus::Killed | Focus::Growth | Focus::AtBacking | Focus::Restarted
        )
    }

    /// The pool.
    pub fn shape(self, rng: &mut fastrand::Rng) -> Shape {
        match self {
            Focus::Streamed => return streamed::shape(rng),
            Focus::LongRounds => return long_rounds::shape(rng),
            _ => {}
        }
        let mut shape = Shape {
            slots: rng.usize(8..12),
            lanes: rng.u32(1..=2),
            volume_blocks: rng.usize(3..=6),
            lane_bytes: 1024,
            fill_on_read: rng.bool(),
            ..Shape::smallest(false)
        };
        match self {
            Focus::Twins => shape.compares = rng.bool(),
            Focus::Completed => shape.slots = rng.usize(10..16),
            Focus::FailedFence => {
                shape.strict = rng.bool();
                shape.fill_on_read = true;
                // An actor that waits for the only lane never has the key's lock after it.
                shape.lanes = if shape.strict { 1 } else { 2 };
            }
            Focus::Zeroings | Focus::Growth | Focus::Killed => shape.fill_on_read = true,
            Focus::AtBacking | Focus::Restarted => shape.fill_on_read = true,
            Focus::AfterFailedFence => {
                shape.strict = rng.bool();
                shape.fill_on_read = true;
                shape.lanes = if shape.strict { 1 } else { 2 };
            }
            Focus::TornIncarnation => shape.volume_blocks = 3,
            Focus::VolumeLines => shape.starts_attached = rng.u8(..4) > 0,
            Focus::Detached => shape.fill_on_read = true,
            Focus::Grown => shape.grows = true,
            Focus::Packed => shape.slots = 8,
            Focus::FailedLine | Focus::Streamed | Focus::LongRounds => {}
            Focus::Overtaken => {
                shape.lanes = 3;
                shape.slots = 16;
                shape.volume_blocks = rng.usize(6..8);
                shape.compares = false;
            }
            Focus::ReadUnchecked => {
                shape.slots = 8;
                shape.checksums = rng.bool();
                shape.verifies = false;
                shape.compares = false;
            }
            Focus::Rechecked => {
                shape.slots = 8;
                shape.compares = rng.bool();
            }
            Focus::Pages => {
                shape.pages = true;
                shape.block_bytes = 512;
                shape.lane_bytes = 16384;
            }
            Focus::Relay => {
                shape.strict = rng.u8(..4) == 0;
                shape.volume_blocks = 3;
            }
            Focus::Pairs => {
                shape.checksums = rng.u8(..4) > 0;
                shape.slots = rng.usize(18..24);
            }
            Focus::Unchecked => {
                shape.checksums = false;
                shape.compares = false;
            }
            Focus::Crowd => {
                shape.lanes = rng.u32(2..=3);
                shape.slots = rng.usize(16..20);
                if rng.bool() {
                    // Full, so that each slot is taken as soon as it is free.
                    shape.slots = rng.usize(8..10);
                    shape.volume_blocks = shape.slots - rng.usize(1..3);
                }
            }
        }
        shape.first_blocks = shape.volume_blocks;
        let may_grow = match self {
            Focus::AtBacking => rng.u8(..4) > 0,
            Focus::VolumeLines => shape.starts_attached && rng.u8(..4) > 0,
            Focus::FailedLine => true,
            _ => false,
        };
        if may_grow {
            shape.first_blocks -= 1;
        }
        if self == Focus::Growth {
            shape.first_blocks -= 1;
            shape.fill_on_read = true;
            if rng.bool() {
                shape.odd_bytes.1 = rng.usize(1..shape.block_bytes);
            }
        }
        if !shape.checksums {
            shape.strict = true;
        }
        shape
    }

    /// Which of its actors runs next.
    pub fn policy(self, rng: &mut fastrand::Rng, actors: usize) -> Policy {
        let opens_windows = match self {
            Focus::Zeroings if rng.bool() => {
                // One goes on to its end while the other has just begun.
                let first = rng.usize(..2);
                return Policy::Preemptions(vec![(0, first), (rng.u64(1..12), 1 - first)]);
            }
            Focus::Zeroings => rng.bool(),
            Focus::AtBacking if rng.u8(..3) > 0 => {
                // Mostly between a write and its sync, or before a range is zeroed.
                let (first, access) =
                    [(0, 1), (0, 2), (0, 2), (0, 2), (0, 3), (1, 1), (1, 1)][rng.usize(..7)];
                return Policy::AtBacking { first, access };
            }
            Focus::AfterFailedFence if actors == 2 => {
                return Policy::Preemptions(vec![(0, 1), (rng.u64(1..10), 0)]);
            }
            Focus::AtBacking => {
                return Policy::Backings {
                    rng: rng.fork(),
                    chances: [64, 128][rng.usize(..2)],
                };
            }
            Focus::AfterFailedFence => {
                return Policy::Preemptions(vec![(0, 1), (rng.u64(2..5), 2), (rng.u64(5..9), 0)]);
            }
            Focus::Detached => {
                return Policy::Preemptions(vec![(0, 0), (rng.u64(1..16), 1)]);
            }
            Focus::Overtaken => {
                return Policy::Preemptions(vec![(0, 2), (rng.u64(1..16), 0)]);
            }
            Focus::ReadUnchecked => {
                return Policy::Preemptions(vec![(0, 0), (rng.u64(8..40), 1)]);
            }
            Focus::Rechecked => {
                return Policy::Rechecks {
                    rng: rng.fork(),
                    chances: [96, 160][rng.usize(..2)],
                };
            }
            Focus::Crowd => rng.u8(..4) == 0,
            Focus::Streamed => return streamed::policy(rng, actors),
            Focus::LongRounds => return long_rounds::policy(rng),
            _ => rng.u8(..4) > 0,
        };
        match opens_windows {
            true => Policy::windows(rng),
            false => Policy::random(rng, actors, 80),
        }
    }

    /// What its actors do.
    pub fn script(self, rng: &mut fastrand::Rng, shape: &Shape) -> Script {
        match self {
            Focus::Twins => scripts::twins(rng, shape),
            Focus::Completed => scripts::completed(rng, shape),
            Focus::FailedFence => scripts::failed_fence(rng, shape),
            Focus::Zeroings => scripts::zeroings(rng, shape),
            Focus::Relay => scripts::actors(rng, 1..=1, 1..4, |rng| scripts::relayed(rng, shape)),
            Focus::Pairs => scripts::pairs(rng, shape),
            Focus::Unchecked => scripts::unchecked(rng, shape),
            Focus::Crowd => scripts::actors(rng, 3..=3, 3..8, |rng| scripts::crowded(rng, shape)),
            Focus::Growth => scripts::growth(rng, shape),
            Focus::Killed => scripts::killed(rng),
            Focus::Pages => scripts::pages(rng, shape),
            Focus::AtBacking => directed::at_backing(rng, shape),
            Focus::Restarted => directed::discarded(rng, shape),
            Focus::AfterFailedFence => directed::after_failed_fence(rng, shape),
            Focus::TornIncarnation => vec![Vec::new()],
            Focus::VolumeLines => directed::volume_line(rng, shape),
            Focus::FailedLine => directed::failed_line(rng),
            Focus::Detached => directed::detached(rng, shape),
            Focus::Rechecked => directed::rechecked(rng, shape),
            Focus::Grown => vec![directed::new_blocks(rng, shape, 2..6)],
            Focus::Overtaken => directed::overtaken(rng, shape),
            Focus::Packed => directed::packed(rng),
            Focus::ReadUnchecked => directed::read_unchecked(rng),
            Focus::Streamed => streamed::script(rng, shape),
            Focus::LongRounds => long_rounds::script(rng, shape),
        }
    }

    /// How a later process of the same incarnation begins.
    pub fn next_begins(self) -> Begins {
        match self {
            Focus::Grown => Begins::Grown,
            _ => Begins::Opened,
        }
    }

    /// What those of a later process of the same incarnation do.
    pub fn next_script(self, rng: &mut fastrand::Rng, shape: &Shape) -> Script {
        match self {
            Focus::Restarted => directed::read_all(shape),
            Focus::VolumeLines => directed::written_at_end(rng, shape),
            Focus::Packed => vec![directed::new_blocks(rng, shape, 4..8)],
            _ => self.script(rng, shape),
        }
    }

    /// What those of incarnation `number` do.
    pub fn script_of(self, number: usize, rng: &mut fastrand::Rng, shape: &Shape) -> Script {
        match (self, number) {
            (Focus::TornIncarnation, 1) => directed::some_writes(rng, shape),
            _ => self.script(rng, shape),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_every_corner_as_often_as_it_says() {
        let counts = Focus::ROUND.map(|(focus, count)| {
            let seeds = 0..Focus::ROUND_SCENARIOS;
            (
                seeds.filter(|seed| Focus::of(*seed) == focus).count() as u64,
                count,
            )
        });
        assert!(
            counts.iter().all(|(found, said)| found == said),
            "{counts:?}"
        );
        let counts = Focus::DIRECTED.map(|(_, count)| count);
        assert_eq!(counts.iter().sum::<u64>(), Focus::DIRECTED_SCENARIOS);
    }

    #[test]
    fn the_same_seed_gives_the_same_script_in_every_corner() {
        for (focus, _) in Focus::ROUND.into_iter().chain(Focus::DIRECTED) {
            let drawn = || {
                let mut rng = fastrand::Rng::with_seed(7);
                let shape = focus.shape(&mut rng);
                let script = focus.script(&mut rng, &shape);
                format!("{shape:?} {script:?}")
            };
            assert_eq!(drawn(), drawn());
        }
    }
}
