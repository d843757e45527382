//! Regular expressions of PostgreSQL: translated for crate `fancy_regex`, compiled once, found again by their text.
//!
//! PostgreSQL takes the longest of all matches that begin first, Perl the first one that it finds. They differ where alternatives are
//! tried: expressions with alternatives look for the longest match. Which groups take which part of a match is as Perl has it.

mod brackets;
mod translate;

use std::cell::RefCell;
use std::rc::Rc;

use fancy_regex::{Captures, Regex, RegexBuilder};

pub(crate) use translate::set_option;

use crate::error::{SqlError, SqlResult, SqlState};

/// How an expression is read, and what newlines mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flags {
    pub(crate) syntax: Syntax,
    pub(crate) ignores_case: bool,
    /// White space and comments in the expression do not count.
    pub(crate) is_expanded: bool,
    /// Neither `.` nor a negated bracket matches a newline.
    pub(crate) newline_stops: bool,
    /// `^` and `$` match around newlines.
    pub(crate) newline_anchors: bool,
}

/// The kinds of expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Syntax {
    /// PostgreSQL's own.
    Advanced,
    /// POSIX's extended ones.
    Extended,
    /// POSIX's basic ones.
    Basic,
    /// A text.
    Literal,
}

impl Default for Flags {
    fn default() -> Flags {
        Flags {
            syntax: Syntax::Advanced,
            ignores_case: false,
            is_expanded: false,
            newline_stops: false,
            newline_anchors: false,
        }
    }
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    regex: Regex,
}

/// A match: places in bytes of the whole and of each group.
pub(crate) type Match = Vec<Option<std::ops::Range<usize>>>;

/// Expressions that a thread keeps.
const KEPT_MAX: usize = 32;

/// A compiled expression and what it was compiled from.
type Kept = (String, Flags, Rc<Expression>);

thread_local! {
    /// Most recently used last.
    static CACHE: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// Compiles an expression, or finds it among those compiled before.
///
/// # Errors
/// `2201B` with what is wrong.
pub(crate) fn compiled(pattern: &str, flags: Flags) -> SqlResult<Rc<Expression>> {
    CACHE.with(|cache| {
        let mut cache = cache.borrow_mut();
        let place = cache.iter().rposition(|(text, known, _)| *known == flags && text == pattern);
        if let Some(place) = place {
            let last = cache.len() - 1;
            // The one in use most is found first.
            if place < last {
                cache[place..].rotate_left(1);
            }
            return Ok(Rc::clone(&cache[last].2));
        }
        let expression = Rc::new(compile(pattern, flags)?);
        if cache.len() >= KEPT_MAX {
            cache.remove(0);
        }
        cache.push((pattern.to_owned(), flags, Rc::clone(&expression)));
        Ok(expression)
    })
}

fn compile(pattern: &str, flags: Flags) -> SqlResult<Expression> {
    let translation = translate::translate(pattern, flags)?;
    let build = |is_longest: bool| {
        RegexBuilder::new(&translation.text)
            .case_insensitive(translation.flags.ignores_case)
            .leftmost_longest(is_longest)
            .backtrack_limit(BACKTRACK_MAX)
            .build()
    };
    let wants_longest = translation.has_alternatives && !translation.has_reluctant;
    let regex = if wants_longest { build(true).or_else(|_| build(false)) } else { build(false) };
    let regex = regex.map_err(|_| invalid("regular expression is too complex"))?;
    Ok(Expression { regex })
}

/// Steps back that a search may take: more is an error, so that none runs for ever.
const BACKTRACK_MAX: usize = 1_000_000;

/// `2201B`.
#[cold]
pub(crate) fn invalid(what: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {what}"))
}

#[cold]
fn failed(error: &fancy_regex::Error) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("regular expression failed: {error}"))
}

impl Expression {
    /// Whether there is a match.
    pub(crate) fn is_match(&self, text: &str) -> SqlResult<bool> {
        self.regex.is_match(text).map_err(|error| failed(&error))
    }

    /// The first match that begins at `start` or later.
    pub(crate) fn find(&self, text: &str, start: usize) -> SqlResult<Option<Match>> {
        if start > text.len() {
            return Ok(None);
        }
        let captures: Option<Captures<'_, str>> =
            self.regex.captures_from_pos(text, start).map_err(|error| failed(&error))?;
        Ok(captures.map(|captures| captures.iter().map(|group| group.map(|found| found.range())).collect()))
    }
}

/// The place of the next character: where a search goes on after an empty match. After the last one it is past the end.
pub(crate) fn next_place(text: &str, at: usize) -> usize {
    at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}
