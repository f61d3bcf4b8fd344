//! What each page of a region is after an end without order, or without a file.

use forebay_pmem::xor_into;

use super::roles::Roles;
use crate::format::{Copies, Geometry, PAGE_BYTES, Sum};
use crate::medium::{Medium, Part, Sidecar};
use crate::mutants::{Mutant, mutated};

pub(super) type Page = [u8; PAGE_BYTES as usize];

const ZEROES: Page = [0; PAGE_BYTES as usize];

/// What a page is to hold, and what is to vouch for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decided {
    /// None: what is there.
    pub page: Option<Box<Page>>,
    pub sum: Sum,
    /// Nothing that is there gives it, and nobody was told before.
    pub is_lost_now: bool,
}

/// The files of a region by role, as far as they are there.
pub(super) struct Sources<'r> {
    pub geometry: Geometry,
    pub parts: Vec<Option<&'r Part>>,
    pub sidecars: Vec<Option<&'r Sidecar>>,
    /// Whether a role's pages and sums count: no epoch began without them.
    pub trusted: Vec<bool>,
    /// The region was sealed, and nobody has had it since.
    pub is_orderly: bool,
    /// A pass that ended before.
    pub known_pass: u64,
}

impl<'r> Sources<'r> {
    pub fn of_roles(roles: &'r Roles, is_orderly: bool) -> Sources<'r> {
        let all = roles.roles.iter();
        Sources {
            geometry: roles.line.geometry,
            parts: all.clone().map(|role| role.part.as_ref()).collect(),
            sidecars: all.clone().map(|role| role.sidecar.as_ref()).collect(),
            trusted: all.map(|role| !role.is_behind).collect(),
            is_orderly,
            known_pass: roles.line.pass,
        }
    }

    /// The same once all files are there.
    pub fn of_medium(medium: &'r Medium, trusted: Vec<bool>, is_orderly: bool) -> Sources<'r> {
        Sources {
            geometry: medium.geometry,
            parts: medium.parts.iter().map(Some).collect(),
            sidecars: medium.sidecars.iter().map(Some).collect(),
            trusted,
            is_orderly,
            known_pass: 0,
        }
    }

    fn sum_in(&self, role: usize, at: u64) -> Option<Sum> {
        let sidecar = self.sidecars[role]?;
        Some(Sum(sidecar.region.load_u64(at)))
    }

    /// The sums of a page that are there, its own sidecar's first.
    fn sums(&self, extent: usize, row: u64) -> [(usize, Option<Sum>); 2] {
        let places = self.geometry.places_of_sum(extent, row);
        places.map(|(role, at)| (role, self.sum_in(role, at)))
    }
}

/// Looks at rows, one at a time.
pub(super) struct Scan<'r> {
    sources: Sources<'r>,
    /// Of sums that change: later than any that is there.
    new_pass: u64,
    pages: Vec<Page>,
    newest_pass: u64,
}

impl<'r> Scan<'r> {
    /// `new_pass`: what sums that change are to have.
    pub fn new(sources: Sources<'r>, new_pass: u64) -> Scan<'r> {
        Scan {
            pages: vec![ZEROES; sources.geometry.extents()],
            newest_pass: sources.known_pass,
            sources,
            new_pass,
        }
    }

    /// The last pass that made a sum that was seen, also on what does not count.
    pub fn newest_pass(&self) -> u64 {
        self.newest_pass
    }

    /// The pages of the row that was looked at last, as they were decided.
    pub fn parity(&self, decided: &[Decided]) -> Page {
        let mut parity = ZEROES;
        for (found, decided) in self.pages.iter().zip(decided) {
            xor_into(&mut parity, decided.page.as_deref().unwrap_or(found));
        }
        parity
    }

    /// Looks at a row, and decides each of its pages.
    pub fn look(&mut self, row: u64) -> Vec<Decided> {
        let extents = 0..self.sources.geometry.extents();
        let checks: Vec<Option<u32>> = extents
            .clone()
            .map(|extent| {
                copy(
                    self.sources.parts[extent],
                    extent,
                    row,
                    &mut self.pages[extent],
                )
            })
            .collect();
        extents
            .map(|extent| self.decide(extent, row, &checks))
            .collect()
    }

    fn decide(&mut self, extent: usize, row: u64, checks: &[Option<u32>]) -> Decided {
        let stands = |sum| Decided {
            page: None,
            sum,
            is_lost_now: false,
        };
        let copies = self.copies(extent, row);
        let is_trusted = self.sources.trusted[extent];
        let vouching = |check: u32| copies.and_then(|copies| copies.vouching_for(check));
        if let Some(check) = checks[extent] {
            match (vouching(check), is_trusted) {
                (Some(sum), true) => return stands(sum),
                (Some(sum), false) => return stands(self.as_of_its_pass(sum)),
                (None, true) => return stands(self.taken(check, copies)),
                (None, false) => {}
            }
        }
        // Its file is not there, is older than the region, or the medium failed on it.
        if let Some(page) = self.candidate(extent, row, checks) {
            let check = Sum::of(&page[..], extent, row, 0).check();
            if let Some(sum) = vouching(check) {
                return Decided {
                    page: Some(page),
                    ..stands(self.as_of_its_pass(sum))
                };
            }
        }
        Decided {
            page: Some(Box::new(ZEROES)),
            sum: Sum::of(&ZEROES, extent, row, self.new_pass).lost(),
            is_lost_now: true,
        }
    }

    /// The sum of a page that was stored to after its last pass, as far as anybody can tell. What was told of it is still
    /// to be told.
    fn taken(&self, check: u32, copies: Option<Copies>) -> Sum {
        let taken = match mutated(Mutant::UnverifiedNotRemembered) {
            true => Sum::from_check(check, self.new_pass),
            false => Sum::from_check(check, self.new_pass).unverified(),
        };
        match copies {
            Some(copies) => taken.with_flags_of(copies.newest()),
            None => taken,
        }
    }

    /// The sum of a page that is what its last pass covered. After an end without order nothing that is durable tells
    /// whether a program stored to it since. A sum that changes takes a new pass, so that no copy of the old one counts.
    fn as_of_its_pass(&self, sum: Sum) -> Sum {
        let is_known = self.sources.is_orderly || mutated(Mutant::RebuiltCountsAsVerified);
        match is_known || sum.is_unverified() {
            true => sum,
            false => {
                let changed = Sum::from_check(sum.check(), self.new_pass);
                changed.with_flags_of(sum).unverified()
            }
        }
    }

    /// The copies of a page's sum that count.
    fn copies(&mut self, extent: usize, row: u64) -> Option<Copies> {
        let sums = self.sources.sums(extent, row);
        let known = self.sources.known_pass;
        for sum in sums.iter().filter_map(|(_, sum)| *sum) {
            self.newest_pass = self.newest_pass.max(known + sum.passes_after(known));
        }
        let counting = sums.map(|(role, sum)| sum.filter(|_| self.sources.trusted[role]));
        match counting {
            [Some(own), Some(other)] => Some(Copies::two(own, other)),
            [Some(sum), None] | [None, Some(sum)] => Some(Copies::one(sum)),
            [None, None] => None,
        }
    }

    /// What the rest of its row gives for a page, where all of that is there. Whether it counts is not asked: what it gives is
    /// judged by a sum that does.
    fn candidate(&self, extent: usize, row: u64, checks: &[Option<u32>]) -> Option<Box<Page>> {
        let parity = self.sources.geometry.parity_role();
        let mut others = (0..checks.len()).filter(|&other| other != extent);
        if !others.all(|other| checks[other].is_some()) {
            return None;
        }
        let mut page = Box::new(ZEROES);
        copy(self.sources.parts[parity], parity, row, &mut page)?;
        for (other, copied) in self.pages.iter().enumerate() {
            if other != extent {
                xor_into(&mut page[..], copied);
            }
        }
        Some(page)
    }
}

/// Copies what the medium has of a page of a part; its check, or none where it is not there.
fn copy(part: Option<&Part>, extent: usize, row: u64, out: &mut Page) -> Option<u32> {
    out.fill(0);
    part?.read_page(extent, row, out)
}
