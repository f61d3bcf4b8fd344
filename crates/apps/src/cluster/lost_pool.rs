//! A node dies and its pool with it, as a power cut does to one in `/dev/shm`. Forebay has to refuse the old data on the
//! node's disk and say what to do; done so, by the guide, everything that was acknowledged is there. The control starts the
//! member on its old data all the same.

use std::time::Duration;

use forebay_harness::{Result, check_interrupt};

use crate::cluster::brick::{Site, Trust};
use crate::cluster::engine::Engine;
use crate::cluster::hosts::Hosts;
use crate::cluster::kind::Kind;
use crate::cluster::load::{Checked, Plan, check, run_for};
use crate::cluster::manifest::Manifest;

const CLIENTS: usize = 4;
const LOAD: Duration = Duration::from_millis(1500);
/// The one whose pool is lost, and the one that is down meanwhile where a quorum goes on without it.
const VICTIM: usize = 2;
const ABSENT: usize = 3;

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct LostPool {
    /// Whether Forebay refused the stale data by its exit code for that, and said what to do.
    pub is_refused: bool,
    /// What it said instead, or nothing.
    pub complaint: Option<String>,
    /// After the member was wiped and added anew.
    pub readmitted: Checked,
    /// Where its old data was accepted; none where the engine did not settle then.
    pub accepted: Option<Checked>,
}

/// Both, each in a cluster of its own.
pub fn lost_pool(site: &Site, kind: Kind, make: impl Fn() -> Box<dyn Engine>) -> Result<LostPool> {
    let mut lost = LostPool::default();
    by_the_guide(site, kind, &mut *make(), &mut lost)?;
    lost.accepted = all_the_same(site, kind, &mut *make())?;
    Ok(lost)
}

fn by_the_guide(
    site: &Site,
    kind: Kind,
    engine: &mut dyn Engine,
    lost: &mut LostPool,
) -> Result<()> {
    let mut hosts = Hosts::start(site, kind, engine.nodes())?;
    let manifest = until_it_is_lost(&mut hosts, engine)?;
    match hosts.restart(VICTIM, Trust::Marks) {
        Ok(()) => {
            lost.complaint = Some("Forebay served it".into());
            return Ok(());
        }
        Err(error) => {
            let said = error.to_string();
            lost.is_refused = is_refusal(&said);
            lost.complaint = (!lost.is_refused).then_some(said);
        }
    }
    let others: Vec<usize> = hosts.numbers().filter(|other| *other != VICTIM).collect();
    for other in others.iter().copied() {
        if !hosts.is_alive(other) {
            hosts.restart(other, Trust::Marks)?;
            engine.restart(&hosts, other)?;
        }
    }
    engine.settle(&hosts, &others)?;
    hosts.wipe(VICTIM)?;
    hosts.restart(VICTIM, Trust::Marks)?;
    engine.readmit(&hosts, VICTIM)?;
    let all: Vec<usize> = hosts.numbers().collect();
    engine.settle(&hosts, &all)?;
    lost.readmitted = check_at(&hosts, engine, &manifest)?;
    Ok(())
}

fn all_the_same(site: &Site, kind: Kind, engine: &mut dyn Engine) -> Result<Option<Checked>> {
    let mut hosts = Hosts::start(site, kind, engine.nodes())?;
    let manifest = until_it_is_lost(&mut hosts, engine)?;
    hosts.restart(VICTIM, Trust::Nothing)?;
    engine.restart(&hosts, VICTIM)?;
    let mut back = vec![VICTIM];
    if engine.has_quorum() {
        hosts.restart(ABSENT, Trust::Marks)?;
        engine.restart(&hosts, ABSENT)?;
        back.push(ABSENT);
    }
    let settled = engine.settle(&hosts, &back);
    check_interrupt()?;
    match settled {
        Ok(()) => check_at(&hosts, engine, &manifest).map(Some),
        Err(_) => Ok(None),
    }
}

/// Everything is on all disks; then some more is acknowledged by those that are up, and the victim dies with its pool.
/// Where there is a quorum, no other that knows of it is up either.
fn until_it_is_lost(hosts: &mut Hosts<'_>, engine: &mut dyn Engine) -> Result<Manifest> {
    engine.start(hosts)?;
    let network = hosts.network()?;
    let nothing = Manifest::default();
    let plan = Plan {
        workload: engine.stale_workload(),
        first_client: 0,
        before: &nothing,
    };
    let before = run_for(&network, engine.clients(hosts, CLIENTS)?, plan, LOAD)?.manifest;
    engine.stop(hosts, VICTIM)?;
    hosts.put_away(VICTIM)?;
    hosts.restart(VICTIM, Trust::Marks)?;
    engine.restart(hosts, VICTIM)?;
    let all: Vec<usize> = hosts.numbers().collect();
    engine.settle(hosts, &all)?;
    if engine.has_quorum() {
        hosts.kill(ABSENT)?;
        let up: Vec<usize> = all.iter().copied().filter(|up| *up != ABSENT).collect();
        engine.settle(hosts, &up)?;
    }
    let clients = engine.clients(hosts, CLIENTS)?;
    let first_client = match engine.stale_workload().is_rewritten() {
        true => plan.first_client,
        false => CLIENTS,
    };
    let plan = Plan {
        before: &before,
        first_client,
        ..plan
    };
    let done = run_for(&network, clients, plan, LOAD)?;
    hosts.kill(VICTIM)?;
    if engine.has_quorum() {
        let alive: Vec<usize> = hosts.numbers().filter(|one| hosts.is_alive(*one)).collect();
        for other in alive {
            hosts.kill(other)?;
        }
    }
    hosts.lose_pool(VICTIM)?;
    Ok(done.manifest)
}

/// What clients are answered.
fn check_at(hosts: &Hosts<'_>, engine: &dyn Engine, manifest: &Manifest) -> Result<Checked> {
    let mut clients = engine.clients(hosts, 1)?;
    let network = hosts.network()?;
    check(&network, &mut clients[0], engine.stale_workload(), manifest)
}

/// Whether Forebay refused to start, as [marks](../../../../docs/inside/marks.md) have it, and named the way out.
fn is_refusal(said: &str) -> bool {
    ["exit status: 8", "it is stale", "empty it and add it anew"]
        .iter()
        .all(|part| said.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_exit_code_and_says_what_to_do() {
        let said = "nsenter ended before it was ready: exit status: 8; its log:\nforebay: files:/n2/data: it is stale: its newest \
                    data is in the pool f7 (/dev/shm/p), open since 2026-11-26 17:26:56 UTC, which is not this one; bring that pool \
                    back; a member of a replicated engine: empty it and add it anew; to go on without what is missing: --accept-stale";
        assert!(is_refusal(said));
        assert!(!is_refusal(&said.replace("status: 8", "status: 1")));
        assert!(!is_refusal(
            "nsenter ended before it was ready: exit status: 8"
        ));
    }
}
