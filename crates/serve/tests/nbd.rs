//! What an NBD client of ours gets: every command, in both styles of reply, from several
//! connections at once, and an orderly end.

mod nbd_client;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_serve::nbd::{Exports, NbdAddress, NbdOptions, NbdServer};
use forebay_serve::{Access, BlockDevice, DeviceError, MemoryDevice};
use nbd_client::*;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

const MIB: usize = 1 << 20;
/// Long enough for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn every_command_does_what_it_says() {
    let rig = Rig::memory(64 * MIB);
    let mut client = rig.open();
    assert_eq!(client.size_bytes, 64 * MIB as u64);
    client.write(4096, &[7; 4096]);
    client.write(1_000_001, &[9; 3]);
    assert_eq!(client.read(4096, 4096), [7; 4096]);
    assert_eq!(client.read(1_000_000, 5), [0, 9, 9, 9, 0]);
    assert_eq!(client.ask(FLUSH, 0, 0, 0, &[]).unwrap().errno, 0);
    assert_eq!(client.ask(CACHE, 0, 0, 64 << 20, &[]).unwrap().errno, 0);
    assert_eq!(client.ask(TRIM, 1, 4096, 1024, &[]).unwrap().errno, 0);
    assert_eq!(client.read(4096, 1025), [&[0; 1024][..], &[7]].concat());
    for flags in [0, 2] {
        client.write(8 * MIB as u64, &[5; 8192]);
        let zeroed = client
            .ask(WRITE_ZEROES, flags, 8 * MIB as u64 + 1, 8000, &[])
            .unwrap();
        assert_eq!(zeroed.errno, 0);
        let after = client.read(8 * MIB as u64, 8192);
        assert_eq!((after[0], after[1], after[8000], after[8001]), (5, 0, 0, 5));
    }
    let status = client.ask(BLOCK_STATUS, 0, 0, MIB as u32, &[]).unwrap();
    assert_eq!(status.extents, [(MIB as u32, 0)]);
    for command in [READ, WRITE, TRIM, CACHE, WRITE_ZEROES] {
        assert_eq!(client.ask(command, 0, 5, 0, &[]).unwrap().errno, 0);
    }
    client.send_request(DISCONNECT, 0, 0, 0, 0).unwrap();
    assert!(client.is_closed());
    let stats = rig.server.stats();
    assert_eq!(stats.reads, 6, "{stats:?}");
    assert_eq!(stats.errors, 0, "{stats:?}");
}

#[test]
fn the_longest_request_is_served_whole_and_simple_replies_too() {
    let rig = Rig::memory(64 * MIB);
    let data: Vec<u8> = (0..32 * MIB).map(|at| (at / 4099) as u8).collect();
    let mut structured = rig.open();
    structured.write(512, &data);
    assert!(structured.read(512, 32 << 20) == data);
    let mut simple = rig.client();
    simple.go("disk").unwrap();
    assert_eq!(
        simple.flags & (1 << 7),
        0,
        "no DF without structured replies"
    );
    assert!(simple.read(512, 32 << 20) == data);
    let refused = simple.ask(READ, 0, 64 << 20, 1, &[]).unwrap();
    assert_eq!((refused.errno, refused.data.len()), (22, 0));
}

#[test]
fn a_deep_queue_is_answered_whole_whatever_the_order() {
    let rig = Rig::memory(16 * MIB);
    let mut client = rig.open();
    // Short ones that are answered at once, and long ones that workers answer.
    let lengths = [512, 4096, 131_072, 131_073, 1 << 20];
    for round in 0..20_u64 {
        for number in 0..15_u64 {
            let length = lengths[number as usize % lengths.len()];
            let offset = number << 20;
            let payload = vec![(round * 15 + number) as u8; length as usize];
            client
                .send_request(WRITE, 0, number, offset, length)
                .unwrap();
            std::io::Write::write_all(&mut client.stream, &payload).unwrap();
        }
        let mut answered: Vec<u64> = (0..15)
            .map(|_| client.reply(0).unwrap())
            .inspect(|reply| assert_eq!(reply.errno, 0))
            .map(|reply| reply.cookie)
            .collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..15).collect::<Vec<_>>());
        for number in 0..15_u64 {
            let length = lengths[number as usize % lengths.len()];
            client
                .send_request(READ, 4, number, number << 20, length)
                .unwrap();
        }
        for _ in 0..15 {
            let reply = client.reply(0).unwrap();
            let length = lengths[reply.cookie as usize % lengths.len()] as usize;
            assert_eq!(reply.data.len(), length);
            assert!(
                reply
                    .data
                    .iter()
                    .all(|b| *b == (round * 15 + reply.cookie) as u8)
            );
        }
    }
    // A request counts until a moment after its reply.
    while rig.server.stats().requests_in_flight > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn exports_are_listed_opened_by_name_and_told_apart() {
    let exports = Arc::new(Exports::new());
    for (name, fill) in [("a", 1_u8), ("b", 2)] {
        let device = Arc::new(MemoryDevice::new(8192, 4096));
        device.write_at(0, &[fill; 8192]).unwrap();
        exports.add(name, "of tests", device).unwrap();
    }
    let rig = Rig::with(exports, NbdOptions::default());
    let mut client = rig.client();
    let listed = client.option(OPT_LIST, &[]).unwrap();
    let names: Vec<_> = listed[..2]
        .iter()
        .map(|(_, data)| data[4..5].to_vec())
        .collect();
    assert_eq!(names, [b"a".to_vec(), b"b".to_vec()]);
    assert_eq!(&listed[0].1[5..], b"of tests");
    assert_eq!(
        client.verdict(OPT_INFO, &go_data("c")).unwrap(),
        REP_UNKNOWN
    );
    assert_eq!(client.verdict(OPT_INFO, &go_data("")).unwrap(), REP_UNKNOWN);
    let info = client.option(OPT_INFO, &go_data("b")).unwrap();
    let of_kind = |kind: u8| {
        let found = info.iter().find(|(_, data)| data.starts_with(&[0, kind]));
        found.map(|(_, data)| data[2..].to_vec()).unwrap()
    };
    assert_eq!(of_kind(1), b"b");
    assert_eq!(of_kind(2), b"of tests");
    assert_eq!(of_kind(3), [0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
    client.go("b").unwrap();
    assert_eq!(client.read(0, 2), [2, 2]);
    // The old way, with and without the zeroes that clients do not want.
    let mut old = rig.client();
    old.send_option(OPT_EXPORT_NAME, b"a").unwrap();
    let mut answer = [0; 10];
    std::io::Read::read_exact(&mut old.stream, &mut answer).unwrap();
    assert_eq!(answer[..8], 8192_u64.to_be_bytes());
    assert_eq!(old.read(0, 2), [1, 1]);
    let mut unknown = rig.client();
    unknown.send_option(OPT_EXPORT_NAME, b"c").unwrap();
    assert!(unknown.is_closed());
}

#[test]
fn block_status_needs_a_context_that_belongs_to_the_export() {
    let rig = Rig::memory(MIB);
    let mut client = rig.client();
    let query = [string("disk"), vec![0, 0, 0, 1], string("base:allocation")].concat();
    // Not before structured replies, and not for another export.
    assert_eq!(
        client.verdict(OPT_SET_META_CONTEXT, &query).unwrap(),
        REP_INVALID
    );
    assert_eq!(client.verdict(OPT_STRUCTURED_REPLY, &[]).unwrap(), REP_ACK);
    client.structured = true;
    client.go("disk").unwrap();
    assert_eq!(client.ask(BLOCK_STATUS, 0, 0, 512, &[]).unwrap().errno, 22);
    let one = rig.open().ask(BLOCK_STATUS, 8, 0, 512, &[]).unwrap();
    assert_eq!(one.extents, [(512, 0)]);
}

#[test]
fn connections_see_one_disk() {
    let rig = Rig::memory(MIB);
    let (mut one, mut two) = (rig.open(), rig.open());
    assert_ne!(one.flags & (1 << 8), 0, "it says so");
    for round in 1..100_u8 {
        one.write(0, &[round; 4096]);
        assert_eq!(two.read(0, 4096), [round; 4096]);
    }
}

#[test]
fn tcp_is_served_on_loopback_and_refused_elsewhere() {
    let exports = Arc::new(Exports::new());
    exports
        .add("disk", "", Arc::new(MemoryDevice::new(8192, 4096)))
        .unwrap();
    let start = |address: &str| {
        let address: NbdAddress = address.parse().unwrap();
        NbdServer::start(Arc::clone(&exports), &address, NbdOptions::default())
    };
    let server = start("tcp:127.0.0.1:0").unwrap();
    let NbdAddress::Tcp { host, port } = server.address().clone() else {
        panic!("{server:?}");
    };
    assert_ne!(port, 0);
    let stream = std::net::TcpStream::connect((host, port)).unwrap();
    let mut client = Client::greet(stream).unwrap();
    client.go("").unwrap();
    assert_eq!(client.read(0, 3), [0; 3]);
    // A machine without IPv6 says so; what is loopback is nowhere taken for open.
    if let Err(error) = start("tcp:[::ffff:127.0.0.1]:0") {
        assert!(!error.to_string().contains("not loopback"), "{error}");
    }
    for open in ["tcp:[::ffff:0.0.0.0]:0", "tcp:[::]:0"] {
        let refused = start(open).unwrap_err().to_string();
        assert!(refused.contains("not loopback"), "{refused}");
    }
    let refused = start("tcp:0.0.0.0:0").unwrap_err().to_string();
    assert!(refused.contains("not loopback"), "{refused}");
    assert!(refused.contains("TLS"), "{refused}");
    let taken = start(&server.address().to_string()).unwrap_err();
    assert!(taken.to_string().contains("cannot listen"), "{taken}");
}

#[test]
fn the_socket_is_private_replaced_when_dead_and_removed_at_the_end() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nbd");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let start = || {
        NbdServer::start(
            Arc::new(Exports::new()),
            &NbdAddress::Unix(path.clone()),
            NbdOptions::default(),
        )
    };
    let server = start().unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        start()
            .unwrap_err()
            .to_string()
            .contains("a process listens")
    );
    drop(server);
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    assert!(start().unwrap_err().to_string().contains("no socket"));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();
    // A socket of another kind cannot be asked, and is left alone.
    let _datagrams = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let refused = start().unwrap_err().to_string();
    assert!(refused.contains("may be in use"), "{refused}");
    assert!(path.exists());
    // One whose listener has no time to accept is not dead, and is not waited for.
    std::fs::remove_file(&path).unwrap();
    let busy = std::os::unix::net::UnixListener::bind(&path).unwrap();
    rustix::net::listen(&busy, 0).unwrap();
    let flags = SocketFlags::NONBLOCK;
    let kind = (AddressFamily::UNIX, SocketType::STREAM);
    let address = SocketAddrUnix::new(&path).unwrap();
    let mut crowd = Vec::new();
    loop {
        let one = rustix::net::socket_with(kind.0, kind.1, flags, None).unwrap();
        if rustix::net::connect(&one, &address).is_err() {
            break;
        }
        crowd.push(one);
    }
    assert!(
        start()
            .unwrap_err()
            .to_string()
            .contains("a process listens")
    );
}

#[test]
fn the_socket_belongs_to_who_is_named_and_no_link_leads_elsewhere() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nbd");
    let own = std::fs::metadata(folder.path()).unwrap();
    // Only root can give files away; others can give them to themselves.
    let (user, group) = if own.uid() == 0 {
        (65534, 65533)
    } else {
        (own.uid(), own.gid())
    };
    let start = || {
        NbdServer::start(
            Arc::new(Exports::new()),
            &NbdAddress::Unix(path.clone()),
            NbdOptions {
                socket_owner: Some((user, group)),
                ..NbdOptions::default()
            },
        )
    };
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("s"), "precious").unwrap();
    symlink(&elsewhere, folder.path().join("nbd.new")).unwrap();
    start().unwrap_err();
    assert_eq!(std::fs::read(elsewhere.join("s")).unwrap(), b"precious");
    std::fs::remove_file(folder.path().join("nbd.new")).unwrap();
    let _server = start().unwrap();
    let found = std::fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid()), (user, group));
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
}

/// A device that is slow until it is let go.
struct SlowDevice {
    memory: MemoryDevice,
    is_open: AtomicBool,
    /// Requests that it was asked.
    asked: AtomicU64,
}

impl SlowDevice {
    fn new() -> Arc<SlowDevice> {
        Arc::new(SlowDevice {
            memory: MemoryDevice::new(4 * MIB, 4096),
            is_open: AtomicBool::new(false),
            asked: AtomicU64::new(0),
        })
    }
    fn wait(&self, offset: u64) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        while offset >= MIB as u64 && !self.is_open.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl BlockDevice for SlowDevice {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }
    fn block_size(&self) -> u32 {
        4096
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.wait(offset);
        self.memory.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.wait(offset);
        self.memory.write_at(offset, data)
    }
    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.memory.write_zeroes(offset, length)
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.memory.discard(offset, length)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn is_quick(&self, _: Access, offset: u64, _: u64) -> bool {
        offset < MIB as u64
    }
}

#[test]
fn slow_requests_hold_up_no_others_and_a_drain_waits_for_them() {
    let device = SlowDevice::new();
    let rig = Rig::new(device.clone(), NbdOptions::default());
    let mut client = rig.open();
    client.send_request(READ, 0, 1, 2 << 20, 4096).unwrap();
    client.send_request(WRITE, 0, 2, 3 << 20, 512).unwrap();
    std::io::Write::write_all(&mut client.stream, &[4; 512]).unwrap();
    for _ in 0..3 {
        client.write(0, &[3; 4096]);
        assert_eq!(client.read(0, 1), [3]);
    }
    assert_eq!(rig.server.stats().requests_in_flight, 2);
    std::thread::scope(|scope| {
        // Begun for all servers first, by a caller that then looks.
        rig.server.begin_drain();
        assert!(!rig.socket.exists() && !rig.server.is_drained());
        let drained = scope.spawn(|| rig.server.drain(PATIENCE));
        device.is_open.store(true, Ordering::SeqCst);
        assert!(drained.join().unwrap());
        assert!(rig.server.is_drained());
    });
    let mut answered = [(); 2].map(|()| client.reply(0).unwrap().cookie);
    answered.sort_unstable();
    assert_eq!(answered, [1, 2]);
    assert!(client.is_closed());
    assert!(std::os::unix::net::UnixStream::connect(&rig.socket).is_err());
}

#[test]
fn as_many_short_requests_wait_at_once_as_clients_have_under_way() {
    let device = SlowDevice::new();
    let rig = Rig::new(device.clone(), NbdOptions::default());
    let mut client = rig.open();
    // More than there are threads, and long ones that have threads of their own.
    for cookie in 0..40 {
        let offset = MIB as u64 + cookie * 4096;
        client.send_request(READ, 0, cookie, offset, 4096).unwrap();
    }
    for cookie in 40..42 {
        let offset = 2 << 20;
        client
            .send_request(READ, 0, cookie, offset, 1 << 20)
            .unwrap();
    }
    let deadline = Instant::now() + PATIENCE;
    while device.asked.load(Ordering::SeqCst) < 34 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(device.asked.load(Ordering::SeqCst), 32 + 2);
    device.is_open.store(true, Ordering::SeqCst);
    let mut answered: Vec<u64> = (0..42).map(|_| client.reply(0).unwrap().cookie).collect();
    answered.sort_unstable();
    assert!(answered.into_iter().eq(0..42));
}

#[test]
fn a_drain_that_takes_too_long_cuts_connections_off() {
    let device = SlowDevice::new();
    let rig = Rig::new(device.clone(), NbdOptions::default());
    let mut client = rig.open();
    client.send_request(READ, 0, 1, 2 << 20, 4096).unwrap();
    client.read(0, 1);
    assert!(!rig.server.drain(Duration::from_millis(1)));
    assert!(client.is_closed());
    device.is_open.store(true, Ordering::SeqCst);
}

#[test]
fn a_drain_that_has_begun_ends_by_itself_or_is_cut() {
    let device = SlowDevice::new();
    let rig = Rig::new(device.clone(), NbdOptions::default());
    let (mut idle, mut busy) = (rig.open(), rig.open());
    busy.send_request(READ, 0, 1, 2 << 20, 4096).unwrap();
    busy.read(0, 1);
    rig.server.begin_drain();
    assert!(idle.is_closed(), "idle connections do not wait for others");
    assert!(!rig.server.is_drained());
    rig.server.cut();
    assert!(busy.is_closed());
    device.is_open.store(true, Ordering::SeqCst);
    while !rig.server.is_drained() {
        std::thread::yield_now();
    }
}

#[test]
fn long_requests_beyond_the_memory_wait_and_short_ones_do_not() {
    let device = SlowDevice::new();
    let options = NbdOptions {
        memory_max: 4 << 20,
        ..NbdOptions::default()
    };
    let rig = Rig::new(device.clone(), options);
    let long = 3 << 20;
    let start = || {
        let (mut held, mut waits) = (rig.open(), rig.open());
        held.send_request(READ, 0, 1, 1 << 20, long).unwrap();
        while rig.server.stats().requests_in_flight < 1 {
            std::thread::yield_now();
        }
        waits.send_request(READ, 0, 2, 0, long).unwrap();
        while rig.server.stats().requests_in_flight < 2 {
            std::thread::yield_now();
        }
        (held, waits)
    };
    let (mut held, mut waits) = start();
    let mut other = rig.open();
    other.write(0, &vec![6; MIB]);
    assert_eq!(other.read(0, MIB as u32), vec![6; MIB]);
    waits.stream.set_nonblocking(true).unwrap();
    let nothing = std::io::Read::read(&mut waits.stream, &mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    waits.stream.set_nonblocking(false).unwrap();
    device.is_open.store(true, Ordering::SeqCst);
    assert_eq!(held.reply(0).unwrap().data.len(), long as usize);
    assert_eq!(waits.reply(0).unwrap().data.len(), long as usize);
    drop((held, waits, other));
    while !rig.server.is_drained() {
        std::thread::yield_now();
    }
    // A client that is cut off waits no longer, whatever the others do.
    device.is_open.store(false, Ordering::SeqCst);
    let (_held, _waits) = start();
    rig.server.cut();
    while rig.server.stats().connections_open > 1 {
        std::thread::yield_now();
    }
    device.is_open.store(true, Ordering::SeqCst);
}

#[test]
fn an_end_does_not_wait_for_what_is_long_and_for_no_client() {
    for command in [CACHE, WRITE_ZEROES] {
        let device = SlowDevice::new();
        let rig = Rig::new(device.clone(), NbdOptions::default());
        let mut client = rig.open();
        let no_hole = if command == WRITE_ZEROES { 2 } else { 0 };
        client
            .send_request(command, no_hole, 1, 0, 4 << 20)
            .unwrap();
        // The first of four pieces is quick, the second is not.
        while device.asked.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        rig.server.begin_drain();
        if command == WRITE_ZEROES {
            // It would be finished for a client that can still be answered.
            rig.server.cut();
        }
        device.is_open.store(true, Ordering::SeqCst);
        while !rig.server.is_drained() {
            std::thread::yield_now();
        }
        assert_eq!(device.asked.load(Ordering::SeqCst), 2);
        if command == CACHE {
            assert_eq!(client.reply(0).unwrap().errno, 0);
        }
        assert!(client.is_closed());
    }
}

#[test]
fn a_removed_export_answers_what_was_asked_and_ends() {
    let device = SlowDevice::new();
    let rig = Rig::new(device.clone(), NbdOptions::default());
    let mut client = rig.open();
    client.send_request(READ, 0, 9, 2 << 20, 4096).unwrap();
    client.read(0, 1);
    assert_eq!(rig.exports.connections("disk"), Some(1));
    std::thread::scope(|scope| {
        let removed = scope.spawn(|| rig.exports.remove_and_wait("disk", PATIENCE));
        while !rig.exports.names().is_empty() {
            std::thread::yield_now();
        }
        device.is_open.store(true, Ordering::SeqCst);
        assert_eq!(removed.join().unwrap(), Some(true));
    });
    assert_eq!(client.reply(0).unwrap().cookie, 9);
    assert!(client.is_closed());
    assert_eq!(
        Arc::strong_count(&device),
        1,
        "no connection holds the device"
    );
    assert!(rig.client().go("disk").is_err());
}
