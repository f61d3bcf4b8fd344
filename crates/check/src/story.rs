//! What a scenario is about, and what follows from it: how often it is crashed and gone on from, with which scripts
//! and processes.

use crate::cache::Begins;
use crate::focus::Focus;
use crate::image::{CrashCase, Image, Standing};
use crate::lost;
use crate::oracle::{BlockStates, Contents};
use crate::process::Process;
use crate::rebuilt;
use crate::scenario::{Script, Shape};
use crate::scheduler::{Kill, Policy};
use crate::subject::random_script;

/// Incarnations after the first: a recovery is crashed, and what it leaves is opened, worked on and crashed.
const INCARNATIONS_MAX: usize = 3;
/// Crashes noted in one incarnation at most.
const CRASHES_MAX: usize = 250;
/// What is common to all incarnations of a scenario.
pub struct Story {
    /// The scenario's.
    pub name: String,
    /// The cache.
    pub shape: Shape,
    /// Decides the rest.
    pub rng: fastrand::Rng,
    /// All that blocks held.
    pub contents: Contents,
    /// Images so far.
    pub images: usize,
    /// Look at every moment, and at all images where they are few.
    pub is_exhaustive: bool,
    /// The corner that it is about.
    pub focus: Option<Focus>,
    /// It is about lost pages.
    pub is_lossy: bool,
    /// It is about members that are rebuilt.
    pub is_rebuilt: bool,
}

impl Story {
    /// Chances in 256 that a moment's crash is looked at.
    pub fn chances(&mut self, incarnation: usize) -> u32 {
        if let Some(focus) = self.focus {
            return focus.chances();
        }
        if self.is_lossy {
            return lost::CHANCES;
        }
        if self.is_rebuilt {
            return rebuilt::CHANCES;
        }
        match (self.is_exhaustive, incarnation) {
            (true, 0) => 256,
            (false, 0) => [256, 96, 32][self.rng.usize(..3)],
            _ => 48,
        }
    }

    /// Whether what is recovered of the image with this hash is looked at more closely.
    pub fn looks_closer(&self, hash: u64) -> bool {
        self.focus.is_some_and(Focus::looks_closer) || hash.is_multiple_of(8)
    }

    /// Whether crash number `case` of incarnation `number` is gone on from.
    pub fn goes_on(&mut self, number: usize, case: usize, is_opening: bool) -> bool {
        if self.is_lossy {
            return false;
        }
        let (incarnations_max, chances) = match self.focus {
            Some(focus) => (
                focus.incarnations_max(),
                focus.chances_of_more(number, case, is_opening),
            ),
            // What one member alone has is decided in a recovery, and shows when that is crashed.
            None if self.is_rebuilt => (rebuilt::INCARNATIONS_MAX, 8),
            None if self.shape.mirrored => (INCARNATIONS_MAX, 40),
            None => (INCARNATIONS_MAX, if number == 0 { 6 } else { 3 }),
        };
        number < incarnations_max && self.rng.u32(..256) < chances
    }

    /// Of a mirror one member may be dead from here on, or an old copy. Says which members are out.
    pub fn goes_on_without(
        &mut self,
        image: &mut Image,
        old: &Image,
        case: &CrashCase,
    ) -> Vec<Standing> {
        let mut standings = case.standings.clone();
        if !self.shape.mirrored || self.rng.bool() {
            return standings;
        }
        let mut variants = image.with_a_member_gone(&self.shape, old, (&standings, &case.rebuilt));
        variants.retain(|variant| !variant.may_be_refused && !variant.image.is_replaced);
        if variants.is_empty() {
            return standings;
        }
        let chosen = variants.swap_remove(self.rng.usize(..variants.len()));
        match chosen.is_dead {
            true => drop(standings.remove(chosen.member)),
            false => standings[chosen.member] = Standing::Out,
        }
        *image = chosen.image;
        standings
    }

    /// Whether a crash tears all that was being stored.
    pub fn tears_everything(&self) -> bool {
        self.focus
            .is_some_and(|focus| focus.tears_everything(&self.shape))
    }

    /// Crashes of incarnation `number` noted at most.
    pub fn cases_max(&self, number: usize) -> usize {
        let fewer = self.focus.and_then(|focus| focus.cases_max(number));
        fewer.unwrap_or(CRASHES_MAX)
    }

    /// What the actors of the first process of incarnation `number` do.
    pub fn script(&mut self, number: usize) -> Script {
        match self.focus {
            Some(focus) => focus.script_of(number, &mut self.rng, &self.shape),
            None if self.is_rebuilt => rebuilt::script(&mut self.rng, &self.shape),
            None => random_script(&mut self.rng, &self.shape),
        }
    }

    /// The processes of an incarnation: in most incarnations others follow on `first`, mostly because it was
    /// killed.
    pub fn processes(&mut self, mut first: Process) -> Vec<Process> {
        if let Some(focus) = self.focus {
            return self.focused_processes(focus, first);
        }
        let rng = &mut self.rng;
        if self.is_lossy {
            let next = lost::next_process(rng, &self.shape);
            first.kill = next.as_ref().and_then(|_| kill(rng));
            return std::iter::once(first).chain(next).collect();
        }
        if self.is_rebuilt {
            let next = rebuilt::next_process(rng, &self.shape);
            first.kill = next.as_ref().and_then(|_| rebuilt::kill(rng));
            return std::iter::once(first).chain(next).collect();
        }
        if self.is_exhaustive || rng.u8(..8) < 3 {
            return vec![first];
        }
        let count = [2, 2, 2, 3, 3, 4][rng.usize(..6)];
        first.kill = kill(rng);
        let mut all = vec![first];
        for number in 1..count {
            let script = random_script(rng, &self.shape);
            let begins = match self.shape.grows && rng.bool() {
                true => Begins::Grown,
                false => Begins::Opened,
            };
            all.push(Process {
                begins,
                policy: Policy::random(rng, script.len(), 100),
                script,
                kill: kill(rng).filter(|_| number + 1 < count),
                closes: rng.bool(),
                is_spared: rng.u8(..4) > 0,
            });
        }
        all
    }

    /// The processes of an incarnation in a corner.
    fn focused_processes(&mut self, focus: Focus, mut first: Process) -> Vec<Process> {
        let Some((kill, others)) = focus.others(&mut self.rng, &self.shape) else {
            return vec![first];
        };
        first.kill = kill;
        let mut all = vec![first];
        for _ in 0..others {
            let script = focus.next_script(&mut self.rng, &self.shape);
            all.push(Process {
                begins: focus.next_begins(),
                policy: focus.policy(&mut self.rng, script.len()),
                script,
                kill: None,
                closes: self.rng.bool(),
                is_spared: true,
            });
        }
        all
    }

    /// Says in words what the processes after the first one do.
    pub fn tell(&self, processes: &[Process]) {
        for (number, process) in processes.iter().enumerate() {
            let Process {
                begins,
                kill,
                closes,
                is_spared,
                ..
            } = process;
            println!(
                "process {number}: {begins:?}, kill {kill:?}, closes {closes}, spared {is_spared}"
            );
            if number > 0 {
                println!("{:#?}\n{:?}", process.script, process.policy);
            }
        }
    }

    /// The state before the first operation: what the backings hold.
    pub fn initial_state(&mut self, start: &Image) -> BlockStates {
        let block_bytes = self.shape.block_bytes;
        let blocks = start
            .stores
            .iter()
            .flat_map(|bytes| bytes.chunks(block_bytes).take(self.shape.volume_blocks));
        blocks
            .map(|bytes| {
                self.contents
                    .intern(bytes, || String::from("the beginning"))
            })
            .collect()
    }
}

/// Where a process is killed: while it opens the cache, somewhere, or it comes to its end.
fn kill(rng: &mut fastrand::Rng) -> Option<Kill> {
    match rng.u8(..16) {
        0..=1 => None,
        2..=4 => Some(Kill::Step(rng.u64(1..60))),
        5..=7 => Some(Kill::Step(rng.u64(1..300))),
        8..=11 => Some(Kill::Fence(rng.u64(1..8))),
        _ => Some(Kill::Fence(rng.u64(1..40))),
    }
}
