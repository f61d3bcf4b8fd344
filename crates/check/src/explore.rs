//! From a seed to verdicts: runs a script, crashes it at many moments, recovers many of the images
//! each crash could leave, and goes on from some of them.

use crate::cache::Begins;
use crate::digest::Tracing;
use crate::files;
use crate::focus::Focus;
use crate::histories::verify_refusals;
use crate::image::{CrashCase, Image};
use crate::incarnation::{Incarnation, Plan, caught, run_processes};
use crate::lost::{self, verify_lossy};
use crate::mark::{may_be_lost, verify_lost};
use crate::named::Scenario;
use crate::oracle::{BlockStates, Contents, Event, Found, Oracle};
use crate::process::Process;
use crate::scenario::{Script, Shape};
use crate::scheduler::{Kill, Policy};
use crate::subject::{Subject, Templates, random_script};
use crate::verdict::{image_hash, recover, verify};
use crate::world::Capture;
use forebay_pmem::shadow::Distribution;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// Incarnations after the first: a recovery is crashed, and what it leaves is opened, worked on and crashed.
const INCARNATIONS_MAX: usize = 3;
/// Crashes noted in one incarnation at most.
const CRASHES_MAX: usize = 250;
/// Images of a scenario at most: many short scenarios find more than few long ones.
const IMAGES_MAX: usize = 600;

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
    /// An image was recovered and verified; a process had been killed on the way to it or not. Returns
    /// whether to go on.
    fn image(&self, hash: u64, is_killed: bool) -> bool;
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

/// What is common to all incarnations of a scenario.
struct Story {
    name: String,
    shape: Shape,
    rng: fastrand::Rng,
    contents: Contents,
    images: usize,
    /// Look at every moment, and at all images where they are few.
    is_exhaustive: bool,
    /// The corner that it is about.
    focus: Option<Focus>,
    /// It is about lost pages.
    is_lossy: bool,
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
    /// Member by member, whether one before may have taken it out.
    out: Vec<bool>,
}

/// What is known of an image besides its bytes.
#[derive(Clone, Copy)]
struct Past {
    is_made: bool,
    is_killed: bool,
    /// The number of the crash among those of its incarnation.
    ordinal: usize,
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
        if self.subject == Subject::Files {
            return self.run_files(scenario).map_err(violation);
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
            out: Vec::new(),
        };
        self.run_and_crash(&mut story, chapter).map_err(violation)
    }

    fn run_files(&mut self, scenario: &Scenario) -> Result<u64, String> {
        let Scenario::Random(seed) = scenario else {
            return Err(format!(
                "the file buffer has no scenario {scenario}, only seeds"
            ));
        };
        let tally = &mut |hash, is_killed| self.tally.image(hash, is_killed);
        let is_told = self.tracing == Tracing::Words;
        files::run(self.templates.files()?, *seed, is_told, tally)?;
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
            out,
        } = chapter;
        let capture = Capture {
            rng: story.rng.fork(),
            chances: story.chances(number),
            fence_chances: story.focus.map_or(0, Focus::fence_chances),
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
            Begins::Opened | Begins::Grown => start,
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
                is_killed: is_killed || case.is_killed,
                ordinal,
            };
            self.crash(story, case, &legal, (number, past), (&old, &out))
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
        (old, out): (&Image, &[bool]),
    ) -> Result<(), String> {
        let before = out.iter().copied().chain(std::iter::repeat(false));
        let out: Vec<bool> = case.out.iter().zip(before).map(|(a, b)| *a || b).collect();
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
                None if story.is_lossy => 1,
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
                let variants = image.with_a_member_gone(&story.shape, old, &out);
                let are_all_in = case.is_made && !out.contains(&true) && !variants.is_empty();
                if are_all_in && story.rng.u8(..8) == 0 {
                    caught(|| verify_refusals(&story.shape, &image))??;
                }
                for variant in &variants {
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
                0 if image.media.len() == story.shape.members => Begins::Created,
                roll if roll < 8 && story.shape.grows => Begins::Grown,
                _ => Begins::Opened,
            };
            let out = match begins {
                Begins::Created => out,
                Begins::Opened | Begins::Grown => story.goes_on_without(&mut image, old, out),
            };
            let (legal, replaced) = match begins {
                // What the old pool held goes with it.
                Begins::Created => (HashSet::from([story.initial_state(&image)]), legal.clone()),
                Begins::Opened | Begins::Grown => (legal.clone(), HashSet::new()),
            };
            let chapter = Chapter {
                start: image,
                legal,
                script,
                policy,
                begins,
                replaced,
                number: number + 1,
                is_killed: past.is_killed,
                out: match begins {
                    Begins::Created => Vec::new(),
                    Begins::Opened | Begins::Grown => out,
                },
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
            if !self.tally.image(hash, past.is_killed) {
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
            if !self.tally.image(hash, past.is_killed) {
                // Time is up; what was verified until now was right.
                story.images = IMAGES_MAX;
            }
        }
        match &self.recovered[&hash] {
            Ok(found) => verify(&story.shape, found, legal, &story.contents),
            Err(refusal) if !past.is_made && !refusal.starts_with("panic") => Ok(()),
            Err(error) => Err(format!("recovery: {error}")),
        }
    }
}

impl Story {
    /// Chances in 256 that a moment's crash is looked at.
    fn chances(&mut self, incarnation: usize) -> u32 {
        if let Some(focus) = self.focus {
            return focus.chances();
        }
        if self.is_lossy {
            return lost::CHANCES;
        }
        match (self.is_exhaustive, incarnation) {
            (true, 0) => 256,
            (false, 0) => [256, 96, 32][self.rng.usize(..3)],
            _ => 48,
        }
    }

    /// Whether what is recovered of the image with this hash is looked at more closely.
    fn looks_closer(&self, hash: u64) -> bool {
        self.focus.is_some_and(Focus::looks_closer) || hash.is_multiple_of(8)
    }

    /// Whether crash number `case` of incarnation `number` is gone on from.
    fn goes_on(&mut self, number: usize, case: usize, is_opening: bool) -> bool {
        if self.is_lossy {
            return false;
        }
        let (incarnations_max, chances) = match self.focus {
            Some(focus) => (
                focus.incarnations_max(),
                focus.chances_of_more(number, case, is_opening),
            ),
            // What one member alone has is decided in a recovery, and shows when that is crashed.
            None if self.shape.mirrored => (INCARNATIONS_MAX, 40),
            None => (INCARNATIONS_MAX, if number == 0 { 6 } else { 3 }),
        };
        number < incarnations_max && self.rng.u32(..256) < chances
    }

    /// Of a mirror one member may be dead from here on, or an old copy. Says which members are out.
    fn goes_on_without(&mut self, image: &mut Image, old: &Image, mut out: Vec<bool>) -> Vec<bool> {
        if !self.shape.mirrored || self.rng.bool() {
            return out;
        }
        let mut variants = image.with_a_member_gone(&self.shape, old, &out);
        if variants.is_empty() {
            return out;
        }
        let chosen = variants.swap_remove(self.rng.usize(..variants.len()));
        if let Some(gone) = chosen.gone {
            out[gone] = true;
        }
        *image = chosen.image;
        out
    }

    /// Whether a crash tears all that was being stored.
    fn tears_everything(&self) -> bool {
        self.focus
            .is_some_and(|focus| focus.tears_everything(&self.shape))
    }

    /// Crashes of incarnation `number` noted at most.
    fn cases_max(&self, number: usize) -> usize {
        let fewer = self.focus.and_then(|focus| focus.cases_max(number));
        fewer.unwrap_or(CRASHES_MAX)
    }

    fn script(&mut self, number: usize) -> Script {
        match self.focus {
            Some(focus) => focus.script_of(number, &mut self.rng, &self.shape),
            None => random_script(&mut self.rng, &self.shape),
        }
    }

    /// The processes of an incarnation: in most incarnations others follow on `first`, mostly because it was
    /// killed.
    fn processes(&mut self, mut first: Process) -> Vec<Process> {
        if let Some(focus) = self.focus {
            return self.focused_processes(focus, first);
        }
        let rng = &mut self.rng;
        if self.is_lossy {
            let next = lost::next_process(rng, &self.shape);
            first.kill = next.as_ref().and_then(|_| kill(rng));
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
    fn tell(&self, processes: &[Process]) {
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
    fn initial_state(&mut self, start: &Image) -> BlockStates {
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
