//! Text to JSON: one parser for `json` (which keeps its text) and `jsonb` (which does not); the caller's builder makes the values.

use std::ops::Range;

use crate::error::{SqlError, SqlResult, SqlState};

/// Levels of nesting; more is refused, since every level takes some of the stack.
pub const DEPTH_MAX: usize = 1_000;

/// Makes values from parts of a text. `span` is the part.
pub(crate) trait Build {
    /// A value.
    type Value;

    /// `null`.
    fn null(&mut self, span: Range<usize>) -> SqlResult<Self::Value>;
    /// `true` or `false`.
    fn boolean(&mut self, value: bool, span: Range<usize>) -> SqlResult<Self::Value>;
    /// A number, as written.
    fn number(&mut self, text: &str, span: Range<usize>) -> SqlResult<Self::Value>;
    /// A string, without its quotes and escapes if `READS_ESCAPES`.
    fn string(&mut self, text: String, span: Range<usize>) -> SqlResult<Self::Value>;
    /// An array.
    fn array(&mut self, values: Vec<Self::Value>, span: Range<usize>) -> SqlResult<Self::Value>;
    /// An object: members as written.
    fn object(&mut self, members: Vec<(String, Self::Value)>, span: Range<usize>) -> SqlResult<Self::Value>;
    /// Whether escapes in strings are replaced, which refuses those that no text can have. `json` only looks at their form.
    const READS_ESCAPES: bool;
}

/// Parses a whole text.
pub(crate) fn parse<B: Build>(text: &str, builder: &mut B) -> SqlResult<B::Value> {
    let mut parser = Parser { lexer: Lexer::new(text, B::READS_ESCAPES), builder, depth: 0 };
    parser.lexer.advance()?;
    let value = parser.value()?;
    parser.expect(Token::End, Expected::End)?;
    Ok(value)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Comma,
    Colon,
    String,
    Number,
    True,
    False,
    Null,
    End,
}

/// Where in the grammar a token was not expected.
#[derive(Clone, Copy)]
enum Expected {
    Value,
    String,
    ArrayNext,
    ObjectStart,
    ObjectLabel,
    ObjectNext,
    End,
}

struct Parser<'a, 'b, B> {
    lexer: Lexer<'a>,
    builder: &'b mut B,
    depth: usize,
}

impl<B: Build> Parser<'_, '_, B> {
    fn value(&mut self) -> SqlResult<B::Value> {
        let span = self.lexer.start..self.lexer.end;
        let value = match self.lexer.token {
            Token::ObjectStart => return self.nested(Self::object),
            Token::ArrayStart => return self.nested(Self::array),
            Token::Null => self.builder.null(span)?,
            Token::True => self.builder.boolean(true, span)?,
            Token::False => self.builder.boolean(false, span)?,
            Token::Number => self.builder.number(&self.lexer.text[span.clone()], span)?,
            Token::String => {
                let text = std::mem::take(&mut self.lexer.string);
                self.builder.string(text, span)?
            }
            _ => return Err(self.lexer.unexpected(Expected::Value)),
        };
        self.lexer.advance()?;
        Ok(value)
    }

    fn nested(&mut self, parse: fn(&mut Self) -> SqlResult<B::Value>) -> SqlResult<B::Value> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(super::too_deep());
        }
        let value = parse(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> SqlResult<B::Value> {
        let start = self.lexer.start;
        self.lexer.advance()?;
        let mut values = Vec::new();
        if self.lexer.token != Token::ArrayEnd {
            values.push(self.value()?);
            while self.lexer.token == Token::Comma {
                self.lexer.advance()?;
                values.push(self.value()?);
            }
        }
        let end = self.lexer.end;
        self.expect(Token::ArrayEnd, Expected::ArrayNext)?;
        self.builder.array(values, start..end)
    }

    fn object(&mut self) -> SqlResult<B::Value> {
        let start = self.lexer.start;
        self.lexer.advance()?;
        let mut members = Vec::new();
        match self.lexer.token {
            Token::String => {
                members.push(self.member()?);
                while self.lexer.token == Token::Comma {
                    self.lexer.advance()?;
                    members.push(self.member()?);
                }
            }
            Token::ObjectEnd => {}
            _ => return Err(self.lexer.unexpected(Expected::ObjectStart)),
        }
        let end = self.lexer.end;
        self.expect(Token::ObjectEnd, Expected::ObjectNext)?;
        self.builder.object(members, start..end)
    }

    fn member(&mut self) -> SqlResult<(String, B::Value)> {
        if self.lexer.token != Token::String {
            return Err(self.lexer.unexpected(Expected::String));
        }
        let key = std::mem::take(&mut self.lexer.string);
        self.lexer.advance()?;
        self.expect(Token::Colon, Expected::ObjectLabel)?;
        Ok((key, self.value()?))
    }

    fn expect(&mut self, token: Token, expected: Expected) -> SqlResult<()> {
        if self.lexer.token != token {
            return Err(self.lexer.unexpected(expected));
        }
        if token == Token::End { Ok(()) } else { self.lexer.advance() }
    }
}

struct Lexer<'a> {
    text: &'a str,
    reads_escapes: bool,
    token: Token,
    start: usize,
    end: usize,
    /// The value of a string.
    string: String,
    line: usize,
    line_start: usize,
}

/// Bytes of a word: what an error shows whole.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str, reads_escapes: bool) -> Lexer<'a> {
        Lexer {
            text,
            reads_escapes,
            token: Token::End,
            start: 0,
            end: 0,
            string: String::new(),
            line: 1,
            line_start: 0,
        }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn advance(&mut self) -> SqlResult<()> {
        let mut at = self.end;
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.byte(at) {
            at += 1;
            if byte == b'\n' {
                self.line += 1;
                self.line_start = at;
            }
        }
        self.start = at;
        self.end = at + 1;
        self.token = match self.byte(at) {
            None => {
                self.end = at;
                Token::End
            }
            Some(b'{') => Token::ObjectStart,
            Some(b'}') => Token::ObjectEnd,
            Some(b'[') => Token::ArrayStart,
            Some(b']') => Token::ArrayEnd,
            Some(b',') => Token::Comma,
            Some(b':') => Token::Colon,
            Some(b'"') => return self.string(),
            Some(b'-') => return self.number(at + 1),
            Some(b'0'..=b'9') => return self.number(at),
            Some(_) => return self.word(),
        };
        Ok(())
    }

    fn word(&mut self) -> SqlResult<()> {
        let rest = &self.text.as_bytes()[self.start..];
        let length = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
        self.end = self.start + length.max(1);
        self.token = match &rest[..length] {
            b"true" => Token::True,
            b"false" => Token::False,
            b"null" => Token::Null,
            _ => return Err(self.invalid_token()),
        };
        Ok(())
    }

    fn digits(&self, mut at: usize) -> usize {
        while self.byte(at).is_some_and(|byte| byte.is_ascii_digit()) {
            at += 1;
        }
        at
    }

    fn number(&mut self, mut at: usize) -> SqlResult<()> {
        let mut is_valid = true;
        match self.byte(at) {
            Some(b'0') => at += 1,
            Some(b'1'..=b'9') => at = self.digits(at),
            _ => is_valid = false,
        }
        if self.byte(at) == Some(b'.') {
            let end = self.digits(at + 1);
            is_valid &= end > at + 1;
            at = end;
        }
        if let Some(b'e' | b'E') = self.byte(at) {
            at += 1;
            if let Some(b'+' | b'-') = self.byte(at) {
                at += 1;
            }
            let end = self.digits(at);
            is_valid &= end > at;
            at = end;
        }
        while self.byte(at).is_some_and(is_word) {
            is_valid = false;
            at += 1;
        }
        self.end = at;
        self.token = Token::Number;
        if is_valid { Ok(()) } else { Err(self.invalid_token()) }
    }

    fn string(&mut self) -> SqlResult<()> {
        self.string.clear();
        let mut high_surrogate = None;
        let mut at = self.start + 1;
        loop {
            let run = &self.text.as_bytes()[at..];
            let length = run.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..32)).unwrap_or(run.len());
            if length > 0 && high_surrogate.is_some() {
                return Err(self.lone_low_surrogate(at));
            }
            self.string.push_str(&self.text[at..at + length]);
            at += length;
            match self.byte(at) {
                None => return Err(self.unfinished(at)),
                Some(b'"') => break,
                Some(b'\\') => at = self.escape(at + 1, &mut high_surrogate)?,
                Some(byte) => {
                    self.end = at;
                    return Err(self.error(format!("Character with value 0x{byte:02x} must be escaped.")));
                }
            }
        }
        if high_surrogate.is_some() {
            return Err(self.lone_low_surrogate(at));
        }
        self.end = at + 1;
        self.token = Token::String;
        Ok(())
    }

    /// Reads what follows a backslash at `at`; returns the place after it.
    fn escape(&mut self, at: usize, high_surrogate: &mut Option<u32>) -> SqlResult<usize> {
        let Some(byte) = self.byte(at) else { return Err(self.unfinished(at)) };
        if byte == b'u' {
            return self.unicode_escape(at, high_surrogate);
        }
        if high_surrogate.is_some() {
            return Err(self.lone_low_surrogate(at));
        }
        self.string.push(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            _ => {
                self.start = at;
                self.end = self.after_character(at);
                return Err(
                    self.error(format!("Escape sequence \"\\{}\" is invalid.", &self.text[at..self.end]))
                );
            }
        });
        Ok(at + 1)
    }

    fn unicode_escape(&mut self, at: usize, high_surrogate: &mut Option<u32>) -> SqlResult<usize> {
        let mut code = 0;
        for place in at + 1..at + 5 {
            let Some(byte) = self.byte(place) else { return Err(self.unfinished(place)) };
            let Some(digit) = char::from(byte).to_digit(16) else {
                self.end = self.after_character(place);
                return Err(self.error("\"\\u\" must be followed by four hexadecimal digits.".to_owned()));
            };
            code = code * 16 + digit;
        }
        if !self.reads_escapes {
            return Ok(at + 5);
        }
        let code = match (code, *high_surrogate) {
            (0xD800..0xDC00, Some(_)) => {
                self.end = at + 5;
                let detail = "Unicode high surrogate must not follow a high surrogate.";
                return Err(self.error(detail.to_owned()));
            }
            (0xD800..0xDC00, None) => {
                *high_surrogate = Some(code);
                return Ok(at + 5);
            }
            (0xDC00..0xE000, Some(high)) => 0x10000 + ((high & 0x3FF) << 10) + (code & 0x3FF),
            (0xDC00..0xE000, None) | (_, Some(_)) => return Err(self.lone_low_surrogate(at + 4)),
            (code, None) => code,
        };
        *high_surrogate = None;
        match char::from_u32(code) {
            Some('\0') | None => {
                self.end = at + 5;
                let error =
                    SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
                        .with_detail("\\u0000 cannot be converted to text.");
                Err(self.with_context(error))
            }
            Some(character) => {
                self.string.push(character);
                Ok(at + 5)
            }
        }
    }

    fn after_character(&self, at: usize) -> usize {
        at + self.text[at..].chars().next().map_or(0, char::len_utf8)
    }

    fn unfinished(&mut self, at: usize) -> Box<SqlError> {
        self.end = at.min(self.text.len());
        self.invalid_token()
    }

    fn lone_low_surrogate(&mut self, at: usize) -> Box<SqlError> {
        self.end = self.after_character(at);
        self.error("Unicode low surrogate must follow a high surrogate.".to_owned())
    }

    fn invalid_token(&self) -> Box<SqlError> {
        self.error(format!("Token \"{}\" is invalid.", &self.text[self.start..self.end]))
    }

    #[cold]
    fn unexpected(&self, expected: Expected) -> Box<SqlError> {
        if self.token == Token::End {
            return self.error("The input string ended unexpectedly.".to_owned());
        }
        let wanted = match expected {
            Expected::Value => "JSON value",
            Expected::String => "string",
            Expected::ArrayNext => "\",\" or \"]\"",
            Expected::ObjectStart => "string or \"}\"",
            Expected::ObjectLabel => "\":\"",
            Expected::ObjectNext => "\",\" or \"}\"",
            Expected::End => "end of input",
        };
        self.error(format!("Expected {wanted}, but found \"{}\".", &self.text[self.start..self.end]))
    }

    #[cold]
    fn error(&self, detail: String) -> Box<SqlError> {
        let error =
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json");
        self.with_context(error.with_detail(detail))
    }

    /// Adds the end of the line that was read so far, at most 50 bytes of it.
    fn with_context(&self, mut error: Box<SqlError>) -> Box<SqlError> {
        let end = self.end;
        let mut start = self.line_start.min(end);
        while end - start >= 50 {
            start = self.after_character(start);
        }
        if start - self.line_start.min(start) <= 3 {
            start = self.line_start.min(end);
        }
        let prefix = if start > self.line_start { "..." } else { "" };
        let is_at_end = self.token == Token::End && self.start == self.end
            || matches!(self.byte(end), None | Some(b'\n' | b'\r'));
        let suffix = if is_at_end { "" } else { "..." };
        error.context =
            Some(format!("JSON data, line {}: {prefix}{}{suffix}", self.line, &self.text[start..end]));
        error
    }
}
