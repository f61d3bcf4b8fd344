//! Which files' writes bypass the kernel's pages (`FOPEN_DIRECT_IO`): files opened for writing only,
//! and files whose every write must be durable. Such a write is one request wherever it begins, needs
//! no second one to be durable, and is copied once less.

use std::sync::atomic::{AtomicBool, Ordering};

use fuser::{FopenFlags, InitFlags, KernelConfig};

/// See the module.
#[derive(Debug, Default)]
pub struct Opening {
    /// The kernel keeps its pages right when writes bypass them. Not where it gathers pages: a direct
    /// read would find the file shorter than the kernel knows it to be, and return nothing.
    passes_pages: AtomicBool,
}

impl Opening {
    /// Asks the kernel for what it takes: mappings must work as ever, and pages read in while they were
    /// being written must be dropped. Linux 6.18 drops them, as the tests see; older ones are not
    /// relied on.
    pub fn negotiate(&self, config: &mut KernelConfig, has_writeback_cache: bool) {
        let name = rustix::system::uname();
        if !has_writeback_cache && is_at_least(&name.release().to_string_lossy(), (6, 18)) {
            let mapped = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
            // Before the first request, which the session hands to its threads.
            self.passes_pages.store(mapped.is_ok(), Ordering::Relaxed);
        }
    }

    /// How the kernel is to treat a file opened with such flags. Its pages are never older than ours:
    /// all access is through the mount.
    pub fn how(&self, flags: i32) -> FopenFlags {
        let access = flags & libc::O_ACCMODE;
        let only_writes = access == libc::O_WRONLY;
        let is_durable = access != libc::O_RDONLY && flags & libc::O_DSYNC != 0;
        match self.passes_pages.load(Ordering::Relaxed) && (only_writes || is_durable) {
            true => FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_DIRECT_IO,
            false => FopenFlags::FOPEN_KEEP_CACHE,
        }
    }
}

fn is_at_least(release: &str, wanted: (u32, u32)) -> bool {
    let mut numbers = release.split(['.', '-', '+']).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= wanted,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        for (release, is_enough) in [
            ("6.18.44-cloud", true),
            ("6.18-rc1", true),
            ("7.0", true),
            ("6.9.1", false),
            ("5.19.0+", false),
            ("unknown", false),
        ] {
            assert_eq!(is_at_least(release, (6, 18)), is_enough, "{release}");
        }
    }

    #[test]
    fn readers_keep_the_pages() {
        let direct = |opening: &Opening, flags: i32| {
            let how = opening.how(flags);
            assert!(how.contains(FopenFlags::FOPEN_KEEP_CACHE));
            how.contains(FopenFlags::FOPEN_DIRECT_IO)
        };
        let flags = [
            libc::O_RDONLY | libc::O_DSYNC,
            libc::O_RDWR,
            libc::O_WRONLY | libc::O_APPEND,
            libc::O_RDWR | libc::O_SYNC,
        ];
        let opening = Opening::default();
        assert_eq!(flags.map(|flags| direct(&opening, flags)), [false; 4]);
        opening.passes_pages.store(true, Ordering::Relaxed);
        let found = flags.map(|flags| direct(&opening, flags));
        assert_eq!(found, [false, false, true, true]);
    }
}
