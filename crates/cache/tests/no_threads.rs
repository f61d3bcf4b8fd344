//! Where the system starts no more threads, a pool says which one it lacks, and one without threads opens.

use std::process::Command;

use forebay::{ErrorKind, Pool, PoolOptions, RuntimeOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Two lanes of this size would be scanned by two threads.
const LANE_BYTES: u64 = 4 << 20;
const POOL_BYTES: u64 = 64 << 20;

/// The background threads, in the order in which they start.
const THREADS: [&str; 3] = ["forebay-flush", "forebay-reclaim", "forebay-checkpt"];

/// No stack of this size fits the address space.
const TOO_LARGE_STACK_BYTES: u64 = 1 << 47;
/// Stacks of this size are all that counts where the address space is limited.
const LARGE_STACK_BYTES: u64 = 2 << 30;

/// Runs an ignored test of this program in a process of its own, whose threads get such stacks.
fn run_alone(test: &str, stack_bytes: u64) {
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--ignored", "--test-threads=1"])
        .env("RUST_MIN_STACK", stack_bytes.to_string())
        .output()
        .expect("start");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

fn lacks(result: forebay::Result<impl Sized>, thread: &str) {
    let error = result.map(drop).expect_err("no thread");
    assert!(matches!(error.kind(), ErrorKind::Thread { .. }), "{error}");
    assert!(error.to_string().contains(thread), "{thread}: {error}");
}

#[test]
fn a_thread_that_cannot_be_started_is_an_error_with_its_name() {
    run_alone("opens_a_pool_without_threads", TOO_LARGE_STACK_BYTES);
}

#[test]
#[ignore = "started by the test above, with stacks that are too large"]
fn opens_a_pool_without_threads() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("folder");
    let path = folder.path().join("pool");
    let options = PoolOptions::new(&path, POOL_BYTES)
        .lanes(2)
        .lane_bytes(LANE_BYTES);
    lacks(Pool::create(&options), THREADS[0]);
    assert!(!path.exists(), "a pool that was not made leaves no file");

    let options = options.background(false);
    let mut pool = Pool::create(&options).expect("create");
    pool.close().expect("close");
    pool = Pool::open_with(&[&path], options.runtime_options().clone()).expect("open");
    lacks(pool.start_background(), THREADS[0]);
    pool.close().expect("close");
    lacks(Pool::open(&[&path]), "forebay-");
}

#[test]
fn threads_that_started_end_where_a_later_one_cannot_be_started() {
    run_alone("opens_a_pool_with_some_threads", LARGE_STACK_BYTES);
}

/// Bytes of address space that this process has.
fn address_space_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = statm.split(' ').next().expect("pages");
    pages.parse::<u64>().expect("a number") * rustix::param::page_size() as u64
}

/// Runs `open` in an address space with room for `threads` more threads.
fn with_room_for<T>(threads: usize, open: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::As);
    let room = LARGE_STACK_BYTES * threads as u64 + LARGE_STACK_BYTES / 2;
    let limit = Rlimit {
        current: Some(address_space_bytes() + room),
        maximum: before.maximum,
    };
    setrlimit(Resource::As, limit).expect("limit");
    let opened = open();
    setrlimit(Resource::As, before).expect("no limit");
    opened
}

fn threads_of_this_process() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
    tasks.count()
}

#[test]
#[ignore = "started by the test above, with large stacks and little address space"]
fn opens_a_pool_with_some_threads() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("folder");
    let path = folder.path().join("pool");
    let options = PoolOptions::new(&path, POOL_BYTES);
    let threads = threads_of_this_process();
    for (room, lacking) in THREADS.iter().enumerate() {
        lacks(with_room_for(room, || Pool::create(&options)), lacking);
        assert_eq!(threads_of_this_process(), threads, "{lacking}");
        assert!(!path.exists(), "a pool that was not made leaves no file");
    }
    let pool = with_room_for(THREADS.len(), || Pool::create(&options));
    pool.expect("create").close().expect("close");

    for (room, lacking) in THREADS.iter().enumerate() {
        let quiet = RuntimeOptions::default().background(false);
        let mut pool = Pool::open_with(&[&path], quiet).expect("open");
        lacks(with_room_for(room, || pool.start_background()), lacking);
        assert_eq!(threads_of_this_process(), threads, "{lacking}");
        lacks(pool.start_background(), THREADS[0]);
        pool.close().expect("close");
    }
    Pool::open(&[&path]).expect("open").close().expect("close");
}
