//! Relations as nodes.

use std::sync::Arc;

use seawall_values::{Oid, SqlError, SqlResult, SqlState, oid};

use super::compile::implementation;
use super::planner::{Estimate, KnownTable, Planner};
use super::recheck::kept_for_recheck;
use super::selectivity::SHARE_DEFAULT;
use super::walk::{Columns, free, made, used, used_by_all};
use crate::algebra::walk::{any, expressions, inputs};
use crate::algebra::{
    Call, ColumnId, CommonTable, CommonTableId, Expression as Algebra, JoinKind, Relation, SetOperator,
    SortKey, lock_clause,
};
use crate::execute::is_padded;
use crate::execute::plan::{
    CommonTablePlan, CommonTableUse, ComputePlan, ComputeSetsPlan, DistinctPlan, FilterPlan, FunctionsPlan,
    LimitPlan, LockPlan, LockedRow, PlanKind, PlanNode, RecursivePlan, SetCall, SetOperationPlan, SetSource,
    SortPlan, SystemPlan, Top, ValuesPlan, WithPlan,
};

/// Effort of looking at a row, in pages.
pub(super) const ROW_COST: f64 = 0.01;

/// Effort of evaluating an expression.
pub(super) const EXPRESSION_COST: f64 = 0.0025;

impl Planner<'_> {
    /// The node of a relation. `needed`: the columns of it that are used above.
    pub(super) fn lower(&mut self, relation: &Relation, needed: &Columns) -> SqlResult<PlanNode> {
        self.deeper(|planner| planner.lower_kind(relation, needed))
    }

    fn lower_kind(&mut self, relation: &Relation, needed: &Columns) -> SqlResult<PlanNode> {
        let is_correlated = self.is_correlated(relation);
        match relation {
            Relation::OneRow => Ok(self.leaf(PlanKind::OneRow, 1.0, 0, false)),
            Relation::Scan(scan) => self.lower_scan(scan, &[], needed, None),
            Relation::System { relation, columns } => self.lower_system(*relation, columns, &[], needed),
            Relation::Values { columns, rows } => self.lower_values(columns, rows, is_correlated),
            Relation::Functions { functions, ordinality } => {
                self.lower_functions(functions, *ordinality, is_correlated)
            }
            Relation::Filter { input, predicate } => self.lower_filter(input, predicate, needed),
            Relation::Compute { input, values } => self.lower_compute(input, values, needed, is_correlated),
            Relation::ComputeSets { input, sets } => {
                self.lower_compute_sets(input, sets, needed, is_correlated)
            }
            Relation::Join { .. } => self.lower_join(relation, needed),
            Relation::Aggregate { .. } => self.lower_aggregate(relation, needed, is_correlated),
            Relation::Window { input, functions } => {
                self.lower_window(input, functions, needed, is_correlated)
            }
            Relation::Sort { input, keys } => self.lower_sort(input, keys, None, needed),
            Relation::Limit { .. } => self.lower_limit(relation, needed, is_correlated),
            Relation::Distinct { input, on } => self.lower_distinct(input, on, needed, is_correlated),
            Relation::SetOperation { .. } => self.lower_set_operation(relation, is_correlated),
            Relation::With { tables, body } => self.lower_with(tables, body, needed, is_correlated),
            Relation::CommonTable { table, columns } => self.lower_common_table(*table, columns, needed),
            Relation::Lock { .. } => self.lower_lock(relation, needed, is_correlated),
            Relation::Change(change) => self.lower_change(change, is_correlated),
        }
    }

    /// Whether a relation's rows depend on something that changes while it is open.
    pub(super) fn is_correlated(&self, relation: &Relation) -> bool {
        !free(relation).is_empty() || self.reads_open_table(relation) || self.has_newest(relation)
    }

    /// Whether a relation has a row that is looked at again, which is another one each time.
    pub(super) fn has_newest(&self, relation: &Relation) -> bool {
        self.newest.is_some_and(|row| super::access::scanned_table(relation, row).is_some())
    }

    /// Whether a relation reads the rounds of a recursive table that is being planned, or a table whose rows depend on those or on outer rows.
    pub(super) fn reads_open_table(&self, relation: &Relation) -> bool {
        if let Relation::CommonTable { table, .. } = relation {
            return self.known_tables.get(table).is_some_and(|known| known.is_open || known.is_correlated);
        }
        let mut reads = false;
        inputs(relation, &mut |input| reads = reads || self.reads_open_table(input));
        expressions(relation, &mut |expression| {
            reads = reads
                || any(expression, &mut |expression| match &expression.kind {
                    crate::algebra::ExpressionKind::Subquery(subquery) => {
                        self.reads_open_table(&subquery.relation)
                    }
                    _ => false,
                });
        });
        reads
    }

    pub(super) fn leaf(&mut self, kind: PlanKind, rows: f64, width: usize, is_correlated: bool) -> PlanNode {
        let estimate = Estimate { rows, startup: 0.0, cost: rows * ROW_COST };
        self.node(kind, estimate, width, is_correlated)
    }

    fn lower_values(
        &mut self,
        columns: &[ColumnId],
        rows: &[Vec<Algebra>],
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        if let Some(row) = rows.first() {
            for (column, value) in columns.iter().zip(row) {
                self.types.insert(*column, value.of);
            }
        }
        let count = rows.len() as f64;
        let rows = rows.iter().map(|row| self.expressions(row)).collect::<SqlResult<_>>()?;
        let slots = self.slots(columns.iter().copied());
        let width = 8 * slots.len();
        Ok(self.leaf(PlanKind::Values(Arc::new(ValuesPlan { slots, rows })), count, width, is_correlated))
    }

    /// A call as a set of rows.
    fn set_call(&mut self, call: &Call, result: seawall_values::TypeReference) -> SqlResult<SetCall> {
        let function = &call.function;
        let set = seawall_values::set_returning::set_implementation(&function.source);
        let source = match (set, implementation(function)) {
            (Some(set), _) => SetSource::Set(set),
            (None, Some(value)) if !function.returns_set => SetSource::Value(value),
            _ => SetSource::Session,
        };
        Ok(SetCall {
            source,
            function: function.clone(),
            arguments: self.expressions(&call.arguments)?,
            types: call.arguments.iter().map(|argument| argument.of).collect(),
            result,
        })
    }

    fn lower_functions(
        &mut self,
        functions: &[(Call, Vec<ColumnId>)],
        ordinality: Option<ColumnId>,
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let mut calls = Vec::with_capacity(functions.len());
        let mut rows: f64 = 1.0;
        for (call, columns) in functions {
            let result = result_of(call);
            if let ([column], false) = (&columns[..], result.oid == oid::RECORD) {
                self.types.insert(*column, result);
            }
            for (column, (_, of)) in columns.iter().zip(&call.function.outputs) {
                self.types.insert(*column, seawall_values::TypeReference::of(*of));
            }
            rows = rows.max(if call.function.returns_set { 100.0 } else { 1.0 });
            calls.push((self.set_call(call, result)?, self.slots(columns.iter().copied())));
        }
        let ordinality = ordinality.map(|column| {
            self.types.insert(column, seawall_values::TypeReference::of(oid::INT8));
            self.slot(column)
        });
        let plan = FunctionsPlan { functions: calls, ordinality };
        Ok(self.leaf(PlanKind::Functions(Arc::new(plan)), rows, 8, is_correlated))
    }

    /// A system relation, with the conditions that are looked at for each of its rows.
    pub(super) fn lower_system(
        &mut self,
        relation: Oid,
        columns: &[(usize, ColumnId)],
        conditions: &[&Algebra],
        needed: &Columns,
    ) -> SqlResult<PlanNode> {
        let mut needed = needed.clone();
        needed.extend(used_by_all(conditions.iter().copied()));
        let columns: Vec<_> = columns.iter().filter(|(_, column)| needed.contains(column)).collect();
        let made: Columns = columns.iter().map(|(_, column)| *column).collect();
        let mut equal = Vec::new();
        for (position, column) in columns.iter().copied() {
            for condition in conditions {
                if let Some(value) = super::access::equal_to(condition, *column, &made) {
                    equal.push((*position, self.expression(value)?));
                    break;
                }
                if crate::catalog::finds_by_name(relation, *position)
                    && let Some(name) = super::access::only_match(condition, *column)
                {
                    let name = seawall_values::Datum::text(name);
                    equal.push((*position, crate::execute::expression::Expression::Constant(name)));
                    break;
                }
            }
        }
        let rows = if equal.is_empty() { 500.0 } else { 5.0 };
        let filter = self.conjunction(conditions)?;
        let uses = used_by_all(conditions.iter().copied());
        let is_correlated = uses.iter().any(|column| !made.contains(column));
        let plan = SystemPlan {
            relation,
            columns: columns.iter().map(|(position, _)| *position).collect(),
            slots: self.slots(columns.iter().map(|(_, column)| *column)),
            equal,
            filter,
        };
        Ok(self.leaf(PlanKind::System(Arc::new(plan)), rows, 32, is_correlated))
    }

    /// All conditions as one expression; `None`: there are none.
    pub(super) fn conjunction(
        &mut self,
        conditions: &[&Algebra],
    ) -> SqlResult<Option<crate::execute::expression::Expression>> {
        use crate::execute::expression::Expression;
        let mut compiled = self.expressions(conditions.iter().copied())?;
        compiled.retain(|condition| {
            !matches!(condition, Expression::Constant(seawall_values::Datum::Bool(true)))
        });
        Ok(match compiled.len() {
            0 => None,
            1 => compiled.pop(),
            _ => Some(Expression::And(compiled.into_boxed_slice())),
        })
    }

    fn lower_filter(
        &mut self,
        input: &Relation,
        predicate: &Algebra,
        needed: &Columns,
    ) -> SqlResult<PlanNode> {
        let conditions = conjuncts(predicate);
        if conditions.iter().any(|condition| is_never_true(condition)) {
            return Ok(self.leaf(PlanKind::Nothing, 0.0, 0, false));
        }
        match input {
            Relation::Scan(scan) => return self.lower_scan(scan, &conditions, needed, None),
            Relation::System { relation, columns } => {
                return self.lower_system(*relation, columns, &conditions, needed);
            }
            _ => {}
        }
        let needed = with_used(needed, [predicate]);
        let plan = self.lower(input, &needed)?;
        self.filtered(plan, &conditions, &made(input))
    }

    /// A node with conditions on top of it.
    pub(super) fn filtered(
        &mut self,
        input: PlanNode,
        conditions: &[&Algebra],
        made: &Columns,
    ) -> SqlResult<PlanNode> {
        let Some(predicate) = self.conjunction(conditions)? else { return Ok(input) };
        let estimate = Estimate {
            rows: (input.rows * SHARE_DEFAULT.powi(i32::try_from(conditions.len()).unwrap_or(8))).max(1.0),
            startup: input.startup,
            cost: input.cost + input.rows * EXPRESSION_COST * conditions.len() as f64,
        };
        let uses = used_by_all(conditions.iter().copied());
        let is_correlated = input.is_correlated || uses.iter().any(|column| !made.contains(column));
        let width = input.width;
        let plan = FilterPlan { input, predicate };
        Ok(self.node(PlanKind::Filter(Arc::new(plan)), estimate, width, is_correlated))
    }

    fn lower_compute(
        &mut self,
        input: &Relation,
        values: &[(ColumnId, Algebra)],
        needed: &Columns,
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let values = self.computed(values, needed);
        let needed = with_used(needed, values.iter().map(|(_, value)| value));
        let input = self.lower(input, &needed)?;
        self.compute(input, &values, is_correlated)
    }

    /// Those of the computed values that are needed, or have an effect.
    pub(super) fn computed<'v>(
        &self,
        values: &'v [(ColumnId, Algebra)],
        needed: &Columns,
    ) -> Vec<&'v (ColumnId, Algebra)> {
        let is_kept = |(column, value): &&(ColumnId, Algebra)| {
            needed.contains(column) || super::rewrite::is_volatile(value)
        };
        values.iter().filter(is_kept).collect()
    }

    /// Values computed over a node.
    pub(super) fn compute(
        &mut self,
        input: PlanNode,
        values: &[&(ColumnId, Algebra)],
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let mut compiled = Vec::with_capacity(values.len());
        for (column, value) in values {
            self.types.insert(*column, value.of);
            let value = self.expression(value)?;
            compiled.push((self.slot(*column), value));
        }
        if compiled.is_empty() {
            return Ok(input);
        }
        let estimate = Estimate {
            rows: input.rows,
            startup: input.startup,
            cost: input.cost + input.rows * EXPRESSION_COST * compiled.len() as f64,
        };
        let width = input.width + 8 * compiled.len();
        let plan = ComputePlan { input, values: compiled };
        Ok(self.node(PlanKind::Compute(Arc::new(plan)), estimate, width, is_correlated))
    }

    fn lower_compute_sets(
        &mut self,
        input: &Relation,
        sets: &[(ColumnId, Call)],
        needed: &Columns,
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let needed = with_used(needed, sets.iter().flat_map(|(_, call)| &call.arguments));
        let input = self.lower(input, &needed)?;
        let mut compiled = Vec::with_capacity(sets.len());
        for (column, call) in sets {
            let result = result_of(call);
            self.types.insert(*column, result);
            compiled.push((self.slot(*column), self.set_call(call, result)?));
        }
        let rows = input.rows * 100.0;
        let estimate = Estimate { rows, startup: input.startup, cost: input.cost + rows * ROW_COST };
        let width = input.width + 8 * compiled.len();
        let plan = ComputeSetsPlan { input, sets: compiled };
        Ok(self.node(PlanKind::ComputeSets(Arc::new(plan)), estimate, width, is_correlated))
    }

    pub(super) fn lower_sort(
        &mut self,
        input: &Relation,
        keys: &[SortKey],
        top: Option<&Arc<Top>>,
        needed: &Columns,
    ) -> SqlResult<PlanNode> {
        let is_correlated = self.is_correlated(input);
        let mut needed = needed.clone();
        needed.extend(keys.iter().map(|key| key.column));
        let (plan, is_ordered) = self.lower_ordered(input, keys, top.is_some(), &needed)?;
        if is_ordered {
            return Ok(plan);
        }
        let kept: Columns = made(input).intersection(&needed).copied().collect();
        Ok(self.sorted(plan, keys, &kept, top.cloned(), is_correlated))
    }

    /// A sort over a node.
    pub(super) fn sorted(
        &mut self,
        input: PlanNode,
        keys: &[SortKey],
        kept: &Columns,
        top: Option<Arc<Top>>,
        is_correlated: bool,
    ) -> PlanNode {
        let mut kept = kept.clone();
        kept.extend(keys.iter().map(|key| key.column));
        let keys = self.keys(keys);
        let rows = input.rows.max(1.0);
        let cost = input.cost + rows * rows.log2().max(1.0) * EXPRESSION_COST;
        let estimate = Estimate { rows: input.rows, startup: cost, cost: cost + rows * ROW_COST };
        let width = input.width;
        let slots = self.slots_of(&kept);
        let plan = SortPlan { input, keys, slots, top };
        self.node(PlanKind::Sort(Arc::new(plan)), estimate, width, is_correlated)
    }

    fn lower_limit(
        &mut self,
        relation: &Relation,
        needed: &Columns,
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let Relation::Limit { input, count, offset, with_ties } = relation else {
            return Err(SqlError::internal("no limit"));
        };
        let mut needed = with_used(needed, count.iter().chain(offset));
        needed.extend(with_ties.iter().flatten().map(|key| key.column));
        let top = Arc::new(Top {
            count: count.as_ref().map(|count| self.expression(count)).transpose()?,
            offset: offset.as_ref().map(|offset| self.expression(offset)).transpose()?,
        });
        let input = match &**input {
            Relation::Sort { input, keys } => {
                let shared = with_ties.is_none().then_some(&top);
                self.lower_sort(input, keys, shared, &needed)?
            }
            input => self.lower(input, &needed)?,
        };
        let rows = match &top.count {
            Some(crate::execute::expression::Expression::Constant(seawall_values::Datum::Int8(count))) => {
                (*count as f64).min(input.rows)
            }
            Some(_) => (input.rows * 0.1).max(1.0),
            None => input.rows,
        };
        let share = if input.rows > 0.0 { (rows / input.rows).min(1.0) } else { 1.0 };
        let cost = input.startup + (input.cost - input.startup) * share;
        let estimate = Estimate { rows, startup: input.startup, cost };
        let width = input.width;
        let ties = with_ties.as_ref().map(|keys| self.keys(keys));
        let plan = LimitPlan { input, top, ties };
        Ok(self.node(PlanKind::Limit(Arc::new(plan)), estimate, width, is_correlated))
    }

    fn lower_distinct(
        &mut self,
        input: &Relation,
        on: &[(ColumnId, seawall_values::TypeReference)],
        needed: &Columns,
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let mut needed = needed.clone();
        needed.extend(on.iter().map(|(column, _)| *column));
        let is_sorted = match input {
            Relation::Sort { keys, .. } if keys.len() >= on.len() => {
                keys[..on.len()].iter().all(|key| on.iter().any(|(column, _)| *column == key.column))
            }
            _ => false,
        };
        let kept: Columns = made(input).intersection(&needed).copied().collect();
        let input = self.lower(input, &needed)?;
        Ok(self.distinct(input, on, &kept, is_sorted, is_correlated))
    }

    pub(super) fn distinct(
        &mut self,
        input: PlanNode,
        on: &[(ColumnId, seawall_values::TypeReference)],
        kept: &Columns,
        is_sorted: bool,
        is_correlated: bool,
    ) -> PlanNode {
        let plan = DistinctPlan {
            on: self.slots(on.iter().map(|(column, _)| *column)),
            padded: on.iter().map(|(_, of)| is_padded(of.oid)).collect(),
            slots: self.slots_of(kept),
            is_sorted,
            input,
        };
        let estimate = Estimate {
            rows: (plan.input.rows * 0.5).max(1.0),
            startup: plan.input.startup,
            cost: plan.input.cost + plan.input.rows * ROW_COST,
        };
        let width = plan.input.width;
        self.node(PlanKind::Distinct(Arc::new(plan)), estimate, width, is_correlated)
    }

    fn lower_set_operation(&mut self, relation: &Relation, is_correlated: bool) -> SqlResult<PlanNode> {
        let Relation::SetOperation { operator, is_all, columns, left, right } = relation else {
            return Err(SqlError::internal("no set operation"));
        };
        let left_needed: Columns = columns.iter().map(|(_, _, left, _)| *left).collect();
        let right_needed: Columns = columns.iter().map(|(_, _, _, right)| *right).collect();
        let mut left = self.lower(left, &left_needed)?;
        let right = self.lower(right, &right_needed)?;
        for (column, of, _, _) in columns {
            self.types.insert(*column, *of);
        }
        if !is_all && *operator == SetOperator::Except {
            // The rows on the left are looked up one by one: repeats go before.
            let on: Vec<_> = columns.iter().map(|(_, of, left, _)| (*left, *of)).collect();
            let is_correlated = left.is_correlated;
            left = self.distinct(left, &on, &left_needed, false, is_correlated);
        }
        let rows = match operator {
            SetOperator::Union => left.rows + right.rows,
            SetOperator::Intersect => left.rows.min(right.rows),
            SetOperator::Except => left.rows,
        };
        let estimate = Estimate {
            rows,
            startup: left.startup,
            cost: left.cost + right.cost + (left.rows + right.rows) * ROW_COST,
        };
        let width = left.width.max(right.width);
        let plan = SetOperationPlan {
            operator: *operator,
            is_all: *is_all,
            left,
            right,
            slots: self.slots(columns.iter().map(|(column, _, _, _)| *column)),
            left_slots: self.slots(columns.iter().map(|(_, _, left, _)| *left)),
            right_slots: self.slots(columns.iter().map(|(_, _, _, right)| *right)),
            padded: columns.iter().map(|(_, of, _, _)| is_padded(of.oid)).collect(),
        };
        let node = self.node(PlanKind::SetOperation(Arc::new(plan)), estimate, width, is_correlated);
        if *is_all || *operator != SetOperator::Union {
            return Ok(node);
        }
        let on: Vec<_> = columns.iter().map(|(column, of, _, _)| (*column, *of)).collect();
        let kept = on.iter().map(|(column, _)| *column).collect();
        Ok(self.distinct(node, &on, &kept, false, is_correlated))
    }

    fn lower_with(
        &mut self,
        tables: &[CommonTable],
        body: &Relation,
        needed: &Columns,
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let mut numbers = Vec::with_capacity(tables.len());
        for table in tables {
            numbers.push(self.lower_table(table)?);
        }
        let body = self.lower(body, needed)?;
        let estimate = Estimate { rows: body.rows, startup: body.startup, cost: body.cost };
        let width = body.width;
        let plan = WithPlan { tables: numbers, body };
        Ok(self.node(PlanKind::With(Arc::new(plan)), estimate, width, is_correlated))
    }

    fn lower_table(&mut self, table: &CommonTable) -> SqlResult<usize> {
        let number = self.tables.len();
        self.tables.push(None);
        let needed: Columns = table.columns.iter().map(|(column, _)| *column).collect();
        let mut is_correlated = self.is_correlated(&table.query);
        let query = self.lower(&table.query, &needed)?;
        let mut rows = query.rows;
        let mut recursive = None;
        if let Some((relation, columns, is_distinct)) = &table.recursive {
            rows *= 10.0;
            is_correlated = is_correlated || self.is_correlated(relation);
            self.known_tables.insert(table.id, KnownTable { number, rows, is_open: true, is_correlated });
            let needed: Columns = columns.iter().copied().collect();
            let query = self.lower(relation, &needed)?;
            let slots = self.slots(columns.iter().copied());
            recursive = Some(RecursivePlan { query, slots, is_distinct: *is_distinct });
        }
        for (column, of) in &table.columns {
            self.types.insert(*column, *of);
        }
        self.known_tables.insert(table.id, KnownTable { number, rows, is_open: false, is_correlated });
        self.tables[number] = Some(Arc::new(CommonTablePlan {
            name: table.name.clone(),
            query,
            slots: self.slots(table.columns.iter().map(|(column, _)| *column)),
            padded: table.columns.iter().map(|(_, of)| is_padded(of.oid)).collect(),
            types: table.columns.iter().map(|(_, of)| *of).collect(),
            recursive,
            is_changing: table.is_changing,
            is_correlated,
        }));
        Ok(number)
    }

    fn lower_common_table(
        &mut self,
        table: CommonTableId,
        columns: &[(usize, ColumnId)],
        needed: &Columns,
    ) -> SqlResult<PlanNode> {
        let Some(known) = self.known_tables.get(&table).copied() else {
            return Err(SqlError::internal(format!("common table {} is not known", table.0)));
        };
        let plan = self.tables[known.number].clone();
        let mut used = Vec::new();
        for (position, column) in columns {
            if let Some(of) = plan.as_ref().and_then(|plan| plan.types.get(*position)) {
                self.types.insert(*column, *of);
            }
            if needed.contains(column) {
                used.push((*position, self.slot(*column)));
            }
        }
        let name = plan.map_or_else(String::new, |plan| plan.name.clone());
        let is_recursive = known.is_open;
        let plan = CommonTableUse { table: known.number, name, columns: used, is_recursive };
        Ok(self.leaf(
            PlanKind::CommonTable(Arc::new(plan)),
            known.rows,
            32,
            is_recursive || known.is_correlated,
        ))
    }

    fn lower_lock(
        &mut self,
        relation: &Relation,
        needed: &Columns,
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let Relation::Lock { input, rows } = relation else {
            return Err(SqlError::internal("no lock"));
        };
        let mut needed = needed.clone();
        for (row, _, _) in rows {
            needed.insert(*row);
            needed.extend(kept_for_recheck(input, *row));
        }
        let plan = self.lower(input, &needed)?;
        let mut locked = Vec::with_capacity(rows.len());
        for (row, mode, wait) in rows {
            let Some(table) = super::access::scanned_table(input, *row) else {
                return Err(SqlError::internal("a scan to be locked is missing"));
            };
            if is_nullable(input, *row) {
                let clause = lock_clause(*mode);
                let message = format!("{clause} cannot be applied to the nullable side of an outer join");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            let recheck = self.recheck(input, &needed, *row)?;
            let identity = self.slot(*row);
            locked.push(LockedRow { table, identity, mode: *mode, wait: *wait, recheck });
        }
        let kept: Columns = made(input).intersection(&needed).copied().collect();
        let estimate =
            Estimate { rows: plan.rows, startup: plan.startup, cost: plan.cost + plan.rows * ROW_COST };
        let width = plan.width;
        let plan = LockPlan { input: plan, rows: locked, slots: self.slots_of(&kept) };
        Ok(self.node(PlanKind::Lock(Arc::new(plan)), estimate, width, is_correlated))
    }
}

/// Whether a scan is on a side of an outer join that may have no row.
fn is_nullable(relation: &Relation, row: ColumnId) -> bool {
    let scans = |side: &Relation| super::access::scanned_table(side, row).is_some();
    if let Relation::Join { kind, left, right, .. } = relation {
        let is_without = match kind {
            JoinKind::Left => scans(right),
            JoinKind::Right => scans(left),
            JoinKind::Full => scans(left) || scans(right),
            JoinKind::Inner | JoinKind::Semi | JoinKind::Anti => false,
        };
        if is_without {
            return true;
        }
    }
    let mut found = false;
    inputs(relation, &mut |input| found |= is_nullable(input, row));
    found
}

fn is_never_true(condition: &Algebra) -> bool {
    use seawall_values::Datum;
    matches!(condition.kind, crate::algebra::ExpressionKind::Constant(Datum::Bool(false) | Datum::Null))
}

/// The type of a call's result in `FROM`.
fn result_of(call: &Call) -> seawall_values::TypeReference {
    let declared = call.function.result;
    let of = match declared {
        oid::ANYELEMENT | oid::ANYNONARRAY | oid::ANYCOMPATIBLE => {
            call.arguments.first().map_or(declared, |argument| {
                seawall_values::system::system()
                    .type_by_oid(argument.of.oid)
                    .filter(|row| row.element != 0 && row.length == -1)
                    .map_or(argument.of.oid, |row| row.element)
            })
        }
        oid::ANYARRAY | oid::ANYCOMPATIBLEARRAY => {
            call.arguments.first().map_or(declared, |argument| argument.of.oid)
        }
        other => other,
    };
    seawall_values::TypeReference::of(of)
}

/// The terms of a conjunction.
pub(super) fn conjuncts(predicate: &Algebra) -> Vec<&Algebra> {
    let mut terms = Vec::new();
    let mut pending = vec![predicate];
    while let Some(term) = pending.pop() {
        match &term.kind {
            crate::algebra::ExpressionKind::And(inner) => pending.extend(inner.iter().rev()),
            _ => terms.push(term),
        }
    }
    terms
}

/// Needed columns and those that expressions use.
pub(super) fn with_used<'e>(needed: &Columns, expressions: impl IntoIterator<Item = &'e Algebra>) -> Columns {
    let mut all = needed.clone();
    for expression in expressions {
        all.extend(used(expression));
    }
    all
}
