//! Values of a config file that TOML has no type for: one or many texts, addresses, sizes, times.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use forebay_command::size;
use forebay_serve::nbd::NbdAddress;
use serde::Deserializer;
use serde::de::{self, SeqAccess, Visitor};

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

pub fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    deserializer.deserialize_any(Seconds).map(Some)
}

struct Seconds;

impl Visitor<'_> for Seconds {
    type Value = Duration;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number of seconds")
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Duration, E> {
        let is_no_time = |_| E::custom("a number of seconds is 0 or more, and not too large");
        Duration::try_from_secs_f64(number).map_err(is_no_time)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Duration, E> {
        self.visit_f64(number as f64)
    }
}
