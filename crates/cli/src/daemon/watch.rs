//! Says in the log when a backing gets into trouble, or a member of the pool is out, and when that is over: a line
//! each, now and then where it comes and goes. And when the medium loses pages, or takes no write somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay::{Member, MemberState, Stats, VolumeStats};
use forebay_command::plain::{plain, plain_path};

use crate::members;

/// How often the volumes are polled.
const LOOK: Duration = Duration::from_secs(1);
/// At most one trouble of a backing is told in so long.
const INTERVAL: Duration = Duration::from_secs(10);

/// What is looked at.
pub struct Seen {
    volumes: Vec<VolumeStats>,
    members: Vec<Member>,
    media_errors: u64,
    retired_slots: u64,
}

impl Seen {
    /// What the pool says of itself, and these members; a mount, which owns its only one, looks at none.
    pub fn new(stats: Stats, members: Vec<Member>) -> Seen {
        Seen {
            volumes: stats.volumes,
            members,
            media_errors: stats.media_errors,
            retired_slots: stats.retired_slots,
        }
    }
}

/// What was told of a volume.
#[derive(Default)]
struct Told {
    /// Failures after a success that were seen, told or not.
    failures: u64,
    /// Those that were not told.
    left_out: u64,
    /// The trouble that was told, until its end was.
    since: Option<Instant>,
    last: Option<Instant>,
}

/// What the log is to say of a volume.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Fails { error: String, left_out: u64 },
    IsBack,
}

/// Looks after the backings until it is dropped.
pub struct Watch {
    // Before the thread, which ends when the sender is dropped.
    ending: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ending = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            drop(thread.join());
        }
    }
}

/// Polls for as long as `seen` returns something. The daemon works without the thread, too.
pub fn start(mut seen: impl FnMut() -> Option<Seen> + Send + 'static) -> Watch {
    let (ending, ends) = channel();
    let watch = move || {
        let mut told: BTreeMap<u32, Told> = BTreeMap::new();
        let mut lacking = BTreeSet::new();
        let mut bad = (0, 0);
        while let Some(seen) = seen() {
            for member in &seen.members {
                tell_of_member(&mut lacking, member);
            }
            tell_of_bad_places(&mut bad, (seen.media_errors, seen.retired_slots));
            let found = seen.volumes;
            told.retain(|id, _| found.iter().any(|volume| volume.id == *id));
            for volume in found {
                let told = told.entry(volume.id).or_default();
                let (now, backing) = (Instant::now(), plain_path(&volume.path));
                let since = told.since;
                for news in look(told, &volume, now) {
                    match news {
                        News::Fails { error, left_out } => tracing::error!(
                            backing,
                            error = &*plain(&error),
                            left_out,
                            "the backing fails or does not answer; what it lacks stays in the pool"
                        ),
                        News::IsBack => {
                            let after_s = since.map_or(0, |since| (now - since).as_secs());
                            tracing::info!(backing, after_s, "the backing works again");
                        }
                    }
                }
            }
            if ends.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    };
    let spawned = std::thread::Builder::new()
        .name("backings".into())
        .spawn(watch);
    let thread = spawned
        .inspect_err(|error| tracing::warn!(%error, "the log does not tell of failing backings"))
        .ok();
    Watch {
        ending: Some(ending),
        thread,
    }
}

/// A line when there are more pages that the medium lost, or more slots that are not used because of one or because they
/// take no write.
fn tell_of_bad_places(told: &mut (u64, u64), (media_errors, retired_slots): (u64, u64)) {
    if media_errors > told.0 || retired_slots > told.1 {
        tracing::error!(
            media_errors,
            retired_slots,
            "the medium failed: look at the device, and replace it if this goes on"
        );
        *told = (media_errors, retired_slots);
    }
}

/// A line when a member is out, and one when it is in again.
fn tell_of_member(lacking: &mut BTreeSet<u32>, member: &Member) {
    match member.state {
        MemberState::In if lacking.remove(&member.number) => {
            let member = members::named(member);
            tracing::info!(member = &*plain(&member), "the member is in again");
        }
        MemberState::Out if lacking.insert(member.number) => {
            let member = members::named(member);
            tracing::error!(
                member = &*plain(&member),
                "the member is out: what is acknowledged may be on one other member alone; bring it back with \
                 forebay member readd, or replace it"
            );
        }
        _ => {}
    }
}

/// What is new about a volume. A trouble that is over already is told with its end.
fn look(told: &mut Told, volume: &VolumeStats, now: Instant) -> Vec<News> {
    let mut news = Vec::new();
    if !volume.attached {
        // Not served, or not yet, which is told at the start.
        return news;
    }
    let begun = volume.failures.saturating_sub(told.failures);
    told.failures = volume.failures;
    if begun > 0 && told.since.is_some() {
        // It was back and failed again between two looks.
        told.left_out += begun;
    } else if begun > 0 || (volume.degraded && told.since.is_none()) {
        let is_soon = told.last.is_some_and(|last| now - last < INTERVAL);
        if is_soon {
            told.left_out += begun;
        } else if let Some(error) = volume
            .last_error
            .clone()
            .or_else(|| volume.last_failure.clone())
        {
            news.push(News::Fails {
                error,
                left_out: std::mem::take(&mut told.left_out),
            });
            told.since = Some(now);
            told.last = Some(now);
        }
    }
    if told.since.is_some() && !volume.degraded {
        told.since = None;
        news.push(News::IsBack);
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(failures: u64, error: Option<&str>) -> VolumeStats {
        let mut volume = VolumeStats::default();
        volume.attached = true;
        volume.degraded = error.is_some();
        volume.last_error = error.map(str::to_owned);
        volume.failures = failures;
        volume.last_failure = (failures > 0).then(|| "no space".to_owned());
        volume
    }

    fn fails(error: &str, left_out: u64) -> News {
        let error = error.to_owned();
        News::Fails { error, left_out }
    }

    #[test]
    fn the_first_failure_and_its_end_are_a_line_each() {
        let (mut told, start) = (Told::default(), Instant::now());
        let mut at = |seconds, volume: VolumeStats| {
            look(&mut told, &volume, start + Duration::from_secs(seconds))
        };
        assert_eq!(at(0, volume(0, None)), []);
        assert_eq!(at(1, volume(1, Some("no space"))), [fails("no space", 0)]);
        assert_eq!(at(2, volume(1, Some("no space"))), []);
        assert_eq!(at(3, volume(1, None)), [News::IsBack]);
        assert_eq!(at(4, volume(1, None)), []);
        // What does not answer has not failed.
        let hangs = "a write has had no answer for 7 s";
        assert_eq!(at(20, volume(1, Some(hangs))), [fails(hangs, 0)]);
        assert_eq!(at(21, volume(1, None)), [News::IsBack]);
    }

    #[test]
    fn a_backing_that_flaps_is_told_now_and_then_with_the_number_of_what_was_left_out() {
        let (mut told, start) = (Told::default(), Instant::now());
        let mut lines = Vec::new();
        for second in 0..25 {
            let now = start + Duration::from_secs(second);
            // Over before the next look.
            lines.extend(look(&mut told, &volume(second * 100 + 1, None), now));
        }
        let expected = [
            fails("no space", 0),
            News::IsBack,
            fails("no space", 900),
            News::IsBack,
            fails("no space", 900),
            News::IsBack,
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_disk_that_is_not_served_was_called_a_backing_that_fails() {
        let (mut told, start) = (Told::default(), Instant::now());
        let mut missing = volume(0, Some("not attached"));
        missing.attached = false;
        assert_eq!(look(&mut told, &missing, start), []);
        let later = start + Duration::from_secs(1);
        assert_eq!(look(&mut told, &volume(0, None), later), []);
    }
}
