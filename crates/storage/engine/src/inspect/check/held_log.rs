//! Checking the log that others need: archives, standbys, backups. Recovery reads none of it, so no other check would find
//! out that it has rotted before the day on which it is all that is left.
//!
//! ```text
//!        held from                                                 redo point
//!   [rec|rec|rec][rec|rec|X..|...][...|rec|rec][missing][...|rec|rec]|
//!        ^ the record there, or     ^ told, once a segment; reading goes on in the next one, where the first
//!          the end of one that        record may be the rest of one, or may show that it is damaged
//!          reaches over it            (`LogReader::find_start`)
//! ```
//! No lock is held meanwhile: there may be hours of it to read. So holders move on and segments go. What cannot be read is
//! damage only if it is still held: nothing that is held is taken away, and no hold is made below what is gone.

use std::sync::Arc;

use seawall_io::Disk;
use seawall_keys::DatabaseKeys;
use seawall_tree::Superblock;
use seawall_types::Lsn;
use seawall_wal::{
    HoldInfo, HoldKind, LogGeometry, LogReadError, LogReader, SegmentName, SegmentState, TimelineHistory,
};

use super::{Damage, Reports, check_record, kind_of};
use crate::encryption::log_cipher;
use crate::error::{Error, chain};
use crate::log::hold::needed_from;

/// From where on a hold needs the log; the redo point, if that is further back.
pub(super) fn held_from(redo_point: Lsn, holds: &[HoldInfo]) -> Lsn {
    let held: Vec<HoldInfo> =
        holds.iter().filter(|hold| hold.options.kind != HoldKind::Keep).cloned().collect();
    needed_from(redo_point, &held)
}

/// Reads the log from where it is held to the redo point; how many records that are. `held_from` says from where on it is held
/// now, or why the answer is not wanted any more.
pub(super) fn check_held_log(
    disk: &Arc<dyn Disk>,
    superblock: &Superblock,
    keys: Option<&DatabaseKeys>,
    held_from: &dyn Fn() -> Result<Lsn, Error>,
    reports: &mut Reports<'_>,
) -> Result<u64, Error> {
    let known = crate::recovery::timeline::history_of(disk, superblock).and_then(|history| {
        let geometry = LogGeometry::new(superblock.segment_bytes);
        Ok((history, geometry.map_err(|error| Error::log(&error))?))
    });
    match known {
        Ok((history, geometry)) => {
            let log = HeldLog { disk, superblock, keys, history, geometry, held_from };
            log.check(reports)
        }
        Err(error) => {
            reports.tell_error("log", &error);
            Ok(0)
        }
    }
}

struct HeldLog<'a> {
    disk: &'a Arc<dyn Disk>,
    superblock: &'a Superblock,
    keys: Option<&'a DatabaseKeys>,
    history: TimelineHistory,
    geometry: LogGeometry,
    held_from: &'a dyn Fn() -> Result<Lsn, Error>,
}

/// Where the log could not be read.
struct Failure {
    /// What is lost begins here.
    at: Lsn,
    error: LogReadError,
}

/// What a stretch of the log ended with.
enum Stretch {
    /// Read to the redo point, or as far as it is held.
    Read,
    Failed(Failure),
}

impl HeldLog<'_> {
    fn check(&self, reports: &mut Reports<'_>) -> Result<u64, Error> {
        let redo_point = self.superblock.redo_point;
        let mut records = 0;
        let mut from = (self.held_from)()?;
        let mut start = if from < redo_point { self.first_held(from) } else { return Ok(0) };
        loop {
            let outcome = match start {
                Ok(start) => self.read(start, &mut records, reports)?,
                Err(failure) => Stretch::Failed(failure),
            };
            let Stretch::Failed(failure) = outcome else { return Ok(records) };
            // Asked after the failure: what is held now was held then.
            let held = (self.held_from)()?;
            let segment = self.geometry.segment_of(failure.at);
            let mut next = self.geometry.first_record_of(segment + 1);
            if held > failure.at {
                // Nobody needs it: perhaps it is gone.
                from = held;
                start = self.first_held(from);
            } else {
                let (what, error) = (chain(&failure.error), &failure.error);
                if matches!(error, LogReadError::Missing { .. }) {
                    next = self.next_present(segment);
                }
                let others = self.geometry.segment_of(next) - segment - 1;
                let others =
                    if others > 0 { format!(", and so are {others} after it") } else { String::new() };
                let what = format!("{what}{others}; the log is held from {held} on");
                reports.tell(Damage { kind: kind_of(error), ..Damage::plain("log", what) });
                from = next;
                start = self.start_in_the_middle(from);
            }
            if from >= redo_point {
                return Ok(records);
            }
        }
    }

    /// Reads and checks every record from `start` on.
    fn read(&self, start: Lsn, records: &mut u64, reports: &mut Reports<'_>) -> Result<Stretch, Error> {
        let redo_point = self.superblock.redo_point;
        if start >= redo_point {
            return Ok(Stretch::Read);
        }
        let mut reader = match self.reader(start) {
            Ok(reader) => reader,
            Err(error) => return Ok(Stretch::Failed(self.failure(start, error))),
        };
        let mut segment = self.geometry.segment_of(start);
        loop {
            let at = reader.position();
            match reader.next() {
                Ok(None) => return Ok(Stretch::Read),
                Ok(Some(record)) => {
                    *records += 1;
                    if let Err(what) = check_record(&record) {
                        reports.tell_plain("log", format!("record at {}: {what}", record.span.start));
                    }
                }
                Err(error) => return Ok(Stretch::Failed(self.failure(at, error))),
            }
            // Once a segment: the rest is read for nobody if the hold has ended, or the database.
            let current = self.geometry.segment_of(reader.position());
            if current > segment && (self.held_from)()? >= redo_point {
                return Ok(Stretch::Read);
            }
            segment = current;
        }
    }

    /// Where the first record starts, or should start, that is held from `from` on: a hold may be in the middle of one.
    fn first_held(&self, from: Lsn) -> Result<Lsn, Failure> {
        let from = self.geometry.normalise(from);
        if self.find_record(from)? == from {
            return Ok(from);
        }
        let number = self.geometry.segment_of(from);
        // What lies before shows where a record ends. It need not be there, nor be sound: nobody needs it.
        for before in [number.saturating_sub(1), number] {
            if let Some(shown) = self.reach(self.geometry.first_record_of(before), from) {
                return Ok(shown);
            }
        }
        self.start_in_the_middle(from)
    }

    /// The end of the record that starts before `from` and reaches over it, by the records from `beginning` on. It is `from` if
    /// a record starts there, and if one is damaged that may reach over it.
    fn reach(&self, beginning: Lsn, from: Lsn) -> Option<Lsn> {
        let mut position = beginning;
        let mut is_known = false;
        while position < from {
            position = match self.find_record(position) {
                Ok(found) if found < from => found,
                _ => return is_known.then_some(from),
            };
            is_known = true;
            let mut reader = self.reader(position).ok()?;
            while reader.position() < from && matches!(reader.next(), Ok(Some(_))) {}
            if reader.position() == position {
                return Some(from);
            }
            position = reader.position();
        }
        is_known.then_some(position)
    }

    /// Where a record starts, for who goes on at `position`, which may be in the middle of one.
    fn start_in_the_middle(&self, position: Lsn) -> Result<Lsn, Failure> {
        let start = self.reader(position).and_then(|mut reader| reader.find_start());
        Ok(start.map_err(|error| self.failure(position, error))?.unwrap_or(self.superblock.redo_point))
    }

    /// The first record at or behind `position`; the redo point if there is none before.
    fn find_record(&self, position: Lsn) -> Result<Lsn, Failure> {
        let found = self.reader(position).and_then(|mut reader| reader.find_record());
        Ok(found.map_err(|error| self.failure(position, error))?.unwrap_or(self.superblock.redo_point))
    }

    fn reader(&self, from: Lsn) -> Result<LogReader, LogReadError> {
        let Superblock { database, segment_bytes, redo_point, .. } = *self.superblock;
        let (disk, history) = (Arc::clone(self.disk), self.history.clone());
        let reader = LogReader::open_history(disk, database, history, segment_bytes, from)?;
        let mut reader = reader.decrypted_with(log_cipher(self.keys));
        reader.set_limit(redo_point);
        Ok(reader)
    }

    /// What could not be read from `position` on: a record there, or a segment that it goes on in.
    fn failure(&self, position: Lsn, error: LogReadError) -> Failure {
        let path = match &error {
            LogReadError::Io { path, .. }
            | LogReadError::Header { path, .. }
            | LogReadError::Missing { path, .. } => path.rsplit('/').next(),
            _ => None,
        };
        let name = path.and_then(SegmentName::parse);
        let beginning = name.map(|name| self.geometry.first_record_of(name.number));
        let beginning = beginning.filter(|beginning| *beginning < self.superblock.redo_point);
        Failure { at: beginning.map_or(position, |beginning| beginning.max(position)), error }
    }

    /// Where the first segment behind segment `missing` begins that is there.
    fn next_present(&self, missing: u64) -> Lsn {
        let redo_point = self.superblock.redo_point;
        let segments = match crate::recovery::timeline::list_log_files(self.disk, self.superblock) {
            Ok(files) => files.segments(redo_point, redo_point),
            Err(_) => Vec::new(),
        };
        let ours = segments.iter().filter(|segment| segment.state != SegmentState::Stray);
        let next = ours.map(|segment| segment.name.number).filter(|number| *number > missing).min();
        self.geometry.first_record_of(next.unwrap_or(missing + 1))
    }
}
