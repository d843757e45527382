//! The text form of arrays: `{1,2,NULL}`, `{{a,"b c"},{d,e}}`, `[0:1]={1,2}`.

use super::is_space;
use crate::datum::{Array, Datum, Dimension};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid::Oid;

/// Dimensions of an array, at most.
pub const DIMENSIONS_MAX: usize = 6;
/// Elements of an array, at most.
pub const ELEMENTS_MAX: usize = 134_217_727;

/// `54000`: an array has too many dimensions.
#[cold]
pub(crate) fn too_many_dimensions(count: usize) -> Box<SqlError> {
    let message =
        format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// `54000`: an array has too many elements.
#[cold]
pub(crate) fn too_many_elements() -> Box<SqlError> {
    let message = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// `54000`: the last subscript of a dimension would be no `integer`.
#[cold]
pub(crate) fn lower_bound_too_large(lower: i32) -> Box<SqlError> {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("array lower bound is too large: {lower}"))
}

/// Refuses dimensions that PostgreSQL's arrays cannot have.
///
/// # Errors
/// `54000`.
pub fn check_dimensions(dimensions: &[Dimension]) -> SqlResult<()> {
    let mut count = 1_usize;
    for dimension in dimensions {
        let length = usize::try_from(dimension.length).unwrap_or(0);
        count =
            count.checked_mul(length).filter(|count| *count <= ELEMENTS_MAX).ok_or_else(too_many_elements)?;
        if dimension.lower.checked_add(dimension.length).is_none() {
            return Err(lower_bound_too_large(dimension.lower));
        }
    }
    Ok(())
}

/// Reads an array; `read` reads an element.
///
/// # Errors
/// `22P02` for a malformed text, `2202E` and `54000` for bad dimensions, and those of `read`.
pub fn input(element: Oid, text: &str, read: &dyn Fn(&str) -> SqlResult<Datum>) -> SqlResult<Array> {
    let malformed = |detail: &str| {
        let message = format!("malformed array literal: \"{text}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
    };
    let (bounds, rest) = bounds(text, &malformed)?;
    let contents = match rest.trim_start_matches(is_space_character) {
        contents if contents.starts_with('{') => contents,
        _ if bounds.is_empty() => {
            return Err(malformed("Array value must start with \"{\" or dimension information."));
        }
        _ => return Err(malformed("Array contents must start with \"{\".")),
    };
    let mut parser = Parser::new(&malformed);
    parser.parse(contents)?;
    let dimensions = if bounds.is_empty() {
        let lengths = parser.lengths.iter();
        lengths.map(|length| Dimension { length: length.unwrap_or(0), lower: 1 }).collect()
    } else {
        matching_dimensions(&bounds, &parser.lengths)
            .ok_or_else(|| malformed("Specified array dimensions do not match array contents."))?
    };
    check_dimensions(&dimensions)?;
    let values = parser.elements.iter().map(|element| element.as_deref().map_or(Ok(Datum::Null), read));
    Ok(Array { element, dimensions, values: values.collect::<SqlResult<_>>()? })
}

fn is_space_character(character: char) -> bool {
    u8::try_from(character).is_ok_and(is_space)
}

type Malformed<'a> = dyn Fn(&str) -> Box<SqlError> + 'a;

/// The bounds `[2:5][3]` before `=`, if there are any, and the rest.
fn bounds<'a>(text: &'a str, malformed: &Malformed<'_>) -> SqlResult<(Vec<(i32, i32)>, &'a str)> {
    let mut bounds = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(is_space_character);
        let Some(inner) = rest.strip_prefix('[') else {
            break;
        };
        if bounds.len() >= DIMENSIONS_MAX {
            return Err(too_many_dimensions(bounds.len() + 1));
        }
        let (first, after) = subscript(inner)
            .ok_or_else(|| malformed("\"[\" must introduce explicitly-specified array dimensions."))?;
        let (lower, upper, after) = match after.strip_prefix(':') {
            None => (1, first, after),
            Some(after) => {
                let (upper, after) =
                    subscript(after).ok_or_else(|| malformed("Missing array dimension value."))?;
                (first, upper, after)
            }
        };
        rest = after.strip_prefix(']').ok_or_else(|| malformed("Missing \"]\" after array dimensions."))?;
        if upper < lower {
            let message = "upper bound cannot be less than lower bound";
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        }
        bounds.push((lower, upper));
    }
    if !bounds.is_empty() {
        rest = rest.strip_prefix('=').ok_or_else(|| malformed("Missing \"=\" after array dimensions."))?;
    }
    Ok((bounds, rest))
}

/// A subscript, saturated, as C's `atoi` reads the digits and signs that stand here.
fn subscript(text: &str) -> Option<(i32, &str)> {
    let end = text.find(|character: char| !character.is_ascii_digit() && !matches!(character, '-' | '+'));
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    let value = unsigned
        .bytes()
        .take_while(u8::is_ascii_digit)
        .fold(0_i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    let value = if digits.starts_with('-') { -value } else { value };
    let value = value.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
    (!digits.is_empty()).then_some((i32::try_from(value).unwrap_or(0), rest))
}

/// The dimensions that were given, if the contents have as many elements in each.
fn matching_dimensions(bounds: &[(i32, i32)], lengths: &[Option<i32>]) -> Option<Vec<Dimension>> {
    if bounds.len() != lengths.len() {
        return None;
    }
    let pairs = bounds.iter().zip(lengths);
    pairs
        .map(|((lower, upper), length)| {
            let length = (*length)?;
            (i64::from(*upper) - i64::from(*lower) + 1 == i64::from(length))
                .then_some(Dimension { length, lower: *lower })
        })
        .collect()
}

/// What was read last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    Nothing,
    /// `{`
    LevelStart,
    /// Unquoted characters.
    Element,
    /// A quoted element.
    Quoted,
    /// `,` after an element.
    ElementDelimiter,
    /// `}`
    LevelEnd,
    /// `,` after a level.
    LevelDelimiter,
}

/// Reads the braces and what is in them.
struct Parser<'a> {
    malformed: &'a Malformed<'a>,
    previous: Previous,
    /// How many levels are open.
    level: usize,
    /// For each open level: how many items it has so far.
    counts: Vec<i32>,
    /// For each level: how many items one that was closed has; all have as many.
    lengths: Vec<Option<i32>>,
    elements: Vec<Option<String>>,
}

impl<'a> Parser<'a> {
    fn new(malformed: &'a Malformed<'a>) -> Parser<'a> {
        let (counts, lengths, elements) = (Vec::new(), Vec::new(), Vec::new());
        Parser { malformed, previous: Previous::Nothing, level: 0, counts, lengths, elements }
    }

    /// Reads a text that begins with a brace.
    fn parse(&mut self, text: &str) -> SqlResult<()> {
        let mut rest = text;
        loop {
            let Some(first) = rest.chars().next() else {
                return Err((self.malformed)("Unexpected end of input."));
            };
            rest = match first {
                '{' => self.open().map(|()| &rest[1..])?,
                '}' => self.close().map(|()| &rest[1..])?,
                ',' => self.delimit().map(|()| &rest[1..])?,
                '"' => self.quoted(rest)?,
                _ if is_space_character(first) => &rest[1..],
                _ => self.unquoted(rest)?,
            };
            if self.level == 0 {
                break;
            }
        }
        if !rest.chars().all(is_space_character) {
            return Err((self.malformed)("Junk after closing right brace."));
        }
        if self.elements.is_empty() {
            self.lengths.clear();
        }
        Ok(())
    }

    fn unexpected(&self, character: char) -> Box<SqlError> {
        (self.malformed)(&format!("Unexpected \"{character}\" character."))
    }

    fn open(&mut self) -> SqlResult<()> {
        if !matches!(self.previous, Previous::Nothing | Previous::LevelStart | Previous::LevelDelimiter) {
            return Err(self.unexpected('{'));
        }
        if self.level >= DIMENSIONS_MAX {
            return Err(too_many_dimensions(self.level + 1));
        }
        self.previous = Previous::LevelStart;
        self.level += 1;
        self.counts.push(0);
        if self.lengths.len() < self.level {
            self.lengths.push(None);
        }
        Ok(())
    }

    fn close(&mut self) -> SqlResult<()> {
        let is_whole = match self.previous {
            Previous::Element | Previous::Quoted | Previous::LevelEnd => true,
            Previous::LevelStart => self.level == 1,
            _ => false,
        };
        if !is_whole {
            return Err(self.unexpected('}'));
        }
        self.previous = Previous::LevelEnd;
        self.level -= 1;
        let count = self.counts.pop().unwrap_or(0);
        let length = self.lengths[self.level].get_or_insert(count);
        if *length != count {
            let detail = "Multidimensional arrays must have sub-arrays with matching dimensions.";
            return Err((self.malformed)(detail));
        }
        self.count();
        Ok(())
    }

    fn delimit(&mut self) -> SqlResult<()> {
        self.previous = match self.previous {
            Previous::Element | Previous::Quoted => Previous::ElementDelimiter,
            Previous::LevelEnd => Previous::LevelDelimiter,
            _ => return Err(self.unexpected(',')),
        };
        Ok(())
    }

    /// One more item on the innermost level.
    fn count(&mut self) {
        if let Some(count) = self.counts.last_mut() {
            *count = count.saturating_add(1);
        }
    }

    /// Whether an element may stand here.
    fn can_begin(&self) -> bool {
        matches!(self.previous, Previous::LevelStart | Previous::ElementDelimiter)
    }

    fn begin_element(&mut self) -> SqlResult<()> {
        if !self.can_begin() {
            return Err((self.malformed)("Unexpected array element."));
        }
        self.count();
        Ok(())
    }

    /// Reads an element in quotes; gives what is after it.
    fn quoted<'t>(&mut self, text: &'t str) -> SqlResult<&'t str> {
        self.begin_element()?;
        self.previous = Previous::Quoted;
        let mut element = String::new();
        let mut characters = text.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.elements.push(Some(element));
                    return Ok(&text[at + 1..]);
                }
                '\\' => element.extend(characters.next().map(|(_, escaped)| escaped)),
                _ => element.push(character),
            }
        }
        Err((self.malformed)("Unexpected end of input."))
    }

    /// Reads an element without quotes; blanks at its end do not belong to it.
    fn unquoted<'t>(&mut self, text: &'t str) -> SqlResult<&'t str> {
        if text.starts_with('\\') && !self.can_begin() {
            return Err(self.unexpected('\\'));
        }
        self.begin_element()?;
        self.previous = Previous::Element;
        let (mut element, mut significant_bytes, mut is_escaped) = (String::new(), 0, false);
        let mut characters = text.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                ',' | '}' => {
                    element.truncate(significant_bytes);
                    let is_null = !is_escaped && element.eq_ignore_ascii_case("null");
                    self.elements.push((!is_null).then_some(element));
                    return Ok(&text[at..]);
                }
                '{' => return Err(self.unexpected('{')),
                '"' => return Err((self.malformed)("Unexpected array element.")),
                '\\' => {
                    is_escaped = true;
                    element.extend(characters.next().map(|(_, escaped)| escaped));
                    significant_bytes = element.len();
                }
                _ => {
                    element.push(character);
                    if !is_space_character(character) {
                        significant_bytes = element.len();
                    }
                }
            }
        }
        Err((self.malformed)("Unexpected end of input."))
    }
}

/// Writes an element.
pub type Write<'a> = dyn FnMut(&Datum, &mut String) -> SqlResult<()> + 'a;

/// Writes an array; `write` writes an element.
///
/// # Errors
/// Those of `write`.
pub fn output(array: &Array, write: &mut Write<'_>, out: &mut String) -> SqlResult<()> {
    if array.values.is_empty() {
        out.push_str("{}");
        return Ok(());
    }
    if array.dimensions.iter().any(|dimension| dimension.lower != 1) {
        for dimension in &array.dimensions {
            let upper = i64::from(dimension.lower) + i64::from(dimension.length) - 1;
            super::append(out, format_args!("[{}:{upper}]", dimension.lower));
        }
        out.push('=');
    }
    // How many elements an item of each level has: a brace opens and closes at multiples of these.
    let mut sizes: Vec<usize> = Vec::with_capacity(array.dimensions.len());
    for dimension in array.dimensions.iter().rev() {
        let inner = sizes.last().copied().unwrap_or(1);
        sizes.push(inner.saturating_mul(usize::try_from(dimension.length).unwrap_or(0)).max(1));
    }
    for (index, value) in array.values.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        sizes.iter().filter(|size| index % **size == 0).for_each(|_| out.push('{'));
        write_element(value, write, out)?;
        sizes.iter().filter(|size| (index + 1) % **size == 0).for_each(|_| out.push('}'));
    }
    Ok(())
}

fn write_element(value: &Datum, write: &mut Write<'_>, out: &mut String) -> SqlResult<()> {
    if value.is_null() {
        out.push_str("NULL");
        return Ok(());
    }
    let start = out.len();
    write(value, out)?;
    let text = &out[start..];
    let is_special = |byte: u8| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || is_space(byte);
    if text.is_empty() || text.eq_ignore_ascii_case("null") || text.bytes().any(is_special) {
        let text = out.split_off(start);
        out.push('"');
        for character in text.chars() {
            if matches!(character, '"' | '\\') {
                out.push('\\');
            }
            out.push(character);
        }
        out.push('"');
    }
    Ok(())
}

/// Reads an `int2vector` or `oidvector`: numbers with blanks between them, subscripts from 0.
///
/// # Errors
/// Those of `read`.
pub(super) fn vector(element: Oid, text: &str, read: &dyn Fn(&str) -> SqlResult<Datum>) -> SqlResult<Datum> {
    let words = text.split(is_space_character).filter(|word| !word.is_empty());
    let values = words.map(read).collect::<SqlResult<Vec<_>>>()?;
    let length = i32::try_from(values.len()).map_err(|_| too_many_elements())?;
    let dimensions = vec![Dimension { length, lower: 0 }];
    Ok(Datum::Array(std::sync::Arc::new(Array { element, dimensions, values })))
}

/// Writes an `int2vector` or `oidvector`.
///
/// # Errors
/// Those of `write`.
pub(super) fn write_vector(array: &Array, write: &mut Write<'_>, out: &mut String) -> SqlResult<()> {
    for (index, value) in array.values.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        write(value, out)?;
    }
    Ok(())
}
