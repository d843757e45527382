//! Regular expressions: `~`, `substring`, `regexp_*`.

use std::rc::Rc;
use std::sync::Arc;

use super::arguments::{mismatch, row};
use super::like::escape_character;
use super::text::{BYTES_MAX, bounded, too_long};
use super::{Call, Table};
use crate::datum::{Array, Datum};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid;
use crate::regex::{Expression, Flags, Match, compiled, next_place, set_option};

pub(super) const TABLE: Table = &[
    row!("textregexeq", [Text text, Text pattern], is_match(text, pattern, false)),
    row!("textregexne", [Text text, Text pattern], is_no_match(text, pattern, false)),
    row!("texticregexeq", [Text text, Text pattern], is_match(text, pattern, true)),
    row!("texticregexne", [Text text, Text pattern], is_no_match(text, pattern, true)),
    row!("nameregexeq", [Text text, Text pattern], is_match(text, pattern, false)),
    row!("nameregexne", [Text text, Text pattern], is_no_match(text, pattern, false)),
    row!("nameicregexeq", [Text text, Text pattern], is_match(text, pattern, true)),
    row!("nameicregexne", [Text text, Text pattern], is_no_match(text, pattern, true)),
    row!("textregexsubstr", [Text text, Text pattern], substring(text, pattern)),
    row!("substring/3", [Text text, Text pattern, Text escape], {
        substring(text, &super::similar::expression(pattern, escape_character(escape)?)?)
    }),
    row!("textregexreplace_noopt", [Text text, Text pattern, Text by], {
        replace(text, &Options::default().compiled(pattern)?, by, 1, 1)
    }),
    row!("textregexreplace", [Text text, Text pattern, Text by, Text flags], {
        if flags.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(number_as_flags(flags));
        }
        let options = Options::read(flags)?;
        replace(text, &options.compiled(pattern)?, by, 1, i32::from(!options.is_global))
    }),
    ("textregexreplace_extended", extended_replace),
    ("textregexreplace_extended_no_flags", extended_replace),
    ("textregexreplace_extended_no_n", extended_replace),
    ("regexp_like", like),
    ("regexp_like_no_flags", like),
    ("regexp_match", first_match),
    ("regexp_match_no_flags", first_match),
    ("regexp_split_to_array", split_to_array),
    ("regexp_split_to_array_no_flags", split_to_array),
    ("regexp_count", count),
    ("regexp_count_no_flags", count),
    ("regexp_count_no_start", count),
    ("regexp_instr", place_of_match),
    ("regexp_instr_no_subexpr", place_of_match),
    ("regexp_instr_no_flags", place_of_match),
    ("regexp_instr_no_endoption", place_of_match),
    ("regexp_instr_no_n", place_of_match),
    ("regexp_instr_no_start", place_of_match),
    ("regexp_substr", part),
    ("regexp_substr_no_subexpr", part),
    ("regexp_substr_no_flags", part),
    ("regexp_substr_no_n", part),
    ("regexp_substr_no_start", part),
];

fn is_match(text: &str, pattern: &str, ignores_case: bool) -> SqlResult<Datum> {
    let flags = Flags { ignores_case, ..Flags::default() };
    Ok(Datum::Bool(compiled(pattern, flags)?.is_match(text)?))
}

fn is_no_match(text: &str, pattern: &str, ignores_case: bool) -> SqlResult<Datum> {
    let flags = Flags { ignores_case, ..Flags::default() };
    Ok(Datum::Bool(!compiled(pattern, flags)?.is_match(text)?))
}

/// What letters after an expression say.
#[derive(Default)]
pub(crate) struct Options {
    flags: Flags,
    is_global: bool,
}

fn invalid(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cold]
fn number_as_flags(flags: &str) -> Box<SqlError> {
    let digit: String = flags.chars().take(1).collect();
    invalid(format!("invalid regular expression option: \"{digit}\"")).with_hint(
        "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly.",
    )
}

impl Options {
    pub(crate) fn read(letters: &str) -> SqlResult<Options> {
        let mut options = Options::default();
        for letter in letters.chars() {
            if letter == 'g' {
                options.is_global = true;
            } else if !set_option(&mut options.flags, letter) {
                return Err(invalid(format!("invalid regular expression option: \"{letter}\"")));
            }
        }
        Ok(options)
    }

    /// The options that an argument has, if there is one; `g` is refused.
    pub(crate) fn single(call: &Call<'_>, index: usize, function: &str) -> SqlResult<Options> {
        let options = Options::argument(call, index)?;
        if options.is_global {
            return Err(invalid(format!("{function}() does not support the \"global\" option")));
        }
        Ok(options)
    }

    pub(crate) fn argument(call: &Call<'_>, index: usize) -> SqlResult<Options> {
        match call.arguments.get(index) {
            None => Ok(Options::default()),
            Some(Datum::Text(letters)) => Options::read(letters),
            Some(_) => Err(mismatch(call)),
        }
    }

    fn compiled(&self, pattern: &str) -> SqlResult<Rc<Expression>> {
        compiled(pattern, self.flags)
    }
}

/// The text and the expression that all calls begin with.
fn subject<'a>(call: &Call<'a>) -> SqlResult<(&'a Arc<str>, &'a str)> {
    match call.arguments {
        [Datum::Text(text), Datum::Text(pattern), ..] => Ok((text, pattern)),
        _ => Err(mismatch(call)),
    }
}

/// A number among the arguments, at least `least`; `default` if there are not so many.
fn number(call: &Call<'_>, index: usize, name: &str, least: i32, default: i32) -> SqlResult<i32> {
    match call.arguments.get(index) {
        None => Ok(default),
        Some(Datum::Int4(number)) if *number >= least => Ok(*number),
        Some(Datum::Int4(number)) => {
            Err(invalid(format!("invalid value for parameter \"{name}\": {number}")))
        }
        Some(_) => Err(mismatch(call)),
    }
}

/// The place in bytes of a character, counted from 1; past the end if there are fewer.
fn place(text: &str, position: i32) -> usize {
    let index = usize::try_from(position - 1).unwrap_or(0);
    match text.char_indices().nth(index) {
        Some((at, _)) => at,
        None => text.len() + usize::from(text.chars().count() < index),
    }
}

fn part_of(text: &str, range: Option<&std::ops::Range<usize>>) -> Datum {
    range.map_or(Datum::Null, |range| Datum::text(&text[range.clone()]))
}

/// The groups of a match; all of it if there are none.
fn groups(text: &str, found: &Match) -> Datum {
    let groups = if found.len() > 1 { &found[1..] } else { &found[..] };
    let values = groups.iter().map(|group| part_of(text, group.as_ref())).collect();
    Datum::Array(Arc::new(Array::one_dimensional(oid::TEXT, values)))
}

fn whole(found: &Match) -> std::ops::Range<usize> {
    found.first().cloned().flatten().unwrap_or(0..0)
}

/// All matches, one after the other: after an empty one the search goes on a character later.
pub(crate) struct Matches {
    text: Arc<str>,
    expression: Rc<Expression>,
    next: usize,
}

impl Matches {
    fn new(text: &Arc<str>, expression: Rc<Expression>, start: usize) -> Matches {
        Matches { text: Arc::clone(text), expression, next: start }
    }

    fn advance(&mut self) -> SqlResult<Option<Match>> {
        let found = self.expression.find(&self.text, self.next)?;
        if let Some(found) = &found {
            let range = whole(found);
            self.next = if range.is_empty() { next_place(&self.text, range.end) } else { range.end };
        }
        Ok(found)
    }
}

fn substring(text: &str, pattern: &str) -> SqlResult<Datum> {
    let found = compiled(pattern, Flags::default())?.find(text, 0)?;
    Ok(found.map_or(Datum::Null, |found| {
        let group = if found.len() > 1 { &found[1] } else { &found[0] };
        part_of(text, group.as_ref())
    }))
}

/// Replaces the match number `wanted`, or all for 0, from the character at `start` on.
fn replace(
    text: &Arc<str>,
    expression: &Rc<Expression>,
    by: &str,
    start: i32,
    wanted: i32,
) -> SqlResult<Datum> {
    let mut matches = Matches::new(text, Rc::clone(expression), place(text, start));
    let mut result = String::new();
    let mut copied = 0;
    let mut count = 0;
    while let Some(found) = matches.advance()? {
        count += 1;
        if wanted > 0 && count != wanted {
            continue;
        }
        let range = whole(&found);
        result.push_str(&text[copied..range.start]);
        append_replacement(text, &found, by, &mut result);
        if result.len() > BYTES_MAX {
            return Err(too_long());
        }
        copied = range.end;
        if wanted > 0 {
            break;
        }
    }
    result.push_str(&text[copied..]);
    Ok(Datum::text(result))
}

/// Appends a replacement: `\1` to `\9` are groups, `\&` is the whole match, `\\` a backslash.
fn append_replacement(text: &str, found: &Match, by: &str, result: &mut String) {
    let mut rest = by;
    while let Some(at) = rest.find('\\') {
        result.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let group = match rest.bytes().next() {
            Some(digit @ b'1'..=b'9') => Some(usize::from(digit - b'0')),
            Some(b'&') => Some(0),
            Some(b'\\') => {
                result.push('\\');
                rest = &rest[1..];
                continue;
            }
            _ => None,
        };
        match group {
            Some(group) => {
                if let Some(Some(range)) = found.get(group) {
                    result.push_str(&text[range.clone()]);
                }
                rest = &rest[1..];
            }
            None => result.push('\\'),
        }
    }
    result.push_str(rest);
}

fn extended_replace(call: &Call<'_>) -> SqlResult<Datum> {
    let (text, pattern) = subject(call)?;
    let Some(Datum::Text(by)) = call.arguments.get(2) else { return Err(mismatch(call)) };
    let start = number(call, 3, "start", 1, 1)?;
    let wanted = number(call, 4, "n", 0, 1)?;
    let options = Options::argument(call, 5)?;
    let wanted = if options.is_global && call.arguments.len() <= 4 { 0 } else { wanted };
    replace(text, &options.compiled(pattern)?, by, start, wanted)
}

fn like(call: &Call<'_>) -> SqlResult<Datum> {
    let (text, pattern) = subject(call)?;
    let options = Options::single(call, 2, "regexp_like")?;
    Ok(Datum::Bool(options.compiled(pattern)?.is_match(text)?))
}

fn first_match(call: &Call<'_>) -> SqlResult<Datum> {
    let (text, pattern) = subject(call)?;
    let options = Options::single(call, 2, "regexp_match").map_err(|error| {
        if error.message.contains("global") {
            error.with_hint("Use the regexp_matches function instead.")
        } else {
            error
        }
    })?;
    let found = options.compiled(pattern)?.find(text, 0)?;
    Ok(found.map_or(Datum::Null, |found| groups(text, &found)))
}

/// The groups of all matches, or of the first one.
pub(crate) fn all_matches(call: &Call<'_>) -> SqlResult<Vec<Datum>> {
    let (text, pattern) = subject(call)?;
    let options = Options::argument(call, 2)?;
    let mut matches = Matches::new(text, options.compiled(pattern)?, 0);
    let mut rows = Vec::new();
    while let Some(found) = matches.advance()? {
        rows.push(groups(text, &found));
        if !options.is_global {
            break;
        }
    }
    Ok(rows)
}

/// The parts between matches. An empty match at an end or right after another match parts nothing.
pub(crate) fn split(call: &Call<'_>, function: &str) -> SqlResult<Vec<Datum>> {
    let (text, pattern) = subject(call)?;
    let options = Options::single(call, 2, function)?;
    let mut matches = Matches::new(text, options.compiled(pattern)?, 0);
    let (mut parts, mut start, mut last_end) = (Vec::new(), 0, 0);
    while let Some(found) = matches.advance()? {
        let range = whole(&found);
        if range.start < text.len() && range.end > last_end {
            parts.push(Datum::text(&text[start..range.start]));
            start = range.end;
        }
        last_end = range.end;
    }
    parts.push(Datum::text(&text[start..]));
    Ok(parts)
}

fn split_to_array(call: &Call<'_>) -> SqlResult<Datum> {
    let parts = split(call, "regexp_split_to_array")?;
    Ok(Datum::Array(Arc::new(Array::one_dimensional(oid::TEXT, parts))))
}

fn count(call: &Call<'_>) -> SqlResult<Datum> {
    let (text, pattern) = subject(call)?;
    let start = number(call, 2, "start", 1, 1)?;
    let options = Options::single(call, 3, "regexp_count")?;
    let mut matches = Matches::new(text, options.compiled(pattern)?, place(text, start));
    let mut count = 0;
    while matches.advance()?.is_some() {
        count += 1;
    }
    Ok(Datum::Int4(count))
}

/// The match number `n` from the character at `start` on.
fn nth_match(text: &Arc<str>, expression: Rc<Expression>, start: i32, n: i32) -> SqlResult<Option<Match>> {
    let mut matches = Matches::new(text, expression, place(text, start));
    for _ in 1..n {
        if matches.advance()?.is_none() {
            return Ok(None);
        }
    }
    matches.advance()
}

/// The part of a match that a subexpression has; 0: all of it.
fn subexpression(found: &Match, number: i32) -> Option<std::ops::Range<usize>> {
    found.get(usize::try_from(number).ok()?).cloned().flatten()
}

fn place_of_match(call: &Call<'_>) -> SqlResult<Datum> {
    let (text, pattern) = subject(call)?;
    let start = number(call, 2, "start", 1, 1)?;
    let n = number(call, 3, "n", 1, 1)?;
    let end_option = number(call, 4, "endoption", 0, 0)?;
    if end_option > 1 {
        return Err(invalid(format!("invalid value for parameter \"endoption\": {end_option}")));
    }
    let options = Options::single(call, 5, "regexp_instr")?;
    let group = number(call, 6, "subexpr", 0, 0)?;
    let found = nth_match(text, options.compiled(pattern)?, start, n)?;
    let range = found.and_then(|found| subexpression(&found, group));
    Ok(Datum::Int4(range.map_or(0, |range| {
        let at = if end_option == 1 { range.end } else { range.start };
        bounded(text[..at].chars().count() + 1)
    })))
}

fn part(call: &Call<'_>) -> SqlResult<Datum> {
    let (text, pattern) = subject(call)?;
    let start = number(call, 2, "start", 1, 1)?;
    let n = number(call, 3, "n", 1, 1)?;
    let options = Options::single(call, 4, "regexp_substr")?;
    let group = number(call, 5, "subexpr", 0, 0)?;
    let found = nth_match(text, options.compiled(pattern)?, start, n)?;
    let range = found.and_then(|found| subexpression(&found, group));
    Ok(part_of(text, range.as_ref()))
}
