//! Passes: take, copy, look again, stream, fence, sums, fence.

use super::config::{ALL_MAX, Config};
use super::media::{Layout, Sum};
use super::rules::{Mutant, Rules};
use super::truth;
use super::world::{Job, KEEPER, Kind, Pass, PassStep, World};
use crate::memory::Word;
use crate::world::Violation;

/// The pages that a pass would take now.
pub fn found(world: &World, config: &Config) -> u8 {
    if config.is_foreign {
        // Compare: what does not match its sum is a store.
        let differ = (0..config.all()).filter(|page| !world.matches(config, *page));
        return differ.fold(world.carried, |bits, page| bits | 1 << page);
    }
    world.written | world.carried
}

/// Takes the written pages, which are protected again.
pub fn start(world: &mut World, config: &Config, rules: Rules, kind: Kind) {
    let taken = found(world, config);
    let rows = (0..config.pages)
        .filter(|&row| kind == Kind::Last || config.row_bits(row) & taken != 0)
        .fold(0, |bits, row| bits | 1 << row);
    let mut asked = [0; ALL_MAX];
    for (page, asked) in asked.iter_mut().enumerate().take(config.all()) {
        *asked = truth::last(world, page);
    }
    world.written = 0;
    world.carried = 0;
    world.is_held = match kind {
        Kind::Timed => false,
        Kind::Sync => !rules.breaks(Mutant::SyncLeavesRows),
        // Nobody has the region mapped.
        Kind::Last => {
            !rules.breaks(Mutant::SealedWhileMapped) && !rules.breaks(Mutant::SealedWithoutLease)
        }
    };
    world.job = Job::Pass(Pass {
        kind,
        step: PassStep::Copy,
        taken,
        summed: taken,
        rows,
        copied: 0,
        copies: [0; ALL_MAX],
        asked,
    });
    world.pass += 1;
}

/// The next page to copy.
fn next_copy(config: &Config, pass: &Pass) -> Option<usize> {
    (0..config.all())
        .find(|&page| pass.rows & (1 << config.row(page)) != 0 && pass.copied & (1 << page) == 0)
}

/// Takes the next step of a pass.
///
/// # Errors
/// What is wrong then.
pub fn step(
    world: &mut World,
    config: &Config,
    rules: Rules,
    mut pass: Pass,
) -> Result<(), Violation> {
    match pass.step {
        PassStep::Copy => {
            if let Some(page) = next_copy(config, &pass) {
                pass.copies[page] = world.page(config, page);
                pass.copied |= 1 << page;
            }
            if next_copy(config, &pass).is_none() {
                pass.step = PassStep::Rescan;
            }
        }
        PassStep::Rescan => {
            rescan(world, config, rules, &mut pass)?;
            pass.step = PassStep::Stream;
        }
        PassStep::Stream => {
            stream(world, config, rules, &pass);
            pass.step = if rules.is_first_fence_left_out {
                PassStep::Sums
            } else {
                PassStep::Fence
            };
        }
        PassStep::Fence => {
            // Orders pages and parity before the sums that vouch for them.
            world.fence();
            pass.step = PassStep::Sums;
        }
        PassStep::Sums => {
            if rules.breaks(Mutant::SumsBeforeParity) {
                stream_parity(world, config, &pass);
                return end(world, config, rules, &pass);
            }
            stream_sums(world, config, &pass);
            if rules.breaks(Mutant::LastFenceMissing) {
                return end(world, config, rules, &pass);
            }
            pass.step = PassStep::LastFence;
        }
        PassStep::LastFence => {
            // Orders the sums before anybody counts the pages as protected.
            world.fence();
            return end(world, config, rules, &pass);
        }
    }
    world.job = Job::Pass(pass);
    Ok(())
}

/// Rows that were written since they were taken leave, and so do those with a mate that is not what its sum says.
fn rescan(
    world: &mut World,
    config: &Config,
    rules: Rules,
    pass: &mut Pass,
) -> Result<(), Violation> {
    let again = written_again(world, config, rules, pass);
    if rules.breaks(Mutant::RescanProtects) {
        world.written &= !again;
    }
    for row in rows(config, pass) {
        let bits = config.row_bits(row);
        let leaves = bits & again != 0 || has_wrong_mate(world, config, rules, pass, row)?;
        if leaves {
            pass.rows &= !(1 << row);
            if !rules.breaks(Mutant::LeftRowForgotten) {
                world.carried |= pass.taken & bits;
            }
        }
    }
    Ok(())
}

/// Whether a mate that nobody wrote is not what its sum says. Its row has a written page, so that the parity cannot tell
/// what it was: it is reported. A keeper cannot know that nobody wrote it, and leaves it to the next pass.
fn has_wrong_mate(
    world: &mut World,
    config: &Config,
    rules: Rules,
    pass: &mut Pass,
    row: usize,
) -> Result<bool, Violation> {
    for page in config.mates(row) {
        let is_taken = pass.taken & (1 << page) != 0;
        let sum = world.sum(config, page).map(|sum| sum.content);
        if is_taken || sum == Some(pass.copies[page]) {
            continue;
        }
        if rules.breaks(Mutant::MatesTakenAsTheyAre) {
            pass.summed |= 1 << page;
            continue;
        }
        if !config.is_foreign {
            truth::tell_damaged(world, config, page)?;
        }
        return Ok(true);
    }
    Ok(false)
}

fn written_again(world: &World, config: &Config, rules: Rules, pass: &Pass) -> u8 {
    if rules.breaks(Mutant::RescanSkipped) {
        return 0;
    }
    if !config.is_foreign {
        return world.written;
    }
    let copied = (0..config.all()).filter(|page| pass.copied & (1 << page) != 0);
    let differ = copied.filter(|page| world.page(config, *page) != pass.copies[*page]);
    differ.fold(0, |bits, page| bits | 1 << page)
}

fn rows<'c>(config: &'c Config, pass: &Pass) -> impl Iterator<Item = usize> + use<'c> {
    let rows = pass.rows;
    (0..config.pages).filter(move |row| rows & (1 << row) != 0)
}

fn stream(world: &mut World, config: &Config, rules: Rules, pass: &Pass) {
    let layout = Layout::new(config);
    if !rules.breaks(Mutant::PagesNotFlushed) {
        for page in rows(config, pass).flat_map(|row| config.mates(row)) {
            world.devices[layout.extent(page)].flush(KEEPER, layout.page(page));
        }
    }
    if rules.breaks(Mutant::SumsBeforeParity) {
        stream_sums(world, config, pass);
    } else {
        stream_parity(world, config, pass);
    }
}

fn stream_parity(world: &mut World, config: &Config, pass: &Pass) {
    let layout = Layout::new(config);
    for row in rows(config, pass) {
        let xor = config
            .mates(row)
            .fold(0, |xor, page| xor ^ pass.copies[page]);
        world.devices[config.width].stream(KEEPER, layout.page(row), Word::from(xor));
    }
}

fn stream_sums(world: &mut World, config: &Config, pass: &Pass) {
    for page in rows(config, pass).flat_map(|row| config.mates(row)) {
        if pass.summed & (1 << page) == 0 {
            continue;
        }
        truth::excuse_flip(world, config, pass, page);
        let before = world.sum(config, page);
        let sum = Sum {
            content: pass.copies[page],
            pass: world.pass,
            // A store verifies no more than its own bytes.
            is_unverified: before.is_some_and(|sum| sum.is_unverified),
            is_lost: before.is_some_and(|sum| sum.is_lost),
        };
        world.stream_sum(config, page, sum);
    }
}

fn end(world: &mut World, config: &Config, rules: Rules, pass: &Pass) -> Result<(), Violation> {
    world.is_held = false;
    world.job = Job::Idle;
    for row in rows(config, pass) {
        truth::cover(world, config, row, pass)?;
    }
    match pass.kind {
        Kind::Timed => {}
        Kind::Sync => truth::synced(world, config, pass)?,
        Kind::Last if world.damaged != 0 => {
            // Close says which pages; the region stays open.
            world.is_mapped |= !config.is_foreign;
        }
        Kind::Last => {
            world.is_held = !rules.breaks(Mutant::SealedWhileMapped)
                && !rules.breaks(Mutant::SealedWithoutLease);
            let first = u8::from(rules.breaks(Mutant::SealedUnverified));
            world.job = Job::Seal(first);
        }
    }
    Ok(())
}
