//! A guest boots, runs scripts, keeps its hands off the host, and can be cut off.

use std::path::Path;
use std::time::Duration;

use forebay_rig::{Disk, Guest, GuestOptions, QemuStorageDaemon, Scratch, obstacle};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_guest_runs_scripts_and_what_it_reported_outlives_it() {
    if let Some(why) = obstacle() {
        eprintln!("skipped a_guest_runs_scripts_and_what_it_reported_outlives_it: {why}");
        return;
    }
    let scratch = Scratch::new().unwrap();
    let disk = scratch.sparse_file("disk", 64 << 20).unwrap();
    let served = scratch.sparse_file("served", 64 << 20).unwrap();
    let socket = scratch.path("socket");
    let _server = QemuStorageDaemon::serve(&served, &socket, &scratch.path("log")).unwrap();
    let options = GuestOptions::with_disks([Disk::File(disk), Disk::Vhost(socket)]);
    let mut guest = Guest::boot(&scratch, &options).unwrap();
    let output = guest.run("echo said; exit 3", LIMIT).unwrap();
    assert_eq!((output.status, output.text.as_str()), (3, "said\n"));
    let mine = Path::new(env!("CARGO_MANIFEST_DIR")).join("left-by-a-guest");
    let script = format!("touch {mine:?} 2>/dev/null && exit 1; cat /sys/block/{{ubda,vda}}/size");
    assert_eq!(guest.must_run(&script, LIMIT).unwrap(), "131072\n131072\n");
    assert!(!mine.exists());
    guest
        .must_run("mkfs.ext4 -q /dev/vda && mount /dev/vda /mnt/a", LIMIT)
        .unwrap();
    let report = guest.shared().join("report");
    let busy = "for i in {1..100000}; do echo $i >>$RIG/report; done";
    guest.start(busy).unwrap();
    let lines = || std::fs::read_to_string(&report).map_or(0, |text| text.lines().count());
    while lines() < 50 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = lines();
    guest.cut_power().unwrap();
    assert!(lines() >= before);

    let guest = Guest::boot(&scratch, &options).unwrap();
    guest.shut_down().unwrap();
}
