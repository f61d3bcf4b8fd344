//! The smallest engine there is, perhaps with a fault: the checker is tested on it.
//!
//! The region holds one transaction. Commit brings the transaction before to the backing, stores
//! this one's blocks, and then the word that says how many there are.

use forebay::{Backing, Error, Region, Result, WriteRun};
use forebay_lab::engines::EngineOptions;
use forebay_lab::{Engine, EngineStats, EngineTransaction};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing.
    None,
    /// The word that commits is not ordered after the blocks.
    CommitsUnordered,
    /// A transaction is forgotten before its backing was synced.
    ForgetsBeforeSync,
    /// What is not on the backing yet is not read.
    ReadsTheBacking,
    /// What a killed process left is believed without being made durable.
    BelievesTheKilled,
    /// An update brings the changed ranges, and zeroes between them.
    UpdatesWithZeroes,
}

const MAGIC: u64 = 0x746f_7921;
/// Where the number of blocks is.
const COUNT: u64 = 64;
/// Where their numbers start; their bytes come after all of them.
const NUMBERS: u64 = 128;

type Blocks = BTreeMap<u64, Vec<u8>>;

struct Toy {
    fault: Fault,
    region: Region,
    backing: Backing,
    block_bytes: usize,
    slots: usize,
    pending: Mutex<Blocks>,
}

impl Toy {
    fn new(fault: Fault, region: Region, backing: Backing, options: &EngineOptions) -> Toy {
        let block_bytes = options.block_bytes;
        let rest = (region.len() - NUMBERS) as usize;
        Toy {
            fault,
            region,
            backing,
            block_bytes,
            slots: rest / (block_bytes + 8) - 1,
            pending: Mutex::default(),
        }
    }

    fn place(&self, slot: usize) -> u64 {
        let first = (NUMBERS + self.slots as u64 * 8).next_multiple_of(64);
        first + (slot * self.block_bytes) as u64
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        forebay_pmem::lock_or_yield(&self.pending)
    }

    fn set_count(&self, count: u64) -> Result<()> {
        self.region.store_u64(COUNT, count);
        self.region.flush(COUNT, 8);
        // Orders the word before everything that rests on it.
        Ok(self.region.fence()?)
    }

    fn bring_home(&self, pending: &mut Blocks) -> Result<()> {
        let failed = |source| Error::Backing {
            path: self.backing.identity().path.clone(),
            source,
        };
        for (number, bytes) in pending.iter() {
            let offset = number * self.block_bytes as u64;
            let results = self.backing.write_runs(&[WriteRun { offset, bytes }]);
            results
                .into_iter()
                .collect::<std::io::Result<()>>()
                .map_err(failed)?;
        }
        if self.fault != Fault::ForgetsBeforeSync {
            self.backing.sync().map_err(failed)?;
        }
        self.set_count(0)?;
        pending.clear();
        Ok(())
    }

    fn commit(&self, blocks: Blocks) -> Result<()> {
        let mut pending = self.lock();
        self.bring_home(&mut pending)?;
        for (slot, (number, bytes)) in blocks.iter().enumerate() {
            let entry = NUMBERS + slot as u64 * 8;
            self.region.store_u64(entry, *number);
            self.region.flush(entry, 8);
            self.region.store(self.place(slot), bytes);
            self.region.flush(self.place(slot), bytes.len());
        }
        if self.fault != Fault::CommitsUnordered {
            // Orders the blocks before the word that says they are there.
            self.region.fence()?;
        }
        self.set_count(blocks.len() as u64)?;
        *pending = blocks;
        Ok(())
    }
}

pub fn create(
    fault: Fault,
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    let toy = Toy::new(fault, region, backing, options);
    toy.region.store_u64(0, 0);
    toy.region.flush(0, 8);
    toy.region.fence()?;
    toy.set_count(0)?;
    toy.region.store_u64(0, MAGIC);
    toy.region.flush(0, 8);
    // Orders the engine's mark before the first commit.
    toy.region.fence()?;
    Ok(Box::new(toy))
}

pub fn open(
    fault: Fault,
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    let toy = Toy::new(fault, region, backing, options);
    if toy.region.load_u64(0) != MAGIC {
        return Err(Error::Options(String::from("no toy")));
    }
    if fault != Fault::BelievesTheKilled {
        toy.region.flush(0, toy.region.len() as usize);
        // Orders what is believed before what rests on it.
        toy.region.fence()?;
    }
    let mut pending = Blocks::new();
    for slot in 0..toy.region.load_u64(COUNT) as usize {
        let mut bytes = vec![0; toy.block_bytes];
        toy.region.read(toy.place(slot), &mut bytes);
        pending.insert(toy.region.load_u64(NUMBERS + slot as u64 * 8), bytes);
    }
    *toy.lock() = pending;
    Ok(Box::new(toy))
}

impl Engine for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn size_bytes(&self) -> u64 {
        self.backing.size_bytes()
    }

    fn transaction_blocks_max(&self) -> usize {
        self.slots
    }

    fn begin(&self) -> Box<dyn EngineTransaction + '_> {
        Box::new(Transaction {
            toy: self,
            blocks: Blocks::new(),
        })
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        let pending = self.lock();
        for (number, bytes) in (block..).zip(out.chunks_mut(self.block_bytes)) {
            match pending.get(&number) {
                Some(cached) if self.fault != Fault::ReadsTheBacking => {
                    bytes.copy_from_slice(cached);
                }
                _ => {
                    let offset = number * self.block_bytes as u64;
                    let read = self.backing.read_at(offset, bytes);
                    read.map_err(|error| Error::Options(error.to_string()))?;
                }
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.bring_home(&mut self.lock())
    }

    fn stats(&self) -> EngineStats {
        let blocks = self.lock().len() as u64;
        EngineStats {
            slots: self.slots as u64,
            cached_blocks: blocks,
            dirty_blocks: blocks,
            ..EngineStats::default()
        }
    }
}

struct Transaction<'e> {
    toy: &'e Toy,
    blocks: Blocks,
}

impl EngineTransaction for Transaction<'_> {
    fn write(&mut self, block: u64, data: &[u8]) -> Result<()> {
        self.blocks.insert(block, data.to_vec());
        Ok(())
    }

    fn update(
        &mut self,
        block: u64,
        data: &[u8],
        changed: &[std::ops::Range<usize>],
    ) -> Result<()> {
        let mut bytes = data.to_vec();
        if self.toy.fault == Fault::UpdatesWithZeroes {
            let (first, last) = (&changed[0], changed.last().expect("a range changed"));
            if first.end < last.start {
                bytes[first.end..last.start].fill(0);
            }
        }
        self.write(block, &bytes)
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        match self.blocks.get(&block) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => self.toy.read(block, out)?,
        }
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.toy.commit(self.blocks)
    }

    fn abort(self: Box<Self>) {}
}
