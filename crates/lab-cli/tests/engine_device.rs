//! An engine seen as bytes behaves like an array of bytes, and each request that fits is one
//! transaction.

#[path = "../../serve/tests/bytes_model/mod.rs"]
mod bytes_model;

use std::sync::{Arc, Barrier, Mutex};

use bytes_model::{Operation, apply, operation};
use forebay::{ErrorKind, Result};
use forebay_lab::{Engine, EngineStats, EngineTransaction};
use forebay_lab_cli::EngineDevice;
use forebay_serve::{BlockDevice, DeviceError, MemoryDevice};
use proptest::prelude::*;

const BLOCK_BYTES: usize = 4096;
const DISK_BYTES: u64 = 1 << 20;
const BLOCKS_MAX: usize = 16;

/// An engine whose medium is a vector. It remembers the blocks of each transaction.
#[derive(Default)]
struct VectorEngine {
    blocks: Mutex<Vec<u8>>,
    commits: Mutex<Vec<Vec<u64>>>,
}

struct VectorTransaction<'e> {
    engine: &'e VectorEngine,
    changes: Vec<(u64, Vec<u8>)>,
}

impl EngineTransaction for VectorTransaction<'_> {
    fn write(&mut self, block: u64, data: &[u8]) -> Result<()> {
        assert_eq!(data.len(), BLOCK_BYTES);
        self.changes.push((block, data.to_vec()));
        let bytes = (self.changes.len() * BLOCK_BYTES) as u64;
        if self.changes.len() > BLOCKS_MAX {
            return Err(ErrorKind::TransactionTooLarge {
                asked_bytes: bytes,
                limit_bytes: (BLOCKS_MAX * BLOCK_BYTES) as u64,
            }
            .into());
        }
        Ok(())
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.engine.read(block, out)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        let mut blocks = self.engine.blocks.lock().unwrap();
        let numbers = self.changes.iter().map(|(block, _)| *block);
        self.engine.commits.lock().unwrap().push(numbers.collect());
        for (block, data) in self.changes {
            blocks[block as usize * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&data);
        }
        Ok(())
    }

    fn abort(self: Box<Self>) {}
}

impl Engine for VectorEngine {
    fn name(&self) -> &'static str {
        "vector"
    }

    fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn size_bytes(&self) -> u64 {
        DISK_BYTES
    }

    fn transaction_blocks_max(&self) -> usize {
        BLOCKS_MAX
    }

    fn begin(&self) -> Box<dyn EngineTransaction + '_> {
        Box::new(VectorTransaction {
            engine: self,
            changes: Vec::new(),
        })
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        assert_eq!(out.len() % BLOCK_BYTES, 0);
        let blocks = self.blocks.lock().unwrap();
        out.copy_from_slice(&blocks[block as usize * BLOCK_BYTES..][..out.len()]);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> EngineStats {
        EngineStats::default()
    }
}

fn new_device() -> (Arc<VectorEngine>, EngineDevice) {
    let engine = Arc::new(VectorEngine {
        blocks: Mutex::new(vec![0; DISK_BYTES as usize]),
        ..VectorEngine::default()
    });
    (Arc::clone(&engine), EngineDevice::new(engine))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_engine_is_an_array_of_bytes(operations in prop::collection::vec(operation(DISK_BYTES), 1..40)) {
        let (_, device) = new_device();
        let model = MemoryDevice::new(DISK_BYTES as usize, BLOCK_BYTES as u32);
        for operation in &operations {
            if let Operation::Discard { offset, length } = *operation {
                let refused = device.discard(offset, length).unwrap_err();
                let is_unsupported = matches!(refused, DeviceError::Unsupported { .. });
                prop_assert!(is_unsupported, "{}", refused);
                continue;
            }
            let (found, expected) = (apply(&device, operation), apply(&model, operation));
            prop_assert!(found == expected, "{:?}", operation);
        }
        let whole = Operation::Read { offset: 0, length: DISK_BYTES as usize };
        prop_assert!(apply(&device, &whole) == apply(&model, &whole), "at the end");
    }
}

#[test]
fn what_fits_is_one_transaction_and_more_is_cut_at_blocks() {
    let (engine, device) = new_device();
    let commits = || std::mem::take(&mut *engine.commits.lock().unwrap());
    device.write_at(8192, &vec![1; 3 * BLOCK_BYTES]).unwrap();
    assert_eq!(commits(), [[2, 3, 4]]);
    // From the middle of one block to the middle of another.
    device.write_at(6000, &vec![2; 2 * BLOCK_BYTES]).unwrap();
    assert_eq!(commits(), [[1, 2, 3]]);
    device.write_at(5000, &[3; 10]).unwrap();
    assert_eq!(commits(), [[1]]);
    device.write_at(1, &vec![4; 20 * BLOCK_BYTES]).unwrap();
    let blocks: Vec<u64> = (0..=20).collect();
    assert_eq!(commits(), [blocks[..16].to_vec(), blocks[16..].to_vec()]);
    device.write_at(0, &[]).unwrap();
    device.write_zeroes(0, 0).unwrap();
    assert!(commits().is_empty());
}

#[test]
fn a_request_past_the_end_is_refused_whole() {
    let (engine, device) = new_device();
    for refused in [
        device.write_at(DISK_BYTES - 10, &[1; 11]),
        device.write_zeroes(DISK_BYTES - 10, 11),
        device.discard(DISK_BYTES, 1),
        device.read_at(u64::MAX, &mut [0; 10]),
    ] {
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, DeviceError::OutOfRange { .. }),
            "{refused}"
        );
    }
    assert!(engine.commits.lock().unwrap().is_empty());
}

/// Several writers, each of its own quarter of the same two blocks.
#[test]
fn writes_of_parts_of_a_block_do_not_lose_each_other() {
    const WRITERS: u64 = 4;
    const ROUNDS: u64 = 300;
    const SHARE: u64 = BLOCK_BYTES as u64 / WRITERS;
    let (_, device) = new_device();
    let start = Barrier::new(WRITERS as usize);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (device, start) = (&device, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..ROUNDS {
                    // The second block is 64 further on: it has the same stripe.
                    let block = (round % 2) * 64;
                    let offset = block * BLOCK_BYTES as u64 + writer * SHARE;
                    let bytes = [(round % 251) as u8; SHARE as usize];
                    device.write_at(offset, &bytes).unwrap();
                    let mut found = [0; SHARE as usize];
                    device.read_at(offset, &mut found).unwrap();
                    assert_eq!(found, bytes, "writer {writer}, round {round}");
                }
            });
        }
    });
}
