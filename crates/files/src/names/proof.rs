//! What tells an inode from others that had its number: inode numbers are used again.

/// Bytes that a proof may have: enough for the handles of the file systems that programs keep data on.
pub(crate) const PROOF_BYTES_MAX: usize = 38;

/// File systems whose generations are numbers of transactions: a crash takes some back, and they come
/// again, so it takes the time of birth too (btrfs, bcachefs).
const KINDS_THAT_COME_AGAIN: [i32; 5] = [0x4d, 0x4e, 0x4f, 0xb1, 0xb2];
const KIND_BYTES: usize = 4;
const BIRTH_BYTES: usize = 8;

/// Of what sort a proof is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
enum Sort {
    /// The file system tells nothing.
    Nothing = 0,
    /// The kernel's file handle, its kind first.
    Handle = 1,
    /// The same, with the time of birth behind it.
    HandleAndBirth = 2,
    /// A hash of what is too long.
    Hash = 3,
    /// The time of birth.
    Birth = 4,
}

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Proof {
    sort: Sort,
    len: u8,
    /// Zero behind `len`.
    bytes: [u8; PROOF_BYTES_MAX],
}

impl Proof {
    /// None: the number has to do.
    pub(crate) const NOTHING: Proof = Proof {
        sort: Sort::Nothing,
        len: 0,
        bytes: [0; PROOF_BYTES_MAX],
    };

    fn new(sort: Sort, parts: &[&[u8]]) -> Proof {
        let all = parts.concat();
        if all.len() > PROOF_BYTES_MAX {
            return Proof::hash(&all);
        }
        let mut bytes = [0; PROOF_BYTES_MAX];
        bytes[..all.len()].copy_from_slice(&all);
        Proof {
            sort,
            len: all.len() as u8,
            bytes,
        }
    }

    /// A kernel's file handle, with the time of birth where that is known.
    pub(crate) fn of_handle(kind: i32, handle: &[u8], born_ns: Option<i64>) -> Proof {
        let kind_bytes = kind.to_le_bytes();
        match born_ns.filter(|_| KINDS_THAT_COME_AGAIN.contains(&kind)) {
            Some(born_ns) => {
                let parts = [&kind_bytes[..], handle, &born_ns.to_le_bytes()];
                Proof::new(Sort::HandleAndBirth, &parts)
            }
            None => Proof::new(Sort::Handle, &[&kind_bytes, handle]),
        }
    }

    /// A time of birth.
    pub(crate) fn of_birth(born_ns: i64) -> Proof {
        Proof::new(Sort::Birth, &[&born_ns.to_le_bytes()])
    }

    /// The hash of anything.
    pub(crate) fn hash(bytes: &[u8]) -> Proof {
        Proof::new(Sort::Hash, &[&hash(bytes).to_le_bytes()])
    }

    /// The file handle, if it is known whole: its kind and its bytes.
    pub(crate) fn handle(&self) -> Option<(i32, &[u8])> {
        let rest = match self.sort {
            Sort::Handle => 0,
            Sort::HandleAndBirth => BIRTH_BYTES,
            _ => return None,
        };
        let handle = &self.bytes[..usize::from(self.len) - rest];
        let (kind, bytes) = handle.split_at(KIND_BYTES);
        let kind = i32::from_le_bytes(kind.try_into().expect("it was split there"));
        Some((kind, bytes))
    }

    /// Its sort's number and its bytes, for the log.
    pub(crate) fn parts(&self) -> (u8, &[u8]) {
        (self.sort as u8, &self.bytes[..usize::from(self.len)])
    }

    /// What [`Proof::parts`] gave; none if it cannot have.
    pub(crate) fn from_parts(sort: u8, bytes: &[u8]) -> Option<Proof> {
        let len = bytes.len();
        let (sort, is_right) = match sort {
            0 => (Sort::Nothing, len == 0),
            1 => (Sort::Handle, len >= KIND_BYTES),
            2 => (Sort::HandleAndBirth, len >= KIND_BYTES + BIRTH_BYTES),
            3 => (Sort::Hash, len == size_of::<u128>()),
            4 => (Sort::Birth, len == BIRTH_BYTES),
            _ => return None,
        };
        (is_right && len <= PROOF_BYTES_MAX).then(|| Proof::new(sort, &[bytes]))
    }
}

/// FNV-1a with 128 bits (Fowler, Noll and Vo).
pub(crate) fn hash(bytes: &[u8]) -> u128 {
    let step = |hash: u128, byte: &u8| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    };
    let offset = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    bytes.iter().fold(offset, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_come_back_whole_where_they_fit() {
        let proof = Proof::of_handle(1, &[7; 8], Some(5));
        assert_eq!(proof.handle(), Some((1, &[7; 8][..])));
        let again = Proof::of_handle(0x4d, &[7; 20], Some(5));
        assert_eq!(again.handle(), Some((0x4d, &[7; 20][..])));
        assert_ne!(again, Proof::of_handle(0x4d, &[7; 20], Some(6)));
        let long = Proof::of_handle(1, &[7; 100], None);
        assert_eq!(long.handle(), None);
        assert_ne!(long, Proof::of_handle(1, &[8; 100], None));
        for proof in [proof, again, long, Proof::NOTHING, Proof::of_birth(9)] {
            let (sort, bytes) = proof.parts();
            assert_eq!(Proof::from_parts(sort, bytes), Some(proof));
        }
        assert_eq!(Proof::from_parts(1, &[0; 3]), None);
        assert_eq!(Proof::from_parts(9, &[]), None);
    }
}
