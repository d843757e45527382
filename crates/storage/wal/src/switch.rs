//! Beginning a new timeline at the end of a log: after a promotion, or a recovery to a point in time.
//!
//! ```text
//!   1. the parent's last batch is made durable                     0000000100000000000000A4  [rec|rec|rec|      ]
//!   2. log/00000002.history: timeline 2 left 1 at the end                                             |fork
//!   3. the first segment of timeline 2: a spare of timeline 1      0000000200000000000000A4  [........|switch|  ]
//!   4. its switch record, flushed
//!   5. the caller's superblock says timeline 2, in both copies: from here on the parent counts up to the fork only
//! ```
//! **If the power goes** before 5, the database is on the parent, as it was: files of timeline 2 are not read, and not touched
//! by retention, which leaves newer timelines alone. The next attempt takes the next number, so that no two histories of
//! one number are ever seen by an archive. What another copy of the database has begun under the same number has another mark
//! (`timeline`), and is no part of this timeline. After 5 the new timeline is complete: history, segment and switch record were
//! durable before. One copy of the superblock would do for this, but if it were damaged later, the other one would send the
//! database back to the parent and everything on the new timeline would be lost in silence: so both, before the first commit.
//!
//! **What it costs** does not depend on the size of segments: the last spare of the parent that it has not begun gets a header
//! and a name, so no zeros are written, and the pending files stay as they are (`pending`). Without a spare a segment is made
//! from zeros. If the power goes on the way, the parent has a spare less. In series there are four syncs here if the parent was received
//! by this process and is durable: of the history, of the header, of the names of both, of the switch record. Its holds are
//! handed over, and so are buffers, whose memory takes longer to get than all syncs together. Where the fork lies in the first block of a
//! segment, the flush of the switch record begins the segment once more.
//!
//! The parent's segments beyond the fork are removed by the first retention after 5, not on the way.

use std::convert::Infallible;
use std::sync::Arc;

use seawall_io::Disk;
use seawall_types::TimelineId;

use crate::control::TimelineSwitch;
use crate::error::LogError;
use crate::options::LogOptions;
use crate::reader::LogEnd;
use crate::segment::{LOG_DIRECTORY, LogIdentity, SegmentName};
use crate::timeline::TimelineHistory;
use crate::write_again::write_again;
use crate::writer::{HandedOver, Log, OpenLog};

/// The number of a new timeline that leaves `current`: `wanted`, where the caller has one that is used nowhere else, a term, or one that
/// no timeline in the log directory has had.
///
/// # Errors
/// `TimelineNumber` if `wanted` is not above `current`, or a timeline in the log directory has it; `LastTimeline`; `Io`.
pub fn next_timeline(
    disk: &dyn Disk,
    current: TimelineId,
    wanted: Option<TimelineId>,
) -> Result<TimelineId, LogError> {
    let names = disk.list_names(LOG_DIRECTORY).map_err(|error| LogError::io("list", LOG_DIRECTORY, error))?;
    let used = names.iter().filter_map(|name| {
        SegmentName::parse(name).map(|name| name.timeline).or_else(|| TimelineHistory::parse_file_name(name))
    });
    let last = used.fold(current, TimelineId::max);
    if let Some(wanted) = wanted {
        let is_taken = names.iter().any(|name| TimelineHistory::parse_file_name(name) == Some(wanted));
        return if wanted <= current || is_taken {
            Err(LogError::TimelineNumber { wanted, last })
        } else {
            Ok(wanted)
        };
    }
    last.get().checked_add(1).and_then(TimelineId::new).ok_or(LogError::LastTimeline { last })
}

/// Steps 1 to 4: begins the timeline of `options` where the parent's log ends. `options` have the ancestors of the new
/// timeline, the last of them left at `end`. Nothing of it counts until the caller has said so durably.
///
/// # Errors
/// `History`, `NoSpace`, `Io`: the parent goes on as it was. `AlreadyExists` if the timeline has segments.
///
/// # Panics
/// If the ancestors do not end at `end`.
pub fn begin_timeline(
    disk: &Arc<dyn Disk>,
    options: LogOptions,
    end: LogEnd,
    time_micros: i64,
) -> Result<OpenLog, LogError> {
    begin(disk, &options, end, time_micros, HandedOver::default())
}

/// As `begin_timeline`, with what a parent hands over that this process has received.
pub(crate) fn begin(
    disk: &Arc<dyn Disk>,
    options: &LogOptions,
    end: LogEnd,
    time_micros: i64,
    handed_over: HandedOver,
) -> Result<OpenLog, LogError> {
    let history = options.history();
    let left = history.forks.last().expect("a timeline that begins somewhere has a parent").clone();
    assert_eq!(left.fork, end.lsn, "a timeline begins where its parent's log ends");
    let parent = LogIdentity { timeline: history.timeline(left.parent), ..options.check()? };
    write_again(&**disk, &parent, end.durable, end.lsn)?;
    history.write(disk).map_err(|source| LogError::History { source })?;
    // Makes the name of the history durable with that of the first segment.
    let log = Log::create_with(Arc::clone(disk), options, end.lsn, handed_over)?;
    let switch =
        TimelineSwitch { timeline: history.timeline, parent: left.parent, fork: left.fork, time_micros };
    let Ok((span, ())) = log.append(&mut switch.prepare(), |_| Ok::<_, Infallible>(()))?;
    log.flush_until(span.end)?;
    Ok(log)
}
