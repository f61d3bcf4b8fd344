//! Pages that tell whether they are whole: what a database writes, without the database.
//!
//! Every sector of 512 bytes of a page names the page, its place in it and the version that the page
//! was written as. A page whose sectors are of different versions was torn.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use rustix::fs::OFlags;

use crate::Result;

const SECTOR_BYTES: usize = 512;
/// Where pages and blocks of all sizes that are used begin.
const ALIGNMENT: usize = 4096;
/// Bytes written at once when the file is made.
const STRIDE_BYTES: usize = 1 << 20;
const MAGIC: u64 = u64::from_le_bytes(*b"rig-page");

/// How pages reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Past the page cache (`O_DIRECT`), as InnoDB does.
    Direct,
    /// Through the page cache, with fdatasync by another thread, as PostgreSQL does.
    Buffered,
}

/// A file of pages.
#[derive(Clone, Debug, Args)]
pub struct PageFile {
    /// The file.
    #[arg(long)]
    pub file: PathBuf,
    /// Bytes of a page.
    #[arg(long, default_value_t = 16384)]
    pub page_bytes: usize,
    /// Pages in the file.
    #[arg(long, default_value_t = 512)]
    pub pages: u64,
}

impl PageFile {
    fn parts(&self) -> (&Path, usize, u64) {
        (&self.file, self.page_bytes, self.pages)
    }
}

/// Makes the file of pages, every page at version 0, and syncs it.
#[derive(Clone, Debug, Args)]
pub struct MakePages {
    #[command(flatten)]
    file: PageFile,
    /// First fill the file system but for single pieces of so many bytes: the file gets those.
    #[arg(long, value_name = "BYTES")]
    scattered: Option<usize>,
}

/// Writes pages in an order of a seed, until it is killed or has written enough.
#[derive(Clone, Debug, Args)]
pub struct WritePages {
    #[command(flatten)]
    file: PageFile,
    /// How they reach the kernel.
    #[arg(long, value_enum)]
    way: Way,
    /// Decides the order.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many to write; without end if not given.
    #[arg(long)]
    count: Option<u64>,
}

/// Counts pages that are torn; the exit status is 1 where there are any.
#[derive(Clone, Debug, Args)]
pub struct VerifyPages {
    #[command(flatten)]
    file: PageFile,
}

/// Memory that the kernel takes for direct I/O.
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Buffer {
        let bytes = vec![0_u8; len + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Buffer { bytes, start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

fn fill(page: &mut [u8], number: u64, version: u64) {
    for (index, sector) in page.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        let words = [MAGIC, number, index as u64, version];
        for (at, word) in sector.chunks_exact_mut(8).enumerate() {
            let value = words.get(at).copied().unwrap_or(version ^ at as u64);
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// The version of each sector, none where its words are of several; an error where something else is
/// there.
fn versions(page: &[u8], number: u64) -> std::result::Result<Vec<Option<u64>>, String> {
    let sectors = page.chunks_exact(SECTOR_BYTES).enumerate();
    let version = |(index, sector): (usize, &[u8])| {
        let words: Vec<u64> = sector
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
            .collect();
        if words[..3] != [MAGIC, number, index as u64] {
            return Err(format!("page {number}: sector {index} is of no page"));
        }
        let is_sound = (4..words.len()).all(|at| words[at] == words[3] ^ at as u64);
        Ok(is_sound.then_some(words[3]))
    };
    sectors.map(version).collect()
}

/// Whether a write of `data` to a disk begins or ends within a page.
pub fn cuts_a_page(data: &[u8], page_bytes: usize) -> bool {
    let sectors = (page_bytes / SECTOR_BYTES) as u64;
    // Which sector of a page it is, if it is one.
    let place = |sector: Option<&[u8]>| {
        let sector = sector?;
        let word = |at: usize| u64::from_le_bytes(sector[at * 8..][..8].try_into().expect("8"));
        (word(0) == MAGIC).then(|| word(2))
    };
    let first = place(data.get(..SECTOR_BYTES));
    let last = place(data.rchunks_exact(SECTOR_BYTES).next());
    first.is_some_and(|place| place != 0) || last.is_some_and(|place| place + 1 != sectors)
}

/// The page that the first sector of a write belongs to, and its version.
pub fn page_and_version(data: &[u8]) -> Option<(u64, u64)> {
    let word = |at: usize| {
        Some(u64::from_le_bytes(
            data.get(at * 8..)?.get(..8)?.try_into().ok()?,
        ))
    };
    (word(0)? == MAGIC).then_some(())?;
    Some((word(1)?, word(3)?))
}

fn open(path: &Path, way: Way) -> Result<File> {
    let flags = match way {
        Way::Direct => OFlags::DIRECT,
        Way::Buffered => OFlags::empty(),
    };
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(flags.bits() as i32);
    Ok(options
        .open(path)
        .map_err(|error| format!("{}: {error}", path.display()))?)
}

impl MakePages {
    /// Makes it.
    pub fn run(&self) -> Result<()> {
        let (path, page_bytes, pages) = self.file.parts();
        if let Some(piece_bytes) = self.scattered {
            let folder = path.parent().ok_or("a file has a folder")?;
            leave_pieces(&folder.join("filler"), piece_bytes as u64)?;
        }
        let file = open(path, Way::Direct)?;
        let pages_at_once = (STRIDE_BYTES / page_bytes).max(1) as u64;
        let mut buffer = Buffer::new(page_bytes * pages_at_once as usize);
        let mut number = 0;
        while number < pages {
            let count = pages_at_once.min(pages - number) as usize;
            let stride = &mut buffer.bytes()[..count * page_bytes];
            for (index, page) in stride.chunks_exact_mut(page_bytes).enumerate() {
                fill(page, number + index as u64, 0);
            }
            file.write_all_at(stride, number * page_bytes as u64)?;
            number += count as u64;
        }
        file.sync_all()?;
        Ok(())
    }
}

/// Fills the file system with one file, then takes every second piece out of it again.
fn leave_pieces(filler: &Path, piece_bytes: u64) -> Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let file = File::create(filler)?;
    let mut end = 0;
    for step in [8_u64 << 20, 64 << 10, 4096] {
        while fallocate(&file, FallocateFlags::empty(), end, step).is_ok() {
            end += step;
        }
    }
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for at in (0..end).step_by(2 * piece_bytes as usize) {
        fallocate(&file, punch, at, piece_bytes.min(end - at))?;
    }
    file.sync_all()?;
    Ok(())
}

impl WritePages {
    /// Writes; returns when enough is written.
    pub fn run(&self) -> Result<()> {
        let (path, page_bytes, pages) = self.file.parts();
        let file = Arc::new(open(path, self.way)?);
        let is_over = Arc::new(AtomicBool::new(false));
        let syncing = (self.way == Way::Buffered).then(|| {
            let (file, is_over) = (Arc::clone(&file), Arc::clone(&is_over));
            std::thread::spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    // The writer hears of a broken disk.
                    let _ = file.sync_data();
                }
            })
        });
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let mut buffer = Buffer::new(page_bytes);
        let mut version = 0;
        while self.count.is_none_or(|count| version < count) {
            version += 1;
            let number = rng.u64(..pages);
            fill(buffer.bytes(), number, version);
            file.write_all_at(buffer.bytes(), number * page_bytes as u64)?;
        }
        is_over.store(true, Ordering::SeqCst);
        if let Some(syncing) = syncing {
            // It cannot panic.
            let _ = syncing.join();
        }
        file.sync_data()?;
        Ok(())
    }
}

impl VerifyPages {
    /// A line for each torn page.
    pub fn run(&self) -> Result<Vec<String>> {
        let (path, page_bytes, pages) = self.file.parts();
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut page = vec![0; page_bytes];
        let mut torn = Vec::new();
        for number in 0..pages {
            file.read_exact_at(&mut page, number * page_bytes as u64)?;
            let versions = versions(&page, number)?;
            let is_whole = |version: &Option<u64>| version.is_some() && *version == versions[0];
            if !versions.iter().all(is_whole) {
                torn.push(format!("page {number}: versions {versions:?}"));
            }
        }
        Ok(torn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_file(folder: &Path) -> PageFile {
        PageFile {
            file: folder.join("pages"),
            page_bytes: 8192,
            pages: 20,
        }
    }

    #[test]
    fn torn_pages_are_seen_and_others_are_not() {
        // Direct I/O is for disks; the usual place for temporary files may be memory.
        let program = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let file = page_file(folder.path());
        let make = MakePages {
            file: file.clone(),
            scattered: None,
        };
        make.run().unwrap();
        for way in [Way::Direct, Way::Buffered] {
            let write = WritePages {
                file: file.clone(),
                way,
                seed: 7,
                count: Some(100),
            };
            write.run().unwrap();
        }
        let verify = VerifyPages { file: file.clone() };
        assert_eq!(verify.run().unwrap(), Vec::<String>::new());
        let mut whole = vec![0; 16384];
        fill(&mut whole[..8192], 0, 1);
        fill(&mut whole[8192..], 1, 1);
        assert!(!cuts_a_page(&whole, 8192));
        assert!(cuts_a_page(&whole[..12288], 8192) && cuts_a_page(&whole[4096..], 8192));
        assert!(!cuts_a_page(&[7; 4096], 8192) && !cuts_a_page(&[], 8192));
        let content = File::options().read(true).write(true).open(&file.file);
        let content = content.unwrap();
        let mut page = vec![0; 8192];
        fill(&mut page, 3, 1_000_000);
        content.write_all_at(&page[..4096], 3 * 8192).unwrap();
        assert_eq!(verify.run().unwrap().len(), 1);
        content.write_all_at(&[0; 512], 5 * 8192).unwrap();
        verify.run().unwrap_err();
    }
}
