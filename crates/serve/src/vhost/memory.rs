//! The guest's memory as its machine monitor shares it: regions of files, mapped.
//!
//! A table is replaced as a whole; whoever works with the old one keeps it mapped until it is done.

use std::fs::File;
use std::io;
use std::sync::Arc;

use vhost::vhost_user::message::{VhostUserMemoryRegion, VhostUserSingleMemoryRegion};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

/// The guest's memory by its own addresses.
pub(crate) type GuestMemory = GuestMemoryMmap<()>;

/// Regions that one client may have; QEMU has at most so many places for memory.
pub(crate) const REGIONS_MAX: usize = 256;

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
    fn map(region: &VhostUserMemoryRegion, file: File) -> io::Result<Region> {
        let offset = FileOffset::new(file, region.mmap_offset);
        let bytes = usize::try_from(region.memory_size).map_err(io::Error::other)?;
        let mapping = MmapRegion::from_file(offset, bytes).map_err(io::Error::other)?;
        let mapping = GuestRegionMmap::new(mapping, GuestAddress(region.guest_phys_addr))
            .ok_or_else(|| io::Error::other("a region reaches past the end of all addresses"))?;
        Ok(Region {
            user_address: region.user_addr,
            guest_address: region.guest_phys_addr,
            bytes: region.memory_size,
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
    pub(crate) fn replace(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
    ) -> io::Result<()> {
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
    pub(crate) fn add(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
    ) -> io::Result<()> {
        let mut regions = self.regions.clone();
        regions.push(Region::map(region, file)?);
        self.become_these(regions)
    }

    /// One region less.
    ///
    /// Errors: there is none like it.
    pub(crate) fn remove(&mut self, region: &VhostUserSingleMemoryRegion) -> io::Result<()> {
        let is_it = |other: &Region| {
            other.guest_address == region.guest_phys_addr
                && other.user_address == region.user_addr
                && other.bytes == region.memory_size
        };
        let mut regions = self.regions.clone();
        let place = regions
            .iter()
            .position(is_it)
            .ok_or_else(|| io::Error::other("there is no such region"))?;
        regions.remove(place);
        self.become_these(regions)
    }

    fn become_these(&mut self, mut regions: Vec<Region>) -> io::Result<()> {
        if regions.len() > REGIONS_MAX {
            return Err(io::Error::other("too many regions of memory"));
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
