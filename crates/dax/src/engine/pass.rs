//! Passes: over the whole region each period, over a range when a caller asks, under a hold where pages never rest.

use std::ops::Range;
use std::time::Instant;

use super::cover::Written;
use super::pages::Pages;
use super::state::{Engine, State, offsets};
use crate::error::{ErrorKind, Result};
use crate::format::{Line, PAGE_BYTES};
use crate::track::{Coverage, Hold};

/// Passes that leave a page out before its writers are held.
const SKIPS_BEFORE_HOLD: u32 = 1;
/// Pages whose writers are held at once.
const HELD_PAGES: usize = 16;
/// Rows that are durable together, where a pass takes all.
const ROWS_AT_ONCE: u64 = 64 * 1024;
/// Passes after which a line tells how many there were: sums keep so much of the number that what a line knows can be half
/// as far behind again and more.
const PASSES_A_LINE: u64 = 1 << 28;
/// Times that a caller's pass is tried for pages that do not rest and whose writers cannot be held.
const TRIES: u32 = 64;

impl Engine {
    /// One pass over the region. What fails is remembered for [`Engine::status`], too.
    pub fn pass(&self) -> Result<()> {
        let mut state = self.lock();
        let all = 0..self.medium.geometry.pages();
        let passed = self.pass_over(&mut state, &all).and_then(|()| {
            let hot = state.waits.waiting(&all);
            let hot: Vec<u64> = hot
                .filter(|&(_, skips)| skips >= SKIPS_BEFORE_HOLD)
                .map(|(page, _)| page)
                .collect();
            self.cover_held(&mut state, &hot)?;
            self.note_pass(&mut state)
        });
        match &passed {
            Ok(()) => {
                state.counts.passes += 1;
                state.last_failure = None;
            }
            Err(error) => {
                state.counts.failed_passes += 1;
                state.last_failure = Some(error.to_string());
            }
        }
        passed
    }

    /// Returns when what was stored to these pages before is durable and protected. Of the whole region that is a pass:
    /// what failed before is over.
    pub fn sync(&self, pages: &Range<u64>) -> Result<()> {
        let mut state = self.lock();
        for _ in 0..TRIES {
            self.pass_over(&mut state, pages)?;
            let waiting = waiting(&state, pages);
            if waiting.is_empty() {
                self.note_synced(&mut state, pages);
                return Ok(());
            }
            let could_hold = self.cover_held(&mut state, &waiting)?;
            let Some(&left) = self::waiting(&state, pages).first() else {
                self.note_synced(&mut state, pages);
                return Ok(());
            };
            if self.is_beside_damage(&state, left) {
                return Err(damaged(&state));
            }
            if !could_hold {
                // Its writers get a moment in which to let it rest.
                std::thread::yield_now();
            }
        }
        let offset = waiting(&state, pages)
            .first()
            .map_or(0, |page| page * PAGE_BYTES);
        state.last_failure = Some(format!("the page at {offset} never rested"));
        let tracker = self.tracker.kind();
        Err(ErrorKind::NeverRested { offset, tracker }.into())
    }

    fn note_synced(&self, state: &mut State, pages: &Range<u64>) {
        if self.is_whole(pages) {
            state.last_failure = None;
        }
    }

    fn is_whole(&self, pages: &Range<u64>) -> bool {
        *pages == (0..self.medium.geometry.pages())
    }

    /// Steps 1 to 5 for pages of the region, and for those beside them: a row is covered as a whole, so a mate that was
    /// stored to comes with it.
    fn pass_over(&self, state: &mut State, pages: &Range<u64>) -> Result<()> {
        let begun = Instant::now();
        let asked = self.whole_rows(pages);
        let mut found = Vec::new();
        let mut coverage = Coverage::Complete;
        for range in asked.ranges() {
            match self.take(state, range.clone(), &mut found)? {
                Coverage::Complete => {}
                missed => coverage = missed,
            }
        }
        let compare = state.must_compare || coverage != Coverage::Complete;
        // Until a pass over all has ended well, pages may be unseen.
        state.must_compare = compare;
        let since = state.note_found(found);
        let waiting = asked.ranges().iter();
        let taken = waiting.flat_map(|range| state.waits.waiting(range));
        let taken = Pages::new(taken.map(|(page, _)| page..page + 1).collect());
        let rows = match compare {
            true => self.rows_of(asked.ranges()),
            false => self.rows_of(taken.ranges()),
        };
        let written = Written {
            pages: taken,
            compare,
            all: state.must_take_all,
            is_in_doubt: state.is_in_doubt,
            since,
        };
        // Only a look that begins now may say again that something was missed.
        state.must_compare = false;
        let covered = self.cover_in_turn(state, &rows, &written);
        if self.is_whole(pages) && covered.is_ok() {
            state.must_take_all = false;
            state.is_in_doubt = false;
            state.scanned = begun;
            state.counts.compared += u64::from(compare);
        } else {
            state.must_compare |= compare;
        }
        covered
    }

    /// Takes pages that were written. Where that fails all are to be compared: what was taken is not told again.
    fn take(
        &self,
        state: &mut State,
        pages: Range<u64>,
        found: &mut Vec<Range<u64>>,
    ) -> Result<Coverage> {
        let taken = self.tracker.take_written(pages, found);
        state.must_compare |= taken.is_err();
        taken
    }

    /// Covers rows, not all of them at once where there may be many.
    fn cover_in_turn(&self, state: &mut State, rows: &Pages, written: &Written) -> Result<()> {
        if !written.all {
            return self.cover(state, rows, written);
        }
        for range in rows.ranges() {
            for start in range.clone().step_by(ROWS_AT_ONCE as usize) {
                let rows = Pages::new(vec![start..range.end.min(start + ROWS_AT_ONCE)]);
                self.cover(state, &rows, written)?;
            }
        }
        Ok(())
    }

    /// Has a line tell the number of the last pass, before sums are too far from it.
    fn note_pass(&self, state: &mut State) -> Result<()> {
        if state.pass - state.line.pass < PASSES_A_LINE {
            return Ok(());
        }
        let line = Line {
            pass: state.pass,
            ..state.line.next(state.line.mark)
        };
        self.put(state, line)
    }

    /// Covers pages with their rows' writers held, a few at a time; whether the tracker could hold them.
    fn cover_held(&self, state: &mut State, pages: &[u64]) -> Result<bool> {
        let geometry = self.medium.geometry;
        let single: Vec<Range<u64>> = pages.iter().map(|&page| page..page + 1).collect();
        let rows: Vec<u64> = self.rows_of(&single).iter().collect();
        for batch in rows.chunks((HELD_PAGES / geometry.extents()).max(1)) {
            let held_pages: Vec<u64> = batch
                .iter()
                .flat_map(|&row| (0..geometry.extents()).map(move |extent| (extent, row)))
                .map(|(extent, row)| geometry.page(extent, row))
                .collect();
            let mut holds: Vec<Hold<'_>> = Vec::with_capacity(held_pages.len());
            for &page in &held_pages {
                // A hot page counts as written in any case; of its mates it has to be known.
                let hold = match state.waits.is_waiting(page) {
                    true => self.tracker.hold_hot(page..page + 1)?,
                    false => self.tracker.hold(page..page + 1)?,
                };
                match hold {
                    Some(hold) => holds.push(hold),
                    None => return Ok(false),
                }
            }
            let mut found = Vec::new();
            let mut compare = false;
            for &page in &held_pages {
                let coverage = self.take(state, page..page + 1, &mut found)?;
                compare |= coverage != Coverage::Complete;
            }
            state.must_compare |= compare;
            let since = state.note_found(found);
            let taken = held_pages
                .iter()
                .filter(|&&page| state.waits.is_waiting(page));
            let written = Written {
                pages: Pages::new(taken.map(|&page| page..page + 1).collect()),
                compare,
                all: false,
                is_in_doubt: false,
                since,
            };
            let rows = Pages::new(batch.iter().map(|&row| row..row + 1).collect());
            self.cover(state, &rows, &written)?;
            state.counts.held_pages += held_pages.len() as u64;
            // Writers go on: parity and sums of what they will change are durable.
            drop(holds);
        }
        Ok(true)
    }

    /// Whether a page's row has a damaged one.
    fn is_beside_damage(&self, state: &State, page: u64) -> bool {
        let geometry = self.medium.geometry;
        let (_, row) = geometry.place(page);
        (0..geometry.extents()).any(|extent| state.damaged.contains(&geometry.page(extent, row)))
    }

    /// All pages of the rows of these.
    fn whole_rows(&self, pages: &Range<u64>) -> Pages {
        let geometry = self.medium.geometry;
        if self.is_whole(pages) || geometry.extents() == 1 {
            return Pages::new(vec![pages.clone()]);
        }
        let mut beside = Vec::new();
        for rows in self.rows_of(std::slice::from_ref(pages)).ranges() {
            for run in geometry.runs(rows.clone(), rows.end - rows.start) {
                beside.extend((0..geometry.extents()).map(|extent| {
                    let first = geometry.page(extent, run.start);
                    first..first + (run.end - run.start)
                }));
            }
        }
        Pages::new(beside)
    }

    /// The rows of pages.
    pub(super) fn rows_of(&self, pages: &[Range<u64>]) -> Pages {
        let geometry = self.medium.geometry;
        let mut rows = Vec::new();
        for range in pages {
            rows.extend(geometry.rows_of(range.clone()));
        }
        Pages::new(rows)
    }
}

fn waiting(state: &State, pages: &Range<u64>) -> Vec<u64> {
    state.waits.waiting(pages).map(|(page, _)| page).collect()
}

pub(super) fn damaged(state: &State) -> crate::error::Error {
    ErrorKind::Damaged {
        name: state.line.name.clone(),
        pages: state.damaged.len() as u64,
        offsets: offsets(&state.damaged),
    }
    .into()
}
