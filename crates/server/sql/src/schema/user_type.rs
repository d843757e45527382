//! Types that users make: enums, domains and composite types.

use seawall_values::user_types::{CompositeField, CompositeFields, DomainRules, EnumLabels, is_enum};
use seawall_values::{Oid, TypeReference};

/// A type.
#[derive(Clone, Debug)]
pub struct UserType {
    /// Its number in `pg_type`, which says of which kind it is.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The number of its schema.
    pub namespace: Oid,
    /// Its owner's number.
    pub owner: Oid,
    /// What it is.
    pub kind: UserTypeKind,
}

/// What a type is.
#[derive(Clone, Debug)]
pub enum UserTypeKind {
    /// Labels, in order.
    Enum(Vec<EnumLabel>),
    /// Values of another type that meet conditions.
    Domain(Domain),
    /// Rows of these fields.
    Composite(Vec<CompositeField>),
}

/// A label of an enum.
#[derive(Clone, Debug)]
pub struct EnumLabel {
    /// Its number in `pg_enum`.
    pub oid: Oid,
    /// Its place in the order, which the stored values have.
    pub place: i64,
    /// Its text.
    pub text: String,
}

/// A domain.
#[derive(Clone, Debug)]
pub struct Domain {
    /// The type that the values have: no domain.
    pub base: TypeReference,
    /// The domain that it was made of; 0: none. Its conditions hold as well.
    pub parent: Oid,
    /// `NOT NULL`.
    pub is_not_null: bool,
    /// `DEFAULT`, as an expression of SQL.
    pub default: Option<String>,
    /// `CHECK`, in the order in which they are looked at.
    pub checks: Vec<DomainCheck>,
}

/// A condition of a domain.
#[derive(Clone, Debug)]
pub struct DomainCheck {
    /// Its number in `pg_constraint`.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// An expression of SQL over `value`.
    pub condition: String,
    /// Whether the rows that were there have been checked.
    pub is_validated: bool,
}

impl UserType {
    /// The labels, under the name that messages show; none of a domain.
    pub(crate) fn labels(&self, shown: String) -> EnumLabels {
        let labels = match &self.kind {
            UserTypeKind::Enum(labels) => labels.as_slice(),
            UserTypeKind::Domain(_) | UserTypeKind::Composite(_) => &[],
        };
        debug_assert!(labels.is_empty() || is_enum(self.oid), "the number of an enum says that it is one");
        let labels = labels.iter().map(|label| (label.place, label.text.as_str().into())).collect();
        EnumLabels { name: shown, labels }
    }
}

/// The fields of a composite type, under the name that messages show.
pub(crate) fn composite_fields(fields: &[CompositeField], shown: String) -> CompositeFields {
    CompositeFields { name: shown, fields: fields.to_vec() }
}

impl Domain {
    /// The rules, under the name that messages show.
    pub(crate) fn rules(&self, shown: String) -> DomainRules {
        let mut checks: Vec<_> =
            self.checks.iter().map(|check| (check.name.clone(), check.condition.clone())).collect();
        // PostgreSQL looks at them by name.
        checks.sort();
        DomainRules {
            name: shown,
            base: self.base,
            parent: self.parent,
            is_not_null: self.is_not_null,
            default: self.default.clone(),
            checks,
        }
    }
}
