//! Commits that nobody has synced, and what makes them durable.

use forebay::{Backing, Pool};

use crate::rig::{BLOCK, Place};

#[test]
fn an_empty_commit_that_is_to_be_durable_is_a_sync() {
    let Some(place) = Place::find("an_empty_commit_that_is_to_be_durable_is_a_sync") else {
        return;
    };
    // Without its thread, which would sync after a while.
    let pool = Pool::create(&place.options().background(false)).expect("create");
    let volume = pool.attach(Backing::memory(1 << 20)).expect("attach");
    let flushes = || pool.stats().ssd.expect("it is one").flushes;
    let before = flushes();
    let write = || volume.write_unsynced(1, &[7; BLOCK]).expect("write");
    let empty = || volume.begin().commit().expect("commit");
    write();
    volume.begin().commit_unsynced().expect("commit");
    assert_eq!(flushes() - before, 0);
    empty();
    assert_eq!(flushes() - before, 1);
    empty();
    assert_eq!(flushes() - before, 1, "all was durable");
    write();
    let mut of_no_bytes = volume.begin();
    of_no_bytes.write_at(0, &[]).expect("write");
    of_no_bytes.commit().expect("commit");
    assert_eq!(flushes() - before, 2);
}
