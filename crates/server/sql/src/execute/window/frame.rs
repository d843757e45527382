//! The rows that a window function looks at.

use std::ops::Range;

use seawall_values::functions::{Call, implementation};
use seawall_values::{Datum, SqlError, SqlResult, SqlState, TypeReference, oid};

use super::super::compare::compare;
use super::super::context::Context;
use super::super::plan::{BoundPlan, FramePlan};
use super::Partition;
use crate::algebra::{FrameExclusion, FrameUnit};

/// The offsets of a frame, computed once for a partition.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    start: Option<Datum>,
    end: Option<Datum>,
}

/// Rows of a frame: half-open, with up to two gaps in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) range: Range<usize>,
    /// Rows left out: a range, without the row that stays in it.
    excluded: Range<usize>,
    kept: Option<usize>,
}

impl Rows {
    /// Whether all rows of the range belong to the frame.
    pub(crate) fn is_whole(&self) -> bool {
        self.excluded.is_empty()
    }

    pub(crate) fn contains(&self, row: usize) -> bool {
        self.range.contains(&row) && (!self.excluded.contains(&row) || self.kept == Some(row))
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.range.clone().filter(|row| self.contains(*row))
    }
}

impl Offsets {
    pub(crate) fn evaluate(frame: &FramePlan, context: &mut Context<'_>) -> SqlResult<Offsets> {
        Ok(Offsets {
            start: offset(&frame.start, frame.unit, "starting", context)?,
            end: offset(&frame.end, frame.unit, "ending", context)?,
        })
    }
}

fn offset(
    bound: &BoundPlan,
    unit: FrameUnit,
    name: &str,
    context: &mut Context<'_>,
) -> SqlResult<Option<Datum>> {
    let (BoundPlan::Preceding(offset, _) | BoundPlan::Following(offset, _)) = bound else {
        return Ok(None);
    };
    let value = offset.evaluate(context)?;
    let message = match (&value, unit) {
        (Datum::Null, _) => {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                format!("frame {name} offset must not be null"),
            ));
        }
        (_, FrameUnit::Range) if is_negative(&value) => {
            "invalid preceding or following size in window function".to_owned()
        }
        (_, FrameUnit::Range) => return Ok(Some(value)),
        _ if is_negative(&value) => format!("frame {name} offset must not be negative"),
        _ => return Ok(Some(value)),
    };
    Err(SqlError::new(SqlState::new(b"22013"), message))
}

fn is_negative(value: &Datum) -> bool {
    match value {
        Datum::Int2(value) => *value < 0,
        Datum::Int4(value) => *value < 0,
        Datum::Int8(value) => *value < 0,
        Datum::Float4(value) => *value < 0.0 || value.is_nan(),
        Datum::Float8(value) => *value < 0.0 || value.is_nan(),
        Datum::Numeric(value) => match &**value {
            seawall_values::datum::Numeric::Finite { digits, .. } => digits.sign() == num_bigint::Sign::Minus,
            seawall_values::datum::Numeric::PositiveInfinity => false,
            seawall_values::datum::Numeric::NegativeInfinity | seawall_values::datum::Numeric::NotANumber => {
                true
            }
        },
        Datum::Interval(value) => {
            compare(&Datum::Interval(*value), &Datum::Interval(Default::default()), false).is_lt()
        }
        _ => false,
    }
}

fn count(value: Option<&Datum>) -> usize {
    let number = match value {
        Some(Datum::Int8(number)) => *number,
        Some(Datum::Int4(number)) => i64::from(*number),
        Some(Datum::Int2(number)) => i64::from(*number),
        _ => 0,
    };
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Partition {
    /// The frame of a row.
    pub(crate) fn frame(
        &mut self,
        frame: &FramePlan,
        offsets: &Offsets,
        row: usize,
        context: &mut Context<'_>,
    ) -> SqlResult<Rows> {
        let start = self.bound(frame.unit, &frame.start, offsets.start.as_ref(), row, false, context)?;
        let end = self.bound(frame.unit, &frame.end, offsets.end.as_ref(), row, true, context)?;
        let range = start..end.max(start);
        let group = self.group_range(self.group_of(row));
        let (excluded, kept) = match frame.exclude {
            FrameExclusion::NoOthers => (0..0, None),
            FrameExclusion::CurrentRow => (row..row + 1, None),
            FrameExclusion::Group => (group, None),
            FrameExclusion::Ties => (group, Some(row)),
        };
        Ok(Rows { range, excluded, kept })
    }

    /// The first row of a frame, or (`is_end`) the one after its last.
    fn bound(
        &mut self,
        unit: FrameUnit,
        bound: &BoundPlan,
        offset: Option<&Datum>,
        row: usize,
        is_end: bool,
        context: &mut Context<'_>,
    ) -> SqlResult<usize> {
        let rows = self.len();
        let (is_following, of) = match bound {
            BoundPlan::UnboundedPreceding => return Ok(0),
            BoundPlan::UnboundedFollowing => return Ok(rows),
            BoundPlan::CurrentRow => {
                let group = self.group_range(self.group_of(row));
                return Ok(match (unit, is_end) {
                    (FrameUnit::Rows, _) => row + usize::from(is_end),
                    (FrameUnit::Range | FrameUnit::Groups, false) => group.start,
                    (FrameUnit::Range | FrameUnit::Groups, true) => group.end,
                });
            }
            BoundPlan::Preceding(_, of) => (false, *of),
            BoundPlan::Following(_, of) => (true, *of),
        };
        match unit {
            FrameUnit::Rows => {
                let count = count(offset);
                let at = row.saturating_add(usize::from(is_end));
                Ok(if is_following { at.saturating_add(count) } else { at.saturating_sub(count) }.min(rows))
            }
            FrameUnit::Groups => {
                let (group, count) = (self.group_of(row), count(offset));
                let wanted = if is_following { group.checked_add(count) } else { group.checked_sub(count) };
                Ok(match wanted {
                    None => {
                        if is_following {
                            rows
                        } else {
                            0
                        }
                    }
                    Some(group) if group >= self.groups() => rows,
                    Some(group) if is_end => self.group_range(group).end,
                    Some(group) => self.group_range(group).start,
                })
            }
            FrameUnit::Range => match offset {
                Some(offset) => self.range_bound(offset, of, row, is_following, is_end, context),
                None => Ok(row),
            },
        }
    }

    /// A bound by the values of the key: the rows are searched for it, since they are in its order.
    fn range_bound(
        &mut self,
        offset: &Datum,
        of: TypeReference,
        row: usize,
        is_following: bool,
        is_end: bool,
        context: &mut Context<'_>,
    ) -> SqlResult<usize> {
        let Some((key, key_type)) = self.range_key() else {
            return Err(SqlError::internal("a frame of RANGE with an offset has no key"));
        };
        self.load(row, context)?;
        let current = comparable(&context.row[key.at]);
        if current.is_null() {
            // Nulls are equals of one another, and at no distance from anything else.
            let group = self.group_range(self.group_of(row));
            return Ok(if is_end { group.end } else { group.start });
        }
        let is_added = is_following != key.is_descending;
        let limit = shifted(&current, key_type, offset, of, is_added, context)?;
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            self.load(middle, context)?;
            let value = comparable(&context.row[key.at]);
            let ordering = match &limit {
                _ if value.is_null() => {
                    if key.is_nulls_first {
                        std::cmp::Ordering::Less
                    } else {
                        std::cmp::Ordering::Greater
                    }
                }
                // Past the largest or the smallest value of the type.
                None if is_added != key.is_descending => std::cmp::Ordering::Less,
                None => std::cmp::Ordering::Greater,
                Some(limit) if key.is_descending => compare(limit, &value, false),
                Some(limit) => compare(&value, limit, false),
            };
            let is_before = ordering.is_lt() || (is_end && ordering.is_eq());
            if is_before { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }
}

/// A value that can be compared with a shifted one: a date as the moment at which it begins.
fn comparable(value: &Datum) -> Datum {
    match value {
        Datum::Date(i32::MIN) => Datum::Timestamp(i64::MIN),
        Datum::Date(i32::MAX) => Datum::Timestamp(i64::MAX),
        Datum::Date(days) => Datum::Timestamp(i64::from(*days) * 86_400_000_000),
        Datum::Int2(value) => Datum::Int8(i64::from(*value)),
        Datum::Int4(value) => Datum::Int8(i64::from(*value)),
        Datum::Float4(value) => Datum::Float8(f64::from(*value)),
        other => other.clone(),
    }
}

/// A key's value plus or minus an offset; `None`: beyond all values of the type.
fn shifted(
    value: &Datum,
    of: TypeReference,
    offset: &Datum,
    offset_type: TypeReference,
    is_added: bool,
    context: &Context<'_>,
) -> SqlResult<Option<Datum>> {
    let offset = if matches!(offset, Datum::Interval(_)) { offset.clone() } else { comparable(offset) };
    match (value, &offset) {
        (Datum::Int8(value), Datum::Int8(offset)) => {
            let sum = if is_added { value.checked_add(*offset) } else { value.checked_sub(*offset) };
            Ok(sum.map(Datum::Int8))
        }
        (Datum::Float8(value), Datum::Float8(offset)) => {
            Ok(Some(Datum::Float8(if is_added { value + offset } else { value - offset })))
        }
        _ => {
            let (source, result) = match (of.oid, is_added) {
                (oid::NUMERIC, true) => ("numeric_add", oid::NUMERIC),
                (oid::NUMERIC, false) => ("numeric_sub", oid::NUMERIC),
                (oid::DATE | oid::TIMESTAMP, true) => ("timestamp_pl_interval", oid::TIMESTAMP),
                (oid::DATE | oid::TIMESTAMP, false) => ("timestamp_mi_interval", oid::TIMESTAMP),
                (oid::TIMESTAMPTZ, true) => ("timestamptz_pl_interval", oid::TIMESTAMPTZ),
                (oid::TIMESTAMPTZ, false) => ("timestamptz_mi_interval", oid::TIMESTAMPTZ),
                (oid::INTERVAL, true) => ("interval_pl", oid::INTERVAL),
                (oid::INTERVAL, false) => ("interval_mi", oid::INTERVAL),
                _ => return Err(unsupported(of, offset_type)),
            };
            let function = implementation(source).ok_or_else(|| unsupported(of, offset_type))?;
            let types = [TypeReference::of(result), offset_type];
            function(&Call {
                arguments: &[value.clone(), offset],
                argument_types: &types,
                result_type: TypeReference::of(result),
                settings: context.settings,
            })
            .map(Some)
        }
    }
}

#[cold]
fn unsupported(of: TypeReference, offset: TypeReference) -> Box<SqlError> {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!(
            "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset type {}",
            of.oid, offset.oid
        ),
    )
}
