//! Measurements in guests: the grid of the block cache study, the layers that its requests pass, ratios beside
//! other servers and caches, in memory and on SSDs, and how often a file system's bytes are written.

mod claims;
mod fio;
pub mod grid;
mod grid_page;
pub mod layers;
mod ours;
mod points;
pub mod ratios;
pub mod rivals;
mod stage;
pub mod writer;
pub mod writes;

/// Bytes of a KiB.
pub const KIB: u64 = 1 << 10;
/// Bytes of a MiB.
pub const MIB: u64 = 1 << 20;

/// Whether the kernel's caches can be set up here; says so where not.
pub fn has_tool(name: &str, what: &str) -> bool {
    let is_there = forebay_harness::find_program(name).is_some();
    if !is_there {
        println!("skipped {what}: no {name} here");
    }
    is_there
}

/// What each of so many contenders comes to in every round, in turn: another one comes first each time. Rounds have
/// numbers from 1 on.
pub fn in_turn<T>(
    contenders: usize,
    rounds: u64,
    mut measure: impl FnMut(usize, u64) -> crate::Result<T>,
) -> crate::Result<Vec<Vec<T>>> {
    let mut all: Vec<Vec<T>> = (0..contenders).map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for turn in 0..contenders {
            let number = (turn + round as usize) % contenders;
            all[number].push(measure(number, round + 1)?);
        }
    }
    Ok(all)
}

/// A size for people, in the largest unit that leaves it whole.
pub fn size_name(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= MIB && bytes % MIB == 0 => format!("{} MiB", bytes / MIB),
        bytes if bytes % KIB == 0 => format!("{} KiB", bytes / KIB),
        bytes => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_largest_unit() {
        let names = [512, 4 * KIB, 4 * MIB, MIB + KIB].map(size_name);
        assert_eq!(names, ["512 B", "4 KiB", "4 MiB", "1025 KiB"]);
    }
}
