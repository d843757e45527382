//! The queue alone: time and results of uploads go in, choices and outcomes come out.

use super::*;
use std::sync::mpsc::channel;

const NOW: Duration = Duration::from_secs(100);

fn queue(required: &[bool], in_flight: usize) -> Queue {
    Queue::new(required.iter().copied(), in_flight)
}

fn chosen(queue: &mut Queue) -> Option<(String, Vec<usize>)> {
    match queue.choose(NOW) {
        Choice::Task(task) => Some((task.name, task.destinations)),
        Choice::Later(_) | Choice::Nothing => None,
    }
}

fn store_is_down() -> Failure {
    Failure { message: "down".to_owned(), is_of_store: true, is_too_much: false }
}

#[test]
fn what_is_asked_for_comes_first_then_histories_then_segments_in_order() {
    let mut queue = queue(&[true], 8);
    for name in ["000000010000000000000003", "000000010000000000000002", "00000002.history"] {
        queue.add(name, name);
    }
    queue.ask("000000010000000000000003", "x", channel().0);
    let names: Vec<String> = std::iter::from_fn(|| chosen(&mut queue)).map(|(name, _)| name).collect();
    assert_eq!(names, ["000000010000000000000003", "00000002.history", "000000010000000000000002"]);
}

#[test]
fn a_file_is_archived_when_all_required_repositories_have_it_and_copies_are_pending_for_the_others() {
    let mut queue = queue(&[true, true, false], 8);
    queue.add("a", "a");
    let (asker, _receiver) = channel();
    queue.ask("a", "a", asker);
    assert_eq!(chosen(&mut queue), Some(("a".to_owned(), vec![0, 1, 2])));
    assert!(matches!(queue.finish("a", 0, None, Ok(()), NOW), Outcome::Nothing));
    let failed = queue.finish("a", 2, None, Err(&store_is_down()), NOW);
    assert!(
        matches!(failed, Outcome::Failed { askers } if askers.is_empty()),
        "an optional one is nobody's trouble"
    );
    let Outcome::Durable { lacking } = queue.finish("a", 1, None, Ok(()), NOW) else { panic!() };
    assert_eq!((lacking, queue.waiting_count()), (vec![2], 0));
    assert_eq!(queue.settle("a").askers.len(), 1);
    assert_eq!(chosen(&mut queue), None);
    let later = NOW + Duration::from_secs(2);
    let Choice::Task(task) = queue.choose(later) else { panic!() };
    assert_eq!((task.destinations, task.source), (vec![2], Source::Repository));
    assert!(matches!(queue.finish("a", 2, None, Ok(()), later), Outcome::Copied));
    assert_eq!((queue.lacking(2), queue.unstarted()), ((0, 0), 0));
}

fn two_files() -> [Option<FileIdentity>; 2] {
    let directory = tempfile::tempdir().unwrap();
    [("before", "1"), ("after", "22")].map(|(name, content)| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        Some(FileIdentity::of(&std::fs::metadata(&path).unwrap()))
    })
}

/// The data directory was rolled back in place: one repository has got the file that was there, the other the one that is.
#[test]
fn files_that_repositories_got_at_different_times_are_held_against_each_other() {
    let [before, after] = two_files();
    let mut queue = queue(&[true, true], 8);
    queue.add("a", "a");
    assert_eq!(chosen(&mut queue), Some(("a".to_owned(), vec![0, 1])));
    assert!(matches!(queue.finish("a", 0, before, Ok(()), NOW), Outcome::Nothing));
    queue.finish("a", 1, None, Err(&store_is_down()), NOW);
    let later = NOW + Duration::from_secs(2);
    let Choice::Task(task) = queue.choose(later) else { panic!() };
    assert_eq!(task.destinations, [1]);
    assert!(matches!(queue.finish("a", 1, after, Ok(()), later), Outcome::Nothing));
    // Each compares what it has with what is there now.
    let Choice::Task(task) = queue.choose(later) else { panic!() };
    assert_eq!(task.destinations, [0, 1]);
    assert!(matches!(queue.finish("a", 0, after, Ok(()), later), Outcome::Nothing));
    assert!(matches!(queue.finish("a", 1, after, Ok(()), later), Outcome::Durable { .. }));
}

#[test]
fn who_asks_while_a_file_is_being_acknowledged_does_not_start_it_again() {
    let mut queue = queue(&[true, false], 8);
    queue.add("a", "a");
    chosen(&mut queue).unwrap();
    assert!(matches!(queue.finish("a", 0, None, Ok(()), NOW), Outcome::Durable { .. }));
    queue.ask("a", "a", channel().0);
    // The other repository has it now, too, and it is still known.
    assert!(matches!(queue.finish("a", 1, None, Ok(()), NOW), Outcome::Nothing));
    assert!(queue.is_known("a"));
    assert_eq!(chosen(&mut queue), None);
    assert_eq!(queue.settle("a").askers.len(), 1);
    assert!(!queue.is_known("a"));
}

#[test]
fn a_repository_that_is_down_does_not_stop_the_other() {
    let mut queue = queue(&[true, true], 2);
    for name in ["a", "b", "c", "d", "e"] {
        queue.add(name, name);
    }
    let (name, destinations) = chosen(&mut queue).unwrap();
    assert_eq!((name.as_str(), destinations.as_slice()), ("a", &[0, 1][..]));
    queue.finish("a", 1, None, Err(&store_is_down()), NOW);
    assert_eq!(queue.trouble("a", NOW), Some("down"));
    for expected in ["b", "c", "d", "e"] {
        let (name, destinations) = chosen(&mut queue).unwrap();
        assert_eq!((name.as_str(), destinations.as_slice()), (expected, &[0][..]));
        assert!(matches!(queue.finish(&name, 0, None, Ok(()), NOW), Outcome::Nothing));
    }
    assert_eq!((queue.lacking(0).0, queue.lacking(1).0, queue.archived), (1, 5, 0));
    assert!(matches!(queue.finish("a", 0, None, Ok(()), NOW), Outcome::Nothing));
    // One finds out whether it is back, and it then gets what it lacks, alone.
    let later = NOW + Duration::from_secs(1);
    let Choice::Task(task) = queue.choose(later) else { panic!() };
    assert_eq!((task.name.as_str(), task.destinations.as_slice()), ("a", &[1][..]));
    assert!(matches!(queue.choose(later), Choice::Nothing));
    assert!(matches!(queue.finish("a", 1, None, Ok(()), later), Outcome::Durable { .. }));
    assert!(queue.settle("a").askers.is_empty());
    assert!(matches!(queue.choose(later), Choice::Task(_)));
}

fn askers_told(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Failed { askers } | Outcome::Blocked { askers, .. } => askers.len(),
        Outcome::Durable { .. } | Outcome::Copied | Outcome::Nothing => 0,
    }
}

/// Else they wait for the next try of a file that is not theirs, up to half a minute.
#[test]
fn commands_for_other_files_hear_that_a_required_repository_is_down() {
    for is_required in [true, false] {
        let mut queue = queue(&[is_required, true], 1);
        for name in ["a", "b", "c"] {
            queue.ask(name, name, channel().0);
        }
        assert_eq!(chosen(&mut queue), Some(("a".to_owned(), vec![0, 1])));
        let told = askers_told(queue.finish("a", 0, None, Err(&store_is_down()), NOW));
        assert_eq!(told, if is_required { 3 } else { 0 }, "an optional one is nobody's trouble");
        assert_eq!(queue.waiting_count(), 3, "each is tried again");
    }
}

#[test]
fn a_command_whose_upload_is_under_way_waits_for_it_when_another_one_fails() {
    let mut queue = queue(&[true], 2);
    for name in ["a", "b"] {
        queue.ask(name, name, channel().0);
        chosen(&mut queue).unwrap();
    }
    assert_eq!(askers_told(queue.finish("a", 0, None, Err(&store_is_down()), NOW)), 1);
    assert!(matches!(queue.finish("b", 0, None, Ok(()), NOW), Outcome::Durable { .. }));
    assert_eq!(queue.settle("b").askers.len(), 1);
}

/// It came while the file was on its way to the other one.
#[test]
fn a_command_hears_that_a_repository_is_down_when_the_others_have_the_file() {
    let mut queue = queue(&[true, true], 8);
    queue.add("a", "a");
    chosen(&mut queue).unwrap();
    queue.finish("a", 0, None, Err(&store_is_down()), NOW);
    queue.ask("a", "a", channel().0);
    assert_eq!(askers_told(queue.finish("a", 1, None, Ok(()), NOW)), 1);
}

/// Its acknowledgement is lost, and each repository is to compare it.
#[test]
fn a_command_that_asks_once_more_hears_that_a_repository_is_down() {
    let mut queue = queue(&[true, false], 8);
    queue.add("a", "a");
    chosen(&mut queue).unwrap();
    assert!(matches!(queue.finish("a", 0, None, Ok(()), NOW), Outcome::Durable { .. }));
    queue.settle("a");
    assert_eq!(queue.trouble("a", NOW), None);
    queue.add("b", "b");
    chosen(&mut queue).unwrap();
    queue.finish("b", 0, None, Err(&store_is_down()), NOW);
    assert_eq!(queue.trouble("a", NOW), Some("down"));
}

#[test]
fn a_file_that_a_repository_refuses_rests_by_itself() {
    let mut queue = queue(&[true], 8);
    queue.add("a", "a");
    let refused = Failure { is_of_store: false, ..store_is_down() };
    chosen(&mut queue).unwrap();
    queue.finish("a", 0, None, Err(&refused), NOW);
    assert_eq!((queue.lacking(0), queue.trouble("a", NOW)), ((1, 1), None));
    assert!(matches!(queue.choose(NOW), Choice::Later(at) if at == NOW + FILE_REST));
    queue.ask("a", "a", channel().0);
    let Choice::Task(task) = queue.choose(NOW) else { panic!() };
    assert_eq!(queue.refuse(&task, &refused, NOW).len(), 1);
    queue.forget_failed(|_| true);
    assert_eq!(queue.waiting_count(), 1);
    queue.forget_failed(|_| false);
    assert_eq!(queue.waiting_count(), 0);
}

#[test]
fn what_one_repository_has_is_copied_to_the_others_and_what_none_has_is_a_gap() {
    let mut queue = queue(&[true, true], 8);
    queue.add("a", "a");
    chosen(&mut queue).unwrap();
    assert!(queue.is_running("a"));
    queue.finish("a", 1, None, Err(&store_is_down()), NOW);
    let release = queue.begin_release("a", None);
    assert_eq!(release, Release::LeftOut(Vec::new()));
    queue.end_release("a", &release, false);
    queue.finish("a", 0, None, Ok(()), NOW);
    let release = queue.begin_release("a", None);
    assert_eq!((&release, queue.waiting_count()), (&Release::Copied(vec![1]), 1));
    queue.end_release("a", &release, true);
    assert_eq!(queue.waiting_count(), 0);
    queue.add("b", "b");
    let release = queue.begin_release("b", None);
    assert!(queue.end_release("b", &release, true).askers.is_empty());
    assert_eq!(queue.waiting_count(), 0);
}

/// The spool's disk takes its time.
#[test]
fn no_upload_of_a_file_begins_while_its_release_is_noted_and_whoever_asks_is_told_of_it() {
    let later = NOW + Duration::from_secs(2);
    for is_noted in [true, false] {
        let mut queue = queue(&[true], 8);
        queue.add("a", "a");
        chosen(&mut queue).unwrap();
        queue.finish("a", 0, None, Err(&store_is_down()), NOW);
        let release = queue.begin_release("a", None);
        queue.ask("a", "a", channel().0);
        assert!(queue.is_settling("a") && matches!(queue.choose(later), Choice::Nothing));
        assert_eq!(queue.end_release("a", &release, is_noted).askers.len(), 1);
        // PostgreSQL keeps the file if that could not be noted.
        assert_eq!(queue.is_known("a"), !is_noted);
        assert_eq!(matches!(queue.choose(later), Choice::Task(_)), !is_noted);
    }
}

#[test]
fn a_copy_that_arrives_while_it_is_noted_for_a_release_is_no_longer_pending() {
    let mut queue = queue(&[true, true, false], 8);
    queue.add("a", "a");
    chosen(&mut queue).unwrap();
    queue.finish("a", 0, None, Ok(()), NOW);
    queue.finish("a", 1, None, Err(&store_is_down()), NOW);
    let release = queue.begin_release("a", None);
    assert_eq!(release, Release::Copied(vec![1, 2]));
    assert!(matches!(queue.finish("a", 2, None, Ok(()), NOW), Outcome::Nothing));
    assert_eq!(queue.end_release("a", &release, true).copied, [2]);
    assert!(queue.is_released("a"));
}

/// PostgreSQL has asked for it meanwhile, and it is archived: no gap is noted.
#[test]
fn a_pending_copy_is_given_up_only_if_its_gap_is_noted() {
    let mut queue = queue(&[true, false], 8);
    queue.add_pending_copy("a", 1);
    let Choice::Task(task) = queue.choose(NOW) else { panic!() };
    assert!(queue.give_up_copies(&task, false).is_empty());
    let Choice::Task(task) = queue.choose(NOW) else { panic!() };
    assert_eq!(queue.give_up_copies(&task, true), [1]);
    assert!(!queue.is_known("a"));
}

/// Or the note of the spool would outlive what it says.
#[test]
fn a_copy_that_arrives_while_it_is_noted_is_no_longer_pending() {
    let mut queue = queue(&[true, false], 8);
    queue.add("a", "a");
    chosen(&mut queue).unwrap();
    assert!(
        matches!(queue.finish("a", 0, None, Ok(()), NOW), Outcome::Durable { lacking } if lacking == [1])
    );
    assert!(matches!(queue.finish("a", 1, None, Ok(()), NOW), Outcome::Nothing));
    assert_eq!(queue.settle("a").copied, [1]);
    assert!(!queue.is_known("a"));
    // An earlier agent has noted it, and PostgreSQL asks once more.
    queue.add_pending_copy("b", 1);
    queue.ask("b", "b", channel().0);
    chosen(&mut queue).unwrap();
    assert!(matches!(queue.finish("b", 1, None, Ok(()), NOW), Outcome::Nothing));
    assert!(
        matches!(queue.finish("b", 0, None, Ok(()), NOW), Outcome::Durable { lacking } if lacking.is_empty())
    );
    assert_eq!(queue.settle("b").copied, [1]);
}

/// The machine may be lost, and the optional repository need not be there when somebody recovers.
#[test]
fn no_copy_is_pending_of_what_only_an_optional_repository_has() {
    let mut queue = queue(&[true, false], 8);
    queue.add("a", "a");
    chosen(&mut queue).unwrap();
    queue.finish("a", 0, None, Err(&store_is_down()), NOW);
    queue.finish("a", 1, None, Ok(()), NOW);
    assert_eq!(queue.begin_release("a", None), Release::LeftOut(vec![1]));
    assert_eq!(queue.waiting_count(), 1);
}

#[test]
fn a_repository_that_was_replaced_gets_again_what_is_not_acknowledged() {
    let mut queue = queue(&[true, true], 8);
    queue.add("a", "a");
    chosen(&mut queue).unwrap();
    queue.finish("a", 0, None, Ok(()), NOW);
    queue.finish("a", 1, None, Err(&store_is_down()), NOW);
    queue.repository_changed(0);
    assert_eq!(chosen(&mut queue), Some(("a".to_owned(), vec![0])));
    let later = NOW + Duration::from_secs(2);
    let Choice::Task(_) = queue.choose(later) else { panic!() };
    assert!(matches!(queue.finish("a", 1, None, Ok(()), later), Outcome::Nothing));
    assert!(matches!(queue.finish("a", 0, None, Ok(()), later), Outcome::Durable { .. }));
}

/// Else PostgreSQL would be told once more that a required repository has it, and no repository would.
#[test]
fn a_repository_that_was_replaced_lacks_what_was_released_before() {
    let mut queue = queue(&[true, true], 8);
    let [identity, _] = two_files();
    queue.add("a", "a");
    chosen(&mut queue).unwrap();
    queue.finish("a", 0, identity, Ok(()), NOW);
    queue.finish("a", 1, None, Err(&store_is_down()), NOW);
    let release = queue.begin_release("a", identity);
    assert_eq!(release, Release::Copied(vec![1]));
    queue.end_release("a", &release, true);
    assert!(queue.is_in("a", 0, identity));
    queue.repository_changed(0);
    assert!(!queue.is_in("a", 0, identity));
    let Choice::Task(task) = queue.choose(NOW) else { panic!() };
    assert_eq!((task.destinations, task.source), (vec![0], Source::Repository));
    assert!(matches!(queue.finish("a", 0, None, Err(&store_is_down()), NOW), Outcome::Failed { .. }));
    assert_eq!(queue.begin_release("a", identity), Release::LeftOut(Vec::new()));
}

#[test]
fn a_copy_that_an_earlier_agent_left_pending_is_taken_from_a_repository() {
    let mut queue = queue(&[true, false, false], 8);
    queue.add_pending_copy("a", 1);
    queue.add_pending_copy("a", 2);
    let Choice::Task(task) = queue.choose(NOW) else { panic!() };
    assert_eq!((task.destinations, task.source), (vec![1, 2], Source::Repository));
    // Asked for by PostgreSQL once more, with whatever content: it is held against all of them.
    queue.ask("a", "pg_wal/a", channel().0);
    let Choice::Task(task) = queue.choose(NOW) else { panic!() };
    assert_eq!((task.destinations, task.source, task.path.as_str()), (vec![0], Source::File, "pg_wal/a"));
}

/// With a walk through all of them for each choice this takes minutes.
#[test]
fn tens_of_thousands_of_files_are_dealt_out_in_no_time() {
    const FILES: usize = 30_000;
    let mut queue = queue(&[true, true], 32);
    for number in (0..FILES).rev() {
        queue.add(&format!("{number:024X}"), "x");
    }
    for number in 0..FILES {
        let (name, destinations) = chosen(&mut queue).unwrap();
        assert_eq!(
            (name.as_str(), destinations.as_slice()),
            (format!("{number:024X}").as_str(), &[0, 1][..])
        );
        for destination in destinations {
            queue.finish(&name, destination, None, Ok(()), NOW);
        }
        queue.settle(&name);
        assert!(!queue.is_known(&name));
    }
    assert_eq!((queue.archived, queue.waiting_count(), queue.unstarted()), (FILES as u64, 0, 0));
}

/// An earlier file with this name is in the other required repositories.
#[test]
fn a_copy_stays_pending_when_the_file_is_left_out() {
    let mut queue = queue(&[true, false], 8);
    queue.add_pending_copy("a", 1);
    queue.destinations[0].failed(NOW, &store_is_down());
    queue.ask("a", "pg_wal/a", channel().0);
    let release = queue.begin_release("a", None);
    assert_eq!(release, Release::LeftOut(Vec::new()));
    assert_eq!(queue.end_release("a", &release, true).askers.len(), 1);
    assert_eq!((queue.is_released("a"), queue.waiting_count()), (true, 0));
    let Choice::Task(task) = queue.choose(NOW) else { panic!() };
    assert_eq!((task.destinations, task.source), (vec![1], Source::Repository));
    assert!(matches!(queue.finish("a", 1, None, Ok(()), NOW), Outcome::Copied));
    assert!(!queue.is_known("a"));
}

/// The data directory was rolled back in place since an earlier agent left the copy pending: PostgreSQL asks for another file.
#[test]
fn what_an_earlier_agent_released_is_not_taken_for_the_file_that_is_asked_for() {
    let [_, now] = two_files();
    let mut queue = queue(&[true, false], 8);
    queue.add_pending_copy("a", 1);
    queue.destinations[0].failed(NOW, &store_is_down());
    assert_eq!(queue.trouble("a", NOW), Some("down"));
    assert_eq!(queue.begin_release("a", now), Release::LeftOut(Vec::new()));
}

/// It would end with nothing to release, and PostgreSQL would be told all the same.
#[test]
fn a_file_is_not_forgotten_while_its_release_is_noted() {
    let mut queue = queue(&[true, true], 8);
    queue.add("a", "a");
    chosen(&mut queue).unwrap();
    queue.finish("a", 0, None, Ok(()), NOW);
    queue.finish("a", 1, None, Err(&Failure { is_of_store: false, ..store_is_down() }), NOW);
    let release = queue.begin_release("a", None);
    queue.forget_failed(|_| false);
    assert!(queue.is_known("a"));
    queue.end_release("a", &release, true);
    assert!(queue.is_released("a"));
}

/// The data directory was rolled back in place meanwhile.
#[test]
fn a_copy_of_another_file_that_arrives_while_a_release_is_noted_is_none() {
    let [before, after] = two_files();
    let mut queue = queue(&[true, true, false], 8);
    queue.add("a", "a");
    chosen(&mut queue).unwrap();
    queue.finish("a", 0, before, Ok(()), NOW);
    queue.finish("a", 1, None, Err(&store_is_down()), NOW);
    let release = queue.begin_release("a", before);
    assert!(matches!(queue.finish("a", 2, after, Ok(()), NOW), Outcome::Nothing));
    assert!(queue.end_release("a", &release, true).copied.is_empty());
    assert_eq!(chosen(&mut queue), Some(("a".to_owned(), vec![2])), "the copy is pending");
}
