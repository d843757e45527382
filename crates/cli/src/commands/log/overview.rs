//! The log at a glance: its segments, who needs them, timelines and named positions.

use seawall::{
    AtLimit, DatabaseDirectory, HoldInfo, HoldKind, HoldLifetime, LogOverview, RestorePointInfo, SegmentInfo,
    SegmentState, TimelineFork,
};
use seawall_settings::KeyOf;
use serde_json::{Value, json};

use crate::arguments::{Log, Shared};
use crate::failure::Failure;
use crate::files::utc;
use crate::output::{Output, grouped, size};

/// Segments that are listed to people; programs get all.
const SEGMENTS_SHOWN: usize = 20;

pub(super) fn overview(shared: &Shared, log: &Log, output: &mut Output) -> Result<(), Failure> {
    let master_key = shared.key_of(KeyOf::Databases);
    let directory = DatabaseDirectory::at(&log.dir);
    let overview = directory.log_overview(master_key.as_ref())?;
    let points = if log.restore_points { Some(directory.restore_points(master_key.as_ref())?) } else { None };
    if output.json() {
        return output.line(overview_json(&overview, points.as_deref()));
    }
    show(&overview, output)?;
    points.map_or(Ok(()), |points| show_points(&points, output))
}

fn show(overview: &LogOverview, output: &mut Output) -> Result<(), Failure> {
    let mut line = |name: &str, value: String| output.line(format_args!("{name:<16} {value}"));
    line("log", format!("{} to {}", overview.oldest, overview.end))?;
    line("timeline", overview.timeline.to_string())?;
    for ancestor in &overview.ancestors {
        line("", format!("{} left at {}: {}", ancestor.parent, ancestor.fork, ancestor.reason))?;
    }
    line("segments", counts_text(overview))?;
    for segment in overview.segments.iter().take(SEGMENTS_SHOWN) {
        line("", segment_text(segment))?;
    }
    if overview.segments.len() > SEGMENTS_SHOWN {
        line("", format!("and {} more", grouped(count(overview.segments.len() - SEGMENTS_SHOWN))))?;
    }
    let held = size(overview.end.bytes_since(overview.redo_point));
    line("held by", format!("recovery, from {}: {held}", overview.redo_point))?;
    for hold in &overview.holds {
        line("", hold_text(hold, overview))?;
    }
    Ok(())
}

fn show_points(points: &[RestorePointInfo], output: &mut Output) -> Result<(), Failure> {
    for (index, point) in points.iter().enumerate() {
        let name = if index == 0 { "restore points" } else { "" };
        let RestorePointInfo { lsn, timeline, time_micros, .. } = point;
        let text = format!("{lsn} {:?}, timeline {timeline}, {}", point.name, utc(*time_micros));
        output.line(format_args!("{name:<16} {text}"))?;
    }
    Ok(())
}

fn counts_text(overview: &LogOverview) -> String {
    let of = |wanted: &[SegmentState]| {
        count(overview.segments.iter().filter(|segment| wanted.contains(&segment.state)).count())
    };
    format!(
        "{} live, {} spare, {} to be removed or recycled, of {}",
        grouped(of(&[SegmentState::Live])),
        grouped(of(&[SegmentState::Spare])),
        grouped(of(&[SegmentState::Unneeded, SegmentState::Stray])),
        size(overview.segment_bytes)
    )
}

/// A segment, for people.
pub(crate) fn segment_text(segment: &SegmentInfo) -> String {
    match segment.state {
        SegmentState::Live => format!("{} from {}", segment.name, segment.first_lsn),
        SegmentState::Spare => format!("{} spare", segment.name),
        SegmentState::Unneeded => format!("{} not needed any more", segment.name),
        SegmentState::Stray => format!("{} of a timeline that does not count", segment.name),
    }
}

/// A segment, for programs.
pub(crate) fn segment_json(segment: &SegmentInfo) -> Value {
    let state = match segment.state {
        SegmentState::Live => "live",
        SegmentState::Spare => "spare",
        SegmentState::Unneeded => "unneeded",
        SegmentState::Stray => "stray",
    };
    json!({ "name": segment.name, "first_lsn": segment.first_lsn.to_string(), "state": state })
}

fn hold_text(hold: &HoldInfo, overview: &LogOverview) -> String {
    let (kind, name) = (kind_text(hold.options.kind), &hold.name);
    if let Some(lost_at) = hold.lost_at {
        return format!("{kind} {name:?}: LOST at {lost_at}, it needed the log from {}", hold.position);
    }
    let held = size(overview.end.bytes_since(hold.position));
    let limit = match (hold.options.limit_bytes, hold.options.at_limit) {
        (None, _) => "no limit".to_owned(),
        (Some(bytes), AtLimit::LoseHold) => format!("lost beyond {}", size(bytes)),
        (Some(bytes), AtLimit::SlowWriters) => {
            format!("slows writers near {}, lost beyond {}", size(bytes), size(bytes.saturating_mul(2)))
        }
    };
    let lifetime = match hold.options.lifetime {
        HoldLifetime::Process => ", only while its process has the database open",
        HoldLifetime::Permanent => "",
    };
    format!("{kind} {name:?}, from {}: {held}, {limit}{lifetime}", hold.position)
}

fn kind_text(kind: HoldKind) -> &'static str {
    match kind {
        HoldKind::Archive => "archive",
        HoldKind::Standby => "standby",
        HoldKind::Backup => "backup",
        HoldKind::Keep => "keep",
        HoldKind::Other => "other",
    }
}

fn overview_json(overview: &LogOverview, points: Option<&[RestorePointInfo]>) -> Value {
    let mut value = json!({
        "oldest": overview.oldest.to_string(),
        "end": overview.end.to_string(),
        "redo_point": overview.redo_point.to_string(),
        "timeline": overview.timeline.get(),
        "ancestors": overview.ancestors.iter().map(ancestor_json).collect::<Vec<_>>(),
        "segment_bytes": overview.segment_bytes,
        "segments": overview.segments.iter().map(segment_json).collect::<Vec<_>>(),
        "recovery_held_bytes": overview.end.bytes_since(overview.redo_point),
        "holds": overview.holds.iter().map(|hold| hold_json(hold, overview)).collect::<Vec<_>>(),
    });
    if let Some(points) = points {
        value["restore_points"] = points.iter().map(point_json).collect();
    }
    value
}

fn ancestor_json(ancestor: &TimelineFork) -> Value {
    json!({
        "timeline": ancestor.parent.get(), "left_at": ancestor.fork.to_string(), "mark": ancestor.mark.to_string(),
        "reason": ancestor.reason,
    })
}

fn hold_json(hold: &HoldInfo, overview: &LogOverview) -> Value {
    let held_bytes = match hold.lost_at {
        None => overview.end.bytes_since(hold.position),
        Some(_) => 0,
    };
    json!({
        "name": hold.name,
        "kind": kind_text(hold.options.kind),
        "position": hold.position.to_string(),
        "held_bytes": held_bytes,
        "limit_bytes": hold.options.limit_bytes,
        "at_limit": match hold.options.at_limit {
            AtLimit::LoseHold => "lose hold",
            AtLimit::SlowWriters => "slow writers",
        },
        "permanent": hold.options.lifetime == HoldLifetime::Permanent,
        "created_micros": hold.created_micros,
        "lost_at": hold.lost_at.map(|lsn| lsn.to_string()),
    })
}

fn point_json(point: &RestorePointInfo) -> Value {
    json!({
        "name": point.name, "lsn": point.lsn.to_string(), "timeline": point.timeline.get(),
        "time_micros": point.time_micros,
    })
}

fn count(number: usize) -> u64 {
    u64::try_from(number).expect("a count of things in memory fits into 64 bits")
}
