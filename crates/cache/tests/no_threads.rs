//! Where the system starts no more threads, a pool says which one it lacks, and one without threads opens.

use std::process::Command;

use forebay::{ErrorKind, Pool, PoolOptions};

/// Two lanes of this size would be scanned by two threads.
const LANE_BYTES: u64 = 4 << 20;
const POOL_BYTES: u64 = 64 << 20;

/// No stack of this size fits the address space.
const STACK_BYTES: u64 = 1 << 47;

#[test]
fn a_thread_that_cannot_be_started_is_an_error_with_its_name() {
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "opens_a_pool_without_threads", "--ignored"])
        .env("RUST_MIN_STACK", STACK_BYTES.to_string())
        .output()
        .expect("start");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "started by the test above, with stacks that are too large"]
fn opens_a_pool_without_threads() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("folder");
    let path = folder.path().join("pool");
    let options = PoolOptions::new(&path, POOL_BYTES)
        .lanes(2)
        .lane_bytes(LANE_BYTES);
    let error = Pool::create(&options).expect_err("no thread");
    assert!(matches!(error.kind(), ErrorKind::Thread { .. }), "{error}");
    assert!(error.to_string().contains("forebay-flush"), "{error}");
    assert!(!path.exists(), "a pool that was not made leaves no file");

    let options = options.background(false);
    let mut pool = Pool::create(&options).expect("create");
    pool.close().expect("close");
    pool = Pool::open_with(&[&path], options.runtime_options().clone()).expect("open");
    let error = pool.start_background().expect_err("no thread");
    assert!(matches!(error.kind(), ErrorKind::Thread { .. }), "{error}");
    pool.close().expect("close");
    let error = Pool::open(&[&path]).expect_err("no thread");
    assert!(matches!(error.kind(), ErrorKind::Thread { .. }), "{error}");
}
