//! Joins of all kinds against two loops, in memory and spilled.

use proptest::prelude::*;
use seawall_sql::algebra::{JoinKind, SubqueryKind};
use seawall_values::Datum;

use crate::algebra::{
    BOOL, and, column, compute, equal, filter, int, join, less, not, plus, run, scan, sorted, subquery,
    table, tight,
};
use crate::memory_storage::MemoryStorage;

type Row = Vec<Datum>;

fn value() -> impl Strategy<Value = Datum> {
    prop_oneof![1 => Just(Datum::Null), 9 => (0..12).prop_map(Datum::Int4)]
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(prop::collection::vec(value(), 2), 0..40)
}

fn integer(value: &Datum) -> Option<i32> {
    match value {
        Datum::Int4(value) => Some(*value),
        _ => None,
    }
}

fn nulls() -> Row {
    vec![Datum::Null, Datum::Null]
}

/// The rows that two loops give.
fn model(kind: JoinKind, left: &[Row], right: &[Row], matches: impl Fn(&Row, &Row) -> bool) -> Vec<Row> {
    let mut result = Vec::new();
    for one in left {
        let found: Vec<&Row> = right.iter().filter(|other| matches(one, other)).collect();
        match kind {
            JoinKind::Semi if !found.is_empty() => result.push(one.clone()),
            JoinKind::Anti if found.is_empty() => result.push(one.clone()),
            JoinKind::Semi | JoinKind::Anti => {}
            JoinKind::Left | JoinKind::Full if found.is_empty() => {
                result.push([one.clone(), nulls()].concat())
            }
            _ => result.extend(found.into_iter().map(|other| [one.clone(), other.clone()].concat())),
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        for other in right.iter().filter(|other| !left.iter().any(|one| matches(one, other))) {
            result.push([nulls(), other.clone()].concat());
        }
    }
    result
}

fn equals(left: &Datum, right: &Datum) -> bool {
    integer(left).zip(integer(right)).is_some_and(|(left, right)| left == right)
}

fn is_less(left: &Datum, right: &Datum) -> bool {
    integer(left).zip(integer(right)).is_some_and(|(left, right)| left < right)
}

const KINDS: [JoinKind; 6] =
    [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::Semi, JoinKind::Anti];

fn output(kind: JoinKind) -> &'static [u32] {
    match kind {
        JoinKind::Semi | JoinKind::Anti => &[1, 2],
        _ => &[1, 2, 101, 102],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn joins_by_equal_keys_are_those_of_two_loops(left in rows(), right in rows(), is_tight: bool) {
        for kind in KINDS {
            for has_rest in [false, true] {
                let (one, other) = (table(1, 2, 0), table(2, 2, 0));
                let mut storage = MemoryStorage::default();
                storage.fill(&one, left.clone());
                storage.fill(&other, right.clone());
                let mut condition = vec![equal(column(1), column(101))];
                if has_rest {
                    condition.push(less(column(2), column(102)));
                }
                let relation = join(kind, scan(&one, 1), scan(&other, 101), and(condition));
                let limits = if is_tight { tight() } else { Default::default() };
                let rows = run(relation, output(kind), &mut storage, limits);
                let expected = model(kind, &left, &right, |one, other| {
                    equals(&one[0], &other[0]) && (!has_rest || is_less(&one[1], &other[1]))
                });
                prop_assert_eq!(sorted(rows), sorted(expected), "{:?} {}", kind, has_rest);
            }
        }
    }

    #[test]
    fn joins_by_other_conditions_are_those_of_two_loops(left in rows(), right in rows()) {
        for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Semi, JoinKind::Anti] {
            let (one, other) = (table(1, 2, 0), table(2, 2, 0));
            let mut storage = MemoryStorage::default();
            storage.fill(&one, left.clone());
            storage.fill(&other, right.clone());
            let relation = join(kind, scan(&one, 1), scan(&other, 101), less(column(1), column(102)));
            let rows = run(relation, output(kind), &mut storage, tight());
            let expected = model(kind, &left, &right, |one, other| is_less(&one[0], &other[1]));
            prop_assert_eq!(sorted(rows), sorted(expected), "{:?}", kind);
        }
    }

    #[test]
    fn three_relations_join_in_any_order(a in rows(), b in rows(), c in rows()) {
        let tables = [table(1, 2, 0), table(2, 2, 0), table(3, 2, 0)];
        let mut storage = MemoryStorage::default();
        for (table, rows) in tables.iter().zip([&a, &b, &c]) {
            storage.fill(table, rows.clone());
        }
        let inner = join(
            JoinKind::Inner,
            scan(&tables[0], 1),
            join(JoinKind::Inner, scan(&tables[1], 101), scan(&tables[2], 201), equal(column(102), column(201))),
            equal(column(1), column(101)),
        );
        let rows = run(inner, &[1, 2, 102, 202], &mut storage, Default::default());
        let mut expected = Vec::new();
        for x in &a {
            for y in b.iter().filter(|y| equals(&x[0], &y[0])) {
                for z in c.iter().filter(|z| equals(&y[1], &z[0])) {
                    expected.push(vec![x[0].clone(), x[1].clone(), y[1].clone(), z[1].clone()]);
                }
            }
        }
        prop_assert_eq!(sorted(rows), sorted(expected));
    }

    #[test]
    fn exists_in_and_not_in_have_their_nulls(left in rows(), right in rows(), correlated: bool) {
        let (one, other) = (table(1, 2, 0), table(2, 2, 0));
        let mut storage = MemoryStorage::default();
        storage.fill(&one, left.clone());
        storage.fill(&other, right.clone());
        let inner = || {
            let input = scan(&other, 101);
            if correlated { filter(input, less(column(102), column(2))) } else { input }
        };
        let candidates = |x: &Row| -> Vec<Row> {
            right.iter().filter(|y| !correlated || is_less(&y[1], &x[1])).cloned().collect()
        };
        let in_ = || {
            subquery(SubqueryKind::Any(Box::new(equal(column(1), column(101)))), inner(), &[101], BOOL)
        };
        let rows = run(filter(scan(&one, 1), in_()), &[1, 2], &mut storage, Default::default());
        let expected: Vec<Row> =
            left.iter().filter(|x| candidates(x).iter().any(|y| equals(&x[0], &y[0]))).cloned().collect();
        prop_assert_eq!(sorted(rows), sorted(expected));

        let rows = run(filter(scan(&one, 1), not(in_())), &[1, 2], &mut storage, Default::default());
        let expected: Vec<Row> = left
            .iter()
            .filter(|x| {
                let all = candidates(x);
                all.is_empty()
                    || (!x[0].is_null()
                        && all.iter().all(|y| !y[0].is_null() && !equals(&x[0], &y[0])))
            })
            .cloned()
            .collect();
        prop_assert_eq!(sorted(rows), sorted(expected));

        let exists = || {
            let inner = filter(inner(), equal(column(101), column(1)));
            subquery(SubqueryKind::Exists, inner, &[101], BOOL)
        };
        let rows = run(filter(scan(&one, 1), exists()), &[1, 2], &mut storage, Default::default());
        let expected: Vec<Row> =
            left.iter().filter(|x| candidates(x).iter().any(|y| equals(&x[0], &y[0]))).cloned().collect();
        prop_assert_eq!(sorted(rows), sorted(expected));
        let rows = run(filter(scan(&one, 1), not(exists())), &[1, 2], &mut storage, Default::default());
        let expected: Vec<Row> =
            left.iter().filter(|x| !candidates(x).iter().any(|y| equals(&x[0], &y[0]))).cloned().collect();
        prop_assert_eq!(sorted(rows), sorted(expected));
    }

    #[test]
    fn a_lateral_side_sees_the_left_row(left in rows(), right in rows()) {
        for kind in [JoinKind::Inner, JoinKind::Left] {
            let (one, other) = (table(1, 2, 0), table(2, 2, 0));
            let mut storage = MemoryStorage::default();
            storage.fill(&one, left.clone());
            storage.fill(&other, right.clone());
            let lateral = compute(
                filter(scan(&other, 101), equal(column(101), column(1))),
                150,
                plus(column(102), column(2)),
            );
            let relation = join(kind, scan(&one, 1), lateral, less(int(5), column(150)));
            let rows = run(relation, &[1, 2, 101, 102], &mut storage, Default::default());
            let expected = model(kind, &left, &right, |x, y| {
                equals(&x[0], &y[0])
                    && integer(&x[1]).zip(integer(&y[1])).is_some_and(|(x, y)| x + y > 5)
            });
            prop_assert_eq!(sorted(rows), sorted(expected), "{:?}", kind);
        }
    }
}

#[test]
fn a_join_looks_up_rows_by_their_key() {
    let (one, other) = (table(1, 2, 0), table(2, 2, 1));
    let mut storage = MemoryStorage::default();
    storage.fill(&one, [vec![Datum::Int4(7), Datum::Int4(1)]]);
    storage.fill(&other, (0..1000).map(|n| vec![Datum::Int4(n), Datum::Int4(2 * n)]));
    let left = filter(scan(&one, 1), equal(column(2), int(1)));
    let relation = join(JoinKind::Left, left, scan(&other, 101), equal(column(1), column(101)));
    let rows = run(relation, &[1, 102], &mut storage, Default::default());
    assert_eq!(sorted(rows), sorted(vec![vec![Datum::Int4(7), Datum::Int4(14)]]));
    assert_eq!((storage.gets, storage.scans), (1, 1), "one look-up, and the scan of the left side");
}

fn conditions() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((0..6_u32, prop_oneof![Just(1_u32), Just(2), Just(101), Just(102)]), 0..4)
}

/// A condition on a column: what it is, and whether it is true for a value.
fn condition(kind: u32, number: u32) -> seawall_sql::algebra::Expression {
    use seawall_sql::algebra::ExpressionKind;
    let boxed = Box::new(column(number));
    match kind {
        0 => equal(column(number), int(3)),
        1 => less(column(number), int(6)),
        2 => crate::algebra::expression(ExpressionKind::IsNull(boxed), BOOL),
        3 => crate::algebra::expression(ExpressionKind::IsNotNull(boxed), BOOL),
        4 => not(less(column(number), int(4))),
        _ => less(plus(column(number), int(1)), column(if number < 100 { 102 } else { 2 })),
    }
}

fn holds(kind: u32, number: u32, row: &Row) -> bool {
    let at = |number: u32| {
        &row[usize::try_from(if number > 100 { number - 99 } else { number - 1 }).expect("small")]
    };
    let value = integer(at(number));
    match kind {
        0 => value == Some(3),
        1 => value.is_some_and(|value| value < 6),
        2 => value.is_none(),
        3 => value.is_some(),
        4 => value.is_some_and(|value| value >= 4),
        _ => {
            let other = integer(at(if number < 100 { 102 } else { 2 }));
            value.zip(other).is_some_and(|(value, other)| value + 1 < other)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn conditions_over_and_in_joins_keep_their_meaning(
        left in rows(), right in rows(), above in conditions(), on in conditions(), has_key: bool,
    ) {
        for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full] {
            let (one, other) = (table(1, 2, 0), table(2, 2, 0));
            let mut storage = MemoryStorage::default();
            storage.fill(&one, left.clone());
            storage.fill(&other, right.clone());
            // A full join needs a key.
            let has_key = has_key || kind == JoinKind::Full;
            let mut terms: Vec<_> = on.iter().map(|(kind, number)| condition(*kind, *number)).collect();
            if has_key || terms.is_empty() {
                terms.push(equal(column(1), column(101)));
            }
            let relation = join(kind, scan(&one, 1), scan(&other, 101), and(terms));
            let wanted: Vec<_> = above.iter().map(|(kind, number)| condition(*kind, *number)).collect();
            let relation = if wanted.is_empty() { relation } else { filter(relation, and(wanted)) };
            let found = run(relation, &[1, 2, 101, 102], &mut storage, Default::default());
            let is_keyed = has_key || on.is_empty();
            let mut expected = model(kind, &left, &right, |x, y| {
                let row = [x.clone(), y.clone()].concat();
                on.iter().all(|(kind, number)| holds(*kind, *number, &row)) && (!is_keyed || equals(&x[0], &y[0]))
            });
            expected.retain(|row| above.iter().all(|(kind, number)| holds(*kind, *number, row)));
            prop_assert_eq!(sorted(found), sorted(expected), "{:?} on {:?} above {:?}", kind, on, above);
        }
    }
}
