//! A tracker that knows what the test stored, and lets the test store between its calls.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::options::TrackerKind;
use crate::track::{Coverage, Hold, Missed, Tracker};

type Hook = Box<dyn FnMut() + Send>;

#[derive(Default)]
pub struct Known {
    written: Mutex<BTreeSet<u64>>,
    /// Called once, when pages have been taken.
    pub after_take: Mutex<Option<Hook>>,
    /// Called each time before a look at what was stored to again.
    pub before_peek: Mutex<Option<Hook>>,
    pub can_hold: AtomicBool,
    pub is_held: AtomicBool,
    pub has_missed: AtomicBool,
    /// A take of this page alone fails, once.
    pub fails_take_of: Mutex<Option<u64>>,
}

impl Known {
    pub fn wrote(&self, page: u64) {
        self.written.lock().unwrap().insert(page);
    }

    pub fn is_written(&self, page: u64) -> bool {
        self.written.lock().unwrap().contains(&page)
    }

    fn coverage(&self) -> Coverage {
        match self.has_missed.load(Ordering::Relaxed) {
            true => Coverage::MayHaveMissed(Missed::Forked),
            false => Coverage::Complete,
        }
    }
}

pub struct KnownTracker(pub Arc<Known>);

impl Tracker for KnownTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Fault
    }

    fn find_written(
        &self,
        pages: Range<u64>,
        takes: bool,
        written: &mut Vec<Range<u64>>,
    ) -> Result<Coverage> {
        let is_single = takes && pages.end - pages.start == 1;
        let mut failing = self.0.fails_take_of.lock().unwrap();
        if is_single && failing.take_if(|page| *page == pages.start).is_some() {
            let error = std::io::Error::from_raw_os_error(libc::EMFILE);
            let path = std::path::Path::new("/proc");
            return Err(Error::io("look who else opened it", path, error));
        }
        drop(failing);
        if !takes && let Some(hook) = self.0.before_peek.lock().unwrap().as_mut() {
            hook();
        }
        {
            let mut known = self.0.written.lock().unwrap();
            written.extend(known.range(pages.clone()).map(|&page| page..page + 1));
            known.retain(|page| !takes || !pages.contains(page));
        }
        let hook = takes
            .then(|| self.0.after_take.lock().unwrap().take())
            .flatten();
        hook.into_iter().for_each(|mut hook| hook());
        Ok(self.0.coverage())
    }

    fn hold(&self, _: Range<u64>) -> Result<Option<Hold<'_>>> {
        if !self.0.can_hold.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.0.is_held.store(true, Ordering::Relaxed);
        Ok(Some(Hold::new(|| {
            self.0.is_held.store(false, Ordering::Relaxed);
        })))
    }
}
