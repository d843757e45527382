//! Numbers and parameters.

use super::super::token::TokenKind;
use super::{Lexer, LexerResult, begins_name, continues_name};

impl Lexer<'_> {
    /// `1`, `1.5`, `.5`, `1e10`; `1..2` is a number and two dots.
    pub(super) fn number(&mut self) -> LexerResult<String> {
        let start = self.at;
        self.digits();
        if self.peek(0) == Some(b'.') && self.peek(1) != Some(b'.') {
            self.at += 1;
            self.digits();
        }
        if matches!(self.peek(0), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
            if self.peek(1 + sign).is_some_and(|byte| byte.is_ascii_digit()) {
                self.at += 1 + sign;
                self.digits();
            }
        }
        self.refuse_junk("trailing junk after numeric literal", start)?;
        Ok(self.source[start..self.at].to_owned())
    }

    /// `$1`.
    pub(super) fn parameter(&mut self) -> LexerResult<TokenKind> {
        let start = self.at;
        self.at += 1;
        self.digits();
        self.refuse_junk("trailing junk after parameter", start)?;
        Ok(TokenKind::Parameter(self.source[start..self.at].to_owned()))
    }

    fn digits(&mut self) {
        while self.peek(0).is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    /// `42601` for a name that follows without a space.
    fn refuse_junk(&mut self, message: &str, start: usize) -> LexerResult<()> {
        if !self.peek(0).is_some_and(begins_name) {
            return Ok(());
        }
        let junk = self.at;
        let is_exponent = matches!(self.peek(0), Some(b'e' | b'E'));
        while self.peek(0).is_some_and(continues_name) {
            self.at += 1;
        }
        if is_exponent && matches!(self.peek(0), Some(b'+' | b'-')) && self.at == junk + 1 {
            self.at += 1;
        }
        Err(self.error_near(message, start))
    }
}
