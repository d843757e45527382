//! `jsonpath`: expressions that select parts of a `jsonb`.
//!
//! * `lexer`, `parser`: text to a tree. `print`: the tree as the type shows it, which is what a value of the type keeps.
//! * `evaluate`: the items that a path selects. `predicate`: what filters and comparisons answer.

mod evaluate;
mod lexer;
mod parser;
mod predicate;
mod print;

use std::cell::RefCell;
use std::rc::Rc;

use crate::datum::Jsonb;
use crate::error::SqlResult;

pub(crate) use evaluate::{Selection, select};

/// A path.
#[derive(Debug)]
pub(crate) struct Path {
    /// `lax`, the default: arrays are unwrapped where single values are wanted, and absent parts are no errors.
    pub(crate) is_lax: bool,
    pub(crate) expression: Node,
}

/// An expression: items, or the answer of a predicate.
#[derive(Debug)]
pub(crate) enum Node {
    /// `$`.
    Root,
    /// `@`.
    Current,
    /// `last`.
    Last,
    /// A scalar.
    Literal(Jsonb),
    /// `$name`.
    Variable(String),
    /// A value and what is taken of it.
    Steps(Box<Node>, Vec<Step>),
    Arithmetic(Arithmetic, Box<Node>, Box<Node>),
    /// `+` (`false`) or `-` before an expression.
    Sign(bool, Box<Node>),
    Compare(Comparison, Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Not(Box<Node>),
    IsUnknown(Box<Node>),
    Exists(Box<Node>),
    StartsWith(Box<Node>, Box<Node>),
    /// A subject, a pattern, letters of flags.
    LikeRegex(Box<Node>, String, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What is taken of an item.
#[derive(Debug)]
pub(crate) enum Step {
    /// `.key`.
    Member(String),
    /// `.*`.
    AnyMember,
    /// `[*]`.
    AnyElement,
    /// `[1, 2 to last]`.
    Elements(Vec<(Node, Option<Node>)>),
    /// `.**{first to last}`; no number is `last`.
    Descendants(Option<u32>, Option<u32>),
    /// `?(predicate)`.
    Filter(Node),
    Method(Method),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Abs,
    Size,
    Type,
    Floor,
    Ceiling,
    Double,
}

impl Method {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Method::Abs => "abs",
            Method::Size => "size",
            Method::Type => "type",
            Method::Floor => "floor",
            Method::Ceiling => "ceiling",
            Method::Double => "double",
        }
    }
}

impl Arithmetic {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Modulo => "%",
        }
    }
}

impl Comparison {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

/// Paths that a thread keeps.
const KEPT_MAX: usize = 16;

thread_local! {
    /// Most recently made last.
    static CACHE: RefCell<Vec<(String, Rc<Path>)>> = const { RefCell::new(Vec::new()) };
}

/// The tree of a path, or that which was made before.
///
/// # Errors
/// `42601` with what is wrong.
pub(crate) fn parsed(text: &str) -> SqlResult<Rc<Path>> {
    CACHE.with(|cache| {
        let mut cache = cache.borrow_mut();
        if let Some((_, path)) = cache.iter().rev().find(|(known, _)| known == text) {
            return Ok(Rc::clone(path));
        }
        let path = Rc::new(parser::parse(text)?);
        if cache.len() >= KEPT_MAX {
            cache.remove(0);
        }
        cache.push((text.to_owned(), Rc::clone(&path)));
        Ok(path)
    })
}

/// The text that a value of the type keeps for a text.
///
/// # Errors
/// As `parsed`.
pub(crate) fn canonical(text: &str) -> SqlResult<String> {
    parser::parse(text).map(|path| print::print(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(path: &str, root: &str) -> String {
        let selected = parsed(path).and_then(|path| {
            let (root, variables) = (crate::json::parse(root)?, Jsonb::Object(Vec::new()));
            select(&Selection { path: &path, root: &root, variables: &variables, is_silent: true })
        });
        selected.map_or_else(|error| error.code.as_str().to_owned(), |_| "none".to_owned())
    }

    #[test]
    fn deep_paths_and_values_are_refused() {
        let many = |part: &str| part.repeat(100_000);
        for path in [
            ["$", &many("[*]")].concat(),
            ["$", &many(" + 1")].concat(),
            [&many("("), "$"].concat(),
            [&many("-"), "$"].concat(),
            ["$ ? (@ == 1", &many(" || @ == 1"), ")"].concat(),
            ["$", &many("[$"), &many("]")].concat(),
        ] {
            assert_eq!(error(&path, "1"), "54001", "{}", &path[..20]);
        }
        let nested = ["[".repeat(900), "]".repeat(900)].concat();
        assert_eq!(error("$.**", &nested), "none");
        assert_eq!(error("$.** ? (@.size() == 0)", &nested), "none");
    }
}
