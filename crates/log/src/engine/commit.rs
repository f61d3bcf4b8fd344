//! Committing: a thread joins a group, then leads or waits.
//!
//! The thread that finds none leading leads. It waits a moment until as many have joined as the last group had, writes the
//! group itself, publishes it, wakes its members, and hands the lead to one member of the next group.

use super::core::{Log, State};
use super::join::{Base, Class, Joined, Ready};
use super::waiter::{Outcome, Ticket};
use crate::error::{LogError, Result};
use crate::media::{Element, Key, Shape, check_of};
use crate::page::{PAGE_BYTES, Pages};
use crate::transaction::{Item, Transaction};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A leader waits no longer than this for company.
const COMPANY_WAIT_MAX: Duration = Duration::from_micros(60);

impl State {
    /// Refuses if any of these blocks is dirty, staged or to be zeroed.
    pub(crate) fn check_clean(&self, first: Key, count: u64) -> Result<()> {
        let entries = self.table.in_range(first, count);
        let is_dirty = entries.iter().any(|entry| !entry.is_clean())
            || self.pending.has_any(first, count)
            || self.zeroed.overlaps(first, count);
        match is_dirty {
            true => Err(not_on_backing(first)),
            false => Ok(()),
        }
    }
}

fn not_on_backing(first: Key) -> LogError {
    LogError::Transaction(format!(
        "blocks of volume {} from {} on are not on their backing yet; write them back first",
        first.volume, first.block
    ))
}

impl Log {
    /// Commits a transaction: when it returns, all of it is durable and every reader sees it.
    ///
    /// # Errors
    /// [`LogError::NoRoom`] if the oldest segments have to be recycled first; then nothing has happened. A write has
    /// failed, now or earlier; then after a crash the transaction is there whole or not at all.
    pub fn commit(&self, transaction: Transaction) -> Result<()> {
        self.commit_as(transaction, false)
    }

    /// What is to be folded is read before the transaction joins, and joins behind it: the lead of a group goes to its first member, so a
    /// thread that has joined reads nothing, from no device and no backing, before it waits.
    fn commit_as(&self, mut transaction: Transaction, is_unsynced: bool) -> Result<()> {
        let fold = self.load_fold_for(&transaction);
        transaction.is_unsynced = is_unsynced;
        let ticket = self.stage(transaction)?;
        let turn = match fold.is_empty() {
            true => None,
            false => self.try_maintain(),
        };
        let folded = match turn {
            Some(_) => self.join_fold(fold, is_unsynced),
            None => Ok(None),
        };
        let waited = self.wait(&ticket);
        // Usually in the same group, and so over by now. The turn ends behind it.
        let folded = folded.and_then(|folded| folded.map_or(Ok(()), |folded| self.wait(&folded)));
        drop(turn);
        waited.and(folded)
    }

    /// Commits a transaction without making it durable: when it returns, every reader sees it, and a kill of the process leaves it. A
    /// [`Log::sync`] that begins later makes it durable, as does any later commit that is. After a power cut before that, it is there
    /// only if all that were committed before it are.
    ///
    /// # Errors
    /// As those of [`Log::commit`].
    pub fn commit_unsynced(&self, transaction: Transaction) -> Result<()> {
        self.commit_as(transaction, true)
    }

    /// As [`Log::stage`], of a transaction that is over when it is written.
    ///
    /// # Errors
    /// As those of [`Log::stage`].
    pub fn stage_unsynced(&self, mut transaction: Transaction) -> Result<Ticket> {
        transaction.is_unsynced = true;
        self.stage(transaction)
    }

    /// Joins a transaction to a group without waiting for it.
    ///
    /// # Errors
    /// As those of [`Log::commit`], but for a write that fails now.
    pub fn stage(&self, mut transaction: Transaction) -> Result<Ticket> {
        self.check_size(&transaction)?;
        if let Some(ticket) = self.join_small(&transaction)? {
            return Ok(ticket);
        }
        transaction.check_whole_blocks();
        loop {
            let bases = self.bases(&transaction)?;
            match self.join_transaction(&mut transaction, &bases)? {
                Joined::Ticket(ticket) => return Ok(ticket),
                // Another thread has changed the block since.
                Joined::Stale => self.write_one_or_yield()?,
            }
        }
    }

    /// What is staged has to be published before a base can be read: writes a group if no thread does.
    pub(crate) fn write_one_or_yield(&self) -> Result<()> {
        match self.take_lead() {
            true => self.lead(),
            false => {
                thread::yield_now();
                Ok(())
            }
        }
    }

    /// What the partial blocks of a transaction are merged with.
    fn bases(&self, transaction: &Transaction) -> Result<Vec<Base>> {
        let keys = transaction.items.iter().filter_map(|item| match item {
            Item::Block {
                key,
                written: Some(_),
                ..
            } => Some(*key),
            _ => None,
        });
        keys.map(|key| self.base(key)).collect()
    }

    fn base(&self, key: Key) -> Result<Base> {
        let mut bytes = Pages::zeroed(1);
        loop {
            let reading = self.begin_read(key.volume, key.block);
            if self.finish_read(&reading, &mut bytes)?.is_some() {
                // Whether it is still so is asked again under the lock.
                return Ok(Base {
                    key,
                    version: reading.version,
                    bytes,
                });
            }
        }
    }

    /// Waits until a transaction that has joined is durable, or written if it asked for no more, and leads if no other thread does.
    ///
    /// # Errors
    /// A write has failed.
    pub fn wait(&self, ticket: &Ticket) -> Result<()> {
        loop {
            match ticket.outcome() {
                Some(Outcome::Durable | Outcome::Written) => return Ok(()),
                Some(Outcome::Failed) => {
                    let why = self.lock().poisoned.clone();
                    return Err(self.poisoned(&why.unwrap_or_default()));
                }
                None => {}
            }
            match self.take_lead() {
                // What went wrong its members are told, this thread among them.
                true => drop(self.lead()),
                // Woken by the leader of its own group, or to lead the next.
                false => thread::park(),
            }
        }
    }

    /// Takes the lead, if no thread has it and there is a group to be written.
    fn take_lead(&self) -> bool {
        let mut state = self.lock();
        let is_free = !state.is_led && !state.queue.is_empty();
        state.is_led |= is_free;
        is_free
    }

    fn lead(&self) -> Result<()> {
        self.gather();
        let result = match self.take_group() {
            Some(flight) => self.write_group(&flight),
            None => Ok(()),
        };
        let mut state = self.lock();
        state.is_led = false;
        let next = state.queue.front().and_then(|group| group.members.first());
        let next = next.map(|member| member.waiter.clone());
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
        result
    }

    /// Waits until as many have joined as the last group had, for a quarter of its write at most. One caller alone
    /// never waits.
    fn gather(&self) {
        let (wanted, wait_max) = {
            let mut state = self.lock();
            let wanted = state.last_company;
            if !self.options.gathers || state.has_company(wanted) {
                return;
            }
            state.tallies.waits += 1;
            (wanted, COMPANY_WAIT_MAX.min(state.last_write / 4))
        };
        let start = Instant::now();
        while start.elapsed() < wait_max {
            // Those that it waits for may need this processor.
            thread::yield_now();
            if self.lock().has_company(wanted) {
                return;
            }
        }
    }

    /// Keeps what was read from the backing, clean, if the block has not changed since `version` was its.
    ///
    /// # Errors
    /// As those of [`Log::commit`].
    ///
    /// # Panics
    /// `bytes` are not those of a block.
    pub fn stage_fill(
        &self,
        volume: u32,
        block: u64,
        bytes: &[u8],
        version: u32,
    ) -> Result<Option<Ticket>> {
        assert_eq!(bytes.len(), PAGE_BYTES, "a whole block");
        let key = Key { volume, block };
        let mut pages = Pages::zeroed(0);
        pages.push_page(bytes);
        let check = check_of(key, bytes);
        let mut state = self.lock();
        let is_new = state.versions.of(key) == version
            && !state.pending.has_any(key, 1)
            && state.table.get(key).is_none()
            && state.zeroed.get(key).is_none();
        if !is_new {
            return Ok(None);
        }
        let element = Element {
            key,
            shape: Shape::Block { page: 0, check },
            is_clean: true,
        };
        let ready = Ready {
            elements: vec![element],
            pages: Arc::new(pages),
            inline: Vec::new(),
            is_fill: true,
            is_unsynced: false,
        };
        self.join(&mut state, ready, Class::User).map(Some)
    }

    /// Lets go of blocks, which are as their backing has them from then on. None of them may be dirty or staged.
    ///
    /// # Errors
    /// One is; or as those of [`Log::commit`].
    pub fn stage_forget(&self, volume: u32, first: u64, count: u64) -> Result<Ticket> {
        let mut checked = Transaction::new();
        checked.zero(volume, first, count)?;
        let first = Key {
            volume,
            block: first,
        };
        let mut state = self.lock();
        state.check_clean(first, count)?;
        if count == 0 {
            return Err(not_on_backing(first));
        }
        let element = Element {
            key: first,
            shape: Shape::Gone { count },
            is_clean: true,
        };
        let ready = Ready {
            elements: vec![element],
            pages: Arc::new(Pages::zeroed(0)),
            inline: Vec::new(),
            is_fill: false,
            is_unsynced: false,
        };
        self.join(&mut state, ready, Class::Usual)
    }
}
