//! What became of the claims of TVARAK's text in the simulator's report, and of its bugs in that of `tvarak bugs`.

use serde_json::Value;

use super::claim::{Claim, Verdict};

/// The claims of its figures, as the report judges them.
pub(super) fn claims(report: &Value) -> Vec<Claim> {
    let list = report.get("claims").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(claim).collect()
}

fn claim(value: &Value) -> Option<Claim> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let id = text("claim")?;
    let verdict = match text("verdict")? {
        "held" => Verdict::Holds,
        "not held" => Verdict::DoesNotHold,
        "not measured" => Verdict::NotMeasured,
        other => Verdict::NotJudged(other.to_owned()),
    };
    let ours = text("ours").filter(|ours| !ours.is_empty());
    Some(Claim {
        figure: figure(text("section")?, id)?,
        what: id.to_owned(),
        paper: text("paper").unwrap_or("–").to_owned(),
        ours: ours.unwrap_or("–").to_owned(),
        verdict,
    })
}

/// The figure that shows what a sentence speaks of; none of those without.
fn figure(section: &str, id: &str) -> Option<&'static str> {
    match section {
        "3.3" if id.starts_with("naive-") => Some("Figure 4"),
        "3.3" => Some("Figure 5"),
        "3.4" => Some("Figure 6"),
        "4.1" | "4.2" | "4.3" | "4.4" | "4.5" | "4.6" => Some("Figure 8"),
        "4.7" => Some("Figure 9"),
        "4.8" if id.starts_with("ways-") || id.starts_with("diffs-") => Some("Figure 10"),
        _ => None,
    }
}

/// Of its first two figures: bugs that made a difference, each of which has to be found and repaired, and no byte to be wrong.
pub(super) fn bugs(report: &Value) -> Vec<Claim> {
    let kinds = [
        ("Figure 1", "lost writes", "lost_write"),
        ("Figure 2", "misdirected writes", "misdirected_write"),
    ];
    let of = |(figure, what, kind): (&'static str, &str, &str)| {
        let is_tvarak = report.get("design").and_then(Value::as_str) == Some("tvarak");
        let count = |name: &str| {
            let count = report.get(format!("bugs_{kind}_{name}"))?.as_u64();
            count.filter(|_| is_tvarak)
        };
        let counts = ["injected", "detected", "repaired"].map(count);
        let wrong_bytes = report.get("wrong_bytes").and_then(Value::as_u64);
        let (ours, verdict) = match (counts, wrong_bytes) {
            ([Some(injected), Some(detected), Some(repaired)], Some(wrong)) if injected > 0 => {
                let holds = detected == injected && repaired == injected && wrong == 0;
                let ours = format!(
                    "{detected} and {repaired} of {injected}, {wrong} wrong bytes of all bugs"
                );
                (
                    ours,
                    if holds {
                        Verdict::Holds
                    } else {
                        Verdict::DoesNotHold
                    },
                )
            }
            _ => ("–".to_owned(), Verdict::NotMeasured),
        };
        Claim {
            figure,
            what: format!("{what} found and repaired"),
            paper: "all".into(),
            ours,
            verdict,
        }
    };
    kinds.map(of).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn claims_belong_to_the_figure_of_their_section_and_keep_their_verdict() {
        let claim = |id: &str, section: &str, verdict: &str| json!({"claim": id, "section": section, "verdict": verdict, "paper": "2 times", "ours": "redis-set 1.9"});
        let report = json!({"claims": [
            claim("naive-read", "3.3", "held"),
            claim("ev-read", "3.3", "not held"),
            claim("redis-set-tvarak", "4.2", "not measured"),
            claim("ways-redis", "4.8", "indistinguishable"),
            claim("dimms-stream-page", "4.8", "held"),
            {"claim": "half"}, 7,
        ]});
        let claims = claims(&report);
        let found: Vec<(&str, String)> = claims
            .iter()
            .map(|one| (one.figure, one.verdict.words()))
            .collect();
        let wanted = [
            ("Figure 4", "holds"),
            ("Figure 5", "does not hold"),
            ("Figure 8", "not measured"),
            ("Figure 10", "not judged: indistinguishable"),
        ];
        assert_eq!(
            found,
            wanted.map(|(figure, words)| (figure, words.to_owned()))
        );
        assert!(super::claims(&json!([1])).is_empty());
    }

    #[test]
    fn one_bug_that_was_missed_is_enough() {
        let report = |detected: u64, wrong: u64| {
            json!({
                "design": "tvarak", "bugs_lost_write_injected": 9, "bugs_lost_write_detected": detected, "bugs_lost_write_repaired": 9,
                "wrong_bytes": wrong,
            })
        };
        let verdict = |report: &Value| bugs(report)[0].verdict.clone();
        assert_eq!(verdict(&report(9, 0)), Verdict::Holds);
        assert_eq!(verdict(&report(8, 0)), Verdict::DoesNotHold);
        assert_eq!(verdict(&report(9, 1)), Verdict::DoesNotHold);
        assert_eq!(bugs(&report(9, 0))[1].verdict, Verdict::NotMeasured);
        assert_eq!(verdict(&json!(null)), Verdict::NotMeasured);
        let mut of_another = report(9, 0);
        of_another["design"] = json!("ev");
        assert_eq!(verdict(&of_another), Verdict::NotMeasured);
    }
}
