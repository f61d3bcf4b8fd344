//! What stands between a program and the files.

use forebay_harness::mount_obstacle;

/// Whether the kernel offers its requests by io_uring.
const OFFER: &str = "/sys/module/fuse/parameters/enable_uring";

/// What stands between the program and the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Nothing.
    Plain,
    /// `forebay mount`.
    Mount,
    /// `forebay mount --writeback-cache`.
    MountWriteback,
    /// `forebay mount --transport io-uring`.
    MountIoUring,
    /// `forebay run`.
    Preload,
}

impl Form {
    pub fn name(self) -> &'static str {
        match self {
            Form::Plain => "plain",
            Form::Mount => "mount",
            Form::MountWriteback => "mount_writeback",
            Form::MountIoUring => "mount_io_uring",
            Form::Preload => "preload",
        }
    }

    pub fn is_mounted(self) -> bool {
        matches!(
            self,
            Form::Mount | Form::MountWriteback | Form::MountIoUring
        )
    }

    pub fn lacks(self) -> Option<&'static str> {
        let is_offered = || std::fs::read_to_string(OFFER).is_ok_and(|text| text.trim() == "Y");
        match self {
            Form::MountIoUring if !is_offered() => {
                Some("needs echo Y > /sys/module/fuse/parameters/enable_uring")
            }
            _ => mount_obstacle().filter(|_| self.is_mounted()),
        }
    }
}
