//! What kills and lost pools came to, as rows and tables.

use std::collections::BTreeMap;

use forebay_harness::{Row, Table, TextTable};

use crate::cluster::kills::Round;
use crate::cluster::kind::Kind;
use crate::cluster::lost_pool::LostPool;

/// Rounds of one engine on one kind.
#[derive(Clone, Debug, Default)]
struct Killed {
    rounds: u64,
    nodes: u64,
    /// Nodes whose pool had nothing that the disk lacked: such a kill proves nothing.
    clean: u64,
    dirty_blocks_min: Option<u64>,
    acknowledged: u64,
    keys: u64,
    losses: u64,
}

/// All of a run.
#[derive(Debug, Default)]
pub struct Tally {
    killed: Vec<(&'static str, Kind, Killed)>,
    lost: Vec<(&'static str, Kind, LostPool)>,
}

impl Tally {
    pub fn add_round(&mut self, engine: &'static str, kind: Kind, round: &Round) {
        let known = self.killed.iter();
        let known = known
            .enumerate()
            .find(|(_, known)| (known.0, known.1) == (engine, kind));
        let at = known.map(|(at, _)| at).unwrap_or_else(|| {
            self.killed.push((engine, kind, Killed::default()));
            self.killed.len() - 1
        });
        let killed = &mut self.killed[at].2;
        killed.rounds += 1;
        killed.nodes += round.dirty_blocks.len() as u64;
        killed.acknowledged += round.acknowledged;
        killed.keys += round.checked.keys;
        killed.losses += round.checked.losses;
        for blocks in round.dirty_blocks.iter().copied() {
            killed.clean += u64::from(blocks == 0);
            let least = killed.dirty_blocks_min.unwrap_or(blocks);
            killed.dirty_blocks_min = Some(least.min(blocks));
        }
    }

    pub fn add_lost_pool(&mut self, engine: &'static str, kind: Kind, lost: LostPool) {
        self.lost.push((engine, kind, lost));
    }

    pub fn is_empty(&self) -> bool {
        self.killed.is_empty() && self.lost.is_empty()
    }

    /// The rows of the report.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut push = |name: String, value: u64, unit| {
            rows.push(Row::new(name, value as f64, unit));
        };
        for (engine, kind, killed) in &self.killed {
            let name = |what: &str| format!("{what}_{engine}_{}", kind.name());
            push(name("cluster_kill_rounds"), killed.rounds, "rounds");
            push(name("cluster_kill_losses"), killed.losses, "keys");
        }
        for (engine, kind, lost) in &self.lost {
            let name = |what: &str| format!("{engine}_{what}_{}", kind.name());
            push(
                name("lost_pool_refused"),
                u64::from(lost.is_refused),
                "refusals",
            );
            push(name("readmitted_losses"), lost.readmitted.losses, "keys");
            if let Some(accepted) = &lost.accepted {
                push(name("accept_stale_losses"), accepted.losses, "keys");
            }
        }
        let sum = |of: fn(&Killed) -> u64| self.killed.iter().map(|one| of(&one.2)).sum::<u64>();
        if !self.killed.is_empty() {
            push(
                "cluster_kill_rounds".into(),
                sum(|one| one.rounds),
                "rounds",
            );
            push(
                "cluster_kill_rounds_an_engine".into(),
                self.least_rounds(),
                "rounds",
            );
            push("cluster_killed_nodes".into(), sum(|one| one.nodes), "nodes");
            push("cluster_clean_pools".into(), sum(|one| one.clean), "pools");
        }
        let readmitted = self
            .lost
            .iter()
            .map(|one| one.2.readmitted.losses)
            .sum::<u64>();
        if !self.is_empty() {
            let losses = sum(|one| one.losses) + readmitted;
            push("cluster_losses".into(), losses, "keys");
        }
        rows
    }

    /// Of the engine that had the fewest, on all kinds together.
    fn least_rounds(&self) -> u64 {
        let mut rounds = BTreeMap::<&str, u64>::new();
        for (engine, _, killed) in &self.killed {
            *rounds.entry(engine).or_default() += killed.rounds;
        }
        rounds.into_values().min().unwrap_or(0)
    }

    /// A row for each engine and kind that was killed on.
    pub fn kill_table(&self) -> Table {
        let columns = [
            "killed on",
            "rounds",
            "nodes killed",
            "least dirty, blocks",
            "steps acknowledged",
            "keys read back",
            "losses",
        ];
        let row = |(engine, kind, killed): &(&str, Kind, Killed)| {
            let values = [
                Some(killed.rounds),
                Some(killed.nodes),
                killed.dirty_blocks_min,
                Some(killed.acknowledged),
                Some(killed.keys),
                Some(killed.losses),
            ];
            let values = values.map(|value| value.map(|value| value as f64));
            (format!("{engine}, {}", kind.title()), values.into())
        };
        Table {
            columns: columns.map(String::from).into(),
            rows: self.killed.iter().map(row).collect(),
            ..Table::default()
        }
    }

    /// A row for each engine and kind of which a pool was lost.
    pub fn lost_table(&self) -> TextTable {
        let columns = [
            "lost on",
            "the stale disk",
            "wiped and added anew",
            "control: --accept-stale",
        ];
        let losses = |checked: &crate::cluster::load::Checked| {
            format!("{} of {} keys lost", checked.losses, checked.keys)
        };
        let row = |(engine, kind, lost): &(&str, Kind, LostPool)| {
            let refused = if lost.is_refused {
                "refused"
            } else {
                "NOT refused"
            };
            vec![
                format!("{engine}, {}", kind.title()),
                refused.into(),
                losses(&lost.readmitted),
                lost.accepted
                    .as_ref()
                    .map_or("does not settle".into(), losses),
            ]
        };
        TextTable {
            columns: columns.map(String::from).into(),
            rows: self.lost.iter().map(row).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::load::Checked;

    fn round(dirty_blocks: Vec<u64>, losses: u64) -> Round {
        Round {
            dirty_blocks,
            checked: Checked {
                keys: 100,
                losses,
                example: None,
            },
            acknowledged: 1000,
        }
    }

    #[test]
    fn kills_and_losses_are_added_up() {
        let mut tally = Tally::default();
        tally.add_round("etcd", Kind::Mount, &round(vec![7], 0));
        tally.add_round("etcd", Kind::Mount, &round(vec![3, 0], 1));
        tally.add_round("etcd", Kind::Serve, &round(vec![9], 0));
        tally.add_round("hdfs", Kind::Serve, &round(vec![9], 0));
        let lost = LostPool {
            is_refused: true,
            readmitted: Checked {
                keys: 50,
                losses: 2,
                example: None,
            },
            ..LostPool::default()
        };
        tally.add_lost_pool("etcd", Kind::Mount, lost);
        let rows = tally.rows();
        let value = |name: &str| rows.iter().find(|row| row.name == name)?.value;
        assert_eq!(value("cluster_kill_rounds"), Some(4.0));
        assert_eq!(value("cluster_kill_rounds_an_engine"), Some(1.0));
        assert_eq!(value("cluster_killed_nodes"), Some(5.0));
        assert_eq!(value("cluster_clean_pools"), Some(1.0));
        assert_eq!(value("cluster_losses"), Some(3.0));
        assert_eq!(value("cluster_kill_rounds_etcd_mount"), Some(2.0));
        assert_eq!(value("etcd_lost_pool_refused_mount"), Some(1.0));
        assert_eq!(tally.kill_table().rows[0].1[2], Some(0.0));
        assert_eq!(tally.lost_table().rows[0][2], "2 of 50 keys lost");
        assert_eq!(Tally::default().rows(), []);
    }
}
