//! Named one-line faults of the buffer's protocol, for checking the crash checker.

forebay_pmem::define_mutants! {
    /// A fault: one changed line.
    pub enum Mutant {
        /// The removal of a name is recorded after it is done.
        FilesNameRecordedAfter,
        /// The removal of a name is done in the backing before its record is durable.
        FilesRemovalUnsynced,
        /// The sync of a directory leaves records of names where a power cut may take them.
        FilesDirectorySyncWithoutPool,
        /// The sync of a file that the pool has nothing of does the same.
        FilesSyncWithoutNames,
        /// A file that others may write has left the pool, and a power cut may bring it back.
        FilesLeftUnsynced,
        /// Inodes are known by their numbers alone.
        FilesIdentityWithoutProof,
        /// The log is trimmed before the backing is synced.
        FilesTrimmedBeforeSync,
        /// A file is in the pool before the log knows it.
        FilesNotIntroduced,
        /// What recovery makes anew has its name before the log knows it.
        FilesRemadeUnrecorded,
        /// After a mere kill names are brought to what the log says, as after a power cut.
        FilesKillTakenForPowerCut,
        /// After a power cut names are left as they are, as after a mere kill.
        FilesPowerCutTakenForKill,
        /// The log ends before attributes that it tells of are durable in the backing.
        FilesAttributesRetiredEarly,
        /// An attribute that the log tells of is put over a newer one that it does not tell of.
        FilesOlderAttributeReplayed,
        /// That attributes are settled is said in the next log too, which does not know the inode.
        FilesSettledUnintroduced,
        /// An extended attribute is recorded without its last byte.
        FilesAttributeCutShort,
        /// What others changed of an inode is not looked for when it is changed here.
        FilesOthersChangeIgnored,
        /// What others changed of an inode after the log's last word is undone.
        FilesOthersChangeUndone,
        /// A file gets a capability, or set-id bits, before what was written before is in the backing.
        FilesCapabilityBeforeData,
        /// A file gets its set-id bits before its data.
        FilesSetIdBeforeData,
        /// Owner and mode are not restored after a power cut.
        FilesRightsNotRestored,
        /// A write's transaction does not have the size.
        FilesSizeLeftOut,
        /// What only the page cache has is not absorbed by a sync.
        FilesSyncNotAbsorbed,
        /// A sync leaves what was written to a pool on an SSD where a power cut may take it.
        FilesSyncWithoutPool,
        /// A file that others may have changed is synced without its attributes.
        FilesAttributesLeftOut,
        /// A file that left the pool is still in the table.
        FilesRowKept,
        /// A file that left the pool still has blocks there.
        FilesBlocksKept,
        /// The last block keeps what a cut took away.
        FilesTailKept,
        /// The backing's file is longer than ours: a cut leaves it as it was.
        FilesBackingNotCut,
        /// Write-back does not wait until a cut is durable.
        FilesCutUnsettled,
        /// What went to the page cache counts as there after that was lost.
        FilesPageCacheTrusted,
        /// DATA has a mark that the store of its files does not tell of.
        FilesMarkUnknown,
        /// The file beside a pool is made this pool's before DATA's mark is classified.
        FilesSideTakenUnchecked,
        /// DATA's mark says whole while names are durable in the log only.
        FilesWholeBeforeNames,
        /// A failed sync of the file beside is told to the caller alone that asked for it.
        FilesSideSyncToldOnce,
    }
}
