//! Disks over vhost-user, driven by a guest of our own: every kind of request, many queues, clients
//! that come and go.

mod vhost_guest;

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use forebay_serve::{
    Access, BlockDevice, DeviceError, MemoryDevice, VhostUserOptions, VhostUserServer,
};
use vhost::VhostBackend;
use vhost_guest::*;

const MIB: usize = 1 << 20;

fn rig() -> Rig {
    Rig::new(64 * MIB, VhostUserOptions::default())
}

fn number(config: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(config[offset..offset + 4].try_into().unwrap())
}

#[test]
fn what_is_written_is_read_back_in_this_life_and_the_next() {
    let rig = rig();
    let mut guest = rig.guest();
    let data: Vec<u8> = (0..8192_u32).map(|byte| (byte % 251) as u8).collect();
    assert_eq!(guest.ask(WRITE, 3, &data, 0).0, OK);
    assert_eq!(guest.ask(READ, 3, &[], 8192), (OK, data.clone()));
    assert_eq!(guest.ask(FLUSH, 0, &[], 0).0, OK);
    assert_eq!(rig.content()[3 * 512..][..8192], data);
    // It goes without a word, as a killed one does.
    drop(guest);
    let mut next = rig.guest();
    assert_eq!(next.ask(READ, 3, &[], 8192), (OK, data));
    let stats = rig.server().stats();
    assert_eq!((stats.writes, stats.reads, stats.flushes), (1, 2, 1));
    assert_eq!((stats.written_bytes, stats.read_bytes), (8192, 16384));
    assert_eq!((stats.connections_total, stats.errors), (2, 0));
}

#[test]
fn the_serial_number_is_the_disks_name() {
    let serial = "a name that is too long".to_owned();
    let rig = Rig::new(
        MIB,
        VhostUserOptions {
            serial,
            ..VhostUserOptions::default()
        },
    );
    let mut guest = rig.guest();
    let expected = b"a name that-14f68ad4".to_vec();
    assert_eq!(guest.ask(GET_ID, 0, &[], 20), (OK, expected));
}

#[test]
fn the_configuration_says_what_is_so() {
    let rig = rig();
    let mut guest = rig.guest();
    let config = guest.config(0, 96);
    assert_eq!(number(&config, 0), 64 * 2048, "capacity in sectors");
    assert_eq!(number(&config, 8), 1 << 20, "bytes of a segment");
    assert_eq!(number(&config, 12), 126, "segments");
    assert_eq!(number(&config, 20), 512, "block size");
    assert_eq!(config[24], 3, "eight sectors a block");
    assert_eq!(config[32], 0, "write-through");
    assert_eq!(config[34..36], [1, 0], "queues");
    assert_eq!((number(&config, 36), number(&config, 40)), (1 << 22, 64));
    assert_eq!((number(&config, 48), number(&config, 52)), (1 << 17, 1));
    // Any part of it, also past its end, as User Mode Linux asks.
    assert_eq!(guest.config(32, 1), [0]);
    assert_eq!(guest.config(60, 100), [0; 100]);
    assert_eq!(guest.config(0, 36)[..], config[..36]);
}

#[test]
fn a_guest_may_say_that_it_flushes_and_nothing_else() {
    use vhost::vhost_user::VhostUserFrontend;
    use vhost::vhost_user::message::VhostUserConfigFlags;
    let rig = rig();
    let mut guest = rig.guest();
    let flags = VhostUserConfigFlags::WRITABLE;
    guest.frontend.set_config(32, flags, &[1]).unwrap();
    assert_eq!(guest.config(32, 1), [1]);
    guest.frontend.set_config(0, flags, &[7; 8]).unwrap_err();
    assert_eq!(number(&guest.config(0, 8), 0), 64 * 2048);
    drop(guest);
    assert_eq!(rig.guest().config(32, 1), [0], "the next one is told anew");
}

/// The payload of a discard or write-zeroes request.
fn ranges(ranges: &[(u64, u32, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (sector, sectors, flags) in ranges {
        bytes.extend(sector.to_le_bytes());
        bytes.extend(sectors.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
    }
    bytes
}

#[test]
fn what_is_discarded_or_zeroed_reads_as_zeroes_and_the_rest_stays() {
    let rig = rig();
    let mut guest = rig.guest();
    let data = vec![7; MIB];
    assert_eq!(guest.ask(WRITE, 0, &data, 0).0, OK);
    let pair = ranges(&[(8, 8, 0), (100, 1, 0)]);
    assert_eq!(guest.ask(DISCARD, 0, &pair, 0).0, OK);
    assert_eq!(guest.ask(WRITE_ZEROES, 0, &ranges(&[(200, 9, 1)]), 0).0, OK);
    assert_eq!(guest.ask(WRITE_ZEROES, 0, &ranges(&[(300, 3, 0)]), 0).0, OK);
    let content = rig.content();
    for sector in 0..2048 {
        let is_zero = matches!(sector, 8..16 | 100 | 200..209 | 300..303);
        let expected = if is_zero { 0 } else { 7 };
        assert_eq!(content[sector * 512..][..512], [expected; 512], "{sector}");
    }
}

#[test]
fn one_bad_range_and_nothing_is_zeroed() {
    let rig = rig();
    let mut guest = rig.guest();
    guest.ask(WRITE, 0, &[7; 4096], 0);
    let end = 64 * 2048;
    let long = (0_u64, u32::MAX, 0_u32);
    for (kind, list, status) in [
        (DISCARD, vec![(0, 8, 0), (end, 1, 0)], IO_ERROR),
        (DISCARD, vec![(0, 8, 0), (u64::MAX, 1, 0)], IO_ERROR),
        (DISCARD, vec![(0, 8, 0), long], IO_ERROR),
        (DISCARD, vec![(0, 8, 0), (0, 8, 1)], UNSUPPORTED),
        (DISCARD, vec![(0, 8, 0); 65], IO_ERROR),
        (WRITE_ZEROES, vec![(0, 8, 2)], UNSUPPORTED),
        (WRITE_ZEROES, vec![(0, 8, 0); 2], IO_ERROR),
        (WRITE_ZEROES, vec![(0, (1 << 17) + 1, 0)], IO_ERROR),
    ] {
        assert_eq!(guest.ask(kind, 0, &ranges(&list), 0).0, status, "{list:?}");
    }
    assert_eq!(guest.ask(DISCARD, 0, &[0; 17], 0).0, IO_ERROR);
    assert_eq!(rig.content()[..4096], [7; 4096]);
}

#[test]
fn requests_that_cannot_be_are_refused_and_change_nothing() {
    let rig = rig();
    let mut guest = rig.guest();
    let end = 64 * 2048;
    for (kind, sector, out, bytes, status) in [
        (READ, end, 0, 512, IO_ERROR),
        (READ, u64::MAX, 0, 512, IO_ERROR),
        (READ, u64::MAX / 512, 0, 512, IO_ERROR),
        (READ, 0, 0, 100, IO_ERROR),
        (WRITE, end - 1, 1024, 0, IO_ERROR),
        (WRITE, 0, 511, 0, IO_ERROR),
        (2, 0, 512, 0, UNSUPPORTED),
        (99, 0, 0, 512, UNSUPPORTED),
    ] {
        let answer = guest.ask(kind, sector, &vec![1; out], bytes);
        assert_eq!(answer.0, status, "{kind} {sector} {out} {bytes}");
    }
    assert!(rig.content().iter().all(|byte| *byte == 0));
    assert_eq!(rig.server().stats().errors, 8);
    assert_eq!(guest.ask(WRITE, 0, &[1; 512], 0).0, OK);
}

#[test]
fn a_read_only_disk_says_so_and_is() {
    let options = VhostUserOptions {
        read_only: true,
        ..VhostUserOptions::default()
    };
    let rig = Rig::new(MIB, options);
    let mut guest = rig.guest();
    assert_ne!(guest.frontend.get_features().unwrap() & 1 << 5, 0);
    for kind in [WRITE, DISCARD, WRITE_ZEROES] {
        assert_eq!(guest.ask(kind, 0, &[0; 512], 0).0, IO_ERROR);
    }
    assert_eq!(guest.ask(READ, 0, &[], 512), (OK, vec![0; 512]));
    assert_eq!(guest.ask(FLUSH, 0, &[], 0).0, OK);
}

#[test]
fn data_in_many_pieces_and_indirect_tables_is_one_request() {
    let rig = rig();
    let mut guest = rig.guest();
    let data: Vec<u8> = (0..40 * 512_u32).map(|byte| (byte % 253) as u8).collect();
    guest.put(DATA + 4096, &data);
    let table = DATA + 0x8_0000;
    for (kind, flag) in [(WRITE, 0), (READ, WRITABLE)] {
        guest.put_header(DATA, kind, 9);
        guest.put(DATA + 16, &[0xaa]);
        // The header in two pieces, the data in pieces of no sector's size, the status at last.
        let mut parts = vec![(DATA, 5, 0), (DATA + 5, 11, 0)];
        let mut at = 0;
        while at < data.len() {
            let bytes = (at % 700 + 13).min(data.len() - at);
            parts.push((DATA + 4096 + at as u64, bytes, flag));
            at += bytes;
        }
        parts.push((DATA + 16, 1, WRITABLE));
        let last = parts.len() as u16 - 1;
        let entry = |(index, (address, bytes, flag)): (usize, (u64, usize, u16))| Entry {
            address,
            bytes: bytes as u32,
            flags: flag | if index as u16 == last { 0 } else { NEXT },
            next: index as u16 + 1,
        };
        let entries: Vec<_> = parts.into_iter().enumerate().map(entry).collect();
        guest.put_entries(table, 0, &entries);
        let pointer = Entry {
            address: table,
            bytes: entries.len() as u32 * 16,
            flags: INDIRECT,
            next: 0,
        };
        guest.put_entries(Guest::queue_address(0), 7, &[pointer]);
        guest.make_available(0, 7);
        guest.kick(0);
        assert_eq!(guest.wait_for_answer(0).0, 7);
        assert_eq!(guest.status(DATA), OK);
        if kind == WRITE {
            guest.put(DATA + 4096, &vec![0; data.len()]);
        }
    }
    assert_eq!(guest.get(DATA + 4096, data.len()), data);
    assert_eq!(rig.content()[9 * 512..][..data.len()], data);
}

#[test]
fn many_requests_at_once_are_all_answered_with_and_without_event_indices() {
    for wanted in [u64::MAX, !F_EVENT_INDEX] {
        let rig = rig();
        let mut guest = Guest::connect_with(&rig.socket(), 1, wanted);
        for round in 0..50_u64 {
            for slot in 0..16_u16 {
                let at = DATA + u64::from(slot) * 0x4000;
                let data = [round as u8 ^ slot as u8; 512];
                guest.submit(0, slot * 3, at, WRITE, slot.into(), &data, 0);
            }
            guest.kick(0);
            let mut heads: Vec<u16> = (0..16).map(|_| guest.wait_for_answer(0).0).collect();
            heads.sort_unstable();
            let expected: Vec<u16> = (0..16).map(|slot| slot * 3).collect();
            assert_eq!(heads, expected);
        }
        let content = rig.content();
        for slot in 0..16 {
            assert_eq!(content[slot * 512..][..512], [49 ^ slot as u8; 512]);
        }
    }
}

#[test]
fn long_requests_go_to_workers_and_come_back_right() {
    for workers in [0, 2] {
        let options = VhostUserOptions {
            workers,
            ..VhostUserOptions::default()
        };
        let rig = Rig::new(64 * MIB, options);
        let mut guest = rig.guest();
        let data: Vec<u8> = (0..6 * MIB as u32).map(|byte| (byte % 249) as u8).collect();
        assert_eq!(guest.ask(WRITE, 1, &data, 0).0, OK);
        guest.put(DATA + 4096, &vec![0; data.len()]);
        assert_eq!(guest.ask(READ, 1, &[], data.len()), (OK, data));
        assert_eq!(rig.server().stats().requests_in_flight, 0);
    }
}

/// A disk whose reads all wait until so many do.
struct Crowd {
    disk: MemoryDevice,
    wanted: usize,
    waiting: Mutex<usize>,
    is_full: Condvar,
}

impl BlockDevice for Crowd {
    fn size_bytes(&self) -> u64 {
        self.disk.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.disk.block_size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let mut waiting = self.waiting.lock().unwrap();
        *waiting += 1;
        self.is_full.notify_all();
        let is_short = |waiting: &mut usize| *waiting < self.wanted;
        let (waiting, waited) = self
            .is_full
            .wait_timeout_while(waiting, PATIENCE, is_short)
            .unwrap();
        assert!(!waited.timed_out(), "only {waiting} wait");
        drop(waiting);
        self.disk.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.disk.write_at(offset, data)
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.disk.write_zeroes(offset, length)
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.disk.discard(offset, length)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.disk.flush()
    }

    fn is_quick(&self, access: Access, _offset: u64, _length: u64) -> bool {
        access == Access::Write
    }
}

#[test]
fn as_many_reads_wait_for_the_disk_as_a_queue_holds() {
    let wanted = usize::from(QUEUE_SIZE / 3);
    let device = Arc::new(Crowd {
        disk: MemoryDevice::new(MIB, 4096),
        wanted,
        waiting: Mutex::new(0),
        is_full: Condvar::new(),
    });
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let server = VhostUserServer::start(device, &socket, VhostUserOptions::default()).unwrap();
    let mut guest = Guest::connect(&socket, 1);
    for slot in 0..wanted as u16 {
        let at = DATA + u64::from(slot) * 0x4000;
        guest.submit(0, slot * 3, at, READ, u64::from(slot) * 8, &[], 4096);
    }
    guest.kick(0);
    for slot in 0..wanted as u16 {
        // In their order, too.
        assert_eq!(guest.wait_for_answer(0).0, slot * 3);
    }
    assert_eq!(server.stats().requests_in_flight, 0);
}

#[test]
fn queues_work_at_the_same_time() {
    let options = VhostUserOptions {
        queues: 4,
        ..VhostUserOptions::default()
    };
    let rig = Rig::new(64 * MIB, options);
    let mut guest = Guest::connect(&rig.socket(), 4);
    assert_eq!(guest.config(34, 2), [4, 0]);
    for round in 0..20 {
        for queue in 0..4 {
            let at = DATA + queue as u64 * 0x20_0000;
            let data = [round + queue as u8; 4096];
            guest.submit(queue, 0, at, WRITE, queue as u64 * 8, &data, 0);
            guest.kick(queue);
        }
        for queue in (0..4).rev() {
            guest.wait_for_answer(queue);
        }
    }
    for queue in 0..4 {
        let expected = (OK, vec![19 + queue as u8; 4096]);
        assert_eq!(
            guest.ask_on(queue, READ, queue as u64 * 8, &[], 4096),
            expected
        );
    }
    guest.frontend.set_vring_num(4, 64).unwrap_err();
}

#[test]
fn a_queue_that_stops_and_starts_again_loses_and_repeats_nothing() {
    let rig = rig();
    let mut guest = rig.guest();
    for round in 0..5_u16 {
        assert_eq!(guest.ask(WRITE, round.into(), &[1; 512], 0).0, OK);
        let base = guest.stop_queue(0);
        assert_eq!(base, u32::from(round) * 2 + 1);
        // What is asked for meanwhile waits.
        guest.submit(0, 0, DATA, WRITE, 100 + u64::from(round), &[2; 512], 0);
        guest.kick(0);
        guest.start_queue(0, base as u16);
        guest.wait_for_answer(0);
        assert_eq!(guest.status(DATA), OK);
    }
    assert_eq!(rig.server().stats().writes, 10);
}

#[test]
fn a_queue_that_is_disabled_waits_until_it_is_not() {
    use vhost::vhost_user::VhostUserFrontend;
    let rig = rig();
    let mut guest = rig.guest();
    guest.frontend.set_vring_enable(0, false).unwrap();
    guest.submit(0, 0, DATA, WRITE, 0, &[2; 512], 0);
    guest.kick(0);
    assert_eq!(guest.used_index(0), 0);
    guest.frontend.set_vring_enable(0, true).unwrap();
    assert_eq!(guest.wait_for_answer(0).0, 0);
}

#[test]
fn a_client_without_the_protocols_features_is_served_too() {
    let rig = rig();
    let wanted = F_VERSION_1;
    let mut guest = Guest::connect_with(&rig.socket(), 1, wanted);
    assert_eq!(guest.ask(WRITE, 0, &[5; 512], 0).0, OK);
    assert_eq!(guest.ask(READ, 0, &[], 512), (OK, vec![5; 512]));
}

#[test]
fn one_guest_has_the_disk_and_the_next_one_waits() {
    let rig = rig();
    let mut first = rig.guest();
    let socket = rig.socket();
    let second = std::thread::spawn(move || {
        let mut guest = Guest::connect(&socket, 1);
        guest.ask(READ, 0, &[], 512)
    });
    for round in 0..100 {
        assert_eq!(first.ask(WRITE, 0, &[round; 512], 0).0, OK);
    }
    assert_eq!(rig.server().stats().connections_total, 1);
    drop(first);
    assert_eq!(second.join().unwrap(), (OK, vec![99; 512]));
}

#[test]
fn the_socket_is_the_owners_and_goes_with_the_server() {
    let mut rig = rig();
    let mode = std::fs::metadata(rig.socket())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let taken = VhostUserServer::start(rig.device.clone(), &rig.socket(), Default::default());
    let message = taken.unwrap_err().to_string();
    assert!(message.contains("a process listens on it"), "{message}");
    let mut guest = rig.guest();
    assert_eq!(guest.ask(WRITE, 0, &[5; 512], 0).0, OK);
    rig.server = None;
    assert!(!rig.socket().exists());
    guest.frontend.get_features().unwrap_err();
}

#[test]
fn an_end_waits_for_the_guest_as_long_as_it_may() {
    let rig = rig();
    let mut guest = rig.guest();
    rig.server().begin_drain();
    assert!(!rig.server().is_drained());
    assert!(!rig.socket().exists(), "no client can connect any more");
    assert_eq!(guest.ask(WRITE, 0, &[5; 512], 0).0, OK);
    assert!(!rig.server().drain(Duration::from_millis(20)), "it stayed");
    wait_until("it is cut off", || rig.server().is_drained());
    guest.frontend.get_features().unwrap_err();
    assert_eq!(rig.content()[..512], [5; 512]);
}

#[test]
fn a_socket_is_closed_only_while_no_guest_has_the_disk() {
    let rig = rig();
    let mut guest = rig.guest();
    assert!(!rig.server().close_unused());
    assert_eq!(guest.ask(WRITE, 0, &[5; 512], 0).0, OK);
    drop(guest);
    // The next one comes in as if nothing had been asked.
    assert_eq!(rig.guest().ask(READ, 0, &[], 512), (OK, vec![5; 512]));
    wait_until("it is noticed gone", || rig.server().close_unused());
    assert!(!rig.socket().exists());
    wait_until("all has ended", || rig.server().is_drained());
}

#[test]
fn a_reset_keeps_what_wakes_the_guest() {
    use vhost::vhost_user::VhostUserFrontend;
    let rig = rig();
    let mut guest = rig.guest();
    assert_eq!(guest.ask(WRITE, 0, &[1; 512], 0).0, OK);
    // All queues rest, and go on when they are enabled.
    guest.frontend.reset_owner().unwrap();
    guest.submit(0, 0, DATA, WRITE, 0, &[2; 512], 0);
    guest.kick(0);
    assert_eq!(guest.used_index(0), 1);
    guest.frontend.set_vring_enable(0, true).unwrap();
    guest.wait_for_answer(0);
    // A reset forgets the queue, but not its interrupt.
    guest.frontend.reset_device().unwrap();
    let features = guest.frontend.get_features().unwrap();
    guest.frontend.set_features(features).unwrap();
    guest.start_queue_without_call(0, 2);
    assert_eq!(guest.ask(READ, 0, &[], 512), (OK, vec![2; 512]));
}
