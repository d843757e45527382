//! Plans written by hand, for tests of nodes.

use std::sync::Arc;

use seawall_values::aggregates::Accumulator;
use seawall_values::functions::Call;
use seawall_values::set_returning::Rows;
use seawall_values::system::FunctionRow;
use seawall_values::{Datum, Oid, Settings, SqlError, SqlResult, TypeReference, oid};

use super::expression::Expression;
use super::plan::{AggregateCall, Plan, PlanKind, PlanNode, ValuesPlan};
use super::storage::{Inserted, Locked, OnConflict, ScanRequest, Storage, TableScan};
use super::{Counting, Environment, Execution, Key, Limits};
use crate::algebra::{OutputColumn, RowLock, WaitPolicy};
use crate::schema::Table;

pub(crate) fn node(kind: PlanKind) -> PlanNode {
    PlanNode { kind, number: 0, rows: 1.0, startup: 0.0, cost: 1.0, width: 8, is_correlated: false }
}

/// Rows as `VALUES` into the slots 0, 1, ..
pub(crate) fn values(rows: &[Vec<Datum>], width: usize) -> PlanNode {
    let rows = rows.iter().map(|row| row.iter().cloned().map(Expression::Constant).collect()).collect();
    node(PlanKind::Values(Arc::new(ValuesPlan { slots: (0..width).collect(), rows })))
}

pub(crate) fn key(at: usize, is_descending: bool) -> Key {
    Key { at, is_descending, is_nulls_first: is_descending, is_padded: false }
}

/// The values of slots for each row of a plan.
pub(crate) fn rows(root: PlanNode, slots: usize, output: &[usize], limits: Limits) -> Vec<Vec<Datum>> {
    let column = |slot: &usize| OutputColumn {
        column: crate::algebra::ColumnId(u32::try_from(*slot).expect("few slots")),
        name: String::new(),
        of: TypeReference::of(oid::INT4),
        origin: (0, 0),
    };
    let plan = Arc::new(Plan {
        root,
        slots,
        subqueries: Vec::new(),
        tables: Vec::new(),
        output: output.iter().map(column).collect(),
        output_slots: output.to_vec(),
        parameters: Vec::new(),
        nodes: 1,
        names: Vec::new(),
    });
    let mut execution = Execution::open(plan, Vec::new(), limits, Counting::Off);
    let settings = Settings::default();
    let cancel = seawall_engine::CancelToken::default();
    let mut environment = Environment { storage: &mut NoStorage, settings: &settings, cancel: &cancel };
    let mut rows = Vec::new();
    while execution.next(&mut environment).expect("a row") {
        rows.push(execution.values().cloned().collect());
    }
    rows
}

/// The sum of integers, which takes rows back; null without any.
#[derive(Default)]
struct Sum {
    sum: i64,
    count: u64,
}

impl Accumulator for Sum {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        if let [Datum::Int4(value)] = arguments {
            self.sum += i64::from(*value);
            self.count += 1;
        }
        Ok(())
    }

    fn remove(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<bool> {
        if let [Datum::Int4(value)] = arguments {
            self.sum -= i64::from(*value);
            self.count -= 1;
        }
        Ok(true)
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        Ok(if self.count == 0 { Datum::Null } else { Datum::Int8(self.sum) })
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}

/// The arguments of all rows as one text.
#[derive(Default)]
struct List(String);

impl Accumulator for List {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        self.0.push_str(&format!("{arguments:?};"));
        Ok(())
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        Ok(Datum::text(&self.0))
    }

    fn memory_bytes(&self) -> usize {
        self.0.capacity()
    }
}

fn aggregate(slot: usize, name: &str, argument: usize) -> AggregateCall {
    AggregateCall {
        slot,
        name: name.to_owned(),
        new: |_, _| Box::<Sum>::default(),
        arguments: vec![Expression::Slot(argument)],
        types: vec![TypeReference::of(oid::INT4)],
        result: TypeReference::of(oid::INT8),
        is_distinct: false,
        order: Vec::new(),
        padded: vec![false],
        is_ordered_set: false,
        filter: None,
    }
}

pub(crate) fn sum(slot: usize, argument: usize) -> AggregateCall {
    aggregate(slot, "sum", argument)
}

pub(crate) fn list(slot: usize, argument: usize) -> AggregateCall {
    AggregateCall { new: |_, _| Box::<List>::default(), ..aggregate(slot, "list", argument) }
}

/// A database without anything in it, whose objects are named by their numbers.
pub(crate) struct NoStorage;

fn nothing<T>() -> SqlResult<T> {
    Err(SqlError::unsupported("storage"))
}

impl Storage for NoStorage {
    fn open_scan(&mut self, _: &ScanRequest<'_>) -> SqlResult<Box<dyn TableScan>> {
        nothing()
    }

    fn get(&mut self, _: &ScanRequest<'_>, _: &mut [Datum]) -> SqlResult<bool> {
        nothing()
    }

    fn fetch_newest(&mut self, _: &Arc<Table>, _: &[u8], _: &[usize], _: &mut [Datum]) -> SqlResult<bool> {
        nothing()
    }

    fn lock(&mut self, _: &Arc<Table>, _: &[u8], _: RowLock, _: WaitPolicy) -> SqlResult<Locked> {
        nothing()
    }

    fn insert(&mut self, _: &Arc<Table>, _: &[Datum], _: OnConflict<'_>) -> SqlResult<Inserted> {
        nothing()
    }

    fn update(&mut self, _: &Arc<Table>, _: &[u8], _: &[Datum], _: &[Datum]) -> SqlResult<Vec<u8>> {
        nothing()
    }

    fn delete(&mut self, _: &Arc<Table>, _: &[u8], _: &[Datum]) -> SqlResult<()> {
        nothing()
    }

    fn scan_system(&mut self, _: Oid, _: &[usize], _: &[(usize, Datum)]) -> SqlResult<Rows> {
        nothing()
    }

    fn call(&mut self, _: &FunctionRow, _: &Call<'_>) -> SqlResult<Datum> {
        nothing()
    }

    fn call_set(&mut self, _: &FunctionRow, _: &Call<'_>) -> SqlResult<Rows> {
        nothing()
    }

    fn reference_input(&mut self, _: Oid, text: &str) -> SqlResult<Oid> {
        let number = text.strip_prefix("name").and_then(|number| number.parse().ok());
        number.ok_or_else(|| SqlError::internal(text))
    }

    fn reference_output(&mut self, _: Oid, number: Oid) -> SqlResult<String> {
        Ok(format!("name{number}"))
    }

    fn next_value(&mut self, _: Oid) -> SqlResult<i64> {
        nothing()
    }
}
