//! Errors for programs: a caller can act on each variant.

use seawall_io::is_disk_full;
use seawall_keys::KeysError;
use seawall_types::{Lsn, TimelineId};
use seawall_wal::LogError;

use crate::transaction::lock_view::CircleMember;

/// What collided, of a transaction whose reads have changed.
pub(crate) const CHANGED_READS: &str = "something that this one has read";

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no table of this name.
    #[error("there is no table {name:?}; create it, or list the tables to see what there is")]
    NoSuchTable {
        /// The name asked for.
        name: String,
    },
    /// The number that was asked for a new timeline is taken, or not above that of the current one.
    #[error(
        "a new timeline cannot have number {wanted}: it is taken, or not above that of the current one; choose a number above \
         {last}, or none"
    )]
    TimelineNumber {
        /// What was asked for.
        wanted: TimelineId,
        /// The highest number that is used.
        last: TimelineId,
    },
    /// There is a table of this name.
    #[error("table {name:?} exists already")]
    TableExists {
        /// The name asked for.
        name: String,
    },
    /// The table was dropped, truncated or altered by a transaction that committed first.
    #[error("table {name:?} was {change} by another transaction: nothing of this one is committed")]
    TableChanged {
        /// Name under which the table was opened.
        name: String,
        /// What happened to it.
        change: TableChange,
    },
    /// The name of a table is empty, or longer than 255 bytes.
    #[error("{name:?} is {bytes} bytes long: the name of a table has 1 to 255 bytes of UTF-8")]
    TableName {
        /// The name asked for.
        name: String,
        /// Its length.
        bytes: usize,
    },
    /// The key is too long.
    #[error("the key is {bytes} bytes long; the limit of this database is {limit}")]
    KeyTooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The value is too long.
    #[error("the value is {bytes} bytes long; the limit is {limit}: split it over several rows")]
    ValueTooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The transaction has written, locked or read too much.
    #[error(
        "the transaction would take {bytes} bytes of memory for what it has written, locked and read; \
         `memory.transaction_bytes` is {limit}: commit in smaller batches, or use a bulk load"
    )]
    TransactionTooLarge {
        /// Bytes of memory, with what was refused.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The open transactions of the database take too much memory together.
    #[error(
        "the open transactions of this database would take {bytes} bytes of memory together; `memory.all_transactions_bytes` is \
         {limit}: end some of them, commit in smaller batches, or allow more"
    )]
    TransactionMemory {
        /// Bytes of memory, with what was refused.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Another transaction changed, since this one's snapshot, what it wants to write (or, under `Serializable`, what
    /// it has read).
    #[error("another transaction committed a conflicting change: {what}; try the transaction again")]
    Conflict {
        /// What collided.
        what: &'static str,
    },
    /// The snapshot was the oldest one, and what was kept for it took more memory than old snapshots may have.
    #[error(
        "the snapshot as of {lsn} was cancelled: what was kept for old snapshots took more than `memory.snapshot_bytes`, \
         {limit}; read again at a new snapshot, in less time, or allow more memory"
    )]
    SnapshotCancelled {
        /// What it saw.
        lsn: Lsn,
        /// The limit.
        limit: u64,
    },
    /// Waiting for the row would have closed a circle of transactions that wait for each other.
    #[error("deadlock: this transaction was chosen to give way; try it again")]
    Deadlock {
        /// Who waited for whom: this transaction comes first, each waits for the next one, and the last for this one.
        circle: Vec<CircleMember>,
    },
    /// The program has cancelled what the session of the transaction waits for ([`crate::Database::cancel_token`]).
    #[error("the call was cancelled while it waited; the transaction is to be rolled back")]
    Cancelled,
    /// The row is held by another transaction.
    #[error("the row is locked by another transaction, and {waited}; try the transaction again")]
    Locked {
        /// What the options said about waiting.
        waited: &'static str,
    },
    /// The transaction cannot go on: an earlier error has ended it, or returned it to its innermost savepoint.
    #[error(
        "the transaction has failed before and only a rollback is left, of all or to an earlier savepoint: {cause}"
    )]
    TransactionFailed {
        /// The error that ended it.
        cause: String,
    },
    /// A restore is under way in the directory, or was cut short.
    #[error(
        "a restore into {directory} is under way, or was cut short: run it again, or remove the directory"
    )]
    Restoring {
        /// The directory.
        directory: String,
    },
    /// The database's rows are being made those of another server, or that was cut short.
    #[error(
        "the database in {directory} is being made equal to the server that it is to follow, or that was cut short: \
         `seawall serve {directory} --follow ...` completes it"
    )]
    Rewinding {
        /// The directory.
        directory: String,
    },
    /// The database was restored, and nobody has said yet that it may archive.
    #[error(
        "the database in {directory} was restored, and does not archive: it may be a copy that was made to try something out, and \
         what it archives would become a part of the history of the original. If it takes the original's place, \
         `seawall archive-mode {directory} on` lets it archive and be backed up; if it does not, open it without archives"
    )]
    ArchivingOff {
        /// The directory.
        directory: String,
    },
    /// In the directory is what is left of a restore that was asked for something else.
    #[error(
        "in {directory} is what is left of a restore of {found}; this one is of {asked_for}: ask for the former again, and it goes on, \
         or remove the directory"
    )]
    OtherRestore {
        /// The directory.
        directory: String,
        /// What was asked for there.
        found: String,
        /// What is asked for now.
        asked_for: String,
    },
    /// What is left of a restore says nothing of itself that can be read.
    #[error(
        "{file} is damaged ({problem}), so it is unknown what was being restored here: remove the directory, and restore again"
    )]
    RestoreMarker {
        /// The marker.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The log does not reach the place that a restore is to stop at.
    #[error("cannot restore to the place asked for: {problem}")]
    RestoreTarget {
        /// Why.
        problem: String,
    },
    /// Rows on the way of a restore are in no log, and were loaded after the backup.
    #[error(
        "the rows of table {table} were loaded past the log at {lsn}, after this backup: restore to a place before, or take a \
             newer backup. While the log is archived, loads are logged"
    )]
    LoadedPastLog {
        /// Number under which its rows lie.
        table: u64,
        /// Where the log says so.
        lsn: Lsn,
    },
    /// A standby has not applied in time what a caller waits for.
    #[error("the log up to {wanted} was not applied in time: it is applied up to {applied}")]
    NotApplied {
        /// What was waited for.
        wanted: Lsn,
        /// What new snapshots see.
        applied: Lsn,
    },
    /// Rows of the database that is followed are in no log, so a standby cannot have them.
    #[error(
        "the log that is followed says at {lsn} that rows were loaded past it: make this standby anew from a later copy, and give the \
         primary a log hold of kind Standby before, so that it logs what it loads"
    )]
    FollowedPastLog {
        /// Where the log says so.
        lsn: Lsn,
    },
    /// A standby has log of its timeline that the new timeline of its upstream does not have.
    #[error(
        "this server has the log of its timeline up to {end}, and timeline {timeline} left that at {fork}: what lies behind is not in \
         the history of the new primary"
    )]
    BeyondFork {
        /// The end of the log here.
        end: Lsn,
        /// Where the new timeline begins.
        fork: Lsn,
        /// The new timeline.
        timeline: TimelineId,
    },
    /// A copy of a running database has rows that the new timeline of its upstream may not have.
    #[error(
        "the rows that were copied are whole with the log up to {end}, and timeline {timeline} left that log at {fork}: start \
         this server again, and it fetches what differs"
    )]
    CopyBeyondFork {
        /// What the copy needs.
        end: Lsn,
        /// Where the new timeline begins.
        fork: Lsn,
        /// The new timeline.
        timeline: TimelineId,
    },
    /// The histories of two servers do not fit.
    #[error("timeline {other} of the upstream does not follow from timeline {own} of this server")]
    OtherHistory {
        /// The timeline here.
        own: TimelineId,
        /// That of the upstream.
        other: TimelineId,
    },
    /// A copy of a running primary does not have all of its log yet.
    #[error(
        "{directory} has a copy of a running database that is whole only with the log up to {end}: let it follow its primary until it \
         has come there, as `seawall serve --follow` does"
    )]
    CopyNotWhole {
        /// The directory.
        directory: String,
        /// Up to where it needs the log.
        end: Lsn,
    },
    /// A backup cannot be an increment of the one that was named.
    #[error(
        "the backup with the redo point {redo_point} is of another database, or is not older: take a full backup, or name another \
             parent"
    )]
    BackupParent {
        /// Where a restore of that one starts.
        redo_point: Lsn,
    },
    /// There is no archive in the options of the database.
    #[error("the database has no archive: name one in its options, or ask for another durability")]
    NoArchive,
    /// What was asked for is done: on stable storage here, visible to all, and not to be repeated. Only a required archive does
    /// not have it, as `Durability::Archived` asks. A transaction is committed, or prepared; one in doubt is decided.
    #[error("done at {lsn}, on stable storage here, so do not repeat it; but it is not archived: {cause}")]
    DoneNotArchived {
        /// Stamp of the commit, the prepare or the decision.
        lsn: Lsn,
        /// `ArchiveGap`, `NotArchived` or `Archive`.
        cause: Box<Error>,
    },
    /// The wait for standbys was cancelled, or the database closed: the commit is on stable storage here, and nobody sees it before a
    /// quorum of standbys has it. A standby that is promoted may lack it.
    #[error(
        "the outcome is unknown: what was done at {lsn} is on stable storage here, and the standbys have not confirmed it; it becomes \
         visible when they have, and is lost if one is promoted that lacks it"
    )]
    NotReplicated {
        /// Stamp of the commit, the prepare or the decision.
        lsn: Lsn,
    },
    /// Rows stay out of pages, and the log out of archives, while a quorum of standbys lacks them.
    #[error(
        "what was committed up to {lsn} stays out of pages and archives: a quorum of standbys does not have it yet"
    )]
    StandbysLack {
        /// Stamp of the last commit.
        lsn: Lsn,
    },
    /// A database cannot follow another server by a cut of its log.
    #[error(
        "the server to follow left timeline {timeline} at {fork}, and pages here hold what was committed up to {pages}: its rows have \
         to be made those of that server, as `seawall serve --follow` does"
    )]
    PagesBeyondFork {
        /// The last timeline that both have.
        timeline: TimelineId,
        /// Where they part.
        fork: Lsn,
        /// What pages may hold.
        pages: Lsn,
    },
    /// The log here is not one that the other server's history can have left where it says.
    #[error(
        "the server to follow left timeline {timeline} at {fork}, and the log here has no record that ends there"
    )]
    NotItsLog {
        /// The last timeline that both have.
        timeline: TimelineId,
        /// Where they part.
        fork: Lsn,
    },
    /// The log was not in the archive yet when the database was closed.
    #[error(
        "the log up to {lsn} is not in the archive yet: the next process that opens the database resumes archiving"
    )]
    NotArchived {
        /// How far it was to be archived.
        lsn: Lsn,
    },
    /// A part of the log was left out of the archive, which was too far behind.
    #[error(
        "the log from {from} to {to}, with {lsn}, was left out of the archive {archive:?} on purpose: {reason}. It is safe from the \
             loss of this machine when the next full backup is there"
    )]
    ArchiveGap {
        /// Name of the archive.
        archive: String,
        /// What was to be archived.
        lsn: Lsn,
        /// Where the gap begins.
        from: Lsn,
        /// Where it ends.
        to: Lsn,
        /// Why there is one.
        reason: String,
    },
    /// The archive does not take the log.
    #[error("the log is not archived: {message}")]
    Archive {
        /// What went wrong.
        message: String,
    },
    /// The name of a prepared transaction is empty, or longer than 200 bytes.
    #[error("{gid:?} is {bytes} bytes long: the gid of a prepared transaction has 1 to 200 bytes of UTF-8")]
    Gid {
        /// The name given.
        gid: String,
        /// Its length.
        bytes: usize,
    },
    /// The name of an owner is too long.
    #[error("the owner's name is {bytes} bytes long; the limit is {limit}")]
    Owner {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// An in-doubt transaction has this gid.
    #[error("a prepared transaction has the gid {gid:?} already: decide it, or take another gid")]
    GidInUse {
        /// The gid.
        gid: String,
    },
    /// No transaction with this gid is in doubt.
    #[error("no transaction with the gid {gid:?} is in doubt: it was never prepared, or is decided already")]
    NotInDoubt {
        /// The gid.
        gid: String,
    },
    /// Another call is deciding the transaction now.
    #[error("the transaction {gid:?} is being decided by another call")]
    BeingDecided {
        /// The gid.
        gid: String,
    },
    /// A transaction that wrote nothing, and under `Serializable` read nothing, has nothing to prepare.
    #[error("the transaction has written nothing, so there is nothing to prepare: it has ended")]
    NothingToPrepare,
    /// A table that an in-doubt transaction uses cannot be dropped, truncated or altered.
    #[error(
        "table {name:?} is used by the in-doubt transaction {gid:?}: decide that first, then drop, truncate or alter the table"
    )]
    TableInDoubt {
        /// The table.
        name: String,
        /// The gid of a transaction that uses the table.
        gid: String,
    },
    /// The savepoint is not one of this transaction, or was given up by a rollback to an earlier one.
    #[error("the savepoint does not exist (any more) in this transaction")]
    NoSuchSavepoint,
    /// The disk is full. Nothing that was acknowledged is lost; writing goes on when there is space.
    #[error("the disk is full: {message}; free some space and try again, nothing acknowledged is lost")]
    DiskFull {
        /// What needed the space.
        message: String,
    },
    /// Memory for changed rows is used up, and the checkpoint that would free it fails.
    #[error("no memory is left for changed rows because checkpoints fail: {cause}")]
    CheckpointFailing {
        /// Why the checkpoint fails.
        cause: String,
    },
    /// A write or a sync failed, so what is on disk is unknown: the database takes no more writes until it is opened
    /// again.
    #[error(
        "the database stopped taking writes after a failed write: {cause}; close it and open it again to recover"
    )]
    Stopped {
        /// The failure.
        cause: String,
    },
    /// The database was opened read-only.
    #[error("the database is open read-only")]
    ReadOnly,
    /// The role of the primary is being handed over: writes wait, and this one cannot. Try again.
    #[error("the role of the primary is being handed over, or is not: try again")]
    Parked,
    /// The role of the primary was handed over: see [`Database::handover`](crate::Database::handover).
    #[error(
        "this server has handed the role of the primary over and takes no writes: connect to the new primary"
    )]
    HandedOver,
    /// The file that says whom the role of the primary was handed over to is damaged.
    #[error(
        "{file}: {problem}. It says that the role of the primary was handed over, and to whom: serve the directory with --follow; or, \
         if no other server has become the primary, remove the file"
    )]
    HandoverRecord {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
    /// Another process (or another handle of this one) has the directory open.
    #[error(
        "{directory} is in use by another process: close it there first. One process at a time may write, and several may read \
         while none writes"
    )]
    InUse {
        /// The directory.
        directory: String,
    },
    /// There is no database in the directory.
    #[error("there is no database in {directory}; create one, or look for a misspelt path")]
    NoDatabase {
        /// The directory.
        directory: String,
    },
    /// There is a database in the directory already, or it holds files of something else.
    #[error("{directory} is not empty ({found}); a new database needs an empty or missing directory")]
    NotEmpty {
        /// The directory.
        directory: String,
        /// A file that is there.
        found: String,
    },
    /// An option has a value that cannot be.
    #[error("option {name}: {problem}")]
    Option {
        /// Name of the option.
        name: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The database is encrypted, and no master key is given.
    #[error("the database in {directory} is encrypted: give its master key")]
    Encrypted {
        /// The directory.
        directory: String,
    },
    /// The database is not encrypted, and a master key is given: somebody believes that it is.
    #[error(
        "the database in {directory} is not encrypted, but a master key was given: open it without one; to encrypt it, \
         dump it and load it into a new database that has one"
    )]
    NotEncrypted {
        /// The directory.
        directory: String,
    },
    /// The master key cannot be read, is no key, or the database has too many of them.
    #[error("{message}")]
    MasterKey {
        /// Where it should come from, and what is wrong.
        message: String,
    },
    /// The master key is a key, but not one of this database.
    #[error("{message}")]
    WrongMasterKey {
        /// Which one is asked for.
        message: String,
    },
    /// The file with the keys is missing, damaged, or of another database.
    #[error("{message}")]
    Keys {
        /// File, what is wrong, and what to do.
        message: String,
    },
    /// The name of a restore point is not fit.
    #[error(
        "{name:?} is not a valid name of a restore point: expected 1 to {limit} bytes of UTF-8 without control characters"
    )]
    RestorePointName {
        /// The name.
        name: String,
        /// The limit.
        limit: usize,
    },
    /// There is no hold of this name on the log.
    #[error("there is no hold {name:?} on the log")]
    NoSuchLogHold {
        /// The name asked for.
        name: String,
    },
    /// The hold had kept as much of the log as it may, and keeps nothing any more.
    #[error(
        "hold {name:?} on the log is lost: it needed the log from {position} on and reached its limit of {limit} bytes; what \
         it needs may be gone. Release it, make it anew, and bring its holder up from a new copy"
    )]
    LogHoldLost {
        /// Its name.
        name: String,
        /// From where on it needed the log.
        position: Lsn,
        /// Its limit in bytes.
        limit: u64,
    },
    /// The log cannot be held like this.
    #[error("{message}")]
    LogHold {
        /// Name or position, and why not.
        message: String,
    },
    /// The log is damaged or of another database.
    #[error("the log cannot be read: {message}")]
    Log {
        /// File, offset, LSN, and what is wrong.
        message: String,
    },
    /// The log that was to be read has gone, as nobody needs it: the database is open elsewhere, and a checkpoint has passed it.
    #[error(
        "the log is not kept any more at {lsn}, but from {kept_from} on: a checkpoint has passed it. Read from there on"
    )]
    LogNotKept {
        /// Where it was to be read.
        lsn: Lsn,
        /// From where on it is kept.
        kept_from: Lsn,
    },
    /// A page, the superblock or the recovery file is damaged.
    #[error("{message}")]
    Tree {
        /// File, offset, and what is wrong.
        message: String,
    },
    /// A row of the catalog does not decode.
    #[error("the catalog is damaged at {place}: {problem}; restore the database from a backup")]
    Catalog {
        /// Table or row.
        place: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Reading or writing a file failed.
    #[error("{message}")]
    Io {
        /// What failed, on which file.
        message: String,
    },
    /// A row does not have the types that the program says it has.
    #[error("a row of table {table:?} does not have the types asked for: {problem}")]
    RowType {
        /// The table.
        table: String,
        /// Which part, and why not.
        problem: String,
    },
    /// Rows given to a bulk load cannot be loaded.
    #[error("bulk load: {problem}")]
    BulkLoad {
        /// What is wrong with them.
        problem: String,
    },
}

/// What another transaction did to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// It is gone.
    Dropped,
    /// Its rows are gone.
    Truncated,
    /// What must be known to write to it has changed: [`Transaction::alter_table`](crate::Transaction::alter_table). The
    /// transaction may succeed with a new plan and a new handle.
    Altered,
}

impl std::fmt::Display for TableChange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            TableChange::Dropped => "dropped",
            TableChange::Truncated => "truncated",
            TableChange::Altered => "altered",
        })
    }
}

/// What a call that has failed has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: the commit, the prepare or the decision has not happened, and never will.
    Nothing,
    /// All that was asked for is done and durable here; more was asked for, which is not.
    Done,
    /// It is open: recovery decides, when the database is opened again, or the standbys do.
    Unknown,
}

impl Error {
    /// What a commit, a prepare or a decision that has failed with this error has changed.
    pub fn effect(&self) -> Effect {
        match self {
            Error::DoneNotArchived { .. } => Effect::Done,
            // Once a record is in the log, a call that fails stops the database: but for these, no error comes that late.
            Error::Stopped { .. } => Effect::Unknown,
            // It waits for standbys: if one of them is promoted, that decides.
            Error::NotReplicated { .. } => Effect::Unknown,
            _ => Effect::Nothing,
        }
    }

    /// Whether the same transaction, run again from its beginning, may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::Conflict { .. }
                | Error::SnapshotCancelled { .. }
                | Error::Deadlock { .. }
                | Error::Locked { .. }
                | Error::TableChanged { change: TableChange::Truncated | TableChange::Altered, .. }
        )
    }

    /// Whether another transaction has changed what this one has read, and not what it writes.
    pub fn is_conflict_of_reads(&self) -> bool {
        matches!(self, Error::Conflict { what } if *what == CHANGED_READS)
    }

    /// The error of a call to the tree, as a user should see it.
    pub(crate) fn tree(error: &(dyn std::error::Error + 'static)) -> Error {
        Error::refused(error).unwrap_or_else(|| Error::Tree { message: chain(error) })
    }

    /// The error of making, opening or reading the log, as a user should see it.
    pub(crate) fn log(error: &(dyn std::error::Error + 'static)) -> Error {
        Error::refused(error).unwrap_or_else(|| Error::Log { message: chain(error) })
    }

    /// The error of the keys file, as a user should see it.
    pub(crate) fn keys(error: &KeysError) -> Error {
        let message = chain(error);
        match error {
            KeysError::Io { .. } if refusal_of(error) == Some(Refusal::DiskFull) => {
                Error::DiskFull { message }
            }
            KeysError::Io { .. } => Error::Io { message },
            KeysError::MasterKey(_) | KeysError::TooMany { .. } => Error::MasterKey { message },
            KeysError::WrongMasterKey { .. } => Error::WrongMasterKey { message },
            _ => Error::Keys { message },
        }
    }

    /// The error of a call that the operating system did not do: `None` if what is on disk is wrong.
    fn refused(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
        refusal_of(error).map(|refusal| match refusal {
            Refusal::DiskFull => Error::DiskFull { message: chain(error) },
            Refusal::Other => Error::Io { message: chain(error) },
        })
    }

    /// Whether it says that what is on disk could not be looked at, rather than what is wrong with it.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Error::Io { .. } | Error::DiskFull { .. })
    }

    pub(crate) fn io(error: &std::io::Error) -> Error {
        let message = error.to_string();
        if is_disk_full(error) { Error::DiskFull { message } } else { Error::Io { message } }
    }
}

/// The error of a call to an open log, as a user should see it.
impl From<LogError> for Error {
    fn from(error: LogError) -> Error {
        match error {
            LogError::NoSpace { .. } => Error::DiskFull { message: chain(&error) },
            LogError::Closed => Error::Closed,
            LogError::Parked => Error::Parked,
            LogError::Poisoned { .. } => Error::Stopped { cause: chain(&error) },
            other => Error::log(&other),
        }
    }
}

/// An error's message with the messages of its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        source = cause.source();
    }
    message
}

/// Why the operating system did not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No space.
    DiskFull,
    /// No descriptor, no memory, no permission, a device that fails: nothing is known about what is on disk.
    Other,
}

/// The refusal at the bottom of an error. A file that is missing or too short is none: it was there, and whole, when the database was
/// written, so it is damage.
pub(crate) fn refusal_of(error: &(dyn std::error::Error + 'static)) -> Option<Refusal> {
    use std::io::ErrorKind;
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return match io.kind() {
                _ if is_disk_full(io) => Some(Refusal::DiskFull),
                ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData => None,
                _ => Some(Refusal::Other),
            };
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io;

    use seawall_io::DiskError;
    use seawall_tree::TreeError;
    use seawall_wal::LogReadError;

    use super::*;

    /// As the log reports what a disk call answered with this number.
    fn of_a_call(number: i32) -> LogReadError {
        let source = DiskError::wrap("open", "/db/log/1", io::Error::from_raw_os_error(number));
        LogReadError::Io { action: "read", path: "log/1".to_owned(), offset: 0, source }
    }

    #[test]
    fn what_the_system_refuses_is_no_damage() {
        for (name, number) in
            [("EPERM", 1), ("EIO", 5), ("ENOMEM", 12), ("EACCES", 13), ("ENFILE", 23), ("EMFILE", 24)]
        {
            assert!(matches!(Error::log(&of_a_call(number)), Error::Io { .. }), "{name}");
            let tree = TreeError::Io {
                operation: "reading",
                path: "pages".to_owned(),
                offset: 0,
                source: io::Error::from_raw_os_error(number),
            };
            assert!(matches!(Error::tree(&tree), Error::Io { .. }), "{name}");
        }
    }

    #[test]
    fn a_full_disk_a_used_up_quota_and_a_file_that_may_grow_no_more_are_one_thing() {
        for (name, number) in [("EFBIG", 27), ("ENOSPC", 28), ("EDQUOT", 122)] {
            assert!(matches!(Error::log(&of_a_call(number)), Error::DiskFull { .. }), "{name}");
            let source = io::Error::from_raw_os_error(number);
            assert!(matches!(Error::io(&source), Error::DiskFull { .. }), "{name}");
            let tree = TreeError::Io { operation: "write", path: "pages".to_owned(), offset: 0, source };
            assert!(matches!(Error::tree(&tree), Error::DiskFull { .. }), "{name}");
            let hold = seawall_wal::HoldError::Io {
                action: "write",
                path: "log/holds".to_owned(),
                source: io::Error::from_raw_os_error(number),
            };
            assert!(matches!(crate::log::hold::hold_error(&hold), Error::DiskFull { .. }), "{name}");
        }
    }

    #[test]
    fn a_file_that_is_missing_or_too_short_is_damage() {
        assert!(matches!(Error::log(&of_a_call(2)), Error::Log { .. }));
        let source = io::Error::from(io::ErrorKind::UnexpectedEof);
        let short = LogReadError::Io { action: "read", path: "log/1".to_owned(), offset: 0, source };
        assert!(matches!(Error::log(&short), Error::Log { .. }));
    }
}
