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

/// Entries from the newest to the oldest.
pub(super) struct Links {
    links: Box<[Link]>,
    newest: u32,
    oldest: u32,
    len: usize,
}

impl Links {
    pub(super) fn new(capacity: usize) -> Self {
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

    pub(super) fn len(&self) -> usize {
        self.len
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

    /// Takes a present entry out.
    pub(super) fn remove(&mut self, entry: u32) {
        assert!(self.contains(entry), "entry {entry} is not in the list");
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
}
