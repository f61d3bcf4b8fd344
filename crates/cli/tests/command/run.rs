//! `forebay run`: exit codes, signals, and what it leaves behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::Signal;

use crate::test_env::TestEnv;

/// Cargo builds it before these tests, beside them.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let places = [folder, folder.parent().unwrap()].map(|at| at.join("libforebay_preload.so"));
    let there = places.into_iter().filter(|path| path.exists());
    let newest = there.max_by_key(|env| env.metadata().unwrap().modified().unwrap());
    newest.expect("cargo builds the library")
}

fn env() -> TestEnv {
    let env = TestEnv::new();
    env.ask(&["create", "POOL", "--size", "64M"]);
    fs::create_dir(env.path("data")).unwrap();
    env
}

/// The command with a program, in the folder `data`.
fn command(env: &TestEnv, program: &[&str]) -> std::process::Command {
    let library = library();
    let own = [
        "run",
        "--pool",
        "POOL",
        "--library",
        library.to_str().unwrap(),
        "--",
    ];
    let mut command = env.command(&[&own, program].concat());
    command.current_dir(env.path("data"));
    command
}

/// Starts a program, and waits until it has said so.
fn start(env: &TestEnv, program: &[&str]) -> Child {
    let mut child = command(env, program)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn signal(child: &Child, signal: Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

fn code(status: ExitStatus) -> i32 {
    assert_eq!(
        status.signal(),
        None,
        "the command itself is never ended by it"
    );
    status.code().unwrap()
}

#[test]
fn the_exit_code_is_the_programs_or_says_why_there_is_none() {
    let env = env();
    fs::write(env.path("data/text"), "no program").unwrap();
    let mut rights = env.path("data/text").metadata().unwrap().permissions();
    rights.set_mode(0o644);
    fs::set_permissions(env.path("data/text"), rights).unwrap();
    for (program, expected) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "exit 255"], 255),
        (&["sh", "-c", "kill -9 $$"], 128 + 9),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["./data/text"], 126),
        (&["/"], 126),
        (&["./missing"], 127),
        (&["no-program-of-this-name"], 127),
    ] {
        let output = command(&env, program).output().unwrap();
        assert_eq!(code(output.status), expected, "{program:?}");
        assert!(!env.path("pool.owner").exists());
    }
}

#[test]
fn signals_are_passed_on() {
    let env = env();
    for (given, number) in [
        (Signal::TERM, 15),
        (Signal::HUP, 1),
        (Signal::USR1, 10),
        (Signal::USR2, 12),
        (Signal::INT, 2),
        (Signal::QUIT, 3),
    ] {
        let mut child = start(&env, &["sh", "-c", "echo ready; exec sleep 1000"]);
        signal(&child, given);
        assert_eq!(code(child.wait().unwrap()), 128 + number);
        // A program that answers it ends as it likes.
        let script = format!("trap 'exit 5' {number}; echo ready; while :; do sleep 0.05; done");
        let mut child = start(&env, &["sh", "-c", &script]);
        signal(&child, given);
        assert_eq!(code(child.wait().unwrap()), 5, "{number}");
    }
}

#[test]
fn what_was_ignored_stays_ignored() {
    let env = env();
    let library = library();
    let pool = env.path("pool");
    let script = format!(
        "trap '' HUP; exec {} run --pool {} --library {} -- sh -c 'kill -HUP $$; kill -HUP $PPID; exit 4'",
        env!("CARGO_BIN_EXE_forebay"),
        pool.display(),
        library.display()
    );
    let mut shell = std::process::Command::new("sh");
    let output = shell
        .args(["-c", &script])
        .current_dir(env.path("data"))
        .output()
        .unwrap();
    assert_eq!(code(output.status), 4);
}

const PYTHON: &str = "
import os, sys, time
f = os.open('file', os.O_RDWR | os.O_CREAT)
os.write(f, b'first ')
os.fsync(f)
os.write(f, b'second')
os.fsync(f)
print('ready', flush=True)
time.sleep(1000)
";

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let env = env();
    for script in [
        PYTHON.to_string(),
        // Ended at once, with nothing of its own run.
        format!("import signal\nsignal.signal(2, signal.SIG_DFL)\n{PYTHON}"),
    ] {
        let program = ["python3", "-c", &script];
        if std::process::Command::new("python3")
            .arg("--version")
            .output()
            .is_err()
        {
            println!("skipped ctrl_c_leaves_nothing_behind: no python3 here");
            return;
        }
        let mut child = start(&env, &program);
        assert!(env.path("pool.owner").exists());
        signal(&child, Signal::INT);
        assert_eq!(code(child.wait().unwrap()), 128 + 2);
        assert!(!env.path("pool.owner").exists());
        assert_eq!(fs::read(env.path("data/file")).unwrap(), b"first second");
        fs::remove_file(env.path("data/file")).unwrap();
        env.run(&["info", "POOL"]);
    }
}

/// A program of 64 bits without a loader, that ends at once.
#[cfg(target_arch = "x86_64")]
fn static_program() -> Vec<u8> {
    let mut program = vec![0; 120];
    let (base, len) = (0x40_0000_u64, 129_u64);
    program[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    for (at, value) in [(16, 2_u16), (18, 62), (20, 1), (52, 64), (54, 56), (56, 1)] {
        program[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    let words = [
        (24, base + 120),
        (32, 64),
        (80, base),
        (88, base),
        (96, len),
        (104, len),
    ];
    for (at, value) in words {
        program[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    program[64] = 1;
    program[68] = 5;
    // exit(0)
    program.extend(b"\xb8\x3c\0\0\0\x31\xff\x0f\x05");
    program
}

#[test]
#[cfg(target_arch = "x86_64")]
fn over_a_static_program_it_did_nothing_and_said_nothing() {
    let env = env();
    let program = env.path("data/static");
    fs::write(&program, static_program()).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let script = env.path("data/script");
    fs::write(&script, format!("#!{}\n", program.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for program in ["./data/static", "./data/script"] {
        let output = command(&env, &[program]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(code(output.status), 0, "{said}");
        assert!(said.contains("linked statically"), "{said}");
        assert!(said.contains("no file was buffered"), "{said}");
    }
}

#[test]
fn it_did_not_say_what_it_had_done() {
    let env = env();
    let script = "
import os, mmap
for name in ['one', 'two']:
    f = os.open(name, os.O_RDWR | os.O_CREAT)
    os.write(f, b'text')
    os.fsync(f)
m = os.open('three', os.O_RDWR | os.O_CREAT)
os.write(m, b'text')
mmap.mmap(m, 4)[0:1] = b'T'
";
    if std::process::Command::new("python3")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped it_did_not_say_what_it_had_done: no python3 here");
        return;
    }
    let output = command(&env, &["python3", "-c", script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.ends_with("2 files buffered, 1 plain (mmap 1)\n"),
        "{said}"
    );
    let library = library();
    let (library, script) = (library.to_str().unwrap(), "true");
    let quiet = [
        "run",
        "--quiet",
        "--pool",
        "POOL",
        "--library",
        library,
        "--",
        script,
    ];
    assert_eq!(env.run(&quiet).stderr, "");
}
