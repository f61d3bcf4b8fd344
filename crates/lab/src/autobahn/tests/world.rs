//! A small buffer with its files, a script for it, and what the files are to hold.

use std::path::Path;
use std::sync::Arc;

use forebay_pmem::Region;
use forebay_pmem::shadow::{Shadow, ShadowModel};

use super::files::{MemoryFolder, Survivors};
use crate::autobahn::{AutoBahn, AutoBahnFile, AutoBahnOptions, WriteMode};

/// Few and small blocks: whatever can fill up does so soon.
pub(super) const BLOCK: usize = 256;
pub(super) const NAMES: [&str; 2] = ["one", "two"];
pub(super) const REGION_BYTES: u64 = 8192 + 9 * 256;
/// Files are not longer than that.
const SIZE_MAX: usize = 12 * BLOCK;

pub(super) fn tiny_options() -> AutoBahnOptions {
    AutoBahnOptions {
        block_bytes: BLOCK as u64,
        volumes: 3,
        background: false,
        ..AutoBahnOptions::default()
    }
}

/// What one file holds.
pub(super) type Content = Vec<u8>;

/// A step of a script, of the file with this number.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Write {
        file: usize,
        offset: usize,
        len: usize,
        seed: u64,
    },
    Read(usize),
    Stages,
    CloseAndOpen(usize),
}

/// A buffer, its region and its files, all open.
pub(super) struct World {
    pub(super) options: AutoBahnOptions,
    pub(super) shadow: Arc<Shadow>,
    pub(super) folder: Arc<MemoryFolder>,
    pub(super) buffer: AutoBahn,
    pub(super) files: Vec<AutoBahnFile>,
}

pub(super) fn bytes_of(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| rng.u8(..)).collect()
}

impl World {
    /// A fresh one, with a file that has something already.
    pub(super) fn new(options: &AutoBahnOptions) -> World {
        let first = Survivors::from([("one".into(), (7, bytes_of(7, 3 * BLOCK + 40)))]);
        let folder = MemoryFolder::holding(&first);
        let shadow = Arc::new(Shadow::new(REGION_BYTES, ShadowModel::Lines));
        let region = Region::on_shadow(shadow.clone());
        let buffer = AutoBahn::create(region, folder.clone(), options).expect("created");
        World::with(options, shadow, folder, buffer)
    }

    pub(super) fn first_truth() -> Vec<Content> {
        vec![bytes_of(7, 3 * BLOCK + 40), Vec::new()]
    }

    /// What a process finds that comes after this medium and these files were left.
    pub(super) fn open(
        options: &AutoBahnOptions,
        shadow: Arc<Shadow>,
        folder: Arc<MemoryFolder>,
    ) -> std::io::Result<World> {
        let region = Region::on_shadow(shadow.clone());
        let buffer = AutoBahn::open(region, folder.clone(), options)?;
        Ok(World::with(options, shadow, folder, buffer))
    }

    pub(super) fn after_cut(
        options: &AutoBahnOptions,
        image: &[u8],
        files: &Survivors,
    ) -> std::io::Result<World> {
        let shadow = Arc::new(Shadow::from_image(image, ShadowModel::Lines));
        World::open(options, shadow, MemoryFolder::holding(files))
    }

    fn with(
        options: &AutoBahnOptions,
        shadow: Arc<Shadow>,
        folder: Arc<MemoryFolder>,
        buffer: AutoBahn,
    ) -> World {
        let open = |name| {
            buffer
                .open_file(Path::new(name), WriteMode::Partial)
                .expect("open")
        };
        World {
            options: options.clone(),
            files: NAMES.map(open).into(),
            shadow,
            folder,
            buffer,
        }
    }

    /// Another process, after this one was killed.
    pub(super) fn killed(self) -> World {
        let World {
            options,
            shadow,
            folder,
            ..
        } = self;
        shadow.end_threads();
        World::open(&options, shadow, folder).expect("recovered")
    }

    pub(super) fn content(&mut self) -> Vec<Content> {
        self.try_content().expect("read")
    }

    pub(super) fn try_content(&mut self) -> std::io::Result<Vec<Content>> {
        let read = |file: &mut AutoBahnFile| {
            let mut out = vec![0; file.size_bytes() as usize + 10];
            let len = file.read_at(0, &mut out)?;
            out.truncate(len);
            Ok(out)
        };
        self.files.iter_mut().map(read).collect()
    }

    /// Whether the files themselves have nothing beyond what they are to hold.
    pub(super) fn is_within(&self, content: &[Content]) -> bool {
        let files = self.folder.durable();
        let mut lengths = NAMES.iter().zip(content);
        lengths.all(|(name, content)| files[Path::new(name)].1.len() <= content.len())
    }

    pub(super) fn act(&mut self, step: &Step, truth: &mut [Content]) {
        match *step {
            Step::Write {
                file,
                offset,
                len,
                seed,
            } => {
                let data = bytes_of(seed, len);
                self.files[file]
                    .write_at(offset as u64, &data)
                    .expect("written");
            }
            Step::Read(file) => {
                let mut out = vec![0; truth[file].len()];
                self.files[file].read_at(0, &mut out).expect("read");
                assert!(out == truth[file], "file {file} reads otherwise");
            }
            Step::Stages => self.buffer.run_stages().expect("flushed"),
            Step::CloseAndOpen(file) => {
                self.files.remove(file).close().expect("closed");
                let held = self.folder.durable();
                assert!(
                    held[Path::new(NAMES[file])].1 == truth[file],
                    "after closing"
                );
                let opened = self
                    .buffer
                    .open_file(Path::new(NAMES[file]), WriteMode::Partial);
                self.files.insert(file, opened.expect("open"));
            }
        }
        if let Some(after) = states(step, truth).pop() {
            truth.clone_from_slice(&after);
        }
    }
}

/// What the files may hold while a step is done: before it, and after each of its blocks.
pub(super) fn states(step: &Step, truth: &[Content]) -> Vec<Vec<Content>> {
    let mut states = vec![truth.to_vec()];
    let Step::Write {
        file,
        offset,
        len,
        seed,
    } = *step
    else {
        return states;
    };
    let data = bytes_of(seed, len);
    let mut at = offset;
    let mut now = truth.to_vec();
    while at < offset + len {
        let end = ((at / BLOCK + 1) * BLOCK).min(offset + len);
        let content = &mut now[file];
        content.resize(content.len().max(end), 0);
        content[at..end].copy_from_slice(&data[at - offset..end - offset]);
        states.push(now.clone());
        at = end;
    }
    states
}

/// A step that fits these files.
pub(super) fn random_step(rng: &mut fastrand::Rng, truth: &[Content]) -> Step {
    let file = rng.usize(..truth.len());
    let size = truth[file].len();
    match rng.u8(..20) {
        0..=7 if size < SIZE_MAX => {
            let most = [20, 300][rng.usize(..2)];
            Step::Write {
                file,
                offset: size,
                len: rng.usize(1..=most),
                seed: rng.u64(..),
            }
        }
        0..=14 => {
            let offset = match rng.bool() {
                true => rng.usize(..=size),
                false => rng.usize(..=size / BLOCK) * BLOCK,
            };
            let len = [rng.usize(1..40), BLOCK, rng.usize(1..600)][rng.usize(..3)];
            Step::Write {
                file,
                offset,
                len,
                seed: rng.u64(..),
            }
        }
        15..=16 => Step::Read(file),
        17..=18 => Step::Stages,
        _ => Step::CloseAndOpen(file),
    }
}

/// As many random steps as said, each fit for what the ones before leave.
pub(super) fn random_script(steps: usize, seed: u64) -> Vec<Step> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut truth = World::first_truth();
    let mut script = Vec::new();
    for _ in 0..steps {
        let step = random_step(&mut rng, &truth);
        if let Some(after) = states(&step, &truth).pop() {
            truth = after;
        }
        script.push(step);
    }
    script
}
