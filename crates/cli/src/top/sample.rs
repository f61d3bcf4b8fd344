//! What the screen shows, out of two samples of the daemon: rates from the counters' differences,
//! everything else from the later one.

use forebay_command::plain::plain;
use serde_json::{Value, json};

/// Requests of one kind in the last interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kind {
    /// Requests a second.
    pub per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// The median latency.
    pub p50_ns: u64,
    /// What one in a hundred exceeds.
    pub p99_ns: u64,
    /// What one in a thousand exceeds.
    pub p999_ns: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disk {
    /// What it is called, or its backing where it is not served.
    pub name: String,
    /// Whether its backing refuses writes.
    pub is_degraded: bool,
    /// The backing's last error.
    pub last_error: String,
    /// What its backing has not answered for a second or more, and for how long.
    pub waiting: String,
    /// Reads.
    pub read: Kind,
    /// Writes.
    pub write: Kind,
}

/// A front end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrontEnd {
    /// `nbd`, `fuse`, `vhost` or `ublk`.
    pub kind: &'static str,
    /// Where it is.
    pub address: String,
    /// What happens there.
    pub activity: String,
}

/// One screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Screen {
    /// How long the interval was.
    pub interval_s: f64,
    /// How long the daemon runs.
    pub uptime_s: u64,
    /// How a mirrored pool stands; empty of another one.
    pub condition: String,
    /// What it keeps twice, in a word.
    pub redundancy: String,
    /// Blocks' room.
    pub slots: u64,
    /// Room that is free.
    pub free_slots: u64,
    /// Blocks that wait for their backing.
    pub dirty_blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// The watermarks, in per mille of the slots.
    pub dirty_low_per_mille: u64,
    /// See `dirty_low_per_mille`.
    pub dirty_high_per_mille: u64,
    /// Block reads of the interval that the pool served, of all of them; `None` without reads.
    pub hit_ratio: Option<f64>,
    /// The ring of a pool on an SSD, in the place of log, fences and checkpoints.
    pub ring: Option<Ring>,
    /// Share of the log that awaits a checkpoint.
    pub log_used_per_mille: u64,
    /// The same of each lane.
    pub lanes_used_per_mille: Vec<u64>,
    /// Dirty blocks that a backing is being given now.
    pub writing_blocks: u64,
    /// Blocks of the journals of file systems on the disks.
    pub journal_blocks: u64,
    /// Those of them that write-back leaves for last, now.
    pub journal_deferred_blocks: u64,
    /// Overwrites of these a second: each saved the disk a block.
    pub journal_overwritten_per_s: f64,
    /// Journal blocks written back a second.
    pub journal_written_per_s: f64,
    /// Writers that wait for a free block now.
    pub waiting_writers: u64,
    /// Transactions a second.
    pub commits_per_s: f64,
    /// Fences a second.
    pub fences_per_s: f64,
    /// Checkpoints a second.
    pub checkpoints_per_s: f64,
    /// Blocks written back a second.
    pub write_backs_per_s: f64,
    /// Runs they were merged into, a second.
    pub runs_per_s: f64,
    /// Blocks evicted a second.
    pub evictions_per_s: f64,
    /// Blocks brought in a second.
    pub fills_per_s: f64,
    /// Waits of writers a second.
    pub throttled_per_s: f64,
    /// Writers slowed to the pace of the backing, a second.
    pub paced_per_s: f64,
    /// How long one of them waited on average.
    pub paced_mean_ns: u64,
    /// Failed writes and syncs of backings since the start.
    pub write_back_errors: u64,
    /// Bad copies fetched again since the start.
    pub healed: u64,
    /// Reads refused since the start because the only copy is bad.
    pub corrupt: u64,
    /// Wrong copies of a mirror that were written again since the start.
    pub repaired: u64,
    /// Those that stayed wrong.
    pub unrepaired: u64,
    /// Pages on which the medium failed since the start.
    pub media_errors: u64,
    /// Blocks' room that is not used any more.
    pub retired_slots: u64,
    /// A fence failed.
    pub is_poisoned: bool,
    /// The disks.
    pub disks: Vec<Disk>,
    /// The front ends.
    pub front_ends: Vec<FrontEnd>,
}

/// The log of a pool on an SSD, which is all of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ring {
    /// What it is made of.
    pub segments: u64,
    /// Those that may be written next.
    pub free_segments: u64,
    /// Blocks written again, further ahead, as their segment was to go, a second.
    pub carried_per_s: f64,
    /// Durable writes a second.
    pub flushes_per_s: f64,
}

fn ring(now: &Value, rate: impl Fn(&str) -> f64) -> Option<Ring> {
    now["ssd"].is_object().then(|| Ring {
        segments: number(now, "/ssd/segments"),
        free_segments: number(now, "/ssd/free_segments"),
        carried_per_s: rate("/ssd/carried_blocks"),
        flushes_per_s: rate("/ssd/flushes"),
    })
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

fn text(value: &Value, path: &str) -> String {
    let found = value.pointer(path).and_then(Value::as_str);
    plain(found.unwrap_or_default()).into_owned()
}

impl Screen {
    /// What changed from `before` to `now`.
    pub fn between(before: &Value, now: &Value) -> Screen {
        let interval_s = number(now, "/interval_ns") as f64 / 1e9;
        let rate = |path: &str| {
            let gone = number(now, path).saturating_sub(number(before, path));
            if interval_s > 0.0 {
                gone as f64 / interval_s
            } else {
                0.0
            }
        };
        let (paced, paced_us) = (rate("/totals/paced"), rate("/totals/paced_us"));
        let (hits, misses) = (rate("/totals/read_hits"), rate("/totals/read_misses"));
        Screen {
            interval_s,
            uptime_s: number(now, "/daemon/uptime_s"),
            redundancy: text(now, "/redundancy"),
            condition: text(now, "/pool"),
            slots: number(now, "/slots"),
            free_slots: number(now, "/free_slots"),
            dirty_blocks: number(now, "/dirty_blocks"),
            block_bytes: number(now, "/block_bytes"),
            dirty_low_per_mille: number(now, "/settings/dirty_low_per_mille"),
            dirty_high_per_mille: number(now, "/settings/dirty_high_per_mille"),
            hit_ratio: (hits + misses > 0.0).then(|| hits / (hits + misses)),
            ring: ring(now, rate),
            log_used_per_mille: number(now, "/log_used_per_mille"),
            lanes_used_per_mille: each(&now["lanes_used_per_mille"], |lane| {
                lane.as_u64().unwrap_or(0)
            }),
            writing_blocks: number(now, "/writing_blocks"),
            waiting_writers: number(now, "/waiting_writers"),
            commits_per_s: rate("/totals/commits"),
            fences_per_s: rate("/counters/fences"),
            checkpoints_per_s: rate("/checkpoints"),
            write_backs_per_s: rate("/totals/write_backs"),
            runs_per_s: rate("/totals/write_back_runs"),
            journal_blocks: number(now, "/journal_blocks"),
            journal_deferred_blocks: number(now, "/journal_deferred_blocks"),
            journal_overwritten_per_s: rate("/totals/journal_overwritten"),
            journal_written_per_s: rate("/totals/journal_written"),
            evictions_per_s: rate("/totals/evictions"),
            fills_per_s: rate("/totals/fills"),
            throttled_per_s: rate("/totals/throttled"),
            paced_per_s: paced,
            paced_mean_ns: if paced > 0.0 {
                (paced_us / paced * 1e3) as u64
            } else {
                0
            },
            write_back_errors: number(now, "/totals/write_back_errors"),
            healed: number(now, "/totals/healed"),
            corrupt: number(now, "/totals/corrupt"),
            repaired: number(now, "/totals/repaired"),
            unrepaired: number(now, "/totals/unrepaired"),
            media_errors: number(now, "/media_errors"),
            retired_slots: number(now, "/retired_slots"),
            is_poisoned: now["poisoned"] == true,
            disks: each(&now["volumes"], |volume| disk(volume, interval_s)),
            front_ends: each(&now["front_ends"], |front_end| {
                shown_front_end(front_end, before, interval_s)
            }),
        }
    }

    /// The same for a script.
    pub fn to_json(&self, now: &Value) -> Value {
        json!({
            "interval_s": self.interval_s,
            "hit_ratio": self.hit_ratio,
            "per_second": {
                "commits": self.commits_per_s,
                "fences": self.fences_per_s,
                "flushes": self.ring.as_ref().map(|ring| ring.flushes_per_s),
                "carried": self.ring.as_ref().map(|ring| ring.carried_per_s),
                "checkpoints": self.checkpoints_per_s,
                "write_backs": self.write_backs_per_s,
                "write_back_runs": self.runs_per_s,
                "journal_overwritten": self.journal_overwritten_per_s,
                "journal_written": self.journal_written_per_s,
                "evictions": self.evictions_per_s,
                "fills": self.fills_per_s,
                "throttled": self.throttled_per_s,
                "paced": self.paced_per_s,
            },
            "sample": now,
        })
    }
}

fn each<T>(list: &Value, of: impl FnMut(&Value) -> T) -> Vec<T> {
    list.as_array().into_iter().flatten().map(of).collect()
}

fn disk(volume: &Value, interval_s: f64) -> Disk {
    let name = text(volume, "/name");
    let kind = |path: &str| {
        let number = |field: &str| number(volume, &format!("/recent/{path}/{field}"));
        let rate = |field: &str| match interval_s {
            0.0 => 0.0,
            seconds => number(field) as f64 / seconds,
        };
        Kind {
            per_s: rate("count"),
            bytes_per_s: rate("bytes"),
            p50_ns: number("p50_ns"),
            p99_ns: number("p99_ns"),
            p999_ns: number("p999_ns"),
            errors: number("errors"),
        }
    };
    Disk {
        name: if name.is_empty() {
            format!("({}, not served)", text(volume, "/path"))
        } else {
            name
        },
        is_degraded: volume["degraded"] == true,
        last_error: text(volume, "/last_error"),
        waiting: shown_wait(&volume["waiting_for"]),
        read: kind("read"),
        write: kind("write"),
    }
}

fn shown_wait(wait: &Value) -> String {
    match (wait["request"].as_str(), wait["ms"].as_u64()) {
        (Some(request), Some(ms @ 1000..)) => format!("{request} for {} s", ms / 1000),
        _ => String::new(),
    }
}

fn shown_front_end(front_end: &Value, before: &Value, interval_s: f64) -> FrontEnd {
    let address = text(front_end, "/address");
    for kind in ["fuse", "ublk"] {
        if front_end["kind"] == kind {
            return FrontEnd {
                kind,
                address,
                activity: text(front_end, "/volume"),
            };
        }
    }
    let requests = |front_end: &Value| -> u64 {
        ["reads", "writes", "flushes", "zeroings", "others"]
            .iter()
            .map(|name| front_end[name].as_u64().unwrap_or(0))
            .sum()
    };
    let front_ends = before["front_ends"].as_array().into_iter().flatten();
    let earlier = front_ends
        .filter(|other| other["address"] == front_end["address"])
        .map(requests)
        .sum();
    let rate = requests(front_end).saturating_sub(earlier) as f64 / interval_s.max(1e-9);
    let (kind, disk) = match front_end["kind"].as_str() {
        Some("vhost-user") => ("vhost", format!("{}: ", text(front_end, "/volume"))),
        _ => ("nbd", String::new()),
    };
    let clients = match number(front_end, "/connections_open") {
        1 => String::from("1 client"),
        count => format!("{count} clients"),
    };
    let mut activity = format!(
        "{disk}{clients}, {:.0} requests/s, {} queued",
        if interval_s > 0.0 { rate } else { 0.0 },
        number(front_end, "/requests_in_flight"),
    );
    for (name, meaning) in [("/errors", "errors"), ("/connections_refused", "refused")] {
        let count = number(front_end, name);
        if count > 0 {
            activity.push_str(&format!(", {count} {meaning}"));
        }
    }
    FrontEnd {
        kind,
        address,
        activity,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Two samples a second apart, of a daemon that is at work.
    pub fn samples() -> (Value, Value) {
        let sample = |number: u64| {
            let recent = json!({"count": 2000, "bytes": 8_192_000, "errors": 0,
                "p50_ns": 4100, "p99_ns": 31_000, "p999_ns": 1_250_000});
            json!({
                "interval_ns": 1_000_000_000_u64 * number,
                "slots": 10_000, "free_slots": 2_500, "dirty_blocks": 4_200, "block_bytes": 4096,
                "log_used_per_mille": 120, "lanes_used_per_mille": [0, 100, 380, 1000],
                "journal_blocks": 1024, "journal_deferred_blocks": 900, "writing_blocks": 64, "waiting_writers": 1, "checkpoints": 3 * number, "poisoned": false,
                "counters": {"fences": 2500 * number},
                "totals": {"commits": 2000 * number, "read_hits": 1900 * number,
                    "read_misses": 100 * number, "write_backs": 700 * number,
                    "write_back_runs": 90 * number, "evictions": 50 * number,
                    "fills": 100 * number, "throttled": 2 * number, "paced": 400 * number,
                    "journal_overwritten": 3_000 * number, "journal_written": 20 * number,
                    "paced_us": 120_000 * number, "write_back_errors": 1,
                    "healed": 0, "corrupt": 0},
                "settings": {"dirty_low_per_mille": 500, "dirty_high_per_mille": 600},
                "daemon": {"uptime_s": 3725},
                "volumes": [
                    {"id": 1, "name": "disk.img", "path": "/srv/disk.img", "degraded": false,
                        "recent": {"read": recent, "write": recent}},
                    {"id": 2, "name": "second", "path": "/srv/second.img", "degraded": true,
                        "last_error": "Input/output error", "recent": {}},
                ],
                "front_ends": [
                    {"kind": "nbd", "address": "unix:/run/forebay.nbd", "connections_open": 2,
                        "reads": 2000 * number, "requests_in_flight": 3, "errors": 0,
                        "connections_refused": 0},
                    {"kind": "fuse", "address": "/mnt/forebay", "volume": "disk.img"},
                ],
            })
        };
        (sample(0), sample(1))
    }

    #[test]
    fn rates_are_differences_over_the_interval() {
        let (before, now) = samples();
        let screen = Screen::between(&before, &now);
        assert_eq!(screen.commits_per_s, 2000.0);
        assert_eq!(screen.hit_ratio, Some(0.95));
        assert_eq!(screen.disks[0].read.per_s, 2000.0);
        assert!(screen.disks[1].is_degraded);
        assert!(screen.front_ends[0].activity.contains("2000 requests/s"));
        assert_eq!(screen.front_ends[1].address, "/mnt/forebay");
    }

    #[test]
    fn whatever_comes_is_shown_somehow() {
        for odd in [
            json!(null),
            json!([]),
            json!({"volumes": 7, "front_ends": [1]}),
        ] {
            let screen = Screen::between(&odd, &odd);
            assert_eq!(screen.hit_ratio, None);
            assert_eq!(screen.commits_per_s, 0.0);
        }
    }
}
