//! One run of fio with everything below it counted: how often each device is asked for a request of the client,
//! and where the request's time goes.

use serde_json::Value;

use super::contender::Contender;
use super::points::Point;
use super::stage::Stage;
use crate::Result;
use crate::measure::fio::{self, Counted, Pace};

/// What a linear target of dm counted: requests with data, reads and writes together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Passed {
    requests: f64,
    bytes: f64,
    /// Of all requests, side by side ones too.
    time_us: f64,
}

/// For one request of the client, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Layers {
    /// Requests of the client a second.
    pub iops: f64,
    /// From the end of a request until the next one in its place begins: the program.
    pub user_us: f64,
    /// The file system and what waits for it: what a request takes less what it takes from the top down.
    pub above_us: f64,
    /// From the top down, less the devices: the cache.
    pub cache_us: f64,
    /// At all devices together, those asked in the background too.
    pub device_us: f64,
    /// Requests that reach the device that is alone, or the fast one of a cache.
    pub fast_requests: f64,
    /// Bytes of those for a byte of the client.
    pub fast_bytes: f64,
    /// Requests that reach the slow device of a cache.
    pub slow_requests: f64,
    /// Bytes of those for a byte of the client.
    pub slow_bytes: f64,
    /// Requests that reach dm-cache's metadata.
    pub meta_requests: f64,
    /// Requests that the devices' queues merged with others.
    pub merged: f64,
}

impl Layers {
    /// In the kernel: above the cache and in it.
    pub fn kernel_us(&self) -> f64 {
        self.above_us + self.cache_us
    }

    /// All of a request's time, the program's too.
    pub fn whole_us(&self) -> f64 {
        self.user_us + self.kernel_us() + self.device_us
    }

    /// The middle of several runs, number by number.
    pub fn median(runs: &[Layers]) -> Option<Layers> {
        let of =
            |number: fn(&Layers) -> f64| forebay_harness::median(runs.iter().map(number).collect());
        Some(Layers {
            iops: of(|run| run.iops)?,
            user_us: of(|run| run.user_us)?,
            above_us: of(|run| run.above_us)?,
            cache_us: of(|run| run.cache_us)?,
            device_us: of(|run| run.device_us)?,
            fast_requests: of(|run| run.fast_requests)?,
            fast_bytes: of(|run| run.fast_bytes)?,
            slow_requests: of(|run| run.slow_requests)?,
            slow_bytes: of(|run| run.slow_bytes)?,
            meta_requests: of(|run| run.meta_requests)?,
            merged: of(|run| run.merged)?,
        })
    }
}

/// Does a point once.
pub fn run(
    stage: &mut Stage,
    point: &Point,
    contender: Contender,
    pace: Pace,
    seed: u64,
) -> Result<Layers> {
    let fio = point.job.command(&contender.file(), pace, seed);
    let device = contender.device();
    let queues = contender.queues().join(" ");
    // What runs before is not fio's: nothing is counted twice, and fio's own reading of its program is not a request
    // to these devices.
    let script = format!(
        "set -euo pipefail\n\
         stands() {{ for queue in {queues}; do echo $1 $queue $(cat /sys/block/$queue/stat); done; }}\n\
         cd /dev/mapper\n\
         targets=$(for name in {device}-{{top,fast,slow,meta}}; do [ ! -b $name ] || echo $name; done)\n\
         for name in $targets; do dmsetup message $name 0 @stats_clear 0; done\n\
         stands before\n\
         {fio} >/run/point.json\n\
         for name in $targets; do echo passed $name $(dmsetup message $name 0 @stats_print 0); done\n\
         stands after\n\
         cat /run/point.json"
    );
    let before = backing_of_ours(stage, contender)?;
    let text = stage
        .guest
        .must_run(&script, pace.ramp + pace.time + fio::GRACE)?;
    let after = backing_of_ours(stage, contender)?;
    let counted = fio::parse(&text)
        .map_err(|error| format!("what fio said cannot be read: {error}\n{text}"))?;
    let mut layers = layers(&text, device, point, &counted)
        .ok_or_else(|| format!("what was counted cannot be read:\n{text}"))?;
    if let (Some(before), Some(after)) = (before, after) {
        layers.slow_requests = (after[0] - before[0]) / counted.requests;
        let bytes = counted.requests * point.job.block_bytes as f64;
        layers.slow_bytes = (after[1] - before[1]) / bytes;
    }
    Ok(layers)
}

/// Requests to our backing so far, and their bytes.
fn backing_of_ours(stage: &Stage, contender: Contender) -> Result<Option<[f64; 2]>> {
    let Some(ours) = stage.ours.as_ref().filter(|_| contender == Contender::Ours) else {
        return Ok(None);
    };
    let stat: Value = serde_json::from_str(&ours.ask("stat", &["--json"])?)?;
    let backing = &stat["volumes"][0]["backing"];
    let sum = |names: [&str; 2]| {
        let numbers = names.map(|name| backing[name].as_f64());
        let [Some(read), Some(written)] = numbers else {
            return Err(format!(
                "forebay stat has no backing's {}",
                names.join(" or ")
            ));
        };
        Ok(read + written)
    };
    Ok(Some([
        sum(["reads", "writes"])?,
        sum(["bytes_read", "bytes_written"])?,
    ]))
}

/// What the script printed, for one request of the client.
fn layers(text: &str, device: &str, point: &Point, counted: &Counted) -> Option<Layers> {
    let through = |name: &str| {
        let start = format!("passed {device}-{name} ");
        let mut lines = text.lines();
        lines.find_map(|line| passed(line.strip_prefix(&start)?))
    };
    let top = through("top")?;
    let fast = through("fast")?;
    let slow = through("slow").unwrap_or_default();
    let meta = through("meta").unwrap_or_default();
    let Counted { requests, outcome } = *counted;
    let top_us = top.time_us / requests;
    let device_us = (fast.time_us + slow.time_us + meta.time_us) / requests;
    // How long one place among those that are on their way has for a request and for what comes before the next.
    let slot_us = f64::from(point.job.slots()) * 1e6 / outcome.iops;
    let bytes = requests * point.job.block_bytes as f64;
    Some(Layers {
        iops: outcome.iops,
        user_us: (slot_us - outcome.latency_us).max(0.0),
        // What is done in the background has its time too, but no request of the client that has it.
        above_us: (outcome.latency_us - top_us).max(0.0),
        cache_us: (top_us - device_us).max(0.0),
        device_us,
        fast_requests: fast.requests / requests,
        fast_bytes: fast.bytes / bytes,
        slow_requests: slow.requests / requests,
        slow_bytes: slow.bytes / bytes,
        meta_requests: meta.requests / requests,
        merged: (merges(text, "after ")? - merges(text, "before ")?) / requests,
    })
}

/// Reads a line of dm's statistics: the area, reads and how many merged, sectors, nanoseconds, the same of writes.
fn passed(line: &str) -> Option<Passed> {
    let mut words = line.split_whitespace();
    words.next()?;
    let numbers: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
    let both = |index: usize| Some(numbers.get(index)? + numbers.get(index + 4)?);
    Some(Passed {
        requests: both(0)?,
        bytes: both(2)? * 512.0,
        time_us: both(3)? / 1e3,
    })
}

/// The merges that queues had counted by then: the second number of reads and of writes.
fn merges(text: &str, start: &str) -> Option<f64> {
    let mut sum = 0.0;
    for line in text.lines().filter_map(|line| line.strip_prefix(start)) {
        let numbers: Vec<f64> = line
            .split_whitespace()
            .skip(1)
            .map_while(|word| word.parse().ok())
            .collect();
        sum += numbers.get(1)? + numbers.get(5)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::fio::Outcome;
    use crate::measure::layers::points::Figure;

    /// Two requests of one thread, a hundred microseconds each: ten above the top, twenty in the cache, sixty at
    /// the fast device, which was asked three times, ten at the slow one.
    #[test]
    fn time_and_requests_go_to_their_layers() {
        let text = "before sda 1 5 0 0 2 6 0 0\n\
             passed c-top 0+8 2 0 16 180000 0 0 0 0 0 0 0 0 0\n\
             passed c-fast 0+8 2 0 16 100000 1 0 8 20000 0 0 0 0 0\n\
             passed c-slow 0+8 0 0 0 0 1 0 8 20000 0 0 0 0 0\n\
             after sda 1 6 0 0 2 7 0 0\n{}";
        let point = &Figure::Lookup.points()[0];
        let counted = Counted {
            requests: 2.0,
            outcome: Outcome {
                iops: 8_000.0,
                bytes_per_s: 0.0,
                latency_us: 100.0,
            },
        };
        let wanted = Layers {
            iops: 8_000.0,
            user_us: 25.0,
            above_us: 10.0,
            cache_us: 20.0,
            device_us: 70.0,
            fast_requests: 1.5,
            fast_bytes: 1.5,
            slow_requests: 0.5,
            slow_bytes: 0.5,
            meta_requests: 0.0,
            merged: 1.0,
        };
        assert_eq!(layers(text, "c", point, &counted), Some(wanted));
        assert_eq!(layers("nothing", "c", point, &counted), None);
    }
}
