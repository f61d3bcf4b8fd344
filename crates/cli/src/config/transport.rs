//! What brings the kernel's FUSE requests, as flags and the config file say it.

use clap::ValueEnum;
use forebay_serve::Transport;
use serde::Deserialize;

/// How the kernel's requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransportName {
    /// The faster one, as measured: dev-fuse.
    Auto,
    /// Reads and writes of /dev/fuse.
    DevFuse,
    /// io_uring, a queue for each core.
    IoUring,
}

impl From<TransportName> for Transport {
    fn from(name: TransportName) -> Transport {
        match name {
            TransportName::Auto => Transport::Auto,
            TransportName::DevFuse => Transport::DevFuse,
            TransportName::IoUring => Transport::IoUring,
        }
    }
}
