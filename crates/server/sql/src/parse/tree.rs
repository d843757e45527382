//! Queries, changes, expressions and types: sqlparser's trees of them, with PostgreSQL's errors.

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::parser::{Parser, ParserError};

use super::dialect::PostgreSql;
use super::token::{Token, TokenKind};
use super::{End, Tokens, convert, equivalents, marks, search_cycle};

/// Deeper nesting is refused: the parser, and what follows it, is recursive.
const DEPTH_MAX: usize = 150;
/// So are longer chains of operators: they are trees as deep as they are long.
const CHAIN_MAX: usize = 2000;

/// sqlparser's parser over the tokens of one statement.
pub(super) struct Tree<'a> {
    tokens: Tokens<'a>,
    parser: Parser<'static>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(tokens: Tokens<'a>) -> SqlResult<Tree<'a>> {
        check_chains(&tokens.tokens)?;
        let plain = equivalents::replaced(search_cycle::replaced(tokens.tokens)?);
        let tokens = Tokens { tokens: marks::marked(plain), ..tokens };
        let parser = parser_of(&tokens.tokens);
        Ok(Tree { tokens, parser })
    }

    pub(super) fn token(&self, index: usize) -> Option<&Token> {
        self.tokens.tokens.get(index)
    }

    pub(super) fn length(&self) -> usize {
        self.tokens.tokens.len()
    }

    /// Whether the last token is followed by something that is none.
    pub(super) fn ends_wrongly(&self) -> bool {
        matches!(self.tokens.end, End::Wrong(_))
    }

    /// `42601` at a token, or at the end.
    pub(super) fn syntax_error(&self, index: usize) -> Box<SqlError> {
        self.tokens.syntax_error(self.token(index))
    }

    /// The same in a query: for sqlparser `GROUP BY` is one word, and the first one is wrong if the second one is.
    pub(super) fn syntax_error_in_query(&self, index: usize) -> Box<SqlError> {
        let is = |index: usize, words: &[&str]| {
            self.token(index).is_some_and(|token| words.iter().any(|word| token.kind.is_word(word)))
        };
        let is_query = is(0, &["select", "with", "values", "table"]);
        let is_half = is_query && is(index, &["group", "order"]) && !is(index + 1, &["by"]);
        self.syntax_error(index + usize::from(is_half))
    }

    /// Parses a part from a token on, and says where it ends.
    pub(super) fn parse_at<T>(
        &mut self,
        index: usize,
        parse: impl FnOnce(&mut Parser<'static>) -> Result<T, ParserError>,
    ) -> SqlResult<(T, usize)> {
        while self.parser.index() < index {
            self.parser.advance_token();
        }
        while self.parser.index() > index {
            self.parser.prev_token();
        }
        let value = parse(&mut self.parser).map_err(|error| self.error(error))?;
        Ok((value, self.parser.index().min(self.tokens.tokens.len())))
    }

    /// Parses the tokens between two places, all of them.
    pub(super) fn parse_between<T>(
        &self,
        start: usize,
        end: usize,
        parse: impl FnOnce(&mut Parser<'static>) -> Result<T, ParserError>,
    ) -> SqlResult<T> {
        let mut parser = parser_of(&self.tokens.tokens[start..end]);
        let value = parse(&mut parser).map_err(|error| match position_of(&error) {
            None if !matches!(error, ParserError::RecursionLimitExceeded) => self.syntax_error(end),
            _ => self.error(error),
        })?;
        if start + parser.index() < end { Err(self.syntax_error(start + parser.index())) } else { Ok(value) }
    }

    /// PostgreSQL's error for one of sqlparser.
    fn error(&self, error: ParserError) -> Box<SqlError> {
        if matches!(error, ParserError::RecursionLimitExceeded) {
            return too_deep();
        }
        let token = position_of(&error)
            .and_then(|position| self.tokens.tokens.iter().find(|token| token.position == position));
        self.tokens.syntax_error(token)
    }
}

fn parser_of(tokens: &[Token]) -> Parser<'static> {
    Parser::new(&PostgreSql)
        .with_recursion_limit(DEPTH_MAX)
        .with_tokens_with_locations(convert::converted(tokens))
}

/// sqlparser says where an error is at the end of its message.
fn position_of(error: &ParserError) -> Option<u32> {
    match error {
        ParserError::RecursionLimitExceeded => None,
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
            message.rsplit_once(", Column: ").and_then(|(_, column)| column.parse().ok())
        }
    }
}

fn too_deep() -> Box<SqlError> {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .with_hint("Split the statement: it is nested too deeply.")
}

/// Refuses chains of operators, such as of `+`, that make too deep a tree: such a tree is also dropped recursively.
fn check_chains(tokens: &[Token]) -> SqlResult<()> {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    for token in tokens {
        match &token.kind {
            TokenKind::Character('(' | '[') => {
                let inside = Level { outside: level.outside + level.depth() + 1, ..Level::default() };
                outer.push(std::mem::replace(&mut level, inside));
            }
            TokenKind::Character(')' | ']') => {
                let depth = level.depth() + 1;
                level = outer.pop().unwrap_or_default();
                level.inside = level.inside.max(depth);
            }
            TokenKind::Character(',') => level.end_item(),
            TokenKind::Operator(_) | TokenKind::Cast => level.add_operator(),
            TokenKind::Word(word) => match word.as_str() {
                "or" | "union" | "except" => level.add_or(),
                "and" | "intersect" => level.add_and(),
                "not" | "is" | "isnull" | "notnull" | "like" | "ilike" | "similar" | "between" | "in"
                | "collate" | "at" | "overlaps" | "operator" => level.add_operator(),
                _ => {}
            },
            _ => {}
        }
        if level.outside + level.depth() > CHAIN_MAX {
            return Err(too_deep());
        }
    }
    Ok(())
}

/// How deep the tree can be that is made of what stands between two parentheses, or commas.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Around it.
    outside: usize,
    /// Of items before a comma.
    items: usize,
    /// In parentheses of this item.
    inside: usize,
    ors: usize,
    ands: usize,
    ands_max: usize,
    operators: usize,
    operators_max: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.items.max(self.inside + self.ors + self.ands_max + self.operators_max)
    }

    fn end_item(&mut self) {
        *self = Level { outside: self.outside, items: self.depth(), ..Level::default() };
    }

    fn add_or(&mut self) {
        self.ors += 1;
        (self.ands, self.operators) = (0, 0);
    }

    fn add_and(&mut self) {
        self.ands += 1;
        self.ands_max = self.ands_max.max(self.ands);
        self.operators = 0;
    }

    fn add_operator(&mut self) {
        self.operators += 1;
        self.operators_max = self.operators_max.max(self.operators);
    }
}
