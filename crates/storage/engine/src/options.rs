//! What can be set when a database is opened, and per transaction.

use std::time::Duration;

use seawall_keys::MasterKey;
use seawall_tree::{ImageCompression, PageProtection};

use crate::archiver::log_archive::ArchiveOptions;
use crate::in_doubt::rules::InDoubtRule;
use crate::transaction::lock_table::LockWait;

/// How durable a commit is when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// On stable storage: survives a power failure.
    #[default]
    Sync,
    /// In memory that outlives the process, and on stable storage within `Options::flush_interval`. The end of the process, a
    /// kill included, does not take it. A power failure before that may, with everything committed after it and nothing
    /// committed before it. It becomes visible as soon as all commits before it are, so after the flush of a `Sync` commit that
    /// is ahead of it; its own session waits for that when it reads.
    Async,
    /// As `Sync`, and in all archives of the database's options that are required: survives the loss of the machine. Others see it
    /// as soon as it is on stable storage here. While such an archive is down, the commit waits for it.
    Archived,
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

/// How a transaction behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionOptions {
    /// What it may see of others.
    pub isolation: Isolation,
    /// How durable its commit is.
    pub durability: Durability,
    /// How long it waits for a row that another transaction has changed.
    pub lock_wait: LockWait,
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

/// Everything that can be set at open. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether opening may create. Default: create where nothing is.
    pub mode: OpenMode,
    /// Page size of a new database: 4096 to 65536, a power of two. Default 8192. An existing one keeps its own.
    pub page_bytes: u32,
    /// Log segment size of a new database: 64 KiB to 1 GiB, a power of two. Default 16 MiB. An existing one keeps its own.
    pub segment_bytes: u64,
    /// Memory for rows changed since the last checkpoint: half for those that arrive, half for those that a
    /// checkpoint is merging. A checkpoint starts when the first half is full, at the latest, and writers are slowed so
    /// that it is full again when the checkpoint ends; a disk that becomes slower all of a sudden may cost half as much
    /// again. Default 256 MiB.
    pub memtable_bytes: u64,
    /// Memory for what only old snapshots need: row versions from before the last checkpoint. When it takes more, the
    /// oldest snapshot is cancelled; its reads answer with `SnapshotCancelled`. Default 256 MiB.
    pub snapshot_memory_bytes: u64,
    /// Memory for cached pages. Default 256 MiB.
    pub cache_bytes: u64,
    /// A checkpoint starts when this much log lies behind it: it bounds the time to recover. Default 256 MiB.
    pub checkpoint_log_bytes: u64,
    /// A recovery from a crash, at any moment, is to take no longer than this: checkpoints start early enough, by the
    /// replay speed that was measured on this machine. At least a second; `None`: no such target. Default 5 s.
    pub recovery_target: Option<Duration>,
    /// A checkpoint starts at latest after this long, if anything changed. Default 5 minutes.
    pub checkpoint_interval: Duration,
    /// Page images that a checkpoint makes durable together. Default 16 MiB, at most 64 MiB.
    pub checkpoint_chunk_bytes: u64,
    /// Bytes a second that a checkpoint writes at most, on average, as long as that slows no writer. 0: no limit, which is
    /// the default.
    pub checkpoint_io_limit: u64,
    /// Threads that a checkpoint uses, 1 to 16. With one, whoever runs the checkpoint does all of it, in a repeatable
    /// order. Default: the processors of the machine, at most 2.
    pub checkpoint_threads: usize,
    /// Where a checkpoint puts the second copy of the pages that it overwrites, which repairs torn ones after a crash: the
    /// recovery file or the log. Can be another one at each open, also after a crash. Default `RecoveryFile`.
    pub page_protection: PageProtection,
    /// Compression of the page images that protect against torn pages. Default LZ4.
    pub page_image_compression: ImageCompression,
    /// Threads that replay the log. Default: the processors of the machine, at most 8.
    pub recovery_threads: usize,
    /// Default isolation of transactions. Default `Snapshot`.
    pub isolation: Isolation,
    /// Default durability of commits. Default `Sync`.
    pub durability: Durability,
    /// Default wait for rows that others have changed. Default 10 s.
    pub lock_wait: LockWait,
    /// How long `Database::transact` runs a transaction again and again, counted from its first run. A run that has begun is not
    /// cut short. Default 60 s.
    pub retry_for: Duration,
    /// Memory that one transaction may take: for the rows that it has written, twice their bytes, as its record has them
    /// too, and 80 bytes each; 74 bytes for each lock; what savepoints keep; and, under `Serializable`, what it has read.
    /// Default 256 MiB, enough for 700,000 rows of 100 bytes; at most 1920 MiB.
    pub max_transaction_bytes: u64,
    /// Memory that all open transactions may take together, counted in the same way but for the first 4 KiB of each. At
    /// least `max_transaction_bytes`. Default 1 GiB.
    pub transaction_memory_bytes: u64,
    /// `Async` commits are on stable storage at latest after this: what a power failure can take. Default 10 ms.
    pub flush_interval: Duration,
    /// Segments kept ready for the log beyond the one being written. Default 2.
    pub spare_segments: usize,
    /// What to do about transactions that stay in doubt, applied once a second by a thread of the database (with
    /// `Background::Manual` only by `TwoPhase::apply_rules`): the first rule that fits a transaction counts. Default:
    /// none, so they stay until somebody decides them.
    pub in_doubt_rules: Vec<InDoubtRule>,
    /// Bytes of log to keep at least, whoever needs them: for standbys and archives that may have to start again. Default 0.
    pub log_keep_bytes: u64,
    /// Archives of the log, each with a name of its own and at least one of them required. Segments are kept until all have
    /// them. With `Background::Manual` only `DatabaseLog::archive_now` archives. Default: none.
    pub archives: Vec<ArchiveOptions>,
    /// Whether other processes can see the statistics. With `Background::Manual` and read-only nothing is published. Default
    /// `EverySecond`: it costs one write of some 10 KiB a second into the page cache, and no sync.
    pub publish_statistics: PublishStatistics,
    /// Who does the work that no caller waits for. Default: threads of the database.
    pub background: Background,
    /// Of an encrypted database: opens it. A new database is encrypted if there is one, and cannot be made so later.
    /// Default: none.
    pub master_key: Option<MasterKey>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: OpenMode::default(),
            page_bytes: 8192,
            segment_bytes: 16 << 20,
            memtable_bytes: 256 << 20,
            snapshot_memory_bytes: 256 << 20,
            cache_bytes: 256 << 20,
            checkpoint_log_bytes: 256 << 20,
            recovery_target: Some(Duration::from_secs(5)),
            checkpoint_interval: Duration::from_secs(300),
            checkpoint_chunk_bytes: 16 << 20,
            checkpoint_io_limit: 0,
            checkpoint_threads: std::thread::available_parallelism().map_or(1, |count| count.get().min(2)),
            page_protection: PageProtection::default(),
            page_image_compression: ImageCompression::default(),
            recovery_threads: std::thread::available_parallelism().map_or(1, |count| count.get().min(8)),
            isolation: Isolation::default(),
            durability: Durability::default(),
            lock_wait: LockWait::Timeout(Duration::from_secs(10)),
            retry_for: Duration::from_secs(60),
            max_transaction_bytes: 256 << 20,
            transaction_memory_bytes: 1 << 30,
            flush_interval: Duration::from_millis(10),
            spare_segments: 2,
            in_doubt_rules: Vec::new(),
            log_keep_bytes: 0,
            archives: Vec::new(),
            publish_statistics: PublishStatistics::default(),
            background: Background::default(),
            master_key: None,
        }
    }
}

impl Options {
    /// Bytes of rows that a replay holds before it merges them: the active memtable and the cache are empty until then.
    pub(crate) fn replay_memory(&self) -> u64 {
        self.memtable_bytes.saturating_add(self.cache_bytes / 2)
    }

    /// The defaults for a transaction.
    pub fn transaction(&self) -> TransactionOptions {
        TransactionOptions {
            isolation: self.isolation,
            durability: self.durability,
            lock_wait: self.lock_wait,
        }
    }
}
