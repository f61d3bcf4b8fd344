//! What the block cache study's text says (Lee et al., APSys 2018), beside the rows of the grid and of the layers.

use super::claim::Claim;
use super::rows::Rows;
use crate::paper::{self, Reported};

/// Figures of the grid: the number, the name that the text's numbers have it by, the beginning of its rows, and that of the
/// places in their names.
const GRID: [[&str; 4]; 5] = [
    ["Figure 5, half", "study-5-half", "fig5_", ""],
    ["Figure 7a", "study-7a", "fig7a_", "threads"],
    ["Figure 7b", "study-7b", "fig7b_", "threads"],
    ["Figure 8a", "study-8a", "fig8a_", "writes"],
    ["Figure 8b", "study-8b", "fig8b_", "writes"],
];

/// Table 1, in ms: at the device, in the kernel, in the program; by the contender's name in rows and for people.
pub const TABLE_1: [(&str, &str, [f64; 3]); 5] = [
    ("nvm", "NVM", [0.000_74, 1.60, 0.0050]),
    ("bcache_nvm_ssd", "bcache: NVM+SSD", [0.0060, 113.53, 0.40]),
    ("bcache_ssd_hdd", "bcache: SSD+HDD", [0.45, 191.52, 0.75]),
    (
        "dm_cache_nvm_ssd",
        "dm-cache: NVM+SSD",
        [0.0013, 2.61, 0.0091],
    ),
    (
        "dm_cache_ssd_hdd",
        "dm-cache: SSD+HDD",
        [13.89, 0.75, 0.023],
    ),
];

/// What the text says of the grid's figures: its ratios of bcache and dm-cache to the fast device alone, and the order of Figure 11.
#[must_use]
pub fn grid_claims(rows: &Rows) -> Vec<Claim> {
    let mut claims = Vec::new();
    for [figure, name, start, place_start] in GRID {
        let numbers = paper::of_figure(name);
        claims.extend(
            numbers.flat_map(|reported| compare(figure, reported, (start, place_start), rows)),
        );
    }
    claims.extend(by_set(rows));
    claims
}

fn compare(
    figure: &'static str,
    reported: &Reported,
    (start, place_start): (&str, &str),
    rows: &Rows,
) -> Vec<Claim> {
    let of = reported.of.replace('-', "_");
    let place = reported
        .place
        .map(|place| format!("{place_start}{}", place.trim_end_matches(" %")));
    let is_meant = |key: &&str| place.as_deref().is_none_or(|place| place == *key);
    let ratio = |key: &str| {
        let of = rows.get(&format!("{start}{key}_{of}"))?;
        Some(of / rows.get(&format!("{start}{key}_raw_fast"))?)
    };
    let keys = rows.between(start, "_raw_fast").filter(is_meant);
    let ratios: Vec<f64> = keys.filter_map(ratio).collect();
    let said_at = reported
        .place
        .map_or(String::new(), |place| format!("{place}: "));
    let readings = reported.value.readings().into_iter();
    let claims = readings.map(|(prefix, paper, pick)| {
        let what = format!("{prefix}{said_at}{} ÷ the fast device alone", reported.of);
        let ours = ratios.iter().copied().reduce(pick.unwrap_or(f64::max));
        Claim::number(figure, what, paper, ours).unless(one_processor(place_start, reported.place))
    });
    claims.collect()
}

/// What many threads do to each other shows on many processors.
fn one_processor(place_start: &str, place: Option<&str>) -> Option<String> {
    let threads: u32 = place.filter(|_| place_start == "threads")?.parse().ok()?;
    (threads > 1).then(|| {
        format!("{threads} threads contend on the study's 20 hardware threads, and take turns on a guest's one processor")
    })
}

/// The text of Figure 11: dm-cache is ahead while the working set is small, bcache when it is large.
fn by_set(rows: &Rows) -> [Claim; 2] {
    const START: &str = "fig11_set";
    let sets = rows.between(START, "m_bcache");
    let mut sets: Vec<u64> = sets.filter_map(|set| set.parse().ok()).collect();
    sets.sort_unstable();
    let pair = |set: Option<&u64>, [less, more]: [&str; 2]| {
        let set = set?;
        let of = |contender| rows.get(&format!("{START}{set}m_{contender}"));
        Some((of(less)?, of(more)?))
    };
    [
        Claim::order(
            "Figure 11",
            "smallest set: bcache is behind dm-cache",
            pair(sets.first(), ["bcache", "dm_cache"]),
        ),
        Claim::order(
            "Figure 11",
            "largest set: dm-cache is behind bcache",
            pair(sets.last(), ["dm_cache", "bcache"]),
        ),
    ]
}

/// What the text says of Figures 1, 4, 6 and 10 and of Table 1.
#[must_use]
pub fn layer_claims(rows: &Rows) -> Vec<Claim> {
    [devices(rows), alone(rows), lookup(rows), mixed(rows)].concat()
}

/// The time of a contender's requests at a point.
#[derive(Clone, Copy)]
struct At<'a> {
    rows: &'a Rows,
    point: &'static str,
    contender: &'static str,
}

impl At<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        let At {
            rows,
            point,
            contender,
        } = self;
        rows.get(&format!("{point}_{contender}_{name}"))
    }

    /// Above the cache and in it.
    fn kernel_us(&self) -> Option<f64> {
        Some(self.number("kernel_above_the_cache_us")? + self.number("cache_us")?)
    }

    fn whole_us(&self) -> Option<f64> {
        Some(self.number("user_us")? + self.kernel_us()? + self.number("devices_us")?)
    }

    fn kernel_share(&self) -> Option<f64> {
        Some(self.kernel_us()? / self.whole_us()?)
    }
}

fn devices(rows: &Rows) -> Vec<Claim> {
    let caches = [
        [
            ("bcache_ssd_hdd", "bcache: SSD+HDD"),
            ("bcache_nvm_ssd", "bcache: NVM+SSD"),
        ],
        [
            ("dm_cache_ssd_hdd", "dm-cache: SSD+HDD"),
            ("dm_cache_nvm_ssd", "dm-cache: NVM+SSD"),
        ],
    ];
    let (hdd, ssd) = (("hdd", "HDD"), ("ssd", "SSD"));
    let iops = |contender: &str| rows.get(&format!("fig1_threads16_{contender}_iops"));
    let order = |less: (&str, &str), more: (&str, &str)| {
        let what = format!("{} is behind {}", less.1, more.1);
        Claim::order("Figure 1", what, iops(less.0).zip(iops(more.0)))
    };
    let of = |[slow, fast]: [(&str, &str); 2]| {
        [
            order(hdd, slow),
            order(slow, ssd),
            order(slow, fast),
            order(fast, ssd),
        ]
    };
    caches.into_iter().flat_map(of).collect()
}

fn alone(rows: &Rows) -> Vec<Claim> {
    let of = |(name, point): (&str, &'static str)| {
        let [ssd, nvm] = ["ssd", "nvm"].map(|contender| At {
            rows,
            point,
            contender,
        });
        [
            Claim::order(
                "Figure 4",
                format!("{name}: the kernel's share is larger on NVM than on the SSD"),
                ssd.kernel_share().zip(nvm.kernel_share()),
            ),
            Claim::order(
                "Figure 4",
                format!("{name}: the kernel's time is longer on NVM than on the SSD, µs"),
                ssd.kernel_us().zip(nvm.kernel_us()),
            ),
        ]
    };
    let points = [("reads", "fig4_reads"), ("writes", "fig4_writes")];
    points.into_iter().flat_map(of).collect()
}

fn lookup(rows: &Rows) -> Vec<Claim> {
    let at = |point, contender| At {
        rows,
        point,
        contender,
    };
    let of = |(name, cache): (&str, &'static str)| {
        let kernel_us = |contender| at("fig6_4k", contender).kernel_us();
        // How many times as long as the NVM alone a request takes.
        let ratio = |point| Some(at(point, cache).whole_us()? / at(point, "nvm").whole_us()?);
        [
            Claim::order(
                "Figure 6",
                format!("4 KiB: the kernel's time is longer with {name} than on NVM, µs"),
                kernel_us("nvm").zip(kernel_us(cache)),
            ),
            Claim::order(
                "Figure 6",
                format!("{name} ÷ NVM is smaller at 64 KiB than at 4 KiB"),
                ratio("fig6_64k").zip(ratio("fig6_4k")),
            ),
        ]
    };
    let caches = [
        ("bcache", "bcache_nvm_ssd"),
        ("dm-cache", "dm_cache_nvm_ssd"),
    ];
    caches.into_iter().flat_map(of).collect()
}

/// Figure 10 draws shares; the times are Table 1's.
fn mixed(rows: &Rows) -> Vec<Claim> {
    let at = |contender| At {
        rows,
        point: "fig10_threads8",
        contender,
    };
    let [(_, _, [_, nvm_ms, _]), caches @ ..] = TABLE_1;
    let of = |(key, name, [device_ms, kernel_ms, user_ms]): (&'static str, &str, [f64; 3])| {
        let kernel_us = at(key).kernel_us();
        [
            Claim::number(
                "Figure 10",
                format!("{name}: the kernel's share"),
                kernel_ms / (device_ms + kernel_ms + user_ms),
                at(key).kernel_share(),
            ),
            Claim::number(
                "Table 1",
                format!("{name}: time in the kernel ÷ the NVM's"),
                kernel_ms / nvm_ms,
                kernel_us
                    .zip(at("nvm").kernel_us())
                    .map(|(its, nvm)| its / nvm),
            ),
        ]
    };
    caches.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elsewhere::Verdict;
    use forebay_harness::Row;

    fn rows(numbers: &[(&str, f64)]) -> Rows {
        let rows = numbers
            .iter()
            .map(|(name, value)| Row::new(*name, *value, "x"));
        Rows::new(&rows.collect::<Vec<_>>())
    }

    fn verdicts<'a>(claims: &'a [Claim], figure: &str) -> Vec<&'a Verdict> {
        let of = claims.iter().filter(|claim| claim.figure == figure);
        of.map(|claim| &claim.verdict).collect()
    }

    #[test]
    fn nothing_that_was_not_measured_is_judged() {
        let claims = [
            grid_claims(&Rows::default()),
            layer_claims(&Rows::default()),
        ]
        .concat();
        assert!(claims.len() > 30, "{}", claims.len());
        for claim in &claims {
            assert_eq!(
                (&claim.verdict, claim.ours.as_str()),
                (&Verdict::NotMeasured, "–")
            );
        }
    }

    #[test]
    fn caches_are_divided_by_the_fast_device_at_the_places_that_are_meant() {
        let claims = grid_claims(&rows(&[
            ("fig7a_threads1_raw_fast", 100.0),
            ("fig7a_threads1_bcache", 66.0),
            ("fig7a_threads1_dm_cache", 99.0),
            ("fig7a_threads16_raw_fast", 100.0),
            ("fig7a_threads16_bcache", 29.0),
            ("fig5_4k_set8m_raw_fast", 10.0),
            ("fig5_4k_set8m_bcache", 12.0),
            ("fig5_4k_set32m_raw_fast", 10.0),
            ("fig5_4k_set32m_bcache", 19.0),
        ]));
        use Verdict::{DoesNotHold, Holds, NotJudged, NotMeasured};
        let of_7a = verdicts(&claims, "Figure 7a");
        assert!(
            matches!(of_7a[..], [Holds, DoesNotHold, NotJudged(_), NotMeasured]),
            "{of_7a:?}"
        );
        assert_eq!(verdicts(&claims, "Figure 5, half"), [&Holds, &NotMeasured]);
        assert_eq!(verdicts(&claims, "Figure 8a"), [&NotMeasured]);
    }

    #[test]
    fn the_smallest_set_is_that_of_the_smallest_number() {
        let claims = grid_claims(&rows(&[
            ("fig11_set128m_bcache", 9.0),
            ("fig11_set128m_dm_cache", 8.0),
            ("fig11_set16m_bcache", 50.0),
            ("fig11_set16m_dm_cache", 70.0),
            ("fig11_set16m_slow0ms_bcache", 90.0),
            ("fig11_set16m_slow0ms_dm_cache", 70.0),
        ]));
        assert_eq!(verdicts(&claims, "Figure 11"), [&Verdict::Holds; 2]);
    }

    #[test]
    fn the_kernel_has_what_is_above_the_cache_and_in_it() {
        let layer = |start: &str, [user, above, cache, devices]: [f64; 4]| {
            [
                (format!("{start}_user_us"), user),
                (format!("{start}_kernel_above_the_cache_us"), above),
                (format!("{start}_cache_us"), cache),
                (format!("{start}_devices_us"), devices),
            ]
        };
        let numbers = [
            layer("fig4_reads_nvm", [1.0, 20.0, 10.0, 9.0]),
            layer("fig4_reads_ssd", [1.0, 40.0, 0.0, 59.0]),
            layer("fig10_threads8_nvm", [5.0, 90.0, 0.0, 5.0]),
            layer("fig10_threads8_bcache_nvm_ssd", [0.0, 90.0, 9.0, 1.0]),
        ];
        let numbers = numbers.concat();
        let numbers: Vec<(&str, f64)> = numbers
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        let claims = layer_claims(&rows(&numbers));
        use Verdict::{DoesNotHold, Holds, NotMeasured};
        // 0.75 of the NVM's to 0.4 of the SSD's, but 30 µs to 40.
        let of_4 = [&Holds, &DoesNotHold, &NotMeasured, &NotMeasured];
        assert_eq!(verdicts(&claims, "Figure 4"), of_4);
        assert_eq!(verdicts(&claims, "Figure 10")[0], &Holds);
        assert_eq!(
            verdicts(&claims, "Table 1")[0],
            &DoesNotHold,
            "1.1 times, not 71"
        );
    }
}
