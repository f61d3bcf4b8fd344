//! Nodes that are killed in mid-load, processes and mounts together, and come back with their pools: everything that was
//! acknowledged has to be there, whichever member is asked.

use std::time::Duration;

use forebay_harness::{Result, sleep};

use crate::cluster::brick::Trust;
use crate::cluster::engine::Engine;
use crate::cluster::hosts::Hosts;
use crate::cluster::load::{Checked, Plan, check, run};
use crate::cluster::manifest::Manifest;

const CLIENTS: usize = 8;
/// A load goes on for as long before a kill, and a bit longer from round to round.
const LEAD_MS_MIN: u64 = 500;
const LEAD_MS_RANGE: u64 = 1000;
/// Without the one that was killed.
const WITHOUT: Duration = Duration::from_millis(700);

/// What one round came to.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Of each killed node the blocks that its pool had and its disk may have lacked.
    pub dirty_blocks: Vec<u64>,
    pub checked: Checked,
    /// Steps that clients saw acknowledged in it.
    pub acknowledged: u64,
}

impl Round {
    fn add(&mut self, checked: Checked) {
        self.checked.keys += checked.keys;
        self.checked.losses += checked.losses;
        self.checked.example = self.checked.example.take().or(checked.example);
    }
}

/// One round: a node dies and comes back while the others go on. In every second one of an engine with a quorum all
/// that were up die together, and one of them has to bring what was acknowledged to one that had been down before; of one
/// that outlives it all nodes die.
pub fn round(hosts: &mut Hosts<'_>, engine: &mut dyn Engine, number: usize) -> Result<Round> {
    let victim = number / 2 % hosts.count() + 1;
    match number % 2 == 1 {
        true if engine.has_quorum() => majority_dies(hosts, engine, (number, victim)),
        true if engine.outlives_all() => all_die(hosts, engine, number),
        _ => one_dies(hosts, engine, (number, victim)),
    }
}

fn lead(number: usize) -> Duration {
    let more = number as u64 * 337 % LEAD_MS_RANGE;
    Duration::from_millis(LEAD_MS_MIN + more)
}

/// Has clients write, and after a while what is to happen meanwhile; what they were told.
fn loaded(
    hosts: &mut Hosts<'_>,
    engine: &mut dyn Engine,
    (number, round): (usize, &mut Round),
    meanwhile: impl FnOnce(&mut Hosts<'_>, &mut dyn Engine, &mut Round) -> Result<()>,
) -> Result<Manifest> {
    let clients = engine.clients(hosts, CLIENTS)?;
    let before = Manifest::default();
    let plan = Plan {
        workload: engine.workload(),
        first_client: number * CLIENTS,
        before: &before,
    };
    let (done, ()) = run(&hosts.network()?, clients, plan, || {
        sleep(lead(number))?;
        meanwhile(hosts, engine, round)
    })?;
    round.acknowledged = done.latencies_ns.len() as u64;
    Ok(done.manifest)
}

fn one_dies(
    hosts: &mut Hosts<'_>,
    engine: &mut dyn Engine,
    (number, victim): (usize, usize),
) -> Result<Round> {
    let mut round = Round::default();
    let manifest = loaded(
        hosts,
        engine,
        (number, &mut round),
        |hosts, engine, round| {
            hosts.kill(victim)?;
            round.dirty_blocks.push(hosts.dirty_blocks(victim)?);
            sleep(WITHOUT)?;
            hosts.restart(victim, Trust::Marks)?;
            engine.restart(hosts, victim)
        },
    )?;
    let all: Vec<usize> = hosts.numbers().collect();
    engine.settle(hosts, &all)?;
    check_at(hosts, engine, &all, &manifest, &mut round)?;
    Ok(round)
}

fn majority_dies(
    hosts: &mut Hosts<'_>,
    engine: &mut dyn Engine,
    (number, absent): (usize, usize),
) -> Result<Round> {
    let mut round = Round::default();
    let others = hosts.numbers().filter(|other| *other != absent);
    let others: Vec<usize> = others.collect();
    hosts.kill(absent)?;
    round.dirty_blocks.push(hosts.dirty_blocks(absent)?);
    engine.settle(hosts, &others)?;
    let manifest = loaded(hosts, engine, (number, &mut round), |hosts, _, round| {
        for victim in &others {
            hosts.kill(*victim)?;
            round.dirty_blocks.push(hosts.dirty_blocks(*victim)?);
        }
        Ok(())
    })?;
    // The one that was down knows nothing of it, so all rests on the pool of the other.
    let (first, last) = (
        others[number / 2 % others.len()],
        others[(number / 2 + 1) % others.len()],
    );
    for back in [absent, first] {
        hosts.restart(back, Trust::Marks)?;
        engine.restart(hosts, back)?;
    }
    let two = [absent, first];
    engine.settle(hosts, &two)?;
    check_at(hosts, engine, &two, &manifest, &mut round)?;
    hosts.restart(last, Trust::Marks)?;
    engine.restart(hosts, last)?;
    let all: Vec<usize> = hosts.numbers().collect();
    engine.settle(hosts, &all)?;
    check_at(hosts, engine, &[last], &manifest, &mut round)?;
    Ok(round)
}

fn all_die(hosts: &mut Hosts<'_>, engine: &mut dyn Engine, number: usize) -> Result<Round> {
    let mut round = Round::default();
    let all: Vec<usize> = hosts.numbers().collect();
    let manifest = loaded(hosts, engine, (number, &mut round), |hosts, _, round| {
        for victim in &all {
            hosts.kill(*victim)?;
            round.dirty_blocks.push(hosts.dirty_blocks(*victim)?);
        }
        Ok(())
    })?;
    for back in &all {
        hosts.restart(*back, Trust::Marks)?;
        engine.restart(hosts, *back)?;
    }
    engine.settle(hosts, &all)?;
    check_at(hosts, engine, &all, &manifest, &mut round)?;
    Ok(round)
}

fn check_at(
    hosts: &Hosts<'_>,
    engine: &dyn Engine,
    members: &[usize],
    manifest: &Manifest,
    round: &mut Round,
) -> Result<()> {
    for member in members {
        let mut client = engine.client_of(hosts, *member)?;
        let checked = check(&hosts.network()?, &mut client, engine.workload(), manifest)?;
        round.add(checked);
    }
    Ok(())
}
