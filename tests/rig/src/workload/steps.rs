//! The steps of one thread, and the files they make.

use std::collections::BTreeMap;

use fastrand::Rng;

const FILES_MAX: u32 = 16;
const FILE_BYTES_MAX: usize = 256 << 10;
const SMALL_BYTES_MAX: usize = 8 << 10;

/// The number of a file of its thread.
pub type File = u32;

/// One step; it ends with an fsync of what it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new file; its folder is synced, too.
    Create {
        /// Which.
        file: File,
        /// Its content.
        bytes: Vec<u8>,
    },
    /// Bytes at the end of a file.
    Append {
        /// Which.
        file: File,
        /// What is added.
        bytes: Vec<u8>,
    },
    /// Other bytes in the middle of a file.
    Overwrite {
        /// Which.
        file: File,
        /// From where on.
        offset: usize,
        /// With what.
        bytes: Vec<u8>,
    },
    /// A new file, synced, then renamed over one; then the folder is synced.
    Replace {
        /// Which.
        file: File,
        /// The new content.
        bytes: Vec<u8>,
    },
    /// A file goes; its folder is synced.
    Remove {
        /// Which.
        file: File,
    },
}

impl Step {
    /// The file that it changes.
    pub fn file(&self) -> File {
        match self {
            Step::Create { file, .. }
            | Step::Append { file, .. }
            | Step::Overwrite { file, .. }
            | Step::Replace { file, .. }
            | Step::Remove { file } => *file,
        }
    }
}

/// All steps of a thread, one after the other, and what its files hold after those so far.
pub struct Stream {
    rng: Rng,
    files: BTreeMap<File, Vec<u8>>,
    next_file: File,
}

impl Stream {
    /// The steps of thread `thread` of the load with seed `seed`.
    pub fn new(seed: u64, thread: u32) -> Stream {
        let mut rng = Rng::with_seed(seed);
        for _ in 0..thread {
            rng = rng.fork();
        }
        Stream {
            rng: rng.fork(),
            files: BTreeMap::new(),
            next_file: 0,
        }
    }

    /// What the files hold after the steps that were applied.
    pub fn files(&self) -> &BTreeMap<File, Vec<u8>> {
        &self.files
    }

    /// The next step. It counts once it is applied.
    pub fn next_step(&mut self) -> Step {
        let count = self.files.len() as u32;
        let choice = self.rng.u32(..100);
        if count == 0 || (choice < 25 && count < FILES_MAX) {
            let file = self.next_file;
            self.next_file += 1;
            let bytes = self.bytes();
            return Step::Create { file, bytes };
        }
        let chosen = self.rng.usize(..self.files.len());
        let (&file, content) = self.files.iter().nth(chosen).expect("it is one of them");
        let len = content.len();
        let bytes = self.bytes();
        match choice {
            _ if choice < 60 && len + bytes.len() <= FILE_BYTES_MAX => Step::Append { file, bytes },
            _ if choice < 75 && len > 0 => {
                let offset = self.rng.usize(..len);
                let bytes = bytes[..bytes.len().min(len - offset)].to_vec();
                Step::Overwrite {
                    file,
                    offset,
                    bytes,
                }
            }
            _ if choice < 90 => Step::Replace { file, bytes },
            _ => Step::Remove { file },
        }
    }

    /// Whether the next sync need only be one of data (`fdatasync`).
    pub fn is_data_sync(&mut self) -> bool {
        self.rng.bool()
    }

    /// Applies a step to what the files hold.
    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Create { file, bytes } | Step::Replace { file, bytes } => {
                self.files.insert(*file, bytes.clone());
            }
            Step::Append { file, bytes } => {
                self.content(*file).extend_from_slice(bytes);
            }
            Step::Overwrite {
                file,
                offset,
                bytes,
            } => {
                self.content(*file)[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            Step::Remove { file } => {
                self.files.remove(file);
            }
        }
    }

    fn content(&mut self, file: File) -> &mut Vec<u8> {
        let content = self.files.get_mut(&file);
        content.expect("steps change files that are there")
    }

    /// Small mostly, as files are; never zero, so that what was never written shows.
    fn bytes(&mut self) -> Vec<u8> {
        let len = match self.rng.u32(..20) {
            0 => self.rng.usize(1..FILE_BYTES_MAX / 2),
            1..=6 => 4096 * self.rng.usize(1..=4),
            _ => self.rng.usize(1..SMALL_BYTES_MAX),
        };
        let mut bytes = vec![0; len];
        self.rng.fill(&mut bytes);
        for byte in &mut bytes {
            *byte = (*byte).max(1);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, thread: u32, steps: usize) -> (Vec<Step>, Stream) {
        let mut stream = Stream::new(seed, thread);
        let mut all = Vec::new();
        for _ in 0..steps {
            let step = stream.next_step();
            stream.is_data_sync();
            stream.apply(&step);
            all.push(step);
        }
        (all, stream)
    }

    #[test]
    fn a_seed_decides_everything() {
        let (steps, stream) = run(7, 1, 300);
        let (again, stream_again) = run(7, 1, 300);
        assert_eq!(steps, again);
        assert_eq!(stream.files(), stream_again.files());
        assert_ne!(steps, run(7, 2, 300).0);
        assert_ne!(steps, run(8, 1, 300).0);
    }

    #[test]
    fn every_kind_of_step_comes() {
        let (steps, stream) = run(1, 0, 300);
        let count = |is: fn(&Step) -> bool| steps.iter().filter(|step| is(step)).count();
        assert!(count(|step| matches!(step, Step::Create { .. })) > 10);
        assert!(count(|step| matches!(step, Step::Append { .. })) > 10);
        assert!(count(|step| matches!(step, Step::Overwrite { .. })) > 10);
        assert!(count(|step| matches!(step, Step::Replace { .. })) > 10);
        assert!(count(|step| matches!(step, Step::Remove { .. })) > 10);
        assert!(stream.files().len() <= FILES_MAX as usize);
    }
}
