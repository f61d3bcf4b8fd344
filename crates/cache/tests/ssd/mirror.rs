//! A pool on two files that hold the same: one is taken out, and copied anew.

use std::ops::ControlFlow;
use std::path::PathBuf;

use forebay::{Medium, Member, MemberState, Pool, PoolOptions, RebuildOptions, Redundancy};

use crate::rig::*;

fn states(pool: &Pool) -> Vec<MemberState> {
    let members: Vec<Member> = pool.members();
    members.iter().map(|member| member.state).collect()
}

fn members(place: &Place) -> [PathBuf; 2] {
    [place.path(), place.file("second")]
}

#[test]
fn a_member_that_was_out_is_stale_until_it_is_copied_anew() {
    let Some(place) = Place::find("a_member_that_was_out_is_stale") else {
        return;
    };
    let paths = members(&place);
    let options = place.options().member(&paths[1]);
    let pool = Pool::create(&options.redundancy(Redundancy::Mirror)).expect("create");
    assert_eq!(pool.redundancy(), Redundancy::Mirror);
    assert_eq!(states(&pool), [MemberState::In; 2]);
    let disk = place.image("disk", 1 << 20);
    let volume = pool.attach(image(&disk)).expect("attach");
    volume.write(0, &bytes(1)).expect("write");
    pool.fail_member(1).expect("fail");
    volume.write(0, &bytes(2)).expect("write");
    let refused = pool.replace_member(1, &paths[1], &RebuildOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    });
    assert!(
        refused
            .expect_err("served")
            .to_string()
            .contains("end the daemon")
    );
    drop(volume);
    pool.close().expect("close");

    let open = |paths: &[PathBuf]| Pool::open_with(paths, runtime().background(false));
    let pool = open(&[paths[1].clone(), paths[0].clone()]).expect("open");
    assert_eq!(states(&pool), [MemberState::In, MemberState::Out]);
    assert_eq!(pool.stats().members_out, 1);
    let volume = pool.attach(image(&disk)).expect("attach");
    assert_eq!(read(&volume, 0), bytes(2));
    drop(volume);
    let called_off = pool.replace_member(1, &paths[1], &RebuildOptions::default(), &mut |_| {
        ControlFlow::Break(())
    });
    assert!(
        called_off
            .expect_err("called off")
            .to_string()
            .contains("called off")
    );
    assert_eq!(states(&pool), [MemberState::In, MemberState::Out]);
    pool.close().expect("close, also then");
    let pool = open(&paths[..1]).expect("open");
    let (mut told, options) = (0, RebuildOptions::default().force(true));
    let replaced = pool.replace_member(1, &paths[1], &options, &mut |progress| {
        told = progress.done_bytes;
        ControlFlow::Continue(())
    });
    replaced.expect("replace");
    assert!(told > 0);
    assert_eq!(states(&pool), [MemberState::In; 2]);
    pool.close().expect("close");

    let alone = open(&paths[1..]).expect_err("the other one counts");
    assert!(alone.to_string().contains("missing"), "{alone}");
    let pool = open(&paths).expect("open");
    assert_eq!(states(&pool), [MemberState::In; 2]);
    pool.close().expect("close");
    let gone = runtime().background(false).without_missing(true);
    let pool = Pool::open_with(&paths[1..], gone).expect("open");
    let volume = pool.attach(image(&disk)).expect("attach");
    assert_eq!(read(&volume, 0), bytes(2));
}

/// A member of another pool has something of its own.
#[test]
fn a_member_of_another_pool_is_not_written_over() {
    let Some(place) = Place::find("a_member_of_another_pool") else {
        return;
    };
    let create = |first: &str, second: &str| {
        let first = place.file(first);
        let options = PoolOptions::new(&first, POOL_BYTES).medium(Medium::Ssd);
        let options = options
            .runtime(runtime())
            .member(place.file(second))
            .redundancy(Redundancy::Mirror);
        Pool::create(&options)
            .expect("create")
            .close()
            .expect("close");
        first
    };
    let ours = create("ours", "ours-second");
    let theirs = create("theirs", "theirs-second");
    let runtime = runtime().background(false).without_missing(true);
    let pool = Pool::open_with(&[ours], runtime).expect("open");
    let options = RebuildOptions::default();
    let refused = pool.replace_member(1, &theirs, &options, &mut |_| ControlFlow::Continue(()));
    refused.expect_err("it has something");
    pool.close().expect("close");
    let pool = Pool::open(&[theirs.clone(), place.file("theirs-second")]).expect("open");
    assert_eq!(states(&pool), [MemberState::In; 2]);
}
