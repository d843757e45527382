//! Defects that the tortures do not find, or too seldom, and why: tests of the crates find them, which know where to look.

use seawall_io::sabotage::Defect;

const SECOND_FAULT: &str = "shows when pages that were durable are damaged on top of a power loss";
const OLD_RECORD: &str = "a record that was given up has to lie just where the log of a later life ends";
const KILL_THEN_POWER: &str =
    "a kill has to hit a write on its way, and the power to go before the same bytes are written again";

const POSTGRESQL: &str = "tortures are of databases of ours, and this is about PostgreSQL's";

const BEYOND: [(Defect, &str); 19] = [
    (Defect::SpoolNotesNotSynced, POSTGRESQL),
    (Defect::RestoredFilesNotSynced, POSTGRESQL),
    (Defect::RestoredControlNotSynced, POSTGRESQL),
    (Defect::OsFallbackNotSynced, "the kernel of this machine refuses nothing"),
    (
        Defect::NoncesShort,
        "no torture looks at nonces, and nonces of a simulated database are those of a seed",
    ),
    (Defect::NewMapPageRefused, "databases of tortures have one page of the space map"),
    (Defect::NewMapPageNotLinked, "databases of tortures have one page of the space map"),
    (Defect::RecycledBeforeNameSynced, "a writer has to fill a segment during one call of another thread"),
    (Defect::TailNotZeroed, OLD_RECORD),
    (Defect::PendingNotZeroed, OLD_RECORD),
    (Defect::LastBatchNotWrittenAgain, KILL_THEN_POWER),
    (Defect::ChunkNotWrittenAgain, KILL_THEN_POWER),
    (Defect::HoldsNotSynced, "tortures make few holds, and lose none of the log that they need"),
    (Defect::VersionNotChecked, "a reader has to meet the moment in which pages change places"),
    (Defect::FreedPagesWrittenUnsynced, SECOND_FAULT),
    (Defect::PunchedBeforeSync, SECOND_FAULT),
    (Defect::ImagesBeforeSync, "a page has to be torn whose other copy several threads have just written"),
    (Defect::RegionPiecesOverlap, "chunks of tortures seldom have regions of more than a mebibyte"),
    (Defect::KeysNameNotSynced, "no torture changes the master key"),
];

/// Why no torture hunts for it; `None` if they do.
pub(super) fn why(defect: Defect) -> Option<&'static str> {
    BEYOND.iter().find(|(beyond, _)| *beyond == defect).map(|(_, why)| *why)
}
