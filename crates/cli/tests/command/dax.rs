//! Mapped regions as an operator has them: made, listed, used by an unmodified program, sealed, rebuilt.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::test_env::{Daemon, TestEnv, skip};

const BYTES: usize = 1 << 20;
const PAGE: usize = 4096;

fn with_region() -> TestEnv {
    let env = TestEnv::with_pool();
    env.ask(&["dax", "create", "POOL", "r", "--size", "1M"]);
    env
}

fn extent(env: &TestEnv) -> PathBuf {
    env.path("pool.dax").join("r")
}

/// The region as `dax list` shows it, which ends with this exit code.
fn listed_with(env: &TestEnv, code: i32) -> Value {
    let outcome = env.run(&["dax", "list", "POOL", "--json"]);
    assert_eq!(outcome.code, code, "{}{}", outcome.stdout, outcome.stderr);
    let report = outcome.json();
    let regions = report["regions"].as_array().unwrap();
    assert_eq!(regions.len(), 1, "{report}");
    regions[0].clone()
}

fn listed(env: &TestEnv) -> Value {
    listed_with(env, 0)
}

fn serve(env: &TestEnv) -> Daemon {
    env.serve_nbd(&["--dax-period", "0.1"])
}

/// Waits for what only another process can bring about; that it does is what is tested, not when.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn wait_for_state(env: &TestEnv, state: &str) -> Value {
    wait_for(state, || listed(env)["state"] == state);
    listed(env)
}

/// The program of that source, compiled once.
fn compiled(env: &TestEnv, name: &str, library: &[&str]) -> Command {
    let program = env.path(name);
    if !program.exists() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command");
        let mut compiler = Command::new("cc");
        compiler.args(["-Wall", "-Wextra", "-Werror", "-o"]);
        let source = folder.join(name).with_extension("c");
        let made = compiler.arg(&program).arg(source).args(library).status();
        assert!(made.unwrap().success());
    }
    Command::new(program)
}

/// Stores a byte by a mapping of the file, and ends.
fn store(env: &TestEnv, offset: usize, byte: u8) {
    let arguments = [offset.to_string(), byte.to_string()];
    let mut command = compiled(env, "map", &[]);
    let ended = command.arg(extent(env)).args(arguments).status().unwrap();
    assert!(ended.success());
}

/// The same by a program that stays.
fn store_and_stay(env: &TestEnv, offset: usize, byte: u8) -> Child {
    let arguments = [offset.to_string(), byte.to_string(), "wait".into()];
    let mut command = compiled(env, "map", &[]);
    let command = command.arg(extent(env)).args(arguments);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = piped.spawn().unwrap();
    let mut said = String::new();
    let output = process.stdout.as_mut().unwrap();
    BufReader::new(output).read_line(&mut said).unwrap();
    assert_eq!(said, "stored\n");
    process
}

fn byte_at(env: &TestEnv, offset: usize) -> u8 {
    let mut byte = [0];
    let file = std::fs::File::open(extent(env)).unwrap();
    file.read_exact_at(&mut byte, offset as u64).unwrap();
    byte[0]
}

#[test]
fn a_region_is_made_listed_and_sealed_and_says_what_it_survives() {
    let env = TestEnv::with_pool();
    let none = env.run(&["dax", "list", "POOL"]);
    assert_eq!((none.code, none.stdout.trim()), (0, "regions  none"));
    let created = env.run(&["dax", "create", "POOL", "r", "--size", "1M"]);
    assert_eq!(created.code, 0, "{}", created.stderr);
    for part in ["pool.dax/r", "1.0 MiB", "killed process", "no other one"] {
        assert!(created.stdout.contains(part), "{part}: {}", created.stdout);
    }
    let region = listed(&env);
    let expected = [
        ("name", Value::from("r")),
        ("state", "sealed".into()),
        ("size_bytes", (BYTES as u64).into()),
        ("width", 1.into()),
        ("unverified_pages", 0.into()),
        ("lost_pages", 0.into()),
        ("keeper", Value::Null),
    ];
    for (name, value) in expected {
        assert_eq!(region[name], value, "{name}: {region}");
    }
    assert_eq!(region["paths"].as_array().unwrap().len(), 2, "{region}");
    let sealed = env.ask(&["dax", "seal", "POOL", "r"]);
    assert_eq!(sealed["state"], "sealed", "{sealed}");
    assert_eq!(sealed["pages"], BYTES as u64 / PAGE as u64, "{sealed}");
    // One of a mirror, over two members: their order is the pool's, whatever is named first.
    let two = ["create", "./a", "--member", "./b", "--size", "8M"];
    assert_eq!(env.run(&two).code, 0);
    let wide = [
        "dax", "create", "./b", "--member", "./a", "w", "--size", "2M",
    ];
    let report = env.ask(&wide);
    assert!(env.path("a.dax/w").exists() && env.path("b.dax/w.parity").exists());
    let survives = report["survives"].as_str().unwrap();
    assert!(survives.contains("death of one member"), "{survives}");
}

#[test]
fn what_cannot_be_is_refused_with_its_way_out() {
    let env = with_region();
    let create = |more: &[&'static str]| [&["dax", "create", "POOL"], more].concat();
    env.refuses(&create(&["r", "--size", "1M"]), 1, "r");
    env.refuses(
        &create(&["../r", "--size", "1M"]),
        2,
        "cannot be a region's name",
    );
    env.refuses(&create(&["s", "--size", "1"]), 2, "4096");
    env.refuses(&create(&["s", "--size", "lots"]), 2, "lots");
    env.refuses(
        &create(&["s", "--size", "4M", "--width", "2"]),
        2,
        "3 members",
    );
    env.refuses(
        &["dax", "create", "./disk.img", "s", "--size", "1M"],
        3,
        "disk.img",
    );
    env.refuses(&["dax", "seal", "POOL", "nothing"], 2, "nothing");
    env.refuses(&["dax", "verify", "POOL", "nothing"], 2, "nothing");
    env.refuses(&["dax", "list", "./gone"], 3, "gone");
    let two = ["create", "./a", "--member", "./b", "--size", "8M"];
    assert_eq!(env.run(&two).code, 0);
    env.refuses(&["dax", "list", "./a"], 2, "name every one");
    assert_eq!(listed(&env)["state"], "sealed");
    env.refuses_nbd(&["--dax-period", "0.05"], 2, "0.1 to 30");
}

#[test]
fn without_a_daemon_a_region_is_opened_by_hand_and_sealed_again() {
    let env = with_region();
    assert_eq!(env.ask(&["dax", "open", "POOL", "r"])["state"], "open");
    assert_eq!(listed(&env)["state"], "open");
    store(&env, 5 * PAGE + 7, 0x5A);
    let mut stays = store_and_stay(&env, 9 * PAGE, 0x77);
    env.refuses(&["dax", "seal", "POOL", "r"], 4, "end the program");
    drop(stays.stdin.take());
    stays.wait().unwrap();
    wait_for("the program's end", || {
        env.run(&["dax", "seal", "POOL", "r"]).code == 0
    });
    let region = listed(&env);
    assert_eq!(region["state"], "sealed", "{region}");
    assert_eq!(
        region["unverified_pages"], 2,
        "nothing vouched for them: {region}"
    );
    assert_eq!(
        (byte_at(&env, 5 * PAGE + 7), byte_at(&env, 9 * PAGE)),
        (0x5A, 0x77)
    );
    let verified = env.ask(&["dax", "verify", "POOL", "r"]);
    assert_eq!(verified["repaired"], 0, "{verified}");
}

#[test]
fn a_sum_that_turns_over_is_put_right_and_costs_no_page() {
    let env = with_region();
    store(&env, 3 * PAGE, 0x11);
    env.ask(&["dax", "seal", "POOL", "r"]);
    // Behind two lines, each in a page of its own, lie eight bytes a page.
    let sums = env.path("pool.dax").join("r.sums");
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(sums)
        .unwrap();
    let (mut byte, at) = ([0], 2 * PAGE as u64 + 3 * 8);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
    drop(file);
    let verified = env.ask(&["dax", "verify", "POOL", "r"]);
    assert_eq!(
        verified["damaged"].as_array().map(Vec::len),
        Some(0),
        "{verified}"
    );
    assert_eq!(byte_at(&env, 3 * PAGE), 0x11);
    let again = env.ask(&["dax", "verify", "POOL", "r"]);
    assert_eq!(again["repaired"], 0, "{again}");
    assert_eq!(
        again["unverified_pages"], verified["unverified_pages"],
        "{again}"
    );
}

#[test]
fn what_a_program_stores_behind_a_seal_with_no_daemon_there_is_not_lost() {
    let env = with_region();
    store(&env, 3 * PAGE, 0x11);
    assert_eq!(
        listed(&env)["state"],
        "sealed",
        "nobody was there to mark it"
    );
    let sealed = env.ask(&["dax", "seal", "POOL", "r"]);
    assert_eq!(sealed["unverified_pages"], 1, "{sealed}");
    assert_eq!(byte_at(&env, 3 * PAGE), 0x11);
    // It is named until an operator says that it is right.
    let named = serde_json::json!([{"offset": 3 * PAGE, "bytes": PAGE}]);
    for _ in 0..2 {
        let verified = env.ask(&["dax", "verify", "POOL", "r"]);
        assert_eq!(verified["unverified"], named, "{verified}");
    }
    let elsewhere = [
        "dax", "accept", "POOL", "r", "--offset", "0", "--bytes", "12K",
    ];
    assert_eq!(env.ask(&elsewhere)["accepted_pages"], 0);
    let accepted = env.ask(&["dax", "accept", "POOL", "r"]);
    assert_eq!(accepted["accepted_pages"], 1, "{accepted}");
    assert_eq!(accepted["unverified_pages"], 0, "{accepted}");
    assert_eq!(byte_at(&env, 3 * PAGE), 0x11);
}

#[test]
fn what_others_write_to_a_sealed_file_is_taken_as_written_and_counted() {
    let env = with_region();
    let file = std::fs::File::options()
        .write(true)
        .open(extent(&env))
        .unwrap();
    file.write_all_at(b"restored from a backup", 8 * PAGE as u64)
        .unwrap();
    drop(file);
    let sealed = env.ask(&["dax", "seal", "POOL", "r"]);
    assert_eq!(sealed["unverified_pages"], 1, "{sealed}");
    assert_eq!(byte_at(&env, 8 * PAGE), b'r');
}

#[test]
fn a_file_that_is_gone_is_made_anew_on_the_operators_word() {
    let env = with_region();
    env.ask(&["dax", "open", "POOL", "r"]);
    store(&env, 3 * PAGE, 0x33);
    env.ask(&["dax", "seal", "POOL", "r"]);
    std::fs::remove_file(extent(&env)).unwrap();
    let region = listed_with(&env, 3);
    let faults = region["faults"].to_string();
    assert!(faults.contains("pool.dax/r"), "{region}");
    env.refuses(&["dax", "seal", "POOL", "r"], 3, "forebay dax rebuild");
    env.refuses(&["dax", "list", "POOL"], 3, "forebay dax rebuild");
    assert!(!extent(&env).exists(), "nothing is made unasked");
    let rebuilt = env.ask(&["dax", "rebuild", "POOL", "r"]);
    assert_eq!(rebuilt["state"], "sealed", "{rebuilt}");
    assert_eq!(rebuilt["lost_pages"], 0, "{rebuilt}");
    assert_eq!(byte_at(&env, 3 * PAGE), 0x33);
    assert_eq!(listed(&env)["state"], "sealed");
}

#[test]
fn a_daemon_seals_what_an_unmodified_program_stored() {
    let env = with_region();
    let daemon = serve(&env);
    let before = wait_for_state(&env, "sealed");
    assert_eq!(before["keeper"]["leased"], true, "{before}");
    let mut stays = store_and_stay(&env, 7 * PAGE, 0x42);
    let region = listed(&env);
    assert_eq!(region["state"], "open", "before the first store: {region}");
    env.refuses(&["dax", "seal", "POOL", "r"], 4, "program");
    drop(stays.stdin.take());
    assert!(stays.wait().unwrap().success());
    let sealed = env.ask(&["dax", "seal", "POOL", "r"]);
    assert_eq!(sealed["state"], "sealed", "{sealed}");
    assert_eq!(
        sealed["unverified_pages"], 0,
        "its end was in order: {sealed}"
    );
    // One that is killed has nothing that its pages lack either.
    let mut killed = store_and_stay(&env, 8 * PAGE, 0x43);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let sealed = wait_for_state(&env, "sealed");
    assert!(
        sealed["keeper"]["lease_breaks"].as_u64() >= Some(2),
        "{sealed}"
    );
    let stat = env.ask(&["stat", "POOL"]);
    assert_eq!(stat["regions"][0]["name"], "r", "{stat}");
    daemon.end();
    assert_eq!(listed(&env)["state"], "sealed");
    let verified = env.ask(&["dax", "verify", "POOL", "r"]);
    assert_eq!(verified["repaired"], 0, "{verified}");
    assert_eq!(
        (byte_at(&env, 7 * PAGE), byte_at(&env, 8 * PAGE)),
        (0x42, 0x43)
    );
}

#[test]
fn a_killed_daemon_costs_no_store_and_the_next_one_seals() {
    let env = with_region();
    let daemon = serve(&env);
    let mut stays = store_and_stay(&env, 7 * PAGE, 0x42);
    daemon.signal(Signal::KILL);
    daemon.wait();
    assert_eq!(listed(&env)["state"], "open");
    env.refuses(&["dax", "seal", "POOL", "r"], 4, "end the program");
    let daemon = serve(&env);
    assert_eq!(listed(&env)["state"], "open", "a program has it still");
    drop(stays.stdin.take());
    assert!(stays.wait().unwrap().success());
    wait_for_state(&env, "sealed");
    daemon.end();
    assert_eq!(byte_at(&env, 7 * PAGE), 0x42);
    assert_eq!(env.ask(&["dax", "verify", "POOL", "r"])["repaired"], 0);
}

#[test]
fn a_region_that_is_made_while_a_daemon_serves_is_kept_by_it() {
    let env = TestEnv::with_pool();
    let daemon = serve(&env);
    env.ask(&["dax", "create", "POOL", "r", "--size", "1M"]);
    wait_for("a lease", || listed(&env)["keeper"]["leased"] == true);
    store(&env, 2 * PAGE, 0x21);
    wait_for_state(&env, "sealed");
    daemon.end();
    let region = listed(&env);
    assert_eq!(region["unverified_pages"], 0, "{region}");
    assert_eq!(byte_at(&env, 2 * PAGE), 0x21);
}

#[test]
fn objects_of_libpmemobj_lie_in_a_region_that_a_daemon_keeps() {
    if !Path::new("/usr/include/libpmemobj.h").exists() {
        return skip("objects_of_libpmemobj", "needs libpmemobj-dev");
    }
    let env = TestEnv::with_pool();
    env.ask(&["dax", "create", "POOL", "r", "--size", "8M"]);
    let daemon = serve(&env);
    for expected in ["1\n", "2\n"] {
        let mut command = compiled(&env, "obj", &["-lpmemobj"]);
        command.arg(extent(&env));
        let mut ended = command.output().unwrap();
        // It does not wait for the lock of the file, which a pass has for a moment.
        wait_for("a moment between two passes", || {
            let is_locked = String::from_utf8_lossy(&ended.stderr).contains("flock");
            if is_locked {
                ended = command.output().unwrap();
            }
            !is_locked
        });
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{said}");
        assert_eq!(String::from_utf8_lossy(&ended.stdout), expected);
        let region = wait_for_state(&env, "sealed");
        assert_eq!(region["unverified_pages"], 0, "{region}");
    }
    daemon.end();
    assert_eq!(env.ask(&["dax", "verify", "POOL", "r"])["repaired"], 0);
}
