//! Which block device of this host's kernel a disk is to be, as flags, config files and requests say it.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The N of `/dev/ublkbN`; none where the driver is to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkNumber(pub Option<u32>);

/// What the driver numbers its devices up to.
const UBLK_NUMBER_MAX: u32 = (1 << 20) - 1;

impl FromStr for UblkNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<UblkNumber, String> {
        if text == "auto" {
            return Ok(UblkNumber(None));
        }
        match text.parse() {
            Ok(number @ 0..=UBLK_NUMBER_MAX) => Ok(UblkNumber(Some(number))),
            _ => Err(format!(
                "'{text}' is neither auto nor a number from 0 to {UBLK_NUMBER_MAX}"
            )),
        }
    }
}

impl fmt::Display for UblkNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => write!(formatter, "{number}"),
            None => formatter.write_str("auto"),
        }
    }
}

impl Serialize for UblkNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UblkNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UblkNumber, D::Error> {
        deserializer.deserialize_any(Ublk)
    }
}

struct Ublk;

impl Visitor<'_> for Ublk {
    type Value = UblkNumber;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("\"auto\" or the number of the device")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<UblkNumber, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<UblkNumber, E> {
        self.visit_str(&number.to_string())
    }
}
