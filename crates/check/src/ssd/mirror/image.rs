//! What a crash leaves of both members, opened in every way that is legal, and in some that are not.

use super::super::disk::{Disk, DiskState};
use super::super::oracle::Oracle;
use super::super::script::{Change, transaction};
use super::super::verify::{Tally, read_all};
use super::pair::{Pair, devices_of, open_pair, served};
use forebay_log::LogError;
use forebay_log::shadow::ShadowState;
use std::sync::{Arc, Mutex};

/// One in so many images is also crashed while it is recovered.
const CRASHED_ONE_IN: u32 = 3;
/// Depth of crashes in recoveries of crashes in recoveries.
const DEPTH_MAX: usize = 2;
/// One in so many images of two members that count is opened with one of them, written, and then with both.
const PARTED_ONE_IN: u32 = 12;

/// What verifies.
pub struct Verifier<'t> {
    pub rng: fastrand::Rng,
    pub tally: Tally<'t>,
    /// Of secrets: no two incarnations have the same.
    pub seed: u64,
    pub unit: usize,
    /// There are enough images.
    pub is_over: bool,
}

/// The members and the disks after a crash.
#[derive(Clone)]
pub struct Left {
    pub states: [ShadowState; 2],
    pub disks: Vec<DiskState>,
    /// Members that have everything acknowledged, each by itself.
    pub is_complete: [bool; 2],
    pub is_killed: bool,
    /// One was opened alone on the caller's word, so only that one is opened from then on: a roster that was under way may have called
    /// the other one in alone, and then both are two histories.
    pub is_parted: bool,
    /// Members of which a page rotted, which no recovery repairs: they are not opened alone.
    pub is_rotten: [bool; 2],
    /// No crash that led to it was a power cut: what was written is there.
    pub keeps_written: bool,
}

impl Left {
    /// After a power cut, which leaves each its own part, or a kill.
    pub fn of(
        states: [&ShadowState; 2],
        disks: &[DiskState],
        (is_complete, is_killed): ([bool; 2], bool),
        (rng, unit): (&mut fastrand::Rng, usize),
    ) -> Left {
        let disks = disks.iter();
        let after = |state: &ShadowState, rng: &mut fastrand::Rng| match is_killed {
            true => state.killed(rng),
            false => ShadowState::new(state.cut(rng), unit),
        };
        Left {
            states: states.map(|state| after(state, rng)),
            disks: match is_killed {
                true => disks.cloned().collect(),
                false => disks.map(|disk| disk.cut(rng)).collect(),
            },
            is_complete,
            is_killed,
            is_parted: false,
            is_rotten: [false; 2],
            keeps_written: is_killed,
        }
    }

    /// Its disks, in use.
    pub fn open_disks(&self) -> Vec<Arc<Disk>> {
        let disks = self.disks.iter().cloned();
        disks.map(Disk::new).map(Arc::new).collect()
    }

    fn hash(&self) -> u64 {
        self.states[0].hash() ^ self.states[1].hash().rotate_left(7)
    }
}

impl Verifier<'_> {
    /// A number for the secrets of an incarnation.
    pub fn next_seed(&mut self) -> u64 {
        self.seed += 1;
        self.seed
    }

    /// Which members are named, and whether the caller says that the rest is gone for good.
    fn draw_given(&mut self, left: &Left) -> ([bool; 2], bool) {
        let alone = match left.is_parted {
            true => usize::from(left.is_complete[1]),
            false => self.rng.usize(..2),
        };
        if !left.is_parted && (!left.is_complete[alone] || self.rng.bool()) {
            return ([true; 2], false);
        }
        let mut given = [false; 2];
        given[alone] = true;
        (given, true)
    }

    /// Recovers and compares.
    pub fn verify(&mut self, left: &Left, oracle: &Oracle, nested: usize) -> Result<(), String> {
        let given = self.draw_given(left);
        let kind = match left.is_killed {
            true => "a kill",
            false => "a power cut",
        };
        let told = format!("after {kind}, members {:?}", given.0);
        self.verify_given(left, oracle, given, nested)
            .map_err(|error| format!("{told}: {error}"))?;
        let is_parted = left.is_complete == [true; 2] && nested == 0;
        if is_parted && !self.is_over && self.rng.u32(..PARTED_ONE_IN) == 0 {
            self.part(left, oracle)
                .map_err(|error| format!("after {kind}, parted: {error}"))?;
        }
        Ok(())
    }

    fn verify_given(
        &mut self,
        left: &Left,
        oracle: &Oracle,
        given: ([bool; 2], bool),
        nested: usize,
    ) -> Result<(), String> {
        let devices = devices_of([&left.states[0], &left.states[1]]);
        let disks = left.open_disks();
        let moments = Arc::new(Mutex::new(Vec::new()));
        let is_crashed = nested < DEPTH_MAX && self.rng.u32(..CRASHED_ONE_IN) == 0;
        if is_crashed {
            note_moments(&devices, &moments);
        }
        let seed = self.next_seed();
        let opened = open_pair(&devices, given, &disks, seed);
        let found = opened
            .map_err(|error| format!("it did not open: {error}"))
            .and_then(|log| {
                oracle.rows.check(&log.volumes())?;
                let found = oracle.find(&read_all(&log, &disks)?, left.keeps_written)?;
                Ok((found, served(&log)))
            });
        self.is_over |= !(self.tally)(left.hash(), left.is_killed);
        let (found, served) = found?;
        devices.iter().for_each(|device| device.observe(None));
        // Once it is open, what it found is what is there, on each that is served; on the way another prefix may be found.
        let only = Oracle::new(found, oracle.rows.clone());
        let mut moments = std::mem::take(&mut *moments.lock().expect("alone"));
        if is_crashed {
            moments.push(devices.each_ref().map(|device| device.state()));
        }
        let last = moments.len().saturating_sub(1);
        for (number, [first, second]) in moments.into_iter().enumerate() {
            if self.is_over || number < last && self.rng.bool() {
                continue;
            }
            let is_killed = self.rng.bool();
            // Of one that was left out on the caller's word nothing is to be seen again.
            let is_complete = match number == last {
                true => [0, 1].map(|number: usize| served[number] && !left.is_rotten[number]),
                false => [0, 1].map(|number: usize| left.is_complete[number] && given.0[number]),
            };
            let next = Left::of(
                [&first, &second],
                &left.disks,
                (is_complete, is_killed),
                (&mut self.rng, self.unit),
            );
            let next = Left {
                keeps_written: left.keeps_written && is_killed,
                is_parted: given.0 != [true; 2],
                is_rotten: left.is_rotten,
                ..next
            };
            let legal = if number == last { &only } else { oracle };
            self.verify(&next, legal, nested + 1)
                .map_err(|error| format!("in the recovery: {error}"))?;
        }
        Ok(())
    }

    /// One member goes on without the other one, and then both are there, of which perhaps each went on alone.
    fn part(&mut self, left: &Left, oracle: &Oracle) -> Result<(), String> {
        let devices = devices_of([&left.states[0], &left.states[1]]);
        let both = open_pair(
            &devices,
            ([true; 2], false),
            &left.open_disks(),
            self.next_seed(),
        );
        if both.is_ok_and(|log| served(&log) != [true; 2]) {
            // A roster that was under way has parted them already.
            return Ok(());
        }
        let devices = devices_of([&left.states[0], &left.states[1]]);
        let disks = left.open_disks();
        let first = self.rng.usize(..2);
        let changes = [self.change(), self.change()];
        let mut found = self.go_on_alone(&devices, first, &disks, &changes[0])?;
        if self.rng.bool() {
            found = oracle.newest().clone();
            self.go_on_alone(&devices, first ^ 1, &disks, &changes[1])?;
            let is_gone = self.rng.bool();
            return match open_pair(&devices, ([true; 2], is_gone), &disks, self.next_seed()) {
                Err(LogError::Unsuitable { reason, .. }) if reason.contains("two histories") => {
                    Ok(())
                }
                Err(error) => Err(format!("two histories, and it says: {error}")),
                Ok(_) => Err(format!(
                    "each was used without the other, and both are served, {} blocks",
                    found.len()
                )),
            };
        }
        let log = open_pair(&devices, ([true; 2], false), &disks, self.next_seed());
        let log = log.map_err(|error| format!("with a stale member it did not open: {error}"))?;
        match read_all(&log, &disks)? == found && !served(&log)[first ^ 1] {
            true => Ok(()),
            false => Err(String::from("a stale member is served")),
        }
    }

    fn change(&mut self) -> Change {
        Change::Whole {
            volume: 1,
            block: self.rng.u64(..4),
            seed: self.rng.u64(..),
        }
    }

    /// Opens one member alone, changes something, and is killed; what is read then.
    fn go_on_alone(
        &mut self,
        devices: &Pair,
        number: usize,
        disks: &[Arc<Disk>],
        change: &Change,
    ) -> Result<super::super::oracle::Blocks, String> {
        let mut given = [false; 2];
        given[number] = true;
        let told = |error: LogError| format!("member {number} alone: {error}");
        let log = open_pair(devices, (given, true), disks, self.next_seed()).map_err(told)?;
        match log.commit(transaction(std::slice::from_ref(change))) {
            Ok(()) | Err(LogError::NoRoom { .. }) => {}
            Err(error) => return Err(told(error)),
        }
        read_all(&log, disks)
    }
}

/// Notes both at every moment at which a crash would leave something new.
fn note_moments(devices: &Pair, moments: &Arc<Mutex<Vec<[ShadowState; 2]>>>) {
    for number in 0..2 {
        let (other, moments) = (devices[number ^ 1].clone(), moments.clone());
        devices[number].observe(Some(Box::new(move |state: &ShadowState| {
            let mut both = [state.clone(), other.state()];
            if number == 1 {
                both.swap(0, 1);
            }
            moments.lock().expect("alone").push(both);
        })));
    }
}
