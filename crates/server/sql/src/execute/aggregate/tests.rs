use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use seawall_values::Datum;

use super::super::Limits;
use super::super::expression::{Comparison, Expression, Operator};
use super::super::plan::{AggregateCall, AggregatePlan, PlanKind};
use super::super::testing::{key, list, node, rows, sum, values};

type Row = Vec<Datum>;

fn value() -> impl Strategy<Value = Datum> {
    prop_oneof![1 => Just(Datum::Null), 9 => (0..9).prop_map(Datum::Int4)]
}

fn input() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(prop::collection::vec(value(), 3), 0..60)
}

fn plan(input: &[Row], groups: &[usize], sets: Vec<Vec<usize>>, aggregates: Vec<AggregateCall>) -> PlanKind {
    PlanKind::Aggregate(Arc::new(AggregatePlan {
        input: values(input, 3),
        groups: groups.to_vec(),
        padded: vec![false; groups.len()],
        sets,
        grouping: vec![(8, (0..groups.len()).collect())],
        aggregates,
        input_slots: vec![0, 1, 2],
    }))
}

fn limits(is_tight: bool) -> Limits {
    if is_tight { Limits { work_memory: 900, ..Limits::default() } } else { Limits::default() }
}

fn total(rows: &[&Row], at: usize) -> Datum {
    let values: Vec<i64> = rows
        .iter()
        .filter_map(|row| match row[at] {
            Datum::Int4(value) => Some(i64::from(value)),
            _ => None,
        })
        .collect();
    if values.is_empty() { Datum::Null } else { Datum::Int8(values.iter().sum()) }
}

fn by<'r>(rows: &'r [Row], columns: &[usize]) -> BTreeMap<String, Vec<&'r Row>> {
    let mut groups: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let key: Vec<&Datum> = columns.iter().map(|at| &row[*at]).collect();
        groups.entry(format!("{key:?}")).or_default().push(row);
    }
    groups
}

fn sorted(rows: &[Row]) -> Vec<String> {
    let mut shown: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    shown.sort();
    shown
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn groups_have_their_sums_also_spilled(input in input(), is_tight: bool) {
        let kind = plan(&input, &[0, 1], vec![vec![0, 1]], vec![sum(5, 2)]);
        let found = rows(node(kind), 9, &[0, 1, 5], limits(is_tight));
        let expected: Vec<Row> = by(&input, &[0, 1])
            .values()
            .map(|group| vec![group[0][0].clone(), group[0][1].clone(), total(group, 2)])
            .collect();
        prop_assert_eq!(sorted(&found), sorted(&expected));
    }

    #[test]
    fn grouping_sets_are_one_aggregation_each(input in input(), is_tight: bool) {
        let sets = vec![vec![0, 1], vec![1], vec![]];
        let kind = plan(&input, &[0, 1], sets, vec![sum(5, 2)]);
        let found = rows(node(kind), 9, &[0, 1, 5, 8], limits(is_tight));
        let mut expected = Vec::new();
        for group in by(&input, &[0, 1]).values() {
            expected.push(vec![group[0][0].clone(), group[0][1].clone(), total(group, 2), Datum::Int4(0)]);
        }
        for group in by(&input, &[1]).values() {
            expected.push(vec![Datum::Null, group[0][1].clone(), total(group, 2), Datum::Int4(2)]);
        }
        let all: Vec<&Row> = input.iter().collect();
        expected.push(vec![Datum::Null, Datum::Null, total(&all, 2), Datum::Int4(3)]);
        prop_assert_eq!(sorted(&found), sorted(&expected));
    }

    #[test]
    fn order_distinct_and_filter_choose_the_rows(input in input(), is_tight: bool) {
        let ordered = AggregateCall { order: vec![key(1, true)], ..list(5, 2) };
        let distinct = AggregateCall { is_distinct: true, ..list(6, 2) };
        let filtered = AggregateCall {
            filter: Some(Expression::Compare(Box::new(Comparison {
                operator: Operator::Less,
                is_padded: false,
                left: Expression::Slot(1),
                right: Expression::Constant(Datum::Int4(4)),
            }))),
            ..list(7, 2)
        };
        let kind = plan(&input, &[0], vec![vec![0]], vec![ordered, distinct, filtered]);
        let found = rows(node(kind), 9, &[0, 5, 6, 7], limits(is_tight));
        let expected: Vec<Row> = by(&input, &[0])
            .values()
            .map(|group| {
                let rank = |value: &Datum| match value {
                    Datum::Int4(value) => *value,
                    _ => i32::MAX,
                };
                let shown = |rows: &[&Row]| {
                    Datum::text(rows.iter().map(|row| format!("{:?};", [&row[2]])).collect::<String>())
                };
                let mut ordered = group.clone();
                ordered.sort_by_key(|row| std::cmp::Reverse(rank(&row[1])));
                let mut distinct = group.clone();
                distinct.sort_by_key(|row| rank(&row[2]));
                distinct.dedup_by_key(|row| rank(&row[2]));
                let filtered: Vec<&Row> =
                    group.iter().copied().filter(|row| matches!(row[1], Datum::Int4(..4))).collect();
                vec![group[0][0].clone(), shown(&ordered), shown(&distinct), shown(&filtered)]
            })
            .collect();
        prop_assert_eq!(sorted(&found), sorted(&expected));
    }
}

#[test]
fn without_groups_there_is_a_row_of_no_input() {
    let found = rows(node(plan(&[], &[], vec![vec![]], vec![sum(5, 2)])), 9, &[5], Limits::default());
    assert_eq!(sorted(&found), ["[Null]"]);
    let found = rows(node(plan(&[], &[0], vec![vec![0]], vec![sum(5, 2)])), 9, &[5], Limits::default());
    assert!(found.is_empty(), "no rows, no groups: {found:?}");
}
