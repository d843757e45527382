//! Page images in the log: what the tree appends there, and reads there when it is opened.
//!
//! Whether images go to the log or to the recovery file is an option of each open; where those of the last chunk are is
//! said by the recovery file's header. The records lie between commits and are skipped by every replay.
//!
//! They count as log, but not towards `checkpoint.log_bytes`: a checkpoint that wrote more of them than that would start
//! the next one by itself.

use std::convert::Infallible;
use std::sync::Arc;

use seawall_io::Disk;
use seawall_keys::{Cipher, DatabaseKeys};
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_tree::{
    AppendedPiece, ImageLog, ImageLogError, ImagePiece, ImageSource, ImageSpan, StoredImage, Superblock,
    TreeError,
};
use seawall_types::Lsn;
use seawall_wal::{Log, LogError, LogReader, PageImageEntry, PageImages, PreparedRecord, Record, RecordSpan};

use crate::background::IDLE;
use crate::encryption::log_cipher;
use crate::error::chain;
use crate::log::engine_log::EngineLog;

/// Appends images to the log.
#[derive(Debug)]
pub(crate) struct LogImages {
    log: Arc<EngineLog>,
    /// Bytes of all records so far.
    appended_bytes: Arc<AtomicU64>,
}

impl LogImages {
    pub(crate) fn new(log: Arc<EngineLog>, appended_bytes: Arc<AtomicU64>) -> LogImages {
        LogImages { log, appended_bytes }
    }

    fn log(&self) -> Result<&Log, ImageLogError> {
        let cause = || "this process does not write the log".to_owned();
        self.log.written().ok_or_else(|| ImageLogError::Closed { cause: cause() })
    }

    /// Gives the record its place as soon as the log takes it. What was begun of a chunk must not fail because writers are parked.
    fn place(
        &self,
        log: &Log,
        record: &mut PreparedRecord,
    ) -> Result<Result<(RecordSpan, ()), Infallible>, LogError> {
        let parking = &self.log.parking;
        loop {
            let seen = parking.changed.read();
            match log.append(record, |_| Ok::<_, Infallible>(())) {
                Err(LogError::Parked) if !parking.is_over() => parking.changed.wait(seen, Some(IDLE)),
                appended => return appended,
            }
        }
    }
}

impl ImageLog for LogImages {
    fn append(&self, piece: &ImagePiece) -> Result<AppendedPiece, ImageLogError> {
        let entries = piece.images.iter().map(|image| PageImageEntry {
            page: image.page,
            stored_bytes: image.stored_bytes,
            compression: image.compression,
        });
        let mut record = PageImages::prepare(piece.chunk, piece.number, entries, &piece.bytes);
        let log = self.log()?;
        let Ok((span, ())) = self.place(log, &mut record).map_err(refused)?;
        let bytes = log.geometry().payload_between(span.start, span.end);
        // Relaxed: an estimate that nothing is ordered by.
        self.appended_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(AppendedPiece { timeline: log.timeline(), start: span.start, end: span.end })
    }

    fn flush(&self, end: Lsn) -> Result<(), ImageLogError> {
        self.log()?.flush_until(end).map_err(refused)
    }
}

fn refused(error: LogError) -> ImageLogError {
    match error {
        LogError::NoSpace { source, .. } => ImageLogError::Full { source },
        other => ImageLogError::Closed { cause: chain(&other) },
    }
}

/// Reads images from the log, before it is open for writing.
#[derive(Debug)]
pub(crate) struct LogSource {
    disk: Arc<dyn Disk>,
    cipher: Option<Cipher>,
}

impl LogSource {
    /// The log on `disk`, of a database with these keys.
    pub(crate) fn new(disk: &Arc<dyn Disk>, keys: Option<&DatabaseKeys>) -> LogSource {
        LogSource { disk: Arc::clone(disk), cipher: log_cipher(keys) }
    }
}

impl ImageSource for LogSource {
    fn read(
        &self,
        values: &Superblock,
        span: &ImageSpan,
        visit: &mut dyn FnMut(ImagePiece) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let unreadable = |error: &dyn std::error::Error| span.unreadable(chain(error));
        let disk = Arc::clone(&self.disk);
        let history =
            crate::recovery::timeline::history_of(&self.disk, values).map_err(|error| unreadable(&error))?;
        if history.timeline_at(span.start) != span.timeline {
            return Err(span.unreadable(format!("timeline {} has no log there", span.timeline)));
        }
        let reader =
            LogReader::open_history(disk, values.database, history, values.segment_bytes, span.start);
        let mut reader = reader.map_err(|error| unreadable(&error))?.decrypted_with(self.cipher.clone());
        // The log was flushed up to the end before the header said so: what does not verify before it is damage.
        reader.set_limit(span.end);
        while let Some(found) = reader.next().map_err(|error| unreadable(&error))? {
            if let Record::PageImages(images) = found.decode().map_err(|error| unreadable(&error))? {
                visit(piece_of(&images))?;
            }
        }
        Ok(())
    }
}

fn piece_of(images: &PageImages<'_>) -> ImagePiece {
    let stored_image = |entry: PageImageEntry| StoredImage {
        page: entry.page,
        stored_bytes: entry.stored_bytes,
        compression: entry.compression,
    };
    ImagePiece {
        chunk: images.chunk,
        number: images.number,
        images: images.entries().map(stored_image).collect(),
        bytes: images.stored.to_vec(),
    }
}
