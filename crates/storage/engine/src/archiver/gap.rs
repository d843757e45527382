//! A gap: log that an archive skips, because the backlog exceeded the archive's limit.
//!
//! ```text
//!   log    |-- the archive has it --|xx lost, on record xx|-- kept by the hold "archiver NAME (gap)", then by "archiver NAME" --|
//!                                  from                   to = redo point
//! ```
//! A gap is opened in this order, each step when the one before is durable:
//!
//! 1. A hold of the process, with the same limit, keeps the log from the redo point on.
//! 2. The archive puts on record which segments it lacks, and why. This is tried until it succeeds.
//! 3. The permanent hold, which is lost, gives way to one from `to` on, in one write of `log/holds`. Uploads go on from there.
//!
//! Invariants:
//! * A segment that the archive lacks is on record there as left out, or was not yet given up here: the log has it, or the
//!   permanent hold is lost and says from where on.
//! * No commit whose record lies in a gap is told that it is archived.
//!
//! **If the power goes** before 3 is durable, the permanent hold is still there, lost, at `from`: the next process opens the gap
//! again, up to its own redo point, which is not before this one's. What is on record twice is on record. After 3, it is as if
//! nothing had been. If the hold of 1 is lost in turn, since the store does not even take a record, the gap becomes longer, and
//! all of it goes on record.

use std::sync::Arc;
use std::time::Duration;

use seawall_sync::atomic::Ordering;
use seawall_types::Lsn;
use seawall_wal::{HoldError, HoldLifetime, HoldOptions, HoldPosition, SegmentName};

use super::keeping::{gap_hold_name, hold_name};
use super::pieces::LogPieces;
use super::{Archiver, RETRY_FIRST, RETRY_LAST, Tail, UPLOADS_AT_FIRST};
use crate::archiver::log_archive::{LogArchiveError, LogFile, LogGap};
use crate::engine::Engine;
use crate::error::Error;
use crate::log::hold::hold_error;

/// Log that is not in an archive, on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveGap {
    /// The archive has the log up to here.
    pub from: Lsn,
    /// And from here on.
    pub to: Lsn,
    /// When it was noticed, microseconds since 1970.
    pub noticed_micros: i64,
    /// Why it was opened.
    pub reason: String,
    /// Whether the archive has it on record: before that, nothing goes up.
    pub is_on_record: bool,
}

/// A gap that is being opened.
#[derive(Debug)]
pub(crate) struct OpeningGap {
    /// Keeps the log behind it.
    pub(crate) hold: Arc<HoldPosition>,
    to: Lsn,
    /// What is not on record yet.
    missing: Vec<LogGap>,
}

impl LogPieces {
    /// The segments of which a piece lies between two positions, as stretches of one timeline each.
    pub(crate) fn segments_between(&self, from: Lsn, to: Lsn) -> Vec<(SegmentName, SegmentName)> {
        let mut stretches: Vec<(SegmentName, SegmentName)> = Vec::new();
        let mut after = from;
        while let Some(piece) = self.next(after, to).filter(|piece| piece.end <= to) {
            after = piece.end;
            let (LogFile::Segment(segment) | LogFile::Tail { segment, .. }) = piece.file else { continue };
            match stretches.last_mut() {
                Some((_, last)) if last.timeline == segment.timeline => *last = segment,
                _ => stretches.push((segment, segment)),
            }
        }
        stretches
    }
}

impl Archiver {
    /// Whether the log is kept from the position on.
    pub(crate) fn is_held(&self) -> bool {
        self.state.lock().is_held()
    }

    /// The gap that the record before `stamp` lies in.
    pub(crate) fn gap_at(&self, stamp: Lsn) -> Option<ArchiveGap> {
        let state = self.state.lock();
        state.gaps.iter().find(|gap| gap.from < stamp && stamp <= gap.to).cloned()
    }

    /// Says that the log up to where `hold` stands is lost, as far as the archive does not have it.
    pub(crate) fn begin_gap(&self, hold: Arc<HoldPosition>, why: &str) -> OpeningGap {
        let mut state = self.state.lock();
        let from = state.position.max(self.archived());
        let to = self.pieces.geometry.normalise(hold.get()).max(state.position);
        let stretches = self.pieces.segments_between(state.position, to);
        let reason = match state.failing() {
            Some(failing) => format!("{why}; the last failure: {failing}"),
            None => why.to_owned(),
        };
        let noticed_micros = self.clock.wall_micros();
        let name = |(first, last)| LogGap { first, last, noticed_micros, reason: reason.clone() };
        let missing: Vec<LogGap> = stretches.into_iter().map(name).collect();
        state.hold = None;
        state.waiting.clear();
        // One that was being opened has become longer.
        if state.gaps.last().is_some_and(|gap| !gap.is_on_record) {
            state.gaps.pop();
        }
        if !missing.is_empty() {
            tracing::error!(archive = self.name, %from, %to, reason,
                "the archive of the log has a gap: nothing can be restored across it, and what is behind it not before there is a \
                 new full backup");
            state.gaps.push(ArchiveGap { from, to, noticed_micros, reason, is_on_record: false });
        }
        drop(state);
        self.became_archived.wake_all();
        OpeningGap { hold, to, missing }
    }

    /// The log is kept from `to` on, after the gap, and goes up again. Where no piece of it was lost, there is no gap: the archive has the
    /// log up to where it had it, and gets the rest from the file that is still there.
    fn go_on(&self, hold: Arc<HoldPosition>, to: Lsn) {
        let mut state = self.state.lock();
        state.hold = Some(hold);
        state.tail = Tail::default();
        state.uploads_wanted = UPLOADS_AT_FIRST.min(self.uploads_max);
        (state.retry, state.not_before) = (RETRY_FIRST, Duration::ZERO);
        state.failed.clear();
        state.gap_failing = None;
        if let Some(gap) = state.gaps.last_mut().filter(|gap| !gap.is_on_record) {
            gap.is_on_record = true;
            state.counts.gaps += 1;
            state.position = to;
            self.archived.fetch_max(to.get(), Ordering::SeqCst);
        }
        state.planned = state.position;
        drop(state);
        self.became_archived.wake_all();
        self.news.wake_all();
    }

    /// The gap could not be opened any further now.
    pub(crate) fn gap_failed(&self, problem: &str, now: Duration) {
        tracing::error!(
            archive = self.name,
            problem,
            "a gap in the archive is not on record yet; this will be tried again"
        );
        let mut state = self.state.lock();
        state.counts.failures += 1;
        state.gap_failing = Some(problem.to_owned());
        state.not_before = now + state.retry;
        state.retry = (state.retry * 2).min(RETRY_LAST);
    }

    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now >= self.state.lock().not_before
    }
}

impl Engine {
    /// Opens a gap if the hold of an archiver is lost, or if the archive lacks log that is not here any more, as far as that goes now;
    /// whether there is none, or none any more. The calling thread asks the archive what it has if it is `is_here`.
    ///
    /// # Errors
    /// `Archive` if the calling thread does the work and the archive does not take it; those of a hold.
    pub(crate) fn mind_gap(&self, archiver: &Archiver, now: Duration, is_here: bool) -> Result<bool, Error> {
        let mut opening = archiver.opening.lock();
        let is_lost = opening.as_ref().map_or(!archiver.is_held(), |gap| gap.hold.is_over());
        if is_lost {
            *opening = Some(self.begin_gap(archiver)?);
        }
        if !self.join(archiver, &mut opening, now, is_here)? {
            return Ok(false);
        }
        let Some(gap) = opening.as_mut() else { return Ok(true) };
        let uploads = &archiver.uploads;
        loop {
            if let Some((noted, result)) = uploads.take_noted() {
                match result {
                    Ok(()) => gap.missing.retain(|left| (left.first, left.last) != (noted.first, noted.last)),
                    Err(error) => {
                        archiver.gap_failed(&error.0, now);
                        if self.is_manual() {
                            return Err(archiver.error(&error));
                        }
                    }
                }
            }
            let Some(next) = gap.missing.first() else { break };
            if !archiver.is_due(now) || !uploads.note(next, self.is_manual()) {
                return Ok(false);
            }
        }
        let created = self.clock().wall_micros();
        let name = hold_name(&archiver.name);
        match self.log()?.replace_hold(&name, archiver.hold_options, gap.to, created) {
            Ok(hold) => {
                self.pacing.slow_writers_for(&archiver.hold_options, &hold);
                self.log()?.forget_hold(&gap_hold_name(&archiver.name), &gap.hold);
                archiver.go_on(hold, gap.to);
            }
            // The hold of the gap was lost a moment ago: round again.
            Err(HoldError::NotRetained { .. }) if gap.hold.is_over() => return Ok(false),
            Err(error) => return Err(hold_error(&error)),
        }
        *opening = None;
        self.background.want_cleaning();
        Ok(true)
    }

    pub(crate) fn begin_gap(&self, archiver: &Archiver) -> Result<OpeningGap, Error> {
        let log = self.log()?;
        let options = HoldOptions { lifetime: HoldLifetime::Process, ..archiver.hold_options };
        let (name, created) = (gap_hold_name(&archiver.name), self.clock().wall_micros());
        let hold = self.hold_from(None, |from| log.replace_hold(&name, options, from, created))?;
        self.pacing.slow_writers_for(&options, &hold);
        let why = match log.find_hold(&hold_name(&archiver.name)) {
            Err(HoldError::Lost { position, lost_at, limit_bytes: Some(limit), .. }) => format!(
                "the archive had not taken the log from {position} to {lost_at}, which is more than its limit of {limit} bytes allows"
            ),
            Err(HoldError::Lost { position, .. }) => {
                format!("the log that the archive had not taken, from {position} on, was not there any more")
            }
            Ok(_) | Err(_) => "the hold that kept the log for the archive was released".to_owned(),
        };
        Ok(archiver.begin_gap(hold, &why))
    }

    pub(crate) fn gap_error(&self, archiver: &Archiver, stamp: Lsn) -> Result<(), Error> {
        let Some(gap) = archiver.gap_at(stamp) else { return Ok(()) };
        let ArchiveGap { from, to, reason, .. } = gap;
        Err(Error::ArchiveGap { archive: archiver.name.clone(), lsn: stamp, from, to, reason })
    }
}

impl LogArchiveError {
    /// What was read for an upload may be of another place by now.
    pub(crate) fn not_kept() -> LogArchiveError {
        LogArchiveError("the log was not kept until it was read".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use seawall_types::{TimelineId, TimelineMark};
    use seawall_wal::{LogGeometry, TimelineHistory};

    use super::*;

    #[test]
    fn the_segments_of_a_gap_are_told_for_each_timeline() {
        let geometry = LogGeometry::new(64 << 10).unwrap();
        let second = TimelineId::new(2).unwrap();
        let fork = Lsn::new(6 * (64 << 10) + 20_000);
        let pieces = LogPieces {
            history: TimelineHistory::first().fork(second, fork, TimelineMark::NONE, "test"),
            geometry,
        };
        let name = |number, timeline| SegmentName { number, timeline: TimelineId::new(timeline).unwrap() };
        let from = Lsn::new(4 * (64 << 10) + 9_000);
        let inside = Lsn::new(9 * (64 << 10) + 9_000);
        let (old, new) = ((name(4, 1), name(6, 1)), (name(6, 2), name(8, 2)));
        assert_eq!(pieces.segments_between(from, inside), [old, new]);
        assert_eq!(pieces.segments_between(from, fork), [old]);
        assert_eq!(pieces.segments_between(from, Lsn::new(fork.get() - 1)), [(name(4, 1), name(5, 1))]);
        assert_eq!(pieces.segments_between(from, from), []);
        assert_eq!(pieces.segments_between(inside, inside), []);
    }
}
