//! Replaying the log from the redo point to its end. No page of a user's table is read.
//!
//! ```text
//!   log --> one thread reads, checks, deals rows by the hash of their keys
//!                 |            |
//!             partition    partition      each sorts its rows; of one key the last wins
//!                 +-----+------+
//!                       v
//!              a frozen memtable, built in order; the active one starts empty
//! ```
//! Nobody reads during a replay, so rows need not be findable before its end: sorting them once is several times
//! faster than inserting each into an ordered structure. Of prepared transactions, those that were in doubt at the redo
//! point are read from the system table first, if there were any; their decision deals their rows. A log longer than the memory for it is replayed in parts,
//! each merged into the tree before the next. A database that is opened for reading only cannot merge: there the parts are
//! packed, of each row the newest version, and what does not fit then is refused.

pub(crate) mod archive_mode;
pub(crate) mod put_aside;
pub(crate) mod record_kinds;
pub(crate) mod rejoin;
pub(crate) mod restore;
pub(crate) mod rewind;
pub(crate) mod statistics;
pub(crate) mod timeline;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use seawall_keys::DatabaseKeys;
use seawall_memtable::{Memtable, ReplayPartition};
use seawall_sync::mpsc::{SyncSender, sync_channel};
use seawall_sync::thread::{self, ScopedJoinHandle};
use seawall_tree::{MergeSource, Superblock, Tree};
use seawall_types::{Lsn, TableId};
use seawall_wal::{
    Changes, EndReason, LogEnd, LogReader, LogRecord, PendingUse, Prepare, Record, received_stretches,
};

use crate::catalog::dropped_tables;
use crate::catalog::logged_definitions::{gives_away, next_id};
use crate::catalog::merge::many_catalog_rows;
use crate::catalog::{self, FIRST_LOCAL_TABLE, FIRST_USER_TABLE, LOCAL_ROW_IN_LOG, NameRow, ReclaimRow};
use crate::checkpoint::merge_source::FrozenRows;
use crate::environment::Environment;
use crate::error::Error;
use crate::in_doubt::epoch::PreparedEpoch;
use crate::in_doubt::replayed::ReplayedTransactions;
use crate::in_doubt::rows::LongBodies;
use crate::inspect::log_records::open_reader;
use crate::options::{OpenMode, Options};
use crate::recovery::record_kinds::{KindCounters, RecordKind};
use crate::recovery::statistics::{RecoveryProgress, RecoveryStatistics};
use crate::recovery::timeline::{ReplayOntoBackup, history_of, list_log_files};
use crate::runs::list::read_list;
use crate::runs::settle::merge_over_runs;
use crate::sabotage::{Defect, sabotaged};
use crate::snapshots::view::View;
use crate::standby::control::time_left;
use crate::transaction::lock_table::lock_name;

/// Rows are handed to a worker in batches of about this many bytes.
const BATCH_BYTES: usize = 256 << 10;
/// Batches that a worker may be behind.
const BATCHES_WAITING: usize = 4;
/// Reads of pages by which a tree is opened: see `RecoveryStatistics::pages_read`.
const ROOT_READS: u64 = 1;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// What a replay leaves.
pub(crate) struct Replayed {
    pub(crate) view: View,
    pub(crate) end: LogEnd,
    /// What is in the view ends here. The log goes on, if that must not be seen yet.
    pub(crate) shown: Lsn,
    pub(crate) superblock: Superblock,
    pub(crate) next_table: u64,
    pub(crate) in_doubt: ReplayedTransactions,
    pub(crate) statistics: RecoveryStatistics,
}

/// A replay of the log behind `superblock.redo_point`.
///
/// One thread reads and checks, `options.recovery_threads` collect and sort. The redo pass of ARIES (Mohan et al.,
/// TODS 1992), without an undo pass: what aborts is never logged.
pub(crate) struct Replay<'a> {
    environment: &'a Environment,
    tree: &'a Arc<Tree>,
    superblock: Superblock,
    options: &'a Options,
    reader: LogReader,
    started: Duration,
    reported: Duration,
    end_at_most: Lsn,
    next_table: u64,
    in_doubt: ReplayedTransactions,
    statistics: RecoveryStatistics,
    kinds: KindCounters,
    /// Where the part that is being read begins.
    part_start: Lsn,
    /// Rows of that part.
    part_rows: u64,
    /// If the tree is a backup's.
    onto_backup: Option<ReplayOntoBackup>,
    /// See `standby`.
    is_standby: bool,
    /// The log goes on behind what is replayed.
    reads_on: bool,
    /// Of a standby that applies with a delay: the first record that is to wait for its time.
    held_at: Option<Lsn>,
    /// Stretches of the log that were received from another server, before this one was promoted, perhaps.
    received: Vec<Range<Lsn>>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(
        environment: &'a Environment,
        tree: &'a Arc<Tree>,
        superblock: Superblock,
        options: &'a Options,
        keys: Option<&DatabaseKeys>,
        onto_backup: Option<ReplayOntoBackup>,
    ) -> Result<Replay<'a>, Error> {
        let redo_point = superblock.redo_point;
        let mut reader = open_reader(&environment.disk, &superblock, keys, redo_point)?;
        reader.use_pending(match options.mode {
            OpenMode::ReadOnly => PendingUse::Read,
            OpenMode::CreateIfMissing | OpenMode::Existing | OpenMode::New => PendingUse::Rescue,
        });
        if let Some(onto) = onto_backup {
            reader.set_limit(onto.end);
        }
        let files = list_log_files(&environment.disk, &superblock)?;
        let history = history_of(&environment.disk, &superblock)?;
        let received = received_stretches(&*environment.disk, superblock.database, &history)
            .map_err(|error| Error::log(&error))?;
        let started = environment.clock.monotonic();
        Ok(Replay {
            end_at_most: files.end_at_most().max(redo_point),
            next_table: superblock.next_table.get(),
            in_doubt: ReplayedTransactions::at_redo_point(tree, &superblock)?,
            statistics: RecoveryStatistics { redo_point, ..RecoveryStatistics::default() },
            kinds: KindCounters::default(),
            part_start: redo_point,
            part_rows: 0,
            onto_backup,
            is_standby: false,
            reads_on: false,
            held_at: None,
            received,
            environment,
            tree,
            superblock,
            options,
            reader,
            started,
            reported: started,
        })
    }

    /// Reads the log to its end, and replays it up to `shown` only, where a record ends; or up to where pages may hold it already. Only
    /// what was visible goes into pages, and the mark may lag behind it.
    pub(crate) fn shown_until(mut self, shown: Lsn) -> Replay<'a> {
        let shown = shown.max(self.reader.position()).max(self.superblock.log_end);
        if shown < self.end_at_most {
            self.reader.set_limit(shown);
            self.reads_on = true;
        }
        self
    }

    /// The log is another server's, which strikes dropped tables off its own list. What a process that wrote here has left in memory is
    /// not in that server's log.
    pub(crate) fn of_standby(mut self) -> Replay<'a> {
        self.reader.use_pending(PendingUse::Ignore);
        Replay { is_standby: true, ..self }
    }

    /// Replays all of it.
    ///
    /// # Errors
    /// `Log` if a record before the end of the log is damaged: nothing is opened then.
    pub(crate) fn run(mut self, progress: &mut dyn FnMut(RecoveryProgress)) -> Result<Replayed, Error> {
        let memtable =
            if self.is_read_only() { self.pack_parts(progress)? } else { self.merge_parts(progress)? };
        self.finish(memtable)
    }

    /// Merges all parts into the tree but the last one.
    fn merge_parts(&mut self, progress: &mut dyn FnMut(RecoveryProgress)) -> Result<Memtable, Error> {
        // The active memtable and the cache are empty until the replay ends: their memory may be used.
        let limit = self.options.memory.for_replay();
        loop {
            let (memtable, ended) = self.next_part(limit, progress)?;
            if ended {
                return Ok(memtable);
            }
            self.merge_part(&memtable)?;
        }
    }

    /// Packs all parts into one memtable.
    fn pack_parts(&mut self, progress: &mut dyn FnMut(RecoveryProgress)) -> Result<Memtable, Error> {
        let limit = self.options.memory.for_replay();
        let (first, mut ended) = self.next_part(limit, progress)?;
        if ended {
            return Ok(first);
        }
        let mut all = Memtable::packed(&[&first], &[Lsn::MAX]);
        drop(first);
        while !ended {
            let taken = u64::try_from(all.memory_bytes()).unwrap_or(u64::MAX);
            // With more, each part would be short, and all of it packed again for a few rows.
            if taken > limit / 2 {
                return Err(self.too_long_to_read(taken));
            }
            let (part, is_last) = self.next_part(limit - taken, progress)?;
            all = Memtable::packed(&[&part, &all], &[Lsn::MAX]);
            ended = is_last;
        }
        Ok(all)
    }

    fn too_long_to_read(&self, taken: u64) -> Error {
        let (start, read) = (self.statistics.redo_point, self.reader.position());
        let (done, all) = (read.bytes_since(start).max(1), self.end_at_most.bytes_since(start));
        let wanted = 2 * u128::from(taken) * u128::from(all) / u128::from(done);
        Error::Option {
            name: "memory.memtable_bytes",
            problem: format!(
                "too little to open this database for reading only: the rows that its log holds up to {read} take {taken} bytes, \
                 and the log goes on to {} at most; give {} MiB, or open it for writing once, which takes a checkpoint",
                self.end_at_most,
                wanted.div_ceil(1 << 20)
            ),
        }
    }

    fn next_part(
        &mut self,
        limit: u64,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Memtable, bool), Error> {
        let worker_count = self.options.recovery.threads.max(1);
        thread::scope(|scope| {
            let mut dealer = Dealer::start(scope, worker_count)?;
            let mut bytes = 0;
            let prepared_before = self.in_doubt.kept_bytes();
            let ended = loop {
                let prepared = self.in_doubt.kept_bytes().saturating_sub(prepared_before);
                if bytes + prepared >= limit {
                    break false;
                }
                match self.read_record(&mut dealer)? {
                    Some(more) => bytes += more,
                    None => break true,
                }
                self.report(progress);
            };
            // Like at a freeze: what is in doubt now is merged with the rows of this part.
            if ended || !self.is_read_only() {
                self.in_doubt.settle(|row_key, stamp, value| dealer.deal_row(row_key, stamp, Some(value)))?;
            }
            Ok((Memtable::from_partitions(dealer.finish()?), ended))
        })
    }

    fn is_read_only(&self) -> bool {
        self.options.mode == OpenMode::ReadOnly
    }

    /// Deals the rows of the next record; their bytes, or `None` at the end of the log.
    fn read_record(&mut self, dealer: &mut Dealer<'_>) -> Result<Option<u64>, Error> {
        let Some(found) = self.reader.next().map_err(|error| Error::log(&error))? else {
            return Ok(None);
        };
        let span = found.span;
        if self.is_standby && is_to_wait(&found, self.options.apply_delay, &self.superblock, self.environment)
        {
            (self.reads_on, self.held_at) = (true, Some(span.start));
            return Ok(None);
        }
        self.statistics.records += 1;
        let place = |problem: &dyn std::fmt::Display| Error::Log {
            message: format!("record at {}: {problem}", span.start),
        };
        let record = Record::decode(found.kind, found.flags, found.body).map_err(|error| place(&error))?;
        let kind = RecordKind::of(&record);
        let clock = &self.environment.clock;
        let begun = self.kinds.is_sampled(kind).then(|| clock.monotonic());
        // Of a server with other checkpoints, so with a list of its own of storages to cut out.
        let is_copy = self.onto_backup.is_some()
            || self.is_standby
            || self.received.iter().any(|stretch| stretch.contains(&span.start));
        let mut dealt = Dealt { stamp: span.end, rows: 0, bytes: 0, next_table: self.next_table, is_copy };
        match record {
            Record::Commit(commit) => dealt.deal(dealer, commit.changes(), place)?,
            Record::CommitPrepared(decision) | Record::RollbackPrepared(decision) => {
                let unknown = || place(&format!("it decides {:?}, which is not in doubt", decision.gid));
                let replayed = self.in_doubt.decided(decision.prepared).ok_or_else(unknown)?;
                for row_key in replayed.row_keys(decision.prepared) {
                    dealer.deal_row(&row_key, span.end, None)?;
                }
                if kind == RecordKind::CommitPrepared {
                    let body = replayed.read_body(self.tree, decision.prepared)?;
                    let prepare = Prepare::decode(&body).map_err(|error| place(&error))?;
                    dealt.deal(dealer, prepare.changes(), place)?;
                }
                dealt.deal(dealer, decision.changes(), place)?;
            }
            Record::Prepare(_) => self.in_doubt.prepared(span.end, found.body),
            Record::BulkLoad(load) if self.onto_backup.is_some_and(|onto| onto.lacks(span.start)) => {
                return Err(Error::LoadedPastLog { table: load.table.get(), lsn: span.start });
            }
            Record::Checkpoint(_)
            | Record::TimelineSwitch(_)
            | Record::RestorePoint(_)
            | Record::NoOp
            | Record::BulkLoad(_)
            | Record::PageImages(_) => {}
        }
        let took = begun.map(|begun| clock.monotonic().saturating_sub(begun));
        self.kinds.count(kind, span.end.bytes_since(span.start), took);
        self.next_table = dealt.next_table;
        self.statistics.rows += dealt.rows;
        self.part_rows += dealt.rows;
        Ok(Some(dealt.bytes))
    }

    fn report(&mut self, progress: &mut dyn FnMut(RecoveryProgress)) {
        // The clock is asked once in a while, not for each record.
        if !self.statistics.records.is_multiple_of(4096) {
            return;
        }
        let now = self.environment.clock.monotonic();
        if now.saturating_sub(self.reported) < PROGRESS_INTERVAL {
            return;
        }
        self.reported = now;
        let (start, replayed) = (self.statistics.redo_point, self.reader.position());
        let (done, left) = (replayed.bytes_since(start), self.end_at_most.bytes_since(replayed));
        let elapsed = now.saturating_sub(self.started);
        let left_at_most = elapsed.mul_f64(ratio(left, done.max(1)));
        tracing::info!(%replayed, end_at_most = %self.end_at_most, ?left_at_most, "recovery proceeds");
        let end_at_most = self.end_at_most;
        progress(RecoveryProgress { redo_point: start, replayed, end_at_most, elapsed, left_at_most });
    }

    /// Merges a part into the tree, and advances the redo point past it: a checkpoint of what has been replayed.
    fn merge_part(&mut self, memtable: &Memtable) -> Result<(), Error> {
        let end = self.reader.position();
        let failed = |error| Error::tree(&error);
        // No page may hold a change whose record the power can take.
        self.reader.make_durable().map_err(|error| Error::log(&error))?;
        // As a checkpoint does: see `note_end_of_log`.
        self.superblock.log_end = end.max(self.superblock.log_end);
        self.tree.store_superblock(&self.superblock).map_err(failed)?;
        dropped_tables::write_out(memtable, self.part_start)?;
        let mut rows = FrozenRows::of_users(memtable, self.part_start, Vec::new());
        let chunk_bytes = self.options.checkpoint.chunk_bytes;
        merge_over_runs(self.tree, &mut self.superblock, &mut rows, chunk_bytes, end)?;
        let mut merge = self.tree.begin_merge(rows).map_err(failed)?;
        while !merge.is_done() {
            let budget = self.options.checkpoint.chunk_bytes;
            let plan = self.tree.continue_merge(&mut merge, budget, end).map_err(failed)?;
            self.tree.apply_chunk(plan, None).map_err(failed)?;
        }
        let mut parts = LongBodies::new(self.in_doubt.long_bodies());
        while parts.peek().is_some() {
            let plan = self.tree.merge_chunk(&mut parts, self.options.checkpoint.chunk_bytes, end);
            self.tree.apply_chunk(plan.map_err(failed)?, None).map_err(failed)?;
        }
        let (start, page_bytes) = (self.part_start, self.superblock.page_bytes);
        let mut rows = FrozenRows::of_system(memtable, start);
        if let Some(mut catalog) = many_catalog_rows(memtable, start, page_bytes, self.options) {
            while !catalog.is_done() {
                let budget = self.options.checkpoint.chunk_bytes;
                let plan = self.tree.merge_chunk(&mut catalog, budget, end).map_err(failed)?;
                self.tree.apply_chunk(plan, None).map_err(failed)?;
            }
            rows = FrozenRows::of_system_behind_catalog(memtable, start);
        }
        let plan = self.tree.merge_chunk(&mut rows, u64::MAX, end).map_err(failed)?;
        self.superblock.redo_point = end;
        self.superblock.checkpoint_count += 1;
        self.superblock.next_table = TableId::new(self.next_table);
        self.superblock.in_doubt = self.in_doubt.count();
        self.tree.apply_chunk(plan, Some(&self.superblock)).map_err(failed)?;
        self.in_doubt.merged();
        self.part_start = end;
        self.part_rows = 0;
        self.statistics.merges += 1;
        Ok(())
    }

    fn finish(mut self, memtable: Memtable) -> Result<Replayed, Error> {
        let shown = self.held_at.unwrap_or_else(|| self.reader.position());
        if self.reads_on {
            self.reader.lift_limit();
            while self.reader.next().map_err(|error| Error::log(&error))?.is_some() {}
        }
        self.statistics.rescued_records = self.reader.rescued_records();
        let end = self.reader.finish();
        if end.reason == EndReason::MissingSegment && !self.is_standby {
            return Err(Error::Log {
                message: format!(
                    "the segment at {} is missing: a log that was written here has it, even if it is empty; put it back, \
                     or restore the database from a backup",
                    end.lsn
                ),
            });
        }
        let now = self.environment.clock.monotonic();
        self.statistics.end_of_log = end.lsn;
        self.statistics.duration = now.saturating_sub(self.started);
        self.statistics.by_kind = self.kinds.read();
        let runs = read_list(self.tree, &self.superblock)?;
        self.statistics.pages_read = self.tree.pages().file().read_counts().reads.saturating_sub(ROOT_READS);
        let long_bodies = self.in_doubt.take_long_bodies();
        let frozen = (!memtable.is_empty()).then(|| crate::snapshots::view::Frozen {
            memtable: Arc::new(memtable),
            start: self.part_start,
            end: shown,
            logged_rows: self.part_rows,
            // Those in what was replayed are not known; this count begins with the first that is appended.
            logged_images: 0,
            prepared: Arc::new(PreparedEpoch::replayed(self.in_doubt.count(), long_bodies)),
            replaced_bytes: Arc::default(),
            merged: false,
        });
        let active =
            Memtable::new(usize::try_from(self.options.memory.memtable_bytes / 2).unwrap_or(usize::MAX));
        let view = View {
            active: Arc::new(active),
            active_start: shown,
            images_before: 0,
            prepared: Arc::default(),
            snapshot_floor: Lsn::ZERO,
            frozen: frozen.into_iter().collect(),
            runs,
        };
        let (superblock, next_table, statistics) = (self.superblock, self.next_table, self.statistics);
        Ok(Replayed { view, end, shown, superblock, next_table, in_doubt: self.in_doubt, statistics })
    }
}

/// Whether a standby applies the record later: pages may hold what lies before the end of the log that the superblock names.
fn is_to_wait(
    found: &LogRecord<'_>,
    delay: Duration,
    superblock: &Superblock,
    environment: &Environment,
) -> bool {
    !delay.is_zero()
        && found.span.start >= superblock.log_end
        && time_left(found, delay, environment.clock.wall_micros()).is_some()
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn row_bytes(row_key: &[u8], value: Option<&[u8]>) -> u64 {
    // What a short row costs beyond its bytes until the memtable is built, in part.
    const OVERHEAD: usize = 48;
    u64::try_from(row_key.len() + value.map_or(0, <[u8]>::len) + OVERHEAD).unwrap_or(u64::MAX)
}

/// What one record has dealt.
struct Dealt {
    stamp: Lsn,
    rows: u64,
    bytes: u64,
    next_table: u64,
    /// The tree is a backup's or a standby's, or one that was, and the record that of another server, whose checkpoints were at other
    /// places. Drops are written out, and storages stay listed in `reclaim` unless a table gets them: see `restore` and `standby`.
    is_copy: bool,
}

impl Dealt {
    fn deal(
        &mut self,
        dealer: &mut Dealer<'_>,
        changes: Changes<'_>,
        place: impl Fn(&dyn std::fmt::Display) -> Error,
    ) -> Result<(), Error> {
        for change in changes.clone() {
            let change = change.map_err(|error| place(&error))?;
            if change.table().get() >= FIRST_LOCAL_TABLE {
                return Err(place(&LOCAL_ROW_IN_LOG));
            }
            change.copy_row_key(&mut dealer.row_key);
            let is_forgotten = change.table() == catalog::RECLAIM && change.value().is_none();
            if self.is_copy && is_forgotten && !gives_away(changes.clone(), &dealer.row_key)? {
                // It may have been a load's that was given up. One that was cut out here already is cut out once more, which
                // finds nothing.
                self.rows += 1;
                self.bytes += row_bytes(&dealer.row_key, None);
                dealer.deal(self.stamp, Some(&ReclaimRow::Storage.encode()))?;
                continue;
            }
            if change.table().get() < FIRST_USER_TABLE && !sabotaged(Defect::NextTableForgotten) {
                self.next_table = self.next_table.max(next_id(&dealer.row_key, change.value())?);
                if change.value().is_some_and(|value| dropped_tables::is_drop(&dealer.row_key, value)) {
                    self.bytes += dropped_tables::WRITTEN_OUT_BYTES;
                }
            }
            self.rows += 1;
            self.bytes += row_bytes(&dealer.row_key, change.value());
            match change
                .value()
                .filter(|value| self.is_copy && dropped_tables::is_drop(&dealer.row_key, value))
            {
                Some(drop) => deal_written_out(dealer, self.stamp, drop)?,
                None => dealer.deal(self.stamp, change.value())?,
            }
        }
        Ok(())
    }
}

/// Deals the rows that a drop stands for. Its key is in the dealer.
fn deal_written_out(dealer: &mut Dealer<'_>, stamp: Lsn, drop: &[u8]) -> Result<(), Error> {
    let NameRow::Dropped { object, storage } = NameRow::decode_key(&dealer.row_key, drop)? else {
        return dealer.deal(stamp, Some(drop));
    };
    dealer.deal(stamp, None)?;
    dealer.deal_row(&catalog::object_key(object), stamp, None)?;
    dealer.deal_row(&catalog::reclaim_key(storage), stamp, Some(&ReclaimRow::Storage.encode()))
}

/// Rows on their way to a worker.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    rows: Vec<BatchRow>,
}

struct BatchRow {
    stamp: Lsn,
    key_bytes: usize,
    /// `None` is a delete.
    value_bytes: Option<usize>,
}

impl Batch {
    fn push(&mut self, row_key: &[u8], stamp: Lsn, value: Option<&[u8]>) {
        self.bytes.extend_from_slice(row_key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let value_bytes = value.map(<[u8]>::len);
        self.rows.push(BatchRow { stamp, key_bytes: row_key.len(), value_bytes });
    }

    fn pour_into(&self, partition: &mut ReplayPartition) {
        let mut bytes = &self.bytes[..];
        for row in &self.rows {
            let (key, rest) = bytes.split_at(row.key_bytes);
            let (value, rest) = rest.split_at(row.value_bytes.unwrap_or(0));
            partition.push(key, row.stamp, row.value_bytes.map(|_| value));
            bytes = rest;
        }
    }
}

/// Deals rows to workers, each of which collects and sorts a partition. One worker is the calling thread itself.
struct Dealer<'scope> {
    row_key: Vec<u8>,
    own: ReplayPartition,
    workers: Vec<Worker<'scope>>,
}

struct Worker<'scope> {
    sender: SyncSender<Batch>,
    thread: ScopedJoinHandle<'scope, ReplayPartition>,
    batch: Batch,
}

impl<'scope> Dealer<'scope> {
    fn start(scope: &'scope thread::Scope<'scope, '_>, count: usize) -> Result<Dealer<'scope>, Error> {
        let workers = if count == 1 { 0 } else { count };
        let workers = (0..workers).map(|index| Worker::start(scope, index)).collect::<Result<_, _>>()?;
        Ok(Dealer { row_key: Vec::new(), own: ReplayPartition::new(), workers })
    }

    fn deal_row(&mut self, row_key: &[u8], stamp: Lsn, value: Option<&[u8]>) -> Result<(), Error> {
        self.row_key.clear();
        self.row_key.extend_from_slice(row_key);
        self.deal(stamp, value)
    }

    /// Deals the row whose key is in `row_key`.
    fn deal(&mut self, stamp: Lsn, value: Option<&[u8]>) -> Result<(), Error> {
        if self.workers.is_empty() {
            self.own.push(&self.row_key, stamp, value);
            return Ok(());
        }
        // All versions of a row go to one worker, in commit order.
        let count = u64::try_from(self.workers.len()).expect("a handful of workers");
        let index = usize::try_from(lock_name(&self.row_key) % count).expect("less than the worker count");
        let worker = &mut self.workers[index];
        worker.batch.push(&self.row_key, stamp, value);
        if worker.batch.bytes.len() >= BATCH_BYTES { worker.send() } else { Ok(()) }
    }

    /// The partitions, sorted.
    fn finish(mut self) -> Result<Vec<ReplayPartition>, Error> {
        self.own.sort();
        let mut partitions = vec![self.own];
        let mut threads = Vec::new();
        for mut worker in self.workers {
            worker.send()?;
            // Dropping the sender ends the worker's loop.
            drop(worker.sender);
            threads.push(worker.thread);
        }
        for thread in threads {
            partitions.push(thread.join().map_err(|_| worker_died())?);
        }
        Ok(partitions)
    }
}

impl<'scope> Worker<'scope> {
    fn start(scope: &'scope thread::Scope<'scope, '_>, index: usize) -> Result<Worker<'scope>, Error> {
        let (sender, receiver) = sync_channel::<Batch>(BATCHES_WAITING);
        let thread = thread::Builder::new()
            .name(format!("seawall-replay-{index}"))
            .spawn_scoped(scope, move || {
                let mut partition = ReplayPartition::new();
                for batch in receiver {
                    batch.pour_into(&mut partition);
                }
                partition.sort();
                partition
            })
            .map_err(|error| Error::Io { message: format!("starting a replay thread: {error}") })?;
        Ok(Worker { sender, thread, batch: Batch::default() })
    }

    fn send(&mut self) -> Result<(), Error> {
        let batch = std::mem::take(&mut self.batch);
        self.sender.send(batch).map_err(|_| worker_died())
    }
}

fn worker_died() -> Error {
    Error::Io { message: "a replay thread ended early".to_owned() }
}
