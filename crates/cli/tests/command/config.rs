//! Config files: one pool, several disks and front ends; errors with file, line and key.

use crate::test_env::TestEnv;
use forebay_harness::nbd::Client;

fn write(env: &TestEnv, text: &str) {
    std::fs::write(env.path("forebay.toml"), text).unwrap();
}

#[test]
fn a_config_file_serves_several_disks_and_a_flag_wins_over_it() {
    let env = TestEnv::with_pool();
    env.make_image("second.img");
    write(
        &env,
        "pool = \"pool\"
nbd = [\"unix:nbd.sock\", \"tcp:127.0.0.1:0\"]
log-format = \"json\"
dirty-high = 70
flush-rate = \"8M\"

[[volume]]
backing = \"disk.img\"
name = \"first\"

[[volume]]
backing = \"second.img\"
",
    );
    let daemon = env.serve_with(&["--config", "./forebay.toml", "--dirty-high", "80"]);
    assert_eq!(daemon.announced.len(), 4, "two disks at two front ends");
    for export in ["first", "second.img"] {
        let mut client = Client::open(&env.path("nbd.sock"), export).unwrap();
        client.write(0, export.as_bytes()).unwrap();
        assert_eq!(client.read(0, export.len()).unwrap(), export.as_bytes());
    }
    let settings = &env.ask(&["stat", "POOL"])["settings"];
    assert_eq!(settings["dirty_high_per_mille"], 800);
    assert_eq!(settings["flush_rate_limit_bytes_per_s"], 8 << 20);
    daemon.end();
    let log = env.log();
    assert!(!log.is_empty());
    for line in log.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            entry["message"].is_string() && entry["level"].is_string(),
            "{line}"
        );
    }
}

#[test]
fn wrong_config_files_are_refused_with_file_line_and_key() {
    let env = TestEnv::with_pool();
    for (text, parts) in [
        (
            "pool = \"pool\"\nbackin = \"disk.img\"\n",
            ["forebay.toml:2:", "`backin`"],
        ),
        ("pool = [\n", ["forebay.toml:", "array"]),
        (
            "pool = \"pool\"\nthreads = 0\n",
            ["forebay.toml:2:", "threads"],
        ),
        (
            "pool = \"pool\"\nbacking = \"disk.img\"\n",
            ["--fuse", "--nbd"],
        ),
        ("nbd = \"unix:nbd.sock\"\n", ["no pool", "--pool"]),
        (
            "pool = \"pool\"\nnbd = \"unix:nbd.sock\"\ntls-key = \"key\"\n",
            ["--tls-certificate", "all three"],
        ),
        (
            "pool = \"pool\"\nnbd = \"unix:nbd.sock\"\nuser = \"no-such-user\"\n",
            ["no-such-user", "no such user"],
        ),
    ] {
        write(&env, text);
        let refused = env.run(&["serve", "--config", "./forebay.toml"]);
        assert_eq!(refused.code, 2, "{text}: {}", refused.stderr);
        for part in parts {
            assert!(refused.stderr.contains(part), "{text}: {}", refused.stderr);
        }
    }
    env.refuses(&["serve", "--config", "./missing.toml"], 2, "missing.toml");
}

#[test]
fn a_wrong_certificate_is_named() {
    let env = TestEnv::with_pool();
    std::fs::write(env.path("server.pem"), "no certificate").unwrap();
    let tls = [
        "--tls-certificate",
        "./server.pem",
        "--tls-key",
        "./server.key",
    ];
    let serve = [
        "serve",
        "--pool",
        "POOL",
        "--backing",
        "BACKING",
        "--nbd",
        "tcp:127.0.0.1:0",
    ];
    let half = env.run(&[&serve[..], &tls].concat());
    assert_eq!(half.code, 2, "{}", half.stderr);
    env.refuses(
        &[&serve[..], &tls, &["--tls-client-ca", "./ca.pem"]].concat(),
        1,
        "server.",
    );
}

#[test]
fn tcp_beyond_loopback_needs_tls() {
    let env = TestEnv::with_pool();
    env.refuses(
        &[
            "serve",
            "--pool",
            "POOL",
            "--backing",
            "BACKING",
            "--nbd",
            "tcp:0.0.0.0:0",
        ],
        1,
        "TLS",
    );
    assert!(!env.path("pool.sock").exists());
}
