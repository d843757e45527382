//! Types that users make, as the statement under way sees them: what texts of their values need.
//!
//! ```text
//!   number of the type -->  label --> place in the order        (input)
//!                           place in the order --> label        (output)
//! ```
//! A value of an enum is its place (`Datum::Int8`), which it keeps for ever: labels can be renamed, and new ones put between others,
//! without a row being written again.
//!
//! The number of a type says of which kind it is, so whoever has but the number can ask.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::datum::TypeReference;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid::Oid;

/// Each kind has so many numbers.
const KIND_NUMBERS: Oid = 0x0400_0000;
/// The first number of a domain.
const DOMAINS: Oid = 0x0C00_0000;
/// The first number of an enum.
const ENUMS: Oid = DOMAINS + KIND_NUMBERS;
/// The first number of arrays of enums.
const ENUM_ARRAYS: Oid = ENUMS + KIND_NUMBERS;
/// The first number of a composite type.
const COMPOSITES: Oid = ENUM_ARRAYS + KIND_NUMBERS;
/// The first number of arrays of composite types.
const COMPOSITE_ARRAYS: Oid = COMPOSITES + KIND_NUMBERS;
const END: Oid = COMPOSITE_ARRAYS + KIND_NUMBERS;

/// Before a place in the text of a constant that a definition keeps: labels may be renamed.
pub const PLACE_MARK: char = '\u{1}';

/// Around the number of a type in a message, until its name is known: characters for private use.
const NAME_BEGIN: char = '\u{E0F0}';
const NAME_END: char = '\u{E0F1}';

/// The name of the value in conditions of domains.
pub const VALUE: &str = "value";

/// The number of an enum, made of a number that nothing else has; `None`: there are no more.
pub fn enum_number(number: Oid) -> Option<Oid> {
    (number < KIND_NUMBERS).then(|| ENUMS + number)
}

/// The number of a domain, made of a number that nothing else has; `None`: there are no more.
pub fn domain_number(number: Oid) -> Option<Oid> {
    (number < KIND_NUMBERS).then(|| DOMAINS + number)
}

/// The number of a composite type, made of the number of its relation in `pg_class`; `None`: there are no more.
pub fn composite_number(relation: Oid) -> Option<Oid> {
    (relation < KIND_NUMBERS).then(|| COMPOSITES + relation)
}

/// The number that a composite type has in `pg_class`.
pub fn relation_of_composite(of: Oid) -> Option<Oid> {
    is_composite(of).then(|| of - COMPOSITES)
}

/// Whether a type is a composite one that users have made.
pub fn is_composite(of: Oid) -> bool {
    (COMPOSITES..COMPOSITE_ARRAYS).contains(&of)
}

/// Whether a type is an enum.
pub fn is_enum(of: Oid) -> bool {
    (ENUMS..ENUM_ARRAYS).contains(&of)
}

/// Whether a type is a domain.
pub fn is_domain(of: Oid) -> bool {
    (DOMAINS..ENUMS).contains(&of)
}

/// Whether a type is one that users make, or an array of such.
pub fn is_user_type(of: Oid) -> bool {
    (DOMAINS..END).contains(&of)
}

/// The array type of an enum or a composite type.
pub fn array_of_user_type(of: Oid) -> Option<Oid> {
    (is_enum(of) || is_composite(of)).then(|| of + KIND_NUMBERS)
}

/// The enum or composite type whose arrays a type has.
pub fn element_of_user_array(of: Oid) -> Option<Oid> {
    let is_array = (ENUM_ARRAYS..COMPOSITES).contains(&of) || (COMPOSITE_ARRAYS..END).contains(&of);
    is_array.then(|| of - KIND_NUMBERS)
}

/// The name of a type in the text of a definition: its number stands there, so that the type can be renamed.
pub fn stored_name(of: Oid) -> String {
    match element_of_user_array(of) {
        Some(element) => format!("{}[]", stored_name(element)),
        None => format!("pg_catalog.\"{of}\""),
    }
}

/// The type that `stored_name` has named so, in `pg_catalog`.
pub fn of_stored_name(name: &str) -> Option<Oid> {
    name.parse().ok().filter(|of| is_user_type(*of))
}

/// What stands in a message for the name of a type, where that is not known: see `UserTypes::name_in`.
pub fn marked_name(of: Oid) -> String {
    format!("{NAME_BEGIN}{of}{NAME_END}")
}

/// An enum.
#[derive(Clone, Debug)]
pub struct EnumLabels {
    /// Its name, as messages show it.
    pub name: String,
    /// Places and labels, in order.
    pub labels: Vec<(i64, Arc<str>)>,
}

impl EnumLabels {
    /// The place of a label.
    pub fn place(&self, label: &str) -> Option<i64> {
        self.labels.iter().find(|(_, known)| **known == *label).map(|(place, _)| *place)
    }

    /// The label at a place.
    pub fn label(&self, place: i64) -> Option<&Arc<str>> {
        let at = self.labels.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        self.labels.get(at).map(|(_, label)| label)
    }
}

/// A domain: values of another type that meet conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainRules {
    /// Its name, as messages show it.
    pub name: String,
    /// The type that the values have: no domain.
    pub base: TypeReference,
    /// The domain that it was made of, whose conditions hold as well; 0: none.
    pub parent: Oid,
    /// `NOT NULL`.
    pub is_not_null: bool,
    /// `DEFAULT`, as an expression of SQL.
    pub default: Option<String>,
    /// Names, and expressions of SQL over `value`.
    pub checks: Vec<(String, String)>,
}

/// A composite type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeFields {
    /// Its name, as messages show it.
    pub name: String,
    /// Its fields, in order.
    pub fields: Vec<CompositeField>,
}

/// A field of a composite type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeField {
    /// Its name.
    pub name: Arc<str>,
    /// The type of its values: no domain.
    pub of: TypeReference,
    /// The domain that it was declared with; 0: none.
    pub domain: Oid,
}

/// The types that users have made.
#[derive(Clone, Debug, Default)]
pub struct UserTypes {
    enums: FxHashMap<Oid, EnumLabels>,
    domains: FxHashMap<Oid, DomainRules>,
    composites: FxHashMap<Oid, CompositeFields>,
    names: FxHashMap<Oid, String>,
}

impl UserTypes {
    /// Adds an enum.
    pub fn add_enum(&mut self, of: Oid, labels: EnumLabels) {
        self.names.insert(of, labels.name.clone());
        self.enums.insert(of, labels);
    }

    /// Adds a domain.
    pub fn add_domain(&mut self, of: Oid, rules: DomainRules) {
        self.names.insert(of, rules.name.clone());
        self.domains.insert(of, rules);
    }

    /// Adds a composite type.
    pub fn add_composite(&mut self, of: Oid, fields: CompositeFields) {
        self.names.insert(of, fields.name.clone());
        self.composites.insert(of, fields);
    }

    /// The fields of a composite type.
    ///
    /// # Errors
    /// `42704`: there is no such type any more.
    pub fn composite(&self, of: Oid) -> SqlResult<&CompositeFields> {
        self.composites.get(&of).ok_or_else(|| no_such_type(of))
    }

    /// The rules of a domain.
    ///
    /// # Errors
    /// `42704`: there is no such type any more.
    pub fn domain(&self, of: Oid) -> SqlResult<&DomainRules> {
        self.domains.get(&of).ok_or_else(|| no_such_type(of))
    }

    /// The labels of an enum.
    ///
    /// # Errors
    /// `42704`: there is no such type any more.
    pub fn labels(&self, of: Oid) -> SqlResult<&EnumLabels> {
        self.enums.get(&of).ok_or_else(|| no_such_type(of))
    }

    /// The name of a type as messages show it.
    pub fn name(&self, of: Oid) -> Option<String> {
        match element_of_user_array(of) {
            Some(element) => self.names.get(&element).map(|name| format!("{name}[]")),
            None => self.names.get(&of).cloned(),
        }
    }

    /// An error with the names of types in the place of what `marked_name` has put there.
    pub fn name_in(&self, mut error: Box<SqlError>) -> Box<SqlError> {
        let texts = [Some(&mut error.message), error.detail.as_mut(), error.hint.as_mut()];
        for text in texts.into_iter().flatten().filter(|text| text.contains(NAME_BEGIN)) {
            let mut parts = text.split(NAME_BEGIN);
            let mut named = parts.next().unwrap_or("").to_owned();
            for part in parts {
                let (number, rest) = part.split_once(NAME_END).unwrap_or((part, ""));
                let name = number.parse().ok().and_then(|of| self.name(of));
                named.push_str(&name.unwrap_or_else(|| number.to_owned()));
                named.push_str(rest);
            }
            *text = named;
        }
        error
    }

    /// The place of the value with this text.
    ///
    /// # Errors
    /// `22P02`: there is no such label.
    pub fn place(&self, of: Oid, text: &str) -> SqlResult<i64> {
        let known = self.labels(of)?;
        let kept = || {
            let place = text.strip_prefix(PLACE_MARK)?.parse().ok()?;
            known.label(place).map(|_| place)
        };
        known.place(text).or_else(kept).ok_or_else(|| {
            let message = format!("invalid input value for enum {}: \"{text}\"", known.name);
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        })
    }

    /// The label of a value.
    ///
    /// # Errors
    /// `42704`: there is no such type any more; `XX001`: nor such a value.
    pub fn label(&self, of: Oid, place: i64) -> SqlResult<&Arc<str>> {
        let known = self.labels(of)?;
        known.label(place).ok_or_else(|| {
            let message = format!("enum {} has no value at place {place}", known.name);
            SqlError::new(SqlState::DATA_CORRUPTED, message)
        })
    }
}

#[cold]
fn no_such_type(of: Oid) -> Box<SqlError> {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type with OID {of} does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_label_and_by_place() {
        let of = enum_number(16_384).unwrap();
        let labels = vec![(10, Arc::from("sad")), (15, Arc::from("ok")), (20, Arc::from("happy"))];
        let mut types = UserTypes::default();
        types.add_enum(of, EnumLabels { name: "mood".to_owned(), labels });
        assert_eq!(types.place(of, "ok").unwrap(), 15);
        assert_eq!(&**types.label(of, 20).unwrap(), "happy");
        assert_eq!(types.place(of, "\u{1}20").unwrap(), 20);
        assert_eq!(types.place(of, "\u{1}21").unwrap_err().code, SqlState::INVALID_TEXT_REPRESENTATION);
        assert_eq!(types.label(of, 11).unwrap_err().code, SqlState::DATA_CORRUPTED);
        assert_eq!(types.labels(of + 1).unwrap_err().code, SqlState::UNDEFINED_OBJECT);
        assert_eq!(types.name(array_of_user_type(of).unwrap()).unwrap(), "mood[]");
        let message = format!("cannot cast {} to {}", marked_name(of), marked_name(of + 1));
        let error = types.name_in(SqlError::new(SqlState::CANNOT_COERCE, message));
        assert_eq!(error.message, format!("cannot cast mood to {}", of + 1));
    }

    #[test]
    fn a_number_says_which_kind_of_type_it_is() {
        let (enumeration, domain) = (enum_number(1).unwrap(), domain_number(1).unwrap());
        assert!(is_enum(enumeration) && !is_domain(enumeration));
        assert!(is_domain(domain) && !is_enum(domain));
        assert_eq!(element_of_user_array(array_of_user_type(enumeration).unwrap()), Some(enumeration));
        assert_eq!(enum_number(KIND_NUMBERS), None);
        let composite = composite_number(1).unwrap();
        assert!(is_composite(composite) && is_user_type(composite) && !is_enum(composite));
        assert_eq!(element_of_user_array(array_of_user_type(composite).unwrap()), Some(composite));
        assert_eq!(relation_of_composite(composite), Some(1));
        assert_eq!(element_of_user_array(composite), None);
    }
}
