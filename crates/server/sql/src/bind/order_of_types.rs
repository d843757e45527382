//! Which types have an order, and which an equality.

use seawall_values::{Oid, SqlError, SqlState, oid};

use super::types::{category, element_of, type_name};

/// Types that have no order.
pub(super) fn can_be_sorted(of: Oid) -> bool {
    let base = element_of(of).unwrap_or(of);
    !matches!(base, oid::JSON | oid::XML | oid::XID | oid::CID | oid::ACLITEM | oid::JSONPATH)
        && !matches!(category(base), b'G')
}

pub(super) fn can_be_grouped(of: Oid) -> bool {
    can_be_sorted(of) || matches!(of, oid::XID | oid::CID)
}

pub(super) fn no_equality(of: Oid) -> Box<SqlError> {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("could not identify an equality operator for type {}", type_name(of)),
    )
}
