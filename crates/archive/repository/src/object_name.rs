//! Names of objects that are no files of a log: paths below the directory of their system.
//!
//! ```text
//!   tails/00000001/0000000100000000000000A1.00000000-0001F000       bytes of a segment that is not full yet
//!   backups/20261122T031500.000000Z-0000000001A2B3C4/run-00000007          rows of a backup
//!   backups/20261122T031500.000000Z-0000000001A2B3C4/progress-00000002     how far the backup was, while it was taken
//!   backups/20261122T031500.000000Z-0000000001A2B3C4/manifest              what it consists of; without it there is none
//!   backups/20261122T031500.000000Z-0000000001A2B3C4/part-00000007         files of a PostgreSQL cluster
//!   reserved/00000002                                                      a restore begins timeline 2
//! ```

use std::fmt;

use seawall_types::{Lsn, TimelineId};

use crate::envelope::{Header, ObjectKind};
use crate::system::System;

/// Where such objects lie. Files of logs lie elsewhere.
const DIRECTORIES: [&str; 3] = ["tails", "backups", "reserved"];
/// The longest name.
const NAME_BYTES_MAX: usize = 255;

/// The name of an object that is no file of a log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(String);

impl ObjectName {
    /// Reads a name: parts of letters, digits, `-`, `.` and `_`, none of which begins with a dot, with slashes between them;
    /// the first is `tails`, `backups` or `reserved`. `None` for anything else.
    pub fn parse(name: &str) -> Option<ObjectName> {
        let (directory, rest) = name.split_once('/')?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_plain);
        let is_name = DIRECTORIES.contains(&directory) && rest.split('/').all(is_part);
        (is_name && name.len() <= NAME_BYTES_MAX).then(|| ObjectName(name.to_owned()))
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its last part.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The header of the object: all but what is about its bytes, which `Packer::pack` fills in.
    pub fn header(&self, kind: ObjectKind, system: System, about: ObjectPlace) -> Header {
        Header {
            timeline: Some(about.timeline),
            segment_bytes: about.segment_bytes,
            start: about.start,
            end: about.end,
            created_micros: about.created_micros,
            ..Header::unpacked(kind, system, self.0.clone())
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What an object is about.
#[derive(Clone, Copy, Debug)]
pub struct ObjectPlace {
    /// Its timeline.
    pub timeline: TimelineId,
    /// Size of the log's segments.
    pub segment_bytes: u32,
    /// The first byte of the log that it is about.
    pub start: Lsn,
    /// The byte behind the last one; not before `start`.
    pub end: Lsn,
    /// When it was made, microseconds since 1970.
    pub created_micros: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_their_directories() {
        for name in ["tails/00000001/0000000100000000000000A1.00000000-0001F000", "backups/b/run-00000007"] {
            assert_eq!(ObjectName::parse(name).unwrap().as_str(), name);
        }
        for name in [
            "",
            "tails",
            "tails/",
            "log/a",
            "tails/../log/a",
            "backups//a",
            "backups/a b",
            "/tails/a",
            "backups/a/",
        ] {
            assert_eq!(ObjectName::parse(name), None, "{name}");
        }
        assert_eq!(ObjectName::parse(&format!("tails/{}", "a".repeat(NAME_BYTES_MAX))), None);
    }
}
