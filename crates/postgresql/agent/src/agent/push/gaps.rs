//! Segments that are left out on purpose, since their queue is over its limit and the store takes nothing: until that is on record
//! in the repositories, a file of the spool remembers it, durably.
//!
//! What is where if the machine stops: the note is synced before PostgreSQL is told that it may remove the segment. A note without
//! a record in a repository is recorded by the next agent; one that is on record already is recorded again, which is nothing. A note
//! is deleted when every repository that is set has it on record. A repository is its place and its id: one that was replaced has
//! nothing on record.

use parking_lot::Mutex;
use seawall_archive::{Gap, GapRecord, SegmentPlace, System};

use crate::agent::Shared;
use crate::agent::repositories::RepositoryHandle;
use crate::log_line::log_line;
use crate::spool::{GapNote, Spool};

#[derive(Debug)]
pub(crate) struct Gaps {
    /// As they are in the spool. Never held while the disk works.
    notes: Mutex<Vec<GapNote>>,
    /// Held while the notes are written, and changed after that.
    writing: Mutex<()>,
    /// One for each repository, in their order: one thread records there at a time, and one that hangs keeps nobody from the others.
    recording: Vec<Mutex<()>>,
}

impl Gaps {
    /// What an earlier agent has left for these repositories. What only repositories lack that are set no longer is forgotten.
    pub(crate) fn read(spool: &Spool, repositories: &[RepositoryHandle]) -> std::io::Result<Gaps> {
        let recording = repositories.iter().map(|_| Mutex::default()).collect();
        let all = spool.gap_notes()?;
        let mut notes = all.clone();
        notes.retain(|note| !is_recorded_in_all(note, repositories));
        if notes != all {
            spool.write_gap_notes(&notes)?;
        }
        Ok(Gaps { notes: Mutex::new(notes), writing: Mutex::default(), recording })
    }

    /// Notes durably that a segment is left out.
    pub(crate) fn note(&self, spool: &Spool, note: GapNote) -> std::io::Result<()> {
        let _one_at_a_time = self.writing.lock();
        let notes = self.notes.lock().clone();
        let mut all = notes.clone();
        match all.iter_mut().find(|known| is_same(known, &note)) {
            // Noted for another repository, perhaps.
            Some(known) => known.recorded.retain(|mark| note.recorded.contains(mark)),
            None => all.push(note),
        }
        if all != notes {
            spool.write_gap_notes(&all)?;
            *self.notes.lock() = all;
        }
        Ok(())
    }

    /// Notes what another spool has noted for these repositories, unless it is on record by now.
    pub(crate) fn take_on(
        &self,
        spool: &Spool,
        notes: Vec<GapNote>,
        repositories: &[RepositoryHandle],
    ) -> std::io::Result<()> {
        let mut lasting = notes.into_iter().filter(|note| !is_recorded_in_all(note, repositories));
        lasting.try_for_each(|note| self.note(spool, note))
    }

    /// Whether a segment is noted, and not on record everywhere yet.
    pub(crate) fn has(&self, system: System, place: SegmentPlace) -> bool {
        self.notes.lock().iter().any(|note| note.system == system && note.place == place)
    }

    pub(crate) fn count(&self) -> usize {
        self.notes.lock().len()
    }

    /// What is noted, and not on record in this repository.
    fn not_recorded_in(&self, handle: &RepositoryHandle) -> Vec<GapNote> {
        let notes = self.notes.lock();
        notes.iter().filter(|note| !is_recorded_in(note, handle)).cloned().collect()
    }

    /// Whether this repository lacks a record.
    pub(crate) fn are_to_be_recorded(&self, handle: &RepositoryHandle) -> bool {
        !self.not_recorded_in(handle).is_empty()
    }

    /// Puts on record in one repository what is noted, after whoever does so already.
    pub(crate) fn record(&self, shared: &Shared, index: usize) -> Result<(), String> {
        // A gap that is being noted is on record, too, before a later segment counts as archived.
        drop(self.writing.lock());
        if self.count() == 0 {
            return Ok(());
        }
        let _one_at_a_time = self.recording[index].lock();
        let handle = &shared.repositories[index];
        let notes = self.not_recorded_in(handle);
        if notes.is_empty() {
            return Ok(());
        }
        // All in one repository: it may be replaced meanwhile.
        let recorded = handle.ask(|repository| {
            for (system, record) in records(&notes) {
                repository.record_gap(system, &record)?;
            }
            Ok(repository.header().id_text())
        });
        let id = recorded.map_err(|error| error.to_string())?;
        log_line!("GAP: {} segments are on record as missing in {}", notes.len(), handle.location());
        self.note_recorded(shared, &notes, &handle.record_mark(&id))
    }

    /// `mark` stands for the repository that has them on record now.
    fn note_recorded(&self, shared: &Shared, recorded: &[GapNote], mark: &str) -> Result<(), String> {
        let _one_at_a_time = self.writing.lock();
        let mut rest = self.notes.lock().clone();
        for note in rest.iter_mut().filter(|note| recorded.iter().any(|other| is_same(note, other))) {
            note.recorded.insert(mark.to_owned());
        }
        rest.retain(|note| !is_recorded_in_all(note, &shared.repositories));
        shared.spool.write_gap_notes(&rest).map_err(|error| error.to_string())?;
        *self.notes.lock() = rest;
        Ok(())
    }
}

fn is_recorded_in(note: &GapNote, handle: &RepositoryHandle) -> bool {
    handle.id().is_some_and(|id| note.recorded.contains(&handle.record_mark(&id)))
}

fn is_recorded_in_all(note: &GapNote, repositories: &[RepositoryHandle]) -> bool {
    repositories.iter().all(|handle| is_recorded_in(note, handle))
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
    use std::collections::{BTreeMap, BTreeSet};

    use seawall_archive::TimelineId;

    use crate::agent::repositories::open_repositories;
    use crate::settings::ArchiveSettings;

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
        let repositories = repositories("/nowhere/a");
        let gaps = Gaps::read(&spool, &repositories).unwrap();
        for note in [note(1, 7), note(1, 8), note(1, 7)] {
            gaps.note(&spool, note).unwrap();
        }
        let again = Gaps::read(&spool, &repositories).unwrap();
        assert_eq!((again.count(), again.has(System::PostgreSql(1), note(1, 8).place)), (2, true));
        assert!(!again.has(System::PostgreSql(2), note(1, 8).place), "another cluster's");
    }

    /// Required repositories that an earlier agent has opened.
    fn repositories(urls: &str) -> Vec<RepositoryHandle> {
        let list: Vec<&str> = urls.split(' ').collect();
        let settings = ArchiveSettings::parse(&format!("repository = {list:?}\n"), "test").unwrap();
        let keys =
            urls.split(' ').map(|url| url.parse::<seawall_archive::RepositoryUrl>().unwrap().address());
        let key = |address: String| format!("{:08x}", seawall_codec::checksum::crc32c(address.as_bytes()));
        let known: BTreeMap<String, String> = keys.map(|address| (key(address), "id".to_owned())).collect();
        open_repositories(&settings, &known).unwrap()
    }

    /// A repository that was taken out of the settings needs no record; one that is set and lacks the record does.
    #[test]
    fn a_note_lasts_until_the_repositories_that_are_set_have_it_on_record() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(directory.path().join("spool"), 7);
        spool.prepare().unwrap();
        let both = repositories("/nowhere/a /nowhere/b");
        let gaps = Gaps::read(&spool, &both).unwrap();
        let recorded = BTreeSet::from([both[0].record_mark("id")]);
        gaps.note(&spool, GapNote { recorded, ..note(1, 7) }).unwrap();
        assert_eq!(Gaps::read(&spool, &both).unwrap().count(), 1);
        let replaced = BTreeSet::from([both[0].record_mark("another"), both[1].record_mark("id")]);
        gaps.note(&spool, GapNote { recorded: replaced, ..note(1, 8) }).unwrap();
        let first = repositories("/nowhere/a");
        let gaps = Gaps::read(&spool, &first).unwrap();
        assert!(!gaps.has(System::PostgreSql(1), note(1, 7).place), "nobody lacks it");
        assert!(gaps.has(System::PostgreSql(1), note(1, 8).place), "the repository was replaced");
        assert_eq!(spool.gap_notes().unwrap().len(), 1);
    }
}
