//! A program of its own, and a keeper with a write lease.

use super::config::Config;
use super::media::{Line, State};
use super::rules::{Mutant, Rules};
use super::world::{FLIP, Job, World};

/// The kernel gives the lease where nobody has the file open or mapped.
pub fn ask_for_lease(world: &mut World, rules: Rules) {
    if rules.breaks(Mutant::EvidenceBeforeLease) {
        // The look is an earlier one: it was taken when the keeper started.
        world.has_lease = !world.is_mapped;
        return;
    }
    world.has_lease = !world.is_mapped;
    world.has_moved_early = world.has_moved.0;
}

/// Whether nobody can have stored to what is sealed: the keeper's orderly end closed it to programs, or it was sealed in
/// this boot and its times have not moved.
pub fn is_seal_believed(world: &World, config: &Config, rules: Rules, newest: Line) -> bool {
    let is_same_boot = newest.boot == world.boot || rules.breaks(Mutant::EvidenceAcrossBoots);
    let has_sign = !config.is_evidence_told || world.has_moved_early;
    world.has_lease && (newest.state == State::Closed || (is_same_boot && !has_sign))
}

/// Takes the next step of the keeper's orderly end, with the lease: nobody can open the extent until it starts again.
pub fn stop(world: &mut World, config: &Config, rules: Rules, at: u8) {
    match at {
        // Durable before the line that rests on it.
        0 => world.is_closed = (true, true),
        1 if (world.is_waiting || !world.has_lease) && !rules.breaks(Mutant::ClosedUnderWaiter) => {
            // It was past the flag already: the end of the lease would let it in, or the kernel has.
            world.is_closed.0 = false;
            world.job = Job::LetGo(0);
            return;
        }
        1 => {
            world.generation += 1;
            world.stream_line(config, world.alive, State::Closed);
        }
        _ => {
            // Orders the line before the end of the lease.
            world.fence();
            world.lose_process(config);
            return;
        }
    }
    world.job = Job::Stop(at + 1);
}

/// The keeper is there again, and what is closed opens to programs: the line says so before anybody can be let in.
pub fn reopen(world: &mut World, config: &Config, rules: Rules) {
    world.generation += 1;
    world.stream_line(config, world.alive, State::Sealed);
    if rules.breaks(Mutant::ReopenedBeforeLine) {
        world.is_closed.0 = false;
    }
}

/// A program opens the extent: with a lease on it the kernel lets it wait.
pub fn program_opens(world: &mut World) {
    if world.has_lease {
        world.is_waiting = true;
    } else {
        world.is_mapped = true;
    }
}

/// Takes the next step of letting the lease go.
pub fn let_go(world: &mut World, config: &Config, at: u8) {
    match at {
        0 if !world.is_open => {
            world.generation += 1;
            world.stream_line(config, world.alive, State::Open);
        }
        0 => {}
        1 => {
            // Orders the mark before the first store of the program that waits.
            world.fence();
            world.is_open = true;
        }
        _ => {
            admit(world, config);
            world.job = Job::Idle;
            return;
        }
    }
    world.job = Job::LetGo(at + 1);
}

/// The kernel has waited long enough, and lets the program in although the keeper still thinks that it has the lease.
pub fn break_lease(world: &mut World, config: &Config) {
    world.left.breaks -= 1;
    admit(world, config);
    world.is_held = false;
}

fn admit(world: &mut World, config: &Config) {
    excuse_flips(world, config);
    world.has_lease = false;
    world.is_mapped |= world.is_waiting;
    world.is_waiting = false;
}

/// From here on nothing tells a flip from a store of the program: what nobody looked at before is taken as written.
pub fn excuse_flips(world: &mut World, config: &Config) {
    for page in 0..config.all() {
        let found = world.page(config, page);
        if found & FLIP != 0 {
            world.truth[page] = vec![found];
        }
    }
}
