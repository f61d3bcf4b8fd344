//! The guest's memory as its machine monitor shares it: regions of files, mapped.
//!
//! A table is replaced as a whole; whoever works with the old one keeps it mapped until it is done.
//! A monitor may shorten its file meanwhile: what is not there any more reads as zeroes, and
//! [`GuestMemory::is_lost`] says so, which is asked after each look and before anything is made of it.

#![allow(unsafe_code, reason = "a guard is promised the mapping that it guards")]

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use forebay_pmem::FaultGuard;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::vhost::wire::invalid;

/// The guest's memory by its own addresses.
pub(crate) type MappedMemory = GuestMemoryMmap<()>;

/// The same, guarded against its monitor.
#[derive(Default)]
pub(crate) struct GuestMemory {
    /// Before what they guard, so that they go first.
    guards: Vec<Arc<FaultGuard>>,
    mapped: MappedMemory,
    /// The client's connection.
    client: Option<Arc<UnixStream>>,
}

impl Deref for GuestMemory {
    type Target = MappedMemory;

    fn deref(&self) -> &MappedMemory {
        &self.mapped
    }
}

impl GuestMemory {
    /// Memory of this process's own.
    pub(crate) fn of_our_own(mapped: MappedMemory) -> GuestMemory {
        GuestMemory {
            mapped,
            ..GuestMemory::default()
        }
    }

    /// Whether some of it was not there when it was touched: what was read may be nobody's.
    pub(crate) fn is_lost(&self) -> bool {
        self.guards.iter().any(|guard| guard.has_faulted())
    }

    /// Ends the connection of the client whose memory it is.
    pub(crate) fn drop_client(&self) {
        if let Some(client) = &self.client {
            // It fails only where the client has gone, which is as good.
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}

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
    /// Before what it guards, so that it goes first.
    guard: Arc<FaultGuard>,
    mapping: Arc<GuestRegionMmap<()>>,
}

/// All regions.
pub(crate) struct MemoryTable {
    regions: Vec<Region>,
    memory: Arc<GuestMemory>,
    client: Arc<UnixStream>,
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
        // SAFETY: the mapping of a file, made here; it lives as long as the region and the memories
        // made of it, each of which drops its guard first.
        let guard = unsafe { FaultGuard::new(mapping.as_ptr(), bytes) };
        let guard = guard.ok_or_else(|| invalid("too many regions of memory are mapped"))?;
        let mapping = GuestRegionMmap::new(mapping, GuestAddress(place.guest_address))
            .ok_or_else(past_the_end)?;
        Ok(Region {
            user_address: place.user_address,
            guest_address: place.guest_address,
            bytes: place.bytes,
            guard: Arc::new(guard),
            mapping: Arc::new(mapping),
        })
    }
}

impl MemoryTable {
    /// No memory yet of the client at the other end.
    pub(crate) fn new(client: Arc<UnixStream>) -> MemoryTable {
        MemoryTable {
            regions: Vec::new(),
            memory: Arc::default(),
            client,
        }
    }

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
        let mapped = match mappings.is_empty() {
            true => MappedMemory::new(),
            false => MappedMemory::from_arc_regions(mappings).map_err(io::Error::other)?,
        };
        let guards = regions.iter().map(|region| Arc::clone(&region.guard));
        self.memory = Arc::new(GuestMemory {
            guards: guards.collect(),
            mapped,
            client: Some(Arc::clone(&self.client)),
        });
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
