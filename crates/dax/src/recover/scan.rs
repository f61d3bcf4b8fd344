//! What each page of a region is after an end without order, or without a file.

use super::roles::{Role, Roles, Standing};
use crate::error::Result;
use crate::format::{Geometry, PAGE_BYTES, Sum, turned};

pub(super) type Page = [u8; PAGE_BYTES as usize];

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The newest sum vouches for it.
    Vouched,
    /// It was stored to after its last pass, as far as anybody can tell: it stays as it is, and is counted.
    Written,
    /// It is not there, is old, or is damaged.
    Bad,
}

/// What is to become of a row's bad page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is none.
    Stands,
    /// The row gives it, and its sum vouches for that.
    Rebuilt(usize, Box<Page>),
    /// These are lost.
    Lost(Vec<usize>),
}

/// Looks at rows, one at a time.
pub(super) struct Scan<'r> {
    roles: &'r Roles,
    is_orderly: bool,
    pages: Vec<Page>,
    found: Vec<Found>,
    /// How much further than the line's pass the sums are that were seen.
    pass_ahead: u32,
}

impl<'r> Scan<'r> {
    pub fn new(roles: &'r Roles, is_orderly: bool) -> Scan<'r> {
        let extents = roles.geometry().extents();
        Scan {
            roles,
            is_orderly,
            pages: vec![[0; PAGE_BYTES as usize]; extents],
            found: vec![Found::Bad; extents],
            pass_ahead: 0,
        }
    }

    fn geometry(&self) -> Geometry {
        self.roles.geometry()
    }

    /// The last pass that made a sum.
    pub fn pass(&self) -> u64 {
        self.roles.line.pass + u64::from(self.pass_ahead)
    }

    /// What the pages of the row that was looked at last are.
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// Looks at a row, and says what is to become of it.
    pub fn look(&mut self, row: u64) -> Result<Verdict> {
        for extent in 0..self.geometry().extents() {
            self.found[extent] = self.look_at(extent, row);
        }
        let is_bad = |&extent: &usize| self.found[extent] == Found::Bad;
        let bad: Vec<usize> = (0..self.found.len()).filter(is_bad).collect();
        Ok(match bad[..] {
            [] => Verdict::Stands,
            [extent] => match self.rebuild(extent, row) {
                Some(page) => Verdict::Rebuilt(extent, page),
                None => Verdict::Lost(bad),
            },
            _ => Verdict::Lost(bad),
        })
    }

    fn look_at(&mut self, extent: usize, row: u64) -> Found {
        let role = &self.roles.roles[extent];
        let judges = self.judges(extent, row);
        for sum in &judges.sums {
            let ahead = sum.passes_after(self.roles.line.pass);
            self.pass_ahead = self.pass_ahead.max(ahead);
        }
        let check = copy(role, extent, row, &mut self.pages[extent]);
        if check.is_some_and(|check| judges.vouch_for(check)) {
            return Found::Vouched;
        }
        let is_store = match role.standing {
            _ if role.part.is_none() || role.is_new_part => false,
            // No sum that can be believed says that it is not.
            _ if !judges.are_believed => true,
            Standing::Behind => false,
            Standing::Current | Standing::Interrupted => !self.is_orderly,
        };
        match is_store && check.is_some() {
            true => Found::Written,
            false => Found::Bad,
        }
    }

    /// The sums that tell whether a page is right: of those that are believed, otherwise of those that are there.
    fn judges(&self, extent: usize, row: u64) -> Judges {
        let geometry = self.geometry();
        let parity = geometry.parity_role();
        let places = [
            (extent, geometry.sum_at(row)),
            (parity, geometry.sum_at_parity(extent, row)),
        ];
        let read = |is_wanted: fn(&Role) -> bool| -> Vec<Sum> {
            let roles = places
                .iter()
                .map(|&(role, at)| (&self.roles.roles[role], at));
            let wanted = roles.filter(|(role, _)| is_wanted(role));
            let sidecars = wanted.filter_map(|(role, at)| Some((role.sidecar.as_ref()?, at)));
            sidecars
                .map(|(sidecar, at)| Sum(sidecar.region.load_u64(at)))
                .collect()
        };
        let believed = read(Role::is_believed);
        match believed.is_empty() {
            false => Judges {
                sums: believed,
                are_believed: true,
            },
            true => Judges {
                sums: read(|_| true),
                are_believed: false,
            },
        }
    }

    /// What the row gives for a page, if its sum vouches for that.
    fn rebuild(&self, extent: usize, row: u64) -> Option<Box<Page>> {
        let judges = self.judges(extent, row);
        let parity = self.geometry().parity_role();
        let mut page = Box::new([0; PAGE_BYTES as usize]);
        copy(&self.roles.roles[parity], parity, row, &mut page)?;
        for (other, copied) in self.pages.iter().enumerate() {
            if other != extent {
                xor(&mut page, copied);
            }
        }
        let check = Sum::of(&page[..], extent, row, 0).check();
        (judges.are_believed && judges.vouch_for(check)).then_some(page)
    }
}

/// Copies of a page's sum.
struct Judges {
    sums: Vec<Sum>,
    are_believed: bool,
}

impl Judges {
    /// The one of the latest pass decides; of one pass, either. A page is durable before a sum is, so that it matches the
    /// newest or was stored to since.
    fn vouch_for(&self, check: u32) -> bool {
        let pass = |sum: &Sum| sum.0 >> 32;
        match self.sums[..] {
            [one, other] if pass(&one) != pass(&other) => {
                let is_later = one.passes_after(pass(&other)) > 0;
                let newest = if is_later { one } else { other };
                newest.check() == check
            }
            _ => self.sums.iter().any(|sum| sum.check() == check),
        }
    }
}

/// Copies what the medium has of a page of a role's part; its check, or none where it is not there.
fn copy(role: &Role, extent: usize, row: u64, out: &mut Page) -> Option<u32> {
    out.fill(0);
    let region = &role.part.as_ref()?.region;
    let at = row * PAGE_BYTES;
    let crc = region.read_crc32c(at, out);
    let is_lost = region.has_media_error(at, out.len());
    (!is_lost).then(|| turned(crc, extent, row))
}

fn xor(into: &mut Page, page: &Page) {
    for (into, byte) in into.iter_mut().zip(page) {
        *into ^= byte;
    }
}
