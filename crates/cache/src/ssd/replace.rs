//! A member of a pool on two SSDs is taken out, or another one comes in its place.

use std::ops::ControlFlow;
use std::path::Path;

use forebay_log::{LogError, readd};

use super::errors::of_log;
use super::members::{blank_member, members_of};
use super::pool::SsdPool;
use crate::api::pool::{Member, MemberState, RebuildOptions};
use crate::error::{ErrorKind, Result};
use crate::options::Redundancy;

fn no_mirror() -> crate::error::Error {
    ErrorKind::Options(String::from(
        "a pool on an SSD is no mirror if it has one member, which cannot be taken out or replaced",
    ))
    .into()
}

impl SsdPool {
    /// How its members stand.
    pub(crate) fn members(&self) -> Vec<Member> {
        if let Some(members) = &*self.lock_replaced() {
            return members.clone();
        }
        let log = self.shared().log().ok();
        let members = log
            .as_ref()
            .and_then(|log| log.device().members().map(members_of));
        members.unwrap_or_else(|| {
            vec![Member {
                number: 0,
                path: Some(self.path().to_path_buf()),
                state: MemberState::In,
            }]
        })
    }

    /// Takes a member of a mirror out, as if it had failed.
    pub(crate) fn fail_member(&self, number: u32) -> Result<()> {
        let log = self.shared().log()?;
        let Some(members) = log.device().members().filter(|_| number < 2) else {
            return Err(no_mirror());
        };
        let why = std::io::Error::other("it was taken out by hand");
        let expelled = members.expel(number as usize, &why);
        expelled.map_err(|source| {
            of_log(LogError::Device {
                path: self.path().to_path_buf(),
                action: "take its member out",
                source,
            })
        })
    }

    /// Makes a file or device the member that is out. The pool is closed with it, and opens with both again: what is copied stands
    /// still.
    pub(crate) fn replace_member(
        &self,
        number: u32,
        path: &Path,
        options: &RebuildOptions,
        watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let before = self.members();
        if self.redundancy() != Redundancy::Mirror || number >= 2 {
            return Err(no_mirror());
        }
        if before[number as usize].state == MemberState::In {
            let what = format!("member {number} is in; take it out first");
            return Err(ErrorKind::Options(what).into());
        }
        if self.has_background() {
            return Err(ErrorKind::Options(String::from(
                "a member of a pool on SSDs is copied while nobody serves the pool; end the daemon, and give the command again with \
                 --member and the other member's path",
            ))
            .into());
        }
        let trust_owner = self.shared().options.region.trusts_owner();
        let device = self.shared().log()?.device().clone();
        let members = device.members().ok_or_else(no_mirror)?;
        let (_, from) = members.served().swap_remove(0);
        let (bytes, forces) = (self.member_bytes(), options.forces());
        let onto = blank_member(from, path, bytes, forces, trust_owner)?;
        let log = self
            .shared()
            .take_log()
            .ok_or_else(|| self.shared().closed())?;
        // From here on the pool is closed, whatever comes of the copy.
        *self.lock_replaced() = Some(before.clone());
        log.close().map_err(of_log)?;
        let id = forebay_log::draw_id().map_err(|source| {
            of_log(LogError::Device {
                path: path.to_path_buf(),
                action: "draw a number for it",
                source,
            })
        })?;
        readd((from, &onto), false, id, watch).map_err(of_log)?;
        let mut after = before;
        after[number as usize].state = MemberState::In;
        after[number as usize].path = Some(path.to_path_buf());
        *self.lock_replaced() = Some(after);
        Ok(())
    }
}
