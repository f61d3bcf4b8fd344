//! The numbers that the study's text has for the grid's figures, beside the grid's.

use forebay_lab::paper::{self, Reported};

use super::claims::Claim;
use super::grid_page::{Measured, shown};
use super::points::Figure;
use super::stage::{Contender, DISK};

/// The figures, by the names that the lab has for the text's numbers.
const FIGURES: [(&str, &str, Figure); 5] = [
    ("5", "study-5-half", Figure::Lookup),
    ("7a", "study-7a", Figure::ReadsByThreads),
    ("7b", "study-7b", Figure::LargeReadsByThreads),
    ("8a", "study-8a", Figure::SmallByWrites),
    ("8b", "study-8b", Figure::LargeByWrites),
];

/// All of them, of the figures that were measured.
pub fn claims(results: &[Measured]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (number, name, figure) in FIGURES {
        let results = of(results, figure);
        if !results.is_empty() {
            let numbers = paper::of_figure(name);
            claims.extend(numbers.flat_map(|reported| compare(number, reported, &results)));
        }
    }
    claims.extend(by_set(&of(results, Figure::BySet)));
    claims
}

fn of(results: &[Measured], figure: Figure) -> Vec<&Measured> {
    let belongs = |result: &&Measured| result.point.figure == figure && result.latency == DISK;
    results.iter().filter(belongs).collect()
}

fn compare(number: &'static str, reported: &Reported, results: &[&Measured]) -> Vec<Claim> {
    let of = contender(reported.of);
    let raw = results
        .iter()
        .filter(|result| result.contender == Contender::RawFast);
    // At each point that the text may mean, what it divides.
    let ratios = raw.filter_map(|raw| {
        let mut same = results
            .iter()
            .filter(|result| result.point.key == raw.point.key);
        let is_meant = reported.place.is_none_or(|place| place == raw.point.place);
        let result = same.find(|result| Some(result.contender) == of)?;
        is_meant.then(|| shown(result).0 / shown(raw).0)
    });
    let ratios: Vec<f64> = ratios.collect();
    let place = reported
        .place
        .map_or(String::new(), |place| format!("{place}: "));
    let readings = reported.value.readings().into_iter();
    let claims = readings.map(|(prefix, paper, pick)| {
        let what = format!("{prefix}{place}{} ÷ the fast device alone", reported.of);
        let ours = ratios.iter().copied().reduce(pick.unwrap_or(f64::max));
        Claim::number(number, what, paper, ours)
    });
    claims.collect()
}

fn contender(key: &str) -> Option<Contender> {
    let mut all = Contender::ALL.into_iter();
    all.find(|contender| contender.name() == key)
}

/// The text of Figure 11: dm-cache is ahead while the working set is small, bcache when it is large.
fn by_set(results: &[&Measured]) -> Vec<Claim> {
    let at = |contender: Contender, set: &Measured| {
        let mut found = results.iter();
        let same = &set.point.key;
        let found = found.find(|one| one.contender == contender && one.point.key == *same);
        found.map(|result| shown(result).0)
    };
    let pair =
        |set: &Measured, [less, more]: [Contender; 2]| Some((at(less, set)?, at(more, set)?));
    let (Some(small), Some(large)) = (results.first(), results.last()) else {
        return Vec::new();
    };
    vec![
        Claim::order(
            "11",
            "smallest set: bcache is behind dm-cache",
            pair(small, [Contender::Bcache, Contender::DmCache]),
        ),
        Claim::order(
            "11",
            "largest set: dm-cache is behind bcache",
            pair(large, [Contender::DmCache, Contender::Bcache]),
        ),
    ]
}
