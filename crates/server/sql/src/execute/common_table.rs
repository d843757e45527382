//! `WITH`: relations that are computed once and read by several nodes, row by row as they are asked for.

use std::sync::Arc;

use seawall_values::{Datum, SqlError, SqlResult};

use super::Counting;
use super::context::Context;
use super::groups::{Entered, Groups};
use super::memory::Share;
use super::node::{self, Node};
use super::plan::{CommonTablePlan, CommonTableUse, MaterializePlan, WithPlan};
use super::spill::{Cursor, RowStore};

/// The common tables of a statement.
pub(crate) struct CommonTables {
    entries: Vec<Option<Box<CommonTable>>>,
    /// For each table the rows of the last round of its recursion.
    rounds: Vec<RowStore>,
}

impl CommonTables {
    pub(crate) fn new(plans: &[Arc<CommonTablePlan>]) -> CommonTables {
        CommonTables {
            entries: plans.iter().map(|plan| Some(Box::new(CommonTable::new(plan)))).collect(),
            rounds: plans.iter().map(|plan| RowStore::new(plan.slots.len())).collect(),
        }
    }
}

impl CommonTables {
    fn is_changing(&self, number: usize) -> bool {
        self.entries.get(number).and_then(Option::as_ref).is_some_and(|table| table.plan.is_changing)
    }
}

/// One common table: its rows so far, and where more come from.
struct CommonTable {
    plan: Arc<CommonTablePlan>,
    rows: RowStore,
    query: Option<Box<dyn Node>>,
    recursive: Option<Box<dyn Node>>,
    stage: Stage,
    /// The rows of the round under way.
    next_round: RowStore,
    /// All rows of a recursion without repeats.
    seen: Groups,
    share: Share,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The query, or the part of a recursive one that is not recursive.
    Query,
    /// A round of the recursive part.
    Round,
    Complete,
}

/// Works with a table while it is taken out of the context: its query needs the context as well.
fn with_table<T>(
    number: usize,
    context: &mut Context<'_>,
    work: impl FnOnce(&mut CommonTable, &mut Context<'_>) -> SqlResult<T>,
) -> SqlResult<T> {
    let Some(mut table) = context.state.tables.entries.get_mut(number).and_then(Option::take) else {
        return Err(SqlError::internal(format!("common table {number} is read inside of itself")));
    };
    let result = work(&mut table, context);
    context.state.tables.entries[number] = Some(table);
    result
}

impl CommonTable {
    fn new(plan: &Arc<CommonTablePlan>) -> CommonTable {
        let width = plan.slots.len();
        CommonTable {
            plan: plan.clone(),
            rows: RowStore::new(width),
            query: None,
            recursive: None,
            stage: Stage::Query,
            next_round: RowStore::new(width),
            seen: Groups::new(plan.padded.clone()),
            share: Share::default(),
        }
    }

    /// Adds a row. `false`: there is no more.
    fn produce(&mut self, number: usize, context: &mut Context<'_>) -> SqlResult<bool> {
        let plan = self.plan.clone();
        loop {
            let (node, slots) = match (self.stage, &plan.recursive) {
                (Stage::Complete, _) | (Stage::Round, None) => return Ok(false),
                (Stage::Query, _) => (open_once(&mut self.query, &plan.query, context), &plan.slots),
                (Stage::Round, Some(recursive)) => {
                    (open_once(&mut self.recursive, &recursive.query, context), &recursive.slots)
                }
            };
            if !node.next(context)? {
                self.end_stage(number, context)?;
                continue;
            }
            let Some(recursive) = &plan.recursive else {
                self.rows.push_slots(slots, context)?;
                return Ok(true);
            };
            if recursive.is_distinct && !self.is_new(slots, context)? {
                continue;
            }
            self.rows.push_slots(slots, context)?;
            self.next_round.push_slots(slots, context)?;
            return Ok(true);
        }
    }

    fn is_new(&mut self, slots: &[usize], context: &mut Context<'_>) -> SqlResult<bool> {
        let values: Vec<Datum> = slots.iter().map(|slot| context.row[*slot].clone()).collect();
        let entered = self.seen.enter(&values)?;
        self.share.set(&mut context.state.memory, self.seen.bytes())?;
        Ok(matches!(entered, Entered::New(_)))
    }

    /// After the query, and after each round: the next round, unless this one gave nothing.
    fn end_stage(&mut self, number: usize, context: &mut Context<'_>) -> SqlResult<()> {
        context.check_cancelled()?;
        if self.plan.recursive.is_none() || self.next_round.is_empty() {
            self.stage = Stage::Complete;
            return Ok(());
        }
        let next = std::mem::replace(&mut self.next_round, RowStore::new(self.plan.slots.len()));
        let mut last = std::mem::replace(&mut context.state.tables.rounds[number], next);
        last.clear(context);
        self.stage = Stage::Round;
        if let Some(node) = &mut self.recursive {
            node.rewind(context)?;
        }
        Ok(())
    }

    /// Forgets all rows: columns from outside have other values.
    fn reset(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.rows.clear(context);
        self.next_round.clear(context);
        self.seen.clear();
        self.share.clear(&mut context.state.memory);
        self.stage = Stage::Query;
        for node in [&mut self.query, &mut self.recursive].into_iter().flatten() {
            node.rewind(context)?;
        }
        Ok(())
    }
}

fn open_once<'n>(
    node: &'n mut Option<Box<dyn Node>>,
    plan: &super::plan::PlanNode,
    context: &Context<'_>,
) -> &'n mut Box<dyn Node> {
    let counting = if context.state.counters.is_empty() { Counting::Off } else { Counting::Rows };
    node.get_or_insert_with(|| node::open(plan, counting))
}

/// A query with common tables.
pub(crate) struct With {
    plan: Arc<WithPlan>,
    body: Box<dyn Node>,
    is_started: bool,
}

impl With {
    pub(crate) fn new(plan: &Arc<WithPlan>, counting: Counting) -> With {
        With { plan: plan.clone(), body: node::open(&plan.body, counting), is_started: false }
    }
}

impl Node for With {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        if !std::mem::replace(&mut self.is_started, true) {
            if self.plan.tables.iter().any(|number| context.state.tables.is_changing(*number)) {
                // All parts of the statement see the tables as they were before any of them changes something.
                self.prepare(context)?;
            }
            for &number in &self.plan.tables {
                with_table(number, context, |table, context| {
                    while table.plan.is_changing && table.produce(number, context)? {}
                    Ok(())
                })?;
            }
        }
        self.body.next(context)
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        for &number in &self.plan.tables {
            with_table(number, context, |table, context| {
                let plan = table.plan.clone();
                open_once(&mut table.query, &plan.query, context).prepare(context)
            })?;
        }
        self.body.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        for &number in &self.plan.tables {
            with_table(number, context, |table, context| {
                if table.plan.is_correlated { table.reset(context) } else { Ok(()) }
            })?;
        }
        self.body.rewind(context)
    }
}

/// A use of a common table.
pub(crate) struct Use {
    plan: Arc<CommonTableUse>,
    cursor: Cursor,
}

impl Use {
    pub(crate) fn new(plan: &Arc<CommonTableUse>) -> Use {
        Use { plan: plan.clone(), cursor: Cursor::default() }
    }

    fn next_of_round(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let number = self.plan.table;
        let round = std::mem::take(&mut context.state.tables.rounds[number]);
        let has_row = round.next_columns(&mut self.cursor, &self.plan.columns, context);
        context.state.tables.rounds[number] = round;
        has_row
    }
}

impl Node for Use {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        context.tick()?;
        if self.plan.is_recursive {
            return self.next_of_round(context);
        }
        let Use { plan, cursor } = self;
        with_table(plan.table, context, |table, context| {
            while !table.rows.next_columns(cursor, &plan.columns, context)? {
                if !table.produce(plan.table, context)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn prepare(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        Ok(())
    }

    fn rewind(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        self.cursor = Cursor::default();
        Ok(())
    }
}

/// Rows that are kept, to be read again by a join.
pub(crate) struct Materialize {
    plan: Arc<MaterializePlan>,
    input: Box<dyn Node>,
    rows: RowStore,
    cursor: Cursor,
    is_complete: bool,
}

impl Materialize {
    pub(crate) fn new(plan: &Arc<MaterializePlan>, counting: Counting) -> Materialize {
        Materialize {
            plan: plan.clone(),
            input: node::open(&plan.input, counting),
            rows: RowStore::new(plan.slots.len()),
            cursor: Cursor::default(),
            is_complete: false,
        }
    }
}

impl Node for Materialize {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        context.tick()?;
        if self.rows.next(&mut self.cursor, &self.plan.slots, context)? {
            return Ok(true);
        }
        if self.is_complete || !self.input.next(context)? {
            self.is_complete = true;
            return Ok(false);
        }
        self.rows.push_slots(&self.plan.slots, context)?;
        self.cursor = self.rows.end();
        Ok(true)
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.cursor = Cursor::default();
        if self.plan.input.is_correlated {
            self.rows.clear(context);
            self.is_complete = false;
            self.input.rewind(context)?;
        }
        Ok(())
    }
}
