//! What the writer's transactions write: known from thread and number alone, so that the reader can tell every row.
//!
//! ```text
//!   transaction n of thread t:   put (t, n, 0), (t, n, 1), ...     1 to 6 rows of all sizes
//!                                put (t, last) = n + 1, life       one row that every transaction updates
//!                                delete the rows of n - KEPT       so that the table stays small and trees shrink
//! ```
//! After `c` transactions of a thread its rows are exactly those of the last `KEPT` of them, and `last` says `c`. Any
//! other picture is a transaction that is there in part, one that is missing in the middle, or one that came back.

use seawall_simulation::SeededRandom;

/// The table of all threads.
pub(super) const TABLE: &str = "rows";
/// How many transactions of a thread have their rows there.
pub(super) const KEPT: u64 = 24;

/// Number of a writing thread.
pub(super) type Thread = u16;

/// A key and its value.
pub(super) type Row = (Vec<u8>, Vec<u8>);

/// What all keys of a thread start with.
pub(super) fn prefix(thread: Thread) -> Vec<u8> {
    thread.to_be_bytes().to_vec()
}

/// The key of the row that counts a thread's transactions: the last one of the thread.
pub(super) fn count_key(thread: Thread) -> Vec<u8> {
    [&thread.to_be_bytes()[..], &[0xFF; 8]].concat()
}

/// The value of that row: how many there are, and the life in which the last one was written.
pub(super) fn encode_count(count: u64, life: u64) -> Vec<u8> {
    [count.to_be_bytes(), life.to_be_bytes()].concat()
}

/// `None` if it is no such value.
pub(super) fn decode_count(value: &[u8]) -> Option<(u64, u64)> {
    let (count, life) = value.split_at_checked(8)?;
    Some((u64::from_be_bytes(count.try_into().ok()?), u64::from_be_bytes(life.try_into().ok()?)))
}

/// The rows that transaction `number` of `thread` puts, in the order of their keys.
pub(super) fn rows(thread: Thread, number: u64) -> Vec<Row> {
    let mut random = SeededRandom::new((u64::from(thread) << 48) ^ number);
    let count = random.range(1..7);
    let row = |index: u64| {
        let index = u8::try_from(index).expect("there are few");
        let key = [&thread.to_be_bytes()[..], &number.to_be_bytes(), &[index]].concat();
        let bytes = length(&mut random);
        (key, random.bytes(bytes))
    };
    (0..count).map(row).collect()
}

/// Mostly small; now and then larger than a page, than a block of the log, than the log's buffer likes.
fn length(random: &mut SeededRandom) -> usize {
    let range = match random.below(400) {
        0 => 100_000..400_000,
        1..=4 => 10_000..60_000,
        5..=40 => 1_000..9_000,
        _ => 0..200,
    };
    usize::try_from(random.range(range)).expect("a value fits into memory")
}

/// A table that is loaded at once, made anew now and then: it is there whole or not at all.
pub(super) fn bulk_table(thread: Thread) -> String {
    format!("loaded by thread {thread}")
}

/// Its rows, in the order of their keys.
pub(super) fn bulk_rows(thread: Thread) -> impl Iterator<Item = Row> {
    (0..150).flat_map(move |number| rows(thread, number))
}

/// Compares the rows of a thread with those that there must be after `count` transactions; what is wrong, if anything.
pub(super) fn difference(thread: Thread, count: u64, found: &mut dyn Iterator<Item = Row>) -> Option<String> {
    let expected = (count.saturating_sub(KEPT)..count)
        .flat_map(|number| rows(thread, number).into_iter().map(move |row| (number, row)));
    let mut found = found.filter(|(key, _)| *key != count_key(thread));
    for (number, (key, value)) in expected {
        let what = format!("thread {thread} counts {count} transactions; of number {number}");
        match found.next() {
            None => return Some(format!("{what} row {} is missing", key.escape_ascii())),
            Some((other, _)) if other != key => {
                return Some(format!(
                    "{what} row {} is {} instead",
                    key.escape_ascii(),
                    other.escape_ascii()
                ));
            }
            Some((_, other)) if other != value => {
                return Some(format!("{what} row {} has another value", key.escape_ascii()));
            }
            Some(_) => {}
        }
    }
    let (key, _) = found.next()?;
    Some(format!("thread {thread} counts {count} transactions, but there is row {}", key.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(numbers: std::ops::Range<u64>) -> Vec<Row> {
        numbers.flat_map(|number| rows(3, number)).collect()
    }

    #[test]
    fn a_whole_history_has_no_difference_and_each_change_of_it_has_one() {
        let whole = all(10..34);
        assert_eq!(difference(3, 34, &mut whole.clone().into_iter()), None);
        for index in 0..whole.len() {
            let mut without = whole.clone();
            without.remove(index);
            assert!(difference(3, 34, &mut without.into_iter()).is_some(), "row {index} is missing");
            let mut changed = whole.clone();
            changed[index].1.push(0);
            assert!(difference(3, 34, &mut changed.into_iter()).is_some(), "row {index} is another");
        }
        assert!(difference(3, 33, &mut whole.clone().into_iter()).is_some(), "one too many");
        assert!(difference(3, 35, &mut whole.into_iter()).is_some(), "one too few");
        assert!(difference(3, 34, &mut all(9..34).into_iter()).is_some(), "one came back");
    }
}
