//! TeraGen into HDFS: rows of 100 bytes, written once, in sequence (Tinca §5.3.1).
//!
//! The node receives packets of 64 KiB and appends each to the block file of every replica; an HDFS
//! block of 128 MB, scaled, is a file. There are no reads and no fsync: transactions commit when the
//! journal is full. When the disk is nearly full, the oldest files go. HDFS's checksum files, a
//! hundredth of the data, are left out.

use std::collections::VecDeque;

use super::{Action, BLOCK_BYTES, FileWorkload, Operation, Scale};
use crate::filesystem::{DirectoryId, FileId, FileSystem, FileSystemOptions};

/// Blocks of a packet.
const PACKET_BLOCKS: u64 = 16;
/// Bytes of a row.
const ROW_BYTES: usize = 100;

/// What TeraGen is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TeraGenOptions {
    /// Bytes that fit on the node's disk.
    pub data_bytes: u64,
    /// Bytes of an HDFS block.
    pub file_bytes: u64,
    /// How often everything is written.
    pub replicas: u32,
    /// Blocks of a transaction at most.
    pub transaction_blocks_max: u64,
}

impl TeraGenOptions {
    /// One of four nodes' share of 100 GB (Table 2), scaled; all replicas come to this node.
    #[must_use]
    pub fn new(scale: Scale, replicas: u32) -> TeraGenOptions {
        TeraGenOptions {
            data_bytes: scale.bytes(25 << 30) * u64::from(replicas),
            file_bytes: scale.bytes(128 << 20).max(64 << 10),
            replicas,
            transaction_blocks_max: scale.transaction_blocks_max(),
        }
    }
}

/// The generator.
pub(super) struct TeraGen {
    options: TeraGenOptions,
    random: fastrand::Rng,
    file_system: FileSystem,
    directory: DirectoryId,
    /// Oldest first; the last ones, as many as replicas, are being written.
    files: VecDeque<FileId>,
    names: u64,
    row: u64,
}

impl TeraGen {
    pub(super) fn new(options: &TeraGenOptions, seed: u64) -> TeraGen {
        let blocks = options.data_bytes / BLOCK_BYTES as u64;
        let files = options.data_bytes / options.file_bytes + u64::from(options.replicas);
        let mut file_system = FileSystem::new(&FileSystemOptions {
            disk_bytes: (blocks + blocks / 16 + 512) * BLOCK_BYTES as u64,
            inodes: files * 2 + 16,
            transaction_blocks_max: options.transaction_blocks_max,
            // Nothing is read.
            page_cache_blocks: 0,
        });
        let directory = file_system.create_directory(files as usize * 2);
        TeraGen {
            options: options.clone(),
            random: fastrand::Rng::with_seed(seed),
            file_system,
            directory,
            files: VecDeque::new(),
            names: 0,
            row: 0,
        }
    }

    /// The file that this replica's next packet goes to.
    fn open(&mut self, replica: usize, actions: &mut Vec<Action>) -> FileId {
        let replicas = self.options.replicas as usize;
        let file_blocks = self.options.file_bytes / BLOCK_BYTES as u64;
        let begun = self.files.len() >= replicas;
        if begun {
            let file = self.files[self.files.len() - replicas + replica];
            if self.file_system.file_blocks(file) + PACKET_BLOCKS <= file_blocks {
                return file;
            }
        }
        assert_eq!(replica, 0, "all replicas' files begin together");
        for _ in 0..replicas {
            while self.file_system.free_blocks() < (file_blocks + 64) * replicas as u64 {
                let oldest = self.files.pop_front().expect("files fill the disk");
                self.file_system.delete(oldest, actions);
            }
            self.names += 1;
            let name = self.names.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let file = self.file_system.create(self.directory, name, actions);
            self.files.push_back(file);
        }
        self.files[self.files.len() - replicas]
    }

    /// The next packet's rows: ten random bytes of key, the row's number, and a filler.
    fn rows(&mut self) -> Vec<u8> {
        let mut packet = vec![0; PACKET_BLOCKS as usize * BLOCK_BYTES];
        for row in packet.chunks_mut(ROW_BYTES) {
            let mut bytes = [0; ROW_BYTES];
            self.random.fill(&mut bytes[..10]);
            bytes[12..44].copy_from_slice(format!("{:032x}", self.row).as_bytes());
            let filler = b'A' + (self.row % 26) as u8;
            bytes[48..96].fill(filler);
            self.row += 1;
            row.copy_from_slice(&bytes[..row.len()]);
        }
        packet
    }
}

impl FileWorkload for TeraGen {
    fn name(&self) -> &str {
        "teragen"
    }

    fn file_system(&self) -> &FileSystem {
        &self.file_system
    }

    fn file_system_mut(&mut self) -> &mut FileSystem {
        &mut self.file_system
    }

    fn next(&mut self, actions: &mut Vec<Action>) -> Operation {
        self.file_system.advance_clock(1_000_000);
        let rows = self.rows();
        for replica in 0..self.options.replicas as usize {
            let file = self.open(replica, actions);
            let first = self.file_system.file_blocks(file);
            let fill = &mut |number: u64, bytes: &mut [u8]| {
                let start = (number - first) as usize * BLOCK_BYTES;
                bytes.copy_from_slice(&rows[start..start + BLOCK_BYTES]);
            };
            self.file_system.append(file, PACKET_BLOCKS, fill, actions);
        }
        Operation {
            writes: 1,
            reads: 0,
            payload_bytes: rows.len() as u64,
        }
    }

    fn warm_up_operations(&self, cache_blocks: u64) -> u64 {
        cache_blocks * 3 / 2 / PACKET_BLOCKS / u64::from(self.options.replicas)
    }
}
