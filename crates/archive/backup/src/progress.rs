//! How far a backup has come that is under way: put now and then, so that a backup that was cut short can be resumed. A text, the
//! content of an object:
//!
//! ```text
//! Seawall backup progress
//! version 1
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
//! parent none
//! goes_on_with none
//! started 1763781300000000
//! stamp 0/1A2B400
//! reached 00000000000000116b6579
//! run 0 12 1093 0f1e2d3c4b5a6978
//! run 1 91204 8388702 1122334455667788
//! runs 2
//! crc32c 1a2b3c4d
//! ```
//! Fields are those of a manifest. The runs are in the repository, and have all rows, and all ranges that are kept, below the key
//! `reached`, in hexadecimal digits; `end`: all there are. No change in the rows is newer than `stamp`. Each object says all of it
//! anew, so those of a backup need not be read in an order, and one that is missing is missed by nobody who does not name it.

use seawall_codec::hexadecimal::{from_hexadecimal, to_hexadecimal};
use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_engine::BackupBase;
use seawall_types::Lsn;

use crate::manifest::{
    CutShort, RunInfo, read_base, read_origin, read_runs, write_base, write_origin, write_runs,
};

const TITLE: &str = "Seawall backup progress";
const VERSION: u32 = 1;
const ALL: &str = "end";

/// How far a backup has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it began with; without `keys`.
    pub base: BackupBase,
    /// When, in microseconds since 1970.
    pub started_micros: i64,
    /// The backup that it is an increment of.
    pub parent: Option<String>,
    /// The one that was cut short and is a part of it.
    pub goes_on_with: Option<CutShort>,
    /// No change in its rows is newer.
    pub stamp: Lsn,
    /// It has what lies below this key; `None`: everything.
    pub reached: Option<Vec<u8>>,
    /// The runs that it has put, by number.
    pub runs: Vec<RunInfo>,
}

impl Progress {
    /// Its text.
    pub fn encode(&self) -> String {
        let mut text = TextWriter::new(TITLE, VERSION);
        write_base(&mut text, &self.base);
        write_origin(&mut text, self.parent.as_deref(), self.goes_on_with.as_ref());
        text.line("started", &self.started_micros);
        text.line("stamp", &self.stamp);
        text.line(
            "reached",
            &self.reached.as_ref().map_or_else(|| ALL.to_owned(), |key| to_hexadecimal(key)),
        );
        write_runs(&mut text, &self.runs);
        text.seal()
    }

    /// Reads a progress object.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Progress, String> {
        let mut text = TextReader::open(bytes, TITLE, VERSION)?;
        let base = read_base(&mut text)?;
        let (parent, goes_on_with) = read_origin(&mut text)?;
        let (started_micros, stamp) = (text.parsed("started")?, text.parsed("stamp")?);
        let reached = match text.field("reached")? {
            ALL => None,
            digits => Some(from_hexadecimal(digits).ok_or("its reached is not a valid key")?),
        };
        let runs = read_runs(text)?;
        Ok(Progress { base, started_micros, parent, goes_on_with, stamp, reached, runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::RunKind;
    use seawall_types::{DatabaseId, TableId, TimelineId};

    fn progress() -> Progress {
        Progress {
            base: BackupBase {
                database: DatabaseId::from_bytes(*b"0123456789abcdef"),
                timeline: TimelineId::FIRST,
                page_bytes: 8192,
                segment_bytes: 16 << 20,
                created_micros: 5,
                keys: None,
                redo_point: Lsn::new(100),
                complete_from: Lsn::new(120),
                in_doubt: 0,
                first_new_table: TableId::new(80),
                loading: Vec::new(),
            },
            started_micros: 7,
            parent: None,
            goes_on_with: Some(CutShort { id: "a".to_owned(), progress: 0 }),
            stamp: Lsn::new(130),
            reached: Some(vec![0, 0xAB]),
            runs: vec![RunInfo { kind: RunKind::Rows, rows: 12, bytes: 1093, checksum: 9 }],
        }
    }

    #[test]
    fn progress_comes_back_from_its_text() {
        for reached in [None, Some(Vec::new()), Some(vec![0, 0xAB])] {
            let progress = Progress { reached, ..progress() };
            assert_eq!(Progress::decode(progress.encode().as_bytes()), Ok(progress));
        }
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let text = progress().encode().into_bytes();
        for at in 0..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(Progress::decode(&other).is_err(), "byte {at}");
            assert!(Progress::decode(&text[..at]).is_err(), "{at} bytes");
        }
    }
}
