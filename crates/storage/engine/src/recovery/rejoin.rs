//! The way back of a server that was replaced: its log is cut where the new primary's timeline left it.
//!
//! ```text
//!   timeline 1, here    [rec|rec|rec|rec|rec|rec]        what nobody else has: put aside, and out of the database
//!   timeline 2, there               [switch|rec|rec      received from the fork on
//!                                   ^ fork
//! ```
//! The same for a standby that had received more than the one that was promoted, and for one that was promoted by mistake, which goes back
//! to its parent. Nothing is taken out of pages: the gate (`quorum::gate`) has kept out what might have to be. Where that did not
//! hold, the cut is refused, and the directory stays as it is, for a `rewind`.
//!
//! 1. What a killed process left in memory is written to the log, and the log is read to its end: a record must end at the fork.
//! 2. What lies behind is copied to `aside`, with a list of its records, durably.
//! 3. The history of the timeline to follow, its first segment and the mark of a received log; pending files are zeroed, holds are
//!    moved back (`wal::received_log`).
//! 4. The superblock names that timeline, in both copies. The parent counts up to the fork from here on. Whether the database may archive
//!    is what it is of the server to follow: it is kept from it before, and allowed to after.
//!
//! Two servers may have begun timelines of one number. Then the history and the segments of step 3 would take the place of what this
//! server is on until step 4. So it goes back to the common timeline by a cut of its own, and from there to the other one by a second cut.
//!
//! **If the power goes** before 4, this is the server that it was, with all of its log, and the cut is made again; after it, the database
//! follows.

use std::io::ErrorKind;
use std::sync::Arc;

use seawall_io::{Disk, LockMode};
use seawall_tree::{Superblock, Tree, TreeAccess};
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{LogEnd, LogReader, Parting, PendingUse, ReceivedLog, ReceivedMark, TimelineHistory};

use crate::checkpoint::page_protection::LogSource;
use crate::directory::LOCK_PATH;
use crate::encryption::{keys_of_directory, open_superblock};
use crate::environment::Environment;
use crate::error::Error;
use crate::inspect::log_records::open_reader;
use crate::log::setup::{LogSetup, tree_options};
use crate::options::Options;
use crate::recovery::archive_mode::ArchiveMode;
use crate::recovery::put_aside::Aside;
use crate::recovery::rewind;
use crate::recovery::timeline::history_of;
use crate::sabotage::{Defect, sabotaged};
use crate::standby::copied;

/// The server that a database is to follow, as far as it has said what it is.
#[derive(Clone, Copy, Debug)]
pub struct ServerToFollow<'a> {
    /// The history of the timeline that it is on.
    pub history: &'a TimelineHistory,
    /// Whether it may archive; `None`: it has not said so, and the mode here stays.
    pub archive_mode: Option<ArchiveMode>,
}

impl<'a> From<&'a TimelineHistory> for ServerToFollow<'a> {
    fn from(history: &'a TimelineHistory) -> ServerToFollow<'a> {
        ServerToFollow { history, archive_mode: None }
    }
}

/// What became of a database that is to follow another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejoined {
    /// Nothing: what it has is a part of the other server's log, or its timeline goes on there.
    AsItWas,
    /// Its log was cut.
    Cut(CutLog),
}

/// A cut of a log; the second one, if there were two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutLog {
    /// The timeline that it was on.
    pub left: TimelineId,
    /// The timeline that it is on now, to be received from the fork on.
    pub timeline: TimelineId,
    /// Where it was cut.
    pub fork: Lsn,
    /// Where it had ended.
    pub end: Lsn,
    /// How many records were put aside.
    pub records: u64,
    /// The directory that they are in, from the database's own on.
    pub aside: String,
}

/// Makes a database ready to follow this server.
pub(crate) fn rejoin(
    environment: &Environment,
    options: &Options,
    upstream: ServerToFollow<'_>,
) -> Result<Rejoined, Error> {
    let disk = &environment.disk;
    // Looked at before the lock, which would make a file in a directory of something else.
    open_superblock(&**disk)?;
    let _lock = disk.lock(LOCK_PATH, LockMode::Exclusive).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => Error::InUse { directory: disk.location("") },
        _ => Error::io(&error),
    })?;
    if rewind::is_rewinding(&**disk)? {
        return Err(Error::Rewinding { directory: disk.location("") });
    }
    let (_, superblock, _) = open_superblock(&**disk)?;
    let own = history_of(disk, &superblock)?;
    let is_followed = ReceivedMark::open(&**disk, superblock.database, own.timeline(own.timeline));
    let is_followed = is_followed.map_err(|error| Error::log(&error))?.is_some();
    let rejoined = cut(environment, options, upstream, &own)?;
    // Whether there is something to cut is chance, for one that comes back: it depends on when it ended.
    if rejoined == Rejoined::AsItWas
        && !is_followed
        && let Some(mode) = upstream.archive_mode
    {
        mode.apply(&**disk)?;
    }
    Ok(rejoined)
}

/// Cuts the log of a database with the history `own`, if need be.
fn cut(
    environment: &Environment,
    options: &Options,
    upstream: ServerToFollow<'_>,
    own: &TimelineHistory,
) -> Result<Rejoined, Error> {
    let Some(parting) = own.parting(upstream.history) else { return Ok(Rejoined::AsItWas) };
    let pages_until = parting.at;
    let has_same_number = parting.next.as_ref().is_some_and(|next| own.has_number(next.timeline));
    let back = own.parting(&own.up_to(parting.timeline)).filter(|_| has_same_number);
    let Some(back) = back else { return Cut { environment, options, upstream, parting, pages_until }.make() };
    let first = Cut { environment, options, upstream, parting: back, pages_until }.make()?;
    let common = own.up_to(parting.timeline);
    let Some(parting) = common.parting(upstream.history) else { return Ok(first) };
    match (Cut { environment, options, upstream, parting, pages_until }.make()?, first) {
        (Rejoined::Cut(second), Rejoined::Cut(first)) => {
            Ok(Rejoined::Cut(CutLog { left: first.left, end: first.end, ..second }))
        }
        // Nothing of the common timeline had to be cut off: it is followed to where the other one begins.
        (Rejoined::AsItWas, first) => Ok(first),
        (second, Rejoined::AsItWas) => Ok(second),
    }
}

struct Cut<'a> {
    environment: &'a Environment,
    options: &'a Options,
    upstream: ServerToFollow<'a>,
    parting: Parting,
    /// Pages must hold nothing from here on.
    pages_until: Lsn,
}

impl Cut<'_> {
    fn make(&self) -> Result<Rejoined, Error> {
        let Cut { environment, options, upstream, parting, pages_until } = self;
        let keys = keys_of_directory(environment, options)?;
        let source = LogSource::new(&environment.disk, keys.as_ref());
        let tree_options = tree_options(environment, options, keys.clone());
        // A chunk that a crash has cut short is put in place before its images may go with the log.
        let opened = Tree::open_with_log(&*environment.disk, TreeAccess::Write, tree_options, &source);
        let opened = opened.map_err(|error| Error::tree(&error))?;
        let superblock = opened.superblock;
        let mut reader = open_reader(&environment.disk, &superblock, keys.as_ref(), superblock.redo_point)?;
        reader.use_pending(PendingUse::Rescue);
        let fork = parting.at;
        let disk = &environment.disk;
        let pages = superblock.redo_point.max(superblock.log_end);
        match copied::read(&**disk)? {
            // Where the log leads to it, its pages are as any others.
            Some(copied) if copied.is_reached_by(upstream.history, disk)? => {}
            // Its rows are of another timeline, wherever that has parted from the one to follow.
            Some(copied) => {
                let (timeline, fork) = (parting.timeline, *pages_until);
                return Err(Error::PagesBeyondFork { timeline, fork, pages: pages.max(copied.end) });
            }
            None => {}
        }
        if pages > *pages_until && !sabotaged(Defect::CutDespitePages) {
            // A timeline that goes on there, and that this server has not come to the end of, is followed as it is.
            return Err(Error::PagesBeyondFork { timeline: parting.timeline, fork: *pages_until, pages });
        }
        let Some(tail) = self.tail(reader)? else { return Ok(Rejoined::AsItWas) };
        let aside =
            Aside::of(superblock.timeline, fork).fill(environment, &superblock, keys.as_ref(), tail.end)?;
        let history = match &parting.next {
            Some(next) => next.clone(),
            None => history_of(&environment.disk, &superblock)?.up_to(parting.timeline),
        };
        let timeline = history.timeline(history.timeline);
        let next = Superblock { timeline: timeline.id, timeline_mark: timeline.mark, ..superblock.clone() };
        let setup = LogSetup { environment, options, keys: keys.as_ref(), observer: None };
        let log_options = setup.log_options(&next, history);
        let disk = Arc::clone(&environment.disk);
        let log = match &parting.next {
            Some(_) => ReceivedLog::begin(disk, &log_options),
            None => ReceivedLog::open(disk, &log_options, tail.fork),
        };
        log.and_then(|log| log.close()).map_err(|error| Error::log(&error))?;
        // A crash in between leaves a database that does not archive, and says so when it is to: never one that archives and should not.
        if upstream.archive_mode == Some(ArchiveMode::Off) {
            ArchiveMode::Off.apply(&*environment.disk)?;
        }
        for _copy in 0..2 {
            opened.tree.store_superblock(&next).map_err(|error| Error::tree(&error))?;
        }
        if let Some(mode) = upstream.archive_mode {
            mode.apply(&*environment.disk)?;
        }
        opened.tree.close();
        let (left, end, records) = (superblock.timeline, tail.end, aside.records);
        tracing::warn!(%left, timeline = %timeline.id, %fork, %end, records, aside = %aside.directory,
            "the log was cut where the server to follow left it");
        let aside = aside.directory;
        Ok(Rejoined::Cut(CutLog { left, timeline: timeline.id, fork, end, records, aside }))
    }

    /// Reads the log to its end; `None` if it ends at the fork or before, and is on the common timeline.
    fn tail(&self, mut reader: LogReader) -> Result<Option<Tail>, Error> {
        let Parting { timeline, at, is_left_here, .. } = self.parting;
        let mut at_fork = None;
        loop {
            let position = reader.position();
            if position == at {
                at_fork = Some(position);
            }
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => return Err(Error::log(&error)),
            }
        }
        // The last batch may be in the operating system's cache only. The primary has it up to the fork, and does not send it again.
        reader.make_durable().map_err(|error| Error::log(&error))?;
        let end = reader.finish();
        if end.lsn <= at && !is_left_here {
            return Ok(None);
        }
        if at_fork.is_none() {
            return Err(Error::NotItsLog { timeline, fork: at });
        }
        Ok(Some(Tail { fork: LogEnd { lsn: at, durable: at, ..end }, end: end.lsn }))
    }
}

/// What is cut off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    /// Where the log ends without it.
    pub(crate) fork: LogEnd,
    /// Where it ended with it.
    pub(crate) end: Lsn,
}

/// The database's id, and the history of the timeline that it is on; of one that is being rewound, as far as its rows have it.
pub(crate) fn identity(disk: &Arc<dyn Disk>) -> Result<(DatabaseId, TimelineHistory), Error> {
    if let Some(identity) = rewind::identity(disk)? {
        return Ok(identity);
    }
    let (_, superblock, _) = open_superblock(&**disk)?;
    Ok((superblock.database, history_of(disk, &superblock)?))
}
