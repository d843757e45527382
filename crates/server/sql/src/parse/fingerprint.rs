//! Statements that differ in constants only are told as one: by a number, and by a text with `$1` in the place of each constant.
//!
//! White space, comments and the case of words without quotes do not count. So passwords and other values are not in the text.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::Text;
use super::lexer::Lexer;
use super::token::TokenKind;

/// Bytes of a statement that are looked at: what differs only after them is one statement.
const READ_BYTES_MAX: usize = 64 << 10;
/// Bytes of the text that are kept.
const TEXT_BYTES_MAX: usize = 2 << 10;

/// What a statement is, whatever its constants are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Never 0.
    pub(crate) id: i64,
    pub(crate) text: Arc<str>,
}

impl Fingerprint {
    pub(crate) fn of(text: &Text) -> Fingerprint {
        let range = text.range();
        let end = text.source().floor_char_boundary(range.end.min(range.start + READ_BYTES_MAX));
        let mut lexer = Lexer::new(text.source(), range.start, end);
        let mut shown =
            Shown { text: String::new(), constants: highest_parameter(text, end), last_end: None };
        let mut hash = Sha256::new();
        // What is no token, such as a string that is cut off, ends what is looked at.
        while let Ok(Some(token)) = lexer.next() {
            let written = &text.source()[token.start..token.end];
            let is_apart = shown.last_end.is_some_and(|last| last < token.start);
            shown.last_end = Some(token.end);
            let piece = match &token.kind {
                TokenKind::String(_)
                | TokenKind::Bits(_)
                | TokenKind::HexadecimalBits(_)
                | TokenKind::Number(_) => {
                    hash.update(b"?");
                    shown.constant()
                }
                TokenKind::Word(word) => {
                    hash.update(word.as_bytes());
                    written.to_owned()
                }
                TokenKind::Quoted(name) => {
                    hash.update(name.as_bytes());
                    written.to_owned()
                }
                TokenKind::Parameter(_)
                | TokenKind::Operator(_)
                | TokenKind::Character(_)
                | TokenKind::Cast
                | TokenKind::ColonEquals
                | TokenKind::Dots => {
                    hash.update(written.as_bytes());
                    written.to_owned()
                }
            };
            hash.update([0]);
            shown.push(&piece, is_apart);
        }
        Fingerprint { id: number(&hash.finalize()), text: Arc::from(shown.text) }
    }
}

/// The text that is built.
struct Shown {
    text: String,
    /// The number of the last constant.
    constants: u32,
    last_end: Option<usize>,
}

impl Shown {
    fn constant(&mut self) -> String {
        self.constants = self.constants.saturating_add(1);
        format!("${}", self.constants)
    }

    fn push(&mut self, piece: &str, is_apart: bool) {
        if self.text.len() < TEXT_BYTES_MAX {
            self.text.push_str(if is_apart { " " } else { "" });
            self.text.push_str(piece);
            self.text.truncate(self.text.floor_char_boundary(TEXT_BYTES_MAX));
        }
    }
}

/// Numbers of constants follow those of parameters.
fn highest_parameter(text: &Text, end: usize) -> u32 {
    let mut lexer = Lexer::new(text.source(), text.range().start, end);
    let mut highest = 0;
    if !text.statement().contains('$') {
        return highest;
    }
    while let Ok(Some(token)) = lexer.next() {
        if let TokenKind::Parameter(parameter) = &token.kind {
            highest = highest.max(parameter.trim_start_matches('$').parse().unwrap_or(0));
        }
    }
    highest
}

fn number(hash: &[u8]) -> i64 {
    let number = i64::from_le_bytes(hash.first_chunk::<8>().copied().unwrap_or_default());
    if number == 0 { 1 } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Fingerprint {
        Fingerprint::of(&Text::new(text))
    }

    #[test]
    fn constants_space_and_case_do_not_count() {
        let one = of("SELECT  a, 'x' FROM t -- why\n WHERE b=1.5");
        let other = of("select a,E'\\ny' from T where b = 2");
        assert_eq!(one.id, other.id);
        assert_eq!(&*one.text, "SELECT a, $1 FROM t WHERE b=$2");
        assert_eq!(&*other.text, "select a,$1 from T where b = $2");
    }

    #[test]
    fn names_operators_and_parameters_count() {
        let base = of("select a from t where b = $1 and c = 5");
        assert_eq!(&*base.text, "select a from t where b = $1 and c = $2");
        for other in [
            "select \"A\" from t where b = $1 and c = 5",
            "select a from t where b > $1 and c = 5",
            "select a from t where b = $2 and c = 5",
            "select a from t where b = $1 and c = 5 and d = 6",
            "select ab from t where b = $1 and c = 5",
        ] {
            assert_ne!(of(other).id, base.id, "{other}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let text = of("alter role a password 'tell nobody'").text;
        assert_eq!(&*text, "alter role a password $1");
    }

    #[test]
    fn long_texts_are_cut() {
        let long = format!("select {}", vec!["column_with_a_long_name"; 50_000].join(", "));
        let found = of(&long);
        assert!(found.text.len() <= TEXT_BYTES_MAX, "{}", found.text.len());
        assert_eq!(found.id, of(&format!("{long}, more")).id);
        // Cut off in the middle of a string of characters of several bytes.
        let strings = format!("select '{}'", "é".repeat(40_000));
        assert_eq!(&*of(&strings).text, "select");
    }
}
