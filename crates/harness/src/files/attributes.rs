//! Attributes of an inode: what of them is durable, and what a crash may leave.

use super::tree::Node;

/// Bits that have a program run with other rights than its user's.
const SET_ID_BITS: u32 = 0o6000;

/// What is durable, and each later one, any of which a crash may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Versions<T> {
    durable: T,
    later: Vec<T>,
}

impl<T: PartialEq + Copy> Versions<T> {
    fn all(&self) -> impl Iterator<Item = T> {
        self.later.iter().copied().chain([self.durable])
    }
}

impl<T: PartialEq> Versions<T> {
    fn new(durable: T) -> Versions<T> {
        Versions {
            durable,
            later: Vec::new(),
        }
    }

    fn current(&self) -> &T {
        self.later.last().unwrap_or(&self.durable)
    }

    fn add(&mut self, version: T, durable: bool) {
        match durable {
            true => *self = Versions::new(version),
            false => self.later.push(version),
        }
    }

    fn sync(&mut self) {
        if let Some(newest) = self.later.pop() {
            self.durable = newest;
            self.later.clear();
        }
    }

    fn allows(&self, found: &T) -> bool {
        self.durable == *found || self.later.contains(found)
    }
}

/// A capability, which a change of the content takes, at once or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Capability {
    Never,
    /// It was given, and waits for a sync.
    Given,
    Durable,
    Unknown,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    is_file: bool,
    modes: Versions<u32>,
    /// Modes that the log may tell beside those: then what both allow is left.
    told_modes: Vec<u32>,
    owners: Versions<u32>,
    extended: Versions<Option<Vec<u8>>>,
    capability: Capability,
    /// Changed past the log: what is changed later waits for a sync, too.
    is_loose: bool,
    /// Others changed it and did not say so: a sync of the inode may know nothing of that.
    is_others: bool,
}

impl Attributes {
    /// What was made or found, durably.
    pub(super) fn new(is_file: bool, mode: u32, owner: u32) -> Attributes {
        Attributes {
            is_file,
            modes: Versions::new(mode),
            told_modes: Vec::new(),
            owners: Versions::new(owner),
            extended: Versions::new(None),
            capability: Capability::Never,
            is_loose: false,
            is_others: false,
        }
    }

    pub(super) fn of(is_file: bool, found: &Node) -> Attributes {
        Attributes {
            extended: Versions::new(found.extended.clone()),
            capability: match found.has_capability {
                true => Capability::Durable,
                false => Capability::Never,
            },
            ..Attributes::new(is_file, found.mode, found.owner)
        }
    }

    fn is_recorded(&self) -> bool {
        !self.is_loose && !self.is_others
    }

    pub(super) fn set_mode(&mut self, mode: u32) {
        self.is_loose = true;
        self.modes.add(mode, false);
    }

    pub(super) fn others_mode(&mut self, mode: u32) {
        self.is_others = true;
        self.modes.add(mode, false);
    }

    pub(super) fn change_mode(&mut self, mode: u32) {
        self.is_loose |= self.is_file && mode & SET_ID_BITS != 0;
        self.modes.add(mode, self.is_recorded());
    }

    pub(super) fn change_owner(&mut self, owner: u32) {
        let mode = *self.modes.current();
        if self.is_file && mode & SET_ID_BITS != 0 {
            self.is_loose = true;
            self.modes.add(mode & !SET_ID_BITS, false);
        }
        if self.capability != Capability::Never {
            self.is_loose = true;
            self.capability = Capability::Unknown;
        }
        self.owners.add(owner, self.is_recorded());
    }

    pub(super) fn set_extended(&mut self, value: Option<Vec<u8>>, is_recorded: bool) {
        self.is_loose |= !is_recorded;
        self.extended.add(value, self.is_recorded());
    }

    pub(super) fn has_extended(&self) -> bool {
        self.extended.current().is_some()
    }

    pub(super) fn give_capability(&mut self) {
        self.capability = Capability::Given;
    }

    pub(super) fn written(&mut self) {
        if self.capability != Capability::Never {
            self.capability = Capability::Unknown;
        }
    }

    /// A change under way may have happened or not.
    pub(super) fn loosen(&mut self) {
        self.is_loose = true;
    }

    /// The inode is synced.
    pub(super) fn sync(&mut self) {
        if self.capability == Capability::Given {
            self.capability = Capability::Durable;
        }
        if !self.is_others {
            self.settle();
        }
    }

    /// All that the backing has is durable; the log may tell what was before.
    pub(super) fn backing_synced(&mut self) {
        if self.is_loose || self.is_others {
            self.told_modes.extend(self.modes.all());
            self.modes.sync();
            self.owners.sync();
            self.extended.sync();
        }
        if self.capability == Capability::Given {
            self.capability = Capability::Durable;
        }
    }

    /// What it has now is all there is: the log tells nothing else.
    pub(super) fn settle(&mut self) {
        self.backing_synced();
        self.modes.sync();
        self.told_modes.clear();
        (self.is_loose, self.is_others) = (false, false);
    }

    pub(super) fn allows_mode(&self, found: u32) -> bool {
        let is_narrowed = || {
            let with = |one| move |other| (one, other);
            let others = || self.modes.all().chain(self.told_modes.iter().copied());
            let mut pairs = self.modes.all().flat_map(|one| others().map(with(one)));
            // Those of others than the owner go where the owner changes.
            pairs.any(|(one, other)| {
                [0o777, 0o700]
                    .map(|bits| one & other & bits)
                    .contains(&found)
            })
        };
        let may_be_narrowed = !self.is_recorded() || !self.told_modes.is_empty();
        self.modes.allows(&found) || may_be_narrowed && is_narrowed()
    }

    /// Whether a crash may leave this.
    pub(super) fn allows(&self, found: &Node) -> Result<(), String> {
        if !self.allows_mode(found.mode) {
            return Err(format!("mode {:o}, not of {self:?}", found.mode));
        }
        if !self.owners.allows(&found.owner) {
            return Err(format!("owner {}, not of {:?}", found.owner, self.owners));
        }
        if !self.extended.allows(&found.extended) {
            let len = found.extended.as_ref().map(Vec::len);
            return Err(format!(
                "an extended attribute of {len:?} bytes that it must not have"
            ));
        }
        match (self.capability, found.has_capability) {
            (Capability::Never, true) => Err(String::from("a capability that nobody gave it")),
            (Capability::Durable, false) => Err(String::from("its capability is lost")),
            _ => Ok(()),
        }
    }
}
