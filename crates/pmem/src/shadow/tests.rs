//! One test a rule of the models.

use super::*;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;

const LIMIT: u64 = 1 << 16;

fn lines(len: u64) -> Shadow {
    Shadow::new(len, ShadowModel::Lines)
}

fn word(value: u64) -> [u8; 8] {
    value.to_le_bytes()
}

fn word_at(image: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(image[index * 8..][..8].try_into().unwrap())
}

/// Every image a crash now could leave, as the words asked for.
fn outcomes(shadow: &Shadow, words: &[usize]) -> BTreeSet<Vec<u64>> {
    let mut outcomes = BTreeSet::new();
    let complete = shadow.crash_state().all_images(LIMIT, |image| {
        outcomes.insert(words.iter().map(|&at| word_at(image, at)).collect());
    });
    assert!(complete);
    outcomes
}

fn set<const N: usize, const M: usize>(of: [[u64; N]; M]) -> BTreeSet<Vec<u64>> {
    of.iter().map(|words| words.to_vec()).collect()
}

#[test]
fn the_view_shows_every_store_at_once() {
    let shadow = Shadow::from_image(&[7; 5000], ShadowModel::Lines);
    shadow.store(4090, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let state = shadow.crash_state();
    assert_eq!(state.durable(), [7; 5000]);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut image = Vec::new();
    state.sample_from(Distribution::Everything, &mut rng, &mut image);
    assert_eq!(image[4088..4100], [7, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 7]);
    assert_eq!(shadow.load_word(4088 / 8).to_ne_bytes(), image[4088..4096]);
}

#[test]
fn cached_stores_of_a_line_leave_a_prefix() {
    let shadow = lines(128);
    shadow.store(0, &word(1));
    shadow.store(8, &word(2));
    shadow.store(0, &word(3));
    let expected = set([[0, 0], [1, 0], [1, 2], [3, 2]]);
    assert_eq!(outcomes(&shadow, &[0, 1]), expected);
}

#[test]
fn cached_stores_of_two_lines_are_independent() {
    let shadow = lines(128);
    shadow.store(0, &word(1));
    shadow.store(64, &word(2));
    let expected = set([[0, 0], [1, 0], [0, 2], [1, 2]]);
    assert_eq!(outcomes(&shadow, &[0, 8]), expected);
}

#[test]
fn a_pair_may_tear_either_way() {
    let shadow = lines(64);
    let pair = u128::from(1u64) | u128::from(2u64) << 64;
    shadow.store(16, &pair.to_le_bytes());
    let expected = set([[0, 0], [1, 0], [0, 2], [1, 2]]);
    assert_eq!(outcomes(&shadow, &[2, 3]), expected);
}

#[test]
fn part_of_a_word_never_tears() {
    let shadow = Shadow::from_image(&[0xff; 64], ShadowModel::Lines);
    shadow.store(2, &[0; 4]);
    let expected = set([[u64::MAX], [0xffff_0000_0000_ffff]]);
    assert_eq!(outcomes(&shadow, &[0]), expected);
}

#[test]
fn streamed_stores_leave_any_words() {
    let shadow = lines(64);
    shadow.stream(0, &[1; 24]);
    assert_eq!(outcomes(&shadow, &[0, 1, 2]).len(), 8);
    shadow.stream(0, &[2; 8]);
    // The first word is old, first or second.
    assert_eq!(outcomes(&shadow, &[0, 1, 2]).len(), 12);
}

#[test]
fn a_fence_alone_makes_streams_durable_but_not_cached_stores() {
    let shadow = lines(128);
    shadow.stream(0, &word(1));
    shadow.store(64, &word(2));
    shadow.fence().unwrap();
    assert_eq!(outcomes(&shadow, &[0, 8]), set([[1, 0], [1, 2]]));
}

#[test]
fn flush_and_fence_make_durable_what_was_stored_before_the_flush() {
    let shadow = lines(128);
    shadow.store(0, &word(1));
    shadow.flush(0, 8);
    shadow.store(0, &word(2));
    assert_eq!(outcomes(&shadow, &[0]), set([[0], [1], [2]]));
    shadow.fence().unwrap();
    assert_eq!(outcomes(&shadow, &[0]), set([[1], [2]]));
    shadow.fence().unwrap();
    assert_eq!(outcomes(&shadow, &[0]), set([[1], [2]]));
    shadow.flush(0, 1);
    shadow.fence().unwrap();
    assert_eq!(outcomes(&shadow, &[0]), set([[2]]));
    assert_eq!(shadow.crash_state().pending_units(), 0);
}

#[test]
fn a_flush_covers_every_line_it_touches() {
    let shadow = lines(256);
    for line in 0..4 {
        shadow.store(line * 64, &word(1));
    }
    shadow.flush(100, 64);
    shadow.fence().unwrap();
    let state = shadow.crash_state();
    let durable: Vec<u64> = (0..4)
        .map(|line| word_at(state.durable(), line * 8))
        .collect();
    assert_eq!(durable, [0, 1, 1, 0]);
}

#[test]
fn a_fence_covers_its_own_thread_only() {
    let shadow = Arc::new(lines(192));
    shadow.stream(0, &word(1));
    shadow.store(64, &word(2));
    shadow.flush(64, 8);
    let other = Arc::clone(&shadow);
    std::thread::spawn(move || {
        other.stream(128, &word(3));
        other.fence().unwrap();
    })
    .join()
    .unwrap();
    let expected = set([[0, 0, 3], [1, 0, 3], [0, 2, 3], [1, 2, 3]]);
    assert_eq!(outcomes(&shadow, &[0, 8, 16]), expected);
    shadow.fence().unwrap();
    assert_eq!(outcomes(&shadow, &[0, 8, 16]), set([[1, 2, 3]]));
}

#[test]
fn a_flush_captures_what_other_threads_cached() {
    let shadow = Arc::new(lines(64));
    let other = Arc::clone(&shadow);
    std::thread::spawn(move || other.store(0, &word(1)))
        .join()
        .unwrap();
    shadow.flush(0, 8);
    shadow.fence().unwrap();
    assert_eq!(outcomes(&shadow, &[0]), set([[1]]));
}

#[test]
fn what_ended_threads_streamed_is_captured_by_a_flush() {
    let shadow = lines(64);
    std::thread::scope(|scope| scope.spawn(|| shadow.stream(0, &word(1))).join()).unwrap();
    shadow.flush(0, 8);
    shadow.fence().unwrap();
    assert_eq!(outcomes(&shadow, &[0]), set([[0], [1]]));
    shadow.end_threads();
    shadow.flush(0, 8);
    assert_eq!(outcomes(&shadow, &[0]), set([[0], [1]]));
    shadow.fence().unwrap();
    assert_eq!(outcomes(&shadow, &[0]), set([[1]]));
}

#[test]
fn a_durable_store_hides_older_pending_ones() {
    let shadow = Arc::new(lines(64));
    let other = Arc::clone(&shadow);
    std::thread::spawn(move || other.store(0, &word(1)))
        .join()
        .unwrap();
    shadow.stream(0, &word(2));
    shadow.fence().unwrap();
    assert_eq!(outcomes(&shadow, &[0]), set([[2]]));
}

#[test]
fn pages_leave_a_prefix_of_each_sector() {
    let shadow = Shadow::new(8192, ShadowModel::Pages);
    shadow.store(0, &[1; 16]);
    shadow.stream(8, &word(2));
    shadow.store(512, &word(3));
    shadow.flush(0, 8192);
    let one = word_at(&[1; 8], 0);
    let first = [[0, 0], [one, 0], [one, one], [one, 2]];
    let expected = first.map(|[a, b]| [vec![a, b, 0], vec![a, b, 3]]);
    let expected: BTreeSet<Vec<u64>> = expected.into_iter().flatten().collect();
    assert_eq!(outcomes(&shadow, &[0, 1, 64]), expected);
}

#[test]
fn pages_fence_for_every_thread() {
    let shadow = Arc::new(Shadow::new(4096, ShadowModel::Pages));
    let other = Arc::clone(&shadow);
    std::thread::spawn(move || other.store(8, &word(5)))
        .join()
        .unwrap();
    shadow.fence().unwrap();
    assert_eq!(outcomes(&shadow, &[1]), set([[5]]));
}

#[test]
fn a_failed_fence_makes_nothing_durable() {
    let shadow = lines(64);
    shadow.set_fence_failure(FenceFailure::After(1));
    shadow.fence().unwrap();
    shadow.stream(0, &word(1));
    assert!(shadow.fence().is_err());
    assert_eq!(outcomes(&shadow, &[0]), set([[0], [1]]));
    shadow.fence().unwrap();
    assert_eq!(outcomes(&shadow, &[0]), set([[1]]));
    shadow.set_fence_failure(FenceFailure::From(0));
    assert!(shadow.fence().is_err());
    assert!(shadow.fence().is_err());
}

#[test]
fn the_hook_comes_before_the_effect_and_after_a_fence() {
    let shadow = Arc::new(lines(64));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (weak, log) = (Arc::downgrade(&shadow), Arc::clone(&seen));
    shadow.set_hook(Some(Arc::new(move |event: ShadowEvent| {
        let pending = weak.upgrade().unwrap().crash_state().pending_units();
        log.lock()
            .unwrap()
            .push((event.kind, event.offset, pending));
    })));
    shadow.store(8, &word(1));
    shadow.flush(8, 8);
    shadow.fence().unwrap();
    shadow.set_hook(None);
    shadow.stream(0, &word(1));
    let expected = [
        (ShadowEventKind::Store, 8, 0),
        (ShadowEventKind::Flush, 8, 1),
        (ShadowEventKind::Fence, 0, 1),
        (ShadowEventKind::Fenced, 0, 0),
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn the_count_of_images_is_that_of_the_enumeration() {
    let shadow = lines(192);
    shadow.store(0, &[1; 24]);
    shadow.store(0, &word(9));
    shadow.stream(64, &[2; 16]);
    shadow.stream(72, &word(3));
    let state = shadow.crash_state();
    // (1 + 7 + 1) prefixes, 2 and 3 choices of streamed words.
    assert!((state.image_count_log2() - 54f64.log2()).abs() < 1e-9);
    assert!(state.is_exhaustible(54) && !state.is_exhaustible(53));
    let images = AtomicUsize::new(0);
    assert!(state.all_images(54, |_| {
        images.fetch_add(1, Ordering::Relaxed);
    }));
    assert_eq!(images.into_inner(), 54);
    assert!(!state.all_images(53, |_| panic!("over the limit")));
}

#[test]
fn every_sample_is_one_of_all_images() {
    for model in [ShadowModel::Lines, ShadowModel::Pages] {
        let shadow = Shadow::new(2048, model);
        shadow.store(0, &[1; 24]);
        shadow.store(8, &[2; 16]);
        shadow.stream(600, &[4; 16]);
        shadow.flush(0, 64);
        shadow.store(16, &word(5));
        let state = shadow.crash_state();
        let mut all = BTreeSet::new();
        assert!(state.all_images(LIMIT, |image| {
            all.insert(image.to_vec());
        }));
        let mut sampled = BTreeSet::new();
        let mut rng = fastrand::Rng::with_seed(3);
        let mut image = Vec::new();
        for distribution in Distribution::ALL {
            for _ in 0..200 {
                state.sample_from(distribution, &mut rng, &mut image);
                assert!(all.contains(&image), "{distribution:?} under {model:?}");
                sampled.insert(image.clone());
            }
        }
        assert!(sampled.len() * 2 > all.len(), "{model:?} is hardly sampled");
    }
}

#[test]
fn a_failed_fence_drops_pages_until_they_are_stored_to_again() {
    let shadow = Shadow::new(3 * PAGE_BYTES as u64, ShadowModel::Pages);
    let (first, second) = (PAGE_BYTES / 8, 2 * PAGE_BYTES / 8);
    shadow.store(0, &word(1));
    shadow.fence().unwrap();
    shadow.store(0, &word(2));
    shadow.store(PAGE_BYTES as u64, &word(3));
    shadow.set_fence_failure(FenceFailure::After(0));
    shadow.fence().unwrap_err();
    assert_eq!(shadow.load_word(0), 2, "loads go on seeing it");
    shadow.store(2 * PAGE_BYTES as u64, &word(4));
    shadow.fence().unwrap();
    // It may have arrived or not, each page for itself; what came later has arrived.
    let expected = set([[1, 0, 4], [2, 0, 4], [1, 3, 4], [2, 3, 4]]);
    assert_eq!(outcomes(&shadow, &[0, first, second]), expected);
    // Any byte of the page will do, the same value too: the page is written whole.
    shadow.store(PAGE_BYTES as u64 - 8, &word(0));
    shadow.fence().unwrap();
    let expected = set([[2, 0, 4], [2, 3, 4]]);
    assert_eq!(outcomes(&shadow, &[0, first, second]), expected);
}

#[test]
fn a_failed_fence_drops_no_lines() {
    let shadow = lines(64);
    shadow.store(0, &word(1));
    shadow.flush(0, 8);
    shadow.set_fence_failure(FenceFailure::After(0));
    shadow.fence().unwrap_err();
    shadow.fence().unwrap();
    assert_eq!(outcomes(&shadow, &[0]), set([[1]]));
}

#[test]
fn a_lost_page_is_met_by_the_next_access_and_by_each_mapping_anew() {
    const PAGE: u64 = PAGE_BYTES as u64;
    let shadow = std::sync::Arc::new(lines(3 * PAGE));
    let region = crate::Region::on_shadow(shadow.clone());
    region.store(0, &[7; 2 * PAGE_BYTES]);
    shadow.lose_page(PAGE);
    assert!(region.media_failure().is_none(), "nobody has met it");
    region.fence().unwrap();
    let mut bytes = [9; 2];
    region.read(PAGE - 1, &mut bytes);
    assert_eq!(bytes, [7, 0]);
    assert_eq!(region.media_errors(), [PAGE]);
    assert!(!region.has_media_error(0, PAGE_BYTES) && region.has_media_error(PAGE, 1));
    region.fence().unwrap_err();
    let next = crate::Region::on_shadow(shadow.clone());
    next.fence().unwrap();
    next.store_u64(2 * PAGE - 8, 1);
    assert_eq!(next.media_errors(), [PAGE], "a store meets it too");
    assert_eq!(shadow.lost_pages(), [PAGE]);
}
