//! Named one-line faults of the buffer's protocol, for checking the crash checker.

forebay::mutants! {
    /// A fault: one changed line.
    pub enum Mutant {
        /// What takes a name away is recorded after it is done.
        FilesNameRecordedAfter,
        /// Inodes are known by their numbers alone.
        FilesIdentityWithoutProof,
        /// The log is trimmed before the backing is synced.
        FilesTrimmedBeforeSync,
    }
}
