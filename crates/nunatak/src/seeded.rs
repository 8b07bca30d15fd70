//! Seeded bugs. A test build (`--cfg nunatak_seeded_bugs`) can switch off each re-check, transition
//! and ordering that a protocol rests on, one at a time, so that the suite shows that a test fails
//! for each. In every other build the switch is the constant `false`.

/// A step of a protocol that a test build can leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs, reason = "each is described where it is consulted")]
#[cfg_attr(not(nunatak_seeded_bugs), allow(unreachable_pub))]
#[cfg_attr(not(durable), allow(dead_code, reason = "some are of files, which are not there"))]
pub enum Bug {
    HitWithoutHeaderRecheck = 1,
    MissWithoutHeaderRecheck,
    PublishBeforeValue,
    PublishWithoutCas,
    FreeWithoutVersion,
    ScanIgnoresPending,
    MissDuringTransfer,
    TransferWithoutKilling,
    TransferReadsThenReplaces,
    TransferSkipsLinks,
    TransferDoneBeforeCopy,
    RemoveForgetsRelease,
    RemoveByStaleValue,
    RollbackForgotten,
    SnapshotWithoutGrace,
    SnapshotWithoutMarking,
    ReclaimWithoutGrace,
    ReclaimUnderGuard,
    ShadowedResidue,
    DelegateLosesPairs,
    PublishRelaxed,
    MovedRelaxed,
    HeaderRecheckRelaxed,
    ClaimBeforeLink,
    HiddenWithoutRecheck,
    ShownBeforeValue,
    HiddenNotMoved,
    HiddenIgnored,
    FingerprintTakesLock,
    TagBeforeFingerprint,
    TagBeforeValue,
    FingerprintClearedFirst,
    PairInTwoLoads,
    FullerBlockChosen,
    MissWithoutStateRecheck,
    AbsentWithoutStateRecheck,
    LockWithoutStateRecheck,
    BackLockWithoutStateRecheck,
    PutBackAtOnceInAnyState,
    ChangedBackAtOnceInAnyState,
    NewPlaceBeforeOld,
    MoveErasesFirst,
    SettleForgotten,
    SettleWithoutLock,
    CountedBeforeMoved,
    ChainedWithoutMark,
    MarkNotInherited,
    FrontMarkForgotten,
    FrontMarkNotInherited,
    ReleaseWithoutGrace,
    InsertUnflushed,
    InsertUnfenced,
    ReplaceUnflushed,
    ReplaceUnfenced,
    RemoveUnflushed,
    RemoveUnfenced,
    VacateUnflushed,
    VacateUnfenced,
    ChainUnflushed,
    ChainUnfenced,
    RootUnflushed,
    RootUnfenced,
    ExtentUnflushed,
    ReadUnpersisted,
    BatchReadsLeftovers,
    MovedAtOnce,
    CleanWithoutBarrier,
    LeftoverOutlivesRemoval,
    LeftoverOutlivesUpdate,
    JournalUnsynced,
    JournalNotEnded,
    JournalEndsEarly,
    JournalTornRepeated,
    JournalAlwaysRepeated,
    LeftoverOverwritten,
    MendWithoutBarrier,
    DoubledKept,
    BehindRowsKept,
    SyncOmitted,
    EntryNotAskedAgain,
    ElsewhereNotAskedAgain,
    EntryNotCompared,
    TornPairReturned,
    UnpublishedPairReturned,
    DescriptorNotAskedAgain,
    BehindNotAskedAgain,
    WayUnmarked,
    ChangedUncopied,
    FrozenIgnored,
    LockedWithAnyDescriptor,
    LockedWithoutEntry,
    StashForgotten,
    SecondUnflagged,
    SecondUnlocked,
    ChainedNotInherited,
    VersionNotAskedAgain,
    SecondVersionNotAsked,
    PointersMovedAsValues,
    BuffersNotFreed,
    LastValueLost,
    TornVersionsKept,
    VersionOverwritten,
    EpochBeforeBarrier,
    EpochUnsynced,
    SumsAfterBarrier,
    FoundPagesNotSummed,
    FailureUnmarked,
    DescriptorUnflushed,
    ChildrenUnfenced,
    ParentUnfenced,
    ParentForgottenFirst,
    StashNotRestored,
    ShallowestNotTaken,
    BufferUnflushed,
    BufferUnfenced,
    LogUnflushed,
    LogUnfenced,
    LogNotEmptied,
    LogNotRepeated,
    CompactedUnlogged,
    HoleUnlogged,
    RemovedUnlogged,
    BuffersNotFound,
    RunUnflushed,
    RunUnfenced,
    DescriptorUnfenced,
    WayNotRestored,
    PlaceNotKept,
    BlobUnflushed,
    BlobUnfenced,
    BlobsNotFound,
    RootPairUnflushed,
    ChangedPageNotCopied,
    SettledPageNotCopied,
    UndoUnflushed,
    UndoUnfenced,
    UndoLengthUnfenced,
    UndoNotEmptied,
    BatchNotTakenBack,
    EpochReadAfterLook,
    LateTagsFreed,
    SameEpochFreed,
    TagByLoad,
    LookWithoutBarrier,
    SeenTakenForUnseen,
    NumberOutlivedByGuard,
    AnnouncedWithoutBarrier,
    GuardEndsRelaxed,
    SealedInUse,
    SealLooksRelaxed,
    SealedSeenRelaxed,
    UseEndsRelaxed,
    UseLeavesVersion,
    SmallChangedAfterGrowth,
    GrownFromStaleCopy,
    GrownTablePublishedRelaxed,
    SmallMissNotValidated,
    SchemaNotCompared,
    WidthNotCompared,
    UndecodableReplaced,
    TicketsTakenAfterSync,
    KeyNotKept,
    KeyForgottenWithValue,
}

#[cfg(nunatak_seeded_bugs)]
mod active {
    use super::Bug;
    use core::sync::atomic::{AtomicUsize, Ordering};

    static ACTIVE: AtomicUsize = AtomicUsize::new(0);

    /// Switches one bug on for the whole process, or all off.
    pub fn seed(bug: Option<Bug>) {
        ACTIVE.store(bug.map_or(0, |bug| bug as usize), Ordering::SeqCst);
    }

    pub(crate) fn seeded(bug: Bug) -> bool {
        ACTIVE.load(Ordering::Relaxed) == bug as usize
    }
}

#[cfg(nunatak_seeded_bugs)]
pub use active::seed;
#[cfg(nunatak_seeded_bugs)]
pub(crate) use active::seeded;

/// Whether this step is left out: never outside of a test build.
#[cfg(not(nunatak_seeded_bugs))]
#[inline(always)]
pub(crate) const fn seeded(_bug: Bug) -> bool {
    false
}
