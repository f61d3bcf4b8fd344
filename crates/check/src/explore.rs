//! From a seed to verdicts: runs a script, crashes it at many moments, recovers many of the images
//! each crash could leave, and goes on from some of them.

use crate::cache::Begins;
use crate::digest::Tracing;
use crate::files;
use crate::focus::Focus;
use crate::histories::verify_refusals;
use crate::image::{CrashCase, Gone, Image, Standing};
use crate::incarnation::{Incarnation, Plan, caught, run_processes};
use crate::lost::{self, verify_lossy};
use crate::mark::{may_be_lost, verify_lost};
use crate::named::Scenario;
use crate::oracle::{BlockStates, Contents, Event, Found, Oracle};
use crate::process::Process;
use crate::rebuilt;
use crate::scenario::Script;
use crate::scheduler::Policy;
use crate::ssd;
use crate::stacked;
use crate::story::Story;
use crate::subject::{Subject, Templates};
use crate::verdict::{image_hash, recover, verify};
use crate::witnessed::verify_witness;
use crate::world::Capture;
use forebay_pmem::shadow::Distribution;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// Images of a scenario at most: many short scenarios find more than few long ones.
const IMAGES_MAX: usize = 600;
/// A witness is tried at moments before which so many events fell, or a multiple of it.
const WITNESS_EVERY: usize = 4;

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What brings it back.
    pub scenario: Scenario,
    /// What was found, in words.
    pub text: String,
}

/// Is told of each image: its hash.
pub trait Tally {
    /// An image was recovered and verified. Returns whether to go on.
    fn image(&self, hash: u64, traits: Traits) -> bool;
}

/// What led to an image.
#[derive(Clone, Copy, Default)]
pub struct Traits {
    /// A process had been killed.
    pub is_killed: bool,
    /// A member of a mirror is dead.
    pub is_dead: bool,
    /// Or an old copy of it is in its place.
    pub is_stale: bool,
    /// One was being rebuilt.
    pub is_rebuilding: bool,
    /// The pool was being scrubbed.
    pub is_scrubbing: bool,
}

/// One scenario under way.
pub struct Explorer<'a, T: Tally> {
    /// What is crashed.
    pub subject: Subject,
    /// Freshly made caches.
    pub templates: &'a mut Templates,
    /// By hash of the image: what recovery found. Runs of one systematic script share it.
    pub recovered: HashMap<u64, Result<Found, String>>,
    /// Counts images.
    pub tally: T,
    /// What is told of the events. In words they are printed, with everything else that happens.
    pub tracing: Tracing,
    /// The digest of all incarnations so far.
    pub digest: u64,
}

/// An incarnation to be run.
struct Chapter {
    start: Image,
    legal: HashSet<BlockStates>,
    script: Script,
    policy: Policy,
    begins: Begins,
    /// What a pool that this one is made over may hold: until it is gone it is still there.
    replaced: HashSet<BlockStates>,
    number: usize,
    /// A process was killed in an incarnation before.
    is_killed: bool,
    /// How each member stands; those that are not named are in.
    standings: Vec<Standing>,
}

/// What is known of an image besides its bytes.
#[derive(Clone, Copy)]
struct Past {
    is_made: bool,
    /// A pool was being opened.
    is_opening: bool,
    traits: Traits,
    /// The number of the crash among those of its incarnation.
    ordinal: usize,
}

impl Past {
    /// The same, with a member gone.
    fn of_variant(self, variant: &Gone) -> Past {
        Past {
            // Then no refusal is wrong.
            is_made: self.is_made && !variant.may_be_refused,
            traits: Traits {
                is_dead: variant.is_dead,
                is_stale: !variant.is_dead,
                ..self.traits
            },
            ..self
        }
    }
}

impl<'a, T: Tally> Explorer<'a, T> {
    /// One that has run nothing.
    pub fn new(
        subject: Subject,
        templates: &'a mut Templates,
        tally: T,
        tracing: Tracing,
    ) -> Explorer<'a, T> {
        Explorer {
            subject,
            templates,
            recovered: HashMap::new(),
            tally,
            tracing,
            digest: 0,
        }
    }

    /// Runs a scenario. `Ok` has the points that its scheduler passed in the first incarnation.
    pub fn run(&mut self, scenario: &Scenario) -> Result<u64, Violation> {
        let violation = |text| Violation {
            scenario: scenario.clone(),
            text,
        };
        if self.subject.is_random() {
            return self.run_random(scenario).map_err(violation);
        }
        let (shape, script, policy, rng) = scenario.expand(self.subject);
        if self.tracing == Tracing::Words {
            println!("{shape:#?}\n{script:#?}\n{policy:?}");
        }
        let start = self.templates.get(&shape).map_err(violation)?.clone();
        let mut story = Story {
            name: scenario.to_string(),
            contents: Contents::default(),
            images: 0,
            is_exhaustive: matches!(scenario, Scenario::Systematic { .. }),
            focus: scenario.focus(self.subject),
            is_lossy: matches!(scenario, Scenario::Lost(_)),
            is_rebuilt: matches!(scenario, Scenario::Rebuilt(_)),
            shape,
            rng,
        };
        let initial = story.initial_state(&start);
        let legal = HashSet::from([initial]);
        let chapter = Chapter {
            start,
            legal,
            script,
            policy,
            begins: Begins::Opened,
            replaced: HashSet::new(),
            number: 0,
            is_killed: false,
            standings: Vec::new(),
        };
        self.run_and_crash(&mut story, chapter).map_err(violation)
    }

    fn run_random(&mut self, scenario: &Scenario) -> Result<u64, String> {
        let Scenario::Random(seed) = scenario else {
            return Err(format!("there is no scenario {scenario} of it, only seeds"));
        };
        let tally = &mut |hash, is_killed| {
            let traits = Traits {
                is_killed,
                ..Traits::default()
            };
            self.tally.image(hash, traits)
        };
        let is_told = self.tracing == Tracing::Words;
        match self.subject {
            subject if subject.is_of_files() => {
                files::run(self.templates.files(subject)?, *seed, is_told, tally)?;
            }
            Subject::Stacked => stacked::run(*seed, is_told, tally)?,
            Subject::SsdMirror => ssd::mirror::run(*seed, is_told, tally)?,
            _ => ssd::run(*seed, is_told, tally)?,
        }
        Ok(0)
    }

    fn run_and_crash(&mut self, story: &mut Story, chapter: Chapter) -> Result<u64, String> {
        let Chapter {
            start,
            legal,
            script,
            policy,
            begins,
            replaced,
            number,
            is_killed,
            standings,
        } = chapter;
        let capture = Capture {
            rng: story.rng.fork(),
            chances: story.chances(number),
            fence_chances: match story.is_rebuilt {
                true => rebuilt::FENCE_CHANCES,
                false => story.focus.map_or(0, Focus::fence_chances),
            },
            limit: story.cases_max(number),
        };
        let seed = story.rng.u64(..);
        let first = Process {
            begins,
            script,
            policy,
            kill: None,
            closes: seed.is_multiple_of(3),
            is_spared: true,
        };
        let processes = story.processes(first);
        if self.tracing == Tracing::Words {
            story.tell(&processes);
        }
        let incarnation = run_processes(Plan {
            shape: &story.shape,
            start: &start,
            standings: &standings,
            processes,
            capture,
            name: story.name.clone(),
            number,
            seed,
            tracing: self.tracing,
        });
        let Incarnation {
            record,
            failure,
            steps,
        } = incarnation;
        if let Some(digest) = &record.digest {
            self.digest = digest.after(self.digest);
        }
        if let Some(trace) = &record.trace {
            println!("incarnation {number}:\n  {}", trace.join("\n  "));
        }
        if let Some(failure) = failure {
            return Err(format!("incarnation {number}: {failure}"));
        }
        let old = match begins {
            // Those were members of another pool.
            Begins::Created => Image::default(),
            _ => start,
        };
        let mut oracle = Oracle::new(legal);
        let mut events = record.events.iter();
        let mut seen = 0;
        for (ordinal, case) in record.cases.iter().enumerate() {
            for event in events.by_ref().take(case.events - seen) {
                if matches!(event, Event::HalfMade) {
                    oracle.allow(&replaced);
                }
                let advanced = oracle.advance(*event, &record.operations, &mut story.contents);
                if !advanced.map_err(|error| format!("incarnation {number}: {error}"))? {
                    return Ok(steps);
                }
            }
            seen = case.events;
            let mut legal = oracle.legal();
            if !case.is_made {
                legal.extend(replaced.iter().cloned());
            }
            let context = |error| {
                format!(
                    "incarnation {number}, crash before \"{}\" (event {seen}): {error}",
                    case.moment
                )
            };
            let past = Past {
                is_made: case.is_made,
                is_opening: case.is_opening,
                traits: Traits {
                    is_killed: is_killed || case.is_killed,
                    is_rebuilding: case.is_rebuilding,
                    is_scrubbing: case.is_scrubbing,
                    ..Traits::default()
                },
                ordinal,
            };
            self.crash(story, case, &legal, (number, past), &old)
                .map_err(context)?;
            if story.images >= IMAGES_MAX {
                break;
            }
        }
        Ok(steps)
    }

    /// Verifies images of one crash, and goes on from a few of them.
    fn crash(
        &mut self,
        story: &mut Story,
        case: &CrashCase,
        legal: &HashSet<BlockStates>,
        (number, past): (usize, Past),
        old: &Image,
    ) -> Result<(), String> {
        let standings = &case.standings;
        let mut image = Image::default();
        let limit = match (story.is_exhaustive, story.focus) {
            (true, _) => 256,
            (false, None) => 16,
            (false, Some(_)) => 1,
        };
        if !story.is_lossy && case.media.len() == 1 && case.media[0].is_exhaustible(limit) {
            let mut verdict = Ok(());
            case.media[0].all_images(limit, |bytes| {
                if verdict.is_ok() {
                    image.media.resize(1, Vec::new());
                    image.media[0].clear();
                    image.media[0].extend_from_slice(bytes);
                    case.sample_stores(&mut story.rng, &mut image);
                    verdict = self.verify_image(story, &image, legal, past);
                }
            });
            verdict?;
        } else {
            let samples = match story.focus {
                Some(focus) => focus.samples(case.events == 0),
                None if story.is_lossy || story.is_rebuilt => 1,
                None if number == 0 => 3,
                None => 2,
            };
            let tears = case.events > 0 && story.tears_everything();
            for _ in 0..samples {
                match tears {
                    true => case.sample_from(&[Distribution::Subset], &mut story.rng, &mut image),
                    false => case.sample(&mut story.rng, &mut image),
                }
                if story.is_lossy {
                    lost::lose_some(&mut story.rng, &story.shape, &mut image);
                }
                self.verify_image(story, &image, legal, past)?;
                let variants =
                    image.with_a_member_gone(&story.shape, old, (standings, &case.rebuilt));
                let is_in = |standing: &Standing| *standing == Standing::In;
                let are_all_in =
                    case.is_made && standings.iter().all(is_in) && !variants.is_empty();
                if are_all_in && story.rng.u8(..8) == 0 {
                    caught(|| verify_refusals(&story.shape, &image))??;
                    // Not of each: it syncs files.
                    if case.events.is_multiple_of(WITNESS_EVERY) {
                        caught(|| verify_witness(&story.shape, &image))??;
                    }
                }
                for variant in &variants {
                    let past = past.of_variant(variant);
                    let verified = self.verify_image(story, &variant.image, legal, past);
                    verified.map_err(|error| format!("{}: {error}", variant.what))?;
                }
            }
        }
        if case.is_made && story.goes_on(number, past.ordinal, case.events == 0) {
            match story.focus {
                Some(Focus::Relay) => case.tear(&mut story.rng, &mut image),
                Some(Focus::TornIncarnation) if case.events == 0 => {
                    case.tear_one(&mut story.rng, &mut image);
                }
                _ => case.sample(&mut story.rng, &mut image),
            }
            let script = story.script(number + 1);
            let policy = Policy::random(&mut story.rng, script.len(), 100);
            let begins = match story.rng.u8(..16) {
                // Not of fewer members.
                0 if image.media.len() == story.shape.members && !image.has_lost_pages() => {
                    Begins::Created
                }
                roll if roll < 8 && story.shape.grows => Begins::Grown,
                _ => Begins::Opened,
            };
            let standings = match begins {
                // Until another one is made the old pool may be found.
                Begins::Created => case.standings.clone(),
                _ => story.goes_on_without(&mut image, old, case),
            };
            let (legal, replaced) = match begins {
                // What the old pool held goes with it.
                Begins::Created => (HashSet::from([story.initial_state(&image)]), legal.clone()),
                _ => (legal.clone(), HashSet::new()),
            };
            let chapter = Chapter {
                start: image,
                legal,
                script,
                policy,
                begins,
                replaced,
                number: number + 1,
                is_killed: past.traits.is_killed,
                standings,
            };
            self.run_and_crash(story, chapter)?;
        }
        Ok(())
    }

    fn verify_image(
        &mut self,
        story: &mut Story,
        image: &Image,
        legal: &HashSet<BlockStates>,
        past: Past,
    ) -> Result<(), String> {
        let hash = image_hash(image);
        story.images += 1;
        if image.has_lost_pages() {
            if !self.tally.image(hash, past.traits) {
                story.images = IMAGES_MAX;
            }
            return caught(|| verify_lossy(&story.shape, (image, hash), legal, &story.contents))?;
        }
        if let Entry::Vacant(entry) = self.recovered.entry(hash) {
            // By the hash: what was recovered before must not change what comes after.
            entry.insert(recover(&story.shape, image, story.looks_closer(hash)));
            if past.is_made && may_be_lost(&story.shape, hash) {
                caught(|| verify_lost(&story.shape, image, legal, &story.contents))??;
            }
            if !self.tally.image(hash, past.traits) {
                // Time is up; what was verified until now was right.
                story.images = IMAGES_MAX;
            }
        }
        match &self.recovered[&hash] {
            Ok(found) => verify(&story.shape, found, legal, &story.contents),
            Err(refusal) if !past.is_made && !refusal.starts_with("panic") => Ok(()),
            // Of a member from before a recovery that was not finished, only that is known.
            Err(refusal)
                if past.is_opening
                    && past.traits.is_stale
                    && refusal.contains("differs between the members") =>
            {
                Ok(())
            }
            Err(error) => Err(format!("recovery: {error}")),
        }
    }
}
