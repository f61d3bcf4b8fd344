//! What is shared with a child of `fork`. The parent brings everything back before it forks, and buffers
//! a file again when no child has it: a pipe whose other end only the child and its own children have
//! ends when the last of them has exec'd or ended. Before a child runs another program, it writes into
//! the pipe which of the files go on into that program; those stay plain.

#![allow(unsafe_code, reason = "handlers of fork are registered with libc")]

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLockWriteGuard};

use forebay_files::tally::Count;

use crate::inherited::{self, Fork};
use crate::inside::Inside;
use crate::locking::lock;
use crate::process::{self, Process};
use crate::{buffering, descriptors, table};

/// What the handlers pass to one another, on the thread that forks.
#[derive(Default)]
struct Forking {
    guard: Option<RwLockWriteGuard<'static, ()>>,
    child_end: Option<OwnedFd>,
    inside: Option<Inside>,
    limit: Option<descriptors::LimitAsIs>,
}

thread_local! {
    static FORKING: RefCell<Forking> = RefCell::default();
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);
/// In a forked child: the end of the pipe to its parent. Leaked on purpose: it ends with the process.
static TO_PARENT: AtomicPtr<OwnedFd> = AtomicPtr::new(std::ptr::null_mut());

/// Has libc call us around every fork.
pub fn register() {
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    let Some(process) = process::get() else {
        return;
    };
    let inside = Inside::enter();
    let guard = process
        .barrier
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    let mut child_end = None;
    if !process.tracks_nothing() {
        child_end = share_with_child(process);
    }
    FORKING.with(|forking| {
        *forking.borrow_mut() = Forking {
            guard: Some(guard),
            child_end,
            limit: Some(descriptors::keep_limit()),
            inside: Some(inside),
        };
    });
}

/// Makes every file that the program has open plain, and remembers that a child has it too.
fn share_with_child(process: &'static Process) -> Option<OwnedFd> {
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let mut is_any_shared = false;
    for file in process.all_tracked() {
        let mut life = file.write_life();
        if file.is_held() {
            is_any_shared = true;
            life.shared_with_fork = Some(number);
            // A backing that fails now fails again in the parent's next sync, which reports it; the
            // child reads what the backing has.
            let _ = buffering::unbuffer(process, file, &mut life);
        }
    }
    if !is_any_shared {
        return None;
    }
    let ends = rustix::pipe::pipe_with(
        rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK,
    )
    .map_err(Into::into)
    .and_then(|(read, write)| {
        Ok::<_, std::io::Error>((
            descriptors::move_high(read)?,
            descriptors::move_high(write)?,
        ))
    });
    let (pipe, child_end) = match ends {
        Ok((read, write)) => (Some(read), Some(write)),
        Err(_) => (None, None),
    };
    if pipe.is_none() {
        // Nothing will tell when the child is done: the files stay plain.
        for file in process.all_tracked() {
            let mut life = file.write_life();
            life.is_escaped |= life.shared_with_fork == Some(number);
        }
        return None;
    }
    lock(&process.forks).push(Fork::new(number, pipe));
    child_end
}

extern "C" fn in_parent() {
    // The child has its own end now; ours is closed, and the barrier released.
    FORKING.with(|forking| drop(forking.take()));
}

extern "C" fn in_child() {
    let (mut forking, was_forking) = FORKING.with(|forking| {
        let forking = forking.take();
        let was_forking = forking.inside.is_some();
        (forking, was_forking)
    });
    if !was_forking {
        return;
    }
    let kept = process::begin_as_child(forking.child_end.take());
    if let Some(kept) = kept {
        TO_PARENT.store(Box::into_raw(Box::new(kept)), Ordering::Release);
    }
    drop(forking.limit.take());
    // The barrier is the parent's; unlocking this copy of it would do no harm, but is not needed.
    std::mem::forget(forking.guard.take());
}

/// Before this process becomes another program: tells the parent which files go on into it.
pub fn tell_parent_of_exec() {
    // SAFETY: null, or a leaked box, which is never freed.
    let Some(pipe) = (unsafe { TO_PARENT.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    for fd in inherited_descriptors() {
        // SAFETY: any number may be asked for; a closed one is an error and is left out.
        let fd = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
        if let Ok(stat) = rustix::fs::fstat(fd)
            && let Some(identity) = buffering::identity_of(&stat)
        {
            inherited::tell(pipe, identity);
        }
    }
}

/// The descriptors that stay open across an exec.
fn inherited_descriptors() -> Vec<i32> {
    let all = descriptors::open_from(0);
    // SAFETY: it takes numbers and changes nothing; a closed descriptor is an error.
    let stays = |fd: &i32| unsafe { libc::fcntl(*fd, libc::F_GETFD) } & libc::FD_CLOEXEC == 0;
    all.into_iter().filter(stays).collect()
}

/// Files with a descriptor that a program started by other means than fork and exec gets too stay plain
/// from now on.
pub fn share_with_spawned(process: &'static Process) {
    for (fd, file) in table::descriptors() {
        // SAFETY: it takes numbers and changes nothing; a closed descriptor is an error.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } & libc::FD_CLOEXEC == 0 {
            escape(process, file, Count::Elsewhere);
        }
    }
}

/// The file is reached by ways that we do not see: it is plain until it is closed.
///
/// Returns false if it could not be brought back.
pub fn escape(
    process: &'static Process,
    file: &'static crate::open_file::OpenFile,
    count: Count,
) -> bool {
    let mut life = file.write_life();
    life.is_escaped = true;
    life.escape.get_or_insert(count);
    buffering::unbuffer(process, file, &mut life).is_ok()
}
