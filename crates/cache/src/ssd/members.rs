//! The members of a pool on an SSD: one file or device, or two that hold the same.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use forebay_log::{
    Device, FileDevice, Log, LogError, Members, MirrorDevice, Way, is_member, readd,
};

use super::errors::of_log;
use super::pool::SsdPool;
use super::usual::take_device;
use crate::api::pool::{Member, MemberState, RebuildOptions};
use crate::engine::{RebuildProgress, RebuildWatcher};
use crate::error::{ErrorKind, Result};
use crate::options::Redundancy;

/// The device of a pool with these members: the one that it has, or both of a mirror; `is_gone` is the caller's word that one that is
/// missing is so for good.
pub(super) fn device_of(
    paths: &[&Path],
    open: impl Fn(&Path) -> forebay_log::Result<Arc<dyn Device>>,
    is_gone: bool,
    way: Way,
) -> Result<Arc<dyn Device>> {
    let mut devices: Vec<_> = paths.iter().map(|path| open(path)).collect();
    // Of a member that another process has nobody can say that it is gone.
    let is_in_use = |device: &forebay_log::Result<Arc<dyn Device>>| {
        matches!(device, Err(LogError::InUse { .. }))
    };
    if let Some(used) = devices.iter().position(is_in_use) {
        return devices.swap_remove(used).map_err(of_log);
    }
    let is_of_mirror = |device: &forebay_log::Result<Arc<dyn Device>>| {
        let device = device.as_ref();
        device.is_ok_and(|device| is_member(&**device).unwrap_or(false))
    };
    if devices.len() == 1 && !is_of_mirror(&devices[0]) {
        // What is wrong with it the log says when it is opened.
        return devices.remove(0).map_err(of_log);
    }
    if devices.len() > 2 || !devices.iter().any(is_of_mirror) {
        return Err(ErrorKind::Options(format!(
            "a pool on an SSD has one member, or two of a mirror, and {} were named that are no such two; name it alone",
            paths.len()
        ))
        .into());
    }
    let mirror = MirrorDevice::open(devices, is_gone, way).map_err(of_log)?;
    Ok(Arc::new(mirror))
}

/// Whether two are named, or one that lacks the other.
pub(super) fn redundancy_of(log: &Log) -> Redundancy {
    match log.device().members() {
        Some(_) => Redundancy::Mirror,
        None => Redundancy::None,
    }
}

/// How the members stand, by their numbers.
pub(super) fn members_of(members: &dyn Members) -> Vec<Member> {
    let health = members.health();
    let members = health.members.into_iter().zip(0..);
    members
        .map(|(member, number)| Member {
            number,
            path: member.path,
            state: match member.is_in {
                true => MemberState::In,
                false => MemberState::Out,
            },
        })
        .collect()
}

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
        watcher: &mut RebuildWatcher<'_>,
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
        let onto = blank_member(path, self.member_bytes(), options.forces(), trust_owner)?;
        let log = self
            .shared()
            .take_log()
            .ok_or_else(|| self.shared().closed())?;
        let device = log.device().clone();
        log.close().map_err(of_log)?;
        let members = device.members().ok_or_else(no_mirror)?;
        let (_, from) = members.served().swap_remove(0);
        let mut watch = |done_bytes, all_bytes| -> ControlFlow<()> {
            watcher(RebuildProgress {
                done_bytes,
                all_bytes,
            })
        };
        let id = forebay_log::draw_id().map_err(|source| {
            of_log(LogError::Device {
                path: path.to_path_buf(),
                action: "draw a number for it",
                source,
            })
        })?;
        readd((from, &onto), false, id, &mut watch).map_err(of_log)?;
        let mut after = before;
        after[number as usize].state = MemberState::In;
        after[number as usize].path = Some(path.to_path_buf());
        *self.lock_replaced() = Some(after);
        Ok(())
    }
}

/// A file or device for a member: made if it is not there; what is there is taken if it is empty, a member of this form, or with `force`.
fn blank_member(path: &Path, bytes: u64, force: bool, trust_owner: bool) -> Result<FileDevice> {
    if !path.try_exists().unwrap_or(true) {
        return FileDevice::create_with(path, bytes, trust_owner).map_err(of_log);
    }
    let was_member = {
        let device = FileDevice::open_with(path, trust_owner).map_err(of_log)?;
        is_member(&device).unwrap_or(false)
    };
    match was_member {
        true => FileDevice::open_with(path, trust_owner).map_err(of_log),
        false => take_device(path, force, trust_owner),
    }
}
