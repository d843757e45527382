//! Sorts, distinct rows, set operations, limits, common tables and access by keys.

use proptest::prelude::*;
use seawall_sql::algebra::{
    ColumnId, CommonTable, CommonTableId, Relation, SetOperator, SortKey, SubqueryKind,
};
use seawall_sql::execute::Limits;
use seawall_values::{Datum, SqlState};

use crate::algebra::{
    INT4, column, compute, equal, filter, int, key, less, limit, planned, plus, run, run_plan, scan, shown,
    sort, sorted, subquery, table, tight,
};
use crate::memory_storage::MemoryStorage;

type Row = Vec<Datum>;

fn value() -> impl Strategy<Value = Datum> {
    prop_oneof![1 => Just(Datum::Null), 9 => (0..8).prop_map(Datum::Int4)]
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(prop::collection::vec(value(), 2), 0..60)
}

fn rank(value: &Datum, key: &SortKey) -> (i32, i64) {
    match value {
        Datum::Int4(value) => (0, i64::from(if key.is_descending { -value } else { *value })),
        _ => (if key.is_nulls_first { -1 } else { 1 }, 0),
    }
}

fn model_sort(rows: &[Row], keys: &[(usize, SortKey)]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| keys.iter().map(|(at, key)| rank(&row[*at], key)).collect::<Vec<_>>());
    rows
}

fn without_repeats(rows: &[Row]) -> Vec<Row> {
    let mut seen = std::collections::HashSet::new();
    rows.iter().filter(|row| seen.insert(format!("{row:?}"))).cloned().collect()
}

fn set_operation(operator: SetOperator, is_all: bool, left: Relation, right: Relation) -> Relation {
    let of = |at: u32| (ColumnId(300 + at), INT4, ColumnId(at), ColumnId(100 + at));
    Relation::SetOperation {
        operator,
        is_all,
        columns: vec![of(1), of(2)],
        left: Box::new(left),
        right: Box::new(right),
    }
}

fn limits(is_tight: bool) -> Limits {
    if is_tight { tight() } else { Limits::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_sort_is_stable_and_has_its_nulls_in_place(
        rows in rows(), descending: (bool, bool), is_tight: bool, offset in 0..20_i64, count in 0..20_i64,
    ) {
        let one = table(1, 2, 0);
        let mut storage = MemoryStorage::default();
        storage.fill(&one, rows.clone());
        let keys = [key(1, descending.0), key(2, descending.1)];
        let expected = model_sort(&rows, &[(0, keys[0]), (1, keys[1])]);
        let found = run(sort(scan(&one, 1), &keys), &[1, 2], &mut storage, limits(is_tight));
        prop_assert_eq!(shown(&found), shown(&expected));
        let first = run(
            limit(sort(scan(&one, 1), &keys), count, offset), &[1, 2], &mut storage, limits(is_tight),
        );
        let window: Vec<Row> = expected
            .into_iter()
            .skip(usize::try_from(offset).expect("small"))
            .take(usize::try_from(count).expect("small"))
            .collect();
        prop_assert_eq!(shown(&first), shown(&window));
    }

    #[test]
    fn ties_of_the_last_row_come_with_it(rows in rows(), count in 0..10_i64) {
        let one = table(1, 2, 0);
        let mut storage = MemoryStorage::default();
        storage.fill(&one, rows.clone());
        let keys = vec![key(1, false)];
        let relation = match limit(sort(scan(&one, 1), &keys), count, 0) {
            Relation::Limit { input, count, offset, .. } => {
                Relation::Limit { input, count, offset, with_ties: Some(keys.clone()) }
            }
            other => other,
        };
        let found = run(relation, &[1, 2], &mut storage, Limits::default());
        let all = model_sort(&rows, &[(0, keys[0])]);
        let count = usize::try_from(count).expect("small");
        let expected = match count.checked_sub(1).and_then(|last| all.get(last)) {
            None if count == 0 => 0,
            None => all.len(),
            Some(last) => {
                all.iter().filter(|row| rank(&row[0], &keys[0]) <= rank(&last[0], &keys[0])).count()
            }
        };
        prop_assert_eq!(found.len(), expected);
    }

    #[test]
    fn distinct_rows_are_each_there_once(rows in rows(), is_tight: bool) {
        let one = table(1, 2, 0);
        let mut storage = MemoryStorage::default();
        storage.fill(&one, rows.clone());
        let relation = Relation::Distinct {
            input: Box::new(scan(&one, 1)),
            on: vec![(ColumnId(1), INT4), (ColumnId(2), INT4)],
        };
        let found = run(relation, &[1, 2], &mut storage, limits(is_tight));
        prop_assert_eq!(sorted(found), sorted(without_repeats(&rows)));
    }

    #[test]
    fn distinct_on_keeps_the_first_row(rows in rows()) {
        let one = table(1, 2, 0);
        let mut storage = MemoryStorage::default();
        storage.fill(&one, rows.clone());
        let keys = [key(1, false), key(2, true)];
        let relation = Relation::Distinct {
            input: Box::new(sort(scan(&one, 1), &keys)),
            on: vec![(ColumnId(1), INT4)],
        };
        let found = run(relation, &[1, 2], &mut storage, Limits::default());
        let mut seen = std::collections::HashSet::new();
        let expected: Vec<Row> = model_sort(&rows, &[(0, keys[0]), (1, keys[1])])
            .into_iter()
            .filter(|row| seen.insert(format!("{:?}", row[0])))
            .collect();
        prop_assert_eq!(shown(&found), shown(&expected));
    }

    #[test]
    fn set_operations_count_their_rows(left in rows(), right in rows(), is_tight: bool) {
        let (one, other) = (table(1, 2, 0), table(2, 2, 0));
        let mut storage = MemoryStorage::default();
        storage.fill(&one, left.clone());
        storage.fill(&other, right.clone());
        for operator in [SetOperator::Union, SetOperator::Intersect, SetOperator::Except] {
            for is_all in [false, true] {
                let relation = set_operation(operator, is_all, scan(&one, 1), scan(&other, 101));
                let found = run(relation, &[301, 302], &mut storage, limits(is_tight));
                let mut expected = Vec::new();
                let mut rest: Vec<String> = shown(&right);
                for row in &left {
                    let text = format!("{row:?}");
                    let place = rest.iter().position(|other| *other == text);
                    match (operator, place) {
                        (SetOperator::Union, _) | (SetOperator::Except, None) => expected.push(row.clone()),
                        (SetOperator::Intersect, Some(place)) => {
                            expected.push(row.clone());
                            if is_all { rest.remove(place); }
                        }
                        (SetOperator::Except, Some(place)) => if is_all { rest.remove(place); },
                        (SetOperator::Intersect, None) => {}
                    }
                }
                if operator == SetOperator::Union {
                    expected.extend(right.clone());
                }
                if !is_all {
                    expected = without_repeats(&expected);
                }
                prop_assert_eq!(sorted(found), sorted(expected), "{:?} {}", operator, is_all);
            }
        }
    }

    #[test]
    fn a_key_gives_the_rows_of_a_range_in_order(
        values in prop::collection::btree_set((0..6, 0..30), 0..80),
        first in 0..6, low in 0..30, high in 0..30, is_descending: bool,
    ) {
        let one = table(1, 2, 2);
        let mut storage = MemoryStorage::default();
        storage.fill(&one, values.iter().map(|(a, b)| vec![Datum::Int4(*a), Datum::Int4(*b)]));
        let condition = crate::algebra::and(vec![
            equal(column(1), int(first)),
            less(int(low), column(2)),
            less(column(2), int(high)),
        ]);
        let relation = sort(filter(scan(&one, 1), condition), &[key(2, is_descending)]);
        let found = run(relation, &[1, 2], &mut storage, Limits::default());
        let mut expected: Vec<Row> = values
            .iter()
            .filter(|(a, b)| *a == first && low < *b && *b < high)
            .map(|(a, b)| vec![Datum::Int4(*a), Datum::Int4(*b)])
            .collect();
        if is_descending {
            expected.reverse();
        }
        prop_assert_eq!(shown(&found), shown(&expected));
    }
}

#[test]
fn a_full_key_is_one_look_up() {
    let one = table(1, 2, 1);
    let mut storage = MemoryStorage::default();
    storage.fill(&one, (0..100).map(|n| vec![Datum::Int4(n), Datum::Int4(n * n)]));
    let relation = filter(scan(&one, 1), equal(column(1), int(9)));
    let found = run(relation, &[2], &mut storage, Limits::default());
    assert_eq!(shown(&found), ["[Int4(81)]"]);
    assert_eq!((storage.gets, storage.scans), (1, 0));
}

fn counter(limit: i32, is_distinct: bool) -> Relation {
    let start = compute(Relation::OneRow, 1, int(1));
    let use_of = Relation::CommonTable { table: CommonTableId(1), columns: vec![(0, ColumnId(2))] };
    let next = compute(filter(use_of, less(column(2), int(limit))), 3, plus(column(2), int(1)));
    Relation::With {
        tables: vec![CommonTable {
            id: CommonTableId(1),
            name: "counter".to_owned(),
            query: start,
            columns: vec![(ColumnId(1), INT4)],
            recursive: Some((next, vec![ColumnId(3)], is_distinct)),
            is_changing: false,
        }],
        body: Box::new(Relation::CommonTable { table: CommonTableId(1), columns: vec![(0, ColumnId(4))] }),
    }
}

#[test]
fn a_recursive_table_ends_with_an_empty_round() {
    for is_distinct in [false, true] {
        let found = run(counter(1000, is_distinct), &[4], &mut MemoryStorage::default(), tight());
        let expected: Vec<Row> = (1..=1000).map(|n| vec![Datum::Int4(n)]).collect();
        assert_eq!(shown(&found), shown(&expected));
    }
}

#[test]
fn a_recursive_table_that_never_ends_gives_its_first_rows() {
    let found = run(limit(counter(i32::MAX, false), 3, 2), &[4], &mut MemoryStorage::default(), tight());
    assert_eq!(shown(&found), ["[Int4(3)]", "[Int4(4)]", "[Int4(5)]"]);
}

#[test]
fn a_scalar_subquery_with_two_rows_fails() {
    let one = table(1, 1, 0);
    let mut storage = MemoryStorage::default();
    storage.fill(&one, [vec![Datum::Int4(1)], vec![Datum::Int4(2)]]);
    let value = subquery(SubqueryKind::Scalar, scan(&one, 1), &[1], INT4);
    let plan = planned(compute(Relation::OneRow, 50, value), &[50]);
    let error = run_plan(&plan, Vec::new(), &mut storage, Limits::default()).expect_err("two rows");
    assert_eq!(error.code, SqlState::CARDINALITY_VIOLATION);
    assert_eq!(error.message, "more than one row returned by a subquery used as an expression");
}

#[test]
fn a_correlated_scalar_subquery_sees_each_outer_row() {
    let (one, other) = (table(1, 2, 0), table(2, 2, 1));
    let mut storage = MemoryStorage::default();
    storage.fill(&one, (0..5).map(|n| vec![Datum::Int4(n), Datum::Int4(10 * n)]));
    storage.fill(&other, (0..4).map(|n| vec![Datum::Int4(n), Datum::Int4(100 * n)]));
    let inner = filter(scan(&other, 101), equal(column(101), column(1)));
    let value = subquery(SubqueryKind::Scalar, inner, &[102], INT4);
    let relation = compute(scan(&one, 1), 50, value);
    let found = run(relation, &[1, 50], &mut storage, Limits::default());
    let expected: Vec<Row> = (0..5)
        .map(|n| vec![Datum::Int4(n), if n < 4 { Datum::Int4(100 * n) } else { Datum::Null }])
        .collect();
    assert_eq!(shown(&found), shown(&expected));
    assert_eq!(storage.gets, 5, "one look-up by key for each row");
}

#[test]
fn too_much_memory_is_an_error() {
    let one = table(1, 2, 0);
    let mut storage = MemoryStorage::default();
    storage.fill(&one, (0..1000).map(|n| vec![Datum::Int4(n), Datum::Int4(n)]));
    let limits = Limits { work_memory: 1 << 30, statement_memory: 10_000, ..Limits::default() };
    let plan = planned(sort(scan(&one, 1), &[key(2, true)]), &[1]);
    let error = run_plan(&plan, Vec::new(), &mut storage, limits).expect_err("too much");
    assert_eq!(error.code, SqlState::OUT_OF_MEMORY);
}

/// A thread whose stack is as small as those of sessions.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work).expect("a thread");
    thread.join().expect("no overflow");
}

#[test]
fn deep_expressions_work_or_are_refused() {
    on_a_small_stack(|| {
        for depth in [100, 400, 3_000] {
            let sum = (0..depth).fold(column(1), |sum, _| plus(sum, int(1)));
            let one = table(1, 1, 0);
            let mut storage = MemoryStorage::default();
            storage.fill(&one, [vec![Datum::Int4(0)]]);
            let query = crate::algebra::query(compute(scan(&one, 1), 50, sum), &[50]);
            let plan = seawall_sql::optimize::plan(&query, &mut seawall_sql::execute::NoStatistics);
            match plan {
                Ok(plan) => {
                    let found = run_plan(&plan, Vec::new(), &mut storage, Limits::default()).expect("a row");
                    assert_eq!(shown(&found), [format!("[Int4({depth})]")]);
                }
                Err(error) => {
                    assert_eq!(error.code, SqlState::STATEMENT_TOO_COMPLEX);
                    assert!(depth > 400, "{depth} levels are refused");
                }
            }
        }
    });
}

#[test]
fn deep_unions_work_or_are_refused() {
    on_a_small_stack(|| {
        for depth in [50_u32, 240, 2_000] {
            let mut relation = compute(Relation::OneRow, 1, int(0));
            for level in 1..depth {
                let columns =
                    vec![(ColumnId(2 * level + 1), INT4, ColumnId(2 * level - 1), ColumnId(2 * level))];
                let right = compute(Relation::OneRow, 2 * level, int(1));
                relation = Relation::SetOperation {
                    operator: SetOperator::Union,
                    is_all: true,
                    columns,
                    left: Box::new(relation),
                    right: Box::new(right),
                };
            }
            let query = crate::algebra::query(relation, &[2 * depth - 1]);
            let plan = seawall_sql::optimize::plan(&query, &mut seawall_sql::execute::NoStatistics);
            match plan {
                Ok(plan) => {
                    let mut storage = MemoryStorage::default();
                    let found = run_plan(&plan, Vec::new(), &mut storage, Limits::default()).expect("rows");
                    assert_eq!(found.len(), depth as usize);
                }
                Err(error) => {
                    assert_eq!(error.code, SqlState::STATEMENT_TOO_COMPLEX);
                    assert!(depth > 240, "{depth} levels are refused");
                }
            }
        }
    });
}

#[test]
fn a_recursive_table_joins_its_last_round() {
    let edges = table(1, 2, 0);
    let mut storage = MemoryStorage::default();
    storage.fill(
        &edges,
        [[1, 2], [1, 3], [2, 4], [3, 4], [4, 5], [9, 1]].map(|edge| edge.map(Datum::Int4).to_vec()),
    );
    let start = compute(Relation::OneRow, 11, int(1));
    let last = Relation::CommonTable { table: CommonTableId(7), columns: vec![(0, ColumnId(12))] };
    let next = crate::algebra::join(
        seawall_sql::algebra::JoinKind::Inner,
        scan(&edges, 101),
        last,
        equal(column(101), column(12)),
    );
    let relation = Relation::With {
        tables: vec![CommonTable {
            id: CommonTableId(7),
            name: "reached".to_owned(),
            query: start,
            columns: vec![(ColumnId(11), INT4)],
            recursive: Some((next, vec![ColumnId(102)], true)),
            is_changing: false,
        }],
        body: Box::new(Relation::CommonTable { table: CommonTableId(7), columns: vec![(0, ColumnId(13))] }),
    };
    let found = run(relation, &[13], &mut storage, Limits::default());
    let expected: Vec<Row> = (1..=5).map(|n| vec![Datum::Int4(n)]).collect();
    assert_eq!(sorted(found), sorted(expected));
}

#[test]
fn the_largest_key_is_one_row_of_the_key() {
    let one = table(1, 2, 1);
    let mut storage = MemoryStorage::default();
    storage.fill(&one, (0..100).map(|n| vec![Datum::Int4(n), Datum::Int4(-n)]));
    let relation = Relation::Aggregate {
        input: Box::new(filter(scan(&one, 1), less(column(1), int(50)))),
        groups: Vec::new(),
        sets: Vec::new(),
        grouping: Vec::new(),
        aggregates: vec![
            (ColumnId(30), crate::algebra::aggregation("max", 1)),
            (ColumnId(31), crate::algebra::aggregation("min", 1)),
        ],
    };
    let plan = planned(relation, &[30, 31]);
    let lines = seawall_sql::execute::explain(
        &plan,
        None,
        seawall_sql::execute::ExplainOptions { has_costs: false, is_verbose: false },
        &seawall_values::Settings::default(),
    );
    assert!(lines.iter().any(|line| line.contains("Index Scan Backward using t1_pkey")), "{lines:?}");
    let found = run_plan(&plan, Vec::new(), &mut storage, Limits::default()).expect("a row");
    assert_eq!(shown(&found), ["[Int4(49), Int4(0)]"]);
}

proptest! {
    #[test]
    fn a_list_of_keys_reads_each_row_once_and_in_order(
        keys in prop::collection::btree_set(0..40, 0..30),
        list in prop::collection::vec(prop_oneof![1 => Just(None), 9 => (0..40).prop_map(Some)], 0..20),
        is_descending: bool,
    ) {
        let one = table(1, 1, 1);
        let mut storage = MemoryStorage::default();
        storage.fill(&one, keys.iter().map(|key| vec![Datum::Int4(*key)]));
        let values = list.iter().map(|value| value.map_or(Datum::Null, Datum::Int4)).collect();
        let array = seawall_values::Array::one_dimensional(seawall_values::oid::INT4, values);
        let test = seawall_sql::algebra::ExpressionKind::ScalarArray {
            left: Box::new(column(1)),
            array: Box::new(crate::algebra::expression(
                seawall_sql::algebra::ExpressionKind::Constant(Datum::Array(std::sync::Arc::new(array))),
                seawall_values::TypeReference::of(seawall_values::oid::INT4_ARRAY),
            )),
            function: crate::algebra::function(
                "int4eq",
                &[seawall_values::oid::INT4, seawall_values::oid::INT4],
                seawall_values::oid::BOOL,
            ),
            is_any: true,
        };
        let condition = crate::algebra::expression(test, crate::algebra::BOOL);
        let relation = sort(filter(scan(&one, 1), condition), &[key(1, is_descending)]);
        let plan = planned(relation, &[1]);
        let found = run_plan(&plan, Vec::new(), &mut storage, Limits::default()).expect("rows");
        let mut expected: Vec<Row> = keys
            .iter()
            .filter(|key| list.contains(&Some(**key)))
            .map(|key| vec![Datum::Int4(*key)])
            .collect();
        if is_descending {
            expected.reverse();
        }
        prop_assert_eq!(shown(&found), shown(&expected));
        let lines = seawall_sql::execute::explain(
            &plan,
            None,
            seawall_sql::execute::ExplainOptions { has_costs: false, is_verbose: false },
            &seawall_values::Settings::default(),
        );
        prop_assert!(lines.iter().any(|line| line.contains("Index Cond: (c0 = ANY")), "{:?}", lines);
        prop_assert!(!lines.iter().any(|line| line.contains("Sort")), "{:?}", lines);
    }
}
