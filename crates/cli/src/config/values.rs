//! Values of a config file that TOML has no type for: one or many texts, addresses, sizes.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use forebay_lab::engines::EngineName;
use forebay_serve::nbd::NbdAddress;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use forebay_command::size;

/// A string, or an array of strings.
pub fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    let texts = deserializer.deserialize_any(Texts)?;
    Ok(texts.into_iter().map(PathBuf::from).collect())
}

pub fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<NbdAddress>, D::Error> {
    let texts = deserializer.deserialize_any(Texts)?;
    let parsed = texts
        .iter()
        .map(|text| text.parse().map_err(de::Error::custom));
    parsed.collect()
}

pub fn engine_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<EngineName>, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map(Some).map_err(de::Error::custom)
}

struct Texts;

impl<'de> Visitor<'de> for Texts {
    type Value = Vec<String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text or a list of texts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(vec![text.to_owned()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<String>, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = items.next_element()? {
            texts.push(text);
        }
        Ok(texts)
    }
}

pub fn size_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    deserializer.deserialize_any(Size).map(Some)
}

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

struct Size;

impl Visitor<'_> for Size {
    type Value = u64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("bytes, as a number or like \"100M\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        size::parse(text).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| E::custom("a size is not negative"))
    }
}
