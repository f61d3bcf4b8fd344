//! A program of its own, and a keeper with a write lease.

use super::config::Config;
use super::media::Line;
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

/// Whether what is sealed was sealed in this boot, and nobody can have stored to it since without a sign.
pub fn is_seal_believed(world: &World, config: &Config, rules: Rules, newest: Line) -> bool {
    let is_same_boot = newest.boot == world.boot || rules.breaks(Mutant::EvidenceAcrossBoots);
    world.has_lease && config.is_evidence_told && is_same_boot && !world.has_moved_early
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
pub fn let_go(world: &mut World, config: &Config, rules: Rules, at: u8) {
    match at {
        0 if !world.is_open => {
            world.generation += 1;
            world.stream_line(config, world.alive, false);
            if rules.breaks(Mutant::LeaseLetGoBeforeMark) {
                admit(world, config);
            }
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
