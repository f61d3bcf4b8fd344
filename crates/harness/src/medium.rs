//! What the pools of a test lie on, as every verifying program is told.

use clap::ValueEnum;

/// What the pools of a test lie on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PoolMedium {
    /// Memory: they are mapped
    #[default]
    Memory,
    /// Files of a disk: a log that is written, with one flush for what is acknowledged together
    Ssd,
}

impl PoolMedium {
    /// What `forebay create` is told.
    #[must_use]
    pub fn create_options(self) -> &'static [&'static str] {
        match self {
            PoolMedium::Memory => &["--medium", "page"],
            PoolMedium::Ssd => &["--medium", "ssd"],
        }
    }
}
