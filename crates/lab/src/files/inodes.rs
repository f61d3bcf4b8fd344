//! The paper's Figure 3: how large an inode's record is, and how fast small appends of threads are.
//!
//! In ext4 inodes of 256 bytes share a page, and with it a `buffer_head` that every write changes atomically. Where this
//! process may mount, file systems with inodes of each size are made and measured. Neither buffer has such a page: of
//! AutoBahn's engine the records of two inodes share a line at 32 bytes, and none at more; of ours each file's row is
//! in a block of its own.

use std::fs::File;
use std::io;
use std::path::Path;

use forebay_harness::{LoopDevice, TempDir, find_program, must, temporary_folder};
use serde::Serialize;

use super::cells::measure;
use super::files_on_disk::FilesOnDisk;
use super::scope::{Cell, FilesScope, Pattern, UNITS};
use super::stand::Contender;
use crate::autobahn::AutoBahnOptions;
use forebay_harness::median;

/// Sizes of ext4's inodes, as in the figure; it has blocks of 4 KiB.
const EXT4_INODES: [u64; 5] = [256, 512, 1024, 2048, 4096];
/// Sizes of the engine's.
const AUTOBAHN_INODES: [u64; 4] = [32, 256, 1024, 4096];

/// One size of one file system or buffer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InodesRow {
    /// The contender that wrote.
    pub contender: Contender,
    /// Bytes of an inode's record; none where files share none at all.
    pub inode_bytes: Option<u64>,
    /// At once, each to the end of its own file, 256 bytes a write.
    pub threads: usize,
    /// Writes a second: the median of the rounds.
    pub writes_s: f64,
    /// Processors' time of a write, outside the kernel.
    pub user_ns: f64,
    /// In the kernel.
    pub kernel_ns: f64,
}

/// Measures all sizes; of ext4 only where file systems can be made and mounted, and else says why not.
///
/// # Errors
/// A contender's.
pub fn measure_inodes(
    memory: &Path,
    files: &FilesOnDisk,
    scope: &FilesScope,
) -> io::Result<(Vec<InodesRow>, Vec<String>)> {
    let mut rows = Vec::new();
    let mut not_measured = Vec::new();
    for inode_bytes in AUTOBAHN_INODES {
        let options = AutoBahnOptions {
            inode_bytes,
            ..AutoBahnOptions::default()
        };
        let contender = (Contender::AutoBahn, Some(inode_bytes));
        rows.push(row(contender, (memory, files), scope, &options)?);
    }
    let options = AutoBahnOptions::default();
    rows.push(row(
        (Contender::Forebay, None),
        (memory, files),
        scope,
        &options,
    )?);
    for inode_bytes in EXT4_INODES {
        match Mounted::new(files.path(), inode_bytes, scope) {
            Ok(mounted) => {
                let inside = FilesOnDisk::empty_in(mounted.path())?;
                let contender = (Contender::Unsynced, Some(inode_bytes));
                rows.push(row(contender, (memory, &inside), scope, &options)?);
            }
            Err(error) => {
                not_measured.push(format!("ext4 with inodes of {inode_bytes} bytes: {error}"));
            }
        }
    }
    Ok((rows, not_measured))
}

fn row(
    (contender, inode_bytes): (Contender, Option<u64>),
    (memory, files): (&Path, &FilesOnDisk),
    scope: &FilesScope,
    options: &AutoBahnOptions,
) -> io::Result<InodesRow> {
    let cell = Cell {
        unit: UNITS[0],
        pattern: Pattern::Append,
        threads: scope.threads.iter().copied().max().unwrap_or(1),
    };
    let rounds =
        (0..scope.rounds).map(|_| measure(contender, (memory, files), scope, cell, options));
    let rounds = rounds.collect::<io::Result<Vec<_>>>()?;
    let writes = rounds.iter().map(|round| round.writes).sum::<u64>().max(1) as f64;
    let rates = rounds.iter().map(|round| round.writes_s).collect();
    Ok(InodesRow {
        contender,
        inode_bytes,
        threads: cell.threads,
        writes_s: median(rates).unwrap_or_default(),
        user_ns: rounds.iter().map(|round| round.user_ns).sum::<f64>() / writes,
        kernel_ns: rounds.iter().map(|round| round.kernel_ns).sum::<f64>() / writes,
    })
}

/// An ext4 without a journal, as in §3.1, over a file; unmounted when this is dropped.
struct Mounted {
    at: TempDir,
    // Taken away after it is unmounted.
    _device: LoopDevice,
    _image: TempDir,
}

impl Mounted {
    fn new(directory: &Path, inode_bytes: u64, scope: &FilesScope) -> io::Result<Mounted> {
        if !rustix::process::geteuid().is_root() || find_program("mkfs.ext4").is_none() {
            return Err(io::Error::other("it needs root and mkfs.ext4"));
        }
        let told = |error: forebay_harness::Failure| io::Error::other(error);
        let image = temporary_folder(directory).map_err(told)?;
        let at = temporary_folder(directory).map_err(told)?;
        let path = image.path().join("ext4");
        // As much again as is appended, for what the file system keeps for itself.
        File::create_new(&path)?.set_len(2 * scope.append_bytes + (64 << 20))?;
        let device = LoopDevice::over(&path, false).map_err(told)?;
        let inode = inode_bytes.to_string();
        let options = [
            "-q",
            "-F",
            "-b",
            "4096",
            "-O",
            "^has_journal",
            "-N",
            "1024",
            "-I",
        ];
        let options = options.into_iter().chain([inode.as_str(), device.device()]);
        must("mkfs.ext4", &options.collect::<Vec<&str>>()).map_err(told)?;
        must("mount", &[device.device(), &at.path().to_string_lossy()]).map_err(told)?;
        Ok(Mounted {
            at,
            _device: device,
            _image: image,
        })
    }

    fn path(&self) -> &Path {
        self.at.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The loop device would stay, and with it the image.
        let _ = must("umount", &[&self.at.path().to_string_lossy()]);
    }
}
