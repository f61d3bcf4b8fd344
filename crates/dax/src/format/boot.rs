//! Which boot of the machine this is.

use std::sync::LazyLock;

/// No boot's.
const UNKNOWN: [u8; 16] = [0; 16];

/// What the kernel calls this boot.
pub(super) fn boot_id() -> [u8; 16] {
    static BOOT: LazyLock<[u8; 16]> = LazyLock::new(|| {
        let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let digits = read.unwrap_or_default().trim().replace('-', "");
        u128::from_str_radix(&digits, 16).map_or(UNKNOWN, u128::to_be_bytes)
    });
    *BOOT
}

/// Whether a line with this id was written in this boot, for certain.
pub(super) fn is_this_boot(id: [u8; 16]) -> bool {
    id != UNKNOWN && id == boot_id()
}
