//! PostgreSQL's small text files: histories of timelines, backup labels.

use seawall_types::{Lsn, TimelineId};

use crate::name::SegmentPlace;

/// Where `timeline` left its parent, by its history.
pub(super) fn fork_of(text: &str, timeline: TimelineId) -> Result<Lsn, String> {
    let forks = postgresql_forks(text, timeline)?;
    forks.last().map(|(_, fork)| *fork).ok_or_else(|| "it names no parent".to_owned())
}

/// The ancestors of a timeline of PostgreSQL and where each was left, by the text of its history: lines of timeline, position
/// and reason, oldest first.
///
/// # Errors
/// What is wrong, with its line.
pub fn postgresql_forks(text: &str, timeline: TimelineId) -> Result<Vec<(TimelineId, Lsn)>, String> {
    let mut forks: Vec<(TimelineId, Lsn)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let refuse = |problem: &str| format!("line {}: {problem}", index + 1);
        let mut fields = line.split_ascii_whitespace();
        let parent = fields.next().and_then(|field| TimelineId::new(field.parse().ok()?));
        let parent = parent.ok_or_else(|| refuse("it names no timeline"))?;
        let fork = fields.next().and_then(|field| field.parse::<Lsn>().ok());
        let fork = fork.ok_or_else(|| refuse("it names no position"))?;
        if forks.last().is_some_and(|(earlier, _)| *earlier >= parent) || parent >= timeline {
            return Err(refuse("timelines do not ascend"));
        }
        forks.push((parent, fork));
    }
    Ok(forks)
}

/// A backup label names the segment that it is named after, in its first line:
/// `START WAL LOCATION: 0/2000028 (file 000000010000000000000002)`.
pub(super) fn check_backup_label(text: &str, place: SegmentPlace, offset: u32) -> Result<(), String> {
    let line = text.lines().next().unwrap_or_default();
    let rest = line.strip_prefix("START WAL LOCATION: ").ok_or("its first line names no start")?;
    let (start, file) = rest.split_once(" (file ").ok_or("its first line names no segment")?;
    let start: Lsn = start.parse().map_err(|_| "its first line names no position".to_owned())?;
    if file.strip_suffix(')') != Some(place.to_string().as_str()) {
        return Err(format!("it belongs to segment {}", file.trim_end_matches(')')));
    }
    // By the name alone it is not known how long segments are, but that it is a power of two.
    let segment_start = start.get().saturating_sub(u64::from(offset));
    let (number, low) = (place.digits & 0xFFFF_FFFF, segment_start & 0xFFFF_FFFF);
    let is_multiple = match number {
        0 => low == 0,
        _ => low.is_multiple_of(number) && (low / number).is_power_of_two(),
    };
    let is_its_offset = segment_start >> 32 == place.digits >> 32 && is_multiple;
    if is_its_offset { Ok(()) } else { Err(format!("it begins at {start}, not at offset {offset:X}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_says_where_the_parent_was_left() {
        let timeline = |number| TimelineId::new(number).unwrap();
        let text =
            "1\t0/3000158\tno recovery target specified\n\n2\t0/5000000\tbefore 2026-11-21 10:00:00+00\n";
        assert_eq!(fork_of(text, timeline(3)), Ok(Lsn::new(0x500_0000)));
        for (text, timeline) in [
            ("", timeline(2)),
            ("# only a comment\n", timeline(2)),
            (text, timeline(2)),
            ("2\t0/1\tx\n1\t0/2\ty\n", timeline(3)),
            ("1 nowhere\n", timeline(2)),
            ("0\t0/1\n", timeline(2)),
            ("x\t0/1\n", timeline(2)),
        ] {
            assert!(fork_of(text, timeline).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_backup_label_belongs_to_its_segment() {
        let place = SegmentPlace { timeline: TimelineId::FIRST, digits: 2 };
        let text =
            "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\nSTOP WAL LOCATION: 0/2000138\n";
        assert_eq!(check_backup_label(text, place, 0x28), Ok(()));
        assert!(check_backup_label(text, SegmentPlace { digits: 3, ..place }, 0x28).is_err());
        assert!(check_backup_label(text, place, 0x47).is_err());
        assert!(check_backup_label("", place, 0x28).is_err());
    }
}
