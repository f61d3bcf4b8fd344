//! The handler of SIGSEGV, one for the process: stores to guarded regions are its own, anything else goes to the handler
//! that was there before.
//!
//! It allocates nothing, takes no lock but a region's, and keeps errno. While it runs all other signals to its
//! thread are blocked. A handler that a program installs later has to pass on what is not its own; a thread that has
//! SIGSEGV blocked ends the process by its first store to a page that is read-only.
#![allow(unsafe_code, reason = "signal handlers are the system's own interface")]

use std::io;
use std::ops::Deref;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::region::{Mode, Region};
use crate::track::span::Span;

/// Regions guarded at once.
const REGIONS_MAX: usize = 256;

/// `si_code` of a fault that the mapping's protection raised (bits/siginfo-consts.h).
const SEGV_ACCERR: i32 = 2;

/// One region as the handler finds it. The region is what makes the place taken, and is set last and cleared first.
struct Place {
    start: AtomicU64,
    end: AtomicU64,
    region: AtomicPtr<Region>,
}

static PLACES: [Place; REGIONS_MAX] = [const {
    Place {
        start: AtomicU64::new(0),
        end: AtomicU64::new(0),
        region: AtomicPtr::new(null_mut()),
    }
}; REGIONS_MAX];

impl Place {
    /// The region if the address lies in it. It is alive: the thread is in the middle of an access to it.
    fn region_at(&self, address: u64) -> Option<&'static Region> {
        let region = self.region.load(Ordering::Acquire);
        let range = self.start.load(Ordering::Acquire)..self.end.load(Ordering::Acquire);
        // Else the place may have been given to another region while its addresses were read.
        let is_same = self.region.load(Ordering::Acquire) == region;
        if region.is_null() || !is_same || !range.contains(&address) {
            return None;
        }
        // SAFETY: a region is unregistered only when no thread can access its mapping any more, and this one does.
        Some(unsafe { &*region })
    }
}

/// How many places are taken, and what the handler of SIGSEGV was before ours.
struct Installed {
    regions: usize,
}

static INSTALLED: Mutex<Installed> = Mutex::new(Installed { regions: 0 });

/// What was there before our handler. What it points to is never freed: a thread may be in the handler.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());

/// A region that the handler knows, until it is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    region: Box<Region>,
    place: usize,
}

impl Registered {
    /// Guards the mapping. The first region of a process installs the handler, the last one puts the one before
    /// back, where ours still is the process's.
    pub(crate) fn new(mapping: Span, mode: Mode) -> io::Result<Registered> {
        let region = Box::new(Region::new(mapping, mode));
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = |place: &Place| place.region.load(Ordering::Acquire).is_null();
        let Some(place) = PLACES.iter().position(is_free) else {
            return Err(io::Error::other("too many regions are mapped"));
        };
        if installed.regions == 0 {
            install()?;
        }
        installed.regions += 1;
        let addresses = mapping.addresses();
        PLACES[place]
            .start
            .store(addresses.start, Ordering::Release);
        PLACES[place].end.store(addresses.end, Ordering::Release);
        let shared = std::ptr::from_ref(&*region).cast_mut();
        PLACES[place].region.store(shared, Ordering::Release);
        Ok(Registered { region, place })
    }

    /// Whether a store to a page that is read-only comes to our handler first.
    pub(crate) fn is_installed(&self) -> bool {
        current().is_ok_and(|action| is_ours(&action))
    }
}

impl Deref for Registered {
    type Target = Region;

    fn deref(&self) -> &Region {
        &self.region
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // While the handler still knows the region: a store may be on its way to it.
        self.region.disarm();
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        PLACES[self.place]
            .region
            .store(null_mut(), Ordering::Release);
        installed.regions -= 1;
        if installed.regions == 0 {
            uninstall();
        }
    }
}

/// Called in the child of a fork: threads that held pages are not there. Nothing but atomics.
pub(crate) fn after_fork_in_child() {
    for place in &PLACES {
        let region = place.region.load(Ordering::Acquire);
        if !region.is_null() {
            // SAFETY: the child has a copy of the region, and no other thread.
            unsafe { (*region).after_fork_in_child() };
        }
    }
}

fn current() -> io::Result<libc::sigaction> {
    // SAFETY: an all-zero sigaction is valid, and the pointer is to a local.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        match libc::sigaction(libc::SIGSEGV, null(), &mut action) {
            0 => Ok(action),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == on_sigsegv as *const () as usize
}

fn install() -> io::Result<()> {
    let previous = current()?;
    if is_ours(&previous) {
        return Ok(());
    }
    PREVIOUS.store(Box::into_raw(Box::new(previous)), Ordering::Release);
    // SAFETY: an all-zero sigaction is valid; the pointer is to a local.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigsegv as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(libc::SIGSEGV, &action, null_mut())
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Puts back what was there, unless another handler came after ours, which may pass faults on to it.
fn uninstall() {
    let previous = PREVIOUS.load(Ordering::Acquire);
    if !previous.is_null() && current().is_ok_and(|action| is_ours(&action)) {
        // SAFETY: it was the process's own action, and is never freed.
        unsafe { libc::sigaction(libc::SIGSEGV, previous, null_mut()) };
    }
}

extern "C" fn on_sigsegv(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the thread's own errno, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes a valid siginfo; a SIGSEGV has an address.
    let (address, code) = unsafe { ((*info).si_addr().addr(), (*info).si_code) };
    let is_store = code == SEGV_ACCERR && !is_fetch(address, context);
    let is_handled = is_store
        && PLACES
            .iter()
            .find_map(|place| place.region_at(address as u64))
            .is_some_and(|region| region.on_store(region.page_at(address as u64)));
    // SAFETY: the thread's own errno, put back as the interrupted code left it.
    unsafe { *libc::__errno_location() = errno };
    if !is_handled {
        chain(signal, info, context);
    }
}

/// Whether the thread ran into the address instead of accessing it: no page of a region can be executed, and the
/// protection of those that can be stored to is all that is changed here.
fn is_fetch(address: usize, context: *mut libc::c_void) -> bool {
    let context = context.cast::<libc::ucontext_t>();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel passes a valid context.
    let counter = unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] } as usize;
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the kernel passes a valid context.
    let counter = unsafe { (*context).uc_mcontext.pc } as usize;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let counter = {
        let _ = context;
        0
    };
    counter == address
}

/// Hands a fault that is not ours to the handler that was installed before.
fn chain(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: set before our handler was installed, and never freed.
    let previous = unsafe { PREVIOUS.load(Ordering::Acquire).as_ref() };
    let handler = previous.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // The access is repeated after the return, and then the default action takes place.
        // SAFETY: an all-zero sigaction means the default action.
        unsafe {
            let action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &action, null_mut());
        }
        return;
    }
    let takes_info = previous.is_some_and(|action| action.sa_flags & libc::SA_SIGINFO != 0);
    // SAFETY: the previous handler, called the way its flags say.
    unsafe {
        if takes_info {
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(i32) = std::mem::transmute(handler);
            handler(signal);
        }
    }
}
