//! Where production is: along which timeline a restore goes when nobody has named one.

use serde_json::Value;

use crate::scene::{ACCOUNTS, Server, fails, succeeds};

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
