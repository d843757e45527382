//! Clauses that sqlparser has no place for are carried in places that it has, under names that no statement can have.
//!
//! * `FOR NO KEY UPDATE OF a, b` becomes `FOR UPDATE OF "<mark>no key update".a.b`.
//! * `INSERT INTO t (a) OVERRIDING SYSTEM VALUE` becomes `INSERT INTO t (a) PARTITION ("<mark>system")`.
//! * `THEN INSERT DEFAULT VALUES` of `MERGE` becomes `THEN INSERT ("<mark>defaults") VALUES (0)`, `THEN INSERT (a) OVERRIDING SYSTEM
//!   VALUE` becomes `THEN INSERT ("<mark>system", a)`.
//! * `f(1) AS (a integer)` becomes `f(1) AS "<mark>columns" (a integer)`.
//! * `ROWS FROM (f(1), g(2))` becomes `"<mark>rows from"(f(1), g(2))`.
//! * `(a).*` becomes `(a)."<mark>all"`.
//! * `USING (a) AS x` becomes `USING (a, "<mark>as", x)`.
//! * `GROUP BY DISTINCT a` becomes `GROUP BY "<mark>distinct", a`, `SELECT UNION ..` becomes `SELECT "<mark>nothing" UNION ..`.
//! * `UNBOUNDED FOLLOWING EXCLUDE TIES` becomes `"<mark>ties unbounded following" FOLLOWING`,
//!   `x PRECEDING EXCLUDE TIES` becomes `x OR "<mark>ties preceding" FOLLOWING`.

mod conflict;
mod element;

use sqlparser::ast::{
    BinaryOperator, Expr, Insert, LockClause, ObjectNamePart, WindowFrame, WindowFrameBound,
};

use super::token::{Token, TokenKind};
use crate::algebra::{FrameExclusion, RowLock};

pub(crate) use conflict::{Inference, inference};
pub(crate) use element::{assigned_element, listed_elements};

/// Begins the names: PostgreSQL's texts have no zero bytes.
const MARK: char = '\0';

/// Replaces clauses in the tokens of a statement.
pub(super) fn marked(tokens: Vec<Token>) -> Vec<Token> {
    let is_concerned = |token: &Token| {
        ["for", "exclude", "overriding", "group", "set", "into", "then", "using", "conflict", "rows", "as"]
            .iter()
            .any(|word| token.kind.is_word(word))
    };
    let ends_early = tokens.last().is_some_and(|token| token.kind.is_word("select"));
    let takes_apart = |three: &[Token]| matches!(three, [of, dot, star] if is_all_fields(of, dot, star));
    if !ends_early
        && !tokens.iter().any(is_concerned)
        && !tokens.windows(2).any(has_no_results)
        && !tokens.windows(3).any(takes_apart)
    {
        return tokens;
    }
    let mut result = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some(token) = rest.first() {
        let taken = mark_lock(rest, &mut result)
            .or_else(|| mark_exclusion(rest, &mut result))
            .or_else(|| mark_overriding(rest, &mut result))
            .or_else(|| mark_distinct_groups(rest, &mut result))
            .or_else(|| mark_nothing(rest, &mut result))
            .or_else(|| element::mark_assignments(rest, &mut result))
            .or_else(|| element::mark_columns(rest, &mut result))
            .or_else(|| mark_defaults(rest, &mut result))
            .or_else(|| mark_using(rest, &mut result))
            .or_else(|| mark_all_fields(rest, &mut result))
            .or_else(|| mark_rows_from(rest, &mut result))
            .or_else(|| mark_column_definitions(rest, &mut result))
            .or_else(|| conflict::mark_inference(rest, &mut result));
        if taken.is_none() {
            result.push(token.clone());
        }
        rest = &rest[taken.unwrap_or(1)..];
    }
    result
}

fn begins_with(tokens: &[Token], words: &[&str]) -> bool {
    tokens.len() >= words.len() && words.iter().zip(tokens).all(|(word, token)| token.kind.is_word(word))
}

/// At a locking clause that sqlparser does not know: writes it in the marked form, and says how many tokens it takes.
fn mark_lock(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    let forms: [(&[&str], &str); 4] = [
        (&["for", "no", "key", "update"], "update"),
        (&["for", "key", "share"], "share"),
        (&["for", "update"], "update"),
        (&["for", "share"], "share"),
    ];
    let (words, strength) = forms.into_iter().find(|(words, _)| begins_with(tokens, words))?;
    let tables = listed_tables(&tokens[words.len()..]);
    if tables.len() < 2 && words.len() == 2 {
        return None;
    }
    let like_first = |kind: TokenKind| Token { kind, ..tokens[0].clone() };
    result.push(tokens[0].clone());
    result.push(like_first(TokenKind::Word(strength.to_owned())));
    result.push(like_first(TokenKind::Word("of".to_owned())));
    result.push(like_first(TokenKind::Quoted(format!("{MARK}{}", words[1..].join(" ")))));
    for table in &tables {
        result.push(like_first(TokenKind::Character('.')));
        result.push(table.clone());
    }
    // `OF`, the names, and commas between them.
    Some(words.len() + 2 * tables.len())
}

/// The names of `OF a, b`.
fn listed_tables(tokens: &[Token]) -> Vec<Token> {
    let mut tables = Vec::new();
    let mut rest = match tokens {
        [first, rest @ ..] if first.kind.is_word("of") => rest,
        _ => return tables,
    };
    while let [name @ Token { kind: TokenKind::Word(_) | TokenKind::Quoted(_), .. }, after @ ..] = rest {
        tables.push(name.clone());
        match after {
            [comma, after @ ..] if comma.kind.is_character(',') => rest = after,
            _ => break,
        }
    }
    tables
}

/// The lock that a marked clause asks for.
pub(crate) fn marked_lock(lock: &LockClause) -> Option<RowLock> {
    let name = lock.of.as_ref()?.0.first().and_then(ObjectNamePart::as_ident)?;
    match name.value.strip_prefix(MARK)? {
        "no key update" => Some(RowLock::NoKeyUpdate),
        "key share" => Some(RowLock::KeyShare),
        "share" => Some(RowLock::Share),
        _ => Some(RowLock::Update),
    }
}

/// The tables that a locking clause names; none: all.
pub(crate) fn locked_tables(lock: &LockClause) -> Vec<String> {
    let names = lock.of.iter().flat_map(|name| &name.0).filter_map(ObjectNamePart::as_ident);
    names.map(|ident| ident.value.clone()).filter(|name| !name.starts_with(MARK)).collect()
}

/// At `OVERRIDING`: writes it in the marked form.
fn mark_overriding(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    let (name, length) = overriding_words(tokens)?;
    let like_first = |kind: TokenKind| Token { kind, ..tokens[0].clone() };
    let mark = like_first(TokenKind::Quoted(format!("{MARK}{name}")));
    if let Some(insert) = result.iter().rposition(|token| token.kind.is_word("insert"))
        && insert > 0
        && result[insert - 1].kind.is_word("then")
    {
        let has_columns = result.get(insert + 1).is_some_and(|token| token.kind.is_character('('));
        if has_columns {
            drop(result.splice(insert + 2..insert + 2, [mark, like_first(TokenKind::Character(','))]));
        } else {
            let parentheses = [TokenKind::Character('('), TokenKind::Character(')')].map(like_first);
            let [open, close] = parentheses;
            result.extend([open, mark, close]);
        }
        return Some(length);
    }
    // Without columns, sqlparser would take the next word for an alias.
    if let [.., before, Token { kind: TokenKind::Word(table) | TokenKind::Quoted(table), .. }] =
        result.as_slice()
        && (before.kind.is_word("into") || before.kind.is_character('.'))
    {
        let alias = TokenKind::Quoted(table.clone());
        result.push(like_first(TokenKind::Word("as".to_owned())));
        result.push(like_first(alias));
    }
    result.push(like_first(TokenKind::Word("partition".to_owned())));
    result.push(like_first(TokenKind::Character('(')));
    result.push(mark);
    result.push(like_first(TokenKind::Character(')')));
    Some(length)
}

/// What `OVERRIDING` names, and how many words it has.
fn overriding_words(tokens: &[Token]) -> Option<(&'static str, usize)> {
    let forms: [(&[&str], &str); 2] =
        [(&["overriding", "system", "value"], "system"), (&["overriding", "user", "value"], "user")];
    let (words, name) = forms.into_iter().find(|(words, _)| begins_with(tokens, words))?;
    Some((name, words.len()))
}

/// At `GROUP BY DISTINCT` and `GROUP BY ALL`.
fn mark_distinct_groups(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    let is_distinct = begins_with(tokens, &["group", "by", "distinct"]);
    if !is_distinct && !begins_with(tokens, &["group", "by", "all"]) {
        return None;
    }
    result.extend_from_slice(&tokens[..2]);
    if is_distinct {
        let like_third = |kind: TokenKind| Token { kind, ..tokens[2].clone() };
        result.push(like_third(TokenKind::Quoted(format!("{MARK}distinct"))));
        result.push(like_third(TokenKind::Character(',')));
    }
    Some(3)
}

/// At `SELECT` without a list of results before something that sqlparser would take for one.
fn mark_nothing(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    if !has_no_results(&tokens[..tokens.len().min(2)]) {
        return None;
    }
    result.push(tokens[0].clone());
    result.push(Token { kind: TokenKind::Quoted(format!("{MARK}nothing")), ..tokens[0].clone() });
    Some(1)
}

/// At `AS (a integer)` of a function in `FROM`.
fn mark_column_definitions(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    let [word, open, name, of, ..] = tokens else { return None };
    let is_name = |token: &Token| matches!(token.kind, TokenKind::Word(_) | TokenKind::Quoted(_));
    let is_query = ["select", "with", "values", "table", "insert", "update", "delete", "merge"]
        .iter()
        .any(|word| name.kind.is_word(word));
    let is_definition = word.kind.is_word("as")
        && open.kind.is_character('(')
        && is_name(name)
        && is_name(of)
        && !is_query
        && result.last().is_some_and(|token| token.kind.is_character(')'));
    if !is_definition {
        return None;
    }
    result.push(word.clone());
    result.push(Token { kind: TokenKind::Quoted(format!("{MARK}columns")), ..word.clone() });
    Some(1)
}

/// Whether an alias only stands before definitions of columns.
pub(crate) fn is_columns_mark(alias: &sqlparser::ast::Ident) -> bool {
    alias.value.strip_prefix(MARK) == Some("columns")
}

/// At `ROWS FROM (..)`.
fn mark_rows_from(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    if !begins_with(tokens, &["rows", "from"]) || !tokens.get(2)?.kind.is_character('(') {
        return None;
    }
    result.push(Token { kind: TokenKind::Quoted(format!("{MARK}rows from")), ..tokens[0].clone() });
    Some(2)
}

/// Whether a function stands for `ROWS FROM`.
pub(crate) fn is_rows_from(name: &sqlparser::ast::ObjectName) -> bool {
    is_marked_name(name, "rows from")
}

/// Whether `.*` comes after an expression that is not a name.
fn is_all_fields(of: &Token, dot: &Token, star: &Token) -> bool {
    let is_expression = of.kind.is_character(')') || of.kind.is_character(']');
    is_expression && dot.kind.is_character('.') && star.kind.is_operator("*")
}

/// At `.*` after an expression.
fn mark_all_fields(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    let ([dot, star, ..], Some(of)) = (tokens, result.last()) else { return None };
    if !is_all_fields(of, dot, star) {
        return None;
    }
    result.push(dot.clone());
    result.push(Token { kind: TokenKind::Quoted(format!("{MARK}all")), ..star.clone() });
    Some(2)
}

/// Whether the name of a field stands for all of them.
pub(crate) fn is_all_fields_mark(field: &sqlparser::ast::Ident) -> bool {
    field.value.strip_prefix(MARK) == Some("all")
}

/// At `USING (a, b) AS x` of a join.
fn mark_using(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    let [using, open, ..] = tokens else { return None };
    if !using.kind.is_word("using") || !open.kind.is_character('(') {
        return None;
    }
    let is_listed = |token: &Token| {
        matches!(token.kind, TokenKind::Word(_) | TokenKind::Quoted(_)) || token.kind.is_character(',')
    };
    let length = tokens[2..].iter().position(|token| !is_listed(token))?;
    let [close, word, alias, ..] = &tokens[2 + length..] else { return None };
    let is_alias = matches!(alias.kind, TokenKind::Word(_) | TokenKind::Quoted(_));
    if !close.kind.is_character(')') || !word.kind.is_word("as") || !is_alias {
        return None;
    }
    result.extend_from_slice(&tokens[..2 + length]);
    let like_word = |kind: TokenKind| Token { kind, ..word.clone() };
    result.push(like_word(TokenKind::Character(',')));
    result.push(like_word(TokenKind::Quoted(format!("{MARK}as"))));
    result.push(like_word(TokenKind::Character(',')));
    result.push(alias.clone());
    result.push(close.clone());
    Some(length + 5)
}

/// The columns of `USING`, and the name for them.
pub(crate) fn using_names(
    names: &[sqlparser::ast::ObjectName],
) -> (&[sqlparser::ast::ObjectName], Option<&sqlparser::ast::ObjectName>) {
    match names {
        [columns @ .., mark, alias] if is_marked_name(mark, "as") => (columns, Some(alias)),
        columns => (columns, None),
    }
}

fn is_marked_name(name: &sqlparser::ast::ObjectName, mark: &str) -> bool {
    let ident = name.0.first().and_then(ObjectNamePart::as_ident);
    ident.is_some_and(|ident| ident.value.strip_prefix(MARK) == Some(mark))
}

/// At `THEN INSERT DEFAULT VALUES`.
fn mark_defaults(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    if !begins_with(tokens, &["then", "insert", "default", "values"]) {
        return None;
    }
    let like_third = |kind: TokenKind| Token { kind, ..tokens[2].clone() };
    result.extend_from_slice(&tokens[..2]);
    result.push(like_third(TokenKind::Character('(')));
    result.push(like_third(TokenKind::Quoted(format!("{MARK}defaults"))));
    result.push(like_third(TokenKind::Character(')')));
    result.push(tokens[3].clone());
    result.push(like_third(TokenKind::Character('(')));
    result.push(like_third(TokenKind::Number("0".to_owned())));
    result.push(like_third(TokenKind::Character(')')));
    Some(4)
}

fn has_no_results(tokens: &[Token]) -> bool {
    match tokens {
        [select] => select.kind.is_word("select"),
        [select, after, ..] => {
            select.kind.is_word("select")
                && (after.kind.is_character(')')
                    || ["union", "intersect", "except", "where"].iter().any(|word| after.kind.is_word(word)))
        }
        [] => false,
    }
}

fn is_mark(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Identifier(ident) if ident.value.strip_prefix(MARK) == Some(name))
}

/// The expressions that follow a mark in a list, up to the next one.
fn after_mark<'e>(list: &'e [Expr], name: &str) -> Option<&'e [Expr]> {
    let start = list.iter().position(|item| is_mark(item, name))? + 1;
    let is_next = |item: &Expr| matches!(item, Expr::Identifier(ident) if ident.value.starts_with(MARK));
    let length = list[start..].iter().position(is_next).unwrap_or(list.len() - start);
    Some(&list[start..start + length])
}

/// Whether columns stand for `DEFAULT VALUES`.
pub(crate) fn is_defaults_mark(columns: &[sqlparser::ast::ObjectName]) -> bool {
    matches!(columns, [only] if is_marked_name(only, "defaults"))
}

/// Whether it stands for `DISTINCT` of `GROUP BY`.
pub(crate) fn is_distinct_mark(expr: &Expr) -> bool {
    is_mark(expr, "distinct")
}

/// Whether it stands for a list of results without any.
pub(crate) fn is_nothing_mark(expr: &Expr) -> bool {
    is_mark(expr, "nothing")
}

/// What `INSERT` says about values of identity columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overriding {
    /// They are taken, also of columns that are always generated.
    System,
    /// They are passed over.
    User,
}

/// `OVERRIDING` of `INSERT` in a `MERGE`, and the columns without its mark.
pub(crate) fn merge_overriding(
    columns: &[sqlparser::ast::ObjectName],
) -> (Option<Overriding>, &[sqlparser::ast::ObjectName]) {
    match columns {
        [mark, rest @ ..] if is_marked_name(mark, "system") => (Some(Overriding::System), rest),
        [mark, rest @ ..] if is_marked_name(mark, "user") => (Some(Overriding::User), rest),
        columns => (None, columns),
    }
}

/// `OVERRIDING` of an `INSERT`.
pub(crate) fn overriding(insert: &Insert) -> Option<Overriding> {
    let list = insert.partitioned.as_deref()?;
    match () {
        () if list.iter().any(|item| is_mark(item, "system")) => Some(Overriding::System),
        () if list.iter().any(|item| is_mark(item, "user")) => Some(Overriding::User),
        () => None,
    }
}

/// At the end of a window's frame with an exclusion: the same for it.
fn mark_exclusion(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    let forms: [(&[&str], &str); 4] = [
        (&["exclude", "no", "others"], ""),
        (&["exclude", "current", "row"], "current"),
        (&["exclude", "group"], "group"),
        (&["exclude", "ties"], "ties"),
    ];
    let (words, exclusion) = forms.into_iter().find(|(words, _)| begins_with(tokens, words))?;
    let bounds: [(&[&str], bool); 5] = [
        (&["current", "row"], false),
        (&["unbounded", "preceding"], false),
        (&["unbounded", "following"], false),
        (&["preceding"], true),
        (&["following"], true),
    ];
    let ends_with = |words: &[&str]| {
        result.len().checked_sub(words.len()).is_some_and(|start| begins_with(&result[start..], words))
    };
    let (bound, has_offset) = bounds.into_iter().find(|(words, _)| ends_with(words))?;
    if !exclusion.is_empty() {
        result.truncate(result.len() - bound.len());
        let like_first = |kind: TokenKind| Token { kind, ..tokens[0].clone() };
        if has_offset {
            result.push(like_first(TokenKind::Word("or".to_owned())));
        }
        result.push(like_first(TokenKind::Quoted(format!("{MARK}{exclusion} {}", bound.join(" ")))));
        result.push(like_first(TokenKind::Word("following".to_owned())));
    }
    Some(words.len())
}

/// What a marked frame leaves out.
pub(crate) fn marked_exclusion(frame: &WindowFrame) -> FrameExclusion {
    match mark_of(frame.end_bound.as_ref().unwrap_or(&frame.start_bound)) {
        Some((mark, _)) if mark.starts_with("current ") => FrameExclusion::CurrentRow,
        Some((mark, _)) if mark.starts_with("group ") => FrameExclusion::Group,
        Some((mark, _)) if mark.starts_with("ties ") => FrameExclusion::Ties,
        _ => FrameExclusion::NoOthers,
    }
}

/// The frame with the bound that was written instead of its mark.
pub(crate) fn unmarked_frame(frame: &WindowFrame) -> WindowFrame {
    let mut frame = frame.clone();
    let last = frame.end_bound.as_mut().unwrap_or(&mut frame.start_bound);
    if let Some((mark, offset)) = mark_of(last) {
        let offset = offset.cloned().map(Box::new);
        let bound = match mark.split_once(' ').map(|(_, bound)| bound) {
            Some("current row") => WindowFrameBound::CurrentRow,
            Some("preceding" | "unbounded preceding") => WindowFrameBound::Preceding(offset),
            _ => WindowFrameBound::Following(offset),
        };
        *last = bound;
    }
    frame
}

/// The mark of a bound, and the offset before it.
fn mark_of(bound: &WindowFrameBound) -> Option<(&str, Option<&Expr>)> {
    let WindowFrameBound::Following(Some(expr)) = bound else { return None };
    match &**expr {
        Expr::Identifier(ident) => Some((ident.value.strip_prefix(MARK)?, None)),
        Expr::BinaryOp { left, op: BinaryOperator::Or, right } => match &**right {
            Expr::Identifier(ident) => Some((ident.value.strip_prefix(MARK)?, Some(left))),
            _ => None,
        },
        _ => None,
    }
}
