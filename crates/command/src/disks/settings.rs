//! What one disk is told: by flags of a command, or by a `[[volume]]` of a config file.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

use super::UblkNumber;

/// One disk and its front ends, NBD apart.
#[derive(Clone, Debug, PartialEq, Eq, Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DiskSettings {
    /// The image file or block device behind the disk.
    #[arg(long, value_name = "PATH")]
    pub backing: PathBuf,
    /// The disk's name; the backing's file name if not given.
    #[arg(long)]
    pub name: Option<String>,
    /// Existing directory to mount the disk in; it is then the file `disk` there.
    #[arg(long, value_name = "DIRECTORY")]
    pub fuse: Option<PathBuf>,
    /// Have this host's kernel make a block device of it: /dev/ublkbNUMBER, or the next free one.
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, default_missing_value = "auto")]
    pub ublk: Option<UblkNumber>,
    /// Offer the disk to a virtual machine over vhost-user, at a socket that is made there.
    #[arg(long, value_name = "SOCKET")]
    pub vhost_user: Option<PathBuf>,
}

/// A disk's own front ends, NBD apart.
pub struct FrontEnds<'d> {
    /// The directory that it is mounted in.
    pub fuse: Option<&'d Path>,
    /// The block device that the kernel makes of it.
    pub ublk: Option<UblkNumber>,
    /// The socket at which a virtual machine connects to it.
    pub vhost_user: Option<&'d Path>,
}

impl DiskSettings {
    /// Whether it can be reached by itself, NBD apart.
    pub fn has_front_end(&self) -> bool {
        self.fuse.is_some() || self.ublk.is_some() || self.vhost_user.is_some()
    }

    /// Where it can be reached.
    pub fn front_ends(&self) -> FrontEnds<'_> {
        FrontEnds {
            fuse: self.fuse.as_deref(),
            ublk: self.ublk,
            vhost_user: self.vhost_user.as_deref(),
        }
    }
}
