//! Clients that lie, break off, dawdle or come in crowds: each gets a clear answer or the end of its
//! connection, and the others are served on.

mod nbd_client;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_serve::MemoryDevice;
use forebay_serve::nbd::NbdOptions;
use nbd_client::*;

const MIB: usize = 1 << 20;

/// The server still serves clients that behave.
fn assert_serves(rig: &Rig) {
    let mut client = rig.open();
    client.write(0, &[1; 512]);
    assert_eq!(client.read(0, 512), [1; 512]);
}

/// Waits for a condition that is sure to come.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn requests_past_the_end_and_too_long_are_answered_and_the_connection_goes_on() {
    let rig = Rig::memory(64 * MIB);
    for structured in [true, false] {
        let mut client = rig.client();
        if structured {
            client.open("disk").unwrap();
        } else {
            client.go("disk").unwrap();
        }
        let end = 64 << 20;
        let past = client.ask(READ, 0, end - 1, 2, &[]).unwrap();
        assert_eq!(past.errno, 22);
        assert_eq!(client.ask(READ, 0, u64::MAX, 1, &[]).unwrap().errno, 22);
        assert_eq!(client.ask(READ, 0, 0, u32::MAX, &[]).unwrap().errno, 22);
        assert_eq!(client.ask(WRITE, 0, end, 5, b"12345").unwrap().errno, 28);
        let long = vec![9; 33 * MIB];
        let refused = client.ask(WRITE, 0, 0, 33 << 20, &long).unwrap();
        assert_eq!(refused.errno, 22);
        assert_eq!(client.ask(WRITE_ZEROES, 0, end, 1, &[]).unwrap().errno, 28);
        assert_eq!(client.ask(TRIM, 0, 1, u32::MAX, &[]).unwrap().errno, 22);
        assert_eq!(client.ask(RESIZE, 0, 1, 0, &[]).unwrap().errno, 95);
        assert_eq!(client.ask(99, 0, 0, 0, &[]).unwrap().errno, 22);
        assert_eq!(client.ask(READ, 1 << 9, 0, 1, &[]).unwrap().errno, 22);
        if structured {
            let text = String::from_utf8(past.data).unwrap();
            assert!(text.contains("past the end"), "{text}");
            let resize = client.ask(RESIZE, 0, 1, 0, &[]).unwrap();
            let text = String::from_utf8(resize.data).unwrap();
            assert!(text.contains("resize the volume"), "{text}");
        }
        assert_eq!(client.read(0, 4), [0; 4], "nothing of it was written");
    }
    assert!(rig.server.stats().errors >= 20);
}

#[test]
fn a_promise_of_four_gigabytes_costs_nothing_and_breaks_off_cleanly() {
    let rig = Rig::memory(MIB);
    let mut client = rig.open();
    client.send_request(WRITE, 0, 5, 0, u32::MAX).unwrap();
    client.stream.write_all(&vec![7; 3 * MIB]).unwrap();
    // The answer does not wait for the data that will never come.
    assert_eq!(client.reply(0).unwrap().errno, 22);
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert!(client.is_closed());
    assert_serves(&rig);
}

#[test]
fn a_write_that_broke_off_is_never_applied() {
    let rig = Rig::memory(4 * MIB);
    for length in [4096, 100_000, 2 * MIB] {
        for sent in [0, 1, length / 2, length - 1] {
            let mut client = rig.open();
            client.send_request(WRITE, 0, 5, 0, length as u32).unwrap();
            client.stream.write_all(&vec![7; sent]).unwrap();
            client.stream.shutdown(Shutdown::Write).unwrap();
            assert!(client.is_closed());
        }
    }
    wait_until("they are gone", || rig.server.stats().connections_open == 0);
    assert_eq!(rig.server.stats().requests_in_flight, 0);
    let mut client = rig.open();
    assert!(client.read(0, 2 << 20).iter().all(|byte| *byte == 0));
}

#[test]
fn a_client_that_goes_without_its_replies_harms_no_other() {
    let rig = Rig::memory(64 * MIB);
    for _ in 0..20 {
        let mut client = rig.open();
        for number in 0..40 {
            client.send_request(READ, 0, number, 0, 1 << 20).unwrap();
            client.send_request(READ, 0, number, 0, 4096).unwrap();
        }
        drop(client);
    }
    wait_until("they are gone", || rig.server.stats().connections_open == 0);
    assert_serves(&rig);
}

#[test]
fn garbage_ends_the_connection_wherever_it_comes() {
    let rig = Rig::memory(MIB);
    let garbage: Vec<u8> = (0..100_000_u32).map(|at| (at * 31 % 251) as u8).collect();
    // Instead of the client's flags; instead of an option; instead of a request.
    let mut stream = connect(&rig.socket);
    let _ = stream.write_all(&garbage);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
    let mut client = rig.client();
    let _ = client.stream.write_all(&garbage);
    let _ = client.stream.read_to_end(&mut Vec::new());
    let mut client = rig.open();
    let _ = client.stream.write_all(&garbage);
    let _ = client.stream.read_to_end(&mut Vec::new());
    wait_until("they are gone", || rig.server.stats().connections_open == 0);
    assert_serves(&rig);
    assert!(rig.server.stats().handshakes_failed >= 2);
}

#[test]
fn malformed_options_are_refused_one_by_one() {
    let rig = Rig::memory(MIB);
    let mut client = rig.client();
    assert_eq!(client.verdict(77, b"what").unwrap(), REP_UNSUPPORTED);
    assert_eq!(client.verdict(OPT_LIST, b"x").unwrap(), REP_INVALID);
    assert_eq!(client.verdict(OPT_STARTTLS, &[]).unwrap(), REP_POLICY);
    assert_eq!(client.verdict(OPT_GO, &[0xFF; 6]).unwrap(), REP_INVALID);
    let short = &go_data("disk")[..8];
    assert_eq!(client.verdict(OPT_INFO, short).unwrap(), REP_INVALID);
    let invalid_text = [&[0, 0, 0, 2, 0xFF, 0xFE][..], &[0, 0]].concat();
    assert_eq!(client.verdict(OPT_GO, &invalid_text).unwrap(), REP_INVALID);
    client.go("disk").unwrap();
    let mut client = rig.client();
    client
        .send_option(OPT_LIST, &vec![0; 70_000])
        .unwrap_or_default();
    assert_eq!(client.option_reply().unwrap().0, REP_TOO_BIG);
    let mut client = rig.client();
    assert_eq!(client.verdict(OPT_ABORT, &[]).unwrap(), REP_ACK);
    assert!(client.is_closed());
}

#[test]
fn a_handshake_cut_anywhere_leaves_nothing() {
    let rig = Rig::memory(MIB);
    let go = go_data("disk");
    let mut whole = 3_u32.to_be_bytes().to_vec();
    whole.extend(b"IHAVEOPT");
    whole.extend(OPT_GO.to_be_bytes());
    whole.extend((go.len() as u32).to_be_bytes());
    whole.extend(&go);
    for end in 0..whole.len() {
        let mut stream = connect(&rig.socket);
        stream.write_all(&whole[..end]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    wait_until("they are gone", || rig.server.stats().connections_open == 0);
    assert_serves(&rig);
}

#[test]
fn a_client_that_dawdles_in_the_handshake_is_dropped() {
    let options = NbdOptions {
        handshake_timeout: Duration::from_millis(200),
        ..NbdOptions::default()
    };
    let rig = Rig::new(Arc::new(MemoryDevice::new(MIB, 4096)), options);
    let mut silent = connect(&rig.socket);
    let mut dripping = connect(&rig.socket);
    let drip = std::thread::spawn(move || {
        // Each byte comes in time; all together do not.
        while dripping.write_all(&[0]).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    silent.read_to_end(&mut Vec::new()).unwrap();
    drip.join().unwrap();
    wait_until("they failed", || rig.server.stats().handshakes_failed == 2);
    // Once an export is open, a client may take its time.
    let mut client = rig.open();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(client.read(0, 1), [0]);
}

#[test]
fn a_thousand_connections_are_refused_beyond_the_limit_and_the_others_served() {
    let options = NbdOptions {
        connections_max: 50,
        peer_connections_max: Some(50),
        ..NbdOptions::default()
    };
    let rig = Rig::new(Arc::new(MemoryDevice::new(MIB, 4096)), options);
    let mut served: Vec<_> = (0..50).map(|_| rig.open()).collect();
    for _ in 0..950 {
        let stream = connect(&rig.socket);
        let mut client = Client::greet(stream).unwrap();
        let replies = client.option(OPT_GO, &go_data("disk")).unwrap();
        let (kind, message) = replies.last().unwrap();
        assert_eq!(*kind, REP_POLICY);
        let message = String::from_utf8_lossy(message);
        assert!(message.contains("50 connections"), "{message}");
    }
    for client in &mut served {
        client.write(0, &[4; 512]);
        assert_eq!(client.read(0, 512), [4; 512]);
    }
    let stats = rig.server.stats();
    assert_eq!(stats.connections_refused, 950, "{stats:?}");
    drop(served);
    wait_until("there is room", || rig.server.stats().connections_open == 0);
    assert_serves(&rig);
}

#[test]
fn clients_that_open_nothing_take_no_place_and_make_way_for_others() {
    let options = NbdOptions {
        connections_max: 2,
        silence: Duration::from_secs(3600),
        // Long enough that only the number limits them.
        handshake_timeout: Duration::from_secs(3600),
        ..NbdOptions::default()
    };
    let rig = Rig::new(Arc::new(MemoryDevice::new(MIB, 4096)), options);
    let mut served = rig.open();
    let mut crowd: Vec<UnixStream> = (0..200).map(|_| connect(&rig.socket)).collect();
    let mut another = rig.open();
    for client in [&mut served, &mut another] {
        client.write(0, &[4; 512]);
        assert_eq!(client.read(0, 512), [4; 512]);
    }
    // The first came too long ago; of the last, all are still there.
    crowd[0].read_to_end(&mut Vec::new()).unwrap();
    crowd[199].read_exact(&mut [0; 18]).unwrap();
    let open = rig.server.stats().connections_open;
    assert!((3..=66).contains(&open), "{open}");
    drop(crowd);
    wait_until("they are gone", || rig.server.stats().connections_open == 2);
    assert!(
        rig.client()
            .go("disk")
            .unwrap_err()
            .to_string()
            .contains("2 connections")
    );
}

#[test]
fn a_thousand_connections_at_once_and_then_silence() {
    let rig = Rig::memory(MIB);
    let crowd: Vec<UnixStream> = (0..1000)
        .filter_map(|_| UnixStream::connect(&rig.socket).ok())
        .collect();
    assert!(crowd.len() > 100, "{}", crowd.len());
    let count = crowd.len() as u64;
    drop(crowd);
    // Some still wait to be accepted when the first are gone.
    wait_until("all came", || rig.server.stats().connections_total == count);
    wait_until("there is room", || rig.server.stats().connections_open == 0);
    assert_serves(&rig);
}

#[test]
fn one_process_does_not_take_the_places_of_all_the_others() {
    let rig = Rig::memory(MIB);
    let mut served: Vec<_> = (0..48).map(|_| rig.open()).collect();
    let refused = rig.client().go("disk").unwrap_err().to_string();
    assert!(refused.contains("48 connections"), "{refused}");
    assert!(refused.contains("one client"), "{refused}");
    assert_eq!(rig.server.stats().connections_refused, 1);
    drop(served.pop());
    wait_until("it has left", || rig.server.stats().connections_open == 47);
    assert_serves(&rig);
}

#[test]
fn sixty_four_idle_clients_do_not_shut_others_out() {
    let options = NbdOptions {
        peer_connections_max: Some(65),
        silence: Duration::from_millis(100),
        ..NbdOptions::default()
    };
    let rig = Rig::new(Arc::new(MemoryDevice::new(MIB, 4096)), options);
    let mut used = rig.open();
    used.write(0, &[1; 512]);
    let mut idle: Vec<_> = (0..63).map(|_| rig.open()).collect();
    std::thread::sleep(Duration::from_millis(200));
    let mut late = rig.open();
    assert_eq!(late.read(0, 512), [1; 512]);
    assert_eq!(
        used.read(0, 512),
        [1; 512],
        "one that asks is never sent away"
    );
    assert!(idle.remove(0).is_closed(), "the oldest made way");
    let mut second = idle.remove(0);
    assert_eq!(second.read(0, 512), [1; 512], "the others did not");
}

#[test]
fn a_client_that_does_not_send_its_data_does_not_keep_the_memory() {
    let options = NbdOptions {
        memory_max: 32 << 20,
        patience: Duration::from_millis(100),
        ..NbdOptions::default()
    };
    let rig = Rig::new(Arc::new(MemoryDevice::new(64 * MIB, 4096)), options);
    let mut dawdler = rig.open();
    dawdler.send_request(WRITE, 0, 1, 0, 32 << 20).unwrap();
    dawdler.stream.write_all(&[7; 4096]).unwrap();
    wait_until("it has come", || rig.server.stats().requests_in_flight == 1);
    std::thread::sleep(Duration::from_millis(200));
    let mut other = rig.open();
    other.write(0, &vec![5; 4 * MIB]);
    assert_eq!(other.read(0, 4 << 20), vec![5; 4 * MIB]);
    assert!(dawdler.is_closed());
}
