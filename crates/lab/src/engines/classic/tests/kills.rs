//! A power cut after a kill: stores that no fence has covered were visible to the next process, and
//! may be gone afterwards.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Engine;
use forebay::{Backing, Region};
use forebay_pmem::shadow::{Shadow, ShadowEvent};

use super::rig;
use crate::engines::open;
use crate::testing::{Content, Rig, TestStep, VolatileDisk, disk_holding};

/// A process that was killed, and the memory and the disk that it left.
struct Killed {
    shadow: Arc<Shadow>,
    disk: Arc<VolatileDisk>,
    /// What it held before its last step, and what it would have held after.
    legal: [Content; 2],
}

/// Kills the process before an event of `step`, if there are so many.
fn kill(rig: &Rig, script: &[TestStep], step: &TestStep, event: usize) -> Option<Killed> {
    let (disk, mut before) = (rig.disk(), rig.first_content());
    let (shadow, engine) = rig.create(&disk);
    for step in script {
        rig.act(&*engine, step, &mut before);
    }
    let left = Mutex::new(event);
    shadow.set_hook(Some(Arc::new(move |_: ShadowEvent| {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        if *left == 0 {
            // A panic without its message.
            std::panic::resume_unwind(Box::new("killed"));
        }
        *left -= 1;
    })));
    let mut after = before.clone();
    rig.follow(step, &mut after);
    // A thread of its own: no fence of another one waits for what it has flushed.
    let is_killed = std::thread::scope(|scope| {
        let process = scope.spawn(|| rig.act(&*engine, step, &mut before.clone()));
        process.join().is_err()
    });
    shadow.set_hook(None);
    shadow.end_threads();
    is_killed.then_some(Killed {
        shadow,
        disk,
        legal: [before, after],
    })
}

/// Crash images of an incarnation.
type Images = Arc<Mutex<Vec<(Vec<u8>, Vec<u8>)>>>;

/// Keeps, at every event, the image of what is durable alone, and where entries may tear another.
fn watch(killed: &Killed, may_tear: bool, seed: u64) -> Images {
    let images = Images::default();
    let (shadow, disk) = (Arc::downgrade(&killed.shadow), killed.disk.clone());
    let rng = Mutex::new(fastrand::Rng::with_seed(seed));
    let taken = images.clone();
    killed.shadow.set_hook(Some(Arc::new(move |_: ShadowEvent| {
        let shadow = shadow.upgrade().unwrap();
        let mut rng = rng.lock().unwrap();
        let state = shadow.crash_state();
        let mut taken = taken.lock().unwrap();
        taken.push((
            state.durable().to_vec(),
            disk.crash_state().sample_bytes(&mut rng),
        ));
        if may_tear {
            taken.push((
                state.sample(&mut rng),
                disk.crash_state().sample_bytes(&mut rng),
            ));
        }
    })));
    images
}

/// What each of the images so far recovers to is one of these; returns how many there were.
fn verify(rig: &Rig, images: &Images, legal: &[&Content]) -> Result<usize, String> {
    let images = std::mem::take(&mut *images.lock().unwrap());
    let count = images.len();
    for (image, disk) in images {
        let opened = rig.open(&image, &disk_holding(&disk));
        let (_shadow, engine) = opened.map_err(|error| error.to_string())?;
        let found = rig.content(&*engine);
        if !legal.contains(&&found) {
            return Err("it holds what it never held".to_owned());
        }
    }
    Ok(count)
}

fn kills_then_cuts(rig: &Rig, script: &[TestStep], step: &TestStep) -> Result<usize, String> {
    let (mut count, mut event) = (0, 0);
    while let Some(killed) = kill(rig, script, step, event) {
        let images = watch(&killed, !rig.options.as_printed, event as u64);
        let region = Region::on_shadow(killed.shadow.clone());
        let backing = Backing::from_store(killed.disk.clone());
        let engine: Box<dyn Engine> = open(rig.name, region, backing, &rig.options).unwrap();
        let [before, after] = &killed.legal;
        count += verify(rig, &images, &[before, after])?;
        // From here on it is decided which of the two.
        let mut truth = rig.content(&*engine);
        assert!(killed.legal.contains(&truth));
        for step in [
            TestStep::Read(7),
            TestStep::Read(8),
            TestStep::Commit(vec![(6, 77), (0, 78)]),
            TestStep::Flush,
            TestStep::Read(5),
        ] {
            let before = truth.clone();
            rig.act(&*engine, &step, &mut truth);
            let verified = verify(rig, &images, &[&before, &truth]);
            count += verified.map_err(|wrong| format!("{wrong}: {event}, {step:?}"))?;
        }
        killed.shadow.set_hook(None);
        event += 1;
    }
    Ok(count)
}

fn scripts() -> Vec<(Vec<TestStep>, TestStep)> {
    let commit = |blocks: &[(u64, u64)]| TestStep::Commit(blocks.to_vec());
    let filled: Vec<TestStep> = (0..12).map(|seed| commit(&[(seed % 5, seed)])).collect();
    vec![
        (vec![], commit(&[(1, 1), (2, 2)])),
        (filled.clone(), commit(&[(1, 21), (2, 22), (3, 23)])),
        (filled.clone(), TestStep::Flush),
        (filled, TestStep::Read(8)),
    ]
}

#[test]
fn power_cuts_after_kills_take_nothing_back() {
    let mut images = 0;
    for slots in [1, 4] {
        for (script, step) in scripts() {
            images += kills_then_cuts(&rig(slots, 9, 10), &script, &step).unwrap();
        }
    }
    assert!(images > 10_000, "{images}");
}

#[test]
fn what_is_seen_and_not_durable_is_taken_back_from_the_printed_protocol() {
    let lost = scripts().iter().any(|(script, step)| {
        let mut rig = rig(4, 9, 10);
        rig.options.as_printed = true;
        kills_then_cuts(&rig, script, step).is_err()
    });
    assert!(lost);
}
