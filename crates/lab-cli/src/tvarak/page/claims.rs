//! What became of the paper's claims, and what ways divided at run time come to.

use forebay_harness::{Section, Table};
use forebay_tvarak::claims::{Metric, Value};
use forebay_tvarak::figures::adaptive::{GAIN_ASKED, Gain, SLOWER_MOST};
use forebay_tvarak::figures::judge::Judgement;
use forebay_tvarak::figures::reasons;
use forebay_tvarak::figures::verdict::Verdict;

use crate::tvarak::numbers::Report;

/// Those that do not hold for all to see, the others folded.
pub fn sections(report: &Report<'_>) -> Vec<Section> {
    let of = |verdict| {
        let became = move |judgement: &&Judgement| judgement.verdict == verdict;
        report.judgements.iter().filter(became).collect::<Vec<_>>()
    };
    let not_held = of(Verdict::NotHeld);
    let first = match not_held.is_empty() {
        true => Section {
            heading: "Claims that do not hold".into(),
            paragraphs: vec!["None of those that were measured.".into()],
            ..Section::default()
        },
        false => Section {
            heading: "Claims that do not hold".into(),
            paragraphs: vec![
                "Ratios, the paper's and ours; of several workloads ours are the least and the most. More, less and the same say \
                 how the first compares with the second."
                    .into(),
            ],
            tables: vec![("Not held".into(), table(report, &not_held))],
            ..Section::default()
        },
    };
    let others = [
        (
            Verdict::Indistinguishable,
            "Orders of two that cannot be told apart",
        ),
        (Verdict::Held, "Held"),
        (Verdict::NotMeasured, "Not measured"),
    ];
    let others = others.into_iter().filter_map(|(verdict, name)| {
        let judgements = of(verdict);
        let caption = format!("{name}: {}", judgements.len());
        (!judgements.is_empty()).then(|| (caption, table(report, &judgements)))
    });
    let second = Section {
        heading: "Claims that hold, and those of which nobody can tell".into(),
        paragraphs: vec![
            "Two cannot be told apart that differ by no more than a thousandth, or than the root mean square of what seeds differ by: such an \
             order neither holds nor is violated."
                .into(),
        ],
        tables: others.collect(),
        is_folded: true,
        ..Section::default()
    };
    vec![first, second]
}

/// Ways divided at run time beside fixed ones.
pub fn adaptive(report: &Report<'_>) -> Option<Section> {
    let row = |gain: &Gain| {
        let best = gain.best.as_ref().map(|(_, best)| *best);
        let numbers = vec![Some(gain.over_fixed), best, gain.won_back()];
        (gain.workload.as_str().to_owned(), numbers)
    };
    let remark = |gain: &Gain| {
        let best = gain.best.as_ref();
        let best = best.map_or(String::new(), |(what, _)| format!("Best: {what}."));
        match gain.is_good() {
            true => best,
            false => format!("{best} Not as good as asked.").trim().to_owned(),
        }
    };
    let columns = [
        "workload",
        "adaptive",
        "best fixed",
        "won back",
        "which, and whether it is as good as asked",
    ];
    let table = Table {
        columns: columns.map(str::to_owned).into(),
        rows: report.gains.iter().map(row).collect(),
        remarks: report.gains.iter().map(remark).collect(),
    };
    (!report.gains.is_empty()).then(|| Section {
        heading: "Ways divided at run time".into(),
        paragraphs: vec![format!(
            "Runtimes over that of TVARAK with Table 3's ways. The best fixed ways are those of Figures 9 and 10. Where these win more than a \
             hundredth, {GAIN_ASKED} of it is asked to be won back, and nowhere may a run take longer by more than {SLOWER_MOST}."
        )],
        tables: vec![("Over Table 3's ways".into(), table)],
        is_folded: true,
        ..Section::default()
    })
}

fn table(report: &Report<'_>, judgements: &[&Judgement]) -> Table {
    let columns = [
        "claim",
        "paper",
        "to",
        "ours",
        "to",
        "off by",
        "what it says, and why",
    ];
    let row = |judgement: &&Judgement| {
        let (least, most) = match judgement.claim.value {
            Value::Exactly(value) | Value::MoreThan(value) | Value::AtLeast(value) => {
                (Some(value), None)
            }
            Value::UpTo(value) => (None, Some(value)),
            Value::Between(least, most) => (Some(least), Some(most)),
            Value::Same | Value::More | Value::Less => (None, None),
        };
        let ours = judgement.range();
        let ours_most = ours
            .map(|(_, most)| most)
            .filter(|_| judgement.ours.len() > 1);
        let off_by = Some(judgement.off_by).filter(|off_by| *off_by > 1e-6);
        let numbers = vec![least, most, ours.map(|(least, _)| least), ours_most, off_by];
        (
            format!("{} (§{})", judgement.claim.id, judgement.claim.section),
            numbers,
        )
    };
    Table {
        columns: columns.map(str::to_owned).into(),
        rows: judgements.iter().map(row).collect(),
        remarks: judgements
            .iter()
            .map(|judgement| remark(report, judgement))
            .collect(),
    }
}

fn remark(report: &Report<'_>, judgement: &Judgement) -> String {
    let claim = judgement.claim;
    let metric = match claim.metric {
        Metric::Runtime => "runtime",
        Metric::Energy => "energy by Table 3",
        Metric::EnergyWithCores => "energy with cores and DRAM",
        Metric::NvmAccesses => "accesses to NVM",
        Metric::CacheAccesses => "accesses to caches",
        Metric::LinesRead => "lines read",
        Metric::LinesBesides => "lines read besides",
        Metric::LinesWritten => "lines written",
        Metric::Area => "area",
    };
    let said = match claim.value {
        Value::Exactly(_)
        | Value::UpTo(_)
        | Value::Between(..)
        | Value::MoreThan(_)
        | Value::AtLeast(_) => format!("{} of", claim.value),
        Value::Same | Value::More | Value::Less => claim.value.to_string(),
    };
    let mut text = format!(
        "{}: {metric} of {} is {said} that of {}",
        claim.workload, claim.design, claim.over
    )
    .replace("times of that", "times that");
    text += ".";
    match judgement.verdict {
        Verdict::Held => {}
        Verdict::NotHeld | Verdict::Indistinguishable => {
            text += &format!(" Ours: {}. {}", judgement.numbers(), report.why(judgement))
        }
        Verdict::NotMeasured => text += &format!(" Not measured: {}.", judgement.why_not),
    }
    if let Some(note) = reasons::note(claim) {
        text = format!("{} {note}", text.trim_end());
    }
    text.trim_end().to_owned()
}
