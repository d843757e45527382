//! The deliberate defects of this crate: see [`seawall_io::sabotage`].

seawall_io::defects! {
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
        => "A replay brings rows back that are never reclaimed",
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
    RunListedEarly "run-listed-early"
        "a run is listed before the redo point has passed it"
        => "A crash leaves a list that does not go with the superblock",
    RunNotListed "run-not-listed"
        "a checkpoint does not list the run that it has written"
        => "Its rows are lost with the next open",
    RunReadByOlderSnapshot "run-read-by-older-snapshot"
        "snapshots read runs that end after them"
        => "Snapshots change under their readers",
    RunsReadOldestFirst "runs-read-oldest-first"
        "runs are read in the wrong order"
        => "Old values of rows come back",
    DirectOverRun "direct-over-run"
        "rows are merged into the main part although a run has rows there"
        => "Old values of rows come back",
    WindowSkipsRun "window-skips-run"
        "what the oldest run has in a window is not merged with what the others have"
        => "Old values of rows come back",
    WindowNotCut "window-not-cut"
        "what was merged out of runs stays in them"
        => "Long values have two owners",
    WindowUnderSnapshot "window-under-snapshot"
        "runs are merged into the main part although a snapshot must not see them"
        => "Snapshots change under their readers",
    TierSkipsRun "tier-skips-run"
        "of the runs that become one, one is left out in the middle"
        => "Old values of rows come back",
    TierUnderSnapshot "tier-under-snapshot"
        "runs become one although a snapshot must not see some of them"
        => "Snapshots change under their readers",
    TierViewLate "tier-view-late"
        "readers get a run that is made of others after the rows have gone there"
        => "Rows are not found for a moment",
    TierFilterForgets "tier-filter-forgets"
        "the filter in memory lacks what a run gets after its first slice"
        => "Rows are not found",
    RunFilterForgets "run-filter-forgets"
        "one row in 64 is not in the filter of its run"
        => "Rows are not found",
    RunNumberReused "run-number-reused"
        "the number of a run is not stored before its leaves are written"
        => "A run that was cut short is taken for another one",
    CommitNotDurable "commit-not-durable"
        "a `Sync` commit returns when it is logged"
        => "Acknowledged commits are lost with the power",
    VisibleBeforeQuorum "visible-before-quorum"
        "commits are visible before a quorum of standbys has them"
        => "What was acknowledged, or seen, is lost in a failover",
    StandbyShowsUnapplied "standby-shows-unapplied"
        "a standby shows a step before its records are applied"
        => "Snapshots of a standby lack what was committed before them, and change",
    StandbyStampsEarly "standby-stamps-early"
        "a standby stamps the rows of a commit with the start of its record"
        => "Readers of a standby see what is not committed yet at their moment, or a part of it",
    DecidedAtPrepare "decided-at-prepare"
        "a standby stamps the rows of a prepared transaction with its prepare, not with the decision"
        => "A standby shows two transactions in another order than its primary",
    PromotionSkipsUnapplied "promotion-skips-unapplied"
        "a promotion does not apply what was received and not applied yet"
        => "Acknowledged commits are lost in a failover",
    CutDespitePages "cut-despite-pages"
        "a log is cut whatever pages hold"
        => "A former primary keeps rows that no other server has",
}
