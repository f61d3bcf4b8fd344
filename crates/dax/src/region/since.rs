//! Whether others had a region's extents between its tracker's last look and the leases of its seal.

use std::cell::RefCell;

use super::lease::Leases;
use crate::engine::Alone;
use crate::error::Result;
use crate::medium::Medium;
use crate::track::Openers;

/// From the last look on.
pub(super) struct Since {
    /// None where somebody had one, or nobody can tell.
    openers: RefCell<Option<Openers>>,
}

impl Since {
    /// Watches the extents from here on: before the last look.
    pub fn watch(medium: &Medium) -> Since {
        let extents = &medium.parts[..medium.geometry.extents()];
        let files = extents.iter().filter_map(|part| part.region.descriptor());
        Since {
            openers: RefCell::new(Openers::new(files).ok()),
        }
    }

    /// This process has closed them, and has not opened them again.
    pub fn closed(self) -> Since {
        let mut openers = self.openers.into_inner();
        let unopened = |openers: &mut Openers| openers.are_unopened().unwrap_or(false);
        let is_unopened = openers.as_mut().is_some_and(unopened);
        Since {
            openers: RefCell::new(openers.filter(|_| is_unopened)),
        }
    }

    /// Takes the leases, from which on nobody has one.
    pub fn take<'m>(&self, medium: &'m Medium) -> Result<AloneSince<'m>> {
        let leases = Leases::take(medium)?;
        let mut openers = self.openers.borrow_mut();
        let unclosed = |openers: &mut Openers| openers.are_unclosed().unwrap_or(false);
        Ok(AloneSince {
            leases,
            was_alone: openers.as_mut().is_some_and(unclosed),
        })
    }
}

/// Leases, and whether nobody else was there before.
pub(super) struct AloneSince<'m> {
    leases: Leases<'m>,
    was_alone: bool,
}

impl Alone for AloneSince<'_> {
    fn check(&self) -> Result<()> {
        self.leases.check()
    }

    fn was_alone(&self) -> bool {
        self.was_alone
    }
}
