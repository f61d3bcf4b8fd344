//! Guests and clients that lie: each gets an error, a stopped queue or the end of its connection,
//! and the next one is served as if nothing had been.

mod vhost_guest;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use forebay_serve::VhostUserOptions;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vhost_guest::*;

const DISK_BYTES: usize = 8 << 20;

fn rig() -> Rig {
    let options = VhostUserOptions {
        queues: 2,
        ..VhostUserOptions::default()
    };
    let rig = Rig::new(DISK_BYTES, options);
    let mut guest = rig.guest();
    assert_eq!(guest.ask(WRITE, 0, &[7; 4096], 0).0, OK);
    rig
}

/// The server serves guests that behave, and what it had before is unchanged.
fn assert_serves(rig: &Rig) {
    let mut guest = rig.guest();
    assert_eq!(guest.ask(READ, 0, &[], 4096), (OK, vec![7; 4096]));
    let rest = &rig.content()[4096..];
    assert!(rest.iter().all(|byte| *byte == 0));
}

const fn entry(address: u64, bytes: u32, flags: u16, next: u16) -> Entry {
    Entry {
        address,
        bytes,
        flags,
        next,
    }
}

const HEADER: Entry = entry(DATA, 16, NEXT, 1);
const STATUS: Entry = entry(DATA + 16, 1, WRITABLE, 0);
/// An address that no region of the guest's memory has.
const NOWHERE: u64 = 0xdead_0000_0000;

/// Puts a chain up for a write of sector 8 and says what came back: bytes and status.
fn try_chain(guest: &mut Guest, entries: &[Entry]) -> (u32, u8) {
    guest.put_header(DATA, WRITE, 8);
    guest.put(DATA + 16, &[0xaa]);
    guest.put(DATA + 4096, &[9; 8192]);
    guest.put_entries(Guest::queue_address(0), 0, entries);
    guest.make_available(0, 0);
    guest.kick(0);
    let (head, written) = guest.wait_for_answer(0);
    assert_eq!(head, 0);
    (written, guest.status(DATA))
}

#[test]
fn chains_that_are_no_requests_get_an_error_where_there_is_a_place_for_it() {
    let rig = rig();
    let mut guest = rig.guest();
    let data = entry(DATA + 4096, 512, NEXT, 2);
    let end = BASE + MEMORY_BYTES;
    let with_error: &[&[Entry]] = &[
        // A header too short, none at all, one outside of the memory.
        &[entry(DATA, 15, NEXT, 1), STATUS],
        &[STATUS],
        // Data before and after what can be written.
        &[
            HEADER,
            entry(DATA + 16, 1, NEXT | WRITABLE, 2),
            entry(DATA + 4096, 512, 0, 0),
        ],
        // Data outside of the memory, behind a status that is inside.
        &[
            HEADER,
            entry(DATA + 16, 1, NEXT | WRITABLE, 2),
            entry(NOWHERE, 512, WRITABLE, 0),
        ],
        &[
            HEADER,
            entry(DATA + 16, 1, NEXT | WRITABLE, 2),
            entry(end - 100, 512, WRITABLE, 0),
        ],
        &[
            HEADER,
            entry(DATA + 16, 1, NEXT | WRITABLE, 2),
            entry(u64::MAX, u32::MAX, WRITABLE, 0),
        ],
        // A loop, and a chain that goes on where there is nothing.
        &[HEADER, entry(DATA + 16, 1, NEXT | WRITABLE, 1)],
        &[HEADER, entry(DATA + 16, 1, NEXT | WRITABLE, QUEUE_SIZE)],
        // A table inside of a table, and one of half an entry.
        &[
            HEADER,
            entry(DATA + 16, 1, NEXT | WRITABLE, 2),
            entry(DATA, 24, INDIRECT, 0),
        ],
    ];
    for entries in with_error {
        assert_eq!(try_chain(&mut guest, entries), (1, IO_ERROR), "{entries:?}");
    }
    let without: &[&[Entry]] = &[
        &[entry(DATA, 16, 0, 0)],
        &[HEADER, data, entry(NOWHERE, 1, WRITABLE, 0)],
        &[HEADER, entry(NOWHERE, 512, NEXT, 2), STATUS],
        &[entry(DATA, 16, NEXT, 0)],
        &[entry(DATA, 17, INDIRECT, 0)],
        &[entry(NOWHERE, 32, INDIRECT, 0)],
        &[entry(DATA, 0, 0, 0)],
    ];
    for entries in without {
        assert_eq!(try_chain(&mut guest, entries), (0, 0xaa), "{entries:?}");
    }
    assert_eq!(guest.ask(READ, 0, &[], 512), (OK, vec![7; 512]));
    assert_eq!(rig.server().stats().queues_broken, 0);
    drop(guest);
    assert_serves(&rig);
}

#[test]
fn a_table_in_a_table_is_no_request() {
    let rig = rig();
    let mut guest = rig.guest();
    let table = DATA + 0x8000;
    let inner = [HEADER, entry(table, 32, INDIRECT | NEXT, 2), STATUS];
    guest.put_entries(table, 0, &inner);
    let (written, status) = try_chain(&mut guest, &[entry(table, 48, INDIRECT, 0)]);
    assert_eq!((written, status), (0, 0xaa));
    drop(guest);
    assert_serves(&rig);
}

#[test]
fn a_request_of_thousands_of_pieces_is_refused() {
    let rig = rig();
    let mut guest = rig.guest();
    let table = DATA + 0x8_0000;
    let count = 2000_u16;
    let mut entries = vec![HEADER];
    entries.extend((1..count).map(|index| entry(DATA + 4096, 512, NEXT, index + 1)));
    entries.push(STATUS);
    guest.put_entries(table, 0, &entries);
    let bytes = (u32::from(count) + 1) * 16;
    let (written, status) = try_chain(&mut guest, &[entry(table, bytes, INDIRECT, 0)]);
    assert_eq!((written, status), (0, 0xaa));
    drop(guest);
    assert_serves(&rig);
}

#[test]
fn a_queue_that_makes_no_sense_stops_alone() {
    let rig = rig();
    let mut guest = Guest::connect(&rig.socket(), 2);
    // More chains than the queue has places.
    guest.set_available(0, QUEUE_SIZE + 1);
    guest.kick(0);
    wait_until("the queue is stopped", || {
        rig.server().stats().queues_broken == 1
    });
    assert_eq!(guest.ask_on(1, READ, 0, &[], 512), (OK, vec![7; 512]));
    // A head that is none cannot be answered.
    guest.make_available(1, QUEUE_SIZE);
    guest.kick(1);
    wait_until("the other one, too", || {
        rig.server().stats().queues_broken == 2
    });
    assert!(guest.config(0, 8).len() == 8, "the connection lives");
    drop(guest);
    assert_serves(&rig);
}

#[test]
fn queues_outside_of_the_memory_are_not_started() {
    let rig = rig();
    for (descriptors, used, available) in [
        (BASE + MEMORY_BYTES - 16, BASE + 0x2000, BASE + 0x3000),
        (BASE, BASE + MEMORY_BYTES - 8, BASE + 0x3000),
        (BASE, BASE + 0x2000, BASE + MEMORY_BYTES - 8),
        (BASE + 1, BASE + 0x2000, BASE + 0x3000),
        (BASE, BASE + 0x2001, BASE + 0x3000),
        (BASE, BASE + 0x2000, BASE + 0x3001),
    ] {
        let guest = Guest::shake_hands(&rig.socket(), 1, u64::MAX);
        let mut frontend = guest.frontend.clone();
        let config = vhost::VringConfigData {
            queue_max_size: QUEUE_SIZE,
            queue_size: QUEUE_SIZE,
            flags: 0,
            desc_table_addr: guest.user_address(descriptors),
            used_ring_addr: guest.user_address(used),
            avail_ring_addr: guest.user_address(available),
            log_addr: None,
        };
        let kick = vmm_sys_util::eventfd::EventFd::new(0).unwrap();
        frontend.set_vring_num(0, QUEUE_SIZE).unwrap();
        frontend.set_vring_addr(0, &config).unwrap();
        frontend.set_vring_enable(0, true).unwrap();
        frontend.set_vring_kick(0, &kick).unwrap_err();
        frontend.get_features().unwrap();
    }
    let guest = Guest::shake_hands(&rig.socket(), 1, u64::MAX);
    let nowhere = vhost::VringConfigData {
        queue_max_size: QUEUE_SIZE,
        queue_size: QUEUE_SIZE,
        flags: 0,
        desc_table_addr: 1 << 40,
        used_ring_addr: 1 << 41,
        avail_ring_addr: 1 << 42,
        log_addr: None,
    };
    guest.frontend.set_vring_addr(0, &nowhere).unwrap_err();
    for size in [0, 3, 2048, 65535] {
        guest.frontend.set_vring_num(0, size).unwrap_err();
    }
    drop(guest);
    assert_serves(&rig);
}

#[test]
fn memory_may_change_under_requests() {
    let rig = rig();
    let mut guest = rig.guest();
    for round in 0..200_u16 {
        for slot in 0..8 {
            let at = DATA + u64::from(slot) * 0x4000;
            guest.submit(0, slot * 3, at, READ, 0, &[], 4096);
        }
        guest.kick(0);
        let info = guest.region_info();
        guest.frontend.set_mem_table(&[info]).unwrap();
        for _ in 0..8 {
            guest.wait_for_answer(0);
        }
        assert_eq!(guest.used_index(0), (round + 1) * 8);
    }
    // A table that does not hold the queue: it stops, and the one before is no more.
    let mut elsewhere = guest.region_info();
    elsewhere.guest_phys_addr = 0;
    guest.frontend.set_mem_table(&[elsewhere]).unwrap_err();
    drop(guest);
    assert_serves(&rig);
}

#[test]
fn memory_that_is_not_there_is_refused() {
    let rig = rig();
    let guest = Guest::shake_hands(&rig.socket(), 1, u64::MAX);
    let good = guest.region_info();
    let mut long = good;
    long.memory_size = 1 << 40;
    guest.frontend.set_mem_table(&[long]).unwrap_err();
    guest.frontend.set_mem_table(&[good, good]).unwrap_err();
    let mut far = good;
    far.guest_phys_addr = u64::MAX - 4095;
    guest.frontend.set_mem_table(&[far]).unwrap_err();
    guest.frontend.set_mem_table(&[good]).unwrap();
    drop(guest);
    assert_serves(&rig);
}

#[test]
fn guests_that_die_in_the_midst_of_requests_leave_nothing_behind() {
    let rig = rig();
    for round in 0..40_u64 {
        let mut guest = Guest::connect(&rig.socket(), 2);
        for slot in 0..16_u16 {
            let at = DATA + u64::from(slot) * 0x8_0000;
            let bytes = if slot % 2 == 0 { 4096 } else { 0x4_0000 };
            guest.submit(usize::from(slot % 2), slot / 2 * 3, at, READ, 0, &[], bytes);
        }
        guest.kick((round % 2) as usize);
        drop(guest);
    }
    rig.wait_for_no_client();
    assert_eq!(rig.server().stats().requests_in_flight, 0);
    assert_serves(&rig);
}

#[test]
fn what_is_no_message_ends_the_connection() {
    let rig = rig();
    let before = rig.server().stats().protocol_errors;
    let header =
        |code: u32, flags: u32, bytes: u32| [code, flags, bytes].map(u32::to_ne_bytes).concat();
    let cut_short = {
        let mut bytes = header(2, 1, 8);
        bytes.extend([0; 3]);
        bytes
    };
    let messages = [
        header(1, 0, 0),
        header(1, 1 | 4, 0),
        header(1, 1, u32::MAX),
        header(99, 1, 0),
        header(0, 1, 0),
        header(2, 1, 0),
        header(5, 1, 0),
        [header(5, 1, 8), vec![0xff; 8]].concat(),
        [header(12, 1, 8), vec![0; 8]].concat(),
        [header(24, 1, 4), vec![0; 4]].concat(),
        [header(11, 1, 8), vec![0xff; 8]].concat(),
        cut_short,
        header(1, 1, 0)[..5].to_vec(),
    ];
    let count = messages.len() as u64;
    for message in messages {
        let mut stream = UnixStream::connect(rig.socket()).unwrap();
        stream.write_all(&message).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.is_empty(), "{message:?}: {answer:?}");
    }
    rig.wait_for_no_client();
    assert_eq!(rig.server().stats().protocol_errors - before, count);
    assert_serves(&rig);
}

#[test]
fn features_that_were_not_offered_are_refused() {
    let rig = rig();
    let guest = Guest::shake_hands(&rig.socket(), 1, u64::MAX);
    guest
        .frontend
        .set_features(1 << 34 | F_VERSION_1 | F_PROTOCOL)
        .unwrap_err();
    drop(guest);
    assert_serves(&rig);
}

#[test]
fn what_cannot_be_answered_ends_the_connection() {
    let rig = rig();
    let guest = Guest::shake_hands(&rig.socket(), 1, u64::MAX);
    // An acknowledgement would pass for a queue's base.
    guest.frontend.get_vring_base(7).unwrap_err();
    guest.frontend.get_features().unwrap_err();
    drop(guest);
    assert_serves(&rig);
}

#[test]
fn one_queue_outside_of_the_memory_does_not_keep_others_from_running() {
    let rig = rig();
    let mut guest = Guest::shake_hands(&rig.socket(), 2, u64::MAX);
    guest.start_queue(1, 0);
    let good = guest.region_info();
    // The first queue is where the memory ends soon.
    guest.start_queue(0, 0);
    let mut without_first = good;
    let skipped = Guest::queue_address(1) - BASE;
    without_first.guest_phys_addr += skipped;
    without_first.userspace_addr += skipped;
    without_first.mmap_offset += skipped;
    without_first.memory_size -= skipped;
    guest.frontend.set_mem_table(&[without_first]).unwrap_err();
    assert_eq!(guest.ask_on(1, READ, 0, &[], 512), (OK, vec![7; 512]));
    drop(guest);
    assert_serves(&rig);
}

/// Sends a message with a descriptor and says what comes back before the connection ends.
fn send_with(socket: &Path, message: &[u8], descriptor: impl AsFd) -> Vec<u8> {
    send_more_with(UnixStream::connect(socket).unwrap(), message, descriptor)
}

fn send_more_with(mut stream: UnixStream, message: &[u8], descriptor: impl AsFd) -> Vec<u8> {
    let mut space = [std::mem::MaybeUninit::uninit(); 64];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let parts = [std::io::IoSlice::new(message)];
    sendmsg(&stream, &parts, &mut control, SendFlags::empty()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// As User Mode Linux 6.1 does, which always sends room for two regions.
#[test]
fn memory_with_room_for_more_regions_than_there_are_is_taken() {
    let rig = rig();
    let guest = Guest::shake_hands(&rig.socket(), 1, u64::MAX);
    let (region, file) = (guest.region_info(), guest.file.try_clone().unwrap());
    drop(guest);
    rig.wait_for_no_client();
    let needs_reply = 1 | 8;
    let mut stream = UnixStream::connect(rig.socket()).unwrap();
    let mut acknowledged = [16, 1, 8].map(u32::to_ne_bytes).concat();
    acknowledged.extend((1_u64 << 3).to_ne_bytes());
    stream.write_all(&acknowledged).unwrap();
    let mut table = [5, needs_reply, 8 + 2 * 32, 1, 0]
        .map(u32::to_ne_bytes)
        .concat();
    let numbers = [
        region.guest_phys_addr,
        region.memory_size,
        region.userspace_addr,
        region.mmap_offset,
    ];
    table.extend(numbers.map(u64::to_ne_bytes).concat());
    table.extend([0; 32]);
    let answer = send_more_with(stream, &table, file);
    let mut accepted = [5, 1 | 4, 8].map(u32::to_ne_bytes).concat();
    accepted.extend([0; 8]);
    assert_eq!(answer, accepted);
    assert_serves(&rig);
}

#[test]
fn what_is_always_readable_is_no_kick() {
    let rig = rig();
    let before = rig.server().stats().protocol_errors;
    let refused = || rig.server().stats().protocol_errors - before;
    let (reader, _writer) = std::io::pipe().unwrap();
    for code in [12_u32, 13, 14] {
        let mut message = [code, 1, 8].map(u32::to_ne_bytes).concat();
        message.extend([0; 8]);
        for path in ["/dev/zero", "/proc/self/exe", "/"] {
            let file = File::open(path).unwrap();
            assert!(send_with(&rig.socket(), &message, file).is_empty());
        }
        let refused_so_far = u64::from(code - 11) * 3;
        wait_until("they are refused", || refused() == refused_so_far);
        send_with(&rig.socket(), &message, &reader);
        rig.wait_for_no_client();
        assert_eq!(refused(), refused_so_far, "a pipe will do");
    }
    assert_serves(&rig);
}

/// Other guests, other disks and the daemon go on; the disk is as it was before the write.
#[test]
fn a_guest_whose_memory_file_shrinks_is_dropped_and_no_other_is() {
    let (rig, other) = (rig(), rig());
    let mut neighbour = other.guest();
    let before = rig.content();
    // Where its data is, where its rings are, and nothing at all.
    for (left_bytes, round) in [(0x10_0000 + 0x5000, 1), (0x5000, 2), (0, 3)] {
        let mut guest = rig.guest();
        assert_eq!(guest.ask(READ, 0, &[], 512), (OK, vec![7; 512]));
        guest.put_header(DATA, WRITE, 8);
        guest.put(DATA + 4096, &[9; 4096]);
        let chain = [
            HEADER,
            entry(DATA + 4096, 4096, NEXT, 2),
            entry(DATA + 16, 1, WRITABLE, 0),
        ];
        guest.put_entries(Guest::queue_address(0), 0, &chain);
        guest.make_available(0, 0);
        guest.file.set_len(left_bytes).unwrap();
        guest.kick(0);
        rig.wait_for_no_client();
        assert_eq!(rig.server().stats().queues_broken, round);
        assert_eq!(neighbour.ask(READ, 0, &[], 512), (OK, vec![7; 512]));
        // Its own mapping of what is gone must not be touched.
        drop(guest);
        assert_eq!(rig.content(), before);
    }
    assert_serves(&rig);
}
