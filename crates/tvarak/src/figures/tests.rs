//! Plans, ratios and verdicts over numbers that were made up, and one figure that is run.

use crate::change::Change;
use crate::claims::CLAIMS;
use crate::design::Design;
use crate::figures::cell::Cell;
use crate::figures::judge::{Judge, workloads_of};
use crate::figures::measured::Measured;
use crate::figures::plan::{Figure, cells, seeds_of};
use crate::figures::results::{Results, Spread};
use crate::figures::sweep;
use crate::figures::verdict::Verdict;
use crate::measure::{Scope, measure};
use crate::name::Workload;
use crate::parameters::Parameters;

fn took(runtime_ns: u64) -> Measured {
    Measured {
        runtime_ns,
        ..Measured::default()
    }
}

/// Results in which each design takes what `of` says.
fn made_up(of: impl Fn(&Cell) -> u64) -> Results {
    let mut results = Results::new(3);
    for cell in cells(&Figure::ALL, 3) {
        results.put(&cell, took(of(&cell)));
    }
    results
}

fn verdict(results: &Results, id: &str, has_numbers: bool) -> (Verdict, f64) {
    let judge = Judge {
        results,
        workloads: None,
        has_numbers,
        parameters: &Parameters::paper(),
    };
    let claim = CLAIMS.iter().find(|claim| claim.id == id).expect("a claim");
    let judged = judge.claim(claim);
    (judged.verdict, judged.off_by)
}

#[test]
fn every_claim_finds_its_numbers_among_the_cells_of_all_figures() {
    let results = made_up(|_| 1000);
    let judge = Judge {
        results: &results,
        workloads: None,
        has_numbers: true,
        parameters: &Parameters::paper(),
    };
    for judged in judge.all() {
        // Numbers that were made up have runtimes alone; a ratio of nought and nought is none.
        assert!(
            !judged.ours.is_empty(),
            "{}: {}",
            judged.claim.id,
            judged.why_not
        );
    }
}

#[test]
fn a_number_holds_within_a_third_of_its_overhead_or_two_points() {
    let with = |tvarak, object| {
        made_up(move |cell| match cell.design {
            Design::Tvarak => tvarak,
            Design::TxbObject => object,
            _ => 1000,
        })
    };
    // 1.03: two points; 1.5: a third of a half.
    for (tvarak, object, verdicts) in [
        (1049, 1660, [Verdict::Held, Verdict::Held]),
        (1011, 1340, [Verdict::Held, Verdict::Held]),
        (1051, 1670, [Verdict::NotHeld, Verdict::NotHeld]),
        (1009, 1330, [Verdict::NotHeld, Verdict::NotHeld]),
    ] {
        let results = with(tvarak, object);
        let found =
            ["redis-set-tvarak", "redis-set-object"].map(|id| verdict(&results, id, true).0);
        assert_eq!(found, verdicts, "{tvarak} {object}");
    }
    let (found, off_by) = verdict(&with(1100, 1000), "redis-set-tvarak", true);
    assert_eq!(found, Verdict::NotHeld);
    assert!((off_by - 0.05).abs() < 1e-9, "{off_by}");
    assert_eq!(
        verdict(&with(1100, 1000), "redis-set-tvarak", false).0,
        Verdict::NotMeasured
    );
}

#[test]
fn the_same_is_within_two_points() {
    let same = made_up(|_| 1000);
    assert_eq!(
        verdict(&same, "fio-seq-read-tvarak", false).0,
        Verdict::Held
    );
    let slower = made_up(|cell| match cell.design {
        Design::TxbObject => 1021,
        _ => 1000,
    });
    assert_eq!(
        verdict(&slower, "fio-seq-read-object", false).0,
        Verdict::NotHeld
    );
}

#[test]
fn an_order_asks_for_more_than_a_thousandth_and_than_what_seeds_differ_by() {
    // Of TVARAK and of objects, whose seeds are so far from the mean, in millionths.
    let of = |object: u64, seeds_differ_by: u64| {
        made_up(move |cell| match (cell.design, cell.seed) {
            (Design::TxbObject, 1) => object - seeds_differ_by,
            (Design::TxbObject, 3) => object + seeds_differ_by,
            (Design::TxbObject, _) => object,
            _ => 1_000_000,
        })
    };
    for (object, seeds_differ_by, expected) in [
        (1_000_000, 0, Verdict::Indistinguishable),
        (1_000_900, 0, Verdict::Indistinguishable),
        (999_100, 0, Verdict::Indistinguishable),
        (1_001_100, 0, Verdict::Held),
        (998_800, 0, Verdict::NotHeld),
        (1_010_000, 20_000, Verdict::Indistinguishable),
        (990_000, 20_000, Verdict::Indistinguishable),
        (1_020_000, 20_000, Verdict::Held),
    ] {
        let results = of(object, seeds_differ_by);
        let found = verdict(&results, "fio-rand-write-object", false);
        assert_eq!(found.0, expected, "{object} {seeds_differ_by}");
        assert_eq!(found.1 > 0.0, expected == Verdict::NotHeld);
    }
}

/// What is missing hides nothing that is known, and nothing holds without it.
#[test]
fn one_workload_refutes_a_claim_whose_others_were_not_run() {
    let of = |id: &str, design: Design, runtimes: &[(&str, u64)]| {
        let mut results = Results::new(1);
        for cell in cells(&Figure::ALL, 1) {
            let is_of = |name: &str| cell.workload.as_str() == name;
            if let Some((_, runtime_ns)) = runtimes.iter().find(|(name, _)| is_of(name)) {
                let is_other = cell.design == design;
                results.put(&cell, took(if is_other { *runtime_ns } else { 1000 }));
            }
        }
        verdict(&results, id, true).0
    };
    let with = |id: &str, runtimes: &[(&str, u64)]| of(id, Design::TxbPage, runtimes);
    let (fast, slow) = (("redis-set", 900), ("ctree-insert", 1100));
    assert_eq!(with("tvarak-page", &[slow]), Verdict::NotMeasured);
    assert_eq!(with("tvarak-page", &[fast]), Verdict::NotHeld);
    assert_eq!(with("tvarak-page", &[slow, fast]), Verdict::NotHeld);
    // Of the largest of several, what is missing may be larger, and no less.
    let most = |ctree| {
        of(
            "tree-insert-tvarak",
            Design::Tvarak,
            &[("ctree-insert", ctree)],
        )
    };
    let [small, large] = [900, 1100].map(most);
    assert_eq!([small, large], [Verdict::NotMeasured, Verdict::NotHeld]);
    let pairs = [("stream-copy", 1100), ("stream-scale", 1200)];
    assert_eq!(with("stream-copy-most-page", &pairs), Verdict::NotHeld);
    let pairs = [("stream-copy", 1300), ("stream-scale", 1200)];
    assert_eq!(with("stream-copy-most-page", &pairs), Verdict::NotMeasured);
}

#[test]
fn by_orders_of_magnitude_is_ten_times_at_least() {
    let of = |page| {
        made_up(move |cell| match cell.design {
            Design::TxbPage => page,
            _ => 1000,
        })
    };
    assert_eq!(
        verdict(&of(10_000), "dimms-stream-page", true).0,
        Verdict::Held
    );
    assert_eq!(
        verdict(&of(9_990), "dimms-stream-page", true).0,
        Verdict::NotHeld
    );
}

#[test]
fn a_claim_of_several_workloads_holds_where_it_does_for_each() {
    let of = |worst: u64| {
        made_up(move |cell| match (cell.workload.as_str(), cell.design) {
            ("stream-add", Design::Tvarak) => worst,
            (_, Design::Tvarak) => 1100,
            _ => 1000,
        })
    };
    assert_eq!(verdict(&of(1100), "stream-tvarak", true).0, Verdict::Held);
    assert_eq!(
        verdict(&of(1400), "stream-tvarak", true).0,
        Verdict::NotHeld
    );
}

#[test]
fn ways_are_compared_with_those_of_table_3() {
    let results = made_up(|cell| match cell.change {
        Change::DiffWays(ways) => 1000 + ways,
        Change::RedundancyWays(ways) => 1000 - ways,
        _ => 1000,
    });
    assert_eq!(verdict(&results, "diffs-nstore", false).0, Verdict::Held);
    assert_eq!(verdict(&results, "ways-stream", false).0, Verdict::Held);
    assert_eq!(verdict(&results, "ways-nstore", false).0, Verdict::NotHeld);
    assert_eq!(verdict(&results, "diffs-fio-6", false).0, Verdict::NotHeld);
}

#[test]
fn what_was_not_run_is_not_measured_and_lines_are_counted() {
    let none = Results::new(1);
    assert_eq!(
        verdict(&none, "redis-set-tvarak", true).0,
        Verdict::NotMeasured
    );
    for counted in [
        "naive-read",
        "ev-read",
        "ev-write-reads",
        "ev-write-lines",
        "naive-write-lines",
        "tvarak-write-lines",
        "area",
    ] {
        assert_eq!(verdict(&none, counted, false).0, Verdict::Held, "{counted}");
    }
    // Ours verifies the old line by its page.
    assert_eq!(
        verdict(&none, "naive-write-reads", false),
        (Verdict::NotHeld, 63.0)
    );
}

#[test]
fn a_spread_is_the_root_of_the_mean_square() {
    let spread = Spread::of(&[1.0, 2.0, 3.0]).expect("numbers");
    assert_eq!((spread.mean, spread.seeds), (2.0, 3));
    assert!((spread.rms - (2.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    assert_eq!(Spread::of(&[]), None);
}

#[test]
fn a_cell_that_several_figures_need_is_there_once() {
    let all = cells(&Figure::ALL, 3);
    let mut names: Vec<String> = all.iter().map(Cell::name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all.len());
    let each: usize = Figure::ALL.iter().map(|figure| figure.cells(3).len()).sum();
    assert!(all.len() < each);
    // Without a controller the ways are the application's.
    let is_baseline_with_ways = |cell: &Cell| {
        cell.design == Design::Baseline
            && matches!(cell.change, Change::DiffWays(_) | Change::RedundancyWays(_))
    };
    assert!(!all.iter().any(is_baseline_with_ways));
}

#[test]
fn every_cell_can_be_built_at_every_scale() {
    let paper = Parameters::paper();
    for cell in cells(&Figure::ALL, 1).into_iter().chain(sweep::cells()) {
        for divisor in [1, 32] {
            let built = cell.parameters(&paper, divisor);
            assert!(built.is_ok(), "{}: {built:?}", cell.name());
        }
    }
}

#[test]
fn a_sweep_compares_each_variation_with_none() {
    let mut results = Results::new(1);
    for cell in sweep::cells() {
        let is_banks = cell
            .vary
            .as_ref()
            .is_some_and(|vary| vary.name == "nvm.banks");
        let runtime_ns = match cell.design {
            Design::Tvarak if is_banks => 1030,
            Design::TxbObject => 1020,
            _ => 1000,
        };
        results.put(&cell, took(runtime_ns));
    }
    let changed = |name: &str| {
        let mut variations = sweep::variations().into_iter();
        let vary = variations.find(|vary| vary.name == name);
        let vary = vary.expect("a variation");
        let changed = sweep::changed(&results, &Parameters::paper(), &vary);
        let of = |id: &str| {
            let mut changed = changed.iter();
            let found = changed.find(|judgement| judgement.claim.id == id)?;
            Some(found.verdict)
        };
        ["redis-set-tvarak", "fio-rand-write-object"].map(of)
    };
    assert_eq!(changed("cores.fill_buffers"), [None, None]);
    let now = [Verdict::Held, Verdict::NotHeld].map(Some);
    assert_eq!(changed("nvm.banks"), now);
}

/// What the plan leaves out it may leave out.
#[test]
fn stream_and_sequential_accesses_are_the_same_with_each_seed() {
    let parameters = Parameters::paper().scaled_down(64).expect("a scale");
    let runtime = |workload, seed| {
        let scope = Scope {
            workload,
            design: Design::Tvarak,
            seed,
            is_checked: false,
        };
        let outcome = measure(&parameters, &scope, &mut |_| true).expect("no bugs");
        Measured::new(&parameters, &outcome)
    };
    let fixed = |workload: &Workload| {
        seeds_of(*workload, 2).count() == 1 && !matches!(workload, Workload::Program(_))
    };
    for workload in Workload::all().into_iter().filter(fixed) {
        assert_eq!(
            runtime(workload, 1),
            runtime(workload, 2),
            "{}",
            workload.as_str()
        );
    }
}

#[test]
fn the_workloads_of_a_claim_are_those_of_its_name() {
    let of = |id: &str| {
        let claim = CLAIMS.iter().find(|claim| claim.id == id).expect("a claim");
        let names = workloads_of(claim).into_iter().map(Workload::as_str);
        names.collect::<Vec<_>>()
    };
    assert_eq!(of("choices-fio-seq-ev"), ["fio-seq-read", "fio-seq-write"]);
    assert_eq!(of("tree-insert-page").len(), 3);
    assert!(!of("object-page").contains(&"fio-rand-read"));
    assert_eq!(of("dimms-tvarak").len(), 8);
}

#[test]
fn workloads_are_compared_with_each_other_at_the_paper_s_size_alone() {
    let of = |scale: u64| {
        made_up(move |cell| match (cell.workload.as_str(), cell.design) {
            (_, Design::Baseline) => 1000,
            ("stream-copy", _) => 1500,
            ("stream-scale", _) => scale,
            ("stream-triad", _) => 1100,
            _ => 1300,
        })
    };
    for (scale, most, least) in [
        (1200, Verdict::Held, Verdict::Held),
        (1600, Verdict::NotHeld, Verdict::Held),
        (1050, Verdict::Held, Verdict::NotHeld),
    ] {
        let results = of(scale);
        assert_eq!(verdict(&results, "stream-copy-most-tvarak", true).0, most);
        assert_eq!(
            verdict(&results, "stream-triad-least-tvarak", true).0,
            least
        );
        let quick = verdict(&results, "stream-copy-most-tvarak", false).0;
        assert_eq!(quick, Verdict::NotMeasured);
    }
}
