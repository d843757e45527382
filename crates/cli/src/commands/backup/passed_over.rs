//! Data of other timelines that a restore has left out.

use seawall::TimelineId;
use seawall_backup::PassedOver;
use serde_json::{Value, json};

use crate::output::Output;

/// Says on standard error which data a restore has left out.
pub(in crate::commands) fn warn_of_passed_over(
    passed_over: &[PassedOver],
    timeline: TimelineId,
    output: &Output,
) {
    for other in passed_over {
        let PassedOver { timeline: of_other, what, .. } = other;
        if other.may_be_meant {
            output.warn(format_args!(
                "the restore follows timeline {timeline}, WHICH MAY BE THE WRONG ONE: the last archived transaction of timeline \
                 {timeline} ended before the requested time, and production may have moved to another timeline by then; the \
                 repository also has {what}, and --timeline {of_other} restores that timeline",
            ));
            continue;
        }
        let newer = if other.is_newer { "NEWER DATA" } else { "other data" };
        output.warn(format_args!(
            "the restore follows timeline {timeline}, and the repository has {newer} on another timeline: {what}; --timeline {of_other} \
             restores that timeline",
        ));
    }
}

pub(in crate::commands) fn passed_over_json(passed_over: &[PassedOver]) -> Value {
    let one = |other: &PassedOver| {
        json!({
            "timeline": other.timeline.get(), "newer": other.is_newer, "may_be_meant": other.may_be_meant, "what": other.what,
        })
    };
    passed_over.iter().map(one).collect()
}
