//! Kills and stops of each server at each step: while a standby receives, while it is promoted, while a former primary cuts its log. What was
//! acknowledged is there in the end, and all servers have the same rows.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use seawall_testing::wait_until;

use crate::client::Client;
use crate::process::{Failure, Place, Serving, answered, rows, value};
use crate::standbys::{WRITTEN, followed, wait_for};

const WRITERS: u64 = 2;

/// Commits wait for a standby, whatever its name is.
const WAITS: [&str; 2] = ["--synchronous-standby-names", "*"];

fn ask(serving: &Serving, sql: &str) -> String {
    value(&mut serving.client(), sql)
}

fn follow(place: &Place, directory: &str, upstream: &Serving) -> Serving {
    place
        .serve_database(directory, &[&WAITS[..], &["--follow", &followed(directory, upstream.port)]].concat())
}

/// The acknowledged rows, and whether the writers have to end.
#[derive(Default)]
struct Written {
    acknowledged: Mutex<BTreeSet<(u64, u64)>>,
    next: AtomicU64,
    is_over: AtomicBool,
}

impl Written {
    fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// Inserts rows at the server until it is told to end, or the server is gone.
    fn write(&self, port: u16, writer: u64) {
        let mut client = Client::logged_in(port, "postgres");
        while !self.is_over.load(Ordering::SeqCst) {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            match answered(&mut client, &format!("insert into t values ({writer}, {number})")) {
                Ok(_) => drop(self.acknowledged.lock().unwrap().insert((writer, number))),
                Err(Failure::Lost) => return,
                // A server that is told to end, or has been left.
                Err(Failure::Told { code, line }) => {
                    assert!(code.starts_with("57") || code == "40003", "{line}");
                    return;
                }
            }
        }
    }

    /// Everything that was acknowledged is there.
    fn is_there(&self, serving: &Serving) {
        let found = rows(&mut serving.client(), "select writer, number from t");
        let number = |column: &Option<String>| column.as_ref().unwrap().parse::<u64>().unwrap();
        let found: BTreeSet<(u64, u64)> =
            found.iter().map(|row| (number(&row[0]), number(&row[1]))).collect();
        let lost: Vec<_> = self.acknowledged.lock().unwrap().difference(&found).copied().collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
    }
}

fn fingerprint(serving: &Serving) -> String {
    ask(serving, "select count(*) || ' ' || md5(string_agg(t::text, '|' order by writer, number)) from t t")
}

#[test]
fn a_standby_that_is_killed_and_stopped_under_load_loses_nothing_that_was_acknowledged() {
    let place = Place::new();
    let primary = place.serve(&WAITS);
    rows(
        &mut primary.client(),
        "set synchronous_commit = local; create table t (writer int, number int, primary key (writer, number))",
    );
    let mut standby = follow(&place, "second", &primary);
    let written = Written::default();
    let standby = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (written, port) = (&written, primary.port);
            scope.spawn(move || written.write(port, writer));
        }
        for attempt in 0..4 {
            let before = written.count();
            wait_until("rows are written", || written.count() > before + 20);
            // While it is stopped, writers wait, and readers of the primary go on.
            standby.signal("STOP");
            let waits = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
            wait_until("all writers wait", || ask(&primary, waits) == WRITERS.to_string());
            assert!(ask(&primary, "select count(*) from t").parse::<usize>().unwrap() > before);
            if attempt % 2 == 0 {
                standby.kill();
                standby = follow(&place, "second", &primary);
            } else {
                standby.signal("CONT");
            }
        }
        let before = written.count();
        wait_until("rows are written", || written.count() > before + 20);
        // The primary is stopped, so that it says nothing, and killed while it is.
        primary.signal("STOP");
        primary.kill();
        written.is_over.store(true, Ordering::SeqCst);
        standby
    });
    let promoted = place.command(&["promote", "second"]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    written.is_there(&standby);
    standby.panics_nowhere();
    standby.kill();
}

/// When a server is killed that is promoted, or comes back.
#[derive(Clone, Debug)]
enum Moment {
    /// At once, when it was told.
    Told,
    /// When it has a file or directory with this in its name.
    Has(String),
    /// When it has ended what it was told.
    Done,
}

impl Moment {
    /// Returns when it has come in `directory`, or `is_done`.
    fn wait(&self, directory: &Path, mut is_done: impl FnMut() -> bool) {
        let has = |part: &str| {
            let places = [directory.join("log"), directory.join("aside")];
            let within =
                places.iter().flat_map(|place| names(place).into_iter().map(|name| place.join(name)));
            let deeper = within.clone().flat_map(|place| names(&place));
            let mut all =
                within.filter_map(|place| place.file_name()?.to_str().map(str::to_owned)).chain(deeper);
            all.any(|name| name.contains(part))
        };
        match self {
            Moment::Told => {}
            Moment::Has(part) => wait_until("the step", || has(part) || is_done()),
            Moment::Done => wait_until("the end", is_done),
        }
    }
}

/// The newest timeline in a directory: a promotion that was cut short has left its number behind.
fn timeline(directory: &Path) -> u32 {
    let log = names(&directory.join("log")).into_iter();
    let histories = log.filter_map(|name| u32::from_str_radix(name.strip_suffix(".history")?, 16).ok());
    histories.max().unwrap_or(1)
}

fn history(timeline: u32) -> Moment {
    Moment::Has(format!("{timeline:08X}.history"))
}

fn names(place: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(place).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Makes a primary of the standby in `directory`, which is killed at `moment`, and serves it: as what it is, and then as a primary.
fn promote_and_kill(
    place: &Place,
    directory: &str,
    standby: Serving,
    moment: &Moment,
    follows: &str,
) -> Serving {
    let mut promoting = place.command(&["promote", directory]).spawn().unwrap();
    moment.wait(&place.path().join(directory), || promoting.try_wait().unwrap().is_some());
    standby.kill();
    // It would ask the server for a minute.
    promoting.kill().unwrap();
    promoting.wait().unwrap();
    match place.start_database(directory, &[]).serving() {
        Ok(promoted) => promoted,
        Err(mut refused) => {
            assert_eq!(refused.child.wait().unwrap().code(), Some(2), "{moment:?}");
            let standby = place.serve_database(directory, &["--follow", follows]);
            let promoted = place.command(&["promote", directory]).output().unwrap();
            assert!(promoted.status.success(), "{moment:?}: {promoted:?}");
            standby
        }
    }
}

/// Two servers take each other's place. Each time, the one that is promoted is killed at another moment of the promotion, and the one that
/// comes back at several moments of its return.
#[test]
fn a_promotion_and_a_return_that_are_killed_at_any_step_are_completed_by_the_next_start() {
    let place = Place::new();
    let names = ["a", "b"];
    let mut primary = place.serve_database(names[0], &[]);
    rows(&mut primary.client(), "create table t (writer int, number int, primary key (writer, number))");
    let mut standby = place.serve_database(names[1], &["--follow", &followed(names[1], primary.port)]);
    for round in 0..3 {
        let (former, next) = (names[round % 2], names[(round + 1) % 2]);
        let begun = history(timeline(&place.path().join(former)) + 1);
        let promotion = [Moment::Told, begun, Moment::Done][round].clone();
        rows(&mut primary.client(), &format!("insert into t values ({round}, 1)"));
        wait_for(&standby, &primary, WRITTEN);
        // What the standby never gets.
        standby.kill();
        rows(&mut primary.client(), &format!("insert into t values ({round}, 2)"));
        let follows = followed(next, primary.port);
        primary.kill();
        standby = place.serve_database(next, &["--follow", &follows]);
        primary = promote_and_kill(&place, next, standby, &promotion, &follows);
        assert_eq!(ask(&primary, "select pg_is_in_recovery()"), "f", "{promotion:?}");
        let of_round =
            format!("select string_agg(number::text, ' ' order by number) from t where writer = {round}");
        assert_eq!(ask(&primary, &of_round), "1", "{promotion:?}");
        rows(&mut primary.client(), &format!("insert into t values ({round}, 3)"));

        let settings = followed(former, primary.port);
        let of_primary = history(timeline(&place.path().join(next)));
        for moment in [Moment::Told, Moment::Has("records.txt".to_owned()), of_primary] {
            let mut returning = place.start_database(former, &["--follow", &settings]);
            moment.wait(&place.path().join(former), || returning.child.try_wait().unwrap().is_some());
            assert!(returning.child.try_wait().unwrap().is_none(), "{moment:?}");
            returning.child.kill().unwrap();
            returning.child.wait().unwrap();
        }
        standby = place.serve_database(former, &["--follow", &settings]);
        wait_for(&standby, &primary, WRITTEN);
        assert_eq!(fingerprint(&standby), fingerprint(&primary), "{promotion:?}");
        assert_eq!(ask(&standby, &of_round), "1 3");
    }
    let last = timeline(&place.path().join(names[1])).to_string();
    assert_eq!(ask(&standby, "select received_tli from pg_stat_wal_receiver"), last);
    standby.end();
    primary.end();
}
