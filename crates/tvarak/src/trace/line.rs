//! One line of a trace.

/// Bytes of one access, at most: what an instruction that saves all registers stores.
const BYTES_MOST: u64 = 1 << 14;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An instruction is fetched.
    Fetch,
    /// A load.
    Load,
    /// A store.
    Store,
    /// A load and a store of the same bytes.
    Modify,
}

/// An access of the traced program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What it does.
    pub kind: Kind,
    /// Its first byte.
    pub address: u64,
    /// Bytes, one at least.
    pub bytes: u64,
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// An access.
    Access(Access),
    /// Valgrind says something, or nothing.
    Valgrinds,
    /// None of these: something that the program itself printed, or half a line.
    Unparsable,
}

/// Reads a line, whatever it holds, without its end.
pub fn parse(line: &[u8]) -> Line {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (kind, rest) = match line {
        [b'I', b' ', b' ', rest @ ..] => (Kind::Fetch, rest),
        [b' ', b'L', b' ', rest @ ..] => (Kind::Load, rest),
        [b' ', b'S', b' ', rest @ ..] => (Kind::Store, rest),
        [b' ', b'M', b' ', rest @ ..] => (Kind::Modify, rest),
        [] | [b'=', b'=', ..] | [b'-', b'-', ..] | [b'*', b'*', ..] => return Line::Valgrinds,
        _ => return Line::Unparsable,
    };
    access(kind, rest).map_or(Line::Unparsable, Line::Access)
}

fn access(kind: Kind, rest: &[u8]) -> Option<Access> {
    let comma = rest.iter().position(|byte| *byte == b',')?;
    let address = number(&rest[..comma], 16)?;
    let bytes = number(&rest[comma + 1..], 10)?;
    let is_one = (1..=BYTES_MOST).contains(&bytes) && address.checked_add(bytes).is_some();
    is_one.then_some(Access {
        kind,
        address,
        bytes,
    })
}

/// Digits and nothing else.
fn number(digits: &[u8], radix: u64) -> Option<u64> {
    let mut number = 0_u64;
    for byte in digits {
        let digit = char::from(*byte).to_digit(radix as u32)?;
        number = number.checked_mul(radix)?.checked_add(u64::from(digit))?;
    }
    (!digits.is_empty()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_what_lackey_means_by_them() {
        let of = |kind, address, bytes| {
            Line::Access(Access {
                kind,
                address,
                bytes,
            })
        };
        for (line, expected) in [
            ("I  04001a00,3", of(Kind::Fetch, 0x0400_1a00, 3)),
            (" L 1ffefffe70,8", of(Kind::Load, 0x001f_feff_fe70, 8)),
            (" S 1ffefffe68,8", of(Kind::Store, 0x001f_feff_fe68, 8)),
            (" M 0421fbc8,4", of(Kind::Modify, 0x0421_fbc8, 4)),
            ("==17== Lackey, an example Valgrind tool", Line::Valgrinds),
            ("", Line::Valgrinds),
            ("inserted 1000 keys", Line::Unparsable),
            (" L 04001a00", Line::Unparsable),
            (" L 04001a00,0", Line::Unparsable),
            (" L 04001a00,99999", Line::Unparsable),
            (" L 1ffffffffffffffff,8", Line::Unparsable),
            (" L ffffffffffffffff,8", Line::Unparsable),
            (" S +4001a00,8", Line::Unparsable),
        ] {
            assert_eq!(parse(line.as_bytes()), expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_does_harm(line in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Line::Access(access) = parse(&line) {
                prop_assert!(access.bytes > 0 && access.bytes <= BYTES_MOST);
                prop_assert!(access.address.checked_add(access.bytes).is_some());
            }
        }

        #[test]
        fn nor_does_one_that_is_nearly_right(
            start in "(I |I  | L | S | M |  )",
            rest in "[0-9a-fx+-]{0,20},?[0-9-]{0,22}.?",
        ) {
            if let Line::Access(access) = parse(format!("{start}{rest}").as_bytes()) {
                prop_assert!(access.address.checked_add(access.bytes).is_some());
            }
        }

        #[test]
        fn an_access_that_is_printed_is_read(address: u32, bytes in 1..65_u64) {
            let line = format!(" S {address:08x},{bytes}");
            let expected = Access { kind: Kind::Store, address: address.into(), bytes };
            prop_assert_eq!(parse(line.as_bytes()), Line::Access(expected));
        }
    }
}
