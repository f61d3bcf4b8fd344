//! Every byte that lives on the media, declared once. `docs/inside/format.md` draws this file.
//!
//! All structs are little-endian, `repr(C)`, without padding; reserved bytes are zero. What was
//! read is `Raw…`-like until `validate` in the module that owns it has looked at it. Numbers are
//! read and written field by field, so the code is endian-safe without casting memory.

/// Sequences beyond it are nonsense: no counter of ours overflows.
pub(crate) const SEQUENCE_MAX: u64 = 1 << 62;
pub(crate) use crate::signature::MAGIC;
/// The version of everything below. Any other is refused.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// A cache line: the unit of persistence and of record lengths.
pub(crate) const LINE_BYTES: u64 = 64;
/// Bytes of an entry of the table.
pub(crate) const ENTRY_BYTES: u64 = 16;
/// Bytes of a record's header.
pub(crate) const RECORD_HEADER_BYTES: usize = 32;
/// Bytes of a record's element.
pub(crate) const ELEMENT_BYTES: usize = 24;
/// Bytes of the valid length in the tail of a partial block's slot.
pub(crate) const PARTIAL_TRAILER_BYTES: usize = 8;
/// Bytes of the header of a packed block.
pub(crate) const PACKED_HEADER_BYTES: usize = 64;
/// Bytes of the superblock that are in use.
pub(crate) const SUPERBLOCK_BYTES: usize = 256;
/// Bytes of an incarnation line and of a checkpoint line.
pub(crate) const INCARNATION_BYTES: usize = 64;
/// Bytes of one copy of a volume's description.
pub(crate) const VOLUME_BYTES: usize = 512;
/// Bytes of a roster line.
pub(crate) const ROSTER_BYTES: usize = 256;
/// Bytes of a line of a witness.
pub(crate) const WITNESS_BYTES: usize = 320;
/// What a witness's lines begin with.
pub(crate) const WITNESS_MAGIC: [u8; 8] = *b"FOREBAYW";
/// The longest path of a witness: the room of the members that a pool with one does not have.
pub(crate) const WITNESS_PATH_BYTES: usize = 8 * (ROSTER_MEMBERS_MAX - WITNESSED_MEMBERS);
/// Members of a pool that has a witness.
pub(crate) const WITNESSED_MEMBERS: usize = 2;
/// Bytes of the head of a list of bad places.
pub(crate) const BAD_LIST_HEAD_BYTES: usize = 64;
/// Bytes of a place in it.
pub(crate) const BAD_PLACE_BYTES: usize = 8;
/// The seal of a line of the entry table.
pub(crate) const SEAL_BYTES: u64 = 8;
/// Members that a roster has room for.
pub(crate) const ROSTER_MEMBERS_MAX: usize = 16;
/// Rosters that the next ones remember.
pub(crate) const ROSTER_ANCESTORS: usize = 16;
/// The longest backing path that a volume's description holds.
pub(crate) const VOLUME_PATH_BYTES: usize = 440;

/// A struct of the media: fixed size, a CRC32C in its last four bytes.
macro_rules! media_struct {
    ($(#[$meta:meta])* $name:ident, $size:expr, { $($(#[$fmeta:meta])* $field:ident : $ty:ty),+ $(,)? }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) struct $name { $($(#[$fmeta])* pub(crate) $field: $ty),+ }
        const _: () = assert!(size_of::<$name>() == $size, "size on the media");
        const _: () = assert!(0 $(+ size_of::<$ty>())+ == $size, "no padding");
        impl $name {
            /// Bytes on the media, the CRC filled in.
            pub(crate) fn encode(&self) -> [u8; $size] {
                let mut bytes = [0u8; $size];
                let mut at = 0;
                $( at = Field::put(&self.$field, &mut bytes, at); )+
                debug_assert_eq!(at, $size);
                let crc = forebay_pmem::crc32c(&bytes[..$size - 4]);
                bytes[$size - 4..].copy_from_slice(&crc.to_le_bytes());
                bytes
            }
            /// The struct, if the CRC in the last four bytes holds.
            pub(crate) fn decode(bytes: &[u8; $size]) -> Option<Self> {
                let crc = forebay_pmem::crc32c(&bytes[..$size - 4]);
                if bytes[$size - 4..] != crc.to_le_bytes() {
                    return None;
                }
                let mut cursor = 0;
                Some($name { $( $field: take::<$ty>(bytes, &mut cursor) ),+ })
            }
        }
    };
}

/// The bytes with one bit turned over, each bit in its turn.
pub(crate) fn with_each_bit_flipped<const N: usize>(
    bytes: &[u8; N],
) -> impl Iterator<Item = [u8; N]> {
    (0..8 * N).map(|bit| {
        let mut flipped = *bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    })
}

/// The next field's value; moves the cursor past it.
fn take<T: Field>(bytes: &[u8], cursor: &mut usize) -> T {
    let (value, next) = T::get(bytes, *cursor);
    *cursor = next;
    value
}

/// A field of a media struct: knows its bytes.
trait Field: Sized {
    fn put(&self, bytes: &mut [u8], at: usize) -> usize;
    fn get(bytes: &[u8], at: usize) -> (Self, usize);
}
macro_rules! integer_field {
    ($($ty:ty),+) => {$(
        impl Field for $ty {
            fn put(&self, bytes: &mut [u8], at: usize) -> usize {
                bytes[at..at + size_of::<$ty>()].copy_from_slice(&self.to_le_bytes());
                at + size_of::<$ty>()
            }
            fn get(bytes: &[u8], at: usize) -> (Self, usize) {
                let mut raw = [0; size_of::<$ty>()];
                raw.copy_from_slice(&bytes[at..at + size_of::<$ty>()]);
                (<$ty>::from_le_bytes(raw), at + size_of::<$ty>())
            }
        }
    )+};
}
integer_field!(u16, u32, u64);
impl<const N: usize> Field for [u8; N] {
    fn put(&self, bytes: &mut [u8], at: usize) -> usize {
        bytes[at..at + N].copy_from_slice(self);
        at + N
    }
    fn get(bytes: &[u8], at: usize) -> (Self, usize) {
        let mut raw = [0; N];
        raw.copy_from_slice(&bytes[at..at + N]);
        (raw, at + N)
    }
}

media_struct!(
    /// At offset 0 of every member; written once, by create.
    Superblock, SUPERBLOCK_BYTES, {
        magic: [u8; 8],
        version: u32,
        member: u32,
        members: u32,
        /// Bit 0: strict two-fence commits. Bit 1: no data checksums. Bit 2: made for tests. Bit 3: mirrored.
        flags: u32,
        pool_uuid: [u8; 16],
        member_uuid: [u8; 16],
        member_bytes: u64,
        lane_bytes: u64,
        block_bytes: u32,
        unit_bytes: u32,
        volumes: u32,
        lanes: u32,
        entries: u32,
        slots_per_member: u32,
        reserved: [u8; 156],
        crc: u32,
    }
);
/// `Superblock::flags`: every commit stores a commit word and a second fence.
pub(crate) const FLAG_STRICT: u32 = 1;
/// `Superblock::flags`: entries carry no CRC of the data.
pub(crate) const FLAG_NO_CHECKSUMS: u32 = 2;
/// The pool was made for tests and may be broken on purpose.
pub(crate) const FLAG_TEST: u32 = 4;
/// `Superblock::flags`: dirty blocks are on two members, and metadata on all, which a roster names.
pub(crate) const FLAG_MIRROR: u32 = 8;
/// `Superblock::flags`: lines of the entry table have seals, as those of a mirror do, on its one member or the first.
pub(crate) const FLAG_SEALED: u32 = 16;
/// `Superblock::flags`: slots behind those of the mirror are columns of rows with parity.
pub(crate) const FLAG_ROWS: u32 = 32;
/// All flags this version knows.
pub(crate) const FLAGS_KNOWN: u32 =
    FLAG_STRICT | FLAG_NO_CHECKSUMS | FLAG_TEST | FLAG_MIRROR | FLAG_SEALED | FLAG_ROWS;

media_struct!(
    /// Two per member, used in turn; the valid one with the greater incarnation is current.
    IncarnationLine, INCARNATION_BYTES, {
        pool_uuid: [u8; 16],
        incarnation: u64,
        /// Secret of this incarnation: tags and CRCs of its records are keyed with it.
        salt: u64,
        /// The sequence that the previous incarnation ended with; this incarnation's are greater.
        sequence: u64,
        /// How large the pool is in this incarnation: it grows between incarnations. The superblock says how it was
        /// made.
        member_bytes: u64,
        entries: u32,
        slots_per_member: u32,
        /// Bytes of a lane's log, in lines.
        lane_lines: u32,
        crc: u32,
    }
);
/// How scrubs of a pool stand. Times are in seconds since 1970; 0: there was none. Of two of one pool the greater one is
/// the later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct ScrubMark {
    /// When the last whole one began: each block was verified, or written, since.
    pub(crate) scrubbed_s: u32,
    /// When the one began that is not whole yet.
    pub(crate) began_s: u32,
    /// The entry at which that one goes on.
    pub(crate) entry: u32,
}
media_struct!(
    /// Two per pool, used in turn; the valid one of the current incarnation with the greatest S counts.
    CheckpointLine, INCARNATION_BYTES, {
        incarnation: u64,
        salt: u64,
        sequence: u64,
        /// As in the incarnation line, in case that is damaged.
        member_bytes: u64,
        entries: u32,
        slots_per_member: u32,
        lane_lines: u32,
        /// Bit 0, of a mirrored pool: every member has begun the incarnation, and nothing was served in it before. With
        /// `checksum`: each line of the table has a seal. The other bits, of a table with seals: the round in which lines
        /// of it were last sent, see `media/seals.rs`.
        bit_and_round: u32,
        /// How scrubs stand, see [`ScrubMark`].
        scrub_entry: u32,
        scrub_began_s: u32,
        scrubbed_s: u32,
        crc: u32,
    }
);
media_struct!(
    /// Two per member of a mirrored pool, used in turn; the valid one with the greater epoch counts.
    RosterLine, ROSTER_BYTES, {
        pool_uuid: [u8; 16],
        epoch: u64,
        members: u32,
        reserved0: u32,
        /// A byte a member: 1 in, 2 rebuilding, 3 out.
        states: [u8; ROSTER_MEMBERS_MAX],
        /// The first eight bytes of each member's uuid. Of a pool with a witness, which has two members, the witness's path
        /// stands behind theirs.
        identities: [u8; 8 * ROSTER_MEMBERS_MAX],
        /// The digests of the rosters before it, the latest first.
        ancestors: [u8; 4 * ROSTER_ANCESTORS],
        /// What tells the witness from every other file; 0: there is none.
        witness: u64,
        witness_path_bytes: u32,
        crc: u32,
    }
);
media_struct!(
    /// Two in a witness, used in turn; the valid one with the greater number counts.
    WitnessLine, WITNESS_BYTES, {
        magic: [u8; 8],
        format: u32,
        reserved0: u32,
        identity: u64,
        number: u64,
        /// As on the members.
        roster: [u8; ROSTER_BYTES],
        reserved: [u8; 28],
        crc: u32,
    }
);

media_struct!(
    /// Behind each roster line, in its unit: two of a member, written in turn. The places follow it.
    BadListHead, BAD_LIST_HEAD_BYTES, {
        pool_uuid: [u8; 16],
        version: u64,
        count: u32,
        /// Of the places.
        places_crc: u32,
        reserved: [u8; 28],
        crc: u32,
    }
);
const _: () = assert!(
    ROSTER_BYTES.is_multiple_of(LINE_BYTES as usize)
        && BAD_LIST_HEAD_BYTES.is_multiple_of(LINE_BYTES as usize),
    "a list shares no line with a roster, and no place one with the head"
);
media_struct!(
    /// At the start of a slot that holds a packed block. The pieces follow, in order.
    PackedHeader, PACKED_HEADER_BYTES, {
        /// One bit for each piece of the block that stands here; the others are the base's.
        pieces: u64,
        /// The slot, plus one, that the block is based on; 0: zeroes.
        base: u32,
        reserved: [u8; 48],
        crc: u32,
    }
);
media_struct!(
    /// Two per volume, used in turn; the valid one with the greater version counts.
    VolumeLine, VOLUME_BYTES, {
        version: u64,
        size_bytes: u64,
        inode: u64,
        id: u32,
        /// 0 free, 1 attached.
        state: u32,
        path_bytes: u32,
        reserved0: u32,
        path: [u8; VOLUME_PATH_BYTES],
        /// As in the backing's mark (`docs/inside/marks.md`); 0: there never was one.
        generation: u64,
        /// How far the volume is in it: 0 no mark, 1 starting, 2 open, 3 clean.
        stage: u32,
        reserved: [u8; 16],
        crc: u32,
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_that_draws_this_has_the_same_sizes() {
        let page = include_str!("../../../../docs/inside/format.md");
        let sizes = [
            ("superblock", SUPERBLOCK_BYTES),
            ("incarnation line", INCARNATION_BYTES),
            ("checkpoint line", INCARNATION_BYTES),
            ("roster line", ROSTER_BYTES),
            ("witness line", WITNESS_BYTES),
            ("bad list", BAD_LIST_HEAD_BYTES),
            ("volume line", VOLUME_BYTES),
            ("entry", ENTRY_BYTES as usize),
            ("record header", RECORD_HEADER_BYTES),
            ("record element", ELEMENT_BYTES),
            ("partial trailer", PARTIAL_TRAILER_BYTES),
            ("packed header", PACKED_HEADER_BYTES),
        ];
        for (name, bytes) in sizes {
            assert!(page.contains(&format!("\n| {name} | {bytes} |")), "{name}");
        }
        assert!(page.contains(&format!("format, version {FORMAT_VERSION}\n")));
    }

    #[test]
    fn structs_round_trip_and_refuse_flips() {
        let line = IncarnationLine {
            pool_uuid: [7; 16],
            incarnation: 3,
            salt: 0x1122_3344_5566_7788,
            sequence: 99,
            member_bytes: 1 << 30,
            entries: 1 << 20,
            slots_per_member: 1 << 19,
            lane_lines: 64,
            crc: 0,
        };
        let bytes = line.encode();
        let back = IncarnationLine::decode(&bytes).expect("own encoding");
        assert_eq!(
            (back.incarnation, back.salt, back.sequence),
            (3, line.salt, 99)
        );
        for bit in 0..INCARNATION_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(IncarnationLine::decode(&flipped), None, "bit {bit}");
        }
    }
}
