//! `forebay run --shared`: programs of many processes, and a kill of each of those that take part.

mod ends;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::test_env::{Outcome, TestEnv, skip, skips_without_fuse};

/// A pool, and a directory with one file that has something in it.
fn env(test: &str) -> Option<TestEnv> {
    if skips_without_fuse(test) {
        return None;
    }
    let env = TestEnv::new();
    env.ask(&["create", "POOL", "--size", "64M"]);
    fs::create_dir(env.path("data")).unwrap();
    fs::write(env.path("data/file"), b"before").unwrap();
    Some(env)
}

/// The command with a script of the shell, in the folder `data`.
fn command(env: &TestEnv, script: &str) -> Command {
    let arguments = ["run", "--pool", "POOL", "--shared", ".", "--", "sh", "-c"];
    let mut command = env.command(&[&arguments[..], &[script]].concat());
    command.current_dir(env.path("data"));
    command
}

fn run(env: &TestEnv, script: &str) -> Outcome {
    command(env, script).output().unwrap().into()
}

/// A command whose script has said `ready`, in front of its log.
struct Running {
    process: Child,
    log: PathBuf,
}

impl Running {
    fn start(env: &TestEnv, script: &str) -> Running {
        Running::start_as(env, command(env, script))
    }

    fn start_as(env: &TestEnv, mut command: Command) -> Running {
        let log = env.path("log");
        command.stdout(Stdio::piped());
        command.stderr(fs::File::create(&log).unwrap());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let said = fs::read_to_string(&log).unwrap();
        assert_eq!(line, "ready\n", "{said}");
        Running { process, log }
    }

    /// Its child of this name: the broker, or what became of the program.
    fn child(&self, name: &str) -> Pid {
        let parent = self.process.id();
        let found = processes().find(|process| process.parent == parent && process.says(name));
        found.unwrap().id
    }

    fn wait(mut self) -> Outcome {
        let output = self.process.wait().unwrap();
        Outcome {
            code: output.code().unwrap_or(-1),
            stdout: String::new(),
            stderr: fs::read_to_string(&self.log).unwrap(),
        }
    }
}

struct Process {
    id: Pid,
    parent: u32,
    words: Vec<String>,
}

impl Process {
    fn says(&self, word: &str) -> bool {
        self.words.iter().any(|one| one == word)
    }
}

fn processes() -> impl Iterator<Item = Process> {
    let folders = fs::read_dir("/proc").unwrap().map_while(Result::ok);
    folders.filter_map(|folder| {
        let id = folder.file_name().to_str()?.parse().ok()?;
        let status = fs::read_to_string(folder.path().join("stat")).ok()?;
        let after_name = status.rsplit_once(')')?.1;
        let words = fs::read_to_string(folder.path().join("cmdline")).ok()?;
        Some(Process {
            id: Pid::from_raw(id)?,
            parent: after_name.split_whitespace().nth(1)?.parse().ok()?,
            words: words.split('\0').map(str::to_owned).collect(),
        })
    })
}

/// Brokers of this pool that have not ended.
fn brokers(env: &TestEnv) -> usize {
    let pool = env.path("pool").canonicalize().unwrap();
    let pool = pool.to_str().unwrap().to_owned();
    processes()
        .filter(|process| process.says("broker") && process.says(&pool))
        .count()
}

fn wait_until(is_done: impl Fn() -> bool) {
    while !is_done() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

/// What no other process may see: a mount of ours on the folder.
fn is_mounted_here(env: &TestEnv) -> bool {
    let data = env.path("data").canonicalize().unwrap();
    text("/proc/self/mountinfo").contains(data.to_str().unwrap())
}

#[test]
fn exit_codes_were_not_the_programs() {
    let Some(env) = env("exit_codes_were_not_the_programs") else {
        return;
    };
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -9 $$", 128 + 9),
        ("exec ./file", 126),
        ("exec ./missing", 127),
    ] {
        let outcome = run(&env, script);
        assert_eq!(outcome.code, expected, "{script}: {}", outcome.stderr);
    }
    for (program, expected) in [("./data/file", 126), ("no-program-of-this-name", 127)] {
        let outcome = env.run(&["run", "--pool", "POOL", "--shared", "./data", "--", program]);
        assert_eq!(outcome.code, expected, "{program}: {}", outcome.stderr);
    }
}

#[test]
fn processes_of_one_program_did_not_see_each_others_files() {
    let Some(env) = env("processes_of_one_program_did_not_see_each_others_files") else {
        return;
    };
    // Each process begins in the folder that it was started in, and by its path.
    let script = "
        test \"$(cat file)\" = before || exit 2
        for number in 1 2 3 4 5 6 7 8; do
            sh -c \"echo $number > new-$number; sync new-$number; mv new-$number done-$number; sync .\" &
        done
        wait
        cat \"$PWD\"/done-* | tr -d '\\n'
        findmnt -n -o SOURCE --target . >&2";
    let outcome = run(&env, script);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "12345678");
    assert_eq!(outcome.stderr, "forebay\n");
    for number in 1..=8 {
        let found = text(env.path(&format!("data/done-{number}")));
        assert_eq!(found, format!("{number}\n"));
    }
    assert_eq!(brokers(&env), 0);
    env.ask(&["info", "POOL"]);
}

#[test]
fn others_saw_the_mount_or_what_had_not_reached_the_directory() {
    let Some(env) = env("others_saw_the_mount") else {
        return;
    };
    let go_on = env.path("go-on");
    let script = format!(
        "echo after > file; sync file; echo ready; until test -e {}; do sleep 0.01; done; exit 6",
        go_on.display()
    );
    let running = Running::start(&env, &script);
    assert!(!is_mounted_here(&env));
    env.refuses(
        &["mount", "./data", "MOUNT", "--pool", "POOL"],
        4,
        "is served already",
    );
    fs::write(&go_on, b"").unwrap();
    let outcome = running.wait();
    assert_eq!(outcome.code, 6, "{}", outcome.stderr);
    assert_eq!(text(env.path("data/file")), "after\n");
    assert!(!is_mounted_here(&env));
}

#[test]
fn signals_were_not_passed_on() {
    let Some(env) = env("signals_were_not_passed_on") else {
        return;
    };
    for (signal, number) in [(Signal::TERM, 15), (Signal::INT, 2), (Signal::USR1, 10)] {
        let script = format!(
            "trap 'echo {number} > caught; sync caught; exit 5' {number}; echo ready; while :; do sleep 0.05; done"
        );
        let running = Running::start(&env, &script);
        kill_process(Pid::from_child(&running.process), signal).unwrap();
        let outcome = running.wait();
        assert_eq!(outcome.code, 5, "{number}: {}", outcome.stderr);
        assert_eq!(text(env.path("data/caught")), format!("{number}\n"));
    }
}

#[test]
fn a_folder_that_no_path_leads_to_was_no_place_to_start_from() {
    let Some(env) = env("a_folder_that_no_path_leads_to") else {
        return;
    };
    let own = env.command(&["run", "--pool", "POOL", "--shared", "./data", "--", "cat"]);
    let mut command = Command::new("sh");
    let script = "mkdir gone; cd gone; rmdir ../gone; exec \"$0\" \"$@\"";
    command.args(["-c", script]).arg(own.get_program());
    command.args(own.get_args()).arg(env.path("data/file"));
    command.current_dir(env.directory.path());
    command.env("XDG_STATE_HOME", env.path("state"));
    let outcome: Outcome = command.output().unwrap().into();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "before");
}

#[test]
fn a_folder_of_a_mount_was_served_by_a_second_pool() {
    let Some(env) = env("a_folder_of_a_mount_was_served") else {
        return;
    };
    let second = env.path("second");
    let script = format!(
        "mkdir sub; {program} create {pool} --size 64M > ../made
        exec {program} run --pool {pool} --shared sub -- true",
        program = crate::PROGRAM,
        pool = second.display()
    );
    let outcome = run(&env, &script);
    assert_eq!(outcome.code, 4, "{}", outcome.stderr);
    let said = &outcome.stderr;
    assert!(said.contains("by the mount that it lies on"), "{said}");
}

#[test]
fn a_killed_broker_lost_what_was_synced() {
    let Some(env) = env("a_killed_broker_lost_what_was_synced") else {
        return;
    };
    let script = "
        echo synced > made; sync made; mv made named; sync .
        echo ready
        while cat file > /dev/null 2>&1; do sleep 0.01; done
        cat file; exit 3";
    let running = Running::start(&env, script);
    kill_process(running.child("broker"), Signal::KILL).unwrap();
    let outcome = running.wait();
    assert_eq!(outcome.code, 3);
    let said = &outcome.stderr;
    assert!(said.contains("not connected"), "{said}");
    assert!(said.contains("ended by signal 9"), "{said}");
    assert!(said.contains("brought up to date"), "{said}");
    assert_eq!(text(env.path("data/named")), "synced\n");
    assert_eq!(run(&env, "cat named").stdout, "synced\n");
}

#[test]
fn a_killed_process_took_its_siblings_along() {
    let Some(env) = env("a_killed_process_took_its_siblings_along") else {
        return;
    };
    let script = "
        sh -c 'echo first > killed; sync killed; exec 3>> killed; kill -9 $$'
        echo more >> killed; sync killed; cat killed";
    let outcome = run(&env, script);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "first\nmore\n");
    assert_eq!(text(env.path("data/killed")), "first\nmore\n");
}

#[test]
fn what_the_shell_had_opened_there_bypassed_the_pool_unsaid() {
    let Some(env) = env("what_the_shell_had_opened_there") else {
        return;
    };
    let output = fs::File::create(env.path("data/output")).unwrap();
    let outcome: Outcome = command(&env, "true")
        .stdout(output)
        .output()
        .unwrap()
        .into();
    let said = &outcome.stderr;
    assert!(
        said.contains("standard output is") && said.contains("bypasses"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_served_was_not_refused() {
    let Some(env) = env("what_cannot_be_served_was_not_refused") else {
        return;
    };
    let of =
        |directory: &'static str| ["run", "--pool", "POOL", "--shared", directory, "--", "true"];
    env.refuses(&of("./"), 2, "lies in the directory");
    env.refuses(&of("./disk.img"), 2, "not a directory");
    let running = Running::start(&env, "echo ready; exec sleep 1000");
    env.refuses(&of("./data"), 4, "is served already");
    kill_process(Pid::from_child(&running.process), Signal::TERM).unwrap();
    assert_eq!(running.wait().code, 128 + 15);
    fs::create_dir(env.path("other")).unwrap();
    env.refuses(&of("./other"), 3, "the mount of");
}

/// The user with this number, who may open a device of FUSE that lies in the environment's folder, as distributions let every
/// user open `/dev/fuse`.
const USER: u32 = 65533;

#[test]
fn a_user_without_rights_needed_root() {
    let test = "a_user_without_rights_needed_root";
    let Some(env) = env(test) else {
        return;
    };
    let own_pool = env.path("own-pool");
    let script = format!(
        "set -e
        mknod -m 666 fuse c 10 229; mount --bind fuse /dev/fuse; mkdir own; chown {USER}:{USER} own; chmod 755 .
        export HOME=$PWD/own XDG_STATE_HOME=$PWD/own/state; mkdir -m 700 hidden; cd hidden
        exec setpriv --reuid {USER} --regid {USER} --clear-groups sh -c '
            set -e
            mkdir $HOME/files
            {program} create $HOME/pool --size 64M > /dev/null
            {program} run --pool $HOME/pool --shared $HOME/files -- true
            cd $HOME
            {program} run --pool pool --shared files -- sh -c \"cd files; id -u; echo text > file; sync file; cat file; stat -c %u file\"
            cat files/file'",
        program = env!("CARGO_BIN_EXE_forebay"),
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]);
    let outcome: Outcome = command
        .current_dir(env.directory.path())
        .output()
        .unwrap()
        .into();
    if outcome.stderr.contains("may not have a user namespace") {
        skip(test, "users may have no namespaces here");
        return;
    }
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, format!("{USER}\ntext\n{USER}\ntext\n"));
    assert!(!own_pool.exists());
    let file = env.path("own/files/file").metadata().unwrap();
    assert_eq!(file.uid(), USER);
}

#[test]
fn git_lost_commits_or_said_that_they_were_broken() {
    let test = "git_lost_commits_or_said_that_they_were_broken";
    let Some(env) = env(test) else {
        return;
    };
    if Command::new("git").arg("--version").output().is_err() {
        skip(test, "no git here");
        return;
    }
    let script = "set -e
        export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
        git init -q .; git config user.name n; git config user.email e; git config core.fsync all; git config core.fsyncMethod fsync
        for number in 1 2 3 4 5; do echo $number > file; git add file; git commit -q -m $number; done
        git gc -q; git fsck --strict; git rev-list --count HEAD";
    let outcome = run(&env, script);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "5\n");
    let outside = Command::new("git")
        .args(["-c", "safe.directory=*", "-C"])
        .arg(env.path("data"))
        .args(["fsck", "--strict"])
        .output()
        .unwrap();
    assert!(outside.status.success(), "{outside:?}");
}

#[test]
fn messages_delivered_before_a_kill_of_the_broker_were_not_whole() {
    let Some(env) = env("messages_delivered_before_a_kill") else {
        return;
    };
    // Each deliverer is a process, and so is each step of it.
    let script = "
        mkdir tmp new
        for who in a b c; do
            sh -c 'number=0
                while number=$((number + 1)); name=$0.$number
                    yes $0 2> /dev/null | head -c 4096 > tmp/$name && sync tmp/$name && ln tmp/$name new/$name && rm tmp/$name && sync new
                do echo $name >> ../acknowledged-$0; done' $who 2> /dev/null &
        done
        until test $(cat ../acknowledged-* 2> /dev/null | wc -l) -ge 12; do sleep 0.02; done
        echo ready; wait";
    let running = Running::start(&env, script);
    kill_process(running.child("broker"), Signal::KILL).unwrap();
    let outcome = running.wait();
    assert!(
        outcome.stderr.contains("brought up to date"),
        "{}",
        outcome.stderr
    );
    let mut delivered = 0;
    for who in ["a", "b", "c"] {
        let acknowledged = fs::read_to_string(env.path(&format!("acknowledged-{who}")));
        for name in acknowledged.unwrap_or_default().lines() {
            let message = text(env.path(&format!("data/new/{name}")));
            assert_eq!(message, format!("{who}\n").repeat(2048), "{name}");
            delivered += 1;
        }
    }
    assert!(delivered >= 12, "{delivered}");
}

#[test]
fn postgres_did_not_start_or_lost_rows() {
    let test = "postgres_did_not_start_or_lost_rows";
    let Some(env) = env(test) else {
        return;
    };
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let has_user = text("/etc/passwd")
        .lines()
        .any(|line| line.starts_with("postgres:"));
    if !["initdb", "pg_ctl", "psql"]
        .iter()
        .all(|name| is_there(name))
        || !has_user
    {
        skip(
            test,
            "needs initdb, pg_ctl and psql on the path, and the user postgres",
        );
        return;
    }
    // Its processes have given root up, which refuses to run it.
    let script = "set -e
        chmod 755 ..; mkdir db ../sockets; chown postgres db ../sockets
        exec setpriv --reuid postgres --clear-groups sh -c 'set -e
            initdb -A trust -U postgres -D db > /dev/null
            start() { pg_ctl -s -w -D db -o \"-k $PWD/../sockets -c listen_addresses=\" -l db/log start; }
            ask() { psql -h $PWD/../sockets -U postgres -qAtc \"$1\"; }
            start
            ask \"create table t as select generate_series(1, 1000) as n\"
            pg_ctl -s -w -D db -m immediate stop
            start
            ask \"select count(*) from t\"
            pg_ctl -s -w -D db -m fast stop'";
    let outcome = run(&env, script);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "1000\n");
    env.ask(&["info", "POOL"]);
}
