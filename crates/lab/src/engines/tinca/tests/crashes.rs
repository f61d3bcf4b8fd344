//! Power cuts: the default protocol survives them all, the printed one does not. Each finding of
//! docs/inside/papers.md has a test here that names the image.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Engine;
use forebay::{Backing, Region};
use forebay_pmem::shadow::{CrashState, Shadow, ShadowEventKind, ShadowModel};

use super::{commit, printed, rig};
use crate::engines::open;
use crate::testing::{Content, Rig, TestStep, VolatileDisk, disk_holding};

#[test]
fn the_default_protocol_survives_a_crash_anywhere() {
    let mut images = 0;
    for (slots, ring, disk_blocks) in [(2, 1, 3), (5, 8, 9), (8, 2, 12), (16, 8, 12)] {
        let rig = rig(slots, ring, disk_blocks);
        let blocks_max = (slots / 2).min(ring) as usize;
        for seed in 0..4 {
            let script = rig.random_script(30, blocks_max, seed);
            images += rig
                .crash_everywhere(&script, 4, seed)
                .expect("nothing is lost");
        }
    }
    assert!(images > 20_000, "{images}");
}

/// The moments at which power may fail while `action` runs, each with the event that came next.
fn moments(shadow: &Arc<Shadow>, action: impl FnOnce()) -> Vec<(ShadowEventKind, CrashState)> {
    let moments: Arc<Mutex<Vec<_>>> = Arc::default();
    let (weak, log) = (Arc::downgrade(shadow), moments.clone());
    shadow.set_hook(Some(Arc::new(move |event| {
        if let Some(shadow) = weak.upgrade() {
            log.lock()
                .expect("no panic")
                .push((event.kind, shadow.crash_state()));
        }
    })));
    action();
    shadow.set_hook(None);
    std::mem::take(&mut *moments.lock().expect("no panic"))
}

/// All images of a moment, or some where there are very many.
fn images_of(state: &CrashState) -> Vec<Vec<u8>> {
    let mut images = Vec::new();
    if !state.all_images(64, |image| images.push(image.to_vec())) {
        let mut rng = fastrand::Rng::with_seed(1);
        images = (0..16).map(|_| state.sample(&mut rng)).collect();
    }
    images.sort_unstable();
    images.dedup();
    images
}

/// An engine in the state that a script leaves.
struct Scene {
    rig: Rig,
    disk: Arc<VolatileDisk>,
    shadow: Arc<Shadow>,
    engine: Box<dyn Engine>,
    truth: Content,
}

impl Scene {
    fn after(rig: Rig, script: &[TestStep]) -> Scene {
        let disk = rig.disk();
        let (shadow, engine) = rig.create(&disk);
        let mut truth = rig.first_content();
        for step in script {
            rig.act(&*engine, step, &mut truth);
        }
        Scene {
            rig,
            disk,
            shadow,
            engine,
            truth,
        }
    }

    /// Does one more step; returns what power failing before each of its fences may leave.
    fn images_at_fences(&mut self, step: &TestStep) -> Vec<Vec<Vec<u8>>> {
        let moments = moments(&self.shadow, || {
            self.rig.act(&*self.engine, step, &mut self.truth);
        });
        let fences = moments
            .iter()
            .filter(|(kind, _)| *kind == ShadowEventKind::Fence);
        fences.map(|(_, state)| images_of(state)).collect()
    }

    /// What recovery from an image finds, looked at without bringing anything in.
    fn recover(&self, image: &[u8]) -> Result<Content, String> {
        let disk = disk_holding(&self.disk.bytes());
        let mut rig = self.rig.clone();
        rig.options.fill_on_read = false;
        let opened = rig.open(image, &disk);
        let (_shadow, engine) = opened.map_err(|error| error.to_string())?;
        Ok(rig.content(&*engine))
    }

    fn recover_all(&self, images: &[Vec<u8>]) -> Vec<Result<Content, String>> {
        images.iter().map(|image| self.recover(image)).collect()
    }
}

/// The scene of a finding: a script, and the step in which power fails.
struct Finding {
    slots: u64,
    script: Vec<TestStep>,
    step: TestStep,
}

/// Fences of a commit that power fails before.
const ENTRY_OF_BLOCK_1: usize = 1;
const ELEMENT_OF_BLOCK_1: usize = 2;
const ELEMENT_OF_BLOCK_2: usize = 6;

impl Finding {
    /// What recovery finds after power failed before that fence of the step, by the printed protocol;
    /// and what was legal: the content before the step, and after it. The default protocol finds
    /// nothing else before any fence.
    fn show(&self, fence: usize) -> (Vec<Result<Content, String>>, [Content; 2]) {
        let hardened = rig(self.slots, 8, 12);
        let mut scene = Scene::after(hardened.clone(), &self.script);
        let before = scene.truth.clone();
        for images in scene.images_at_fences(&self.step) {
            for found in scene.recover_all(&images) {
                let found = found.expect("the default protocol recovers");
                assert!(
                    found == before || found == scene.truth,
                    "the default protocol"
                );
            }
        }
        let mut scene = Scene::after(printed(hardened), &self.script);
        let images = scene.images_at_fences(&self.step).swap_remove(fence);
        (scene.recover_all(&images), [before, scene.truth])
    }
}

/// Finding 1 (§4.5): Head ≠ Tail, so only the blocks in the ring are revoked; but the next block's
/// entry is durable, and its number in the ring is not.
#[test]
fn finding_1_printed_recovery_forgets_the_block_that_head_does_not_count() {
    let finding = Finding {
        slots: 8,
        script: vec![commit(&[(1, 1), (2, 2)])],
        step: commit(&[(1, 11), (2, 12)]),
    };
    let (found, [before, after]) = finding.show(ELEMENT_OF_BLOCK_2);
    let half = [&before[..2], &after[2..]].concat();
    assert!(found.contains(&Ok(half)), "block 2 alone is new");
}

/// Finding 1 goes on: the forgotten block stays a log block, its previous slot gets other blocks, and
/// the next restart, with Head = Tail and after no crash at all, revokes it to what is there now.
#[test]
fn finding_1_a_later_restart_gives_the_forgotten_block_the_bytes_of_another() {
    let mut scene = Scene::after(printed(rig(8, 8, 12)), &[commit(&[(1, 1), (2, 2)])]);
    let step = commit(&[(1, 11), (2, 12)]);
    let images = scene
        .images_at_fences(&step)
        .swap_remove(ELEMENT_OF_BLOCK_2);
    // The image without the number in the ring; any of them will do.
    let (shadow, engine) = scene
        .rig
        .open(&images[0], &scene.disk)
        .expect("it recovers");
    engine.write(5, &scene.rig.bytes_of(20)).expect("write");
    engine.write(5, &scene.rig.bytes_of(21)).expect("write");
    drop(engine);
    let found = scene
        .recover(shadow.crash_state().durable())
        .expect("it opens");
    assert!(
        found[2] == scene.rig.bytes_of(20),
        "block 2 holds old bytes of block 5"
    );
    assert!(found[5] == scene.rig.bytes_of(21));
}

/// Finding 2, an update's 16 bytes torn: word 0 (log block) is there, word 1 is not. What revocation
/// installs is the slot before the last one, which has been free since the commit before.
#[test]
fn finding_2_a_torn_update_brings_back_the_version_before_the_last() {
    let finding = Finding {
        slots: 8,
        script: vec![commit(&[(1, 1)]), commit(&[(1, 2)])],
        step: commit(&[(1, 3)]),
    };
    let (found, [mut stale, _]) = finding.show(ENTRY_OF_BLOCK_1);
    stale[1] = rig(8, 8, 12).bytes_of(1);
    assert!(
        found.contains(&Ok(stale)),
        "the acknowledged version 2 is lost"
    );
}

/// Finding 2, torn the other way: word 1 (the new slot) is there, word 0 still says buffer block.
#[test]
fn finding_2_a_torn_update_leaves_half_a_transaction() {
    let finding = Finding {
        slots: 8,
        script: vec![commit(&[(1, 1), (2, 2)])],
        step: commit(&[(1, 11), (2, 12)]),
    };
    let (found, [before, after]) = finding.show(ENTRY_OF_BLOCK_1);
    let half = [&after[..2], &before[2..]].concat();
    assert!(found.contains(&Ok(half)), "block 1 alone is new");
}

/// In a cache of four slots: blocks 3 and 4 take the room of 1 and 2, whose entries are free then but
/// still name slots: block 2's the slots 1 and 3, and it is the next to be used. Slot 1 is free and
/// holds 4's bytes of seed 6; 4's current slot is 3.
fn freed_entries() -> Vec<TestStep> {
    vec![
        commit(&[(1, 1), (2, 2)]),
        commit(&[(1, 3), (2, 4)]),
        commit(&[(3, 5), (4, 6)]),
        commit(&[(3, 7), (4, 8)]),
    ]
}

/// Finding 3, a new entry's 16 bytes torn: word 0 says that block 5 is a log block, word 1 is that of
/// the block that had the entry before, with a previous slot where FRESH should be.
#[test]
fn finding_3_a_torn_new_entry_gives_a_block_the_bytes_of_another() {
    let finding = Finding {
        slots: 4,
        script: freed_entries(),
        step: commit(&[(5, 9)]),
    };
    let (found, [mut wrong, _]) = finding.show(ENTRY_OF_BLOCK_1);
    wrong[5] = rig(4, 8, 12).bytes_of(6);
    assert!(found.contains(&Ok(wrong)), "block 5 holds bytes of block 4");
}

/// Finding 4, the same tear where a read brings block 5 in: nothing was written, and yet it holds the
/// bytes of another block, for good.
#[test]
fn finding_4_a_torn_fill_gives_a_block_the_bytes_of_another() {
    let mut script = freed_entries();
    script.push(commit(&[(3, 10), (4, 11)]));
    let finding = Finding {
        slots: 4,
        script,
        step: TestStep::Read(5),
    };
    let (found, [mut wrong, _]) = finding.show(ENTRY_OF_BLOCK_1);
    wrong[5] = rig(4, 8, 12).bytes_of(8);
    assert!(found.contains(&Ok(wrong)), "block 5 holds bytes of block 4");
    // With the slot still in use, two entries name it.
    let finding = Finding {
        script: freed_entries(),
        ..finding
    };
    let (found, _) = finding.show(ENTRY_OF_BLOCK_1);
    let is_double = |found: &Result<Content, String>| matches!(found, Err(said) if said.contains("two entries name slot 3"));
    assert!(found.iter().any(is_double));
}

/// What recoveries find that come after one that power cut off anywhere.
fn recover_cut_off(scene: &Scene, image: &[u8]) -> Vec<Result<Content, String>> {
    let shadow = Arc::new(Shadow::from_image(image, ShadowModel::Lines));
    let disk = disk_holding(&scene.disk.bytes());
    let moments = moments(&shadow, || {
        let region = Region::on_shadow(shadow.clone());
        let backing = Backing::from_store(disk);
        drop(open(scene.rig.name, region, backing, &scene.rig.options));
    });
    let images = moments.iter().flat_map(|(_, state)| images_of(state));
    images.map(|image| scene.recover(&image)).collect()
}

/// Finding 5: Head = Tail, and block 1 is a log block. Its revocation is torn: word 0 says buffer block,
/// word 1 still names the new slot. The next recovery finds no log block, and half a transaction stays.
#[test]
fn finding_5_a_revocation_that_is_cut_off_leaves_half_a_transaction() {
    let script = [commit(&[(1, 1), (2, 2)])];
    let step = commit(&[(1, 11), (2, 12)]);
    let mut scene = Scene::after(printed(rig(8, 8, 12)), &script);
    let before = scene.truth.clone();
    let images = scene
        .images_at_fences(&step)
        .swap_remove(ELEMENT_OF_BLOCK_1);
    let half = [&scene.truth[..2], &before[2..]].concat();
    assert!(scene.recover_all(&images).contains(&Ok(before)));
    let mut found = images
        .iter()
        .flat_map(|image| recover_cut_off(&scene, image));
    assert!(
        found.any(|found| found == Ok(half.clone())),
        "block 1 alone is new"
    );
}

#[test]
fn recoveries_of_the_default_protocol_may_be_cut_off_too() {
    let scripts = [
        (
            8,
            vec![commit(&[(1, 1), (2, 2)])],
            commit(&[(1, 11), (2, 12), (3, 13)]),
        ),
        (
            8,
            vec![commit(&[(1, 1)]), TestStep::Flush],
            commit(&[(2, 3), (1, 2)]),
        ),
        (4, freed_entries(), commit(&[(5, 9), (3, 10)])),
        (4, freed_entries(), TestStep::Read(5)),
        (4, freed_entries(), TestStep::Flush),
    ];
    let mut recoveries = 0;
    for (slots, script, step) in scripts {
        let mut scene = Scene::after(rig(slots, 8, 12), &script);
        let before = scene.truth.clone();
        for image in scene.images_at_fences(&step).concat() {
            for found in recover_cut_off(&scene, &image) {
                let found = found.expect("it recovers");
                assert!(found == before || found == scene.truth, "{step:?}");
                recoveries += 1;
            }
        }
    }
    assert!(recoveries > 1000, "{recoveries}");
}

/// Does `step` in a process that is killed before its event of that number, if there are so many; then
/// opens the engine in a new one over the same memory, where all stores are visible.
fn after_a_kill(rig: &Rig, script: &[TestStep], step: &TestStep, event: usize) -> Option<Scene> {
    let scene = Scene::after(rig.clone(), script);
    let left = Mutex::new(event);
    scene.shadow.set_hook(Some(Arc::new(move |_| {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        if *left == 0 {
            // A panic without the message.
            std::panic::resume_unwind(Box::new("killed"));
        }
        *left -= 1;
    })));
    let (rig, disk, shadow) = (scene.rig.clone(), scene.disk.clone(), scene.shadow.clone());
    let mut truth = scene.truth.clone();
    // A thread of its own: what it has flushed, no fence of another one waits for.
    let killed = std::thread::scope(|scope| {
        let process = scope.spawn(move || rig.act(&*scene.engine, step, &mut truth));
        process.join().is_err()
    });
    if !killed {
        return None;
    }
    shadow.set_hook(None);
    shadow.end_threads();
    let region = Region::on_shadow(shadow.clone());
    let mut visible = vec![0; region.len() as usize];
    region.read(0, &mut visible);
    let backing = Backing::from_store(disk.clone());
    let engine = open(scene.rig.name, region, backing, &scene.rig.options);
    let mut scene = Scene {
        rig: scene.rig,
        disk,
        shadow,
        engine: engine.expect("it recovers"),
        truth: Content::new(),
    };
    scene.truth = scene.recover(&visible).expect("it recovers");
    Some(scene)
}

/// Kills a process before each event of a step, and cuts the power before each fence of the next
/// process: it leaves what was there before that fence's operation, or after it. Returns how many images
/// there were.
fn kills_then_cuts(rig: &Rig, script: &[TestStep], killed: &TestStep) -> usize {
    let next = [
        commit(&[(6, 31), (7, 32)]),
        TestStep::Read(8),
        commit(&[(7, 33)]),
        TestStep::Flush,
    ];
    let (mut images, mut event) = (0, 0);
    while let Some(mut scene) = after_a_kill(rig, script, killed, event) {
        for step in &next {
            let before = scene.truth.clone();
            for image in scene.images_at_fences(step).concat() {
                let found = scene.recover(&image).expect("it recovers");
                let is_legal = found == before || found == scene.truth;
                assert!(is_legal, "{killed:?} killed at {event}, then {step:?}");
                images += 1;
            }
        }
        event += 1;
    }
    images
}

#[test]
fn the_default_protocol_survives_power_cuts_after_kills() {
    let script = [commit(&[(1, 1), (2, 2)])];
    let step = commit(&[(1, 11), (2, 12)]);
    assert!(kills_then_cuts(&rig(5, 8, 12), &script, &step) > 1000);
    for killed in [TestStep::Read(5), TestStep::Flush, commit(&[(5, 9)])] {
        assert!(kills_then_cuts(&rig(4, 8, 12), &freed_entries(), &killed) > 100);
    }
}

/// Finding 6: a process is killed with Tail stored and its fence not done. The next one sees Tail = Head
/// and fills the slot of a previous version; then a power cut takes Tail back, and recovery goes back to
/// that slot.
#[test]
fn finding_6_a_power_cut_after_a_kill_takes_back_what_recovery_believed() {
    let script = [commit(&[(1, 1), (2, 2)])];
    let step = commit(&[(1, 11), (2, 12)]);
    for rig in [rig(5, 8, 12), printed(rig(5, 8, 12))] {
        let after_kill = |&event: &usize| after_a_kill(&rig, &script, &step, event).is_some();
        let events = (0..).take_while(after_kill).count();
        // The last event comes after the fence.
        let scene = after_a_kill(&rig, &script, &step, events - 2).expect("an event");
        assert!(scene.truth[1] == rig.bytes_of(11), "Tail is seen");
        let mut block = vec![0; 128];
        scene.engine.read(8, &mut block).expect("read");
        let found = scene.recover(scene.shadow.crash_state().durable());
        if rig.options.as_printed {
            // Without this check, block 1 would hold the bytes of block 8.
            let said = found.map(drop).expect_err("blocks 1 and 8");
            assert!(said.contains("two entries name slot 0"), "{said}");
        } else {
            assert!(found == Ok(scene.truth));
        }
    }
}
