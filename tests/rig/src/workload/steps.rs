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
pub struct Step {
    /// The file that it changes.
    pub file: File,
    /// How.
    pub change: Change,
}

/// What a step does to its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new, with this content; its folder is synced, too.
    Create(Vec<u8>),
    /// Bytes at its end.
    Append(Vec<u8>),
    /// Other bytes in its middle, from an offset on.
    Overwrite(usize, Vec<u8>),
    /// A new file with this content, synced, is renamed over it; then the folder is synced.
    Replace(Vec<u8>),
    /// It goes; its folder is synced.
    Remove,
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
            let change = Change::Create(self.bytes());
            return Step { file, change };
        }
        let chosen = self.rng.usize(..self.files.len());
        let (&file, content) = self.files.iter().nth(chosen).expect("it is one of them");
        let len = content.len();
        let bytes = self.bytes();
        let change = match choice {
            _ if choice < 60 && len + bytes.len() <= FILE_BYTES_MAX => Change::Append(bytes),
            _ if choice < 75 && len > 0 => {
                let offset = self.rng.usize(..len);
                Change::Overwrite(offset, bytes[..bytes.len().min(len - offset)].to_vec())
            }
            _ if choice < 90 => Change::Replace(bytes),
            _ => Change::Remove,
        };
        Step { file, change }
    }

    /// Whether the next sync need only be one of data (`fdatasync`).
    pub fn is_data_sync(&mut self) -> bool {
        self.rng.bool()
    }

    /// Applies a step to what the files hold.
    pub fn apply(&mut self, step: &Step) {
        let content = self.files.entry(step.file).or_default();
        match &step.change {
            Change::Create(bytes) | Change::Replace(bytes) => content.clone_from(bytes),
            Change::Append(bytes) => content.extend_from_slice(bytes),
            Change::Overwrite(offset, bytes) => {
                content[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            Change::Remove => drop(self.files.remove(&step.file)),
        }
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
        let kinds = steps
            .iter()
            .map(|step| std::mem::discriminant(&step.change));
        let mut counts = std::collections::HashMap::new();
        kinds.for_each(|kind| *counts.entry(kind).or_insert(0) += 1);
        assert!(counts.len() == 5 && counts.values().all(|count| *count > 10));
        assert!(stream.files().len() <= FILES_MAX as usize);
    }
}
