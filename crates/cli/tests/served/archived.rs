//! Standbys whose upstream does not give the log that they need, and that have a repository.
#![expect(
    clippy::disallowed_methods,
    reason = "files of a repository that the tests damage, and none of a database"
)]

use std::path::{Path, PathBuf};

use seawall_testing::wait_until;

use crate::process::{Place, Serving, rows, value};
use crate::standbys::{WRITTEN, followed, wait_for};

/// A database with short segments, and a repository.
struct Scene {
    place: Place,
    repository: String,
}

impl Scene {
    fn new() -> Scene {
        let place = Place::new();
        let repository = place.path().join("repository").display().to_string();
        for arguments in
            [&["repo", "create", "--repository", &repository][..], &["init", "db", "--segment-mib", "1"]]
        {
            let made = place.command(arguments).output().unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        Scene { place, repository }
    }

    fn serve(&self, more: &[&str]) -> Serving {
        self.place.serve(&[&["--archive", &self.repository][..], more].concat())
    }

    fn follow(&self, directory: &str, port: u16, more: &[&str]) -> Serving {
        let followed = followed(directory, port);
        let follows = ["--archive", &self.repository, "--follow", &followed];
        self.place.serve_database(directory, &[&follows[..], more].concat())
    }
}

fn ask(serving: &Serving, sql: &str) -> String {
    value(&mut serving.client(), sql)
}

fn create(serving: &Serving) {
    rows(&mut serving.client(), "create table t (number int primary key, text text)");
}

/// Some mebibytes of log.
fn write(serving: &Serving, from: u32) {
    let mut client = serving.client();
    for first in (from..from + 12).map(|piece| piece * 1000) {
        rows(
            &mut client,
            &format!(
                "insert into t select i, repeat(md5(i::text), 25) from generate_series({first}, {first} + 999) i"
            ),
        );
    }
}

fn fingerprint(serving: &Serving) -> String {
    ask(serving, "select count(*) || ' ' || md5(string_agg(t::text, '|' order by number)) from t t")
}

/// The log of the upstream from `position` on is gone.
fn lose(upstream: &Serving, position: &str) {
    let is_gone = format!("select count(*) = 0 from seawall.segments where first_lsn <= '{position}'");
    wait_until("the log is removed", || {
        rows(&mut upstream.client(), "checkpoint");
        ask(upstream, &is_gone) == "t"
    });
}

fn end_of_log(upstream: &Serving) -> String {
    ask(upstream, "select pg_current_wal_lsn()")
}

#[test]
fn a_standby_whose_log_is_gone_receives_it_from_the_repository_and_streams_again() {
    let scene = Scene::new();
    let primary = scene.serve(&["--max-slot-wal-keep-size", "1MiB"]);
    create(&primary);
    let standby = scene.follow("late", primary.port, &[]);
    wait_for(&standby, &primary, WRITTEN);
    standby.end();
    for round in 0..2 {
        let behind = end_of_log(&primary);
        write(&primary, round * 12);
        lose(&primary, &behind);
        let lost = "select wal_status from pg_replication_slots where slot_name = 'late'";
        assert_eq!(ask(&primary, lost), "lost");
        let standby = scene.follow("late", primary.port, &[]);
        wait_for(&standby, &primary, WRITTEN);
        assert_eq!(fingerprint(&standby), fingerprint(&primary));
        assert!(standby.said().contains("log was received from the archive"), "{}", standby.said());
        // Its slot keeps the log again, and what comes is streamed.
        wait_until("the standby streams", || {
            ask(&standby, "select status from pg_stat_wal_receiver") == "streaming"
        });
        let status = "select wal_status from pg_replication_slots where slot_name = 'late' and active";
        wait_until("the slot is there", || ask(&primary, status) == "reserved");
        rows(&mut primary.client(), &format!("insert into t values ({}, 'streamed')", -1 - i64::from(round)));
        wait_for(&standby, &primary, WRITTEN);
        assert_eq!(fingerprint(&standby), fingerprint(&primary));
        standby.end();
    }
    primary.end();
}

#[test]
fn a_standby_follows_the_repository_while_its_upstream_is_away() {
    let scene = Scene::new();
    let primary = scene.serve(&[]);
    create(&primary);
    let standby = scene.follow("waits", primary.port, &[]);
    wait_for(&standby, &primary, WRITTEN);
    standby.end();
    write(&primary, 0);
    let (expected, end) = (fingerprint(&primary), ask(&primary, "select pg_current_wal_lsn()"));
    let port = primary.port;
    // It puts the end of its log up first.
    primary.end();
    let standby = scene.follow("waits", port, &[]);
    let has_come = format!("select pg_last_wal_replay_lsn() >= '{end}'");
    wait_until("the log of the repository is applied", || ask(&standby, &has_come) == "t");
    assert_eq!(fingerprint(&standby), expected);
    assert_ne!(ask(&standby, "select status from pg_stat_wal_receiver"), "streaming");

    let primary = scene.place.start_on(port, "db", &["--archive", &scene.repository]).serving();
    let primary = primary.unwrap_or_else(|_| panic!("the primary starts again"));
    rows(&mut primary.client(), "insert into t values (-1, 'streamed')");
    wait_for(&standby, &primary, WRITTEN);
    assert_eq!(fingerprint(&standby), fingerprint(&primary));
    standby.end();
    primary.end();
}

/// The new primary has the end of the old timeline only: what is before comes from the repository.
#[test]
fn a_standby_that_is_far_behind_a_promotion_receives_the_old_timeline_from_the_repository() {
    let scene = Scene::new();
    let primary = scene.serve(&["--max-slot-wal-keep-size", "1MiB"]);
    create(&primary);
    let far = scene.follow("far", primary.port, &[]);
    let near = scene.follow("near", primary.port, &[]);
    wait_for(&far, &primary, WRITTEN);
    far.end();
    let behind = end_of_log(&primary);
    write(&primary, 0);
    wait_for(&near, &primary, WRITTEN);
    primary.end();
    let promoted = scene.place.command(&["promote", "near"]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    write(&near, 12);
    lose(&near, &behind);
    let far = scene.follow("far", near.port, &[]);
    wait_for(&far, &near, WRITTEN);
    assert_eq!(fingerprint(&far), fingerprint(&near));
    assert!(far.said().contains("log was received from the archive"), "{}", far.said());
    assert_eq!(ask(&far, "select received_tli from pg_stat_wal_receiver"), "2");
    rows(&mut near.client(), "insert into t values (-1, 'streamed')");
    wait_for(&far, &near, WRITTEN);
    assert_eq!(fingerprint(&far), fingerprint(&near));
    far.end();
    near.end();
}

fn back_up(scene: &Scene) {
    let taken = scene.place.command(&["backup", "db", "--repository", &scene.repository]).output().unwrap();
    assert!(taken.status.success(), "{taken:?}");
}

/// The standby is made and read without a primary. Its slot is created once a primary runs.
#[test]
fn a_standby_is_made_from_a_repository_alone_and_streams_when_there_is_a_primary() {
    let scene = Scene::new();
    let primary = scene.serve(&[]);
    create(&primary);
    write(&primary, 0);
    let port = primary.port;
    primary.end();
    back_up(&scene);
    let primary = scene.serve(&[]);
    write(&primary, 12);
    let (expected, end) = (fingerprint(&primary), ask(&primary, "select pg_current_wal_lsn()"));
    primary.end();

    let standby = scene.follow("made", port, &[]);
    assert!(standby.said().contains("the directory is made from a backup"), "{}", standby.said());
    let has_come = format!("select pg_last_wal_replay_lsn() >= '{end}'");
    wait_until("the log of the repository is applied", || ask(&standby, &has_come) == "t");
    assert_eq!(fingerprint(&standby), expected);

    let archive = ["--archive", &scene.repository];
    let primary = scene.place.start_on(port, "db", &archive).serving();
    let primary = primary.unwrap_or_else(|_| panic!("the primary starts again"));
    write(&primary, 24);
    wait_for(&standby, &primary, WRITTEN);
    assert_eq!(fingerprint(&standby), fingerprint(&primary));
    assert_eq!(
        ask(&primary, "select count(*) from pg_replication_slots where slot_name = 'made' and active"),
        "1"
    );
    standby.end();

    // Where it is asked for, the primary is not copied although it is there.
    let other = scene.follow("other", primary.port, &["--make-standby-from", "archive"]);
    wait_for(&other, &primary, WRITTEN);
    assert_eq!(fingerprint(&other), fingerprint(&primary));
    assert!(!other.said().contains("a copy of the primary is made"), "{}", other.said());
    other.end();
    primary.end();
}

#[test]
fn a_directory_that_nothing_can_make_says_why() {
    let scene = Scene::new();
    let primary = scene.serve(&[]);
    let port = primary.port;
    primary.end();
    let follow = followed("none", port);
    let words = ["serve", "none", "--port", "0", "--follow", &follow, "--make-standby-from", "archive"];
    let refused = scene.place.command(&words).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let words = ["serve", "none", "--port", "0", "--follow", &follow, "--archive", &scene.repository];
    let refused = scene.place.command(&words).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("and no backup could be used: "), "{said}");
}

/// The old primary dies with log that it has not archived. What is restored from the repository has the commits of both.
#[test]
fn a_promotion_leaves_no_gap_in_the_repository() {
    let scene = Scene::new();
    let primary = scene.serve(&[]);
    create(&primary);
    let standby = scene.follow("next", primary.port, &[]);
    wait_for(&standby, &primary, WRITTEN);
    primary.end();
    back_up(&scene);

    // An archive that is not there any more takes nothing of the end of the old timeline.
    let primary = scene.serve(&[]);
    let port = primary.port;
    let away = scene.place.path().join("away");
    standby.end();
    let standby = scene.follow("next", port, &[]);
    write(&primary, 0);
    std::fs::rename(&scene.repository, &away).unwrap();
    std::fs::write(&scene.repository, "not a directory").unwrap();
    write(&primary, 12);
    rows(&mut primary.client(), "insert into t values (-1, 'the last of the old primary')");
    wait_for(&standby, &primary, WRITTEN);
    rows(&mut standby.client(), "checkpoint");
    primary.kill();
    std::fs::remove_file(&scene.repository).unwrap();
    std::fs::rename(&away, &scene.repository).unwrap();

    let promoted = scene.place.command(&["promote", "next"]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    write(&standby, 24);
    rows(&mut standby.client(), "insert into t values (-2, 'of the new primary')");
    let (expected, said) = (fingerprint(&standby), "select gaps from seawall.archives");
    assert_eq!(ask(&standby, said), "0");
    standby.end();
    let restored =
        scene.place.command(&["restore", "again", "--repository", &scene.repository]).output().unwrap();
    assert!(restored.status.success(), "{restored:?}");
    let again = scene.place.serve_database("again", &[]);
    assert_eq!(fingerprint(&again), expected);
    assert_eq!(ask(&again, "select count(*) from t where number < 0"), "2");
    again.end();
}

/// The segments of the first timeline in the repository, oldest first.
fn segments(scene: &Scene) -> Vec<PathBuf> {
    fn add(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                add(&path, found);
            } else if name.len() == 24 && name.starts_with("00000001") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    add(Path::new(&scene.repository), &mut found);
    found.sort();
    found
}

/// Where a segment begins.
fn start_of(segment: &Path) -> String {
    let number = u64::from_str_radix(&segment.file_name().unwrap().to_str().unwrap()[8..], 16).unwrap();
    let start = number << 20;
    format!("{:X}/{:X}", start >> 32, start & 0xFFFF_FFFF)
}

/// The primary of a standby, `late`, that lacks some of its log is gone. All log is in the repository.
struct Behind {
    scene: Scene,
    port: u16,
    expected: String,
    end: String,
}

impl Behind {
    fn new() -> Behind {
        let scene = Scene::new();
        let primary = scene.serve(&[]);
        create(&primary);
        let standby = scene.follow("late", primary.port, &[]);
        wait_for(&standby, &primary, WRITTEN);
        standby.end();
        write(&primary, 0);
        let (expected, end, port) = (fingerprint(&primary), end_of_log(&primary), primary.port);
        primary.end();
        Behind { scene, port, expected, end }
    }

    fn follow(&self, more: &[&str]) -> Serving {
        self.scene.follow("late", self.port, more)
    }

    fn has_all(&self, standby: &Serving) {
        let has_come = format!("select pg_last_wal_replay_lsn() >= '{}'", self.end);
        wait_until("the log of the repository is applied", || ask(standby, &has_come) == "t");
        assert_eq!(fingerprint(standby), self.expected);
    }

    /// Log before the segment is received, and none of the segment.
    fn has_what_is_before(&self, standby: &Serving, segment: &Path) {
        let start = start_of(segment);
        let has_come = format!("select pg_last_wal_receive_lsn() >= '{start}'::pg_lsn - 1048576");
        wait_until("what is before is received", || ask(standby, &has_come) == "t");
        assert_eq!(
            ask(standby, &format!("select pg_last_wal_receive_lsn() <= '{start}'::pg_lsn + 4096")),
            "t"
        );
    }
}

#[test]
fn what_is_damaged_or_missing_in_the_repository_is_named_and_what_follows_waits_for_it() {
    let behind = Behind::new();
    let segments = segments(&behind.scene);
    let (damaged, missing) = (&segments[segments.len() - 5], &segments[segments.len() - 2]);
    let content = std::fs::read(damaged).unwrap();
    let mut other = content.clone();
    let middle = other.len() / 2;
    other[middle] ^= 1;
    std::fs::write(damaged, &other).unwrap();
    let aside = behind.scene.place.path().join("aside");
    std::fs::rename(missing, &aside).unwrap();

    let standby = behind.follow(&[]);
    let name = damaged.file_name().unwrap().to_str().unwrap();
    let names_it = || {
        standby
            .said()
            .lines()
            .any(|line| line.contains("no log comes from the archive") && line.contains(name))
    };
    wait_until("the damaged file is named", names_it);
    behind.has_what_is_before(&standby, damaged);
    assert_ne!(ask(&standby, "select status from pg_stat_wal_receiver"), "streaming");

    std::fs::write(damaged, &content).unwrap();
    wait_until("the gap is told", || standby.said().contains("it lacks the log of timeline 1 from "));
    behind.has_what_is_before(&standby, missing);
    std::fs::rename(&aside, missing).unwrap();
    behind.has_all(&standby);
    standby.end();
}

#[test]
fn a_standby_with_two_repositories_takes_from_each_what_the_other_lacks() {
    let behind = Behind::new();
    let second = behind.scene.place.path().join("second").display().to_string();
    let copied = std::process::Command::new("cp").args(["-r", &behind.scene.repository, &second]).status();
    assert!(copied.unwrap().success());
    let segments = segments(&behind.scene);
    let of_second =
        |segment: &Path| Path::new(&second).join(segment.strip_prefix(&behind.scene.repository).unwrap());
    let (in_first, in_second) = (&segments[segments.len() - 5], of_second(&segments[segments.len() - 3]));
    std::fs::write(in_first, "damaged").unwrap();
    std::fs::remove_file(in_second).unwrap();
    let standby = behind.follow(&["--archive", &second]);
    behind.has_all(&standby);
    standby.end();
}

/// Opening a pipe without a writer blocks the reader.
#[test]
fn a_repository_that_hangs_keeps_no_server_from_ending_and_no_standby_from_its_promotion() {
    let behind = Behind::new();
    let segments = segments(&behind.scene);
    let hangs = &segments[segments.len() - 3];
    let aside = behind.scene.place.path().join("aside");
    std::fs::rename(hangs, &aside).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(hangs).status().unwrap().success());
    let standby = behind.follow(&[]);
    behind.has_what_is_before(&standby, hangs);
    standby.end();

    // The upstream is there again: it is followed when the repository has answered.
    let standby = behind.follow(&[]);
    behind.has_what_is_before(&standby, hangs);
    let before = fingerprint(&standby);
    let promoted = behind.scene.place.command(&["promote", "late"]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    assert_eq!(ask(&standby, "select pg_is_in_recovery()"), "f");
    assert_eq!(fingerprint(&standby), before);
    rows(&mut standby.client(), "insert into t values (-1, 'of the new primary')");
    standby.panics_nowhere();
    standby.kill();
}

/// None of its upstreams is there: the repository says that another server has taken the primary's place.
#[test]
fn a_standby_goes_on_to_the_newest_timeline_of_the_repository() {
    let scene = Scene::new();
    let primary = scene.serve(&[]);
    create(&primary);
    let (near, far) = (scene.follow("near", primary.port, &[]), scene.follow("far", primary.port, &[]));
    let stays = scene.follow("stays", primary.port, &[]);
    for standby in [&near, &far, &stays] {
        wait_for(standby, &primary, WRITTEN);
    }
    far.end();
    stays.end();
    write(&primary, 0);
    wait_for(&near, &primary, WRITTEN);
    let (port, before) = (primary.port, fingerprint(&primary));
    primary.end();
    // Twice, so that the newest timeline is not the next one.
    let near_again = |near: Serving, number: u32| {
        let promoted = scene.place.command(&["promote", "near"]).output().unwrap();
        assert!(promoted.status.success(), "{promoted:?}");
        write(&near, number * 12);
        near
    };
    let near = near_again(near, 1);
    let third = scene.follow("third", near.port, &[]);
    wait_for(&third, &near, WRITTEN);
    near.end();
    let promoted = scene.place.command(&["promote", "third"]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    write(&third, 24);
    let (expected, end) = (fingerprint(&third), end_of_log(&third));
    third.end();

    let far = scene.follow("far", port, &[]);
    let stays = scene.follow("stays", port, &["--recovery-target-timeline", "current"]);
    let has_come = format!("select pg_last_wal_replay_lsn() >= '{end}'");
    wait_until("the log of the repository is applied", || ask(&far, &has_come) == "t");
    assert_eq!(fingerprint(&far), expected);
    assert_eq!(ask(&far, "select received_tli from pg_stat_wal_receiver"), "3");
    wait_until("the other one stops at the fork", || {
        stays.said().contains("timeline 2 has left timeline 1 at ")
    });
    assert_eq!(ask(&stays, "select received_tli from pg_stat_wal_receiver"), "1");
    assert_eq!(fingerprint(&stays), before);

    // Both find the new primary when it is there.
    let third = scene.place.start_on(port, "third", &["--archive", &scene.repository]).serving();
    let third = third.unwrap_or_else(|_| panic!("the new primary starts again"));
    rows(&mut third.client(), "insert into t values (-1, 'streamed')");
    for standby in [far, stays] {
        wait_for(&standby, &third, WRITTEN);
        assert_eq!(fingerprint(&standby), fingerprint(&third));
        assert_eq!(ask(&standby, "select received_tli from pg_stat_wal_receiver"), "3");
        standby.end();
    }
    third.end();
}

/// Long values, of one length whatever they are: a server that is rewound knows by its leaves alone which of them have changed.
fn write_long(serving: &Serving, word: &str, numbers: std::ops::Range<u32>) {
    let (first, last) = (numbers.start, numbers.end - 1);
    let values = format!("select i, repeat('{word}', 4000) from generate_series({first}, {last}) i");
    let taken = "on conflict (number) do update set text = excluded.text";
    rows(&mut serving.client(), &format!("insert into t {values} {taken}"));
}

/// A standby that was made from a backup takes its primary's place, and loses it again. Each time, the one that is replaced has gone on alone,
/// with checkpoints.
#[test]
fn a_standby_made_from_a_backup_and_its_primary_are_rewound_in_turn() {
    let scene = Scene::new();
    let primary = scene.serve(&[]);
    create(&primary);
    write_long(&primary, "aaaa", 0..300);
    primary.end();
    back_up(&scene);
    let primary = scene.serve(&[]);
    write_long(&primary, "bbbb", 100..120);
    let made = scene.follow("made", primary.port, &["--make-standby-from", "archive"]);
    wait_for(&made, &primary, WRITTEN);
    assert!(made.said().contains("the directory is made from a backup"), "{}", made.said());
    let (mut old, mut new, mut names) = (primary, made, ["db", "made"]);
    for turn in 0..2 {
        old.kill();
        let promoted = scene.place.command(&["promote", names[1]]).output().unwrap();
        assert!(promoted.status.success(), "{promoted:?}");
        write_long(&new, ["cccc", "dddd"][turn], 40..60);
        rows(&mut new.client(), "delete from t where number between 200 and 204; checkpoint");
        let alone = scene.place.serve_database(names[0], &[]);
        write_long(&alone, ["eeee", "ffff"][turn], 50..70);
        rows(&mut alone.client(), "delete from t where number between 250 and 254");
        write_long(&alone, "gggg", 1000..1003);
        rows(&mut alone.client(), "checkpoint");
        rows(&mut alone.client(), "checkpoint");
        alone.kill();
        let back = scene.place.serve_database(names[0], &["--follow", &followed(names[0], new.port)]);
        wait_for(&back, &new, WRITTEN);
        assert!(back.said().contains("rewound: the rows that had changed"), "{}", back.said());
        assert_eq!(fingerprint(&back), fingerprint(&new), "turn {turn}");
        assert_eq!(ask(&back, "select count(*) from t where number >= 1000 or text like 'e%'"), "0");
        back.panics_nowhere();
        (old, new) = (new, back);
        names.reverse();
    }
    old.end();
    new.end();
}
