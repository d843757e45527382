//! What a cut takes out of a log, kept for people: `aside/TIMELINE-FORK/` has the segments from the fork on, as they are, and
//! `records.txt`, a line for each record that was cut off.
//!
//! ```text
//!   0/5000A28  0/5000B10  1  commit, at 1795464843.123456
//!       table 70: put "alice", 31 bytes
//!       table 70: delete "bob"
//! ```
//! Of an encrypted database the list has no keys, and the segments stay encrypted.

use std::fmt::Write as _;
use std::sync::Arc;

use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_keys::DatabaseKeys;
use seawall_tree::Superblock;
use seawall_types::{Lsn, TimelineId};
use seawall_wal::SegmentName;

use crate::directory::{LOG_DIRECTORY, io};
use crate::environment::Environment;
use crate::error::Error;
use crate::inspect::log_records::{LogChange, LogContent, LogRecordInfo, content_of, open_reader};

const DIRECTORY: &str = "aside";
const LIST: &str = "records.txt";
/// What is copied at once, and text that is written at once.
const COPY_BYTES: usize = 1 << 20;

/// A directory for what is cut off.
pub(crate) struct Aside {
    pub(crate) directory: String,
    from: Lsn,
}

/// What was put aside.
pub(crate) struct PutAside {
    pub(crate) directory: String,
    pub(crate) records: u64,
}

impl Aside {
    /// For what `timeline` has from `fork` on.
    pub(crate) fn of(timeline: TimelineId, fork: Lsn) -> Aside {
        Aside { directory: format!("{DIRECTORY}/{:08X}-{:016X}", timeline.get(), fork.get()), from: fork }
    }

    /// The same directory, for what begins at `from`: what lies before is not here any more.
    pub(crate) fn from(self, from: Lsn) -> Aside {
        Aside { from, ..self }
    }

    /// Copies the log of `superblock` from the fork up to `end`, durably. What an attempt that was cut short has left is made anew.
    pub(crate) fn fill(
        self,
        environment: &Environment,
        superblock: &Superblock,
        keys: Option<&DatabaseKeys>,
        end: Lsn,
    ) -> Result<PutAside, Error> {
        let disk = &environment.disk;
        let directory = &self.directory;
        for path in [DIRECTORY, directory] {
            disk.create_directory(path).map_err(io)?;
        }
        for name in disk.list_names(directory).map_err(io)? {
            disk.remove(&format!("{directory}/{name}")).map_err(io)?;
        }
        self.copy_segments(&**disk, superblock, end)?;
        let mut list = TextFile::create(&**disk, &format!("{directory}/{LIST}"))?;
        let mut reader = open_reader(disk, superblock, keys, self.from)?;
        reader.set_limit(end);
        let mut records = 0;
        while let Some(record) = reader.next().map_err(|error| Error::log(&error))? {
            let (lsn, end, timeline) = (record.span.start, record.span.end, record.timeline);
            let content = content_of(&record)
                .map_err(|problem| Error::Log { message: format!("record at {lsn}: {problem}") })?;
            list.add(&text_of(&LogRecordInfo { lsn, end, timeline, content }, keys.is_none()))?;
            records += 1;
        }
        list.finish()?;
        for path in [directory, DIRECTORY, ""] {
            disk.sync_directory(path).map_err(io)?;
        }
        Ok(PutAside { directory: self.directory, records })
    }

    fn copy_segments(&self, disk: &dyn Disk, superblock: &Superblock, end: Lsn) -> Result<(), Error> {
        let number_of = |lsn: Lsn| lsn.get() / superblock.segment_bytes;
        let numbers = number_of(self.from)..=number_of(end);
        for file_name in disk.list_names(LOG_DIRECTORY).map_err(io)? {
            let Some(name) = SegmentName::parse(&file_name) else { continue };
            if numbers.contains(&name.number) && name.timeline <= superblock.timeline {
                copy(disk, &name.path(), &format!("{}/{file_name}", self.directory))?;
            }
        }
        Ok(())
    }
}

/// Copies a file, durably but for its name.
fn copy(disk: &dyn Disk, from: &str, to: &str) -> Result<(), Error> {
    let from = disk.open(from, OpenMode::Read).map_err(io)?;
    let to = disk.open(to, OpenMode::Create).map_err(io)?;
    let (length, mut offset) = (from.length().map_err(io)?, 0);
    let mut buffer = vec![0; COPY_BYTES];
    while offset < length {
        let bytes = usize::try_from(length - offset).unwrap_or(usize::MAX).min(COPY_BYTES);
        from.read_exact_at(&mut buffer[..bytes], offset).map_err(io)?;
        to.write_all_at(&buffer[..bytes], offset).map_err(io)?;
        offset += u64::try_from(bytes).expect("at most a MiB");
    }
    to.sync_data().map_err(io)
}

/// A file of text that grows.
struct TextFile {
    file: Arc<dyn DiskFile>,
    written: u64,
    text: String,
}

impl TextFile {
    fn create(disk: &dyn Disk, path: &str) -> Result<TextFile, Error> {
        let file = disk.open(path, OpenMode::Create).map_err(io)?;
        Ok(TextFile { file, written: 0, text: String::new() })
    }

    fn add(&mut self, text: &str) -> Result<(), Error> {
        self.text.push_str(text);
        if self.text.len() >= COPY_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Error> {
        self.file.write_all_at(self.text.as_bytes(), self.written).map_err(io)?;
        self.written += u64::try_from(self.text.len()).expect("a text in memory fits into 64 bits");
        self.text.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), Error> {
        self.write()?;
        self.file.sync_data().map_err(io)
    }
}

fn text_of(record: &LogRecordInfo, shows_keys: bool) -> String {
    let LogRecordInfo { lsn, end, timeline, content } = record;
    let mut text = format!("{lsn}  {end}  {timeline}  ");
    let none = Vec::new();
    let (what, time_micros, changes) = match content {
        LogContent::Commit { time_micros, changes } => ("commit".to_owned(), Some(*time_micros), changes),
        LogContent::Prepare { gid, time_micros, changes, .. } => {
            (format!("prepare of {gid:?}"), Some(*time_micros), changes)
        }
        LogContent::CommitPrepared { gid, time_micros, changes, .. } => {
            (format!("commit of prepared {gid:?}"), Some(*time_micros), changes)
        }
        LogContent::RollbackPrepared { gid, time_micros, changes, .. } => {
            (format!("rollback of prepared {gid:?}"), Some(*time_micros), changes)
        }
        LogContent::Checkpoint { time_micros, .. } => ("checkpoint".to_owned(), Some(*time_micros), &none),
        LogContent::TimelineSwitch { timeline, parent, fork, time_micros } => {
            (format!("timeline {timeline} leaves {parent} at {fork}"), Some(*time_micros), &none)
        }
        LogContent::RestorePoint { name, time_micros } => {
            (format!("restore point {name:?}"), Some(*time_micros), &none)
        }
        LogContent::BulkLoad { table, time_micros } => {
            (format!("rows loaded past the log into table {table}"), Some(*time_micros), &none)
        }
        LogContent::NoOp => ("padding".to_owned(), None, &none),
        LogContent::PageImages { images, .. } => (format!("{images} page images"), None, &none),
    };
    text.push_str(&what);
    if let Some(micros) = time_micros {
        // Since 1970: whoever needs a date has one tool or another.
        write!(text, ", at {}.{:06}", micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000))
            .expect("a string takes all that is written");
    }
    text.push('\n');
    changes.iter().for_each(|change| text.push_str(&change_text(change, shows_keys)));
    text
}

fn change_text(change: &LogChange, shows_keys: bool) -> String {
    let key = if shows_keys { format!(" \"{}\"", change.key.escape_ascii()) } else { String::new() };
    match change.value_bytes {
        Some(bytes) => format!("    table {}: put{key}, {bytes} bytes\n", change.table),
        None => format!("    table {}: delete{key}\n", change.table),
    }
}
