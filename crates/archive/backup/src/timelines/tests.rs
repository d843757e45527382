use seawall_types::TimelineMark;

use super::*;

fn timeline(number: u32) -> TimelineId {
    TimelineId::new(number).unwrap()
}

/// `left` is the parent and where it was left.
fn branch(number: u32, left: Option<(&Branch, u64)>, begun_micros: i64, log_end: u64, newest: i64) -> Branch {
    let history = match left {
        Some((parent, fork)) => {
            let parent = parent.history.clone().unwrap();
            parent.fork(timeline(number), Lsn::new(fork), TimelineMark::NONE, "")
        }
        None => TimelineHistory { timeline: timeline(number), forks: Vec::new() },
    };
    let end = Lsn::new(log_end);
    let log = (log_end > 0).then_some(OwnLog { certain: end, end, newest_micros: newest });
    Branch { timeline: timeline(number), history: Ok(history), begun_micros, log, backups: Vec::new() }
}

fn backed_up(branch: Branch, end: u64, ended_micros: i64) -> Branch {
    let backup = OwnBackup {
        id: format!("backup of {ended_micros}"),
        timeline: branch.timeline,
        end: Lsn::new(end),
        ended_micros,
    };
    Branch { backups: [branch.backups, vec![backup]].concat(), ..branch }
}

fn number(branches: &[Branch], reach: Destination) -> Option<u32> {
    match choose(branches, reach) {
        Ok(timeline) => Some(timeline.get()),
        Err(BackupError::WhichTimeline { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

/// Production on timeline 1 with a backup that ended at a time of 50; the rest is up to the test.
fn production(log_end: u64, newest: i64) -> Branch {
    backed_up(branch(1, None, i64::MIN, log_end, newest), 100, 50)
}

#[test]
fn a_timeline_that_has_all_of_another_is_followed() {
    let first = production(300, 80);
    let second = branch(2, Some((&first, 300)), 90, 500, 120);
    assert_eq!(number(&[first.clone(), second.clone()], Destination::End), Some(2));
    assert_eq!(passed_over(&[first.clone(), second], timeline(2), Destination::End), []);
    // Nothing of it was archived yet.
    let second = branch(2, Some((&first, 300)), 90, 0, 0);
    assert_eq!(number(&[first, second], Destination::End), Some(2));
}

#[test]
fn the_copy_of_a_trial_is_not_followed_instead_of_production() {
    let first = production(900, 200);
    let trial = branch(2, Some((&first, 300)), 90, 310, 91);
    // Until the next backup, nothing says which of them is production.
    assert_eq!(number(&[first.clone(), trial.clone()], Destination::End), None);
    let first = backed_up(first, 800, 150);
    let both = [first, trial];
    assert_eq!(number(&both, Destination::End), Some(1));
    let left_out = passed_over(&both, timeline(1), Destination::End);
    assert_eq!((left_out.len(), left_out[0].timeline.get(), left_out[0].is_newer), (1, 2, false));
    // Whoever asks for the trial hears that production has newer data.
    assert!(passed_over(&both, timeline(2), Destination::End)[0].is_newer);
}

#[test]
fn production_that_was_set_back_to_an_earlier_time_is_followed_once_it_has_a_backup() {
    let old = backed_up(production(900, 88), 800, 85);
    let new = branch(2, Some((&old, 300)), 90, 400, 120);
    assert_eq!(number(&[old.clone(), new.clone()], Destination::End), None);
    let both = [old, backed_up(new, 390, 110)];
    assert_eq!(number(&both, Destination::End), Some(2));
    assert!(!passed_over(&both, timeline(2), Destination::End)[0].is_newer);
}

#[test]
fn of_two_that_are_both_backed_up_none_is_chosen() {
    let first = backed_up(production(900, 200), 800, 150);
    let second = backed_up(branch(2, Some((&first, 300)), 90, 400, 120), 390, 110);
    let refused = choose(&[first, second], Destination::End).unwrap_err().to_string();
    for word in ["timeline 1", "timeline 2, which left timeline 1 at 0/12C", "backup of 150", "--timeline"] {
        assert!(refused.contains(word), "{word}: {refused}");
    }
}

#[test]
fn below_the_place_where_timelines_part_they_do_not_compete() {
    let first = production(900, 200);
    let trial = branch(2, Some((&first, 300)), 90, 310, 91);
    let both = [first, trial];
    assert_eq!(number(&both, Destination::Lsn(Lsn::new(300))), Some(2));
    assert_eq!(number(&both, Destination::Lsn(Lsn::new(305))), None);
    // One that does not reach it may be an idle production.
    for lsn in [311, 901] {
        assert_eq!(number(&both, Destination::Lsn(Lsn::new(lsn))), None);
    }
    let both = [backed_up(both[0].clone(), 800, 150), both[1].clone()];
    for lsn in [305, 311, 901] {
        assert_eq!(number(&both, Destination::Lsn(Lsn::new(lsn))), Some(1));
    }
    let left_out = |lsn| passed_over(&both, timeline(1), Destination::Lsn(Lsn::new(lsn))).len();
    assert_eq!((left_out(300), left_out(305)), (0, 1));
}

#[test]
fn a_time_means_the_timeline_that_was_there_then() {
    let first = production(900, 200);
    let trial = branch(2, Some((&first, 300)), 90, 310, 95);
    let both = [first, trial];
    assert_eq!(number(&both, Destination::Time(89)), Some(1));
    assert_eq!(number(&both, Destination::Time(95)), None);
    assert_eq!(number(&both, Destination::Time(96)), None, "the trial may be an idle production");
    let set_back = production(900, 88);
    let new = branch(2, Some((&set_back, 300)), 90, 400, 120);
    let both = [set_back, new];
    assert_eq!(number(&both, Destination::Time(85)), Some(1));
    assert_eq!(number(&both, Destination::Time(100)), None);
    let [set_back, new] = both;
    let both = [set_back, backed_up(new, 390, 110)];
    assert_eq!(number(&both, Destination::Time(85)), Some(1));
    assert_eq!(number(&both, Destination::Time(100)), Some(2));
}

#[test]
fn a_timeline_that_was_archived_after_a_time_may_have_been_there_before_it() {
    let first = production(900, 88);
    let second = branch(2, Some((&first, 300)), 90, 400, 120);
    let third = branch(3, Some((&second, 400)), 130, 500, 140);
    let all = [first, second, third];
    let later = |on, micros| -> Vec<u32> {
        let later = archived_later(&all, timeline(on), micros);
        assert!(later.iter().all(|other| other.may_be_meant && other.is_newer), "{later:?}");
        later.iter().map(|other| other.timeline.get()).collect()
    };
    // The third has all of the second.
    assert_eq!(later(1, 89), [3]);
    assert_eq!(later(2, 129), [3]);
    // Timelines that were there by then compete, which is another matter.
    assert_eq!(later(2, 130), [0; 0]);
    assert_eq!(later(3, 89), [0; 0], "it has left all others");
}

#[test]
fn an_idle_production_is_not_passed_over_for_a_trial_that_archives() {
    let production = production(900, 200);
    let trial = branch(2, Some((&production, 300)), 90, 1_000, 205);
    let both = [production, trial];
    assert_eq!(number(&both, Destination::Time(203)), None);
    assert_eq!(number(&both, Destination::Lsn(Lsn::new(950))), None);
    for to in [Destination::Time(203), Destination::Lsn(Lsn::new(950))] {
        assert_eq!(passed_over(&both, timeline(2), to)[0].timeline, timeline(1));
    }
}

#[test]
fn a_timeline_with_nothing_but_its_history_does_not_compete_with_one_that_goes_on() {
    let production = production(900, 200);
    let trial = branch(2, Some((&production, 300)), 90, 0, 0);
    assert_eq!(number(&[production, trial], Destination::End), Some(1));
}

#[test]
fn a_history_that_cannot_be_read_matters_where_its_timeline_may_be_meant() {
    let first = production(300, 80);
    let second = Branch { history: Err("rot".to_owned()), ..branch(2, Some((&first, 300)), 90, 500, 120) };
    let refused = choose(&[first.clone(), second.clone()], Destination::End).unwrap_err().to_string();
    assert!(refused.contains("timeline 2, whose history cannot be read (rot)"), "{refused}");
    // Another says that it descends from it.
    let readable = branch(2, Some((&first, 300)), 90, 500, 120);
    let third = branch(3, Some((&readable, 500)), 130, 600, 140);
    assert_eq!(number(&[first, second, third], Destination::End), Some(3));
}

#[test]
fn a_cluster_s_timeline_without_a_history_is_followed_if_it_is_alone_or_named() {
    let known = KnownTimeline::without_history(System::PostgreSql(1), timeline(2));
    let second = backed_up(branch(2, None, i64::MIN, 500, 120), 400, 110);
    let second = Branch { history: known.history.clone(), ..second };
    let timelines = Timelines { known: [(timeline(2), known)].into() };
    assert_eq!(timelines.history(timeline(2)).unwrap().forks, []);
    assert_eq!(number(std::slice::from_ref(&second), Destination::End), Some(2));
    // Beside another one it is not known which of them contains the other.
    let refused = choose(&[production(300, 80), second], Destination::End).unwrap_err().to_string();
    assert!(refused.contains("archive-push pg_wal/00000002.history"), "{refused}");
}
