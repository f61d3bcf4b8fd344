//! Messages of Protocol Buffers, as far as etcd's requests need them: numbers and bytes by field (its Encoding guide).

use forebay_harness::Result;

const NUMBER: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;
const FIXED_32: u64 = 5;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Number(u64),
    /// Bytes, a text, or a message.
    Bytes(&'a [u8]),
}

/// A message that is being written.
#[derive(Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// With one more field.
    #[must_use]
    pub fn bytes(mut self, field: u64, value: &[u8]) -> Message {
        self.varint(field << 3 | BYTES);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// The fields of a message in their order.
///
/// # Errors
/// It is none.
pub fn fields(mut message: &[u8]) -> Result<Vec<(u64, Value<'_>)>> {
    let mut all = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let value = match key & 7 {
            NUMBER => Some(Value::Number(varint(&mut message)?)),
            BYTES => {
                let length = varint(&mut message)?;
                Some(Value::Bytes(take(&mut message, length)?))
            }
            FIXED_64 => take(&mut message, 8).map(|_| None)?,
            FIXED_32 => take(&mut message, 4).map(|_| None)?,
            kind => return Err(format!("a message with a field of kind {kind}").into()),
        };
        all.extend(value.map(|value| (key >> 3, value)));
    }
    Ok(all)
}

/// The number of a field; 0 where it isn't there, as everywhere in Protocol Buffers.
pub fn number(fields: &[(u64, Value<'_>)], wanted: u64) -> u64 {
    let found = fields.iter().rev().find_map(|(field, value)| match value {
        Value::Number(value) if *field == wanted => Some(*value),
        _ => None,
    });
    found.unwrap_or(0)
}

/// The bytes of a field, if it is there.
pub fn bytes<'a>(fields: &[(u64, Value<'a>)], wanted: u64) -> Option<&'a [u8]> {
    fields.iter().rev().find_map(|(field, value)| match value {
        Value::Bytes(value) if *field == wanted => Some(*value),
        _ => None,
    })
}

fn take<'a>(message: &mut &'a [u8], length: u64) -> Result<&'a [u8]> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let (taken, rest) = message
        .split_at_checked(length)
        .ok_or("a message that ends in a field")?;
    *message = rest;
    Ok(taken)
}

fn varint(message: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for place in 0..10 {
        let byte = take(message, 1)?[0];
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("a message with a number of more than 64 bits".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let long = vec![7; 300];
        let message = Message::default().bytes(1, b"key").bytes(2, &long);
        assert_eq!(message.as_slice()[..5], *b"\x0a\x03key");
        let read = fields(message.as_slice()).expect("a message");
        assert_eq!(bytes(&read, 1), Some(&b"key"[..]));
        assert_eq!(bytes(&read, 2), Some(&long[..]));
        assert_eq!((bytes(&read, 3), number(&read, 4)), (None, 0));
    }

    #[test]
    fn numbers_are_read_and_fixed_ones_passed_over() {
        let read = fields(&[0x20, 0xac, 0x02, 0x29, 0, 0, 0, 0, 0, 0, 0, 0, 0x30, 1]);
        let read = read.expect("a message");
        assert_eq!((number(&read, 4), number(&read, 6)), (300, 1));
        assert!(fields(&[0x0a, 5, 1]).is_err(), "it ends in a field");
        assert!(fields(&[0x20, 0xff]).is_err());
        assert!(
            fields(&[
                0x20, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1
            ])
            .is_err()
        );
    }
}
