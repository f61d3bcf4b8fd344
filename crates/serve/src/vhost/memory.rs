//! The guest's memory as its machine monitor shares it: regions of files, mapped.
//!
//! A table is replaced as a whole; whoever works with the old one keeps it mapped until it is done.

use std::fs::File;
use std::io;
use std::sync::Arc;

use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::vhost::wire::invalid;

/// The guest's memory by its own addresses.
pub(crate) type GuestMemory = GuestMemoryMmap<()>;

/// Regions that one client may have; QEMU has at most so many places for memory.
pub(crate) const REGIONS_MAX: usize = 256;

/// A region as the client describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionPlace {
    /// Where the guest has it.
    pub(crate) guest_address: u64,
    pub(crate) bytes: u64,
    /// Where the client itself has it.
    pub(crate) user_address: u64,
    /// Where it is in its file.
    pub(crate) file_offset: u64,
}

/// One region and where the client itself has it, which is how it names the rings' addresses.
#[derive(Clone)]
struct Region {
    user_address: u64,
    guest_address: u64,
    bytes: u64,
    mapping: Arc<GuestRegionMmap<()>>,
}

/// All regions.
#[derive(Default)]
pub(crate) struct MemoryTable {
    regions: Vec<Region>,
    memory: Arc<GuestMemory>,
}

impl Region {
    fn map(place: &RegionPlace, file: File) -> io::Result<Region> {
        let past_the_end = || invalid("a region reaches past the end of all addresses");
        for start in [place.guest_address, place.user_address, place.file_offset] {
            start.checked_add(place.bytes).ok_or_else(past_the_end)?;
        }
        // What is mapped past a file's end cannot be touched.
        let file_bytes = file.metadata()?.len();
        if place.file_offset + place.bytes > file_bytes {
            return Err(invalid(format!(
                "{} bytes at byte {} of a file that has {file_bytes}",
                place.bytes, place.file_offset
            )));
        }
        let offset = FileOffset::new(file, place.file_offset);
        let bytes = usize::try_from(place.bytes).map_err(io::Error::other)?;
        let mapping = MmapRegion::from_file(offset, bytes).map_err(io::Error::other)?;
        let mapping = GuestRegionMmap::new(mapping, GuestAddress(place.guest_address))
            .ok_or_else(past_the_end)?;
        Ok(Region {
            user_address: place.user_address,
            guest_address: place.guest_address,
            bytes: place.bytes,
            mapping: Arc::new(mapping),
        })
    }
}

impl MemoryTable {
    /// The memory as it is now.
    pub(crate) fn memory(&self) -> Arc<GuestMemory> {
        Arc::clone(&self.memory)
    }

    /// These regions and no others.
    ///
    /// Errors: they overlap, are too many, or a file is too short or cannot be mapped; the table
    /// stays as it was.
    pub(crate) fn replace(&mut self, regions: &[RegionPlace], files: Vec<File>) -> io::Result<()> {
        if regions.len() != files.len() {
            return Err(invalid("every region of memory comes with a descriptor"));
        }
        let mapped = regions
            .iter()
            .zip(files)
            .map(|(region, file)| Region::map(region, file))
            .collect::<io::Result<_>>()?;
        self.become_these(mapped)
    }

    /// One more region.
    ///
    /// Errors: as with `replace`.
    pub(crate) fn add(&mut self, region: &RegionPlace, file: File) -> io::Result<()> {
        let mut regions = self.regions.clone();
        regions.push(Region::map(region, file)?);
        self.become_these(regions)
    }

    /// One region less.
    ///
    /// Errors: there is none like it.
    pub(crate) fn remove(&mut self, region: &RegionPlace) -> io::Result<()> {
        let is_it = |other: &Region| {
            other.guest_address == region.guest_address
                && other.user_address == region.user_address
                && other.bytes == region.bytes
        };
        let mut regions = self.regions.clone();
        let place = regions
            .iter()
            .position(is_it)
            .ok_or_else(|| invalid("there is no such region"))?;
        regions.remove(place);
        self.become_these(regions)
    }

    fn become_these(&mut self, mut regions: Vec<Region>) -> io::Result<()> {
        if regions.len() > REGIONS_MAX {
            return Err(invalid("too many regions of memory"));
        }
        regions.sort_by_key(|region| region.guest_address);
        let mappings: Vec<_> = regions
            .iter()
            .map(|region| Arc::clone(&region.mapping))
            .collect();
        let memory = match mappings.is_empty() {
            true => GuestMemory::new(),
            false => GuestMemory::from_arc_regions(mappings).map_err(io::Error::other)?,
        };
        self.memory = Arc::new(memory);
        self.regions = regions;
        Ok(())
    }

    /// Where in the guest's memory something is of which the client tells its own address.
    pub(crate) fn guest_address(&self, user_address: u64) -> Option<GuestAddress> {
        self.regions.iter().find_map(|region| {
            let offset = user_address.checked_sub(region.user_address)?;
            (offset < region.bytes).then(|| GuestAddress(region.guest_address + offset))
        })
    }
}
