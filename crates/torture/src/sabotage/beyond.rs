//! Defects that break no promise of those that the tortures test, and why: tests of the crates alone find them.

use seawall_io::sabotage::Defect;

const NO_ROT: &str = "tortures lose power and do not damage what was durable";
const SECOND_FAULT: &str = "shows when what was durable is damaged on top of a power loss";

const BEYOND: [(Defect, &str); 6] = [
    (Defect::DamageTakenForTornTail, NO_ROT),
    (Defect::PageChecksumNotChecked, NO_ROT),
    (Defect::BegunMarkNotWritten, SECOND_FAULT),
    (Defect::FreedPagesWrittenUnsynced, SECOND_FAULT),
    (Defect::PunchedBeforeSync, SECOND_FAULT),
    (Defect::KeysNameNotSynced, "no torture changes the master key"),
];

/// Why no torture hunts for it; `None` if they do.
pub(super) fn why(defect: Defect) -> Option<&'static str> {
    BEYOND.iter().find(|(beyond, _)| *beyond == defect).map(|(_, why)| *why)
}
