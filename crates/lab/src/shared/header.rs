//! The line at the start of an engine's region that says which engine it is, and over which disk.
//!
//! It is written last when an engine is made, so that a region has a header only when the rest is
//! there, and never again.
//!
//! The disk is known by its path and inode, as a pool knows its backings: dirty blocks of one disk that
//! went to another of the same size would be the end of both.

use std::os::unix::ffi::OsStrExt;

use forebay::{Backing, Region, Result};
use forebay_pmem::{LINE_BYTES, crc32c};

use super::refused;
use crate::engine_name::EngineName;

/// Bytes that the header has for itself; more than it needs, so that what follows is far away.
pub(crate) const HEADER_BYTES: u64 = 256;

/// "FBYLAB", then the engine's number and the version of its format.
const MAGIC: u64 = 0x4642_594c_4142_0000;
const VERSION: u64 = 2;
const WORDS: usize = LINE_BYTES / 8;

/// What an engine writes into its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Which engine.
    pub(crate) engine: EngineName,
    /// Bytes of a block.
    pub(crate) block_bytes: u64,
    /// Bytes of the disk behind it.
    pub(crate) disk_bytes: u64,
    /// What else the engine's layout follows from.
    pub(crate) layout: [u64; 4],
}

impl Header {
    fn words(&self, disk: u32) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[0] = magic_of(self.engine);
        words[1] = self.block_bytes;
        words[2] = self.disk_bytes;
        words[3..7].copy_from_slice(&self.layout);
        words[7] = last_word(&words, disk);
        words
    }

    /// Removes whatever header there is; durable on return. The first step of making an engine.
    pub(crate) fn erase(region: &Region) -> Result<()> {
        region.store(0, &[0; LINE_BYTES]);
        region.flush(0, LINE_BYTES);
        Ok(region.fence()?)
    }

    /// Writes the header of a cache of `backing`; the caller has fenced everything else. Durable on
    /// return.
    pub(crate) fn write(&self, region: &Region, backing: &Backing) -> Result<()> {
        let bytes: Vec<u8> = self
            .words(digest_of(backing))
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        region.store(0, &bytes);
        region.flush(0, LINE_BYTES);
        Ok(region.fence()?)
    }

    /// Whose header a region has; none where it has none.
    pub(crate) fn engine_on(region: &Region) -> Option<EngineName> {
        let has_room = region.len() >= HEADER_BYTES;
        has_room.then(|| engine_of(&words_on(region))).flatten()
    }

    /// Reads the header of `engine` over the disk behind `backing`.
    ///
    /// # Errors
    /// `Refused`, in words, where it is not that.
    pub(crate) fn read(region: &Region, engine: EngineName, backing: &Backing) -> Result<Header> {
        let disk_bytes = backing.size_bytes();
        let refused = |found, todo| refused(region, found, todo);
        if region.len() < HEADER_BYTES {
            let found = format!("{} bytes, too few for an engine", region.len());
            return Err(refused(found, "give it more room"));
        }
        let words = words_on(region);
        if engine_of(&words) != Some(engine) {
            let found = match engine_of(&words) {
                Some(other) => format!("a cache of the engine {other}, not of {engine}"),
                None => format!("no cache of the engine {engine}"),
            };
            return Err(refused(
                found,
                "name the engine that made it, or make a new one",
            ));
        }
        let header = Header {
            engine,
            block_bytes: words[1],
            disk_bytes: words[2],
            layout: [words[3], words[4], words[5], words[6]],
        };
        if header.disk_bytes != disk_bytes {
            let found = format!(
                "a cache of a disk of {} bytes, not of {disk_bytes}",
                header.disk_bytes
            );
            return Err(refused(found, "open it with the disk it belongs to"));
        }
        if disk_of(&words) != digest_of(backing) {
            let identity = backing.identity();
            let found = format!(
                "a cache of another disk than {} (inode {})",
                identity.path.display(),
                identity.inode
            );
            return Err(refused(
                found,
                "open it with the disk it belongs to, under the path that it had",
            ));
        }
        Ok(header)
    }
}

fn words_on(region: &Region) -> [u64; WORDS] {
    std::array::from_fn(|word| region.load_u64(word as u64 * 8))
}

/// Whose header these words are, if they are one that is whole.
fn engine_of(words: &[u64; WORDS]) -> Option<EngineName> {
    let is_whole = words[7] == last_word(words, disk_of(words));
    let is_its = |name: &EngineName| words[0] == magic_of(*name);
    EngineName::ALL
        .into_iter()
        .find(is_its)
        .filter(|_| is_whole)
}

fn magic_of(engine: EngineName) -> u64 {
    MAGIC | (engine as u64) << 8 | VERSION
}

/// A digest of which disk it is, and a checksum of that and of all other words.
fn last_word(words: &[u64; WORDS], disk: u32) -> u64 {
    let words = words[..7].iter().flat_map(|word| word.to_le_bytes());
    let bytes: Vec<u8> = words.chain(disk.to_le_bytes()).collect();
    u64::from(disk) << 32 | u64::from(crc32c(&bytes))
}

fn disk_of(words: &[u64; WORDS]) -> u32 {
    (words[7] >> 32) as u32
}

fn digest_of(backing: &Backing) -> u32 {
    let identity = backing.identity();
    let path = identity.path.as_os_str().as_bytes();
    crc32c(&[path, &identity.inode.to_le_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        engine: EngineName::Tinca,
        block_bytes: 4096,
        disk_bytes: 1 << 20,
        layout: [1, 2, 3, 4],
    };

    #[test]
    fn a_header_is_found_again_and_another_is_refused() {
        let region = Region::shadow(4096);
        let disk = Backing::memory(1 << 20);
        assert!(Header::read(&region, EngineName::Tinca, &disk).is_err());
        HEADER.write(&region, &disk).unwrap();
        let found = Header::read(&region, EngineName::Tinca, &disk).unwrap();
        assert_eq!(found, HEADER);
        assert_eq!(Header::engine_on(&region), Some(EngineName::Tinca));
        let other_engine = Header::read(&region, EngineName::Spindle, &disk).unwrap_err();
        assert!(
            other_engine.to_string().contains("spindle"),
            "{other_engine}"
        );
        assert!(other_engine.to_string().contains("tinca"), "{other_engine}");
        for (other_bytes, says) in [(1 << 21, "2097152"), (1 << 20, "another disk")] {
            let other_disk = Backing::memory(other_bytes);
            let refused = Header::read(&region, EngineName::Tinca, &other_disk).unwrap_err();
            assert!(refused.to_string().contains(says), "{refused}");
        }
        Header::erase(&region).unwrap();
        assert_eq!(Header::engine_on(&region), None);
        assert!(Header::read(&region, EngineName::Tinca, &disk).is_err());
    }
}
