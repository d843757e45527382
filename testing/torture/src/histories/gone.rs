//! What a power loss may take of a history: commits that did not wait for the disk, the newest of all, and what was read of them.
//!
//! ```text
//!   commit order:   s1  a2  s3  a4  a5 | a6  a7         a: `Async`, s: `Sync`
//!                          recovered ^   ^ gone: both, or the newest alone; never a4 without a5, and never s3
//! ```
//! The history up to the loss is held to its level as it was. Afterwards what is gone never was: it counts as aborted, and whoever
//! has read of it and wrote nothing that is there saw a state that is gone, too. Whoever wrote something that is there has read what
//! did not commit, which the checker tells.

use std::collections::HashSet;

use super::history::{Element, History, Key, Operation, Outcome, Transaction};

/// Takes what is gone out of a history whose last transaction has read everything after the power loss; how many commits.
///
/// # Errors
/// A commit that is gone and may not be.
pub(super) fn take(history: &mut History) -> Result<u64, String> {
    let there: HashSet<(Key, Element)> = history.last().map(elements_read).unwrap_or_default();
    let gone: Vec<usize> = (0..history.len()).filter(|&index| is_gone(&history[index], &there)).collect();
    check_prefix(history, &gone, &there)?;
    for &index in &gone {
        history[index].outcome = Outcome::Aborted;
    }
    for transaction in history.iter_mut() {
        let has_read_what_is_gone = elements_read(transaction).iter().any(|read| !there.contains(read));
        let is_there = transaction.appends().any(|append| there.contains(&append));
        if has_read_what_is_gone && !is_there {
            transaction.operations.retain(|operation| matches!(operation, Operation::Append { .. }));
        }
    }
    clamp_positions(history);
    Ok(gone.len() as u64)
}

/// Where the log was lost behind the last commit that is there, another log has the same positions since. So what a standby has read there
/// saw all up to that commit, and nothing that comes.
fn clamp_positions(history: &mut History) {
    let is_commit = |transaction: &&Transaction| transaction.is_committed() && !transaction.place.is_standby;
    let last = history.iter().filter(is_commit).filter_map(|transaction| transaction.place.position).max();
    for reader in history.iter_mut().filter(|transaction| transaction.place.is_standby) {
        reader.place.position = reader.place.position.min(last);
    }
}

/// No standby has shown what the power took: only what is durable is sent to it. `after` ends with the look at everything.
///
/// # Errors
/// What one has shown.
pub(super) fn check_standbys(before: &History, after: &History) -> Result<(), String> {
    let there = after.last().map(elements_read).unwrap_or_default();
    let readers = before.iter().enumerate().filter(|(_, reader)| reader.place.is_standby);
    for (index, reader) in readers {
        if let Some((key, element)) = elements_read(reader).difference(&there).next() {
            return Err(format!(
                "transaction {index} read {element} in list {key} on a standby, and the power took it from the primary's disk"
            ));
        }
    }
    Ok(())
}

fn elements_read(transaction: &Transaction) -> HashSet<(Key, Element)> {
    transaction.reads().flat_map(|(key, list)| list.iter().map(move |element| (key, *element))).collect()
}

/// It was committed, and something it appended is not there.
fn is_gone(transaction: &Transaction, there: &HashSet<(Key, Element)>) -> bool {
    transaction.is_committed() && transaction.appends().any(|append| !there.contains(&append))
}

/// Nothing is gone that was on stable storage, nor a part of a transaction, nor anything that had ended before another began that
/// is there.
fn check_prefix(history: &History, gone: &[usize], there: &HashSet<(Key, Element)>) -> Result<(), String> {
    let is_there = |transaction: &&Transaction| transaction.appends().any(|append| there.contains(&append));
    let last_begun = history.iter().filter(is_there).map(|transaction| transaction.begin).max();
    for &index in gone {
        let lost = &history[index];
        if lost.is_durable {
            return Err(format!("transaction {index} waited for the disk, and the power took it"));
        }
        if is_there(&lost) {
            return Err(format!("of transaction {index} the power took a part"));
        }
        if last_begun.is_some_and(|begin| begin > lost.end) {
            return Err(format!(
                "the power took transaction {index}, which had ended at {}, and not one that began at {}",
                lost.end,
                last_begun.unwrap_or_default()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::history::Place;
    use super::*;

    fn transaction(moment: u64, is_durable: bool, operations: Vec<Operation>) -> Transaction {
        let (begin, end, outcome) = (10 * moment, 10 * moment + 5, Outcome::Committed);
        Transaction { client: 1, begin, end, outcome, is_durable, operations, place: Place::default() }
    }

    fn append(element: Element) -> Operation {
        Operation::Append { key: 1, element }
    }

    fn read(list: &[Element]) -> Operation {
        Operation::Read { key: 1, list: list.to_vec() }
    }

    /// Commits of 1 to 4, the second on stable storage, then a reader of all, then the look after the power loss.
    fn history(left: &[Element]) -> History {
        let mut history: History =
            (1..5).map(|moment| transaction(moment, moment == 2, vec![append(moment)])).collect();
        history.push(transaction(5, true, vec![read(&[1, 2, 3, 4])]));
        history.push(transaction(9, true, vec![read(left)]));
        history
    }

    #[test]
    fn the_newest_that_did_not_wait_may_be_gone_with_what_was_read_of_them() {
        for (left, gone) in [(&[1, 2, 3, 4][..], 0), (&[1, 2, 3], 1), (&[1, 2], 2)] {
            let mut history = history(left);
            assert_eq!(take(&mut history), Ok(gone));
            let aborted =
                history.iter().filter(|transaction| transaction.outcome == Outcome::Aborted).count();
            assert_eq!(aborted as u64, gone);
            assert_eq!(history[4].reads().count(), usize::from(gone == 0), "the reader of all");
        }
    }

    #[test]
    fn what_waited_for_the_disk_and_what_others_followed_may_not_be_gone() {
        for (left, what) in [(&[1][..], "waited for the disk"), (&[1, 2, 4], "and not one that began")] {
            let error = take(&mut history(left)).expect_err("it may not");
            assert!(error.contains(what), "{error}");
        }
    }
}
