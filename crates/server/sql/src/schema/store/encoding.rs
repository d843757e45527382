//! Definitions as bytes: the value of a row of `sql.definitions`.
//!
//! | bytes | field   | meaning                                                                     |
//! |------:|---------|-----------------------------------------------------------------------------|
//! |     1 | version | `DEFINITION_VERSION`; another one is refused                                |
//! |     1 | kind    | 1 table, 2 view, 3 sequence, 4 index (only the number of its table follows), 5 view whose options follow it, 6 table whose `MaterializedQuery` follows it |
//! |    .. | fields  | of the struct in `schema`, in the order of `stored!` below                  |
//!
//! Of a table, `version` is the first field, so that a definition that has been decoded before is found without decoding this one.
//! Integers are little-endian and as wide as in the struct, places 4 bytes; booleans 0 or 1; texts and lists after their count as a
//! varint; options 0, or 1 and the value; a choice is its number in the order of its enum; values of SQL are tagged values
//! (`storage::value`).

use std::sync::Arc;

use seawall_values::user_types::{CompositeField, is_domain};
use seawall_values::{Datum, Oid, SqlResult, TypeReference};

use crate::catalog::source::{Namespace, Role};
use crate::schema::function::{Function, FunctionParameter};
use crate::schema::privilege::{AccessItem, AccessList, Privileges};
use crate::schema::statistics::{ColumnStatistics, TableStatistics};
use crate::schema::user_type::{Domain, DomainCheck, EnumLabel, UserType, UserTypeKind};
use crate::schema::{
    Column, Constraint, ConstraintKind, ForeignKey, Identity, Index, IndexKey, IndexedValue, KeyColumn,
    MaterializedQuery, ReferentialAction, RowKey, Sequence, Table, View,
};
use crate::storage::kind::Kind;
use crate::storage::value::{ValueReader, damaged, write_bytes, write_length, write_value};

const DEFINITION_VERSION: u8 = 1;

/// Something that a definition is made of.
pub(super) trait Stored: Sized {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()>;
    fn read(reader: &mut ValueReader<'_>) -> SqlResult<Self>;
}

macro_rules! stored_numbers {
    ($($number:ident),*) => { $(
        impl Stored for $number {
            fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
                out.extend_from_slice(&self.to_le_bytes());
                Ok(())
            }

            fn read(reader: &mut ValueReader<'_>) -> SqlResult<$number> {
                Ok($number::from_le_bytes(reader.array()?))
            }
        }
    )* };
}

stored_numbers!(u8, u16, u32, u64, i32, i64, f64);

/// Structs, field by field; after `+`: fields that are stored elsewhere.
macro_rules! stored {
    ($($of:ident { $($field:ident),* $(,)? } $(+ { $($beside:ident: $value:expr),* })?)*) => { $(
        impl Stored for $of {
            fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
                $(self.$field.write(out)?;)*
                Ok(())
            }

            fn read(reader: &mut ValueReader<'_>) -> SqlResult<$of> {
                $(let $field = Stored::read(reader)?;)*
                Ok($of { $($field,)* $($($beside: $value),*)? })
            }
        }
    )* };
}

stored! {
    Table {
        version, oid, name, namespace, owner, columns, key, storage, indexes, constraints, is_temporary, options,
    } + { query: None }
    MaterializedQuery { text, search_path, is_populated }
    KeyColumn { column, is_descending, is_nulls_first }
    Index {
        oid, name, storage, keys, included, is_unique, is_nulls_not_distinct, is_primary, predicate, is_valid, constraint,
    }
    IndexKey { what, of, is_descending, is_nulls_first }
    Constraint { oid, name, kind, is_deferrable, is_deferred, is_validated }
    ForeignKey { columns, target, target_columns, target_index, on_update, on_delete, is_match_full }
    Sequence {
        oid, name, namespace, owner, of, start, increment, minimum, maximum, cache, is_cycling, owned_by, state,
    }
    TypeReference { oid, modifier }
    UserType { oid, name, namespace, owner, kind }
    EnumLabel { oid, place, text }
    Domain { base, parent, is_not_null, default, checks }
    DomainCheck { oid, name, condition, is_validated }
    TableStatistics { version, rows, analyzed_at, columns }
    ColumnStatistics { of, null_fraction, average_width, distinct, common, histogram, correlation }
    Namespace { oid, name, owner }
    Function {
        oid, name, namespace, owner, parameters, result, returns_set, volatility, is_strict, is_leakproof, parallel, cost, rows, body,
    }
    FunctionParameter { name, mode, of, default }
    AccessItem { grantee, grantor, privileges, grantable }
    AccessList { items }
    Role {
        oid, name, is_superuser, inherits, creates_roles, creates_databases, can_log_in, replicates, bypasses_row_security,
        connection_limit, password, valid_until, settings, member_of,
    }
}

/// Enums without fields, by their number.
macro_rules! stored_choices {
    ($($of:ident { $($variant:ident = $number:literal),* })*) => { $(
        impl Stored for $of {
            fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
                out.push(match self { $($of::$variant => $number),* });
                Ok(())
            }

            fn read(reader: &mut ValueReader<'_>) -> SqlResult<$of> {
                match reader.byte()? {
                    $($number => Ok($of::$variant),)*
                    _ => Err(damaged(concat!("no such ", stringify!($of)))),
                }
            }
        }
    )* };
}

stored_choices! {
    Identity { Always = 0, ByDefault = 1 }
    ReferentialAction { NoAction = 0, Restrict = 1, Cascade = 2, SetNull = 3, SetDefault = 4 }
}

impl Stored for bool {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        out.push(u8::from(*self));
        Ok(())
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<bool> {
        match reader.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(damaged("a boolean is neither true nor false")),
        }
    }
}

/// Bits, in the order of `Privileges::ALL`.
impl Stored for Privileges {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        self.bits().write(out)
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<Privileges> {
        Privileges::from_bits(u16::read(reader)?).ok_or_else(|| damaged("no such privilege"))
    }
}

/// A place in a list of columns.
impl Stored for usize {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        u32::try_from(*self).unwrap_or(u32::MAX).write(out)
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<usize> {
        usize::try_from(u32::read(reader)?).map_err(|_| damaged("a position is out of range"))
    }
}

impl Stored for String {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        write_bytes(self.as_bytes(), out);
        Ok(())
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<String> {
        reader.text().map(str::to_owned)
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        write_length(self.len(), out);
        self.iter().try_for_each(|value| value.write(out))
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<Vec<T>> {
        (0..reader.count()?).map(|_| T::read(reader)).collect()
    }
}

impl<T: Stored> Stored for Option<T> {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        self.is_some().write(out)?;
        self.iter().try_for_each(|value| value.write(out))
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<Option<T>> {
        if bool::read(reader)? { T::read(reader).map(Some) } else { Ok(None) }
    }
}

impl<T: Stored> Stored for Arc<T> {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        T::write(self, out)
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<Arc<T>> {
        T::read(reader).map(Arc::new)
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        self.0.write(out)?;
        self.1.write(out)
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<(A, B)> {
        Ok((A::read(reader)?, B::read(reader)?))
    }
}

impl Stored for Datum {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        write_value(Kind::Tagged, self, out)
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<Datum> {
        reader.value(Kind::Tagged)
    }
}

impl Stored for RowKey {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        match self {
            RowKey::Number => 0u8.write(out),
            RowKey::Columns(columns) => {
                1u8.write(out)?;
                columns.write(out)
            }
        }
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<RowKey> {
        match reader.byte()? {
            0 => Ok(RowKey::Number),
            1 => Ok(RowKey::Columns(Stored::read(reader)?)),
            _ => Err(damaged("no such RowKey")),
        }
    }
}

impl Stored for IndexedValue {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        match self {
            IndexedValue::Column(column) => {
                0u8.write(out)?;
                column.write(out)
            }
            IndexedValue::Expression(text) => {
                1u8.write(out)?;
                text.write(out)
            }
        }
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<IndexedValue> {
        match reader.byte()? {
            0 => Ok(IndexedValue::Column(Stored::read(reader)?)),
            1 => Ok(IndexedValue::Expression(Stored::read(reader)?)),
            _ => Err(damaged("no such IndexedValue")),
        }
    }
}

impl Stored for ConstraintKind {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        match self {
            ConstraintKind::Check(text) => {
                0u8.write(out)?;
                text.write(out)
            }
            ConstraintKind::Unique(index) => {
                1u8.write(out)?;
                index.write(out)
            }
            ConstraintKind::ForeignKey(key) => {
                2u8.write(out)?;
                key.write(out)
            }
        }
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<ConstraintKind> {
        match reader.byte()? {
            0 => Ok(ConstraintKind::Check(Stored::read(reader)?)),
            1 => Ok(ConstraintKind::Unique(Stored::read(reader)?)),
            2 => Ok(ConstraintKind::ForeignKey(Stored::read(reader)?)),
            _ => Err(damaged("no such ConstraintKind")),
        }
    }
}

fn write_view(view: &View, out: &mut Vec<u8>) -> SqlResult<()> {
    view.oid.write(out)?;
    view.name.write(out)?;
    view.namespace.write(out)?;
    view.owner.write(out)?;
    view.columns.write(out)?;
    view.query.write(out)?;
    view.search_path.write(out)
}

/// Without its options.
fn read_view(reader: &mut ValueReader<'_>) -> SqlResult<View> {
    Ok(View {
        oid: Stored::read(reader)?,
        name: Stored::read(reader)?,
        namespace: Stored::read(reader)?,
        owner: Stored::read(reader)?,
        columns: Stored::read(reader)?,
        query: Stored::read(reader)?,
        search_path: Stored::read(reader)?,
        options: Vec::new(),
    })
}

/// A column of a domain has the domain in the place of its type, and the type of the domain's values at its end.
impl Stored for Column {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        self.name.write(out)?;
        match self.domain {
            0 => self.of.write(out)?,
            domain => TypeReference { oid: domain, modifier: self.of.modifier }.write(out)?,
        }
        self.is_not_null.write(out)?;
        self.default.write(out)?;
        self.identity.write(out)?;
        self.generated.write(out)?;
        self.missing.write(out)?;
        self.is_dropped.write(out)?;
        self.sequence.write(out)?;
        if self.domain != 0 {
            self.of.oid.write(out)?;
        }
        Ok(())
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<Column> {
        let mut column = Column {
            name: Stored::read(reader)?,
            of: Stored::read(reader)?,
            is_not_null: Stored::read(reader)?,
            default: Stored::read(reader)?,
            identity: Stored::read(reader)?,
            generated: Stored::read(reader)?,
            missing: Stored::read(reader)?,
            is_dropped: Stored::read(reader)?,
            sequence: Stored::read(reader)?,
            domain: 0,
        };
        if is_domain(column.of.oid) {
            column.domain = column.of.oid;
            column.of.oid = Stored::read(reader)?;
        }
        Ok(column)
    }
}

impl Stored for UserTypeKind {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        match self {
            UserTypeKind::Enum(labels) => {
                0u8.write(out)?;
                labels.write(out)
            }
            UserTypeKind::Domain(domain) => {
                1u8.write(out)?;
                domain.write(out)
            }
            UserTypeKind::Composite(fields) => {
                2u8.write(out)?;
                fields.write(out)
            }
        }
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<UserTypeKind> {
        match reader.byte()? {
            0 => Ok(UserTypeKind::Enum(Stored::read(reader)?)),
            1 => Ok(UserTypeKind::Domain(Stored::read(reader)?)),
            2 => Ok(UserTypeKind::Composite(Stored::read(reader)?)),
            _ => Err(damaged("no such UserTypeKind")),
        }
    }
}

impl Stored for CompositeField {
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        write_bytes(self.name.as_bytes(), out);
        self.of.write(out)?;
        self.domain.write(out)
    }

    fn read(reader: &mut ValueReader<'_>) -> SqlResult<CompositeField> {
        let name = Arc::from(reader.text()?);
        Ok(CompositeField { name, of: Stored::read(reader)?, domain: Stored::read(reader)? })
    }
}

/// A relation as it is stored: an index is stored with its table.
#[derive(Clone, Debug)]
pub(super) enum StoredRelation {
    Table(Arc<Table>),
    View(Arc<View>),
    Sequence(Arc<Sequence>),
    Index(Oid),
}

impl StoredRelation {
    pub(super) fn encode(&self) -> SqlResult<Vec<u8>> {
        let mut out = vec![DEFINITION_VERSION];
        match self {
            StoredRelation::Table(table) => {
                out.push(if table.query.is_some() { 6 } else { 1 });
                table.write(&mut out)?;
                if let Some(query) = &table.query {
                    query.write(&mut out)?;
                }
            }
            StoredRelation::View(view) if view.options.is_empty() => {
                out.push(2);
                write_view(view, &mut out)?;
            }
            StoredRelation::View(view) => {
                out.push(5);
                write_view(view, &mut out)?;
                view.options.write(&mut out)?;
            }
            StoredRelation::Sequence(sequence) => {
                out.push(3);
                sequence.write(&mut out)?;
            }
            StoredRelation::Index(table) => {
                out.push(4);
                table.write(&mut out)?;
            }
        }
        Ok(out)
    }

    /// `known` finds a table by its version, without decoding it.
    pub(super) fn decode(
        bytes: &[u8],
        known: impl FnOnce(u64) -> Option<Arc<Table>>,
    ) -> SqlResult<StoredRelation> {
        let mut reader = opened(bytes)?;
        let relation = match reader.byte()? {
            kind @ (1 | 6) => {
                let version = u64::read(&mut reader.clone())?;
                if let Some(table) = known(version) {
                    return Ok(StoredRelation::Table(table));
                }
                let table: Table = Stored::read(&mut reader)?;
                let query = if kind == 6 { Some(Stored::read(&mut reader)?) } else { None };
                StoredRelation::Table(Arc::new(Table { query, ..table }))
            }
            2 => StoredRelation::View(Arc::new(read_view(&mut reader)?)),
            5 => {
                let view = read_view(&mut reader)?;
                StoredRelation::View(Arc::new(View { options: Stored::read(&mut reader)?, ..view }))
            }
            3 => StoredRelation::Sequence(Stored::read(&mut reader)?),
            4 => StoredRelation::Index(Stored::read(&mut reader)?),
            _ => return Err(damaged("a definition of no known kind")),
        };
        closed(reader)?;
        Ok(relation)
    }
}

fn opened(bytes: &[u8]) -> SqlResult<ValueReader<'_>> {
    let mut reader = ValueReader::new(bytes);
    if reader.byte()? == DEFINITION_VERSION {
        Ok(reader)
    } else {
        Err(damaged("the version of a definition is not known"))
    }
}

fn closed(reader: ValueReader<'_>) -> SqlResult<()> {
    if reader.is_at_end() { Ok(()) } else { Err(damaged("bytes follow a definition")) }
}

/// A definition that is no relation, such as a role.
pub(super) fn encode<T: Stored>(value: &T) -> SqlResult<Vec<u8>> {
    let mut out = vec![DEFINITION_VERSION];
    value.write(&mut out)?;
    Ok(out)
}

/// The first field of what `encode` has written, where that is a version.
pub(super) fn version_of(bytes: &[u8]) -> SqlResult<u64> {
    u64::read(&mut opened(bytes)?)
}

/// What `encode` has written.
pub(super) fn decode<T: Stored>(bytes: &[u8]) -> SqlResult<T> {
    let mut reader = opened(bytes)?;
    let value = T::read(&mut reader)?;
    closed(reader)?;
    Ok(value)
}
