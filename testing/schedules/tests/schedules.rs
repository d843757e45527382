//! Schedules of the code where threads meet.
//!
//! The crates under test have to be built with other primitives, and a build of the whole workspace would give them to
//! everybody. So the ordinary test builds and runs this file again, with the feature.

/// Each scenario, each a test, so that they run side by side.
#[cfg(feature = "shuttle")]
mod explored {
    use seawall_schedules::{Exploration, scenarios};

    macro_rules! tests {
        ($($name:ident)*) => {
            $(
                #[test]
                fn $name() {
                    let scenario = scenarios().into_iter().find(|scenario| scenario.name == stringify!($name));
                    let scenario = scenario.expect("the scenario is in the list");
                    scenario.explore(Exploration::from_environment(scenario.seeds));
                }
            )*

            #[test]
            fn every_scenario_has_a_test() {
                let names: Vec<_> = scenarios().iter().map(|scenario| scenario.name).collect();
                assert_eq!(names, [$(stringify!($name)),*]);
            }
        };
    }

    tests! {
        waiting_for_a_word
        group_commit_in_the_log
        group_commit_without_a_flusher_thread
        group_commit_when_the_process_is_killed
        group_commit_in_the_engine
        versions_in_a_memtable
        splits_in_a_memtable
        pending_commits_in_a_memtable
        newest_version_in_a_memtable
        freeze_against_writers
        freeze_against_prepared_transactions
        snapshots_of_hot_rows
        snapshots_of_large_commits
        statements_of_one_moment
        plans_beside_an_alteration
        serializable_transactions
        validations_beside_commits
        reader_and_definition_in_doubt
        publish_against_readers
        room_in_the_memtable
        throttle_of_writers
        locks_in_a_cycle
        locks_that_time_out
        locks_given_back_at_savepoints
        locks_in_doubt
        locks_of_a_stopped_database
        locks_that_are_cancelled
        locks_of_rows_and_objects
        commits_that_wait_for_standbys
        standbys_that_come_and_go
        retention_against_writer_and_reader
    }

    /// Without this, no failure could be repeated.
    #[test]
    fn the_same_seed_gives_the_same_run() {
        use std::sync::{Arc, Mutex};

        let points = Arc::new(Mutex::new(Vec::new()));
        for seed in [1, 2] {
            for _ in 0..2 {
                let points = Arc::clone(&points);
                seawall_schedules::explore("twice", Exploration { seed, seeds: 1 }, move |seed| {
                    for scenario in scenarios() {
                        (scenario.run)(seed);
                    }
                    points.lock().unwrap().push(seawall_schedules::steps());
                });
            }
        }
        let points = points.lock().unwrap();
        let (random, by_priority) = points.split_at(2);
        assert_eq!(random[0], random[1]);
        let half = by_priority.len() / 2;
        assert_eq!(by_priority[..half], by_priority[half..]);
        assert!(random[0] > 10_000, "{points:?}");
    }
}

#[cfg(not(feature = "shuttle"))]
#[test]
fn all_scenarios_hold_in_a_build_with_explored_primitives() {
    use std::process::Command;

    use seawall_testing::Need;

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let this_test = std::env::current_exe().expect("a test knows where it is");
    // In the folder that this test was built in, so that what both builds have in common is built once.
    let target = this_test.ancestors().find(|directory| directory.join(".rustc_info.json").is_file());
    let target = target.expect("cargo keeps what it knows of the compiler in its target directory");
    let output = Command::new(cargo)
        .args([
            "test",
            "-p",
            "seawall-schedules",
            "--features",
            "shuttle",
            "--test",
            "schedules",
            // What Cargo.lock says, and nothing newer; nothing is downloaded in the middle of a test.
            "--locked",
            "--offline",
            "--target-dir",
        ])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let messages = text(&output.stderr);
    if messages.contains("--offline was specified") {
        return Need::Shuttle.skip(messages);
    }
    assert!(output.status.success(), "{}\n{messages}", text(&output.stdout));
    // A filter that fits nothing, or a lost feature, must not pass for success.
    assert!(text(&output.stdout).contains("test explored::every_scenario_has_a_test ... ok"));
}
