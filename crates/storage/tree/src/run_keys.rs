//! Where sorted runs stand in the tree: in key ranges of their own, under numbers that no table has.
//!
//! ```text
//!   key of a row of a run  =  number of the run's range (8 bytes, big-endian)  +  the row's own key, whole
//! ```
//! The tree does not know what a run is for. It knows which keys they have, since only there a row may be deleted.

use std::ops::Range;

use crate::page::RowKey;

/// The numbers of the ranges of runs: the first 8 bytes of their keys.
pub const RUN_NUMBERS: Range<u64> = (1 << 63) + (1 << 32)..(1 << 63) + (1 << 61);

/// Whether a key is that of a row of a run.
pub(crate) fn is_run_key(key: RowKey<'_>) -> bool {
    let (first, end) = (RUN_NUMBERS.start.to_be_bytes(), RUN_NUMBERS.end.to_be_bytes());
    key.compare(&first).is_ge() && key.compare(&end).is_lt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_runs_are_those_between_their_numbers() {
        let is_of_run = |number: u64| is_run_key(RowKey::from(&[number.to_be_bytes(), [7; 8]].concat()[..]));
        assert!(!is_of_run(64) && !is_of_run(RUN_NUMBERS.start - 1) && !is_of_run(RUN_NUMBERS.end));
        assert!(is_of_run(RUN_NUMBERS.start) && is_of_run(RUN_NUMBERS.end - 1));
        assert!(!is_run_key(RowKey::from(&RUN_NUMBERS.start.to_be_bytes()[..7])));
    }
}
