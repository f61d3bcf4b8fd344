//! Runs an action that each thread of the process has to do for itself, as the C library does to
//! change the user of all: a signal interrupts one after the other.

#![allow(
    unsafe_code,
    reason = "signal handlers and the numbers of threads are the system's own interface"
)]

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGURG;
use signal_hook::low_level;

/// How long a thread may take that is in an uninterruptible wait for a device.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Between two looks for the answer.
const LOOK_INTERVAL: Duration = Duration::from_micros(50);

/// Flags of the kernel's own threads that are listed with a process's: workers of rings, and of guests.
const KERNEL_WORKER_FLAGS: u64 = 0x10 | 0x4000;

/// Consecutive lists without a new thread before all are taken to be found: a thread that ends may hide
/// another one.
const QUIET_LISTS: usize = 2;

/// What threads answer.
#[derive(Default)]
struct Answer {
    thread: AtomicI32,
    /// The last failure's number.
    errno: AtomicI32,
}

/// Runs `action` on every thread, this one last, and so on those to come where it is something that threads
/// inherit. It runs in a signal handler, where it may make system calls and nothing more, and returns an error's
/// number or 0.
///
/// # Errors
/// The action's, or a thread does not answer.
pub fn run(action: impl Fn() -> i32 + Send + Sync + 'static) -> io::Result<()> {
    let answer = Arc::new(Answer::default());
    let on_signal = {
        let answer = Arc::clone(&answer);
        move || {
            let errno = action();
            if errno != 0 {
                answer.errno.store(errno, Ordering::Relaxed);
            }
            answer.thread.store(this_thread(), Ordering::Release);
        }
    };
    // SAFETY: what runs in the handler makes system calls and works on atomics.
    let registered = unsafe { low_level::register(SIGURG, on_signal) }?;
    let asked = ask_all(&answer);
    low_level::unregister(registered);
    asked?;
    match answer.errno.load(Ordering::Acquire) {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn ask_all(answer: &Answer) -> io::Result<()> {
    let mut known = BTreeSet::from([this_thread()]);
    let mut quiet_lists = 0;
    while quiet_lists < QUIET_LISTS {
        let before = known.len();
        for thread in threads()? {
            if known.insert(thread) && !is_kernel_worker(thread) {
                ask(thread, answer)?;
            }
        }
        quiet_lists = match known.len() == before {
            true => quiet_lists + 1,
            false => 0,
        };
    }
    ask(this_thread(), answer)
}

fn ask(thread: i32, answer: &Answer) -> io::Result<()> {
    answer.thread.store(0, Ordering::Release);
    if !send(thread, SIGURG) {
        return Ok(());
    }
    let deadline = Instant::now() + ANSWER_TIME;
    while answer.thread.load(Ordering::Acquire) != thread {
        if !send(thread, 0) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let message = format!("thread {thread} waits for something in the kernel");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

/// Whether the thread is there to be sent a signal.
fn send(thread: i32, signal: i32) -> bool {
    // SAFETY: it takes three numbers; a thread that has ended is an error.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, signal) == 0 }
}

fn this_thread() -> i32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

fn threads() -> io::Result<Vec<i32>> {
    let listed = std::fs::read_dir("/proc/self/task")?;
    let names = listed.map(|entry| Ok(entry?.file_name()));
    let names: Vec<_> = names.collect::<io::Result<_>>()?;
    let number = |name: &std::ffi::OsString| name.to_str()?.parse().ok();
    Ok(names.iter().filter_map(number).collect())
}

/// Whether it is a thread of the kernel's, which takes no signals.
fn is_kernel_worker(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    let flags = stat.ok().and_then(|stat| {
        // The name may have anything in it; behind it come state, five numbers, and the flags.
        let (_, behind) = stat.rsplit_once(')')?;
        behind.split_whitespace().nth(6)?.parse::<u64>().ok()
    });
    flags.is_some_and(|flags| flags & KERNEL_WORKER_FLAGS != 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    static SEEN: [AtomicI32; 1024] = [const { AtomicI32::new(0) }; 1024];

    /// Tests of this module alone: each has all threads of the process.
    static ALONE: Mutex<()> = Mutex::new(());

    fn note() -> i32 {
        for place in &SEEN {
            let free =
                place.compare_exchange(0, this_thread(), Ordering::AcqRel, Ordering::Relaxed);
            if free.is_ok() {
                return 0;
            }
        }
        libc::ENOSPC
    }

    #[test]
    fn every_thread_does_it_whatever_it_waits_for() {
        let _alone = ALONE.lock().unwrap();
        let (sender, numbers) = channel();
        let mut ends = Vec::new();
        for _ in 0..20 {
            let (sender, (end, wait)) = (sender.clone(), channel::<()>());
            ends.push(end);
            std::thread::spawn(move || {
                sender.send(this_thread()).unwrap();
                let _ = wait.recv();
            });
        }
        let mut expected: Vec<i32> = numbers.iter().take(20).collect();
        expected.push(this_thread());
        run(note).unwrap();
        let seen: Vec<i32> = SEEN.iter().map(|at| at.load(Ordering::Acquire)).collect();
        assert!(expected.iter().all(|thread| seen.contains(thread)));
    }

    #[test]
    fn what_fails_on_a_thread_is_told() {
        let _alone = ALONE.lock().unwrap();
        let error = run(|| libc::EPERM).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
    }
}
