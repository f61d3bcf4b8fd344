//! Fio: random reads and writes of 4 KiB (Tinca §5.2.1, Spindle §5.2).
//!
//! Both papers measure what a read or a write costs with its metadata: a read changes its file's
//! access time (Spindle §5.2 says so), a write its modification time. They do not say how many
//! operations JBD2 merges into a transaction: here eight. Tinca's 20 GB are one file, as its paper
//! says. Spindle's does not say how many it had: here its 16 GB are 80 files, whose inodes are in five
//! blocks, so that an operation changes about half a block of inodes, and its savings in flushed lines
//! come near what it prints (Figure 5b). With many more files metadata would outweigh data, with one
//! there would be nothing to save.

use super::content::Fresh;
use super::{
    Action, BLOCK_BYTES, FileWorkload, Operation, SPINDLE_PAGES_BYTES, Scale, TINCA_PAGES_BYTES,
};
use crate::filesystem::{FileId, FileSystem, FileSystemOptions};

/// What fio is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FioOptions {
    /// Per cent of the operations that read.
    pub read_percent: u32,
    /// Bytes of all files together.
    pub data_bytes: u64,
    /// Files; fewer where they would have less than a block each.
    pub files: u64,
    /// Operations of a transaction.
    pub transaction_operations: u32,
    /// Blocks of a transaction at most.
    pub transaction_blocks_max: u64,
    /// Bytes of DRAM for pages.
    pub page_cache_bytes: u64,
}

impl FioOptions {
    /// Tinca's data set of 20 GB (Table 2) on its machine, scaled.
    #[must_use]
    pub fn of_tinca(scale: Scale, read_percent: u32) -> FioOptions {
        FioOptions {
            read_percent,
            data_bytes: scale.bytes(20 << 30),
            files: 1,
            transaction_operations: 8,
            transaction_blocks_max: scale.transaction_blocks_max(),
            page_cache_bytes: scale.bytes(TINCA_PAGES_BYTES),
        }
    }

    /// Spindle's data set of 16 GB (Table 1) on its machine, scaled.
    #[must_use]
    pub fn of_spindle(scale: Scale, read_percent: u32) -> FioOptions {
        FioOptions {
            data_bytes: scale.bytes(16 << 30),
            files: 80,
            page_cache_bytes: scale.bytes(SPINDLE_PAGES_BYTES),
            ..FioOptions::of_tinca(scale, read_percent)
        }
    }
}

/// The generator.
pub(super) struct Fio {
    options: FioOptions,
    name: String,
    random: fastrand::Rng,
    content: Fresh,
    file_system: FileSystem,
    files: Vec<FileId>,
    file_blocks: u64,
    since_commit: u32,
}

impl Fio {
    pub(super) fn new(options: &FioOptions, seed: u64) -> Fio {
        let blocks = options.data_bytes / BLOCK_BYTES as u64;
        let len = options.files.clamp(1, blocks);
        let file_blocks = blocks / len;
        let mut file_system = FileSystem::new(&FileSystemOptions {
            disk_bytes: (blocks + blocks / 16 + 64) * BLOCK_BYTES as u64,
            inodes: len + 16,
            transaction_blocks_max: options.transaction_blocks_max,
            page_cache_blocks: options.page_cache_bytes / BLOCK_BYTES as u64,
        });
        let mut content = Fresh::new(seed);
        let directory = file_system.create_directory(len as usize);
        let mut none = Vec::new();
        let files = (0..len)
            .map(|name| {
                let file = file_system.create(directory, name, &mut none);
                let fill = &mut |_, bytes: &mut [u8]| content.fill(bytes);
                file_system.append(file, file_blocks, fill, &mut none);
                file
            })
            .collect();
        Fio {
            options: options.clone(),
            name: match options.read_percent {
                0 => "fio-w100".to_string(),
                percent => format!("fio-rw{percent}"),
            },
            random: fastrand::Rng::with_seed(seed),
            content,
            file_system,
            files,
            file_blocks,
            since_commit: 0,
        }
    }
}

impl FileWorkload for Fio {
    fn name(&self) -> &str {
        &self.name
    }

    fn file_system(&self) -> &FileSystem {
        &self.file_system
    }

    fn file_system_mut(&mut self) -> &mut FileSystem {
        &mut self.file_system
    }

    fn next(&mut self, actions: &mut Vec<Action>) -> Operation {
        self.file_system.advance_clock(100_000);
        let file = self.files[self.random.usize(..self.files.len())];
        let block = self.random.u64(..self.file_blocks);
        let is_read = self.random.u32(..100) < self.options.read_percent;
        if is_read {
            self.file_system.read(file, block, 1, actions);
        } else {
            let content = &mut self.content;
            let fill = &mut |_, bytes: &mut [u8]| content.fill(bytes);
            self.file_system.write(file, block, 1, fill, actions);
        }
        self.since_commit += 1;
        if self.since_commit >= self.options.transaction_operations {
            self.since_commit = 0;
            self.file_system.commit(actions);
        }
        Operation {
            writes: u64::from(!is_read),
            reads: u64::from(is_read),
            payload_bytes: u64::from(!is_read) * BLOCK_BYTES as u64,
        }
    }

    fn warm_up_operations(&self, cache_blocks: u64) -> u64 {
        // Until the cache is full, and until as much of it is dirty as stays dirty: the fewer of the
        // operations write, the longer that takes.
        let write_percent = u64::from(100 - self.options.read_percent.min(90));
        cache_blocks * 2 * 100 / write_percent
    }
}
