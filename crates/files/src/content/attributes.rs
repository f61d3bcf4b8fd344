//! Attributes that writes take away: a capability, set-id bits.

use std::io;

use super::Content;
use crate::metadata::Durable;
use crate::mutants::{Mutant, mutated};

impl Content {
    /// Has `change` give the file such an attribute when the backing has all that was written before, in the pool or not:
    /// what would be written there later, or absorbed by a sync and then written, would take it.
    pub(crate) fn without_writes(
        &self,
        change: impl FnOnce() -> io::Result<bool>,
    ) -> io::Result<bool> {
        let mut state = self.write_state();
        if !mutated(Mutant::FilesCapabilityBeforeData) {
            self.drain_locked(&mut state)?;
            self.leave_pool(&mut state, Durable::AtOnce)?;
        }
        change()
    }
}
