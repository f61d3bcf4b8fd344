//! Every tracker below the public interface: threads store all the time while passes, syncs and verifications run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use forebay_dax::{CreateOptions, DaxPool, DaxRegion, ErrorKind, OpenOptions, TrackerKind};

const PAGE: u64 = 4096;
const UNIT: u64 = 2 << 20;

fn word(region: &DaxRegion, page: u64) -> &AtomicU64 {
    &region.words()[(page * PAGE) as usize / size_of::<AtomicU64>()]
}

fn open(pool: &DaxPool, kind: TrackerKind) -> Option<DaxRegion> {
    let options = OpenOptions::default()
        .period(Duration::from_millis(100))
        .tracker(kind);
    match DaxRegion::open(pool, "r", &options) {
        Ok(region) => Some(region),
        Err(error) if matches!(error.kind(), ErrorKind::Tracker { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Threads store while the region is synced; all of it is there, and protected, at the end.
fn storm(parent: &str, width: u32, kind: TrackerKind) {
    let directory = tempfile::tempdir_in(parent).unwrap();
    let members: Vec<_> = (0..=width)
        .map(|number| directory.path().join(number.to_string()))
        .collect();
    let pool = DaxPool::new(&members, [2; 16]);
    let size = u64::from(width) * UNIT;
    DaxRegion::create(&pool, "r", &CreateOptions::new(size).width(width)).unwrap();
    let Some(region) = open(&pool, kind) else {
        return;
    };
    assert_eq!(region.status().tracker, kind);
    let pages = size / PAGE;
    let is_over = AtomicBool::new(false);
    let stores = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|seed| {
                let (region, is_over) = (&region, &is_over);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed);
                    let mut stores = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        // One page is hot, the others are stored to now and then.
                        let page = if rng.bool() { 1 } else { rng.u64(..pages) };
                        word(region, page).fetch_add(1, Ordering::Relaxed);
                        stores += 1;
                    }
                    stores
                })
            })
            .collect();
        // A sync of a page that cannot be held is tried many times before it is given up.
        let rounds = if kind == TrackerKind::Compare { 4 } else { 30 };
        for round in 0..rounds {
            let start = round * 13 % pages;
            match region.sync(start * PAGE..(start + 8).min(pages) * PAGE) {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), ErrorKind::NeverRested { .. }) => {
                    assert_eq!(kind, TrackerKind::Compare, "{error}");
                }
                Err(error) => panic!("{kind}: {error}"),
            }
            let verified = region.verify(0..size).unwrap();
            assert_eq!(
                (verified.repaired, &verified.damaged[..]),
                (0, &[][..]),
                "{kind}"
            );
        }
        is_over.store(true, Ordering::Relaxed);
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum::<u64>()
    });
    region.sync(0..size).unwrap();
    let verified = region.verify(0..size).unwrap();
    assert_eq!(
        (verified.looked_at, verified.repaired),
        (pages, 0),
        "{kind}"
    );
    let status = region.status();
    assert_eq!((status.window.waiting_pages, status.damaged.len()), (0, 0));
    assert_eq!(status.last_failure, None);
    let sealed = region.close().unwrap();
    assert_eq!((sealed.repaired_pages, sealed.unverified_pages), (0, 0));
    let region = open(&pool, kind).unwrap();
    let found: u64 = (0..pages)
        .map(|page| word(&region, page).load(Ordering::Relaxed))
        .sum();
    assert_eq!(found, stores, "{kind}");
}

#[test]
fn no_store_is_lost_and_none_is_called_damage() {
    for kind in TrackerKind::ALL {
        storm("/dev/shm", 1, kind);
        storm("/dev/shm", 2, kind);
        storm("/tmp", 1, kind);
    }
}
