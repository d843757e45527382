//! Expressions that definitions have as texts, over one row: of indexes, checks of rows that are there, defaults of columns that are added.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use seawall_values::functions::Call;
use seawall_values::set_returning::Rows;
use seawall_values::system::FunctionRow;
use seawall_values::user_types::UserTypes;
use seawall_values::{Datum, Oid, Settings, SqlError, SqlResult, TypeReference};

use crate::algebra::{ColumnId, ExpressionKind, OutputColumn, Query, Relation, RowLock, WaitPolicy};
use crate::bind::{Binder, Clause};
use crate::execute::{
    Counting, Environment, Execution, Inserted, Limits, Locked, NoStatistics, OnConflict, Plan, ScanRequest,
    Storage, TableScan,
};
use crate::optimize;
use crate::parse::Text;
use crate::schema::{Column, Definition, Definitions, Table};
use crate::storage::RowExpressions;

/// Texts that are kept planned, at most.
const KEPT_MAX: usize = 1_024;

/// What a plan is found by: the version of the table, the text, and the type and domain of the column that the value is for.
type Key = (u64, String, Option<(TypeReference, Oid)>);

/// Plans of expressions.
#[derive(Debug, Default)]
pub(super) struct StoredExpressions {
    plans: FxHashMap<Key, Arc<Plan>>,
    settings: Arc<Settings>,
    /// What plans were made with.
    types: Arc<UserTypes>,
    /// In the place of `settings` between statements.
    no_settings: Arc<Settings>,
}

impl StoredExpressions {
    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.plans.clear();
    }

    /// What values look like in the statement under way.
    pub(super) fn set_settings(&mut self, settings: &Arc<Settings>) {
        // Plans have the conditions of domains in them.
        if !Arc::ptr_eq(&self.types, &settings.types) {
            self.plans.clear();
            self.types = Arc::clone(&settings.types);
        }
        self.settings = Arc::clone(settings);
    }

    /// The statement under way has ended: nobody else has its settings, so that the next one can change them without a copy.
    pub(super) fn release_settings(&mut self) {
        self.settings = Arc::clone(&self.no_settings);
    }

    fn plan(&mut self, table: &Table, text: &str, to: Option<&Column>) -> SqlResult<Arc<Plan>> {
        let key = (table.version, text.to_owned(), to.map(|column| (column.of, column.domain)));
        if let Some(plan) = self.plans.get(&key) {
            return Ok(Arc::clone(plan));
        }
        let plan = planned(table, text, to, &self.settings)?;
        if self.plans.len() >= KEPT_MAX {
            self.plans.clear();
        }
        self.plans.insert(key, Arc::clone(&plan));
        Ok(plan)
    }

    fn run(&mut self, plan: Arc<Plan>, row: &[Datum]) -> SqlResult<Datum> {
        let never = seawall_engine::CancelToken::default();
        let settings = Arc::clone(&self.settings);
        let mut environment = Environment { storage: &mut Nothing, settings: &settings, cancel: &never };
        let mut execution = Execution::open(plan, row.to_vec(), Limits::default(), Counting::Off);
        match execution.next(&mut environment)? {
            true => Ok(execution.value(0).clone()),
            false => Err(SqlError::internal("an expression without a value")),
        }
    }
}

impl RowExpressions for StoredExpressions {
    fn evaluate(&mut self, table: &Arc<Table>, expression: &str, row: &[Datum]) -> SqlResult<Datum> {
        let plan = self.plan(table, expression, None)?;
        self.run(plan, row)
    }

    fn assign(
        &mut self,
        table: &Arc<Table>,
        expression: &str,
        to: &Column,
        row: &[Datum],
    ) -> SqlResult<Datum> {
        let plan = self.plan(table, expression, Some(to))?;
        self.run(plan, row)
    }
}

/// The plan of an expression, as the column `to` keeps its value: the columns of the row are its parameters, by their position.
fn planned(table: &Table, text: &str, to: Option<&Column>, settings: &Settings) -> SqlResult<Arc<Plan>> {
    let statement = Text::new(text);
    let mut none = Nothing;
    let mut binder = Binder::new(&mut none, settings, &statement, &[]);
    let columns: Vec<(usize, ColumnId)> =
        (0..table.columns.len()).map(|position| (position, binder.new_column())).collect();
    let value = binder.stored_expression(text, table, &columns, Clause::Check)?;
    let value = match to {
        None => value,
        Some(column) => binder.assigned(column, value)?,
    };
    let (id, of) = (binder.new_column(), value.of);
    let row: Vec<_> = table
        .columns
        .iter()
        .enumerate()
        .map(|(position, column)| crate::algebra::Expression {
            kind: ExpressionKind::Parameter(position),
            of: column.of,
            position: None,
        })
        .collect();
    let input = Relation::Values { columns: columns.iter().map(|(_, id)| *id).collect(), rows: vec![row] };
    let query = Query {
        relation: Relation::Compute { input: Box::new(input), values: vec![(id, value)] },
        output: vec![OutputColumn { column: id, name: String::new(), of, origin: (0, 0) }],
        parameters: table.columns.iter().map(|column| column.of.oid).collect(),
    };
    optimize::plan(&query, &mut NoStatistics)
}

/// A stored expression reads nothing but its row.
#[derive(Debug)]
struct Nothing;

fn not_here<T>() -> SqlResult<T> {
    Err(SqlError::internal("an expression of a definition reads something outside of its row"))
}

impl Definitions for Nothing {
    fn relation(&mut self, _schema: Option<&str>, _name: &str) -> SqlResult<Option<Definition>> {
        Ok(None)
    }

    fn relation_by_oid(&mut self, _oid: Oid) -> SqlResult<Option<Definition>> {
        Ok(None)
    }
}

impl Storage for Nothing {
    fn open_scan(&mut self, _request: &ScanRequest<'_>) -> SqlResult<Box<dyn TableScan>> {
        not_here()
    }

    fn get(&mut self, _request: &ScanRequest<'_>, _values: &mut [Datum]) -> SqlResult<bool> {
        not_here()
    }

    fn fetch_newest(
        &mut self,
        _table: &Arc<Table>,
        _identity: &[u8],
        _columns: &[usize],
        _values: &mut [Datum],
    ) -> SqlResult<bool> {
        not_here()
    }

    fn lock(
        &mut self,
        _table: &Arc<Table>,
        _identity: &[u8],
        _mode: RowLock,
        _wait: WaitPolicy,
    ) -> SqlResult<Locked> {
        not_here()
    }

    fn insert(
        &mut self,
        _table: &Arc<Table>,
        _row: &[Datum],
        _conflict: OnConflict<'_>,
    ) -> SqlResult<Inserted> {
        not_here()
    }

    fn update(
        &mut self,
        _table: &Arc<Table>,
        _identity: &[u8],
        _old: &[Datum],
        _new: &[Datum],
    ) -> SqlResult<Vec<u8>> {
        not_here()
    }

    fn delete(&mut self, _table: &Arc<Table>, _identity: &[u8], _old: &[Datum]) -> SqlResult<()> {
        not_here()
    }

    fn scan_system(
        &mut self,
        _relation: Oid,
        _columns: &[usize],
        _filter: &[(usize, Datum)],
    ) -> SqlResult<Rows> {
        not_here()
    }

    fn call(&mut self, function: &FunctionRow, _call: &Call<'_>) -> SqlResult<Datum> {
        Err(SqlError::unsupported(format!("function {} here", function.name)))
    }

    fn call_set(&mut self, function: &FunctionRow, _call: &Call<'_>) -> SqlResult<Rows> {
        Err(SqlError::unsupported(format!("function {} here", function.name)))
    }

    fn next_value(&mut self, _sequence: Oid) -> SqlResult<i64> {
        not_here()
    }
}
