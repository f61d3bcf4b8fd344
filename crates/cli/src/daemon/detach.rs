//! Taking a disk away: flushed while it is served, then its front ends closed one by one.
//!
//! A disk in use is not detached: that is checked before the flush, which may take minutes, and
//! again as each front end is closed. If one does not close, those that did are opened again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay::DrainProgress;
use forebay_command::disks::{FrontEnds, UblkNumber};
use forebay_command::json_path;
use forebay_serve::control::Progress;
use forebay_serve::{Refusal, RefusalKind};
use serde_json::{Value, json};

use super::refusals::{core_refusal, refusal, watch};
use super::service::{Served, Service};
use crate::requests::Detach;

/// How long the requests of a removed export may take before their connection is cut.
const EXPORT_DEADLINE: Duration = Duration::from_secs(10);

/// The front ends that were closed, beside the export.
#[derive(Default)]
struct Closed {
    fuse: Option<PathBuf>,
    ublk: Option<UblkNumber>,
    vhost_user: Option<PathBuf>,
}

impl Closed {
    /// Opens them again, and adds to the refusal what does not work.
    fn reopen(&self, service: &Service, served: &Arc<Served>, mut refusal: Refusal) -> Refusal {
        let front_ends = FrontEnds {
            fuse: self.fuse.as_deref(),
            ublk: self.ublk,
            vhost_user: self.vhost_user.as_deref(),
        };
        if let Err(error) = service.disks.open_front_ends(served, &front_ends) {
            let note = format!("; its front ends stay closed: {error}");
            refusal.message.push_str(&note);
        }
        refusal
    }
}

/// Flushes a disk and takes it away.
///
/// # Errors
/// It is in use, or it cannot be flushed; it is served as before.
pub(super) fn detach(
    service: &Arc<Service>,
    detach: &Detach,
    progress: &mut dyn Progress,
) -> Result<Value, Refusal> {
    let pool = &service.pool;
    let _changing = service.change()?;
    if detach.discard_unwritten {
        let image = Path::new(&detach.volume);
        let discarded = crate::commands::detach::discard(pool, image).map_err(refusal)?;
        tracing::warn!(image = %image.display(), blocks = %discarded["discarded_blocks"], "a lost disk was given up");
        return Ok(discarded);
    }
    let served = service.disks.find(&detach.volume)?;
    refuse_used(service, &served)?;
    // While it is served: this takes the time, and can be called off.
    let volume = &served.behind.volume;
    let mut watcher = |drain: &DrainProgress| watch(progress, drain);
    for volume in served.behind.volumes() {
        volume.flush_watched(&mut watcher).map_err(core_refusal)?;
    }
    let closed = close_front_ends(service, &served)?;
    service.disks.forget(&served);
    let detached = pool.detach_watched(volume.clone(), &mut watcher);
    if let Err(error) = detached {
        let refusal = closed.reopen(service, &served, core_refusal(error));
        service.disks.add(Arc::clone(&served));
        return Err(refusal);
    }
    // What the pool in front let go is all that was not flushed. It cannot be called off any more.
    if let Err(error) = service.detach_behind(&served.behind) {
        let mut refusal = core_refusal(error);
        let left = "; the disk has left the pool in front, and the one behind has what the disk lacks: end the daemon and \
                    serve the disk again, with both or with the pool behind alone";
        refusal.message.push_str(left);
        return Err(refusal);
    }
    let result = json!({"detached": served.name});
    Ok(json_path::with(result, "backing", &served.backing))
}

fn close_front_ends(service: &Service, served: &Arc<Served>) -> Result<Closed, Refusal> {
    refuse_used(service, served)?;
    let mut closed = Closed {
        fuse: unmount(service, served)?,
        ..Closed::default()
    };
    service
        .disks
        .exports
        .remove_and_wait(&served.name, EXPORT_DEADLINE);
    let socket = service.disks.vhost.path_of(&served.name);
    if !service.disks.vhost.close_unused(&served.name) {
        return Err(closed.reopen(service, served, has_guest(served)));
    }
    closed.vhost_user = socket;
    let number = service.disks.ublk.number_of(&served.name);
    let removed = refuse_open(service, served)
        .and_then(|()| service.disks.ublk.remove(&served.name).map_err(refusal));
    if let Err(refusal) = removed {
        return Err(closed.reopen(service, served, refusal));
    }
    closed.ublk = number;
    Ok(closed)
}

/// Where it was mounted, if it was.
fn unmount(service: &Service, served: &Served) -> Result<Option<PathBuf>, Refusal> {
    let mounted_on = served.mounted_on();
    let unmounted = service.disks.unmount(served, false);
    unmounted.map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => in_use(format!(
            "{} is mounted and in use; unmount what is on it and detach its loop device",
            served.name
        )),
        _ => Refusal::failed(error),
    })?;
    Ok(mounted_on)
}

fn in_use(message: String) -> Refusal {
    Refusal::new(RefusalKind::InUse, message)
}

fn has_guest(served: &Served) -> Refusal {
    in_use(format!(
        "a guest has {} over vhost-user; shut it down first",
        served.name
    ))
}

fn refuse_used(service: &Service, served: &Served) -> Result<(), Refusal> {
    if let Some(connections @ 1..) = service.disks.exports.connections(&served.name) {
        return Err(in_use(format!(
            "{} has {connections} NBD connections; disconnect them first",
            served.name
        )));
    }
    if service.disks.vhost.is_in_use(&served.name) {
        return Err(has_guest(served));
    }
    refuse_open(service, served)
}

/// Refuses where the disk's block device is open.
fn refuse_open(service: &Service, served: &Served) -> Result<(), Refusal> {
    if let Some(path) = service.disks.ublk.path_of(&served.name)
        && service.disks.ublk.is_in_use(&served.name)
    {
        return Err(in_use(format!(
            "{} is in use as {}; unmount what is on it",
            served.name,
            path.display()
        )));
    }
    Ok(())
}
