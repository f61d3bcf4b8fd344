//! A queue that is served again after the process that served it was killed, at its worst moments,
//! and a guest that offers more than a queue can hold.

mod vhost_guest;

use std::sync::{Arc, Condvar, Mutex};

use forebay_serve::{Access, BlockDevice, DeviceError, VhostUserOptions, VhostUserServer};
use vhost::VhostBackend;
use vhost_guest::*;

const DISK_BYTES: usize = 8 << 20;

/// A disk whose reads wait until they are let go; reads of sector 0 are slow, all else is quick.
#[derive(Default)]
struct Stuck {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Stuck {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl BlockDevice for Stuck {
    fn size_bytes(&self) -> u64 {
        DISK_BYTES as u64
    }
    fn block_size(&self) -> u32 {
        4096
    }
    fn read_at(&self, offset: u64, _: &mut [u8]) -> Result<(), DeviceError> {
        let mut is_open = self.is_open.lock().unwrap();
        while offset == 0 && !*is_open {
            is_open = self.opened.wait(is_open).unwrap();
        }
        Ok(())
    }
    fn write_at(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }
    fn write_zeroes(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn is_quick(&self, _: Access, offset: u64, _: u64) -> bool {
        offset != 0
    }
}

struct StuckRig {
    device: Arc<Stuck>,
    server: VhostUserServer,
    directory: tempfile::TempDir,
}

impl StuckRig {
    fn new() -> StuckRig {
        let device = Arc::new(Stuck::default());
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let server =
            VhostUserServer::start(device.clone(), &socket, VhostUserOptions::default()).unwrap();
        StuckRig {
            device,
            server,
            directory,
        }
    }

    fn guest(&self) -> Guest {
        Guest::connect(&self.directory.path().join("socket"), 1)
    }
}

#[test]
fn what_is_offered_again_before_its_answer_is_not_taken_again() {
    let rig = StuckRig::new();
    let mut guest = rig.guest();
    let error = vmm_sys_util::eventfd::EventFd::new(libc::EFD_NONBLOCK).unwrap();
    guest.frontend.set_vring_err(0, &error).unwrap();
    guest.submit(0, 0, DATA, READ, 0, &[], 512);
    guest.kick(0);
    wait_until("a worker has it", || {
        rig.server.stats().requests_in_flight == 1
    });
    assert!(error.read().is_err());
    // The same chain, as often as the queue's index allows.
    for _ in 0..QUEUE_SIZE {
        guest.make_available(0, 0);
    }
    guest.kick(0);
    wait_until("the queue is stopped", || {
        rig.server.stats().queues_broken == 1
    });
    wait_until("the client is told", || error.read().is_ok());
    assert_eq!(rig.server.stats().requests_in_flight, 1);
    rig.device.open();
    wait_until("what was taken is answered", || guest.used_index(0) == 1);
    assert_eq!(guest.status(DATA), OK);
}

#[test]
fn answers_come_in_the_order_of_their_requests() {
    let rig = StuckRig::new();
    let mut guest = rig.guest();
    guest.submit(0, 0, DATA, READ, 0, &[], 512);
    for slot in 1..8_u16 {
        let at = DATA + u64::from(slot) * 0x4000;
        guest.submit(0, slot * 3, at, READ, 8, &[], 512);
    }
    guest.kick(0);
    wait_until("those after it are done", || rig.server.stats().reads == 8);
    assert_eq!(guest.used_index(0), 0, "and wait for the first");
    rig.device.open();
    for slot in 0..8 {
        assert_eq!(guest.wait_for_answer(0).0, slot * 3);
        assert_eq!(guest.status(DATA + u64::from(slot) * 0x4000), OK);
    }
    assert_eq!(guest.used_index(0), 8);
}

fn rig() -> Rig {
    Rig::new(DISK_BYTES, VhostUserOptions::default())
}

/// Puts up four reads of which a process that was killed has answered as many as `answered`.
fn reads_half_done(guest: &mut Guest, answered: u16) {
    for slot in 0..4_u16 {
        let at = DATA + u64::from(slot) * 0x4000;
        guest.submit(0, slot * 3, at, READ, 0, &[], 512);
    }
    guest.set_used(0, answered);
}

#[test]
fn a_guest_whose_server_died_before_its_interrupt_is_woken() {
    let rig = rig();
    let mut guest = Guest::shake_hands(&rig.socket(), 1, u64::MAX);
    reads_half_done(&mut guest, 3);
    // The driver sleeps until the first answer, which has been there for long.
    guest.start_queue(0, 3);
    guest.wait_to_be_called(0);
    wait_until("the last one is answered", || guest.used_index(0) == 4);
}

#[test]
fn what_was_taken_and_not_answered_is_asked_for_again_whatever_the_client_says() {
    // cloud-hypervisor names the end of what is available, QEMU the last answer.
    for base in [4, 2] {
        let rig = rig();
        let mut guest = Guest::shake_hands(&rig.socket(), 1, u64::MAX);
        reads_half_done(&mut guest, 2);
        guest.start_queue(0, base);
        wait_until("all are answered", || guest.used_index(0) == 4);
        let statuses = (0..4).map(|slot| guest.status(DATA + slot * 0x4000));
        // Of the first two the guest has heard: they are not touched.
        assert_eq!(statuses.collect::<Vec<_>>(), [0xaa, 0xaa, OK, OK]);
        assert_eq!(rig.server().stats().reads, 2);
    }
}
