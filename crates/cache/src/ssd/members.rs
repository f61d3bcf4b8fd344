//! The members of a pool on an SSD: one file or device, or two that hold the same.

use std::path::Path;
use std::sync::Arc;

use forebay_log::{Device, FileDevice, Log, LogError, Members, MirrorDevice, Way, is_member};

use super::errors::of_log;
use super::usual::take_device;
use crate::api::pool::{Member, MemberState};
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
    let is_of_mirror = |device: &forebay_log::Result<Arc<dyn Device>>| {
        let device = device.as_ref();
        device.is_ok_and(|device| is_member(&**device).unwrap_or(false))
    };
    if devices.len() == 1 && !is_of_mirror(&devices[0]) {
        // What is wrong with it the log says when it is opened.
        return devices.remove(0).map_err(of_log);
    }
    let no_pair = || {
        ErrorKind::Options(format!(
            "a pool on an SSD has one member, or two of a mirror, and {} were named that are no such two; name it alone",
            paths.len()
        ))
    };
    let is_alone = |device: &forebay_log::Result<Arc<dyn Device>>| {
        let device = device.as_ref();
        device.is_ok_and(|device| matches!(is_member(&**device), Ok(false)))
    };
    if devices.len() > 2 || devices.iter().any(is_alone) {
        return Err(no_pair().into());
    }
    // Of a member that another process has nobody can say that it is gone.
    let is_in_use = |device: &forebay_log::Result<Arc<dyn Device>>| {
        matches!(device, Err(LogError::InUse { .. }))
    };
    if let Some(used) = devices.iter().position(is_in_use) {
        return devices.swap_remove(used).map_err(of_log);
    }
    if !devices.iter().any(is_of_mirror) {
        return Err(no_pair().into());
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

/// A file or device for a member: made if it is not there; what is there is taken if it is empty, a member of this form, or with `force`.
pub(super) fn blank_member(
    path: &Path,
    bytes: u64,
    force: bool,
    trust_owner: bool,
) -> Result<FileDevice> {
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
