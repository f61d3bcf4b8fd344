//! An attribute of an inode: what of it is durable, and what it was later.

/// What is durable, and each later one, any of which a crash may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Versions<T> {
    durable: T,
    later: Vec<T>,
}

impl<T: PartialEq> Versions<T> {
    /// It is this, durably.
    pub(super) fn new(durable: T) -> Versions<T> {
        Versions {
            durable,
            later: Vec::new(),
        }
    }

    /// What readers see.
    pub(super) fn current(&self) -> &T {
        self.later.last().unwrap_or(&self.durable)
    }

    /// Another one, that need not survive until the next sync.
    pub(super) fn add(&mut self, version: T) {
        self.later.push(version);
    }

    /// What it is now is durable.
    pub(super) fn sync(&mut self) {
        if let Some(newest) = self.later.pop() {
            self.durable = newest;
            self.later.clear();
        }
    }

    pub(super) fn allows(&self, found: &T) -> bool {
        self.durable == *found || self.later.contains(found)
    }
}

/// The time of modification that a caller chose, in seconds; none for that of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChosenTime {
    versions: Versions<Option<u64>>,
    /// It is in the buffer's log, so that a write replaces it for good.
    is_logged: bool,
}

impl ChosenTime {
    /// It is this, durably in the backing.
    pub(super) fn found(seconds: Option<u64>) -> ChosenTime {
        ChosenTime {
            versions: Versions::new(seconds),
            is_logged: false,
        }
    }

    /// A caller has chosen this, durably.
    pub(super) fn chosen(seconds: u64) -> ChosenTime {
        ChosenTime {
            versions: Versions::new(Some(seconds)),
            is_logged: true,
        }
    }

    /// The content was changed.
    pub(super) fn moved(&mut self) {
        self.versions.add(None);
        if std::mem::take(&mut self.is_logged) {
            self.versions.sync();
        }
    }

    /// It may be whatever it was; what becomes of it is not promised.
    pub(super) fn may_move(&mut self) {
        self.versions.add(None);
        self.is_logged = false;
    }

    /// The log need not have it any more: the backing has.
    pub(super) fn may_be_settled(&mut self) {
        self.is_logged = false;
    }

    pub(super) fn allows(&self, found: Option<u64>) -> bool {
        self.versions.allows(&found)
    }
}
