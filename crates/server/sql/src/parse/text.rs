//! The text of one statement, and places in it.

use std::ops::Range;
use std::sync::Arc;

use sqlparser::tokenizer::Location;

use super::lexer::Lexer;
use super::token::TokenKind;

/// One statement of a source that may have several. Positions count from the beginning of the source, as PostgreSQL's do.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    source: Arc<str>,
    /// The bytes of the statement, without the `;` after it.
    range: Range<usize>,
    is_ascii: bool,
}

impl Text {
    /// A source that is one statement.
    pub(crate) fn new(source: &str) -> Text {
        let source: Arc<str> = Arc::from(source);
        Text { range: 0..source.len(), is_ascii: source.is_ascii(), source }
    }

    /// Another statement of the same source.
    pub(super) fn part(&self, range: Range<usize>) -> Text {
        Text { source: Arc::clone(&self.source), range, is_ascii: self.is_ascii }
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The statement as it was written, without space around it.
    pub(crate) fn statement(&self) -> &str {
        self.source[self.range.clone()].trim()
    }

    /// PostgreSQL's position of a place in the tree: characters from 1. The parser is given tokens whose column is just that.
    pub(crate) fn position(&self, location: Location) -> Option<u32> {
        if location.line == 0 { None } else { u32::try_from(location.column).ok() }
    }

    /// The statement with parts replaced: position and length of each, in characters, and what stands there then.
    pub(crate) fn with_replaced(&self, mut parts: Vec<(u32, u32, String)>) -> String {
        parts.sort_by_key(|(position, _, _)| *position);
        let mut parts = parts.into_iter().peekable();
        let (mut replaced, mut skipped) = (String::new(), 0_u32);
        let from = self.source[..self.range.start].chars().count();
        for (index, letter) in self.source[self.range.clone()].chars().enumerate() {
            let position = u32::try_from(from + index + 1).unwrap_or(u32::MAX);
            if let Some((_, length, text)) = parts.next_if(|(start, _, _)| *start == position) {
                replaced.push_str(&text);
                skipped = length;
            }
            match skipped {
                0 => replaced.push(letter),
                _ => skipped -= 1,
            }
        }
        replaced.trim().to_owned()
    }

    /// Whether a name stands at a position.
    pub(crate) fn has_name_at(&self, position: u32, name: &str) -> bool {
        match self.lexer_at(position).and_then(|mut lexer| lexer.next().ok()?) {
            Some(token) => match token.kind {
                TokenKind::Word(word) => word == name.to_ascii_lowercase(),
                TokenKind::Quoted(quoted) => quoted == name,
                _ => false,
            },
            None => false,
        }
    }

    /// The string at a position, or after the name of its type there: its position and length.
    pub(crate) fn string_at(&self, position: u32) -> Option<(u32, u32)> {
        let mut lexer = self.lexer_at(position)?;
        loop {
            let token = lexer.next().ok()??;
            match token.kind {
                TokenKind::String(_) => return Some((token.position, token.end_position - token.position)),
                TokenKind::Word(_) | TokenKind::Quoted(_) | TokenKind::Character('.') => {}
                _ => return None,
            }
        }
    }

    fn lexer_at(&self, position: u32) -> Option<Lexer<'_>> {
        let offset = self.offset(position)?;
        (offset < self.range.end).then(|| Lexer::new(&self.source, offset, self.range.end))
    }

    /// The byte at a position.
    fn offset(&self, position: u32) -> Option<usize> {
        let skipped = usize::try_from(position).ok()?.checked_sub(1)?;
        Some(if self.is_ascii {
            skipped.min(self.source.len())
        } else {
            self.source.char_indices().nth(skipped).map_or(self.source.len(), |(at, _)| at)
        })
    }

    /// The position of the first `what` at a place or after it.
    pub(crate) fn find_after(&self, location: Location, what: &str) -> Option<u32> {
        let position = self.position(location)?;
        let skipped = usize::try_from(position).ok()?.saturating_sub(1);
        let offset = self.offset(position)?;
        let found = self.source[offset..].find(what)?;
        let between = self.source[offset..offset + found].chars().count();
        u32::try_from(skipped + between + 1).ok()
    }
}
