//! What devices begin or end with: the members of pools, and what other programs keep on devices. It stands below all else,
//! since a file that begins as a pool is no disk, and no new pool takes a device that has any of this without being told to.

use std::io;
use std::path::Path;

use crate::error::{Result, refused};

/// First eight bytes of every member.
pub(crate) const MAGIC: [u8; 8] = *b"FOREBAY\x01";

/// Whether something that begins so is a pool, in memory or on an SSD.
pub(crate) fn begins_as_pool(first: &[u8; 8]) -> bool {
    *first == MAGIC || forebay_log::begins_as_pool(first)
}

/// As many bytes at the start of a blank device are zeroes.
const BLANK_BYTES: usize = 4096;

/// What others keep at a place that is counted from the start. The order is that in which they are named: a partition table or a
/// boot sector last, since some that have one of their own come before.
const FROM_START: [(&str, u64, &[u8]); 33] = [
    ("an ext2, ext3 or ext4 file system", 0x438, b"\x53\xEF"),
    ("an XFS file system", 0, b"XFSB"),
    ("a Btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an F2FS file system", 0x400, b"\x10\x20\xF5\xF2"),
    ("an F2FS file system", 0x1400, b"\x10\x20\xF5\xF2"),
    ("an ISO 9660 file system", 0x8001, b"CD001"),
    // At the end of a page, of which machines have several sizes.
    ("swap space", 0x0FF6, b"SWAPSPACE2"),
    ("swap space", 0x3FF6, b"SWAPSPACE2"),
    ("swap space", 0xFFF6, b"SWAPSPACE2"),
    ("swap space", 0x0FF6, b"SWAP-SPACE"),
    ("a LUKS volume", 0, b"LUKS\xBA\xBE"),
    // The second header, by the size of the first one.
    ("a LUKS volume", 0x4000, b"SKUL\xBA\xBE"),
    ("a LUKS volume", 0x8000, b"SKUL\xBA\xBE"),
    ("a LUKS volume", 0x1_0000, b"SKUL\xBA\xBE"),
    ("a LUKS volume", 0x2_0000, b"SKUL\xBA\xBE"),
    ("a LUKS volume", 0x4_0000, b"SKUL\xBA\xBE"),
    ("a LUKS volume", 0x8_0000, b"SKUL\xBA\xBE"),
    ("a LUKS volume", 0x10_0000, b"SKUL\xBA\xBE"),
    ("a LUKS volume", 0x20_0000, b"SKUL\xBA\xBE"),
    ("a LUKS volume", 0x40_0000, b"SKUL\xBA\xBE"),
    ("a physical volume of LVM2", 0, b"LABELONE"),
    ("a physical volume of LVM2", 0x200, b"LABELONE"),
    ("a physical volume of LVM2", 0x400, b"LABELONE"),
    ("a physical volume of LVM2", 0x600, b"LABELONE"),
    ("a member of an mdadm array (1.1)", 0, MD),
    ("a member of an mdadm array (1.2)", 0x1000, MD),
    ("a bcache or bcachefs device", 0x1018, b"\xC6\x85\x73\xF6"),
    ("a GPT partition table", 0x200, GPT),
    // Of a disk whose sectors have 4096 bytes.
    ("a GPT partition table", 0x1000, GPT),
    ("a pool of Forebay, in memory", 0, &MAGIC),
    ("a ReiserFS file system", 0x1_0034, b"ReIsEr"),
    ("a JFS file system", 0x8000, b"JFS1"),
    ("a partition table or a boot sector", 0x1FE, b"\x55\xAA"),
];

const MD: &[u8] = b"\xFC\x4E\x2B\xA9";
const GPT: &[u8] = b"EFI PART";

/// The same, by the device's size; none where it is too small.
fn from_end(len: u64) -> [(&'static str, Option<u64>, &'static [u8]); 4] {
    let copy = "the second copy of a GPT partition table";
    let sectors = len / 512;
    let md_1_0 = sectors.checked_sub(16).map(|sector| sector / 8 * 8 * 512);
    let md_0_90 = (len / MD_0_90_BYTES).checked_sub(1);
    [
        (copy, len.checked_sub(512), GPT),
        (copy, len.checked_sub(4096), GPT),
        ("a member of an mdadm array (1.0)", md_1_0, MD),
        (
            "a member of an mdadm array (0.90)",
            md_0_90.map(|unit| unit * MD_0_90_BYTES),
            MD,
        ),
    ]
}

const MD_0_90_BYTES: u64 = 64 << 10;

/// ZFS has four labels, two at the start and two at the end, whose second halves are rings of uberblocks.
const ZFS_LABEL_BYTES: u64 = 256 << 10;
const ZFS_UBERBLOCK_BYTES: usize = 1 << 10;
const ZFS_MAGICS: [[u8; 8]; 2] = [0x00BA_B10C_u64.to_le_bytes(), 0x00BA_B10C_u64.to_be_bytes()];

/// Reads some bytes at an offset.
pub(crate) type ReadAt<'r> = dyn FnMut(u64, &mut [u8]) -> io::Result<()> + 'r;

/// What is found on a device, and at which byte.
#[derive(Debug, PartialEq, Eq)]
struct Found(&'static str, u64);

fn find(len: u64, read: &mut ReadAt<'_>) -> io::Result<Option<Found>> {
    let from_start = FROM_START.map(|(what, at, bytes)| (what, Some(at), bytes));
    for (what, at, bytes) in from_start.into_iter().chain(from_end(len)) {
        let Some(at) = at.filter(|at| at + bytes.len() as u64 <= len) else {
            continue;
        };
        let mut there = [0; 16];
        let there = &mut there[..bytes.len()];
        read(at, there)?;
        if there == bytes {
            return Ok(Some(Found(what, at)));
        }
    }
    find_zfs(len, read)
}

fn find_zfs(len: u64, read: &mut ReadAt<'_>) -> io::Result<Option<Found>> {
    let labels = len / ZFS_LABEL_BYTES;
    if labels < 4 {
        return Ok(None);
    }
    let mut ring = vec![0; ZFS_LABEL_BYTES as usize / 2];
    for label in [0, 1, labels - 2, labels - 1] {
        let first = label * ZFS_LABEL_BYTES + ring.len() as u64;
        read(first, &mut ring)?;
        let is_one = |block: &[u8]| ZFS_MAGICS.iter().any(|magic| block.starts_with(magic));
        if let Some(place) = ring.chunks(ZFS_UBERBLOCK_BYTES).position(is_one) {
            let at = first + (place * ZFS_UBERBLOCK_BYTES) as u64;
            return Ok(Some(Found("a ZFS file system", at)));
        }
    }
    Ok(None)
}

/// Refuses a device of `len` bytes that has something on it.
///
/// # Errors
/// It has, and the error says what and where; or it cannot be read.
pub(crate) fn refuse_unless_blank(path: &Path, len: u64, read: &mut ReadAt<'_>) -> Result<()> {
    let found = look(len, read).map_err(|error| {
        refused(
            path,
            format!("the device cannot be read to see whether it is blank: {error}"),
            "look at the device, or choose another one",
        )
    })?;
    match found {
        None => Ok(()),
        Some(found) => Err(refused(
            path,
            format!("the device is not blank: {found}"),
            "if nobody needs that, wipe it (wipefs --all), or overwrite it with force (on the command line --force)",
        )),
    }
}

/// What makes a device not blank.
fn look(len: u64, read: &mut ReadAt<'_>) -> io::Result<Option<String>> {
    let mut first = vec![0; BLANK_BYTES.min(usize::try_from(len).unwrap_or(BLANK_BYTES))];
    read(0, &mut first)?;
    let is_ssd_pool = forebay_log::begins_as_pool(&first);
    if is_ssd_pool {
        return Ok(Some(
            "a pool of Forebay, on an SSD, begins at byte 0".into(),
        ));
    }
    if let Some(Found(what, at)) = find(len, read)? {
        return Ok(Some(format!(
            "{what} is there, by what stands at byte {at}"
        )));
    }
    let written = first.iter().position(|byte| *byte != 0);
    Ok(written.map(|at| format!("something is written at byte {at}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 8 << 20;

    /// What is said of a device of so many bytes with some at one place.
    fn said_of(len: u64, at: u64, bytes: &[u8]) -> Option<String> {
        let mut device = vec![0; len as usize];
        device[at as usize..][..bytes.len()].copy_from_slice(bytes);
        let mut read = |offset: u64, out: &mut [u8]| {
            let end = offset as usize + out.len();
            out.copy_from_slice(&device[offset as usize..end]);
            Ok(())
        };
        let refused = refuse_unless_blank(Path::new("/dev/sdx"), len, &mut read);
        refused.err().map(|error| error.to_string())
    }

    #[test]
    fn a_device_with_anything_that_people_have_on_theirs_is_refused_by_its_name() {
        assert_eq!(said_of(LEN, 0, &[]), None, "a blank one");
        for (what, at, bytes) in FROM_START {
            let said = said_of(LEN, at, bytes).expect(what);
            assert!(said.contains(what), "{what}: {said}");
            assert!(said.contains(&format!("at byte {at}")), "{said}");
            assert!(
                said.contains("/dev/sdx") && said.contains("wipefs") && said.contains("--force")
            );
        }
        // Sizes that are whole sectors, and no more.
        for len in [LEN, LEN + 512, LEN - 3 * 512] {
            for (what, at, bytes) in from_end(len) {
                let said = said_of(len, at.expect("it is large"), bytes).expect(what);
                assert!(said.contains(what), "{what}: {said}");
            }
            for label in [0, 1, len / ZFS_LABEL_BYTES - 2, len / ZFS_LABEL_BYTES - 1] {
                let at = label * ZFS_LABEL_BYTES + (128 << 10) + 5 * 1024;
                for magic in ZFS_MAGICS {
                    let said = said_of(len, at, &magic).expect("ZFS");
                    assert!(said.contains("ZFS"), "{said}");
                }
            }
        }
        let said = said_of(LEN, 100, b"x").expect("written");
        assert!(said.contains("at byte 100"), "{said}");
    }

    #[test]
    fn where_mdadm_has_its_superblocks() {
        // The man page md(4): 1.0 is 8 to 12 KiB before the end at a multiple of 4 KiB, 0.90 64 to 128 KiB at one of 64 KiB.
        for len in [1 << 20, (1 << 20) + 512, (1 << 20) - 512, 5_000_192] {
            let [.., (_, new, _), (_, old, _)] = from_end(len);
            let (new, old) = (new.unwrap(), old.unwrap());
            assert!(new % 4096 == 0 && (8 << 10..=12 << 10).contains(&(len - new)));
            assert!(old % (64 << 10) == 0 && (64 << 10..128 << 10).contains(&(len - old)));
        }
    }

    #[test]
    fn a_small_device_is_looked_at_as_far_as_it_goes() {
        for len in [0, 1, 511, 512, 4095, 4096, 65_536, 200_000] {
            assert_eq!(said_of(len, 0, &[]), None, "{len} bytes");
        }
    }
}
