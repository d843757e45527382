//! How values of a type are stored: types with one representation in `Datum` share a kind.

use seawall_values::user_types::is_enum;
use seawall_values::{Oid, oid};

/// A way to store values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `boolean`.
    Bool,
    /// `"char"`.
    Char,
    /// `smallint`.
    Int2,
    /// `integer`.
    Int4,
    /// `bigint`.
    Int8,
    /// `oid` and what refers to objects.
    Oid,
    /// `real`.
    Float4,
    /// `double precision`.
    Float8,
    /// `numeric`.
    Numeric,
    /// `text` and its like.
    Text,
    /// `char(n)`: blanks at its end count for nothing where it is compared.
    PaddedText,
    /// `bytea`.
    Bytea,
    /// `date`.
    Date,
    /// `time`.
    Time,
    /// `time with time zone`.
    TimeTz,
    /// `timestamp`.
    Timestamp,
    /// `timestamp with time zone`.
    TimestampTz,
    /// `interval`.
    Interval,
    /// `uuid`.
    Uuid,
    /// `jsonb`.
    Jsonb,
    /// Bit strings.
    Bits,
    /// `pg_lsn`, `xid8`.
    Unsigned8,
    /// `tid`.
    Tid,
    /// Arrays, rows, and types that are made while the database is used: each value says what it is.
    Tagged,
}

impl Kind {
    /// The kind of a type.
    pub fn of(of: Oid) -> Kind {
        match of {
            oid::BOOL => Kind::Bool,
            oid::CHAR => Kind::Char,
            oid::INT2 => Kind::Int2,
            oid::INT4 => Kind::Int4,
            oid::INT8 => Kind::Int8,
            oid::OID | oid::XID | oid::CID | oid::REGPROC | oid::REGPROCEDURE | oid::REGOPER => Kind::Oid,
            oid::REGOPERATOR | oid::REGCLASS | oid::REGTYPE | oid::REGCONFIG => Kind::Oid,
            oid::REGNAMESPACE | oid::REGROLE | oid::REGCOLLATION => Kind::Oid,
            oid::FLOAT4 => Kind::Float4,
            oid::FLOAT8 => Kind::Float8,
            oid::NUMERIC => Kind::Numeric,
            oid::TEXT | oid::VARCHAR | oid::NAME | oid::JSON | oid::CSTRING | oid::UNKNOWN => Kind::Text,
            oid::XML | oid::PG_NODE_TREE | oid::REFCURSOR => Kind::Text,
            oid::BPCHAR => Kind::PaddedText,
            oid::BYTEA => Kind::Bytea,
            oid::DATE => Kind::Date,
            oid::TIME => Kind::Time,
            oid::TIMETZ => Kind::TimeTz,
            oid::TIMESTAMP => Kind::Timestamp,
            oid::TIMESTAMPTZ => Kind::TimestampTz,
            oid::INTERVAL => Kind::Interval,
            oid::UUID => Kind::Uuid,
            oid::JSONB => Kind::Jsonb,
            oid::BIT | oid::VARBIT => Kind::Bits,
            oid::PG_LSN | oid::XID8 => Kind::Unsigned8,
            oid::TID => Kind::Tid,
            // Its place in the order.
            _ if is_enum(of) => Kind::Int8,
            _ => Kind::Tagged,
        }
    }

    /// Whether a key gives back the very value: those that it does not are stored in the row as well.
    pub fn is_exact_in_keys(self) -> bool {
        match self {
            Kind::Bool | Kind::Char | Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Oid | Kind::Text => true,
            Kind::Bytea | Kind::Date | Kind::Time | Kind::TimeTz | Kind::Timestamp => true,
            Kind::TimestampTz | Kind::Uuid | Kind::Unsigned8 | Kind::Tid => true,
            Kind::Float4 | Kind::Float8 | Kind::Numeric | Kind::PaddedText | Kind::Interval => false,
            Kind::Jsonb | Kind::Bits | Kind::Tagged => false,
        }
    }
}
