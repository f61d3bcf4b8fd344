//! What power cuts, failed writes and failed syncs leave, and nothing else.

use std::collections::BTreeSet;

use super::*;

fn disk() -> VolatileDisk {
    VolatileDisk::new("test", &[0; 4], 2)
}

fn write(disk: &VolatileDisk, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let results = disk.write_runs(&[WriteRun { offset, bytes }]);
    results.into_iter().collect()
}

/// The sync after the one that fails does not.
fn write_and_fail_to_sync(disk: &VolatileDisk) {
    write(disk, 0, &[1; 4]).unwrap();
    disk.fail_next(0, 1);
    assert!(disk.sync().is_err());
    disk.sync().unwrap();
}

fn read<const LEN: usize>(disk: &VolatileDisk, offset: u64) -> [u8; LEN] {
    let mut out = [9; LEN];
    disk.read_at(offset, &mut out).unwrap();
    out
}

fn outcomes(disk: &VolatileDisk) -> BTreeSet<Vec<u8>> {
    let mut rng = fastrand::Rng::with_seed(7);
    let state = disk.crash_state();
    (0..300).map(|_| state.sample_bytes(&mut rng)).collect()
}

fn all(images: &[[u8; 4]]) -> BTreeSet<Vec<u8>> {
    images.iter().map(|image| image.to_vec()).collect()
}

/// The first bytes of the first two sectors of a sparse disk, in all the ways a cut was seen to leave them.
fn sparse_outcomes(disk: &VolatileDisk) -> BTreeSet<Vec<u8>> {
    let mut rng = fastrand::Rng::with_seed(3);
    let state = disk.crash_state();
    let outcomes = (0..200).map(|_| {
        let bytes = state.sample(&mut rng).to_vec(1024);
        vec![bytes[0], bytes[512]]
    });
    outcomes.collect()
}

fn sparse() -> VolatileDisk {
    VolatileDisk::sparse("test", 1 << 20, Content::default()).telling_holes()
}

#[test]
fn unsynced_sectors_survive_each_for_itself_and_in_any_order() {
    let disk = disk();
    write(&disk, 0, &[1; 4]).unwrap();
    write(&disk, 0, &[2; 2]).unwrap();
    let expected = [
        [0; 4],
        [1, 1, 0, 0],
        [2, 2, 0, 0],
        [0, 0, 1, 1],
        [1; 4],
        [2, 2, 1, 1],
    ];
    assert_eq!(outcomes(&disk), all(&expected));
    disk.sync().unwrap();
    assert_eq!(outcomes(&disk), all(&[[2, 2, 1, 1]]));
}

#[test]
fn a_failed_sync_is_never_made_good_by_a_later_one() {
    let disk = disk();
    write_and_fail_to_sync(&disk);
    assert_eq!(outcomes(&disk).len(), 4);
    write(&disk, 0, &[3; 4]).unwrap();
    disk.sync().unwrap();
    assert_eq!(outcomes(&disk), all(&[[3; 4]]));
}

#[test]
fn what_a_failed_sync_left_in_memory_is_forgotten_for_what_the_medium_has() {
    for seed in 0..20 {
        let disk = disk().with_seed(seed);
        write_and_fail_to_sync(&disk);
        assert!(disk.forget_cached().is_empty());
        assert_eq!(outcomes(&disk), all(&[read(&disk, 0)]));
    }
}

#[test]
fn a_disk_that_pretends_reads_as_written_until_the_power_fails() {
    let disk = disk().with_failed_sync(FailedSync::Pretends);
    write_and_fail_to_sync(&disk);
    assert_eq!(read(&disk, 0), [1; 4]);
    assert_eq!(outcomes(&disk), all(&[[0; 4]]));
}

#[test]
fn a_failed_write_does_half_of_its_work() {
    let disk = disk();
    disk.fail_next(1, 0);
    assert!(write(&disk, 0, &[1; 4]).is_err());
    assert_eq!(read(&disk, 0), [1, 1, 0, 0, 0, 0]);
}

#[test]
fn bytes_are_settled_where_a_crash_leaves_what_reads_see() {
    let disk = disk();
    write(&disk, 1, &[1]).unwrap();
    assert_eq!(disk.settled_bytes(0..2), None);
    assert_eq!(disk.settled_bytes(2..4), Some(vec![0; 2]));
    disk.sync().unwrap();
    assert_eq!(disk.settled_bytes(0..2), Some(vec![0, 1]));
}

#[test]
fn a_mark_is_the_old_one_or_the_new_one() {
    let disk = Arc::new(disk().with_mark(b"old".to_vec()));
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let (weak, noted) = (Arc::downgrade(&disk), Arc::clone(&seen));
    disk.set_hook(Some(Arc::new(move |event| {
        let Some(disk) = weak.upgrade() else { return };
        let mut rng = fastrand::Rng::with_seed(1);
        let mut marks = noted.lock().unwrap();
        marks.extend((0..20).map(|_| (event, disk.crash_state().mark.sample(&mut rng))));
    })));
    let place = disk.mark_place().unwrap();
    place.write(b"new").unwrap();
    let marks = |of: DiskEvent| {
        let seen = seen.lock().unwrap();
        let marks = seen.iter().filter(|(event, _)| *event == of);
        marks.map(|(_, mark)| mark.clone()).collect::<Vec<_>>()
    };
    assert_eq!(marks(DiskEvent::Mark), [b"new", b"old"]);
    assert_eq!(marks(DiskEvent::Synced), [b"new"]);
    assert_eq!(place.read().unwrap(), [b"new"]);
}

#[test]
fn sectors_of_a_sparse_disk_are_lost_or_kept_too() {
    let disk = sparse();
    write(&disk, 0, &[1; 1024]).unwrap();
    let expected = [[0, 0], [0, 1], [1, 0], [1, 1]].map(Vec::from);
    assert_eq!(sparse_outcomes(&disk), expected.into());
    disk.sync().unwrap();
    assert_eq!(sparse_outcomes(&disk), [vec![1, 1]].into());
    write(&disk, 0, &[2; 512]).unwrap();
    write(&disk, 0, &[3; 512]).unwrap();
    let expected = [[1, 1], [2, 1], [3, 1]].map(Vec::from);
    assert_eq!(sparse_outcomes(&disk), expected.into());
}

#[test]
fn zeroing_is_lost_like_writing() {
    let disk = sparse();
    disk.zero_range(0, 1 << 20).unwrap();
    assert_eq!(disk.crash_state().unsynced_sectors(), 0);
    write(&disk, 0, &[1; 1024]).unwrap();
    disk.sync().unwrap();
    disk.zero_range(0, 512).unwrap();
    assert_eq!(
        sparse_outcomes(&disk),
        [[0, 1], [1, 1]].map(Vec::from).into()
    );
    disk.zero_range(700, 4).unwrap();
    assert_eq!(read(&disk, 698), [1, 1, 0, 0, 0, 0, 1]);
}

#[test]
fn a_moment_stays_as_it_was() {
    let disk = sparse();
    write(&disk, 100, &[7; 10]).unwrap();
    disk.sync().unwrap();
    let moment = disk.crash_state();
    write(&disk, 100, &[8; 10]).unwrap();
    disk.sync().unwrap();
    let old = moment.sample(&mut fastrand::Rng::with_seed(1));
    assert_eq!(old.to_vec(111)[99..], [0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
    assert!(disk.run_at(64 << 10, 4096).is_hole);
    assert!(!disk.run_at(0, 4096).is_hole);
}

#[test]
fn equal_contents_are_equal_however_they_came_about() {
    let mut content = Content::default();
    content.write(4000, &[1; 200]);
    assert_eq!(content, Content::of(&content.to_vec(8192)));
    content.write(4000, &[0; 200]);
    assert_eq!(content, Content::default());
}
