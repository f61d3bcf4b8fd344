//! Measurements in guests: the grid of the block cache study, ratios beside other servers and caches,
//! and how often a file system's bytes are written.

mod fio;
mod fuse_loop;
pub mod grid;
mod grid_page;
mod ours;
mod points;
pub mod ratios;
mod stage;
pub mod writer;
pub mod writes;

/// Bytes of a KiB.
pub(crate) const KIB: u64 = 1 << 10;
/// Bytes of a MiB.
pub(crate) const MIB: u64 = 1 << 20;

/// Whether the kernel's caches can be set up here; says so where not.
pub(crate) fn has_tool(name: &str, what: &str) -> bool {
    let is_there = crate::guest::has_program(name);
    if !is_there {
        println!("skipped {what}: no {name} here");
    }
    is_there
}

/// A size for people, in the largest unit that leaves it whole.
pub(crate) fn size_name(bytes: u64) -> String {
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
