//! `SEARCH` and `CYCLE` of recursive queries, as queries without these clauses: the columns that they add are computed in both parts.
//!
//! ```text
//!   t (a) as (LEFT union all RIGHT) search depth first by a set s cycle a set m using p
//!   -> t (a, s, m, p) as (select a, array[row(a)], false, array[row(a)] from (LEFT) as l (a)
//!        union all select a, s || array[row(a)], row(a) = any (p), p || array[row(a)] from (RIGHT, with s and p of t, where not t.m) as r (a, s, p))
//! ```
//! This is what PostgreSQL's rewriter does (`rewriteSearchCycle.c`). The names of the two queries within are its own, too.

use std::ops::Range;

use seawall_values::{SqlError, SqlResult};

use super::token::{Token, TokenKind};

const LEFT: &str = "*TLOCRN*";
const RIGHT: &str = "*TROCRN*";

/// Words that end the `FROM` of a recursive part that has more than a condition.
const UNKNOWN: [&str; 8] = ["group", "having", "window", "order", "limit", "offset", "fetch", "for"];
/// Words after the name of a table that are no alias.
const NO_ALIAS: [&str; 11] =
    ["join", "inner", "left", "right", "full", "cross", "natural", "on", "using", "where", "union"];

/// Replaces the clauses in the tokens of a statement.
pub(super) fn replaced(mut tokens: Vec<Token>) -> SqlResult<Vec<Token>> {
    // The last one first: it may be in the query of another.
    while let Some(close) = tokens.iter().enumerate().rposition(|(at, _)| begins_clause(&tokens, at)) {
        let (range, made) = Clauses::read(&tokens, close)?.made()?;
        drop(tokens.splice(range, made));
    }
    Ok(tokens)
}

fn is_word(tokens: &[Token], at: usize, words: &[&str]) -> bool {
    tokens.get(at).is_some_and(|token| words.iter().any(|word| token.kind.is_word(word)))
}

fn is_character(tokens: &[Token], at: usize, character: char) -> bool {
    tokens.get(at).is_some_and(|token| token.kind.is_character(character))
}

fn is_name(tokens: &[Token], at: usize) -> bool {
    matches!(tokens.get(at).map(|token| &token.kind), Some(TokenKind::Word(_) | TokenKind::Quoted(_)))
}

/// Whether the parenthesis that closes a query is followed by one of the clauses.
fn begins_clause(tokens: &[Token], close: usize) -> bool {
    if !is_character(tokens, close, ')') {
        return false;
    }
    let is_search = is_word(tokens, close + 1, &["search"])
        && is_word(tokens, close + 2, &["depth", "breadth"])
        && is_word(tokens, close + 3, &["first"]);
    let is_cycle = is_word(tokens, close + 1, &["cycle"])
        && is_name(tokens, close + 2)
        && (is_character(tokens, close + 3, ',') || is_word(tokens, close + 3, &["set"]));
    is_search || is_cycle
}

fn unsupported() -> Box<SqlError> {
    SqlError::unsupported("SEARCH or CYCLE of a query of this form")
}

/// `SEARCH .. FIRST BY columns SET column`.
struct Search {
    is_depth: bool,
    by: Vec<Token>,
    column: Token,
}

/// `CYCLE columns SET mark TO value DEFAULT default USING path`.
struct Cycle {
    by: Vec<Token>,
    mark: Token,
    value: Vec<Token>,
    default: Vec<Token>,
    path: Token,
}

/// A recursive query with its clauses.
struct Clauses<'t> {
    tokens: &'t [Token],
    name: &'t Token,
    columns: Vec<Token>,
    /// From the parenthesis of the columns to the one after them.
    list: Range<usize>,
    left: &'t [Token],
    /// `UNION`, `UNION ALL`.
    union: &'t [Token],
    right: &'t [Token],
    /// Where the query begins, and where the clauses end.
    open: usize,
    end: usize,
    search: Option<Search>,
    cycle: Option<Cycle>,
}

/// The parenthesis that belongs to the one that closes.
fn opening(tokens: &[Token], close: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for at in (0..=close).rev() {
        if is_character(tokens, at, ')') {
            depth += 1;
        } else if is_character(tokens, at, '(') {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// Places of words outside of parentheses.
fn outside(tokens: &[Token], words: &[&str]) -> Vec<usize> {
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match &token.kind {
            TokenKind::Character('(' | '[') => depth += 1,
            TokenKind::Character(')' | ']') => depth = depth.saturating_sub(1),
            kind if depth == 0 && words.iter().any(|word| kind.is_word(word)) => found.push(at),
            _ => {}
        }
    }
    found
}

/// Names with commas between them from a place on, and where they end.
fn names(tokens: &[Token], mut at: usize) -> SqlResult<(Vec<Token>, usize)> {
    let mut found = Vec::new();
    loop {
        if !is_name(tokens, at) {
            return Err(unsupported());
        }
        found.push(tokens[at].clone());
        at += 1;
        if !is_character(tokens, at, ',') {
            return Ok((found, at));
        }
        at += 1;
    }
}

fn expect(tokens: &[Token], at: usize, word: &str) -> SqlResult<usize> {
    if is_word(tokens, at, &[word]) { Ok(at + 1) } else { Err(unsupported()) }
}

fn name_at(tokens: &[Token], at: usize) -> SqlResult<Token> {
    if is_name(tokens, at) { Ok(tokens[at].clone()) } else { Err(unsupported()) }
}

impl<'t> Clauses<'t> {
    fn read(tokens: &'t [Token], close: usize) -> SqlResult<Clauses<'t>> {
        let open = opening(tokens, close).ok_or_else(unsupported)?;
        let mut before = open;
        while before > 0 && is_word(tokens, before - 1, &["materialized", "not", "as"]) {
            before -= 1;
        }
        // Without a list of columns it is not known here what they are called.
        let list_close =
            before.checked_sub(1).filter(|at| is_character(tokens, *at, ')')).ok_or_else(unsupported)?;
        let list_open = opening(tokens, list_close).ok_or_else(unsupported)?;
        let (columns, _) = names(tokens, list_open + 1)?;
        let name = list_open.checked_sub(1).and_then(|at| tokens.get(at)).ok_or_else(unsupported)?;
        let body = &tokens[open + 1..close];
        let unions = outside(body, &["union", "intersect", "except"]);
        let [union] = unions[..] else { return Err(unsupported()) };
        let after = union + 1 + usize::from(is_word(body, union + 1, &["all", "distinct"]));
        let (left, right) = (&body[..union], &body[after..]);
        if !is_word(right, 0, &["select"]) || !outside(right, &UNKNOWN).is_empty() {
            return Err(unsupported());
        }
        let (search, at) = read_search(tokens, close + 1)?;
        let (cycle, end) = read_cycle(tokens, at)?;
        Ok(Clauses {
            tokens,
            name,
            columns,
            list: list_open..list_close + 1,
            left,
            union: &body[union..after],
            right,
            open,
            end,
            search,
            cycle,
        })
    }

    /// The tokens that take the place of a range.
    fn made(self) -> SqlResult<(Range<usize>, Vec<Token>)> {
        let mut out = Out { like: self.name.clone(), tokens: Vec::new() };
        let mut all = self.columns.clone();
        all.extend(self.search.iter().map(|search| search.column.clone()));
        all.extend(self.cycle.iter().flat_map(|cycle| [cycle.mark.clone(), cycle.path.clone()]));
        out.character('(').list(&all).character(')');
        out.all(&self.tokens[self.list.end..self.open]).character('(');
        self.left_part(&mut out);
        out.all(self.union);
        self.right_part(&mut out)?;
        out.character(')');
        Ok((self.list.start..self.end, out.tokens))
    }

    fn left_part(&self, out: &mut Out) {
        out.word("select").qualified(LEFT, &self.columns);
        if let Some(search) = &self.search {
            out.character(',');
            match search.is_depth {
                true => out.array(LEFT, &search.by),
                false => {
                    out.word("row").character('(').kind(TokenKind::Number("0".to_owned()));
                    out.kind(TokenKind::Cast)
                        .word("int8")
                        .character(',')
                        .qualified(LEFT, &search.by)
                        .character(')')
                }
            };
        }
        if let Some(cycle) = &self.cycle {
            out.character(',').all(&cycle.default).character(',').array(LEFT, &cycle.by);
        }
        out.word("from").character('(').all(self.left).character(')').word("as").quoted(LEFT);
        out.character('(').list(&self.columns).character(')');
    }

    fn right_part(&self, out: &mut Out) -> SqlResult<()> {
        let own = self.own()?;
        out.word("select").qualified(RIGHT, &self.columns);
        let mut more = Vec::new();
        if let Some(search) = &self.search {
            more.push(search.column.clone());
            let column = [search.column.clone()];
            out.character(',');
            if search.is_depth {
                out.qualified(RIGHT, &column).operator("||").array(RIGHT, &search.by);
            } else {
                // Fields of such a row have no other names.
                out.word("row").character('(').character('(').word("row_to_json").character('(');
                out.qualified(RIGHT, &column)
                    .character(')')
                    .operator("->>")
                    .kind(TokenKind::String("f1".to_owned()));
                out.character(')').kind(TokenKind::Cast).word("int8").operator("+");
                out.kind(TokenKind::Number("1".to_owned())).character(',');
                out.qualified(RIGHT, &search.by).character(')');
            }
        }
        if let Some(cycle) = &self.cycle {
            more.push(cycle.path.clone());
            let path = [cycle.path.clone()];
            out.character(',').word("case").word("when").row(RIGHT, &cycle.by).operator("=").word("any");
            out.character('(').qualified(RIGHT, &path).character(')').word("then").all(&cycle.value);
            out.word("else").all(&cycle.default).word("end");
            out.character(',').qualified(RIGHT, &path).operator("||").array(RIGHT, &cycle.by);
        }
        out.word("from").character('(');
        self.right_query(out, &own, &more)?;
        out.character(')').word("as").quoted(RIGHT);
        let all: Vec<Token> = self.columns.iter().chain(&more).cloned().collect();
        out.character('(').list(&all).character(')');
        Ok(())
    }

    /// The recursive part, with columns that it hands on, and without rows that close a circle.
    fn right_query(&self, out: &mut Out, own: &Token, more: &[Token]) -> SqlResult<()> {
        let from = outside(self.right, &["from"]);
        let [from] = from[..] else { return Err(unsupported()) };
        let condition = outside(self.right, &["where"]).first().copied();
        out.all(&self.right[..from]);
        for column in more {
            out.character(',')
                .all(std::slice::from_ref(own))
                .character('.')
                .all(std::slice::from_ref(column));
        }
        out.all(&self.right[from..condition.unwrap_or(self.right.len())]);
        if let Some(cycle) = &self.cycle {
            out.word("where").all(std::slice::from_ref(own)).character('.');
            out.all(std::slice::from_ref(&cycle.mark)).operator("<>").all(&cycle.value);
        }
        if let Some(condition) = condition {
            out.word(if self.cycle.is_some() { "and" } else { "where" });
            out.character('(').all(&self.right[condition + 1..]).character(')');
        }
        Ok(())
    }

    /// How the recursive part calls the rows of its last round.
    fn own(&self) -> SqlResult<Token> {
        let from = outside(self.right, &["from"]).first().copied().ok_or_else(unsupported)?;
        let is_own = |at: &usize| {
            let is_table =
                is_word(self.right, at - 1, &["from", "join"]) || is_character(self.right, at - 1, ',');
            is_table && self.right[*at].kind == self.name.kind
        };
        let at = (from + 1..self.right.len()).find(is_own).ok_or_else(unsupported)?;
        let alias = at + 1 + usize::from(is_word(self.right, at + 1, &["as"]));
        let is_alias = is_name(self.right, alias) && !is_word(self.right, alias, &NO_ALIAS);
        Ok(self.right[if is_alias { alias } else { at }].clone())
    }
}

fn read_search(tokens: &[Token], at: usize) -> SqlResult<(Option<Search>, usize)> {
    if !is_word(tokens, at, &["search"]) {
        return Ok((None, at));
    }
    let is_depth = is_word(tokens, at + 1, &["depth"]);
    let at = expect(tokens, expect(tokens, at + 2, "first")?, "by")?;
    let (by, at) = names(tokens, at)?;
    let at = expect(tokens, at, "set")?;
    Ok((Some(Search { is_depth, by, column: name_at(tokens, at)? }), at + 1))
}

fn read_cycle(tokens: &[Token], at: usize) -> SqlResult<(Option<Cycle>, usize)> {
    if !is_word(tokens, at, &["cycle"]) {
        return Ok((None, at));
    }
    let (by, at) = names(tokens, at + 1)?;
    let at = expect(tokens, at, "set")?;
    let mark = name_at(tokens, at)?;
    let mut at = at + 1;
    let word = |word: &str| vec![Token { kind: TokenKind::Word(word.to_owned()), ..mark.clone() }];
    let (mut value, mut default) = (word("true"), word("false"));
    if is_word(tokens, at, &["to"]) {
        let rest = &tokens[at + 1..];
        let end = outside(rest, &["default"]).first().copied().ok_or_else(unsupported)?;
        value = rest[..end].to_vec();
        let rest = &rest[end + 1..];
        let using = outside(rest, &["using"]).first().copied().ok_or_else(unsupported)?;
        default = rest[..using].to_vec();
        at += 1 + end + 1 + using;
    }
    let at = expect(tokens, at, "using")?;
    Ok((Some(Cycle { by, mark, value, default, path: name_at(tokens, at)? }), at + 1))
}

/// Tokens that are made.
struct Out {
    /// Where they are said to be.
    like: Token,
    tokens: Vec<Token>,
}

impl Out {
    fn kind(&mut self, kind: TokenKind) -> &mut Out {
        self.tokens.push(Token { kind, ..self.like.clone() });
        self
    }

    fn word(&mut self, word: &str) -> &mut Out {
        self.kind(TokenKind::Word(word.to_owned()))
    }

    fn quoted(&mut self, name: &str) -> &mut Out {
        self.kind(TokenKind::Quoted(name.to_owned()))
    }

    fn operator(&mut self, operator: &str) -> &mut Out {
        self.kind(TokenKind::Operator(operator.to_owned()))
    }

    fn character(&mut self, character: char) -> &mut Out {
        self.kind(TokenKind::Character(character))
    }

    fn all(&mut self, tokens: &[Token]) -> &mut Out {
        self.tokens.extend_from_slice(tokens);
        self
    }

    /// Names with commas between them.
    fn list(&mut self, names: &[Token]) -> &mut Out {
        for (index, name) in names.iter().enumerate() {
            if index > 0 {
                self.character(',');
            }
            self.tokens.push(name.clone());
        }
        self
    }

    /// The same, as columns of a table.
    fn qualified(&mut self, table: &str, names: &[Token]) -> &mut Out {
        for (index, name) in names.iter().enumerate() {
            if index > 0 {
                self.character(',');
            }
            self.quoted(table).character('.');
            self.tokens.push(name.clone());
        }
        self
    }

    fn row(&mut self, table: &str, names: &[Token]) -> &mut Out {
        self.word("row").character('(').qualified(table, names).character(')')
    }

    /// An array of one row.
    fn array(&mut self, table: &str, names: &[Token]) -> &mut Out {
        self.word("array").character('[').row(table, names).character(']')
    }
}
