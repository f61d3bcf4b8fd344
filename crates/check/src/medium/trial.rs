//! One trial: loads, power cuts, one thing that goes wrong, and everything read.

use super::draw::{self, Pools};
use super::look::{Look, Right, look_at};
use crate::digest::Tracing;
use crate::harm::{Harm, Kind};
use crate::image::{CrashCase, Image};
use crate::oracle::{BlockStates, Contents, Oracle};
use crate::process;
use crate::scenario::Shape;
use crate::subject::Templates;
use crate::world::{Capture, World};
use std::collections::HashSet;
use std::sync::Arc;

/// Crashes noted in an incarnation at most, beside those at the ends of its processes.
const CASES_MAX: usize = 6;
/// Images of a trial that are looked at, at most.
const LOOKS_MAX: usize = 6;
/// How far apart the numbers are that the processes of an incarnation make their choices of.
const NEXT_PROCESS: u64 = 1 << 16;

/// What came of a trial.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The member did it.
    pub is_struck: bool,
    /// What the member has because of it is not enough, when another one is gone.
    pub is_felt: bool,
    /// The pool said so, or put it right.
    pub is_found: bool,
    /// It is enough again.
    pub is_repaired: bool,
    /// It is in, and not enough.
    pub is_left: bool,
    /// What the pool could not do because of it.
    pub errors: Vec<String>,
    /// Why it did not open all members.
    pub refusals: Vec<String>,
    /// What must not be; what was read wrong first of all.
    pub violation: Option<String>,
    /// Images that were looked at.
    pub images: u64,
}

/// A trial under way.
struct Trial<'a> {
    pools: Pools,
    shape: Shape,
    harm: Harm,
    rng: fastrand::Rng,
    contents: Contents,
    outcome: Outcome,
    is_told: bool,
    name: &'a str,
}

/// What is between two incarnations.
struct Between {
    image: Image,
    legal: HashSet<BlockStates>,
    is_harmed: bool,
}

/// `image` without a member.
fn without(image: &Image, member: usize) -> Image {
    let mut left = image.clone();
    left.media.remove(member);
    if member < left.lost.len() {
        left.lost.remove(member);
    }
    left
}

/// Runs the trial of this number; says in words what happens if `is_told`.
pub fn run(templates: &mut Templates, pools: Pools, number: u64, is_told: bool) -> Outcome {
    let mut rng = fastrand::Rng::with_seed(number);
    let what = pools.combination(number);
    let shape = draw::shape(&mut rng, pools, what);
    let harm = draw::harm(&mut rng, &shape, what);
    let name = format!("medium {number}");
    let mut trial = Trial {
        pools,
        harm,
        contents: Contents::default(),
        outcome: Outcome::default(),
        is_told,
        name: &name,
        rng,
        shape,
    };
    if is_told {
        println!("{:#?}\n{harm:?}", trial.shape);
    }
    if let Err(violation) = trial.run(templates) {
        trial.outcome.violation = Some(violation);
    }
    trial.outcome
}

impl Trial<'_> {
    fn run(&mut self, templates: &mut Templates) -> Result<(), String> {
        let image = templates.get(&self.shape)?.clone();
        let initial = self.initial_state(&image);
        let mut now = Between {
            image,
            legal: HashSet::from([initial]),
            is_harmed: false,
        };
        let incarnations = self.rng.u64(1..=3);
        let harmed = self.rng.u64(..incarnations);
        for number in 0..incarnations {
            let before = now.image.clone();
            now = self.incarnation(now, number, number == harmed)?;
            if number == harmed && self.harm.what.0 == Kind::StaleMember {
                self.outcome.is_struck = true;
                now.is_harmed = true;
                let member = self.harm.member;
                now.image.media[member].clone_from(&before.media[member]);
            }
            if number == harmed && now.is_harmed {
                self.judge(&mut now)?;
            }
            // A person goes on with the others.
            if !self.outcome.errors.is_empty() || !self.outcome.refusals.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Processes one after the other, and a power cut; every image that it looks at is one of that, or of another one
    /// before.
    fn incarnation(
        &mut self,
        from: Between,
        number: u64,
        is_harmed: bool,
    ) -> Result<Between, String> {
        let capture = Capture {
            rng: self.rng.fork(),
            chances: 2,
            fence_chances: 8,
            limit: CASES_MAX,
        };
        let tracing = match self.is_told {
            true => Tracing::Words,
            false => Tracing::Off,
        };
        let seed = self.rng.u64(..);
        let world = World::new(&self.shape, &from.image, capture, seed, tracing).harmed();
        let world = Arc::new(world);
        world.watch();
        let ran = self.processes(&world, number, is_harmed);
        world.unwatch();
        let record = world.take_record();
        if let Some(trace) = &record.trace {
            println!("incarnation {number}:\n  {}", trace.join("\n  "));
        }
        ran.map_err(|error| format!("incarnation {number}: {error}"))?;
        self.note_world(&world);
        let mut oracle = Oracle::new(from.legal);
        let mut events = record.events.iter();
        let mut seen = 0;
        let mut last = None;
        let kept = self.rng.usize(..record.cases.len().max(1));
        for (ordinal, case) in record.cases.iter().enumerate() {
            for event in events.by_ref().take(case.events - seen) {
                let advanced = oracle.advance(*event, &record.operations, &mut self.contents);
                if !advanced.map_err(|error| format!("incarnation {number}: {error}"))? {
                    return Err(String::from("too many states"));
                }
            }
            seen = case.events;
            let legal = oracle.legal();
            let is_last = ordinal + 1 == record.cases.len();
            if is_last || self.rng.usize(..record.cases.len()) < LOOKS_MAX / 2 {
                let image = self.sample(case);
                let looked = self.look_from(&image, &legal, case.is_harmed || from.is_harmed);
                looked.map(drop).map_err(|error| {
                    format!(
                        "incarnation {number}, crash before \"{}\" (event {seen}): {error}",
                        case.moment
                    )
                })?;
            }
            // Mostly from the end.
            if is_last && (last.is_none() || self.rng.u8(..4) > 0) || ordinal == kept {
                last = Some(Between {
                    image: self.sample(case),
                    legal,
                    is_harmed: from.is_harmed || case.is_harmed,
                });
            }
        }
        last.ok_or_else(|| String::from("no crash was noted"))
    }

    /// Some that work, and one that reads everything.
    fn processes(
        &mut self,
        world: &Arc<World>,
        number: u64,
        is_harmed: bool,
    ) -> Result<(), String> {
        let workers = self.rng.u64(1..=2);
        let harmed = self.rng.u64(..workers);
        for process in 0..=workers {
            let one = match process {
                process if process == workers => draw::reader(&mut self.rng, &self.shape),
                _ => {
                    let harm = (is_harmed && process == harmed).then_some(self.harm);
                    draw::worker(&mut self.rng, &self.shape, harm)
                }
            };
            if self.is_told {
                println!(
                    "process {process}: kill {:?}, closes {}\n{:#?}\n{:?}",
                    one.kill, one.closes, one.script, one.policy
                );
            }
            let salt = number + process * NEXT_PROCESS;
            let ended = process::run(one, (world, &self.shape), self.name, salt)?;
            world.note_end(ended.is_killed);
            if self.rng.bool() {
                world.evict();
            }
        }
        world.note_crash("the last process ended");
        Ok(())
    }

    /// What a world says of what went wrong in it.
    fn note_world(&mut self, world: &World) {
        let harming = world.harming();
        let (errors, refusals) = (harming.errors(), harming.refusals());
        self.outcome.is_struck |= world.is_harmed();
        self.outcome.is_found |= harming.has_told() || !errors.is_empty() || !refusals.is_empty();
        self.outcome.errors.extend(errors);
        self.outcome.refusals.extend(refusals);
    }

    /// What the member did wrong is found, and put right if it can be: then any other may be gone. What the pool
    /// leaves is what goes on.
    fn judge(&mut self, now: &mut Between) -> Result<(), String> {
        let is_enough_before = self.is_enough(&now.image, &now.legal);
        let looked = self.look_from(&now.image, &now.legal, true)?;
        self.outcome.is_felt |= !is_enough_before;
        self.outcome.is_found |= looked.has_told || looked.rebuilt > 0;
        self.outcome.is_found |= looked.refusal.is_some() || !looked.errors.is_empty();
        let Some(after) = looked.after else {
            return Ok(());
        };
        let is_to_repair = !is_enough_before || looked.rebuilt > 0;
        if is_to_repair && self.is_enough(&after, &now.legal) {
            self.outcome.is_found = true;
            self.outcome.is_repaired = true;
        } else {
            self.outcome.is_left |= is_to_repair;
        }
        if self.rng.bool() {
            now.image = after;
        }
        Ok(())
    }

    /// Whether the member has all that it must, and nothing else: alone, or whichever other one is gone.
    fn is_enough(&mut self, image: &Image, legal: &HashSet<BlockStates>) -> bool {
        let right = Right {
            legal,
            contents: &self.contents,
        };
        let is_right = |image: &Image| {
            // Goes on nowhere.
            let looked = look_at(&self.shape, image, right, self.outcome.images);
            looked.is_ok_and(|look| look.errors.is_empty() && look.refusal.is_none())
        };
        if self.pools == Pools::Checksum {
            return is_right(image);
        }
        let mut others = (0..self.shape.members).filter(|member| *member != self.harm.member);
        image.media.len() == self.shape.members
            && others.all(|other| is_right(&without(image, other)))
    }

    fn sample(&mut self, case: &CrashCase) -> Image {
        let mut image = Image::default();
        case.sample(&mut self.rng, &mut image);
        if case.is_harmed && self.harm.what.0 == Kind::DeadMember {
            image.media.remove(self.harm.member);
            image.lost.clear();
        }
        image
    }

    /// Looks at an image. Of one that nothing is wrong with, nothing may be refused; and where the pool does not open
    /// all members, a person can name the others alone, which have everything.
    fn look_from(
        &mut self,
        image: &Image,
        legal: &HashSet<BlockStates>,
        is_harmed: bool,
    ) -> Result<Look, String> {
        let looked = self.look(image, legal)?;
        let complaint = looked.errors.first().or(looked.refusal.as_ref());
        if let (Some(complaint), false) = (complaint, is_harmed) {
            return Err(format!("nothing is wrong, and: {complaint}"));
        }
        self.outcome.errors.extend(looked.errors.iter().cloned());
        let Some(refusal) = &looked.refusal else {
            return Ok(looked);
        };
        self.outcome.refusals.push(refusal.clone());
        if self.pools == Pools::Checksum {
            return Ok(looked);
        }
        if image.media.len() < self.shape.members {
            return Err(format!("all members that are left are refused: {refusal}"));
        }
        let mut others = without(image, self.harm.member);
        others.lost.clear();
        let others = self.look(&others, legal)?;
        match others.errors.first().or(others.refusal.as_ref()) {
            Some(error) => Err(format!("the other members alone: {error}")),
            None => Ok(looked),
        }
    }

    fn look(&mut self, image: &Image, legal: &HashSet<BlockStates>) -> Result<Look, String> {
        self.outcome.images += 1;
        let right = Right {
            legal,
            contents: &self.contents,
        };
        look_at(&self.shape, image, right, self.outcome.images)
    }

    /// The state before the first operation: what the backings hold.
    fn initial_state(&mut self, start: &Image) -> BlockStates {
        let stores = start.stores.iter();
        let blocks = stores.flat_map(|bytes| {
            bytes
                .chunks(self.shape.block_bytes)
                .take(self.shape.volume_blocks)
        });
        let mut states = Vec::new();
        for bytes in blocks {
            states.push(
                self.contents
                    .intern(bytes, || String::from("the beginning")),
            );
        }
        states.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_of_trials_finds_nothing_wrong_and_can_be_repeated() {
        for pools in [Pools::Mirror, Pools::Parity] {
            a_round_of(pools);
        }
    }

    fn a_round_of(pools: Pools) {
        let mut templates = Templates::default();
        let mut struck = 0;
        for number in 0..pools.round().len() as u64 {
            let outcome = run(&mut templates, pools, number, false);
            assert_eq!(outcome.violation, None, "trial {number}");
            assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
            struck += u64::from(outcome.is_struck);
            if number % 8 == 0 {
                let again = run(&mut templates, pools, number, false);
                assert_eq!(format!("{again:?}"), format!("{outcome:?}"));
            }
        }
        assert!(struck > 40, "{struck} of a round's faults struck");
    }
}
