//! Compares a file system after a power cut with what had been acknowledged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{Change, Step, Stream, TEMPORARY_NAME, file_name, thread_folder};
use crate::Result;

/// What to compare.
#[derive(Clone, Debug, clap::Args)]
pub struct Verify {
    /// Where the load worked.
    #[arg(long)]
    pub folder: PathBuf,
    /// The load's.
    #[arg(long)]
    pub seed: u64,
    /// For each thread, how many steps had been acknowledged: those that were for sure when the power
    /// failed, and the most that can have been.
    #[arg(long, value_delimiter = ',')]
    pub acknowledged: Vec<Acknowledged>,
}

/// How many steps of a thread had been acknowledged, as `LEAST` or `LEAST-MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// So many for sure.
    pub least: u64,
    /// And so many at most.
    pub most: u64,
}

impl FromStr for Acknowledged {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        Ok(Acknowledged {
            least: least.parse()?,
            most: most.parse()?,
        })
    }
}

impl std::fmt::Display for Acknowledged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.least, self.most)
    }
}

type Files = BTreeMap<String, Vec<u8>>;

impl Verify {
    /// What was lost or is wrong, thread by thread; nothing where all is well.
    pub fn run(&self) -> Result<Vec<String>> {
        let mut losses = Vec::new();
        for (thread, acknowledged) in self.acknowledged.iter().enumerate() {
            let thread = thread as u32;
            let folder = thread_folder(&self.folder, thread);
            let found = match fs::exists(&folder)? {
                true => read_all(&folder)?,
                false => Files::new(),
            };
            if let Err(loss) = verify_thread(self.seed, thread, *acknowledged, &found) {
                losses.push(format!("thread {thread}: {loss}"));
            }
        }
        Ok(losses)
    }
}

fn read_all(folder: &Path) -> Result<Files> {
    let mut files = Files::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        files.insert(name, bytes);
    }
    Ok(files)
}

/// The files have to be those after some number of steps that was possible, but for the one that may
/// have been under way.
fn verify_thread(
    seed: u64,
    thread: u32,
    acknowledged: Acknowledged,
    found: &Files,
) -> std::result::Result<(), String> {
    let mut stream = Stream::new(seed, thread);
    let mut loss = String::new();
    for steps in 0..=acknowledged.most {
        let next = stream.next_step();
        stream.is_data_sync();
        if steps >= acknowledged.least {
            match compare(&stream, &next, found) {
                Ok(()) => return Ok(()),
                Err(difference) => loss = format!("after {steps} steps, {difference}"),
            }
        }
        stream.apply(&next);
    }
    Err(loss)
}

fn compare(stream: &Stream, next: &Step, found: &Files) -> std::result::Result<(), String> {
    for (file, bytes) in stream.files() {
        if *file != next.file {
            same(*file, bytes, found.get(&file_name(*file)))?;
        }
    }
    let old = stream.files().get(&next.file);
    under_way(next, old, found.get(&file_name(next.file)))?;
    let is_known = |name: &String| {
        let mut files = stream.files().keys();
        name == TEMPORARY_NAME
            || *name == file_name(next.file)
            || files.any(|file| *name == file_name(*file))
    };
    match found.keys().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => Err(format!("{name} is there, which was removed")),
    }
}

fn same(file: u32, bytes: &[u8], found: Option<&Vec<u8>>) -> std::result::Result<(), String> {
    match found {
        Some(found) if found == bytes => Ok(()),
        Some(found) => Err(difference(file, bytes, found)),
        None => Err(format!("file {file} of {} bytes is missing", bytes.len())),
    }
}

fn difference(file: u32, bytes: &[u8], found: &[u8]) -> String {
    let at = bytes.iter().zip(found).position(|(a, b)| a != b);
    let at = at.unwrap_or(bytes.len().min(found.len()));
    format!(
        "file {file} of {} bytes has {} bytes and differs from byte {at} on",
        bytes.len(),
        found.len()
    )
}

/// What a file may be while `step` changes it: `old` as it was before.
fn under_way(
    step: &Step,
    old: Option<&Vec<u8>>,
    found: Option<&Vec<u8>>,
) -> std::result::Result<(), String> {
    let is_possible = match (&step.change, found) {
        _ if found == old => true,
        // Every byte new, or not there yet.
        (Change::Create(bytes), Some(found)) => is_partly(bytes, found),
        (Change::Append(bytes), Some(found)) => {
            let old = old.map_or(&[][..], Vec::as_slice);
            found.starts_with(old) && is_partly(bytes, &found[old.len()..])
        }
        (Change::Overwrite(offset, bytes), Some(found)) => {
            old.is_some_and(|old| is_overwritten(old, *offset, bytes, found))
        }
        // A renamed file was synced: it is all there.
        (Change::Replace(bytes), Some(found)) => found == bytes,
        (Change::Remove, None) => true,
        _ => false,
    };
    if is_possible {
        return Ok(());
    }
    let len = |bytes: Option<&Vec<u8>>| bytes.map_or("no".into(), |bytes| bytes.len().to_string());
    let file = step.file;
    let (old, found) = (len(old), len(found));
    Err(format!(
        "file {file}, which was changing and had {old} bytes, has {found} bytes of neither state"
    ))
}

fn is_partly(bytes: &[u8], found: &[u8]) -> bool {
    let mut pairs = bytes.iter().zip(found);
    found.len() <= bytes.len() && pairs.all(|(new, found)| found == new || *found == 0)
}

fn is_overwritten(old: &[u8], offset: usize, bytes: &[u8], found: &[u8]) -> bool {
    let end = offset + bytes.len();
    found.len() == old.len()
        && found[..offset] == old[..offset]
        && found[end..] == old[end..]
        && (offset..end).all(|at| found[at] == old[at] || found[at] == bytes[at - offset])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 11;

    /// The files after so many steps, and the step after them.
    fn after(steps: u64) -> (Files, Step) {
        let mut stream = Stream::new(SEED, 0);
        for _ in 0..steps {
            let step = stream.next_step();
            stream.is_data_sync();
            stream.apply(&step);
        }
        let files = stream.files().iter();
        let files = files.map(|(file, bytes)| (file_name(*file), bytes.clone()));
        (files.collect(), stream.next_step())
    }

    fn verify(least: u64, most: u64, files: &Files) -> std::result::Result<(), String> {
        verify_thread(SEED, 0, Acknowledged { least, most }, files)
    }

    #[test]
    fn what_was_acknowledged_has_to_be_there() {
        let (files, _) = after(100);
        verify(100, 100, &files).unwrap();
        verify(90, 110, &files).unwrap();
        // The step under way may have been done, not a second one.
        verify(99, 99, &files).unwrap();
        assert!(verify(101, 110, &files).is_err());
        assert!(verify(80, 90, &files).is_err());
    }

    #[test]
    fn every_changed_byte_shows() {
        let (files, next) = after(100);
        let next = file_name(next.file);
        for name in files.keys().filter(|name| **name != next) {
            let mut changed = files.clone();
            let bytes = changed.get_mut(name).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0xff;
            assert!(verify(100, 100, &changed).is_err());
            changed.remove(name);
            assert!(verify(100, 100, &changed).is_err());
        }
    }

    #[test]
    fn a_file_under_way_is_old_new_or_partly_new() {
        let some = |bytes: &[u8]| Some(bytes.to_vec());
        let ok = |change: &Change, old: Option<Vec<u8>>, found: Option<Vec<u8>>| {
            let change = change.clone();
            under_way(&Step { file: 1, change }, old.as_ref(), found.as_ref()).is_ok()
        };
        let create = Change::Create(vec![1, 2, 3]);
        assert!(ok(&create, None, None) && ok(&create, None, some(&[1, 0])));
        assert!(!ok(&create, None, some(&[1, 9])));
        let append = Change::Append(vec![3, 4]);
        assert!(ok(&append, some(&[1]), some(&[1, 3])));
        assert!(!ok(&append, some(&[1]), some(&[0, 3])));
        assert!(!ok(&append, some(&[1]), None));
        let replace = Change::Replace(vec![3, 4]);
        assert!(ok(&replace, some(&[1]), some(&[3, 4])) && ok(&replace, some(&[1]), some(&[1])));
        assert!(!ok(&replace, some(&[1]), some(&[3, 0])));
        let overwrite = Change::Overwrite(1, vec![8, 9]);
        assert!(ok(&overwrite, some(&[1, 2, 3, 4]), some(&[1, 2, 9, 4])));
        assert!(!ok(&overwrite, some(&[1, 2, 3, 4]), some(&[1, 2, 9, 5])));
        let remove = Change::Remove;
        assert!(ok(&remove, some(&[1]), None) && ok(&remove, some(&[1]), some(&[1])));
        assert!(!ok(&remove, some(&[1]), some(&[2])));
    }
}
