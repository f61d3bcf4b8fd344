//! Scenarios by their names: how they are called, to be replayed, and all that each is made of.

use crate::engine_scenario;
use crate::focus::Focus;
use crate::lost;
use crate::rebuilt;
use crate::rows;
use crate::scenario::{Script, Shape};
use crate::scheduler::Policy;
use crate::subject::{Subject, random_script};

/// What is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Everything drawn from this seed.
    Random(u64),
    /// A corner, everything else drawn from this seed.
    Focused(u64),
    /// One of the short sequences that lead straight into a corner, varied by this seed.
    Directed(u64),
    /// Pages that the medium loses, everything drawn from this seed.
    Lost(u64),
    /// Members that are taken out and rebuilt, everything drawn from this seed.
    Rebuilt(u64),
    /// Reads, or rounds of write-back, that follow one another, everything drawn from this seed.
    Streamed(u64),
    /// A small script, number so and so, with these preemptions after that actor went first.
    Systematic {
        script: usize,
        first: usize,
        preemptions: Vec<u64>,
    },
}

impl std::fmt::Display for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scenario::Random(seed) => write!(f, "{seed}"),
            Scenario::Focused(seed) => write!(f, "f{seed}"),
            Scenario::Directed(seed) => write!(f, "d{seed}"),
            Scenario::Lost(seed) => write!(f, "l{seed}"),
            Scenario::Rebuilt(seed) => write!(f, "r{seed}"),
            Scenario::Streamed(seed) => write!(f, "t{seed}"),
            Scenario::Systematic {
                script,
                first,
                preemptions,
            } => {
                write!(f, "s{script}.{first}")?;
                preemptions.iter().try_for_each(|step| write!(f, ".{step}"))
            }
        }
    }
}

impl std::str::FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Scenario, String> {
        let wrong = |_| {
            format!("\"{text}\" is neither a number nor of the form f5, d5, l5, r5, t5 or s3.0.17")
        };
        if let Some(seed) = text.strip_prefix('f') {
            return seed.parse().map(Scenario::Focused).map_err(wrong);
        }
        if let Some(seed) = text.strip_prefix('d') {
            return seed.parse().map(Scenario::Directed).map_err(wrong);
        }
        if let Some(seed) = text.strip_prefix('l') {
            return seed.parse().map(Scenario::Lost).map_err(wrong);
        }
        if let Some(seed) = text.strip_prefix('r') {
            return seed.parse().map(Scenario::Rebuilt).map_err(wrong);
        }
        if let Some(seed) = text.strip_prefix('t') {
            return seed.parse().map(Scenario::Streamed).map_err(wrong);
        }
        let Some(rest) = text.strip_prefix('s') else {
            return text.parse().map(Scenario::Random).map_err(wrong);
        };
        let numbers: Result<Vec<u64>, _> = rest.split('.').map(str::parse).collect();
        match numbers.map_err(wrong)?.as_slice() {
            [script, first, preemptions @ ..] => Ok(Scenario::Systematic {
                script: *script as usize,
                first: (*first as usize).min(1),
                preemptions: preemptions.to_vec(),
            }),
            _ => Err(format!(
                "\"{text}\" names no first actor; say for example s3.0.17"
            )),
        }
    }
}

impl Scenario {
    /// The corner that it is about; engines have none.
    pub fn focus(&self, subject: Subject) -> Option<Focus> {
        match self {
            Scenario::Focused(seed) if subject.is_pool() => Some(Focus::of(*seed)),
            Scenario::Directed(seed) if subject.is_pool() => Some(Focus::directed(*seed)),
            Scenario::Streamed(seed) if subject.is_pool() => Some(Focus::of_stream(*seed)),
            _ => None,
        }
    }

    /// All that a scenario is made of.
    pub fn expand(&self, subject: Subject) -> (Shape, Script, Policy, fastrand::Rng) {
        let (mut shape, mut script, policy, mut rng) = self.drawn(subject);
        shape.entries_in_dram = subject == Subject::PoolInDram;
        if subject == Subject::PoolChecksum {
            // It is made with them alone.
            (shape.sealed, shape.checksums) = (true, true);
        }
        if subject.is_mirrored() {
            let members = match shape.mirrored {
                // The script names them.
                true => shape.members,
                false => member_count(subject, &mut rng.clone()),
            };
            shape = match subject {
                Subject::PoolRows => rows::shape(shape, members),
                _ => shape.mirrored_on(members),
            };
        }
        if subject == Subject::PoolRows {
            rows::widen(&mut rng, &shape, &mut script);
            if !matches!(self, Scenario::Systematic { .. }) {
                rows::stretch(&mut rng, &mut shape, &mut script);
            }
        }
        (shape, script, policy, rng)
    }

    fn drawn(&self, subject: Subject) -> (Shape, Script, Policy, fastrand::Rng) {
        match self {
            Scenario::Random(seed) => {
                let mut rng = fastrand::Rng::with_seed(*seed);
                let mut shape = subject.random_shape(&mut rng);
                let mut script = random_script(&mut rng, &shape);
                let mut policy = Policy::random(&mut rng, script.len(), 200);
                if let Some(drawn) = engine_scenario::at_disk(&mut rng, &mut shape) {
                    (script, policy) = drawn;
                }
                (shape, script, policy, rng)
            }
            Scenario::Focused(seed) | Scenario::Directed(seed) | Scenario::Streamed(seed) => {
                let mut rng = fastrand::Rng::with_seed(*seed);
                let focus = match self {
                    Scenario::Directed(_) => Focus::directed(*seed),
                    Scenario::Streamed(_) => Focus::of_stream(*seed),
                    _ => Focus::of(*seed),
                };
                let shape = focus.shape(&mut rng);
                let script = focus.script(&mut rng, &shape);
                let policy = focus.policy(&mut rng, script.len());
                (shape, script, policy, rng)
            }
            Scenario::Lost(seed) => {
                let mut rng = fastrand::Rng::with_seed(*seed);
                let mut shape = lost::shape(&mut rng);
                if subject.is_mirrored() {
                    let members = member_count(subject, &mut rng);
                    shape = match subject {
                        Subject::PoolRows => rows::shape(shape, members),
                        _ => shape.mirrored_on(members),
                    };
                }
                let script = lost::script(&mut rng, &shape);
                let policy = lost::policy(&mut rng, script.len());
                (shape, script, policy, rng)
            }
            Scenario::Rebuilt(seed) => {
                let mut rng = fastrand::Rng::with_seed(*seed);
                let mut shape = rebuilt::shape(&mut rng);
                if subject == Subject::PoolRows {
                    let members = shape.members + 1;
                    shape = rows::shape(shape, members);
                }
                let script = rebuilt::script(&mut rng, &shape);
                let policy = rebuilt::policy(&mut rng, script.len());
                (shape, script, policy, rng)
            }
            Scenario::Systematic {
                script,
                first,
                preemptions,
            } => {
                let (shape, steps) = subject.systematic_script(*script);
                let mut to = *first;
                let mut list = vec![(0, to)];
                for step in preemptions {
                    to = 1 - to;
                    list.push((*step, to));
                }
                let rng = fastrand::Rng::with_seed(*script as u64);
                (shape, steps, Policy::Preemptions(list), rng)
            }
        }
    }
}

/// Members of a mirror, drawn from `rng`; one more where they have rows.
fn member_count(subject: Subject, rng: &mut fastrand::Rng) -> usize {
    let members = rebuilt::member_count(rng);
    match subject {
        Subject::PoolRows => members + 1,
        _ => members,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_named_and_found_again() {
        let systematic = Scenario::Systematic {
            script: 17,
            first: 1,
            preemptions: vec![3, 9],
        };
        let (focused, directed) = (Scenario::Focused(8), Scenario::Directed(8));
        let (lost, rebuilt) = (Scenario::Lost(8), Scenario::Rebuilt(8));
        let (streamed, random) = (Scenario::Streamed(8), Scenario::Random(77));
        for scenario in [
            random, focused, directed, lost, rebuilt, streamed, systematic,
        ] {
            assert_eq!(scenario.to_string().parse(), Ok(scenario));
        }
        assert!("s3".parse::<Scenario>().is_err());
        assert!("x".parse::<Scenario>().is_err());
    }
}
