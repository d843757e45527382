//! What an option may change is what something costs, never what it answers.

use seawall_torture::metamorphic::run_histories;

/// Option sets under which each history runs.
const SETS: u64 = 6;

#[test]
fn a_history_has_the_same_answers_under_every_option_set() {
    let findings = run_histories(seawall_simulation::seeds(100), SETS);
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    assert!(findings.is_empty(), "{} histories went wrong", findings.len());
}
