//! What the text of a stored expression names: columns alone, without their table; types and relations by their numbers.

use seawall_values::user_types::of_stored_name;
use seawall_values::{Oid, SqlResult};

use crate::catalog::names::quoted;

/// A piece of the text of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    /// A word without quotes.
    Word(&'a str),
    /// An identifier in quotes, with them.
    Quoted(&'a str),
    /// A string.
    Literal(&'a str),
    Space(&'a str),
    /// Anything else: one character, or `::`.
    Other(&'a str),
}

impl<'a> Piece<'a> {
    fn text(self) -> &'a str {
        match self {
            Piece::Word(text) | Piece::Quoted(text) | Piece::Literal(text) => text,
            Piece::Space(text) | Piece::Other(text) => text,
        }
    }
}

/// The end of what a quote begins: a doubled quote, or a quote after a backslash in an escape string, is inside.
fn end_of_quoted(text: &str, quote: u8, has_escapes: bool) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        if has_escapes && *byte == b'\\' {
            at += 2;
        } else if *byte != quote {
            at += 1;
        } else if bytes.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    text.len()
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_in_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
        let is_escape = matches!(pieces.last(), Some(Piece::Word("E" | "e")));
        let length = match first {
            '\'' => end_of_quoted(rest, b'\'', is_escape),
            '"' => end_of_quoted(rest, b'"', false),
            letter if is_in_word(letter) => rest.find(|letter| !is_in_word(letter)).unwrap_or(rest.len()),
            letter if letter.is_whitespace() => {
                rest.find(|letter: char| !letter.is_whitespace()).unwrap_or(rest.len())
            }
            _ if rest.starts_with("::") => 2,
            other => other.len_utf8(),
        };
        let (piece, following) = rest.split_at(length);
        pieces.push(match first {
            '\'' => Piece::Literal(piece),
            '"' => Piece::Quoted(piece),
            letter if is_in_word(letter) => Piece::Word(piece),
            letter if letter.is_whitespace() => Piece::Space(piece),
            _ => Piece::Other(piece),
        });
        rest = following;
    }
    pieces
}

/// A column as an expression.
pub(super) fn column(name: &str) -> String {
    quoted(name)
}

/// The types of users and the relations that a text names.
pub(super) fn objects_named(text: &str) -> Vec<Oid> {
    let pieces: Vec<Piece<'_>> =
        pieces(text).into_iter().filter(|piece| !matches!(piece, Piece::Space(_))).collect();
    let mut found = Vec::new();
    for three in pieces.windows(3) {
        let named = match three {
            [Piece::Word("pg_catalog"), Piece::Other("."), Piece::Quoted(number)] => {
                of_stored_name(number.trim_matches('"'))
            }
            [Piece::Literal(number), Piece::Other("::"), Piece::Word("regclass")] => {
                number.trim_matches('\'').parse().ok()
            }
            _ => None,
        };
        found.extend(named.filter(|of| !found.contains(of)));
    }
    found
}

/// The text with another name for a column. Types, functions and literals that look like it stay.
pub(super) fn with_column_renamed(text: &str, name: &str, to: &str) -> SqlResult<String> {
    let (written, in_quotes) = (quoted(name), format!("\"{}\"", name.replace('"', "\"\"")));
    let pieces = pieces(text);
    let is_space = |piece: &&Piece<'_>| !matches!(piece, Piece::Space(_));
    let mut renamed = String::with_capacity(text.len());
    for (position, piece) in pieces.iter().enumerate() {
        let is_name = match piece {
            Piece::Word(word) => *word == written,
            Piece::Quoted(word) => *word == in_quotes,
            Piece::Literal(_) | Piece::Space(_) | Piece::Other(_) => false,
        };
        let before = pieces[..position].iter().rfind(is_space).copied();
        let after = pieces[position + 1..].iter().find(is_space).copied();
        let is_type = match before {
            Some(Piece::Other("::" | ".")) => true,
            Some(Piece::Word(word)) => word.eq_ignore_ascii_case("as"),
            _ => false,
        };
        let is_other = is_type || matches!(after, Some(Piece::Other("(" | ".") | Piece::Literal(_)));
        renamed.push_str(if is_name && !is_other { "" } else { piece.text() });
        if is_name && !is_other {
            renamed.push_str(&quoted(to));
        }
    }
    Ok(renamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_relations_are_found_by_their_numbers() {
        let of = seawall_values::user_types::enum_number(7).unwrap();
        let name = seawall_values::user_types::stored_name(of);
        let text = format!("(('a'::{name})::text = nextval('16384'::regclass)::{name}[] || '5'::text)");
        assert_eq!(objects_named(&text), [of, 16_384]);
    }

    #[test]
    fn a_column_gets_another_name_and_nothing_else_does() {
        let renamed = |text: &str, name: &str, to: &str| with_column_renamed(text, name, to).unwrap();
        assert_eq!(renamed("((a > 0) AND (ab < a))", "a", "b c"), "((\"b c\" > 0) AND (ab < \"b c\"))");
        assert_eq!(renamed("(a = 'a''a'::a)", "a", "b"), "(b = 'a''a'::a)");
        assert_eq!(renamed("a(a, E'\\'a', \"a\")", "a", "b"), "a(b, E'\\'a', b)");
        assert_eq!(
            renamed("CAST(date AS date) > date '2001-01-01'", "date", "d"),
            "CAST(d AS date) > date '2001-01-01'"
        );
        assert_eq!(
            renamed("(\"case\" = CASE a WHEN 1 THEN 2 END)", "case", "k"),
            "(k = CASE a WHEN 1 THEN 2 END)"
        );
        assert_eq!(renamed("\"größe\" > 1", "größe", "x"), "x > 1");
        assert_eq!(renamed("'unclosed a", "a", "b"), "'unclosed a");
    }
}
