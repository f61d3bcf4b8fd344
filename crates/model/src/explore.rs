//! Looking for a violation: through every state of a small world, or along seeded random walks through a larger one.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use crate::world::Violation;

/// What is explored: worlds, and what may happen in them.
pub trait Model {
    /// A state.
    type World: Clone + Hash;
    /// One thing that happens.
    type Action: Clone;

    /// The name that reports use.
    fn name(&self) -> &'static str;
    /// The state it begins with.
    fn begin(&self) -> Self::World;
    /// All that may happen next, but for power cuts.
    fn possible(&self, world: &Self::World) -> Vec<Self::Action>;
    /// For each unit with pending stores, how many there are; `None` where there is no power cut any more.
    fn pending(&self, world: &Self::World) -> Option<Vec<u8>>;
    /// Whether a power cut now leaves images that none a step later leaves.
    fn power_cut_matters(&self, world: &Self::World) -> bool;
    /// The power cut that keeps so many pending stores of each unit that has any.
    fn power_cut(&self, kept: &[u8]) -> Self::Action;
    /// Does it.
    ///
    /// # Errors
    /// What is wrong then.
    fn apply(&self, world: &mut Self::World, action: &Self::Action) -> Result<(), Violation>;
    /// The action in words, told before it is done.
    fn tell(&self, world: &Self::World, action: &Self::Action) -> String;
    /// Whether random walks take it once in a dozen chances.
    fn is_rare(&self, action: &Self::Action) -> bool;
    /// Whether a walk may end here.
    fn may_end(&self, world: &Self::World) -> bool;
}

/// How a violation came about.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The steps, in words.
    pub steps: Vec<String>,
    /// What is wrong after the last one.
    pub violation: String,
}

impl std::fmt::Display for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:4}  {step}", number + 1)?;
        }
        write!(f, "      => {}", self.violation)
    }
}

/// What an exploration saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Different states.
    pub states: u64,
    /// Power cuts taken.
    pub power_cuts: u64,
    /// Whether every reachable state was seen.
    pub complete: bool,
}

/// Visits every reachable state, or `states_max` of them.
///
/// # Errors
/// How a violation comes about.
pub fn exhaust<M: Model>(model: &M, states_max: u64) -> Result<Seen, Box<Trace>> {
    let mut search = Search {
        model,
        states_max,
        visited: HashSet::new(),
        path: Vec::new(),
        seen: Seen::default(),
    };
    search.seen.complete = true;
    search.visit(&model.begin())?;
    Ok(search.seen)
}

struct Search<'m, M: Model> {
    model: &'m M,
    states_max: u64,
    visited: HashSet<u64>,
    path: Vec<M::Action>,
    seen: Seen,
}

impl<M: Model> Search<'_, M> {
    fn visit(&mut self, world: &M::World) -> Result<(), Box<Trace>> {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        if !self.visited.insert(hasher.finish()) {
            return Ok(());
        }
        self.seen.states += 1;
        if self.seen.states > self.states_max {
            self.seen.complete = false;
            return Ok(());
        }
        for action in self.model.possible(world) {
            self.follow(world, action)?;
        }
        let pending = self.model.pending(world);
        if let Some(most) = pending.filter(|_| self.model.power_cut_matters(world)) {
            let mut kept = vec![0; most.len()];
            loop {
                self.seen.power_cuts += 1;
                self.follow(world, self.model.power_cut(&kept))?;
                if !count_up(&mut kept, &most) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn follow(&mut self, world: &M::World, action: M::Action) -> Result<(), Box<Trace>> {
        let mut next = world.clone();
        let outcome = self.model.apply(&mut next, &action);
        self.path.push(action);
        if let Err(violation) = outcome {
            return Err(trace(self.model, &self.path, violation.0));
        }
        self.visit(&next)?;
        self.path.pop();
        Ok(())
    }
}

/// The next combination of digits up to `most` each; false after the last.
fn count_up(digits: &mut [u8], most: &[u8]) -> bool {
    for (digit, &most) in digits.iter_mut().zip(most) {
        if *digit < most {
            *digit += 1;
            return true;
        }
        *digit = 0;
    }
    false
}

fn trace<M: Model>(model: &M, path: &[M::Action], violation: String) -> Box<Trace> {
    let mut world = model.begin();
    let mut steps = Vec::new();
    for action in path {
        steps.push(model.tell(&world, action));
        if model.apply(&mut world, action).is_err() {
            break;
        }
    }
    Box::new(Trace { steps, violation })
}

/// One random walk, ended by a power cut and a recovery; returns the number of steps taken.
///
/// # Errors
/// How a violation comes about.
pub fn walk<M: Model>(model: &M, seed: u64) -> Result<u64, Box<Trace>> {
    let mut random = Random(seed);
    let mut world = model.begin();
    let mut path = Vec::new();
    loop {
        let mut actions = model.possible(&world);
        // Recovery mostly runs through.
        while actions.len() > 1 && model.is_rare(&actions[0]) && random.below(12) != 0 {
            actions.remove(0);
        }
        let over = actions.is_empty();
        let cut_odds = if model.power_cut_matters(&world) {
            10
        } else {
            40
        };
        let pending = model.pending(&world);
        let action = match pending.filter(|_| over || random.below(cut_odds) == 0) {
            Some(most) => random_power_cut(model, &most, &mut random),
            None if over => return Ok(path.len() as u64),
            None => {
                let at = random.below(actions.len() as u64) as usize;
                actions.swap_remove(at)
            }
        };
        let outcome = model.apply(&mut world, &action);
        path.push(action);
        if let Err(violation) = outcome {
            return Err(trace(model, &path, violation.0));
        }
        if model.may_end(&world) && random.below(8) == 0 {
            return Ok(path.len() as u64);
        }
    }
}

fn random_power_cut<M: Model>(model: &M, most: &[u8], random: &mut Random) -> M::Action {
    // Nothing kept, all kept, mostly kept and even chances each show other faults.
    let mood = random.below(6);
    let mut keep = |most: &u8| match mood {
        0 => 0,
        1 => *most,
        2 if random.below(5) != 0 => *most,
        _ => random.below(u64::from(*most) + 1) as u8,
    };
    let kept: Vec<u8> = most.iter().map(&mut keep).collect();
    model.power_cut(&kept)
}

/// SplitMix64, from Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }
}
