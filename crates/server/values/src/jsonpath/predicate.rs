//! What filters and comparisons answer: yes, no, or unknown.

use std::rc::Rc;

use super::evaluate::{Evaluation, Failure, Outcome};
use super::{Comparison, Node};
use crate::datum::Jsonb;
use crate::error::{SqlError, SqlResult};
use crate::regex::{self, Expression, Flags, Syntax};

/// `None`: unknown.
type Truth = Option<bool>;

impl Evaluation<'_> {
    /// The answer of a predicate.
    pub(super) fn truth(&mut self, predicate: &Node, current: &Jsonb) -> Outcome<Truth> {
        self.deeper(|evaluation| evaluation.answer(predicate, current))
    }

    fn answer(&mut self, predicate: &Node, current: &Jsonb) -> Outcome<Truth> {
        match predicate {
            // The second side counts even if the first one is unknown.
            Node::And(left, right) => match self.truth(left, current)? {
                Some(false) => Ok(Some(false)),
                left => match self.truth(right, current)? {
                    Some(true) => Ok(left),
                    right => Ok(right),
                },
            },
            Node::Or(left, right) => match self.truth(left, current)? {
                Some(true) => Ok(Some(true)),
                left => match self.truth(right, current)? {
                    Some(false) => Ok(left),
                    right => Ok(right),
                },
            },
            Node::Not(inner) => Ok(self.truth(inner, current)?.map(|truth| !truth)),
            Node::IsUnknown(inner) => Ok(Some(self.truth(inner, current)?.is_none())),
            Node::Compare(comparison, left, right) => {
                let Some(left) = self.operands(left, current)? else { return Ok(None) };
                let Some(right) = self.operands(right, current)? else { return Ok(None) };
                let pairs = left.iter().flat_map(|left| right.iter().map(move |right| (left, right)));
                Ok(self.any(pairs.map(|(left, right)| compare(*comparison, left, right))))
            }
            Node::StartsWith(subject, prefix) => {
                let Some(subjects) = self.operands(subject, current)? else { return Ok(None) };
                let mut prefixes = Vec::new();
                self.items(prefix, current, &mut prefixes)?;
                let pairs =
                    subjects.iter().flat_map(|text| prefixes.iter().map(move |prefix| (text, prefix)));
                Ok(self.any(pairs.map(|pair| match pair {
                    (Jsonb::String(text), Jsonb::String(prefix)) => Some(text.starts_with(prefix.as_ref())),
                    _ => None,
                })))
            }
            Node::LikeRegex(subject, pattern, flags) => {
                let Some(subjects) = self.operands(subject, current)? else { return Ok(None) };
                let expression = compiled(pattern, flags).map_err(Failure::Statement)?;
                let mut answers = Vec::with_capacity(subjects.len());
                for subject in &subjects {
                    answers.push(match subject {
                        Jsonb::String(text) => Some(expression.is_match(text).map_err(Failure::Statement)?),
                        _ => None,
                    });
                }
                Ok(self.any(answers.into_iter()))
            }
            Node::Exists(inner) => self.exists(inner, current),
            _ => Err(Failure::Statement(SqlError::internal("a predicate of a jsonpath is none"))),
        }
    }

    fn exists(&mut self, inner: &Node, current: &Jsonb) -> Outcome<Truth> {
        let mut items = Vec::new();
        match self.items(inner, current, &mut items) {
            Ok(()) => Ok(Some(!items.is_empty())),
            // In `lax` mode the first item is enough, whatever comes after it.
            Err(Failure::Path(_)) if self.is_lax && !items.is_empty() => Ok(Some(true)),
            Err(Failure::Path(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The items of an operand; `None` if they cannot be computed.
    fn operands(&mut self, node: &Node, current: &Jsonb) -> Outcome<Option<Vec<Jsonb>>> {
        match self.unwrapped(node, current) {
            Ok(items) => Ok(Some(items)),
            Err(Failure::Path(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether one of the answers is yes. In `strict` mode none may be unknown.
    fn any(&self, answers: impl Iterator<Item = Truth>) -> Truth {
        let (mut is_found, mut is_unknown) = (false, false);
        for answer in answers {
            match answer {
                Some(true) if self.is_lax => return Some(true),
                Some(true) => is_found = true,
                Some(false) => {}
                None if !self.is_lax => return None,
                None => is_unknown = true,
            }
        }
        if is_unknown && !is_found { None } else { Some(is_found) }
    }
}

fn compare(comparison: Comparison, left: &Jsonb, right: &Jsonb) -> Truth {
    let order = match (left, right) {
        (Jsonb::Null, Jsonb::Null) => std::cmp::Ordering::Equal,
        (Jsonb::Bool(left), Jsonb::Bool(right)) => left.cmp(right),
        (Jsonb::Number(left), Jsonb::Number(right)) => left.compare(right),
        (Jsonb::String(left), Jsonb::String(right)) => left.as_bytes().cmp(right.as_bytes()),
        // A null is different from all others, and in no order with them.
        (Jsonb::Null, _) | (_, Jsonb::Null) => return Some(comparison == Comparison::NotEqual),
        _ => return None,
    };
    Some(match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

/// The expression of `like_regex`. Without the flag `s` a point matches no newline, as in XQuery.
///
/// # Errors
/// `2201B`, and `0A000` for the flag `x`.
pub(super) fn compiled(pattern: &str, letters: &str) -> SqlResult<Rc<Expression>> {
    let has = |letter: char| letters.contains(letter);
    if has('x') && !has('q') {
        return Err(SqlError::new(
            crate::error::SqlState::FEATURE_NOT_SUPPORTED,
            "XQuery \"x\" flag (expanded regular expressions) is not implemented",
        ));
    }
    let flags = Flags {
        syntax: if has('q') { Syntax::Literal } else { Syntax::Advanced },
        ignores_case: has('i'),
        is_expanded: false,
        newline_stops: !has('q') && !has('s'),
        newline_anchors: !has('q') && has('m'),
    };
    regex::compiled(pattern, flags)
}
