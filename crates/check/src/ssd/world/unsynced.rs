//! Transactions join, are acknowledged as written or as durable, and syncs come between the two.

use super::super::script::{BLOCKS, Change, transaction};
use super::super::verify::Verifier;
use super::World;
use forebay_log::shadow::Fault;
use forebay_log::{Device, Flight, Log, LogError, Outcome, Ticket, Transaction};

/// One in so many volumes that the pool lets go of is let go of unsynced.
const FORGOTTEN_UNSYNCED_ONE_IN: u64 = 3;

impl World {
    pub(super) fn note_join(&mut self, ticket: Ticket, changes: &[Change]) {
        self.tickets.push_back(ticket);
        self.oracle.join(changes);
    }

    pub(super) fn join(
        &mut self,
        changes: &[Change],
        stage: impl Fn(&Log, Transaction) -> forebay_log::Result<Ticket>,
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        match stage(self.log(), transaction(changes)) {
            Ok(ticket) => self.note_join(ticket, changes),
            Err(LogError::NoRoom { .. }) => self.make_room(verifier)?,
            Err(LogError::Poisoned { .. }) if self.has_failed => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// What is acknowledged now, and with it everything that joined before.
    pub(super) fn acknowledge(&mut self) {
        let is_durable = |ticket: &Ticket| ticket.outcome() == Some(Outcome::Durable);
        let durable = self.tickets.iter().rposition(is_durable);
        self.acknowledge_first(durable.map_or(0, |last| last + 1));
        let next = |world: &World| world.tickets.get(world.written).map(Ticket::outcome);
        while next(self) == Some(Some(Outcome::Written)) {
            self.written += 1;
            self.oracle.note_written();
            self.note_seen();
        }
    }

    /// So many of the oldest that were not durable are.
    pub(super) fn acknowledge_first(&mut self, count: usize) {
        self.tickets.drain(..count);
        self.written = self.written.saturating_sub(count);
        for _ in 0..count {
            self.oracle.acknowledge();
            self.note_seen();
        }
    }

    fn note_seen(&mut self) {
        if let Some(slow) = &mut self.slow {
            slow.seen.push(self.oracle.published()[slow.place].clone());
        }
    }

    pub(super) fn commit_unsynced(
        &mut self,
        changes: &[Change],
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        if !self.flights.is_empty() {
            return Ok(());
        }
        let before = self.tickets.len();
        self.join(changes, Log::stage_unsynced, verifier)?;
        match self.tickets.back().filter(|_| self.tickets.len() > before) {
            Some(ticket) => self.log().wait(ticket).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// The flush that belongs to a group, if one does, and crashes around it.
    pub(super) fn flush_behind(
        &mut self,
        flight: &Flight,
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        let before = self.device.counters().flushes;
        let flushed = flight.flush(&*self.device);
        flushed.expect("nothing makes it fail");
        match self.device.counters().flushes > before {
            true => self.crash(verifier),
            false => Ok(()),
        }
    }

    /// What is written is durable from then on.
    pub(super) fn sync(&mut self, verifier: &mut Verifier<'_>) -> Result<(), String> {
        match self.log().sync() {
            Ok(()) => {
                // What the flush came upon is not acknowledged yet.
                self.crash(verifier)?;
                self.acknowledge_first(self.written);
                Ok(())
            }
            Err(LogError::Poisoned { .. }) if self.has_failed => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) fn fail_sync(
        &mut self,
        fault: Fault,
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        // Groups under way would come back to a pool that is poisoned.
        if self.log().is_synced() || !self.flights.is_empty() || self.has_failed {
            return self.sync(verifier);
        }
        self.device.fail(0, fault);
        self.has_failed = true;
        match self.log().sync() {
            Err(LogError::Device { .. }) => self.crash(verifier),
            _ => Err("a flush has failed and nobody is told".into()),
        }
    }

    /// The pool lets go of a volume, and somebody else writes one of its blocks.
    pub(super) fn forget(
        &mut self,
        (volume, block, seed): (u32, u64, u64),
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        self.end_turn();
        self.drain(verifier)?;
        if self.has_failed || self.log().write_back(volume).is_err() {
            return Ok(());
        }
        if seed.is_multiple_of(FORGOTTEN_UNSYNCED_ONE_IN) {
            // A power cut may bring it back, so nobody else writes it.
            return match self.log().forget_unsynced(volume, &[(0, BLOCKS as u64)]) {
                Ok(()) => self.crash(verifier),
                Err(LogError::NoRoom { .. }) => self.make_room(verifier),
                Err(error) => Err(error.to_string()),
            };
        }
        match self.log().stage_forget(volume, 0, BLOCKS as u64) {
            Ok(ticket) => self.note_join(ticket, &[]),
            Err(LogError::NoRoom { .. }) => return self.make_room(verifier),
            Err(error) => return Err(error.to_string()),
        }
        self.drain(verifier)?;
        self.others_write(volume, block, seed);
        Ok(())
    }
}
