//! One value of SQL.

use std::sync::Arc;

use num_bigint::BigInt;

use crate::oid::{self, Oid};
use crate::text_form::is_registered;

/// A value, without its type: which of several types with the same representation it is, its expression says.
#[derive(Clone, Debug, Default)]
pub enum Datum {
    /// No value.
    #[default]
    Null,
    /// `boolean`.
    Bool(bool),
    /// `"char"`: one byte.
    Char(u8),
    /// `smallint`.
    Int2(i16),
    /// `integer`.
    Int4(i32),
    /// `bigint`.
    Int8(i64),
    /// `oid`, `regclass` and the other `reg*`, `xid`, `cid`.
    Oid(Oid),
    /// `real`.
    Float4(f32),
    /// `double precision`.
    Float8(f64),
    /// `numeric`.
    Numeric(Arc<Numeric>),
    /// `text`, `varchar`, `char(n)` (padded), `name`, `json` (as written), `cstring`, `unknown`, `xml`, `pg_node_tree`.
    Text(Arc<str>),
    /// `bytea`.
    Bytea(Arc<[u8]>),
    /// `date`: days since 2000-01-01; `i32::MIN` and `i32::MAX` are the infinities.
    Date(i32),
    /// `time`: microseconds since midnight, at most 24 hours.
    Time(i64),
    /// `time with time zone`: microseconds since midnight, and seconds west of Greenwich.
    TimeTz(i64, i32),
    /// `timestamp`: microseconds since 2000-01-01; `i64::MIN` and `i64::MAX` are the infinities.
    Timestamp(i64),
    /// `timestamp with time zone`: the same, in UTC.
    TimestampTz(i64),
    /// `interval`.
    Interval(Interval),
    /// `uuid`.
    Uuid([u8; 16]),
    /// `jsonb`.
    Jsonb(Arc<Jsonb>),
    /// An array of any type.
    Array(Arc<Array>),
    /// A row of a composite type, or of none.
    Record(Arc<Record>),
    /// `bit(n)`, `bit varying`: bits, the first one highest, and how many.
    Bits(Arc<[u8]>, u32),
    /// `pg_lsn`, `xid8`.
    Unsigned8(u64),
    /// `tid`: block and line.
    Tid(u32, u16),
    /// A value that only aggregates and set-returning functions use inside.
    Internal(Arc<dyn std::any::Any + Send + Sync>),
}

/// A type and its modifier: `varchar(20)` is `VARCHAR` with the modifier 24, as PostgreSQL has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeReference {
    /// The type.
    pub oid: Oid,
    /// Its length or precision, in PostgreSQL's encoding; -1: none.
    pub modifier: i32,
}

impl TypeReference {
    /// A type without a modifier.
    pub const fn of(oid: Oid) -> TypeReference {
        TypeReference { oid, modifier: -1 }
    }
}

/// `numeric`: `digits * 10^-scale`, or one of the special values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numeric {
    /// A number; `scale` digits after the point are shown.
    Finite {
        /// All digits.
        digits: BigInt,
        /// How many of them are after the point; 0 to 16,383.
        scale: u32,
    },
    /// Infinity.
    PositiveInfinity,
    /// Minus infinity.
    NegativeInfinity,
    /// Equal to itself, and greater than all others.
    NotANumber,
}

/// `interval`: the three parts are kept apart, since months and days have no fixed length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

/// `jsonb`: keys of objects in PostgreSQL's order (shorter ones first, then by bytes), each once.
#[derive(Clone, Debug)]
pub enum Jsonb {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as `numeric`.
    Number(Numeric),
    /// A string.
    String(Arc<str>),
    /// An array.
    Array(Vec<Jsonb>),
    /// An object.
    Object(Vec<(Arc<str>, Jsonb)>),
}

/// An array of any type: elements in row-major order.
#[derive(Clone, Debug)]
pub struct Array {
    /// The type of its elements.
    pub element: Oid,
    /// Outermost first; an empty array has none. At most six.
    pub dimensions: Vec<Dimension>,
    /// As many as the product of the lengths.
    pub values: Vec<Datum>,
}

/// One dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// How many elements.
    pub length: i32,
    /// The first subscript; 1 unless said otherwise.
    pub lower: i32,
}

impl Array {
    /// An array of one dimension that begins with 1; of none if there are no values.
    pub fn one_dimensional(element: Oid, values: Vec<Datum>) -> Array {
        let length = i32::try_from(values.len()).unwrap_or(i32::MAX);
        let dimensions = if values.is_empty() { Vec::new() } else { vec![Dimension { length, lower: 1 }] };
        Array { element, dimensions, values }
    }
}

/// Names of the fields of rows, which share them.
pub type FieldNames = Arc<[Arc<str>]>;

/// A row as one value.
#[derive(Clone, Debug)]
pub struct Record {
    /// The types of its fields.
    pub types: Vec<Oid>,
    /// The names of its fields, which JSON shows; `None`: they are `f1`, `f2` and so on.
    pub names: Option<FieldNames>,
    /// Its fields.
    pub values: Vec<Datum>,
}

impl Datum {
    /// A text.
    pub fn text(text: impl AsRef<str>) -> Datum {
        Datum::Text(Arc::from(text.as_ref()))
    }

    /// The same bits as a value of another type: casts without a function between `integer` and the numbers of objects need it.
    #[must_use]
    pub fn relabeled(self, to: Oid) -> Datum {
        match self {
            Datum::Int4(number) if holds_object_numbers(to) => Datum::Oid(number.cast_unsigned()),
            Datum::Oid(number) if to == oid::INT4 => Datum::Int4(number.cast_signed()),
            other => other,
        }
    }

    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }
}

/// Whether values of a type are numbers of objects: `oid`, `regclass` and their like.
pub fn holds_object_numbers(of: Oid) -> bool {
    of == oid::OID || is_registered(of)
}
