//! What a store lists, as far as it can be believed.
//!
//! A name that is listed twice counts once, one that was not asked for is an error, and a store that lists the same names over and
//! over, so that a listing never ends, is found out, and so is one that never runs out of new ones. What a store leaves out cannot be known: it is missed where it is needed.
//! The directory itself, which some tools put as an empty object with a slash at its end, is no object.
//! Names are the store's word: what is put into a message is [`shown`] as one short line that no terminal obeys.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::ObjectEntry;

/// The longest name, in bytes. Stores allow 1024.
const NAME_BYTES_MAX: usize = 4096;
/// How many names more may be repeated than there are: pages of a listing overlap where objects are put meanwhile.
const REPEATED_MAX: usize = 1000;
/// The most that all names take: those of a hundred terabytes of segments do not.
const NAMES_BYTES_MAX: usize = 2 << 30;
/// What is shown of a name.
const SHOWN_CHARACTERS_MAX: usize = 300;

/// The objects that were listed so far.
#[derive(Debug)]
pub(super) struct Listing<'a> {
    prefix: &'a str,
    entries: BTreeMap<String, u64>,
    repeated: usize,
    names_bytes: usize,
    names_bytes_max: usize,
}

impl Listing<'_> {
    /// Of the objects whose path begins with `prefix`.
    pub(super) fn new(prefix: &str) -> Listing<'_> {
        let (entries, names_bytes_max) = (BTreeMap::new(), NAMES_BYTES_MAX);
        Listing { prefix, entries, repeated: 0, names_bytes: 0, names_bytes_max }
    }

    /// Takes the next one.
    ///
    /// # Errors
    /// Why no further one is to be asked for.
    pub(super) fn take(&mut self, path: String, bytes: u64) -> Result<(), String> {
        if path.len() > NAME_BYTES_MAX {
            return Err(format!("it lists a name of {} bytes: {}", path.len(), shown(&path)));
        }
        let is_directory = path == self.prefix.trim_end_matches('/');
        if !is_directory && !path.starts_with(self.prefix) {
            return Err(format!("it lists {}, which it was not asked for", shown(&path)));
        }
        let name_bytes = path.len();
        if is_directory || self.entries.insert(path, bytes).is_some() {
            self.repeated += 1;
        } else {
            self.names_bytes += name_bytes;
        }
        if self.names_bytes > self.names_bytes_max {
            let count = self.entries.len();
            return Err(format!("it has listed {count} names, and lists more without an end"));
        }
        if self.repeated > self.entries.len() + REPEATED_MAX {
            return Err(format!("it lists the same {} names over and over", self.entries.len()));
        }
        Ok(())
    }

    /// In order of path.
    pub(super) fn into_entries(self) -> Vec<ObjectEntry> {
        self.entries.into_iter().map(|(path, bytes)| ObjectEntry { path, bytes }).collect()
    }
}

/// Whether a terminal does something else with it than to show it: control characters, and those that turn the direction of what
/// follows.
pub(super) fn is_obeyed(character: char) -> bool {
    let turns = ['\u{200E}'..='\u{200F}', '\u{2028}'..='\u{202E}', '\u{2066}'..='\u{2069}'];
    character.is_control() || turns.iter().any(|range| range.contains(&character))
}

/// A name for a message: what a terminal would obey is escaped, and what is too long is cut.
pub(crate) fn shown(name: &str) -> Cow<'_, str> {
    if !name.contains(is_obeyed) && name.len() <= SHOWN_CHARACTERS_MAX {
        return Cow::Borrowed(name);
    }
    let mut text = String::new();
    for (index, character) in name.chars().enumerate() {
        if index == SHOWN_CHARACTERS_MAX {
            text.push_str("...");
            break;
        }
        match is_obeyed(character) {
            true => text.extend(character.escape_default()),
            false => text.push(character),
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_once_and_in_order() {
        let mut listing = Listing::new("a/");
        for (path, bytes) in [("a/c", 1), ("a/b", 2), ("a/c", 3)] {
            listing.take(path.to_owned(), bytes).unwrap();
        }
        let entry = |path: &str, bytes| ObjectEntry { path: path.to_owned(), bytes };
        assert_eq!(listing.into_entries(), [entry("a/b", 2), entry("a/c", 3)]);
    }

    #[test]
    fn what_was_not_asked_for_and_what_never_ends_is_refused() {
        let mut listing = Listing::new("a/");
        assert!(listing.take("b/c".to_owned(), 1).unwrap_err().contains("b/c"));
        assert!(listing.take(format!("a/{}", "x".repeat(5000)), 1).unwrap_err().contains("5002 bytes"));
        let taken = (0..10_000).map(|number| listing.take(format!("a/{}", number % 10), 1));
        let refused = taken.enumerate().find_map(|(count, taken)| Some((count, taken.err()?)));
        let (count, problem) = refused.expect("it would never end");
        assert!(count < 1100 && problem.contains("over and over"), "{count}: {problem}");
    }

    #[test]
    fn ever_new_names_come_to_an_end() {
        let mut listing = Listing { names_bytes_max: 1000, ..Listing::new("a/") };
        let mut taken = (0..1000).map(|number| listing.take(format!("a/{number:08}"), 1));
        let problem = taken.find_map(Result::err).expect("it would never end");
        assert!(problem.contains("101 names"), "{problem}");
    }

    #[test]
    fn the_directory_itself_is_no_object() {
        for (prefix, directory, object) in [("a/", "a", "a/b"), ("", "", "b")] {
            let mut listing = Listing::new(prefix);
            listing.take(directory.to_owned(), 0).unwrap();
            listing.take(object.to_owned(), 1).unwrap();
            let entries = listing.into_entries();
            assert!(entries.len() == 1 && entries[0].path == object, "{entries:?}");
        }
        let mut listing = Listing::new("a/");
        let mut taken = (0..10_000).map(|_| listing.take("a".to_owned(), 0));
        assert!(taken.any(|taken| taken.is_err()), "it would never end");
    }

    #[test]
    fn no_terminal_obeys_a_name() {
        assert_eq!(shown("keys/\u{e9}t\u{e9}"), "keys/\u{e9}t\u{e9}");
        assert_eq!(shown("a\n\u{1b}[31m\u{202E}b"), "a\\n\\u{1b}[31m\\u{202e}b");
        assert_eq!(shown(&"x".repeat(5000)).len(), SHOWN_CHARACTERS_MAX + 3);
    }
}
