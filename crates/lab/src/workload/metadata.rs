//! Nothing but inodes: each transaction changes one to four of them, chosen evenly, all 256 bytes.
//!
//! This is what Spindle's metadata log is made for (Spindle §3.1). The inodes fit into the eighth of
//! the cache that Spindle has for metadata.

use super::content::Fresh;
use super::{Action, BLOCK_BYTES, FileWorkload, Operation, Scale};
use crate::filesystem::{FileId, FileSystem, FileSystemOptions};

/// Bytes of an inode.
const INODE_BYTES: u64 = 256;

/// What is changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MetadataOptions {
    /// Inodes.
    pub inodes: u64,
    /// Most inodes of a transaction.
    pub transaction_inodes_max: u64,
}

impl MetadataOptions {
    /// Inodes that fill a sixteenth of the cache.
    #[must_use]
    pub fn new(scale: Scale) -> MetadataOptions {
        MetadataOptions {
            inodes: scale.cache_bytes() / 16 / INODE_BYTES,
            transaction_inodes_max: 4,
        }
    }
}

/// The generator.
pub(super) struct Metadata {
    options: MetadataOptions,
    random: fastrand::Rng,
    content: Fresh,
    file_system: FileSystem,
    files: Vec<FileId>,
}

impl Metadata {
    pub(super) fn new(options: &MetadataOptions, seed: u64) -> Metadata {
        let table_blocks = options.inodes * INODE_BYTES / BLOCK_BYTES as u64;
        let mut file_system = FileSystem::new(&FileSystemOptions {
            disk_bytes: (table_blocks * 2 + 256) * BLOCK_BYTES as u64,
            inodes: options.inodes + 16,
            transaction_blocks_max: 32,
            page_cache_blocks: 0,
        });
        let directory = file_system.create_directory(options.inodes as usize);
        let mut none = Vec::new();
        let files = (0..options.inodes)
            .map(|name| file_system.create(directory, name, &mut none))
            .collect();
        Metadata {
            options: options.clone(),
            random: fastrand::Rng::with_seed(seed),
            content: Fresh::new(seed),
            file_system,
            files,
        }
    }
}

impl FileWorkload for Metadata {
    fn name(&self) -> &str {
        "metadata"
    }

    fn file_system(&self) -> &FileSystem {
        &self.file_system
    }

    fn file_system_mut(&mut self) -> &mut FileSystem {
        &mut self.file_system
    }

    fn next(&mut self, actions: &mut Vec<Action>) -> Operation {
        let inodes = self.random.u64(1..=self.options.transaction_inodes_max);
        for _ in 0..inodes {
            let file = self.files[self.random.usize(..self.files.len())];
            let mut bytes = [0; INODE_BYTES as usize];
            self.content.fill(&mut bytes);
            self.file_system.replace_inode(file, &bytes, actions);
        }
        self.file_system.commit(actions);
        Operation {
            writes: inodes,
            reads: 0,
            payload_bytes: inodes * INODE_BYTES,
        }
    }

    fn warm_up_operations(&self, _cache_blocks: u64) -> u64 {
        // Every block of the table comes in many times over.
        self.options.inodes * INODE_BYTES / BLOCK_BYTES as u64 * 8
    }
}
