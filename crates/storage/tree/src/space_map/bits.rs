//! Bits in 64-bit words.

use crate::page::PageFormat;

use super::pages_per_map;

/// The words of one map page, all clear.
pub(super) fn empty_words(format: &PageFormat) -> Vec<u64> {
    let words = usize::try_from(pages_per_map(format) / 64).expect("a map page has fewer than 2^32 bits");
    vec![0; words]
}

/// The first clear bit at or after `from`.
pub(super) fn first_clear(words: &[u64], from: usize) -> Option<usize> {
    first_where(words, from, |word| !word)
}

/// The first set bit at or after `from`.
fn first_set(words: &[u64], from: usize) -> Option<usize> {
    first_where(words, from, |word| word)
}

fn first_where(words: &[u64], from: usize, pick: impl Fn(u64) -> u64) -> Option<usize> {
    let mut index = from / 64;
    let mut word = pick(*words.get(index)?) & (u64::MAX << (from % 64));
    while word == 0 {
        index += 1;
        word = pick(*words.get(index)?);
    }
    Some(index * 64 + word.trailing_zeros() as usize)
}

/// The first run of `count` clear bits at or after `from`.
pub(super) fn clear_run(words: &[u64], from: usize, count: usize) -> Option<usize> {
    let end = words.len() * 64;
    let mut start = first_clear(words, from)?;
    while end - start >= count {
        match first_set(words, start) {
            Some(set) if set - start < count => start = first_clear(words, set)?,
            Some(_) | None => return Some(start),
        }
    }
    None
}

/// How many bits are clear from `start` on, up to `most`.
pub(super) fn clear_count(words: &[u64], start: usize, most: usize) -> usize {
    let end = first_set(words, start).unwrap_or(words.len() * 64);
    (end - start).min(most)
}

/// Whether `count` bits from `start` on are clear, all of which there are.
pub(super) fn are_clear(words: &[u64], start: usize, count: usize) -> bool {
    start + count <= words.len() * 64 && clear_count(words, start, count) == count
}

/// Sets `count` bits from `start` on.
pub(super) fn set(words: &mut [u64], start: usize, count: usize) {
    for_masks(start, count, |index, mask| words[index] |= mask);
}

/// Clears `count` bits from `start` on.
pub(super) fn clear(words: &mut [u64], start: usize, count: usize) {
    for_masks(start, count, |index, mask| words[index] &= !mask);
}

fn for_masks(start: usize, count: usize, mut each: impl FnMut(usize, u64)) {
    let (mut at, end) = (start, start + count);
    while at < end {
        let in_word = (64 - at % 64).min(end - at);
        let ones = if in_word == 64 { u64::MAX } else { (1 << in_word) - 1 };
        each(at / 64, ones << (at % 64));
        at += in_word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_over_word_borders_are_found_set_and_cleared() {
        let mut words = vec![0; 4];
        set(&mut words, 0, 256);
        assert_eq!(first_clear(&words, 0), None);
        clear(&mut words, 60, 70);
        assert_eq!(first_clear(&words, 3), Some(60));
        assert_eq!(first_clear(&words, 100), Some(100));
        assert_eq!(clear_run(&words, 0, 70), Some(60));
        assert_eq!(clear_run(&words, 61, 70), None);
        set(&mut words, 64, 1);
        assert_eq!(clear_run(&words, 0, 5), Some(65));
        assert_eq!(clear_run(&words, 0, 4), Some(60));
        clear(&mut words, 250, 6);
        assert_eq!(clear_run(&words, 130, 6), Some(250));
        assert_eq!(clear_run(&words, 130, 7), None);
        assert_eq!([clear_count(&words, 65, 100), clear_count(&words, 65, 9)], [65, 9]);
        assert_eq!([clear_count(&words, 250, 100), clear_count(&words, 0, 1)], [6, 0]);
        let clear = [(65, 65), (65, 66), (250, 6), (250, 7), (64, 1)];
        assert_eq!(
            clear.map(|(start, count)| are_clear(&words, start, count)),
            [true, false, true, false, false]
        );
    }
}
