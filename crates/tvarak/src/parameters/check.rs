//! What a file of parameters has to keep to for a machine to be built of it.

use crate::array::MOST_WAYS;
use crate::parameters::sections::{CacheLevel, Parameters, ParametersError};

/// Bytes of all caches, at most.
const CACHE_BYTES_MOST: u64 = 1 << 30;
/// Bytes of a file, at most: its lines have numbers of 32 bits, and DRAM and redundancy need some of these.
const FILE_BYTES_MOST: u64 = 1 << 34;
/// Cycles, nanoseconds, picojoules, instructions or number of anything, at most: far more than there is.
const MOST: i64 = 1 << 16;
/// Keys, tuples, or operations on them, at most.
const ENTRIES_MOST: i64 = 1 << 24;
/// The names of these.
const ENTRIES: [&str; 6] = [
    "operations",
    "requests",
    "keys",
    "transactions",
    "tuples",
    "log_nodes",
];
/// Cores, banks of the LLC, DIMMs: a bit of a word of 16 for each.
const PARTS: std::ops::RangeInclusive<u64> = 1..=16;

/// Refuses numbers with which arithmetic could overflow.
///
/// # Errors
/// There is one.
pub(in crate::parameters) fn magnitudes(table: &toml::Table) -> Result<(), ParametersError> {
    let sections = table
        .iter()
        .filter_map(|(name, section)| Some((name, section.as_table()?)));
    for (section, values) in sections {
        for (key, value) in values {
            let most = match key.as_str() {
                _ if key.ends_with("_bytes") || key.ends_with("_us") => 1 << 36,
                key if ENTRIES.contains(&key) => ENTRIES_MOST,
                _ => MOST,
            };
            let value = value.get("value").and_then(toml::Value::as_integer);
            if value.is_some_and(|value| value > most) {
                let what = format!("describe no machine: {section}.{key} is above {most}");
                return Err(ParametersError(what));
            }
        }
    }
    Ok(())
}

fn is_cache(level: &CacheLevel) -> bool {
    let set_bytes = level.ways.value.saturating_mul(64);
    let sets = level.size_bytes.value.checked_div(set_bytes).unwrap_or(0);
    level.ways.value <= MOST_WAYS as u64
        && sets.is_power_of_two()
        && sets * set_bytes == level.size_bytes.value
}

impl Parameters {
    /// # Errors
    /// A machine cannot be built of them, or the work does not fit it.
    pub(in crate::parameters) fn check(&self) -> Result<(), ParametersError> {
        let work = self.work().into_iter().chain(self.programs());
        match self
            .sizes()
            .into_iter()
            .chain(work)
            .find(|(holds, _)| !holds)
        {
            None => Ok(()),
            Some((_, rule)) => Err(ParametersError(format!("describe no machine: {rule}"))),
        }
    }

    fn sizes(&self) -> [(bool, &'static str); 10] {
        let (llc, own) = (&self.llc, &self.controller);
        let caches = [&self.l1d, &self.l1i, &self.l2];
        let of_core: u64 = caches
            .map(|level| level.size_bytes.value.min(FILE_BYTES_MOST))
            .iter()
            .sum();
        let shared = llc.bank_bytes.value.min(FILE_BYTES_MOST) * llc.banks.value.min(16);
        let all = of_core * self.cores.count.value.min(16)
            + shared
            + own.cache_bytes.value.min(FILE_BYTES_MOST);
        let reserved = own
            .redundancy_ways
            .value
            .saturating_add(own.diff_ways.value);
        let set_bytes = llc.ways.value.clamp(1, 1 << 20) * 64;
        let own_set_bytes = own.cache_ways.value.clamp(1, 1 << 20) * 64;
        [
            (
                PARTS.contains(&self.cores.count.value),
                "there are 1 to 16 cores.count",
            ),
            (
                PARTS.contains(&llc.banks.value),
                "there are 1 to 16 llc.banks",
            ),
            (
                self.nvm.dimms.value > 1 && PARTS.contains(&self.nvm.dimms.value),
                "parity needs 2 to 16 nvm.dimms",
            ),
            (
                PARTS.contains(&self.dram.dimms.value),
                "there are 1 to 16 dram.dimms",
            ),
            (
                caches.into_iter().all(is_cache),
                "size_bytes of l1d, l1i or l2 is no power of two of sets of its ways, or these are more than 16",
            ),
            (
                llc.ways.value > 0
                    && llc.bank_bytes.value > 0
                    && llc.bank_bytes.value.is_multiple_of(set_bytes),
                "llc.bank_bytes is no multiple of 64 times llc.ways",
            ),
            (
                own.redundancy_ways.value > 0
                    && own.diff_ways.value > 0
                    && reserved < llc.ways.value
                    && llc.ways.value <= MOST_WAYS as u64,
                "the controller's ways and the application's share llc.ways, 16 at most",
            ),
            (
                (1..=MOST_WAYS as u64).contains(&own.cache_ways.value)
                    && own.cache_bytes.value >= own_set_bytes,
                "controller.cache_bytes has no room for controller.cache_ways, or these are more than 16",
            ),
            (
                all <= CACHE_BYTES_MOST,
                "all caches together have more than 1 GiB",
            ),
            (
                [
                    &self.cores.instructions_per_cycle,
                    &self.cores.frequency_mhz,
                    &self.cores.fill_buffers,
                    &self.cores.bytes_per_instruction,
                    &self.adaptive.shadowed_sets,
                    &self.adaptive.round_accesses,
                    &self.adaptive.better_by,
                    &self.nvm.banks,
                    &self.dram.banks,
                ]
                .iter()
                .all(|sourced| sourced.value > 0),
                "a rate or a number of buffers or banks is nought",
            ),
        ]
    }

    fn work(&self) -> [(bool, &'static str); 5] {
        let (fio, stream) = (&self.fio, &self.stream);
        let fio_bytes = fio.threads.value.saturating_mul(fio.region_bytes.value);
        let cores = 1..=self.cores.count.value;
        [
            (
                cores.contains(&fio.threads.value) && cores.contains(&stream.threads.value),
                "a workload has more threads than there are cores, or none",
            ),
            (
                fio.access_bytes.value == 64,
                "fio.access_bytes is simulated as 64 alone",
            ),
            (
                fio.region_bytes.value.is_power_of_two()
                    && fio.region_bytes.value >= 1 << 13
                    && fio.work_bytes.value <= fio.region_bytes.value,
                "fio.region_bytes is a power of two from 8 KiB on, and fio.work_bytes is within it",
            ),
            (
                fio_bytes <= FILE_BYTES_MOST
                    && stream.array_bytes.value <= FILE_BYTES_MOST / 3
                    && fio.code_bytes.value <= 1 << 20,
                "the file of a workload has more than 16 GiB, or fio.code_bytes is above 1 MiB",
            ),
            (
                stream.array_bytes.value > 0 && stream.array_bytes.value.is_multiple_of(4096),
                "stream.array_bytes is no multiple of a page",
            ),
        ]
    }

    fn programs(&self) -> [(bool, &'static str); 4] {
        let (redis, trees, store) = (&self.redis, &self.trees, &self.nstore);
        let cores = 1..=self.cores.count.value;
        let value_bytes = redis.value_bytes.value.min(1 << 12);
        let field_bytes = store.field_bytes.value.min(1 << 12);
        // What `StoreKind::region_bytes` has for each, rounded up.
        let redis_bytes = redis.instances.value * redis.keys.value * (640 + value_bytes);
        let tree_bytes = trees.instances.value * trees.operations.value * 192;
        let tuple_bytes = 512 + 10 * (128 + field_bytes);
        let store_bytes =
            (store.tuples.value + store.log_nodes.value * store.threads.value) * tuple_bytes;
        [
            (
                [&redis.instances, &trees.instances, &store.threads]
                    .iter()
                    .all(|threads| cores.contains(&threads.value)),
                "a program has more instances than there are cores, or none",
            ),
            (
                [redis_bytes, tree_bytes, store_bytes]
                    .iter()
                    .all(|bytes| *bytes <= FILE_BYTES_MOST),
                "the file of redis, trees or nstore has more than 16 GiB",
            ),
            (
                (1..=1 << 12).contains(&redis.value_bytes.value)
                    && (8..=1 << 12).contains(&store.field_bytes.value)
                    && store.hot_tuples_percent.value <= 100
                    && store.hot_transactions_percent.value <= 100,
                "redis.value_bytes are 1 to 4096, nstore.field_bytes 8 to 4096, and its percents of 100",
            ),
            (
                self.programs.work_divisor.value > 0
                    && self.programs.warm_up_divisor.value > 0
                    && self.programs.code_bytes.value <= 1 << 20,
                "a divisor of programs is nought, or programs.code_bytes is above 1 MiB",
            ),
        ]
    }
}
