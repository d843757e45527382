//! A server whose pages hold what another one's history does not have becomes equal to that one, without a copy of all rows.
//!
//! ```text
//!   C: where the histories part, or the redo point here, if that is lower
//!
//!   primary                                              here
//!   b: its redo point B, its system keyspace  ------->   kept in memory
//!   rows of leaves that changed since C       ------->   take the place of the rows here
//!   u: others, with a sum over their rows     ------->   compared; what differs here is asked for
//!                                             <-------   ranges
//!   rows of these                             ------->   take the place of the rows here
//!   e: E, the end of its log                  ------->   system keyspace and superblock as of B; log as a copy has it
//! ```
//! What it leaves is what a copy of the primary leaves (`restore::copy`): each row as of some moment between B and E, the system keyspace
//! exactly as of B, no log, and the file `copied`, which says that it is a database only with the log up to E.
//!
//! **Why rows that are kept are those of the primary**: stamps of their leaves are at most C on both sides, and the sums over the rows are the same.
//! The sums compare keys and short values. They see what no stamp tells: a leaf that went as a whole, by a drop or by many deletes; leaves that a
//! load had built before C and linked later; a value that was changed back, so that a merge found nothing to change. Long values are compared by
//! stamps alone: each change of one writes its leaf with the freeze point of the merge, so it is as of C on both sides. Bounds of leaves differ
//! between the servers, and do not matter.
//!
//! Rows are put and deleted by merges, as a checkpoint does it, each chunk whole or not at all. Their stamps are above C, and not below those of
//! the primary's leaves: what was changed here is looked at again by an attempt that follows this one.
//!
//! 1. The log here is read to its end. What lies behind the fork is copied to `aside` (`put_aside`), as far as it is still there.
//! 2. Once the primary has sent a beginning: the marker `rewinding` (`marker`), durable. From here on this is no database, and only another rewind opens it.
//!    Sorted runs are merged into the main part of the tree, in which leaves keep the stamps of their rows: all below is about the main part.
//! 3. The rows, as above. Then the system keyspace.
//! 4. The beginning of the log at B, both copies of the superblock, and all other files of the log but the holds go.
//! 5. The file `archiving-off`, as the primary has it, and the file `copied`; then the marker goes.
//!
//! **If the power goes** before 2, this is the server that it was. After that, the next rewind begins at 3, from the same C, or a lower one if the
//! server to follow is another one by now. After 5, the directory is followed as a copy is.

mod marker;
mod replaced_rows;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

use seawall_io::{DirectoryLock, LockMode, OpenMode as FileMode};
use seawall_keys::DatabaseKeys;
use seawall_tree::{Superblock, Tree, TreeAccess};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId};
use seawall_wal::{EndReason, HoldKind, LogEnd, PendingUse, ReceivedLog, SegmentName, TimelineHistory};

use crate::backup::row_sum::RowSum;
use crate::backup::{BackupBase, BackupEnd};
use crate::catalog::{FIRST_USER_TABLE, first_local_key};
use crate::checkpoint::page_protection::LogSource;
use crate::directory::{LOCK_PATH, LOG_DIRECTORY, io};
use crate::encryption::{keys_of_directory, open_superblock};
use crate::environment::Environment;
use crate::error::Error;
use crate::inspect::log_records::open_reader;
use crate::log::hold::hold_error;
use crate::log::setup::{LogSetup, tree_options};
use crate::options::Options;
use crate::recovery::archive_mode::ArchiveMode;
use crate::recovery::put_aside::{Aside, PutAside};
use crate::recovery::timeline::history_of;
use crate::row_key;
use crate::runs::settle::settle_runs;
use crate::standby::copied;

use marker::RewindMarker;
pub use marker::is_rewinding;
pub(crate) use marker::{REWINDING_PATH, identity};
use replaced_rows::{ReplacedRows, are_kept, key_after};

/// At most so many ranges are asked for: beyond that, neighbours become one.
const RANGES_MAX: usize = 1 << 16;
/// Ranges become one across so many bytes of rows that have come already.
const NEAR_BYTES: u64 = 16 << 10;
const HOLDS: &str = "holds";

/// What the primary has said that the rows begin with.
#[derive(Clone, Debug)]
pub struct RowsFromPrimary {
    /// Its redo point, and what the database is.
    pub base: BackupBase,
    /// The history of the timeline that the primary is on; the redo point may lie on an earlier one.
    pub history: TimelineHistory,
    /// The segment's bytes before the redo point; none if the primary has not begun that segment.
    pub head: Vec<u8>,
    /// Whether the primary may archive.
    pub archive_mode: ArchiveMode,
}

impl RowsFromPrimary {
    /// The history of the timeline that the redo point is on.
    fn history_at_redo(&self) -> TimelineHistory {
        self.history.up_to(self.history.timeline_at(self.base.redo_point))
    }
}

/// What a rewind has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// Rows here are kept where nothing has changed since.
    pub since: Lsn,
    /// Rows that the primary has sent, without those of its system keyspace.
    pub rows: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Rows that were left as they are, and not sent.
    pub kept_rows: u64,
    /// Rows that were put or deleted here.
    pub changed_rows: u64,
    /// How many ranges were asked for, because pages here have changed and those of the primary have not.
    pub ranges: u64,
}

/// A rewind under way.
pub struct Rewind {
    environment: Environment,
    options: Options,
    keys: Option<DatabaseKeys>,
    superblock: Superblock,
    tree: Arc<Tree>,
    since: Lsn,
    /// To be written before anything is changed: the directory has none yet.
    marker: Option<RewindMarker>,
    from_primary: Option<RowsFromPrimary>,
    system_rows: Vec<(Vec<u8>, Vec<u8>)>,
    replaced: ReplacedRows,
    asked: Asked,
    rewound: Rewound,
    lock: Box<dyn DirectoryLock>,
}

impl std::fmt::Debug for Rewind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Rewind").field("since", &self.since).finish_non_exhaustive()
    }
}

/// The ranges to ask for.
#[derive(Debug, Default)]
struct Asked {
    ranges: Vec<Range<Vec<u8>>>,
    /// Bytes of rows that have come since the last one, if nothing behind it was kept.
    near: Option<u64>,
}

impl Asked {
    fn add(&mut self, first: &[u8], last: &[u8]) {
        let end = key_after(last);
        match self.ranges.last_mut().filter(|_| self.near.is_some_and(|bytes| bytes < NEAR_BYTES)) {
            Some(range) => range.end = end,
            None => self.ranges.push(first.to_vec()..end),
        }
        self.near = Some(0);
        if self.ranges.len() > RANGES_MAX {
            let pairs = self.ranges.chunks(2);
            let joined = pairs.map(|pair| pair[0].start.clone()..pair[pair.len() - 1].end.clone());
            self.ranges = joined.collect();
        }
    }
}

impl Rewind {
    /// Begins to make the closed database in the environment's directory equal to one with the history `upstream`, or begins again where an
    /// earlier call was cut short. `None` if its log is a part of that history: there is nothing to rewind. The caller has made sure that it
    /// is the same database.
    ///
    /// # Errors
    /// `InUse`; those of opening: damage, keys. `RestoreMarker` if the marker of an earlier call is damaged. `DiskFull`, `Io`.
    pub fn begin(
        environment: Environment,
        options: &Options,
        upstream: &TimelineHistory,
    ) -> Result<Option<Rewind>, Error> {
        let disk = &environment.disk;
        // Looked at before the lock, which would make a file in a directory of something else.
        open_superblock(&**disk)?;
        let lock = disk.lock(LOCK_PATH, LockMode::Exclusive).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Error::InUse { directory: disk.location("") },
            _ => Error::io(&error),
        })?;
        let keys = keys_of_directory(&environment, options)?;
        let source = LogSource::new(disk, keys.as_ref());
        let tree_options = tree_options(&environment, options, keys.clone());
        let opened = Tree::open_with_log(&**disk, TreeAccess::Write, tree_options, &source);
        let opened = opened.map_err(|error| Error::tree(&error))?;
        let (tree, superblock) = (Arc::new(opened.tree), opened.superblock);
        let mut marker = None;
        let since = match RewindMarker::read(&**disk)? {
            Some(found) => {
                let since = found.until_parted(upstream);
                if since.since != found.since {
                    // Before anything is changed: what comes from this upstream must not pass for rows as of the place before.
                    since.write(&**disk)?;
                }
                since.since
            }
            None => {
                let own = history_of(disk, &superblock)?;
                let of_log = own.parting(upstream).map(|parting| parting.at);
                // Rows that were copied may be of a timeline that the log has not come to.
                let of_rows = match copied::read(&**disk)? {
                    Some(copied) => copied.history(disk)?.parting(upstream).map(|parting| parting.at),
                    None => None,
                };
                let Some(parted) = of_log.into_iter().chain(of_rows).min() else { return Ok(None) };
                if let Some(fork) = of_log {
                    put_aside(&environment, &superblock, keys.as_ref(), fork)?;
                }
                let found = RewindMarker::of(&own, parted.min(superblock.redo_point));
                let since = found.since;
                marker = Some(found);
                since
            }
        };
        let replaced = ReplacedRows::new(since, options.checkpoint.chunk_bytes);
        let rewound = Rewound { since, rows: 0, bytes: 0, kept_rows: 0, changed_rows: 0, ranges: 0 };
        tracing::warn!(%since, "pages here hold what the server to follow never had: rows that have changed since are fetched");
        Ok(Some(Rewind {
            options: options.clone(),
            environment,
            keys,
            superblock,
            tree,
            since,
            marker,
            from_primary: None,
            system_rows: Vec::new(),
            replaced,
            asked: Asked::default(),
            rewound,
            lock,
        }))
    }

    /// Rows that have not changed since, here and there, are kept.
    pub fn since(&self) -> Lsn {
        self.since
    }

    /// Bytes of rows so far.
    pub fn bytes(&self) -> u64 {
        self.rewound.bytes
    }

    /// What the rows begin with. Before the first row. Until then the directory is what it was; from here on another rewind alone opens it.
    ///
    /// # Errors
    /// `Log` if it is not what a copy of this database begins with; `DiskFull`, `Io`.
    pub fn take_beginning(&mut self, beginning: RowsFromPrimary) -> Result<(), Error> {
        let (base, own) = (&beginning.base, &self.superblock);
        let found = (base.database, base.segment_bytes);
        let expected = (own.database, own.segment_bytes);
        let offset = base.redo_point.get() % base.segment_bytes;
        let problem = if found != expected {
            format!("the primary has {}, and this is {}", shown(found), shown(expected))
        } else if !beginning.head.is_empty() && beginning.head.len() as u64 != offset {
            format!("{} bytes do not lead to {}", beginning.head.len(), base.redo_point)
        } else {
            if let Some(marker) = self.marker.take() {
                marker.write(&*self.environment.disk)?;
            }
            // No image of a page is in the log any more, which is about to go.
            self.tree.store_superblock(&self.superblock).map_err(|error| Error::tree(&error))?;
            self.settle_runs()?;
            self.replaced.begin(&user_keys().start);
            self.from_primary = Some(beginning);
            return Ok(());
        };
        Err(Error::Log { message: problem })
    }

    /// Merges sorted runs into the main part of the tree, which alone is compared with the primary's rows. Leaves keep the stamps of their rows.
    fn settle_runs(&mut self) -> Result<(), Error> {
        // Above the place up to which rows are kept, as all that has changed here since.
        let changed = Lsn::new(self.since.get() + 1);
        let stamp = self.superblock.redo_point.max(self.superblock.log_end).max(changed);
        settle_runs(&self.tree, &mut self.superblock, self.options.checkpoint.chunk_bytes, stamp)
    }

    /// No change in the rows that follow is newer.
    pub fn note_stamp(&mut self, stamp: Lsn) {
        self.replaced.note_stamp(stamp);
    }

    /// Takes a row of the primary, in the order of their keys: first of the system keyspace, then of what it does not keep; after
    /// [`Rewind::ask`], of the ranges that were asked for.
    ///
    /// # Errors
    /// `Tree` if it is out of order, or for damage here; `DiskFull`, `Io`.
    pub fn push(&mut self, row_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if row_key < &user_keys().start[..] {
            self.system_rows.push((row_key.to_vec(), value.to_vec()));
            return Ok(());
        }
        let bytes = (row_key.len() + value.len()) as u64;
        self.rewound.rows += 1;
        self.rewound.bytes += bytes;
        self.asked.near = self.asked.near.map(|near| near + bytes);
        self.replaced.push(&self.tree, row_key, value)
    }

    /// The primary has not changed its rows from `first` to `last`: those here are the same, or will be asked for.
    ///
    /// # Errors
    /// As `push`.
    pub fn keep(&mut self, first: &[u8], last: &[u8], sum: RowSum) -> Result<(), Error> {
        self.replaced.replace_until(&self.tree, first)?;
        if are_kept(&self.tree, self.since, first, last, sum)? {
            self.rewound.kept_rows += sum.rows;
            self.asked.near = None;
        } else {
            self.asked.add(first, last);
        }
        self.replaced.begin(&key_after(last));
        Ok(())
    }

    /// The primary has gone through all of its rows: the ranges that it is asked for. Their rows come in this order.
    ///
    /// # Errors
    /// As `push`.
    pub fn ask(&mut self) -> Result<Vec<Range<Vec<u8>>>, Error> {
        self.replaced.replace_until(&self.tree, &first_local_key())?;
        // What comes next has lower keys.
        self.replaced.merge(&self.tree)?;
        let ranges = std::mem::take(&mut self.asked.ranges);
        self.rewound.ranges = ranges.len() as u64;
        self.replaced.expect(&ranges);
        Ok(ranges)
    }

    /// All rows have come: leaves a directory that is opened to be followed
    /// ([`DatabaseDirectory::follow`](crate::DatabaseDirectory::follow)), and in no other way before it has the log up to `end`.
    ///
    /// # Errors
    /// `Log` if nothing has come; `Tree` for damage; `DiskFull`, `Io`. It can be begun again.
    pub fn finish(mut self, end: BackupEnd) -> Result<Rewound, Error> {
        let Some(from_primary) = self.from_primary.take() else {
            return Err(Error::Log { message: "the primary has sent no beginning of its rows".to_owned() });
        };
        self.replaced.replace_expected(&self.tree)?;
        self.replaced.merge(&self.tree)?;
        self.replaced.begin(&[]);
        for (key, value) in std::mem::take(&mut self.system_rows) {
            self.replaced.push(&self.tree, &key, &value)?;
        }
        self.replaced.replace_until(&self.tree, &user_keys().start)?;
        self.replaced.merge(&self.tree)?;
        self.rewound.changed_rows = self.replaced.changed_rows();
        let kept = self.put_log(&from_primary)?;
        let history = from_primary.history_at_redo();
        let RowsFromPrimary { base, history: primary, archive_mode, .. } = from_primary;
        let timeline = history.timeline(history.timeline);
        let superblock = Superblock {
            timeline: timeline.id,
            timeline_mark: timeline.mark,
            redo_point: base.redo_point,
            log_end: base.redo_point,
            checkpoint_count: self.superblock.checkpoint_count + 1,
            next_table: end.next_table,
            in_doubt: base.in_doubt,
            ..self.superblock.clone()
        };
        for _copy in 0..2 {
            self.tree.store_superblock(&superblock).map_err(|error| Error::tree(&error))?;
        }
        self.tree.close();
        let disk = &*self.environment.disk;
        let redo_point = base.redo_point;
        for name in disk.list_names(LOG_DIRECTORY).map_err(io)? {
            if !kept.contains(&name) {
                disk.remove(&format!("{LOG_DIRECTORY}/{name}")).map_err(io)?;
            }
        }
        self.open_log(&superblock, history)?;
        disk.sync_directory(LOG_DIRECTORY).map_err(io)?;
        // Before the marker goes: what is opened then is the primary's database, which may be there to try something out.
        archive_mode.apply(disk)?;
        copied::write(&self.environment.disk, end.end, &primary)?;
        disk.sync_directory("").map_err(io)?;
        marker::remove(disk)?;
        drop(self.lock);
        let Rewound { since, rows, bytes, kept_rows, changed_rows, ranges } = self.rewound;
        tracing::warn!(%since, rows, bytes, kept_rows, changed_rows, ranges, %redo_point, end = %end.end,
            "this server has the rows of the one to follow");
        Ok(self.rewound)
    }

    /// Begins to receive the log at the redo point: with a mark, as the switch record of a timeline that began there has yet to come, and is
    /// not missed. The log that holds have kept is gone: they keep what comes from here on, for standbys that have come further.
    fn open_log(&self, superblock: &Superblock, history: TimelineHistory) -> Result<(), Error> {
        let disk = &self.environment.disk;
        let setup = LogSetup {
            environment: &self.environment,
            options: &self.options,
            keys: self.keys.as_ref(),
            observer: None,
        };
        let at = superblock.redo_point;
        let end = LogEnd { lsn: at, durable: at, reason: EndReason::NoRecord };
        let log = ReceivedLog::open(Arc::clone(disk), &setup.log_options(superblock, history), end);
        let log = log.map_err(|error| Error::log(&error))?;
        for hold in log.holds() {
            // Of the segment that it begins in, this server has the file of one timeline only.
            let is_gone = hold.lost_at.is_some() || hold.position < at;
            if is_gone && hold.options.kind != HoldKind::Keep {
                log.release_hold(&hold.name).map_err(|error| hold_error(&error))?;
                let held = log.hold(&hold.name, hold.options, at, hold.created_micros);
                held.map_err(|error| hold_error(&error))?;
            }
        }
        log.close().map(drop).map_err(|error| Error::log(&error))
    }

    /// Puts the beginning of the log where it belongs; the names of all files of the log that stay.
    fn put_log(&self, from_primary: &RowsFromPrimary) -> Result<BTreeSet<String>, Error> {
        let RowsFromPrimary { base, head, .. } = from_primary;
        let history = from_primary.history_at_redo();
        let disk = &self.environment.disk;
        let mut kept = BTreeSet::from([HOLDS.to_owned()]);
        if !history.forks.is_empty() {
            history.store(disk).map_err(|error| Error::log(&error))?;
            let path = TimelineHistory::path(history.timeline);
            kept.extend(path.strip_prefix(&format!("{LOG_DIRECTORY}/")).map(str::to_owned));
        }
        if head.is_empty() {
            return Ok(kept);
        }
        let number = base.redo_point.get() / base.segment_bytes;
        let name = SegmentName { number, timeline: history.timeline };
        match disk.remove(&name.path()) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.map_err(io)?,
        }
        let file = disk.open(&name.path(), FileMode::Create).map_err(io)?;
        file.write_all_at(head, 0).map_err(io)?;
        // A segment is as long as all others.
        let length = head.len() as u64;
        file.fill_zeros(length, base.segment_bytes - length).map_err(io)?;
        file.sync_data().map_err(io)?;
        kept.insert(name.file_name());
        Ok(kept)
    }
}

fn shown((database, segment_bytes): (DatabaseId, u64)) -> String {
    format!("the database {database} with segments of {segment_bytes} bytes")
}

/// The keys of users' rows.
fn user_keys() -> Range<Vec<u8>> {
    row_key::table_range(TableId::new(FIRST_USER_TABLE)).0..first_local_key().to_vec()
}

/// Reads the log to its end, and puts what lies behind the fork aside. A checkpoint behind the fork may have let go of a part of it.
fn put_aside(
    environment: &Environment,
    superblock: &Superblock,
    keys: Option<&DatabaseKeys>,
    fork: Lsn,
) -> Result<(), Error> {
    let mut reader = open_reader(&environment.disk, superblock, keys, superblock.redo_point)?;
    reader.use_pending(PendingUse::Rescue);
    while reader.next().map_err(|error| Error::log(&error))?.is_some() {}
    reader.make_durable().map_err(|error| Error::log(&error))?;
    let end = reader.finish().lsn;
    if end <= fork {
        // The pages alone are beyond the fork: those of a copy that was not whole.
        return Ok(());
    }
    let put = |from| Aside::of(superblock.timeline, fork).from(from).fill(environment, superblock, keys, end);
    let is_whole = |aside: &PutAside| aside.records > 0 || fork >= superblock.redo_point;
    let aside = match put(fork) {
        Ok(aside) if is_whole(&aside) => aside,
        Err(error) if fork >= superblock.redo_point => return Err(error),
        Ok(_) | Err(_) => {
            tracing::warn!(%fork, from = %superblock.redo_point, "the log between is not here any more, and is not put aside");
            put(superblock.redo_point)?
        }
    };
    let (left, records): (TimelineId, u64) = (superblock.timeline, aside.records);
    tracing::warn!(%left, %fork, %end, records, aside = %aside.directory, "what the server to follow never had is put aside");
    Ok(())
}
