//! What was acknowledged: of each key its newest version that an engine vouched for, and the newest that it was asked
//! for. Whatever is between the two may be there or not; anything older is a loss.

use std::collections::BTreeMap;

use crate::cluster::workload::Workload;

/// Versions count from 1; version 0 is that nothing was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub acknowledged: u32,
    pub attempted: u32,
}

/// What a key has, beside what it has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    AsAcknowledged,
    /// There is nothing.
    Missing,
    /// What was acknowledged before.
    Older,
    /// Bytes that were never written there.
    Foreign,
}

/// Keys with their entries.
#[derive(Clone, Debug, Default)]
pub struct Manifest(BTreeMap<String, Entry>);

impl Manifest {
    /// A version is about to be asked for.
    pub fn attempt(&mut self, key: &str, version: u32) {
        let entry = self.0.entry(key.to_owned()).or_default();
        assert!(entry.attempted < version, "{key}: versions only grow");
        entry.attempted = version;
    }

    /// The newest version that was asked for is acknowledged.
    pub fn acknowledge(&mut self, key: &str) {
        let entry = self.0.get_mut(key).expect("it was attempted");
        entry.acknowledged = entry.attempted;
    }

    /// The newest version that was asked for.
    pub fn attempted(&self, key: &str) -> u32 {
        self.0.get(key).map_or(0, |entry| entry.attempted)
    }

    /// Takes in what another client did. Versions only grow, so of each key the greater ones count.
    pub fn absorb(&mut self, other: Manifest) {
        for (key, theirs) in other.0 {
            let ours = self.0.entry(key).or_default();
            ours.acknowledged = ours.acknowledged.max(theirs.acknowledged);
            ours.attempted = ours.attempted.max(theirs.attempted);
        }
    }

    /// Those of which something was acknowledged.
    pub fn acknowledged(&self) -> impl Iterator<Item = (&str, Entry)> {
        let all = self.0.iter().map(|(key, entry)| (key.as_str(), *entry));
        all.filter(|(_, entry)| entry.acknowledged > 0)
    }

    /// What `found` is, of a key with this entry.
    pub fn classify(workload: Workload, key: &str, entry: Entry, found: Option<&[u8]>) -> Finding {
        let is = |version: u32| workload.content(key, version).as_deref() == found;
        if (entry.acknowledged..=entry.attempted).any(is) {
            return Finding::AsAcknowledged;
        }
        match found {
            None => Finding::Missing,
            Some(_) if (1..entry.acknowledged).rev().any(is) => Finding::Older,
            Some(_) => Finding::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manifest: &Manifest, key: &str) -> Entry {
        let found = manifest.acknowledged().find(|(known, _)| *known == key);
        found.expect("acknowledged").1
    }

    #[test]
    fn what_was_acknowledged_has_to_be_there_and_what_was_asked_for_may_be() {
        let mut manifest = Manifest::default();
        for version in 1..=2 {
            manifest.attempt("a", version);
            manifest.acknowledge("a");
        }
        manifest.attempt("a", 3);
        manifest.attempt("b", 1);
        assert_eq!(manifest.acknowledged().count(), 1, "b never was");
        let entry = entry(&manifest, "a");
        assert_eq!((entry.acknowledged, entry.attempted), (2, 3));
        let value = |version| Workload::Puts.content("a", version);
        let classify = |found: Option<Vec<u8>>| {
            Manifest::classify(Workload::Puts, "a", entry, found.as_deref())
        };
        assert_eq!(classify(value(2)), Finding::AsAcknowledged);
        assert_eq!(classify(value(3)), Finding::AsAcknowledged);
        assert_eq!(classify(value(1)), Finding::Older);
        assert_eq!(classify(value(4)), Finding::Foreign);
        assert_eq!(classify(None), Finding::Missing);
    }

    #[test]
    fn what_was_removed_must_not_come_back() {
        let workload = Workload::Mail;
        let removed = Entry {
            acknowledged: 4,
            attempted: 4,
        };
        let key = "c0-1";
        let classify = |entry, found: Option<Vec<u8>>| {
            Manifest::classify(workload, key, entry, found.as_deref())
        };
        assert_eq!(classify(removed, None), Finding::AsAcknowledged);
        assert_eq!(classify(removed, workload.content(key, 3)), Finding::Older);
        let perhaps = Entry {
            acknowledged: 3,
            attempted: 4,
        };
        assert_eq!(classify(perhaps, None), Finding::AsAcknowledged);
        assert_eq!(
            classify(perhaps, workload.content(key, 3)),
            Finding::AsAcknowledged
        );
        assert_eq!(classify(perhaps, workload.content(key, 2)), Finding::Older);
    }
}
