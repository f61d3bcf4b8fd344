//! As `marks`, of directories and of files that programs write with `forebay run`.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::test_env::{Outcome, TestEnv, skips_without_fuse};

/// What every start script does.
fn create_if_missing(env: &TestEnv) {
    if !env.path("pool").exists() {
        let created = env.run(&["create", "POOL", "--size", "64M"]);
        assert_eq!(created.code, 0, "{}", created.stderr);
    }
}

fn env() -> TestEnv {
    let env = TestEnv::new();
    fs::create_dir(env.path("data")).unwrap();
    create_if_missing(&env);
    env
}

const MOUNT: [&str; 5] = ["mount", "./data", "MOUNT", "--pool", "POOL"];
const APPENDED: usize = 500;

/// The story: so many appends, each synced, then the daemon is killed.
fn append_and_kill(env: &TestEnv, appends: usize) {
    let daemon = env.start(env.command(&MOUNT));
    let open = OpenOptions::new()
        .append(true)
        .create(true)
        .open(env.path("mount/file"));
    let mut file = open.unwrap();
    for _ in 0..appends {
        file.write_all(&[b'a'; APPENDED]).unwrap();
        file.sync_all().unwrap();
    }
    drop(file);
    daemon.signal(Signal::KILL);
    daemon.wait();
}

fn stale(outcome: &Outcome, part: &str) {
    assert_eq!(outcome.code, 8, "{}{}", outcome.stdout, outcome.stderr);
    assert!(!outcome.stdout.contains("ready"), "{}", outcome.stdout);
    for part in ["--accept-stale", part] {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
}

fn info(env: &TestEnv) -> (i32, String) {
    let outcome = env.run(&["info", "--backing", "./data"]);
    (outcome.code, outcome.stdout.trim().to_owned())
}

fn length(env: &TestEnv, name: &str) -> u64 {
    fs::metadata(env.path(name)).unwrap().len()
}

#[test]
fn a_directory_whose_pool_is_lost_is_set_aside_and_served_empty_where_that_is_asked_for() {
    if skips_without_fuse("a_directory_whose_pool_is_lost_is_set_aside") {
        return;
    }
    let env = env();
    append_and_kill(&env, 20);
    let empty = [&MOUNT[..], &["--when-pool-is-lost", "empty"]].concat();
    let beside = || -> Vec<PathBuf> {
        let entries = fs::read_dir(env.path(".")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_stale = |path: &PathBuf| path.to_string_lossy().contains("data.stale-");
        paths.filter(is_stale).collect()
    };
    // A pool that is there is no lost one.
    env.start(env.command(&empty)).end();
    assert_eq!(length(&env, "data/file"), 10_000);
    append_and_kill(&env, 1);
    fs::rename(env.path("pool"), env.path("old")).unwrap();
    create_if_missing(&env);
    let found = fs::metadata(env.path("data")).unwrap();
    let daemon = env.start(env.command(&empty));
    assert_eq!(fs::read_dir(env.path("mount")).unwrap().count(), 0);
    fs::write(env.path("mount/new"), b"new").unwrap();
    daemon.end();
    assert_eq!(fs::read(env.path("data/new")).unwrap(), b"new");
    let [stale_data] = &beside()[..] else {
        panic!("one directory is set aside");
    };
    assert!(fs::metadata(stale_data.join("file")).unwrap().len() >= 10_000);
    let made = fs::metadata(env.path("data")).unwrap();
    let rights = |of: &fs::Metadata| (of.mode(), of.uid(), of.gid());
    assert_eq!(rights(&made), rights(&found));
    assert_eq!(info(&env), (0, String::from("whole")));
    // What the old pool has is not of the empty directory: refused, and nothing else is set aside.
    fs::rename(env.path("old"), env.path("pool")).unwrap();
    stale(&env.run(&empty), "empty it");
    assert_eq!(beside().len(), 1);
    assert_eq!(fs::read(env.path("data/new")).unwrap(), b"new");
}

#[test]
fn a_mount_with_a_pool_made_anew_said_ready_and_showed_500_of_10000_bytes() {
    if skips_without_fuse("a_mount_with_a_pool_made_anew") {
        return;
    }
    let env = env();
    append_and_kill(&env, 20);
    assert_eq!(info(&env), (0, String::from("open")));
    fs::rename(env.path("pool"), env.path("old")).unwrap();
    create_if_missing(&env);
    stale(&env.run(&MOUNT), "open since");
    assert!(info(&env).1.starts_with("stale since 20"));
    // The pool that had it: everything is there, and nothing of what was refused has harmed it.
    fs::rename(env.path("pool"), env.path("new")).unwrap();
    fs::copy(env.path("old"), env.path("pool")).unwrap();
    let daemon = env.start(env.command(&MOUNT));
    assert_eq!(length(&env, "mount/file"), 10_000);
    daemon.end();
    assert_eq!(length(&env, "data/file"), 10_000);
    assert_eq!(info(&env), (0, String::from("whole")));
    // An orderly end: any pool may have it, but for the old one, which would replay its own data.
    fs::rename(env.path("old"), env.path("pool")).unwrap();
    for command in [&MOUNT[..], &["recover", "POOL"]] {
        stale(&env.run(command), "old copy");
    }
    fs::rename(env.path("new"), env.path("pool")).unwrap();
    env.start(env.command(&MOUNT)).end();
    assert_eq!(length(&env, "data/file"), 10_000);
}

#[test]
fn a_person_may_insist_and_recover_refuses_too() {
    if skips_without_fuse("a_person_may_insist") {
        return;
    }
    let env = env();
    append_and_kill(&env, 2);
    fs::copy(env.path("pool"), env.path("old")).unwrap();
    env.start(env.command(&MOUNT)).end();
    append_and_kill(&env, 1);
    fs::rename(env.path("old"), env.path("pool")).unwrap();
    stale(&env.run(&["recover", "POOL"]), "old copy");
    let insisted = env.run(&["recover", "POOL", "--accept-stale"]);
    assert_eq!(insisted.code, 0, "{}", insisted.stderr);
    assert_eq!(info(&env), (0, String::from("whole")));
}

#[test]
fn an_empty_directory_takes_any_pool() {
    if skips_without_fuse("an_empty_directory") {
        return;
    }
    let env = env();
    append_and_kill(&env, 2);
    // As a member of a replicated engine is told: empty it, and make a new pool.
    fs::remove_file(env.path("pool")).unwrap();
    create_if_missing(&env);
    stale(&env.run(&MOUNT), "empty it");
    match fs::remove_file(env.path("data/file")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        removed => removed.unwrap(),
    }
    env.start(env.command(&MOUNT)).end();
    assert_eq!(info(&env), (0, String::from("whole")));
}

#[test]
fn the_mount_shows_no_mark_and_lets_none_be_changed() {
    if skips_without_fuse("the_mount_shows_no_mark") {
        return;
    }
    let env = env();
    let daemon = env.start(env.command(&MOUNT));
    let mount = env.path("mount");
    let other = "user.other";
    rustix::fs::setxattr(&mount, other, b"mine", rustix::fs::XattrFlags::empty()).unwrap();
    let mut list = vec![0; 4096];
    let length = rustix::fs::listxattr(&mount, &mut list[..]).unwrap();
    assert_eq!(&list[..length], b"user.other\0");
    let query = rustix::fs::listxattr_query(&mount).unwrap();
    assert_eq!(query, length);
    for name in ["trusted.forebay", "user.forebay"] {
        let got = rustix::fs::getxattr(&mount, name, &mut list[..]);
        assert_eq!(got, Err(rustix::io::Errno::NODATA));
        let set = rustix::fs::setxattr(&mount, name, b"", rustix::fs::XattrFlags::empty());
        assert_eq!(set, Err(rustix::io::Errno::PERM));
        assert!(rustix::fs::removexattr(&mount, name).is_err());
    }
    // A file's own attribute of that name is its own: it may be an image that is served.
    let file = env.path("mount/image");
    File::create(&file).unwrap();
    rustix::fs::setxattr(
        &file,
        "user.forebay",
        b"its",
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    assert_eq!(info(&env), (0, String::from("open")));
    daemon.end();
    assert_eq!(
        fs::read_dir(env.path("data")).unwrap().count(),
        1,
        "never inside"
    );
}

fn library() -> PathBuf {
    crate::run::library()
}

/// The command with a program of the shell, in the folder `data`.
fn run(env: &TestEnv, more: &[&str], script: &str) -> Outcome {
    let library = library();
    let own = [
        "run",
        "--pool",
        "POOL",
        "--library",
        library.to_str().unwrap(),
    ];
    let mut command = env.command(&[&own, more, &["--", "sh", "-c", script]].concat());
    command.current_dir(env.path("data"));
    command.output().unwrap().into()
}

/// The one file of marks, by its inode, which each writing changes.
fn mark(env: &TestEnv) -> u64 {
    let files = fs::read_dir(env.path("state/forebay")).unwrap();
    let files: Vec<_> = files
        .map(|file| file.unwrap().metadata().unwrap().ino())
        .collect();
    assert_eq!(files.len(), 1, "one file a pool");
    files[0]
}

/// Appends a record and waits for it to be durable.
const SYNCED: &str =
    "dd if=/dev/zero of=file bs=100 count=1 oflag=append conv=notrunc,fsync 2>/dev/null";

#[test]
fn run_with_a_pool_made_anew_went_on_without_what_was_acknowledged() {
    let env = env();
    let killed = format!("{SYNCED}; kill -9 $PPID; {SYNCED}; kill -9 $$");
    assert_ne!(run(&env, &[], &killed).code, 0);
    fs::remove_file(env.path("pool")).unwrap();
    // The mark that a process left with the pool says nothing of another pool.
    let _ = fs::remove_file(env.path("pool.owner"));
    create_if_missing(&env);
    stale(&run(&env, &[], "exit 3"), "open since");
    assert_eq!(run(&env, &["--accept-stale"], "exit 3").code, 3);
    // An orderly end leaves files that are whole, whatever becomes of the pool.
    assert_eq!(run(&env, &[], SYNCED).code, 0);
    fs::remove_file(env.path("pool")).unwrap();
    create_if_missing(&env);
    assert_eq!(run(&env, &[], SYNCED).code, 0);
}

#[test]
fn processes_that_a_run_begins_write_no_mark_of_their_own() {
    let env = env();
    let log = env.path("log of marks");
    let marks = "stat -c %i \"$0\"/* >> \"$1\"";
    let script = format!(
        "set -- {} {}; look() {{ sh -c '{marks}' \"$1\" \"$2\"; }}; look \"$@\"; \
         for round in 1 2 3 4 5; do {SYNCED}; look \"$@\"; done",
        env.path("state/forebay").display(),
        "'".to_owned() + log.to_str().unwrap() + "'"
    );
    let outcome = run(&env, &[], &script);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let seen = fs::read_to_string(log).unwrap();
    let mut seen: Vec<&str> = seen.lines().collect();
    assert_eq!(seen.len(), 6);
    seen.dedup();
    assert_eq!(seen.len(), 1, "it was written once for all of them");
    assert_ne!(seen[0], mark(&env).to_string(), "the end says whole");
}
