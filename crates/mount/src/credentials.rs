//! Making inodes as the caller would: owner, group and umask of the request hold on this thread while
//! a name is made.
//!
//! The kernel has checked the caller's rights already (`default_permissions`), so that only ownership
//! is taken over and the capabilities stay, but for the one to blocks beyond reserves and quotas.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::Once;

use fuser::Request;
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use rustix::fs::Mode;
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

thread_local! {
    /// Whether this thread has an umask of its own.
    static HAS_OWN_UMASK: Cell<bool> = const { Cell::new(false) };
}

/// The process that makes the request.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
}

impl From<&Request> for Caller {
    fn from(request: &Request) -> Caller {
        Caller {
            user: request.uid(),
            group: request.gid(),
        }
    }
}

/// The caller's identity on this thread, until it is dropped.
#[derive(Debug)]
pub struct Assumed {
    /// The thread's capabilities, where it acts for another user now.
    own_sets: Option<CapabilitySets>,
    is_changed: bool,
}

impl Assumed {
    /// Takes the caller's user, group and umask over.
    pub fn of(caller: Caller, umask: u32) -> Assumed {
        take_own_umask();
        rustix::process::umask(Mode::from_raw_mode(umask & 0o777));
        let (user, group) = own();
        let is_changed = user.is_root() && (caller.user, caller.group) != (0, group.as_raw());
        let mut own_sets = None;
        if is_changed {
            own_sets = rustix::thread::capabilities(None).ok();
            setfsgid(Gid::from_raw(caller.group));
            setfsuid(Uid::from_raw(caller.user));
            // The change of user dropped those that concern files.
            if let Some(mut sets) = own_sets {
                if caller.user != 0 {
                    sets.effective -= CapabilitySet::SYS_RESOURCE;
                }
                let _ = rustix::thread::set_capabilities(None, sets);
            }
        }
        Assumed {
            own_sets,
            is_changed,
        }
    }
}

impl Drop for Assumed {
    fn drop(&mut self) {
        if self.is_changed {
            let (user, group) = own();
            setfsuid(user);
            setfsgid(group);
            if let Some(sets) = self.own_sets {
                let _ = rustix::thread::set_capabilities(None, sets);
            }
        }
        rustix::process::umask(Mode::empty());
    }
}

fn own() -> (Uid, Gid) {
    (nix::unistd::geteuid(), nix::unistd::getegid())
}

/// That they do is said once.
static UMASKS_MIX: Once = Once::new();

/// The umask is the process's unless a thread has a copy of its own.
pub fn take_own_umask() {
    if !HAS_OWN_UMASK.get() {
        // SAFETY: only the working directory, root and umask become the thread's own; descriptors stay shared.
        match unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) } {
            Ok(()) => HAS_OWN_UMASK.set(true),
            Err(error) => UMASKS_MIX.call_once(|| {
                tracing::warn!(%error, "umasks of concurrent callers mix: unshare(CLONE_FS) is refused here");
            }),
        }
    }
}
