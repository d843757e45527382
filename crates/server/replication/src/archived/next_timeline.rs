//! Which timeline a standby goes on to, as the histories of an archive say, while no upstream says so.
//!
//! ```text
//!   timeline 1  ------+--------------    the standby is here, or before
//!   timeline 2        `------+-------    from here on it follows this one,
//!   timeline 3               `-------    and this one, the newest
//! ```
//! The newest timeline is the one with the highest number. If it comes from the standby's own, and left that where the standby's log ends
//! or later, the standby goes on to it, as with PostgreSQL's `recovery_target_timeline = latest`. Otherwise it follows its own up to where
//! the first timeline has left that: which of the two goes on, an upstream has to say.
//!
//! **A copy that is not whole** needs the log that leads to the end of the copying, on the timeline of the primary that was copied. Where
//! that one is the copy's own or comes from it, it is followed whatever timelines there are: on others the copy would never be whole.

use seawall_engine::TimelineHistory;
use seawall_types::{Lsn, TimelineId};

use super::TargetTimeline;

/// How far a timeline is followed, and what comes then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) until: Lsn,
    /// The timeline that goes on there.
    pub(super) history: Option<TimelineHistory>,
    /// Why none does, for people.
    pub(super) why: Option<String>,
}

impl Next {
    /// The own timeline goes on.
    pub(super) fn own() -> Next {
        Next { until: Lsn::MAX, history: None, why: None }
    }
}

/// What `newer` histories say to a standby on the timeline of `own`, whose log leads up to `whole`.
pub(super) fn next(
    own: &TimelineHistory,
    whole: Lsn,
    newer: &[TimelineHistory],
    target: TargetTimeline,
) -> Next {
    let left = |history: &TimelineHistory| {
        let fork = history.forks.iter().find(|fork| fork.parent == own.timeline)?;
        (fork.fork >= whole && history.descends_from(own)).then_some(fork.fork)
    };
    let Some((until, first)) =
        newer.iter().filter_map(|history| Some((left(history)?, history.timeline))).min()
    else {
        return Next::own();
    };
    let why = match target {
        TargetTimeline::Current => "recovery_target_timeline is current".to_owned(),
        TargetTimeline::Latest => match newest(newer) {
            Err(timeline) => format!("two sources have different timelines {timeline}"),
            Ok(newest) => match left(newest) {
                Some(until) => return Next { until, history: Some(child(own, newest)), why: None },
                None => format!("the newest, {}, does not come from there", newest.timeline),
            },
        },
    };
    let own = own.timeline;
    let why = format!(
        "timeline {first} has left timeline {own} at {until}, and an upstream has to say which one goes on: {why}"
    );
    Next { until, history: None, why: Some(why) }
}

/// What a copy of a primary with the history `copied` follows, which is on the timeline of `own` and needs the log up to `end`; `None` if the
/// primary has another history.
pub(super) fn of_copy(own: &TimelineHistory, copied: &TimelineHistory, end: Lsn) -> Option<Next> {
    if copied == own {
        // What comes after that is not decided by the copying.
        return Some(Next { until: end, ..Next::own() });
    }
    let fork = copied.forks.iter().find(|fork| fork.parent == own.timeline)?;
    let why = format!(
        "the log here goes beyond {}, where the primary that was copied left timeline {}: a server on timeline {} has to say so",
        fork.fork, own.timeline, copied.timeline
    );
    let next = Next { until: fork.fork, history: Some(child(own, copied)), why: Some(why) };
    copied.descends_from(own).then_some(next)
}

/// The one with the highest number; its number if there are two.
fn newest(histories: &[TimelineHistory]) -> Result<&TimelineHistory, TimelineId> {
    let newest = histories.iter().max_by_key(|history| history.timeline).expect("there is one");
    let is_alone = histories.iter().all(|other| other.timeline != newest.timeline || other == newest);
    if is_alone { Ok(newest) } else { Err(newest.timeline) }
}

/// The timeline of `history` that left `own`'s.
fn child(own: &TimelineHistory, history: &TimelineHistory) -> TimelineHistory {
    let after = history.forks.iter().skip_while(|fork| fork.parent != own.timeline).nth(1);
    match after {
        Some(fork) => history.up_to(fork.parent),
        None => history.clone(),
    }
}

#[cfg(test)]
mod tests {
    use seawall_types::TimelineMark;

    use super::*;

    fn fork(from: &TimelineHistory, number: u32, at: u64) -> TimelineHistory {
        let byte = u8::try_from((u64::from(number) * 7 + at) % 251).unwrap();
        let mark = TimelineMark::from_bytes([byte; 16]);
        from.fork(TimelineId::new(number).unwrap(), Lsn::new(at), mark, "promoted")
    }

    fn of(whole: u64, newer: &[&TimelineHistory]) -> Next {
        let newer: Vec<_> = newer.iter().map(|history| (*history).clone()).collect();
        next(&TimelineHistory::first(), Lsn::new(whole), &newer, TargetTimeline::Latest)
    }

    fn goes_on_to(history: &TimelineHistory, at: u64) -> Next {
        Next { until: Lsn::new(at), history: Some(history.clone()), why: None }
    }

    #[test]
    fn the_newest_timeline_is_followed_one_after_another() {
        let first = TimelineHistory::first();
        let two = fork(&first, 2, 100);
        let three = fork(&two, 3, 150);
        assert_eq!(of(90, &[]), Next::own());
        assert_eq!(of(90, &[&two]), goes_on_to(&two, 100));
        assert_eq!(of(100, &[&two]), goes_on_to(&two, 100));
        // The next one is that of the newest, and not the newest itself.
        assert_eq!(of(90, &[&two, &three]), goes_on_to(&two, 100));
        assert_eq!(of(90, &[&three, &two, &two]), goes_on_to(&two, 100), "two sources have it");
        let then = next(&two, Lsn::new(120), std::slice::from_ref(&three), TargetTimeline::Latest);
        assert_eq!(then, goes_on_to(&three, 150));
        // Both left the first one: the one with the higher number is the newest.
        let other = fork(&first, 4, 95);
        assert_eq!(of(90, &[&two, &three, &other]), goes_on_to(&other, 95));
    }

    #[test]
    fn a_timeline_that_left_before_is_not_gone_on_to() {
        let first = TimelineHistory::first();
        let (two, late) = (fork(&first, 2, 100), fork(&first, 3, 200));
        assert_eq!(of(101, &[&two]), Next::own());
        assert_eq!(of(101, &[&two, &late]), goes_on_to(&late, 200));
        // The newest left before, and another one is still to come: nobody knows which of them is dead.
        let early = fork(&first, 4, 50);
        let stops = of(101, &[&late, &early]);
        assert_eq!((stops.until, stops.history), (Lsn::new(200), None));
        assert!(stops.why.unwrap().contains("the newest, 4, does not come from there"));
        // A timeline that is not the standby's own says nothing.
        let (own, others) = (fork(&first, 2, 100), fork(&fork(&first, 2, 99), 3, 300));
        assert_eq!(next(&own, Lsn::new(150), &[others], TargetTimeline::Latest), Next::own());
    }

    #[test]
    fn sources_that_disagree_and_a_setting_leave_it_to_the_upstream() {
        let first = TimelineHistory::first();
        let (two, other) = (fork(&first, 2, 100), fork(&first, 2, 120));
        let stops = of(90, &[&other, &two]);
        assert_eq!((stops.until, stops.history), (Lsn::new(100), None));
        assert!(stops.why.unwrap().contains("two sources have different timelines 2"));
        let newer = [two];
        let stops = next(&first, Lsn::new(90), &newer, TargetTimeline::Current);
        assert_eq!((stops.until, stops.history), (Lsn::new(100), None));
        assert!(stops.why.unwrap().contains("recovery_target_timeline is current"));
    }

    #[test]
    fn a_copy_follows_the_timeline_of_its_primary_whatever_is_newer() {
        let first = TimelineHistory::first();
        let two = fork(&first, 2, 100);
        let three = fork(&two, 3, 150);
        let newer = fork(&first, 4, 120);
        let end = Lsn::new(170);
        let of_copy = |own: &TimelineHistory, copied: &TimelineHistory| {
            super::of_copy(own, copied, end).map(|next| Next { why: None, ..next })
        };
        assert_eq!(of_copy(&first, &two), Some(goes_on_to(&two, 100)));
        // One timeline after another.
        assert_eq!(of_copy(&first, &three), Some(goes_on_to(&two, 100)));
        assert_eq!(of_copy(&two, &three), Some(goes_on_to(&three, 150)));
        // It is on the primary's: no fork before the end of the copying counts, and what comes then is not decided by the copying.
        let to_the_end = Next { until: end, ..Next::own() };
        assert_eq!(of_copy(&first, &first), Some(to_the_end.clone()));
        assert_eq!(of_copy(&three, &three), Some(to_the_end));
        // Another history.
        assert_eq!(of_copy(&newer, &three), None);
        // Without the copy, the newest one is followed, on which it is never whole.
        assert_eq!(of(90, &[&two, &newer]), goes_on_to(&newer, 120));
    }
}
