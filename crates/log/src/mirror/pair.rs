//! The device itself: two members, a word that says which are served, and the roster behind it.

use super::claim::{Claim, superblock_of};
use super::helper::Helper;
use super::judge::{Verdict, judge};
use super::together::{InTurn, Request, Together, Way};
use crate::device::{Came, Device, DeviceCounters, MemberHealth, Members, MembersHealth, PageRead};
use crate::error::{LogError, Result};
use crate::media::{ROSTER_PAGE, Roster, Standing};
use crate::mutants::{Mutant, mutated};
use crate::page::Pages;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bits of the word that says how requests go: the members that are served, by their numbers; a roster has to be written
/// before anything else; nothing is written any more.
const MEMBER: [u8; 2] = [1, 2];
const BOTH: u8 = 3;
const UNWRITTEN: u8 = 4;
const ENDED: u8 = 8;

/// The roster that is in force, and of which pool.
struct Roll {
    uuid: u128,
    /// Of epoch 0 until the pool is made.
    roster: Roster,
    is_behind: [bool; 2],
    first: usize,
    why_out: [Option<String>; 2],
}

/// A device made of two.
pub struct MirrorDevice {
    members: [Option<Arc<dyn Device>>; 2],
    /// Where members are that were named.
    paths: [Option<PathBuf>; 2],
    path: PathBuf,
    pages: u64,
    /// Changed under `roll`'s lock, and stored after what it says is durable.
    word: AtomicU8,
    roll: Mutex<Roll>,
    together: Box<dyn Together>,
    /// Reads so far, which go to the members in turn.
    reads: AtomicU64,
    repaired: AtomicU64,
}

/// Whether a device is a member of a mirrored pool.
///
/// # Errors
/// It has no pool, or cannot be read.
pub fn is_member(device: &dyn Device) -> Result<bool> {
    superblock_of(device).map(|superblock| superblock.is_mirrored)
}

/// The members that are served, by their numbers.
type Given = [Option<Arc<dyn Device>>; 2];

impl MirrorDevice {
    /// Two devices on which a pool is to be made.
    ///
    /// # Errors
    /// The thread that is wanted cannot be started.
    pub fn blank(members: [Arc<dyn Device>; 2], way: Way) -> Result<MirrorDevice> {
        let paths = [0, 1].map(|number: usize| Some(members[number].path().to_owned()));
        let roster = Roster {
            epoch: 0,
            ids: [0; 2],
            standings: [Standing::In; 2],
        };
        let verdict = Verdict {
            roster,
            is_served: [true; 2],
            is_behind: [false; 2],
            first: 0,
            why_out: [None, None],
        };
        MirrorDevice::of((members.map(Some), paths), (0, verdict), way)
    }

    /// The members of a pool, one or both, in any order; of one that could not be opened the error. `is_gone` is the caller's word that
    /// what is missing is so for good. Nothing is written before the first write that is asked for.
    ///
    /// # Errors
    /// They are of different pools, or of two histories; one is missing that the roster calls in; none can be read.
    ///
    /// # Panics
    /// None or more than two are named.
    pub fn open(
        devices: Vec<Result<Arc<dyn Device>>>,
        is_gone: bool,
        way: Way,
    ) -> Result<MirrorDevice> {
        assert!((1..=2).contains(&devices.len()), "one member or two");
        let (mut claims, mut found, mut failed) = (Vec::new(), Vec::new(), None);
        for device in devices {
            let claim = device.and_then(|device| Ok((Claim::read(&*device)?, device)));
            match claim {
                Ok((claim, device)) => {
                    claims.push(claim);
                    found.push(device);
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let Some(first) = claims.first() else {
            return Err(failed.expect("one was named"));
        };
        let (path, uuid) = (first.path.clone(), first.superblock.uuid);
        let mut verdict = match (judge(&claims, is_gone), failed) {
            // What is wrong with the other one says more than that it is missing.
            (Err(_), Some(error)) => return Err(error),
            (Err(reason), None) => return Err(LogError::Unsuitable { path, reason }),
            (Ok(mut verdict), failed) => {
                if let Some(error) = failed {
                    verdict.why_out[claims[0].member ^ 1] = Some(error.to_string());
                }
                verdict
            }
        };
        let (mut members, mut paths) = ([None, None], [None, None]);
        for (claim, device) in claims.iter().zip(found) {
            paths[claim.member] = Some(claim.path.clone());
            members[claim.member] = Some(device).filter(|_| verdict.is_served[claim.member]);
        }
        for (why, is_served) in verdict.why_out.iter_mut().zip(verdict.is_served) {
            if !is_served {
                why.get_or_insert_with(|| String::from("the pool goes on without it"));
            }
        }
        MirrorDevice::of((members, paths), (uuid, verdict), way)
    }

    fn of(
        (members, paths): (Given, [Option<PathBuf>; 2]),
        (uuid, verdict): (u128, Verdict),
        way: Way,
    ) -> Result<MirrorDevice> {
        let served = members.iter().flatten();
        let pages = served.clone().map(|device| device.pages()).min();
        let path = served
            .clone()
            .next()
            .expect("one is served")
            .path()
            .to_owned();
        let together = match (way, &members[1]) {
            (Way::Other(together), _) => together,
            (Way::AtOnce, Some(second)) if members[0].is_some() => {
                Box::new(Helper::start(second.clone())?)
            }
            _ => Box::new(InTurn),
        };
        let mut word = 0;
        for (number, bit) in MEMBER.into_iter().enumerate() {
            word |= u8::from(verdict.is_served[number]) * bit;
        }
        if verdict.is_behind != [false; 2] {
            word |= UNWRITTEN;
        }
        Ok(MirrorDevice {
            members,
            paths,
            path,
            pages: pages.expect("one is served"),
            word: AtomicU8::new(word),
            roll: Mutex::new(Roll {
                uuid,
                roster: verdict.roster,
                is_behind: verdict.is_behind,
                first: verdict.first,
                why_out: verdict.why_out,
            }),
            together,
            reads: AtomicU64::new(0),
            repaired: AtomicU64::new(0),
        })
    }

    fn word(&self) -> u8 {
        // Behind the roster that it rests on.
        self.word.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Roll> {
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn member(&self, number: usize) -> &dyn Device {
        let member = self.members[number].as_deref();
        member.expect("a member that is served is there")
    }

    /// The member that the next read goes to.
    fn next_read(&self) -> &dyn Device {
        match self.word() & BOTH {
            BOTH => self.member((self.reads.fetch_add(1, Ordering::Relaxed) % 2) as usize),
            word => self.member(usize::from(word == MEMBER[1])),
        }
    }

    /// Writes a roster to a member, durably.
    fn write_roster(&self, roll: &Roll, number: usize, roster: &Roster) -> io::Result<()> {
        let mut page = Pages::zeroed(1);
        roster.encode(roll.uuid, number, &mut page);
        // The line before stays: it is the last one until this is durable.
        let place = ROSTER_PAGE + roster.epoch % 2;
        match mutated(Mutant::SsdMirrorRosterUnsynced) {
            true => self.member(number).write(place, &[&page]),
            false => self.member(number).write_durable(place, &[&page]),
        }
    }

    /// Writes the roster to members that are behind it, before the first write of anything else.
    fn settle(&self) -> io::Result<()> {
        let mut roll = self.lock();
        for number in [roll.first, roll.first ^ 1] {
            if roll.is_behind[number] {
                let roster = roll.roster;
                if let Err(error) = self.write_roster(&roll, number, &roster) {
                    drop(roll);
                    // The next roster leaves it out, if there is another one, as after any write that it does not take.
                    return self.expel(number, &error);
                }
                roll.is_behind[number] = false;
            }
        }
        self.word.fetch_and(!UNWRITTEN, Ordering::Release);
        Ok(())
    }

    /// Makes a request to all that are served; one of two that fails is gone on without.
    fn make(&self, request: &Request<'_>) -> io::Result<()> {
        let mut word = self.word();
        if word & ENDED != 0 {
            return Err(io::Error::other(
                "no roster could be written without the member that failed",
            ));
        }
        if word & UNWRITTEN != 0 {
            self.settle()?;
            word = self.word();
        }
        if word != BOTH {
            return request.make(self.member(usize::from(word == MEMBER[1])));
        }
        if matches!(request, Request::Flush) && mutated(Mutant::SsdMirrorFlushOfOne) {
            return request.make(self.member(0));
        }
        let mut second = *request;
        if let Request::Write { is_durable, .. } = &mut second
            && mutated(Mutant::SsdMirrorDurableOnOne)
        {
            *is_durable = false;
        }
        let members = [self.member(0), self.member(1)];
        match self.together.make(members, [request, &second]) {
            [Ok(()), Ok(())] => Ok(()),
            [Err(error), Ok(())] => self.expel(0, &error),
            [Ok(()), Err(error)] => self.expel(1, &error),
            [Err(error), Err(_)] => Err(error),
        }
    }
}

impl Members for MirrorDevice {
    fn served(&self) -> Vec<(usize, &dyn Device)> {
        let word = self.word();
        let numbers = (0..2).filter(|number| word & MEMBER[*number] != 0);
        numbers
            .map(|number| (number, self.member(number)))
            .collect()
    }

    fn found(&self, uuid: u128, ids: [u64; 2]) -> io::Result<()> {
        let mut roll = self.lock();
        assert_eq!(roll.roster.epoch, 0, "a pool is made once");
        roll.uuid = uuid;
        let roster = Roster {
            epoch: 1,
            ids,
            ..roll.roster
        };
        for number in 0..2 {
            // Before the superblock, which comes last: a member that has that has this, and no line of another pool beside it.
            let blank = Pages::zeroed(2);
            self.member(number).write_durable(ROSTER_PAGE, &[&blank])?;
            self.write_roster(&roll, number, &roster)?;
        }
        roll.roster = roster;
        Ok(())
    }

    fn expel(&self, member: usize, why: &io::Error) -> io::Result<()> {
        let mut roll = self.lock();
        let (word, other) = (self.word(), member ^ 1);
        let told = |what: &str| {
            let path = self.member(member).path().display();
            io::Error::new(why.kind(), format!("{path}: {why}{what}"))
        };
        if word & MEMBER[other] == 0 || word & ENDED != 0 {
            return Err(told("; the other member is out"));
        }
        if word & MEMBER[member] == 0 {
            // Another thread was told, and the roster is durable.
            return Ok(());
        }
        if roll.roster.epoch == 0 {
            return Err(told(""));
        }
        let roster = roll.roster.with(member, Standing::Out);
        // On the survivor, before anything is acknowledged that it has alone: an opening must not take the other one for complete.
        if let Err(error) = self.write_roster(&roll, other, &roster) {
            self.word.fetch_or(ENDED, Ordering::Release);
            return Err(error);
        }
        roll.roster = roster;
        roll.is_behind = [false; 2];
        roll.why_out[member] = Some(why.to_string());
        self.word.store(MEMBER[other], Ordering::Release);
        Ok(())
    }

    fn note_repaired(&self) {
        self.repaired.fetch_add(1, Ordering::Relaxed);
    }

    fn health(&self) -> MembersHealth {
        let (roll, word) = (self.lock(), self.word());
        let members = [0, 1].map(|number: usize| MemberHealth {
            path: self.paths[number].clone(),
            is_in: word & MEMBER[number] != 0,
            why_out: roll.why_out[number].clone(),
        });
        MembersHealth {
            members,
            repaired_pages: self.repaired.load(Ordering::Relaxed),
        }
    }
}

impl Device for MirrorDevice {
    fn path(&self) -> &Path {
        &self.path
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    fn read(&self, page: u64, out: &mut [u8]) -> io::Result<()> {
        self.next_read().read(page, out)
    }

    fn read_many(&self, reads: &mut [PageRead<'_>], came: &mut Came<'_>) {
        self.next_read().read_many(reads, came);
    }

    fn write_durable(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.make(&Request::Write {
            page,
            parts,
            is_durable: true,
        })
    }

    fn write(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.make(&Request::Write {
            page,
            parts,
            is_durable: false,
        })
    }

    fn flush(&self) -> io::Result<()> {
        self.make(&Request::Flush)
    }

    fn counters(&self) -> DeviceCounters {
        let each = self.members.iter().flatten().map(|one| one.counters());
        each.fold(DeviceCounters::default(), |all, one| all.and(&one))
    }

    fn members(&self) -> Option<&dyn Members> {
        Some(self)
    }
}
