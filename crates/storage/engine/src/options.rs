//! Options of a database, chosen at open, and of a transaction.

use std::time::Duration;

use seawall_keys::MasterKey;
use seawall_tree::{ImageCompression, PageProtection};

use crate::archiver::log_archive::ArchiveOptions;
use crate::in_doubt::rules::InDoubtRule;
use crate::transaction::lock_wait::LockWait;

/// How durable a commit is when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// On stable storage: survives a power failure. Where standbys are waited for ([`Options::quorum`]), it becomes visible after the
    /// commits ahead of it, which may wait for them; it does not wait for that, and its own session does when it reads.
    #[default]
    Sync,
    /// In memory that outlives the process, and on stable storage within `LogOptions::flush_interval`. The end of the process, a
    /// kill included, does not take it. A power failure before that may, with everything committed after it and nothing
    /// committed before it. It becomes visible as soon as all commits before it are, so after the flush of a `Sync` commit that
    /// is ahead of it; its own session waits for that when it reads.
    Async,
    /// As `Sync`, and in all archives of the database's options that are required: survives the loss of the machine. Others see it
    /// as soon as it is on stable storage here. While such an archive is down, the commit waits for it.
    Archived,
    /// As `Sync`, and at a quorum of standbys: survives the loss of this machine. Nobody sees it before, and nothing that was committed
    /// after it. Where the options name no quorum ([`Options::quorum`]), this is `Sync`.
    Replicated(ReplicationLevel),
}

/// What standbys must have done with a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicationLevel {
    /// Handed it to their operating systems: survives the loss of this machine, but not that of all machines at once.
    Written,
    /// Stored it: it survives the loss of this machine, and a loss of power on all of them.
    Flushed,
    /// Shown it to their readers.
    Applied,
}

/// A quorum of standbys, without which no commit that waits for it is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QuorumOptions {
    /// How long commits wait where too few standbys are connected, before this server goes on alone: from then on commits are
    /// acknowledged without standbys, until these have caught up again. A standby that is promoted meanwhile lacks such commits.
    /// Default `None`: they wait.
    pub alone_after: Option<Duration>,
}

/// What a transaction may see of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each read sees what is committed at that moment.
    ReadCommitted,
    /// All reads see one snapshot; writing a row that another committed since is refused (first updater wins).
    #[default]
    Snapshot,
    /// As if transactions ran one after another: a commit is refused when something it read has changed since.
    Serializable,
}

/// Whether opening may create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OpenMode {
    /// An existing database, or a new one where the directory is missing or empty.
    #[default]
    CreateIfMissing,
    /// An existing database only.
    Existing,
    /// A new database only.
    New,
    /// An existing database, without changing a byte of it. Other readers may have it open too.
    ReadOnly,
}

/// Who does the work that no caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Background {
    /// Threads of the database: flusher, checkpoints, log keeper.
    #[default]
    Threads,
    /// Nobody: the calling threads do it, when a limit is reached or when asked. Disk calls then come in a repeatable
    /// order. `Async` commits are flushed by the next `Sync` commit, `flush`, checkpoint or `close`.
    Manual,
}

/// Whether other processes can see the statistics of an open database (`published_statistics`, `seawall stats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PublishStatistics {
    /// The file `statistics` has them, at most a second old.
    #[default]
    EverySecond,
    /// No other process sees them.
    Never,
}

/// Everything that can be set when a database is opened, in groups.
///
/// ```
/// # use seawall_engine::{OpenMode, Options};
/// let mut options = Options { mode: OpenMode::Existing, ..Options::default() };
/// options.memory.cache_bytes = 1 << 30;
/// options.recovery.target = None;
///
/// // In one expression:
/// let larger = Options::default().with(|options| options.memory.cache_bytes = 1 << 30);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether opening may create. Default: create where nothing is.
    pub mode: OpenMode,
    /// Sizes of a new database.
    pub format: FormatOptions,
    /// Limits of memory.
    pub memory: MemoryOptions,
    /// When the log is flushed, and how much of it is kept.
    pub log: LogOptions,
    /// When checkpoints run, and how.
    pub checkpoint: CheckpointOptions,
    /// Recovery from a crash.
    pub recovery: RecoveryOptions,
    /// The defaults of transactions.
    pub transaction: TransactionOptions,
    /// Archives of the log, each with a name of its own and at least one of them required. Segments are kept until all have
    /// them. With `Background::Manual` only `DatabaseLog::archive_now` archives. Default: none.
    pub archives: Vec<ArchiveOptions>,
    /// Decisions about transactions that stay in doubt, made once a second by a thread of the database (with
    /// `Background::Manual` only by `TwoPhase::apply_rules`): the first rule that fits a transaction counts. Default:
    /// none, so such transactions stay until a caller decides them.
    pub in_doubt_rules: Vec<InDoubtRule>,
    /// Commits of `Durability::Replicated` wait for standbys: [`Database::quorum`](crate::Database::quorum) is told how far those are.
    /// Default `None`: there is no standby that a commit waits for.
    pub quorum: Option<QuorumOptions>,
    /// Of a standby: each commit, and what comes after it, is applied only so long after its time on the primary, by this server's
    /// clock. Counts from the open on, whatever the log has; `Standby::set_apply_delay` changes it. Default: zero, at once.
    pub apply_delay: Duration,
    /// Whether other processes can see the statistics. With `Background::Manual` and read-only nothing is published. Default
    /// `EverySecond`: it costs one write of some 10 KiB a second into the page cache, and no sync.
    pub publish_statistics: PublishStatistics,
    /// The threads that do the work for which no caller waits. Default: threads of the database.
    pub background: Background,
    /// The key that opens an encrypted database. A new database is encrypted if there is one, and cannot be made so later.
    /// Default: none.
    pub master_key: Option<MasterKey>,
}

impl Options {
    /// These options after `change`, in one expression.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Options)) -> Options {
        change(&mut self);
        self
    }
}

/// Sizes that a database gets when it is made. An existing one keeps its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// Page size in bytes: 4096 to 65536, a power of two. Default 8192.
    pub page_bytes: u32,
    /// Size of a log segment in bytes: 64 KiB to 1 GiB, a power of two. Default 16 MiB.
    pub segment_bytes: u64,
}

impl Default for FormatOptions {
    fn default() -> FormatOptions {
        FormatOptions { page_bytes: 8192, segment_bytes: 16 << 20 }
    }
}

/// Limits of memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Memory for rows changed since the last checkpoint: half for those that arrive, half for those that a
    /// checkpoint is merging. A checkpoint starts when the first half is full, at the latest, and writers are slowed so
    /// that it is full again when the checkpoint ends; a disk that becomes slower all of a sudden may cost half as much
    /// again. At least 64 KiB. Default 256 MiB.
    pub memtable_bytes: u64,
    /// Memory for cached pages, for filters of sorted runs, which take a quarter of it at most, and for filters of leaves that lookups have
    /// read in vain, an eighth at most. Default 256 MiB.
    pub cache_bytes: u64,
    /// Memory for what only old snapshots need: row versions from before the last checkpoint. When it takes more, the
    /// oldest snapshot is cancelled; its reads answer with `SnapshotCancelled`. Default 256 MiB.
    pub snapshot_bytes: u64,
    /// Memory that one transaction may take: for the rows that it has written, twice their bytes, as its record has them
    /// too, and 80 bytes each; 74 bytes for each lock; what savepoints keep; and, under `Serializable`, what it has read.
    /// At most 1920 MiB. Default 256 MiB, enough for 700,000 rows of 100 bytes. Rows of tables that it has itself created or
    /// truncated take a quarter of it at most, however many they are.
    pub transaction_bytes: u64,
    /// Memory that all open transactions may take together, counted in the same way but for the first 4 KiB of each. At
    /// least `transaction_bytes`. Default 1 GiB.
    pub all_transactions_bytes: u64,
}

impl Default for MemoryOptions {
    fn default() -> MemoryOptions {
        MemoryOptions {
            memtable_bytes: 256 << 20,
            cache_bytes: 256 << 20,
            snapshot_bytes: 256 << 20,
            transaction_bytes: 256 << 20,
            all_transactions_bytes: 1 << 30,
        }
    }
}

impl MemoryOptions {
    /// Bytes of rows that a replay holds before it merges them: the active memtable and the cache are empty until then.
    pub(crate) fn for_replay(&self) -> u64 {
        self.memtable_bytes.saturating_add(self.cache_bytes / 2)
    }
}

/// When the log is flushed, and how much of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// `Async` commits are on stable storage at latest after this: what a power failure can take. Default 10 ms.
    pub flush_interval: Duration,
    /// Segments kept ready beyond the one being written. Default 2.
    pub spare_segments: usize,
    /// Bytes of the newest log that are kept whatever else needs them, for standbys and archives that may have to start
    /// again. Default 0.
    pub keep_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { flush_interval: Duration::from_millis(10), spare_segments: 2, keep_bytes: 0 }
    }
}

/// When checkpoints run, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// Bytes of log after the last checkpoint at which the next one starts. Default 256 MiB.
    pub log_bytes: u64,
    /// A checkpoint starts at latest after this long, if anything changed. Default 5 minutes.
    pub interval: Duration,
    /// Bytes of page images that a checkpoint makes durable together: 16 KiB to 64 MiB. Default 16 MiB.
    pub chunk_bytes: u64,
    /// Average write limit of checkpoints and of merges of runs, in bytes a second; ignored while it would slow writers. 0, the default:
    /// unlimited.
    pub io_limit: u64,
    /// Threads that a checkpoint uses, 1 to 16. With one, the thread that runs the checkpoint does all of it, in a repeatable
    /// order. Default: the processors of the machine, at most 2.
    pub threads: usize,
    /// Where a checkpoint puts the second copy of the pages that it overwrites, which repairs torn ones after a crash: the
    /// recovery file or the log. Can be another one at each open, also after a crash. Default `RecoveryFile`.
    pub page_protection: PageProtection,
    /// How long pages wait for standbys that lack what is to be written to them. Where none of them is connected, once. After it a
    /// standby that is promoted may lack what is in pages, and this server has to be made anew then. Default 10 s.
    pub standby_wait: Duration,
    /// Compression of the page images that protect against torn pages. Default LZ4.
    pub page_image_compression: ImageCompression,
    /// Where changes go that are sparse in the tree.
    pub runs: RunOptions,
}

impl Default for CheckpointOptions {
    fn default() -> CheckpointOptions {
        CheckpointOptions {
            log_bytes: 256 << 20,
            interval: Duration::from_secs(300),
            chunk_bytes: 16 << 20,
            io_limit: 0,
            threads: processors_at_most(2),
            page_protection: PageProtection::default(),
            standby_wait: Duration::from_secs(10),
            page_image_compression: ImageCompression::default(),
            runs: RunOptions::default(),
        }
    }
}

/// Sorted runs: where few rows of many pages have changed, a checkpoint writes the rows once, in order, beside the tree's main part,
/// instead of the pages. Later they are merged, many rows a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Bytes that runs may have, in percent of the main part, before they are merged into it: 5 to 100, or 0. Low: less space, faster
    /// scans. High: fewer bytes written. 0: runs that are there are merged, and until then checkpoints write new ones over these only. A row that a
    /// run deletes counts as if the run had it. Default 25.
    pub run_percent: u32,
    /// Leaves of which few rows have changed, before a checkpoint writes a run: 1 to 65,536. Fewer are changed in place. Low: fewer bytes
    /// written. High: fewer runs to read. Default 64.
    pub leaves_min: u32,
    /// So many runs of a size become one: 2 to 16. Low: fewer runs to read. High: fewer bytes written. Default 8.
    pub fan_in: u32,
    /// As many runs as there should be: 2 to 64. Writers are slowed before, and at this many, runs become one whatever their sizes. There may
    /// be more for a time, and while a snapshot is older than a run. Default 32.
    pub run_count: u32,
    /// Bits of memory and disk for each row in runs, which spare most lookups of rows that a run does not have: up to 64. 0: none, so
    /// each lookup reads each run. The memory is that of [`MemoryOptions::cache_bytes`], at most a quarter of it: beyond that, lookups
    /// read the runs with the largest filters. Default 10.
    pub filter_bits: u16,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { run_percent: 25, leaves_min: 64, fan_in: 8, run_count: 32, filter_bits: 10 }
    }
}

/// Recovery from a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryOptions {
    /// A recovery from a crash, at any moment, is to take no longer than this: checkpoints start early enough, by the
    /// replay speed that was measured on this machine. At least a second; `None`: no such target. Default 5 s.
    pub target: Option<Duration>,
    /// Threads that replay the log; 0 counts as 1. Default: the processors of the machine, at most 8.
    pub threads: usize,
}

impl Default for RecoveryOptions {
    fn default() -> RecoveryOptions {
        RecoveryOptions { target: Some(Duration::from_secs(5)), threads: processors_at_most(8) }
    }
}

/// How a transaction behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionOptions {
    /// What it may see of others. Default `Snapshot`.
    pub isolation: Isolation,
    /// How durable its commit is. Default `Sync`.
    pub durability: Durability,
    /// How long it waits for a row that another transaction has changed. Default 10 s.
    pub lock_wait: LockWait,
    /// How long `transact` runs it again and again, counted from its first run. A run that has begun is not cut short.
    /// Default 60 s.
    pub retry_for: Duration,
}

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions {
            isolation: Isolation::default(),
            durability: Durability::default(),
            lock_wait: LockWait::Timeout(Duration::from_secs(10)),
            retry_for: Duration::from_secs(60),
        }
    }
}

fn processors_at_most(limit: usize) -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(limit))
}
