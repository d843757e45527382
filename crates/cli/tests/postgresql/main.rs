//! The whole story with a real PostgreSQL: load, archive, backup, more load, a mistake, a restore to just before it; timelines;
//! drills; and what goes wrong meanwhile. Where there is no PostgreSQL the tests say so, and are skipped.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

#[path = "../common/agents.rs"]
mod agents;
mod beside;
mod drill;
mod hangs;
#[path = "../common/installed.rs"]
mod installed;
mod production;
mod resumed;
mod scene;

use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use scene::{ACCOUNTS, Scene, Server, fails, succeeds};
use seawall_testing::{Need, wait_until_within};
use serde_json::Value;

/// What a server takes minutes for on a machine that is busy.
pub(crate) const FIVE_MINUTES: Duration = Duration::from_secs(300);

#[test]
fn a_dropped_table_comes_back_by_a_recovery_to_just_before() {
    let Some(scene) = Scene::new() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    let backup = primary.back_up(&["--label", "before all"]);
    primary.load(1500);
    let before = primary.sql(ACCOUNTS);
    primary.sql("select pg_create_restore_point('before the mistake')");
    let (position, time) = (primary.position(), primary.now());
    primary.sql("drop table pgbench_accounts");
    primary.sql("create table later as select generate_series(1, 100000) n");
    let (late, late_segment) = (primary.position(), primary.segment());
    let too_late = primary.back_up(&[]);
    primary.stop();
    let archived = scene.timeline(1);
    assert_eq!(archived["gaps"].as_array().unwrap().len(), 0, "{archived}");
    assert!(archived["segments"].as_u64().unwrap() > 8, "{archived}");

    let list = succeeds(scene.seawall(&["--json", "backup", "list", &scene.text("repository")]));
    let backups: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let listed = &backups[0];
    assert_eq!((listed, &listed["label"], &backups[1]), (&backup, &Value::from("before all"), &too_late));
    assert!(listed["files"].as_u64().unwrap() > 500 && listed["parts"].as_u64().unwrap() > 0, "{listed}");
    let info = succeeds(scene.seawall(&["--json", "repo", "info", &scene.text("repository")]));
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["systems"][0]["backups"], Value::from(backups));

    let along = ["--timeline", "1"];
    let promote = ["--target-action", "promote"];
    for (name, port, target) in [
        ("by-name", 5433, &["--to-name", "before the mistake", "--archive-mode", "preserve"][..]),
        ("by-lsn", 5434, &["--to-lsn", &position, "--timeline", "1"]),
        // The timeline that was the last at that time, though there are others now.
        ("by-time", 5435, &["--to-time", &time]),
    ] {
        let restored = scene.restored(name, port, &[target, &promote].concat());
        assert_eq!(restored.sql(ACCOUNTS), before, "{name}");
        assert_eq!(restored.sql("select to_regclass('later') is null"), "t", "{name}");
        if name == "by-name" {
            // It goes on, on a timeline of its own, and archives that, too.
            restored.load(200);
        }
        restored.stop();
    }
    let forked = scene.timeline(2);
    assert_eq!(forked["gaps"].as_array().unwrap().len(), 0, "{forked}");

    let refused = |arguments: &[&str]| scene.restore("refused", &[arguments, &along[..]].concat());
    fails(&scene.restore("by-name", &[]), 6, &["by-name", "is not empty"]);
    fails(&refused(&["--to-time", "2000-01-01T00:00:00Z"]), 3, &["the oldest one on the way"]);
    fails(&refused(&["--to-lsn", "0/1"]), 3, &["the oldest one on the way"]);
    fails(&refused(&["--to-lsn", "FF/0"]), 3, &["FF/0 lies after the end of the log of timeline 1"]);
    fails(
        &refused(&["--to-time", "2100-01-01T00:00:00Z"]),
        3,
        &["the last segment of timeline 1", "--latest"],
    );
    fails(&refused(&["--to-name", "after the mistake"]), 3, &["no restore point", "after the mistake"]);
    fails(&scene.restore("refused", &["--timeline", "99"]), 3, &["there is no timeline 99"]);
    // In the archive, a segment in the middle is gone.
    let system = scene.path("repository").join(info["systems"][0]["system"].as_str().unwrap());
    std::fs::rename(system.join("log/00000001/00000000").join(&late_segment), scene.path("lost")).unwrap();
    let first = ["--backup", backup["backup"].as_str().unwrap()];
    fails(&refused(&[&first[..], &["--latest"]].concat()), 3, &["there is a gap", &late_segment]);
    fails(&refused(&["--to-lsn", &late]), 3, &["there is a gap", &late_segment]);
    assert!(!scene.path("refused").exists());
    succeeds(refused(&["--to-lsn", &position]));
}

#[test]
fn a_damaged_backup_is_refused_and_a_restore_that_was_cut_short_begins_anew() {
    let Some(scene) = Scene::new() else { return };
    let key = scene.make_key();
    let with_key = ["--master-key-file", &key];
    let primary = Server::create_with_options(&scene, &scene.text("repository"), &with_key);
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    let backup = primary.back_up(&["--master-key-file", &key, "--compression", "zstd:1"]);
    primary.load(100);
    let rows = primary.sql(ACCOUNTS);
    primary.stop();
    let directory = scene.path("repository").join(backup["system"].as_str().unwrap()).join("backups");
    let part = directory.join(backup["backup"].as_str().unwrap()).join("part-00000000");
    let good = std::fs::read(&part).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    std::fs::write(&part, bad).unwrap();
    fails(&scene.restore("restored", &with_key), 4, &["part-00000000"]);
    assert!(scene.path("restored/seawall-restoring").exists());
    let refused = Server::at(&scene, "restored", 5433);
    assert!(!refused.control(&["start"]).status.success());
    std::fs::write(&part, good).unwrap();
    let restored = scene.restored("restored", 5433, &with_key);
    assert!(!scene.path("restored/seawall-restoring").exists());
    assert_eq!(restored.sql(ACCOUNTS), rows);
}

/// What was read before and after is of two timelines: no log leads from the one to the other.
#[test]
fn a_backup_of_a_standby_that_is_promoted_meanwhile_is_none() {
    let Some(scene) = Scene::new() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    primary.back_up(&[]);
    primary.load(100);
    primary.stop();
    succeeds(scene.restore("standby", &["--standby"]));
    let standby = Server::at(&scene, "standby", 5433);
    standby.configure("hot_standby = on");
    assert!(standby.control(&["start"]).status.success(), "{}", standby.log());

    let list = || succeeds(scene.seawall(&["--json", "backup", "list", &scene.text("repository")]));
    let before = list();
    let backup = standby.back_up_in_background(&["--rate", "1"]);
    let is_read = "select count(*) from pg_stat_progress_basebackup where backup_streamed > 0";
    wait_until_within(FIVE_MINUTES, "the backup to be read", || standby.sql(is_read) == "1");
    assert!(standby.control(&["promote"]).status.success(), "{}", standby.log());
    fails(&backup.wait_with_output().unwrap(), 1, &["the standby was promoted during online backup"]);
    assert_eq!(list(), before, "a backup that failed is listed");

    standby.wait_for_recovery();
    standby.load(100);
    let rows = standby.sql(ACCOUNTS);
    let taken = standby.back_up(&[]);
    standby.stop();
    let from = ["--timeline", "2", "--backup", taken["backup"].as_str().unwrap()];
    let restored = scene.restored("restored", 5434, &from);
    assert_eq!(restored.sql(ACCOUNTS), rows);
}

/// `archive_command = 'seawall archive-push %p'`, and no options elsewhere, either.
#[test]
fn one_settings_file_is_all_that_archiving_backup_and_restore_need() {
    let Some(scene) = Scene::new() else { return };
    let key = scene.make_key();
    scene.set(&format!("master_key_file = {key:?}"));
    let primary = Server::create_with_settings(&scene);
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    succeeds(scene.seawall(&["backup", "--postgresql"]));
    primary.load(100);
    let rows = primary.sql(ACCOUNTS);
    primary.stop();
    let listed = succeeds(scene.seawall(&["--json", "repo", "info"]));
    let info: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&info["encrypted"], info["systems"].as_array().unwrap().len()), (&true.into(), 1), "{info}");
    succeeds(scene.seawall(&["restore", &scene.text("restored")]));
    // Whoever starts the copy may have another environment: the command that fetches its log names the file.
    let written = std::fs::read_to_string(scene.path("restored/postgresql.auto.conf")).unwrap();
    let named = format!("--config={}", scene.text("seawall.toml"));
    assert!(written.contains(&named) && written.contains(&key), "{written}");
    assert_eq!(scene.started("restored", 5433).sql(ACCOUNTS), rows);
}

/// A failover, and an old primary that goes on all the same: both archive into one repository, and either can be restored.
#[test]
fn after_a_failover_a_restore_follows_the_timeline_that_it_is_told() {
    let Some(scene) = Scene::new() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    let first = primary.back_up(&[]);
    primary.load(300);
    let common = primary.sql(ACCOUNTS);
    primary.stop();

    succeeds(scene.restore("standby", &["--standby"]));
    let standby = Server::at(&scene, "standby", 5433);
    standby.configure("");
    assert!(standby.control(&["start"]).status.success(), "{}", standby.log());
    // What is in the archive is replayed before.
    assert!(standby.control(&["promote"]).status.success(), "{}", standby.log());
    standby.wait_for_recovery();
    assert_eq!(standby.sql(ACCOUNTS), common);
    assert_eq!(standby.sql("select pg_walfile_name(pg_current_wal_lsn()) like '00000002%'"), "t");
    standby.load(200);
    let of_standby = standby.back_up(&[]);
    assert_eq!((&of_standby["timeline"], &first["timeline"]), (&Value::from(2), &Value::from(1)));
    standby.load(200);
    let new_rows = standby.sql(ACCOUNTS);
    standby.stop();

    primary.start();
    primary.sql("create table only_here as select generate_series(1, 1000) n");
    primary.load(300);
    let old_rows = primary.sql(ACCOUNTS);
    primary.stop();

    // By default the timeline that was backed up since they parted, and the newest backup on the way.
    for (name, port, arguments, backup, rows, only_here) in [
        ("newest", 5434, &[][..], &of_standby, &new_rows, "f"),
        ("through", 5435, &["--backup", first["backup"].as_str().unwrap()], &first, &new_rows, "f"),
        ("old", 5436, &["--timeline", "1"], &first, &old_rows, "t"),
    ] {
        let report: Value = serde_json::from_str(&succeeds(scene.restore(name, arguments))).unwrap();
        assert_eq!(report["backup"], backup["backup"], "{name}");
        let restored = Server::at(&scene, name, port);
        restored.configure("archive_mode = off\n");
        restored.start();
        assert_eq!(&restored.sql(ACCOUNTS), rows, "{name}");
        assert_eq!(restored.sql("select to_regclass('only_here') is not null"), only_here, "{name}");
        restored.stop();
    }
    let arguments = ["--timeline", "1", "--backup", of_standby["backup"].as_str().unwrap()];
    fails(&scene.restore("none", &arguments), 3, &["none was taken on timeline 1"]);
}

/// Somebody restores production to try something out, while it goes on.
#[test]
fn a_trial_restore_does_not_become_the_history_of_production() {
    let Some(scene) = Scene::new() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    primary.back_up(&[]);
    primary.load(300);
    primary.sql("select pg_switch_wal()");
    primary.stop();
    let before = succeeds(scene.seawall(&["repo", "ls", &scene.text("repository")]));
    let trial = scene.restored("trial", 5433, &["--target-action", "promote"]);
    assert_eq!(trial.sql("show archive_mode"), "off");
    trial.load(100);
    trial.sql("select pg_switch_wal()");
    trial.stop();
    let after = succeeds(scene.seawall(&["repo", "ls", &scene.text("repository")]));
    assert_eq!(after, before, "the trial has archived something");

    // One that archives all the same.
    let trial = scene.restored("preserved", 5434, &["--archive-mode", "preserve"]);
    assert_eq!(trial.sql("show archive_mode"), "on");
    trial.load(100);
    trial.sql("select pg_switch_wal()");
    trial.stop();
    primary.start();
    primary.load(500);
    primary.sql("select pg_switch_wal()");
    fails(
        &scene.restore("which", &[]),
        3,
        &["timeline 1", "timeline 2, which left timeline 1", "--timeline"],
    );
    assert!(!scene.path("which").exists());
    primary.sql("select pg_create_restore_point('in production')");
    primary.sql("select pg_switch_wal()");
    let of_production = primary.back_up(&[]);
    let rows = primary.sql(ACCOUNTS);
    primary.stop();
    let output = scene.restore("newest", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = serde_json::from_str(&succeeds(output)).unwrap();
    assert_eq!((&report["backup"], &report["timeline"]), (&of_production["backup"], &Value::from(1)));
    assert_eq!(report["passed_over"][0]["timeline"], 2, "{report}");
    assert!(said.contains("timeline 2"), "{said}");
    let along_trial = ["--timeline", "2", "--to-name", "in production"];
    fails(
        &scene.restore("named", &along_trial),
        3,
        &["of timeline 2", "the log of others was not read: --timeline 1"],
    );
    let newest = Server::at(&scene, "newest", 5435);
    newest.configure("");
    newest.start();
    assert_eq!(newest.sql(ACCOUNTS), rows);
    newest.stop();
}

#[test]
fn a_cluster_with_a_bad_page_is_backed_up_if_that_is_asked_for() {
    let Some(scene) = Scene::new() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    primary.sql("create table t as select generate_series(1, 10000) n");
    primary.sql("checkpoint");
    let file = primary.sql("select pg_relation_filepath('t')");
    primary.stop();
    let data = scene.text("primary");
    let mut checksums = scene.command(scene.programs.join("pg_checksums"));
    succeeds(checksums.args(["--enable", "-D", &data]).output().unwrap());
    let path = scene.path("primary").join(&file);
    let mut content = std::fs::read(&path).unwrap();
    content[8192 + 5000] ^= 0xFF;
    std::fs::write(&path, content).unwrap();
    primary.start();
    fails(&primary.try_back_up(&[]), 4, &["wrong checksums", &file, "--accept-bad-pages"]);
    let list = || succeeds(scene.seawall(&["--json", "backup", "list", &scene.text("repository")]));
    assert_eq!(list(), "");
    let taken = primary.try_back_up(&["--accept-bad-pages"]);
    fails(&taken, 4, &["BAD PAGES", &file]);
    let backup: Value = serde_json::from_slice(&taken.stdout).unwrap();
    assert_eq!(
        (&backup["bad_files"][0]["file"], &backup["bad_files"][0]["pages"]),
        (&file.into(), &1.into())
    );
    assert_eq!(serde_json::from_str::<Value>(&list()).unwrap(), backup);
    primary.stop();
    let restored = scene.restore("restored", &[]);
    let said = String::from_utf8_lossy(&restored.stderr).into_owned();
    succeeds(restored);
    assert!(said.contains("BAD PAGES"), "{said}");
}

/// A damaged manifest, or a damaged history, of something else.
#[test]
fn what_is_damaged_keeps_only_those_restores_from_working_that_need_it() {
    let Some(scene) = Scene::new() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    let old = primary.back_up(&[]);
    let trial = scene.restored("trial", 5433, &["--archive-mode", "preserve"]);
    trial.sql("select pg_switch_wal()");
    trial.stop();
    primary.load(100);
    let new = primary.back_up(&[]);
    primary.stop();
    let system = scene.path("repository").join(new["system"].as_str().unwrap());
    let change_last_byte = |path: PathBuf| {
        let mut content = std::fs::read(&path).unwrap();
        *content.last_mut().unwrap() ^= 1;
        std::fs::write(path, content).unwrap();
    };
    change_last_byte(system.join("backups").join(old["backup"].as_str().unwrap()).join("manifest"));
    change_last_byte(system.join("timelines/00000002.history"));
    let repository = scene.text("repository");
    let list = succeeds(scene.seawall(&["--json", "backup", "list", &repository]));
    assert!(list.contains("damaged") && list.contains(new["backup"].as_str().unwrap()), "{list}");
    succeeds(scene.seawall(&["repo", "info", &repository]));
    succeeds(scene.restore("newest", &["--timeline", "1"]));
    fails(&scene.restore("damaged", &["--timeline", "2"]), 4, &["00000002.history"]);
    fails(&scene.restore("which", &[]), 3, &["whose history cannot be read"]);
}

#[test]
fn a_backup_whose_log_does_not_come_is_none() {
    let Some(scene) = Scene::new() else { return };
    let repository = scene.text("repository");
    let primary = Server::create(&scene, &repository);
    let elsewhere = scene.text("elsewhere");
    succeeds(scene.seawall(&["repo", "create", &elsewhere]));
    primary.sql("alter system set archive_command = 'false'");
    primary.sql("select pg_reload_conf()");
    let output = primary.try_back_up(&["--archive-timeout", "1"]);
    fails(
        &output,
        1,
        &["is not in the repository after", "archive_command false", "has archived nothing last, and failed"],
    );
    // Something is archived, but not to where the backup goes.
    let command = format!("{} archive-push --repository={elsewhere} %p", scene.text("seawall"));
    primary.sql(&format!("alter system set archive_command = '{command}'"));
    primary.sql("select pg_reload_conf()");
    primary.sql("create table t as select 1");
    primary.sql("select pg_switch_wal()");
    wait_until_within(FIVE_MINUTES, "the first segment to be archived", || {
        primary.sql("select last_archived_wal is null from pg_stat_archiver") != "t"
    });
    fails(&primary.try_back_up(&[]), 1, &["let archive_command archive to this repository"]);
    let list = succeeds(scene.seawall(&["--json", "backup", "list", &repository]));
    assert_eq!(list, "");
    std::fs::create_dir(scene.path("space")).unwrap();
    if let Some((user, group)) = scene.user {
        chown(scene.path("space"), Some(user), Some(group)).unwrap();
    }
    primary.sql(&format!("create tablespace space location '{}'", scene.text("space")));
    fails(&primary.try_back_up(&[]), 1, &["it has tablespaces (space)"]);
}

/// The archive module, built with the server's headers. `SEAWALL_POSTGRESQL_HEADERS` names their directory.
fn build_module(scene: &Scene) -> Result<(), String> {
    let headers = match std::env::var_os("SEAWALL_POSTGRESQL_HEADERS") {
        Some(directory) => PathBuf::from(directory),
        None => {
            let output = Command::new(scene.programs.join("pg_config")).arg("--includedir-server").output();
            let output = output.map_err(|error| format!("there is no pg_config: {error}"))?;
            String::from_utf8(output.stdout).unwrap().trim().into()
        }
    };
    let has_modules = ["postmaster/pgarch.h", "archive/archive_module.h"]
        .iter()
        .any(|header| headers.join(header).is_file());
    if !has_modules {
        return Err(format!("{} has no headers of PostgreSQL 15 or later", headers.display()));
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/archive_library/seawall_archive.c");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-I"])
        .arg(headers)
        .args(["-o", &scene.text("seawall_archive.so"), source])
        .output()
        .map_err(|error| format!("there is no C compiler: {error}"))?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[test]
fn the_archive_module_archives_without_a_process_for_each_file() {
    let Some(scene) = Scene::new() else { return };
    if let Err(reason) = build_module(&scene) {
        Need::PostgreSqlHeaders.skip(reason);
        return;
    }
    let repository = scene.text("repository");
    let primary = Server::create(&scene, &repository);
    primary.stop();
    primary.configure(&format!(
        "archive_command = ''\narchive_library = '{}'\nseawall.program = '{}'\nseawall.options = '--repository={repository}'\n",
        scene.text("seawall_archive"),
        scene.text("seawall")
    ));
    primary.start();
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    primary.back_up(&[]);
    primary.load(500);
    // The agent is gone, with what it was doing: the next file starts another.
    primary.kill_agent();
    std::fs::rename(&repository, scene.text("elsewhere")).unwrap();
    primary.sql("select pg_switch_wal()");
    wait_until_within(FIVE_MINUTES, "the server to say that the repository is gone", || {
        let log = primary.log();
        log.contains("there is no repository") || log.contains("is gone")
    });
    std::fs::rename(scene.text("elsewhere"), &repository).unwrap();
    primary.load(500);
    let rows = primary.sql(ACCOUNTS);
    primary.stop();
    primary.start();
    primary.stop();
    let archived = scene.timeline(1);
    assert_eq!(archived["gaps"].as_array().unwrap().len(), 0, "{archived}");
    succeeds(scene.restore("restored", &[]));
    let restored = Server::at(&scene, "restored", 5433);
    restored.configure("archive_mode = off\n");
    restored.start();
    assert_eq!(restored.sql(ACCOUNTS), rows);
}

/// kill -9 of the agent and of PostgreSQL, a repository that is gone for a while: what is archived is whole, and goes on to the end.
#[test]
fn whatever_is_killed_or_gone_for_a_while_the_archive_has_all_of_it() {
    let Some(scene) = Scene::new() else { return };
    let repository = scene.text("repository");
    let primary = Server::create(&scene, &repository);
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    primary.back_up(&[]);
    for round in 0..4 {
        let mut load = primary.load_in_background();
        for _ in 0..3 {
            let begun = primary.segment();
            // As long as it takes the load to come into another segment.
            wait_until_within(FIVE_MINUTES, "the load to come into another segment", || {
                primary.segment() != begun
            });
            primary.kill_agent();
        }
        if round % 2 == 0 {
            primary.kill();
        } else {
            std::fs::rename(&repository, scene.text("elsewhere")).unwrap();
            let begun = primary.segment();
            wait_until_within(FIVE_MINUTES, "the load to come into another segment", || {
                primary.segment() != begun
            });
            std::fs::rename(scene.text("elsewhere"), &repository).unwrap();
        }
        load.kill().and_then(|()| load.wait()).unwrap();
        if round % 2 == 0 {
            // Until the processes of the killed one have noticed, it refuses to start.
            while !primary.control(&["start"]).status.success() {
                assert!(
                    primary.log().contains("still in use") || primary.log().contains("lock file"),
                    "{}",
                    primary.log()
                );
            }
            primary.wait_for_recovery();
        }
    }
    let rows = primary.sql(ACCOUNTS);
    primary.stop();
    // What failed last is archived by the next start's archiver: PostgreSQL gives up after some attempts when it stops.
    primary.start();
    primary.sql("select pg_switch_wal()");
    primary.stop();
    let archived = scene.timeline(1);
    assert_eq!(archived["gaps"].as_array().unwrap().len(), 0, "{archived}");
    let restored = scene.restored("restored", 5433, &[]);
    assert_eq!(restored.sql(ACCOUNTS), rows);
}
