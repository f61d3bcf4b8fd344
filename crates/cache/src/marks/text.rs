//! A mark as text: a name and a value a line, and a CRC of everything before it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::{Mark, MarkState};

/// The first line; another number is another version, which this one does not know.
const HEAD: &str = "forebay mark 1\n";
/// Longer paths are cut: an attribute has little room, and the path is for people to find the pool.
const PATH_BYTES_MAX: usize = 1024;

impl Mark {
    /// The mark's bytes.
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "a string takes whatever is written"
    )]
    pub fn encode(&self) -> Vec<u8> {
        let mut text = String::from(HEAD);
        let Mark {
            volume,
            generation,
            since_unix_s,
            ..
        } = self;
        let state = match self.state {
            MarkState::Open => "open",
            MarkState::Whole => "whole",
        };
        let survives = if self.survives_reboot {
            "power"
        } else {
            "kill"
        };
        let (pool, path) = (hex(&self.pool), escaped(&self.pool_path));
        let boot = escaped(Path::new(&self.boot));
        let written = write!(
            text,
            "pool {pool}\npath {path}\nvolume {volume}\ngeneration {generation}\nstate {state}\n\
             since {since_unix_s}\nboot {boot}\nsurvives {survives}\n"
        );
        written.expect("a string takes it");
        let crc = forebay_pmem::crc32c(text.as_bytes());
        writeln!(text, "crc {crc:08x}").expect("a string takes it");
        text.into_bytes()
    }

    /// The mark that these bytes are; none if they are none, damaged, or of a later version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Mark> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (body, crc) = text.split_at(text.strip_suffix('\n')?.rfind('\n')? + 1);
        let crc = u32::from_str_radix(crc.strip_prefix("crc ")?.trim_end(), 16).ok()?;
        if crc != forebay_pmem::crc32c(body.as_bytes()) {
            return None;
        }
        let mut lines = body.strip_prefix(HEAD)?.lines();
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        Some(Mark {
            pool: unhex(value("pool")?)?,
            pool_path: unescaped(value("path")?)?,
            volume: value("volume")?.parse().ok()?,
            generation: value("generation")?.parse().ok().filter(is_sensible)?,
            state: match value("state")? {
                "open" => MarkState::Open,
                "whole" => MarkState::Whole,
                _ => return None,
            },
            since_unix_s: value("since")?.parse().ok()?,
            boot: unescaped(value("boot")?)?.to_str()?.to_owned(),
            survives_reboot: value("survives")? == "power",
        })
    }
}

/// No counter of ours comes near.
fn is_sensible(generation: &u64) -> bool {
    (1..1 << 62).contains(generation)
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

fn escaped(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let mut text = String::new();
    for byte in &bytes[..bytes.len().min(PATH_BYTES_MAX)] {
        match byte {
            b'%' | 0..=b' ' | 0x7f.. => write!(text, "%{byte:02x}").expect("a string takes it"),
            plain => text.push(char::from(*plain)),
        }
    }
    text
}

fn unescaped(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    Some(OsString::from_vec(bytes).into())
}

/// A moment as people write it, in UTC.
#[must_use]
pub fn utc(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    // Hinnant's civil_from_days, for days since 1970; years begin in March.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::FoundMark;

    fn mark() -> Mark {
        Mark {
            pool: [0xa7; 16],
            pool_path: PathBuf::from(OsString::from_vec(b"/dev/shm/a b\n%\xff".to_vec())),
            volume: 129,
            generation: 7,
            state: MarkState::Open,
            since_unix_s: 1_700_000_000,
            boot: String::from("5e2c"),
            survives_reboot: false,
        }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_no_flipped_bit_passes() {
        for mark in [mark(), mark().whole()] {
            let bytes = mark.encode();
            assert_eq!(Mark::decode(&bytes), Some(mark));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                // But for the case of the CRC's own letters.
                assert!(
                    Mark::decode(&flipped).is_none_or(|found| found.encode() == bytes),
                    "bit {bit}"
                );
            }
            assert!((0..bytes.len() - 1).all(|len| Mark::decode(&bytes[..len]).is_none()));
        }
    }

    #[test]
    fn a_long_path_leaves_room_in_an_attribute() {
        let long = PathBuf::from(format!("/{}", "ä".repeat(4000)));
        let mark = Mark {
            pool_path: long,
            ..mark()
        };
        let bytes = mark.encode();
        assert!(bytes.len() < 3500, "{}", bytes.len());
        assert!(Mark::decode(&bytes).is_some());
    }

    #[test]
    fn the_greatest_generation_counts_and_open_before_whole() {
        let older = Mark {
            generation: 6,
            ..mark()
        };
        let found = FoundMark::of(&[mark().whole().encode(), mark().encode(), older.encode()]);
        assert_eq!(found, FoundMark::Mark(mark()));
        assert_eq!(FoundMark::of(&[]), FoundMark::None);
        let damaged = FoundMark::of(&[mark().encode(), b"forebay mark 2\n".to_vec()]);
        assert_eq!(damaged, FoundMark::Damaged);
    }

    #[test]
    fn moments_are_told_in_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_363_200), "2026-11-22 16:00:00 UTC");
    }
}
