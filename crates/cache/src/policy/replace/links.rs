//! A doubly linked list over entry indices, 8 bytes an entry.

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// Marks an entry that is not in the list, in its `newer` link.
const ABSENT: u32 = u32::MAX - 1;

#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
}

/// Entries `0..capacity` from the newest to the oldest, each in the list or not. Every operation takes
/// constant time.
pub struct Links {
    links: Box<[Link]>,
    newest: u32,
    oldest: u32,
    len: usize,
}

impl Links {
    /// An empty list.
    ///
    /// # Panics
    /// There are more entries than it can number.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        assert!(
            capacity < ABSENT as usize,
            "{capacity} entries cannot be numbered"
        );
        let absent = Link {
            newer: ABSENT,
            older: NONE,
        };
        Self {
            links: vec![absent; capacity].into_boxed_slice(),
            newest: NONE,
            oldest: NONE,
            len: 0,
        }
    }

    /// How many entries are in the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no entry is in the list.
    #[must_use]
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn dram_bytes(&self) -> u64 {
        size_of_val(&*self.links) as u64
    }

    pub(super) fn contains(&self, entry: u32) -> bool {
        self.links[entry as usize].newer != ABSENT
    }

    pub(super) fn oldest(&self) -> u32 {
        self.oldest
    }

    /// The next newer entry, or [`NONE`].
    pub(super) fn newer(&self, entry: u32) -> u32 {
        self.links[entry as usize].newer
    }

    /// Puts an absent entry in front.
    pub(super) fn push_newest(&mut self, entry: u32) {
        assert!(
            !self.contains(entry),
            "entry {entry} is in the list already"
        );
        self.links[entry as usize] = Link {
            newer: NONE,
            older: self.newest,
        };
        match self.newest {
            NONE => self.oldest = entry,
            newest => self.links[newest as usize].newer = entry,
        }
        self.newest = entry;
        self.len += 1;
    }

    /// Puts an entry in front, whether or not it was in the list.
    pub fn touch(&mut self, entry: u32) {
        self.remove(entry);
        self.push_newest(entry);
    }

    /// Takes an entry out; nothing happens if it is not in the list.
    pub fn remove(&mut self, entry: u32) {
        if !self.contains(entry) {
            return;
        }
        let Link { newer, older } = self.links[entry as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        self.links[entry as usize] = Link {
            newer: ABSENT,
            older: NONE,
        };
        self.len -= 1;
    }

    /// The entries from the oldest on.
    pub fn oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        let present = |entry: u32| (entry != NONE).then_some(entry);
        std::iter::successors(present(self.oldest), move |&entry| {
            present(self.newer(entry))
        })
    }
}
