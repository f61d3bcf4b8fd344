//! `forebay top`: for scripts, and on a terminal that it gives back as it was.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::test_env::{TestEnv, skip};

#[test]
fn once_and_json_are_for_scripts() {
    let env = TestEnv::with_pool();
    assert_eq!(env.run(&["top", "POOL", "--once"]).code, 5);
    let daemon = env.serve_nbd(&[]);
    let once = env.run(&["top", "POOL", "--once", "--interval", "0.1"]);
    assert_eq!(once.code, 0, "{}", once.stderr);
    for part in ["dirty", "commits", "errors", "disk.img", "nbd "] {
        assert!(once.stdout.contains(part), "{part}: {}", once.stdout);
    }
    assert!(!once.stdout.contains('\x1b'));
    let json = env.ask(&["top", "POOL", "--interval", "0.1"]);
    assert!(json["interval_s"].as_f64().unwrap() >= 0.1, "{json}");
    assert!(json["sample"]["volumes"][0]["recent"]["read"].is_object());
    assert_eq!(env.run(&["top", "POOL"]).code, 2, "this is no terminal");
    assert_eq!(env.run(&["top", "POOL", "--interval", "0"]).code, 2);
    daemon.end();
}

/// Runs top in a pseudo terminal of 24 lines, types `keys`, and returns what it wrote.
fn on_a_terminal(env: &TestEnv, keys: &str) -> Option<(String, bool)> {
    let command = format!(
        "stty rows 24 cols 80; {} top {} --interval 0.2; echo ended with $?; stty -a",
        env!("CARGO_BIN_EXE_forebay"),
        env.path("pool").display()
    );
    let mut script = Command::new("script")
        .args([
            "--quiet",
            "--return",
            "--echo",
            "never",
            "--command",
            &command,
        ])
        .arg("/dev/null")
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut input = script.stdin.take()?;
    std::thread::sleep(std::time::Duration::from_millis(1500));
    input.write_all(keys.as_bytes()).ok()?;
    let output = script.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Echo is off from the start, so that what is typed is not in the output.
    let is_cooked = text.contains(" icanon") && text.contains("isig ");
    Some((text, is_cooked))
}

#[test]
fn a_terminal_is_drawn_on_and_given_back() {
    let env = TestEnv::with_pool();
    let daemon = env.serve_nbd(&[]);
    for keys in ["q", "\x03"] {
        let Some((text, is_cooked)) = on_a_terminal(&env, keys) else {
            skip("a_terminal_is_drawn_on_and_given_back", "no script(1) here");
            break;
        };
        assert!(text.contains("ended with 0"), "{keys:?}: {text}");
        assert!(text.contains("\x1b[?1049h"), "the other screen: {text}");
        assert!(text.contains("\x1b[?1049l"), "and back: {text}");
        assert!(text.contains("disk.img"), "{text}");
        assert!(is_cooked, "{keys:?}: {text}");
    }
    daemon.end();
}

#[test]
fn a_client_that_stops_watching_gives_its_place_back_between_samples() {
    use std::io::{Read, Write};
    let env = TestEnv::with_pool();
    let daemon = env.serve_nbd(&[]);
    let watchers: Vec<_> = (0..16)
        .map(|_| {
            let socket = env.path("pool.sock");
            let mut watcher = std::os::unix::net::UnixStream::connect(socket).unwrap();
            let sample = b"{\"command\": \"sample\", \"interval_ms\": 60000}\n";
            watcher.write_all(sample).unwrap();
            // The first sample comes at once; the next one in a minute.
            watcher.read_exact(&mut [0]).unwrap();
            watcher
        })
        .collect();
    assert_ne!(env.run(&["stat", "POOL"]).code, 0, "all places are taken");
    let started = std::time::Instant::now();
    drop(watchers);
    while env.run(&["stat", "POOL"]).code != 0 {
        let is_early = started.elapsed() < std::time::Duration::from_secs(50);
        assert!(is_early, "the places came back with the next sample only");
        std::thread::yield_now();
    }
    daemon.end();
}
