use std::sync::Arc;

use proptest::prelude::*;
use seawall_values::{Datum, TypeReference, oid};

use super::super::Limits;
use super::super::expression::Expression;
use super::super::plan::{
    BoundPlan, FramePlan, PlanKind, SortPlan, WindowFunction, WindowFunctionKind, WindowPlan,
};
use super::super::testing::{key, list, node, rows, sum, values};
use crate::algebra::{FrameExclusion, FrameUnit};

type Row = Vec<Datum>;

const INT4: TypeReference = TypeReference::of(oid::INT4);

/// Partition, order, value, and a number of the row.
fn input() -> impl Strategy<Value = Vec<Row>> {
    let row = (0..3_i32, prop_oneof![1 => Just(None), 6 => (0..7_i32).prop_map(Some)], 0..5_i32);
    prop::collection::vec(row, 0..30).prop_map(|rows| {
        rows.into_iter()
            .enumerate()
            .map(|(number, (partition, order, value))| {
                vec![
                    Datum::Int4(partition),
                    order.map_or(Datum::Null, Datum::Int4),
                    Datum::Int4(value),
                    Datum::Int4(i32::try_from(number).expect("few rows")),
                ]
            })
            .collect()
    })
}

/// A bound: -3 is unbounded preceding, 3 unbounded following, 0 the current row, the others offsets.
fn bound(number: i32) -> BoundPlan {
    let offset = |value| Expression::Constant(Datum::Int4(value));
    match number {
        -3 => BoundPlan::UnboundedPreceding,
        3 => BoundPlan::UnboundedFollowing,
        0 => BoundPlan::CurrentRow,
        number if number < 0 => BoundPlan::Preceding(offset(-number), INT4),
        number => BoundPlan::Following(offset(number), INT4),
    }
}

fn frame(unit: FrameUnit, start: i32, end: i32, exclude: FrameExclusion) -> FramePlan {
    FramePlan { unit, start: bound(start), end: bound(end), exclude }
}

fn plan(input: &[Row], functions: Vec<WindowFunction>) -> PlanKind {
    let keys = vec![key(0, false), key(1, false)];
    let sort = SortPlan { input: values(input, 4), keys: keys.clone(), slots: vec![0, 1, 2, 3], top: None };
    PlanKind::Window(Arc::new(WindowPlan {
        input: node(PlanKind::Sort(Arc::new(sort))),
        partition: vec![keys[0]],
        order: vec![keys[1]],
        order_type: Some(INT4),
        functions,
        input_slots: vec![0, 1, 2, 3],
    }))
}

fn integer(value: &Datum) -> Option<i32> {
    match value {
        Datum::Int4(value) => Some(*value),
        _ => None,
    }
}

/// Rows of a partition that belong to the frame of one of them.
fn model(
    rows: &[&Row],
    at: usize,
    unit: FrameUnit,
    start: i32,
    end: i32,
    exclude: FrameExclusion,
) -> Vec<usize> {
    let key = |row: usize| integer(&rows[row][1]);
    let mut groups = vec![0];
    for row in 1..rows.len() {
        groups.push(groups[row - 1] + i32::from(key(row) != key(row - 1)));
    }
    let is_inside = |row: usize| {
        let position = |row: usize| i32::try_from(row).expect("few rows");
        let distance = match unit {
            FrameUnit::Rows => Some(position(row) - position(at)),
            FrameUnit::Groups => Some(groups[row] - groups[at]),
            FrameUnit::Range => match (key(row), key(at)) {
                (Some(row), Some(at)) => Some(row - at),
                (None, None) => Some(0),
                _ => None,
            },
        };
        let is_after_start = match (start, distance) {
            (-3, _) => true,
            (start, Some(distance)) => match (key(at), unit) {
                (None, FrameUnit::Range) => distance == 0,
                _ => distance >= start,
            },
            // Nulls come last.
            (_, None) => key(row).is_none(),
        };
        let is_before_end = match (end, distance) {
            (3, _) => true,
            (end, Some(distance)) => match (key(at), unit) {
                (None, FrameUnit::Range) => distance == 0,
                _ => distance <= end,
            },
            (_, None) => key(row).is_some(),
        };
        let is_excluded = match exclude {
            FrameExclusion::NoOthers => false,
            FrameExclusion::CurrentRow => row == at,
            FrameExclusion::Group => groups[row] == groups[at],
            FrameExclusion::Ties => row != at && groups[row] == groups[at],
        };
        is_after_start && is_before_end && !is_excluded
    };
    (0..rows.len()).filter(|row| is_inside(*row)).collect()
}

fn partitions(input: &[Row]) -> Vec<Vec<&Row>> {
    let mut sorted: Vec<&Row> = input.iter().collect();
    sorted.sort_by_key(|row| (integer(&row[0]), integer(&row[1]).unwrap_or(i32::MAX)));
    let mut all: Vec<Vec<&Row>> = Vec::new();
    for row in sorted {
        match all.last_mut() {
            Some(last) if integer(&last[0][0]) == integer(&row[0]) => last.push(row),
            _ => all.push(vec![row]),
        }
    }
    all
}

fn units() -> impl Strategy<Value = FrameUnit> {
    prop_oneof![Just(FrameUnit::Rows), Just(FrameUnit::Range), Just(FrameUnit::Groups)]
}

fn exclusions() -> impl Strategy<Value = FrameExclusion> {
    prop_oneof![
        Just(FrameExclusion::NoOthers),
        Just(FrameExclusion::CurrentRow),
        Just(FrameExclusion::Group),
        Just(FrameExclusion::Ties),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn frames_have_the_rows_that_they_say(
        input in input(), unit in units(), exclude in exclusions(),
        start in -3..3_i32, end in -2..4_i32, is_tight: bool,
    ) {
        prop_assume!(start <= end);
        let function = |slot, kind| WindowFunction { slot, kind, frame: frame(unit, start, end, exclude) };
        let value = || Expression::Slot(3);
        let kind = plan(&input, vec![
            function(5, WindowFunctionKind::Aggregate(sum(5, 2))),
            function(6, WindowFunctionKind::Aggregate(list(6, 3))),
            function(7, WindowFunctionKind::First(value())),
            function(8, WindowFunctionKind::Last(value())),
            function(9, WindowFunctionKind::Nth(value(), Expression::Constant(Datum::Int4(2)))),
        ]);
        let limits = if is_tight {
            Limits { work_memory: 600, ..Limits::default() }
        } else {
            Limits::default()
        };
        let found = rows(node(kind), 10, &[3, 5, 6, 7, 8, 9], limits);
        let mut expected = Vec::new();
        for partition in partitions(&input) {
            for at in 0..partition.len() {
                let frame = model(&partition, at, unit, start, end, exclude);
                let total: i64 = frame.iter().filter_map(|row| integer(&partition[*row][2])).map(i64::from).sum();
                let list: String = frame.iter().map(|row| format!("{:?};", [&partition[*row][3]])).collect();
                let pick = |row: Option<&usize>| row.map_or(Datum::Null, |row| partition[*row][3].clone());
                expected.push(vec![
                    partition[at][3].clone(),
                    if frame.is_empty() { Datum::Null } else { Datum::Int8(total) },
                    Datum::text(list),
                    pick(frame.first()),
                    pick(frame.last()),
                    pick(frame.get(1)),
                ]);
            }
        }
        prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    }

    #[test]
    fn ranks_and_neighbours_follow_the_order(input in input(), buckets in 1..5_i32, offset in 0..3_i32) {
        let function = |slot, kind| WindowFunction {
            slot,
            kind,
            frame: frame(FrameUnit::Range, -3, 0, FrameExclusion::NoOthers),
        };
        let int = |value| Expression::Constant(Datum::Int4(value));
        let neighbour = |is_lead| WindowFunctionKind::Offset {
            is_lead,
            value: Expression::Slot(3),
            offset: Some(int(offset)),
            default: Some(int(-1)),
        };
        let kind = plan(&input, vec![
            function(5, WindowFunctionKind::RowNumber),
            function(6, WindowFunctionKind::Rank),
            function(7, WindowFunctionKind::DenseRank),
            function(8, WindowFunctionKind::Bucket(int(buckets))),
            function(9, neighbour(true)),
            function(10, neighbour(false)),
            function(11, WindowFunctionKind::CumulativeDistribution),
            function(12, WindowFunctionKind::PercentRank),
        ]);
        let found = rows(node(kind), 13, &[3, 5, 6, 7, 8, 9, 10, 11, 12], Limits::default());
        let mut expected = Vec::new();
        for partition in partitions(&input) {
            let count = partition.len();
            let key = |row: usize| integer(&partition[row][1]);
            let number = |count: usize| Datum::Int8(i64::try_from(count).expect("few rows"));
            for at in 0..count {
                let before = (0..at).filter(|row| key(*row) != key(at)).count();
                let groups = (1..=at).filter(|row| key(*row) != key(row - 1)).count();
                let not_after = (0..count).filter(|row| *row <= at || key(*row) == key(at)).count();
                let place = |row: Option<usize>| {
                    row.and_then(|row| partition.get(row)).map_or(Datum::Int4(-1), |row| row[3].clone())
                };
                let offset = usize::try_from(offset).expect("not negative");
                let (size, larger) = (count / buckets as usize, count % buckets as usize);
                let bucket = (0..buckets as usize)
                    .scan(0, |end, bucket| {
                        *end += size + usize::from(bucket < larger);
                        Some(*end)
                    })
                    .position(|end| at < end)
                    .expect("each row is in a bucket");
                expected.push(vec![
                    partition[at][3].clone(),
                    number(at + 1),
                    number(before + 1),
                    number(groups + 1),
                    Datum::Int4(i32::try_from(bucket + 1).expect("few buckets")),
                    place(Some(at + offset)),
                    place(at.checked_sub(offset)),
                    Datum::Float8(not_after as f64 / count as f64),
                    Datum::Float8(before as f64 / (count.max(2) - 1) as f64),
                ]);
            }
        }
        prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    }
}
