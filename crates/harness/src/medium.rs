//! What the pools of a test lie on, as every verifying program is told.

use clap::ValueEnum;

/// What the pools of a test lie on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PoolMedium {
    /// Memory: they are mapped
    #[default]
    Memory,
    /// Files of a disk, mapped page by page
    PageDisk,
    /// Files of a disk: a log that is written, with one flush for what is acknowledged together
    Ssd,
}

impl PoolMedium {
    /// Whether they lie on a disk.
    #[must_use]
    pub fn is_on_disk(self) -> bool {
        self != PoolMedium::Memory
    }

    /// What `forebay create` is told.
    #[must_use]
    pub fn create_options(self) -> &'static [&'static str] {
        match self {
            PoolMedium::Memory | PoolMedium::PageDisk => &["--medium", "page"],
            PoolMedium::Ssd => &["--medium", "ssd"],
        }
    }
}
