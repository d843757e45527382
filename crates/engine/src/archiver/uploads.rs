//! Uploads under way: each on a thread of its own, which holds the archive and nothing of the engine, so that closing a
//! database waits for none of them.

use std::sync::Arc;

use seawall_io::{Disk, OpenMode};
use seawall_sync::{Mutex, WaitWord, thread};
use seawall_wal::TimelineHistory;

use crate::log_archive::{ArchivedLog, LogArchive, LogArchiveError, LogFile};

/// What an upload came to: the bytes of the file.
pub(crate) type Uploaded = Result<u64, LogArchiveError>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Uploads {
    disk: Arc<dyn Disk>,
    archive: Arc<dyn LogArchive>,
    log: ArchivedLog,
    ended: Mutex<Vec<(LogFile, Uploaded)>>,
    /// Changes when an upload ends, or when whoever starts them has something else to look at.
    pub(crate) work: WaitWord,
}

impl Uploads {
    pub(crate) fn new(disk: Arc<dyn Disk>, archive: Arc<dyn LogArchive>, log: ArchivedLog) -> Uploads {
        Uploads { disk, archive, log, ended: Mutex::default(), work: WaitWord::new() }
    }

    /// Starts one; its end shows in `take_ended`.
    pub(crate) fn start(self: &Arc<Self>, file: LogFile) {
        let uploads = Arc::clone(self);
        let builder = thread::Builder::new().name("seawall-upload".to_owned());
        let started = builder.spawn(move || {
            let run = std::panic::AssertUnwindSafe(|| uploads.run(file));
            let panicked = |_| Err(LogArchiveError("the upload panicked".to_owned()));
            let result = std::panic::catch_unwind(run).unwrap_or_else(panicked);
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

    /// Those that have ended since the last call.
    pub(crate) fn take_ended(&self) -> Vec<(LogFile, Uploaded)> {
        std::mem::take(&mut *self.ended.lock())
    }

    /// Uploads a file, here and now.
    pub(crate) fn run(&self, file: LogFile) -> Uploaded {
        upload(&*self.disk, &*self.archive, &self.log, file)
    }
}

/// Reads a file and stores it.
pub(crate) fn upload(
    disk: &dyn Disk,
    archive: &dyn LogArchive,
    log: &ArchivedLog,
    file: LogFile,
) -> Uploaded {
    let content = read(disk, log, file)?;
    archive.store(log, file, &content)?;
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
