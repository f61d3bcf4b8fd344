//! How fast an engine acknowledges, on one kind of brick, and what that costs the memory and the disks below.

use std::time::Duration;

use forebay_harness::Result;

use crate::cluster::brick::Site;
use crate::cluster::engine::Engine;
use crate::cluster::hosts::{Counted, Hosts};
use crate::cluster::kind::Kind;
use crate::cluster::load::{Done, Plan, check, run_for};
use crate::cluster::manifest::Manifest;
use crate::cluster::results::Number;
use crate::cluster::workload::Workload;
use crate::judged::{DISK_NUMBER, disk_fsync_ns};

/// Before the clock runs.
const WARM_UP: Duration = Duration::from_secs(1);
/// A cache that isn't full after so many has room for all there is.
const WARM_UPS_MAX: usize = 60;
/// From here on a cache lets blocks go as fast as it takes others in: some keep a few slots free.
const FULL_PER_MILLE: u64 = 900;
/// Clients of the warm-up have keys of their own.
const WARM_UP_CLIENT: usize = 10_000;

/// A measurement of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub clients: usize,
    /// Of its rate.
    pub unit: &'static str,
    pub workload: Workload,
}

/// How cases are measured.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub time: Duration,
    /// Whether caches are filled before, so that they have to write back what comes.
    pub fills_caches: bool,
}

/// What a turn gave.
#[derive(Debug, Default)]
pub struct Turn {
    pub numbers: Vec<Number>,
    /// What was acknowledged and is not there, or what clients were refused.
    pub complaints: Vec<String>,
}

/// A fresh cluster, its cases one after the other, and everything acknowledged read back.
pub fn turn(
    site: &Site,
    kind: Kind,
    engine: &mut dyn Engine,
    (cases, pace): (&[Case], Pace),
) -> Result<Turn> {
    let hosts = Hosts::start(site, kind, engine.nodes())?;
    let mut turn = Turn::default();
    if kind == Kind::Disk {
        let brick = hosts.node(1)?.path(&hosts.places(1).brick);
        turn.numbers.push(Number {
            name: DISK_NUMBER.into(),
            value: disk_fsync_ns(&brick)?,
            unit: "ns",
            is_compared: false,
        });
    }
    engine.start(&hosts)?;
    for (number, case) in cases.iter().enumerate() {
        let first_client = number * WARM_UP_CLIENT;
        measure(&hosts, engine, (case, first_client, pace), &mut turn)?;
    }
    for name in engine.batches() {
        measure_batch(&hosts, engine, name, &mut turn)?;
    }
    Ok(turn)
}

fn measure_batch(
    hosts: &Hosts<'_>,
    engine: &dyn Engine,
    name: &str,
    turn: &mut Turn,
) -> Result<()> {
    let before = hosts.counted()?;
    let batch = engine.batch(hosts, name)?;
    let counted = hosts.counted()?.zip(before);
    turn.numbers.push(Number {
        name: name.into(),
        value: batch.bytes as f64 / f64::from(1 << 20) / batch.elapsed.as_secs_f64(),
        unit: "MiB/s",
        is_compared: true,
    });
    let costs = counted.map(|pair| costs(name, batch.bytes, pair));
    turn.numbers.extend(costs.into_iter().flatten());
    Ok(())
}

fn measure(
    hosts: &Hosts<'_>,
    engine: &mut dyn Engine,
    (case, first_client, pace): (&Case, usize, Pace),
    turn: &mut Turn,
) -> Result<()> {
    let network = hosts.network()?;
    let before = Manifest::default();
    let plan = Plan {
        workload: case.workload,
        first_client,
        before: &before,
    };
    warm_up(hosts, engine, (case, pace), plan)?;
    let counted_before = hosts.counted()?;
    let clients = engine.clients(hosts, case.clients)?;
    let done = run_for(&network, clients, plan, pace.time)?;
    let counted = hosts.counted()?.zip(counted_before);
    turn.numbers.extend(numbers(case, &done));
    if let Some(pair) = counted {
        turn.numbers.extend(costs(case.name, done.bytes, pair));
        let steps = done.latencies_ns.len() as u64;
        turn.numbers.extend(costs_of_a_step(case.name, steps, pair));
    }
    let name = case.name;
    if done.failures > 0 {
        let failures = done.failures;
        turn.complaints
            .push(format!("{name}: {failures} steps had no answer"));
    }
    // What is still being written is not where a member has what is finished.
    let all: Vec<usize> = hosts.numbers().collect();
    engine.settle(hosts, &all)?;
    let mut client = engine.client_of(hosts, 1)?;
    let checked = check(&network, &mut client, case.workload, &done.manifest)?;
    let losses = checked.losses;
    let complaint = |example| format!("{name}: {losses} keys are not as acknowledged; {example}");
    turn.complaints.extend(checked.example.map(complaint));
    Ok(())
}

/// Once, or until the caches are full and that which has written the fewest blocks wrote more in the last second; with keys of
/// its own.
fn warm_up(
    hosts: &Hosts<'_>,
    engine: &dyn Engine,
    (case, pace): (&Case, Pace),
    plan: Plan<'_>,
) -> Result<()> {
    let network = hosts.network()?;
    let mut written = u64::MAX;
    for number in 0..WARM_UPS_MAX {
        let plan = Plan {
            first_client: plan.first_client + WARM_UP_CLIENT / 2 + number * case.clients,
            ..plan
        };
        run_for(
            &network,
            engine.clients(hosts, case.clients)?,
            plan,
            WARM_UP,
        )?;
        let counted = hosts.counted()?;
        let is_steady = counted.is_none_or(|counted| {
            let least = std::mem::replace(&mut written, counted.disk_blocks_least);
            counted.full_per_mille >= FULL_PER_MILLE && counted.disk_blocks_least > least
        });
        if is_steady || !pace.fills_caches {
            break;
        }
    }
    Ok(())
}

/// What memory and disks of all nodes paid for a MiB that clients wrote, from the counts after and before.
fn costs(name: &str, bytes: u64, pair: (Counted, Counted)) -> [Number; 2] {
    let mib = bytes.max(1) as f64 / f64::from(1 << 20);
    shares((name, "mib"), mib, ["lines/MiB", "blocks/MiB"], pair)
}

/// The same for a step of a client.
fn costs_of_a_step(name: &str, steps: u64, pair: (Counted, Counted)) -> [Number; 2] {
    let units = ["lines/step", "blocks/step"];
    shares((name, "step"), steps.max(1) as f64, units, pair)
}

fn shares(
    (name, whole): (&str, &str),
    count: f64,
    [lines_unit, blocks_unit]: [&'static str; 2],
    (after, before): (Counted, Counted),
) -> [Number; 2] {
    let each = |what: &str, total: u64, unit| Number {
        name: format!("{name}_{what}_per_{whole}"),
        value: total as f64 / count,
        unit,
        is_compared: true,
    };
    let blocks = after.disk_blocks - before.disk_blocks;
    [
        each("lines", after.lines - before.lines, lines_unit),
        each("disk_blocks", blocks, blocks_unit),
    ]
}

fn numbers(case: &Case, done: &Done) -> Vec<Number> {
    let steps = done.latencies_ns.len();
    let at = |share: f64| {
        let last = steps.checked_sub(1)?;
        let place = ((steps as f64 * share) as usize).min(last);
        Some(done.latencies_ns[place] as f64)
    };
    let latency = |name: &str, share: f64| {
        Some(Number {
            name: format!("{}_{name}", case.name),
            value: at(share)?,
            unit: "ns",
            is_compared: false,
        })
    };
    let rate = Number {
        name: case.name.into(),
        value: steps as f64 / done.elapsed.as_secs_f64(),
        unit: case.unit,
        is_compared: true,
    };
    let latencies = [latency("p50", 0.5), latency("p99", 0.99)];
    std::iter::once(rate)
        .chain(latencies.into_iter().flatten())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_from_what_was_acknowledged() {
        let case = Case {
            name: "etcd_1client",
            clients: 1,
            unit: "puts/s",
            workload: Workload::Puts,
        };
        let done = Done {
            latencies_ns: (1..=100).map(|n| n * 1000).collect(),
            elapsed: Duration::from_secs(2),
            ..Done::default()
        };
        let found = numbers(&case, &done);
        let told: Vec<(&str, f64)> = found
            .iter()
            .map(|number| (number.name.as_str(), number.value))
            .collect();
        let wanted = [
            ("etcd_1client", 50.0),
            ("etcd_1client_p50", 51_000.0),
            ("etcd_1client_p99", 100_000.0),
        ];
        assert_eq!(told, wanted);
        let counted = |factor: u64| Counted {
            lines: 1000 * factor,
            disk_blocks: 10 * factor,
            full_per_mille: 1000,
            ..Counted::default()
        };
        let [lines, blocks] = costs(case.name, 2 << 20, (counted(7), counted(3)));
        assert_eq!(
            (lines.name.as_str(), lines.value),
            ("etcd_1client_lines_per_mib", 2000.0)
        );
        assert_eq!(blocks.value, 20.0);
        let [lines, _] = costs_of_a_step(case.name, 100, (counted(7), counted(3)));
        assert_eq!(
            (lines.name.as_str(), lines.value),
            ("etcd_1client_lines_per_step", 40.0)
        );
    }
}
