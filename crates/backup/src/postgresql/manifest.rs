//! The manifest of a backup of a PostgreSQL cluster. Put last: without it there is no backup. A text, the content of an object:
//!
//! ```text
//! Seawall backup of PostgreSQL
//! version 1
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
//! `bytes` bytes, with `files` files. The last line has the CRC-32C of all bytes before it.

use std::fmt::Write;
use std::str::{FromStr, Lines};

use seawall_codec::checksum::crc32c;
use seawall_types::{Lsn, TimelineId};

use super::segments::SegmentSize;

const TITLE: &str = "Seawall backup of PostgreSQL";
const VERSION: u32 = 1;
const CHECKSUM_PREFIX: &str = "crc32c ";

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
    /// Its parts, by number.
    pub parts: Vec<PartInfo>,
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
    /// Bytes of all parts, before compression.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Its text.
    pub fn encode(&self) -> String {
        let mut text = format!("{TITLE}\nversion {VERSION}\n");
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            writeln!(text, "{name} {value}").expect("a string takes everything");
        };
        line("system", &self.system);
        line("release", &self.release);
        line("timeline", &self.timeline);
        line("segment_bytes", &self.segment_bytes);
        line("start", &self.start);
        line("end", &self.end);
        line("started", &self.started_micros);
        line("ended", &self.ended_micros);
        line("label", &self.label.replace(char::is_control, " "));
        line("files", &self.files);
        line("bytes", &self.bytes());
        for (number, PartInfo { bytes, checksum }) in self.parts.iter().enumerate() {
            line("part", &format_args!("{number} {bytes} {checksum:016x}"));
        }
        line("parts", &self.parts.len());
        let checksum = crc32c(text.as_bytes());
        format!("{text}{CHECKSUM_PREFIX}{checksum:08x}\n")
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<PostgreSqlManifest, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is no text")?;
        let body_bytes = text.rfind(CHECKSUM_PREFIX).ok_or("it has no checksum")?;
        let (body, checksum) = text.split_at(body_bytes);
        if checksum != format!("{CHECKSUM_PREFIX}{:08x}\n", crc32c(body.as_bytes())) {
            return Err("its checksum is wrong".to_owned());
        }
        let mut fields = Fields { lines: body.lines() };
        if fields.lines.next() != Some(TITLE) {
            return Err("it is no manifest of a backup of PostgreSQL".to_owned());
        }
        let version: u32 = fields.parsed("version")?;
        if version != VERSION {
            return Err(format!("it has version {version}: use a newer seawall"));
        }
        let manifest = PostgreSqlManifest {
            system: fields.parsed("system")?,
            release: fields.parsed("release")?,
            timeline: TimelineId::new(fields.parsed("timeline")?).ok_or("its timeline cannot be")?,
            segment_bytes: fields.parsed("segment_bytes")?,
            start: fields.parsed("start")?,
            end: fields.parsed("end")?,
            started_micros: fields.parsed("started")?,
            ended_micros: fields.parsed("ended")?,
            label: fields.field("label")?.to_owned(),
            files: fields.parsed("files")?,
            parts: Vec::new(),
        };
        let bytes = fields.parsed("bytes")?;
        let manifest = PostgreSqlManifest { parts: fields.parts()?, ..manifest };
        manifest.check(bytes)?;
        Ok(manifest)
    }

    fn check(&self, bytes: u64) -> Result<(), &'static str> {
        if SegmentSize::new(self.segment_bytes).is_none() {
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

/// The lines of a manifest, each of which has a name.
struct Fields<'a> {
    lines: Lines<'a>,
}

impl<'a> Fields<'a> {
    fn field(&mut self, name: &str) -> Result<&'a str, String> {
        let line = self.lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.ok_or_else(|| format!("it has no {name} where that should be"))
    }

    fn parsed<T: FromStr>(&mut self, name: &str) -> Result<T, String> {
        self.field(name)?.parse().map_err(|_| format!("its {name} cannot be"))
    }

    fn parts(&mut self) -> Result<Vec<PartInfo>, String> {
        let refuse = || "its parts are not well formed".to_owned();
        let mut parts = Vec::new();
        loop {
            let line = self.lines.next().ok_or_else(refuse)?;
            if let Some(count) = line.strip_prefix("parts ") {
                let is_whole = count.parse() == Ok(parts.len()) && self.lines.next().is_none();
                return if is_whole { Ok(parts) } else { Err(refuse()) };
            }
            let fields: Vec<&str> = line.split(' ').collect();
            let ["part", number, bytes, checksum] = fields[..] else { return Err(refuse()) };
            if number.parse() != Ok(parts.len()) {
                return Err(refuse());
            }
            parts.push(PartInfo {
                bytes: bytes.parse().map_err(|_| refuse())?,
                checksum: u64::from_str_radix(checksum, 16).map_err(|_| refuse())?,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            parts: vec![PartInfo { bytes: 1 << 20, checksum: 9 }, PartInfo { bytes: 5, checksum: u64::MAX }],
        }
    }

    #[test]
    fn a_manifest_comes_back_from_its_text() {
        let manifest = manifest();
        assert_eq!(PostgreSqlManifest::decode(manifest.encode().as_bytes()), Ok(manifest.clone()));
        assert_eq!(manifest.bytes(), (1 << 20) + 5);
        let empty = PostgreSqlManifest { label: String::new(), ..manifest.clone() };
        assert_eq!(PostgreSqlManifest::decode(empty.encode().as_bytes()), Ok(empty));
        let lines = PostgreSqlManifest { label: "a\nparts 0\tb".to_owned(), ..manifest };
        let decoded = PostgreSqlManifest::decode(lines.encode().as_bytes()).unwrap();
        assert_eq!(decoded.label, "a parts 0 b");
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let text = manifest().encode().into_bytes();
        for at in 0..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(PostgreSqlManifest::decode(&other).is_err(), "byte {at}");
            assert!(PostgreSqlManifest::decode(&text[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn lines_that_no_backup_has_written_are_refused() {
        let text = manifest().encode();
        let (body, _) = text.split_once(CHECKSUM_PREFIX).unwrap();
        let sealed = |body: &str| format!("{body}{CHECKSUM_PREFIX}{:08x}\n", crc32c(body.as_bytes()));
        assert!(PostgreSqlManifest::decode(sealed(body).as_bytes()).is_ok());
        for (from, to) in [
            ("PostgreSQL\n", "Postgres\n"),
            ("parts 2", "parts 3"),
            ("part 1", "part 2"),
            ("part 1 5", "part 1 0"),
            ("part 1 5", "part 1 6"),
            ("part 1 5", "part 1 18446744073709551615"),
            ("version 1", "version 2"),
            ("segment_bytes 16777216", "segment_bytes 16777217"),
            ("timeline 1", "timeline 0"),
            ("end 0/2000138", "end 0/2000028"),
            ("files", "piles"),
        ] {
            assert!(body.contains(from), "{from}");
            assert!(PostgreSqlManifest::decode(sealed(&body.replace(from, to)).as_bytes()).is_err(), "{to}");
        }
    }
}
