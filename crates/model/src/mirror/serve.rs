//! What users read, and what must hold while they do.

use super::config::{Config, KEYS};
use super::media::Layout;
use super::world::{Change, World};
use crate::world::Violation;

/// Reads a key: the first half that is good, the backing where the block is clean.
///
/// # Errors
/// A dirty block has no good half.
pub fn read(world: &World, config: &Config, key: u8) -> Result<u8, Violation> {
    let Some(mapped) = world.map[key as usize] else {
        return Ok(world.backing[key as usize]);
    };
    let entry = mapped.entry;
    let unit = Layout::new(config).half(entry.pair());
    let is_good = |member: usize| world.members[member].view(unit) == u64::from(entry.value);
    if World::each(mapped.halves & world.up).any(is_good) {
        return Ok(entry.value);
    }
    if entry.clean {
        return Ok(world.backing[key as usize]);
    }
    Err(Violation(format!("key {key}: no half of it is good")))
}

/// Every key that no thread is changing reads as promised; and, where no store was lost, every dirty block is on every member
/// that counts (I11).
///
/// # Errors
/// It does not.
pub fn check(world: &World, config: &Config) -> Result<(), Violation> {
    let is_settled = world.change == Change::None && !world.has_silent_member();
    for key in (0..KEYS).filter(|key| world.locked[*key] == 0) {
        let (seen, promised) = (read(world, config, key as u8)?, world.promised[key]);
        if seen != promised {
            return Err(Violation(format!(
                "key {key} reads {seen}, promised was {promised}"
            )));
        }
        let Some(mapped) = world.map[key].filter(|mapped| !mapped.entry.clean) else {
            continue;
        };
        let unit = Layout::new(config).half(mapped.entry.pair());
        let is_good = |member: usize| {
            mapped.halves & 1 << member != 0
                && world.members[member].view(unit) == u64::from(mapped.entry.value)
        };
        if config.losses == 0 && is_settled && !World::each(world.roster.members).all(is_good) {
            return Err(Violation(format!("I11: key {key} is not on every member")));
        }
    }
    Ok(())
}

/// A transaction caught before its fence is there whole or not at all; which of the two holds from now on.
///
/// # Errors
/// It is there by half.
pub fn resolve_doubts(world: &mut World, config: &Config) -> Result<(), Violation> {
    for doubt in std::mem::take(&mut world.doubts) {
        let mut reads = Vec::new();
        for (key, _) in &doubt {
            reads.push(read(world, config, *key)?);
        }
        let pairs = || doubt.iter().zip(&reads);
        let is_new = pairs().all(|((_, value), seen)| value == seen);
        let is_old = pairs().all(|((key, _), seen)| world.promised[*key as usize] == *seen);
        if !is_new && !is_old {
            return Err(Violation(format!(
                "transaction {doubt:?} is there by half: {reads:?}"
            )));
        }
        for (key, value) in doubt.iter().filter(|_| is_new) {
            world.promised[*key as usize] = *value;
        }
    }
    Ok(())
}
