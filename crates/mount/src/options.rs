//! How a directory is served, as its user chooses.

use std::time::Duration;

use forebay_serve::fuse_ring::Transport;

/// How long the kernel may cache names and attributes where other processes may change the directory behind the
/// mount: this is how late such a change is seen. What changes through the mount is corrected at once.
pub const BELIEF: Duration = Duration::from_secs(1);

/// How a directory is served.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// What brings the kernel's requests.
    pub transport: Transport,
    /// Threads that serve requests that do not wait; those that wait go to helper threads.
    pub threads: usize,
    /// Let the kernel keep what was written until it is synced: buffered writes cost no request then,
    /// and one `write` is no longer one transaction.
    pub writeback_cache: bool,
    /// Keep idle cores from sleeping while requests come close together, where the process may.
    pub keeps_cores_awake: bool,
    /// Files and directories that each user may have open, the process's own user apart; by default an eighth of
    /// the descriptors that the process may have.
    pub open_files_per_user: Option<usize>,
    /// How long the kernel may cache names and attributes.
    pub belief: Duration,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            transport: Transport::Auto,
            threads: 2,
            writeback_cache: false,
            keeps_cores_awake: true,
            open_files_per_user: None,
            belief: BELIEF,
        }
    }
}
