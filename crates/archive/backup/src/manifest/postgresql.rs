//! The manifest of a backup of a PostgreSQL cluster. Put last: without it there is no backup. A text, the content of an object:
//!
//! ```text
//! Seawall backup of PostgreSQL
//! version 2
//! system 7301234567890123456
//! release 150014
//! timeline 1
//! segment_bytes 16777216
//! start 0/2000028
//! end 0/2000138
//! started 1763781300000000
//! ended 1763781390000000
//! label before the upgrade
//! files 967
//! bad_pages yes
//! bad_file 0 base/5/16384 7
//! bad_files 1
//! bytes 23642112
//! part 0 16777216 0f1e2d3c4b5a6978
//! part 1 6864896 1122334455667788
//! parts 2
//! crc32c 1a2b3c4d
//! ```
//! `release` is PostgreSQL's `server_version_num`. `start` and `end` are what PostgreSQL's own manifest of the backup says: the log
//! from the one to the other is what it takes to make the files consistent; `timeline` is that of the end. Times are in
//! microseconds since 1970, by the clock of the server: no commit before `end` is later than `ended`. A part has its number, its
//! bytes and the CRC-64/NVME of its content; all parts, one after the other, are the tar archive that `pg_basebackup` wrote, of
//! `bytes` bytes, with `files` files. `bad_pages` says whether pages had wrong checksums when the backup was taken, which was accepted
//! then. A bad file has its number, its path, and how many of its pages were such; the server need not name any. Version 1 has nothing
//! of bad pages: there were none. The last line has the CRC-32C of all bytes before it.

use std::fmt::Display;
use std::ops::RangeInclusive;

use seawall_codec::sealed_text::{TextProblem, TextReader, TextWriter};
use seawall_types::{Lsn, TimelineId};

/// What segments of PostgreSQL may be long, where it is a power of two.
const SEGMENT_BYTES: RangeInclusive<u32> = 1 << 20..=1 << 30;

const TITLE: &str = "Seawall backup of PostgreSQL";
const VERSION: u32 = 2;
/// Without bad pages.
const VERSION_WITHOUT_BAD: u32 = 1;

/// What a backup of a cluster consists of, and which log it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgreSqlManifest {
    /// System identifier of the cluster.
    pub system: u64,
    /// `server_version_num`.
    pub release: u32,
    /// The timeline that it ended on.
    pub timeline: TimelineId,
    /// Size of the log's segments.
    pub segment_bytes: u32,
    /// The log is needed from here on.
    pub start: Lsn,
    /// What is restored is consistent when the log is replayed up to here.
    pub end: Lsn,
    /// When it began, in microseconds since 1970.
    pub started_micros: i64,
    /// When it had ended.
    pub ended_micros: i64,
    /// What it was called. One line.
    pub label: String,
    /// Files in it.
    pub files: u64,
    /// Pages had wrong checksums, which was accepted.
    pub has_bad_pages: bool,
    /// Their files, as far as the server has named them.
    pub bad_files: Vec<BadFile>,
    /// Its parts, by number.
    pub parts: Vec<PartInfo>,
}

/// A file of a cluster that had pages with wrong checksums when it was backed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFile {
    /// Its path below the data directory.
    pub path: String,
    /// So many of its pages.
    pub pages: u64,
}

/// A part of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartInfo {
    /// Bytes, before compression.
    pub bytes: u64,
    /// CRC-64/NVME of these.
    pub checksum: u64,
}

impl PostgreSqlManifest {
    /// Whether a cluster may have segments of this length.
    pub fn is_segment_bytes(bytes: u32) -> bool {
        bytes.is_power_of_two() && SEGMENT_BYTES.contains(&bytes)
    }

    /// Bytes of all parts, before compression.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Its text.
    pub fn encode(&self) -> String {
        let mut text = TextWriter::new(TITLE, VERSION);
        let mut line = |name: &str, value: &dyn Display| text.line(name, value);
        line("system", &self.system);
        line("release", &self.release);
        line("timeline", &self.timeline);
        line("segment_bytes", &self.segment_bytes);
        line("start", &self.start);
        line("end", &self.end);
        line("started", &self.started_micros);
        line("ended", &self.ended_micros);
        line("label", &self.label);
        line("files", &self.files);
        line("bad_pages", &if self.has_bad_pages { "yes" } else { "no" });
        for (number, BadFile { path, pages }) in self.bad_files.iter().enumerate() {
            line("bad_file", &format_args!("{number} {path} {pages}"));
        }
        line("bad_files", &self.bad_files.len());
        line("bytes", &self.bytes());
        for (number, PartInfo { bytes, checksum }) in self.parts.iter().enumerate() {
            line("part", &format_args!("{number} {bytes} {checksum:016x}"));
        }
        line("parts", &self.parts.len());
        text.seal()
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<PostgreSqlManifest, String> {
        let (mut text, version) = match TextReader::open(bytes, TITLE, VERSION) {
            Err(TextProblem::Version(VERSION_WITHOUT_BAD)) => {
                (TextReader::open(bytes, TITLE, VERSION_WITHOUT_BAD)?, VERSION_WITHOUT_BAD)
            }
            text => (text?, VERSION),
        };
        let manifest = PostgreSqlManifest {
            system: text.parsed("system")?,
            release: text.parsed("release")?,
            timeline: TimelineId::new(text.parsed("timeline")?).ok_or("its timeline cannot be")?,
            segment_bytes: text.parsed("segment_bytes")?,
            start: text.parsed("start")?,
            end: text.parsed("end")?,
            started_micros: text.parsed("started")?,
            ended_micros: text.parsed("ended")?,
            label: text.field("label")?.to_owned(),
            files: text.parsed("files")?,
            has_bad_pages: false,
            bad_files: Vec::new(),
            parts: Vec::new(),
        };
        let (has_bad_pages, bad_files) = match version {
            VERSION_WITHOUT_BAD => (false, Vec::new()),
            _ => read_bad(&mut text)?,
        };
        let bytes = text.parsed("bytes")?;
        let parts = text.list(&["part"], "parts", |_, fields| PartInfo::parse(fields))?;
        text.end()?;
        let manifest = PostgreSqlManifest { has_bad_pages, bad_files, parts, ..manifest };
        manifest.check(bytes)?;
        Ok(manifest)
    }

    fn check(&self, bytes: u64) -> Result<(), &'static str> {
        if !PostgreSqlManifest::is_segment_bytes(self.segment_bytes) {
            return Err("its segment_bytes cannot be");
        }
        if self.end <= self.start {
            return Err("it ends before it begins");
        }
        let sum = self.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.bytes));
        if sum != Some(bytes) || self.parts.iter().any(|part| part.bytes == 0) {
            return Err("its parts have not the bytes that it says");
        }
        Ok(())
    }
}

/// Whether there were bad pages, and in which files.
fn read_bad(text: &mut TextReader<'_>) -> Result<(bool, Vec<BadFile>), String> {
    let has_bad_pages = match text.field("bad_pages")? {
        "yes" => true,
        "no" => false,
        _ => return Err("its bad_pages are neither yes nor no".to_owned()),
    };
    let files = text.list(&["bad_file"], "bad_files", |_, fields| bad_file(fields))?;
    if !has_bad_pages && !files.is_empty() {
        return Err("it names files of bad pages, and says that there are none".to_owned());
    }
    Ok((has_bad_pages, files))
}

/// A path may have spaces.
fn bad_file(fields: &[&str]) -> Option<BadFile> {
    let [path @ .., pages] = fields else { return None };
    let path = path.join(" ");
    (!path.is_empty()).then_some(BadFile { path, pages: pages.parse().ok()? })
}

impl PartInfo {
    fn parse(fields: &[&str]) -> Option<PartInfo> {
        let [bytes, checksum] = fields else { return None };
        Some(PartInfo { bytes: bytes.parse().ok()?, checksum: u64::from_str_radix(checksum, 16).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_codec::checksum::crc32c;

    pub(crate) fn manifest() -> PostgreSqlManifest {
        PostgreSqlManifest {
            system: 7_301_234_567_890_123_456,
            release: 150_014,
            timeline: TimelineId::FIRST,
            segment_bytes: 16 << 20,
            start: Lsn::new(0x200_0028),
            end: Lsn::new(0x200_0138),
            started_micros: -7,
            ended_micros: 8,
            label: "before the upgrade".to_owned(),
            files: 967,
            has_bad_pages: true,
            bad_files: vec![BadFile { path: "base/5/16384".to_owned(), pages: 7 }],
            parts: vec![PartInfo { bytes: 1 << 20, checksum: 9 }, PartInfo { bytes: 5, checksum: u64::MAX }],
        }
    }

    #[test]
    fn a_manifest_comes_back_from_its_text() {
        let manifest = manifest();
        assert_eq!(PostgreSqlManifest::decode(manifest.encode().as_bytes()), Ok(manifest.clone()));
        assert_eq!(manifest.bytes(), (1 << 20) + 5);
        // The server has named no file, or one with spaces.
        for path in [None, Some("base/a  b/1")] {
            let bad_files =
                path.map(|path| BadFile { path: path.to_owned(), pages: 1 }).into_iter().collect();
            let manifest = PostgreSqlManifest { bad_files, ..manifest.clone() };
            assert_eq!(PostgreSqlManifest::decode(manifest.encode().as_bytes()), Ok(manifest));
        }
        let empty = PostgreSqlManifest { label: String::new(), ..manifest.clone() };
        assert_eq!(PostgreSqlManifest::decode(empty.encode().as_bytes()), Ok(empty));
        let lines = PostgreSqlManifest { label: "a\nparts 0\tb".to_owned(), ..manifest };
        let decoded = PostgreSqlManifest::decode(lines.encode().as_bytes()).unwrap();
        assert_eq!(decoded.label, "a parts 0 b");
    }

    #[test]
    fn a_manifest_of_version_1_is_read() {
        let expected = PostgreSqlManifest { has_bad_pages: false, bad_files: Vec::new(), ..manifest() };
        let text = expected.encode();
        let (body, _) = text.split_once("crc32c ").unwrap();
        let body = body.replace("version 2", "version 1").replace("bad_pages no\nbad_files 0\n", "");
        let text = format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes()));
        assert_eq!(PostgreSqlManifest::decode(text.as_bytes()), Ok(expected));
    }

    #[test]
    fn lines_that_no_backup_has_written_are_refused() {
        let text = manifest().encode();
        let (body, _) = text.split_once("crc32c ").unwrap();
        let sealed = |body: &str| format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes()));
        assert!(PostgreSqlManifest::decode(sealed(body).as_bytes()).is_ok());
        for (from, to) in [
            ("PostgreSQL\n", "Postgres\n"),
            ("parts 2", "parts 3"),
            ("part 1", "part 2"),
            ("part 1 5", "part 1 0"),
            ("part 1 5", "part 1 6"),
            ("part 1 5", "part 1 18446744073709551615"),
            ("version 2", "version 1"),
            ("bad_files 1", "bad_files 2"),
            ("bad_pages yes", "bad_pages no"),
            ("bad_pages yes", "bad_pages maybe"),
            ("16384 7", "16384 x"),
            ("segment_bytes 16777216", "segment_bytes 16777217"),
            ("timeline 1", "timeline 0"),
            ("end 0/2000138", "end 0/2000028"),
            ("\nfiles", "\npiles"),
        ] {
            assert!(body.contains(from), "{from}");
            assert!(PostgreSqlManifest::decode(sealed(&body.replace(from, to)).as_bytes()).is_err(), "{to}");
        }
    }
}
