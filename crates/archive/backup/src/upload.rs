//! Putting the objects of a backup: several threads, none of which goes on when one has failed.
//!
//! ```text
//!   run --channel--> thread: compress, put --> list of what was put --> all up to a mark? --> progress object
//! ```
//! A progress object is put when every run that it names was, whichever thread that was: so whatever it names is there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use seawall_archive::{ObjectKind, ObjectName, ObjectPlace, Packer, Packing, Repository, System};
use seawall_engine::{BackupBase, Error};
use seawall_types::Lsn;

use crate::error::BackupError;
use crate::manifest::{Manifest, RunInfo, RunKind};
use crate::object_names;
use crate::progress::Progress;
use crate::resume::Foundation;

/// A run on its way.
pub(crate) struct Made {
    pub(crate) kind: RunKind,
    pub(crate) number: u32,
    pub(crate) rows: u64,
    pub(crate) content: Vec<u8>,
    /// With it and those before, the backup has come so far.
    pub(crate) mark: Option<Mark>,
}

/// How far a backup has come.
pub(crate) struct Mark {
    pub(crate) reached: Option<Vec<u8>>,
    /// No change in the rows is newer.
    pub(crate) stamp: Lsn,
}

/// Notes, durably, that the backup says for the time of this number how far it is.
pub(crate) type NoteProgress<'a> = dyn Fn(u32) -> Result<(), Error> + Sync + 'a;

/// Puts objects of a backup.
pub(crate) struct Uploader<'a> {
    repository: &'a Repository,
    base: &'a BackupBase,
    id: &'a str,
    place: ObjectPlace,
    packing: Packing,
    foundation: &'a Foundation,
    note_progress: &'a NoteProgress<'a>,
    state: Mutex<State>,
    has_failed: AtomicBool,
}

/// What was put.
#[derive(Default)]
struct State {
    /// By number.
    runs: BTreeMap<u32, RunInfo>,
    /// So many of the first runs are there.
    whole: u32,
    /// By the number of runs that must be there.
    marks: BTreeMap<u32, Mark>,
    next_progress: u32,
}

impl<'a> Uploader<'a> {
    pub(crate) fn new(
        repository: &'a Repository,
        base: &'a BackupBase,
        id: &'a str,
        place: ObjectPlace,
        packing: Packing,
        foundation: &'a Foundation,
        note_progress: &'a NoteProgress<'a>,
    ) -> Uploader<'a> {
        let (state, has_failed) = (Mutex::default(), AtomicBool::new(false));
        Uploader { repository, base, id, place, packing, foundation, note_progress, state, has_failed }
    }

    /// Whether nothing more is put.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Puts what `read` sends, in `threads` threads; the runs, by number.
    pub(crate) fn put_all(
        &self,
        threads: usize,
        read: impl FnOnce(&SyncSender<Made>) -> Result<(), BackupError>,
    ) -> Result<Vec<RunInfo>, BackupError> {
        let threads = threads.max(1);
        let (sender, receiver) = sync_channel(threads);
        let receiver = Arc::new(Mutex::new(receiver));
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    // When the last thread has gone, the reader finds nobody to give a run to.
                    let receiver = Arc::clone(&receiver);
                    scope.spawn(move || self.work(&receiver))
                })
                .collect();
            drop(receiver);
            let read = read(&sender);
            if read.is_err() {
                self.has_failed.store(true, Ordering::Relaxed);
            }
            drop(sender);
            let panicked = |_| Error::Io { message: "a thread of the backup panicked".to_owned() };
            // All of them are waited for, and what the first one says counts.
            let ended: Vec<_> = workers.into_iter().map(|worker| worker.join().map_err(panicked)).collect();
            ended.into_iter().try_for_each(|ended| ended?)?;
            read
        })?;
        let state = self.state.lock().expect("its threads have ended");
        Ok(state.runs.values().copied().collect())
    }

    /// Puts what comes, until there is nothing more or something fails, here or elsewhere.
    fn work(&self, runs: &Mutex<Receiver<Made>>) -> Result<(), BackupError> {
        let mut packer = Packer::new(self.packing);
        loop {
            let next = runs.lock().expect("no thread panics while it waits for a run").recv();
            let Ok(run) = next else { return Ok(()) };
            if self.has_failed() {
                return Ok(());
            }
            if let Err(error) = self.put(&mut packer, run) {
                self.has_failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
    }

    fn put(&self, packer: &mut Packer, run: Made) -> Result<(), BackupError> {
        let name = object_names::run(self.id, run.number);
        let info = self.put_object(packer, &name, ObjectKind::BackupRun, self.place, &run.content)?;
        let info = RunInfo { kind: run.kind, rows: run.rows, ..info };
        match self.note(run.number, info, run.mark) {
            Some((number, progress)) => self.put_progress(packer, number, &progress),
            None => Ok(()),
        }
    }

    /// Notes that a run was put; how far the backup has come, if that is to be said now.
    fn note(&self, number: u32, run: RunInfo, mark: Option<Mark>) -> Option<(u32, Progress)> {
        let mut state = self.state.lock().expect("no thread panics while it adds to a list");
        state.runs.insert(number, run);
        while state.runs.contains_key(&state.whole) {
            state.whole += 1;
        }
        if let Some(mark) = mark {
            state.marks.insert(number + 1, mark);
        }
        let whole = state.whole;
        let (count, mark) = state
            .marks
            .range(..=whole)
            .next_back()
            .map(|(count, _)| *count)
            .and_then(|count| state.marks.remove(&count).map(|mark| (count, mark)))?;
        state.marks.retain(|other, _| *other > count);
        let runs = state.runs.range(..count).map(|(_, run)| *run).collect();
        let number = state.next_progress;
        state.next_progress += 1;
        Some((number, self.progress(runs, mark)))
    }

    fn progress(&self, runs: Vec<RunInfo>, mark: Mark) -> Progress {
        Progress {
            base: self.base.clone(),
            started_micros: self.place.created_micros,
            parent: self.foundation.parent.clone(),
            goes_on_with: self.foundation.goes_on_with.clone(),
            stamp: mark.stamp,
            reached: mark.reached,
            runs,
        }
    }

    fn put_progress(&self, packer: &mut Packer, number: u32, progress: &Progress) -> Result<(), BackupError> {
        (self.note_progress)(number)?;
        let name = object_names::progress(self.id, number);
        let text = progress.encode();
        self.put_object(packer, &name, ObjectKind::BackupProgress, self.place, text.as_bytes()).map(drop)
    }

    /// Says what the backup builds on, before it has anything of its own.
    pub(crate) fn put_first_progress(&self, first_key: &[u8]) -> Result<(), BackupError> {
        let mark = Mark { reached: Some(first_key.to_vec()), stamp: self.base.redo_point };
        let progress = self.progress(Vec::new(), mark);
        self.state.lock().expect("no thread has begun").next_progress = 1;
        self.put_progress(&mut Packer::new(self.packing), 0, &progress)
    }

    pub(crate) fn put_manifest(&self, manifest: &Manifest) -> Result<(), BackupError> {
        let name = object_names::manifest(self.id).expect("a backup's name has the form of names");
        let place = ObjectPlace { end: manifest.end.end, ..self.place };
        let (mut packer, text) = (Packer::new(self.packing), manifest.encode());
        self.put_object(&mut packer, &name, ObjectKind::BackupManifest, place, text.as_bytes()).map(drop)
    }

    /// Bytes and checksum of what was put.
    fn put_object(
        &self,
        packer: &mut Packer,
        name: &ObjectName,
        kind: ObjectKind,
        place: ObjectPlace,
        content: &[u8],
    ) -> Result<RunInfo, BackupError> {
        let header = name.header(kind, System::Seawall(self.base.database), place);
        let packed = packer.pack(header, content);
        self.repository.push_object(&packed)?;
        let header = packed.header();
        let (bytes, checksum) = (header.plain_bytes, header.plain_checksum);
        Ok(RunInfo { kind: RunKind::Rows, rows: 0, bytes, checksum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_archive::RepositoryOptions;
    use seawall_simulation::SimulatedDisk;
    use seawall_types::{DatabaseId, TableId, TimelineId};

    #[test]
    fn progress_names_runs_that_are_there_only_in_whatever_order_they_come() {
        let disk = Arc::new(SimulatedDisk::new(1));
        let repository = Repository::create_on(disk, RepositoryOptions::default()).unwrap();
        let base = BackupBase {
            database: DatabaseId::from_bytes([1; 16]),
            timeline: TimelineId::FIRST,
            page_bytes: 4096,
            segment_bytes: 1 << 20,
            created_micros: 0,
            keys: None,
            redo_point: Lsn::new(5),
            complete_from: Lsn::new(5),
            in_doubt: 0,
            first_new_table: TableId::new(64),
            loading: Vec::new(),
        };
        let place = ObjectPlace {
            timeline: TimelineId::FIRST,
            segment_bytes: 1 << 20,
            start: Lsn::new(5),
            end: Lsn::new(5),
            created_micros: 0,
        };
        let foundation = Foundation::default();
        let note = |_: u32| -> Result<(), Error> { Ok(()) };
        let uploader = Uploader::new(&repository, &base, "b", place, Packing::default(), &foundation, &note);
        let put = |number: u32, reached: Option<u8>| {
            let run = RunInfo { kind: RunKind::Rows, rows: u64::from(number), bytes: 1, checksum: 1 };
            let mark = reached.map(|key| Mark { reached: Some(vec![key]), stamp: Lsn::new(7) });
            let told = uploader.note(number, run, mark);
            told.map(|(number, progress)| (number, progress.runs.len(), progress.reached.unwrap()))
        };
        assert_eq!([put(1, Some(10)), put(3, Some(30)), put(4, Some(40))], [None, None, None]);
        assert_eq!(put(0, None), Some((0, 2, vec![10])));
        // The one before is passed over.
        assert_eq!(put(2, None), Some((1, 5, vec![40])));
        assert_eq!([put(6, Some(60)), put(7, None)], [None, None]);
        assert_eq!(put(5, None), Some((2, 7, vec![60])));
    }
}
