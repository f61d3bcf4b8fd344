//! What brings the kernel's FUSE requests, as a user chooses.

/// What brings the kernel's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The one that measurements favour: `/dev/fuse`, or io_uring where the kernel offers it and
    /// [`AUTO_PREFERS_IO_URING`] says so.
    #[default]
    Auto,
    /// Reads and writes of `/dev/fuse`.
    DevFuse,
    /// io_uring, a queue for each core (Linux 6.18.3, where `enable_uring` of the module `fuse` is on); a mount
    /// fails where the kernel does not offer it.
    IoUring,
}

/// What measurements say (docs/measured/performance.md).
pub const AUTO_PREFERS_IO_URING: bool = false;
