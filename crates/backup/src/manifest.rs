//! The manifest of a backup: what it consists of, and what a database of it begins with. Put last: without it there is no
//! backup. A text, the content of an object:
//!
//! ```text
//! Seawall backup
//! version 1
//! database 0123456789abcdef0123456789abcdef
//! timeline 1
//! page_bytes 8192
//! segment_bytes 16777216
//! created 1763768400000000
//! redo_point 0/1A2B3C4
//! complete_from 0/1A2B9F0
//! end 0/2B3C4D5
//! next_table 81
//! in_doubt 0
//! first_new_table 80
//! loading 78,79
//! parent 20261121T031500.000000Z-0000000001A00000
//! started 1763781300000000
//! ended 1763781390000000
//! keys none
//! run 0 12 1093 0f1e2d3c4b5a6978
//! run 1 91204 8388702 1122334455667788
//! kept 2 814 60231 99aabbccddeeff00
//! runs 3
//! crc32c 1a2b3c4d
//! ```
//! Times are in microseconds since 1970; LSNs and `complete_from` as in `engine::backup`. `keys` is the file of that name of an
//! encrypted database, in hexadecimal digits, or `none`; so is `loading`. `parent` is what an increment builds on, or `none`. A run has
//! its number, rows, bytes and the CRC-64/NVME of its content; so has a run of the ranges that an increment keeps. Those of a kind
//! are in the order of their keys.
//! The last line has the CRC-32C of all bytes before it.

use std::fmt::Display;

use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_engine::{BackupBase, BackupEnd};
use seawall_types::{DatabaseId, TableId, TimelineId};

const TITLE: &str = "Seawall backup";
const VERSION: u32 = 1;

/// What a backup consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// What a restored database begins with.
    pub base: BackupBase,
    /// Where it has ended.
    pub end: BackupEnd,
    /// When it began, in microseconds since 1970.
    pub started_micros: i64,
    /// The backup that it is an increment of, by name.
    pub parent: Option<String>,
    /// Its runs, by number.
    pub runs: Vec<RunInfo>,
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

    /// Numbers of its runs of a kind.
    pub(crate) fn numbers(&self, kind: RunKind) -> impl Iterator<Item = u32> {
        (0..).zip(&self.runs).filter(move |(_, run)| run.kind == kind).map(|(number, _)| number)
    }

    /// Bytes in all runs, before compression.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    pub(crate) fn encode(&self) -> String {
        let (base, end) = (&self.base, &self.end);
        let mut text = TextWriter::new(TITLE, VERSION);
        let mut line = |name: &str, value: &dyn Display| text.line(name, value);
        line("database", &base.database);
        line("timeline", &base.timeline);
        line("page_bytes", &base.page_bytes);
        line("segment_bytes", &base.segment_bytes);
        line("created", &base.created_micros);
        line("redo_point", &base.redo_point);
        line("complete_from", &base.complete_from);
        line("end", &end.end);
        line("next_table", &end.next_table.get());
        line("in_doubt", &base.in_doubt);
        line("first_new_table", &base.first_new_table.get());
        line("loading", &numbers_text(&base.loading));
        line("parent", &self.parent.as_deref().unwrap_or("none"));
        line("started", &self.started_micros);
        line("ended", &end.time_micros);
        line("keys", &base.keys.as_ref().map_or_else(|| "none".to_owned(), |keys| hexadecimal(keys)));
        for (number, RunInfo { kind, rows, bytes, checksum }) in self.runs.iter().enumerate() {
            line(kind.word(), &format_args!("{number} {rows} {bytes} {checksum:016x}"));
        }
        line("runs", &self.runs.len());
        text.seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest, String> {
        let mut text = TextReader::open(bytes, TITLE, VERSION)?;
        let base = read_base(&mut text)?;
        let end = BackupEnd {
            end: text.parsed("end")?,
            next_table: TableId::new(text.parsed("next_table")?),
            time_micros: 0,
        };
        let in_doubt = text.parsed("in_doubt")?;
        let first_new_table = TableId::new(text.parsed("first_new_table")?);
        let loading = numbers_of(text.field("loading")?).ok_or("its loading cannot be")?;
        let parent = Some(text.field("parent")?).filter(|parent| *parent != "none").map(str::to_owned);
        let started_micros = text.parsed("started")?;
        let end = BackupEnd { time_micros: text.parsed("ended")?, ..end };
        let keys = match text.field("keys")? {
            "none" => None,
            digits => Some(bytes_of(digits).ok_or("keys are no hexadecimal digits")?),
        };
        let runs = text.list(&[RunKind::Rows.word(), RunKind::Kept.word()], "runs", RunInfo::parse)?;
        text.end()?;
        if end.end < base.redo_point || end.end < base.complete_from {
            return Err("it ends before it begins".to_owned());
        }
        if parent.is_none() && runs.iter().any(|run| run.kind == RunKind::Kept) {
            return Err("it keeps ranges of no parent".to_owned());
        }
        let base = BackupBase { in_doubt, keys, first_new_table, loading, ..base };
        Ok(Manifest { base, end, started_micros, parent, runs })
    }
}

impl RunInfo {
    fn parse(word: &str, fields: &[&str]) -> Option<RunInfo> {
        let kind = [RunKind::Rows, RunKind::Kept].into_iter().find(|kind| kind.word() == word)?;
        let [rows, bytes, checksum] = fields else { return None };
        let checksum = u64::from_str_radix(checksum, 16).ok()?;
        Some(RunInfo { kind, rows: rows.parse().ok()?, bytes: bytes.parse().ok()?, checksum })
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

fn numbers_text(tables: &[TableId]) -> String {
    let numbers: Vec<String> = tables.iter().map(|table| table.get().to_string()).collect();
    if numbers.is_empty() { "none".to_owned() } else { numbers.join(",") }
}

fn numbers_of(text: &str) -> Option<Vec<TableId>> {
    if text == "none" {
        return Some(Vec::new());
    }
    text.split(',').map(|number| number.parse().ok().map(TableId::new)).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

fn read_base(text: &mut TextReader<'_>) -> Result<BackupBase, String> {
    let database = bytes_of(text.field("database")?).and_then(|bytes| bytes.try_into().ok());
    let timeline = TimelineId::new(text.parsed("timeline")?).ok_or("its timeline cannot be")?;
    Ok(BackupBase {
        database: DatabaseId::from_bytes(database.ok_or("its database cannot be")?),
        timeline,
        page_bytes: read_page_bytes(text)?,
        segment_bytes: text.parsed("segment_bytes")?,
        created_micros: text.parsed("created")?,
        keys: None,
        redo_point: text.parsed("redo_point")?,
        complete_from: text.parsed("complete_from")?,
        in_doubt: 0,
        first_new_table: TableId::new(0),
        loading: Vec::new(),
    })
}

fn read_page_bytes(text: &mut TextReader<'_>) -> Result<u32, String> {
    let bytes: u32 = text.parsed("page_bytes")?;
    let is_size = bytes.is_power_of_two() && (4096..=65536).contains(&bytes);
    is_size.then_some(bytes).ok_or_else(|| "its page_bytes cannot be".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_codec::checksum::crc32c;
    use seawall_types::Lsn;

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
            started_micros: 7,
            parent: Some("20261121T031500.000000Z-0000000001A00000".to_owned()),
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
        let plain = Manifest { base, parent: None, runs, ..manifest };
        assert_eq!(Manifest::decode(plain.encode().as_bytes()), Ok(plain));
    }

    #[test]
    fn lines_that_no_backup_has_written_are_refused() {
        let text = manifest().encode();
        let (body, _) = text.split_once("crc32c ").unwrap();
        let sealed = |body: &str| format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes()));
        assert!(Manifest::decode(sealed(body).as_bytes()).is_ok());
        for (from, to) in [
            ("runs 2", "runs 3"),
            ("kept 1", "kept 2"),
            ("kept 1", "lost 1"),
            ("loading 77,79", "loading 77,"),
            ("parent 20261121T031500.000000Z-0000000001A00000", "parent none"),
            ("version 1", "version 2"),
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
