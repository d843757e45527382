//! Where objects lie in a repository. A path follows from what the object is: to find one, nothing is listed.
//!
//! ```text
//!   seawall-repository                                        text: format, id, encryption (`repository_header`)
//!   keys/0123456789abcdef0123456789abcdef.00000001            all keys, for each master key: id of the repository, number of the ring
//!   postgresql-7301234567890123456/                           system identifier of a PostgreSQL cluster
//!     timelines/00000002.history
//!     log/00000001/00000000/000000010000000000000001          timeline / upper half of the LSN / segment
//!     log/00000001/00000000/000000010000000000000007.partial
//!     log/00000001/00000000/000000010000000000000004.00000028.backup
//!     gaps/000000010000000000000005-000000010000000000000009  left out on purpose (`gap`)
//!   seawall-0123456789abcdef0123456789abcdef/                 id of a Seawall database
//!     timelines/00000002.history
//!     log/00000001/00000000000000/000000010000000000000001    timeline / 256 segments / segment
//!     tails/, backups/, reserved/                             see `object_name`
//!   check/                                                    scratch of `seawall repo check`
//! ```
//! Names say nothing of compression or encryption: one file has one name, so that a put can tell whether it is there, also
//! after settings have changed.

use seawall_types::TimelineId;

use crate::gap::Gap;
use crate::name::{LogFileName, SegmentPlace};
use crate::system::System;

/// The object that makes a place a repository.
pub(crate) const REPOSITORY_HEADER: &str = "seawall-repository";
/// Directory of rings of keys.
pub(crate) const KEYS: &str = "keys/";
/// Directory of what a check puts and removes.
pub(crate) const CHECK: &str = "check/";

/// Whether a directory at the top is one of a repository's. Others lie there, too: `lost+found` of a file system.
pub(crate) fn is_own(directory: &str) -> bool {
    let is = |path: &str| path.strip_suffix('/') == Some(directory);
    is(KEYS) || is(CHECK) || directory.parse::<System>().is_ok()
}

/// Where the file with this name lies.
pub(crate) fn path(system: System, name: LogFileName) -> String {
    match name {
        LogFileName::History(_) => format!("{}{name}", timelines(system)),
        LogFileName::Segment(place) | LogFileName::Partial(place) | LogFileName::BackupLabel(place, _) => {
            format!("{}{}/{name}", timeline(system, place.timeline), group(system, place))
        }
    }
}

/// The directory of a system's histories.
pub(crate) fn timelines(system: System) -> String {
    format!("{system}/timelines/")
}

/// The directory of a system's gaps.
pub(crate) fn gaps(system: System) -> String {
    format!("{system}/gaps/")
}

/// Where a gap is on record.
pub(crate) fn gap(system: System, gap: Gap) -> String {
    format!("{}{gap}", gaps(system))
}

/// The directory of a system's timelines.
pub(crate) fn log(system: System) -> String {
    format!("{system}/log/")
}

/// The directory of the segments of a timeline.
pub(crate) fn timeline(system: System, timeline: TimelineId) -> String {
    format!("{system}/log/{:08X}/", timeline.get())
}

/// So that no directory has more than some hundred files.
fn group(system: System, place: SegmentPlace) -> String {
    match system {
        System::PostgreSql(_) => format!("{:08X}", place.digits >> 32),
        System::Seawall(_) => format!("{:014X}", place.digits >> 8),
    }
}

/// The path of the ring of keys with this number, of the repository with the id `repository`.
pub(crate) fn ring(repository: &[u8; 16], number: u32) -> String {
    format!("{KEYS}{:032x}.{number:08}", u128::from_be_bytes(*repository))
}

/// The id of the repository and the number in the path of a ring.
pub(crate) fn ring_of(path: &str) -> Option<([u8; 16], u32)> {
    let (id, number) = path.strip_prefix(KEYS)?.split_once('.')?;
    let id = u128::from_str_radix(id, 16).ok()?.to_be_bytes();
    let number = number.parse().ok()?;
    (ring(&id, number) == path).then_some((id, number))
}

/// The file that lies at a path, if it is the path of one.
pub(crate) fn parse(path: &str) -> Option<(System, LogFileName)> {
    let system = path.split('/').next()?.parse().ok()?;
    let name = LogFileName::parse(path.rsplit('/').next()?)?;
    (self::path(system, name) == path).then_some((system, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_types::DatabaseId;

    #[test]
    fn paths_are_those_of_the_picture_and_read_back() {
        let postgresql = System::PostgreSql(7_301_234_567_890_123_456);
        let seawall = System::Seawall(DatabaseId::from_bytes(0x0123_4567_89ab_cdef_u128.to_be_bytes()));
        for (system, name, expected) in [
            (postgresql, "00000002.history", "postgresql-7301234567890123456/timelines/00000002.history"),
            (
                postgresql,
                "00000001000000A1000000FF",
                "postgresql-7301234567890123456/log/00000001/000000A1/00000001000000A1000000FF",
            ),
            (
                postgresql,
                "000000010000000000000007.partial",
                "postgresql-7301234567890123456/log/00000001/00000000/000000010000000000000007.partial",
            ),
            (
                seawall,
                "0000000100000000000001A1",
                "seawall-00000000000000000123456789abcdef/log/00000001/00000000000001/0000000100000000000001A1",
            ),
        ] {
            let name = LogFileName::parse(name).unwrap();
            assert_eq!(path(system, name), expected);
            assert_eq!(parse(expected), Some((system, name)));
        }
        for other in [
            "",
            "seawall-repository",
            "postgresql-1/log/00000001/00000001/000000010000000000000001",
            "postgresql-1/log/00000002/00000000/000000010000000000000001",
            "postgresql-1/timelines/000000010000000000000001",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
        for number in [1, 99_999_999, u32::MAX] {
            assert_eq!(ring_of(&ring(&[0xA1; 16], number)), Some(([0xA1; 16], number)));
        }
        for other in ["keys/1.00000001", "keys/0123456789abcdef0123456789ABCDEF.00000001", "keys/other"] {
            assert_eq!(ring_of(other), None, "{other}");
        }
    }
}
