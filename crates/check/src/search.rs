//! Campaigns that have to find something: a protocol that loses data, or a fault switched on.
//!
//! A fault counts as noticed when a campaign finds it from each of the [`SEEDS`] within so many images.
//! Each of these has one worker, so that the same seed needs the same number of images everywhere; time
//! decides nothing.

use crate::campaign::{self, Limits};
use crate::subject::Subject;
use forebay_harness::{Result, Row, check_interrupt};
use forebay_lab::engines::EngineName;
use std::path::Path;
use std::time::Duration;

/// Where the campaigns begin that are to find each fault. Far apart: a campaign takes one seed after the
/// other.
pub const SEEDS: [u64; 3] = [1_000_000, 2_000_000, 3_000_000];

/// Images that each of them recovers at most, where a fault has no budget of its own.
pub const IMAGES_MAX: u64 = 50_000;

/// The papers' protocols that lose data as printed; `docs/inside/papers.md` says which and how.
const PRINTED_LOSES: [EngineName; 3] =
    [EngineName::Classic, EngineName::Tinca, EngineName::Spindle];

/// What is searched for, and how long.
#[derive(Clone, Debug)]
pub struct Search {
    /// The campaigns' first seeds.
    pub seeds: Vec<u64>,
    /// Images of each, whatever their budget.
    pub images: Option<u64>,
    /// Only these; all if none.
    pub only: Vec<String>,
}

impl Search {
    /// Refuses names that none of `all` has: a search for nothing would find all of it.
    ///
    /// # Errors
    /// There is such a name.
    pub fn check<'n>(&self, all: impl Iterator<Item = &'n str> + Clone) -> Result<()> {
        let unknown = |only: &&String| !all.clone().any(|name| name == only.as_str());
        match self.only.iter().find(unknown) {
            Some(name) => Err(format!("--only {name}: there is none of this name").into()),
            None => Ok(()),
        }
    }

    /// Whether `name` is searched for.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// The limits of the campaign from `seed`.
    pub fn limits(&self, subject: Subject, seed: u64) -> Limits {
        Limits {
            subject,
            images: u64::MAX,
            recoveries: self.images.unwrap_or(IMAGES_MAX),
            time: Duration::MAX,
            seed,
            threads: 1,
            switch: None,
        }
    }
}

/// How a campaign went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunt {
    /// What shows the fault; none if it was not noticed.
    pub scenario: Option<String>,
    /// Images recovered until then.
    pub images: u64,
}

/// Runs a campaign until it notices something.
pub fn hunt(limits: &Limits) -> Hunt {
    let outcome = campaign::run(limits, &indicatif::ProgressBar::hidden());
    Hunt {
        scenario: outcome
            .violations
            .first()
            .map(|violation| violation.scenario.to_string()),
        images: outcome.recovered,
    }
}

/// Says what the campaigns for one fault came to, a line of it; true if all of them noticed it.
pub fn tell(name: &str, seeds: &[u64], hunts: &[Hunt]) -> bool {
    let mut caught = Vec::new();
    let mut survived = Vec::new();
    for (seed, hunt) in seeds.iter().zip(hunts) {
        match &hunt.scenario {
            Some(scenario) => caught.push(format!("{scenario} after {} images", hunt.images)),
            None => survived.push(format!("{} images from seed {seed}", hunt.images)),
        }
    }
    if survived.is_empty() {
        println!("mutant {name}: caught ({})", caught.join(", "));
        return true;
    }
    let seen = match caught.is_empty() {
        true => String::new(),
        false => format!("; caught by {}", caught.join(", ")),
    };
    println!("mutant {name}: SURVIVED {}{seen}", survived.join(", "));
    false
}

/// Writes how many faults of a kind there are and were noticed, and how many images each took at most.
pub fn write_counts(
    report: Option<&Path>,
    (kind, unit): (&str, &str),
    found: &[(String, bool, u64)],
) -> Result<()> {
    let caught = found.iter().filter(|(_, is_caught, _)| *is_caught).count();
    let count = |name: String, value: usize| Row::new(name, value as f64, unit);
    let mut rows = vec![
        count(kind.to_string(), found.len()),
        count(format!("{kind}_caught"), caught),
    ];
    let images = |(name, _, images): &(String, bool, u64)| {
        Row::new(format!("{kind}_images_{name}"), *images as f64, "images")
    };
    rows.extend(found.iter().map(images));
    campaign::merge(report, &rows)
}

/// Images in which a sound engine, or file buffer, shows that what is noticed afterwards is the fault.
const SOUND_IMAGES: u64 = 1_000;
const SOUND_IMAGES_OF_FILES: u64 = 300;

/// The error says what is wrong with something that has no fault switched on.
pub fn check_sound(limits: &Limits) -> Result<()> {
    let limits = Limits {
        images: match limits.subject {
            subject if subject.is_of_files() => SOUND_IMAGES_OF_FILES,
            _ => SOUND_IMAGES,
        },
        ..limits.clone()
    };
    let outcome = campaign::run(&limits, &indicatif::ProgressBar::hidden());
    match outcome.violations.first() {
        Some(violation) => Err(format!(
            "violated without any fault: {}; replay with: forebay-verify crash replay{} {}",
            violation.text,
            limits.subject.flags(),
            violation.scenario
        )
        .into()),
        None => Ok(()),
    }
}

/// Searches the printed protocols: true if every one of them was seen losing data.
pub fn printed_command(search: &Search, report: Option<&Path>) -> Result<bool> {
    campaign::hush_panics();
    search.check(PRINTED_LOSES.iter().map(|name| name.as_str()))?;
    let names = PRINTED_LOSES
        .into_iter()
        .filter(|name| search.wants(name.as_str()));
    let mut found = Vec::new();
    for name in names {
        check_sound(&search.limits(Subject::engine(name, false), search.seeds[0]))?;
        let printed = |seed: &u64| hunt(&search.limits(Subject::engine(name, true), *seed));
        let hunts: Vec<Hunt> = search.seeds.iter().map(printed).collect();
        check_interrupt()?;
        let is_caught = tell(&format!("{name} as printed"), &search.seeds, &hunts);
        let images = hunts.iter().map(|hunt| hunt.images).max();
        found.push((name.to_string(), is_caught, images.unwrap_or(0)));
    }
    let caught = found.iter().filter(|(_, is_caught, _)| *is_caught).count();
    println!("{caught} of {} printed protocols caught", found.len());
    write_counts(report, ("printed_protocols", "protocols"), &found)?;
    Ok(caught == found.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine_shape::Maker;
    use crate::faulty::Fault;

    fn faulty(fault: Fault, images: u64) -> Limits {
        let search = Search {
            seeds: vec![1],
            images: Some(images),
            only: Vec::new(),
        };
        let subject = Subject::Engine {
            maker: Maker::Faulty(fault),
            as_printed: false,
            has_cleaner: false,
        };
        search.limits(subject, 1)
    }

    #[test]
    fn a_sound_engine_passes_and_its_campaign_can_be_repeated() {
        let found = hunt(&faulty(Fault::None, 3_000));
        assert_eq!(found.scenario, None);
        assert!(found.images >= 3_000);
        assert_eq!(found, hunt(&faulty(Fault::None, 3_000)));
    }

    #[test]
    fn each_fault_of_an_engine_is_noticed() {
        for fault in [Fault::ReadsTheBacking, Fault::UpdatesWithZeroes] {
            let found = hunt(&faulty(fault, 20_000));
            assert!(found.scenario.is_some(), "{fault:?}");
        }
    }
}
