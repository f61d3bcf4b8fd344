//! What the kernel is asked for when the session begins.

use fuser::{InitFlags, KernelConfig};

/// The largest write in one request; the kernel has a limit of its own, `fs.fuse.max_pages_limit`.
pub const WRITE_BYTES_MAX: u32 = 1 << 20;

/// Requests the kernel may have under way in the background: read-ahead and asynchronous direct I/O.
const BACKGROUND_REQUESTS_MAX: u16 = 64;

/// Requests the features that serve the mount best.
pub fn negotiate(config: &mut KernelConfig, has_writeback_cache: bool) {
    // The setters only fail by returning the nearest value that is allowed.
    if let Err(nearest) = config.set_max_write(WRITE_BYTES_MAX) {
        let _ = config.set_max_write(nearest);
    }
    let _ = config.set_max_background(BACKGROUND_REQUESTS_MAX);
    let mut wanted = vec![
        InitFlags::FUSE_ASYNC_DIO,
        InitFlags::FUSE_ATOMIC_O_TRUNC,
        InitFlags::FUSE_CACHE_SYMLINKS,
        InitFlags::FUSE_DO_READDIRPLUS,
        InitFlags::FUSE_READDIRPLUS_AUTO,
        InitFlags::FUSE_DONT_MASK,
        InitFlags::FUSE_EXPLICIT_INVAL_DATA,
        InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        InitFlags::FUSE_PARALLEL_DIROPS,
        InitFlags::FUSE_POSIX_ACL,
    ];
    if has_writeback_cache {
        wanted.push(InitFlags::FUSE_WRITEBACK_CACHE);
    }
    // Each by itself: an older kernel lacks some and works without them.
    for capability in wanted {
        let _ = config.add_capabilities(capability);
    }
}
