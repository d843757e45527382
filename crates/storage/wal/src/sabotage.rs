//! The deliberate defects of this crate: see [`seawall_io::sabotage`].

seawall_io::defects! {
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
        "what lies after the end of the log is not zeroed at open"
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
        => "The log that a hold keeps is removed",
    HoldsNotSynced "holds-not-synced"
        "the file of holds is not synced"
        => "After a power loss a hold is missing, or lost without a word",
    HistoryNotSynced "history-not-synced"
        "the history file of a timeline is renamed and was never synced"
        => "After a power loss the timeline has no history",
    ReceivedNotSynced "received-not-synced"
        "a standby acknowledges what it has received and not synced"
        => "After a power loss of both servers, acknowledged commits are missing",
    ReceivedNotVerified "received-not-verified"
        "a record that is received counts whatever its checksum says"
        => "A standby stores, and applies, what the network has damaged",
}
