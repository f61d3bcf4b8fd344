//! The paper's numbers beside ours, and a sentence where the shapes differ.

use forebay_harness::digits;

use super::FigureResult;
use super::reasons::reason;
use crate::experiments::Metric;
use crate::paper::{self, LIKE_FACTOR, Reported, Value, is_as_uneven, is_less, is_near};

/// One number of the paper's beside what was measured.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    /// What the paper says.
    pub(super) reported: &'static Reported,
    /// What it is of, in words: `3/7: tinca ÷ classic`.
    pub(super) what: String,
    /// The paper's number; for two of them the one named in `what`.
    pub(super) paper: f64,
    /// Ours.
    pub(super) ours: Option<f64>,
    /// Forebay in the place of the design that the number is of.
    pub(super) forebay: Option<f64>,
    /// Whether the paper has no number but that this one is less than 1.
    is_order: bool,
    /// Of numbers in the figure's own unit: whether that is a share of all.
    is_share: bool,
    /// A time, measured while others used the processors: it says too little to be held against the paper's.
    is_loaded: bool,
}

impl Comparison {
    /// Whether it would be judged, had it not been measured on a loaded machine.
    pub(super) fn is_put_off(&self) -> bool {
        self.is_loaded && self.reported.is_shape && self.ours.is_some()
    }

    /// Whether ours is near the paper's, and says the same; none where there is nothing to compare, or ours is a time of a
    /// loaded machine.
    ///
    /// Being near is not enough where the paper's number is itself near to what no difference at all would give: a ratio has
    /// to be on the paper's side of 1, half as far from it at least, and of a share what lacks to all of it has to be near, too.
    pub(super) fn is_like(&self) -> Option<bool> {
        let is_judged = self.reported.is_shape && !self.is_loaded;
        let ours = self.ours.filter(|_| is_judged)?;
        if self.is_order {
            return Some(is_less(ours));
        }
        if ours <= 0.0 {
            // None at all is not near to some.
            return Some(self.paper <= 0.0);
        }
        let says_the_same = match (self.reported.over, self.is_share) {
            (Some(_), _) => is_as_uneven(ours, self.paper),
            (None, true) => is_near(1.0 - ours, 1.0 - self.paper),
            (None, false) => true,
        };
        Some(is_near(ours, self.paper) && says_the_same)
    }
}

/// Everything that the paper's text says of the figure, beside ours.
pub(super) fn compare(result: &FigureResult) -> Vec<Comparison> {
    let reported = paper::of_figure(result.figure.name);
    reported
        .flat_map(|reported| compare_one(result, reported))
        .collect()
}

fn compare_one(result: &FigureResult, reported: &'static Reported) -> Vec<Comparison> {
    let make = |prefix: &str, paper: f64, pick: Option<fn(f64, f64) -> f64>| {
        let at = |of: &str| match pick {
            None => at_place(result, reported, of),
            Some(pick) => over_places(result, reported, of).reduce(pick),
        };
        Comparison {
            reported,
            what: format!("{prefix}{}", what(reported)),
            paper,
            ours: at(reported.of),
            forebay: (reported.of != "forebay").then(|| at("forebay")).flatten(),
            is_order: false,
            is_share: matches!(
                result.figure.metric,
                Metric::HitRatio | Metric::WriteHitRatio
            ),
            is_loaded: result.is_loaded(),
        }
    };
    if reported.value == Value::Falls {
        return falls(result, reported).into_iter().collect();
    }
    let readings = reported.value.readings().into_iter();
    let made = readings.map(|(prefix, paper, pick)| make(prefix, paper, pick));
    made.collect()
}

/// The ratio at the last place over that at the first; none where there is one place.
fn falls(result: &FigureResult, reported: &'static Reported) -> Option<Comparison> {
    let (over, _) = reported.over?;
    let last = result
        .places
        .len()
        .checked_sub(1)
        .filter(|last| *last > 0)?;
    let at = |of: &str| {
        let ratio = |place| result.ratio((of, place), (over, place));
        Some(ratio(last)? / ratio(0)?)
    };
    let (first_name, last_name) = (&result.places[0], &result.places[last]);
    Some(Comparison {
        reported,
        what: format!(
            "{last_name} ÷ {first_name} of {}: less than",
            what(reported)
        ),
        paper: 1.0,
        ours: at(reported.of),
        forebay: at("forebay"),
        is_order: true,
        is_share: false,
        is_loaded: result.is_loaded(),
    })
}

fn what(reported: &Reported) -> String {
    let place = reported
        .place
        .map_or(String::new(), |place| format!("{place}: "));
    let over = match reported.over {
        None => String::new(),
        Some((over, None)) => format!(" ÷ {over}"),
        Some((over, Some(at))) if over == reported.of => format!(" ÷ the same at {at}"),
        Some((over, Some(at))) => format!(" ÷ {over} at {at}"),
    };
    format!("{place}{}{over}", reported.of)
}

/// The number at the place that the paper names, with `of` in its subject's place.
fn at_place(result: &FigureResult, reported: &Reported, of: &str) -> Option<f64> {
    let place = result.place(reported.place?)?;
    match reported.over {
        None => result.value(result.series(of)?, place),
        Some((over, over_place)) => {
            let over_place = over_place.map_or(Some(place), |name| result.place(name))?;
            // How much a design changes is its own change.
            let over = if over == reported.of { of } else { over };
            result.ratio((of, place), (over, over_place))
        }
    }
}

fn over_places<'a>(
    result: &'a FigureResult,
    reported: &'a Reported,
    of: &'a str,
) -> impl Iterator<Item = f64> + 'a {
    (0..result.places.len()).filter_map(move |place| match reported.over {
        None => result.value(result.series(of)?, place),
        Some((over, _)) => result.ratio((of, place), (over, place)),
    })
}

/// What a reader has to know of the differences: a sentence for each number that is not like the
/// paper's, then what explains them.
pub(super) fn sentences(result: &FigureResult, comparisons: &[Comparison]) -> Vec<String> {
    let mut sentences: Vec<String> = comparisons.iter().filter_map(difference).collect();
    let compared = comparisons.iter().filter_map(Comparison::is_like).count();
    if compared == 0 {
        return sentences;
    }
    if sentences.is_empty() {
        sentences.push(format!(
            "The shape is the paper's: {} within a factor of {LIKE_FACTOR}.",
            if compared == 1 {
                "its one number is".to_owned()
            } else {
                format!("all its {compared} numbers are")
            }
        ));
        return sentences;
    }
    sentences.extend(why(result));
    sentences
}

/// What explains that numbers differ: what the figure says always, and what this run counted.
pub(super) fn why(result: &FigureResult) -> impl Iterator<Item = String> {
    let caveat = result.figure.caveat;
    let caveat = (!caveat.is_empty()).then(|| caveat.to_owned());
    caveat.into_iter().chain(reason(result))
}

fn difference(comparison: &Comparison) -> Option<String> {
    if comparison.is_like()? {
        return None;
    }
    let ours = comparison.ours?;
    if comparison.is_order {
        let what = capitalised(&comparison.what);
        return Some(format!("{what} 1 in the paper, {} here.", digits(ours)));
    }
    let side = if ours > comparison.paper {
        "more"
    } else {
        "less"
    };
    Some(format!(
        "{}: {} here, {side} than the paper's {}.",
        capitalised(&comparison.what),
        digits(ours),
        digits(comparison.paper)
    ))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::testing::{figure, loaded};
    use crate::paper::Value;

    const MIXES: [&str; 3] = ["3/7", "5/5", "7/3"];

    #[test]
    fn ours_and_forebays_stand_beside_the_papers() {
        let series: [(&'static str, &[f64]); 3] = [
            ("classic", &[100.0, 100.0, 100.0]),
            ("tinca", &[250.0, 210.0, 90.0]),
            ("forebay", &[500.0, 500.0, 500.0]),
        ];
        let result = figure("tinca-7a", &MIXES, &series);
        let comparisons = compare(&result);
        let numbers: Vec<_> = comparisons
            .iter()
            .map(|one| (one.paper, one.is_like()))
            .collect();
        assert_eq!(
            numbers,
            [(2.5, Some(true)), (2.1, Some(true)), (1.7, Some(false))]
        );
        let last = &comparisons[2];
        assert_eq!(last.what, "7/3: tinca ÷ classic");
        assert!((last.forebay.expect("measured") - 5.0).abs() < 1e-6);
        let sentences = sentences(&result, &comparisons);
        assert!(
            sentences[0].contains("less than the paper's 1.70"),
            "{sentences:?}"
        );
        assert_eq!(
            sentences.len(),
            2,
            "the difference, the caveat: {sentences:?}"
        );
    }

    #[test]
    fn ends_of_a_range_are_looked_for_over_all_places() {
        let series: [(&'static str, &[f64]); 2] = [
            ("tinca", &[100.0, 100.0, 100.0]),
            ("spindle", &[130.0, 120.0, 113.0]),
        ];
        let result = figure("spindle-5a", &["0/10", "5/5", "10/0"], &series);
        let comparisons = compare(&result);
        let what: Vec<&str> = comparisons.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(
            what,
            ["0/10: spindle ÷ tinca", "smallest spindle ÷ tinca"],
            "and no number twice"
        );
        assert!(
            comparisons
                .iter()
                .all(|one| one.is_like().is_none_or(|is_like| is_like))
        );
    }

    /// The gain of small files is of the smallest, and smaller with the largest.
    #[test]
    fn a_gain_that_does_not_shrink_as_files_grow_is_not_the_papers() {
        let likes = |spindle: &[f64]| -> Vec<Option<bool>> {
            let series: [(&'static str, &[f64]); 2] =
                [("tinca", &[100.0, 100.0, 100.0]), ("spindle", spindle)];
            let result = figure(
                "spindle-6-fileserver",
                &["16 KiB", "64 KiB", "128 KiB"],
                &series,
            );
            compare(&result).iter().map(Comparison::is_like).collect()
        };
        assert_eq!(likes(&[140.0, 110.0, 104.0]), [Some(true), Some(true)]);
        assert_eq!(likes(&[110.0, 120.0, 141.0]), [Some(false), Some(false)]);
        assert_eq!(
            likes(&[140.0, 140.0, 138.0]),
            [Some(true), Some(false)],
            "as good as flat"
        );
    }

    /// Where all designs are alike nothing that tells them apart holds, however near to 1 the paper's number is.
    #[test]
    fn a_flat_answer_is_like_nothing_that_is_not_flat() {
        let result = |name: &str, places: &[&str], values: &[f64]| {
            let keys = ["classic", "tinca", "spindle", "raw", "bcache", "dm-cache"];
            let series: Vec<(&'static str, &[f64])> = keys.map(|key| (key, values)).into();
            compare(&figure(name, places, &series))
        };
        let likes = |comparisons: &[Comparison]| -> Vec<bool> {
            let likes = comparisons.iter().filter_map(Comparison::is_like);
            likes.collect()
        };
        for reported in paper::REPORTED {
            let Value::Exactly(_) = reported.value else {
                continue;
            };
            let all = result(reported.figure, &["SSD", "HDD"], &[1.0, 1.0]);
            let flat = all.iter().filter(|one| one.is_like() == Some(true));
            assert!(
                flat.clone().all(|one| one.paper.ln().abs() < 0.05),
                "{:?}",
                flat.collect::<Vec<_>>()
            );
        }
        let share = |paper, ours| Comparison {
            reported: paper::of_figure("tinca-12c").next().expect("it is there"),
            what: String::new(),
            paper,
            ours: Some(ours),
            forebay: None,
            is_order: false,
            is_share: true,
            is_loaded: false,
        };
        assert_eq!(share(0.80, 1.0).is_like(), Some(false));
        assert_eq!(share(0.93, 1.0).is_like(), Some(false));
        assert_eq!(share(0.93, 0.92).is_like(), Some(true));
        assert_eq!(likes(&result("tinca-11a", &["webproxy"], &[1.0])), [false]);
        // Two of them as good as the third are so in the paper as well.
        assert!(is_as_uneven(0.9, 1.0) && !is_as_uneven(0.9, 1.2) && is_as_uneven(1.1, 1.2));
    }

    #[test]
    fn times_of_a_loaded_machine_are_not_judged_and_counts_are() {
        let speeds: [(&'static str, &[f64]); 2] =
            [("classic", &[100.0; 3]), ("tinca", &[250.0, 210.0, 90.0])];
        let times = loaded("tinca-7a", &MIXES, &speeds);
        let comparisons = compare(&times);
        assert_eq!(comparisons.len(), 3);
        for one in &comparisons {
            assert!(one.ours.is_some() && one.is_like().is_none() && one.is_put_off());
        }
        assert!(sentences(&times, &comparisons).is_empty());
        let shares: [(&'static str, &[f64]); 2] = [("classic", &[1.0]), ("tinca", &[1.0])];
        for one in compare(&loaded("tinca-12c", &["PCM, SSD"], &shares)) {
            assert!(one.is_like() == Some(false) && !one.is_put_off());
        }
    }

    #[test]
    fn what_was_not_measured_is_not_compared() {
        let result = figure("tinca-7a", &MIXES, &[("classic", &[100.0, 100.0, 100.0])]);
        let comparisons = compare(&result);
        assert!(
            comparisons
                .iter()
                .all(|one| one.ours.is_none() && one.is_like().is_none())
        );
        assert!(sentences(&result, &comparisons).is_empty());
    }
}
