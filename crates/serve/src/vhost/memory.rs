//! The guest's memory as its machine monitor shares it: regions of files, mapped.
//!
//! A table is replaced as a whole; a request that uses the old one keeps it mapped until it is done. A
//! monitor may shorten its file meanwhile: what is not there any more reads as zeroes, and
//! [`GuestMemory::is_lost`] says so, which is checked after each access and before the data are used.

#![allow(unsafe_code, reason = "a guard is promised the mapping that it guards")]

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};

use forebay_pmem::FaultGuard;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::vhost::wire::invalid;

/// The guest's memory by its own addresses.
pub(crate) type MappedMemory = GuestMemoryMmap<()>;

/// A guest's memory, guarded against its monitor.
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

    /// Whether some of it was gone when it was touched: what was read may be zeroes that the guest
    /// never wrote.
    pub(crate) fn is_lost(&self) -> bool {
        self.guards.iter().any(|guard| guard.has_faulted())
    }

    /// Ends the connection of the client whose memory it is.
    pub(crate) fn drop_client(&self) {
        if let Some(client) = &self.client {
            // It fails only where the client has gone, which serves as well.
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}

/// Regions that one client may have; QEMU has at most this many places for memory.
pub(crate) const REGIONS_MAX: usize = 256;

/// The file system of huge pages.
const HUGETLBFS: rustix::fs::FsWord = 0x9584_58f6;

/// Huge pages of which one can be replaced even where memory is promised strictly.
const HUGE_PAGE_BYTES_ANYWHERE: u64 = 2 << 20;

/// A region as the client describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionPlace {
    /// Its address in the guest.
    pub(crate) guest_address: u64,
    pub(crate) bytes: u64,
    /// Its address in the client's own memory.
    pub(crate) user_address: u64,
    /// Where it is in its file.
    pub(crate) file_offset: u64,
}

/// One region and its address in the client's own memory, in which the rings' addresses are given.
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
        check_pages(&file, place)?;
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

/// Refuses pages that could not be replaced where they go away, which would end this process.
fn check_pages(file: &File, place: &RegionPlace) -> io::Result<()> {
    let file_system = rustix::fs::fstatfs(file)?;
    if file_system.f_type != HUGETLBFS {
        return Ok(());
    }
    let page_bytes = file_system.f_bsize as u64;
    if !FaultGuard::PAGE_SIZES.contains(&page_bytes) {
        return Err(invalid(format!(
            "memory in pages of {page_bytes} bytes; give the guest pages of {:?} bytes",
            FaultGuard::PAGE_SIZES
        )));
    }
    if !(place.file_offset | place.bytes).is_multiple_of(page_bytes) {
        return Err(invalid(format!(
            "{} bytes at byte {} of a file of huge pages are no whole ones of {page_bytes} bytes",
            place.bytes, place.file_offset
        )));
    }
    // What replaces a page of 1 GiB has to be promised whole there.
    if page_bytes > HUGE_PAGE_BYTES_ANYWHERE && *IS_COMMIT_STRICT {
        return Err(invalid(format!(
            "memory in pages of {page_bytes} bytes where vm.overcommit_memory is 2; give the guest \
             pages of 2 MiB"
        )));
    }
    Ok(())
}

/// Whether the kernel refuses to map more than it can surely give. Read once: later the process may not
/// be allowed to.
static IS_COMMIT_STRICT: LazyLock<bool> = LazyLock::new(|| {
    let setting = std::fs::read_to_string("/proc/sys/vm/overcommit_memory");
    setting.is_ok_and(|setting| setting.trim() == "2")
});

/// To be called before the process gives up the right to read the system's files.
pub fn know_host() {
    LazyLock::force(&IS_COMMIT_STRICT);
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
    /// # Errors
    /// They overlap, are too many, or a file is too short or cannot be mapped; the table stays as it
    /// was.
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
    /// # Errors
    /// As with `replace`.
    pub(crate) fn add(&mut self, region: &RegionPlace, file: File) -> io::Result<()> {
        let mut regions = self.regions.clone();
        regions.push(Region::map(region, file)?);
        self.become_these(regions)
    }

    /// One region less.
    ///
    /// # Errors
    /// There is none like it.
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

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};
    use vm_memory::Bytes;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A file of huge pages, none of which need be there.
    fn huge_file(size: MemfdFlags, bytes: u64) -> Option<File> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | size;
        let file = File::from(memfd_create("guest", flags).ok()?);
        file.set_len(bytes).unwrap();
        Some(file)
    }

    fn table() -> MemoryTable {
        MemoryTable::new(Arc::new(UnixStream::pair().unwrap().0))
    }

    fn place(bytes: u64) -> RegionPlace {
        RegionPlace {
            guest_address: 0,
            bytes,
            user_address: 0,
            file_offset: 0,
        }
    }

    #[test]
    fn memory_in_pages_of_1_gib_that_went_away_ended_the_daemon() {
        let Some(file) = huge_file(MemfdFlags::HUGE_1GB, 1024 * MIB) else {
            eprintln!("skipped memory in pages of 1 GiB: this kernel has none");
            return;
        };
        let mut table = table();
        table
            .replace(&[place(1024 * MIB)], vec![file.try_clone().unwrap()])
            .unwrap();
        let memory = table.memory();
        assert!(!memory.is_lost());
        file.set_len(0).unwrap();
        let address = GuestAddress(5 * MIB + 4096);
        assert_eq!(memory.read_obj::<u64>(address).unwrap(), 0);
        assert!(memory.is_lost());
        memory.write_obj(7_u64, address).unwrap();
        assert_eq!(memory.read_obj::<u64>(address).unwrap(), 7);
    }

    #[test]
    fn a_region_of_part_of_a_huge_page_that_went_away_ended_the_daemon() {
        let Some(file) = huge_file(MemfdFlags::HUGE_2MB, 2 * MIB) else {
            eprintln!("skipped a part of a huge page: this kernel has none");
            return;
        };
        let mut table = table();
        let refused = table.replace(&[place(4096)], vec![file.try_clone().unwrap()]);
        if refused.is_ok() {
            // As a guest's request would.
            let _ = table.memory().read_obj::<u64>(GuestAddress(0));
        }
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("2097152"), "{message}");
        table.replace(&[place(2 * MIB)], vec![file]).unwrap();
        assert_eq!(table.memory().read_obj::<u64>(GuestAddress(8)).unwrap(), 0);
        assert!(table.memory().is_lost());
    }
}
