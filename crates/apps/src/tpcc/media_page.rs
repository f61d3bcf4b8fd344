//! The run with slow memory and slow disks as one page: the paper's numbers beside ours, then rates and counts by medium.

use forebay_harness::{Chart, Page, Row, Section, Series, Table};

use crate::machine;
use crate::page::all_numbers;
use crate::tpcc::contender::{CONTENDERS, Contender};
use crate::tpcc::media_paper::{self, SAID, USERS};
use crate::tpcc::medium::{MEDIA, Medium};
use crate::tpcc::pace::Pace;
use crate::tpcc::page::{chart_of, checked, verdict};
use crate::tpcc::results::{Metric, Results};

/// What stands beside the paper's Tinca and Classic: those two as printed, the same with the cleaner, and Forebay in
/// Tinca's place.
const BESIDE: [([Contender; 2], &str); 3] = [
    (
        [Contender::TincaWithoutJournal, Contender::Classic],
        "as printed, Tinca below ext4 without a journal",
    ),
    (
        [Contender::TincaCleaner, Contender::ClassicCleaner],
        "with the cleaner, both below data=journal",
    ),
    (
        [Contender::ForebayLate, Contender::ClassicCleaner],
        "Forebay for Tinca, the cleaner for Classic",
    ),
];

/// The kinds of memory in front of the SSD, as Figure 12b has them.
const MEMORIES: [Medium; 3] = [Medium::PcmSsd, Medium::SttRamSsd, Medium::NvdimmSsd];
/// The kinds of disk behind phase-change memory, as Figure 12a has them.
const DISKS: [Medium; 2] = [Medium::PcmSsd, Medium::PcmHdd];

/// The rows of the report, medium by medium, and how much slower each is on the HDD.
pub fn rows(results: &Results) -> Vec<Row> {
    let of_medium = |medium: Medium| results.of(medium).rows(&format!("tpcc_{}", medium.name()));
    let mut rows: Vec<Row> = MEDIA.into_iter().flat_map(of_medium).collect();
    let (ssd, hdd) = (results.of(Medium::PcmSsd), results.of(Medium::PcmHdd));
    rows.extend(CONTENDERS.into_iter().filter_map(|contender| {
        let ratio = hdd.ratio_to(&ssd, Metric::Rate, USERS, (contender, contender))?;
        let name = format!("tpcc_per_minute_{}_hdd_vs_ssd", contender.name());
        Some(Row::new(name, ratio, "x"))
    }));
    rows
}

pub fn page(results: &Results, rows: &[Row], complaints: &[String], pace: &Pace) -> Page {
    let mut sections = vec![
        beside(results),
        rates(results),
        counts(results),
        checked(results, complaints),
        Section {
            heading: "What differs from the paper".into(),
            paragraphs: own_differences()
                .into_iter()
                .chain(pace.differences())
                .collect(),
            ..Section::default()
        },
        Section {
            is_folded: true,
            ..all_numbers(rows)
        },
    ];
    sections.retain(|section| !section.paragraphs.is_empty() || !section.is_empty());
    let mut lead = vec![
        "Tinca's Figures 12a and 12b with a database server instead of a model of one: TPC-C on MariaDB on ext4, on disks \
         that forebay-lab serves as Classic, Tinca and Forebay, each as slow as PCM, STT-RAM or an NVDIMM in front of an SSD or an \
         HDD. The delays are the lab's own, really waited for, while the database is measured; not while it is loaded, warmed up \
         and checked."
            .to_owned(),
        pace.told(),
        machine::told(),
    ];
    if pace.is_quick {
        lead.push("A quick run: counts are good to about a tenth; rates say which is more, and hardly by how much.".to_owned());
    }
    Page {
        title: "TPC-C on MariaDB, on slow disks behind slow memory".into(),
        lead,
        sections,
        ..Page::default()
    }
}

fn own_differences() -> Vec<String> {
    vec![
        "The files behind the caches lie in memory, so that a disk takes what its emulation says and nothing else. A long wait is \
         slept, but for the last 20 µs; what is shorter than 50 µs is spun, as are all delays of the memory: so they take \
         processors from the server, which on the paper's machine had sixteen."
            .into(),
        "Forebay is served by forebay-lab, too, which alone can be made slow: its library with LRU and both watermarks at the whole \
         pool, writing back what leaves, as the cleaner does it for the others."
            .into(),
    ]
}

fn beside(results: &Results) -> Section {
    let ours = BESIDE.map(|(_, title)| title.to_owned());
    let mut table = Table {
        columns: ["Tinca §5.4.1", "paper"]
            .map(String::from)
            .into_iter()
            .chain(ours)
            .chain(std::iter::once("verdict".to_owned()))
            .collect(),
        ..Table::default()
    };
    for said in SAID {
        let ours = BESIDE.map(|(pair, _)| said.ours(results, pair));
        let values = std::iter::once(Some(said.value)).chain(ours);
        table.rows.push((said.title(), values.collect()));
        let holds = ours[0].map(|ours| said.holds(ours));
        let verdict = verdict(holds, results.can_judge_rates());
        table.remarks.push(verdict.to_owned());
    }
    Section {
        heading: "The paper's numbers beside ours".into(),
        paragraphs: vec![
            "Ratios of committed transactions a minute, each of one round, of which the median stands here. It holds if ours is \
             within a factor of 1.25 and at least half as far from 1 on the same side. The verdict is on the designs as printed, as \
             the paper's numbers are, with Tinca below an ext4 without a journal, where it gets as many writes as in the paper; \
             which is faster is told by the next two columns. Fewer than three rounds are not judged."
                .into(),
        ],
        tables: vec![("The paper's numbers and ours".into(), table)],
        ..Section::default()
    }
}

fn rates(results: &Results) -> Section {
    let chart = |media: &[Medium], title: &str| by_medium(results, Metric::Rate, media, title);
    let ratios = |media: &[Medium], title: &str| over_classic(results, media, title);
    Section::new(
        "Transactions a minute (Figures 12a and 12b)",
        "Committed transactions of 20 users, all five kinds, and the same over Classic's as printed. Server, users, kernel and daemon \
         share the processors: ratios are the result, not the numbers. Lines across bars are the paper's.",
        [
            chart(&DISKS, "12a: transactions a minute by the kind of disk"),
            ratios(&DISKS, "12a: over Classic's"),
            chart(
                &MEMORIES,
                "12b: transactions a minute by the kind of memory",
            ),
            ratios(&MEMORIES, "12b: over Classic's"),
        ],
    )
}

fn counts(results: &Results) -> Section {
    let chart = |metric, title: &str| by_medium(results, metric, &MEDIA, title);
    Section::new(
        "What was counted",
        "Lines, fences and disk blocks of a committed transaction, exact as the daemons count them. They hardly depend on how slow the \
         media are; where they do, the server had more or less time to write back meanwhile.",
        [
            chart(Metric::Lines, "Lines a transaction"),
            chart(Metric::Fences, "Fences a transaction"),
            chart(Metric::DiskBlocks, "Disk blocks a transaction"),
            chart(Metric::Committed, "Transactions that were measured"),
        ],
    )
}

/// A bar for each contender on each medium, with the spread of the rounds; none without a number.
fn by_medium(results: &Results, metric: Metric, media: &[Medium], title: &str) -> Option<Chart> {
    let series = CONTENDERS.map(|contender| {
        let ends = |medium: &Medium| results.of(*medium).range(metric, USERS, contender);
        Series {
            values: each(
                media,
                |results| results.median(metric, USERS, contender),
                results,
            ),
            ranges: media.iter().map(ends).collect(),
            ..of_contender(contender)
        }
    });
    chart(title, metric.unit(), media, series.into())
}

/// Transactions a minute over Classic's as printed.
fn over_classic(results: &Results, media: &[Medium], title: &str) -> Option<Chart> {
    let series = CONTENDERS.map(|contender| {
        let pair = (contender, Contender::Classic);
        let is_papers = contender == Contender::TincaWithoutJournal;
        let said = |medium: &Medium| media_paper::ratio(*medium).filter(|_| is_papers);
        let ratio = |results: &Results| results.ratio(Metric::Rate, USERS, pair);
        Series {
            values: each(media, ratio, results),
            said: media.iter().map(said).collect(),
            ..of_contender(contender)
        }
    });
    chart(title, "× Classic", media, series.into())
}

fn each(
    media: &[Medium],
    value: impl Fn(&Results) -> Option<f64>,
    results: &Results,
) -> Vec<Option<f64>> {
    let values = media.iter().map(|medium| value(&results.of(*medium)));
    values.collect()
}

/// In the colour of its design; faint with the cleaner.
fn of_contender(contender: Contender) -> Series {
    let colour = match contender {
        Contender::Forebay | Contender::ForebayLate => 0,
        Contender::Classic | Contender::ClassicCleaner => 1,
        Contender::Tinca | Contender::TincaCleaner => 2,
        Contender::TincaWithoutJournal => 3,
        Contender::Bare => 5,
    };
    Series {
        name: contender.title().into(),
        colour: Some(colour),
        is_faint: contender.has_cleaner(),
        ..Series::default()
    }
}

fn chart(title: &str, unit: &str, media: &[Medium], series: Vec<Series>) -> Option<Chart> {
    let places = media.iter().map(|medium| medium.title().into()).collect();
    chart_of(title, unit, ("memory, disk", places), series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::figure::Figure;
    use crate::tpcc::results::Measured;
    use crate::tpcc::results::tests::measured;

    fn results(rounds: usize) -> Results {
        let mut results = Results::default();
        let media = (0..rounds).flat_map(|round| DISKS.map(|medium| (round, medium)));
        for (round, medium) in media {
            for contender in Figure::Media.usual() {
                results.add(Measured {
                    medium: Some(medium),
                    ..measured(*contender, USERS, round, 1)
                });
            }
        }
        results
    }

    fn html_of(results: &Results) -> String {
        let pace = Pace::new(Figure::Media, true);
        page(results, &rows(results), &[], &pace).to_html()
    }

    #[test]
    fn two_rounds_say_nothing_of_rates() {
        let html = html_of(&results(2));
        assert!(html.contains("not judged") && !html.contains("does not hold"));
    }

    #[test]
    fn the_paper_stands_beside_ours_medium_by_medium() {
        let results = results(3);
        let rows = rows(&results);
        let value = |name: &str| rows.iter().find(|row| row.name == name)?.value;
        assert_eq!(
            value("tpcc_pcm_hdd_per_minute_20users_classic"),
            Some(6000.0)
        );
        let pair = "tpcc_pcm_ssd_per_minute_20users_forebay_late_vs_tinca_cleaner";
        assert_eq!(value(pair), Some(1.0));
        assert_eq!(value("tpcc_per_minute_tinca_cleaner_hdd_vs_ssd"), Some(1.0));
        assert_eq!(value("tpcc_nvdimm_ssd_lines_20users_classic"), None);
        let html = html_of(&results);
        for wanted in [
            "12a, PCM, HDD: Tinca ÷ Classic",
            "<td>2.80</td><td>1.00</td><td>1.00</td><td>1.00</td>",
            "does not hold",
            "not measured",
            "class=\"said\"",
            "Nothing was wrong.",
        ] {
            assert!(html.contains(wanted), "{wanted} in {html}");
        }
    }
}
