//! Cuts the text of a date, time or interval into tokens.

use super::words::date_word;

/// Tokens, at most.
const TOKENS_MAX: usize = 25;

/// The form of a token, by its first characters and its punctuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Digits, perhaps with a decimal point.
    Number,
    /// Digits or letters with `-`, `/` or `.` between them.
    Date,
    /// Digits with `:`.
    Time,
    /// A sign and digits.
    SignedNumber,
    /// Letters.
    Word,
    /// A sign and letters.
    SignedWord,
}

/// A part of a text, letters in lower case.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) form: Form,
    pub(super) text: String,
}

struct Cutter<'a> {
    rest: std::iter::Peekable<std::str::Bytes<'a>>,
    text: String,
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

impl Cutter<'_> {
    fn peek(&mut self) -> u8 {
        self.rest.peek().copied().unwrap_or(0)
    }

    fn take(&mut self) {
        if let Some(byte) = self.rest.next() {
            self.text.push(char::from(byte.to_ascii_lowercase()));
        }
    }

    fn take_while(&mut self, accepts: impl Fn(u8) -> bool) {
        while self.rest.peek().is_some_and(|byte| accepts(*byte)) {
            self.take();
        }
    }

    fn skip_spaces(&mut self) {
        while is_space(self.peek()) {
            self.rest.next();
        }
    }

    /// A token that begins with a digit.
    fn number(&mut self) -> Form {
        self.take_while(|byte| byte.is_ascii_digit());
        let separator = self.peek();
        match separator {
            b':' => {
                self.take_while(|byte| byte.is_ascii_digit() || byte == b':' || byte == b'.');
                Form::Time
            }
            b'-' | b'/' | b'.' => {
                self.take();
                self.date_after(separator)
            }
            _ => Form::Number,
        }
    }

    /// The part of a date after its first separator: its others must be the same.
    fn date_after(&mut self, separator: u8) -> Form {
        if !self.peek().is_ascii_digit() {
            self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == separator);
            return Form::Date;
        }
        self.take_while(|byte| byte.is_ascii_digit());
        if self.peek() == separator {
            self.take_while(|byte| byte.is_ascii_digit() || byte == separator);
            return Form::Date;
        }
        if separator == b'.' { Form::Number } else { Form::Date }
    }

    /// A token that begins with a letter: a word, a date with the name of its month, or the name of a zone.
    fn word(&mut self) -> Form {
        self.take_while(|byte| byte.is_ascii_alphabetic());
        let next = self.peek();
        let is_joined = match next {
            b'-' | b'/' | b'.' => true,
            b'+' | b'0'..=b'9' => date_word(&self.text).is_none(),
            _ => false,
        };
        if !is_joined {
            return Form::Word;
        }
        self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte));
        Form::Date
    }

    /// A token that begins with a sign.
    fn signed(&mut self) -> Option<Form> {
        self.take();
        self.skip_spaces();
        if self.peek().is_ascii_digit() {
            self.take_while(|byte| byte.is_ascii_digit() || b":.-".contains(&byte));
            return Some(Form::SignedNumber);
        }
        if self.peek().is_ascii_alphabetic() {
            self.take_while(|byte| byte.is_ascii_alphabetic());
            return Some(Form::SignedWord);
        }
        None
    }
}

/// The tokens of a text; none if it cannot be a date, time or interval. `bytes_max`: PostgreSQL's limit on the length of all tokens.
pub(super) fn cut(text: &str, bytes_max: usize) -> Option<Vec<Token>> {
    let mut cutter = Cutter { rest: text.bytes().peekable(), text: String::new() };
    let mut tokens: Vec<Token> = Vec::new();
    let mut bytes = 0;
    loop {
        cutter.skip_spaces();
        let Some(first) = cutter.rest.peek().copied() else { return Some(tokens) };
        let form = match first {
            b'0'..=b'9' => cutter.number(),
            b'.' => {
                cutter.take();
                cutter.take_while(|byte| byte.is_ascii_digit());
                Form::Number
            }
            b'+' | b'-' => cutter.signed()?,
            _ if first.is_ascii_alphabetic() => cutter.word(),
            _ if first.is_ascii_punctuation() => {
                cutter.rest.next();
                continue;
            }
            _ => return None,
        };
        bytes += cutter.text.len() + 1;
        if bytes > bytes_max || tokens.len() == TOKENS_MAX {
            return None;
        }
        tokens.push(Token { form, text: std::mem::take(&mut cutter.text) });
    }
}
