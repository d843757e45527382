//! Uploads under way: each on a thread of its own, which holds the archive and nothing of the engine, so that closing a
//! database waits for none of them.

use std::sync::Arc;

use seawall_io::{Disk, OpenMode};
use seawall_sync::{Mutex, WaitWord, thread};
use seawall_types::Lsn;
use seawall_wal::{HoldPosition, TimelineHistory};

use crate::archiver::log_archive::{ArchivedLog, LogArchive, LogArchiveError, LogFile, LogGap};
use crate::archiver::pieces::LogPieces;

/// Pieces that are asked for at a time.
const PIECES_MAX: u32 = 1000;

/// What an upload came to: the bytes of the file.
pub(crate) type Uploaded = Result<u64, LogArchiveError>;

/// What came of putting a gap on record.
pub(crate) type Noted = (LogGap, Result<(), LogArchiveError>);

/// How far the archive has the log, if it has any.
pub(crate) type Reached = Result<Option<Lsn>, LogArchiveError>;

/// Something that is asked of the archive, one at a time.
#[derive(Debug)]
struct Errand<T> {
    is_under_way: bool,
    ended: Option<T>,
}

impl<T> Default for Errand<T> {
    fn default() -> Errand<T> {
        Errand { is_under_way: false, ended: None }
    }
}

impl<T> Errand<T> {
    /// Whether it may begin.
    fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.is_under_way, true)
    }

    fn end(&mut self, outcome: T) {
        *self = Errand { is_under_way: false, ended: Some(outcome) };
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Uploads {
    disk: Arc<dyn Disk>,
    archive: Arc<dyn LogArchive>,
    log: ArchivedLog,
    ended: Mutex<Vec<(LogFile, Uploaded)>>,
    noting: Mutex<Errand<Noted>>,
    asking: Mutex<Errand<Reached>>,
    /// Changes when an upload ends, or when the thread that starts them has something else to look at.
    pub(crate) work: WaitWord,
}

impl Uploads {
    pub(crate) fn new(disk: Arc<dyn Disk>, archive: Arc<dyn LogArchive>, log: ArchivedLog) -> Uploads {
        Uploads {
            disk,
            archive,
            log,
            ended: Mutex::default(),
            noting: Mutex::default(),
            asking: Mutex::default(),
            work: WaitWord::new(),
        }
    }

    /// Starts one, of a file that `hold` keeps; its end shows in `take_ended`.
    pub(crate) fn start(self: &Arc<Self>, file: LogFile, hold: Arc<HoldPosition>) {
        let uploads = Arc::clone(self);
        let builder = thread::Builder::new().name("seawall-upload".to_owned());
        let started = builder.spawn(move || {
            let result = uploads.run(file, &hold);
            uploads.end(file, result);
        });
        if let Err(error) = started {
            self.end(file, Err(LogArchiveError(format!("starting a thread for it: {error}"))));
        }
    }

    fn end(&self, file: LogFile, result: Uploaded) {
        self.ended.lock().push((file, result));
        self.work.wake_all();
    }

    /// Takes the uploads that have ended since the last call.
    pub(crate) fn take_ended(&self) -> Vec<(LogFile, Uploaded)> {
        std::mem::take(&mut *self.ended.lock())
    }

    /// Uploads a file that `hold` keeps, here and now.
    pub(crate) fn run(&self, file: LogFile, hold: &HoldPosition) -> Uploaded {
        let run = std::panic::AssertUnwindSafe(|| self.try_run(file, hold));
        let panicked = |_| Err(LogArchiveError("the upload panicked".to_owned()));
        match std::panic::catch_unwind(run).unwrap_or_else(panicked) {
            // Whatever went wrong: it says nothing of the archive.
            Err(_) if hold.is_over() => Err(LogArchiveError::not_kept()),
            uploaded => uploaded,
        }
    }

    fn try_run(&self, file: LogFile, hold: &HoldPosition) -> Uploaded {
        let content = read(&*self.disk, &self.log, file)?;
        // A hold is over before anything that it has kept is removed or used again.
        if hold.is_over() {
            return Err(LogArchiveError::not_kept());
        }
        store(&*self.archive, &self.log, file, &content)
    }

    /// Puts a gap on record, here or on a thread; one at a time. Whether `take_noted` has the outcome already.
    pub(crate) fn note(self: &Arc<Self>, gap: &LogGap, is_here: bool) -> bool {
        if !self.noting.lock().begin() {
            return false;
        }
        if is_here {
            self.run_note(gap.clone());
            return true;
        }
        let (uploads, noted) = (Arc::clone(self), gap.clone());
        let builder = thread::Builder::new().name("seawall-upload".to_owned());
        if let Err(error) = builder.spawn(move || uploads.run_note(noted)) {
            let failed = LogArchiveError(format!("starting a thread for it: {error}"));
            self.end_note((gap.clone(), Err(failed)));
        }
        false
    }

    fn run_note(&self, gap: LogGap) {
        let run = std::panic::AssertUnwindSafe(|| self.archive.note_gap(&self.log, &gap));
        let panicked = |_| Err(LogArchiveError("putting a gap on record panicked".to_owned()));
        let result = std::panic::catch_unwind(run).unwrap_or_else(panicked);
        self.end_note((gap, result));
    }

    fn end_note(&self, noted: Noted) {
        self.noting.lock().end(noted);
        self.work.wake_all();
    }

    /// The one that has ended since the last call.
    pub(crate) fn take_noted(&self) -> Option<Noted> {
        self.noting.lock().ended.take()
    }
}

impl Uploads {
    /// Asks how far the archive has the log that leads to `before`, here or on a thread. Whether `take_reached` has the answer already.
    pub(crate) fn ask(self: &Arc<Self>, history: &TimelineHistory, before: Lsn, is_here: bool) -> bool {
        if is_here {
            self.run_ask(history, before);
            return true;
        }
        if !self.asking.lock().begin() {
            return false;
        }
        let (uploads, history) = (Arc::clone(self), history.clone());
        let builder = thread::Builder::new().name("seawall-upload".to_owned());
        if let Err(error) = builder.spawn(move || uploads.run_ask(&history, before)) {
            self.end_ask(Err(LogArchiveError(format!("starting a thread for it: {error}"))));
        }
        false
    }

    /// Asks how far the archive has `pieces` from `from` on, one after another, not beyond `until`; here or on a thread. Whether
    /// `take_reached` has the answer already.
    pub(crate) fn ask_from(
        self: &Arc<Self>,
        pieces: LogPieces,
        from: Lsn,
        until: Lsn,
        is_here: bool,
    ) -> bool {
        if is_here {
            self.run_ask_from(&pieces, from, until);
            return true;
        }
        if !self.asking.lock().begin() {
            return false;
        }
        let uploads = Arc::clone(self);
        let builder = thread::Builder::new().name("seawall-upload".to_owned());
        if let Err(error) = builder.spawn(move || uploads.run_ask_from(&pieces, from, until)) {
            self.end_ask(Err(LogArchiveError(format!("starting a thread for it: {error}"))));
        }
        false
    }

    fn run_ask_from(&self, pieces: &LogPieces, from: Lsn, until: Lsn) {
        let run = std::panic::AssertUnwindSafe(|| self.whole_from(pieces, from, until));
        let panicked = |_| Err(LogArchiveError("asking what it has panicked".to_owned()));
        self.end_ask(std::panic::catch_unwind(run).unwrap_or_else(panicked));
    }

    fn whole_from(&self, pieces: &LogPieces, from: Lsn, until: Lsn) -> Reached {
        let mut at = from;
        for _piece in 0..PIECES_MAX {
            let Some(piece) = pieces.next(at, until).filter(|piece| piece.end <= until) else { break };
            if !self.archive.has(&self.log, piece.file)? {
                break;
            }
            at = piece.end;
        }
        Ok(Some(at))
    }

    fn run_ask(&self, history: &TimelineHistory, before: Lsn) {
        let run = std::panic::AssertUnwindSafe(|| self.archive.reach(&self.log, history, before));
        let panicked = |_| Err(LogArchiveError("asking what it has panicked".to_owned()));
        self.end_ask(std::panic::catch_unwind(run).unwrap_or_else(panicked));
    }

    fn end_ask(&self, reached: Reached) {
        self.asking.lock().end(reached);
        self.work.wake_all();
    }

    /// The answer, if there is one since the last call.
    pub(crate) fn take_reached(&self) -> Option<Reached> {
        self.asking.lock().ended.take()
    }

    /// Whether the answer is not there yet.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking.lock().is_under_way
    }
}

/// Reads a file and stores it; its content.
pub(crate) fn upload(
    disk: &dyn Disk,
    archive: &dyn LogArchive,
    log: &ArchivedLog,
    file: LogFile,
) -> Result<Vec<u8>, LogArchiveError> {
    let content = read(disk, log, file)?;
    store(archive, log, file, &content)?;
    Ok(content)
}

fn store(archive: &dyn LogArchive, log: &ArchivedLog, file: LogFile, content: &[u8]) -> Uploaded {
    archive.store(log, file, content)?;
    if let LogFile::Segment(segment) = file
        && let Err(error) = archive.remove_tails(log, segment)
    {
        tracing::warn!(segment = %segment.file_name(), %error, "tails of an archived segment stay in the archive");
    }
    u64::try_from(content.len()).map_err(|error| LogArchiveError(error.to_string()))
}

fn read(disk: &dyn Disk, log: &ArchivedLog, file: LogFile) -> Result<Vec<u8>, LogArchiveError> {
    let (path, from, to) = match file {
        LogFile::History(timeline) => (TimelineHistory::path(timeline), 0, None),
        LogFile::Segment(segment) => (segment.path(), 0, Some(log.segment_bytes)),
        LogFile::Tail { segment, from, to } => (segment.path(), from, Some(to)),
    };
    let read = || {
        let opened = disk.open(&path, OpenMode::Read)?;
        let to = to.map_or_else(|| opened.length(), Ok)?;
        let mut content = vec![0; usize::try_from(to - from).map_err(std::io::Error::other)?];
        opened.read_exact_at(&mut content, from)?;
        Ok(content)
    };
    let failed = |error: std::io::Error| format!("reading {}: {error}", disk.location(&path));
    read().map_err(|error| LogArchiveError(failed(error)))
}
