//! The checker against databases that are known to be right, and against histories with a flaw put in.

mod flaws;
mod model;
mod servers;

use seawall::Isolation;
use seawall_simulation::{SeededRandom, seeds};

use super::super::history::History;
use super::check;

const ALL: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

fn describe(history: &History, isolation: Isolation) -> Vec<String> {
    check(history, isolation).anomalies.iter().map(ToString::to_string).collect()
}

#[test]
fn a_right_database_is_never_accused_at_its_own_level_or_a_weaker_one() {
    for seed in seeds(300) {
        for (strength, isolation) in ALL.into_iter().enumerate() {
            let history = model::history(seed, isolation, 60);
            for promised in &ALL[..=strength] {
                let found = describe(&history, *promised);
                assert!(found.is_empty(), "seed {seed}, {isolation:?} held to {promised:?}: {found:?}");
            }
        }
    }
}

#[test]
fn a_weaker_database_is_found_out() {
    for (isolation, promised) in [
        (Isolation::ReadCommitted, Isolation::Snapshot),
        (Isolation::ReadCommitted, Isolation::Serializable),
        (Isolation::Snapshot, Isolation::Serializable),
    ] {
        let found = |seed: &u64| !describe(&model::history(*seed, isolation, 60), promised).is_empty();
        let count = (0..100).filter(found).count();
        assert!(count > 30, "{isolation:?} held to {promised:?}: found in {count} of 100 histories");
    }
}

#[test]
fn every_flaw_is_found_where_it_is_forbidden_and_only_there() {
    for seed in seeds(100) {
        let mut random = SeededRandom::new(seed);
        for flaw in flaws::all() {
            let mut history = model::history(seed, Isolation::Serializable, 30);
            flaw.put_into(&mut history, &mut random);
            for isolation in ALL {
                let found = check(&history, isolation).anomalies;
                let name = flaw.name;
                if flaw.forbidden_at.contains(&isolation) {
                    let is_meant = |anomaly: &super::Anomaly| {
                        anomaly.kind == flaw.kind && anomaly.in_real_time == flaw.in_real_time
                    };
                    assert!(found.iter().any(is_meant), "seed {seed}, {name}, {isolation:?}: {found:?}");
                } else {
                    assert!(found.is_empty(), "seed {seed}, {name}, {isolation:?}: {found:?}");
                }
            }
        }
    }
}
