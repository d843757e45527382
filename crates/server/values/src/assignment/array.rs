//! Elements and slices of arrays.

use crate::datum::{Array, Datum, Dimension};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid::Oid;

/// So many elements are kept in memory at most: an eighth of what PostgreSQL's message says.
const ELEMENTS_MAX: i64 = 1 << 24;

#[cold]
fn wrong(message: &str) -> Box<SqlError> {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

#[cold]
fn too_large() -> Box<SqlError> {
    let message = "array size exceeds the maximum allowed (134217727)";
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// First and last subscript.
#[derive(Clone, Copy)]
struct Span {
    from: i64,
    to: i64,
}

impl Span {
    fn of(dimension: Dimension) -> Span {
        let from = i64::from(dimension.lower);
        Span { from, to: from + i64::from(dimension.length) - 1 }
    }

    fn length(self) -> i64 {
        self.to - self.from + 1
    }

    fn contains(self, other: Span) -> bool {
        self.from <= other.from && other.to <= self.to
    }

    /// As a dimension of an array: none of its subscripts is the largest number.
    fn dimension(self) -> SqlResult<Dimension> {
        let length = self.length();
        if length > ELEMENTS_MAX {
            return Err(too_large());
        }
        match (i32::try_from(self.from), i32::try_from(length), i32::try_from(self.to + 1)) {
            (Ok(lower), Ok(length), Ok(_)) => Ok(Dimension { length, lower }),
            _ => {
                let message = format!("array lower bound is too large: {}", self.from);
                Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
            }
        }
    }
}

fn index_of(number: i64) -> SqlResult<usize> {
    usize::try_from(number).map_err(|_| wrong("array subscript out of range"))
}

/// The array with an element set; one of one dimension grows, with nulls between.
///
/// # Errors
/// `2202E`, `54000`.
pub fn set_element(array: &Array, subscripts: &[i32], value: Datum) -> SqlResult<Array> {
    let wanted: Vec<Span> =
        subscripts.iter().map(|at| Span { from: i64::from(*at), to: i64::from(*at) }).collect();
    placed(array, &wanted, vec![value])
}

/// The array with a slice set to the first elements of another; one of one dimension grows, with nulls between. `None`: where the array
/// begins or ends.
///
/// # Errors
/// `2202E`, `54000`.
pub fn set_slice(array: &Array, bounds: &[(Option<i32>, Option<i32>)], source: &Array) -> SqlResult<Array> {
    let is_empty = array.dimensions.is_empty();
    if is_empty && bounds.iter().any(|(from, to)| from.is_none() || to.is_none()) {
        return Err(wrong("array slice subscript must provide both boundaries").with_detail(
            "When assigning to a slice of an empty array value, slice boundaries must be fully specified.",
        ));
    }
    if !is_empty && array.dimensions.len() < bounds.len() {
        return Err(wrong("wrong number of array subscripts"));
    }
    let mut wanted = Vec::with_capacity(array.dimensions.len().max(bounds.len()));
    for (position, (from, to)) in bounds.iter().enumerate() {
        let whole = array.dimensions.get(position).map_or(Span { from: 1, to: 0 }, |known| Span::of(*known));
        let span = Span { from: from.map_or(whole.from, i64::from), to: to.map_or(whole.to, i64::from) };
        if !is_empty && span.from > span.to {
            return Err(wrong("upper bound cannot be less than lower bound"));
        }
        wanted.push(span);
    }
    for dimension in array.dimensions.iter().skip(wanted.len()) {
        wanted.push(Span::of(*dimension));
    }
    let mut count: i64 = 1;
    for span in &wanted {
        count = count
            .checked_mul(span.length().max(0))
            .filter(|count| *count <= ELEMENTS_MAX)
            .ok_or_else(too_large)?;
    }
    let Some(values) = source.values.get(..index_of(count)?) else {
        return Err(wrong("source array too small"));
    };
    placed(array, &wanted, values.to_vec())
}

/// The array with values at spans of its dimensions.
fn placed(array: &Array, wanted: &[Span], values: Vec<Datum>) -> SqlResult<Array> {
    match array.dimensions.as_slice() {
        [] if values.is_empty() => Ok(array.clone()),
        [] => {
            let dimensions = wanted.iter().map(|span| span.dimension()).collect::<SqlResult<_>>()?;
            Ok(Array { element: array.element, dimensions, values })
        }
        dimensions if dimensions.len() != wanted.len() => Err(wrong("wrong number of array subscripts")),
        [only] => in_one_dimension(array.element, Span::of(*only), &array.values, wanted[0], values),
        dimensions => {
            let spans: Vec<Span> = dimensions.iter().map(|dimension| Span::of(*dimension)).collect();
            if !spans.iter().zip(wanted).all(|(whole, wanted)| whole.contains(*wanted)) {
                return Err(wrong("array subscript out of range"));
            }
            let mut changed = array.clone();
            for (number, value) in (0_i64..).zip(values) {
                let at = place(&spans, wanted, number)?;
                if let Some(old) = changed.values.get_mut(at) {
                    *old = value;
                }
            }
            Ok(changed)
        }
    }
}

/// The place of the value with a number among those of a part of an array.
fn place(spans: &[Span], wanted: &[Span], number: i64) -> SqlResult<usize> {
    let (mut rest, mut at, mut stride) = (number, 0, 1);
    for (whole, part) in spans.iter().zip(wanted).rev() {
        let offset = part.from - whole.from + rest % part.length();
        rest /= part.length();
        at += offset * stride;
        stride *= whole.length();
    }
    index_of(at)
}

fn in_one_dimension(
    element: Oid,
    whole: Span,
    old: &[Datum],
    wanted: Span,
    values: Vec<Datum>,
) -> SqlResult<Array> {
    let grown = Span { from: whole.from.min(wanted.from), to: whole.to.max(wanted.to) };
    let dimension = grown.dimension()?;
    let mut all = Vec::with_capacity(index_of(grown.length())?);
    all.resize(index_of(whole.from - grown.from)?, Datum::Null);
    all.extend_from_slice(old);
    all.resize(index_of(grown.length())?, Datum::Null);
    let start = index_of(wanted.from - grown.from)?;
    for (place, value) in all.iter_mut().skip(start).zip(values) {
        *place = value;
    }
    Ok(Array { element, dimensions: vec![dimension], values: all })
}
