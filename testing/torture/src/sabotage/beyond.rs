//! Defects that the tortures do not find, or too seldom, and why: tests of the crates find them, which know where to look.

const SECOND_FAULT: &str = "shows when pages that were durable are damaged on top of a power loss";
const OLD_RECORD: &str = "a record that was given up has to lie just where the log of a later life ends";
const KILL_THEN_POWER: &str =
    "a kill has to hit a write on its way, and the power to go before the same bytes are written again";

const POSTGRESQL: &str = "tortures are of databases of ours, and this is about PostgreSQL's";

/// Names of defects, and why no torture finds them.
const BEYOND: [(&str, &str); 19] = [
    ("spool-notes-not-synced", POSTGRESQL),
    ("restored-files-not-synced", POSTGRESQL),
    ("restored-control-not-synced", POSTGRESQL),
    ("os-fallback-not-synced", "the kernel of this machine refuses nothing"),
    ("nonces-short", "no torture looks at nonces, and nonces of a simulated database are those of a seed"),
    ("new-map-page-refused", "databases of tortures have one page of the space map"),
    ("new-map-page-not-linked", "databases of tortures have one page of the space map"),
    ("recycled-before-name-synced", "a writer has to fill a segment during one call of another thread"),
    ("tail-not-zeroed", OLD_RECORD),
    ("pending-not-zeroed", OLD_RECORD),
    ("last-batch-not-written-again", KILL_THEN_POWER),
    ("chunk-not-written-again", KILL_THEN_POWER),
    ("holds-not-synced", "tortures make few holds, and lose none of the log that they need"),
    ("version-not-checked", "a reader has to meet the moment in which pages change places"),
    ("freed-pages-written-unsynced", SECOND_FAULT),
    ("punched-before-sync", SECOND_FAULT),
    ("images-before-sync", "a page has to be torn whose other copy several threads have just written"),
    ("region-pieces-overlap", "chunks of tortures seldom have regions of more than a mebibyte"),
    ("keys-name-not-synced", "no torture changes the master key"),
];

/// Why no torture hunts for it; `None` if they do.
pub(super) fn why(defect: &str) -> Option<&'static str> {
    BEYOND.iter().find(|(beyond, _)| *beyond == defect).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::BEYOND;
    use crate::sabotage::defects;

    #[test]
    fn what_is_beyond_the_tortures_is_declared() {
        for (name, _) in BEYOND {
            assert!(defects::find(name).is_some(), "no crate declares {name}");
        }
    }
}
