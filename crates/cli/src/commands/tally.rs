//! What the tree of programs under `forebay run` did with its files, counted by the library in memory that
//! all its processes share.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use forebay_files::tally::{Count, TALLY_BYTES};
use rustix::fs::MemfdFlags;

/// The memory, which vanishes when this process ends.
pub struct Tally(File);

impl Tally {
    /// With nothing counted.
    pub fn new() -> io::Result<Tally> {
        let memory = rustix::fs::memfd_create("forebay-tally", MemfdFlags::CLOEXEC)?;
        let memory = File::from(memory);
        memory.set_len(TALLY_BYTES)?;
        Ok(Tally(memory))
    }

    /// Where the programs find it, while this process runs.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// In one line.
    pub fn summary(&self) -> String {
        summary_of(&|count| {
            let mut word = [0; 8];
            let read = self.0.read_exact_at(&mut word, count.offset() as u64);
            read.map_or(0, |()| u64::from_le_bytes(word))
        })
    }
}

fn summary_of(found: &dyn Fn(Count) -> u64) -> String {
    let buffered = found(Count::Buffered);
    let whys = Count::PLAIN.map(|(count, why)| (found(count), why));
    let plain: u64 = whys.iter().map(|(count, _)| count).sum();
    let files = match buffered {
        1 => "1 file buffered".to_owned(),
        _ => format!("{buffered} files buffered"),
    };
    if plain == 0 {
        return match buffered {
            0 => "no file was buffered: nothing that is covered was synced, as far as can be seen"
                .into(),
            _ => files,
        };
    }
    let whys = whys.iter().filter(|(count, _)| *count > 0);
    let whys: Vec<String> = whys.map(|(count, why)| format!("{why} {count}")).collect();
    format!("{files}, {plain} plain ({})", whys.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_what_was_done() {
        let say = |counts: &[(Count, u64)]| {
            let found = |count| {
                let of = counts.iter().find(|(known, _)| *known == count);
                of.map_or(0, |(_, found)| *found)
            };
            summary_of(&found)
        };
        assert!(say(&[]).starts_with("no file was buffered"));
        assert_eq!(
            say(&[(Count::Buffered, 1), (Count::Opens, 1)]),
            "1 file buffered"
        );
        let counts = [(Count::Buffered, 12), (Count::Mapped, 2), (Count::Stdio, 1)];
        assert_eq!(say(&counts), "12 files buffered, 3 plain (mmap 2, stdio 1)");
    }
}
