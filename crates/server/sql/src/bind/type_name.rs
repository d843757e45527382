//! Names of types in statements.

use seawall_values::system::system;
use seawall_values::user_types::{is_composite, is_user_type, of_stored_name};
use seawall_values::{Oid, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, IntervalFields, ObjectNamePart,
    TimezoneInfo,
};

use super::Binder;
use super::types::array_of;
use crate::catalog::numbers::{relation_of_type, row_type};
use crate::schema::Definition;

/// PostgreSQL adds the four bytes of a length to the modifiers of strings and numbers.
const HEADER: i32 = 4;
/// What `interval` has as its fields or precision when none is written.
const ALL_FIELDS: i32 = 0x7FFF;
const FULL_PRECISION: i32 = 0xFFFF;

impl Binder<'_> {
    /// The type that is meant.
    pub(crate) fn type_of(&mut self, data_type: &DataType) -> SqlResult<TypeReference> {
        use DataType as D;
        let plain = |oid: Oid| Ok(TypeReference::of(oid));
        match data_type {
            D::Character(length) | D::Char(length) => {
                string(oid::BPCHAR, "char", length.as_ref().or(Some(&ONE)))
            }
            D::CharacterVarying(length) | D::CharVarying(length) | D::Varchar(length) => {
                string(oid::VARCHAR, "varchar", length.as_ref())
            }
            D::Uuid => plain(oid::UUID),
            D::Numeric(info) | D::Decimal(info) | D::Dec(info) => numeric(info),
            D::Float(ExactNumberInfo::None) | D::Float8 | D::DoublePrecision | D::Double(_) => {
                plain(oid::FLOAT8)
            }
            D::Float(ExactNumberInfo::Precision(bits) | ExactNumberInfo::PrecisionAndScale(bits, _)) => {
                match bits {
                    0 => Err(invalid("precision for type float must be at least 1 bit")),
                    1..=24 => plain(oid::FLOAT4),
                    25..=53 => plain(oid::FLOAT8),
                    _ => Err(invalid("precision for type float must be less than 54 bits")),
                }
            }
            D::Int2(None) | D::SmallInt(None) => plain(oid::INT2),
            D::Int(None) | D::Int4(None) | D::Integer(None) => plain(oid::INT4),
            D::Int8(None) | D::BigInt(None) => plain(oid::INT8),
            D::Float4 | D::Real => plain(oid::FLOAT4),
            D::Bool | D::Boolean => plain(oid::BOOL),
            D::Date => plain(oid::DATE),
            D::Time(precision, zone) => {
                let oid = if has_zone(*zone) { oid::TIMETZ } else { oid::TIME };
                Ok(TypeReference { oid, modifier: precision_of(*precision)? })
            }
            D::Timestamp(precision, zone) => {
                let oid = if has_zone(*zone) { oid::TIMESTAMPTZ } else { oid::TIMESTAMP };
                Ok(TypeReference { oid, modifier: precision_of(*precision)? })
            }
            D::Interval { fields, precision } => interval(fields.as_ref(), *precision),
            D::JSON => plain(oid::JSON),
            D::JSONB => plain(oid::JSONB),
            D::Regclass => plain(oid::REGCLASS),
            D::Text => plain(oid::TEXT),
            D::Bytea => plain(oid::BYTEA),
            D::Bit(length) => bits(oid::BIT, length.or(Some(1))),
            D::BitVarying(length) | D::VarBit(length) => bits(oid::VARBIT, *length),
            D::Array(
                ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::Qualified(element, _),
            ) => {
                let element = self.type_of(element)?;
                // Arrays of arrays are arrays of more dimensions.
                if super::types::element_of(element.oid).is_some() {
                    return Ok(element);
                }
                let array = array_of(element.oid)
                    .ok_or_else(|| SqlError::unsupported(format!("an array of {data_type}")))?;
                Ok(TypeReference { oid: array, modifier: element.modifier })
            }
            D::Custom(name, modifiers) => {
                let parts: Vec<String> = name
                    .0
                    .iter()
                    .filter_map(|part| match part {
                        ObjectNamePart::Identifier(ident) => Some(super::expression::folded(ident)),
                        ObjectNamePart::Function(_) => None,
                    })
                    .collect();
                let position = name
                    .0
                    .iter()
                    .find_map(ObjectNamePart::as_ident)
                    .and_then(|ident| self.text.position(ident.span.start));
                let of = self.named_type(&parts, modifiers).map_err(|error| error.at(position))?;
                if is_user_type(of.oid) {
                    self.keep_type(name, of.oid);
                }
                Ok(of)
            }
            other => self.named_type(&[other.to_string().to_lowercase()], &[]),
        }
    }

    /// The type of values that is meant: that below a domain.
    pub(crate) fn value_type_of(&mut self, data_type: &DataType) -> SqlResult<TypeReference> {
        let of = self.type_of(data_type)?;
        self.base_of(of)
    }

    fn named_type(&mut self, parts: &[String], modifiers: &[String]) -> SqlResult<TypeReference> {
        let (schema, name) = match parts {
            [name] => (None, name),
            [schema, name] | [_, schema, name] => (Some(schema.as_str()), name),
            _ => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "improper type name (too many dotted names)",
                ));
            }
        };
        if schema.is_none_or(|schema| schema == "pg_catalog")
            && let Some(row) = system().type_by_name(name)
        {
            return with_modifiers(row.oid, modifiers);
        }
        if schema == Some("pg_catalog")
            && let Some(of) = of_stored_name(name)
        {
            return Ok(TypeReference::of(of));
        }
        if let Some(found) = self.user_type(schema, name)? {
            return Ok(found);
        }
        match self.definitions.relation(schema, name)? {
            Some(Definition::Table(table)) => Ok(TypeReference::of(row_type(table.oid))),
            Some(Definition::View(view)) => Ok(TypeReference::of(row_type(view.oid))),
            _ => {
                let written = parts.join(".");
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{written}\" does not exist")))
            }
        }
    }

    /// A type that users have made.
    fn user_type(&mut self, schema: Option<&str>, name: &str) -> SqlResult<Option<TypeReference>> {
        let mut found = None;
        if let (None, Some(path)) = (schema, self.search_path.clone()) {
            for schema in path.iter().filter(|schema| *schema != "pg_catalog") {
                found = found.map_or_else(
                    || self.definitions.user_type(Some(schema), name),
                    |found| Ok(Some(found)),
                )?;
            }
        }
        if found.is_none() {
            found = self.definitions.user_type(schema, name)?;
        }
        Ok(found.map(|found| {
            self.used_types.push(found.oid);
            TypeReference::of(found.oid)
        }))
    }

    /// The domains of the columns of the row type of a table, or of the fields of a composite type; 0: none.
    pub(super) fn row_domains(&mut self, row_type: Oid) -> SqlResult<Vec<Oid>> {
        if is_composite(row_type) {
            let fields = &self.settings.types.composite(row_type)?.fields;
            return Ok(fields.iter().map(|field| field.domain).collect());
        }
        let Some((relation, false)) = relation_of_type(row_type) else { return Err(no_such_type()) };
        match self.definitions.relation_by_oid(relation)? {
            Some(Definition::Table(table)) => {
                let columns = table.columns.iter().filter(|column| !column.is_dropped);
                Ok(columns.map(|column| column.domain).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The columns of the row type of a table, or the fields of a composite type: names and types.
    pub(super) fn row_columns(&mut self, row_type: Oid) -> SqlResult<Vec<(String, TypeReference)>> {
        if is_composite(row_type) {
            let fields = &self.settings.types.composite(row_type)?.fields;
            return Ok(fields.iter().map(|field| (field.name.to_string(), field.of)).collect());
        }
        let Some((relation, false)) = relation_of_type(row_type) else { return Err(no_such_type()) };
        match self.definitions.relation_by_oid(relation)? {
            Some(Definition::Table(table)) => Ok(table
                .columns
                .iter()
                .filter(|column| !column.is_dropped)
                .map(|column| (column.name.clone(), column.of))
                .collect()),
            Some(Definition::View(view)) => Ok(view.columns.clone()),
            _ => Err(no_such_type()),
        }
    }
}

fn no_such_type() -> Box<SqlError> {
    SqlError::new(SqlState::UNDEFINED_OBJECT, "type does not exist")
}

const ONE: CharacterLength = CharacterLength::IntegerLength { length: 1, unit: None };

fn invalid(message: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn has_zone(zone: TimezoneInfo) -> bool {
    matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz)
}

fn string(oid: Oid, name: &str, length: Option<&CharacterLength>) -> SqlResult<TypeReference> {
    let length = match length {
        None | Some(CharacterLength::Max) => return Ok(TypeReference::of(oid)),
        Some(CharacterLength::IntegerLength { length, .. }) => *length,
    };
    if length == 0 {
        return Err(invalid(&format!("length for type {name} must be at least 1")));
    }
    match i32::try_from(length) {
        Ok(length) if length <= 10_485_760 => Ok(TypeReference { oid, modifier: length + HEADER }),
        _ => Err(invalid(&format!("length for type {name} cannot exceed 10485760"))),
    }
}

fn bits(oid: Oid, length: Option<u64>) -> SqlResult<TypeReference> {
    let name = if oid == oid::BIT { "bit" } else { "varbit" };
    match length {
        None => Ok(TypeReference::of(oid)),
        Some(0) => Err(invalid(&format!("length for type {name} must be at least 1"))),
        Some(length) => match i32::try_from(length) {
            Ok(modifier) if modifier <= 83_886_080 => Ok(TypeReference { oid, modifier }),
            _ => Err(invalid(&format!("length for type {name} cannot exceed 83886080"))),
        },
    }
}

fn numeric(info: &ExactNumberInfo) -> SqlResult<TypeReference> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(TypeReference::of(oid::NUMERIC)),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    numeric_modifier(i64::try_from(precision).unwrap_or(i64::MAX), scale)
}

fn numeric_modifier(precision: i64, scale: i64) -> SqlResult<TypeReference> {
    if !(1..=1000).contains(&precision) {
        return Err(invalid(&format!("NUMERIC precision {precision} must be between 1 and 1000")));
    }
    if !(-1000..=1000).contains(&scale) {
        return Err(invalid(&format!("NUMERIC scale {scale} must be between -1000 and 1000")));
    }
    let (precision, scale) = (i32::try_from(precision).unwrap_or(0), i32::try_from(scale).unwrap_or(0));
    Ok(TypeReference { oid: oid::NUMERIC, modifier: ((precision << 16) | (scale & 0x7FF)) + HEADER })
}

fn precision_of(precision: Option<u64>) -> SqlResult<i32> {
    // PostgreSQL warns about more than six digits, and takes six.
    Ok(precision.map_or(-1, |precision| i32::try_from(precision.min(6)).unwrap_or(6)))
}

fn interval(fields: Option<&IntervalFields>, precision: Option<u64>) -> SqlResult<TypeReference> {
    use IntervalFields as F;
    let bit = |field: u32| 1_i32 << field;
    let (month, year, day, hour, minute, second) = (bit(1), bit(2), bit(3), bit(10), bit(11), bit(12));
    let mask = match fields {
        None => None,
        Some(F::Year) => Some(year),
        Some(F::Month) => Some(month),
        Some(F::Day) => Some(day),
        Some(F::Hour) => Some(hour),
        Some(F::Minute) => Some(minute),
        Some(F::Second) => Some(second),
        Some(F::YearToMonth) => Some(year | month),
        Some(F::DayToHour) => Some(day | hour),
        Some(F::DayToMinute) => Some(day | hour | minute),
        Some(F::DayToSecond) => Some(day | hour | minute | second),
        Some(F::HourToMinute) => Some(hour | minute),
        Some(F::HourToSecond) => Some(hour | minute | second),
        Some(F::MinuteToSecond) => Some(minute | second),
    };
    if mask.is_none() && precision.is_none() {
        return Ok(TypeReference::of(oid::INTERVAL));
    }
    let precision =
        precision.map_or(FULL_PRECISION, |precision| i32::try_from(precision.min(6)).unwrap_or(6));
    Ok(TypeReference { oid: oid::INTERVAL, modifier: (mask.unwrap_or(ALL_FIELDS) << 16) | precision })
}

fn with_modifiers(of: Oid, modifiers: &[String]) -> SqlResult<TypeReference> {
    if modifiers.is_empty() {
        return Ok(TypeReference::of(of));
    }
    let number = |text: &String| {
        text.trim().parse::<i64>().map_err(|_| {
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid type modifier \"{text}\""))
        })
    };
    let numbers = modifiers.iter().map(number).collect::<SqlResult<Vec<i64>>>()?;
    let length = CharacterLength::IntegerLength {
        length: numbers.first().and_then(|length| u64::try_from(*length).ok()).unwrap_or(0),
        unit: None,
    };
    let unsigned = numbers.first().and_then(|length| u64::try_from(*length).ok());
    match of {
        oid::VARCHAR => string(of, "varchar", Some(&length)),
        oid::BPCHAR => string(of, "char", Some(&length)),
        oid::BIT | oid::VARBIT => bits(of, unsigned),
        oid::NUMERIC => numeric_modifier(numbers[0], numbers.get(1).copied().unwrap_or(0)),
        oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ => {
            Ok(TypeReference { oid: of, modifier: precision_of(unsigned)? })
        }
        oid::INTERVAL => interval(None, unsigned),
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("type modifier is not allowed for type \"{}\"", super::types::type_name(of)),
        )),
    }
}
