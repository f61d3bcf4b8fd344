//! What AutoBahn's text says of small writes to private files, beside the report of `forebay-lab files`.

use serde_json::Value;

use super::claim::Claim;

/// Inodes of 256 bytes that share a page of ext4, and so the most threads that contend for one `buffer_head`.
const INODES_OF_A_PAGE: u64 = 16;

/// Of Figures 1, 3, 13, 14 and 15.
pub(super) fn claims(report: &Value) -> Vec<Claim> {
    let mut claims = vec![small_appends(report), sizes_of_inodes(report)];
    let list = report.get("paper").and_then(Value::as_array);
    claims.extend(list.into_iter().flatten().filter_map(compared));
    claims
}

/// A number of the micro-benchmark, with the report's own word on why it cannot be judged.
fn compared(value: &Value) -> Option<Claim> {
    let what = value.get("what")?.as_str()?;
    let figure = ["Figure 13", "Figure 14", "Figure 15"]
        .into_iter()
        .find(|figure| what.contains(figure))?;
    let ours = value.get("autobahn").and_then(Value::as_f64);
    let obstacle = match value.get("not_judged") {
        Some(Value::Null) => None,
        Some(why) => why.as_str().map(str::to_owned),
        None => Some("the report does not say on what machine it was made".to_owned()),
    };
    let what = what.split_once(": ").map_or(what, |(_, what)| what);
    Some(Claim::number(figure, what, value.get("paper")?.as_f64()?, ours).unless(obstacle))
}

/// Why this machine cannot show what many processors do to a shared `buffer_head`.
fn few_processors(report: &Value) -> Option<String> {
    let machine = report.get("machine");
    let cores = machine.and_then(|machine| machine.get("cores")?.as_u64());
    match cores {
        None => Some("the report does not say on what machine it was made".into()),
        Some(cores) if cores < INODES_OF_A_PAGE => Some(format!(
            "{INODES_OF_A_PAGE} inodes of 256 bytes share a page, for which {cores} processors hardly contend"
        )),
        Some(_) => None,
    }
}

/// Figure 1: with more threads appends of 256 bytes gain less than those of 4 KiB, without a sync.
fn small_appends(report: &Value) -> Claim {
    let rows = || rows(report, "writes").filter(|row| is(row, "pattern", "append"));
    let gain = |unit_bytes: u64| {
        let rows =
            rows().filter(|row| row.get("unit_bytes").and_then(Value::as_u64) == Some(unit_bytes));
        let mut rates: Vec<(u64, f64)> = rows
            .filter_map(|row| {
                Some((
                    row.get("threads")?.as_u64()?,
                    row.get("writes_s")?.as_f64()?,
                ))
            })
            .collect();
        rates.sort_by_key(|(threads, _)| *threads);
        let ((_, one), (_, most)) = (rates.first()?, rates.last()?);
        (rates.len() > 1).then(|| most / one)
    };
    let what = "the most threads ÷ one, unsynced: appends of 256 B gain less than of 4 KiB";
    Claim::order("Figure 1", what, gain(256).zip(gain(4096))).unless(few_processors(report))
}

/// Figure 3: the larger an inode, the faster.
fn sizes_of_inodes(report: &Value) -> Claim {
    let rate = |bytes: u64| {
        let mut rows = rows(report, "inodes");
        let row = rows.find(|row| row.get("inode_bytes").and_then(Value::as_u64) == Some(bytes));
        row?.get("writes_s")?.as_f64()
    };
    let what = "ext4, unsynced appends of 256 B a second: inodes of 256 B fewer than of 2 KiB";
    Claim::order("Figure 3", what, rate(256).zip(rate(2048))).unless(few_processors(report))
}

/// The file system's rows without a sync, of one list of the report.
fn rows<'a>(report: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    let rows = report.get(list).and_then(Value::as_array);
    let rows = rows.into_iter().flatten();
    rows.filter(|row| is(row, "contender", "disk, unsynced"))
}

fn is(row: &Value, name: &str, value: &str) -> bool {
    row.get(name).and_then(Value::as_str) == Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elsewhere::Verdict;
    use serde_json::json;

    fn report(cores: u64) -> Value {
        let write = |unit_bytes: u64, threads: u64, writes_s: f64| json!({"contender": "disk, unsynced", "pattern": "append", "unit_bytes": unit_bytes, "threads": threads, "writes_s": writes_s});
        let inode = |contender: &str, bytes: u64, writes_s: f64| json!({"contender": contender, "inode_bytes": bytes, "writes_s": writes_s});
        let paper = |what: &str, autobahn: Value, not_judged: Value| json!({"what": what, "paper": 2.5, "autobahn": autobahn, "not_judged": not_judged});
        json!({
            "machine": {"cores": cores},
            "writes": [write(256, 1, 10.0), write(256, 32, 40.0), write(4096, 1, 5.0), write(4096, 32, 60.0)],
            "inodes": [inode("autobahn", 256, 1.0), inode("disk, unsynced", 256, 90.0), inode("disk, unsynced", 2048, 80.0)],
            "paper": [
                paper("§6.2.1, Figure 13: appends", json!(2.2), json!(null)),
                paper("§6.2.2, Figure 14: speed", json!(2.2), json!("32 threads")),
                paper("§6.2.2, Figure 14: latency", json!(null), json!(null)),
                {"what": "§6.2.3, Figure 15: older", "paper": 1.6, "autobahn": 1.6},
                {"what": "no figure", "paper": 1.6}, 3,
            ],
        })
    }

    #[test]
    fn the_reports_numbers_are_judged_where_it_says_that_they_can_be() {
        let words = |claims: &[Claim]| -> Vec<(&'static str, String)> {
            let words = claims
                .iter()
                .map(|claim| (claim.figure, claim.verdict.words()));
            words.collect()
        };
        let claims = claims(&report(32));
        let wanted = [
            ("Figure 1", "holds"),
            ("Figure 3", "does not hold"),
            ("Figure 13", "holds"),
            ("Figure 14", "not judged: 32 threads"),
            ("Figure 14", "not measured"),
            (
                "Figure 15",
                "not judged: the report does not say on what machine it was made",
            ),
        ];
        assert_eq!(
            words(&claims),
            wanted.map(|(figure, words)| (figure, words.to_owned()))
        );
        assert_eq!(
            (claims[2].what.as_str(), claims[2].ours.as_str()),
            ("appends", "2.20")
        );
    }

    #[test]
    fn contention_of_many_is_not_judged_on_few_processors() {
        for claim in &claims(&report(2))[..2] {
            assert!(
                matches!(&claim.verdict, Verdict::NotJudged(why) if why.contains("2 processors")),
                "{claim:?}"
            );
        }
        for claim in claims(&json!(null)) {
            assert_eq!(claim.verdict, Verdict::NotMeasured);
        }
    }
}
