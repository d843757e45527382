//! Tokens of a path.

use crate::error::{SqlError, SqlResult, SqlState};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a keyword.
    Word(String),
    Text(String),
    Number(String),
    /// `$name`.
    Variable(String),
    /// An operator or a mark.
    Symbol(&'static str),
    End,
}

/// Longer ones first.
const SYMBOLS: &[&str] = &[
    "**", "&&", "||", "==", "!=", "<>", "<=", ">=", "$", "@", ".", "[", "]", "(", ")", "{", "}", "?", "*",
    "/", "%", "+", "-", ",", "!", "<", ">",
];

pub(super) struct Lexer<'a> {
    pub(super) rest: &'a str,
}

#[cold]
pub(super) fn syntax_error(near: &str) -> Box<SqlError> {
    let message = if near.is_empty() {
        "syntax error at end of jsonpath input".to_owned()
    } else {
        format!("syntax error at or near \"{near}\" of jsonpath input")
    };
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

fn is_word(character: char) -> bool {
    !character.is_ascii_whitespace() && !"?%$.[]{}()|&!=<>@#,*:-+/\"\\".contains(character)
}

impl<'a> Lexer<'a> {
    /// The next token, with its text.
    pub(super) fn next(&mut self) -> SqlResult<(Token, &'a str)> {
        self.skip_blanks()?;
        let start = self.rest;
        let token = self.token()?;
        Ok((token, &start[..start.len() - self.rest.len()]))
    }

    fn skip_blanks(&mut self) -> SqlResult<()> {
        loop {
            self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
            let Some(comment) = self.rest.strip_prefix("/*") else { return Ok(()) };
            let Some(end) = comment.find("*/") else {
                let message = "unexpected end of comment at end of jsonpath input";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            };
            self.rest = &comment[end + 2..];
        }
    }

    fn token(&mut self) -> SqlResult<Token> {
        let bytes = self.rest.as_bytes();
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        match bytes.first() {
            None => Ok(Token::End),
            Some(b'"') => {
                self.rest = &self.rest[1..];
                self.quoted().map(Token::Text)
            }
            Some(b'$') if self.rest[1..].starts_with('"') => {
                self.rest = &self.rest[2..];
                self.quoted().map(Token::Variable)
            }
            Some(b'$') if self.rest[1..].starts_with(|c| is_word(c) || c == '\\') => {
                self.rest = &self.rest[1..];
                self.word().map(Token::Variable)
            }
            Some(b'.') if is_digit(1) => self.number(),
            Some(byte) if byte.is_ascii_digit() => self.number(),
            Some(_) => match SYMBOLS.iter().find(|symbol| self.rest.starts_with(**symbol)) {
                Some(symbol) => {
                    self.rest = &self.rest[symbol.len()..];
                    Ok(Token::Symbol(if *symbol == "<>" { "!=" } else { symbol }))
                }
                None => self.word().map(Token::Word),
            },
        }
    }

    fn number(&mut self) -> SqlResult<Token> {
        let bytes = self.rest.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut end = digits(0);
        if bytes.get(end) == Some(&b'.') {
            end += 1 + digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent > 0 {
                end += 1 + sign + exponent;
            }
        }
        let (number, rest) = self.rest.split_at(end);
        if rest.starts_with(is_word) {
            let message = format!(
                "trailing junk after numeric literal at or near \"{}\" of jsonpath input",
                &self.rest[..end + 1]
            );
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        self.rest = rest;
        Ok(Token::Number(number.to_owned()))
    }

    fn word(&mut self) -> SqlResult<String> {
        let mut word = String::new();
        loop {
            let end = self.rest.find(|character| !is_word(character)).unwrap_or(self.rest.len());
            word.push_str(&self.rest[..end]);
            self.rest = &self.rest[end..];
            match self.rest.strip_prefix('\\') {
                Some(rest) => {
                    self.rest = rest;
                    self.escape(&mut word)?;
                }
                None if word.is_empty() => {
                    return Err(syntax_error(self.rest.get(..1).unwrap_or(self.rest)));
                }
                None => return Ok(word),
            }
        }
    }

    /// The rest of a quoted text.
    fn quoted(&mut self) -> SqlResult<String> {
        let mut text = String::new();
        loop {
            let Some(end) = self.rest.find(['"', '\\']) else {
                let message = "unterminated quoted string at end of jsonpath input";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            };
            text.push_str(&self.rest[..end]);
            let is_escape = self.rest[end..].starts_with('\\');
            self.rest = &self.rest[end + 1..];
            if !is_escape {
                return Ok(text);
            }
            self.escape(&mut text)?;
        }
    }

    /// The character after a backslash.
    fn escape(&mut self, text: &mut String) -> SqlResult<()> {
        let Some(first) = self.rest.chars().next() else {
            let message = "unexpected end after backslash at end of jsonpath input";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        };
        self.rest = &self.rest[first.len_utf8()..];
        text.push(match first {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => self.checked_character(2)?,
            'u' if self.rest.starts_with('{') => {
                let end =
                    self.rest.find('}').filter(|end| (2..=7).contains(end)).ok_or_else(invalid_escape)?;
                let code = u32::from_str_radix(&self.rest[1..end], 16).map_err(|_| invalid_escape())?;
                self.rest = &self.rest[end + 1..];
                character(code)?
            }
            'u' => self.unicode()?,
            other => other,
        });
        Ok(())
    }

    fn hexadecimal(&mut self, digits: usize) -> SqlResult<u32> {
        let code = self.rest.get(..digits).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(invalid_escape)?;
        self.rest = &self.rest[digits..];
        Ok(code)
    }

    fn checked_character(&mut self, digits: usize) -> SqlResult<char> {
        character(self.hexadecimal(digits)?)
    }

    /// Four digits; two halves of a pair make one character.
    fn unicode(&mut self) -> SqlResult<char> {
        let code = self.hexadecimal(4)?;
        if !(0xD800..0xDC00).contains(&code) {
            return character(code);
        }
        self.rest = self.rest.strip_prefix("\\u").ok_or_else(invalid_escape)?;
        let low = self.hexadecimal(4)?;
        if !(0xDC00..0xE000).contains(&low) {
            return Err(invalid_escape());
        }
        character(0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00))
    }
}

fn character(code: u32) -> SqlResult<char> {
    if code == 0 {
        return Err(SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
            .with_detail("\\u0000 cannot be converted to text."));
    }
    char::from_u32(code).ok_or_else(invalid_escape)
}

#[cold]
fn invalid_escape() -> Box<SqlError> {
    let message = "invalid Unicode escape sequence of jsonpath input";
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}
