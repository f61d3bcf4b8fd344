//! The data of options, parsed: every length is checked before it is believed.

use crate::nbd::protocol::STRING_BYTES_MAX;

/// What is left of some bytes.
struct Cursor<'d>(&'d [u8]);

impl<'d> Cursor<'d> {
    fn bytes(&mut self, count: usize) -> Option<&'d [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.bytes(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes(4)?.try_into().ok()?))
    }

    /// A string after its length.
    fn string(&mut self) -> Option<&'d str> {
        let length = usize::try_from(self.u32()?).ok()?;
        if length > STRING_BYTES_MAX {
            return None;
        }
        std::str::from_utf8(self.bytes(length)?).ok()
    }
}

/// The data of INFO and GO.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InfoQuery<'d> {
    pub(crate) name: &'d str,
    /// Kinds of information requested, two bytes each.
    wanted: &'d [u8],
}

impl<'d> InfoQuery<'d> {
    /// `None` where the data is not what its lengths say.
    pub(crate) fn parse(data: &'d [u8]) -> Option<InfoQuery<'d>> {
        let mut cursor = Cursor(data);
        let name = cursor.string()?;
        let count = usize::from(cursor.u16()?);
        let wanted = cursor.bytes(2 * count)?;
        cursor.0.is_empty().then_some(InfoQuery { name, wanted })
    }

    /// Whether this kind is requested.
    pub(crate) fn wants(&self, kind: u16) -> bool {
        self.wanted
            .chunks_exact(2)
            .any(|wanted| wanted == kind.to_be_bytes())
    }
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MetaContextQuery<'d> {
    pub(crate) name: &'d str,
    queries: Vec<&'d str>,
}

impl<'d> MetaContextQuery<'d> {
    /// `None` where the data is not what its lengths say.
    pub(crate) fn parse(data: &'d [u8]) -> Option<MetaContextQuery<'d>> {
        let mut cursor = Cursor(data);
        let name = cursor.string()?;
        let count = cursor.u32()?;
        // Each takes four bytes at least, so a false count is refused here before it costs memory.
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(cursor.string()?);
        }
        cursor
            .0
            .is_empty()
            .then_some(MetaContextQuery { name, queries })
    }

    /// Whether a context is requested by its name.
    pub(crate) fn asks_for(&self, context: &str) -> bool {
        self.queries.contains(&context)
    }

    /// Whether a context belongs in a list: nothing or its namespace or its name is asked for.
    pub(crate) fn lists(&self, context: &str) -> bool {
        let is_listed_by = |query: &&str| {
            *query == context || (query.ends_with(':') && context.starts_with(*query))
        };
        self.queries.is_empty() || self.queries.iter().any(is_listed_by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn string(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
    }

    #[test]
    fn what_is_asked_is_found() {
        let data = [string("disk"), vec![0, 2, 0, 3, 0, 1]].concat();
        let query = InfoQuery::parse(&data).unwrap();
        assert_eq!(query.name, "disk");
        assert!(query.wants(3) && query.wants(1) && !query.wants(0));

        let data = [
            string("d"),
            vec![0, 0, 0, 2],
            string("base:"),
            string("x:y"),
        ]
        .concat();
        let query = MetaContextQuery::parse(&data).unwrap();
        assert!(query.lists("base:allocation") && !query.asks_for("base:allocation"));
        assert!(query.asks_for("x:y") && !query.lists("y:x"));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let good = [string("disk"), vec![0, 1, 0, 3]].concat();
        for end in 0..good.len() {
            assert_eq!(InfoQuery::parse(&good[..end]), None, "cut at {end}");
        }
        assert_eq!(InfoQuery::parse(&[&good[..], &[0]].concat()), None);
        let long = [string(&"x".repeat(4097)), vec![0, 0]].concat();
        assert_eq!(InfoQuery::parse(&long), None);
        let many = [string("d"), vec![0xFF; 4]].concat();
        assert_eq!(MetaContextQuery::parse(&many), None);
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(data in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = InfoQuery::parse(&data);
            let _ = MetaContextQuery::parse(&data);
        }
    }
}
