//! Sessions in which the power fails for everything at once: the states that a cut can leave of pool,
//! backing and guest are sampled, recovered and verified.
//!
//! The guest works on; each cut takes the state of that very moment aside, which is what would be left
//! had the power failed then: of the guest nothing, of pool and backing what their models allow.
//! Afterwards each is recovered as a pool of its own, and one more guest verifies all their disks.

use std::path::Path;
use std::time::Duration;

use fastrand::Rng;

use super::file_system::{self, Load, Verdict};
use super::killed::warm_up;
use super::plan::{Kind, Round, Session};
use super::shadow_machine::Machine;
use crate::machine::Cut;
use crate::workload::verify::Acknowledged;
use crate::{Disk, Guest, GuestOptions, Job, Result, Scratch};

const BETWEEN_CUTS_MS: std::ops::Range<u64> = 20..400;
/// Stores, flushes and fences of the pool before the moment of a cut.
const EVENTS_MAX: u64 = 1000;
/// The same of an SSD: beginnings and ends of its writes, of which a commit has two.
const SSD_EVENTS_MAX: u64 = 60;
const DEVICE: &str = "/dev/vda";

/// A cut with what had been acknowledged at that moment.
struct Taken {
    cut: Cut,
    acknowledged: Vec<Acknowledged>,
    segments_reused: u64,
}

/// Makes the cuts of a session; `done` hears of each. What fails is left in `failures`.
pub fn run(
    scratch: &Scratch,
    failures: &Path,
    session: &Session,
    done: &mut dyn FnMut(Round),
) -> Result<()> {
    let mut rng = Rng::with_seed(session.seed);
    let folder = scratch.new_folder("sampled")?;
    let load = Load {
        seed: rng.u64(..),
        number: 0,
        is_syncing: true,
    };
    let cuts = take_cuts(scratch, &folder, session, &load, &mut rng)?;
    let mut machines = Vec::new();
    for (index, taken) in cuts.iter().enumerate() {
        let number = session.first_round + index as u32;
        let mut rng = Rng::with_seed(session.sampling_seed(number));
        let pool = folder.join(format!("pool-{index}"));
        let socket = folder.join(format!("socket-{index}"));
        match Machine::recover(session, &taken.cut, &mut rng, &pool, &socket) {
            Ok(machine) => machines.push((index, socket, machine)),
            Err(error) => {
                keep(failures, number, &pool)?;
                let verdict = Verdict::Broken(format!("recovery: {error}"));
                done(round(session, index, taken, verdict));
            }
        }
    }
    let sockets = machines.iter().map(|(_, socket, _)| socket.clone());
    let options = GuestOptions::with_disks(sockets.map(Disk::Vhost));
    let mut guest = Guest::boot(scratch, &options)?;
    for (device, (index, _, _)) in machines.iter().enumerate() {
        let letter = char::from(b'a' + device as u8);
        let device = format!("/dev/vd{letter}");
        let taken = &cuts[*index];
        let verdict = file_system::verify(
            &mut guest,
            session.file_system,
            &device,
            &load,
            &taken.acknowledged,
        )?;
        if verdict != Verdict::Survived && !session.kind.is_control() {
            let number = session.first_round + *index as u32;
            keep(failures, number, &folder.join(format!("pool-{index}")))?;
        }
        done(round(session, *index, taken, verdict));
    }
    guest.shut_down()?;
    drop(machines);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn round(session: &Session, index: usize, taken: &Taken, verdict: Verdict) -> Round {
    Round {
        number: session.first_round + index as u32,
        acknowledged: taken.acknowledged.iter().map(|steps| steps.least).sum(),
        undecided: taken.cut.undecided(),
        segments_reused: taken.segments_reused,
        verdict,
    }
}

/// Runs the load and takes the states of random moments aside.
fn take_cuts(
    scratch: &Scratch,
    folder: &Path,
    session: &Session,
    load: &Load,
    rng: &mut Rng,
) -> Result<Vec<Taken>> {
    let is_early = session.kind == Kind::EarlyAnswers;
    let _mutant = Mutant::of(session.kind);
    let socket = folder.join("socket");
    let machine = Machine::new(session, rng, &socket)?;
    let mut guest = Guest::boot(scratch, &GuestOptions::with_disks([Disk::Vhost(socket)]))?;
    file_system::make(&mut guest, session.file_system, DEVICE)?;
    if session.kind == Kind::FlushesIgnored {
        machine.ignore_flushes();
    }
    let job: Job = load.start(&mut guest)?;
    warm_up(load, &mut guest, &job)?;
    let events_max = match machine.is_on_ssd() {
        true => SSD_EVENTS_MAX,
        false => EVENTS_MAX,
    };
    let mut cuts = Vec::new();
    for _ in 0..session.rounds {
        forebay_harness::sleep(Duration::from_millis(rng.u64(BETWEEN_CUTS_MS)))?;
        let segments_reused = machine.segments_reused();
        let (of_load, shared) = (*load, guest.shared().to_path_buf());
        let reported = move || of_load.acknowledged_in(&shared);
        let (before, cut, after) = if is_early {
            let first = reported()?;
            let is_due = || Ok(has_gone_on(&first, &reported()?));
            machine.cut_early(is_due, &reported)?
        } else {
            let (before, cut, after) = machine.cut(rng.u64(..events_max), reported)?;
            (before?, cut, after?)
        };
        let between = before.into_iter().zip(after);
        let acknowledged = between.map(|(least, most)| Acknowledged { least, most });
        cuts.push(Taken {
            cut,
            acknowledged: acknowledged.collect(),
            segments_reused,
        });
    }
    guest.cut_power()?;
    Ok(cuts)
}

/// Whether every thread has reported a step that it began after `first` was reported.
fn has_gone_on(first: &[u64], now: &[u64]) -> bool {
    first.iter().zip(now).all(|(first, now)| *now >= first + 2)
}

/// While it lives, commits do without what makes them durable, if that is what the kind is.
struct Mutant;

impl Mutant {
    #[cfg(feature = "mutants")]
    fn of(kind: Kind) -> Mutant {
        let fence = forebay::internals::mutants::Mutant::CommitFenceRemoved;
        forebay::internals::mutants::set((kind == Kind::WithoutFence).then_some(fence));
        let groups = forebay_log::mutants::Mutant::SsdAckBeforeFlush;
        forebay_log::mutants::set((kind == Kind::WithoutDurableGroups).then_some(groups));
        Mutant
    }

    #[cfg(not(feature = "mutants"))]
    fn of(_kind: Kind) -> Mutant {
        Mutant
    }
}

impl Drop for Mutant {
    fn drop(&mut self) {
        #[cfg(feature = "mutants")]
        {
            forebay::internals::mutants::set(None);
            forebay_log::mutants::set(None);
        }
    }
}

/// Keeps the pool that failed, for a look.
fn keep(failures: &Path, number: u32, pool: &Path) -> Result<()> {
    std::fs::create_dir_all(failures)?;
    std::fs::copy(pool, failures.join(format!("pool-of-round-{number}")))?;
    Ok(())
}
