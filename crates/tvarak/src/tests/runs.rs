//! Whole workloads, scaled down.

use crate::design::Design;
use crate::measure::{Scope, measure};
use crate::name::Workload;
use crate::parameters::Parameters;

fn outcome(workload: Workload, design: Design) -> crate::measure::Outcome {
    let mut parameters = Parameters::paper()
        .scaled_down(64)
        .expect("Table 3 can be scaled");
    // Memory and work less than that: what a run leaves is looked at byte by byte.
    parameters.fio.region_bytes.value /= 16;
    parameters.fio.work_bytes.value /= 16;
    parameters.stream.array_bytes.value /= 8;
    for (sourced, value) in [
        (&mut parameters.trees.instances, 3),
        (&mut parameters.trees.operations, 3000),
        (&mut parameters.redis.instances, 3),
        (&mut parameters.redis.requests, 3000),
        (&mut parameters.redis.keys, 1500),
        (&mut parameters.nstore.threads, 3),
        (&mut parameters.nstore.transactions, 6000),
        (&mut parameters.nstore.tuples, 900),
        (&mut parameters.nstore.log_nodes, 120),
    ] {
        sourced.value = value;
    }
    let scope = Scope {
        workload,
        design,
        seed: 3,
        is_checked: true,
    };
    measure(&parameters, &scope, &mut |_| true).expect("no bugs are planted")
}

#[test]
fn every_workload_leaves_what_it_wrote_and_its_protection() {
    for workload in Workload::all() {
        let is_synced =
            ["fio-seq-write", "redis-set", "nstore-balanced"].contains(&workload.as_str());
        let baseline = outcome(workload, Design::Baseline);
        assert_eq!(baseline.wrong_bytes, Some(0), "{}", workload.as_str());
        for design in [
            Design::Tvarak,
            Design::Adaptive,
            Design::TxbObject,
            Design::TxbPage,
            Design::Passes,
            Design::Regions,
            Design::RegionsSync,
        ] {
            // A sync takes long; three workloads stand for all.
            if design == Design::RegionsSync && !is_synced {
                continue;
            }
            let outcome = outcome(workload, design);
            let what = format!("{} on {}", workload.as_str(), design.as_str());
            assert_eq!(outcome.wrong_bytes, Some(0), "{what}");
            assert_eq!(outcome.misfitting_pages, Some(0), "{what}");
            assert_eq!(outcome.findings, crate::Findings::default(), "{what}");
            // The same work (§4): software executes more for redundancy.
            let [own, more] = [&baseline, &outcome].map(|outcome| outcome.counts.instructions);
            assert!(
                more == own || design.is_in_software() && more > own,
                "{what}"
            );
        }
    }
}

/// What makes the simulator faster may not change what it counts. A change of the model or of its parameters changes it.
#[test]
fn runs_take_what_they_took() {
    let expected = [
        (
            "redis-set",
            Design::Baseline,
            2_198_485,
            811_791,
            [3_093, 66],
        ),
        (
            "ctree-insert",
            Design::Tvarak,
            3_757_633,
            1_348_363,
            [10_346, 6_903],
        ),
        (
            "nstore-balanced",
            Design::Adaptive,
            481_511,
            188_624,
            [2_563, 1_501],
        ),
        (
            "fio-rand-write",
            Design::TxbPage,
            3_383_496,
            4_399_104,
            [377_401, 14_927],
        ),
        (
            "stream-triad",
            Design::Cached,
            124_547,
            69_632,
            [17_676, 4_039],
        ),
        (
            "fio-seq-write",
            Design::Regions,
            517_685,
            701_301,
            [12_910, 5_875],
        ),
    ];
    let found = expected.map(|(name, design, ..)| {
        let workload = Workload::named(name).expect("a workload")[0];
        let outcome = outcome(workload, design);
        let nvm = [outcome.nvm.all_reads(), outcome.nvm.all_writes()];
        (name, design, outcome.cycles, outcome.first_look_ups(), nvm)
    });
    assert_eq!(found, expected);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let workload = Workload::named("fio-rand-write").unwrap()[0];
    let runs = [(), ()].map(|()| outcome(workload, Design::Tvarak));
    assert_eq!(runs[0], runs[1]);
}
