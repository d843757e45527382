//! Names of the objects of a backup, and of tails of the log.

use seawall_archive::ObjectName;
use seawall_types::{Lsn, TimelineId};
use seawall_wal::SegmentName;

/// Where backups lie.
pub const BACKUPS: &str = "backups";
const MANIFEST: &str = "manifest";
const PROGRESS: &str = "progress-";
const REMOVED: &str = "removed";

fn checked(name: String) -> ObjectName {
    ObjectName::parse(&name).expect("names made here have the form of names")
}

/// The manifest of a backup; `None` if nothing is called so.
pub fn manifest(backup: &str) -> Option<ObjectName> {
    ObjectName::parse(&format!("{BACKUPS}/{backup}/{MANIFEST}"))
}

/// The backup that an object belongs to, by its name.
pub(crate) fn backup_of(name: &ObjectName) -> Option<&str> {
    name.as_str().strip_prefix(BACKUPS)?.strip_prefix('/')?.split_once('/').map(|(backup, _)| backup)
}

/// A run of a backup.
pub(crate) fn run(backup: &str, number: u32) -> ObjectName {
    checked(format!("{BACKUPS}/{backup}/run-{number:08}"))
}

/// The directory of a backup.
pub(crate) fn directory(backup: &str) -> String {
    format!("{BACKUPS}/{backup}")
}

/// How far a backup has come, said for the `number`th time.
pub(crate) fn progress(backup: &str, number: u32) -> ObjectName {
    checked(format!("{BACKUPS}/{backup}/{PROGRESS}{number:08}"))
}

/// What says that a backup is being removed.
pub(crate) fn removal_mark(backup: &str) -> ObjectName {
    checked(format!("{BACKUPS}/{backup}/{REMOVED}"))
}

/// Whether an object says that a backup is being removed.
pub(crate) fn is_removal_mark(name: &ObjectName) -> bool {
    backup_of(name).is_some_and(|backup| removal_mark(backup) == *name)
}

/// The number of a progress object, by its name.
pub(crate) fn parse_progress(name: &ObjectName) -> Option<u32> {
    let number = name.file_name().strip_prefix(PROGRESS)?.parse().ok()?;
    (progress(backup_of(name)?, number) == *name).then_some(number)
}

/// A part of a backup of a PostgreSQL cluster.
pub fn part(backup: &str, number: u32) -> ObjectName {
    checked(format!("{BACKUPS}/{backup}/part-{number:08}"))
}

/// Where numbers of timelines are reserved.
pub(crate) const RESERVED: &str = "reserved";

/// What says that the number of a timeline is taken.
pub(crate) fn reserved(timeline: TimelineId) -> ObjectName {
    checked(format!("{RESERVED}/{:08X}", timeline.get()))
}

/// The timeline whose number is taken, by the name of what says so.
pub(crate) fn parse_reserved(name: &ObjectName) -> Option<TimelineId> {
    let timeline = TimelineId::new(u32::from_str_radix(name.file_name(), 16).ok()?)?;
    (reserved(timeline) == *name).then_some(timeline)
}

/// The directory of the tails of a timeline.
pub(crate) fn tails(timeline: TimelineId) -> String {
    format!("tails/{:08X}", timeline.get())
}

/// Bytes `from..to` of a segment file.
pub(crate) fn tail(segment: SegmentName, from: u64, to: u64) -> ObjectName {
    checked(format!("{}/{}.{from:08X}-{to:08X}", tails(segment.timeline), segment.file_name()))
}

/// The segment and the bytes of a tail's name.
pub(crate) fn parse_tail(name: &ObjectName) -> Option<(SegmentName, u64, u64)> {
    let (segment, range) = name.file_name().split_once('.')?;
    let (from, to) = range.split_once('-')?;
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let parsed = (SegmentName::parse(segment)?, number(from)?, number(to)?);
    (tail(parsed.0, parsed.1, parsed.2) == *name && parsed.1 < parsed.2).then_some(parsed)
}

/// The name of a backup that begins at `redo_point`, at this time: they sort by time.
pub fn backup_id(time_micros: i64, redo_point: Lsn) -> String {
    let (year, month, day, seconds) = civil(time_micros.div_euclid(1_000_000));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let micros = time_micros.rem_euclid(1_000_000);
    let time = format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{micros:06}Z");
    format!("{time}-{:016X}", redo_point.get())
}

/// A time as PostgreSQL reads it, whatever its settings are.
pub fn utc(time_micros: i64) -> String {
    let (year, month, day, seconds) = civil(time_micros.div_euclid(1_000_000));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let micros = time_micros.rem_euclid(1_000_000);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}+00")
}

/// Year, month and day, and seconds of the day, of seconds since 1970 (Howard Hinnant's `civil_from_days`).
fn civil(seconds: i64) -> (i64, i64, i64, i64) {
    let (days, rest) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tails_read_back_and_others_do_not() {
        let segment = SegmentName { number: 0xA1, timeline: TimelineId::FIRST };
        let name = tail(segment, 0, 0x1F000);
        assert_eq!(name.as_str(), "tails/00000001/0000000100000000000000A1.00000000-0001F000");
        assert_eq!(parse_tail(&name), Some((segment, 0, 0x1F000)));
        for other in [
            "tails/00000002/0000000100000000000000A1.00000000-0001F000",
            "tails/00000001/0000000100000000000000A1.00000000-00000000",
            "tails/00000001/0000000100000000000000A1",
            "backups/b/manifest",
        ] {
            assert_eq!(parse_tail(&ObjectName::parse(other).unwrap()), None, "{other}");
        }
    }

    #[test]
    fn names_of_progress_read_back_and_others_do_not() {
        let name = progress("b", 12);
        assert_eq!((name.as_str(), parse_progress(&name)), ("backups/b/progress-00000012", Some(12)));
        for other in ["backups/b/progress-12", "backups/b/run-00000012", "backups/b/manifest"] {
            assert_eq!(parse_progress(&ObjectName::parse(other).unwrap()), None, "{other}");
        }
    }

    #[test]
    fn names_of_reserved_numbers_read_back_and_others_do_not() {
        let timeline = TimelineId::new(0xA1).unwrap();
        let name = reserved(timeline);
        assert_eq!((name.as_str(), parse_reserved(&name)), ("reserved/000000A1", Some(timeline)));
        for other in ["reserved/A1", "reserved/00000000", "reserved/000000a1", "tails/000000A1"] {
            assert_eq!(parse_reserved(&ObjectName::parse(other).unwrap()), None, "{other}");
        }
    }

    #[test]
    fn backups_are_named_by_their_time() {
        assert_eq!(
            backup_id(1_763_781_300_000_000, Lsn::new(0xABC)),
            "20251122T031500.000000Z-0000000000000ABC"
        );
        assert_eq!(backup_id(951_782_400_000_000, Lsn::ZERO), "20000229T000000.000000Z-0000000000000000");
        assert_eq!(backup_id(-1, Lsn::ZERO), "19691231T235959.999999Z-0000000000000000");
    }
}
