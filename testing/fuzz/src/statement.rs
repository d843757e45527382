//! Texts of statements.

use seawall_sql::count_statements;

use crate::input::Entries;

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[("statement", statement)];

/// Any text. An error is one of the writer's, and its place is in the text.
pub fn statement(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Err(error) = count_statements(&text) {
        assert_ne!(error.code.as_str(), "XX000", "{error}");
        let place = usize::try_from(error.position.unwrap_or(1)).expect("a place is no longer than a text");
        assert!((1..=text.chars().count() + 1).contains(&place), "{place}: {error}");
    }
}
