//! Where production is: along which timeline a restore goes when nobody has named one.

use std::process::Output;

use seawall_testing::wait_until_within;
use serde_json::Value;

use crate::FIVE_MINUTES;
use crate::scene::{ACCOUNTS, Scene, Server, fails, succeeds};

/// As the documents and the command say it of a restore that takes the place of production. PostgreSQL marks a history for archiving only
/// if it archives when it is promoted, which this one did not.
#[test]
fn a_restored_cluster_that_archives_from_later_on_is_production() {
    let Some(scene) = Scene::for_drills() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    let first = primary.back_up(&[]);
    primary.load(100);
    primary.stop();
    let successor = scene.restored("successor", 5433, &[]);
    successor.load(100);
    successor.sql("alter system set archive_mode = on");
    successor.stop();
    successor.start();
    let second = successor.back_up(&[]);
    assert_eq!(second["timeline"], 2, "{second}");
    successor.load(100);
    let rows = successor.sql(ACCOUNTS);
    successor.stop();

    let restored = scene.restored("again", 5434, &[]);
    assert_eq!(restored.sql(ACCOUNTS), rows);
    restored.stop();
    let drilled: Value = serde_json::from_str(&succeeds(scene.try_drill(&[]))).unwrap();
    assert_eq!((&drilled["ok"], &drilled["from_timeline"]), (&Value::Bool(true), &Value::from(2)));
    let repository = scene.text("repository");
    succeeds(scene.seawall(&["verify", "--repository", &repository]));

    // An archive that an earlier release has made lacks the history.
    let system = scene.path("repository").join(first["system"].as_str().unwrap());
    std::fs::remove_file(system.join("timelines/00000002.history")).unwrap();
    let verified = scene.seawall(&["verify", "--repository", &repository]);
    assert_eq!(verified.status.code(), Some(4), "{verified:?}");
    let text = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(text.contains("00000002.history"), "{text}");
    let advice = "archive-push pg_wal/00000002.history";
    fails(&scene.restore("which", &[]), 3, &["timeline 1", "timeline 2", advice]);
    succeeds(scene.restore("named", &["--timeline", "2"]));
    succeeds(successor.push("pg_wal/00000002.history"));
    succeeds(scene.restore("mended", &[]));

    // Another copy of the first backup is not taken for it.
    let from_first = ["--timeline", "1", "--backup", first["backup"].as_str().unwrap()];
    let other = scene.restored("other", 5435, &[&from_first[..], &["--archive-mode", "preserve"]].concat());
    assert_eq!(other.sql("select pg_walfile_name(pg_current_wal_lsn()) like '00000003%'"), "t");
}

/// A primary with a backup, rows in `t`, and a position in the middle of a segment that is archived as a whole by now; the log goes on
/// in the next one, which is not.
fn primary_within_a_segment(scene: &Scene) -> (Server<'_>, String) {
    let primary = Server::create(scene, &scene.text("repository"));
    primary.sql("create table t (n int)");
    let backup = primary.back_up(&[]);
    let position = || primary.sql("select pg_current_wal_insert_lsn()");
    let segment = || primary.sql("select pg_walfile_name(pg_current_wal_insert_lsn())");
    primary.sql("insert into t values (0)");
    let (fork, first) = (position(), segment());
    primary.sql("insert into t select generate_series(1, 2000)");
    assert_eq!(segment(), first, "too many rows for one segment");
    while segment() == first {
        primary.sql("insert into t select generate_series(1, 500)");
    }
    let log = scene.path("repository").join(backup["system"].as_str().unwrap()).join("log/00000001/00000000");
    wait_until_within(FIVE_MINUTES, "the segment to be archived", || log.join(&first).is_file());
    (primary, fork)
}

/// A restored cluster that goes on, archives what it writes, and stops.
fn go_on(server: &Server<'_>) {
    server.sql("insert into t values (-1)");
    server.sql("select pg_switch_wal()");
    server.stop();
}

/// Along timeline 2, of which it says that it has all that there is.
#[track_caller]
fn follows_timeline_2(restored: Output) {
    let report: Value = serde_json::from_str(&succeeds(restored)).unwrap();
    assert_eq!((&report["timeline"], &report["passed_over"]), (&Value::from(2), &Value::Array(Vec::new())));
}

#[test]
fn rows_after_a_fork_in_the_last_segment_of_an_idle_production_are_not_left_out_in_silence() {
    let Some(scene) = Scene::for_drills() else { return };
    let (_primary, fork) = primary_within_a_segment(&scene);
    let preserve = ["--archive-mode", "preserve", "--target-action", "promote"];
    let trial = scene.restored("trial", 5433, &[&["--to-lsn", &fork][..], &preserve].concat());
    assert_eq!(trial.sql("select count(*) from t"), "1");
    go_on(&trial);
    fails(
        &scene.restore("which", &[]),
        3,
        &["timeline 1", "timeline 2, which left timeline 1", "--timeline"],
    );
    fails(&scene.try_drill(&[]), 3, &["--timeline"]);
    let named = scene.restore("named", &["--timeline", "2"]);
    let report: Value = serde_json::from_str(&succeeds(named)).unwrap();
    assert_eq!(report["passed_over"][0]["timeline"], 1, "{report}");
}

/// The usual end of an archive whose machine was lost: a record that goes on in the next segment.
#[test]
fn a_record_that_is_cut_off_is_no_data_that_a_successor_lacks() {
    let Some(scene) = Scene::for_drills() else { return };
    let (primary, _) = primary_within_a_segment(&scene);
    primary.kill();
    let successor = scene.restored("successor", 5433, &["--archive-mode", "preserve"]);
    go_on(&successor);
    follows_timeline_2(scene.restore("again", &[]));
}

#[test]
fn a_standby_that_is_promoted_in_the_middle_of_a_segment_is_production() {
    let Some(scene) = Scene::for_drills() else { return };
    let (primary, _) = primary_within_a_segment(&scene);
    succeeds(scene.restore("standby", &["--standby"]));
    let standby = Server::at(&scene, "standby", 5433);
    let host = scene.directory.path().display();
    standby.configure(&format!("primary_conninfo = 'host={host} port=5432 user=postgres'"));
    assert!(standby.control(&["start"]).status.success(), "{}", standby.log());
    primary.sql("insert into t select generate_series(1, 100)");
    let rows = primary.sql("select count(*) from t");
    let position = primary.sql("select pg_current_wal_insert_lsn()");
    let is_there =
        format!("select coalesce(bool_or(replay_lsn >= '{position}'), false) from pg_stat_replication");
    wait_until_within(FIVE_MINUTES, "the standby to have all", || primary.sql(&is_there) == "t");
    primary.kill();
    assert!(standby.control(&["promote"]).status.success(), "{}", standby.log());
    standby.wait_for_recovery();
    assert_eq!(standby.sql("select count(*) from t"), rows);
    go_on(&standby);
    follows_timeline_2(scene.restore("again", &[]));
}

/// PostgreSQL archives the history of a timeline when it can, and a history has no time. What is left of the timeline before it is
/// archived then, too, so the repository seems to have that timeline up to then.
#[test]
fn a_time_between_a_failover_and_the_end_of_an_outage_of_the_archive_is_not_restored_in_silence() {
    let Some(scene) = Scene::for_drills() else { return };
    let server = Server::create(&scene, &scene.text("repository"));
    server.sql("create table t (n int)");
    server.back_up(&[]);
    server.sql("alter system set archive_command = 'false'");
    server.stop();
    // Without the agent, too: it works ahead of PostgreSQL, and `restore_command` starts it.
    server.kill_agent();
    server.configure("restore_command = ''");
    server.start();
    server.sql("insert into t values (1)");
    let before = server.now();
    server.sql("insert into t values (2)");
    server.sql("select pg_switch_wal()");
    server.stop();
    std::fs::write(scene.path("primary").join("standby.signal"), "").unwrap();
    assert!(server.control(&["start"]).status.success(), "{}", server.log());
    assert!(server.control(&["promote"]).status.success(), "{}", server.log());
    server.wait_for_recovery();
    server.sql("insert into t values (3)");
    let between = server.now();
    server.sql("insert into t values (4)");
    server.sql("alter system reset archive_command");
    server.sql("select pg_reload_conf()");
    server.sql("select pg_switch_wal()");
    server.stop();

    let output = scene.restore("silent", &["--to-time", &between]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = serde_json::from_str(&succeeds(output)).unwrap();
    let passed_over = &report["passed_over"][0];
    assert_eq!(
        (&report["timeline"], &passed_over["timeline"]),
        (&Value::from(1), &Value::from(2)),
        "{report}"
    );
    assert_eq!(passed_over["may_be_meant"], true, "{report}");
    for word in ["the restore follows timeline 1", "MAY BE THE WRONG ONE", "--timeline 2"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // Its recovery does not reach that time.
    let drilled = scene.try_drill(&["--to-time", &between]);
    assert!(!drilled.status.success());
    let said = String::from_utf8_lossy(&drilled.stderr).into_owned();
    assert!(said.contains("went along timeline 1") && said.contains("--timeline 2"), "{said}");
    // A time at which all of the first timeline is known is no question.
    let report = succeeds(scene.restore("known", &["--to-time", &before]));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["timeline"], &report["passed_over"]), (&Value::from(1), &Value::Array(Vec::new())));
    let promote = ["--to-time", &between, "--timeline", "2", "--target-action", "promote"];
    let named = scene.restored("named", 5433, &promote);
    assert_eq!(named.sql("select max(n) from t"), "3");
    named.stop();
}
