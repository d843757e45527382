//! Segments that are left out on purpose, since their queue is over its limit and the store takes nothing: until that is on record
//! in the repositories, a file of the spool remembers it, durably.
//!
//! What is where if the machine stops: the note is synced before PostgreSQL is told that it may remove the segment. A note without
//! a record in a repository is recorded by the next agent; one that is on record already is recorded again, which is nothing.

use parking_lot::Mutex;
use seawall_archive::{Gap, GapRecord, SegmentPlace, System};

use crate::agent::Shared;
use crate::say::say;
use crate::spool::{GapNote, Spool};

#[derive(Debug, Default)]
pub(crate) struct Gaps {
    notes: Mutex<Vec<GapNote>>,
    /// One thread records them at a time.
    recording: Mutex<()>,
}

impl Gaps {
    /// What an earlier agent has left.
    pub(crate) fn read(spool: &Spool) -> std::io::Result<Gaps> {
        Ok(Gaps { notes: Mutex::new(spool.gap_notes()?), recording: Mutex::default() })
    }

    /// Notes durably that a segment is left out.
    pub(crate) fn note(&self, spool: &Spool, note: GapNote) -> std::io::Result<()> {
        let mut notes = self.notes.lock();
        if notes.iter().any(|known| known.place == note.place) {
            return Ok(());
        }
        let mut all = notes.clone();
        all.push(note);
        spool.write_gap_notes(&all)?;
        *notes = all;
        Ok(())
    }

    /// A segment that is noted, and not on record yet.
    pub(crate) fn find(&self, place: SegmentPlace) -> Option<GapNote> {
        self.notes.lock().iter().find(|note| note.place == place).cloned()
    }

    pub(crate) fn count(&self) -> usize {
        self.notes.lock().len()
    }

    /// Puts on record what is noted, in every repository.
    pub(crate) fn record(&self, shared: &Shared) -> Result<(), String> {
        let _one_at_a_time = self.recording.lock();
        let notes = self.notes.lock().clone();
        if notes.is_empty() {
            return Ok(());
        }
        let system = shared.system()?;
        let mut problem = Ok(());
        for record in records(system, &notes) {
            for place in &shared.places {
                let recorded = place.open().and_then(|repository| repository.record_gap(system, &record));
                // The others get theirs all the same.
                problem = problem.and(recorded.map_err(|error| error.to_string()));
            }
        }
        problem?;
        say!("GAP: {} segments are on record as missing in the archive", notes.len());
        let mut current = self.notes.lock();
        let rest: Vec<GapNote> = current.iter().filter(|note| !notes.contains(note)).cloned().collect();
        shared.spool.write_gap_notes(&rest).map_err(|error| error.to_string())?;
        *current = rest;
        Ok(())
    }
}

/// Stretches of segments that follow each other.
fn records(system: System, notes: &[GapNote]) -> Vec<GapRecord> {
    let mut notes: Vec<&GapNote> = notes.iter().collect();
    notes.sort_by_key(|note| note.place);
    let mut records: Vec<GapRecord> = Vec::new();
    for note in notes {
        let follows = records
            .last_mut()
            .filter(|record| record.gap.last.next(system, note.segment_bytes) == Some(note.place));
        match follows {
            Some(record) => {
                record.gap.last = note.place;
                record.noticed_micros = record.noticed_micros.min(note.noticed_micros);
            }
            None => records.push(GapRecord {
                gap: Gap { first: note.place, last: note.place },
                noticed_micros: note.noticed_micros,
                reason: note.reason.clone(),
            }),
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_archive::TimelineId;

    fn note(timeline: u32, digits: u64) -> GapNote {
        let place = SegmentPlace { timeline: TimelineId::new(timeline).unwrap(), digits };
        GapNote {
            place,
            segment_bytes: 16 << 20,
            noticed_micros: i64::try_from(digits).unwrap(),
            reason: "down".to_owned(),
        }
    }

    #[test]
    fn segments_that_follow_each_other_are_one_gap() {
        let notes = [note(1, 0xFF), note(1, 0xFE), note(1, 1 << 32), note(1, 7), note(2, 8)];
        let gaps: Vec<(String, i64)> = records(System::PostgreSql(1), &notes)
            .into_iter()
            .map(|record| (record.gap.to_string(), record.noticed_micros))
            .collect();
        let expected = [
            ("000000010000000000000007-000000010000000000000007", 7),
            ("0000000100000000000000FE-000000010000000100000000", 0xFE),
            ("000000020000000000000008-000000020000000000000008", 8),
        ];
        assert_eq!(gaps, expected.map(|(name, micros)| (name.to_owned(), micros)));
    }

    #[test]
    fn a_note_is_there_after_the_agent_was_killed() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(directory.path().join("spool"), 7);
        spool.prepare().unwrap();
        let gaps = Gaps::read(&spool).unwrap();
        for note in [note(1, 7), note(1, 8), note(1, 7)] {
            gaps.note(&spool, note).unwrap();
        }
        let again = Gaps::read(&spool).unwrap();
        assert_eq!((again.count(), again.find(note(1, 8).place)), (2, Some(note(1, 8))));
    }
}
