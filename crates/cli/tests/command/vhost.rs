//! Disks for virtual machines: the socket, which guest has the disk, the end. What goes over the
//! socket is tested where it is served.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::test_env::TestEnv;
use forebay_harness::nbd::Client;

/// Connects and asks for the features, as every client does first.
fn connect(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    let ask = [1_u32, 1, 0].map(u32::to_ne_bytes).concat();
    stream.write_all(&ask).unwrap();
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).unwrap();
    let features = u64::from_ne_bytes(answer[12..].try_into().unwrap());
    assert_ne!(features & 1 << 32, 0, "version 1");
    stream
}

const SERVE: [&str; 6] = [
    "--pool",
    "POOL",
    "--backing",
    "BACKING",
    "--vhost-user",
    "./guest.sock",
];

#[test]
fn a_guest_has_the_disk_until_it_goes() {
    let env = TestEnv::with_pool();
    let daemon = env.serve_with(&SERVE);
    let socket = env.path("guest.sock");
    let said = daemon.announced.join("\n");
    assert!(said.contains("over vhost-user at"), "{said}");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let guest = connect(&socket);
    let front_ends = env.ask(&["stat", "POOL"])["front_ends"].clone();
    assert_eq!(front_ends[0]["kind"], "vhost-user");
    assert_eq!(front_ends[0]["volume"], "disk.img");
    assert_eq!(front_ends[0]["connections_open"], 1);
    env.refuses(&["detach", "POOL", "disk.img"], 4, "a guest has disk.img");

    drop(guest);
    drop(connect(&socket));
    env.make_image("second.img");
    let attach = ["attach", "POOL", "--backing", "./second.img"];
    let nowhere = env.run(&attach);
    assert_eq!(nowhere.code, 2, "{}", nowhere.stderr);
    env.ask(&[&attach[..], &["--vhost-user", "./second.sock"]].concat());
    drop(connect(&env.path("second.sock")));
    while env.run(&["detach", "POOL", "disk.img"]).code == 4 {
        // Its guest is about to be noticed gone.
        std::thread::yield_now();
    }
    assert!(!socket.exists());
    daemon.end();
    assert!(!env.path("second.sock").exists());
}

#[test]
fn an_end_waits_for_the_guest_until_the_deadline() {
    let env = TestEnv::with_pool();
    let deadline = ["--shutdown-deadline", "0"];
    let daemon = env.serve_with(&[&SERVE[..], &deadline].concat());
    let mut guest = connect(&env.path("guest.sock"));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(6), "{}", env.log());
    assert!(env.log().contains("a guest over vhost-user"));
    assert_eq!(guest.read(&mut [0; 8]).unwrap(), 0, "cut off");
    assert!(!env.path("guest.sock").exists());
}

#[test]
fn each_disk_of_a_config_file_has_a_socket_of_its_own() {
    let env = TestEnv::with_pool();
    env.make_image("second.img");
    let config = "pool = \"pool\"\nvhost-user-queues = 2\n\
                  [[volume]]\nbacking = \"disk.img\"\nvhost-user = \"first.sock\"\n\
                  [[volume]]\nbacking = \"second.img\"\nvhost-user = \"second.sock\"\n";
    std::fs::write(env.path("config.toml"), config).unwrap();
    let daemon = env.serve_with(&["--config", "./config.toml"]);
    let guests = ["first.sock", "second.sock"].map(|name| connect(&env.path(name)));
    drop(guests);
    daemon.end();
}

#[test]
fn a_socket_that_cannot_be_made_ends_the_start() {
    let env = TestEnv::with_pool();
    std::fs::write(env.path("guest.sock"), "no socket").unwrap();
    env.refuses(&[&["serve"], &SERVE[..]].concat(), 1, "is no socket");
}

#[test]
fn a_guest_that_comes_while_its_disk_is_flushed_keeps_it() {
    let env = TestEnv::with_test_pool();
    let front_ends = ["--nbd", "NBD", "--dirty-low", "90", "--dirty-high", "95"];
    let daemon = env.serve_with(&[&SERVE[..], &front_ends].concat());
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    client.write(0, &[5; 4096]).unwrap();
    drop(client);
    while env.ask(&["stat", "POOL"])["volumes"][0]["nbd_connections"] != 0 {
        std::thread::yield_now();
    }
    // The flush takes so long that the guest comes before its end.
    let delay = ["fault", "POOL", "delay-backing", "disk.img"];
    env.ask(&[&delay[..], &["--microseconds", "3000000"]].concat());
    let detach = ["detach", "POOL", "disk.img"];
    let detaching = env.command(&detach).stderr(Stdio::piped()).spawn().unwrap();
    // A guest that comes too early is refused the same.
    std::thread::sleep(Duration::from_millis(500));
    let guest = connect(&env.path("guest.sock"));
    let refused = detaching.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("a guest has disk.img"), "{said}");
    let front_ends = env.ask(&["stat", "POOL"])["front_ends"].clone();
    let has_guest = |front_end: &serde_json::Value| front_end["connections_open"] == 1;
    assert!(
        front_ends.as_array().unwrap().iter().any(has_guest),
        "{front_ends}"
    );

    env.ask(&[&delay[..], &["--microseconds", "0"]].concat());
    drop(guest);
    while env.run(&detach).code == 4 {
        std::thread::yield_now();
    }
    assert!(!env.path("guest.sock").exists());
    daemon.end();
}
