//! Segments that are left out on purpose, since their queue is over its limit and the store takes nothing: until that is on record
//! in the repositories, a file of the spool remembers it, durably.
//!
//! What is where if the machine stops: the note is synced before PostgreSQL is told that it may remove the segment. A note without
//! a record in a repository is recorded by the next agent; one that is on record already is recorded again, which is nothing. A note
//! goes when every repository has it on record.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use seawall_archive::{Gap, GapRecord, SegmentPlace, System};

use crate::agent::Shared;
use crate::agent::places::Place;
use crate::say::say;
use crate::spool::{GapNote, Spool};

#[derive(Debug)]
pub(crate) struct Gaps {
    notes: Mutex<Vec<GapNote>>,
    /// One for each repository, in their order: one thread records there at a time, and one that hangs keeps nobody from the others.
    recording: Vec<Mutex<()>>,
}

impl Gaps {
    /// What an earlier agent has left; for so many repositories.
    pub(crate) fn read(spool: &Spool, places: usize) -> std::io::Result<Gaps> {
        let recording = (0..places).map(|_| Mutex::default()).collect();
        Ok(Gaps { notes: Mutex::new(spool.gap_notes()?), recording })
    }

    /// Notes durably that a segment is left out.
    pub(crate) fn note(&self, spool: &Spool, note: GapNote) -> std::io::Result<()> {
        let mut notes = self.notes.lock();
        if notes.iter().any(|known| is_same(known, &note)) {
            return Ok(());
        }
        let mut all = notes.clone();
        all.push(note);
        spool.write_gap_notes(&all)?;
        *notes = all;
        Ok(())
    }

    /// Whether a segment is noted, and not on record everywhere yet.
    pub(crate) fn has(&self, system: System, place: SegmentPlace) -> bool {
        self.notes.lock().iter().any(|note| note.system == system && note.place == place)
    }

    pub(crate) fn count(&self) -> usize {
        self.notes.lock().len()
    }

    /// What is noted, and not on record in this repository.
    fn not_recorded_in(&self, place: &Place) -> Vec<GapNote> {
        let notes = self.notes.lock();
        if notes.is_empty() {
            return Vec::new();
        }
        let key = place.key();
        notes.iter().filter(|note| !note.recorded.contains(&key)).cloned().collect()
    }

    /// Whether this repository lacks a record.
    pub(crate) fn are_to_be_recorded(&self, place: &Place) -> bool {
        !self.not_recorded_in(place).is_empty()
    }

    /// Puts on record in one repository what is noted, after whoever does so already.
    pub(crate) fn record(&self, shared: &Shared, place: usize) -> Result<(), String> {
        if self.count() == 0 {
            return Ok(());
        }
        let _one_at_a_time = self.recording[place].lock();
        let place = &shared.places[place];
        let notes = self.not_recorded_in(place);
        for (system, record) in records(&notes) {
            let recorded = place.ask(|repository| repository.record_gap(system, &record));
            recorded.map_err(|error| error.to_string())?;
        }
        if !notes.is_empty() {
            say!("GAP: {} segments are on record as missing in {}", notes.len(), place.location());
        }
        self.note_recorded(shared, &notes, place)
    }

    fn note_recorded(&self, shared: &Shared, recorded: &[GapNote], place: &Place) -> Result<(), String> {
        let places: BTreeSet<String> = shared.places.iter().map(Place::key).collect();
        let mut notes = self.notes.lock();
        let mut rest = notes.clone();
        for note in rest.iter_mut().filter(|note| recorded.iter().any(|other| is_same(note, other))) {
            note.recorded.insert(place.key());
        }
        rest.retain(|note| !note.recorded.is_superset(&places));
        shared.spool.write_gap_notes(&rest).map_err(|error| error.to_string())?;
        *notes = rest;
        Ok(())
    }
}

fn is_same(one: &GapNote, other: &GapNote) -> bool {
    (one.system, one.place) == (other.system, other.place)
}

/// Stretches of segments that follow each other.
fn records(notes: &[GapNote]) -> Vec<(System, GapRecord)> {
    let mut notes: Vec<&GapNote> = notes.iter().collect();
    notes.sort_by_key(|note| (note.system.to_string(), note.place));
    let mut records: Vec<(System, GapRecord)> = Vec::new();
    for note in notes {
        let follows = records.last_mut().filter(|(system, record)| {
            *system == note.system && record.gap.last.next(*system, note.segment_bytes) == Some(note.place)
        });
        match follows {
            Some((_, record)) => {
                record.gap.last = note.place;
                record.noticed_micros = record.noticed_micros.min(note.noticed_micros);
            }
            None => {
                let gap = Gap { first: note.place, last: note.place };
                let (noticed_micros, reason) = (note.noticed_micros, note.reason.clone());
                records.push((note.system, GapRecord { gap, noticed_micros, reason }));
            }
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
            system: System::PostgreSql(1),
            place,
            segment_bytes: 16 << 20,
            noticed_micros: i64::try_from(digits).unwrap(),
            recorded: BTreeSet::new(),
            reason: "down".to_owned(),
        }
    }

    #[test]
    fn segments_that_follow_each_other_are_one_gap() {
        let of_another_cluster = GapNote { system: System::PostgreSql(2), ..note(1, 6) };
        let notes =
            [note(1, 0xFF), note(1, 0xFE), note(1, 1 << 32), of_another_cluster, note(1, 7), note(2, 8)];
        let gaps: Vec<(String, i64)> = records(&notes)
            .into_iter()
            .map(|(system, record)| match system {
                System::PostgreSql(1) => (record.gap.to_string(), record.noticed_micros),
                _ => (format!("{system}: {}", record.gap), record.noticed_micros),
            })
            .collect();
        let expected = [
            ("000000010000000000000007-000000010000000000000007", 7),
            ("0000000100000000000000FE-000000010000000100000000", 0xFE),
            ("000000020000000000000008-000000020000000000000008", 8),
            ("postgresql-2: 000000010000000000000006-000000010000000000000006", 6),
        ];
        assert_eq!(gaps, expected.map(|(name, micros)| (name.to_owned(), micros)));
    }

    #[test]
    fn a_note_is_there_after_the_agent_was_killed() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(directory.path().join("spool"), 7);
        spool.prepare().unwrap();
        let gaps = Gaps::read(&spool, 1).unwrap();
        for note in [note(1, 7), note(1, 8), note(1, 7)] {
            gaps.note(&spool, note).unwrap();
        }
        let again = Gaps::read(&spool, 1).unwrap();
        assert_eq!((again.count(), again.has(System::PostgreSql(1), note(1, 8).place)), (2, true));
        assert!(!again.has(System::PostgreSql(2), note(1, 8).place), "another cluster's");
    }
}
