//! Deliberate defects, to prove that the tests would find real ones.
//!
//! With the feature `sabotage`, and only then, a defect can be chosen: by the environment variable `SEAWALL_SABOTAGE`, or by
//! `activate`. Each is one line somewhere real, where [`sabotaged`]
//! is asked, or two where a step changes places. `seawall-torture sabotage` runs the tests
//! with one defect after the other. Without the feature the question is a constant, and nothing of this is in the program.

#[cfg(feature = "sabotage")]
use std::sync::OnceLock;
#[cfg(feature = "sabotage")]
use std::sync::atomic::{AtomicU8, Ordering};

/// Names the defect that a process has. Empty is like absent.
#[cfg(feature = "sabotage")]
pub const VARIABLE: &str = "SEAWALL_SABOTAGE";

/// The one list: crate, variant, name, what is broken, and what that should break.
macro_rules! defects {
    ($($package:literal { $($variant:ident $name:literal $broken:literal => $breaks:literal,)* })*) => {
        /// One thing that is broken on purpose. Each says what is broken, then what should come of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Defect {
            $($(
                #[doc = concat!("`", $name, "`: ", $broken, ". ", $breaks, ".")]
                $variant,
            )*)*
        }

        #[cfg(feature = "sabotage")]
        impl Defect {
            /// All of them, by crate.
            pub const ALL: &[Defect] = &[$($(Defect::$variant),*),*];

            /// As on the command line and in `SEAWALL_SABOTAGE`.
            pub const fn name(self) -> &'static str {
                match self { $($(Defect::$variant => $name,)*)* }
            }

            /// The crate that is broken.
            pub const fn package(self) -> &'static str {
                match self { $($(Defect::$variant => $package,)*)* }
            }

            /// What is broken.
            pub const fn broken(self) -> &'static str {
                match self { $($(Defect::$variant => $broken,)*)* }
            }

            /// What should come of it.
            pub const fn breaks(self) -> &'static str {
                match self { $($(Defect::$variant => $breaks,)*)* }
            }
        }
    };
}

defects! {
    "seawall-io" {
        OsDirectorySyncSkipped "os-directory-sync-skipped"
            "directories of the operating system are not synced"
            => "New names are lost with the power",
        OsFileSyncSkipped "os-file-sync-skipped"
            "files of the operating system are not synced"
            => "Pages and superblocks are lost with the power",
        OsDurableWriteBuffered "os-durable-write-buffered"
            "durable writes of the operating system are not durable"
            => "Acknowledged commits are lost with the power",
        OsFallbackNotSynced "os-fallback-not-synced"
            "where the kernel refuses to write and sync in one call, no sync follows the write"
            => "Acknowledged commits are lost with the power, on such file systems",
    }
    "seawall-wal" {
        FlushNotDurable "flush-not-durable"
            "a flush of the log writes and does not sync"
            => "Acknowledged commits are lost with the power",
        FlushedBeforeWrite "flushed-before-write"
            "the flushed LSN moves before the batch is written"
            => "Commits are acknowledged that are not durable",
        SegmentNameNotSynced "segment-name-not-synced"
            "segments are offered without a sync of the directory"
            => "Records are lost with the name of their segment",
        RecycledBeforeNameSynced "recycled-before-name-synced"
            "recycled segments are offered before the sync of the directory"
            => "Records written meanwhile are lost with the name of their segment",
        RecycledHeaderNotSynced "recycled-header-not-synced"
            "the header of a recycled segment is not synced before it is renamed"
            => "After a power loss a segment has the header of another place",
        BegunMarkNotWritten "begun-mark-not-written"
            "a segment does not say that the log has come to it"
            => "Its content is not looked at for evidence of damage, nor zeroed when it is used again",
        TornTailOffByOne "torn-tail-off-by-one"
            "a record of the very batch that was torn off is evidence of damage"
            => "A torn tail is refused as damage",
        DamageTakenForTornTail "damage-taken-for-torn-tail"
            "later records are no evidence of damage"
            => "A damaged log is taken for a short one, and commits are dropped in silence",
        RecordChecksumNotChecked "record-checksum-not-checked"
            "a record counts whatever its checksum says"
            => "Torn records are replayed",
        BatchStartForgotten "batch-start-forgotten"
            "each record says that it begins its batch"
            => "A torn tail is refused as damage",
        TailNotZeroed "tail-not-zeroed"
            "what lies behind the end of the log is not zeroed at open"
            => "Records that were given up come back when the log has grown up to them",
        PendingNotZeroed "pending-not-zeroed"
            "the pending files are not zeroed at open"
            => "Records that were given up come back",
        PendingSlotNotWritten "pending-slot-not-written"
            "a pending file does not say where its records belong"
            => "Acknowledged `Async` commits are lost with a kill",
        LongAsyncNotFlushed "long-async-not-flushed"
            "an `Async` commit does not wait for a long record before it"
            => "It is lost with a kill though it was acknowledged",
        LastBatchNotWrittenAgain "last-batch-not-written-again"
            "the last batch that a process before has written is not made durable at open"
            => "What was seen after a kill is lost with the power",
        SegmentRemovedTooEarly "segment-removed-too-early"
            "the oldest segment that is needed is cleaned up, too"
            => "Recovery finds its first segment missing",
        HoldIgnored "hold-ignored"
            "the cleaner goes by the redo point alone"
            => "The log that somebody holds is removed",
        HoldsNotSynced "holds-not-synced"
            "the file of holds is not synced"
            => "After a power loss a hold is missing, or lost without a word",
        HistoryNotSynced "history-not-synced"
            "the history file of a timeline is renamed and was never synced"
            => "After a power loss the timeline has no history",
    }
    "seawall-engine" {
        LocksReleasedEarly "locks-released-early"
            "row locks are released before the commit is in the log"
            => "Updates are lost",
        VisibleBeforeFlushed "visible-before-flushed"
            "commits are visible before they are durable"
            => "Others see what the power may take",
        VisibleBeforeApplied "visible-before-applied"
            "commits are visible before they are in the memtable"
            => "Snapshots change under their readers",
        PagesBeforeLog "pages-before-log"
            "a checkpoint waits neither for the flush of the log nor for what is visible"
            => "Pages hold commits that the power takes from the log",
        RedoPointTooEarly "redo-point-too-early"
            "the redo point moves before the last chunk"
            => "The system rows of a checkpoint are lost in a crash",
        SystemRowsDropped "system-rows-dropped"
            "the last chunk moves the redo point and leaves the system rows out"
            => "Tables vanish",
        HorizonIgnoresSnapshots "horizon-ignores-snapshots"
            "versions are dropped although a snapshot sees them"
            => "Snapshots change under their readers",
        ReplacedValueNotKept "replaced-value-not-kept"
            "a merge does not keep what it replaces for snapshots"
            => "Snapshots change under their readers",
        RangeNotValidated "range-not-validated"
            "ranges that a serializable transaction has read are not validated"
            => "Phantoms: write skew under `Serializable`",
        FirstUpdaterWinsNot "first-updater-wins-not"
            "a row that was changed since the snapshot can be written"
            => "Updates are lost",
        CutUnderSnapshot "cut-under-snapshot"
            "a dropped table is cut out although a snapshot sees it"
            => "Snapshots change under their readers",
        ReclaimForgottenEarly "reclaim-forgotten-early"
            "the row of `reclaim` is deleted before the redo point has passed the drop"
            => "A replay brings rows back that nobody reclaims",
        PreparedNotWritten "prepared-not-written"
            "transactions in doubt do not become rows at the freeze"
            => "They are lost in a crash",
        PreparedLocksForgotten "prepared-locks-forgotten"
            "the locks of transactions in doubt are not taken again at open"
            => "Others write their rows",
        PreparedReadsForgotten "prepared-reads-forgotten"
            "what a serializable transaction in doubt has read is not protected"
            => "It is committed though it can be placed nowhere",
        NextTableForgotten "next-table-forgotten"
            "a replay does not advance the next table's number"
            => "Two tables have one place",
        DecisionNotDurable "decision-not-durable"
            "a decision is answered before it is durable"
            => "The coordinator is told of an outcome that the power takes back",
        CommitNotDurable "commit-not-durable"
            "a `Sync` commit returns when it is logged"
            => "Acknowledged commits are lost with the power",
        BulkLoadNotSynced "bulk-load-not-synced"
            "pages of a bulk load are not synced before a chunk refers to them"
            => "A loaded table is damaged after a power loss",
    }
    "seawall-archive-agent" {
        SpoolNotesNotSynced "spool-notes-not-synced"
            "the note of segments that were left out is renamed and was never synced"
            => "After a power loss a gap in PostgreSQL's archive is on record nowhere",
    }
    "seawall-backup" {
        RestoredFilesNotSynced "restored-files-not-synced"
            "the files of a restored PostgreSQL cluster are not synced"
            => "After a power loss the cluster starts with empty relations",
        RestoredControlNotSynced "restored-control-not-synced"
            "the directory of `pg_control` is not synced before the marker of the restore goes"
            => "After a power loss nobody can tell a restored directory from any other one",
    }
    "seawall-tree" {
        ImagesBeforeSync "images-before-sync"
            "several threads write images before the page file is synced"
            => "Torn pages have no other copy",
        SyncedBeforeWritten "synced-before-written"
            "the page file is synced before the thread has ended that writes the last chunk in place"
            => "Torn pages have no other copy",
        OverlayDroppedEarly "overlay-dropped-early"
            "readers stop looking at a chunk's images while a thread still writes them in place"
            => "Readers see old or torn pages",
        RegionPiecesOverlap "region-pieces-overlap"
            "the second piece of a region of the recovery file begins before the end of the first"
            => "A crash in a chunk of the default size leaves a database that does not open",
        NewMapPageRefused "new-map-page-refused"
            "a page of the space map that is not there yet is taken for damage"
            => "The database stops when it needs its second map page",
        NewMapPageNotLinked "new-map-page-not-linked"
            "a page of the space map does not say that there is a next one"
            => "Pages in use are handed out again after a restart",
        RecoveryFileNotSynced "recovery-file-not-synced"
            "pages are overwritten in place before the recovery file is synced"
            => "Torn pages have no other copy",
        FreshPagesNotSynced "fresh-pages-not-synced"
            "new pages are not synced before a chunk that refers to them is committed"
            => "The tree refers to pages that the power took",
        PagesNotSyncedBetweenChunks "pages-not-synced-between-chunks"
            "the page file is not synced before the recovery file is used for the next chunk"
            => "Torn pages have no other copy",
        SuperblockBeforePages "superblock-before-pages"
            "the superblock says that a chunk is in place before the page file is synced"
            => "Torn pages are not written again",
        SuperblockOneCopy "superblock-one-copy"
            "the superblock is always written over the same copy"
            => "A torn superblock leaves none, or an old one",
        ChunkNotAppliedAgain "chunk-not-applied-again"
            "a committed chunk is not written again at open"
            => "The tree is a mixture of two",
        HalfChunkApplied "half-chunk-applied"
            "an incomplete recovery file is applied"
            => "The tree is a mixture of two, or does not open",
        ChunkNotWrittenAgain "chunk-not-written-again"
            "a chunk that was found at open is applied before it is durable for sure"
            => "A power loss behind a kill leaves torn pages without another copy",
        FreedPagesUsedAtOnce "freed-pages-used-at-once"
            "pages that a chunk frees are taken by the same chunk"
            => "Pages of the last durable tree are overwritten",
        FreedPagesWrittenUnsynced "freed-pages-written-unsynced"
            "pages that the last chunk freed are written before that chunk is durable in place"
            => "A damaged chunk cannot be told from one that never was",
        PunchedBeforeSync "punched-before-sync"
            "freed pages are punched out of the file before the chunk is durable in place"
            => "A damaged chunk cannot be told from one that never was",
        StaleCache "stale-cache"
            "the cache keeps old images when a chunk is published"
            => "Readers see an old tree",
        VersionNotChecked "version-not-checked"
            "readers do not look whether the tree has changed under them"
            => "Readers see parts of two trees",
        PageChecksumNotChecked "page-checksum-not-checked"
            "the checksum of a page is not verified"
            => "Damaged pages are believed",
        PageMarkNotChecked "page-mark-not-checked"
            "an older image of a page is taken for the one that the tree refers to"
            => "What a lost write has left is believed",
        SpaceMapBitsLost "space-map-bits-lost"
            "the bits of the first pages that a chunk takes are not written"
            => "Pages in use are handed out again after a restart",
    }
    "seawall-keys" {
        NoncesShort "nonces-short"
            "four bytes of each nonce are drawn, and the others are zero"
            => "Nonces repeat, and encrypted messages give each other away",
        KeysNameNotSynced "keys-name-not-synced"
            "the directory is not synced when the keys file is replaced"
            => "After a power loss the old master key is asked for",
    }
    "seawall-memtable" {
        FilterForgets "filter-forgets"
            "a memtable's filter and directory do not hear of one row in 64"
            => "A committed row is not found",
    }
}

/// Whether this is broken. Without the feature, never.
#[cfg(not(feature = "sabotage"))]
#[inline(always)]
pub const fn sabotaged(_: Defect) -> bool {
    false
}

/// Whether this is broken.
#[cfg(feature = "sabotage")]
#[inline]
pub fn sabotaged(defect: Defect) -> bool {
    // Relaxed: set before the threads that ask are started.
    active_number().load(Ordering::Relaxed) == defect as u8
}

/// Breaks this from now on, or nothing, whatever the environment says. For a whole process.
#[cfg(feature = "sabotage")]
pub fn activate(defect: Option<Defect>) {
    active_number().store(defect.map_or(NONE, |defect| defect as u8), Ordering::Relaxed);
}

#[cfg(feature = "sabotage")]
const NONE: u8 = u8::MAX;

#[cfg(feature = "sabotage")]
fn active_number() -> &'static AtomicU8 {
    static ACTIVE: OnceLock<AtomicU8> = OnceLock::new();
    ACTIVE.get_or_init(|| AtomicU8::new(chosen().map_or(NONE, |defect| defect as u8)))
}

/// What the environment says.
///
/// # Panics
/// If there is no such defect: a misspelt one must not pass for one that was not found.
#[cfg(feature = "sabotage")]
fn chosen() -> Option<Defect> {
    let name = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty())?;
    let found = Defect::ALL.iter().copied().find(|defect| defect.name() == name);
    Some(found.unwrap_or_else(|| panic!("{VARIABLE}={name}: there is no such defect")))
}

#[cfg(all(test, feature = "sabotage"))]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_one_defect_is_active_at_a_time() {
        let mut names: Vec<&str> = Defect::ALL.iter().map(|defect| defect.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Defect::ALL.len());
        activate(Some(Defect::ALL[0]));
        assert!(sabotaged(Defect::ALL[0]) && !sabotaged(Defect::ALL[1]));
        activate(None);
        assert!(!sabotaged(Defect::ALL[0]));
    }
}
