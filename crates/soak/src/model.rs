//! What a client knows: the version of each of its sectors, and which requests it does not know the
//! end of.
//!
//! A sector that was acknowledged holds exactly its version. A request that broke off is whole or
//! absent, in each of its units; what a first read finds of it is from then on what has to be there.

use std::ops::Range;

use crate::stamp::{self, Found, Origin, SECTOR_BYTES};

pub const BLOCK_BYTES: u64 = 4096;

/// Each client's run of sectors, then the next client's. The borders lie within blocks, so that two
/// clients share them.
const RUN_BYTES: u64 = 2 << 20;
const BORDER_SHIFT_BYTES: u64 = 3 * SECTOR_BYTES as u64;

/// Which client owns which bytes of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// Size of the volume, a multiple of 2 MiB.
    pub volume_bytes: u64,
    pub clients: u64,
}

impl Runs {
    /// Runs that a client has.
    pub fn count(&self) -> u64 {
        self.volume_bytes / RUN_BYTES / self.clients
    }

    /// Bytes of the run `index` of a client.
    pub fn bytes(&self, client: u64, index: u64) -> Range<u64> {
        let border = |run: u64| match run * RUN_BYTES {
            0 => 0,
            end if end >= self.volume_bytes => self.volume_bytes,
            inner => inner + BORDER_SHIFT_BYTES,
        };
        let run = index * self.clients + client;
        border(run)..border(run + 1)
    }

    /// The client that owns a byte.
    pub fn owner(&self, offset: u64) -> u64 {
        let last = self.volume_bytes / RUN_BYTES - 1;
        (offset.saturating_sub(BORDER_SHIFT_BYTES) / RUN_BYTES).min(last) % self.clients
    }
}

/// A change whose end is not known.
#[derive(Clone, Debug)]
pub struct Uncertain {
    pub bytes: Range<u64>,
    pub version: u32,
    /// Whether it is whole or absent altogether, and not only block by block.
    pub is_whole: bool,
    /// False where the server never got all of it.
    pub may_be_there: bool,
}

/// What is wrong with a sector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// Something acknowledged is not there any more: it says which.
    Lost(String),
    /// Something is there that must not be.
    Wrong(String),
}

/// The sectors of one client.
#[derive(Debug)]
pub struct Model {
    seed: u64,
    volume: u32,
    versions: Vec<u32>,
    /// Changes whose end is not known; no sector is in two of them.
    pub uncertain: Vec<Uncertain>,
}

impl Model {
    pub fn new(seed: u64, volume: u32, volume_bytes: u64) -> Model {
        Model {
            seed,
            volume,
            versions: vec![0; volume_bytes as usize / SECTOR_BYTES],
            uncertain: Vec::new(),
        }
    }

    fn origin(&self, sector: u64) -> Origin {
        Origin {
            seed: self.seed,
            volume: self.volume,
            sector,
        }
    }

    pub fn data(&self, bytes: &Range<u64>, version: u32) -> Vec<u8> {
        let mut data = vec![0; (bytes.end - bytes.start) as usize];
        let first = bytes.start / SECTOR_BYTES as u64;
        for (index, sector) in data.chunks_exact_mut(SECTOR_BYTES).enumerate() {
            stamp::fill(sector, self.origin(first + index as u64), version);
        }
        data
    }

    /// A change that was acknowledged.
    pub fn acknowledge(&mut self, bytes: &Range<u64>, version: u32) {
        self.versions[sectors(bytes)].fill(version);
    }

    /// Compares what was read, or what is in a backing.
    pub fn check(&self, offset: u64, data: &[u8], mut complain: impl FnMut(Complaint)) {
        let first = offset / SECTOR_BYTES as u64;
        let mut expected = [0; SECTOR_BYTES];
        for (index, found) in data.chunks_exact(SECTOR_BYTES).enumerate() {
            let sector = first + index as u64;
            let version = self.versions[sector as usize];
            stamp::fill(&mut expected, self.origin(sector), version);
            if expected != found {
                complain(self.classify(sector, version, stamp::read(found)));
            }
        }
    }

    /// A sector does not hold `version`: what it is instead.
    fn classify(&self, sector: u64, version: u32, found: Found) -> Complaint {
        let place = format!(
            "volume {} sector {sector}: version {version} was acknowledged, found",
            self.volume
        );
        match found {
            Found::Zeroes => Complaint::Lost(format!("{place} zeroes")),
            Found::Stamp(origin, older)
                if origin == self.origin(sector) && (older < version || version == 0) =>
            {
                Complaint::Lost(format!("{place} version {older}"))
            }
            Found::Stamp(origin, other) => {
                Complaint::Wrong(format!("{place} version {other} of {origin:?}"))
            }
            Found::Garbage => Complaint::Wrong(format!("{place} no stamp")),
        }
    }

    /// Takes `data`, read where the end of `change` was not known, for what is there from now on.
    pub fn resolve(
        &mut self,
        change: &Uncertain,
        data: &[u8],
        mut complain: impl FnMut(Complaint),
    ) {
        let unit_bytes = if change.is_whole {
            u64::MAX
        } else {
            BLOCK_BYTES
        };
        let mut start = change.bytes.start;
        while start < change.bytes.end {
            let end = (start / unit_bytes + 1)
                .saturating_mul(unit_bytes)
                .min(change.bytes.end);
            let from = (start - change.bytes.start) as usize;
            let to = (end - change.bytes.start) as usize;
            self.resolve_unit(&(start..end), change, &data[from..to], &mut complain);
            start = end;
        }
    }

    fn resolve_unit(
        &mut self,
        bytes: &Range<u64>,
        change: &Uncertain,
        data: &[u8],
        complain: &mut impl FnMut(Complaint),
    ) {
        let is_new = change.may_be_there && data == self.data(bytes, change.version);
        if is_new {
            self.acknowledge(bytes, change.version);
            return;
        }
        let mut is_old = true;
        self.check(bytes.start, data, |complaint| {
            is_old = false;
            let told = |text| format!("{text}; version {} broke off here", change.version);
            complain(match complaint {
                Complaint::Lost(text) => Complaint::Lost(told(text)),
                Complaint::Wrong(text) => Complaint::Wrong(told(text)),
            });
        });
        if !is_old {
            // Told once; what is there counts from now on.
            for (index, sector) in sectors(bytes).zip(data.chunks_exact(SECTOR_BYTES)) {
                if let Found::Stamp(_, version) = stamp::read(sector) {
                    self.versions[index] = version;
                }
            }
        }
    }
}

fn sectors(bytes: &Range<u64>) -> Range<usize> {
    bytes.start as usize / SECTOR_BYTES..bytes.end as usize / SECTOR_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME_BYTES: u64 = 8 << 20;

    fn complaints(model: &Model, offset: u64, data: &[u8]) -> Vec<Complaint> {
        let mut all = Vec::new();
        model.check(offset, data, |complaint| all.push(complaint));
        all
    }

    #[test]
    fn the_runs_cover_the_volume_once() {
        let runs = Runs {
            volume_bytes: VOLUME_BYTES,
            clients: 2,
        };
        let mut next = 0;
        for run in 0..4 {
            let bytes = runs.bytes(run % 2, run / 2);
            assert_eq!(bytes.start, next);
            assert_eq!(runs.owner(bytes.start), run % 2);
            assert_eq!(runs.owner(bytes.end - 1), run % 2);
            next = bytes.end;
        }
        assert_eq!(next, VOLUME_BYTES);
    }

    #[test]
    fn an_older_version_is_lost_and_another_place_is_wrong() {
        let mut model = Model::new(1, 0, VOLUME_BYTES);
        let older = model.data(&(0..4096), 1);
        let data = model.data(&(0..4096), 2);
        model.acknowledge(&(0..4096), 2);
        assert!(complaints(&model, 0, &data).is_empty());
        assert!(matches!(
            complaints(&model, 0, &older)[..],
            [Complaint::Lost(_), ..]
        ));
        assert!(matches!(
            complaints(&model, 0, &[0; 512])[..],
            [Complaint::Lost(_)]
        ));
        let elsewhere = model.data(&(4096..4608), 2);
        assert!(matches!(
            complaints(&model, 0, &elsewhere)[..],
            [Complaint::Wrong(_)]
        ));
        assert!(matches!(
            complaints(&model, 0, &[7; 512])[..],
            [Complaint::Wrong(_)]
        ));
    }

    #[test]
    fn what_broke_off_is_whole_or_absent() {
        let bytes = 2048..10_240;
        let mut change = Uncertain {
            bytes: bytes.clone(),
            version: 2,
            is_whole: true,
            may_be_there: true,
        };
        let resolved = |change: &Uncertain, data: &[u8]| {
            let mut model = Model::new(1, 0, VOLUME_BYTES);
            model.acknowledge(&bytes, 1);
            let mut count = 0;
            model.resolve(change, data, |_| count += 1);
            (count, complaints(&model, bytes.start, data).len())
        };
        let model = Model::new(1, 0, VOLUME_BYTES);
        let (old, new) = (model.data(&bytes, 1), model.data(&bytes, 2));
        let mixed = [&old[..2048], &new[2048..]].concat();
        assert_eq!(resolved(&change, &old), (0, 0));
        assert_eq!(resolved(&change, &new), (0, 0));
        assert_ne!(resolved(&change, &mixed).0, 0, "half a transaction");
        change.is_whole = false;
        assert_eq!(resolved(&change, &mixed), (0, 0), "whole blocks");
        let torn = [&old[..1024], &new[1024..]].concat();
        assert_ne!(resolved(&change, &torn).0, 0, "half a block");
        change.may_be_there = false;
        assert_ne!(resolved(&change, &new).0, 0, "it was never sent whole");
    }
}
