//! Copies of a table's line that differ: which one counts when the pool is opened, and what is left of the wrong one.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use forebay::unstable::{MediumArea, medium_areas, table_bytes};
use forebay_pmem::shadow::{CrashState, Distribution, Fault, Shadow, ShadowEventKind};

use crate::halves::{Mirror, noise};

/// So many that a line of the table has several.
const FILLED: u64 = 60;
/// Crashes that are looked at.
const CRASHES_MAX: usize = 24;

/// A mirror with blocks whose table is on both members.
fn filled() -> Mirror {
    let mirror = Mirror::new();
    (0..FILLED).for_each(|block| mirror.put(block, block));
    mirror.pool.checkpoint().expect("checkpoint");
    mirror
}

fn expected(changed: &[(u64, u64)]) -> Vec<(u64, Vec<u8>)> {
    let mut seeds: Vec<(u64, u64)> = (0..FILLED).map(|block| (block, block)).collect();
    for (block, seed) in changed {
        seeds[*block as usize] = (*block, *seed);
    }
    seeds
        .into_iter()
        .map(|(block, seed)| (block, noise(seed)))
        .collect()
}

/// Where the seals are in each member.
fn seals(mirror: &Mirror) -> Range<u64> {
    let areas = medium_areas(&mirror.pool);
    let is_seals = |(area, _): &(MediumArea, _)| *area == MediumArea::Seals;
    areas.into_iter().find(is_seals).expect("a mirror").1
}

/// The lines of the table that differ between the members, as a power cut leaves them.
fn differing_lines(mirror: &Mirror) -> Vec<u64> {
    let durable = |which: usize| mirror.members[which].crash_state().durable().to_vec();
    let (one, other) = (durable(0), durable(1));
    let differs = |line: &u64| {
        let bytes = *line as usize..*line as usize + 64;
        one[bytes.clone()] != other[bytes]
    };
    table_bytes(&mirror.pool)
        .step_by(64)
        .filter(differs)
        .collect()
}

fn open_images(mirror: &Mirror, expected: &[(u64, Vec<u8>)]) {
    let states = [0, 1].map(|which| mirror.members[which].crash_state());
    mirror.images_read(&[states[0].durable(), states[1].durable()], expected);
}

#[test]
fn a_lost_write_of_the_table_is_told_from_what_was_sent_last() {
    for member in 0..2 {
        let mirror = filled();
        let table = table_bytes(&mirror.pool);
        let (offset, len) = (table.start, table.end - table.start);
        mirror.members[member].inject(Fault::LostWrite { offset, len });
        mirror.put(0, 100);
        let crashes = watch(&mirror.members);
        mirror.pool.checkpoint().expect("checkpoint");
        mirror.members.iter().for_each(|it| it.set_hook(None));
        assert_eq!(mirror.members[member].struck(), 1);
        assert_eq!(differing_lines(&mirror).len(), 1);
        open_images(&mirror, &expected(&[(0, 100)]));
        each_crash_reads(&mirror, &crashes, &expected(&[(0, 100)]));
    }
}

/// The line is not among those that are written next, so both copies stay as they are until the pool is opened.
#[test]
fn a_flipped_line_and_a_misdirected_one_count_for_nothing() {
    for member in 0..2 {
        let mirror = filled();
        let table = table_bytes(&mirror.pool);
        let lines: Vec<u64> = used_lines(&mirror);
        for (at, line) in (0..).zip(&lines) {
            mirror.flip((&mirror.members[member], *line), at * 5 % 64);
        }
        open_images(&mirror, &expected(&[]));
        let mirror = filled();
        let (offset, len) = (table.start, table.end - table.start);
        let target = lines[lines.len() - 1];
        mirror.members[member].inject(Fault::MisdirectedWrite {
            offset,
            len,
            target,
        });
        mirror.put(0, 100);
        mirror.pool.checkpoint().expect("checkpoint");
        open_images(&mirror, &expected(&[(0, 100)]));
    }
}

fn used_lines(mirror: &Mirror) -> Vec<u64> {
    let durable = mirror.members[0].crash_state().durable().to_vec();
    let is_used = |line: &u64| {
        let line = *line as usize;
        durable[line..line + 64].iter().any(|byte| *byte != 0)
    };
    table_bytes(&mirror.pool)
        .step_by(64)
        .filter(is_used)
        .collect()
}

#[test]
fn a_lost_seal_is_no_loss_and_a_scrub_finds_it() {
    for member in 0..2 {
        let mirror = filled();
        let Range { start, end } = seals(&mirror);
        let (offset, len) = (start, end - start);
        mirror.members[member].inject(Fault::LostWrite { offset, len });
        mirror.put(0, 100);
        mirror.pool.checkpoint().expect("checkpoint");
        assert_eq!(mirror.members[member].struck(), 1);
        open_images(&mirror, &expected(&[(0, 100)]));
        mirror.scrub_finds(1);
        open_images(&mirror, &expected(&[(0, 100)]));
        let flipped = mirror.members[member].clone();
        mirror.flip((&flipped, start), 2);
        mirror.scrub_finds(1);
    }
}

type Crashes = Arc<Mutex<Vec<[CrashState; 2]>>>;

/// What a crash may leave of both members from now on, at each event.
fn watch(members: &[Arc<Shadow>]) -> Crashes {
    let crashes = Crashes::default();
    for member in members {
        let (seen, both) = (crashes.clone(), members.to_vec());
        member.set_hook(Some(Arc::new(move |_| {
            let states = [both[0].crash_state(), both[1].crash_state()];
            seen.lock().expect("no panic").push(states);
        })));
    }
    crashes
}

fn each_crash_reads(mirror: &Mirror, crashes: &Crashes, expected: &[(u64, Vec<u8>)]) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut images = [Vec::new(), Vec::new()];
    let crashes = crashes.lock().expect("no panic");
    for states in crashes.iter().step_by(crashes.len() / CRASHES_MAX + 1) {
        for distribution in Distribution::ALL {
            for (state, image) in states.iter().zip(&mut images) {
                state.sample_from(distribution, &mut random, image);
            }
            mirror.images_read(&[&images[0], &images[1]], expected);
        }
    }
}

/// A crash in the checkpoint after the one that lost a line, when its twin may be torn.
#[test]
fn a_wrong_copy_is_made_right_before_its_twin_is_overwritten() {
    for member in 0..2 {
        let mirror = filled();
        let Range { start, end } = table_bytes(&mirror.pool);
        let (offset, len) = (start, end - start);
        mirror.members[member].inject(Fault::LostWrite { offset, len });
        mirror.put(0, 100);
        mirror.pool.checkpoint().expect("checkpoint");
        assert_eq!(differing_lines(&mirror).len(), 1);
        mirror.members[member].evict(offset, len);
        let changed: Vec<(u64, u64)> = (1..FILLED).map(|block| (block, 100 + block)).collect();
        changed
            .iter()
            .for_each(|(block, seed)| mirror.put(*block, *seed));
        let crashes = watch(&mirror.members);
        mirror.pool.checkpoint().expect("checkpoint");
        mirror.members.iter().for_each(|it| it.set_hook(None));
        assert_eq!(differing_lines(&mirror).len(), 0);
        let changed: Vec<(u64, u64)> = [(0, 100)].into_iter().chain(changed).collect();
        each_crash_reads(&mirror, &crashes, &expected(&changed));
    }
}

/// Recovery is met by power cuts, too.
#[test]
fn what_recovery_makes_equal_stays_what_it_was() {
    let mirror = filled();
    let Range { start, end } = table_bytes(&mirror.pool);
    let (offset, len) = (start, end - start);
    mirror.members[0].inject(Fault::LostWrite { offset, len });
    mirror.put(0, 100);
    mirror.pool.checkpoint().expect("checkpoint");
    mirror.put(1, 101);
    let images = [0, 1].map(|which| mirror.members[which].crash_state().durable().to_vec());
    let shadows: Vec<Arc<Shadow>> = images
        .iter()
        .map(|image| Arc::new(Shadow::from_image(image, mirror.members[0].model())))
        .collect();
    let crashes = watch(&shadows);
    let on = shadows.iter().cloned().map(forebay::Region::on_shadow);
    let runtime = crate::halves::options().runtime_options().clone();
    drop(forebay::Pool::open_on(on.collect(), runtime).expect("open"));
    shadows.iter().for_each(|shadow| shadow.set_hook(None));
    each_crash_reads(&mirror, &crashes, &expected(&[(0, 100), (1, 101)]));
}

/// Kills the process that does this as it begins its fence number `nth` of the first member. False if it has none.
fn kill_at_fence(members: &[Arc<Shadow>], nth: usize, run: impl FnOnce()) -> bool {
    let fences = Arc::new(AtomicUsize::new(0));
    let seen = fences.clone();
    members[0].set_hook(Some(Arc::new(move |event| {
        let is_fence = event.kind == ShadowEventKind::Fence;
        assert!(!is_fence || seen.fetch_add(1, Ordering::Relaxed) != nth);
    })));
    let is_killed = catch_unwind(AssertUnwindSafe(run)).is_err();
    members[0].set_hook(None);
    members.iter().for_each(|it| it.end_threads());
    assert_eq!(is_killed, fences.load(Ordering::Relaxed) > nth);
    is_killed
}

fn open_on(members: &[Arc<Shadow>]) {
    let on = members.iter().cloned().map(forebay::Region::on_shadow);
    let runtime = crate::halves::options().runtime_options().clone();
    drop(forebay::Pool::open_on(on.collect(), runtime).expect("open"));
}

/// Opens what a killed process left, and loses what that writes of the table on one member.
fn reopened_with_a_lost_write(mirror: &Mirror, members: &[Arc<Shadow>], member: usize) {
    let Range { start, end } = table_bytes(&mirror.pool);
    let (offset, len) = (start, end - start);
    members[member].inject(Fault::LostWrite { offset, len });
    open_on(members);
    let states = [0, 1].map(|which: usize| members[which].crash_state());
    let images = [states[0].durable(), states[1].durable()];
    mirror.images_read(&images, &expected(&[(0, 100)]));
}

/// What a killed process has sealed is seen by the next one, and may be in a cache only.
#[test]
fn an_old_seal_goes_with_its_line_also_after_a_kill() {
    for member in 0..2 {
        let mirror = filled();
        mirror.put(0, 100);
        let checkpoint = || mirror.pool.checkpoint().expect("killed");
        assert!(kill_at_fence(&mirror.members, 0, checkpoint));
        reopened_with_a_lost_write(&mirror, &mirror.members, member);
    }
}

#[test]
fn an_old_seal_goes_with_its_line_also_after_a_kill_in_recovery() {
    for member in 0..2 {
        for nth in 0.. {
            let mirror = filled();
            mirror.put(0, 100);
            let copy = |it: &Arc<Shadow>| {
                let state = it.crash_state();
                Arc::new(Shadow::from_image(state.durable(), it.model()))
            };
            let members: Vec<Arc<Shadow>> = mirror.members.iter().map(copy).collect();
            if !kill_at_fence(&members, nth, || open_on(&members)) {
                assert!(nth > 2, "recovery has more fences");
                break;
            }
            reopened_with_a_lost_write(&mirror, &members, member);
        }
    }
}
