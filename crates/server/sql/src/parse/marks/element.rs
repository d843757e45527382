//! Assignments to elements of arrays, members of JSON and fields of rows.
//!
//! * `SET a[1] = x` becomes `SET a = "<mark>element"(a[1], x)`.
//! * `INSERT INTO t (a[1], b)` becomes `INSERT INTO t (a, b) PARTITION ("<mark>elements", a[1], b)`.

use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Insert, ObjectNamePart};

use super::super::token::{Token, TokenKind};
use super::{MARK, marked, overriding_words};

/// Words that end a list of assignments.
const AFTER_ASSIGNMENTS: [&str; 4] = ["where", "from", "returning", "when"];

pub(super) fn is_name(token: &Token) -> bool {
    matches!(token.kind, TokenKind::Word(_) | TokenKind::Quoted(_))
}

/// Whether a token opens (1) or closes (-1) a level: `CASE` and `END` do, too.
fn change_of_level(token: &Token) -> i32 {
    match &token.kind {
        TokenKind::Character('(' | '[') => 1,
        TokenKind::Character(')' | ']') => -1,
        TokenKind::Word(word) if word == "case" => 1,
        TokenKind::Word(word) if word == "end" => -1,
        _ => 0,
    }
}

/// How many tokens there are before the first that `ends` at their own level, or before the end of that level.
pub(super) fn length_until(tokens: &[Token], ends: impl Fn(&[Token], usize) -> bool) -> usize {
    let mut level = 0;
    for (at, token) in tokens.iter().enumerate() {
        if level == 0 && ends(tokens, at) {
            return at;
        }
        level += change_of_level(token);
        if level < 0 {
            return at;
        }
    }
    tokens.len()
}

fn ends_assignment(tokens: &[Token], at: usize) -> bool {
    let token = &tokens[at];
    let is_distinct_from = at > 0 && token.kind.is_word("from") && tokens[at - 1].kind.is_word("distinct");
    token.kind.is_character(',')
        || (!is_distinct_from && AFTER_ASSIGNMENTS.iter().any(|word| token.kind.is_word(word)))
}

fn like(token: &Token, kind: TokenKind) -> Token {
    Token { kind, ..token.clone() }
}

fn mark(token: &Token, name: &str) -> Token {
    like(token, TokenKind::Quoted(format!("{MARK}{name}")))
}

/// Whether an element or a field of what is named before is meant.
fn begins_part(token: &Token) -> bool {
    token.kind.is_character('[') || token.kind.is_character('.')
}

/// At `SET` with an assignment to an element: all assignments.
pub(super) fn mark_assignments(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    let (set, list) = tokens.split_first()?;
    if !set.kind.is_word("set") || result.is_empty() {
        return None;
    }
    // `ALTER ROLE r SET a.b = 1` is about a setting.
    let is_of_setting =
        result.first().is_some_and(|first| first.kind.is_word("alter") || first.kind.is_word("create"));
    let is_part = |token: &Token| begins_part(token) && !(is_of_setting && token.kind.is_character('.'));
    let is_element = |item: &[Token]| matches!(item, [name, next, ..] if is_name(name) && is_part(next));
    let mut items = Vec::new();
    let mut rest = list;
    loop {
        let length = length_until(rest, ends_assignment);
        items.push(&rest[..length]);
        match rest.get(length) {
            Some(comma) if comma.kind.is_character(',') => rest = &rest[length + 1..],
            _ => break,
        }
    }
    if !items.iter().any(|item| is_element(item)) {
        return None;
    }
    result.push(set.clone());
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            result.push(like(set, TokenKind::Character(',')));
        }
        let equals = length_until(item, |tokens, at| tokens[at].kind.is_operator("="));
        if !is_element(item) || equals == item.len() {
            result.extend(marked(item.to_vec()));
            continue;
        }
        let name = &item[0];
        result.extend([name.clone(), item[equals].clone(), mark(name, "element")]);
        result.push(like(name, TokenKind::Character('(')));
        result.extend(marked(item[..equals].to_vec()));
        result.push(like(name, TokenKind::Character(',')));
        result.extend(marked(item[equals + 1..].to_vec()));
        result.push(like(name, TokenKind::Character(')')));
    }
    Some(1 + items.iter().map(|item| item.len() + 1).sum::<usize>() - 1)
}

/// Whether tokens are a table, perhaps under another name. What begins the rows is no name of it: `INSERT INTO t VALUES (array[1])`.
fn is_target(tokens: &[Token]) -> bool {
    let is_table = |token: &Token| is_name(token) || token.kind.is_character('.');
    let begins_rows = |token: &Token| {
        ["values", "select", "table", "with", "default", "overriding"]
            .iter()
            .any(|word| token.kind.is_word(word))
    };
    tokens.iter().all(is_table) && !tokens.iter().any(begins_rows)
}

/// At `INTO t (..)` with an element among the columns.
pub(super) fn mark_columns(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    let (into, after) = tokens.split_first()?;
    if !into.kind.is_word("into") || !result.last()?.kind.is_word("insert") {
        return None;
    }
    let open = after.iter().position(|token| token.kind.is_character('('))?;
    if !is_target(&after[..open]) {
        return None;
    }
    let list = &after[open + 1..];
    let length = length_until(list, |_, _| false);
    let list = &list[..length];
    let items: Vec<&[Token]> = split_at_commas(list);
    let is_item = |item: &&[Token]| {
        item.first().is_some_and(is_name)
            && item.get(1).is_none_or(|second| second.kind.is_character('[') || second.kind.is_character('.'))
    };
    if !items.iter().all(is_item) || !items.iter().any(|item| item.get(1).is_some_and(begins_part)) {
        return None;
    }
    let close = after.get(open + 1 + length)?;
    result.push(into.clone());
    result.extend_from_slice(&after[..=open]);
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            result.push(like(close, TokenKind::Character(',')));
        }
        result.push(item[0].clone());
    }
    result.push(close.clone());
    result.push(like(close, TokenKind::Word("partition".to_owned())));
    result.push(like(close, TokenKind::Character('(')));
    let (overriding, taken) = overriding_words(&after[open + length + 2..]).unzip();
    if let Some(name) = overriding {
        result.extend([mark(close, name), like(close, TokenKind::Character(','))]);
    }
    result.push(mark(close, "elements"));
    for item in items {
        result.push(like(close, TokenKind::Character(',')));
        result.extend(marked(item.to_vec()));
    }
    result.push(like(close, TokenKind::Character(')')));
    Some(1 + open + 1 + length + 1 + taken.unwrap_or(0))
}

pub(super) fn split_at_commas(list: &[Token]) -> Vec<&[Token]> {
    let mut items = Vec::new();
    let mut rest = list;
    loop {
        let length = length_until(rest, |tokens, at| tokens[at].kind.is_character(','));
        items.push(&rest[..length]);
        match rest.get(length + 1..) {
            Some(after) if length < rest.len() => rest = after,
            _ => return items,
        }
    }
}

/// Of `SET a[1] = x`: the target and the value.
pub(crate) fn assigned_element(value: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::Function(call) = value else {
        return None;
    };
    let [ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else {
        return None;
    };
    if name.value.strip_prefix(MARK) != Some("element") {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(target)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    Some((target, value))
}

/// Of `INSERT INTO t (a[1], b)`: what is listed, if there is an element in it.
pub(crate) fn listed_elements(insert: &Insert) -> Option<&[Expr]> {
    super::after_mark(insert.partitioned.as_deref()?, "elements")
}
