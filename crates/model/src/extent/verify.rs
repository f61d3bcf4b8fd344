//! Verify of a row, repair with the writers held, and the seal, which reads everything back.

use super::config::Config;
use super::media::{Layout, State};
use super::rules::{Mutant, Rules};
use super::truth;
use super::world::{Fix, Job, KEEPER, World};
use crate::memory::Word;
use crate::world::Violation;

/// What is wrong in a row that nobody wrote since its last pass, if it can be put right.
fn judge(world: &mut World, config: &Config, row: usize) -> Result<Option<Fix>, Violation> {
    let bits = config.row_bits(row);
    if (world.written | world.carried | world.damaged) & bits != 0 {
        return Ok(None);
    }
    let wrong: Vec<usize> = config
        .mates(row)
        .filter(|page| !world.matches(config, *page))
        .collect();
    match wrong[..] {
        [] => Ok(judge_rest(world, config, row)),
        [page] => {
            let candidate = world.candidate(config, page);
            if world.sum(config, page).map(|sum| sum.content) == Some(candidate) {
                return Ok(Some(Fix::Page(page, candidate)));
            }
            truth::tell_damaged(world, config, page)?;
            Ok(None)
        }
        _ => {
            for page in wrong {
                truth::tell_damaged(world, config, page)?;
            }
            Ok(None)
        }
    }
}

/// All pages match: whether the parity and both sidecars do.
fn judge_rest(world: &World, config: &Config, row: usize) -> Option<Fix> {
    let xor = world.row_xor(config, row);
    if world.parity(config, row) != xor {
        return Some(Fix::Parity(row, xor));
    }
    let mut pages = config.mates(row);
    pages
        .find(|&page| {
            let newest = world.sum(config, page);
            World::sidecars(config, page)
                .into_iter()
                .any(|device| world.sum_in(config, device, page) != newest)
        })
        .map(Fix::Sums)
}

/// Takes the next step of a verify.
///
/// # Errors
/// What is wrong then.
pub fn step(
    world: &mut World,
    config: &Config,
    rules: Rules,
    (row, at, fix): (usize, u8, Option<Fix>),
) -> Result<(), Violation> {
    let next = match at {
        0 => judge(world, config, row)?,
        1 if rules.breaks(Mutant::RepairUnheld) => fix,
        1 => {
            world.is_held = true;
            if rules.breaks(Mutant::RepairNotJudgedAgain) {
                fix
            } else {
                judge(world, config, row)?
            }
        }
        2 => {
            store(world, config, fix.expect("found in step 0"))?;
            fix
        }
        _ => {
            // Orders the repair before the writers go on.
            world.fence();
            None
        }
    };
    world.job = if next.is_some() {
        Job::Verify {
            row,
            step: at + 1,
            fix: next,
        }
    } else {
        // A keeper's writers are held by the lease.
        world.is_held = false;
        Job::Idle
    };
    Ok(())
}

fn store(world: &mut World, config: &Config, fix: Fix) -> Result<(), Violation> {
    let layout = Layout::new(config);
    match fix {
        Fix::Page(page, value) => {
            truth::overwrite(world, config, page, value)?;
            let extent = &mut world.devices[layout.extent(page)];
            extent.stream(KEEPER, layout.page(page), Word::from(value));
        }
        Fix::Parity(row, value) => {
            world.devices[config.width].stream(KEEPER, layout.page(row), Word::from(value));
        }
        Fix::Sums(page) => {
            let newest = world.sum(config, page).expect("a served page has a sum");
            world.stream_sum(config, page, newest);
        }
    }
    Ok(())
}

/// Takes the next step of a seal.
///
/// # Errors
/// What is wrong then.
pub fn seal_step(
    world: &mut World,
    config: &Config,
    rules: Rules,
    at: u8,
) -> Result<(), Violation> {
    // A lease may have been broken.
    let is_careless =
        rules.breaks(Mutant::SealedOnBrokenLease) || rules.breaks(Mutant::SealedWithoutLease);
    let is_alone = !config.is_foreign || world.has_lease || is_careless;
    match at {
        0 => {
            // The times that the seal keeps: a store after this shows.
            world.has_moved = (false, false);
            if !reads_back(world, config) {
                give_up_seal(world, config);
                return Ok(());
            }
        }
        1 if !is_alone => {
            give_up_seal(world, config);
            return Ok(());
        }
        1 => {
            world.generation += 1;
            world.stream_line(config, world.alive, State::Sealed);
        }
        _ => {
            // Orders the mark before anybody believes it: an orderly end, or a lease that only a mark `open` lets go.
            world.fence();
            if rules.breaks(Mutant::EvidenceAfterSeal) {
                world.has_moved = (false, false);
            }
            if is_alone {
                truth::sealed(world, config, false)?;
            }
            world.job = Job::Idle;
            world.is_open = false;
            world.is_held = false;
            if !config.is_foreign {
                world.lose_process(config);
            }
            return Ok(());
        }
    }
    world.job = Job::Seal(at + 1);
    Ok(())
}

/// Close says what it found; the region stays open, and its next pass compares.
fn give_up_seal(world: &mut World, config: &Config) {
    world.is_held = false;
    world.is_mapped |= !config.is_foreign;
    world.job = Job::Idle;
}

/// All pages match both of their sums, and each row its parity.
fn reads_back(world: &World, config: &Config) -> bool {
    (0..config.pages).all(|row| {
        config.mates(row).all(|page| world.matches(config, page))
            && judge_rest(world, config, row).is_none()
    })
}
