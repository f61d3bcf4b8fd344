//! Superblocks that the medium has changed. One flipped bit its check tells. All of one of a mirror but the member's number
//! and name is in the others', too; the number is one of those that are left, and of the name the roster has what counts.

use std::mem::offset_of;

use forebay_pmem::Region;

use crate::media::geometry::Geometry;
use crate::media::layout::{MAGIC, SUPERBLOCK_BYTES, Superblock, with_each_bit_flipped};
use crate::media::roster::{Roster, identity_of};

/// So many bits may have turned over for a superblock to be known still.
const FLIPPED_BITS_MAX: u32 = 8;

/// Whether these bytes are a superblock.
pub(crate) fn is_valid(raw: &[u8]) -> bool {
    let decoded = raw.try_into().ok().and_then(Superblock::decode);
    decoded.is_some_and(|superblock| superblock.magic == MAGIC)
}

/// The superblock of member `number`, whose uuid begins with `identity`, from that of another member of the pool. The rest
/// of the uuid, which nothing asks for, is as found. `None` if the other one is not valid.
pub(crate) fn like(
    other: &[u8],
    number: u32,
    identity: u64,
    found: &[u8],
) -> Option<[u8; SUPERBLOCK_BYTES]> {
    let decode = |raw: &[u8]| Superblock::decode(raw.try_into().ok()?);
    let other = decode(other).filter(|other| other.magic == MAGIC)?;
    let mut member_uuid = [0; 16];
    let place = offset_of!(Superblock, member_uuid);
    member_uuid.copy_from_slice(found.get(place..place + 16)?);
    member_uuid[..8].copy_from_slice(&identity.to_le_bytes());
    let superblock = Superblock {
        member: number,
        member_uuid,
        ..other
    };
    Some(superblock.encode())
}

/// Where a superblock is to be: bytes that do not match their check. One that does is as it was written: by another
/// release, which may know why it differs.
fn damaged(region: &Region) -> Option<[u8; SUPERBLOCK_BYTES]> {
    let mut found = [0; SUPERBLOCK_BYTES];
    if region.len() < found.len() as u64 || region.has_media_error(0, found.len()) {
        return None;
    }
    region.read(0, &mut found);
    Superblock::decode(&found).is_none().then_some(found)
}

/// The bytes of a superblock of which one bit is flipped here.
#[cold]
pub(super) fn without_flipped_bit(region: &Region) -> Option<[u8; SUPERBLOCK_BYTES]> {
    with_each_bit_flipped(&damaged(region)?).find(|right| is_valid(right))
}

/// What a superblock that is not valid must be, if it is that but for a few bits: the one of a member that the pool has
/// beside `other`, whose own is `superblock`; its number is one of `left`.
pub(super) fn mended(
    region: &Region,
    other: &Region,
    superblock: &Superblock,
    left: &[u32],
) -> Option<Superblock> {
    if region.len() < superblock.member_bytes {
        return None;
    }
    let found = damaged(region)?;
    let geometry = Geometry::from_superblock(superblock);
    let roster = Roster::read(other, &geometry, &superblock.pool_uuid)?;
    // Names differ in more bits than that.
    left.iter().find_map(|number| {
        let name = roster.identity(*number)?;
        let right = like(&superblock.encode(), *number, name, &found)?;
        // The check follows from the rest.
        let covered = right.iter().zip(&found).take(offset_of!(Superblock, crc));
        let flipped_bits: u32 = covered.map(|(one, other)| (one ^ other).count_ones()).sum();
        let mended = Superblock::decode(&right)?;
        (flipped_bits <= FLIPPED_BITS_MAX).then_some(mended)
    })
}

/// Whether what does not start as a member has a roster all the same, by which it was served without `other`, whose
/// superblock is `superblock`: then it has what that one lacks. Its number is one of `left`.
pub(super) fn was_served_without(
    region: &Region,
    other: &Region,
    superblock: &Superblock,
    left: &[u32],
) -> bool {
    let geometry = Geometry::from_superblock(superblock);
    let read = |region| Roster::read(region, &geometry, &superblock.pool_uuid);
    if region.len() < superblock.member_bytes {
        return false;
    }
    let (Some(own), Some(others)) = (read(region), read(other)) else {
        return false;
    };
    let is_of_another = |number: &u32| {
        let identity = own.identity(*number);
        identity.is_some_and(|identity| own.is_of_another_history(&others, *number, identity))
    };
    match own.epoch > others.epoch {
        true => !own.has_in(superblock.member, identity_of(&superblock.member_uuid)),
        false => left.iter().any(is_of_another),
    }
}
