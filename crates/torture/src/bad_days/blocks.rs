//! Blocks that are written one by one until no more are taken, and must be found again.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use forebay_harness::{Group, Result, wait_for};

use crate::place::Place;
use crate::settings::Settings;
use crate::task::Task;

const DEADLINE: Duration = Duration::from_secs(120);

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

#[derive(Debug)]
pub struct Filled {
    pub count: usize,
    /// The number of the error that ended it; 0 for none.
    pub error: i32,
}

/// Where a program that pauses says so, and is told to go on: a directory that is not covered.
pub struct Pause(PathBuf);

impl Pause {
    fn is_reached(&self) -> bool {
        self.0.join("paused").exists()
    }

    pub fn end(&self) -> Result<()> {
        Ok(std::fs::write(self.0.join("go"), [])?)
    }

    fn reach(&self) -> Result<()> {
        std::fs::write(self.0.join("paused"), [])?;
        let go = self.0.join("go");
        let told = || Ok(go.exists().then_some(()));
        wait_for(DEADLINE, told)?.ok_or("no word to go on came")?;
        Ok(())
    }
}

/// A program that writes blocks to a file of the place; it pauses where it is told to.
pub fn filler(
    settings: &Settings,
    place: &Place,
    count: usize,
    pause: Option<PathBuf>,
) -> Result<Command> {
    let path = place.files().join("filled");
    Task::Fill { path, count, pause }.program(settings, place)
}

/// Such a program that has come to its pause.
pub struct Paused {
    pub group: Group,
    pub pause: Pause,
    printed: PathBuf,
}

impl Paused {
    pub fn start(settings: &Settings, place: &Place, count: usize) -> Result<Paused> {
        let pause = Pause(place.env.path("pause"));
        std::fs::create_dir(&pause.0)?;
        let printed = place.env.path("printed");
        let mut program = filler(settings, place, count, Some(pause.0.clone()))?;
        program.stdout(File::create(&printed)?);
        program.stderr(File::create(place.env.path("complaints"))?);
        let mut group = Group::start(&mut program)?;
        let is_there = || match (pause.is_reached(), group.ended()?) {
            (true, _) => Ok(Some(())),
            (false, None) => Ok(None),
            (false, Some(status)) => Err(format!("it ended before: {status}").into()),
        };
        wait_for(DEADLINE, is_there)?.ok_or("it never paused")?;
        Ok(Paused {
            group,
            pause,
            printed,
        })
    }

    /// How many blocks were acknowledged, if it ends in time.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<Filled>> {
        let group = &mut self.group;
        match wait_for(limit, || group.ended())? {
            Some(_) => parse(&std::fs::read_to_string(&self.printed)?).map(Some),
            None => Ok(None),
        }
    }
}

/// The program: fills the file, prints what came of it.
pub fn run(path: &Path, count: usize, pause: Option<&Path>) -> Result<()> {
    let file = open_synced(path)?;
    let mut filled = (0, None);
    if let Some(folder) = pause {
        filled = fill(&file, BEFORE_PAUSE.min(count));
        Pause(folder.to_owned()).reach()?;
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

pub fn parse(printed: &str) -> Result<Filled> {
    let wrong = || format!("no blocks were told of: {printed:?}");
    let (count, error) = printed.trim().split_once(' ').ok_or_else(wrong)?;
    Ok(Filled {
        count: count.parse()?,
        error: error.parse()?,
    })
}
