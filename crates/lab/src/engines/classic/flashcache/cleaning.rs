//! Which thread cleans, and what a write lacked where that is the cleaner.

/// When dirty blocks are cleaned, and by which thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Cleaning {
    /// By the writer, above the set's threshold and where a set is dirty throughout.
    AsPrinted,
    /// By the cleaner: a writer that lacks room asks for it.
    InBackground,
    /// By the writer, which holds the cleaner off, where a set is dirty throughout.
    Alone,
}

/// What a write found no room in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Lacking {
    pub(in super::super) set: usize,
    /// Slots of it that are to be clean or free.
    pub(in super::super) slots: u64,
    /// The set can never have so many at once, or nearly.
    pub(in super::super) is_too_many: bool,
}
