//! A timeline's history file is there whole or not at all, whenever the power goes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{arc, create};
use seawall_simulation::{PowerLoss, SimulatedDisk};
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{HistoryError, TimelineHistory};

#[test]
fn a_crash_at_any_call_leaves_no_history_or_the_whole() {
    let second = TimelineId::new(2).unwrap();
    let history = TimelineHistory::first().fork(second, Lsn::new(0x500_0A28), "promoted");
    let original = SimulatedDisk::new(1);
    drop(create(&original));
    let mut call = 0;
    loop {
        let disk = original.copy();
        disk.crash_at(disk.calls() + call);
        let outcome = history.store(&arc(&disk));
        for seed in 0..10 {
            let after = disk.after_power_loss(PowerLoss::Random(seed));
            match TimelineHistory::load(&arc(&after), second) {
                Ok(found) => assert_eq!(found, history),
                Err(HistoryError::Io { source, .. }) => {
                    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
                    assert!(outcome.is_err(), "a stored history is there");
                }
                Err(other) => panic!("call {call}, seed {seed}: {other}"),
            }
            history.store(&arc(&after)).unwrap();
            assert_eq!(TimelineHistory::load(&arc(&after), second).unwrap(), history);
        }
        if outcome.is_ok() {
            break;
        }
        call += 1;
    }
    assert_eq!(TimelineHistory::load(&arc(&original), TimelineId::FIRST).unwrap(), TimelineHistory::first());
}
