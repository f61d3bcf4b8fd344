//! Two members at work: what is done to them, and what must be there at every moment.

use super::super::disk::{Disk, DiskState};
use super::super::fresh::begin;
use super::super::oracle::{Oracle, place};
use super::super::rows::Rows;
use super::super::script::{Change, transaction};
use super::super::verify::read_all;
use super::image::{Left, Verifier};
use super::pair::{Pair, devices_of, interleaved, open_pair, served};
use super::steps::{Step, Story};
use crate::content::noise;
use forebay_log::shadow::{Image, ShadowDevice, ShadowState};
use forebay_log::{Device, Log, LogError, MirrorDevice, Options, PAGE_BYTES, VolumeRow, create};
use std::sync::{Arc, Mutex};

/// A moment's crash is looked at in one of so many; one that leaves nothing in doubt in one of so many.
const MOMENT_ONE_IN: u8 = 3;
const SETTLED_ONE_IN: u8 = 12;

/// Both members and the disks at a moment at which all may crash.
pub type Moment = ([ShadowState; 2], Vec<DiskState>);

/// What a crash has left, and what it may be.
pub struct Crash {
    pub left: Left,
    pub oracle: Oracle,
    /// Members that do not come back.
    pub is_dead: [bool; 2],
}

/// The pool.
pub struct World {
    pub devices: Pair,
    pub disks: Vec<Arc<Disk>>,
    /// None for a moment, while a member is replaced.
    pub log: Option<Log>,
    pub oracle: Oracle,
    /// Transactions that are acknowledged as written alone.
    pub written: usize,
    pub is_complete: [bool; 2],
    pub is_dead: [bool; 2],
    pub moments: Arc<Mutex<Vec<Moment>>>,
}

impl World {
    /// A pool that was just made, in front of disks that hold something.
    pub fn fresh(story: &Story, seed: u64) -> Result<Crash, String> {
        let pages = story.segment_pages * (story.segments + 1);
        let state = ShadowState::new(Image::zeroed(pages as usize), story.unit);
        let devices = devices_of([&state, &state]);
        let members = devices.clone().map(|device| device as Arc<dyn Device>);
        let device = MirrorDevice::blank(members, interleaved(&devices, seed));
        let device = device.map_err(|error| error.to_string())?;
        let options = Options {
            seed: Some(seed),
            segment_pages: Some(story.segment_pages),
            ..Options::default()
        };
        let log = create(Arc::new(device), options).map_err(|error| error.to_string())?;
        let (oracle, disks) = begin(log, seed)?;
        Ok(Crash {
            oracle,
            left: Left {
                states: devices.each_ref().map(|device| device.state()),
                disks,
                is_complete: [true; 2],
                is_killed: false,
                is_parted: false,
                is_rotten: [false; 2],
                keeps_written: true,
            },
            is_dead: [false; 2],
        })
    }

    /// Opens what a crash has left, with the members that are there.
    pub fn open(crash: Crash, seed: u64) -> Result<World, String> {
        let Crash {
            left,
            oracle,
            is_dead,
        } = crash;
        let disks = left.open_disks();
        let devices = devices_of([&left.states[0], &left.states[1]]);
        let given = is_dead.map(|is_dead| !is_dead);
        let log = open_pair(&devices, (given, true), &disks, seed);
        let log = log.map_err(|error| format!("it did not open: {error}"))?;
        let found = oracle.find(&read_all(&log, &disks)?, left.keeps_written)?;
        let rows = log.volumes();
        oracle.rows.check(&rows)?;
        let world = World {
            is_complete: served(&log),
            is_dead,
            devices,
            disks,
            log: Some(log),
            oracle: Oracle::new(found, Rows::new(rows)).after(&oracle),
            written: 0,
            moments: Arc::default(),
        };
        world.observe();
        Ok(world)
    }

    /// Notes everything at every moment from now on.
    pub fn observe(&self) {
        for number in 0..2 {
            let (other, noted) = (self.devices[number ^ 1].clone(), self.moments.clone());
            let disks = self.disks.clone();
            let note = move |state: &ShadowState| {
                let mut both = [state.clone(), other.state()];
                if number == 1 {
                    both.swap(0, 1);
                }
                let disks = disks.iter().map(|disk| disk.state()).collect();
                noted.lock().expect("alone").push((both, disks));
            };
            self.devices[number].observe(Some(Box::new(note)));
        }
    }

    pub fn log(&self) -> &Log {
        self.log.as_ref().expect("it is open")
    }

    /// Does a step.
    pub fn act(&mut self, step: &Step, verifier: &mut Verifier<'_>) -> Result<(), String> {
        match step {
            Step::Commit(changes) => self.commit(changes, verifier)?,
            Step::CommitUnsynced(changes) => self.commit_unsynced(changes, verifier)?,
            Step::Sync => {
                self.log().sync().map_err(|error| error.to_string())?;
                self.crash(verifier)?;
                self.acknowledge_written();
            }
            Step::Read(volume, block) => self.read(*volume, *block)?,
            Step::WriteBack(volume) => {
                let written = self.log().write_back(*volume);
                written.map_err(|error| error.to_string())?;
            }
            Step::Recycle => self.make_room()?,
            Step::Row(volume, bytes) => self.write_row(*volume, *bytes, verifier)?,
            Step::Fail(number, after, fault, dies) => {
                // One that fails while the other one is out ends the pool, which is no mirror's matter.
                if self.is_complete == [true; 2] {
                    self.devices[*number ^ 1].heal();
                    self.devices[*number].fail(*after, *fault);
                    self.is_dead[*number] = *dies;
                }
            }
            Step::Rot(number, volume, block) => self.rot(*number, (*volume, *block), verifier)?,
            Step::Readd {
                is_blank,
                is_closed,
            } => self.readd((*is_blank, *is_closed), verifier)?,
        }
        // What is acknowledged by now a member that is out may lack.
        self.note_members();
        self.crash(verifier)
    }

    /// A member that was taken out lacks what comes now.
    fn note_members(&mut self) {
        let served = served(self.log());
        for (number, is_served) in served.into_iter().enumerate() {
            if self.is_complete[number] && !is_served {
                self.is_complete[number] = false;
                if self.is_dead[number] {
                    self.devices[number].die();
                }
            }
        }
        // Both may be made to fail, and one of them has.
        if self.is_complete != [true; 2] {
            for device in &self.devices {
                device.heal();
            }
        }
    }

    pub fn disk_states(&self) -> Vec<DiskState> {
        self.disks.iter().map(|disk| disk.state()).collect()
    }

    pub fn states(&self) -> [ShadowState; 2] {
        self.devices.each_ref().map(|device| device.state())
    }

    /// Verifies some of what crashes at the moments since the last time could have left.
    pub fn crash(&mut self, verifier: &mut Verifier<'_>) -> Result<(), String> {
        self.crash_with((self.is_complete, [false; 2]), verifier)
    }

    /// The same where these members have everything, each by itself.
    pub fn crash_with(
        &mut self,
        (is_complete, is_rotten): ([bool; 2], [bool; 2]),
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        let mut moments = std::mem::take(&mut *self.moments.lock().expect("alone"));
        moments.push((self.states(), self.disk_states()));
        for (states, disks) in moments {
            let has_pending = states.iter().any(ShadowState::has_pending)
                || disks.iter().any(DiskState::has_pending);
            let one_in = match has_pending {
                true => MOMENT_ONE_IN,
                false => SETTLED_ONE_IN,
            };
            if verifier.is_over || verifier.rng.u8(..one_in) > 0 {
                continue;
            }
            let is_killed = verifier.rng.u8(..3) == 0;
            let unit = verifier.unit;
            let left = Left::of(
                [&states[0], &states[1]],
                &disks,
                (is_complete, is_killed),
                (&mut verifier.rng, unit),
            );
            let left = Left { is_rotten, ..left };
            verifier.verify(&left, &self.oracle, 0)?;
        }
        Ok(())
    }

    fn acknowledge_written(&mut self) {
        for _ in 0..std::mem::take(&mut self.written) {
            self.oracle.acknowledge();
        }
    }

    fn commit(&mut self, changes: &[Change], verifier: &mut Verifier<'_>) -> Result<(), String> {
        let before = self.oracle.clone();
        self.oracle.join(changes);
        match self.log().commit(transaction(changes)) {
            Ok(()) => {
                self.crash(verifier)?;
                self.acknowledge_written();
                self.oracle.acknowledge();
                Ok(())
            }
            Err(LogError::NoRoom { .. }) => {
                self.oracle = before;
                self.make_room()
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn commit_unsynced(
        &mut self,
        changes: &[Change],
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        let before = self.oracle.clone();
        self.oracle.join(changes);
        match self.log().commit_unsynced(transaction(changes)) {
            Ok(()) => {
                self.crash(verifier)?;
                self.oracle.note_written();
                self.written += 1;
                Ok(())
            }
            Err(LogError::NoRoom { .. }) => {
                self.oracle = before;
                self.make_room()
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn make_room(&mut self) -> Result<(), String> {
        match self.log().recycle() {
            Ok(_) | Err(LogError::NoRoom { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn read(&self, volume: u32, block: u64) -> Result<(), String> {
        let mut bytes = vec![0; PAGE_BYTES];
        let read = self.log().read(volume, block, &mut bytes);
        read.map_err(|error| error.to_string())?;
        match *self.oracle.published()[place(volume, block)] == bytes {
            true => Ok(()),
            false => Err("a read sees something else than was acknowledged last".into()),
        }
    }

    fn write_row(
        &mut self,
        volume: u32,
        size_bytes: u64,
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        let row = VolumeRow {
            size_bytes,
            ..self.oracle.rows.current(volume).clone()
        };
        self.oracle.rows.begin(row.clone());
        let written = self.log().write_volume(&row);
        written.map_err(|error| error.to_string())?;
        self.crash(verifier)?;
        self.oracle.rows.end(volume);
        Ok(())
    }

    /// The page of a block is noise on one member: whoever reads it gets what is on the other one, and then both have that.
    fn rot(
        &mut self,
        number: usize,
        (volume, block): (u32, u64),
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        let page = self.log().begin_read(volume, block).page();
        let Some(page) = page.filter(|_| self.is_complete == [true; 2]) else {
            return Ok(());
        };
        self.devices[number].rot(page, &noise(verifier.rng.u64(..), PAGE_BYTES));
        // Both are read in turn.
        self.read(volume, block)?;
        self.read(volume, block)?;
        let is_right = [0, 1].map(|other| other != number);
        let is_rotten = is_right.map(|is_right| !is_right);
        self.crash_with((is_right, is_rotten), verifier)?;
        let repaired = self.log().repair().map_err(|error| error.to_string())?;
        self.crash_with((is_right, is_rotten), verifier)?;
        match repaired {
            1 => self.read(volume, block).and(self.read(volume, block)),
            // It failed meanwhile, and is out.
            _ if served(self.log()) != [true; 2] => Ok(()),
            _ => Err(format!(
                "{repaired} pages were repaired of one that had rotted"
            )),
        }
    }

    /// The incarnation ends: closed in order, killed, or by a power cut. A member that failed may be gone for good.
    pub fn end(mut self, rng: &mut fastrand::Rng, unit: usize) -> Result<Crash, String> {
        if rng.u8(..4) == 0 {
            let log = self.log.take().expect("it is open");
            log.close().map_err(|error| error.to_string())?;
            self.acknowledge_written();
        } else {
            self.log = None;
        }
        let states = self.states();
        let is_killed = rng.bool();
        let left = Left::of(
            [&states[0], &states[1]],
            &self.disk_states(),
            (self.is_complete, is_killed),
            (rng, unit),
        );
        let is_dead = self
            .is_complete
            .map(|is_complete| !is_complete && rng.bool());
        Ok(Crash {
            left,
            oracle: self.oracle,
            is_dead,
        })
    }
}

/// A device that holds nothing, of as many pages as another one.
pub fn blank(like: &ShadowDevice, unit: usize) -> Arc<ShadowDevice> {
    let state = ShadowState::new(Image::zeroed(like.pages() as usize), unit);
    Arc::new(ShadowDevice::new(state))
}
