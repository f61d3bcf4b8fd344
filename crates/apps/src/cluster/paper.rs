//! What the text of Tinca's paper says of its clusters (§5.3, Figures 10 and 11), and whether ours is like it.

use forebay_harness::Table;

use crate::cluster::kind::Kind;
use crate::cluster::results::Results;
use crate::tpcc::paper::ratio_holds;

/// Tinca over Classic.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Said {
    title: &'static str,
    /// The number that it is to be compared with.
    name: &'static str,
    value: f64,
    /// Times of fewer than three rounds are not judged.
    is_rate: bool,
}

/// TeraGen takes 29.0, 54.1 and 59.7 % less time than Classic with one, two and three replicas, and with three 80.7 % fewer
/// lines and 38.3 % fewer blocks. File server 1.8, mail 1.5, proxy 1.201 times as fast; of what these write to memory and
/// disks there are only plots.
const SAID: [Said; 8] = [
    rate("10a, TeraGen, 1 replica: speed", "teragen_r1", 1.0 / 0.71),
    rate("10a, TeraGen, 2 replicas: speed", "teragen_r2", 1.0 / 0.459),
    rate("10a, TeraGen, 3 replicas: speed", "teragen_r3", 1.0 / 0.403),
    count(
        "10b, TeraGen, 3 replicas: lines a MiB",
        "teragen_r3_lines_per_mib",
        0.193,
    ),
    count(
        "10c, TeraGen, 3 replicas: disk blocks a MiB",
        "teragen_r3_disk_blocks_per_mib",
        0.617,
    ),
    rate(
        "11a, Fileserver, 2 replicas: speed",
        "gluster_fileserver_r2_full_cache",
        1.8,
    ),
    rate(
        "11a, Webproxy, 2 replicas: speed",
        "gluster_webproxy_r2_full_cache",
        1.201,
    ),
    rate(
        "11a, Varmail, 2 replicas: speed",
        "gluster_mail_r2_full_cache",
        1.5,
    ),
];

const fn rate(title: &'static str, name: &'static str, value: f64) -> Said {
    Said {
        title,
        name,
        value,
        is_rate: true,
    }
}

const fn count(title: &'static str, name: &'static str, value: f64) -> Said {
    Said {
        is_rate: false,
        ..rate(title, name, value)
    }
}

/// What stands beside the paper's Tinca; the verdict is on the first.
const BESIDE: [Kind; 3] = [
    Kind::LabTincaWithoutJournal,
    Kind::LabTinca,
    Kind::ServeJournal,
];
const JUDGED_ROUNDS: usize = 3;

/// The paper's numbers and ours; none without any of ours.
pub fn table(results: &Results) -> Option<Table> {
    let ours = |said: &Said, kind| results.ratio(said.name, (kind, Kind::LabClassic));
    let is_measured = |said: &Said| BESIDE.iter().any(|kind| ours(said, *kind).is_some());
    if !SAID.iter().any(is_measured) {
        return None;
    }
    let row = |said: &Said| {
        let beside = BESIDE.map(|kind| ours(said, kind));
        let values = std::iter::once(Some(said.value)).chain(beside);
        (said.title.to_owned(), values.collect())
    };
    let verdict = |said: &Said| {
        let is_judged = !said.is_rate || results.rounds_of(said.name) >= JUDGED_ROUNDS;
        match ours(said, BESIDE[0]) {
            None => "not measured",
            Some(_) if !is_judged => "not judged",
            Some(ours) if ratio_holds(ours, said.value) => "holds",
            Some(_) => "does not hold",
        }
        .to_owned()
    };
    let columns = ["over Classic", "paper"].map(String::from).into_iter();
    Some(Table {
        columns: columns
            .chain(BESIDE.map(|kind| kind.title().to_owned()))
            .chain(["verdict".to_owned()])
            .collect(),
        rows: SAID.iter().map(row).collect(),
        remarks: SAID.iter().map(verdict).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::results::Number;

    #[test]
    fn ours_stand_beside_the_paper_s_and_few_rounds_judge_no_rate() {
        let mut results = Results::default();
        let mut add = |kind, name: &str, value, unit| {
            let number = Number {
                name: name.into(),
                value,
                unit,
                is_compared: true,
            };
            results.add(kind, 0, number);
        };
        for (kind, lines, rate) in [
            (Kind::LabClassic, 100.0, 10.0),
            (Kind::LabTincaWithoutJournal, 20.0, 24.0),
        ] {
            add(kind, "teragen_r3_lines_per_mib", lines, "lines/MiB");
            add(kind, "teragen_r3", rate, "MiB/s");
        }
        let table = table(&results).expect("measured");
        assert_eq!(table.rows[3].1[..3], [Some(0.193), Some(0.2), None]);
        let verdicts: Vec<&str> = table.remarks.iter().map(String::as_str).collect();
        assert_eq!(verdicts[2..5], ["not judged", "holds", "not measured"]);
        assert!(super::table(&Results::default()).is_none());
    }
}
