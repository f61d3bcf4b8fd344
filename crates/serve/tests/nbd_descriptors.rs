//! Out of file descriptors: clients wait, none is dropped, and service goes on afterwards. Alone in
//! its file, because the limit holds for the whole process.

mod nbd_client;

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nbd_client::*;

#[test]
fn out_of_descriptors_in_accept_is_survived() {
    let rig = Rig::memory(1 << 20);
    let mut early = rig.open();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let low = rustix::process::Rlimit {
        current: Some(256),
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, low).unwrap();
    let mut hoard = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        hoard.push(file);
    }
    // One for the client, and none for the server's side of it.
    hoard.pop().unwrap();
    let pending = UnixStream::connect(&rig.socket).unwrap();
    let start = Instant::now();
    while rig.server.stats().accept_errors == 0 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "accept must fail"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    early.write(0, &[3; 512]);
    assert_eq!(early.read(0, 512), [3; 512]);
    drop(hoard);
    let mut late = Client::greet(pending).unwrap();
    late.go("disk").unwrap();
    assert_eq!(late.read(0, 512), [3; 512]);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
}
