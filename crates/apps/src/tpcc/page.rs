//! The run as one page: the paper's numbers beside ours, then figure by figure, then what differs.

use forebay_harness::{Chart, Page, Row, Section, Series, Table};

use crate::machine;
use crate::page::all_numbers;
use crate::tpcc::contender::{CONTENDERS, Contender};
use crate::tpcc::mix::KINDS;
use crate::tpcc::pace::Pace;
use crate::tpcc::paper::{self, Of, SAID};
use crate::tpcc::results::{Metric, Results};

/// What stands beside the paper's numbers.
const BESIDE: [Contender; 4] = [
    Contender::TincaWithoutJournal,
    Contender::Tinca,
    Contender::Forebay,
    Contender::ForebayLate,
];

pub fn page(results: &Results, rows: &[Row], complaints: &[String], pace: &Pace) -> Page {
    let mut sections = vec![
        beside(results),
        rates(results),
        lines(results),
        blocks(results),
        hits(results),
        checked(results, complaints),
        differs(pace),
        Section {
            is_folded: true,
            ..all_numbers(rows)
        },
    ];
    sections.retain(|section| !section.paragraphs.is_empty() || !section.is_empty());
    let mut lead = vec![
        "Tinca's Figures 8 and 12 with a database server instead of a model of one: TPC-C on MariaDB on ext4 \
         (data=journal), on a disk that Forebay, Classic or Tinca serves, all over the same file and with as much cache \
         in memory; and on that file alone."
            .to_owned(),
        pace.told(),
        machine::told(),
    ];
    if pace.is_quick {
        lead.push(
            "A quick run: lines and fences of a transaction are good to about a tenth; disk blocks and transactions a minute say \
             which is more, and hardly by how much."
                .to_owned(),
        );
    }
    Page {
        title: "TPC-C on MariaDB, on disks behind NVM caches".into(),
        lead,
        sections,
        ..Page::default()
    }
}

fn beside(results: &Results) -> Section {
    let mut table = Table {
        columns: std::iter::once("Tinca §5.2.2, §5.4.2".to_owned())
            .chain(["paper", "Classic"].map(String::from))
            .chain(BESIDE.map(|contender| contender.title().to_owned()))
            .chain(std::iter::once("verdict".to_owned()))
            .collect(),
        ..Table::default()
    };
    for said in SAID {
        // Of Classic there is one number, whatever stands beside it.
        let is_classic = said.of == Of::Classic;
        let classic = said
            .ours(results, Contender::Classic)
            .filter(|_| is_classic);
        let others = BESIDE.map(|contender| said.ours(results, contender).filter(|_| !is_classic));
        let values = [Some(said.value), classic].into_iter().chain(others);
        let values = values.collect();
        table.rows.push((said.title(), values));
        let holds = classic.or(others[0]).map(|ours| said.holds(ours));
        let is_judged = said.metric != Metric::Rate || results.can_judge_rates();
        table.remarks.push(verdict(holds, is_judged).to_owned());
    }
    Section {
        heading: "The paper's numbers beside ours".into(),
        paragraphs: vec![
            "In the paper Tinca takes the place of ext4's journal: a block is written once. Here ext4 is the kernel's own, and \
             a disk behind it learns of no transaction. So Tinca stands here twice. Below an ext4 without a journal it gets as \
             many writes as in the paper; that pair is to be compared with the paper, but after a crash such a file system \
             may be wrong. Below data=journal it gets every block twice, like Classic, and what remains is what its small \
             entries save."
                .into(),
            "It holds if ours is within a factor of 1.25, a ratio is at least half as far from 1 on the same side, and of hits \
             the misses are near, too. The verdict is on Classic, or on Tinca below an ext4 without a \
             journal. Ratios are over Classic below data=journal. Rates of fewer than three rounds are not judged."
                .into(),
        ],
        tables: vec![("The paper's numbers and ours".into(), table)],
        ..Section::default()
    }
}

/// Whether a number of the paper's holds, in words.
pub fn verdict(holds: Option<bool>, is_judged: bool) -> &'static str {
    match holds {
        None => "not measured",
        Some(_) if !is_judged => "not judged",
        Some(true) => "holds",
        Some(false) => "does not hold",
    }
}

fn rates(results: &Results) -> Section {
    let users = results.users();
    let row = |contender: Contender| {
        let committed = users
            .iter()
            .map(|users| results.median(Metric::Committed, *users, contender));
        (contender.title().to_owned(), committed.collect())
    };
    let all = results.all();
    let takes_part = |contender: &Contender| all.iter().any(|one| one.contender == *contender);
    let taking_part = CONTENDERS.into_iter().filter(takes_part);
    let measured = Table {
        columns: std::iter::once("committed, of so many users".to_owned())
            .chain(users.iter().map(u32::to_string))
            .collect(),
        rows: taking_part.map(row).collect(),
        ..Table::default()
    };
    let mut section = Section::new(
        "Transactions a minute (Figure 8a)",
        "Committed transactions of all five kinds. Server, users, kernel and daemon share the processors, and the memory has \
         no delays: ratios between contenders are the result, not the numbers. Lines across bars are the paper's. The last \
         table has how many transactions there were in a round: of few, what the server writes back in the meantime is a large \
         share of all other counts.",
        [
            by_users(
                results,
                Metric::Rate,
                "Transactions a minute",
                "transactions/min",
            ),
            over_classic(
                results,
                Metric::Rate,
                "Transactions a minute over Classic's",
            ),
        ],
    );
    section
        .tables
        .push(("Transactions that were measured".into(), measured));
    section
}

fn lines(results: &Results) -> Section {
    Section::new(
        "Cache lines and fences (Figure 8b)",
        "Lines that were flushed, or sent past the processor's cache, for a committed transaction, and fences. Everything that \
         the cache does in the meantime is in it: fills, evictions, write-back.",
        [
            by_users(results, Metric::Lines, "Lines a transaction", "lines"),
            over_classic(results, Metric::Lines, "Lines over Classic's"),
            by_users(results, Metric::Fences, "Fences a transaction", "fences"),
        ],
    )
}

fn blocks(results: &Results) -> Section {
    Section::new(
        "Disk blocks (Figure 8c)",
        "Blocks of 4 KiB written to the disk below the cache for a committed transaction; for the bare disk, those that ext4 \
         wrote. Below it what ext4 wrote to each disk: the journal's blocks, and later the same to their places.",
        [
            by_users(
                results,
                Metric::DiskBlocks,
                "Disk blocks a transaction",
                "blocks",
            ),
            over_classic(results, Metric::DiskBlocks, "Disk blocks over Classic's"),
            by_users(
                results,
                Metric::FileSystemBlocks,
                "Blocks that ext4 wrote, a transaction",
                "blocks",
            ),
        ],
    )
}

fn hits(results: &Results) -> Section {
    Section::new(
        "Write hits (Figure 12c)",
        "Of the blocks that ext4 wrote, the share that the cache had. The paper has 20 users. Forebay does not count them; a \
         miss is what it has or let go and did not read from the disk.",
        [by_users(
            results,
            Metric::WriteHits,
            "Write hits",
            "share of blocks written",
        )],
    )
}

/// Whether anything was wrong, and what was done.
pub fn checked(results: &Results, complaints: &[String]) -> Section {
    let row = |kind| {
        let counts = results.all().iter().map(|measured| measured.done.of(kind));
        let count = counts.sum::<u64>();
        (kind, count)
    };
    let counts = KINDS.map(row);
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let share = |count: u64| (all > 0).then(|| count as f64 * 100.0 / all as f64);
    let sum = |of: fn(&crate::tpcc::drive::Done) -> u64| {
        let sum: u64 = results
            .all()
            .iter()
            .map(|measured| of(&measured.done))
            .sum();
        vec![Some(sum as f64), share(sum)]
    };
    let mut table = Table {
        columns: ["transactions", "committed", "% of all"]
            .map(String::from)
            .to_vec(),
        ..Table::default()
    };
    for (kind, count) in counts {
        let values = vec![Some(count as f64), share(count)];
        table.rows.push((kind.title().into(), values));
    }
    table.rows.push((
        "rolled back, as they should".into(),
        sum(|done| done.rolled_back),
    ));
    table.rows.push((
        "called off by the server and tried again".into(),
        sum(|done| done.conflicts),
    ));
    let mut paragraphs = vec![
        "After each turn the server was killed, the file system mounted anew and the server started again; then TPC-C's \
         consistency conditions 1 to 4, 8 and 9 were checked, and that there were exactly as many orders and payments as had been \
         acknowledged."
            .to_owned(),
    ];
    match complaints.is_empty() {
        true => paragraphs.push("Nothing was wrong.".into()),
        false => paragraphs.extend(complaints.iter().cloned()),
    }
    Section {
        heading: "Was everything right?".into(),
        paragraphs,
        tables: vec![("In the measured time, all turns".into(), table)],
        ..Section::default()
    }
}

fn both_forms() -> String {
    "“Forebay” is what forebay serve does by itself: it begins to write back when half the pool is dirty, and evicts by SIEVE. \
     “Write-back late” has LRU and both watermarks at the whole pool, as the designs write back what leaves."
        .into()
}

fn differs(pace: &Pace) -> Section {
    Section {
        heading: "What differs from the paper".into(),
        paragraphs: std::iter::once(both_forms())
            .chain(pace.differences())
            .collect(),
        ..Section::default()
    }
}

/// A bar for each contender under so many users, with the spread of the rounds and the paper's numbers.
fn by_users(results: &Results, metric: Metric, title: &str, unit: &str) -> Option<Chart> {
    let users = results.users();
    let series = CONTENDERS.map(|contender| {
        let each =
            |value: &dyn Fn(u32) -> Option<f64>| users.iter().map(|users| value(*users)).collect();
        Series {
            name: contender.title().into(),
            values: each(&|users| results.median(metric, users, contender)),
            spreads: each(&|users| {
                let (least, most) = results.range(metric, users, contender)?;
                Some((most - least) / 2.0)
            }),
            said: each(&|users| paper::absolute(metric, users, contender)),
            ..Series::default()
        }
    });
    chart(title, unit, &users, series.into())
}

/// The same over Classic.
fn over_classic(results: &Results, metric: Metric, title: &str) -> Option<Chart> {
    let users = results.users();
    let series = CONTENDERS.map(|contender| {
        let pair = (contender, Contender::Classic);
        let is_tinca = [Contender::Tinca, Contender::TincaWithoutJournal].contains(&contender);
        let each =
            |value: &dyn Fn(u32) -> Option<f64>| users.iter().map(|users| value(*users)).collect();
        Series {
            name: contender.title().into(),
            values: each(&|users| {
                results
                    .ratio(metric, users, pair)
                    .filter(|_| contender != Contender::Classic)
            }),
            said: each(&|users| paper::ratio(metric, users).filter(|_| is_tinca)),
            ..Series::default()
        }
    });
    chart(title, "× Classic", &users, series.into())
}

fn chart(title: &str, unit: &str, users: &[u32], series: Vec<Series>) -> Option<Chart> {
    let places = users.iter().map(u32::to_string).collect();
    chart_of(title, unit, ("users", places), series)
}

/// None without a number. Places have a name together, and one each.
pub fn chart_of(
    title: &str,
    unit: &str,
    (x_label, places): (&str, Vec<String>),
    series: Vec<Series>,
) -> Option<Chart> {
    let mut values = series.iter().flat_map(|series| &series.values);
    values.any(Option::is_some).then(|| Chart {
        title: title.into(),
        x_label: x_label.into(),
        y_label: unit.into(),
        places,
        series,
        ..Chart::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::figure::Figure;
    use crate::tpcc::results::tests::measured;

    #[test]
    fn the_paper_stands_beside_ours_and_what_was_wrong_is_said() {
        let mut results = Results::default();
        results.add(measured(Contender::Classic, 5, 0, 4));
        results.add(measured(Contender::TincaWithoutJournal, 5, 0, 1));
        let complaints = ["condition 4: district 1.2: two lines short".to_owned()];
        let html = page(
            &results,
            &results.rows("tpcc"),
            &complaints,
            &Pace::new(Figure::Users, true),
        )
        .to_html();
        assert!(html.contains("8b, 5 users: Tinca ÷ Classic"), "{html}");
        assert!(
            html.contains("two lines short") && !html.contains("Nothing was wrong"),
            "{html}"
        );
        // Lines over Classic's: 0.25 where the paper has 0.298.
        assert!(
            html.contains("<td>0.298</td><td>–</td><td>0.250</td>"),
            "{html}"
        );
        assert!(html.contains("class=\"said\""), "{html}");
    }
}
