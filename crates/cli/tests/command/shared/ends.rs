//! How `forebay run --shared` ends: by itself, by signals, by kills, and what it leaves.

use std::fs;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Running, brokers, command, env, run, text, wait_until};
use crate::test_env::Outcome;

#[test]
fn a_stop_of_all_at_once_took_the_files_from_a_program_that_was_ending() {
    let Some(env) = env("a_stop_of_all_at_once") else {
        return;
    };
    let go_on = env.path("go-on");
    let script = format!(
        "trap 'until test -e {}; do sleep 0.01; done; echo last > file; sync file; exit 5' 15
        echo ready; while :; do sleep 0.05; done",
        go_on.display()
    );
    let running = Running::start(&env, &script);
    // As a service manager stops a control group.
    kill_process(running.child("broker"), Signal::TERM).unwrap();
    kill_process(Pid::from_child(&running.process), Signal::TERM).unwrap();
    wait_until(|| text(&running.log).contains("told to end"));
    fs::write(&go_on, b"").unwrap();
    let outcome = running.wait();
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    assert_eq!(text(env.path("data/file")), "last\n");
}

#[test]
fn a_broker_that_was_told_twice_went_on() {
    let Some(env) = env("a_broker_that_was_told_twice_went_on") else {
        return;
    };
    let script =
        "echo synced > file; sync file; echo ready; while cat file; do sleep 0.02; done; exit 3";
    let running = Running::start(&env, script);
    let broker = running.child("broker");
    kill_process(broker, Signal::TERM).unwrap();
    wait_until(|| text(&running.log).contains("told to end"));
    kill_process(broker, Signal::TERM).unwrap();
    let outcome = running.wait();
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    assert_eq!(text(env.path("data/file")), "synced\n");
    env.ask(&["info", "POOL"]);
}

#[test]
fn a_program_without_its_files_counted_as_done() {
    let Some(env) = env("a_program_without_its_files_counted_as_done") else {
        return;
    };
    let script = "echo ready; while cat file > /dev/null 2>&1; do sleep 0.01; done; exit 0";
    let running = Running::start(&env, script);
    kill_process(running.child("broker"), Signal::KILL).unwrap();
    let outcome = running.wait();
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
}

#[test]
fn a_signal_for_the_program_ended_the_wait_for_what_it_left() {
    let Some(env) = env("a_signal_for_the_program_ended_the_wait") else {
        return;
    };
    let go_on = env.path("go-on");
    let script = format!(
        "sh -c 'until test -e {}; do sleep 0.01; done; echo late > file; sync file' > /dev/null 2>&1 & echo ready",
        go_on.display()
    );
    let running = Running::start(&env, &script);
    wait_until(|| text(&running.log).contains("waiting for processes"));
    for signal in [Signal::USR1, Signal::USR2, Signal::TERM] {
        kill_process(Pid::from_child(&running.process), signal).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    fs::write(&go_on, b"").unwrap();
    let outcome = running.wait();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(text(env.path("data/file")), "late\n");
}

#[test]
fn programs_that_end_at_once_left_the_pool_open() {
    let Some(env) = env("programs_that_end_at_once_left_the_pool_open") else {
        return;
    };
    for _ in 0..10 {
        let mut command =
            env.command(&["run", "--pool", "POOL", "--shared", "./data", "--", "true"]);
        let outcome: Outcome = command.current_dir("/").output().unwrap().into();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    }
    // Neither does a command that is killed while the pool is being opened.
    for wait_ms in [0, 5, 10, 20, 40] {
        let mut process = command(&env, "exec sleep 0.1").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        process.kill().unwrap();
        process.wait().unwrap();
        wait_until(|| brokers(&env) == 0);
    }
    let outcome = run(&env, "cat file");
    assert_eq!(
        (outcome.stdout.as_str(), outcome.stderr.as_str()),
        ("before", "")
    );
}

#[test]
fn a_process_left_behind_lost_its_files_or_hung_the_command() {
    let Some(env) = env("a_process_left_behind") else {
        return;
    };
    // It is waited for.
    let script = "sh -c 'sleep 0.3; echo late > file; sync file' > /dev/null 2>&1 & exit 4";
    let outcome = run(&env, script);
    assert_eq!(outcome.code, 4, "{}", outcome.stderr);
    assert_eq!(text(env.path("data/file")), "late\n");
    // Ctrl-C ends the wait, and with it what the process had.
    let left = env.path("left");
    let script = format!(
        "sh -c 'echo $$ > {}; while cat file; do sleep 0.02; done; exec sleep 1000' > /dev/null 2>&1 & echo ready; exit 0",
        left.display()
    );
    let running = Running::start(&env, &script);
    wait_until(|| text(&running.log).contains("waiting for processes"));
    kill_process(Pid::from_child(&running.process), Signal::INT).unwrap();
    let outcome = running.wait();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(text(env.path("data/file")), "late\n");
    let left = Pid::from_raw(text(left).trim().parse().unwrap()).unwrap();
    kill_process(left, Signal::KILL).unwrap();
    env.ask(&["info", "POOL"]);
}

#[test]
fn a_broker_kept_what_its_command_had_open() {
    let Some(env) = env("a_broker_kept_what_its_command_had_open") else {
        return;
    };
    let script = "echo ready; while :; do sleep 0.05; done";
    let own = command(&env, script);
    let mut command = Command::new("sh");
    command.args(["-c", "exec 9> ../lock; exec \"$0\" \"$@\""]);
    command.arg(own.get_program()).args(own.get_args());
    command.current_dir(env.path("data"));
    command.env("XDG_STATE_HOME", env.path("state"));
    let running = Running::start_as(&env, command);
    let lock = env.path("lock").canonicalize().unwrap();
    let has_lock = |id: Pid| {
        let files = fs::read_dir(format!("/proc/{}/fd", id.as_raw_nonzero())).unwrap();
        let mut files = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
        files.any(|file| file == lock)
    };
    assert!(has_lock(running.child("sh")));
    assert!(!has_lock(running.child("broker")));
    kill_process(Pid::from_child(&running.process), Signal::TERM).unwrap();
    assert_eq!(running.wait().code, 128 + 15);
}

#[test]
fn a_killed_command_took_the_files_from_its_program() {
    let Some(env) = env("a_killed_command_took_the_files_from_its_program") else {
        return;
    };
    let go_on = env.path("go-on");
    let script = format!(
        "echo ready; until test -e {}; do sleep 0.01; done; echo after > file; sync file; echo end > last",
        go_on.display()
    );
    let running = Running::start(&env, &script);
    kill_process(Pid::from_child(&running.process), Signal::KILL).unwrap();
    running.wait();
    assert_eq!(brokers(&env), 1);
    fs::write(&go_on, b"").unwrap();
    wait_until(|| brokers(&env) == 0);
    assert_eq!(text(env.path("data/file")), "after\n");
    assert_eq!(text(env.path("data/last")), "end\n");
    env.ask(&["info", "POOL"]);
}

#[test]
fn a_limit_of_the_program_ended_its_broker() {
    let Some(env) = env("a_limit_of_the_program_ended_its_broker") else {
        return;
    };
    let own = command(&env, "ulimit -f; echo text > file; sync file");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -f 8; exec \"$0\" \"$@\""]);
    command.arg(own.get_program()).args(own.get_args());
    command.current_dir(env.path("data"));
    command.env("XDG_STATE_HOME", env.path("state"));
    let outcome: Outcome = command.output().unwrap().into();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "8\n");
    assert_eq!(text(env.path("data/file")), "text\n");
}
