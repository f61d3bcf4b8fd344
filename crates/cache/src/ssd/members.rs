//! The members of a pool on an SSD: one file or device, or two that hold the same.

use std::path::Path;
use std::sync::Arc;

use forebay_log::{
    Device, FileDevice, Log, LogError, Members, MirrorDevice, Way, is_member, was_other_member,
};

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
    // Of a member that another process has, or that this one may not open, nobody can say that it is gone.
    let is_there = |device: &forebay_log::Result<Arc<dyn Device>>| match device {
        Err(LogError::InUse { .. }) => true,
        Err(LogError::Device { source, .. }) => {
            source.kind() == std::io::ErrorKind::PermissionDenied
        }
        _ => false,
    };
    if let Some(there) = devices.iter().position(is_there) {
        return devices.swap_remove(there).map_err(of_log);
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

/// A file or device for the other member of the pool on `from`: made if it is not there; what is there is taken if it is empty, was that
/// member and never served without this one, or with `force`.
pub(super) fn blank_member(
    from: &dyn Device,
    path: &Path,
    bytes: u64,
    force: bool,
    trust_owner: bool,
) -> Result<FileDevice> {
    if !path.try_exists().unwrap_or(true) {
        return FileDevice::create_with(path, bytes, trust_owner).map_err(of_log);
    }
    let device = FileDevice::open_with(path, trust_owner).map_err(of_log)?;
    if was_other_member(from, &device) {
        return Ok(device);
    }
    // Judged on the handle that is written through, which has the file for itself.
    drop(device);
    take_device(path, force, trust_owner)
}
