//! The file `seawall-restoring`: a cluster is being restored in the directory, or a restore was cut short. It says what was asked for,
//! and lists what is on disk. A text, and after it a line for each file and directory:
//!
//! ```text
//! A restore of seawall is under way here, or was cut short. Run it again, and it resumes, or remove this directory.
//! version 1
//! asked_for postgresql-7301234567890123456, up to the end of the log, along the timeline of production, from any backup, as a primary that archives nothing
//! backup 20261122T031500.000000Z-0000000001A2B3C4
//! manifest 5d0e61f2
//! crc32c 1a2b3c4d
//! 0f1e2d3c directory 512 base
//! 4b5a6978 file 1024 8192 c0ffee11 base/1/2619
//! ```
//! `asked_for` is compared as it is. `backup` was chosen for that, and `manifest` is the CRC-32C of its manifest: a restore of another
//! one begins anew. The line `crc32c` has the CRC-32C of all bytes before it. A line of the list begins with the CRC-32C of the rest of
//! the line. Then come the kind; the offset of the member's header in the backup's tar archive; of a file, its bytes and their CRC-32C;
//! and the path. The list ends at the first line that is cut off or does not verify.
//!
//! What if the power goes? The text is durable before anything else is in the directory. A line is written after its file was synced.
//! The list itself is synced now and then, and names are durable only at the end of the restore: a power loss may take lines, and files
//! that lines name. So a line is a hint where to look. A restore that resumes reads the file, and keeps it if it is what the line says.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use seawall_codec::checksum::crc32c;
use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_io::{Disk, DiskFile};

use super::error::PostgreSqlBackupError;
use super::file_list::FileSum;
use super::stream::member_bytes;

const TITLE: &str = "A restore of seawall is under way here, or was cut short. Run it again, and it resumes, or remove this directory.";
const VERSION: u32 = 1;
/// The list is synced when so many bytes of files have been written since: what a power loss costs at most, beyond what it takes itself.
const SYNCED_EVERY_BYTES: u64 = 32 << 20;

/// What a restore is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// What was asked for, in words, on one line. Only what asks for the same resumes.
    pub(super) asked_for: String,
    /// The backup that was chosen.
    pub(super) backup: String,
    /// CRC-32C of its manifest.
    pub(super) manifest: u32,
}

/// A member of the archive that is in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Where its header begins in the archive.
    pub(super) position: u64,
    /// Below the data directory.
    pub(super) path: String,
    /// `None`: a directory.
    pub(super) sum: Option<FileSum>,
}

/// An attempt, and what it says is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) attempt: Attempt,
    /// In the order of the archive.
    pub(super) entries: Vec<Entry>,
    /// How much of the file counts.
    pub(super) bytes: u64,
}

impl Attempt {
    /// Refuses to touch what was asked for otherwise.
    pub(super) fn check(&self, disk: &dyn Disk, asked_for: &str) -> Result<(), PostgreSqlBackupError> {
        if self.asked_for == asked_for {
            return Ok(());
        }
        Err(PostgreSqlBackupError::OtherRestore {
            directory: disk.location(""),
            found: self.asked_for.clone(),
            asked_for: asked_for.to_owned(),
        })
    }

    pub(super) fn encode(&self) -> String {
        let mut text = TextWriter::new(TITLE, VERSION);
        text.line("asked_for", &self.asked_for);
        text.line("backup", &self.backup);
        text.line("manifest", &format_args!("{:08x}", self.manifest));
        text.seal()
    }

    fn decode(text: &[u8]) -> Result<Attempt, String> {
        let mut text = TextReader::open(text, TITLE, VERSION)?;
        let (asked_for, backup) = (text.field("asked_for")?.to_owned(), text.field("backup")?.to_owned());
        let manifest = checksum_of(text.field("manifest")?).ok_or("its manifest cannot be")?;
        text.end()?;
        Ok(Attempt { asked_for, backup, manifest })
    }
}

impl Entry {
    /// Header, content and what fills up the last block.
    pub(super) fn range(&self) -> Range<u64> {
        let content = self.sum.map_or(0, |sum| sum.bytes);
        self.position..self.position.saturating_add(member_bytes(content))
    }

    /// `None` for a path that does not stay on a line.
    fn encode(&self) -> Option<String> {
        if self.path.contains(char::is_control) {
            return None;
        }
        let Entry { position, path, .. } = self;
        let line = match self.sum {
            None => format!("directory {position} {path}"),
            Some(FileSum { bytes, checksum }) => format!("file {position} {bytes} {checksum:08x} {path}"),
        };
        Some(format!("{:08x} {line}\n", crc32c(line.as_bytes())))
    }

    fn decode(line: &[u8]) -> Option<Entry> {
        let (checksum, line) = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.split_once(' ')?;
        if checksum_of(checksum)? != crc32c(line.as_bytes()) {
            return None;
        }
        let (kind, rest) = line.split_once(' ')?;
        let (position, rest) = rest.split_once(' ')?;
        let (sum, path) = match kind {
            "directory" => (None, rest),
            "file" => {
                let (bytes, rest) = rest.split_once(' ')?;
                let (checksum, path) = rest.split_once(' ')?;
                (Some(FileSum { bytes: bytes.parse().ok()?, checksum: checksum_of(checksum)? }), path)
            }
            _ => return None,
        };
        Some(Entry { position: position.parse().ok()?, path: path.to_owned(), sum })
    }
}

impl Left {
    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(super) fn decode(content: &[u8]) -> Result<Left, String> {
        let is_last = |line: &[u8]| line.starts_with(b"crc32c ");
        let mut lines = content.split_inclusive(|byte| *byte == b'\n');
        let mut bytes = 0;
        for line in lines.by_ref() {
            bytes += line.len();
            if is_last(line) {
                break;
            }
        }
        let attempt = Attempt::decode(&content[..bytes])?;
        // A file that was fetched again has a second line.
        let mut entries = BTreeMap::new();
        for line in lines {
            let Some(entry) = Entry::decode(line) else { break };
            bytes += line.len();
            entries.insert(entry.position, entry);
        }
        Ok(Left { attempt, entries: entries.into_values().collect(), bytes: bytes as u64 })
    }
}

fn checksum_of(digits: &str) -> Option<u32> {
    u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 8)
}

/// The list of what is there, to which several threads add.
#[derive(Debug)]
pub(super) struct List {
    file: Arc<dyn DiskFile>,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    /// Where the next line goes.
    end: u64,
    /// Bytes of files since the list was synced.
    unsynced_bytes: u64,
}

impl List {
    /// Lines are added at `end`: after the text, and the lines that count.
    pub(super) fn new(file: Arc<dyn DiskFile>, end: u64) -> List {
        List { file, written: Mutex::new(Written { end, unsynced_bytes: 0 }) }
    }

    /// Adds what is in the directory; of a file, durably but for its name.
    pub(super) fn add(&self, entry: &Entry) -> io::Result<()> {
        let Some(line) = entry.encode() else { return Ok(()) };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        self.file.write_all_at(line.as_bytes(), written.end)?;
        written.end += line.len() as u64;
        written.unsynced_bytes += entry.sum.map_or(0, |sum| sum.bytes);
        if written.unsynced_bytes >= SYNCED_EVERY_BYTES {
            self.file.sync_data()?;
            written.unsynced_bytes = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt() -> Attempt {
        Attempt {
            asked_for: "postgresql-7, up to the restore point \"crc32c 7\"".to_owned(),
            backup: "20261122T031500.000000Z-0000000001A2B3C4".to_owned(),
            manifest: 0x0102_ABCD,
        }
    }

    fn entries() -> Vec<Entry> {
        let sum = |bytes, checksum| Some(FileSum { bytes, checksum });
        vec![
            Entry { position: 0, path: "base".to_owned(), sum: None },
            Entry { position: 512, path: "base/a b".to_owned(), sum: sum(513, 7) },
            Entry { position: 2048, path: "é".to_owned(), sum: sum(0, 0) },
        ]
    }

    fn content() -> Vec<u8> {
        let lines = entries().iter().map(|entry| entry.encode().unwrap()).collect::<String>();
        (attempt().encode() + &lines).into_bytes()
    }

    #[test]
    fn what_is_there_comes_back_from_the_file() {
        let left = Left::decode(&content()).unwrap();
        assert_eq!((left.attempt, left.entries), (attempt(), entries()));
        assert_eq!(left.bytes, content().len() as u64);
        let ranges: Vec<_> = entries().iter().map(Entry::range).collect();
        assert_eq!(ranges, [0..512, 512..2048, 2048..2560]);
        assert_eq!(Entry { path: "a\nb".to_owned(), ..entries()[0].clone() }.encode(), None);
    }

    /// Of the text, nothing counts then; of the list, what comes before.
    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let (text_bytes, content) = (attempt().encode().len(), content());
        for at in 0..content.len() {
            let mut other = content.clone();
            other[at] ^= 1;
            for changed in [&other, &content[..at]] {
                match Left::decode(changed) {
                    Err(_) => assert!(at < text_bytes, "byte {at}"),
                    Ok(left) => {
                        assert!(at >= text_bytes, "byte {at}");
                        assert_eq!((&left.attempt, left.bytes <= at as u64), (&attempt(), true));
                        assert!(left.entries.len() < 3 && entries().starts_with(&left.entries), "byte {at}");
                    }
                }
            }
        }
    }
}
