//! Looking for a violation: through every state of a small world, or along seeded random walks through a larger one.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use crate::action::{Action, apply, possible, power_cut_matters, tell};
use crate::config::Config;
use crate::rules::Rules;
use crate::world::{Phase, World};

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
pub fn exhaust(config: &Config, rules: Rules, states_max: u64) -> Result<Seen, Box<Trace>> {
    let mut search = Search {
        config,
        rules,
        states_max,
        visited: HashSet::new(),
        path: Vec::new(),
        seen: Seen::default(),
    };
    search.seen.complete = true;
    search.visit(&World::new(config))?;
    Ok(search.seen)
}

struct Search<'c> {
    config: &'c Config,
    rules: Rules,
    states_max: u64,
    visited: HashSet<u64>,
    path: Vec<Action>,
    seen: Seen,
}

impl Search<'_> {
    fn visit(&mut self, world: &World) -> Result<(), Box<Trace>> {
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
        for action in possible(world, self.config, self.rules) {
            self.follow(world, action)?;
        }
        if world.left.1 > 0 && power_cut_matters(world) {
            let pool = world.memory.pending_counts();
            let backing = world.backing.pending_counts();
            let most: Vec<u8> = pool.iter().chain(&backing).copied().collect();
            let mut kept = vec![0; most.len()];
            loop {
                self.seen.power_cuts += 1;
                let (pool, backing) = kept.split_at(pool.len());
                self.follow(
                    world,
                    Action::PowerCut {
                        pool: pool.to_vec(),
                        backing: backing.to_vec(),
                    },
                )?;
                if !count_up(&mut kept, &most) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn follow(&mut self, world: &World, action: Action) -> Result<(), Box<Trace>> {
        let mut next = world.clone();
        let outcome = apply(&mut next, self.config, self.rules, &action);
        self.path.push(action);
        if let Err(violation) = outcome {
            return Err(trace(self.config, self.rules, &self.path, violation.0));
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

fn trace(config: &Config, rules: Rules, path: &[Action], violation: String) -> Box<Trace> {
    let mut world = World::new(config);
    let mut steps = Vec::new();
    for action in path {
        steps.push(tell(&world, config, action));
        if apply(&mut world, config, rules, action).is_err() {
            break;
        }
    }
    Box::new(Trace { steps, violation })
}

/// One random walk, ended by a power cut and a recovery; returns the number of steps taken.
pub fn walk(config: &Config, rules: Rules, seed: u64) -> Result<u64, Box<Trace>> {
    let mut random = Random(seed);
    let mut world = World::new(config);
    let mut path = Vec::new();
    loop {
        let mut actions = possible(&world, config, rules);
        // Kills are rare, and recovery mostly runs through.
        if actions.len() > 1 && actions[0] == Action::Kill && random.below(12) != 0 {
            actions.remove(0);
        }
        let over = actions.is_empty();
        let cut_odds = if power_cut_matters(&world) { 10 } else { 40 };
        let action = if world.left.1 > 0 && (over || random.below(cut_odds) == 0) {
            random_power_cut(&world, &mut random)
        } else if over {
            return Ok(path.len() as u64);
        } else {
            let at = random.below(actions.len() as u64) as usize;
            actions.swap_remove(at)
        };
        let outcome = apply(&mut world, config, rules, &action);
        path.push(action);
        if let Err(violation) = outcome {
            return Err(trace(config, rules, &path, violation.0));
        }
        if world.left.0 == 0
            && world.left.1 == 0
            && world.phase == Phase::Running
            && random.below(8) == 0
        {
            return Ok(path.len() as u64);
        }
    }
}

fn random_power_cut(world: &World, random: &mut Random) -> Action {
    // Nothing kept, all kept, mostly kept and even chances each show other faults.
    let mood = random.below(6);
    let mut keep = |most: &u8| match mood {
        0 => 0,
        1 => *most,
        2 if random.below(5) != 0 => *most,
        _ => random.below(u64::from(*most) + 1) as u8,
    };
    let pool = world
        .memory
        .pending_counts()
        .iter()
        .map(&mut keep)
        .collect();
    let backing = world
        .backing
        .pending_counts()
        .iter()
        .map(&mut keep)
        .collect();
    Action::PowerCut { pool, backing }
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
