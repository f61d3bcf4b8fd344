//! How fast an engine acknowledges, on one kind of brick, and what that costs the memory and the disks below.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_harness::{Result, median};

use crate::cluster::brick::Site;
use crate::cluster::engine::Engine;
use crate::cluster::hosts::{Counted, Hosts};
use crate::cluster::kind::Kind;
use crate::cluster::load::{Done, Plan, check, run_for};
use crate::cluster::manifest::Manifest;
use crate::cluster::results::Number;

const PROBE_BYTES: usize = 4096;
const PROBES: usize = 200;
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
            name: "disk_fsync_4k".into(),
            value: probe_ns(&brick)?,
            unit: "ns",
            is_compared: false,
        });
    }
    engine.start(&hosts)?;
    for (number, case) in cases.iter().enumerate() {
        let first_client = number * WARM_UP_CLIENT;
        measure(&hosts, engine, (case, first_client, pace), &mut turn)?;
    }
    let before = hosts.counted()?;
    if let Some(batch) = engine.batch(&hosts)? {
        let counted = hosts.counted()?.zip(before);
        turn.numbers.push(Number {
            name: batch.name.into(),
            value: batch.bytes as f64 / f64::from(1 << 20) / batch.elapsed.as_secs_f64(),
            unit: "MiB/s",
            is_compared: true,
        });
        let costs = counted.map(|pair| costs(batch.name, batch.bytes, pair));
        turn.numbers.extend(costs.into_iter().flatten());
    }
    Ok(turn)
}

fn measure(
    hosts: &Hosts<'_>,
    engine: &dyn Engine,
    (case, first_client, pace): (&Case, usize, Pace),
    turn: &mut Turn,
) -> Result<()> {
    let network = hosts.network()?;
    let before = Manifest::default();
    let plan = Plan {
        workload: engine.workload(),
        first_client,
        before: &before,
    };
    warm_up(hosts, engine, (case, pace), plan)?;
    let counted_before = hosts.counted()?;
    let clients = engine.clients(hosts, case.clients)?;
    let done = run_for(&network, clients, plan, pace.time)?;
    let counted = hosts.counted()?.zip(counted_before);
    turn.numbers.extend(numbers(case, &done));
    turn.numbers.extend(
        counted
            .into_iter()
            .flat_map(|pair| costs(case.name, done.bytes, pair)),
    );
    let name = case.name;
    if done.failures > 0 {
        let failures = done.failures;
        turn.complaints
            .push(format!("{name}: {failures} steps had no answer"));
    }
    let mut client = engine.client_of(hosts, 1)?;
    let checked = check(&network, &mut client, engine.workload(), &done.manifest)?;
    let losses = checked.losses;
    let complaint = |example| format!("{name}: {losses} keys are not as acknowledged; {example}");
    turn.complaints.extend(checked.example.map(complaint));
    Ok(())
}

/// Once, or until the caches are full; with keys of its own.
fn warm_up(
    hosts: &Hosts<'_>,
    engine: &dyn Engine,
    (case, pace): (&Case, Pace),
    plan: Plan<'_>,
) -> Result<()> {
    let network = hosts.network()?;
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
        let is_full = counted.is_none_or(|counted| counted.full_per_mille >= FULL_PER_MILLE);
        if is_full || !pace.fills_caches {
            break;
        }
    }
    Ok(())
}

/// What memory and disks of all nodes paid for a MiB that clients wrote, from the counts after and before.
fn costs(name: &str, bytes: u64, (after, before): (Counted, Counted)) -> [Number; 2] {
    let mib = bytes.max(1) as f64 / f64::from(1 << 20);
    let each = |what: &str, count: u64, unit| Number {
        name: format!("{name}_{what}"),
        value: count as f64 / mib,
        unit,
        is_compared: true,
    };
    let blocks = after.disk_blocks - before.disk_blocks;
    [
        each("lines_per_mib", after.lines - before.lines, "lines/MiB"),
        each("disk_blocks_per_mib", blocks, "blocks/MiB"),
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

/// The median of a write of 4 KiB in a file that has it already, and its sync: what the disk itself takes, without a
/// journal's part.
fn probe_ns(folder: &Path) -> Result<f64> {
    let path = folder.join("probe");
    let file = File::create_new(&path)?;
    let piece = [0x5a; PROBE_BYTES];
    file.write_all_at(&piece, 0)?;
    file.sync_all()?;
    let mut all = Vec::with_capacity(PROBES);
    for _ in 0..PROBES {
        let began = Instant::now();
        file.write_all_at(&piece, 0)?;
        file.sync_data()?;
        all.push(began.elapsed().as_nanos() as f64);
    }
    std::fs::remove_file(path)?;
    Ok(median(all).expect("there are some"))
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
        };
        let [lines, blocks] = costs(case.name, 2 << 20, (counted(7), counted(3)));
        assert_eq!(
            (lines.name.as_str(), lines.value),
            ("etcd_1client_lines_per_mib", 2000.0)
        );
        assert_eq!(blocks.value, 20.0);
    }
}
