//! A power cut at any store, flush or fence of a transaction, and of the recovery after it, leaves the content of before
//! or of after, and checksums and parity that fit.

use std::sync::{Arc, Mutex};

use forebay_pmem::shadow::{ShadowEventKind, ShadowHook};

use super::world::{Disks, INLINE, Image, KEYS, PROGRAMS, Program, Step, heap};
use crate::txb::{Design, Heap};

/// Steps of each program.
const STEPS: usize = 16;
/// One store or flush of so many is looked at.
const ONE_STORE_IN: u32 = 97;
/// The same of fences, each of which is one of every file.
const ONE_FENCE_IN: u32 = 7;

type Content = Vec<Option<u64>>;

/// Images that power cuts might have left, each with the contents that it may have.
#[derive(Default)]
struct Cuts {
    images: Vec<(Image, [Content; 2])>,
}

/// Runs `work`, and at some of its moments adds what a power cut might leave.
fn with_cuts(
    disks: &Disks,
    rng: &mut fastrand::Rng,
    may_be: [&Content; 2],
    work: impl FnOnce(),
) -> Cuts {
    let shadows = Disks(disks.0.iter().map(Arc::clone).collect());
    let cuts = Arc::new(Mutex::new((Cuts::default(), rng.fork())));
    let may_be = may_be.map(Clone::clone);
    let hook: ShadowHook = {
        let cuts = Arc::clone(&cuts);
        Arc::new(move |event| {
            let (cuts, rng) = &mut *cuts.lock().expect("one thread");
            let one_in = match event.kind {
                ShadowEventKind::Fence | ShadowEventKind::Fenced => ONE_FENCE_IN,
                _ => ONE_STORE_IN,
            };
            if rng.u32(..one_in) == 0 {
                cuts.images.push((shadows.sample(rng), may_be.clone()));
            }
        })
    };
    for shadow in &disks.0 {
        shadow.set_hook(Some(Arc::clone(&hook)));
    }
    work();
    for shadow in &disks.0 {
        shadow.set_hook(None);
    }
    drop(hook);
    let (cuts, _) = &mut *cuts.lock().expect("one thread");
    std::mem::take(cuts)
}

/// Opens an image, cutting the power in the middle of that as well.
fn check(design: Design, program: Program, cut: &(Image, [Content; 2]), rng: &mut fastrand::Rng) {
    let (image, may_be) = cut;
    let disks = Disks::of(image);
    let mut opened = None;
    let again = with_cuts(&disks, rng, [&may_be[0], &may_be[1]], || {
        opened = Some(Heap::open(disks.media(design)).expect("a heap").0);
    });
    let mut heap = opened.expect("opened");
    check_content(design, program, &mut heap, may_be);
    let settled = program.content(&heap);
    for (image, _) in again.images {
        let disks = Disks::of(&image);
        let (mut heap, _) = Heap::open(disks.media(design)).expect("a heap");
        check_content(design, program, &mut heap, may_be);
        assert_eq!(program.content(&heap), settled, "what was found stays");
    }
}

fn check_content(design: Design, program: Program, heap: &mut Heap, may_be: &[Content; 2]) {
    let content = program.content(heap);
    assert!(
        may_be.contains(&content),
        "{design}, {program:?}: {content:?}"
    );
    if design.is_inline() {
        let found = heap.verify().expect("verified");
        let put_right = [found.repaired, found.repaired_sums, found.repaired_parity];
        assert_eq!(put_right, [0; 3], "{design}, {program:?}");
        assert_eq!(found.damaged, [0; 0], "{design}, {program:?}");
    }
}

fn every_cut_is_survived(design: Design, program: Program) {
    let (disks, mut heap) = heap(design);
    program.create(&mut heap);
    let mut rng = fastrand::Rng::with_seed(11);
    let mut content = vec![None; KEYS as usize];
    for key in 1..=KEYS / 2 {
        program.insert(&mut heap, 2 * key, key).expect("inserted");
        content[(2 * key - 1) as usize] = Some(key);
    }
    for _ in 0..STEPS {
        let step = Step::random(program, &mut rng);
        let before = content.clone();
        step.apply(&mut content);
        let cuts = with_cuts(&disks, &mut rng, [&before, &content], || {
            step.run(program, &mut heap);
        });
        for cut in &cuts.images {
            check(design, program, cut, &mut rng);
        }
        // What was acknowledged is there after any cut.
        let after = (disks.sample(&mut rng), [content.clone(), content.clone()]);
        check(design, program, &after, &mut rng);
    }
}

#[test]
fn without_redundancy() {
    for program in PROGRAMS {
        every_cut_is_survived(Design::None, program);
    }
}

#[test]
fn with_checksums_of_objects() {
    for program in PROGRAMS {
        every_cut_is_survived(INLINE[0], program);
    }
}

#[test]
fn with_checksums_of_pages() {
    for program in PROGRAMS {
        every_cut_is_survived(INLINE[1], program);
    }
}
