//! What the paper's text says of its results: each sentence of its §4 with a number or an order, and the counts of its §3.
//!
//! The plots are not text: nothing is read off one, and nothing is interpolated. A runtime that is 3 % longer is
//! entered as the ratio 1.03. Sentences that say a thing again are entered where they say it first.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::change::Change;
use crate::design::Design;

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A number.
    Exactly(f64),
    /// The largest of several.
    UpTo(f64),
    /// The smallest and the largest of several.
    Between(f64, f64),
    /// More than this.
    MoreThan(f64),
    /// This or more, with nothing allowed below it: an order of magnitude is ten times.
    AtLeast(f64),
    /// The same, or nearly.
    Same,
    /// The first has more of it than the second.
    More,
    /// The first has less of it than the second.
    Less,
}

impl Value {
    /// Whether it is an order, and no number.
    pub fn is_order(self) -> bool {
        matches!(self, Same | More | Less)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exactly(value) => write!(to, "{value} times"),
            UpTo(value) => write!(to, "up to {value} times"),
            Between(least, most) => write!(to, "{least} to {most} times"),
            MoreThan(value) => write!(to, "more than {value} times"),
            AtLeast(value) => write!(to, "at least {value} times"),
            Same => to.write_str("the same as"),
            More => to.write_str("more than"),
            Less => to.write_str("less than"),
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Time.
    Runtime,
    /// Energy by Table 3: caches, controllers, NVM.
    Energy,
    /// With what is reconstructed of DRAM and cores: which of the two the paper's is, it does not say.
    EnergyWithCores,
    /// Accesses to NVM.
    NvmAccesses,
    /// Accesses to all caches.
    CacheAccesses,
    /// Lines of NVM read for one line that is read.
    LinesRead,
    /// Lines of NVM read for one line that is written back.
    LinesBesides,
    /// Lines of NVM written for one line that is written back, itself included.
    LinesWritten,
    /// Bytes of the chip.
    Area,
}

/// What is measured, or what it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A design as Table 3 has it.
    Of(Design),
    /// One with a change.
    With(Design, Change),
    /// TVARAK with each larger number of ways of redundancy that Figure 10 has.
    MoreRedundancyWays,
    /// TVARAK with each larger number of ways of diffs.
    MoreDiffWays,
    /// The shared cache.
    Llc,
}

impl fmt::Display for Side {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Side::Of(design) => to.write_str(design.as_str()),
            Side::With(design, change) => write!(to, "{} {change}", design.as_str()),
            Side::MoreRedundancyWays => to.write_str("tvarak with more ways of redundancy"),
            Side::MoreDiffWays => to.write_str("tvarak with more ways of diffs"),
            Side::Llc => to.write_str("llc"),
        }
    }
}

impl Serialize for Side {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// One sentence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Its name.
    pub id: &'static str,
    /// The section.
    pub section: &'static str,
    /// The workloads, as the command names them; `fio-seq` is both of them, `all` those that write, `presented` those of §4.8, `one line` and
    /// `none` are no workload. With `over`, each of the first is compared with each other one of the second, as far as a figure has
    /// them; `applications` are Redis, the trees and N-Store.
    pub workload: &'static str,
    /// The design that it is of.
    pub design: Side,
    /// What that is compared with.
    pub over: Side,
    /// What is compared.
    pub metric: Metric,
    /// How.
    pub value: Value,
}

const fn claim(
    [id, section, workload]: [&'static str; 3],
    [design, over]: [Side; 2],
    metric: Metric,
    value: Value,
) -> Claim {
    Claim {
        id,
        section,
        workload,
        design,
        over,
        metric,
        value,
    }
}

const BASE: Side = Side::Of(Design::Baseline);
const NAIVE: Side = Side::Of(Design::Naive);
const EV: Side = Side::Of(Design::LineSums);
const CACHED: Side = Side::Of(Design::Cached);
const TVARAK: Side = Side::Of(Design::Tvarak);
const OBJECT: Side = Side::Of(Design::TxbObject);
const PAGE: Side = Side::Of(Design::TxbPage);
const TVARAK_OBJECT: [Side; 2] = [TVARAK, OBJECT];
const OBJECT_PAGE: [Side; 2] = [OBJECT, PAGE];
const TVARAK_BASE: [Side; 2] = [TVARAK, BASE];
const OBJECT_BASE: [Side; 2] = [OBJECT, BASE];
const PAGE_BASE: [Side; 2] = [PAGE, BASE];
const MORE_REDUNDANCY: [Side; 2] = [Side::MoreRedundancyWays, TVARAK];
const MORE_DIFFS: [Side; 2] = [Side::MoreDiffWays, TVARAK];

/// TVARAK with so many ways of redundancy.
const fn redundancy(ways: u64) -> Side {
    Side::With(Design::Tvarak, Change::RedundancyWays(ways))
}

/// TVARAK with so many ways of diffs.
const fn diffs(ways: u64) -> Side {
    Side::With(Design::Tvarak, Change::DiffWays(ways))
}

/// Two designs with the same change.
const fn both([one, other]: [Design; 2], change: Change) -> [Side; 2] {
    [Side::With(one, change), Side::With(other, change)]
}

/// A design in software and TVARAK with eight DIMMs.
const fn dimms(design: Design) -> [Side; 2] {
    both([design, Design::Tvarak], Change::Dimms(8))
}

/// The same with NVM as fast as DRAM.
const fn as_dram(design: Design) -> [Side; 2] {
    both([design, Design::Tvarak], Change::AsDram)
}

const PAGE_OBJECT: [Design; 2] = [Design::TxbPage, Design::TxbObject];

use Metric::{
    Area, CacheAccesses, Energy, EnergyWithCores, LinesBesides, LinesRead, LinesWritten,
    NvmAccesses, Runtime,
};
use Value::{AtLeast, Between, Exactly, Less, More, MoreThan, Same, UpTo};

/// Everything, section by section.
#[rustfmt::skip]
pub const CLAIMS: &[Claim] = &[
    claim(["naive-write-reads", "3.2", "one line"], [NAIVE, BASE], LinesBesides, Exactly(3.0)),
    claim(["naive-write-lines", "3.2", "one line"], [NAIVE, BASE], LinesWritten, Exactly(3.0)),
    claim(["naive-read", "3.3", "one line"], [NAIVE, BASE], LinesRead, Exactly(65.0)),
    claim(["ev-read", "3.3", "one line"], [EV, BASE], LinesRead, Exactly(2.0)),
    claim(["ev-write-reads", "3.4", "one line"], [EV, BASE], LinesBesides, Exactly(4.0)),
    claim(["ev-write-lines", "3.4", "one line"], [EV, BASE], LinesWritten, Exactly(4.0)),
    claim(["tvarak-write-lines", "3.4", "one line"], TVARAK_BASE, LinesBesides, UpTo(3.0)),
    claim(["area", "3.5", "none"], [TVARAK, Side::Llc], Area, Exactly(0.002)),
    claim(["nstore-object-tvarak", "4.1", "nstore"], [OBJECT, TVARAK], Runtime, Between(1.33, 1.53)),
    claim(["nstore-page-tvarak", "4.1", "nstore"], [PAGE, TVARAK], Runtime, Between(2.8, 4.9)),
    claim(["object-page", "4.1", "all"], OBJECT_PAGE, Runtime, Less),
    claim(["tvarak-object", "4.1", "all"], TVARAK_OBJECT, Runtime, Less),
    claim(["tvarak-page", "4.1", "all"], [TVARAK, PAGE], Runtime, Less),
    claim(["redis-set-tvarak", "4.2", "redis-set"], TVARAK_BASE, Runtime, Exactly(1.03)),
    claim(["redis-get-tvarak", "4.2", "redis-get"], TVARAK_BASE, Runtime, Exactly(1.03)),
    claim(["redis-set-object", "4.2", "redis-set"], OBJECT_BASE, Runtime, Exactly(1.5)),
    claim(["redis-set-page", "4.2", "redis-set"], PAGE_BASE, Runtime, Exactly(3.0)),
    claim(["redis-get-object", "4.2", "redis-get"], OBJECT_BASE, Runtime, UpTo(1.05)),
    claim(["redis-get-page", "4.2", "redis-get"], PAGE_BASE, Runtime, UpTo(1.28)),
    claim(["redis-energy-tvarak", "4.2", "redis"], TVARAK_OBJECT, Energy, Less),
    claim(["redis-energy-object", "4.2", "redis"], OBJECT_PAGE, Energy, Less),
    claim(["redis-energy-cores-tvarak", "4.2", "redis"], TVARAK_OBJECT, EnergyWithCores, Less),
    claim(["redis-energy-cores-object", "4.2", "redis"], OBJECT_PAGE, EnergyWithCores, Less),
    claim(["redis-set-nvm", "4.2", "redis-set"], TVARAK_OBJECT, NvmAccesses, More),
    claim(["redis-set-caches", "4.2", "redis-set"], [OBJECT, TVARAK], CacheAccesses, More),
    claim(["redis-set-page-caches", "4.2", "redis-set"], PAGE_BASE, CacheAccesses, MoreThan(200.0)),
    claim(["redis-set-page-nvm", "4.2", "redis-set"], [PAGE, OBJECT], NvmAccesses, More),
    claim(["redis-get-nvm-object", "4.2", "redis-get"], TVARAK_OBJECT, NvmAccesses, More),
    claim(["redis-get-nvm-page", "4.2", "redis-get"], [TVARAK, PAGE], NvmAccesses, More),
    claim(["tree-insert-tvarak", "4.3", "tree-insert"], TVARAK_BASE, Runtime, UpTo(1.015)),
    claim(["tree-insert-rbtree-most", "4.3", "rbtree-insert over tree-insert"], TVARAK_BASE, Runtime, More),
    claim(["tree-insert-object", "4.3", "tree-insert"], OBJECT_BASE, Runtime, Exactly(1.43)),
    claim(["tree-insert-page", "4.3", "tree-insert"], PAGE_BASE, Runtime, Exactly(2.71)),
    claim(["ctree-balanced-tvarak", "4.3", "ctree-balanced"], TVARAK_BASE, Runtime, Exactly(1.05)),
    claim(["btree-balanced-tvarak", "4.3", "btree-balanced"], TVARAK_BASE, Runtime, Exactly(1.05)),
    claim(["tree-balanced-object", "4.3", "tree-balanced"], OBJECT_BASE, Runtime, Exactly(1.2)),
    claim(["tree-balanced-page", "4.3", "tree-balanced"], [PAGE, OBJECT], Runtime, More),
    claim(["nstore-read-heavy-tvarak", "4.4", "nstore-read-heavy"], TVARAK_BASE, Runtime, Exactly(1.27)),
    claim(["nstore-update-heavy-tvarak", "4.4", "nstore-update-heavy"], TVARAK_BASE, Runtime, Exactly(1.41)),
    claim(["nstore-object", "4.4", "nstore"], OBJECT_BASE, Runtime, Between(1.7, 2.17)),
    claim(["nstore-page", "4.4", "nstore"], PAGE_BASE, Runtime, Between(3.64, 7.0)),
    claim(["nstore-redis", "4.4", "nstore over redis"], TVARAK_BASE, Runtime, More),
    claim(["nstore-trees", "4.4", "nstore over tree"], TVARAK_BASE, Runtime, More),
    claim(["fio-seq-read-tvarak", "4.5", "fio-seq-read"], TVARAK_BASE, Runtime, Same),
    claim(["fio-seq-write-tvarak", "4.5", "fio-seq-write"], TVARAK_BASE, Runtime, Same),
    claim(["fio-rand-read-tvarak", "4.5", "fio-rand-read"], TVARAK_BASE, Runtime, Exactly(1.02)),
    claim(["fio-rand-write-tvarak", "4.5", "fio-rand-write"], TVARAK_BASE, Runtime, Exactly(1.33)),
    claim(["fio-seq-write-object", "4.5", "fio-seq-write"], TVARAK_OBJECT, Runtime, Less),
    claim(["fio-seq-write-page", "4.5", "fio-seq-write"], [TVARAK, PAGE], Runtime, Less),
    claim(["fio-rand-write-object", "4.5", "fio-rand-write"], TVARAK_OBJECT, Runtime, Less),
    claim(["fio-rand-write-page", "4.5", "fio-rand-write"], [TVARAK, PAGE], Runtime, Less),
    claim(["fio-seq-read-object", "4.5", "fio-seq-read"], OBJECT_BASE, Runtime, Same),
    claim(["fio-seq-read-page", "4.5", "fio-seq-read"], PAGE_BASE, Runtime, Same),
    claim(["fio-rand-read-object", "4.5", "fio-rand-read"], OBJECT_BASE, Runtime, Same),
    claim(["fio-rand-read-page", "4.5", "fio-rand-read"], PAGE_BASE, Runtime, Same),
    claim(["fio-rand-write-energy", "4.5", "fio-rand-write"], TVARAK_OBJECT, Energy, More),
    claim(["fio-rand-write-nvm", "4.5", "fio-rand-write"], TVARAK_OBJECT, NvmAccesses, More),
    claim(["fio-rand-write-caches", "4.5", "fio-rand-write"], [OBJECT, TVARAK], CacheAccesses, More),
    claim(["stream-tvarak", "4.6", "stream"], TVARAK_BASE, Runtime, Between(1.06, 1.21)),
    claim(["stream-object", "4.6", "stream"], OBJECT_BASE, Runtime, Between(8.0, 13.0)),
    claim(["stream-page", "4.6", "stream"], PAGE_BASE, Runtime, Between(19.0, 33.0)),
    claim(["stream-applications-tvarak", "4.6", "stream over applications"], TVARAK_BASE, Runtime, More),
    claim(["stream-applications-object", "4.6", "stream over applications"], OBJECT_BASE, Runtime, More),
    claim(["stream-applications-page", "4.6", "stream over applications"], PAGE_BASE, Runtime, More),
    claim(["stream-copy-most-tvarak", "4.6", "stream-copy over stream"], TVARAK_BASE, Runtime, More),
    claim(["stream-triad-least-tvarak", "4.6", "stream over stream-triad"], TVARAK_BASE, Runtime, More),
    claim(["stream-copy-most-object", "4.6", "stream-copy over stream"], OBJECT_BASE, Runtime, More),
    claim(["stream-triad-least-object", "4.6", "stream over stream-triad"], OBJECT_BASE, Runtime, More),
    claim(["stream-copy-most-page", "4.6", "stream-copy over stream"], PAGE_BASE, Runtime, More),
    claim(["stream-triad-least-page", "4.6", "stream over stream-triad"], PAGE_BASE, Runtime, More),
    claim(["choices-redis-ev", "4.7", "redis-set"], [EV, NAIVE], Runtime, Less),
    claim(["choices-redis-cached", "4.7", "redis-set"], [CACHED, EV], Runtime, Less),
    claim(["choices-redis-tvarak", "4.7", "redis-set"], [TVARAK, CACHED], Runtime, Less),
    claim(["choices-tree-ev", "4.7", "tree-insert"], [EV, NAIVE], Runtime, Less),
    claim(["choices-tree-cached", "4.7", "tree-insert"], [CACHED, EV], Runtime, Less),
    claim(["choices-tree-tvarak", "4.7", "tree-insert"], [TVARAK, CACHED], Runtime, Less),
    claim(["choices-stream-ev", "4.7", "stream"], [EV, NAIVE], Runtime, Less),
    claim(["choices-stream-cached", "4.7", "stream"], [CACHED, EV], Runtime, Less),
    claim(["choices-stream-tvarak", "4.7", "stream"], [TVARAK, CACHED], Runtime, Less),
    claim(["choices-fio-seq-ev", "4.7", "fio-seq"], [EV, NAIVE], Runtime, Less),
    claim(["choices-fio-seq-cached", "4.7", "fio-seq"], [CACHED, EV], Runtime, Less),
    claim(["choices-fio-seq-tvarak", "4.7", "fio-seq"], [TVARAK, CACHED], Runtime, Less),
    claim(["choices-nstore-cached", "4.7", "nstore-balanced"], [CACHED, EV], Runtime, More),
    claim(["choices-nstore-tvarak", "4.7", "nstore-balanced"], [TVARAK, CACHED], Runtime, More),
    claim(["choices-fio-rand-write-cached", "4.7", "fio-rand-write"], [CACHED, EV], Runtime, More),
    claim(["choices-fio-rand-write-tvarak", "4.7", "fio-rand-write"], [TVARAK, CACHED], Runtime, More),
    claim(["ways-redis", "4.8", "redis-set"], [TVARAK, redundancy(1)], Runtime, Less),
    claim(["ways-ctree-1", "4.8", "ctree-insert"], [TVARAK, redundancy(1)], Runtime, Same),
    claim(["ways-stream-1", "4.8", "stream-triad"], [TVARAK, redundancy(1)], Runtime, Less),
    claim(["ways-fio-1", "4.8", "fio-rand-write"], [TVARAK, redundancy(1)], Runtime, Less),
    claim(["ways-nstore-1", "4.8", "nstore-balanced"], [TVARAK, redundancy(1)], Runtime, More),
    claim(["ways-redis-all", "4.8", "redis-set"], MORE_REDUNDANCY, Runtime, Same),
    claim(["ways-ctree", "4.8", "ctree-insert"], MORE_REDUNDANCY, Runtime, Same),
    claim(["ways-stream", "4.8", "stream-triad"], MORE_REDUNDANCY, Runtime, Less),
    claim(["ways-fio", "4.8", "fio-rand-write"], MORE_REDUNDANCY, Runtime, Less),
    claim(["ways-nstore", "4.8", "nstore-balanced"], MORE_REDUNDANCY, Runtime, More),
    claim(["diffs-redis", "4.8", "redis-set"], MORE_DIFFS, Runtime, Same),
    claim(["diffs-ctree", "4.8", "ctree-insert"], MORE_DIFFS, Runtime, Same),
    claim(["diffs-nstore", "4.8", "nstore-balanced"], MORE_DIFFS, Runtime, More),
    claim(["diffs-stream-4", "4.8", "stream-triad"], [diffs(4), TVARAK], Runtime, More),
    claim(["diffs-fio-4", "4.8", "fio-rand-write"], [diffs(4), TVARAK], Runtime, More),
    claim(["diffs-stream-6", "4.8", "stream-triad"], [diffs(6), diffs(4)], Runtime, Less),
    claim(["diffs-fio-6", "4.8", "fio-rand-write"], [diffs(6), diffs(4)], Runtime, Less),
    claim(["diffs-stream-8-4", "4.8", "stream-triad"], [diffs(8), diffs(4)], Runtime, Less),
    claim(["diffs-fio-8-4", "4.8", "fio-rand-write"], [diffs(8), diffs(4)], Runtime, Less),
    claim(["diffs-stream-6-1", "4.8", "stream-triad"], [diffs(6), TVARAK], Runtime, More),
    claim(["diffs-fio-6-1", "4.8", "fio-rand-write"], [diffs(6), TVARAK], Runtime, More),
    claim(["diffs-stream-8", "4.8", "stream-triad"], [diffs(8), TVARAK], Runtime, More),
    claim(["diffs-fio-8", "4.8", "fio-rand-write"], [diffs(8), TVARAK], Runtime, More),
    claim(["dimms-tvarak", "4.8", "presented"], dimms(Design::TxbObject), Runtime, More),
    claim(["dimms-object", "4.8", "presented"], both(PAGE_OBJECT, Change::Dimms(8)), Runtime, More),
    claim(["dram-tvarak", "4.8", "presented"], as_dram(Design::TxbObject), Runtime, More),
    claim(["dram-object", "4.8", "presented"], both(PAGE_OBJECT, Change::AsDram), Runtime, More),
    claim(["dimms-stream-object", "4.8", "stream"], dimms(Design::TxbObject), Runtime, AtLeast(10.0)),
    claim(["dimms-stream-page", "4.8", "stream"], dimms(Design::TxbPage), Runtime, AtLeast(10.0)),
    claim(["dram-stream-object", "4.8", "stream"], as_dram(Design::TxbObject), Runtime, AtLeast(10.0)),
    claim(["dram-stream-page", "4.8", "stream"], as_dram(Design::TxbPage), Runtime, AtLeast(10.0)),
];

/// All as a table for a terminal.
pub fn text() -> String {
    let mut text = format!("{:<30} {:<7} {:<29}", "claim", "section", "workload");
    for claim in CLAIMS {
        let value = claim.value;
        text += &format!(
            "\n{:<30} {:<7} {:<29} {:?} of {}: {value} {}",
            claim.id, claim.section, claim.workload, claim.metric, claim.design, claim.over
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Workload;
    use std::collections::HashSet;

    #[test]
    fn every_claim_has_a_name_of_its_own_and_a_section() {
        let names: HashSet<&str> = CLAIMS.iter().map(|claim| claim.id).collect();
        assert_eq!(names.len(), CLAIMS.len());
        assert!(
            CLAIMS
                .iter()
                .all(|claim| ["3", "4"].contains(&&claim.section[..1]))
        );
        assert_eq!(text().lines().count(), CLAIMS.len() + 1);
    }

    /// What this crate simulates and what the paper says of it go by the same names.
    #[test]
    fn workloads_that_are_simulated_are_named_as_the_command_does() {
        let unsaid = |workload: &Workload| {
            // Of these the text says that their trends are the same.
            use crate::programs::application::{Application, TreeLoad};
            matches!(
                workload,
                Workload::Program(Application::Tree(_, TreeLoad::Update | TreeLoad::Read))
            )
        };
        for workload in Workload::all().into_iter().filter(|all| !unsaid(all)) {
            let name = workload.as_str();
            let is_said = |claim: &Claim| {
                let meant = Workload::named(claim.workload);
                claim.workload.contains(name) || meant.is_ok_and(|all| all.contains(&workload))
            };
            assert!(CLAIMS.iter().any(is_said), "{name}");
        }
        let is_measured = |design: &crate::Design| design.is_of_the_evaluation();
        for design in crate::Design::ALL.into_iter().filter(is_measured) {
            let name = design.as_str();
            let is_named = |claim: &Claim| [claim.design, claim.over].contains(&Side::Of(design));
            assert!(CLAIMS.iter().any(is_named), "{name}");
        }
    }
}
