//! Whose pools a command takes.

use clap::Args;
use forebay::{RegionOptions, RuntimeOptions};

/// Whose pool is taken.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Trust {
    /// Take a pool that another user owns, may write or may swap; it decides what is written to which file.
    #[arg(long)]
    pub trust_owner: bool,
}

impl Trust {
    /// For a region.
    pub fn region(self) -> RegionOptions {
        RegionOptions::default().trust_owner(self.trust_owner)
    }

    /// For a pool.
    pub fn runtime(self) -> RuntimeOptions {
        RuntimeOptions::default().region(self.region())
    }
}
