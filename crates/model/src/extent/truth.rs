//! What must hold: of each page that we store to or name, at each promise, and whenever a region is served.

use super::config::Config;
use super::media::{Layout, Sum};
use super::world::{FLIP, Pass, World};
use crate::world::Violation;

/// What the program sees in a page.
pub fn last(world: &World, page: usize) -> u32 {
    *world.truth[page]
        .last()
        .expect("a page always holds something")
}

/// We store `value` over a data page: nothing that the program stored may go.
///
/// # Errors
/// It would.
pub fn overwrite(world: &World, config: &Config, page: usize, value: u32) -> Result<(), Violation> {
    let seen = world.page(config, page);
    if seen == last(world, page) && value != seen {
        return Err(Violation(format!(
            "page {page} is what the program stored, and is overwritten"
        )));
    }
    Ok(())
}

/// A pass sums a page that it took as written: what was flipped between the store and the pass, nothing can tell.
pub fn excuse_flip(world: &mut World, config: &Config, pass: &Pass, page: usize) {
    let copy = pass.copies[page];
    if copy & FLIP == 0 || pass.taken & (1 << page) == 0 {
        return;
    }
    if world.page(config, page) == copy {
        world.truth[page] = vec![copy];
    } else {
        // Stored to since, and not yet durable perhaps.
        world.truth[page].insert(0, copy);
    }
}

/// An error names a page as damaged.
///
/// # Errors
/// It is what the program stored.
pub fn tell_damaged(world: &mut World, config: &Config, page: usize) -> Result<(), Violation> {
    if world.page(config, page) == last(world, page) {
        return Err(Violation(format!(
            "page {page} is called damaged, and is what the program stored"
        )));
    }
    world.damaged |= 1 << page;
    Ok(())
}

/// A pass ends that has summed a row: from now on the row is protected, unless the tracker knows of a store.
///
/// # Errors
/// It was stored to after it was copied, and the tracker does not know.
pub fn cover(world: &mut World, config: &Config, row: usize, pass: &Pass) -> Result<(), Violation> {
    let bits = config.row_bits(row);
    if world.written & bits != 0 {
        return Ok(());
    }
    let changed = config
        .mates(row)
        .find(|page| pass.copies[*page] != last(world, *page) && pass.copies[*page] & FLIP == 0);
    if let Some(page) = changed {
        if config.is_foreign {
            // The next pass compares again, and nobody was promised anything.
            return Ok(());
        }
        return Err(Violation(format!(
            "row {row} counts as protected, and page {page} was stored to after it was copied"
        )));
    }
    if config.mates(row).any(|page| pass.copies[page] & FLIP != 0) {
        return Ok(());
    }
    world.covered |= 1 << row;
    for page in config.mates(row) {
        world.truth[page] = vec![last(world, page)];
    }
    Ok(())
}

/// `sync` returns: what the pages held when it was called is durable, and protected unless it was stored to meanwhile.
///
/// # Errors
/// It is not.
pub fn synced(world: &mut World, config: &Config, pass: &Pass) -> Result<(), Violation> {
    for row in 0..config.pages {
        if config.row_bits(row) & world.damaged != 0 {
            // `sync` returns an error that names the page.
            continue;
        }
        let mut pages = config.mates(row);
        let is_same = pages.all(|page| pass.asked[page] == last(world, page));
        if is_same && world.covered & (1 << row) == 0 && !world.is_struck {
            return Err(Violation(format!(
                "sync returned, and row {row} is not protected"
            )));
        }
        for page in config.mates(row) {
            let kept = world.truth[page]
                .iter()
                .position(|value| *value == pass.asked[page]);
            // A value leaves only when a later one is durable, or when it was damaged in its window.
            world.truth[page].drain(..kept.unwrap_or(0));
        }
    }
    Ok(())
}

/// A page that was cut off has settled: what it holds is what it held, or it is damaged.
///
/// # Errors
/// What the program made durable is gone.
pub fn settle(world: &mut World, config: &Config, page: usize) -> Result<(), Violation> {
    let found = world.page(config, page);
    if world.truth[page].contains(&found) {
        world.truth[page] = vec![found];
        return Ok(());
    }
    let layout = Layout::new(config);
    let is_away = world.away & (1 << layout.extent(page)) != 0;
    if found & FLIP == 0 && !is_away {
        return Err(Violation(format!("page {page} lost what was durable")));
    }
    Ok(())
}

/// The user is told of each page whose sum calls it unverified or lost.
pub fn told(world: &mut World, config: &Config) {
    for page in 0..config.all() {
        if world.sum(config, page).is_some_and(Sum::is_named) {
            world.named |= 1 << page;
        }
    }
}

/// The region is served again, and `told` says which pages are named: each page is right, or named.
///
/// # Errors
/// It is not, or is named for nothing.
pub fn served(
    world: &mut World,
    config: &Config,
    is_orderly: bool,
    told: u8,
) -> Result<(), Violation> {
    let behind = world.away;
    let layout = Layout::new(config);
    for page in 0..config.all() {
        let found = world.page(config, page);
        let is_named = told & (1 << page) != 0;
        let is_covered = world.covered & (1 << config.row(page)) != 0;
        let is_right = world.truth[page].contains(&found);
        let was_away = behind & (1 << layout.extent(page)) != 0;
        if !is_right && !is_named {
            return Err(Violation(format!(
                "page {page} is old or wrong, and nobody is told"
            )));
        }
        if is_covered && !is_right && !world.is_struck && behind.count_ones() <= 1 {
            return Err(Violation(format!(
                "page {page} was protected, and is not what it was"
            )));
        }
        let is_known = !was_away || is_orderly;
        let was_named = world.named & (1 << page) != 0;
        if is_named && !was_named && is_covered && is_known && !world.is_struck {
            return Err(Violation(format!(
                "page {page} was protected, and is called unverified"
            )));
        }
        if is_named {
            world.named |= 1 << page;
        } else if was_named {
            return Err(Violation(format!(
                "page {page} was unverified, and is so no more"
            )));
        }
        world.truth[page] = vec![found];
    }
    world.away = 0;
    Ok(())
}

/// A seal counts: every page matches its sums, and the parity is right.
///
/// # Errors
/// They do not.
pub fn sealed(world: &World, config: &Config, is_believed: bool) -> Result<(), Violation> {
    let how = if is_believed { "believed" } else { "stored" };
    for page in 0..config.all() {
        let found = world.page(config, page);
        if found & FLIP != 0 || (is_believed && world.is_struck) {
            continue;
        }
        let durable = {
            let layout = Layout::new(config);
            world.devices[layout.extent(page)].durable(layout.page(page)) as u32
        };
        let has_sums = World::sidecars(config, page).into_iter().all(|device| {
            world
                .sum_in(config, device, page)
                .is_some_and(|sum| sum.content == found)
        });
        if durable != found || !has_sums {
            return Err(Violation(format!(
                "the seal is {how}, and page {page} does not match its sums"
            )));
        }
        let row = config.row(page);
        let xor = world.row_xor(config, row);
        if xor & FLIP == 0 && world.parity(config, row) != xor {
            return Err(Violation(format!(
                "the seal is {how}, and the parity of row {row} is not that of its pages"
            )));
        }
    }
    Ok(())
}
