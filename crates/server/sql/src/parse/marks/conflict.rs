//! `ON CONFLICT` with expressions or a condition: `INSERT INTO t (a) VALUES (1) ON CONFLICT (lower(a)) WHERE b` becomes
//! `INSERT INTO t (a) PARTITION ("<mark>keys", lower(a), "<mark>condition", b) VALUES (1) ON CONFLICT ON CONSTRAINT "<mark>inferred"`.

use sqlparser::ast::{Expr, Insert, ObjectName};

use super::super::token::{Token, TokenKind};
use super::element::{is_name, length_until, split_at_commas};
use super::{MARK, after_mark, begins_with, is_marked_name, marked};

/// What a conflict is inferred from.
#[derive(Debug)]
pub(crate) struct Inference<'i> {
    pub(crate) keys: &'i [Expr],
    pub(crate) condition: Option<&'i Expr>,
}

/// The inference that a marked constraint stands for.
pub(crate) fn inference<'i>(insert: &'i Insert, constraint: &ObjectName) -> Option<Inference<'i>> {
    if !is_marked_name(constraint, "inferred") {
        return None;
    }
    let list = insert.partitioned.as_deref()?;
    let condition = after_mark(list, "condition").and_then(|list| list.first());
    Some(Inference { keys: after_mark(list, "keys")?, condition })
}

/// At `ON CONFLICT (..)` with more than names.
pub(super) fn mark_inference(tokens: &[Token], result: &mut Vec<Token>) -> Option<usize> {
    if !begins_with(tokens, &["on", "conflict"]) || !tokens.get(2)?.kind.is_character('(') {
        return None;
    }
    let length = length_until(&tokens[3..], |_, _| false);
    let items = split_at_commas(&tokens[3..3 + length]);
    let after = tokens.get(3 + length + 1..)?;
    let has_condition = after.first().is_some_and(|token| token.kind.is_word("where"));
    if !has_condition && items.iter().all(|item| matches!(item, [name] if is_name(name))) {
        return None;
    }
    let condition = match has_condition {
        true => length_until(&after[1..], |tokens, at| tokens[at].kind.is_word("do")),
        false => 0,
    };
    let like = |kind: TokenKind| Token { kind, ..tokens[2].clone() };
    let mark = |name: &str| like(TokenKind::Quoted(format!("{MARK}{name}")));
    let comma = || like(TokenKind::Character(','));
    let mut list = vec![mark("keys")];
    for item in items {
        list.push(comma());
        list.extend(marked(without_operator_class(item).to_vec()));
    }
    if has_condition {
        list.extend([comma(), mark("condition"), comma()]);
        list.extend(marked(after[1..1 + condition].to_vec()));
    }
    insert_list(result, list, &like)?;
    let word = |word: &str| like(TokenKind::Word(word.to_owned()));
    result.extend([word("on"), word("conflict"), word("on"), word("constraint"), mark("inferred")]);
    Some(3 + length + 1 + usize::from(has_condition) + condition)
}

/// An item without the name of an operator class, which makes no difference here.
fn without_operator_class(item: &[Token]) -> &[Token] {
    match item {
        [rest @ .., before, class] if is_name(class) => {
            let is_operand = is_name(before) || before.kind.is_character(')');
            if is_operand && !before.kind.is_word("collate") { &item[..=rest.len()] } else { item }
        }
        _ => item,
    }
}

/// Puts a list after the columns of the `INSERT` that the tokens end with.
fn insert_list(result: &mut Vec<Token>, list: Vec<Token>, like: &dyn Fn(TokenKind) -> Token) -> Option<()> {
    let mut level = 0;
    let into = result.iter().enumerate().rev().position(|(at, token)| {
        match token.kind {
            TokenKind::Character(')') => level += 1,
            TokenKind::Character('(') => level -= 1,
            _ => {}
        }
        level == 0
            && token.kind.is_word("into")
            && at.checked_sub(1).is_some_and(|before| result[before].kind.is_word("insert"))
    })?;
    let mut at = result.len() - into;
    let name = at;
    while result
        .get(at)
        .is_some_and(|token| token.kind.is_character('.') || (is_name(token) && is_part(result, at, name)))
    {
        at += 1;
    }
    let mut has_alias = false;
    if result.get(at).is_some_and(|token| token.kind.is_word("as")) {
        has_alias = true;
        at += 2;
    }
    let has_columns = result.get(at).is_some_and(|token| token.kind.is_character('('))
        && !result.get(at + 1).is_some_and(|token| {
            ["select", "with", "values", "table"].iter().any(|word| token.kind.is_word(word))
        });
    if has_columns {
        at += 2 + length_until(&result[at + 1..], |_, _| false);
    }
    if result.get(at).is_some_and(|token| token.kind.is_word("partition")) {
        let mut inside = list;
        inside.push(like(TokenKind::Character(',')));
        result.splice(at + 2..at + 2, inside);
        return Some(());
    }
    let mut whole = Vec::with_capacity(list.len() + 5);
    if !has_alias && !has_columns {
        // Without columns, sqlparser would take the next word for an alias.
        let alias = match &result.get(at - 1)?.kind {
            TokenKind::Word(name) | TokenKind::Quoted(name) => TokenKind::Quoted(name.clone()),
            _ => return None,
        };
        whole.extend([like(TokenKind::Word("as".to_owned())), like(alias)]);
    }
    whole.extend([like(TokenKind::Word("partition".to_owned())), like(TokenKind::Character('('))]);
    whole.extend(list);
    whole.push(like(TokenKind::Character(')')));
    result.splice(at..at, whole);
    Some(())
}

/// Whether a name is a part of the table's: the first one, or one after a dot.
fn is_part(tokens: &[Token], at: usize, first: usize) -> bool {
    at == first || tokens[at - 1].kind.is_character('.')
}
