//! What every daemon does first.

use crate::{LogFormat, LogLevel, end, logging};

/// Logs from now on, gives large buffers back to the system, ends like a crash on a panic, and writes
/// for the kernel without waiting for its own disk. Called once.
pub fn prepare(level: Option<LogLevel>, format: Option<LogFormat>) {
    logging::start(level, format);
    forebay_serve::allocator::return_large_buffers();
    end::end_on_panic();
    // The kernel must not wait for our own disk when it needs memory while we write to the backing.
    // Without the privilege the daemon still works; only this protection is missing.
    let _ = rustix::process::configure_io_flusher_behavior(true);
}

/// A thousand clients are a thousand descriptors; the default limit is about as many.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    // Without it fewer clients are served at a time.
    let _ = setrlimit(Resource::Nofile, raised);
}
