//! A number that stands for a text: FNV-1a of 64 bits. Nobody chooses the texts to make two of them meet.

/// The digest of `bytes`, after what `so_far` stands for.
pub const fn digest(so_far: u64, bytes: &[u8]) -> u64 {
    let mut digest = so_far;
    let mut at = 0;
    while at < bytes.len() {
        digest = (digest ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    digest
}

/// The digest of nothing.
pub const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;
