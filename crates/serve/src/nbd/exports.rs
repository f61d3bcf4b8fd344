//! What a server exports: named disks that may come and go while clients are connected.
//!
//! Removing an export ends its connections once the requests they have sent are answered; no client
//! can open it from that moment on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::block_device::BlockDevice;
use crate::nbd::link::{Link, Links};
use crate::nbd::protocol::STRING_BYTES_MAX;

/// Why an export was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The name is taken.
    #[error("there is an export {name:?} already; choose another name or remove it first")]
    Exists {
        /// The name.
        name: String,
    },
    /// The protocol does not carry it.
    #[error("the {what} of an export may have {STRING_BYTES_MAX} bytes, not {bytes}; shorten it")]
    TooLong {
        /// The name or the description.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
}

/// One exported disk.
pub(crate) struct Export {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) device: Arc<dyn BlockDevice>,
    /// The connections that have it open.
    pub(crate) links: Arc<Links>,
}

/// The disks that a server exports, by name. Shared between the server and the code that adds and
/// removes exports.
#[derive(Default)]
pub struct Exports {
    by_name: Mutex<BTreeMap<String, Arc<Export>>>,
}

impl fmt::Debug for Exports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exports").field(&self.names()).finish()
    }
}

impl Exports {
    /// No exports yet.
    pub fn new() -> Exports {
        Exports::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Export>>> {
        self.by_name.lock()
    }

    /// Exports `device` as `name` from now on. The description is shown in lists of exports, and
    /// may be empty. A client that names no export gets the one that is called "", or the only one.
    ///
    /// # Errors
    /// The name is taken, or a text is longer than the protocol carries (4096 bytes).
    pub fn add(
        &self,
        name: &str,
        description: &str,
        device: Arc<dyn BlockDevice>,
    ) -> Result<(), ExportError> {
        for (what, text) in [("name", name), ("description", description)] {
            if text.len() > STRING_BYTES_MAX {
                return Err(ExportError::TooLong {
                    what,
                    bytes: text.len(),
                });
            }
        }
        let mut by_name = self.lock();
        if by_name.contains_key(name) {
            return Err(ExportError::Exists { name: name.into() });
        }
        let export = Export {
            name: name.into(),
            description: description.into(),
            device,
            links: Arc::default(),
        };
        by_name.insert(name.into(), Arc::new(export));
        Ok(())
    }

    /// Stops exporting `name`; false where there is no such export. Its connections end by
    /// themselves after the requests they have sent; see [`Exports::remove_and_wait`].
    pub fn remove(&self, name: &str) -> bool {
        let removed = self.lock().remove(name);
        if let Some(export) = &removed {
            export.links.close();
        }
        removed.is_some()
    }

    /// As [`Exports::remove`], and waits until the last of its connections has ended, so that the
    /// device is no longer used. Those that have not by the deadline are cut off; what they were
    /// doing is then not answered, and waited for as long again.
    ///
    /// `None` where there is no such export, else whether every connection has ended.
    pub fn remove_and_wait(&self, name: &str, deadline: Duration) -> Option<bool> {
        let links = Arc::clone(&self.lock().remove(name)?.links);
        links.close();
        if links.wait_for_none(deadline) {
            return Some(true);
        }
        links.each(Link::cut);
        Some(links.wait_for_none(deadline))
    }

    /// The names, sorted.
    pub fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// How many connections have `name` open; `None` where there is no such export.
    pub fn connections(&self, name: &str) -> Option<usize> {
        self.lock().get(name).map(|export| export.links.count())
    }

    /// All of them, sorted by name.
    pub(crate) fn all(&self) -> Vec<Arc<Export>> {
        self.lock().values().cloned().collect()
    }

    /// The export that a client means by `name`.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Export>> {
        let by_name = self.lock();
        if let Some(export) = by_name.get(name) {
            return Some(Arc::clone(export));
        }
        match (name, by_name.len()) {
            ("", 1) => by_name.values().next().cloned(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn the_only_export_is_the_default_one() {
        let exports = Exports::new();
        let device = || Arc::new(MemoryDevice::new(4096, 4096));
        exports.add("a", "", device()).unwrap();
        assert_eq!(exports.find("").unwrap().name, "a");
        assert!(exports.find("b").is_none());
        exports.add("b", "", device()).unwrap();
        assert!(exports.find("").is_none());
        exports.add("", "", device()).unwrap();
        assert_eq!(exports.find("").unwrap().name, "");
        assert!(exports.remove("b"));
        assert!(!exports.remove("b"));
        assert_eq!(exports.names(), ["", "a"]);
    }

    #[test]
    fn names_are_unique_and_of_bounded_length() {
        let exports = Exports::new();
        let device = Arc::new(MemoryDevice::new(4096, 4096));
        exports.add("a", "", device.clone()).unwrap();
        let again = exports.add("a", "", device.clone()).unwrap_err();
        assert!(again.to_string().contains("\"a\""), "{again}");
        let long = exports.add("b", &"x".repeat(4097), device).unwrap_err();
        assert!(long.to_string().contains("description"), "{long}");
    }
}
