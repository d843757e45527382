//! Two archivers behind one `archive_command`, as docs/from-pgbackrest.md has it: Seawall, and a stand-in for another program that keeps
//! segments under their names, takes one again with the same content, and refuses another content.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use seawall_testing::wait_until_within;

use crate::FIVE_MINUTES;
use crate::scene::{ACCOUNTS, Scene, Server, succeeds};

const STAND_IN: &str = r#"#!/bin/sh
here=$(dirname "$0")
name=$(basename "$1")
test ! -e "$here/is-down" || exit 82
mkdir -p "$here/other"
if test -e "$here/other/$name"; then cmp -s "$1" "$here/other/$name" || exit 45; exit 0; fi
cp "$1" "$here/other/.$name" && mv "$here/other/.$name" "$here/other/$name"
"#;

/// Full segments that the stand-in has.
fn segments_of_the_other(scene: &Scene) -> BTreeSet<String> {
    let names = std::fs::read_dir(scene.path("other")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name.len() == 24).collect()
}

fn segments_of_seawall(scene: &Scene) -> BTreeSet<String> {
    let listed = succeeds(scene.seawall(&["--json", "repo", "ls", &scene.text("repository")]));
    let names = listed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let names = names.map(|file| file["name"].as_str().unwrap().to_owned());
    names.filter(|name| name.len() == 24).collect()
}

/// Load until PostgreSQL has counted another failure of its `archive_command`.
fn load_until_it_fails(primary: &Server<'_>) {
    let failures = || primary.sql("select failed_count from pg_stat_archiver").parse::<u64>().unwrap();
    let before = failures();
    primary.load(500);
    primary.sql("select pg_switch_wal()");
    wait_until_within(FIVE_MINUTES, "the archive_command to fail", || failures() > before);
}

#[test]
fn two_archivers_behind_one_command_both_have_every_segment() {
    let Some(scene) = Scene::new() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    std::fs::write(scene.path("pgbackrest"), STAND_IN).unwrap();
    std::fs::set_permissions(scene.path("pgbackrest"), PermissionsExt::from_mode(0o755)).unwrap();
    let (other, seawall, repository) =
        (scene.text("pgbackrest"), scene.text("seawall"), scene.text("repository"));
    primary.configure(&format!(
        "archive_command = '{other} %p && {seawall} archive-push --repository={repository} --timeout=5 %p'"
    ));
    primary.sql("select pg_reload_conf()");
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    primary.back_up(&[]);

    // The first program fails, so the second is not even asked; then the second does, and the first is asked again for what it has.
    std::fs::write(scene.path("is-down"), "").unwrap();
    load_until_it_fails(&primary);
    std::fs::remove_file(scene.path("is-down")).unwrap();
    primary.load(500);
    std::fs::rename(scene.path("repository"), scene.path("repository.away")).unwrap();
    load_until_it_fails(&primary);
    std::fs::rename(scene.path("repository.away"), scene.path("repository")).unwrap();
    primary.load(500);
    primary.back_up(&[]);
    let expected = primary.sql(ACCOUNTS);
    // It archives all that is left.
    primary.stop();

    let (theirs, ours) = (segments_of_the_other(&scene), segments_of_seawall(&scene));
    assert!(theirs.len() > 8, "{theirs:?}");
    // Seawall was there before the other.
    let since: BTreeSet<String> = ours.into_iter().filter(|name| Some(name) >= theirs.first()).collect();
    assert_eq!(since, theirs);
    assert_eq!(scene.timeline(1)["gaps"].as_array().unwrap().len(), 0);
    succeeds(scene.seawall(&["verify", "--repository", &repository, "--full"]));
    let restored = scene.restored("restored", 5433, &["--target-action", "promote"]);
    assert_eq!(restored.sql(ACCOUNTS), expected);
    restored.stop();
}
