//! One run of fio in a guest: what it is told, what came out.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::KIB;
use crate::{Guest, Result};

/// Longest that a run may take beyond its own time.
pub const GRACE: Duration = Duration::from_secs(120);

/// Where the next request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Anywhere, by a seed.
    Random,
    /// Anywhere in the job's own part of the span, by a seed.
    RandomApart,
    /// After the last one; several jobs share the span.
    Sequential,
}

/// What waits for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Each job, for its one request.
    Synchronous,
    /// Nothing: each job keeps so many in flight.
    Asynchronous(u32),
}

/// What fio does, with O_DIRECT.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// Where requests go.
    pub access: Access,
    /// What waits.
    pub engine: Engine,
    /// Share of writes, in percent.
    pub write_percent: u32,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Bytes of the device that are used, from its beginning.
    pub span_bytes: u64,
    /// Threads that do this at the same time.
    pub jobs: u32,
    /// Each write is followed by fsync.
    pub is_synced: bool,
}

/// How long a run takes.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Before counting begins.
    pub ramp: Duration,
    /// Counted.
    pub time: Duration,
}

/// What came out, and of how many requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Requests that ended in the time that counts.
    pub requests: f64,
    /// What came out.
    pub outcome: Outcome,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Requests a second, reads and writes together.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// What a request took, from its making to its end, on average.
    pub latency_us: f64,
}

impl Job {
    /// Runs it on a device or file of the guest.
    pub fn run(&self, guest: &mut Guest, device: &str, pace: Pace, seed: u64) -> Result<Outcome> {
        let script = self.command(device, pace, seed);
        let limit = pace.ramp + pace.time + GRACE;
        let counted = parse(&guest.must_run(&script, limit)?).map_err(|error| {
            format!("fio on {device} said what cannot be read: {error}\n{script}")
        })?;
        Ok(counted.outcome)
    }

    /// Runs it on a device of this machine.
    pub fn run_here(&self, device: &str, pace: Pace, seed: u64) -> Result<Outcome> {
        let script = self.command(device, pace, seed);
        let limit = pace.ramp + pace.time + GRACE;
        let mut shell = Command::new("bash");
        let text = forebay_harness::output(shell.args(["-c", &script]), limit)?;
        Ok(parse(&text)?.outcome)
    }

    /// Requests that all its threads keep on their way.
    pub fn slots(&self) -> u32 {
        let depth = match self.engine {
            Engine::Synchronous => 1,
            Engine::Asynchronous(depth) => depth,
        };
        self.jobs * depth
    }

    /// What a shell is told.
    pub fn command(&self, device: &str, pace: Pace, seed: u64) -> String {
        let (access, write_percent) = (self.access, self.write_percent);
        let pattern = match (access, write_percent) {
            (Access::Random | Access::RandomApart, 0) => "randread",
            (Access::Random | Access::RandomApart, 100) => "randwrite",
            (Access::Random | Access::RandomApart, _) => "randrw",
            (Access::Sequential, 0) => "read",
            (Access::Sequential, 100) => "write",
            (Access::Sequential, _) => "rw",
        };
        let engine = match self.engine {
            Engine::Synchronous => "psync".into(),
            Engine::Asynchronous(depth) => format!("libaio --iodepth={depth}"),
        };
        // Each job of a sequential run has its own part, or all would read the same at the same time.
        let (size, increment) = match access {
            Access::Random => (self.span_bytes, 0),
            Access::RandomApart | Access::Sequential => {
                let part = self.span_bytes / u64::from(self.jobs);
                (part, part)
            }
        };
        let fsync = u32::from(self.is_synced);
        format!(
            "fio --name=point --filename={device} --direct=1 --rw={pattern} --rwmixwrite={write_percent} \
             --ioengine={engine} --bs={} --size={size} --offset_increment={increment} --numjobs={} \
             --fsync={fsync} --time_based --ramp_time={}ms --runtime={}ms --randseed={seed} --norandommap \
             --thread --group_reporting --eta=never --output-format=json",
            self.block_bytes,
            self.jobs,
            pace.ramp.as_millis(),
            pace.time.as_millis(),
        )
    }
}

/// Writes or reads the first `span_bytes` of a device once, in pieces of 64 KiB.
pub fn pass(guest: &mut Guest, device: &str, span_bytes: u64, is_write: bool) -> Result<()> {
    let pattern = if is_write { "write" } else { "read" };
    let script = format!(
        "fio --name=pass --filename={device} --direct=1 --rw={pattern} --ioengine=libaio --iodepth=16 \
         --bs={} --size={span_bytes} --thread --eta=never",
        64 * KIB
    );
    guest.must_run(&script, GRACE).map(drop)
}

/// Reads fio's JSON; notes may stand before it.
pub fn parse(text: &str) -> Result<Counted> {
    let start = text.find('{').ok_or("no JSON")?;
    let report: Value = serde_json::from_str(&text[start..])?;
    let job = &report["jobs"][0];
    if job["error"] != 0 {
        return Err(format!("error {}", job["error"]).into());
    }
    let sum = |name: &str| -> Result<f64> {
        let directions = ["read", "write"].map(|direction| job[direction][name].as_f64());
        match directions {
            [Some(read), Some(write)] => Ok(read + write),
            _ => Err(format!("no {name}").into()),
        }
    };
    let count = sum("total_ios")?;
    let mut waited_ns = 0.0;
    for direction in ["read", "write"] {
        let job = &job[direction];
        let mean_ns = job["lat_ns"]["mean"].as_f64().ok_or("no lat_ns")?;
        waited_ns += mean_ns * job["total_ios"].as_f64().unwrap_or(0.0);
    }
    if count == 0.0 {
        return Err("no request was made".into());
    }
    Ok(Counted {
        requests: count,
        outcome: Outcome {
            iops: sum("iops")?,
            bytes_per_s: sum("bw_bytes")?,
            latency_us: waited_ns / count / 1e3,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_added_up() {
        let text = r#"note: something
            {"jobs": [{"error": 0,
              "read": {"total_ios": 30, "iops": 300.0, "bw_bytes": 1000, "lat_ns": {"mean": 10000.0}},
              "write": {"total_ios": 10, "iops": 100.0, "bw_bytes": 500, "lat_ns": {"mean": 50000.0}}}]}"#;
        let counted = parse(text).expect("a report");
        let wanted = Counted {
            requests: 40.0,
            outcome: Outcome {
                iops: 400.0,
                bytes_per_s: 1500.0,
                latency_us: 20.0,
            },
        };
        assert_eq!(counted, wanted);
        assert!(parse("fio: failed").is_err());
    }
}
