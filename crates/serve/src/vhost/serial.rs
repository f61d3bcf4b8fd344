//! A disk's serial number, made of its name.

use virtio_bindings::bindings::virtio_blk::VIRTIO_BLK_ID_BYTES;

/// Bytes of the serial number; shorter ones end with a zero.
pub(crate) const SERIAL_BYTES: usize = VIRTIO_BLK_ID_BYTES as usize;

/// Hexadecimal digits that stand for a name that is too long, and what is before them.
const DIGITS: usize = 8;
const SEPARATOR: u8 = b'-';

/// The name where there is room for it, else its beginning and a hash of all of it: names that begin
/// alike stay different, and the same name has the same number in every release.
pub(crate) fn of(name: &str) -> [u8; SERIAL_BYTES] {
    let mut serial = [0; SERIAL_BYTES];
    if name.len() <= SERIAL_BYTES {
        serial[..name.len()].copy_from_slice(name.as_bytes());
        return serial;
    }
    let room = SERIAL_BYTES - DIGITS - 1;
    let is_boundary = |index: &usize| name.is_char_boundary(*index);
    let start = (0..=room).rev().find(is_boundary).unwrap_or(0);
    serial[..start].copy_from_slice(&name.as_bytes()[..start]);
    serial[start] = SEPARATOR;
    let digits = format!("{:0DIGITS$x}", hash(name));
    serial[start + 1..=start + DIGITS].copy_from_slice(digits.as_bytes());
    serial
}

/// FNV-1a of 32 bits (Fowler, Noll, Vo).
fn hash(name: &str) -> u32 {
    const OFFSET_BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(PRIME);
    name.bytes().fold(OFFSET_BASIS, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(hash("a"), 0xe40c_292c);
        assert_eq!(hash("foobar"), 0xbf9c_f968);
    }

    #[test]
    fn long_names_that_begin_alike_are_told_apart() {
        assert_eq!(&of("disk.img")[..9], b"disk.img\0");
        assert_eq!(&of("twenty-bytes-of-name"), b"twenty-bytes-of-name");
        let first = of("virtual-machines-of-the-lab-1");
        let second = of("virtual-machines-of-the-lab-2");
        assert_ne!(first, second);
        assert!(first.starts_with(b"virtual-mac-"));
        // Cut between characters.
        let text = of("äöüäöüäöüäöüäöüäöü");
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(20);
        assert!(std::str::from_utf8(&text[..end]).is_ok());
    }
}
