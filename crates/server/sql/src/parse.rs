//! Texts become statements.
//!
//! ```text
//!   text -> tokens (lexer) -> queries and changes: marks, sqlparser's tree
//!                          -> all else: types of our own
//! ```
//! * `lexer`, `token`, `keywords`: PostgreSQL's tokens. `text`: places in a statement.
//! * `fingerprint`: what a statement is, whatever its constants are. `constants`: texts that differ in constants only, as one.
//! * `convert`, `dialect`, `equivalents`, `search_cycle`, `marks`, `tree`: queries, changes, expressions and types, by sqlparser.

mod constants;
mod convert;
mod definition;
mod dialect;
mod equivalents;
mod fingerprint;
mod keywords;
mod lexer;
mod marks;
mod options;
mod reader;
mod search_cycle;
pub(crate) mod statement;
#[cfg(test)]
mod tests;
mod text;
mod token;
mod tree;
mod utility;

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{Expr, Query};

use lexer::Lexer;
use reader::Reader;
use token::Token;
use tree::Tree;

pub(crate) use constants::WithoutConstants;
pub(crate) use fingerprint::Fingerprint;
pub(crate) use marks::{
    Inference, Overriding, assigned_element, inference, is_all_fields_mark, is_columns_mark,
    is_defaults_mark, is_distinct_mark, is_nothing_mark, is_rows_from, listed_elements, locked_tables,
    marked_exclusion, marked_lock, merge_overriding, overriding, unmarked_frame, using_names,
};
pub(crate) use statement::{Dml, Parsed, Utility};
pub(crate) use text::Text;

use statement::Statement;

/// The tokens of one statement, and what ends them.
struct Tokens<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    end: End,
}

/// What follows the last token of a statement.
enum End {
    /// `;`.
    Semicolon(Token),
    /// Nothing: the position after the last character.
    Input(u32),
    /// Something that is no token.
    Wrong(Box<SqlError>),
}

/// The statements of a text, in order, without the empty ones.
///
/// # Errors
/// `42601`, `0A000` and what else PostgreSQL's parser says; nothing of the text is to be run then.
pub(crate) fn parse(source: &str) -> SqlResult<Vec<Parsed>> {
    let whole = Text::new(source);
    let mut lexer = Lexer::new(source, 0, source.len());
    let mut statements = Vec::new();
    loop {
        let tokens = next_tokens(&mut lexer);
        let is_last = !matches!(tokens.end, End::Semicolon(_));
        if let (Some(first), Some(last)) = (tokens.tokens.first(), tokens.tokens.last()) {
            let text = whole.part(first.start..last.end);
            let statement = statement_of(tokens, &text)?;
            statements.push(Parsed { text, statement });
        } else if let End::Wrong(error) = tokens.end {
            return Err(error);
        }
        if is_last {
            return Ok(statements);
        }
    }
}

fn statement_of(tokens: Tokens<'_>, text: &Text) -> SqlResult<Statement> {
    let mut reader = Reader::new(Tree::new(tokens)?, text);
    let statement = utility::statement(&mut reader)?;
    reader.expect_end()?;
    Ok(statement)
}

/// The tokens up to the next `;`.
fn next_tokens<'a>(lexer: &mut Lexer<'a>) -> Tokens<'a> {
    let mut tokens = Vec::new();
    let end = loop {
        match lexer.next() {
            Ok(Some(token)) if token.kind.is_character(';') => break End::Semicolon(token),
            Ok(Some(token)) => tokens.push(token),
            Ok(None) => break End::Input(lexer.end_position()),
            Err(error) => break End::Wrong(error),
        }
    };
    Tokens { source: lexer.source(), tokens, end }
}

/// Whether a constant of the text may be read as a time that is not the same later: `'now'`, `'today'` and their kind. A text that
/// cannot be read has none.
pub(crate) fn has_words_of_time(text: &Text) -> bool {
    const WORDS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];
    let range = text.range();
    let mut lexer = Lexer::new(text.source(), range.start, range.end);
    while let Ok(Some(token)) = lexer.next() {
        if let token::TokenKind::String(value) = token.kind {
            let value = value.to_ascii_lowercase();
            if WORDS.iter().any(|word| value.contains(word)) {
                return true;
            }
        }
    }
    false
}

/// The query of a text that is known to be one, such as of a view.
pub(crate) fn query(text: &Text) -> SqlResult<Box<Query>> {
    match statement_of(tokens_of(text), text)? {
        Statement::Dml(Dml::Query(query)) => Ok(query),
        _ => Err(SqlError::internal(format!("not a query: {}", text.statement()))),
    }
}

/// The expression that a text is, such as a default.
pub(crate) fn expression(text: &Text) -> SqlResult<Expr> {
    let mut reader = Reader::new(Tree::new(tokens_of(text))?, text);
    let expression = reader.expression()?;
    reader.expect_end()?;
    Ok(expression)
}

fn tokens_of(text: &Text) -> Tokens<'_> {
    let range = text.range();
    next_tokens(&mut Lexer::new(text.source(), range.start, range.end))
}

impl Tokens<'_> {
    /// `42601` at a token, or at the end.
    fn syntax_error(&self, at: Option<&Token>) -> Box<SqlError> {
        let near = |token: &Token| {
            let message = format!("syntax error at or near \"{}\"", &self.source[token.start..token.end]);
            SqlError::new(SqlState::SYNTAX_ERROR, message).at(Some(token.position))
        };
        match (at, &self.end) {
            (Some(token), _) | (None, End::Semicolon(token)) => near(token),
            (None, End::Input(position)) => {
                SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input").at(Some(*position))
            }
            (None, End::Wrong(error)) => error.clone(),
        }
    }
}
