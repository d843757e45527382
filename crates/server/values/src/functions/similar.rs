//! Patterns of `SIMILAR TO` as regular expressions.

use super::Table;
use super::arguments::{mismatch, row};
use super::like::escape_character;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

pub(super) const TABLE: Table = &[
    ("similar_escape", |call| match call.arguments {
        [Datum::Null, _] => Ok(Datum::Null),
        [Datum::Text(pattern), Datum::Null] => converted(pattern, Some('\\')),
        [Datum::Text(pattern), Datum::Text(escape)] => converted(pattern, escape_character(escape)?),
        _ => Err(mismatch(call)),
    }),
    row!("similar_to_escape_1", [Text pattern], converted(pattern, Some('\\'))),
    row!("similar_to_escape_2", [Text pattern, Text escape], converted(pattern, escape_character(escape)?)),
];

fn converted(pattern: &str, escape: Option<char>) -> SqlResult<Datum> {
    expression(pattern, escape).map(Datum::text)
}

/// A value of `members` after which a `]` ends a bracket.
const PAST_START: usize = 2;

/// A pattern as a regular expression. `escape"` parts it: what is between two of them is the result of `substring`.
///
/// # Errors
/// `2200C` if there are more than two.
pub(super) fn expression(pattern: &str, escape: Option<char>) -> SqlResult<String> {
    let mut result = String::from("^(?:");
    let mut separators = 0;
    // Brackets that are open, one within another, and characters after the first of them as far as a `]` there is a member:
    // directly after `[` or `[^`.
    let (mut depth, mut members) = (0_usize, 0);
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            match characters.next() {
                Some('"') if depth == 0 => {
                    result.push_str(match separators {
                        0 => "){1,1}?(",
                        1 => "){1,1}(?:",
                        _ => return Err(too_many_separators()),
                    });
                    separators += 1;
                }
                Some(escaped) => {
                    result.extend(['\\', escaped]);
                    members = PAST_START;
                }
                None => {}
            }
        } else if depth > 0 {
            if character == '\\' {
                result.push('\\');
            }
            result.push(character);
            match character {
                ']' if members >= PAST_START => depth -= 1,
                '[' => depth += 1,
                _ => {}
            }
            members = if character == '^' { members + 1 } else { PAST_START };
        } else {
            match character {
                '[' => {
                    result.push('[');
                    (depth, members) = (1, 0);
                }
                '%' => result.push_str(".*"),
                '_' => result.push('.'),
                '(' => result.push_str("(?:"),
                '\\' | '.' | '^' | '$' => result.extend(['\\', character]),
                _ => result.push(character),
            }
        }
    }
    result.push_str(")$");
    Ok(result)
}

#[cold]
fn too_many_separators() -> Box<SqlError> {
    SqlError::new(
        SqlState::new(b"2200C"),
        "SQL regular expression may not contain more than two escape-double-quote separators",
    )
}
