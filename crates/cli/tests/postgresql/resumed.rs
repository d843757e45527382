//! `kill -9` of a restore, several times: the next one goes on with what is whole, and what comes out is what a restore writes that
//! nobody disturbs.

use std::path::Path;
use std::process::Stdio;

use seawall_simulation::{SeededRandom, seeds};
use seawall_testing::wait_until_within;
use serde_json::Value;

use crate::FIVE_MINUTES;
use crate::scene::{ACCOUNTS, Scene, Server, fails, succeeds};

/// Kills of one restore before it is let through.
const KILLS: u64 = 5;

/// Tables of some 4 MB each, so that there are several parts.
const FILLERS: &str = "do $$ begin for i in 1..25 loop execute format(
    'create table filler_%s as select n, md5(n::text) as text from generate_series(1, 60000) n', i); end loop; end $$";

/// Files that a restore has entered into the list of what is there.
fn listed(directory: &Path) -> u64 {
    let list = std::fs::read(directory.join("seawall-restoring")).unwrap_or_default();
    let lines = list.split(|byte| *byte == b'\n').filter(|line| line.get(8..14) == Some(b" file "));
    lines.count() as u64
}

impl Scene {
    /// Kills a restore as soon as it has listed so many files. How many it had listed when it was dead.
    fn restore_until(&self, name: &str, files: u64) -> u64 {
        let mut command = self.restore_command(name, &[]);
        let mut restore = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let directory = self.path(name);
        wait_until_within(FIVE_MINUTES, "a restore to have written some files", || {
            listed(&directory) >= files || restore.try_wait().unwrap().is_some()
        });
        restore.kill().unwrap();
        assert!(!restore.wait().unwrap().success(), "it was through before it was killed");
        listed(&directory)
    }
}

#[test]
fn a_restore_that_is_killed_again_and_again_resumes_and_gives_the_same_cluster() {
    let Some(scene) = Scene::new() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    primary.sql(FILLERS);
    primary.back_up(&[]);
    primary.load(200);
    let (rows, filler) = (primary.sql(ACCOUNTS), "select sum(hashtext(t::text)::bigint) from filler_25 t");
    let sum = primary.sql(filler);
    primary.stop();
    let undisturbed: Value = serde_json::from_str(&succeeds(scene.restore("undisturbed", &[]))).unwrap();
    let (files, bytes) = (undisturbed["files"].as_u64().unwrap(), undisturbed["bytes"].as_u64().unwrap());
    assert_eq!((&undisturbed["kept_files"], &undisturbed["fetched_bytes"]), (&0.into(), &bytes.into()));
    for seed in seeds(1) {
        let mut random = SeededRandom::new(seed);
        let mut left = 0;
        for kill in 0..KILLS {
            // The last one is killed late.
            let step = files * 19 / 20 / KILLS;
            let until = if kill + 1 == KILLS { step * KILLS } else { step * kill + random.below(step) };
            left = scene.restore_until("restored", until);
            println!("seed {seed}, kill {kill}: {left} of {files} files");
            assert!(!scene.path("restored/global/pg_control").exists(), "seed {seed}, kill {kill}");
        }
        assert!(!Server::at(&scene, "restored", 5433).control(&["start"]).status.success(), "seed {seed}");
        let other = scene.restore("restored", &["--to-lsn", "0/7FFFFFFF"]);
        fails(&other, 6, &["is what is left of a restore of", "ask for the former again"]);
        let resumed: Value = serde_json::from_str(&succeeds(scene.restore("restored", &[]))).unwrap();
        assert_eq!(resumed["kept_files"], left, "seed {seed}: whatever is listed is kept");
        assert!(resumed["fetched_bytes"].as_u64().unwrap() < bytes, "seed {seed}: {resumed}");
        let difference = scene.command("diff").args(["-r", "restored", "undisturbed"]).output().unwrap();
        assert_eq!(succeeds(difference), "", "seed {seed}");
        let restored = Server::at(&scene, "restored", 5433);
        restored.configure("");
        restored.start();
        assert_eq!(
            (restored.sql(ACCOUNTS), restored.sql(filler)),
            (rows.clone(), sum.clone()),
            "seed {seed}"
        );
    }
}
