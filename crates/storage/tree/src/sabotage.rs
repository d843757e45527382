//! The deliberate defects of this crate: see [`seawall_io::sabotage`].

seawall_io::defects! {
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
        => "A power loss after a kill leaves torn pages without another copy",
    FreedPagesUsedAtOnce "freed-pages-used-at-once"
        "pages that a chunk frees are taken by the same chunk"
        => "Pages of the last durable tree are overwritten",
    FreedPagesWrittenUnsynced "freed-pages-written-unsynced"
        "pages that the last chunk freed are written before that chunk is durable in place"
        => "A damaged chunk cannot be distinguished from one that never was",
    PunchedBeforeSync "punched-before-sync"
        "freed pages are punched out of the file before the chunk is durable in place"
        => "A damaged chunk cannot be distinguished from one that never was",
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
    DeletionDroppedInTier "deletion-dropped-in-tier"
        "what says in a run that a row is deleted goes when runs become one"
        => "Deleted rows come back",
    LongValueFreedWithRun "long-value-freed-with-run"
        "what takes rows out of a run frees the long values that went elsewhere with them"
        => "Two rows have the same pages",
    BulkLoadNotSynced "bulk-load-not-synced"
        "pages of a bulk load are not synced before a chunk refers to them"
        => "A loaded table is damaged after a power loss",
}
