//! A disk whose newest data is in another cache is refused, as it is to a pool.

use std::path::Path;

use forebay::internals::{FoundMark, MarkFiles, MarkState};
use forebay::{Backing, Error, ErrorKind, MarkPlace, Pool, PoolOptions};
use rustix::process::Signal;

use crate::test_env::{Outcome, TestEnv};

const CREATE: [&str; 8] = [
    "create",
    "POOL",
    "--size",
    "8M",
    "--engine",
    "tinca",
    "--backing",
    "BACKING",
];
const SERVE: [&str; 7] = [
    "serve",
    "--memory",
    "POOL",
    "--backing",
    "BACKING",
    "--nbd",
    "NBD",
];

fn stale(outcome: &Outcome) {
    assert_eq!(outcome.code, 8, "{}{}", outcome.stdout, outcome.stderr);
    assert!(!outcome.stdout.contains("ready"), "{}", outcome.stdout);
    for part in ["--accept-stale", "replicated engine", "open since"] {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
}

fn is_whole(disk: &Path) -> bool {
    let place = MarkFiles::of_path(disk).unwrap();
    let found = FoundMark::of(&place.read().unwrap());
    found
        .mark()
        .is_none_or(|mark| mark.state == MarkState::Whole)
}

#[test]
fn a_disk_of_a_design_that_is_elsewhere_is_refused_until_that_is_accepted() {
    let env = TestEnv::new();
    assert_eq!(env.run(&CREATE).code, 0);
    let daemon = env.serve_with(&SERVE[1..]);
    daemon.signal(Signal::KILL);
    daemon.wait();
    assert!(!is_whole(&env.path("disk.img")));
    std::fs::rename(env.path("pool"), env.path("old")).unwrap();
    stale(&env.run(&CREATE));
    assert!(!env.path("pool").exists(), "nothing was made");
    let accepting = [&CREATE[..], &["--accept-stale"]].concat();
    let created = env.run(&accepting);
    assert_eq!(created.code, 0, "{}", created.stderr);
    std::fs::rename(env.path("old"), env.path("pool")).unwrap();
    stale(&env.run(&SERVE));
    // A pool of ours is told the same.
    std::fs::remove_file(env.path("pool")).unwrap();
    let pool = Pool::create(&PoolOptions::new(env.path("pool"), 8 << 20)).unwrap();
    let refused = pool.attach(Backing::file(env.path("disk.img")).unwrap());
    assert!(
        matches!(
            refused.as_ref().map_err(Error::kind),
            Err(ErrorKind::Stale { .. })
        ),
        "{refused:?}"
    );
    pool.close().unwrap();
    std::fs::remove_file(env.path("pool")).unwrap();
    assert_eq!(env.run(&accepting).code, 0);
    env.serve_with(&SERVE[1..]).end();
    assert!(
        is_whole(&env.path("disk.img")),
        "its end had nothing to leave behind"
    );
}
