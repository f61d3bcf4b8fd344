//! Syncs: what was only written becomes durable, by one flush of the device.

use super::core::Log;
use super::publish::tell_all;
use crate::error::Result;
use crate::mutants::{Mutant, mutated};
use std::sync::PoisonError;

impl Log {
    /// Makes durable whatever [`Log::commit_unsynced`] returned for before this was called. Where all of it is already, no flush is
    /// made; callers that come while one is under way share the next.
    ///
    /// # Errors
    /// The flush failed, now or earlier, or another write did. Nothing is committed any more then, and every later sync fails as well:
    /// what was not durable may be gone after a power cut.
    pub fn sync(&self) -> Result<()> {
        let Some(wanted) = self.unsettled()? else {
            return Ok(());
        };
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let flushed = {
            let state = self.lock();
            if let Some(why) = &state.poisoned {
                return Err(self.poisoned(why));
            }
            // The flush of another thread began after what is wanted was written.
            if state.settled.below() >= wanted {
                return Ok(());
            }
            state.settled.begin_flush()
        };
        let done = match mutated(Mutant::SsdSyncWithoutFlush) {
            true => Ok(()),
            // It orders what is published before what its callers do next.
            false => self.device.flush(),
        };
        let mut state = self.lock();
        match done {
            Ok(()) => {
                state.settled.settle(flushed);
                Ok(())
            }
            Err(error) => {
                let told = state.poison(&error.to_string());
                tell_all(state, told);
                Err(self.failed("flush it")(error))
            }
        }
    }

    /// Whether everything that readers see is durable.
    pub fn is_synced(&self) -> bool {
        self.lock().settled.is_all()
    }

    /// Whether readers see what is not durable, and a sync could make it so.
    pub fn has_unsynced(&self) -> bool {
        matches!(self.unsettled(), Ok(Some(_)))
    }

    /// Groups below are to be durable; none if they are.
    fn unsettled(&self) -> Result<Option<u64>> {
        let state = self.lock();
        if let Some(why) = &state.poisoned {
            return Err(self.poisoned(why));
        }
        let wanted = state.settled.begin_flush().below();
        Ok((!state.settled.is_all()).then_some(wanted))
    }
}
