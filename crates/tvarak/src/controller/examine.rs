//! What the file system finds when it looks at a page with all that protects it.
//!
//! Four things tell of a page: its own bytes, its system checksum, its lines' DAX-CL-checksums, and what
//! its stripe's parity gives with the other pages of the stripe. One bug spoils one of them; two at most, where a
//! misdirected write hits what protects its own page. What a checksum vouches for is right, and so are bytes
//! that the stripe gives as well.

use crate::controller::state::Controllers;
use crate::line::{PAGE_LINES, PageWords, difference, line_sum, page_sum};
use crate::mutants::{Mutant, mutated};
use crate::nvm::Nvm;

/// A page as NVM has it, beside what it should be.
pub struct Examined {
    /// The page.
    pub page: u32,
    /// Its bytes on the media; none where a line is on a dead DIMM.
    pub stored: Option<Box<PageWords>>,
    /// Its right bytes; none if it is lost.
    pub right: Option<Box<PageWords>>,
    /// Its system checksum as it holds now is wrong.
    pub is_sum_wrong: bool,
    /// One of its DAX-CL-checksums is wrong.
    pub is_line_sum_wrong: bool,
    /// The parity of its stripe, with the others' right bytes, is wrong.
    pub is_parity_wrong: bool,
}

impl Examined {
    /// Whether its own bytes are wrong. Those of a dead DIMM are not.
    pub fn is_data_wrong(&self) -> bool {
        match (&self.stored, &self.right) {
            (Some(stored), Some(right)) => stored != right,
            (stored, _) => stored.is_some(),
        }
    }
}

/// What vouches for a page.
struct Witnesses {
    sum: Option<u32>,
    line_sums: Vec<Option<u32>>,
}

impl Witnesses {
    fn of(page: u32, controllers: &Controllers, nvm: &mut Nvm) -> Witnesses {
        Witnesses {
            sum: controllers.current_sum(page, nvm),
            line_sums: controllers.current_line_sums(page, nvm),
        }
    }

    fn sum_fits(&self, words: &PageWords) -> bool {
        self.sum == Some(page_sum(words))
    }

    /// Whether every line fits that has a checksum, and each has one.
    fn line_sums_fit(&self, words: &PageWords) -> bool {
        let mut pairs = self.line_sums.iter().zip(words);
        pairs.all(|(sum, words)| *sum == Some(line_sum(words)))
    }

    fn vouch_for(&self, words: &PageWords) -> bool {
        self.sum_fits(words) || self.line_sums_fit(words)
    }

    /// Whether there is nothing to vouch: the DIMM with the page's checksum is dead, and lines have none.
    fn are_none(&self) -> bool {
        self.sum.is_none() && self.line_sums.iter().any(Option::is_none)
    }
}

impl Controllers {
    /// Looks at a page.
    pub fn examine(&self, page: u32, nvm: &mut Nvm) -> Examined {
        let stored = read_page(page, nvm);
        let witnesses = Witnesses::of(page, self, nvm);
        let rebuilt = self.rebuild(page, nvm);
        let right = stored
            .as_ref()
            .filter(|words| witnesses.vouch_for(words) || rebuilt.as_ref() == Some(*words));
        let from_stripe = || {
            let rebuilt = rebuilt.as_ref();
            rebuilt.filter(|words| {
                witnesses.vouch_for(words) || stored.is_none() && witnesses.are_none()
            })
        };
        let right = right.or_else(from_stripe).cloned();
        let (is_sum_wrong, is_line_sum_wrong, is_parity_wrong) = match &right {
            None => (false, false, false),
            Some(right) => (
                witnesses.sum.is_some() && !witnesses.sum_fits(right),
                differs(&witnesses.line_sums, right),
                rebuilt.is_some_and(|rebuilt| rebuilt != *right),
            ),
        };
        Examined {
            page,
            stored,
            right,
            is_sum_wrong,
            is_line_sum_wrong,
            is_parity_wrong,
        }
    }

    /// A page as its stripe's parity and other pages give it: none where one of these is on a dead DIMM, or is itself
    /// vouched for by nothing (§3.1).
    pub fn rebuild(&self, page: u32, nvm: &mut Nvm) -> Option<Box<PageWords>> {
        let layout = nvm.layout;
        let stripe = layout.stripe(page);
        let mut rebuilt = Box::new([[0; 8]; PAGE_LINES as usize]);
        for (line, words) in rebuilt.iter_mut().enumerate() {
            *words = self.current(layout.parity(stripe, line as u32), nvm)?;
        }
        for mate in layout.pages_of(stripe).filter(|mate| *mate != page) {
            let words = read_page(mate, nvm)?;
            let is_right = mutated(Mutant::MatesUnverified)
                || Witnesses::of(mate, self, nvm).vouch_for(&words);
            if !is_right {
                return None;
            }
            for (rebuilt, words) in rebuilt.iter_mut().zip(words.iter()) {
                *rebuilt = difference(rebuilt, words);
            }
        }
        Some(rebuilt)
    }
}

/// Whether a line does not fit its checksum; those that have none do not count.
fn differs(line_sums: &[Option<u32>], words: &PageWords) -> bool {
    let mut pairs = line_sums.iter().zip(words);
    pairs.any(|(sum, words)| sum.is_some_and(|sum| sum != line_sum(words)))
}

/// A page of the file, read by the file system.
pub fn read_page(page: u32, nvm: &mut Nvm) -> Option<Box<PageWords>> {
    let mut words = Box::new([[0; 8]; PAGE_LINES as usize]);
    for (line, words) in words.iter_mut().enumerate() {
        let physical = nvm.layout.data(page * PAGE_LINES + line as u32);
        *words = nvm.file_system_read(physical)?;
    }
    Some(words)
}
