//! The core workloads of YCSB, A to F, with its mixes and its laws of choice. Records are one value of
//! 1 KiB; every value begins with its key, and each read is checked.
//!
//! Workloads run one after the other over the same records, E (which inserts and scans) last.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use forebay_harness::choice::{Choice, Law, spread};
use forebay_harness::{Result, Row};
use serde::{Deserialize, Serialize};

use crate::outcome::{Curve, Outcome};
use crate::worker::stores::{Client, Kind, Store, VALUE_BYTES};

const SCAN_MAX: u64 = 100;
const LATENCIES_MAX: usize = 1 << 20;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub store: Kind,
    /// The server's socket, or the directory; several are shards, each a store with clients of its own.
    pub at: Vec<PathBuf>,
    pub library: Option<PathBuf>,
    pub records: u64,
    pub seconds: f64,
    pub clients: usize,
    pub workloads: String,
}

/// What is done in which share of all operations; the rest is reads.
#[derive(Clone, Copy, Debug, Default)]
struct Mix {
    update: f64,
    insert: f64,
    scan: f64,
    read_and_update: f64,
}

fn workload(letter: char) -> Result<(Mix, Law)> {
    let none = Mix::default();
    let of = |update, insert, scan, read_and_update| Mix {
        update,
        insert,
        scan,
        read_and_update,
    };
    Ok(match letter {
        'a' => (of(0.5, 0.0, 0.0, 0.0), Law::Zipf),
        'b' => (of(0.05, 0.0, 0.0, 0.0), Law::Zipf),
        'c' => (none, Law::Zipf),
        'd' => (of(0.0, 0.05, 0.0, 0.0), Law::Latest),
        'e' => (of(0.0, 0.05, 0.95, 0.0), Law::Zipf),
        'f' => (of(0.0, 0.0, 0.0, 0.5), Law::Zipf),
        // Only updates, as the paper takes for commit latencies.
        'u' => (of(1.0, 0.0, 0.0, 0.0), Law::Zipf),
        other => return Err(format!("there is no workload {other:?}; one of abcdefu").into()),
    })
}

/// Loads the records and runs the workloads, over all stores at once.
///
/// Errors: a store's; something else than what was written is read.
pub fn run(plan: &Plan) -> Result<Outcome> {
    let open = |at: &PathBuf| plan.store.open(at, plan.library.as_deref());
    let stores = plan.at.iter().map(open).collect::<Result<Vec<_>>>()?;
    let shards = stores.iter().map(|store| Shard::load(plan, &**store));
    let shards = shards.collect::<Result<Vec<Shard<'_>>>>()?;
    let mut outcome = Outcome::default();
    for letter in plan.workloads.chars() {
        let name = format!("ycsb_{}_{letter}", plan.store.name());
        outcome = outcome.and(workload_over(&shards, letter, &name)?);
    }
    Ok(outcome)
}

/// All clients of all shards at once.
fn workload_over(shards: &[Shard<'_>], letter: char, name: &str) -> Result<Outcome> {
    let (mix, law) = workload(letter)?;
    let began = Instant::now();
    let all = std::thread::scope(|scope| {
        let numbered = shards
            .iter()
            .flat_map(|shard| (0..shard.plan.clients).map(move |number| (shard, number)));
        let clients: Vec<_> = numbered
            .map(|(shard, number)| scope.spawn(move || shard.client(mix, law, number)))
            .collect();
        let joined = clients.into_iter().map(|client| match client.join() {
            Ok(latencies) => latencies,
            Err(_) => Err("a client panicked".into()),
        });
        joined.collect::<Result<Vec<(u64, Vec<u32>)>>>()
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let operations: u64 = all.iter().map(|(operations, _)| operations).sum();
    let mut latencies: Vec<u32> = all
        .into_iter()
        .flat_map(|(_, latencies)| latencies)
        .collect();
    let mut outcome = Outcome::rate(name, operations as f64 / seconds, "operations/s");
    if let Some(curve) = Curve::of(name.to_owned(), &mut latencies) {
        let row = Row::new(format!("{name}_p99"), curve.at(99.0), "ns");
        outcome.rows.push(row);
        outcome.curves.push(curve);
    }
    Ok(outcome)
}

/// One store and what its clients know of each other.
struct Shard<'a> {
    plan: &'a Plan,
    store: &'a dyn Store,
    /// All that were begun.
    records: AtomicU64,
    /// No client has a lower number than this under way; the highest number where it inserts nothing.
    inserting: Vec<AtomicU64>,
    has_failed: AtomicBool,
}

fn inserting(clients: usize) -> Vec<AtomicU64> {
    (0..clients).map(|_| AtomicU64::new(u64::MAX)).collect()
}

impl<'a> Shard<'a> {
    fn load(plan: &'a Plan, store: &'a dyn Store) -> Result<Shard<'a>> {
        let mut loader = store.client(false)?;
        for number in 0..plan.records {
            let key = key(number);
            loader.put(&key, &value(&key), true)?;
        }
        loader.finish()?;
        drop(loader);
        Ok(Shard {
            plan,
            store,
            records: AtomicU64::new(plan.records),
            inserting: inserting(plan.clients),
            has_failed: AtomicBool::new(false),
        })
    }

    fn client(&self, mix: Mix, law: Law, number: usize) -> Result<(u64, Vec<u32>)> {
        let done = self.operate(mix, law, number);
        if done.is_err() {
            self.has_failed.store(true, SeqCst);
        }
        done
    }

    fn operate(&self, mix: Mix, law: Law, number: usize) -> Result<(u64, Vec<u32>)> {
        let mut client = self.store.client(true)?;
        let mut choice = Choice::new(law, self.plan.records, number as u64)?;
        let mut latencies_ns = Vec::with_capacity(LATENCIES_MAX);
        let mut operations = 0;
        let length = Duration::from_secs_f64(self.plan.seconds);
        let began = Instant::now();
        let mut before = began;
        while before - began < length && !self.has_failed.load(Relaxed) {
            match choice.happens(mix.insert) {
                true => self.insert(&mut *client, number)?,
                false => self.one(&mut *client, mix, &mut choice)?,
            }
            operations += 1;
            let now = Instant::now();
            if latencies_ns.len() < LATENCIES_MAX {
                let latency_ns = (now - before).as_nanos();
                latencies_ns.push(u32::try_from(latency_ns).unwrap_or(u32::MAX));
            }
            before = now;
        }
        client.finish()?;
        Ok((operations, latencies_ns))
    }

    fn insert(&self, client: &mut dyn Client, number: usize) -> Result<()> {
        // A thread that sees the record counted also sees the bound.
        self.inserting[number].store(self.records.load(SeqCst), SeqCst);
        let key = key(self.records.fetch_add(1, SeqCst));
        let done = client.put(&key, &value(&key), true);
        self.inserting[number].store(u64::MAX, SeqCst);
        done
    }

    /// How many records are acknowledged, from the first without a gap.
    fn acknowledged(&self) -> u64 {
        let begun = self.records.load(SeqCst);
        let bounds = self.inserting.iter().map(|bound| bound.load(SeqCst));
        bounds.fold(begun, u64::min)
    }

    fn one(&self, client: &mut dyn Client, mix: Mix, choice: &mut Choice) -> Result<()> {
        let key = key(choice.next(self.acknowledged()));
        if choice.happens(mix.update) {
            return client.put(&key, &value(&key), false);
        }
        if choice.happens(mix.scan / (1.0 - mix.insert)) {
            let wanted = choice.length(SCAN_MAX);
            return match client.scan(&key, wanted as usize)? {
                0 => Err(format!("a scan from {key} found nothing").into()),
                _ => Ok(()),
            };
        }
        let found = client.get(&key)?;
        if found.is_none_or(|found| found != value(&key)) {
            return Err(format!("{key} is not as it was written").into());
        }
        match choice.happens(mix.read_and_update) {
            true => client.put(&key, &value(&key), false),
            false => Ok(()),
        }
    }
}

/// Neighbours in time are not neighbours in order.
fn key(number: u64) -> String {
    format!("user{:020}", spread(number))
}

fn value(key: &str) -> Vec<u8> {
    let mut value = key.as_bytes().to_vec();
    value.resize(VALUE_BYTES, b'.');
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Memory(Mutex<BTreeMap<String, Vec<u8>>>);

    impl Store for Memory {
        fn client(&self, _is_durable: bool) -> Result<Box<dyn Client + '_>> {
            Ok(Box::new(self))
        }
    }

    impl Client for &Memory {
        fn put(&mut self, key: &str, value: &[u8], _is_new: bool) -> Result<()> {
            self.0
                .lock()
                .expect("whole")
                .insert(key.into(), value.into());
            Ok(())
        }

        fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
            Ok(self.0.lock().expect("whole").get(key).cloned())
        }

        fn scan(&mut self, key: &str, count: usize) -> Result<usize> {
            let map = self.0.lock().expect("whole");
            Ok(map.range(key.to_owned()..).take(count).count())
        }

        fn finish(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn plan() -> Plan {
        Plan {
            store: Kind::Redis,
            at: Vec::new(),
            library: None,
            records: 200,
            seconds: 0.01,
            clients: 2,
            workloads: "abcfde".into(),
        }
    }

    #[test]
    fn workloads_read_what_was_written_and_insert_what_they_should() {
        let (stores, plan) = ([Memory::default(), Memory::default()], plan());
        let shards = [0, 1].map(|number| Shard::load(&plan, &stores[number]).expect("loaded"));
        for letter in plan.workloads.chars() {
            let before = shards.each_ref().map(|shard| shard.records.load(SeqCst));
            let outcome = workload_over(&shards, letter, "x").expect("it runs");
            assert!(outcome.rows[0].value.is_some_and(|rate| rate > 0.0));
            for (shard, before) in shards.iter().zip(before) {
                let has_grown = shard.records.load(SeqCst) > before;
                assert_eq!(has_grown, "de".contains(letter), "{letter}");
            }
        }
        for (store, shard) in stores.iter().zip(&shards) {
            let there = store.0.lock().expect("whole").len() as u64;
            assert_eq!(there, shard.records.load(SeqCst));
        }
        assert!(workload_over(&shards, 'z', "x").is_err());
    }

    #[test]
    fn a_record_that_was_lost_is_a_failure() {
        let (store, plan) = (Memory::default(), plan());
        let shards = [Shard::load(&plan, &store).expect("loaded")];
        store.0.lock().expect("whole").clear();
        let error = workload_over(&shards, 'c', "x").expect_err("nothing there");
        assert!(
            error.to_string().contains("not as it was written"),
            "{error}"
        );
    }
}
