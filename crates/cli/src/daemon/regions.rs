//! The mapped regions beside a daemon's pool: their keeper, what it says, and the log's word of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay::Pool;
use forebay_command::Failure;
use forebay_command::plain::plain;
use forebay_dax::{Keeper, KeptRegion};
use serde_json::{Value, json};

use crate::regions::{self, Owner};

/// From one pass over a region that a program has to the next.
pub const PERIOD: Duration = Duration::from_secs(1);
/// At most one trouble of a region is told in so long.
const INTERVAL: Duration = Duration::from_secs(10);

/// The keeper of the regions beside a pool's members.
#[derive(Debug)]
pub struct Regions {
    owner: Owner,
    period: Duration,
    keeper: Keeper,
}

impl Regions {
    /// Takes the regions beside the members into keeping. A pool that can have none, because its members are devices
    /// or are not all there, has none; the log says why.
    pub fn keep(pool: &Pool, given: &[PathBuf], period: Duration) -> Option<Regions> {
        let started = Owner::of(pool, given).and_then(|owner| {
            let keeper = Keeper::start(owner.pool(), period).map_err(regions::failure)?;
            Ok(Regions {
                owner,
                period,
                keeper,
            })
        });
        match started {
            Ok(regions) => Some(regions),
            Err(Failure::Arguments(why)) => {
                tracing::debug!(why = &*plain(&why), "no mapped regions");
                None
            }
            Err(failure) => {
                let why = failure.to_string();
                tracing::error!(why = &*plain(&why), "mapped regions are not kept");
                None
            }
        }
    }

    /// Where the files of regions lie.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.owner.directories()
    }

    /// How each region stands, with what the keeper knows.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn list(&self) -> Result<Value, Failure> {
        let mut report = self.owner.report(&self.keeper.status())?;
        report["period_ms"] = (self.period.as_millis() as u64).into();
        Ok(report)
    }

    /// The same for `stat`, of what is kept alone, which reads no file.
    pub fn stat(&self) -> Value {
        let kept = self.keeper.status();
        let region = |kept: &KeptRegion| {
            let mut report = regions::kept_report(kept);
            report["name"] = kept.name.clone().into();
            report["state"] = kept.state.to_string().into();
            report["unverified_pages"] = kept.unverified_pages.into();
            report
        };
        json!(kept.iter().map(region).collect::<Vec<_>>())
    }

    /// What the keeper says of each region.
    pub fn kept(&self) -> Vec<KeptRegion> {
        self.keeper.status()
    }

    /// Ends it: what is open stays open.
    pub fn stop(self) {
        self.keeper.stop();
    }
}

/// What was told of a region.
#[derive(Debug, Default)]
struct Told {
    trouble: Option<String>,
    trouble_at: Option<Instant>,
    unverified_pages: u64,
}

/// What the log is to say of a region.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Unverified(u64),
    Trouble(String),
    IsOver,
}

/// Tells of regions in the log: a line for each thing that is new, a trouble now and then where it comes and goes.
#[derive(Debug, Default)]
pub struct Teller {
    told: BTreeMap<String, Told>,
}

impl Teller {
    /// Tells what is new.
    pub fn tell(&mut self, kept: &[KeptRegion]) {
        self.told
            .retain(|name, _| kept.iter().any(|region| region.name == *name));
        for region in kept {
            let told = self.told.entry(region.name.clone()).or_default();
            let trouble = region.trouble.as_deref();
            for news in look(told, trouble, region.unverified_pages, Instant::now()) {
                let name = &*plain(&region.name);
                match news {
                    News::Unverified(pages) => tracing::warn!(
                        region = name,
                        pages,
                        "pages are unverified: they were taken as they were found, or as of an earlier pass; forebay dax \
                         verify lists them, and when they were looked at forebay dax accept ends this"
                    ),
                    News::Trouble(why) => {
                        tracing::error!(
                            region = name,
                            why = &*plain(&why),
                            "the region is not in order"
                        );
                    }
                    News::IsOver => tracing::info!(region = name, "the region is in order again"),
                }
            }
        }
    }
}

/// What is new about a region.
fn look(told: &mut Told, trouble: Option<&str>, unverified_pages: u64, now: Instant) -> Vec<News> {
    let mut news = Vec::new();
    if unverified_pages > told.unverified_pages {
        news.push(News::Unverified(unverified_pages - told.unverified_pages));
    }
    told.unverified_pages = unverified_pages;
    let is_soon = told.trouble_at.is_some_and(|at| now - at < INTERVAL);
    match trouble {
        Some(why) if told.trouble.as_deref() != Some(why) && !is_soon => {
            told.trouble = Some(why.to_owned());
            told.trouble_at = Some(now);
            news.push(News::Trouble(why.to_owned()));
        }
        None if told.trouble.take().is_some() => news.push(News::IsOver),
        _ => {}
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_and_its_end_are_a_line_each_and_one_that_flaps_is_told_now_and_then() {
        let (mut told, start) = (Told::default(), Instant::now());
        let mut at =
            |seconds, trouble| look(&mut told, trouble, 0, start + Duration::from_secs(seconds));
        assert_eq!(at(0, None), []);
        assert_eq!(at(1, Some("gone")), [News::Trouble("gone".into())]);
        assert_eq!(at(2, Some("gone")), []);
        assert_eq!(at(3, None), [News::IsOver]);
        assert_eq!(at(4, Some("gone")), []);
        assert_eq!(at(5, None), []);
        assert_eq!(at(12, Some("gone")), [News::Trouble("gone".into())]);
        assert_eq!(at(30, Some("cut")), [News::Trouble("cut".into())]);
    }

    #[test]
    fn pages_that_were_taken_as_written_are_told_once() {
        let (mut told, now) = (Told::default(), Instant::now());
        assert_eq!(look(&mut told, None, 3, now), [News::Unverified(3)]);
        assert_eq!(look(&mut told, None, 3, now), []);
        assert_eq!(look(&mut told, None, 5, now), [News::Unverified(2)]);
    }
}
