//! Recovery (§4.5): revokes the transaction that a crash cut off, then makes the state in DRAM.
//!
//! An entry is revoked by giving it its previous slot as the current one, or by freeing it where that
//! is FRESH. Its previous slot stays what it is, so that a second revocation, after a crash within
//! recovery, changes nothing. When all are durable, Tail := Head: the paper does not say what becomes
//! of the pointers, and without it the next crash would revoke the same blocks again.
//!
//! What recovery decides rests on durable bytes only: it makes all that it reads durable first.

use std::collections::HashMap;

use forebay::{Error, Result};

use super::Protocol;
use super::layout::{Entry, POSITION_MAX};
use super::media::Media;
use super::state::State;
use crate::shared::{check_medium, refused};

/// Brings the media to the last committed transaction and returns what it then holds.
///
/// # Errors
/// `Refused` where the media holds numbers that no state of a cache does; nothing was changed then.
pub(super) fn recover(media: &Media) -> Result<State> {
    media.settle()?;
    let geometry = media.geometry;
    let (head, tail) = (media.head(), media.tail());
    let in_ring = head.checked_sub(tail);
    let is_sound = in_ring.is_some_and(|blocks| blocks <= geometry.ring_elements);
    if !is_sound || head > POSITION_MAX {
        let found = format!("Head is {head} and Tail {tail}");
        return Err(damaged(media, &found));
    }
    let mut entries: Vec<Option<Entry>> = (0..geometry.slots).map(|i| media.entry(i)).collect();
    let by_block = index_of(media, &entries)?;
    let uncommitted = uncommitted(media, &entries, &by_block, tail..head)?;
    let mut revoked = entries.clone();
    for &index in &uncommitted {
        let entry = &mut revoked[index as usize];
        *entry = entry.and_then(|entry| revocation(&entry));
    }
    let free_slots = unused_slots(media, &revoked)?;
    check_medium(&media.region)?;
    // Nothing has been stored up to here.
    for index in uncommitted {
        revoke(media, index, &mut entries)?;
    }
    if tail != head {
        // The revocations are durable.
        media.move_tail(head)?;
    }
    let mut state = State::empty(geometry.slots, head);
    state.free_slots = free_slots.into();
    state
        .free_entries
        .retain(|&index| entries[index as usize].is_none());
    for (entry, index) in entries.into_iter().zip(0..) {
        if let Some(entry) = entry {
            state.put(index, entry);
        }
    }
    Ok(state)
}

/// The entries by the disk blocks that they say they hold, all their numbers in range.
fn index_of(media: &Media, entries: &[Option<Entry>]) -> Result<HashMap<u64, u32>> {
    let geometry = media.geometry;
    let mut by_block = HashMap::new();
    for (entry, index) in entries.iter().zip(0u32..) {
        let Some(entry) = entry else { continue };
        let is_in_range = entry.disk_block < geometry.disk_blocks
            && entry.current < geometry.slots
            && entry.previous.is_none_or(|slot| slot < geometry.slots);
        if !is_in_range {
            return Err(damaged(media, &format!("entry {index} is {entry:?}")));
        }
        if let Some(other) = by_block.insert(entry.disk_block, index) {
            let found = format!(
                "entries {other} and {index} both hold block {}",
                entry.disk_block
            );
            return Err(damaged(media, &found));
        }
    }
    Ok(by_block)
}

/// The entries of the transaction that was under commit.
fn uncommitted(
    media: &Media,
    entries: &[Option<Entry>],
    by_block: &HashMap<u64, u32>,
    in_ring: std::ops::Range<u64>,
) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for position in in_ring.start..in_ring.end {
        let disk_block = media.element(position);
        if disk_block >= media.geometry.disk_blocks {
            let found = format!("the ring's position {position} says block {disk_block}");
            return Err(damaged(media, &found));
        }
        // It has no entry if an earlier recovery has revoked it already.
        found.extend(by_block.get(&disk_block));
    }
    // **Differs from the paper** (docs/inside/papers.md, Tinca, finding 1): it looks for log blocks only where
    // Head = Tail. The block after the last one that Head counts may be a log block too.
    if media.protocol == Protocol::Hardened || in_ring.is_empty() {
        let is_log = |entry: &Option<Entry>| entry.is_some_and(|entry| entry.is_log);
        let logs = entries.iter().zip(0..).filter(|(entry, _)| is_log(entry));
        found.extend(logs.map(|(_, index)| index));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// What an entry says when its newest version is revoked; none if the block was not cached before.
fn revocation(entry: &Entry) -> Option<Entry> {
    entry.previous.map(|previous| Entry {
        is_log: false,
        current: previous,
        ..*entry
    })
}

fn revoke(media: &Media, index: u32, entries: &mut [Option<Entry>]) -> Result<()> {
    let entry = entries[index as usize].expect("only entries in use are revoked");
    let after = revocation(&entry);
    match &after {
        // An earlier recovery has done it.
        Some(revoked) if *revoked == entry => {}
        Some(revoked) => media.write_entry(index, revoked)?,
        None => media.delete_entry(index, &entry)?,
    }
    entries[index as usize] = after;
    Ok(())
}

/// The slots that no entry names.
fn unused_slots(media: &Media, entries: &[Option<Entry>]) -> Result<Vec<u32>> {
    let mut is_used = vec![false; media.geometry.slots as usize];
    for entry in entries.iter().flatten() {
        if std::mem::replace(&mut is_used[entry.current as usize], true) {
            return Err(damaged(
                media,
                &format!("two entries name slot {}", entry.current),
            ));
        }
    }
    let slots = is_used.into_iter().zip(0..);
    Ok(slots
        .filter(|(is_used, _)| !is_used)
        .map(|(_, slot)| slot)
        .collect())
}

fn damaged(media: &Media, found: &str) -> Error {
    let found = format!("a damaged Tinca cache: {found}");
    let todo = "restore it from a copy, or make a new cache and lose what the disk does not have";
    refused(&media.region, found, todo)
}
