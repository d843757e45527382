//! Inserts, updates and deletes.

use seawall_sql::algebra::{
    Change, ChangeKind, ColumnId, CommonTable, CommonTableId, Conflict, ConflictUpdate, Demand, Relation,
    RowLock, SetOperator, WaitPolicy,
};
use seawall_sql::execute::Limits;
use seawall_values::{Datum, SqlState};
use std::sync::Arc;

use seawall_sql::schema::Table;

use crate::algebra::{
    INT4, column, compute, equal, filter, int, less, planned, plus, run, run_plan, scan, shown, sorted, table,
};
use crate::memory_storage::MemoryStorage;

fn ints(values: &[i32]) -> Vec<Datum> {
    values.iter().copied().map(Datum::Int4).collect()
}

fn change(table: &Arc<Table>, kind: ChangeKind, input: Relation) -> Change {
    Change {
        table: table.clone(),
        kind,
        input,
        returning: vec![(ColumnId(500), column(400)), (ColumnId(501), column(401))],
        new: vec![(0, ColumnId(400)), (1, ColumnId(401))],
        checks: Vec::new(),
    }
}

fn values(rows: &[[i32; 2]]) -> Relation {
    Relation::Values {
        columns: vec![ColumnId(301), ColumnId(302)],
        rows: rows.iter().map(|row| row.iter().copied().map(int).collect()).collect(),
    }
}

fn insert(table: &Arc<Table>, rows: &[[i32; 2]], conflict: Option<Conflict>) -> Change {
    let kind = ChangeKind::Insert { values: vec![(0, ColumnId(301)), (1, ColumnId(302))], conflict };
    change(table, kind, values(rows))
}

fn relation(change: Change) -> Relation {
    Relation::Change(Box::new(change))
}

#[test]
fn an_insert_returns_its_rows() {
    let one = table(1, 2, 1);
    let mut storage = MemoryStorage::default();
    let found =
        run(relation(insert(&one, &[[1, 10], [2, 20]], None)), &[500, 501], &mut storage, Limits::default());
    assert_eq!(shown(&found), shown(&[ints(&[1, 10]), ints(&[2, 20])]));
    assert_eq!(storage.rows(&one).len(), 2);
}

#[test]
fn checks_and_not_null_refuse_a_row() {
    let one = table(1, 2, 1);
    let mut storage = MemoryStorage::default();
    let mut checked = insert(&one, &[[1, 10]], None);
    checked.checks.push((Demand::Constraint("small".to_owned()), less(column(401), int(5))));
    let error = run_plan(&planned(relation(checked), &[500]), Vec::new(), &mut storage, Limits::default())
        .expect_err("the check fails");
    assert_eq!(error.code, SqlState::CHECK_VIOLATION);
    assert_eq!(error.message, "new row for relation \"t1\" violates check constraint \"small\"");
    assert_eq!(error.detail.as_deref(), Some("Failing row contains (1, 10)."));

    let kind = ChangeKind::Insert { values: vec![(1, ColumnId(302))], conflict: None };
    let missing = change(&one, kind, values(&[[1, 10]]));
    let error = run_plan(&planned(relation(missing), &[500]), Vec::new(), &mut storage, Limits::default())
        .expect_err("a key is null");
    assert_eq!(error.code, SqlState::NOT_NULL_VIOLATION);
    assert_eq!(error.message, "null value in column \"c0\" of relation \"t1\" violates not-null constraint");
    assert_eq!(error.detail.as_deref(), Some("Failing row contains (null, 10)."));
}

#[test]
fn a_conflict_is_left_out_or_updates() {
    let one = table(1, 2, 1);
    let mut storage = MemoryStorage::default();
    storage.fill(&one, [ints(&[1, 10])]);
    let nothing = Conflict { indexes: Vec::new(), update: None };
    let found = run(
        relation(insert(&one, &[[1, 11], [2, 20]], Some(nothing))),
        &[500, 501],
        &mut storage,
        Limits::default(),
    );
    assert_eq!(shown(&found), shown(&[ints(&[2, 20])]));

    let update = |condition| Conflict {
        indexes: Vec::new(),
        update: Some(ConflictUpdate {
            existing: vec![(0, ColumnId(600)), (1, ColumnId(601))],
            excluded: vec![(0, ColumnId(610)), (1, ColumnId(611))],
            values: vec![(1, plus(column(601), column(611)))],
            condition,
        }),
    };
    let found = run(
        relation(insert(&one, &[[1, 5], [3, 30]], Some(update(None)))),
        &[500, 501],
        &mut storage,
        Limits::default(),
    );
    assert_eq!(shown(&found), shown(&[ints(&[1, 15]), ints(&[3, 30])]));
    let found = run(
        relation(insert(&one, &[[1, 5]], Some(update(Some(less(column(601), int(0))))))),
        &[500, 501],
        &mut storage,
        Limits::default(),
    );
    assert!(found.is_empty(), "the condition is false: {found:?}");
    let twice = planned(relation(insert(&one, &[[9, 1], [9, 2]], Some(update(None)))), &[500]);
    let error = run_plan(&twice, Vec::new(), &mut storage, Limits::default()).expect_err("a second time");
    assert_eq!(error.code, SqlState::CARDINALITY_VIOLATION);
    assert_eq!(error.message, "ON CONFLICT DO UPDATE command cannot affect row a second time");
}

/// `UPDATE t SET c1 = c1 + 1 WHERE c1 < limit`.
fn increment(one: &Arc<Table>, limit: i32) -> Relation {
    let input = filter(scan(one, 1), less(column(2), int(limit)));
    let input = compute(input, 50, plus(column(2), int(1)));
    let kind = ChangeKind::Update { row: ColumnId(91), values: vec![(1, ColumnId(50))] };
    relation(change(one, kind, input))
}

#[test]
fn an_update_never_meets_its_own_rows() {
    let one = table(1, 2, 1);
    let mut storage = MemoryStorage::default();
    storage.fill(&one, (0..50).map(|n| ints(&[n, n])));
    let found = run(increment(&one, 10), &[500, 501], &mut storage, Limits::default());
    let expected: Vec<Vec<Datum>> = (0..10).map(|n| ints(&[n, n + 1])).collect();
    assert_eq!(sorted(found), sorted(expected));
}

#[test]
fn a_row_that_was_changed_meanwhile_is_looked_at_again() {
    let one = table(1, 2, 1);
    let mut storage = MemoryStorage::default();
    storage.fill(&one, [ints(&[1, 5]), ints(&[2, 6])]);
    storage.changed.insert(1, ints(&[1, 7]));
    storage.changed.insert(2, ints(&[2, 70]));
    let found = run(increment(&one, 10), &[500, 501], &mut storage, Limits::default());
    assert_eq!(shown(&found), shown(&[ints(&[1, 8])]));
    assert_eq!(sorted(storage.rows(&one)), sorted(vec![ints(&[1, 8]), ints(&[2, 70])]));
}

#[test]
fn locked_rows_are_looked_at_again() {
    let one = table(1, 2, 1);
    let mut storage = MemoryStorage::default();
    storage.fill(&one, [ints(&[1, 5]), ints(&[2, 6]), ints(&[3, 7])]);
    storage.changed.insert(1, ints(&[1, 9]));
    storage.changed.insert(3, ints(&[3, 70]));
    let relation = Relation::Lock {
        input: Box::new(filter(scan(&one, 1), less(column(2), int(10)))),
        rows: vec![(ColumnId(91), RowLock::Update, WaitPolicy::Wait)],
    };
    let found = run(relation, &[1, 2], &mut storage, Limits::default());
    assert_eq!(shown(&found), shown(&[ints(&[1, 9]), ints(&[2, 6])]));
}

#[test]
fn a_delete_by_key_is_one_look_up() {
    let one = table(1, 2, 1);
    let mut storage = MemoryStorage::default();
    storage.fill(&one, (0..50).map(|n| ints(&[n, n])));
    let kind = ChangeKind::Delete { row: ColumnId(91) };
    let delete = change(&one, kind, filter(scan(&one, 1), equal(column(1), int(7))));
    let found = run(relation(delete), &[500, 501], &mut storage, Limits::default());
    assert_eq!(shown(&found), shown(&[ints(&[7, 7])]));
    assert_eq!((storage.gets, storage.scans, storage.rows(&one).len()), (1, 0, 49));
}

/// `WITH gone AS (DELETE FROM t RETURNING *) SELECT .. FROM t UNION ALL SELECT .. FROM gone`.
#[test]
fn all_parts_of_a_statement_see_the_tables_as_they_were() {
    let one = table(1, 2, 1);
    let mut storage = MemoryStorage::default();
    storage.fill(&one, [ints(&[1, 5]), ints(&[2, 6])]);
    let delete = change(&one, ChangeKind::Delete { row: ColumnId(91) }, scan(&one, 1));
    let gone = Relation::CommonTable {
        table: CommonTableId(1),
        columns: vec![(0, ColumnId(701)), (1, ColumnId(702))],
    };
    let body = Relation::SetOperation {
        operator: SetOperator::Union,
        is_all: true,
        columns: vec![
            (ColumnId(801), INT4, ColumnId(201), ColumnId(701)),
            (ColumnId(802), INT4, ColumnId(202), ColumnId(702)),
        ],
        left: Box::new(scan(&one, 201)),
        right: Box::new(gone),
    };
    let relation = Relation::With {
        tables: vec![CommonTable {
            id: CommonTableId(1),
            name: "gone".to_owned(),
            query: relation(delete),
            columns: vec![(ColumnId(500), INT4), (ColumnId(501), INT4)],
            recursive: None,
            is_changing: true,
        }],
        body: Box::new(body),
    };
    let found = run(relation, &[801, 802], &mut storage, Limits::default());
    let rows = [ints(&[1, 5]), ints(&[2, 6]), ints(&[1, 5]), ints(&[2, 6])];
    assert_eq!(shown(&found), shown(&rows));
    assert!(storage.rows(&one).is_empty(), "all rows are deleted");
}
