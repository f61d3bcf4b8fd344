//! The regions that a keeper has, and how each stands.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::engine::FirstPass;
use crate::list::names;
use crate::pool::DaxPool;
use crate::region::{Kept, KeptLeases, Places, keep, mark_wanted};
use crate::report::{KeptRegion, RegionState};

/// One region.
struct Region {
    leases: Option<KeptLeases>,
    /// This keeper marked it open under its lease, and no process has had it by the library since.
    is_watched: bool,
    /// The files that were under that lease.
    places: Option<Places>,
    /// A pass of this keeper has taken every page.
    has_passed: bool,
    report: KeptRegion,
}

/// All of them.
pub(super) struct Regions {
    pool: DaxPool,
    regions: BTreeMap<String, Region>,
}

impl Regions {
    pub fn new(pool: DaxPool) -> Regions {
        Regions {
            pool,
            regions: BTreeMap::new(),
        }
    }

    /// Lets go of leases that somebody waits for, once the mark is durable; whether there were any. Where the mark cannot
    /// be set the lease stays: the kernel lets the program wait, and breaks it in the end.
    pub fn give_way(&mut self) -> bool {
        let mut has_changed = false;
        for (name, region) in &mut self.regions {
            if !region.leases.as_ref().is_some_and(KeptLeases::are_wanted) {
                continue;
            }
            has_changed = true;
            match mark_wanted(&self.pool, name) {
                Ok(is_own) => {
                    region.places = region.leases.take().and_then(KeptLeases::into_places);
                    region.is_watched = is_own && region.places.is_some();
                    region.report.leased = false;
                    region.report.state = RegionState::Open;
                    region.report.lease_breaks += 1;
                    region.report.trouble = None;
                }
                Err(error) => region.report.trouble = Some(error.to_string()),
            }
        }
        has_changed
    }

    /// Whether a program may be waiting for one of them.
    pub fn have_leases(&self) -> bool {
        self.regions.values().any(|region| region.leases.is_some())
    }

    /// Seals or passes over each region that is not under lease.
    pub fn keep(&mut self) {
        let Ok(found) = names(&self.pool) else {
            // A member that cannot be read now may be there again the next time.
            return;
        };
        self.regions.retain(|name, _| found.contains(name));
        for name in found {
            let region = self.regions.entry(name.clone());
            let region = region.or_insert_with(|| Region::new(&name));
            region.doubt_what_was_replaced();
            if region.leases.is_none() {
                region.keep(&self.pool);
            }
        }
    }

    pub fn report(&self, to: &Mutex<Vec<KeptRegion>>) {
        let reports = self.regions.values().map(|region| region.report.clone());
        *to.lock().unwrap_or_else(PoisonError::into_inner) = reports.collect();
    }
}

impl Region {
    fn new(name: &str) -> Region {
        Region {
            leases: None,
            is_watched: false,
            places: None,
            has_passed: false,
            report: KeptRegion {
                name: name.to_owned(),
                state: RegionState::Open,
                leased: false,
                passes: 0,
                lease_breaks: 0,
                unverified_pages: 0,
                trouble: None,
            },
        }
    }

    /// Another file in an extent's place is no store of a program: what differs is to be named.
    fn doubt_what_was_replaced(&mut self) {
        if self.leases.as_ref().is_some_and(|it| !it.are_in_place()) {
            self.leases = None;
            self.report.leased = false;
            self.places = None;
        }
        self.is_watched &= self.places.as_ref().is_some_and(Places::are_kept);
        if !self.is_watched {
            self.places = None;
        }
    }

    fn keep(&mut self, pool: &DaxPool) {
        let report = &mut self.report;
        report.trouble = None;
        let first = match (self.has_passed, self.is_watched) {
            (true, _) => FirstPass::Compares,
            (false, true) => FirstPass::TakesAll,
            // Whoever had it before was not seen to end in order.
            (false, false) => FirstPass::Doubts,
        };
        let kept = keep(pool, &report.name, self.is_watched, first);
        self.has_passed = match kept {
            Ok(Kept::Sealed(..) | Kept::Open(_) | Kept::Unleased(_)) => true,
            Ok(Kept::Locked) => self.has_passed,
            // What another process left is as good as what a killed one did.
            Ok(Kept::InUse) | Err(_) => false,
        };
        match kept {
            Ok(Kept::Sealed(leases, line)) => {
                self.leases = Some(leases);
                report.leased = true;
                report.state = RegionState::Sealed;
                report.unverified_pages = line.unverified_pages;
            }
            Ok(Kept::Open(line)) => {
                report.state = RegionState::of(line.mark);
                report.passes += 1;
                report.unverified_pages = line.unverified_pages;
            }
            Ok(Kept::Unleased(line)) => {
                report.state = RegionState::of(line.mark);
                report.passes += 1;
                report.unverified_pages = line.unverified_pages;
                let trouble =
                    "no lease can be had on its extents: it stays open until it is sealed by hand";
                report.trouble = Some(trouble.to_owned());
            }
            Ok(Kept::InUse) => {
                self.is_watched = false;
                report.state = RegionState::Open;
                report.trouble = Some("a process has it open by the library".to_owned());
            }
            Ok(Kept::Locked) => {
                report.state = RegionState::Open;
                let trouble = "a program holds the lock of an extent: what it stores is covered when it has ended";
                report.trouble = Some(trouble.to_owned());
            }
            Err(error) => report.trouble = Some(error.to_string()),
        }
    }
}
