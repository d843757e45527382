//! Text to tokens, by the rules of PostgreSQL's own lexer (`scan.l`), with its errors.

mod numbers;
mod strings;

use seawall_values::{SqlError, SqlState};

use super::token::{Token, TokenKind};

/// What operators are made of.
const OPERATOR_CHARACTERS: &[u8] = b"~!@#^&|`?+-*/%<>=";
/// An operator that ends in `+` or `-` has one of these.
const OPERATOR_CHARACTERS_BEFORE_SIGN: &[u8] = b"~!@#^&|`?%";
/// Names are cut to so many bytes.
pub(super) const NAME_BYTES_MAX: usize = 63;

/// Reads tokens, one by one.
pub(super) struct Lexer<'a> {
    source: &'a str,
    bytes: &'a [u8],
    /// The next byte.
    at: usize,
    /// Where the text ends: a byte of the source.
    end: usize,
    /// A byte whose place in characters is known, and that place, from 1.
    known: (usize, u32),
}

type LexerResult<T> = Result<T, Box<SqlError>>;

impl<'a> Lexer<'a> {
    /// A lexer of the bytes from `start` to `end` of `source`.
    pub(super) fn new(source: &'a str, start: usize, end: usize) -> Lexer<'a> {
        let characters = source[..start].chars().count();
        let known = (start, u32::try_from(characters).unwrap_or(u32::MAX).saturating_add(1));
        Lexer { source, bytes: source.as_bytes(), at: start, end, known }
    }

    pub(super) fn source(&self) -> &'a str {
        self.source
    }

    /// The position after the last character.
    pub(super) fn end_position(&mut self) -> u32 {
        self.position_of(self.end)
    }

    /// The next token; `None`: the text has ended.
    pub(super) fn next(&mut self) -> LexerResult<Option<Token>> {
        self.skip_space()?;
        let start = self.at;
        let Some(byte) = self.peek(0) else { return Ok(None) };
        let kind = self.kind(byte)?;
        let position = self.position_of(start);
        let end_position = self.position_of(self.at);
        Ok(Some(Token { kind, start, end: self.at, position, end_position }))
    }

    fn kind(&mut self, byte: u8) -> LexerResult<TokenKind> {
        let next = self.peek(1);
        match byte {
            b'\'' => self.plain_string(1).map(TokenKind::String),
            b'e' | b'E' if next == Some(b'\'') => self.escaped_string().map(TokenKind::String),
            b'b' | b'B' if next == Some(b'\'') => self.bit_string("bit").map(TokenKind::Bits),
            b'x' | b'X' if next == Some(b'\'') => {
                self.bit_string("hexadecimal").map(TokenKind::HexadecimalBits)
            }
            b'u' | b'U' if next == Some(b'&') && matches!(self.peek(2), Some(b'\'' | b'"')) => self.unicode(),
            b'"' => self.quoted_name(1).map(TokenKind::Quoted),
            b'$' => self.dollar(),
            b'0'..=b'9' => self.number().map(TokenKind::Number),
            b'.' if next.is_some_and(|next| next.is_ascii_digit()) => self.number().map(TokenKind::Number),
            b'.' if next == Some(b'.') => Ok(self.taken(2, TokenKind::Dots)),
            b':' if next == Some(b':') => Ok(self.taken(2, TokenKind::Cast)),
            b':' if next == Some(b'=') => Ok(self.taken(2, TokenKind::ColonEquals)),
            b',' | b'(' | b')' | b'[' | b']' | b'.' | b';' | b':' => {
                Ok(self.taken(1, TokenKind::Character(char::from(byte))))
            }
            _ if OPERATOR_CHARACTERS.contains(&byte) => Ok(self.operator()),
            _ if begins_name(byte) => Ok(self.word()),
            _ => {
                let character = self.source[self.at..].chars().next().unwrap_or('\0');
                Ok(self.taken(character.len_utf8(), TokenKind::Character(character)))
            }
        }
    }

    fn taken(&mut self, bytes: usize, kind: TokenKind) -> TokenKind {
        self.at += bytes;
        kind
    }

    /// White space and comments.
    fn skip_space(&mut self) -> LexerResult<()> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(byte), _) if is_space(byte) => self.at += 1,
                (Some(b'-'), Some(b'-')) => self.skip_line(),
                (Some(b'/'), Some(b'*')) => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|byte| byte != b'\n' && byte != b'\r') {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) -> LexerResult<()> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b'/'), Some(b'*')) => {
                    depth += 1;
                    self.at += 2;
                }
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                (Some(_), _) => self.at += 1,
                (None, _) => return Err(self.error_near("unterminated /* comment", start)),
            }
        }
    }

    fn word(&mut self) -> TokenKind {
        let start = self.at;
        while self.peek(0).is_some_and(continues_name) {
            self.at += 1;
        }
        TokenKind::Word(cut(self.source[start..self.at].to_ascii_lowercase()))
    }

    /// The longest run of operator characters that neither begins a comment nor ends in a sign that belongs to a number after it.
    fn operator(&mut self) -> TokenKind {
        let start = self.at;
        let mut end = start;
        while end < self.end && OPERATOR_CHARACTERS.contains(&self.bytes[end]) {
            let is_comment = matches!(&self.bytes[end..self.end.min(end + 2)], b"--" | b"/*");
            if is_comment && end > start {
                break;
            }
            end += 1;
        }
        let may_end_in_sign =
            self.bytes[start..end].iter().any(|byte| OPERATOR_CHARACTERS_BEFORE_SIGN.contains(byte));
        while !may_end_in_sign && end > start + 1 && matches!(self.bytes[end - 1], b'+' | b'-') {
            end -= 1;
        }
        self.at = end;
        let text = &self.source[start..end];
        TokenKind::Operator(if text == "!=" { "<>" } else { text }.to_owned())
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        let at = self.at + ahead;
        if at < self.end { self.bytes.get(at).copied() } else { None }
    }

    /// The place in characters of a byte that is not before the last one that was asked for.
    fn position_of(&mut self, byte: usize) -> u32 {
        let (known, position) = self.known;
        let characters = self.bytes[known..byte].iter().filter(|byte| (**byte & 0xC0) != 0x80).count();
        self.known = (byte, position.saturating_add(u32::try_from(characters).unwrap_or(u32::MAX)));
        self.known.1
    }

    /// `42601`: `message at or near "text"`, with the text from `start` to where the lexer is.
    fn error_near(&mut self, message: &str, start: usize) -> Box<SqlError> {
        let message = format!("{message} at or near \"{}\"", &self.source[start..self.at]);
        self.error_at(SqlState::SYNTAX_ERROR, message, start)
    }

    fn error_at(&mut self, code: SqlState, message: impl Into<String>, byte: usize) -> Box<SqlError> {
        let position = self.position_of(byte.max(self.known.0));
        SqlError::new(code, message).at(Some(position))
    }
}

/// A name is cut after its 63rd byte, between characters.
pub(super) fn cut(mut name: String) -> String {
    if name.len() > NAME_BYTES_MAX {
        let end = (0..=NAME_BYTES_MAX).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
        name.truncate(end);
    }
    name
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0C)
}

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn continues_name(byte: u8) -> bool {
    begins_name(byte) || byte.is_ascii_digit() || byte == b'$'
}
