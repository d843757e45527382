//! Small histories of several servers: what standbys may show, and what they may not.

use seawall::Isolation;

use super::super::super::anomaly::Kind;
use super::super::super::history::{Element, History, Key, Operation, Outcome, Place, Transaction};
use super::super::check;

const PRIMARY: u32 = 0;
const SECOND: u32 = 1;
const THIRD: u32 = 2;

fn transaction(moment: u64, place: Place, operations: Vec<Operation>) -> Transaction {
    let (begin, end, outcome) = (10 * moment, 10 * moment + 5, Outcome::Committed);
    Transaction { client: place.server, begin, end, outcome, is_durable: true, operations, place }
}

/// Appends to an empty list on the primary, with the moment as its position.
fn append(moment: u64, key: Key, element: Element) -> Transaction {
    let place = Place { server: PRIMARY, position: Some(moment), ..Place::default() };
    let read = Operation::Read { key, list: Vec::new() };
    transaction(moment, place, vec![read, Operation::Append { key, element }])
}

fn read(moment: u64, place: Place, lists: &[(Key, &[Element])]) -> Transaction {
    let read = |(key, list): &(Key, &[Element])| Operation::Read { key: *key, list: list.to_vec() };
    transaction(moment, place, lists.iter().map(read).collect())
}

fn standby(server: u32) -> Place {
    Place { server, is_standby: true, ..Place::default() }
}

fn primary(server: u32) -> Place {
    Place { server, ..Place::default() }
}

/// Kinds of what is found in two appends and `readers`, before a last look at both lists.
fn found(mut readers: Vec<Transaction>) -> Vec<(Kind, bool)> {
    let mut history: History = vec![append(1, 1, 1), append(2, 2, 2)];
    history.append(&mut readers);
    history.push(read(99, primary(PRIMARY), &[(1, &[1]), (2, &[2])]));
    let anomalies = check(&history, Isolation::Snapshot).anomalies;
    anomalies.iter().map(|anomaly| (anomaly.kind, anomaly.in_real_time)).collect()
}

#[test]
fn a_standby_may_lag_and_the_primary_may_not() {
    let lists: [(Key, &[Element]); 2] = [(1, &[1]), (2, &[])];
    assert_eq!(found(vec![read(5, standby(SECOND), &lists)]), []);
    assert!(found(vec![read(5, primary(PRIMARY), &lists)]).contains(&(Kind::StaleRead, false)));
}

#[test]
fn servers_that_see_two_commits_in_different_orders_are_found() {
    let one = read(5, standby(SECOND), &[(1, &[1]), (2, &[])]);
    let other = read(5, standby(THIRD), &[(1, &[]), (2, &[2])]);
    assert_eq!(found(vec![one.clone()]), []);
    assert_eq!(found(vec![one, other]), [(Kind::GNonadjacent, false)]);
}

#[test]
fn a_standby_that_takes_back_what_it_has_shown_is_found_also_when_it_is_promoted() {
    let shown = read(5, standby(SECOND), &[(1, &[1]), (2, &[2])]);
    let before: [(Key, &[Element]); 2] = [(1, &[1]), (2, &[])];
    for place in [standby(SECOND), primary(SECOND)] {
        assert!(!found(vec![shown.clone(), read(7, place, &before)]).is_empty(), "{place:?}");
    }
    assert_eq!(found(vec![shown, read(7, standby(THIRD), &before)]), [], "another one may lag more");
}

#[test]
fn a_commit_that_was_waited_for_must_be_seen() {
    let lists: [(Key, &[Element]); 2] = [(1, &[1]), (2, &[])];
    let waited_for = |moment: u64| Place { awaited: Some(10 * moment), ..standby(SECOND) };
    assert_eq!(found(vec![read(5, waited_for(1), &lists)]), []);
    assert_eq!(found(vec![read(5, waited_for(2), &lists)]), [(Kind::GSingle, true)]);
}

#[test]
fn a_standby_sees_what_was_committed_up_to_its_position_and_nothing_behind() {
    let at = |position| Place { position: Some(position), ..standby(SECOND) };
    let lists: [(Key, &[Element]); 2] = [(1, &[1]), (2, &[])];
    assert_eq!(found(vec![read(5, at(1), &lists)]), []);
    assert_eq!(found(vec![read(5, at(2), &lists)]), [(Kind::OutOfPosition, false)], "it lacks the second");
    assert_eq!(found(vec![read(5, at(0), &lists)]), [(Kind::OutOfPosition, false)], "it sees the first");
}
