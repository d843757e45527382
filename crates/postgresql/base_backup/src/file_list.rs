//! PostgreSQL's own manifest of a base backup, `backup_manifest`: its files with their checksums, and the log that it needs. JSON, as
//! PostgreSQL 13 and later write it; what it has besides is not of interest here.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use seawall_types::{Lsn, TimelineId};
use serde::Deserialize;

/// Length and CRC-32C of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileSum {
    pub(super) bytes: u64,
    pub(super) checksum: u32,
}

/// What PostgreSQL says of a backup.
#[derive(Debug)]
pub(super) struct FileList {
    files: Vec<(PathBuf, u64, Option<u32>)>,
    ranges: Vec<Range>,
}

#[derive(Debug)]
struct Range {
    timeline: TimelineId,
    start: Lsn,
    end: Lsn,
}

#[derive(Deserialize)]
struct ListText {
    #[serde(rename = "Files")]
    files: Vec<FileText>,
    #[serde(rename = "WAL-Ranges")]
    ranges: Vec<RangeText>,
}

#[derive(Deserialize)]
struct FileText {
    #[serde(rename = "Path")]
    path: Option<String>,
    /// In hexadecimal digits, if it is no text.
    #[serde(rename = "Encoded-Path")]
    encoded_path: Option<String>,
    #[serde(rename = "Size")]
    size: u64,
    #[serde(rename = "Checksum-Algorithm")]
    algorithm: Option<String>,
    #[serde(rename = "Checksum")]
    checksum: Option<String>,
}

#[derive(Deserialize)]
struct RangeText {
    #[serde(rename = "Timeline")]
    timeline: u32,
    #[serde(rename = "Start-LSN")]
    start: String,
    #[serde(rename = "End-LSN")]
    end: String,
}

impl FileList {
    /// Reads the text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &[u8]) -> Result<FileList, String> {
        let list: ListText = serde_json::from_slice(text)
            .map_err(|error| format!("is not as PostgreSQL writes it: {error}"))?;
        let files = list.files.into_iter().map(FileText::parsed).collect::<Result<Vec<_>, _>>()?;
        let ranges = list.ranges.iter().map(RangeText::parsed).collect::<Option<Vec<_>>>();
        let ranges = ranges.filter(|ranges| !ranges.is_empty()).ok_or("has WAL-Ranges that cannot be")?;
        Ok(FileList { files, ranges })
    }

    /// Holds the list against the files that there are.
    ///
    /// # Errors
    /// The first file that differs, is missing or is too many.
    pub(super) fn check(&self, found: &HashMap<PathBuf, FileSum>) -> Result<(), String> {
        for (path, bytes, checksum) in &self.files {
            let name = path.display();
            let sum = found.get(path).ok_or_else(|| format!("{name} is missing"))?;
            if sum.bytes != *bytes {
                return Err(format!("{name} has {} bytes instead of {bytes}", sum.bytes));
            }
            if checksum.is_some_and(|checksum| checksum != sum.checksum) {
                return Err(format!("{name} has another checksum than PostgreSQL computed"));
            }
        }
        if found.len() == self.files.len() {
            return Ok(());
        }
        let listed: std::collections::HashSet<&PathBuf> = self.files.iter().map(|(path, ..)| path).collect();
        match found.keys().find(|path| !listed.contains(path)) {
            Some(path) => Err(format!("{} is not in PostgreSQL's list of files", path.display())),
            None => Err("PostgreSQL's list of files names one twice".to_owned()),
        }
    }

    /// The log is needed from here on.
    pub(super) fn start(&self) -> Lsn {
        self.ranges.iter().map(|range| range.start).min().expect("there is at least one range")
    }

    /// Up to here.
    pub(super) fn end(&self) -> Lsn {
        self.ranges.iter().map(|range| range.end).max().expect("there is at least one range")
    }

    /// The timeline of the end.
    pub(super) fn end_timeline(&self) -> TimelineId {
        self.ranges.iter().map(|range| range.timeline).max().expect("there is at least one range")
    }
}

impl FileText {
    fn parsed(self) -> Result<(PathBuf, u64, Option<u32>), String> {
        let path = match (self.path, self.encoded_path) {
            (Some(path), None) => PathBuf::from(path),
            (None, Some(digits)) => {
                let bytes = bytes_of(&digits).ok_or("has an Encoded-Path that cannot be")?;
                PathBuf::from(OsString::from_vec(bytes))
            }
            _ => return Err("has a file without a path".to_owned()),
        };
        // The bytes of the number, as they lie in the server's memory.
        let checksum = match self.algorithm.as_deref() {
            Some("CRC32C") => {
                let bytes =
                    self.checksum.as_deref().and_then(bytes_of).and_then(|bytes| bytes.try_into().ok());
                let bytes =
                    bytes.ok_or_else(|| format!("has a checksum of {} that cannot be", path.display()))?;
                Some(u32::from_le_bytes(bytes))
            }
            Some(_) | None => None,
        };
        Ok((path, self.size, checksum))
    }
}

impl RangeText {
    fn parsed(&self) -> Option<Range> {
        let range = Range {
            timeline: TimelineId::new(self.timeline)?,
            start: self.start.parse().ok()?,
            end: self.end.parse().ok()?,
        };
        (range.start <= range.end).then_some(range)
    }
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_postgresql_is_read() {
        let list = FileList::parse(
            br#"{ "PostgreSQL-Backup-Manifest-Version": 1, "Files": [
            { "Path": "backup_label", "Size": 209, "Last-Modified": "2026-11-22 05:38:59 GMT", "Checksum-Algorithm": "CRC32C", "Checksum": "11c1d3a4" },
            { "Encoded-Path": "62617365ff", "Size": 3, "Last-Modified": "x" } ],
            "WAL-Ranges": [ { "Timeline": 2, "Start-LSN": "0/3000000", "End-LSN": "0/3000100" },
                            { "Timeline": 1, "Start-LSN": "0/2000028", "End-LSN": "0/3000000" } ],
            "Manifest-Checksum": "00"}"#,
        )
        .unwrap();
        assert_eq!((list.start().get(), list.end().get()), (0x200_0028, 0x300_0100));
        assert_eq!(list.end_timeline().get(), 2);
        assert_eq!(list.files[0], (PathBuf::from("backup_label"), 209, Some(0xA4D3_C111)));
        assert_eq!(list.files[1].0.as_os_str().len(), 5);
        assert_eq!(list.files[1].2, None);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"Files":[],"WAL-Ranges":[]}"#,
            r#"{"Files":[],"WAL-Ranges":[{"Timeline":0,"Start-LSN":"0/1","End-LSN":"0/2"}]}"#,
            r#"{"Files":[],"WAL-Ranges":[{"Timeline":1,"Start-LSN":"0/3","End-LSN":"0/2"}]}"#,
            r#"{"Files":[{"Size":1}],"WAL-Ranges":[{"Timeline":1,"Start-LSN":"0/1","End-LSN":"0/2"}]}"#,
            r#"{"Files":[{"Path":"a","Size":1,"Checksum-Algorithm":"CRC32C","Checksum":"zz"}],"WAL-Ranges":[{"Timeline":1,"Start-LSN":"0/1","End-LSN":"0/2"}]}"#,
            r#"{"Files":[{"Encoded-Path":"\u00e9\u00e9","Size":1}],"WAL-Ranges":[{"Timeline":1,"Start-LSN":"0/1","End-LSN":"0/2"}]}"#,
        ] {
            assert!(FileList::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
