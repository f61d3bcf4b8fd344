//! An engine of the lab behind which something is wrong that none of its mutants is: the checker is tested on it.

use forebay::{Backing, ErrorKind, Region, Result};
use forebay_lab::engines::{self, EngineName, EngineOptions};
use forebay_lab::{Engine, EngineStats, EngineTransaction};
use std::ops::Range;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing.
    None,
    /// What is not on the backing yet is not read.
    ReadsTheBacking,
    /// An update brings the changed ranges, and zeroes between them.
    UpdatesWithZeroes,
}

const ENGINE: EngineName = EngineName::Tinca;

struct Faulty {
    fault: Fault,
    engine: Box<dyn Engine>,
    backing: Backing,
}

struct Transaction<'e> {
    fault: Fault,
    transaction: Box<dyn EngineTransaction + 'e>,
}

pub fn start(
    fault: Fault,
    region: Region,
    backing: Backing,
    options: &EngineOptions,
    is_new: bool,
) -> Result<Box<dyn Engine>> {
    let make = if is_new {
        engines::create
    } else {
        engines::open
    };
    Ok(Box::new(Faulty {
        fault,
        engine: make(ENGINE, region, backing.clone(), options)?,
        backing,
    }))
}

impl Engine for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn block_bytes(&self) -> usize {
        self.engine.block_bytes()
    }

    fn size_bytes(&self) -> u64 {
        self.engine.size_bytes()
    }

    fn transaction_blocks_max(&self) -> usize {
        self.engine.transaction_blocks_max()
    }

    fn begin(&self) -> Box<dyn EngineTransaction + '_> {
        Box::new(Transaction {
            fault: self.fault,
            transaction: self.engine.begin(),
        })
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        if self.fault != Fault::ReadsTheBacking {
            return self.engine.read(block, out);
        }
        let read = self.backing.read_at(block * self.block_bytes() as u64, out);
        read.map_err(|error| ErrorKind::Options(error.to_string()).into())
    }

    fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}

impl EngineTransaction for Transaction<'_> {
    fn write(&mut self, block: u64, data: &[u8]) -> Result<()> {
        self.transaction.write(block, data)
    }

    fn update(&mut self, block: u64, data: &[u8], changed: &[Range<usize>]) -> Result<()> {
        if self.fault != Fault::UpdatesWithZeroes {
            return self.transaction.update(block, data, changed);
        }
        let mut bytes = data.to_vec();
        let (first, last) = (&changed[0], changed.last().expect("a range changed"));
        if first.end < last.start {
            bytes[first.end..last.start].fill(0);
        }
        self.transaction.write(block, &bytes)
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.transaction.read(block, out)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.transaction.commit()
    }

    fn abort(self: Box<Self>) {
        self.transaction.abort();
    }
}
