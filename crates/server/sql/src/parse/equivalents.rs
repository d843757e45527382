//! Clauses that sqlparser cannot read, in other words that mean the same.
//!
//! | written | read as |
//! |---|---|
//! | `RANGE '1 day'::interval PRECEDING` | `RANGE ('1 day'::interval) PRECEDING` |
//! | `TRIM(BOTH FROM x)` | `TRIM(BOTH x)` |
//! | `SUBSTRING(x SIMILAR p ESCAPE e)` | `SUBSTRING(x, p, e)` |
//! | `GROUPING SETS (a, GROUPING SETS (b, c))` | `GROUPING SETS (a, b, c)` |
//! | `LIKE ALL (SELECT ..)` | `LIKE ALL ((SELECT ..))` |
//! | `= ANY (VALUES (1), (2))` | `= ANY (SELECT * FROM (VALUES (1), (2)) AS "*VALUES*")` |

use super::token::{Token, TokenKind};

/// Words after which parentheses are a part of an expression.
const BEFORE_EXPRESSIONS: [&str; 15] = [
    "select", "where", "having", "on", "and", "or", "not", "when", "then", "else", "any", "all", "some",
    "exists", "by",
];

/// Replaces clauses in the tokens of a statement.
pub(super) fn replaced(tokens: Vec<Token>) -> Vec<Token> {
    let is_concerned = |token: &Token| {
        ["range", "trim", "similar", "grouping", "values", "like", "ilike"]
            .iter()
            .any(|word| token.kind.is_word(word))
    };
    if !tokens.iter().any(is_concerned) {
        return tokens;
    }
    let mut rewriter = Rewriter { result: Vec::with_capacity(tokens.len() + 16), levels: Vec::new() };
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += rewriter.step(token, &tokens[at + 1..]);
    }
    rewriter.result
}

/// What a pair of parentheses is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Plain,
    /// `SUBSTRING(..)`.
    Substring,
    /// `GROUPING SETS (..)`.
    GroupingSets,
    /// The same inside of another: its parentheses are left out.
    InnerGroupingSets,
    /// `(VALUES ..)` as an expression: another pair closes with it.
    Values,
    /// A query as an argument: another pair is around it.
    Query,
}

struct Rewriter {
    result: Vec<Token>,
    levels: Vec<Level>,
}

impl Rewriter {
    /// Takes a token, and maybe some of those after it; how many in all.
    fn step(&mut self, token: &Token, after: &[Token]) -> usize {
        match &token.kind {
            TokenKind::Character('(') => self.open(token, after),
            TokenKind::Character(')') => self.close(token),
            TokenKind::String(_) if self.begins_frame_bound() => self.frame_bound(token, after),
            TokenKind::Word(word) => self.word(word, token, after),
            _ => self.push(token),
        }
    }

    fn push(&mut self, token: &Token) -> usize {
        self.result.push(token.clone());
        1
    }

    fn push_like(&mut self, token: &Token, kinds: impl IntoIterator<Item = TokenKind>) {
        self.result.extend(kinds.into_iter().map(|kind| Token { kind, ..token.clone() }));
    }

    fn is_after(&self, words: &[&str]) -> bool {
        let kind = self.result.last().map(|token| &token.kind);
        kind.is_some_and(|kind| words.iter().any(|word| kind.is_word(word)))
    }

    fn open(&mut self, token: &Token, after: &[Token]) -> usize {
        let is_values = after.first().is_some_and(|token| token.kind.is_word("values"));
        let level = match self.result.last().map(|token| &token.kind) {
            Some(kind) if kind.is_word("substring") => Level::Substring,
            Some(kind) if is_values && is_before_expression(kind) => Level::Values,
            Some(kind) if kind.is_word("all") && self.is_like() && begins_query(after) => Level::Query,
            _ => Level::Plain,
        };
        self.levels.push(level);
        self.push(token);
        if level == Level::Query {
            self.push(token);
        }
        if level == Level::Values {
            let word = |word: &str| TokenKind::Word(word.to_owned());
            let star = TokenKind::Operator("*".to_owned());
            self.push_like(token, [word("select"), star, word("from"), TokenKind::Character('(')]);
        }
        1
    }

    fn close(&mut self, token: &Token) -> usize {
        match self.levels.pop() {
            Some(Level::InnerGroupingSets) => 1,
            Some(Level::Values) => {
                self.push(token);
                self.push_like(token, [TokenKind::Quoted("*VALUES*".to_owned())]);
                self.push(token)
            }
            Some(Level::Query) => {
                self.push(token);
                self.push(token)
            }
            _ => self.push(token),
        }
    }

    /// Whether `LIKE` and a word are before.
    fn is_like(&self) -> bool {
        matches!(&self.result[..], [.., like, _] if like.kind.is_word("like") || like.kind.is_word("ilike"))
    }

    fn word(&mut self, word: &str, token: &Token, after: &[Token]) -> usize {
        let level = self.levels.last().copied().unwrap_or(Level::Plain);
        match (word, level) {
            ("similar" | "escape", Level::Substring) => {
                self.push_like(token, [TokenKind::Character(',')]);
                1
            }
            ("from", _) if self.is_trim() => 1,
            ("grouping", _) => self.grouping(token, after, level),
            _ => self.push(token),
        }
    }

    /// Whether `TRIM(`, `TRIM(BOTH` or one of its kind is before.
    fn is_trim(&self) -> bool {
        let side = usize::from(self.is_after(&["both", "leading", "trailing"]));
        let Some(end) = self.result.len().checked_sub(side) else { return false };
        matches!(&self.result[..end], [.., trim, open]
            if trim.kind.is_word("trim") && open.kind.is_character('('))
    }

    fn grouping(&mut self, token: &Token, after: &[Token], level: Level) -> usize {
        let [sets, open, ..] = after else { return self.push(token) };
        if !sets.kind.is_word("sets") || !open.kind.is_character('(') {
            return self.push(token);
        }
        if matches!(level, Level::GroupingSets | Level::InnerGroupingSets) {
            self.levels.push(Level::InnerGroupingSets);
        } else {
            self.levels.push(Level::GroupingSets);
            self.result.extend([token.clone(), sets.clone(), open.clone()]);
        }
        3
    }

    fn begins_frame_bound(&self) -> bool {
        self.is_after(&["range", "rows", "groups", "between", "and"])
    }

    /// An offset of a window's frame that begins with a literal, which sqlparser would take for all of it.
    fn frame_bound(&mut self, token: &Token, after: &[Token]) -> usize {
        let is_end = |token: &Token| {
            ["preceding", "following", "and", "or", "then", "order"]
                .iter()
                .any(|word| token.kind.is_word(word))
                || matches!(token.kind, TokenKind::Character(',' | '(' | ')'))
        };
        let length = after.iter().position(is_end).unwrap_or(after.len());
        let is_offset = after
            .get(length)
            .is_some_and(|token| token.kind.is_word("preceding") || token.kind.is_word("following"));
        if !is_offset {
            return self.push(token);
        }
        self.push_like(token, [TokenKind::Character('(')]);
        self.push(token);
        self.result.extend_from_slice(&after[..length]);
        self.push_like(token, [TokenKind::Character(')')]);
        1 + length
    }
}

fn begins_query(after: &[Token]) -> bool {
    after.first().is_some_and(|token| token.kind.is_word("select") || token.kind.is_word("with"))
}

fn is_before_expression(kind: &TokenKind) -> bool {
    match kind {
        TokenKind::Word(word) => BEFORE_EXPRESSIONS.contains(&word.as_str()),
        TokenKind::Operator(_) | TokenKind::Character(',') => true,
        _ => false,
    }
}
