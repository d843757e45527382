//! Random histories of everything a program can do with a database, against a plain model.
//!
//! A history is a function of its seed: options, keys, calls, crashes. `SEAWALL_SEED=n` repeats one;
//! `SEAWALL_HISTORIES=n` runs more (or fewer) than the default.

use seawall_torture::model::run_histories;

const HISTORIES: u64 = 4000;

#[test]
fn random_histories_agree_with_a_plain_model() {
    let count =
        std::env::var("SEAWALL_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(HISTORIES);
    let findings = run_histories(seawall_simulation::seeds(count));
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    assert!(findings.is_empty(), "{} histories went wrong", findings.len());
}
