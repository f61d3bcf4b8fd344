//! What AutoBahn's text says of key-value stores over it (§6.1, Figures 11 and 12), beside the rows of the applications, with
//! `forebay run` in AutoBahn's place.
//!
//! A client waits for each of its operations before the next one, so that latencies are to each other as rates are, the other
//! way round. The paper times the commit in the store, the applications an update from the client's side.

use super::claim::Claim;
use super::rows::Rows;

/// Stores: in names of rows, and for people.
const WIREDTIGER: [&str; 2] = ["wiredtiger", "WiredTiger"];
const ROCKSDB: [&str; 2] = ["rocksdb", "RocksDB"];
const REDIS: [&str; 2] = ["redis", "Redis"];

/// The row that says how many processors the applications had.
pub const PROCESSORS: &str = "processors";

/// Of Figure 11's text: the store, with how many databases, AutoBahn ÷ ext4, tmpfs ÷ AutoBahn.
///
/// 9.92 million, 497,000 and 11.6 million transactions a second; 4.74, 1.11 and 5.07 million; 4.82 million, 342,000 and 4.78
/// million: divided, the rounded rates are up to 0.7 % off the ratios that the text has. Of Redis it says "no slower than tmpfs".
const SPEEDS: [([&str; 2], usize, f64, f64); 3] = [
    (WIREDTIGER, 64, 19.9, 1.173),
    (ROCKSDB, 64, 4.25, 1.0716),
    (REDIS, 32, 14.0, 4.78 / 4.82),
];

/// A store, with how many databases, and latencies in µs.
type Latencies = ([&'static str; 2], usize, [Option<f64>; 3]);

/// Of Figure 12's text: the store, with how many databases, mean commit latencies in µs of AutoBahn, of ext4, and of tmpfs where it
/// has that.
pub const LATENCIES_US: [Latencies; 5] = [
    (WIREDTIGER, 1, [Some(1.23), Some(38.207), Some(1.31)]),
    (WIREDTIGER, 32, [Some(2.94), Some(132.8), Some(1.69)]),
    (ROCKSDB, 1, [Some(4.04), Some(80.56), Some(3.61)]),
    (ROCKSDB, 32, [Some(6.62), Some(230.2), Some(5.43)]),
    (REDIS, 32, [Some(0.88), Some(214.9), None]),
];

/// All of it.
#[must_use]
pub fn claims(rows: &Rows) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (store, databases, over_ext4, tmpfs_over) in SPEEDS {
        let of = Of {
            rows,
            store,
            workload: "a",
            databases,
        };
        claims.push(of.claim("Figure 11", "AutoBahn ÷ ext4", over_ext4, |ours| {
            ours.over("disk")
        }));
        claims.push(
            of.claim("Figure 11", "tmpfs ÷ AutoBahn", tmpfs_over, |ours| {
                Some(1.0 / ours.over("tmpfs")?)
            }),
        );
    }
    for (store, databases, [autobahn, ext4, tmpfs]) in LATENCIES_US {
        let of = Of {
            rows,
            store,
            workload: "u",
            databases,
        };
        let compared = [(ext4, "disk", "ext4"), (tmpfs, "tmpfs", "tmpfs")];
        claims.extend(compared.into_iter().filter_map(|(other, place, name)| {
            let what = format!("latency, {name} ÷ AutoBahn");
            Some(of.claim("Figure 12", &what, other? / autobahn?, |ours| {
                ours.over(place)
            }))
        }));
    }
    claims
}

/// A workload over so many databases of a store.
#[derive(Clone, Copy)]
struct Of<'a> {
    rows: &'a Rows,
    store: [&'static str; 2],
    workload: &'static str,
    databases: usize,
}

impl Of<'_> {
    fn claim(
        self,
        figure: &'static str,
        what: &str,
        paper: f64,
        ours: impl Fn(Of<'_>) -> Option<f64>,
    ) -> Claim {
        let databases = match self.databases {
            1 => "1 database".to_owned(),
            many => format!("{many} databases"),
        };
        let what = format!("{}, {databases}: {what}", self.store[1]);
        // Fewer databases stand beside the paper's where there are not as many, and are not judged.
        let most = self.measured();
        let ours = most.and_then(|databases| ours(Of { databases, ..self }));
        Claim::number(figure, what, paper, ours).unless(self.obstacle(most))
    }

    /// What many databases do to each other shows with as many, on as many processors.
    fn obstacle(&self, most: Option<usize>) -> Option<String> {
        let processors = self.rows.get(PROCESSORS).unwrap_or(0.0);
        let has_as_many = most == Some(self.databases) && processors >= self.databases as f64;
        (self.databases > 1 && !has_as_many).then(|| {
            format!(
                "{} databases contend on the paper's 36 cores, and at most {} on {processors} processors here",
                self.databases,
                most.unwrap_or(0)
            )
        })
    }

    fn start(&self) -> String {
        format!("ycsb_{}_{}_shards", self.store[0], self.workload)
    }

    /// As many databases as the paper's, or the most that were measured.
    fn measured(&self) -> Option<usize> {
        let start = self.start();
        let counts = self.rows.between(&start, "_preload");
        let counts = counts.filter_map(|count| count.parse().ok());
        counts.filter(|count| *count <= self.databases).max()
    }

    /// Operations a second over those in another place, round by round.
    fn over(self, place: &str) -> Option<f64> {
        let name = format!("{}{}_preload_vs_{place}", self.start(), self.databases);
        self.rows.get(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elsewhere::Verdict;
    use forebay_harness::Row;

    #[test]
    fn one_databases_latencies_are_judged_on_any_machine_and_many_databases_where_there_are_as_many()
     {
        let rows = |processors: f64| {
            Rows::new(&[
                Row::new(PROCESSORS, processors, "processors"),
                Row::new(
                    "ycsb_wiredtiger_u_shards1_preload",
                    90_000.0,
                    "operations/s",
                ),
                Row::new("ycsb_wiredtiger_u_shards1_preload_vs_disk", 28.0, "x"),
                Row::new("ycsb_wiredtiger_u_shards1_preload_vs_tmpfs", 0.5, "x"),
                Row::new(
                    "ycsb_wiredtiger_u_shards2_preload",
                    95_000.0,
                    "operations/s",
                ),
                Row::new("ycsb_wiredtiger_u_shards2_preload_vs_disk", 40.0, "x"),
                Row::new("ycsb_redis_a_shards32_preload", 9.0, "operations/s"),
                Row::new("ycsb_redis_a_shards32_preload_vs_disk", 13.0, "x"),
                Row::new("ycsb_redis_a_shards32_preload_vs_tmpfs", 1.6, "x"),
            ])
        };
        let find = |processors: f64, start: &str| {
            let mut claims = claims(&rows(processors)).into_iter();
            claims
                .find(|claim| claim.what.starts_with(start))
                .expect("said")
        };
        let of = |start: &str| find(36.0, start);
        let one = of("WiredTiger, 1 database: latency, ext4");
        assert_eq!((one.paper.as_str(), one.ours.as_str()), ("31.1", "28.0"));
        assert_eq!(one.verdict, Verdict::Holds);
        assert_eq!(
            of("WiredTiger, 1 database: latency, tmpfs").verdict,
            Verdict::DoesNotHold
        );
        let many = of("WiredTiger, 32 databases: latency, ext4");
        assert_eq!(many.ours, "40.0");
        assert!(
            matches!(&many.verdict, Verdict::NotJudged(why) if why.contains("at most 2 on 36 processors"))
        );
        assert_eq!(
            of("Redis, 32 databases: AutoBahn ÷ ext4").verdict,
            Verdict::Holds
        );
        let tmpfs = of("Redis, 32 databases: tmpfs ÷ AutoBahn");
        assert_eq!(
            (tmpfs.ours.as_str(), &tmpfs.verdict),
            ("0.625", &Verdict::DoesNotHold)
        );
        let few = find(2.0, "Redis, 32 databases: AutoBahn ÷ ext4");
        assert!(matches!(few.verdict, Verdict::NotJudged(why) if why.contains("on 2 processors")));
        assert_eq!(of("RocksDB, 64").verdict, Verdict::NotMeasured);
    }

    /// The ratios of the text are those of its rates, but for rounding.
    #[test]
    fn the_texts_ratios_are_its_rates() {
        let rates = [(9.92, 0.497, 11.6), (4.74, 1.11, 5.07), (4.82, 0.342, 4.78)];
        for ((_, _, over_ext4, tmpfs_over), (autobahn, ext4, tmpfs)) in
            SPEEDS.into_iter().zip(rates)
        {
            assert!(
                (autobahn / ext4 / over_ext4 - 1.0_f64).abs() < 0.007,
                "{over_ext4}"
            );
            assert!(
                (tmpfs / autobahn / tmpfs_over - 1.0_f64).abs() < 0.007,
                "{tmpfs_over}"
            );
        }
    }
}
