//! A volume of one pool behind a volume of another: the slow store of the pool in front is what the pool behind makes durable.
//!
//! What holds:
//! 1. A run that [`BackingStore::write_runs`] reports as done is committed in the pool behind, so durable: `sync` has nothing to
//!    wait for, and the pool in front forgets nothing that is in one place alone.
//! 2. The pool behind is opened, and so recovered, before the one in front is attached, and closed after it.
//! 3. Nobody uses the volume behind beside the pool in front, which would go on with what it keeps: the mark of the pool in
//!    front stands at the backing (`marks/front.rs`), and the pool behind is not attached alone while it is open.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::backing::{
    Backing, BackingCounters, BackingIdentity, BackingStore, LiveCounters, MarkPlace, WriteRun,
    clipped_len,
};
use crate::error::{Error, ErrorKind, Result};
use crate::facade::pool::Pool;
use crate::facade::volume::Volume;
use crate::marks::Front;
use crate::mutants::{Mutant, mutated};

/// A disk of a pool behind another, attached there.
pub struct Behind {
    /// The volume in the pool behind. It is for its detach and for its counters: only the pool in front writes and reads it.
    pub volume: Volume,
    /// What the pool in front is attached to.
    pub backing: Backing,
}

struct Stacked {
    pool: Arc<Pool>,
    volume: Volume,
    /// What is behind both pools.
    last: Backing,
    counters: LiveCounters,
}

impl Pool {
    /// Attaches a backing to a pool that stands behind another. What the pool in front writes back is a commit of this one.
    ///
    /// # Errors
    /// As [`Pool::attach`]; [`ErrorKind::Options`]: the backing has no place for the mark of a pool in front.
    pub fn attach_behind(self: &Arc<Pool>, backing: Backing) -> Result<Behind> {
        match self.accepts_stale() {
            true => self.attach_behind_stale(backing),
            false => self.stack(backing, Pool::attach_with_front),
        }
    }

    /// As `attach_behind`, as [`Pool::attach_stale`] attaches. The pool in front has to be attached in this way, too: what it keeps
    /// clean may be what this one has lost, and is dropped.
    ///
    /// # Errors
    /// As [`Pool::attach_behind`].
    pub fn attach_behind_stale(self: &Arc<Pool>, backing: Backing) -> Result<Behind> {
        self.stack(backing, |pool, backing| {
            // First: a crash between the two leaves a pool in front that is refused, not one that goes on with what is nowhere else.
            let path = backing.identity().path;
            if let Some(place) = backing.front_mark_place().filter(|_| !pool.is_private()) {
                Front::read(&path, place)?.replace(pool.uuid(), pool.first_path())?;
            }
            pool.attach_stale_with_front(backing)
        })
    }

    fn stack(
        self: &Arc<Pool>,
        backing: Backing,
        attach: impl FnOnce(&Pool, Backing) -> Result<Volume>,
    ) -> Result<Behind> {
        if backing.front_mark_place().is_none() {
            return Err(ErrorKind::Options(format!(
                "{}: it keeps no mark of a pool in front, so that nobody would notice if that were left out; attach it to one pool",
                backing.identity().path.display()
            ))
            .into());
        }
        let volume = attach(self, backing.clone())?;
        let store = Stacked {
            pool: Arc::clone(self),
            volume: volume.clone(),
            last: backing,
            counters: LiveCounters::default(),
        };
        Ok(Behind {
            volume,
            backing: Backing::from_store(Arc::new(store)),
        })
    }
}

/// Runs that go in one transaction, by their places in the list; one that is larger than a transaction goes alone, in several.
fn batches(lens: &[usize], limit: usize) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut room = 0;
    for (place, len) in lens.iter().enumerate() {
        match batches.last_mut() {
            Some(batch) if *len <= room => {
                batch.end += 1;
                room -= len;
            }
            _ => {
                batches.push(place..place + 1);
                room = limit.saturating_sub(*len);
            }
        }
    }
    batches
}

impl Stacked {
    fn block_bytes(&self) -> u64 {
        self.volume.block_size() as u64
    }

    /// The part of a run that lies within the volume.
    fn clipped<'r>(&self, run: &WriteRun<'r>) -> &'r [u8] {
        &run.bytes[..clipped_len(self.size_bytes(), run.offset, run.bytes.len())]
    }

    fn commit(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        let mut transaction = self.volume.begin();
        let sent = match mutated(Mutant::StackedRunUnsent) && writes.len() > 1 {
            true => &writes[1..],
            false => writes,
        };
        // What lies past the end is no write.
        for (offset, bytes) in sent.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            transaction.write_at(*offset, bytes)?;
        }
        transaction.commit()
    }

    /// One run by itself, in as many transactions as it takes, each of whole blocks but at its ends.
    fn write_alone(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        // Where it begins within a block, that is one more.
        let limit = self.volume.transaction_limit_bytes() - self.block_bytes();
        let first = (limit - offset % self.block_bytes()).min(bytes.len() as u64) as usize;
        let (head, rest) = bytes.split_at(first);
        self.commit(&[(offset, head)])?;
        let mut at = offset + first as u64;
        for chunk in rest.chunks(limit as usize) {
            self.commit(&[(at, chunk)])?;
            at += chunk.len() as u64;
        }
        Ok(())
    }
}

/// The same as a disk would say it: what of the disk behind failed, or that there is no room.
fn io_error(error: &Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::Backing { source, .. } => source.kind(),
        ErrorKind::NoSpace { .. } => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error.to_string())
}

/// Whether it is about some blocks alone, so that others may still be written.
fn is_of_some_blocks(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Backing { .. } | ErrorKind::Corrupt { .. }
    )
}

impl BackingStore for Stacked {
    fn size_bytes(&self) -> u64 {
        self.volume.size_bytes()
    }

    fn refresh_size(&self) -> io::Result<u64> {
        let grown = self.pool.grow_volume(&self.volume);
        grown.map_err(|error| io_error(&error))
    }

    fn identity(&self) -> BackingIdentity {
        BackingIdentity {
            size_bytes: self.size_bytes(),
            ..self.last.identity()
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inside = clipped_len(self.size_bytes(), offset, out.len());
        self.counters.count_read(inside);
        let (head, past_end) = out.split_at_mut(inside);
        past_end.fill(0);
        if head.is_empty() {
            return Ok(());
        }
        let read = self.volume.read_at(offset, head);
        read.map_err(|error| io_error(&error))
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        let writes: Vec<(u64, &[u8])> = runs
            .iter()
            .map(|run| (run.offset, self.clipped(run)))
            .collect();
        // Each may begin and end within a block, and one block is for both.
        let blocks = |(offset, bytes): &(u64, &[u8])| {
            let (first, end) = (offset / self.block_bytes(), offset + bytes.len() as u64);
            ((end.div_ceil(self.block_bytes()) - first) * self.block_bytes()) as usize
        };
        let lens: Vec<usize> = writes.iter().map(blocks).collect();
        for (offset, bytes) in &writes {
            self.counters.count_write(*offset, bytes.len());
        }
        let limit = self.volume.transaction_limit_bytes() as usize;
        let mut results: Vec<io::Result<()>> = Vec::with_capacity(runs.len());
        // What is no run's own, like a full pool that was waited for: none of the others is tried.
        let mut failed: Option<Error> = None;
        for batch in batches(&lens, limit) {
            let of_batch = &writes[batch];
            if of_batch.len() > 1 && failed.is_none() {
                match self.commit(of_batch) {
                    Ok(()) => {
                        results.extend(of_batch.iter().map(|_| Ok(())));
                        continue;
                    }
                    Err(error) if is_of_some_blocks(&error) => {}
                    Err(error) => failed = Some(error),
                }
            }
            for (offset, bytes) in of_batch {
                let written = match &failed {
                    Some(error) => Err(io_error(error)),
                    None => self.write_alone(*offset, bytes).map_err(|error| {
                        let told = io_error(&error);
                        failed = Some(error).filter(|error| !is_of_some_blocks(error));
                        told
                    }),
                };
                results.push(written);
            }
        }
        results
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.counters.count_zeroing();
        let block = self.block_bytes();
        let size = self.size_bytes();
        let end = offset.saturating_add(len_bytes).min(size);
        if offset >= end {
            return Ok(());
        }
        let zero = |range: Range<u64>| {
            let zeroes = vec![0; (range.end.saturating_sub(range.start)) as usize];
            match zeroes.is_empty() {
                true => Ok(()),
                false => self.write_alone(range.start, &zeroes),
            }
        };
        // Whole blocks alone: beyond an end within a block there may be something of the disk, as soon as that grows.
        let whole = offset.div_ceil(block)..end / block;
        let zeroed = if whole.is_empty() {
            zero(offset..end)
        } else {
            let discarded = || match mutated(Mutant::StackedZeroDropped) {
                true => Ok(()),
                false => self.volume.discard(whole.clone()),
            };
            zero(offset..whole.start * block)
                .and_then(|()| discarded())
                .and_then(|()| zero(whole.end * block..end))
        };
        zeroed.map_err(|error| io_error(&error))
    }

    fn sync(&self) -> io::Result<()> {
        self.counters.count_sync();
        // Everything that was reported as done is committed; that is worth something while the pool behind takes writes.
        let durable = self.volume.check_durable();
        durable.map_err(|error| io_error(&error))
    }

    fn counters(&self) -> BackingCounters {
        self.counters.read()
    }

    fn transport(&self) -> String {
        let members = self.pool.members();
        let path = members.first().and_then(|member| member.path.as_deref());
        let path = path.map_or_else(String::new, |path| format!(" {}", path.display()));
        format!("the pool{path}, {}", self.last.transport())
    }

    fn mark_place(&self) -> Option<&dyn MarkPlace> {
        self.last.front_mark_place()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_share_a_transaction_as_far_as_it_reaches() {
        assert_eq!(batches(&[], 8), []);
        assert_eq!(batches(&[4, 4, 1], 8), [0..2, 2..3]);
        assert_eq!(batches(&[20, 4], 8), [0..1, 1..2]);
        assert_eq!(batches(&[4, 20, 4, 4], 8), [0..1, 1..2, 2..4]);
    }
}
