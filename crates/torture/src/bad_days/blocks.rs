//! Blocks that are written one by one until no more are taken, and must be found again.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use forebay_harness::Result;

/// Bytes of one.
pub const BLOCK_BYTES: usize = 16 << 10;
/// Blocks after which a program that is told to pauses.
pub const BEFORE_PAUSE: usize = 64;

/// A block that tells its number in every byte pair.
pub fn block(number: usize) -> Vec<u8> {
    let stamp = (number as u16 + 1).to_le_bytes();
    stamp.repeat(BLOCK_BYTES / 2)
}

/// Opens for synchronous writes.
pub fn open_synced(path: &Path) -> Result<File> {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true);
    Ok(options.custom_flags(libc::O_DSYNC).open(path)?)
}

/// Writes blocks until one fails, or `count` are there; how many were acknowledged, and why it ended.
pub fn fill(file: &File, count: usize) -> (usize, Option<std::io::Error>) {
    for number in 0..count {
        let offset = (number * BLOCK_BYTES) as u64;
        if let Err(error) = file.write_all_at(&block(number), offset) {
            return (number, Some(error));
        }
    }
    (count, None)
}

pub fn expect_blocks(path: &Path, count: usize, when: &str) -> Result<()> {
    let found = std::fs::read(path)?;
    for number in 0..count {
        let start = number * BLOCK_BYTES;
        let wanted = block(number);
        let there = found.get(start..start + BLOCK_BYTES).unwrap_or_default();
        if there != wanted {
            let bad: Vec<usize> = (0..there.len())
                .filter(|at| there[*at] != wanted[*at])
                .collect();
            let zeroes = bad.iter().filter(|at| there[**at] == 0).count();
            return Err(format!(
                "{when}: block {number} of {count}: {} of {} bytes are wrong, {zeroes} of them 0, from {:?} on",
                bad.len(),
                there.len(),
                bad.first()
            )
            .into());
        }
    }
    Ok(())
}

/// What `fill` in a program of its own came to.
#[derive(Debug)]
pub struct Filled {
    /// Blocks that were acknowledged.
    pub count: usize,
    /// The number of the error that ended it; 0 for none.
    pub error: i32,
}

/// Where a program that pauses says so, and is told to go on.
pub struct Pause {
    folder: PathBuf,
}

impl Pause {
    /// In a directory that is not covered.
    pub fn new(folder: &Path) -> Pause {
        Pause {
            folder: folder.to_owned(),
        }
    }

    /// Whether the program has come that far.
    pub fn is_reached(&self) -> bool {
        self.folder.join("paused").exists()
    }

    /// Lets it go on.
    pub fn end(&self) -> Result<()> {
        Ok(std::fs::write(self.folder.join("go"), [])?)
    }

    fn reach(&self) -> Result<()> {
        std::fs::write(self.folder.join("paused"), [])?;
        let go = self.folder.join("go");
        let limit = std::time::Duration::from_secs(120);
        let told = || Ok(go.exists().then_some(()));
        forebay_harness::wait_for(limit, told)?.ok_or("nobody says to go on")?;
        Ok(())
    }
}

/// The program: fills the file, prints what came of it.
pub fn run(path: &Path, count: usize, pause: Option<&Path>) -> Result<()> {
    let file = open_synced(path)?;
    let mut filled = (0, None);
    if let Some(folder) = pause {
        filled = fill(&file, BEFORE_PAUSE.min(count));
        Pause::new(folder).reach()?;
    }
    if filled.1.is_none() {
        let before = filled.0;
        filled = fill(&file, count);
        filled.0 = filled.0.max(before);
    }
    let (done, error) = filled;
    let error = error.and_then(|error| error.raw_os_error()).unwrap_or(0);
    println!("{done} {error}");
    Ok(())
}

/// What the program printed.
pub fn parse(printed: &str) -> Result<Filled> {
    let wrong = || format!("no blocks were told of: {printed:?}");
    let (count, error) = printed.trim().split_once(' ').ok_or_else(wrong)?;
    Ok(Filled {
        count: count.parse()?,
        error: error.parse()?,
    })
}
