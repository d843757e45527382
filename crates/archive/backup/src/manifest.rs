//! The manifest of a backup: what it consists of, and what a database of it begins with. Put last: without it there is no
//! backup. A text, the content of an object:
//!
//! ```text
//! Seawall backup
//! version 2
//! database 0123456789abcdef0123456789abcdef
//! timeline 1
//! page_bytes 8192
//! segment_bytes 16777216
//! created 1763768400000000
//! redo_point 0/1A2B3C4
//! complete_from 0/1A2B9F0
//! in_doubt 0
//! first_new_table 80
//! loading 78,79
//! parent 20261121T031500.000000Z-0000000001A00000
//! goes_on_with 20261122T020000.000000Z-0000000001A1F000 4
//! started 1763781300000000
//! end 0/2B3C4D5
//! next_table 81
//! ended 1763781390000000
//! log 0011223344556677
//! keys none
//! run 0 12 1093 0f1e2d3c4b5a6978
//! run 1 91204 8388702 1122334455667788
//! kept 2 814 60231 99aabbccddeeff00
//! runs 3
//! crc32c 1a2b3c4d
//! ```
//! `log` is the checksum of the log from `redo_point` to `end` (`engine::backup::log_checksum`): a restore onto another one, that of a copy of
//! the database, is refused. Version 1 has no such line, and its log is not compared. Times are in microseconds since 1970; LSNs and `complete_from` as in `engine::backup`. `keys` is the file of that name of an
//! encrypted database, in hexadecimal digits, or `none`; so is `loading`. `parent` is what an increment builds on, or `none`. `goes_on_with`
//! is a backup that was cut short and the number of its progress object (`progress`), or `none`: what that has is a part of this
//! one. A run has its number, rows, bytes and the CRC-64/NVME of its content; so has a run of the ranges that an increment keeps. Those of a kind
//! are in the order of their keys.
//! The last line has the CRC-32C of all bytes before it.

pub(crate) mod postgresql;
mod text;

use seawall_codec::hexadecimal::{from_hexadecimal, to_hexadecimal};
use seawall_codec::sealed_text::{TextProblem, TextReader, TextWriter};
use seawall_engine::{BackupBase, BackupEnd};
use seawall_types::TableId;

pub(crate) use text::{read_base, read_origin, read_runs, write_base, write_origin, write_runs};

const TITLE: &str = "Seawall backup";
const VERSION: u32 = 2;
/// Without the checksum of the log.
const VERSION_WITHOUT_LOG: u32 = 1;

/// What a backup consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// What a restored database begins with.
    pub base: BackupBase,
    /// Where it has ended.
    pub end: BackupEnd,
    /// Checksum of the log from the redo point to the end; `None`: a manifest of version 1 has none.
    pub log_checksum: Option<u64>,
    /// When it began, in microseconds since 1970.
    pub started_micros: i64,
    /// The backup that it is an increment of, by name.
    pub parent: Option<String>,
    /// The one that was cut short and is a part of it.
    pub goes_on_with: Option<CutShort>,
    /// Its runs, by number.
    pub runs: Vec<RunInfo>,
}

/// A backup that was cut short, as far as one of its progress objects says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CutShort {
    /// Its name.
    pub id: String,
    /// The number of the object.
    pub progress: u32,
}

/// What is in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// Rows.
    Rows,
    /// Ranges of keys for which an increment has what its parent has.
    Kept,
}

/// A run of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// What is in it.
    pub kind: RunKind,
    /// Rows or ranges in it.
    pub rows: u64,
    /// Bytes, before compression.
    pub bytes: u64,
    /// CRC-64/NVME of these.
    pub checksum: u64,
}

impl Manifest {
    /// Rows in its runs, those of the system keyspace included, and not those of its parent.
    pub fn rows(&self) -> u64 {
        self.runs.iter().filter(|run| run.kind == RunKind::Rows).map(|run| run.rows).sum()
    }

    /// Rows in its runs that somebody has put, without those that the database keeps for itself: the first run has them.
    pub fn user_rows(&self) -> u64 {
        self.rows().saturating_sub(self.runs.first().map_or(0, |run| run.rows))
    }

    /// Bytes of log from the redo point to its end, which a restore replays.
    pub fn log_bytes(&self) -> u64 {
        self.end.end.bytes_since(self.base.redo_point)
    }

    /// Bytes in all runs, before compression.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    /// Its text.
    pub fn encode(&self) -> String {
        let (base, end) = (&self.base, &self.end);
        let version = self.log_checksum.map_or(VERSION_WITHOUT_LOG, |_| VERSION);
        let mut text = TextWriter::new(TITLE, version);
        write_base(&mut text, base);
        write_origin(&mut text, self.parent.as_deref(), self.goes_on_with.as_ref());
        text.line("started", &self.started_micros);
        text.line("end", &end.end);
        text.line("next_table", &end.next_table.get());
        text.line("ended", &end.time_micros);
        if let Some(checksum) = self.log_checksum {
            text.line("log", &format_args!("{checksum:016x}"));
        }
        text.line("keys", &base.keys.as_ref().map_or_else(|| "none".to_owned(), |keys| to_hexadecimal(keys)));
        write_runs(&mut text, &self.runs);
        text.seal()
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, String> {
        let (mut text, version) = match TextReader::open(bytes, TITLE, VERSION) {
            Err(TextProblem::Version(VERSION_WITHOUT_LOG)) => {
                (TextReader::open(bytes, TITLE, VERSION_WITHOUT_LOG)?, VERSION_WITHOUT_LOG)
            }
            text => (text?, VERSION),
        };
        let base = read_base(&mut text)?;
        let (parent, goes_on_with) = read_origin(&mut text)?;
        let started_micros = text.parsed("started")?;
        let end = BackupEnd {
            end: text.parsed("end")?,
            next_table: TableId::new(text.parsed("next_table")?),
            time_micros: text.parsed("ended")?,
        };
        let log_checksum = match version {
            VERSION_WITHOUT_LOG => None,
            _ => Some(
                u64::from_str_radix(text.field("log")?, 16)
                    .map_err(|_| "its log is not a checksum".to_owned())?,
            ),
        };
        let keys = match text.field("keys")? {
            "none" => None,
            digits => Some(from_hexadecimal(digits).ok_or("keys are not hexadecimal digits")?),
        };
        let runs = read_runs(text)?;
        if end.end < base.redo_point || end.end < base.complete_from {
            return Err("it ends before it begins".to_owned());
        }
        let builds_on_nothing = parent.is_none() && goes_on_with.is_none();
        if builds_on_nothing && runs.iter().any(|run| run.kind == RunKind::Kept) {
            return Err("it keeps ranges of no parent".to_owned());
        }
        let base = BackupBase { keys, ..base };
        Ok(Manifest { base, end, log_checksum, started_micros, parent, goes_on_with, runs })
    }
}

impl RunKind {
    fn word(self) -> &'static str {
        match self {
            RunKind::Rows => "run",
            RunKind::Kept => "kept",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_codec::checksum::crc32c;
    use seawall_types::{DatabaseId, Lsn, TimelineId};

    const CHECKSUM_PREFIX: &str = "crc32c ";

    fn manifest() -> Manifest {
        Manifest {
            base: BackupBase {
                database: DatabaseId::from_bytes(*b"0123456789abcdef"),
                timeline: TimelineId::FIRST,
                page_bytes: 8192,
                segment_bytes: 16 << 20,
                created_micros: -5,
                keys: Some(vec![0, 1, 0xFF]),
                redo_point: Lsn::new(100),
                complete_from: Lsn::new(120),
                in_doubt: 3,
                first_new_table: TableId::new(80),
                loading: vec![TableId::new(77), TableId::new(79)],
            },
            end: BackupEnd { end: Lsn::new(1 << 33), next_table: TableId::new(81), time_micros: 8 },
            log_checksum: Some(0xABC),
            started_micros: 7,
            parent: Some("20261121T031500.000000Z-0000000001A00000".to_owned()),
            goes_on_with: Some(CutShort { id: "20261122T020000.000000Z-1".to_owned(), progress: 4 }),
            runs: vec![
                RunInfo { kind: RunKind::Rows, rows: 12, bytes: 1093, checksum: 9 },
                RunInfo { kind: RunKind::Kept, rows: 1, bytes: 32, checksum: u64::MAX },
            ],
        }
    }

    #[test]
    fn a_manifest_comes_back_from_its_text() {
        let manifest = manifest();
        assert_eq!(Manifest::decode(manifest.encode().as_bytes()), Ok(manifest.clone()));
        assert_eq!((manifest.rows(), manifest.bytes()), (12, 1125));
        let base = BackupBase { keys: None, loading: Vec::new(), ..manifest.base.clone() };
        let runs = vec![manifest.runs[0]];
        let plain = Manifest { base, parent: None, goes_on_with: None, runs, ..manifest };
        assert_eq!(Manifest::decode(plain.encode().as_bytes()), Ok(plain));
    }

    #[test]
    fn a_manifest_of_version_1_is_read() {
        let manifest = Manifest { log_checksum: None, ..manifest() };
        let text = manifest.encode();
        assert!(text.contains("\nversion 1\n") && !text.contains("\nlog "), "{text}");
        assert_eq!(Manifest::decode(text.as_bytes()), Ok(manifest));
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let text = manifest().encode().into_bytes();
        for at in 0..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(Manifest::decode(&other).is_err(), "byte {at}");
            assert!(Manifest::decode(&text[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn lines_that_no_backup_has_written_are_refused() {
        let text = manifest().encode();
        let (body, _) = text.split_once(CHECKSUM_PREFIX).unwrap();
        let sealed = |body: &str| format!("{body}{CHECKSUM_PREFIX}{:08x}\n", crc32c(body.as_bytes()));
        assert!(Manifest::decode(sealed(body).as_bytes()).is_ok());
        for (from, to) in [
            ("runs 2", "runs 3"),
            ("kept 1", "kept 2"),
            ("kept 1", "lost 1"),
            ("loading 77,79", "loading 77,"),
            (
                "parent 20261121T031500.000000Z-0000000001A00000\ngoes_on_with 20261122T020000.000000Z-1 4",
                "parent none\ngoes_on_with none",
            ),
            ("goes_on_with 20261122T020000.000000Z-1 4", "goes_on_with 20261122T020000.000000Z-1"),
            ("goes_on_with 20261122T020000.000000Z-1 4", "goes_on_with ../elsewhere 4"),
            (" 1093 ", " 18446744073709551615 "),
            ("version 2", "version 1"),
            ("log 0000000000000abc", "log none"),
            ("page_bytes 8192", "page_bytes 8193"),
            ("timeline 1", "timeline 0"),
            ("keys 0001ff", "keys 0001f"),
            ("redo_point 0/64", "redo_point 9/0"),
            ("in_doubt", "in_trouble"),
        ] {
            assert!(body.contains(from), "{from}");
            assert!(Manifest::decode(sealed(&body.replace(from, to)).as_bytes()).is_err(), "{to}");
        }
    }
}
