//! Strings and names in quotes.

use seawall_values::{SqlError, SqlState};

use super::super::token::TokenKind;
use super::{Lexer, LexerResult, begins_name, continues_name, cut, is_space};

impl Lexer<'_> {
    /// `'it''s'`, after a prefix: everything up to the closing quote, and after a line break in the next ones.
    pub(super) fn plain_string(&mut self, prefix: usize) -> LexerResult<String> {
        self.quoted_string(prefix, "unterminated quoted string")
    }

    /// `B'01'`, `X'1F'`. Which digits are in it is checked where its value is made.
    pub(super) fn bit_string(&mut self, what: &str) -> LexerResult<String> {
        self.quoted_string(2, &format!("unterminated {what} string literal"))
    }

    fn quoted_string(&mut self, prefix: usize, unterminated: &str) -> LexerResult<String> {
        let start = self.at;
        self.at += prefix;
        let mut value = String::new();
        loop {
            let part = self.at;
            while self.peek(0).is_some_and(|byte| byte != b'\'') {
                self.at += 1;
            }
            value.push_str(&self.source[part..self.at]);
            match (self.peek(0), self.peek(1)) {
                (None, _) => return Err(self.error_near(unterminated, start)),
                (_, Some(b'\'')) => {
                    value.push('\'');
                    self.at += 2;
                }
                _ => {
                    self.at += 1;
                    if !self.continues_string() {
                        return Ok(value);
                    }
                }
            }
        }
    }

    /// After a closing quote: whether there is a line break and then another quote, which continues the string. If so, goes into it.
    fn continues_string(&mut self) -> bool {
        let end = self.at;
        let mut has_line_break = false;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(byte), _) if is_space(byte) => {
                    has_line_break |= matches!(byte, b'\n' | b'\r');
                    self.at += 1;
                }
                (Some(b'-'), Some(b'-')) if has_line_break => self.skip_line(),
                (Some(b'\''), _) if has_line_break => {
                    self.at += 1;
                    return true;
                }
                _ => {
                    self.at = end;
                    return false;
                }
            }
        }
    }

    /// `E'a\n'`.
    pub(super) fn escaped_string(&mut self) -> LexerResult<String> {
        let start = self.at;
        self.at += 2;
        let mut value: Vec<u8> = Vec::new();
        loop {
            match (self.peek(0), self.peek(1)) {
                (None, _) | (Some(b'\\'), None) => {
                    self.at = self.end;
                    return Err(self.error_near("unterminated quoted string", start));
                }
                (Some(b'\''), Some(b'\'')) => {
                    value.push(b'\'');
                    self.at += 2;
                }
                (Some(b'\''), _) => {
                    self.at += 1;
                    if !self.continues_string() {
                        break;
                    }
                }
                (Some(b'\\'), Some(escape)) => self.escape(escape, &mut value)?,
                (Some(byte), _) => {
                    value.push(byte);
                    self.at += 1;
                }
            }
        }
        Self::checked_text(value)
    }

    /// One escape: at the backslash, with the byte after it.
    fn escape(&mut self, escape: u8, value: &mut Vec<u8>) -> LexerResult<()> {
        self.at += 2;
        match escape {
            b'b' => value.push(0x08),
            b'f' => value.push(0x0C),
            b'n' => value.push(b'\n'),
            b'r' => value.push(b'\r'),
            b't' => value.push(b'\t'),
            b'0'..=b'7' => {
                self.at -= 1;
                let code = self.escape_digits(3, 8);
                // As in PostgreSQL, `\777` is cut to a byte.
                value.push(code.to_le_bytes()[0]);
            }
            b'x' if self.peek(0).is_some_and(|byte| byte.is_ascii_hexdigit()) => {
                let code = self.escape_digits(2, 16);
                value.push(code.to_le_bytes()[0]);
            }
            b'u' => return self.unicode_escape(4, value),
            b'U' => return self.unicode_escape(8, value),
            other => value.push(other),
        }
        Ok(())
    }

    fn escape_digits(&mut self, most: usize, radix: u32) -> u32 {
        let mut code = 0;
        for _ in 0..most {
            let Some(digit) = self.peek(0).and_then(|byte| char::from(byte).to_digit(radix)) else { break };
            code = code * radix + digit;
            self.at += 1;
        }
        code
    }

    /// The digits of `\u` or `\U`, and for the first half of a surrogate pair the other half's escape.
    fn unicode_escape(&mut self, digits: usize, value: &mut Vec<u8>) -> LexerResult<()> {
        let escape = self.at - 2;
        let Some(code) = self.code_point(digits) else {
            return Err(
                self.invalid_unicode_escape(escape, "Unicode escapes must be \\uXXXX or \\UXXXXXXXX.")
            );
        };
        let code = if (0xD800..0xDC00).contains(&code) {
            let second = match (self.peek(0), self.peek(1)) {
                (Some(b'\\'), Some(b'u')) => Some(4),
                (Some(b'\\'), Some(b'U')) => Some(8),
                _ => None,
            };
            let missing = self.at;
            let Some(digits) = second else {
                self.skip_piece();
                return Err(self.invalid_surrogates(missing));
            };
            self.at += 2;
            let second = self.code_point(digits);
            match second {
                Some(second) if (0xDC00..0xE000).contains(&second) => joined(code, second),
                _ => return Err(self.invalid_surrogates(missing)),
            }
        } else {
            code
        };
        self.push_code_point(code, escape, value)
    }

    /// To where the lexer of PostgreSQL would stop within a string: after a quote, an escape, or what stands before these.
    fn skip_piece(&mut self) {
        match self.peek(0) {
            Some(b'\'' | b'\\') => self.at += 1,
            _ => {
                while self.peek(0).is_some_and(|byte| byte != b'\'' && byte != b'\\') {
                    self.at += 1;
                }
            }
        }
    }

    fn push_code_point(&mut self, code: u32, escape: usize, value: &mut Vec<u8>) -> LexerResult<()> {
        match char::from_u32(code) {
            Some(character) if code != 0 => {
                value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                Ok(())
            }
            _ if (0xDC00..0xE000).contains(&code) => Err(self.invalid_surrogates(escape)),
            _ => Err(self.error_near("invalid Unicode escape value", escape)),
        }
    }

    /// Exactly so many hexadecimal digits.
    fn code_point(&mut self, digits: usize) -> Option<u32> {
        let end = self.at + digits;
        let text = self.source.get(self.at..end).filter(|_| end <= self.end)?;
        let is_hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = u32::from_str_radix(text, 16).ok().filter(|_| is_hexadecimal)?;
        self.at = end;
        Some(code)
    }

    fn invalid_unicode_escape(&mut self, byte: usize, hint: &str) -> Box<SqlError> {
        self.error_at(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid Unicode escape", byte).with_hint(hint)
    }

    fn invalid_surrogates(&mut self, byte: usize) -> Box<SqlError> {
        let message = format!(
            "invalid Unicode surrogate pair at or near \"{}\"",
            &self.source[byte..self.at.max(byte)]
        );
        self.error_at(SqlState::SYNTAX_ERROR, message, byte)
    }

    /// The text that escapes of single bytes have made.
    fn checked_text(value: Vec<u8>) -> LexerResult<String> {
        if value.contains(&0) {
            return Err(invalid_bytes(&[0]));
        }
        String::from_utf8(value).map_err(|error| {
            let from = error.utf8_error().valid_up_to();
            let bytes = &error.as_bytes()[from..];
            let length = bytes.first().map_or(0, |first| sequence_length(*first)).min(bytes.len());
            invalid_bytes(&bytes[..length])
        })
    }

    /// `"name"`, after a prefix.
    pub(super) fn quoted_name(&mut self, prefix: usize) -> LexerResult<String> {
        let (start, name) = self.raw_quoted_name(prefix)?;
        if name.is_empty() {
            return Err(self.error_near("zero-length delimited identifier", start));
        }
        Ok(cut(name))
    }

    fn raw_quoted_name(&mut self, prefix: usize) -> LexerResult<(usize, String)> {
        let start = self.at;
        self.at += prefix;
        let mut name = String::new();
        loop {
            let part = self.at;
            while self.peek(0).is_some_and(|byte| byte != b'"') {
                self.at += 1;
            }
            name.push_str(&self.source[part..self.at]);
            match (self.peek(0), self.peek(1)) {
                (None, _) => return Err(self.error_near("unterminated quoted identifier", start)),
                (_, Some(b'"')) => {
                    name.push('"');
                    self.at += 2;
                }
                _ => {
                    self.at += 1;
                    return Ok((start, name));
                }
            }
        }
    }

    /// `U&'d\0061t'`, `U&"d!0061t" UESCAPE '!'`.
    pub(super) fn unicode(&mut self) -> LexerResult<TokenKind> {
        let start = self.at;
        let is_name = self.peek(2) == Some(b'"');
        let raw = if is_name { self.raw_quoted_name(3)?.1 } else { self.plain_string(3)? };
        let escape = self.unicode_escape_character()?;
        let value = self.without_unicode_escapes(&raw, escape, start + 3)?;
        match (is_name, value.is_empty()) {
            (true, true) => Err(self.error_near("zero-length delimited identifier", start)),
            (true, false) => Ok(TokenKind::Quoted(cut(value))),
            (false, _) => Ok(TokenKind::String(value)),
        }
    }

    /// What `UESCAPE` says, if it follows.
    fn unicode_escape_character(&mut self) -> LexerResult<char> {
        let end = self.at;
        self.skip_space()?;
        let word = self.at;
        while self.peek(0).is_some_and(continues_name) {
            self.at += 1;
        }
        if !self.source[word..self.at].eq_ignore_ascii_case("uescape") {
            self.at = end;
            return Ok('\\');
        }
        self.skip_space()?;
        let start = self.at;
        if self.peek(0) != Some(b'\'') {
            self.next()?;
            return Err(self.error_near("UESCAPE must be followed by a simple string literal", start));
        }
        let value = self.plain_string(1)?;
        let mut characters = value.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None)
                if !character.is_ascii_hexdigit()
                    && !matches!(character, '+' | '\'' | '"')
                    && !character.is_ascii_whitespace() =>
            {
                Ok(character)
            }
            _ => Err(self.error_near("invalid Unicode escape character", start)),
        }
    }

    fn without_unicode_escapes(&mut self, raw: &str, escape: char, first: usize) -> LexerResult<String> {
        const HINT: &str = "Unicode escapes must be \\XXXX or \\+XXXXXX.";
        let mut value = String::new();
        let mut pending: Option<u32> = None;
        let mut rest = raw;
        while let Some(character) = rest.chars().next() {
            let at = first + (raw.len() - rest.len());
            rest = &rest[character.len_utf8()..];
            let code = if character != escape {
                None
            } else if rest.starts_with(escape) {
                rest = &rest[escape.len_utf8()..];
                None
            } else {
                let (skipped, digits) = if rest.starts_with('+') { (1, 6) } else { (0, 4) };
                let text = rest
                    .get(skipped..skipped + digits)
                    .filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
                let code = text.and_then(|text| u32::from_str_radix(text, 16).ok());
                let Some(code) = code else {
                    return Err(self
                        .error_at(SqlState::SYNTAX_ERROR, "invalid Unicode escape", at)
                        .with_hint(HINT));
                };
                rest = &rest[skipped + digits..];
                Some(code)
            };
            let character = match (pending.take(), code) {
                (None, None) => character,
                (Some(first), Some(second)) if (0xDC00..0xE000).contains(&second) => {
                    char::from_u32(joined(first, second)).unwrap_or(char::REPLACEMENT_CHARACTER)
                }
                (Some(_), _) => {
                    return Err(self.error_at(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair", at));
                }
                (None, Some(code)) if (0xD800..0xDC00).contains(&code) => {
                    pending = Some(code);
                    continue;
                }
                (None, Some(code)) => match char::from_u32(code) {
                    Some(character) if code != 0 => character,
                    _ if (0xDC00..0xE000).contains(&code) => {
                        return Err(self.error_at(
                            SqlState::SYNTAX_ERROR,
                            "invalid Unicode surrogate pair",
                            at,
                        ));
                    }
                    _ => {
                        return Err(self.error_at(
                            SqlState::SYNTAX_ERROR,
                            "invalid Unicode escape value",
                            at,
                        ));
                    }
                },
            };
            value.push(character);
        }
        match pending {
            Some(_) => Err(self.error_at(
                SqlState::SYNTAX_ERROR,
                "invalid Unicode surrogate pair",
                first + raw.len(),
            )),
            None => Ok(value),
        }
    }

    /// `$tag$..$tag$`, `$1`, or a dollar that begins neither.
    pub(super) fn dollar(&mut self) -> LexerResult<TokenKind> {
        if self.peek(1).is_some_and(|byte| byte.is_ascii_digit()) {
            return self.parameter();
        }
        let start = self.at;
        let mut length = 1;
        if self.peek(1).is_some_and(begins_name) {
            while self.peek(length).is_some_and(|byte| continues_name(byte) && byte != b'$') {
                length += 1;
            }
        }
        if self.peek(length) != Some(b'$') {
            return Ok(self.taken(1, TokenKind::Character('$')));
        }
        let tag = &self.source[start..=start + length];
        let inner = start + tag.len();
        match self.source[inner..self.end].find(tag) {
            Some(found) => {
                self.at = inner + found + tag.len();
                Ok(TokenKind::String(self.source[inner..inner + found].to_owned()))
            }
            None => {
                self.at = self.end;
                Err(self.error_near("unterminated dollar-quoted string", start))
            }
        }
    }
}

/// The character that two surrogates stand for.
fn joined(first: u32, second: u32) -> u32 {
    ((first & 0x3FF) << 10) + 0x10000 + (second & 0x3FF)
}

fn sequence_length(first: u8) -> usize {
    match first {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    }
}

fn invalid_bytes(bytes: &[u8]) -> Box<SqlError> {
    let shown: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
}
