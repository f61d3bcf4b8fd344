//! How structs of integers become bytes, and what vouches for them.

use forebay_pmem::crc32c_append;

/// Declares a struct of little-endian integers without gaps, of a size that is checked when it is compiled.
macro_rules! media_struct {
    ($(#[$about:meta])* pub(crate) struct $name:ident: $bytes:literal {
        $($(#[$what:meta])* $field:ident: $kind:ty,)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $name {
            $($(#[$what])* pub(crate) $field: $kind,)+
        }

        impl $name {
            /// Bytes of it.
            pub(crate) const BYTES: usize = $bytes;

            /// Stores it at the start of `out`.
            pub(crate) fn encode(&self, out: &mut [u8]) {
                let mut rest = &mut out[..Self::BYTES];
                $(
                    let (field, after) = rest.split_at_mut(size_of::<$kind>());
                    field.copy_from_slice(&self.$field.to_le_bytes());
                    rest = after;
                )+
                assert!(rest.is_empty());
            }

            /// What the start of `bytes` says.
            pub(crate) fn decode(bytes: &[u8]) -> $name {
                let mut rest = &bytes[..Self::BYTES];
                $(
                    let (field, after) = rest.split_at(size_of::<$kind>());
                    let $field = <$kind>::from_le_bytes(field.try_into().expect("so many bytes"));
                    rest = after;
                )+
                assert!(rest.is_empty());
                $name { $($field,)+ }
            }
        }

        const _: () = assert!($bytes == 0 $(+ size_of::<$kind>())+);
    };
}
pub(super) use media_struct;

/// The CRC-32C of `bytes`, from `seed` on, with zeroes in place of the four bytes at `at`.
fn crc_without(seed: u32, bytes: &[u8], at: usize) -> u32 {
    let crc = crc32c_append(seed, &bytes[..at]);
    let crc = crc32c_append(crc, &[0; 4]);
    crc32c_append(crc, &bytes[at + 4..])
}

/// Stores the CRC of all of `bytes` at `at`.
pub(super) fn store_crc(seed: u32, bytes: &mut [u8], at: usize) {
    let crc = crc_without(seed, bytes, at);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Whether the CRC at `at` is that of all of `bytes`.
pub(super) fn has_crc(seed: u32, bytes: &[u8], at: usize) -> bool {
    bytes[at..at + 4] == crc_without(seed, bytes, at).to_le_bytes()
}

/// What structs of one pool are seeded with, so that those of another are none of its.
pub(super) fn seed_of_pool(uuid: u128) -> u32 {
    let folded = uuid ^ uuid >> 64;
    (folded ^ folded >> 32) as u32
}
