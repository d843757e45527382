//! A path as its type shows it.

use std::fmt::Write;

use super::{Node, Path, Step};
use crate::json;

pub(super) fn print(path: &Path) -> String {
    let mut text = String::from(if path.is_lax { "" } else { "strict " });
    node(&path.expression, true, &mut text);
    text
}

/// How tightly an expression binds.
fn priority(node: &Node) -> u8 {
    use super::Arithmetic::{Add, Subtract};
    match node {
        Node::Or(..) => 0,
        Node::And(..) => 1,
        Node::Compare(..) | Node::StartsWith(..) => 2,
        Node::Arithmetic(Add | Subtract, ..) => 3,
        Node::Arithmetic(..) => 4,
        Node::Sign(..) => 5,
        Node::Root
        | Node::Current
        | Node::Last
        | Node::Literal(_)
        | Node::Variable(_)
        | Node::Steps(..)
        | Node::Not(_)
        | Node::IsUnknown(_)
        | Node::Exists(_)
        | Node::LikeRegex(..) => 6,
    }
}

fn append(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string takes all that is written");
}

/// An operand, in parentheses unless it binds more tightly.
fn operand(of: &Node, inner: &Node, text: &mut String) {
    node(inner, priority(inner) <= priority(of), text);
}

fn binary(of: &Node, left: &Node, symbol: &str, right: &Node, has_parentheses: bool, text: &mut String) {
    enclosed(has_parentheses, text, |text| {
        operand(of, left, text);
        append(text, format_args!(" {symbol} "));
        operand(of, right, text);
    });
}

fn enclosed(has_parentheses: bool, text: &mut String, body: impl FnOnce(&mut String)) {
    if has_parentheses {
        text.push('(');
    }
    body(text);
    if has_parentheses {
        text.push(')');
    }
}

fn node(this: &Node, has_parentheses: bool, text: &mut String) {
    match this {
        Node::Root => text.push('$'),
        Node::Current => text.push('@'),
        Node::Last => text.push_str("last"),
        Node::Literal(value) => json::print(value, text),
        Node::Variable(name) => {
            text.push('$');
            json::escape_into(name, text);
        }
        Node::Steps(start, steps) => {
            let is_number = matches!(**start, Node::Literal(crate::datum::Jsonb::Number(_)));
            enclosed(is_number, text, |text| node(start, true, text));
            steps.iter().for_each(|taken| step(taken, text));
        }
        Node::Arithmetic(operator, left, right) => {
            binary(this, left, operator.symbol(), right, has_parentheses, text);
        }
        Node::Compare(operator, left, right) => {
            binary(this, left, operator.symbol(), right, has_parentheses, text);
        }
        Node::And(left, right) => binary(this, left, "&&", right, has_parentheses, text),
        Node::Or(left, right) => binary(this, left, "||", right, has_parentheses, text),
        Node::StartsWith(left, right) => binary(this, left, "starts with", right, has_parentheses, text),
        Node::Sign(is_minus, inner) => enclosed(has_parentheses, text, |text| {
            text.push(if *is_minus { '-' } else { '+' });
            operand(this, inner, text);
        }),
        Node::Not(inner) => {
            text.push('!');
            enclosed(true, text, |text| node(inner, false, text));
        }
        Node::IsUnknown(inner) => {
            enclosed(true, text, |text| node(inner, false, text));
            text.push_str(" is unknown");
        }
        Node::Exists(inner) => {
            text.push_str("exists ");
            enclosed(true, text, |text| node(inner, false, text));
        }
        Node::LikeRegex(subject, pattern, flags) => enclosed(has_parentheses, text, |text| {
            operand(this, subject, text);
            text.push_str(" like_regex ");
            json::escape_into(pattern, text);
            if !flags.is_empty() {
                text.push_str(" flag \"");
                // Each flag once, in this order.
                text.extend("ismxq".chars().filter(|letter| flags.contains(*letter)));
                text.push('"');
            }
        }),
    }
}

fn level(number: Option<u32>) -> String {
    number.map_or_else(|| "last".to_owned(), |number| number.to_string())
}

fn step(step: &Step, text: &mut String) {
    match step {
        Step::Member(key) => {
            text.push('.');
            json::escape_into(key, text);
        }
        Step::AnyMember => text.push_str(".*"),
        Step::AnyElement => text.push_str("[*]"),
        Step::Elements(elements) => {
            text.push('[');
            for (index, (first, last)) in elements.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                node(first, false, text);
                if let Some(last) = last {
                    text.push_str(" to ");
                    node(last, false, text);
                }
            }
            text.push(']');
        }
        Step::Descendants(Some(0), None) => text.push_str(".**"),
        Step::Descendants(first, last) if first == last => {
            append(text, format_args!(".**{{{}}}", level(*first)))
        }
        Step::Descendants(first, last) => {
            append(text, format_args!(".**{{{} to {}}}", level(*first), level(*last)));
        }
        Step::Filter(predicate) => {
            text.push_str("?(");
            node(predicate, false, text);
            text.push(')');
        }
        Step::Method(method) => append(text, format_args!(".{}()", method.name())),
    }
}
