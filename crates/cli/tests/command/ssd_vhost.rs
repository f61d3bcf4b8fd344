//! A guest's disk over vhost-user, on a pool on an SSD: what was answered before a kill is there.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::ssd::env;
use crate::test_env::{DISK_BYTES, Daemon, TestEnv};
use crate::vhost_guest::{DATA, DISCARD, FLUSH, Guest, OK, READ, WRITE, WRITE_ZEROES, wait_until};

const SECTOR: usize = 512;
const MIB: usize = 1 << 20;
/// Writes that are under way at a kill, in slots of the guest's memory.
const SLOTS: u16 = 16;
const SLOT_BYTES: u64 = 0x8000;
const SLOT_SECTORS: usize = 24;

fn serve(env: &TestEnv) -> Daemon {
    let front_end = ["--vhost-user", "./guest.sock"];
    env.serve_with(&[&["--pool", "POOL", "--backing", "BACKING"], &front_end[..]].concat())
}

/// A guest, and what its disk must hold.
struct Worker {
    guest: Guest,
    disk: Vec<u8>,
}

impl Worker {
    fn write(&mut self, sector: usize, data: &[u8]) {
        let answer = self.guest.ask(WRITE, sector as u64, data, 0);
        assert_eq!(answer.0, OK, "write at {sector}");
        self.put(sector, data);
    }

    fn put(&mut self, sector: usize, data: &[u8]) {
        self.disk[sector * SECTOR..][..data.len()].copy_from_slice(data);
    }

    /// A discard, or a request for zeroes with these flags.
    fn zero(&mut self, kind: u32, (sector, sectors): (usize, usize), flags: u32) {
        let mut range = (sector as u64).to_le_bytes().to_vec();
        range.extend((sectors as u32).to_le_bytes());
        range.extend(flags.to_le_bytes());
        let answer = self.guest.ask(kind, 0, &range, 0);
        assert_eq!(answer.0, OK, "zeroes at {sector}");
        self.put(sector, &vec![0; sectors * SECTOR]);
    }

    /// Requests of all kinds, of whole blocks and of parts, some longer than a transaction.
    fn work(&mut self, round: u8) {
        let first = usize::from(round) * 5;
        for number in 0..40 {
            let content = [round.wrapping_mul(50) + number + 1; 64 * 1024 + SECTOR];
            let at = first + usize::from(number) * 160;
            self.write(
                at,
                &content[..content.len() - (usize::from(number) % 2) * SECTOR],
            );
        }
        self.write(first + 9000, &vec![round | 0x80; MIB]);
        self.zero(DISCARD, (first + 9003, 700), 0);
        self.zero(WRITE_ZEROES, (first + 163, 331), 0);
        self.zero(WRITE_ZEROES, (first + 10_000, 64), 1);
        self.write(first + 170, &[round | 0x40; 3 * SECTOR]);
        assert_eq!(self.guest.ask(FLUSH, 0, &[], 0).0, OK);
    }

    fn slot_write(round: u8, slot: u16) -> (usize, Vec<u8>) {
        let sector = 20_000 + usize::from(slot) * SLOT_SECTORS + usize::from(round);
        (
            sector,
            vec![round * 16 + slot as u8 + 1; SLOT_SECTORS * SECTOR],
        )
    }

    /// Asks for writes, and kills the daemon when some are answered; how many were. Answers are in order.
    fn work_until_killed(&mut self, daemon: Daemon, round: u8) -> u16 {
        let before = self.guest.used_index(0);
        for slot in 0..SLOTS {
            let (sector, data) = Worker::slot_write(round, slot);
            let at = DATA + u64::from(slot) * SLOT_BYTES;
            let guest = &mut self.guest;
            guest.submit(0, slot * 3, at, WRITE, sector as u64, &data, 0);
        }
        self.guest.kick(0);
        let answered = |guest: &Guest| guest.used_index(0).wrapping_sub(before);
        wait_until("an answer", || answered(&self.guest) >= u16::from(round));
        daemon.signal(Signal::KILL);
        drop(daemon);
        answered(&self.guest)
    }

    /// The first of those writes were answered; of the others each is there whole or not at all.
    fn settle(&mut self, round: u8, answered: u16) {
        for slot in 0..answered {
            let (sector, data) = Worker::slot_write(round, slot);
            self.put(sector, &data);
        }
        for slot in answered..SLOTS {
            let (sector, data) = Worker::slot_write(round, slot);
            let found = self.read(sector, data.len());
            let old = self.disk[sector * SECTOR..][..data.len()].to_vec();
            assert!(
                found == data || found == old,
                "write {slot} is there in part"
            );
            self.put(sector, &found);
        }
    }

    fn read(&mut self, sector: usize, bytes: usize) -> Vec<u8> {
        let (status, found) = self.guest.ask(READ, sector as u64, &[], bytes);
        assert_eq!(status, OK, "read at {sector}");
        found
    }

    fn verify(&mut self) {
        for at in (0..DISK_BYTES as usize).step_by(MIB) {
            let found = self.read(at / SECTOR, MIB);
            let expected = &self.disk[at..][..MIB];
            let differs = (0..MIB).find(|byte| found[*byte] != expected[*byte]);
            assert_eq!(differs.map(|byte| (at + byte) / SECTOR), None, "a sector");
        }
    }
}

#[test]
fn what_a_guest_was_answered_before_a_kill_is_there() {
    let Some(env) = env("what_a_guest_was_answered_before_a_kill_is_there") else {
        return;
    };
    let socket = env.path("guest.sock");
    let mut daemon = serve(&env);
    let mut worker = Worker {
        guest: Guest::connect(&socket, 1),
        disk: vec![0; DISK_BYTES as usize],
    };
    for round in 1..=4 {
        worker.work(round);
        let answered = worker.work_until_killed(daemon, round);
        assert_eq!(env.run(&["check", "POOL"]).code, 0);
        daemon = serve(&env);
        if round % 2 == 0 {
            // The guest was killed as well.
            worker.guest = Guest::connect(&socket, 1);
            worker.settle(round, answered);
        } else {
            // It stays, and what was not answered is asked for again.
            worker.guest.reconnect(&socket);
            for slot in 0..SLOTS {
                assert_eq!(worker.guest.wait_for_answer(0).0, slot * 3);
                let at = DATA + u64::from(slot) * SLOT_BYTES;
                assert_eq!(worker.guest.status(at), OK, "write {slot}");
            }
            worker.settle(round, SLOTS);
        }
        worker.verify();
    }
    let Worker { guest, disk } = worker;
    env.refuses(&["detach", "POOL", "disk.img"], 4, "a guest has disk.img");
    drop(guest);
    detach(&env, &socket);
    assert!(fs::read(env.path("disk.img")).unwrap() == disk, "the image");
    daemon.end();
}

/// The guest that has gone is noticed in a moment.
fn detach(env: &TestEnv, socket: &Path) {
    while env.run(&["detach", "POOL", "disk.img"]).code == 4 {
        std::thread::yield_now();
    }
    assert!(!socket.exists());
}
