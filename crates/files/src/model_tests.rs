//! Random programs on some files, against a `Vec` for each; kills lose nothing.

use std::sync::Arc;

use proptest::prelude::*;
use rustix::fs::FallocateFlags;

use crate::buffer::FileBuffer;
use crate::facts::SyncKind;
use crate::file::BufferedFile;
use crate::testing::{Rig, open_file};

const FILES: usize = 3;
const POOL_BYTES: u64 = 2 << 20;

#[derive(Clone, Debug)]
enum Step {
    Write {
        offset: u64,
        len: usize,
        durable: bool,
    },
    Append {
        len: usize,
        durable: bool,
    },
    Truncate(u64),
    Sync(bool),
    Read {
        offset: u64,
        len: usize,
    },
    Drain,
    /// Suspended, changed by another program, resumed.
    Lend {
        offset: u64,
        len: usize,
    },
    PunchHole {
        offset: u64,
        len: u64,
    },
    Allocate {
        offset: u64,
        len: u64,
    },
    Work,
    CloseFile,
    Kill,
    /// All is synced; then what the pool lies on loses what was not durable.
    CutPower,
    CloseBuffer,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let offset = prop_oneof![0u64..20_000, (0u64..40).prop_map(|block| block * 4096)];
    let len = prop_oneof![
        1usize..600,
        1usize..30_000,
        (1usize..5).prop_map(|n| n * 4096)
    ];
    let step = prop_oneof![
        6 => (offset.clone(), len.clone(), any::<bool>())
            .prop_map(|(offset, len, durable)| Step::Write { offset, len, durable }),
        6 => (1usize..900, any::<bool>())
            .prop_map(|(len, durable)| Step::Append { len, durable }),
        2 => offset.clone().prop_map(Step::Truncate),
        4 => any::<bool>().prop_map(Step::Sync),
        4 => (offset.clone(), len.clone()).prop_map(|(offset, len)| Step::Read { offset, len }),
        1 => Just(Step::Drain),
        1 => (offset.clone(), len).prop_map(|(offset, len)| Step::Lend { offset, len }),
        1 => (offset.clone(), 1u64..20_000)
            .prop_map(|(offset, len)| Step::PunchHole { offset, len }),
        1 => (offset, 1u64..20_000).prop_map(|(offset, len)| Step::Allocate { offset, len }),
        3 => Just(Step::Work),
        1 => Just(Step::CloseFile),
        1 => Just(Step::Kill),
        1 => Just(Step::CutPower),
        1 => Just(Step::CloseBuffer),
    ];
    prop::collection::vec((0..FILES, step), 1..50)
}

struct World {
    rig: Rig,
    buffer: Arc<FileBuffer>,
    files: Vec<Option<Arc<BufferedFile>>>,
    models: Vec<Vec<u8>>,
    writes: u8,
}

impl World {
    fn new(rig: Rig) -> World {
        let buffer = rig.open().expect("open");
        World {
            rig,
            buffer,
            files: vec![None; FILES],
            models: vec![Vec::new(); FILES],
            writes: 0,
        }
    }

    fn file(&mut self, number: usize) -> Arc<BufferedFile> {
        let file = self.files[number].get_or_insert_with(|| {
            let path = self.rig.path(&format!("file-{number}"));
            self.buffer.adopt(open_file(&path)).expect("adopt")
        });
        file.clone()
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.writes = self.writes.wrapping_add(1).max(1);
        (0..len).map(|at| self.writes ^ (at / 512) as u8).collect()
    }

    fn put(&mut self, number: usize, offset: u64, bytes: &[u8]) {
        let model = &mut self.models[number];
        let end = offset as usize + bytes.len();
        model.resize(model.len().max(end), 0);
        model[offset as usize..end].copy_from_slice(bytes);
    }

    fn take(&mut self, number: usize, step: &Step) {
        let file = self.file(number);
        match *step {
            Step::Write {
                offset,
                len,
                durable,
            } => {
                let bytes = self.bytes(len);
                file.write_at(offset, &bytes, durable).expect("write");
                self.put(number, offset, &bytes);
            }
            Step::Append { len, durable } => {
                let bytes = self.bytes(len);
                let offset = file.append(&bytes, durable).expect("append");
                assert_eq!(offset, self.models[number].len() as u64);
                self.put(number, offset, &bytes);
            }
            Step::Truncate(size_bytes) => {
                file.truncate(size_bytes).expect("truncate");
                self.models[number].resize(size_bytes as usize, 0);
            }
            Step::Sync(all) => {
                let kind = if all { SyncKind::All } else { SyncKind::Data };
                file.sync(kind).expect("sync");
            }
            Step::Read { offset, len } => self.compare(number, &file, offset, len),
            Step::Drain => file.drain().expect("drain"),
            Step::Lend { offset, len } => {
                let bytes = self.bytes(len);
                file.suspend().expect("suspend");
                let path = self.rig.path(&format!("file-{number}"));
                assert_eq!(std::fs::read(&path).expect("read"), self.models[number]);
                let other = std::fs::File::from(open_file(&path));
                std::os::unix::fs::FileExt::write_all_at(&other, &bytes, offset).expect("write");
                self.put(number, offset, &bytes);
                self.compare(number, &file, 0, usize::MAX);
                file.resume();
            }
            Step::PunchHole { offset, len } => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                if file.allocate(mode, offset, len).is_ok() {
                    let model = &mut self.models[number];
                    let end = model.len().min((offset + len) as usize);
                    model[end.min(offset as usize)..end].fill(0);
                }
            }
            Step::Allocate { offset, len } => {
                if file.allocate(FallocateFlags::empty(), offset, len).is_ok() {
                    let model = &mut self.models[number];
                    model.resize(model.len().max((offset + len) as usize), 0);
                }
            }
            Step::Work => self.buffer.work_once().expect("work"),
            Step::CloseFile => self.files[number] = None,
            Step::Kill | Step::CloseBuffer => {
                drop(file);
                self.reopen(matches!(step, Step::CloseBuffer));
            }
            Step::CutPower => {
                drop(file);
                self.sync_all();
                self.rig
                    .cut_power(&mut fastrand::Rng::with_seed(self.writes.into()));
                self.reopen(false);
            }
        }
    }

    fn sync_all(&mut self) {
        for number in 0..FILES {
            self.file(number).sync(SyncKind::Data).expect("sync");
        }
    }

    fn reopen(&mut self, in_order: bool) {
        if in_order {
            self.buffer.close().expect("close");
            for number in 0..FILES {
                if self.files[number].is_some() {
                    let path = self.rig.path(&format!("file-{number}"));
                    assert_eq!(std::fs::read(&path).expect("read"), self.models[number]);
                }
            }
        }
        self.files.fill(None);
        self.buffer = self.rig.open().expect("open");
    }

    fn compare(&self, number: usize, file: &BufferedFile, offset: u64, len: usize) {
        let model = &self.models[number];
        assert_eq!(file.size_bytes().expect("size"), model.len() as u64);
        let mut out = vec![0xEE; len.min(model.len() + 100)];
        let read = file.read_at(offset, &mut out).expect("read");
        let start = model.len().min(offset as usize);
        let end = model.len().min(start + out.len());
        assert_eq!(read, end - start);
        if out[..read] != model[start..end] {
            let at = (0..read).find(|at| out[*at] != model[start + at]);
            panic!(
                "file {number} differs at {:?} of {}",
                at.map(|at| at + start),
                model.len()
            );
        }
    }

    fn compare_all(&mut self) {
        for number in 0..FILES {
            let file = self.file(number);
            self.compare(number, &file, 0, usize::MAX);
        }
    }
}

fn run(rig: Rig, steps: &[(usize, Step)]) {
    let mut world = World::new(rig);
    for (number, step) in steps {
        world.take(*number, step);
    }
    world.compare_all();
    world.reopen(false);
    world.compare_all();
    world.reopen(true);
    for number in 0..FILES {
        let path = world.rig.path(&format!("file-{number}"));
        assert_eq!(
            std::fs::read(path).unwrap_or_default(),
            world.models[number]
        );
    }
}

/// After so many bytes a file is cold, with blocks in the pool.
const COLD_AFTER_BYTES: u64 = 24 << 10;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn files_hold_what_was_written_whatever_comes_between(steps in steps()) {
        run(Rig::new(POOL_BYTES), &steps);
    }

    #[test]
    fn the_same_of_files_that_are_cold_soon(steps in steps()) {
        let mut rig = Rig::new(POOL_BYTES);
        rig.cold_after_bytes = COLD_AFTER_BYTES;
        run(rig, &steps);
    }

    #[test]
    fn the_same_over_a_pool_on_an_ssd(steps in steps()) {
        let mut rig = Rig::on_ssd();
        rig.cold_after_bytes = COLD_AFTER_BYTES;
        run(rig, &steps);
    }
}
