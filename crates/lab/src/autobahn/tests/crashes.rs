//! Power fails at any moment, and after kills: acknowledged writes are there, the one under way is block by block.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use forebay_pmem::shadow::ShadowEvent;

use super::files::Survivors;
use super::world::{BLOCK, Content, Step, World, bytes_of, random_script, states, tiny_options};
use crate::autobahn::AutoBahnOptions;

/// A crash and how far the script was.
pub(super) struct Crash {
    pub(super) step: usize,
    pub(super) event: String,
    pub(super) medium: Vec<u8>,
    pub(super) files: Survivors,
}

/// Has images taken at every event of the region until what it returns is asked for them.
fn watch(world: &World, images: usize, seed: u64) -> (Arc<Mutex<Vec<Crash>>>, Arc<AtomicUsize>) {
    let crashes: Arc<Mutex<Vec<Crash>>> = Arc::default();
    let done = Arc::new(AtomicUsize::new(0));
    let hook = {
        let (shadow, folder) = (Arc::downgrade(&world.shadow), world.folder.clone());
        let (crashes, done) = (crashes.clone(), done.clone());
        let rng = Mutex::new(fastrand::Rng::with_seed(seed));
        move |event: ShadowEvent<'_>| {
            let Some(shadow) = shadow.upgrade() else {
                return;
            };
            let state = shadow.crash_state();
            let mut rng = rng.lock().expect("no panic");
            for _ in 0..images {
                crashes.lock().expect("no panic").push(Crash {
                    step: done.load(Ordering::Relaxed),
                    event: format!("{:?} at {}", event.kind, event.offset),
                    medium: state.sample(&mut rng),
                    files: folder.sample(&mut rng),
                });
            }
        }
    };
    world.shadow.set_hook(Some(Arc::new(hook)));
    (crashes, done)
}

/// Runs the script in a world and recovers from crashes at every event. Returns how many there were, or what was
/// wrong with the first bad one.
pub(super) fn crash_within(
    mut world: World,
    truth: &[Content],
    script: &[Step],
    (images, seed): (usize, u64),
) -> Result<usize, String> {
    let (crashes, done) = watch(&world, images, seed);
    let mut truths = vec![truth.to_vec()];
    for step in script {
        let mut truth = truths[truths.len() - 1].clone();
        world.act(step, &mut truth);
        truths.push(truth);
        done.fetch_add(1, Ordering::Relaxed);
    }
    world.shadow.set_hook(None);
    let crashes = std::mem::take(&mut *crashes.lock().expect("no panic"));
    for crash in &crashes {
        let legal = match script.get(crash.step) {
            Some(step) => states(step, &truths[crash.step]),
            None => vec![truths[crash.step].clone()],
        };
        verify(&world.options, crash, &legal)
            .map_err(|wrong| format!("{wrong}: step {}, {}", crash.step, crash.event))?;
    }
    Ok(crashes.len())
}

fn look(world: &mut World) -> Result<Vec<Content>, String> {
    world.try_content().map_err(|error| error.to_string())
}

/// Recovers, looks, uses the buffer until all blocks have had other content, looks again, and recovers again.
pub(super) fn verify(
    options: &AutoBahnOptions,
    crash: &Crash,
    legal: &[Vec<Content>],
) -> Result<(), String> {
    let opened = World::after_cut(options, &crash.medium, &crash.files);
    let mut world = opened.map_err(|error| error.to_string())?;
    let mut found = look(&mut world)?;
    if !legal.contains(&found) {
        return Err("the files hold neither what they did before nor after".into());
    }
    if !world.is_within(&found) {
        return Err("a file itself is longer than what was written".into());
    }
    let more = Step::Write {
        file: 1,
        offset: found[1].len(),
        len: 7 * BLOCK,
        seed: 1,
    };
    world.act(&more, &mut found);
    if look(&mut world)? != found {
        return Err("after further writes something else is found".into());
    }
    world
        .buffer
        .run_stages()
        .map_err(|error| error.to_string())?;
    if look(&mut world)? != found {
        return Err("after a flush something else is found".into());
    }
    if look(&mut world.killed())? != found {
        return Err("a second recovery finds something else".into());
    }
    Ok(())
}

#[test]
fn every_image_of_random_scripts_recovers() {
    let mut images = 0;
    for seed in 0..24 {
        let world = World::new(&tiny_options());
        let script = random_script(14, seed);
        images += crash_within(world, &World::first_truth(), &script, (2, seed))
            .unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}\n{script:?}"));
    }
    assert!(images > 5_000, "{images} images");
}

/// Every image of an overwrite that makes the file longer, in one block.
#[test]
fn a_block_that_is_overwritten_and_grows_is_old_or_new() {
    let script = [Step::Write {
        file: 0,
        offset: 3 * BLOCK + 8,
        len: 100,
        seed: 4,
    }];
    for cached in [false, true] {
        let mut world = World::new(&tiny_options());
        let mut truth = World::first_truth();
        if cached {
            let before = Step::Write {
                file: 0,
                offset: 3 * BLOCK,
                len: 20,
                seed: 9,
            };
            world.act(&before, &mut truth);
        }
        crash_within(world, &truth, &script, (60, 1)).expect("old or new");
    }
}

/// A process is killed before each event of a step; power fails while or after the next one recovers.
pub(super) fn crash_after_kills(
    options: &AutoBahnOptions,
    before: &[Step],
    killed: &Step,
    images: usize,
) -> Result<usize, String> {
    let mut verified = 0;
    for event in 0.. {
        let mut world = World::new(options);
        let mut truth = World::first_truth();
        for step in before {
            world.act(step, &mut truth);
        }
        let legal = states(killed, &truth);
        let events = AtomicUsize::new(0);
        world.shadow.set_hook(Some(Arc::new(move |_| {
            if events.fetch_add(1, Ordering::Relaxed) == event {
                // A panic without the message.
                resume_unwind(Box::new("killed"));
            }
        })));
        let mut ignored = truth.clone();
        // A thread of its own: what it has flushed, no fence of another one waits for.
        let is_killed = std::thread::scope(|scope| {
            let (world, ignored) = (&mut world, &mut ignored);
            let act = move || catch_unwind(AssertUnwindSafe(|| world.act(killed, ignored)));
            scope.spawn(act).join().expect("caught").is_err()
        });
        world.shadow.set_hook(None);
        if !is_killed {
            return Ok(verified);
        }
        world.shadow.end_threads();
        let (crashes, _) = watch(&world, images, event as u64);
        let mut next = world.killed();
        let found = next.content();
        next.shadow.set_hook(None);
        let crashes = std::mem::take(&mut *crashes.lock().expect("no panic"));
        for crash in &crashes {
            verify(options, crash, &legal)
                .map_err(|wrong| format!("killed at {event}, {}: {wrong}", crash.event))?;
        }
        // What the next process has found, no power cut takes back.
        let left = Crash {
            step: 0,
            event: "after the recovery".into(),
            medium: next.shadow.crash_state().durable().to_vec(),
            files: next.folder.durable(),
        };
        verify(options, &left, &[found])
            .map_err(|wrong| format!("killed at {event}, afterwards: {wrong}"))?;
        verified += crashes.len() + 1;
    }
    unreachable!("a step has an end")
}

#[test]
fn a_power_cut_after_a_kill_takes_nothing_back_that_was_seen() {
    let before = [
        Step::Write {
            file: 0,
            offset: 0,
            len: 300,
            seed: 2,
        },
        Step::Write {
            file: 1,
            offset: 0,
            len: 400,
            seed: 3,
        },
    ];
    let killed = [
        Step::Write {
            file: 0,
            offset: 100,
            len: 50,
            seed: 4,
        },
        Step::Write {
            file: 1,
            offset: 400,
            len: 300,
            seed: 5,
        },
        Step::Write {
            file: 0,
            offset: 3 * BLOCK + 8,
            len: 300,
            seed: 6,
        },
        Step::Stages,
        Step::CloseAndOpen(1),
    ];
    for step in &killed {
        let verified = crash_after_kills(&tiny_options(), &before, step, 3);
        assert!(verified.expect("nothing lost") > 20);
    }
}

#[test]
fn another_file_of_the_name_is_refused_and_keeps_its_bytes() {
    let mut world = World::new(&tiny_options());
    let mut truth = World::first_truth();
    world.act(
        &Step::Write {
            file: 0,
            offset: 0,
            len: BLOCK,
            seed: 1,
        },
        &mut truth,
    );
    world.act(
        &Step::Write {
            file: 1,
            offset: 0,
            len: BLOCK,
            seed: 2,
        },
        &mut truth,
    );
    world.folder.rename("one", "elsewhere");
    let (medium, files) = (
        world.shadow.crash_state().durable().to_vec(),
        world.folder.durable(),
    );
    let opened = World::after_cut(&tiny_options(), &medium, &files);
    let error = opened.err().expect("refused").to_string();
    assert!(error.contains("kept in the region: one: "), "{error}");
    let mut others = files.clone();
    others.insert("one".into(), (99, bytes_of(8, 30)));
    let opened = World::after_cut(&tiny_options(), &medium, &others);
    let error = opened.err().expect("refused").to_string();
    assert!(error.contains("another file has its name"), "{error}");
    // Back in its place it gets its data.
    world.folder.rename("elsewhere", "one");
    let mut world =
        World::after_cut(&tiny_options(), &medium, &world.folder.durable()).expect("recovered");
    assert!(world.content() == truth);
}
