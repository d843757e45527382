//! Row keys in two parts, and the search in the slots that leaves and interior pages share.
//!
//! A page stores the prefix that all its keys share once. Its slots are an array of *heads*, the first four bytes after
//! that prefix as a number (shorter suffixes are filled up with zeros), followed by an array of cell offsets. A binary
//! search runs over the heads alone, four to the 16 bytes, and looks at cells only where heads are equal.

use std::cmp::Ordering;
use std::fmt;

/// A key in two parts: what all keys of its page share, and the rest. Compared as if they were one.
#[derive(Clone, Copy)]
pub struct RowKey<'a> {
    prefix: &'a [u8],
    suffix: &'a [u8],
}

impl<'a> RowKey<'a> {
    /// The key `prefix` followed by `suffix`.
    pub const fn new(prefix: &'a [u8], suffix: &'a [u8]) -> RowKey<'a> {
        RowKey { prefix, suffix }
    }

    /// The part that all keys of the page share.
    pub const fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// The part after it.
    pub const fn suffix(&self) -> &'a [u8] {
        self.suffix
    }

    /// Length of the whole key.
    #[expect(clippy::len_without_is_empty, reason = "a key is never asked whether it is empty")]
    pub const fn len(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// The key from byte `start` on, in two parts.
    pub fn skip(&self, start: usize) -> RowKey<'a> {
        let in_prefix = start.min(self.prefix.len());
        let in_suffix = (start - in_prefix).min(self.suffix.len());
        RowKey { prefix: &self.prefix[in_prefix..], suffix: &self.suffix[in_suffix..] }
    }

    /// Appends the whole key.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.prefix);
        bytes.extend_from_slice(self.suffix);
    }

    /// The whole key, copied.
    pub fn to_vec(&self) -> Vec<u8> {
        [self.prefix, self.suffix].concat()
    }

    /// How this key stands to `other`.
    #[inline]
    pub fn compare(&self, other: &[u8]) -> Ordering {
        match other.split_at_checked(self.prefix.len()) {
            Some((start, rest)) => self.prefix.cmp(start).then_with(|| self.suffix.cmp(rest)),
            // `other` is shorter than the prefix: where it is equal so far, it is the smaller one.
            None => self.prefix.cmp(other),
        }
    }

    /// How many first bytes both keys share.
    pub fn common_prefix_bytes(&self, other: &RowKey<'_>) -> usize {
        let mut shared = 0;
        loop {
            let (left, right) = (self.skip(shared).piece(), other.skip(shared).piece());
            let equal = common_prefix_bytes(left, right);
            shared += equal;
            if equal == 0 || equal < left.len().min(right.len()) {
                return shared;
            }
        }
    }

    /// The first part that is not empty.
    fn piece(&self) -> &'a [u8] {
        if self.prefix.is_empty() { self.suffix } else { self.prefix }
    }
}

impl<'a> From<&'a [u8]> for RowKey<'a> {
    fn from(key: &'a [u8]) -> RowKey<'a> {
        RowKey { prefix: &[], suffix: key }
    }
}

impl Ord for RowKey<'_> {
    fn cmp(&self, other: &RowKey<'_>) -> Ordering {
        if self.prefix.len() == other.prefix.len() {
            return self.prefix.cmp(other.prefix).then_with(|| self.suffix.cmp(other.suffix));
        }
        let shared = self.common_prefix_bytes(other);
        self.skip(shared).piece().first().cmp(&other.skip(shared).piece().first())
    }
}

impl PartialOrd for RowKey<'_> {
    fn partial_cmp(&self, other: &RowKey<'_>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RowKey<'_> {
    fn eq(&self, other: &RowKey<'_>) -> bool {
        self.len() == other.len() && self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RowKey<'_> {}

impl fmt::Debug for RowKey<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.to_vec().escape_ascii())
    }
}

/// How many first bytes `left` and `right` share.
#[inline]
pub fn common_prefix_bytes(left: &[u8], right: &[u8]) -> usize {
    // Eight at a time: keys of one table share at least the eight bytes of its id.
    let (left_words, _) = left.as_chunks::<8>();
    let (right_words, _) = right.as_chunks::<8>();
    let words = left_words.iter().zip(right_words).take_while(|(a, b)| a == b).count();
    let start = words * 8;
    start + left[start..].iter().zip(&right[start..]).take_while(|(a, b)| a == b).count()
}

/// The shortest key that is greater than `left` and at most `right`: the separator between two pages that end with one
/// and start with the other. `left` must be smaller than `right`.
pub fn shortest_separator(left: &RowKey<'_>, right: &RowKey<'_>) -> Vec<u8> {
    let mut separator = right.to_vec();
    separator.truncate(left.common_prefix_bytes(right) + 1);
    separator
}

/// The head of a suffix.
#[inline]
pub(super) fn head_of(suffix: &[u8]) -> u32 {
    match suffix.first_chunk::<4>() {
        Some(head) => u32::from_be_bytes(*head),
        None => {
            let mut head = [0; 4];
            head[..suffix.len()].copy_from_slice(suffix);
            u32::from_be_bytes(head)
        }
    }
}

/// The head of a suffix in two parts.
#[inline]
pub(super) fn head_of_parts(suffix: &RowKey<'_>) -> u32 {
    if suffix.prefix().is_empty() {
        return head_of(suffix.suffix());
    }
    if let Some(head) = suffix.prefix().first_chunk::<4>() {
        return u32::from_be_bytes(*head);
    }
    let mut head = [0; 4];
    let bytes = suffix.prefix().iter().chain(suffix.suffix());
    head.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u32::from_be_bytes(head)
}

/// Where `key` stands to all keys that begin with `prefix`; `Equal` if it begins with it too.
#[inline]
pub(super) fn order_to_prefix(key: &[u8], prefix: &[u8]) -> Ordering {
    match key.get(..prefix.len()) {
        Some(start) => start.cmp(prefix),
        // A shorter key that is equal so far sorts before every key with this prefix.
        None => key.cmp(prefix),
    }
}

/// Searches `suffix` among sorted suffixes with these heads: its index, or where it would stand.
#[inline]
pub(super) fn search_suffixes<'a>(
    heads: &[[u8; 4]],
    suffix: &[u8],
    suffix_at: impl Fn(usize) -> &'a [u8],
) -> Result<usize, usize> {
    let target = head_of(suffix);
    let mut low = first_at_least(heads, target);
    let has_target = |index: usize| heads.get(index).is_some_and(|head| u32::from_le_bytes(*head) == target);
    if !has_target(low) {
        return Err(low);
    }
    let mut high = low + 1;
    if has_target(high) {
        high = target.checked_add(1).map_or(heads.len(), |next| first_at_least(heads, next));
    }
    while low < high {
        let middle = low + (high - low) / 2;
        match suffix_at(middle).cmp(suffix) {
            Ordering::Less => low = middle + 1,
            Ordering::Equal => return Ok(middle),
            Ordering::Greater => high = middle,
        }
    }
    Err(low)
}

/// The first head that is at least `target`. No branch depends on a head, so nothing is mispredicted.
#[inline]
fn first_at_least(heads: &[[u8; 4]], target: u32) -> usize {
    let mut base = 0;
    let mut size = heads.len();
    if size == 0 {
        return 0;
    }
    while size > 1 {
        let half = size / 2;
        let smaller = u32::from_le_bytes(heads[base + half - 1]) < target;
        base = std::hint::select_unpredictable(smaller, base + half, base);
        size -= half;
    }
    base + usize::from(u32::from_le_bytes(heads[base]) < target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_two_parts_compare_as_one() {
        let keys: [&[u8]; 9] =
            [b"", b"a", b"a\0", b"ab", b"abc", b"abcdefgh", b"abcdefghi", b"abcdefgz", b"b"];
        for left in keys {
            for right in keys {
                for cut in 0..=left.len() {
                    let key = RowKey::new(&left[..cut], &left[cut..]);
                    assert_eq!(key.compare(right), left.cmp(right), "{key:?} {right:?}");
                    for other_cut in 0..=right.len() {
                        let other = RowKey::new(&right[..other_cut], &right[other_cut..]);
                        assert_eq!(key.cmp(&other), left.cmp(right));
                        let shared = left.iter().zip(right).take_while(|(a, b)| a == b).count();
                        assert_eq!(key.common_prefix_bytes(&other), shared);
                    }
                }
            }
        }
    }

    #[test]
    fn separator_is_short_and_between() {
        let separator = shortest_separator(&RowKey::from(&b"abcd"[..]), &RowKey::from(&b"abxyz"[..]));
        assert_eq!(separator, b"abx");
        let separator = shortest_separator(&RowKey::from(&b"ab"[..]), &RowKey::from(&b"ab\0\0"[..]));
        assert_eq!(separator, b"ab\0");
    }

    #[test]
    fn first_head_is_found_for_every_length() {
        for count in 0..40_u32 {
            let heads: Vec<[u8; 4]> = (0..count).map(|index| (index / 2 * 10).to_le_bytes()).collect();
            for target in 0..count * 5 + 12 {
                let expected = heads.iter().filter(|head| u32::from_le_bytes(**head) < target).count();
                assert_eq!(first_at_least(&heads, target), expected);
            }
        }
    }
}
