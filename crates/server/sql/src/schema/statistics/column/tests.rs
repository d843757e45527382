//! What is expected was recorded from `pg_stats` of PostgreSQL 15, with the statements beside it.

use seawall_values::{Datum, TypeReference, oid};

use super::super::sample::Sample;
use super::*;

fn statistics(of: seawall_values::Oid, values: impl Iterator<Item = Datum>) -> ColumnStatistics {
    let mut sample = Sample::new(30_000, 64 << 20);
    values.for_each(|value| sample.push(&[value]));
    let rows = sample.seen() as f64;
    column_statistics(sample.values(0), rows, TypeReference::of(of), 100)
}

/// `select n % 50 from generate_series(1, 1000) n`
#[test]
fn values_that_are_few_are_all_common() {
    let found = statistics(oid::INT4, (1..=1_000).map(|number| Datum::Int4(number % 50)));
    assert_eq!((found.null_fraction, found.average_width, found.distinct), (0.0, 4, 50.0));
    assert_eq!(found.common.len(), 50);
    assert!(found.common.iter().all(|(_, share)| (share - 0.02).abs() < 1e-9));
    assert!(found.histogram.is_empty());
    assert!((found.correlation.unwrap() - 0.064).abs() < 0.01, "{:?}", found.correlation);
}

/// `select 'x' || n % 3 from generate_series(1, 1000) n`
#[test]
fn the_most_common_value_is_first() {
    let found = statistics(oid::TEXT, (1..=1_000).map(|number| Datum::text(format!("x{}", number % 3))));
    assert_eq!((found.average_width, found.distinct), (3, 3.0));
    let shown: Vec<String> =
        found.common.iter().map(|(value, share)| format!("{value:?} {share:.3}")).collect();
    assert_eq!(shown, ["Text(\"x1\") 0.334", "Text(\"x0\") 0.333", "Text(\"x2\") 0.333"]);
}

/// `select case when n % 4 > 0 then n end from generate_series(1, 1000) n`
#[test]
fn unique_values_are_a_share_of_the_rows_and_have_a_histogram() {
    let value = |number: i32| if number % 4 > 0 { Datum::Int4(number) } else { Datum::Null };
    let found = statistics(oid::INT4, (1..=1_000).map(value));
    assert_eq!((found.null_fraction, found.distinct), (0.25, -0.75));
    assert!(found.common.is_empty());
    assert_eq!(found.histogram.len(), 101);
    let ends = (found.histogram.first(), found.histogram.last());
    assert!(matches!(ends, (Some(Datum::Int4(1)), Some(Datum::Int4(999)))), "{ends:?}");
    assert!((found.correlation.unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn a_column_of_nulls_has_no_values() {
    let found = statistics(oid::TEXT, (0..10).map(|_| Datum::Null));
    assert_eq!((found.null_fraction, found.average_width, found.distinct), (1.0, 0, 0.0));
    assert!(found.histogram.is_empty() && found.common.is_empty() && found.correlation.is_none());
}

/// A sample says little of how many different values there are: each is seen a few times, so there are not many more.
#[test]
fn distinct_values_of_a_long_table_are_estimated() {
    let found = statistics(oid::INT8, (0..300_000).map(|number| Datum::Int8(number * 7_919 % 10_000)));
    assert!((9_000.0..11_000.0).contains(&found.distinct), "{}", found.distinct);
    assert!(found.common.len() < 20, "{}", found.common.len());
    assert_eq!(found.histogram.len(), 101);
}
