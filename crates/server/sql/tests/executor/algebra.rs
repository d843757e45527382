//! Short ways to write algebra, and to run it.

use std::sync::Arc;

use seawall_sql::algebra::{
    Aggregation, Call, ColumnId, Expression, ExpressionKind, JoinKind, OutputColumn, Query, Relation, Scan,
    SortKey, Subquery, SubqueryKind, Written,
};
use seawall_sql::execute::{Counting, Environment, Execution, Limits, NoStatistics, Plan};
use seawall_sql::optimize::plan;
use seawall_sql::schema::{Column, KeyColumn, RowKey, Table};
use seawall_values::system::{FunctionKind, FunctionRow};
use seawall_values::{Datum, Oid, Settings, SqlResult, TypeReference, oid};

use crate::memory_storage::MemoryStorage;

pub(crate) const INT4: TypeReference = TypeReference::of(oid::INT4);
pub(crate) const BOOL: TypeReference = TypeReference::of(oid::BOOL);

pub(crate) fn function(name: &str, arguments: &[Oid], result: Oid) -> Arc<FunctionRow> {
    Arc::new(FunctionRow {
        oid: 1,
        namespace: 11,
        name: name.to_owned(),
        kind: FunctionKind::Function,
        arguments: arguments.to_vec(),
        defaults: 0,
        default_values: Vec::new(),
        variadic: 0,
        result,
        names: Vec::new(),
        outputs: Vec::new(),
        is_strict: true,
        returns_set: false,
        volatility: b'i',
        source: name.to_owned(),
    })
}

pub(crate) fn expression(kind: ExpressionKind, of: TypeReference) -> Expression {
    Expression { kind, of, position: None }
}

pub(crate) fn column(number: u32) -> Expression {
    expression(ExpressionKind::Column(ColumnId(number)), INT4)
}

pub(crate) fn int(value: i32) -> Expression {
    expression(ExpressionKind::Constant(Datum::Int4(value)), INT4)
}

pub(crate) fn call(name: &str, left: Expression, right: Expression, result: TypeReference) -> Expression {
    let function = function(name, &[left.of.oid, right.of.oid], result.oid);
    let call = Call { function, arguments: vec![left, right], written: Written::Function };
    expression(ExpressionKind::Call(call), result)
}

pub(crate) fn equal(left: Expression, right: Expression) -> Expression {
    call("int4eq", left, right, BOOL)
}

pub(crate) fn less(left: Expression, right: Expression) -> Expression {
    call("int4lt", left, right, BOOL)
}

pub(crate) fn plus(left: Expression, right: Expression) -> Expression {
    call("int4pl", left, right, INT4)
}

pub(crate) fn and(terms: Vec<Expression>) -> Expression {
    expression(ExpressionKind::And(terms), BOOL)
}

pub(crate) fn not(term: Expression) -> Expression {
    expression(ExpressionKind::Not(Box::new(term)), BOOL)
}

pub(crate) fn subquery(
    kind: SubqueryKind,
    relation: Relation,
    columns: &[u32],
    of: TypeReference,
) -> Expression {
    let columns = columns.iter().copied().map(ColumnId).collect();
    expression(ExpressionKind::Subquery(Box::new(Subquery { kind, relation, columns })), of)
}

/// A table of integers; its first `keys` columns are its key.
pub(crate) fn table(number: Oid, columns: usize, keys: usize) -> Arc<Table> {
    let column = |at: usize| Column {
        name: format!("c{at}"),
        of: INT4,
        is_not_null: at < keys,
        default: None,
        identity: None,
        generated: None,
        missing: Datum::Null,
        is_dropped: false,
        sequence: 0,
        domain: 0,
    };
    let key = |column| KeyColumn { column, is_descending: false, is_nulls_first: false };
    Arc::new(Table {
        oid: number,
        name: format!("t{number}"),
        namespace: 2200,
        owner: 10,
        columns: (0..columns).map(column).collect(),
        key: if keys == 0 { RowKey::Number } else { RowKey::Columns((0..keys).map(key).collect()) },
        storage: format!("t{number}"),
        indexes: Vec::new(),
        constraints: Vec::new(),
        is_temporary: false,
        query: None,
        version: 1,
        options: Vec::new(),
    })
}

/// A scan whose columns have numbers from `first` on; the identity is `first + 90`.
pub(crate) fn scan(table: &Arc<Table>, first: u32) -> Relation {
    let columns = (0..table.columns.len())
        .map(|at| (at, ColumnId(first + u32::try_from(at).expect("few columns"))))
        .collect();
    Relation::Scan(Scan { table: table.clone(), columns, row: Some(ColumnId(first + 90)), table_oid: None })
}

pub(crate) fn filter(input: Relation, predicate: Expression) -> Relation {
    Relation::Filter { input: Box::new(input), predicate }
}

pub(crate) fn compute(input: Relation, number: u32, value: Expression) -> Relation {
    Relation::Compute { input: Box::new(input), values: vec![(ColumnId(number), value)] }
}

pub(crate) fn join(kind: JoinKind, left: Relation, right: Relation, condition: Expression) -> Relation {
    Relation::Join { kind, left: Box::new(left), right: Box::new(right), condition }
}

pub(crate) fn key(number: u32, is_descending: bool) -> SortKey {
    SortKey { column: ColumnId(number), of: INT4, is_descending, is_nulls_first: is_descending }
}

pub(crate) fn sort(input: Relation, keys: &[SortKey]) -> Relation {
    Relation::Sort { input: Box::new(input), keys: keys.to_vec() }
}

pub(crate) fn limit(input: Relation, count: i64, offset: i64) -> Relation {
    let number =
        |value| expression(ExpressionKind::Constant(Datum::Int8(value)), TypeReference::of(oid::INT8));
    Relation::Limit {
        input: Box::new(input),
        count: Some(number(count)),
        offset: Some(number(offset)),
        with_ties: None,
    }
}

pub(crate) fn query(relation: Relation, output: &[u32]) -> Query {
    let output = output
        .iter()
        .map(|number| OutputColumn {
            column: ColumnId(*number),
            name: format!("column{number}"),
            of: INT4,
            origin: (0, 0),
        })
        .collect();
    Query { relation, output, parameters: Vec::new() }
}

/// Limits at which a few rows spill.
pub(crate) fn tight() -> Limits {
    Limits { work_memory: 700, ..Limits::default() }
}

pub(crate) fn planned(relation: Relation, output: &[u32]) -> Arc<Plan> {
    plan(&query(relation, output), &mut NoStatistics).expect("a plan")
}

pub(crate) fn run_plan(
    plan: &Arc<Plan>,
    parameters: Vec<Datum>,
    storage: &mut MemoryStorage,
    limits: Limits,
) -> SqlResult<Vec<Vec<Datum>>> {
    let mut execution = Execution::open(plan.clone(), parameters, limits, Counting::Off);
    let mut rows = Vec::new();
    let settings = Settings::default();
    let cancel = seawall_engine::CancelToken::default();
    let mut environment = Environment { storage, settings: &settings, cancel: &cancel };
    while execution.next(&mut environment)? {
        rows.push(execution.values().cloned().collect());
    }
    Ok(rows)
}

/// The rows of a relation.
pub(crate) fn run(
    relation: Relation,
    output: &[u32],
    storage: &mut MemoryStorage,
    limits: Limits,
) -> Vec<Vec<Datum>> {
    run_plan(&planned(relation, output), Vec::new(), storage, limits).expect("rows")
}

/// Rows in an order of their own, to be compared as sets.
pub(crate) fn sorted(mut rows: Vec<Vec<Datum>>) -> Vec<String> {
    let mut shown: Vec<String> = rows.drain(..).map(|row| format!("{row:?}")).collect();
    shown.sort();
    shown
}

pub(crate) fn shown(rows: &[Vec<Datum>]) -> Vec<String> {
    rows.iter().map(|row| format!("{row:?}")).collect()
}

/// An aggregate of an integer column.
pub(crate) fn aggregation(name: &str, argument: u32) -> Aggregation {
    let mut row = (*function(name, &[oid::INT4], oid::INT4)).clone();
    row.kind = FunctionKind::Aggregate;
    Aggregation {
        function: Arc::new(row),
        arguments: vec![column(argument)],
        is_distinct: false,
        order: Vec::new(),
        filter: None,
        of: INT4,
    }
}
