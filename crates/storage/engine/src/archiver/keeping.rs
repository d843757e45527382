//! The archivers of a database: made when it is opened, a thread for each, those who wait for them, and what is left to do when
//! it is closed. With `Background::Manual` there is no thread: `archive_now` does it all, archive after archive.

use std::sync::Arc;
use std::time::Duration;

use seawall_sync::CancelToken;
use seawall_sync::atomic::Ordering;
use seawall_types::Lsn;
use seawall_wal::{HoldError, HoldKind, HoldLifetime, HoldOptions, HoldPosition, LogGeometry};

use super::pieces::LogPieces;
use super::uploads::Uploads;
use super::{ArchiveStatistics, Archiver, IDLE};
use crate::archiver::log_archive::{ArchiveOptions, ArchivedLog, LogArchiveError};
use crate::engine::Engine;
use crate::error::Error;
use crate::log::hold::hold_error;

/// The longest name of an archive: that of its hold has something before it.
const NAME_BYTES_MAX: usize = 40;

/// The hold that keeps the log for an archive.
pub(crate) fn hold_name(archive: &str) -> String {
    if archive.is_empty() { "archiver".to_owned() } else { format!("archiver {archive}") }
}

/// The one that keeps it behind a gap that is not on record yet. No archive's name has a bracket in it.
pub(crate) fn gap_hold_name(archive: &str) -> String {
    format!("{} (gap)", hold_name(archive))
}

pub(crate) fn hold_options(archive: &ArchiveOptions) -> HoldOptions {
    HoldOptions {
        kind: HoldKind::Archive,
        limit_bytes: archive.limit_bytes,
        at_limit: archive.at_limit,
        lifetime: HoldLifetime::Permanent,
    }
}

/// Each has a name of its own, and somebody is to wait for one of them.
pub(crate) fn check_archives(archives: &[ArchiveOptions]) -> Result<(), Error> {
    let refuse = |problem: String| Err(Error::Option { name: "archives", problem });
    for (index, archive) in archives.iter().enumerate() {
        let name = &archive.name;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
            return refuse(format!(
                "{name:?} is not a valid name of an archive: expected at most {NAME_BYTES_MAX} letters, digits, '-', '.' and '_'"
            ));
        }
        if archives[..index].iter().any(|other| other.name == *name) {
            return refuse(format!("two archives have the name {name:?}"));
        }
    }
    if !archives.is_empty() && archives.iter().all(|archive| !archive.is_required) {
        return refuse("at least one archive must be required".to_owned());
    }
    Ok(())
}

impl Engine {
    /// Makes an archiver for each archive of the options. Starts nothing.
    pub(crate) fn prepare_archivers(&self) -> Result<(), Error> {
        if self.log.written().is_none() || self.options.archives.is_empty() {
            return Ok(());
        }
        let made = self.options.archives.iter().map(|options| self.new_archiver(options).map(Arc::new));
        let archivers = made.collect::<Result<Vec<_>, Error>>()?;
        for archiver in archivers.iter().filter(|archiver| !archiver.is_held()) {
            // Now: nothing is cleaned up yet.
            *archiver.opening.lock() = Some(self.begin_gap(archiver)?);
        }
        self.always_log_loads()?;
        self.archivers.make(archivers);
        Ok(())
    }

    pub(crate) fn archive_statistics(&self) -> Vec<ArchiveStatistics> {
        self.archivers.all().iter().map(|archiver| archiver.statistics(self.flushed())).collect()
    }

    fn new_archiver(&self, options: &ArchiveOptions) -> Result<Archiver, Error> {
        let superblock = self.redo.superblock();
        let disk = &self.environment.disk;
        let history = crate::recovery::timeline::history_of(disk, &superblock)?;
        let geometry = LogGeometry::new(superblock.segment_bytes).map_err(|error| Error::log(&error))?;
        let found = self.archive_hold(&hold_name(&options.name), hold_options(options))?;
        let log = ArchivedLog { database: superblock.database, segment_bytes: superblock.segment_bytes };
        let uploads = Uploads::new(Arc::clone(disk), Arc::clone(&options.archive), log);
        let pieces = LogPieces { history, geometry };
        Ok(Archiver::new(options, uploads, pieces, found, Arc::clone(self.clock())))
    }

    /// The hold of a former process and its position, or a new one from where recovery starts. Without the hold if that is lost.
    fn archive_hold(
        &self,
        name: &str,
        options: HoldOptions,
    ) -> Result<(Lsn, Option<Arc<HoldPosition>>), Error> {
        let log = self.log()?;
        let created = self.clock().wall_micros();
        let hold = match log.find_hold(name) {
            Err(HoldError::Lost { position, .. }) => return Ok((position, None)),
            Err(HoldError::Unknown { .. }) => {
                self.hold_from(None, |from| log.hold(name, options, from, created))?
            }
            Ok(hold) if log.holds().iter().any(|other| other.name == name && other.options == options) => {
                return Ok((hold.get(), Some(hold)));
            }
            // Another limit.
            Ok(hold) => {
                let replaced = log.replace_hold(name, options, hold.get(), created);
                replaced.map_err(|error| hold_error(&error))?
            }
            Err(error) => return Err(hold_error(&error)),
        };
        self.pacing.slow_writers_for(&options, &hold);
        Ok((hold.get(), Some(hold)))
    }

    /// The thread of an archiver.
    pub(crate) fn keep_archive(&self, archiver: &Archiver) {
        loop {
            let seen = archiver.uploads.work.read();
            if self.background.stopping() {
                return;
            }
            let now = self.clock().monotonic();
            if let Err(error) = self.mind_gap(archiver, now, false) {
                archiver.gap_failed(&error.to_string(), now);
            }
            let position = archiver.position();
            if let Some((hold, files)) = archiver.next_uploads(self.safe_end(), now) {
                files.into_iter().for_each(|file| archiver.uploads.start(file, Arc::clone(&hold)));
            }
            if archiver.position() > position {
                self.background.want_cleaning();
            }
            archiver.uploads.work.wait(seen, Some(archiver.pause(now)));
        }
    }

    /// Archives what is durable, no failover can take back, and is not archived yet, in the calling thread; after the first file none is begun from `deadline` on.
    /// Whether there was anything to do: what another thread is at is left to it.
    fn archive_with(&self, archiver: &Archiver, deadline: Duration) -> Result<bool, Error> {
        let end = self.safe_end();
        let mut is_first = true;
        archiver.wanted.fetch_max(end.get(), Ordering::SeqCst);
        archiver.state.lock().not_before = Duration::ZERO;
        loop {
            let now = self.clock().monotonic();
            match self.mind_gap(archiver, now, true)? {
                true => {}
                false if self.is_manual() => continue,
                // A thread has it, or nobody any more.
                false => return Ok(!is_first),
            }
            let Some((hold, files)) = archiver.next_uploads(end, now) else { return Ok(!is_first) };
            for file in files {
                if !std::mem::take(&mut is_first) && self.clock().monotonic() >= deadline {
                    archiver.state.lock().in_flight.clear();
                    return Ok(true);
                }
                let result = archiver.uploads.run(file, &hold);
                let failed = result.as_ref().err().cloned();
                let mut state = archiver.state.lock();
                state.in_flight.remove(&file);
                archiver.ended(&mut state, file, result, now);
                archiver.publish(&state);
                if let Some(error) = failed {
                    state.in_flight.clear();
                    // Whoever has left this to us tries it, too.
                    archiver.became_archived.wake_all();
                    return Err(archiver.error(&error));
                }
            }
        }
    }

    /// Waits until all archives that are required have everything up to `stamp`, which is durable here.
    pub(crate) fn wait_archived(&self, stamp: Lsn, cancel: Option<&CancelToken>) -> Result<(), Error> {
        if self.archivers.all().is_empty() {
            return Err(Error::NoArchive);
        }
        let archivers = || self.archivers.all().iter();
        if self.is_manual() {
            for archiver in
                archivers().filter(|archiver| !archiver.is_required && archiver.archived() < stamp)
            {
                if let Err(error) = self.archive_with(archiver, Duration::MAX) {
                    tracing::debug!(%error, "an archive that is not required does not take the log");
                }
            }
        }
        let required = archivers().filter(|archiver| archiver.is_required);
        // Each has its turn, whatever the others say.
        let waited: Vec<_> =
            required.map(|archiver| self.wait_archived_by(archiver, stamp, cancel)).collect();
        waited.into_iter().collect()
    }

    fn wait_archived_by(
        &self,
        archiver: &Archiver,
        stamp: Lsn,
        cancel: Option<&CancelToken>,
    ) -> Result<(), Error> {
        loop {
            let seen = archiver.became_archived.read();
            let is_archived = archiver.archived() >= stamp;
            // After the look: a gap is known before the archive is taken to be behind it.
            self.gap_error(archiver, stamp)?;
            if is_archived {
                return Ok(());
            }
            if self.is_manual() {
                let archived = self.archive_with(archiver, Duration::MAX);
                self.gap_error(archiver, stamp)?;
                if !archived? {
                    if self.safe_end() < stamp {
                        // No other thread hears of the standbys that lack it.
                        return Err(Error::NotArchived { lsn: stamp });
                    }
                    archiver.became_archived.wait(seen, Some(IDLE));
                }
                continue;
            }
            archiver.wanted.fetch_max(stamp.get(), Ordering::SeqCst);
            archiver.uploads.work.wake_all();
            if self.background.stopping() {
                return Err(Error::NotArchived { lsn: stamp });
            }
            match cancel {
                Some(cancel) if cancel.is_requested() => return Err(Error::Cancelled),
                Some(cancel) => cancel.wait(&archiver.became_archived, seen, Some(IDLE)),
                None => archiver.became_archived.wait(seen, Some(IDLE)),
            }
        }
    }

    /// When everything is flushed and nobody writes any more: what an archive does not have yet, if it takes what is under way.
    /// Tried once, for as long as closing may take. A gap is opened by the next process.
    pub(crate) fn archive_at_close(&self) {
        for archiver in self.archivers.all().iter().filter(|archiver| archiver.is_held()) {
            let deadline = self.clock().monotonic() + archiver.close_patience;
            let is_flushed = || self.log.written().is_some_and(|log| log.flush_until(log.appended()).is_ok());
            let tried = match archiver.settle() && is_flushed() {
                true => self.archive_with(archiver, deadline).map(drop),
                false => Ok(()),
            };
            let (name, archived, flushed) = (&archiver.name, archiver.archived(), self.flushed());
            if archived < flushed {
                let error = tried.err();
                tracing::warn!(name, %archived, %flushed, ?error, "the end of the log is not archived; the next open resumes");
            }
        }
    }
}

impl Archiver {
    /// The archive has the pieces up to here.
    fn position(&self) -> Lsn {
        self.state.lock().position
    }

    pub(crate) fn error(&self, LogArchiveError(problem): &LogArchiveError) -> Error {
        let name = &self.name;
        let message = if name.is_empty() { problem.clone() } else { format!("archive {name}: {problem}") };
        Error::Archive { message }
    }
}
