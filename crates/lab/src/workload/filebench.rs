//! Filebench's fileserver, webproxy and varmail (Tinca Table 2, Spindle Table 1), in requests of
//! 16 KiB.
//!
//! Each personality is a loop of file operations over a set of files, chosen evenly:
//!
//! * fileserver: create a file and write it, append to one, read one whole, delete one (one read to
//!   two writes);
//! * webproxy: delete a file, create one and write it, read five whole (five to one). Filebench's
//!   proxy log is left out: with it the ratio is not the papers';
//! * varmail: delete a file, create one, write it and fsync, read one, append to it and fsync, read
//!   another (one to one).
//!
//! Without fsync, a transaction grows until the journal is full (fileserver) or, in the place of a timer, until it is half as large
//! (webproxy). That half is taken from Tinca's Figure 13, where fileserver has twice the blocks of webproxy: the model is given that
//! number, and so can neither confirm nor refute it.

use super::content::Fresh;
use super::{Action, BLOCK_BYTES, FileWorkload, Operation, SPINDLE_PAGES_BYTES, Scale};
use crate::filesystem::{DirectoryId, FileId, FileSystem, FileSystemOptions};

/// Blocks of a request.
const REQUEST_BLOCKS: u64 = 4;
/// Files of a directory in fileserver; the others have one directory.
const FILESERVER_DIRECTORY_FILES: u64 = 20;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Personality {
    /// Many files, written twice as often as read.
    Fileserver,
    /// Small files, read five times as often as written.
    Webproxy,
    /// Small files, each append with fsync.
    Varmail,
}

impl Personality {
    /// Its name in Filebench.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Personality::Fileserver => "fileserver",
            Personality::Webproxy => "webproxy",
            Personality::Varmail => "varmail",
        }
    }

    const fn steps(self) -> &'static [Step] {
        match self {
            Personality::Fileserver => &[Step::Create, Step::Append, Step::Read, Step::Delete],
            Personality::Webproxy => &[
                Step::Delete,
                Step::Create,
                Step::Read,
                Step::Read,
                Step::Read,
                Step::Read,
                Step::Read,
            ],
            Personality::Varmail => &[
                Step::Delete,
                Step::CreateAndSync,
                Step::Read,
                Step::AppendAndSync,
                Step::Read,
            ],
        }
    }
}

/// One file operation of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    CreateAndSync,
    Append,
    AppendAndSync,
    Read,
    Delete,
}

/// What Filebench is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilebenchOptions {
    /// Which loop.
    pub personality: Personality,
    /// Bytes of all files together.
    pub data_bytes: u64,
    /// Bytes of a file on average: Spindle's Figure 6 varies it. Sizes are between a half and one and
    /// a half of it, in whole blocks.
    pub file_bytes: u64,
    /// Blocks of a transaction at most.
    pub transaction_blocks_max: u64,
    /// Bytes of DRAM for pages.
    pub page_cache_bytes: u64,
}

impl FilebenchOptions {
    /// Spindle's data set of 20 GB (Table 1) on its machine, scaled, of files as large as Filebench's
    /// default.
    #[must_use]
    pub fn new(scale: Scale, personality: Personality) -> FilebenchOptions {
        FilebenchOptions {
            personality,
            data_bytes: scale.bytes(20 << 30),
            file_bytes: match personality {
                Personality::Fileserver => 128 << 10,
                Personality::Webproxy | Personality::Varmail => 16 << 10,
            },
            transaction_blocks_max: scale.transaction_blocks_max(),
            page_cache_bytes: scale.bytes(SPINDLE_PAGES_BYTES),
        }
    }
}

/// The generator.
pub(super) struct Filebench {
    options: FilebenchOptions,
    random: fastrand::Rng,
    content: Fresh,
    file_system: FileSystem,
    directories: Vec<DirectoryId>,
    files: Vec<FileId>,
    /// Files that the loop keeps.
    population: usize,
    step: usize,
    names: u64,
}

impl Filebench {
    pub(super) fn new(options: &FilebenchOptions, seed: u64) -> Filebench {
        let file_blocks = (options.file_bytes / BLOCK_BYTES as u64).max(1);
        let blocks = options.data_bytes / BLOCK_BYTES as u64;
        let population = (blocks / file_blocks).max(8);
        let directories = match options.personality {
            Personality::Fileserver => population.div_ceil(FILESERVER_DIRECTORY_FILES),
            Personality::Webproxy | Personality::Varmail => 1,
        };
        // Appends make files grow; deletions take the grown ones away again.
        let disk_blocks =
            (population * file_blocks + population * REQUEST_BLOCKS * 2) * 5 / 4 + 256;
        let mut file_system = FileSystem::new(&FileSystemOptions {
            disk_bytes: disk_blocks * BLOCK_BYTES as u64,
            inodes: population + population / 4 + directories + 16,
            transaction_blocks_max: options.transaction_blocks_max,
            page_cache_blocks: options.page_cache_bytes / BLOCK_BYTES as u64,
        });
        let names = (population / directories * 2 + 64) as usize;
        let directories = (0..directories)
            .map(|_| file_system.create_directory(names))
            .collect();
        let mut filebench = Filebench {
            options: options.clone(),
            random: fastrand::Rng::with_seed(seed),
            content: Fresh::new(seed),
            file_system,
            directories,
            files: Vec::new(),
            population: population as usize,
            step: 0,
            names: 0,
        };
        let mut none = Vec::new();
        for _ in 0..population {
            filebench.create(&mut none);
        }
        filebench
    }

    /// Creates a file and writes it whole; returns its blocks.
    fn create(&mut self, actions: &mut Vec<Action>) -> u64 {
        let directory = self.directories[self.names as usize % self.directories.len()];
        self.names += 1;
        let name = self.random.u64(..);
        let file = self.file_system.create(directory, name, actions);
        self.files.push(file);
        let mean = (self.options.file_bytes / BLOCK_BYTES as u64).max(1);
        let blocks = self.random.u64(mean.div_ceil(2)..=mean + mean / 2);
        self.append(file, blocks, actions);
        blocks
    }

    fn append(&mut self, file: FileId, blocks: u64, actions: &mut Vec<Action>) {
        let content = &mut self.content;
        let fill = &mut |_, bytes: &mut [u8]| content.fill(bytes);
        self.file_system.append(file, blocks, fill, actions);
    }

    fn some_file(&mut self) -> usize {
        self.random.usize(..self.files.len())
    }

    fn perform(&mut self, step: Step, actions: &mut Vec<Action>) -> Operation {
        match step {
            Step::Create | Step::CreateAndSync => wrote(self.create(actions)),
            Step::Append | Step::AppendAndSync => {
                let file = self.some_file();
                self.append(self.files[file], REQUEST_BLOCKS, actions);
                wrote(REQUEST_BLOCKS)
            }
            Step::Read => {
                let file = self.some_file();
                let file = self.files[file];
                let blocks = self.file_system.file_blocks(file);
                self.file_system.read(file, 0, blocks, actions);
                Operation {
                    reads: blocks.div_ceil(REQUEST_BLOCKS),
                    ..Operation::default()
                }
            }
            Step::Delete => {
                let file = self.some_file();
                let file = self.files.swap_remove(file);
                self.file_system.delete(file, actions);
                Operation::default()
            }
        }
    }
}

/// What writing so many blocks counts as.
fn wrote(blocks: u64) -> Operation {
    Operation {
        writes: blocks.div_ceil(REQUEST_BLOCKS),
        reads: 0,
        payload_bytes: blocks * BLOCK_BYTES as u64,
    }
}

impl FileWorkload for Filebench {
    fn name(&self) -> &str {
        self.options.personality.as_str()
    }

    fn file_system(&self) -> &FileSystem {
        &self.file_system
    }

    fn file_system_mut(&mut self) -> &mut FileSystem {
        &mut self.file_system
    }

    fn next(&mut self, actions: &mut Vec<Action>) -> Operation {
        self.file_system.advance_clock(100_000);
        let steps = self.options.personality.steps();
        let step = steps[self.step % steps.len()];
        self.step += 1;
        let operation = self.perform(step, actions);
        assert!(self.files.len().abs_diff(self.population) <= 1);
        match (self.options.personality, step) {
            (_, Step::CreateAndSync | Step::AppendAndSync) => self.file_system.commit(actions),
            (Personality::Webproxy, _) => {
                // Where the timer of Tinca's Figure 13 stands.
                let timer_blocks = self.options.transaction_blocks_max / 2;
                if self.file_system.running_blocks() >= timer_blocks {
                    self.file_system.commit(actions);
                }
            }
            _ => {}
        }
        operation
    }

    fn warm_up_operations(&self, cache_blocks: u64) -> u64 {
        // In each loop about as many blocks of new files as a file has become dirty.
        let steps = self.options.personality.steps().len() as u64;
        let file_blocks = (self.options.file_bytes / BLOCK_BYTES as u64).max(1);
        cache_blocks * 2 * steps / (file_blocks + REQUEST_BLOCKS)
    }
}
