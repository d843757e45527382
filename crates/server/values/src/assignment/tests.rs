//! Parts of arrays at the ends of what subscripts can be.

use super::{set_element, set_member, set_slice};
use crate::datum::{Array, Datum, Jsonb};
use crate::error::SqlState;
use crate::oid;

fn numbers(values: &[i32]) -> Array {
    Array::one_dimensional(oid::INT4, values.iter().map(|value| Datum::Int4(*value)).collect())
}

#[test]
fn the_largest_subscript_is_refused() {
    let error = set_element(&numbers(&[]), &[i32::MAX], Datum::Int4(1)).unwrap_err();
    assert_eq!(error.code, SqlState::PROGRAM_LIMIT_EXCEEDED);
    let error = set_element(&numbers(&[1]), &[i32::MIN], Datum::Int4(1)).unwrap_err();
    assert_eq!(error.code, SqlState::PROGRAM_LIMIT_EXCEEDED);
    assert!(set_element(&numbers(&[]), &[i32::MAX - 1], Datum::Int4(1)).is_ok());
    assert!(set_element(&numbers(&[]), &[i32::MIN], Datum::Int4(1)).is_ok());
}

#[test]
fn a_slice_of_all_numbers_is_refused() {
    let bounds = [(Some(i32::MIN), Some(i32::MAX))];
    for array in [numbers(&[]), numbers(&[1])] {
        let error = set_slice(&array, &bounds, &numbers(&[1])).unwrap_err();
        assert_eq!(error.code, SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
    let wide = [(Some(0), Some(i32::MAX)); 6];
    let error = set_slice(&numbers(&[]), &wide, &numbers(&[1])).unwrap_err();
    assert_eq!(error.code, SqlState::PROGRAM_LIMIT_EXCEEDED);
}

#[test]
fn gaps_of_json_have_a_limit() {
    let path = [Datum::Int4(i32::MAX)];
    let error = set_member(None, &path, Jsonb::Null).unwrap_err();
    assert_eq!(error.code, SqlState::PROGRAM_LIMIT_EXCEEDED);
    let path = [Datum::text("a"), Datum::text("2147483647")];
    let error = set_member(None, &path, Jsonb::Null).unwrap_err();
    assert_eq!(error.code, SqlState::PROGRAM_LIMIT_EXCEEDED);
}
