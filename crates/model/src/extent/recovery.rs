//! Opening: which sidecars count, whether a seal may be believed, resync, rebuild.

use super::config::{ALL_MAX, Config};
use super::foreign;
use super::media::{Layout, Line, State, Sum};
use super::rules::{Mutant, Rules};
use super::truth;
use super::world::{Job, KEEPER, Opening, Phase, Plan, World};
use crate::memory::{Memory, Word};
use crate::world::Violation;

/// Our process starts; an extent that does not answer is replaced by a new one, by the operator's word.
pub fn start(world: &mut World, config: &Config) {
    let units = Layout::new(config).units();
    // Too early: a mutant believes it.
    world.has_moved_early = world.has_moved.0;
    for device in 0..config.devices() {
        if world.alive & (1 << device) == 0 {
            world.devices[device] = Memory::new(units);
            world.alive |= 1 << device;
            world.away |= 1 << device;
        }
    }
    world.phase = Phase::Opening(if config.is_foreign {
        Opening::Lease
    } else {
        Opening::Look
    });
}

/// Takes the next step of an open.
///
/// # Errors
/// What is wrong then.
pub fn step(
    world: &mut World,
    config: &Config,
    rules: Rules,
    at: Opening,
) -> Result<(), Violation> {
    let next = match at {
        Opening::Lease => {
            foreign::ask_for_lease(world, rules);
            Opening::Look
        }
        Opening::Look => return look(world, config, rules),
        Opening::MarkFence => {
            // Orders the mark before the first store, and before anything that a resync writes.
            world.fence();
            world.is_closed.0 = false;
            let plan = world.plan.clone().expect("decided at the look");
            return marked(world, config, rules, &plan);
        }
        Opening::Reopen => {
            // Orders the line before programs can open the extent, should the lease go with us.
            world.fence();
            world.is_closed.0 = false;
            return serve(world, config, rules);
        }
        Opening::Write => return write(world, config, rules),
        Opening::WriteFence => {
            // Orders pages and parity before the sums that vouch for them.
            world.fence();
            Opening::Sums
        }
        Opening::Sums => {
            let plan = world.plan.clone().expect("decided at the look");
            for page in 0..config.all() {
                let mut sum = plan.sums[page];
                if rules.breaks(Mutant::UnverifiedNotRemembered) {
                    sum.is_unverified = false;
                }
                world.stream_sum(config, page, sum);
            }
            Opening::SumsFence
        }
        Opening::SumsFence => {
            // Orders the sums before the line of an extent that they make whole.
            world.fence();
            Opening::Lines
        }
        Opening::Lines => {
            world.generation += 1;
            world.stream_line(config, world.alive, State::Open);
            Opening::LinesFence
        }
        Opening::LinesFence => {
            // Orders the lines before the first store that the new extents take.
            world.fence();
            world.is_open = true;
            return serve(world, config, rules);
        }
    };
    world.phase = Phase::Opening(next);
    Ok(())
}

/// Extents whose sidecar has no line, or one from before a generation that began without it. That it is older is no
/// sign: a crash between the sidecars leaves some of them generations behind, and nothing was stored yet.
fn behind(world: &World, config: &Config, rules: Rules, newest: Line) -> u8 {
    let unit = Layout::new(config).line();
    let mut behind = 0;
    for (device, memory) in world.devices.iter().enumerate() {
        let is_behind = match Line::read(memory.view(unit)) {
            None => true,
            Some(_) if rules.breaks(Mutant::StaleSidecarBelieved) => false,
            Some(line) if rules.breaks(Mutant::PartialMarkIsStale) => {
                line.generation < newest.generation
            }
            Some(line) => line.generation < newest.since[device],
        };
        behind |= u8::from(is_behind) << device;
    }
    behind
}

fn look(world: &mut World, config: &Config, rules: Rules) -> Result<(), Violation> {
    let unit = Layout::new(config).line();
    let lines = world.devices.iter();
    let lines: Vec<Line> = lines
        .filter_map(|memory| Line::read(memory.view(unit)))
        .collect();
    let Some(newest) = lines.iter().copied().max_by_key(|line| line.generation) else {
        world.phase = Phase::Refused;
        return Ok(());
    };
    let behind = behind(world, config, rules, newest);
    world.trusted = world.alive & !behind;
    world.generation = newest.generation;
    world.since = newest.since;
    let mut is_orderly = newest.state != State::Open
        && (!config.is_foreign || foreign::is_seal_believed(world, config, rules, newest));
    if rules.breaks(Mutant::SealBelievedAfterUnorderlyEnd) {
        is_orderly = true;
    }
    let blank = Sum {
        content: 0,
        pass: 0,
        is_unverified: false,
        is_lost: false,
    };
    world.plan = Some(Box::new(Plan {
        is_orderly,
        behind,
        sums: [blank; ALL_MAX],
        rows: 0,
        stored: 0,
    }));
    if config.is_foreign && is_orderly && behind == 0 {
        // It stays sealed, under the lease.
        truth::sealed(world, config, true)?;
        if newest.state == State::Closed || world.is_closed.0 {
            foreign::reopen(world, config, rules);
            world.phase = Phase::Opening(Opening::Reopen);
            return Ok(());
        }
        return serve(world, config, rules);
    }
    world.generation = if behind == 0 || rules.breaks(Mutant::GenerationDrawnTwice) {
        newest.generation + 1
    } else {
        Line::next_epoch(newest.generation)
    };
    for device in (0..config.devices()).filter(|device| behind & (1 << device) != 0) {
        world.since[device] = world.generation;
    }
    let mut marked = world.trusted;
    if rules.breaks(Mutant::MarkOnOneSidecarOnly) {
        marked &= marked.wrapping_neg();
    }
    if rules.breaks(Mutant::RebuiltCalledInEarly) {
        marked |= behind;
    }
    // Nobody has it mapped while a sealed region is rebuilt: a crash then leaves it sealed.
    let state = if is_orderly && behind != 0 {
        State::Sealed
    } else {
        State::Open
    };
    world.stream_line(config, marked, state);
    if rules.breaks(Mutant::OpenMarkAfterFirstStore) && is_orderly && behind == 0 {
        return serve(world, config, rules);
    }
    world.phase = Phase::Opening(Opening::MarkFence);
    Ok(())
}

fn marked(world: &mut World, config: &Config, rules: Rules, plan: &Plan) -> Result<(), Violation> {
    world.is_open = !plan.is_orderly || plan.behind == 0;
    let may_compare = config.is_foreign && !world.has_lease && plan.behind == 0;
    if plan.is_orderly && plan.behind == 0 {
        if !rules.breaks(Mutant::StaleSidecarBelieved) {
            truth::sealed(world, config, true)?;
        }
        return serve(world, config, rules);
    }
    if may_compare {
        // A program has it mapped: nothing tells its stores from damage, and the next pass compares.
        foreign::excuse_flips(world, config);
        serve_compared(world, config, rules);
        truth::told(world, config);
        if !rules.breaks(Mutant::FirstPassTakesDifferingOnly) {
            // A killed process may have left sums and parity that are visible and not durable.
            world.carried = ((1u32 << config.all()) - 1) as u8;
        }
        return Ok(());
    }
    world.phase = Phase::Opening(Opening::Write);
    Ok(())
}

/// The passes that follow compare all; the tracker has nothing to say.
fn serve_compared(world: &mut World, config: &Config, rules: Rules) {
    world.pass = first_pass(world, config, rules);
    world.trusted = 0;
    world.plan = None;
    world.phase = Phase::Running;
}

/// The number before that of the first pass: none that any sum has may come again.
fn first_pass(world: &World, config: &Config, rules: Rules) -> u8 {
    if rules.breaks(Mutant::PassNumberRepeated) {
        return 0;
    }
    highest_pass(world, config)
}

fn highest_pass(world: &World, config: &Config) -> u8 {
    let pages = 0..config.all();
    let sums = pages.flat_map(|page| {
        World::sidecars(config, page)
            .into_iter()
            .filter_map(move |device| world.sum_in(config, device, page))
    });
    sums.map(|sum| sum.pass).max().unwrap_or(0)
}

/// Decides each page, then stores the pages of extents that were away and the parity of all rows.
fn write(world: &mut World, config: &Config, rules: Rules) -> Result<(), Violation> {
    let mut plan = world.plan.clone().expect("decided at the look");
    let layout = Layout::new(config);
    let mut lost = 0u8;
    let mut differing = 0u8;
    for page in 0..config.all() {
        let decided = decide(world, config, rules, &plan, page)?;
        plan.sums[page] = decided;
        if decided.is_lost && !is_lost_before(world, config, page) {
            lost |= 1 << page;
        }
        if Some(decided) != world.newest_sum(config, world.trusted, page) {
            differing |= 1 << page;
        }
    }
    if lost != 0 && !world.is_loss_told && !rules.breaks(Mutant::LostZeroedUntold) {
        // Named in the error; nothing is written until the caller accepts it.
        world.lose_process(config);
        world.is_loss_told = true;
        return Ok(());
    }
    if rules.breaks(Mutant::LostZeroedUntold) {
        for sum in &mut plan.sums {
            sum.is_lost = false;
        }
    }
    store_pages(world, config, rules, &plan)?;
    for row in 0..config.pages {
        let is_parity_trusted = world.trusted & (1 << config.width) != 0;
        let is_quiet = differing & config.row_bits(row) == 0 && is_parity_trusted;
        if rules.breaks(Mutant::ResyncTrustsMatchingRows) && is_quiet {
            continue;
        }
        let xor = config
            .mates(row)
            .fold(0, |xor, page| xor ^ plan.sums[page].content);
        world.devices[config.width].stream(KEEPER, layout.page(row), Word::from(xor));
    }
    world.plan = Some(plan);
    world.phase = Phase::Opening(Opening::WriteFence);
    Ok(())
}

/// Makes what counts durable as it is, and stores the pages of extents that were away.
fn store_pages(
    world: &mut World,
    config: &Config,
    rules: Rules,
    plan: &Plan,
) -> Result<(), Violation> {
    let layout = Layout::new(config);
    for page in 0..config.all() {
        let content = plan.sums[page].content;
        let extent = layout.extent(page);
        let is_trusted = world.trusted & (1 << extent) != 0;
        if is_trusted && !rules.breaks(Mutant::ResyncDoesNotFlush) {
            world.devices[extent].flush(KEEPER, layout.page(page));
        }
        if is_trusted && content == world.page(config, page) {
            continue;
        }
        if is_trusted {
            truth::overwrite(world, config, page, content)?;
        }
        world.devices[extent].stream(KEEPER, layout.page(page), Word::from(content));
    }
    Ok(())
}

fn is_lost_before(world: &World, config: &Config, page: usize) -> bool {
    world
        .newest_sum(config, world.trusted, page)
        .is_some_and(|sum| sum.is_lost)
}

/// What a page is to hold, and what its sum is to say.
fn decide(
    world: &World,
    config: &Config,
    rules: Rules,
    plan: &Plan,
    page: usize,
) -> Result<Sum, Violation> {
    let layout = Layout::new(config);
    let found = world.page(config, page);
    let taken = |content| Sum {
        content,
        pass: highest_pass(world, config) + 1,
        is_unverified: true,
        is_lost: false,
    };
    let newest = world.newest_sum(config, world.trusted, page);
    let is_trusted = world.trusted & (1 << layout.extent(page)) != 0;
    // The rest of the row can tell only where all of it counts.
    let row = world.row_devices(config, page);
    let candidate = (row & !world.trusted == 0).then(|| world.candidate(config, page));
    if let (true, Some(sum)) = (is_trusted, newest) {
        if sum.content == found {
            return Ok(sum);
        }
        if rules.breaks(Mutant::ResyncRebuildsUnasked) && candidate == Some(sum.content) {
            return Ok(sum);
        }
    }
    if is_trusted {
        let before = newest.is_some_and(|sum| sum.is_lost);
        return Ok(Sum {
            is_lost: before,
            ..taken(found)
        });
    }
    // What an extent that was away holds counts where it matches; a new one is all zero.
    let rebuilt = newest.filter(|sum| found == sum.content || candidate == Some(sum.content));
    let Some(sum) = rebuilt else {
        return Ok(Sum {
            is_lost: true,
            is_unverified: false,
            ..taken(0)
        });
    };
    if plan.is_orderly || rules.breaks(Mutant::RebuiltCountsAsVerified) {
        return Ok(sum);
    }
    // Nothing durable tells whether it was written since that pass.
    let pass = if rules.breaks(Mutant::FlagWithoutPass) {
        sum.pass
    } else {
        taken(sum.content).pass
    };
    Ok(Sum {
        is_unverified: true,
        pass,
        ..sum
    })
}

fn serve(world: &mut World, config: &Config, rules: Rules) -> Result<(), Violation> {
    let plan = world.plan.take().expect("decided at the look");
    let mut told = 0;
    for page in 0..config.all() {
        let is_named = world.sum(config, page).is_some_and(Sum::is_named);
        if is_named || plan.sums[page].is_named() {
            told |= 1 << page;
        }
    }
    world.trusted = 0;
    world.pass = first_pass(world, config, rules);
    world.phase = Phase::Running;
    world.job = Job::Idle;
    world.is_loss_told = false;
    if !config.is_foreign {
        world.is_mapped = true;
    }
    if plan.is_orderly && plan.behind == 0 {
        // Nothing was read; what was sealed is right unless it was struck.
        return Ok(());
    }
    truth::served(world, config, plan.is_orderly, told)?;
    if !config.is_foreign || world.has_lease {
        world.covered = ((1u32 << config.pages) - 1) as u8;
    }
    Ok(())
}
