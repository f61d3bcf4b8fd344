//! Folding: blocks with patches are written whole, those first that were not patched for the longest time, before so many are patched
//! that no more may be.
//!
//! A fold moves blocks that nobody writes, so the thread that folds has the turn until it is published: a round, or a detach, finds them
//! where it looked at them. It waits for no turn: if another thread maintains the log, nothing is folded this time.

use super::core::{Log, State};
use super::join::{Class, Ready};
use super::waiter::Ticket;
use crate::error::{LogError, Result};
use crate::media::{Element, Key, Shape, check_of};
use crate::page::{PAGE_BYTES, Pages};
use crate::state::Held;
use crate::transaction::Transaction;
use std::sync::Arc;

/// Blocks that are folded at once.
const FOLDED_AT_ONCE: usize = 64;

/// Blocks that are about to be folded, with their checks and bytes as they were read.
#[derive(Default)]
pub struct Fold(Vec<(Held, u32, Pages)>);

impl State {
    /// Whether three quarters of the patches that may be are there.
    fn wants_fold(&self) -> bool {
        let count = self.patches.count() + self.pending.patches();
        count > 0 && 4 * count >= 3 * self.patches.max()
    }

    /// The quarter of the patched blocks that was not patched for the longest time, and of which nothing is staged.
    fn to_be_folded(&self) -> Vec<Held> {
        let most = self.patches.blocks().div_ceil(4).min(FOLDED_AT_ONCE);
        let is_idle = |key: &Key| !self.pending.has_any(*key, 1);
        let idle = self.patches.oldest(most).into_iter().filter(is_idle);
        let entries = idle.filter_map(|key| self.table.get(key));
        entries.map(|entry| self.held_now(entry)).collect()
    }
}

impl Log {
    /// Reads some blocks whose patches take the room of newer ones, if they are about to, and if there is room for the blocks.
    pub fn load_fold(&self) -> Fold {
        let folded = {
            let state = self.lock();
            match state.wants_fold() && state.leaves_enough(self.geometry, Class::User) {
                true => state.to_be_folded(),
                false => return Fold::default(),
            }
        };
        let most = self.geometry.carried_at_once();
        let mut loaded = Vec::new();
        for held in folded.into_iter().take(most) {
            let mut bytes = Pages::of_any_bytes(1);
            // What cannot be read stays as it is, and its readers are told.
            if self.load_held(&held, &mut bytes).is_ok() {
                let check = check_of(held.entry.key(), &bytes[..PAGE_BYTES]);
                loaded.push((held, check, bytes));
            }
        }
        Fold(loaded)
    }

    /// The same ahead of a transaction that may bring more patches, by one thread at a time.
    pub(super) fn load_fold_for(&self, transaction: &Transaction) -> Fold {
        match self.has_inline && transaction.may_be_small() {
            true => self
                .try_maintain()
                .map_or_else(Fold::default, |_turn| self.load_fold()),
            false => Fold::default(),
        }
    }

    /// Writes those of the blocks whole that are still as they were read; none if there is none, or if they find no room. Reads nothing.
    ///
    /// # Errors
    /// The pool is poisoned.
    pub fn join_fold(&self, fold: Fold, is_unsynced: bool) -> Result<Option<Ticket>> {
        let (mut elements, mut pages) = (Vec::new(), Pages::default());
        let mut state = self.lock();
        for (held, check, bytes) in fold.0 {
            let key = held.entry.key();
            let now = state.still(&held);
            let Some(now) = now.filter(|_| !state.pending.has_any(key, 1)) else {
                continue;
            };
            pages.push_page(&bytes);
            elements.push(Element {
                key,
                shape: Shape::Block { page: 0, check },
                is_clean: now.is_clean(),
            });
        }
        if elements.is_empty() {
            return Ok(None);
        }
        let ready = Ready {
            elements,
            pages: Arc::new(pages),
            inline: Vec::new(),
            is_fill: false,
            is_unsynced,
        };
        match self.join(&mut state, ready, Class::User) {
            Err(LogError::NoRoom { .. }) => Ok(None),
            joined => joined.map(Some),
        }
    }
}

impl Fold {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
