//! What was counted so far, by the daemons and by the kernel's block layer; measurements are differences.

use std::ops::Sub;
use std::path::Path;

use forebay_harness::Result;
use serde_json::Value;

/// Bytes of the file system's blocks, and of the caches'.
pub const BLOCK_BYTES: u64 = 4096;
const SECTOR_BYTES: u64 = 512;

/// All of it only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks that ext4 wrote to its disk, whatever that is.
    pub file_system_blocks: u64,
    /// Blocks written to the disk below the cache; without a cache, those of ext4.
    pub disk_blocks: u64,
    /// None without a cache.
    pub cache: Option<Cache>,
}

/// What a cache counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// Cache lines that were flushed or sent past the processor's cache to memory.
    pub lines: u64,
    pub fences: u64,
    /// Blocks that clients wrote, and those of them that were not in the cache.
    pub written: u64,
    pub missed: u64,
}

impl Sub for Counters {
    type Output = Counters;

    fn sub(self, before: Counters) -> Counters {
        let cache = self.cache.zip(before.cache).map(|(now, then)| Cache {
            lines: now.lines - then.lines,
            fences: now.fences - then.fences,
            written: now.written - then.written,
            missed: now.missed - then.missed,
        });
        Counters {
            file_system_blocks: self.file_system_blocks - before.file_system_blocks,
            disk_blocks: self.disk_blocks - before.disk_blocks,
            cache,
        }
    }
}

/// Blocks written to a block device of this kernel, like `/dev/loop0`.
pub fn blocks_written(device: &str) -> Result<u64> {
    const SECTORS_WRITTEN: usize = 6;
    let name = Path::new(device).file_name().unwrap_or_default();
    let path = Path::new("/sys/block").join(name).join("stat");
    let text = std::fs::read_to_string(&path)?;
    let sectors = text.split_whitespace().nth(SECTORS_WRITTEN);
    let sectors: Option<u64> = sectors.and_then(|sectors| sectors.parse().ok());
    let sectors = sectors.ok_or_else(|| format!("{}: no count in {text:?}", path.display()))?;
    Ok(sectors * SECTOR_BYTES / BLOCK_BYTES)
}

/// What a daemon of `forebay` or `forebay-lab` says of its cache and of the one disk below it, and how full the
/// cache is, in thousandths.
///
/// # Errors
/// A number is missing.
pub fn parse(stat: &str) -> Result<(Cache, u64, u64)> {
    let stat: Value = serde_json::from_str(stat)?;
    let number = |path: &str| {
        let found = stat.pointer(path).and_then(Value::as_u64);
        found.ok_or_else(|| format!("no number {path} in a stat: {stat}"))
    };
    let cached = number("/cached_blocks")?;
    let evictions = number("/totals/evictions")?;
    // A design counts the blocks it wrote and how many of them it had. Forebay does not; but each block that it has,
    // or had and let go, it has of a read or of a write that missed.
    let (written, missed) = match number("/totals/blocks_committed") {
        Ok(committed) => (committed, committed - number("/totals/write_hits")?),
        Err(_) => (
            number("/totals/payload_bytes")? / BLOCK_BYTES,
            (cached + evictions).saturating_sub(number("/totals/fills")?),
        ),
    };
    let cache = Cache {
        lines: number("/counters/lines_flushed")? + number("/counters/lines_streamed")?,
        fences: number("/counters/fences")?,
        written,
        missed,
    };
    let full_per_mille = cached * 1000 / number("/slots")?.max(1);
    Ok((
        cache,
        number("/volumes/0/backing/blocks_written")?,
        full_per_mille,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_design_s_hits_and_what_follows_from_its_evictions_agree() {
        // A Tinca's, after 64 MiB were written through 32 MiB.
        let mut stat = json!({
            "cached_blocks": 8032, "slots": 8032,
            "counters": {"bytes": 151_043_648, "fences": 182_908, "lines_flushed": 150_393, "lines_streamed": 2_209_664},
            "totals": {"blocks_committed": 34_523, "evictions": 9727, "read_misses": 3, "write_hits": 16_767},
            "volumes": [{"backing": {"blocks_written": 9727}}],
        });
        let (own, disk, full) = parse(&stat.to_string()).expect("numbers");
        assert_eq!((disk, full), (9727, 1000));
        assert_eq!((own.lines, own.fences), (2_360_057, 182_908));
        // The same as a Forebay would have told it.
        stat["totals"] =
            json!({"evictions": 9727, "fills": 3, "payload_bytes": 34_523 * BLOCK_BYTES});
        assert_eq!(parse(&stat.to_string()).expect("numbers").0, own);
        stat["counters"] = json!({});
        let error = parse(&stat.to_string()).expect_err("no lines").to_string();
        assert!(error.contains("/counters/lines_flushed"), "{error}");
    }

    #[test]
    fn differences_are_of_everything() {
        let cache = |factor: u64| Cache {
            lines: 100 * factor,
            fences: 10 * factor,
            written: 7 * factor,
            missed: 2 * factor,
        };
        let counters = |factor: u64| Counters {
            file_system_blocks: 5 * factor,
            disk_blocks: 3 * factor,
            cache: Some(cache(factor)),
        };
        assert_eq!(counters(7) - counters(5), counters(2));
    }
}
