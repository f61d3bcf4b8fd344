//! On whose behalf this thread writes: room of the backing is taken with the caller's right to it.
//!
//! A daemon of root's may take blocks that are reserved for root and go beyond quotas. What it takes for
//! others it takes with their user and group, and without `CAP_SYS_RESOURCE`. That is asked where room is
//! taken, which writes into room that is there already do not meet; write-back, which comes later and
//! with root's right, finds the room reserved.

#![allow(unsafe_code, reason = "rustix does not set the user of file accesses")]

use std::cell::Cell;

use rustix::thread::{CapabilitySet, CapabilitySets};

/// A user and its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Caller {
    user: u32,
    group: u32,
}

thread_local! {
    static CALLER: Cell<Option<Caller>> = const { Cell::new(None) };
}

/// This thread writes on behalf of a caller, until this is dropped.
#[derive(Debug)]
pub struct OnBehalf {
    before: Option<Caller>,
}

impl OnBehalf {
    /// Of this user. It costs nothing before room is taken.
    pub fn of(user: u32, group: u32) -> OnBehalf {
        let caller = (user != 0).then_some(Caller { user, group });
        OnBehalf {
            before: CALLER.replace(caller),
        }
    }
}

impl Drop for OnBehalf {
    fn drop(&mut self) {
        CALLER.set(self.before);
    }
}

/// The caller's rights on this thread, until it is dropped.
struct Assumed {
    sets: CapabilitySets,
}

impl Assumed {
    fn of(caller: Caller) -> Option<Assumed> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let sets = rustix::thread::capabilities(None).ok()?;
        // SAFETY: both change this thread only.
        unsafe {
            libc::setfsgid(caller.group);
            libc::setfsuid(caller.user);
        }
        let mut fewer = sets;
        fewer.effective -= CapabilitySet::SYS_RESOURCE;
        // Fewer than we have: that cannot be refused.
        let _ = rustix::thread::set_capabilities(None, fewer);
        Some(Assumed { sets })
    }
}

impl Drop for Assumed {
    fn drop(&mut self) {
        // SAFETY: both change this thread only.
        unsafe {
            libc::setfsuid(libc::geteuid());
            libc::setfsgid(libc::getegid());
        }
        let _ = rustix::thread::set_capabilities(None, self.sets);
    }
}

/// Takes room in the backing with the caller's right.
pub(crate) fn as_caller<T>(take: impl FnOnce() -> T) -> T {
    let _assumed = CALLER.get().and_then(Assumed::of);
    take()
}
