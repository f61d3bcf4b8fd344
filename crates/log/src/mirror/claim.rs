//! What a device says of itself: of which pool it is a member, of what number, and what it knows of both.

use crate::device::Device;
use crate::error::{LogError, Result};
use crate::media::{
    INCARNATION_PAGE, IncarnationLine, ROSTER_PAGE, Roster, SUPERBLOCK_PAGE, Superblock,
};
use crate::page::Pages;
use std::path::{Path, PathBuf};

/// What a device says.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) path: PathBuf,
    pub(super) superblock: Superblock,
    /// Its number.
    pub(super) member: usize,
    pub(super) roster: Roster,
    /// The last one that it has a line of.
    pub(super) incarnation: u64,
}

fn read_page(device: &dyn Device, page: u64) -> Result<Pages> {
    let mut bytes = Pages::zeroed(1);
    let read = device.read(page, &mut bytes);
    read.map_err(LogError::of_device(device.path(), "read it"))?;
    Ok(bytes)
}

/// The superblock of a device.
pub(super) fn superblock_of(device: &dyn Device) -> Result<Superblock> {
    let page = read_page(device, SUPERBLOCK_PAGE)?;
    let superblock = Superblock::decode(&page, device.pages());
    superblock.map_err(|found| LogError::NoPool {
        path: device.path().to_owned(),
        found,
    })
}

impl Claim {
    /// What a device says.
    pub(super) fn read(device: &dyn Device) -> Result<Claim> {
        let superblock = superblock_of(device)?;
        if !superblock.is_mirrored {
            return Err(LogError::Unsuitable {
                path: device.path().to_owned(),
                reason: "it is a pool of one member, and two were named; name it alone".into(),
            });
        }
        let mut newest: Option<(usize, Roster)> = None;
        let mut incarnation = 0;
        for line in 0..2 {
            let page = read_page(device, ROSTER_PAGE + line)?;
            let found = Roster::decode(superblock.uuid, &page);
            // A line is written whole or not at all; by the one before it a member that is out would count again.
            if found.is_none() && page.iter().any(|byte| *byte != 0) {
                return Err(LogError::Damaged {
                    path: device.path().to_owned(),
                    found: format!(
                        "its roster at page {} does not hold, which says whether this member of the mirror counts",
                        ROSTER_PAGE + line
                    ),
                });
            }
            let is_newer = |found: &(usize, Roster)| {
                newest.is_none_or(|newest| found.1.epoch > newest.1.epoch)
            };
            newest = found.filter(is_newer).or(newest);
            let found = read_page(device, INCARNATION_PAGE + line)?;
            let found = IncarnationLine::decode(superblock.uuid, &found);
            incarnation = found.map_or(0, |found| found.number).max(incarnation);
        }
        let (member, roster) = newest.ok_or_else(|| LogError::Damaged {
            path: device.path().to_owned(),
            found:
                "neither of its rosters holds, which say whether this member of the mirror counts"
                    .into(),
        })?;
        Ok(Claim {
            path: device.path().to_owned(),
            superblock,
            member,
            roster,
            incarnation,
        })
    }

    /// What tells it from other files of its number.
    pub(super) fn id(&self) -> u64 {
        self.roster.ids[self.member]
    }

    /// Whether it counts by itself.
    pub(super) fn is_in(&self) -> bool {
        self.roster.calls_in(self.member, self.id())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
