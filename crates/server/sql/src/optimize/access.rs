//! How a table is read: as a whole, by its key, or by an index.

use std::sync::Arc;

use seawall_values::{Datum, Oid, SqlResult, oid};

use super::compile::comparison;
use super::lower::{EXPRESSION_COST, ROW_COST};
use super::planner::{Estimate, Planner};
use super::rewrite::is_volatile;
use super::walk::{Columns, as_column, used, used_by_all};
use crate::algebra::{ColumnId, Expression, ExpressionKind, Relation, Scan, SortKey};
use crate::execute::expression::Expression as Compiled;
use crate::execute::expression::Operator;
use crate::execute::plan::{
    ComputePlan, FilterPlan, KeyValue, NewestPlan, PlanKind, PlanNode, RangePlan, ScanPlan,
};
use crate::schema::{Index, IndexedValue, RowKey, Table};

/// Effort of finding the first row of a range.
const SEEK_COST: f64 = 0.02;

/// Effort of a row of an index that is fetched from the table.
const FETCH_COST: f64 = 0.03;

/// A condition on one column that a key can serve.
pub(super) enum Bound<'e> {
    Compare(Operator, &'e Expression),
    /// The elements of an array.
    In(&'e Expression),
    IsNull,
}

/// A key that a table can be read by.
struct Candidate {
    /// `None`: the key that rows are stored under.
    index: Option<Arc<Index>>,
    /// Position in the table, largest first, nulls first.
    columns: Vec<(usize, bool, bool)>,
    is_unique: bool,
    is_covering: bool,
}

/// A way to read a table.
struct Access<'e> {
    candidate: Option<Candidate>,
    equal: Vec<(&'e Expression, bool, Oid)>,
    list: Option<(&'e Expression, Oid)>,
    lower: Vec<(&'e Expression, bool, Oid)>,
    upper: Vec<(&'e Expression, bool, Oid)>,
    /// Which conditions the ranges stand for.
    consumed: Vec<usize>,
    rows: f64,
    cost: f64,
    is_reverse: bool,
    is_ordered: bool,
    is_single: bool,
}

/// Whether values of the second type can be looked up in a key of the first one.
fn is_key_type(key: Oid, value: Oid) -> bool {
    let integers = [oid::INT2, oid::INT4, oid::INT8];
    let texts = [oid::TEXT, oid::VARCHAR, oid::NAME, oid::UNKNOWN];
    key == value
        || (integers.contains(&key) && integers.contains(&value))
        || (texts.contains(&key) && texts.contains(&value))
}

fn is_outside(value: &Expression, made: &Columns) -> bool {
    !used(value).iter().any(|column| made.contains(column)) && !is_volatile(value)
}

/// What a condition says about a column: a comparison with a value from outside.
pub(super) fn bound_on<'e>(
    condition: &'e Expression,
    column: ColumnId,
    of: Oid,
    made: &Columns,
) -> Option<Bound<'e>> {
    match &condition.kind {
        ExpressionKind::Call(call) => {
            let (operator, is_padded) = comparison(call)?;
            let [left, right] = &call.arguments[..] else { return None };
            let (operator, value) = if as_column(left) == Some(column) {
                (operator, right)
            } else if as_column(right) == Some(column) {
                (operator.commuted(), left)
            } else {
                return None;
            };
            let fits = is_key_type(of, value.of.oid) && is_padded == (of == oid::BPCHAR);
            (fits && operator != Operator::NotEqual && is_outside(value, made))
                .then_some(Bound::Compare(operator, value))
        }
        ExpressionKind::ScalarArray { left, array, function, is_any: true } => {
            let (operator, is_padded) = crate::execute::expression::comparison_of(&function.source)?;
            let element = super::compile::array_element(array).oid;
            let fits = operator == Operator::Equal
                && as_column(left) == Some(column)
                && is_key_type(of, element)
                && is_padded == (of == oid::BPCHAR)
                && is_outside(array, made);
            fits.then_some(Bound::In(array))
        }
        ExpressionKind::IsNull(operand) if as_column(operand) == Some(column) => Some(Bound::IsNull),
        _ => None,
    }
}

/// The value from outside that a condition says a column is equal to.
pub(super) fn equal_to<'e>(
    condition: &'e Expression,
    column: ColumnId,
    made: &Columns,
) -> Option<&'e Expression> {
    let ExpressionKind::Call(call) = &condition.kind else { return None };
    let [left, right] = &call.arguments[..] else { return None };
    let side = if as_column(left) == Some(column) { left } else { right };
    match bound_on(condition, column, side.of.oid, made)? {
        Bound::Compare(Operator::Equal, value) => Some(value),
        Bound::Compare(..) | Bound::In(_) | Bound::IsNull => None,
    }
}

/// The text that a condition says a column is, if that is a regular expression for one text: psql looks for names by `^(name)$`.
pub(super) fn only_match(condition: &Expression, column: ColumnId) -> Option<&str> {
    let ExpressionKind::Call(call) = &condition.kind else { return None };
    let [left, right] = &call.arguments[..] else { return None };
    let ExpressionKind::Constant(Datum::Text(pattern)) = &right.kind else { return None };
    let is_match = matches!(call.function.source.as_str(), "nameregexeq" | "textregexeq");
    let name = pattern.strip_prefix("^(")?.strip_suffix(")$")?;
    let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_match && is_plain && as_column(left) == Some(column)).then_some(name)
}

/// The table of the scan that makes this column as the identity of its rows.
pub(super) fn scanned_table(relation: &Relation, row: ColumnId) -> Option<Arc<Table>> {
    if let Relation::Scan(scan) = relation {
        return (scan.row == Some(row)).then(|| scan.table.clone());
    }
    let mut found = None;
    crate::algebra::walk::inputs(relation, &mut |input| {
        if found.is_none() {
            found = scanned_table(input, row);
        }
    });
    found
}

fn column_at(scan: &Scan, position: usize) -> Option<ColumnId> {
    scan.columns.iter().find(|(at, _)| *at == position).map(|(_, column)| *column)
}

fn candidates(scan: &Scan, needed: &[usize]) -> Vec<Candidate> {
    let mut all = Vec::new();
    let mut key_columns = Vec::new();
    if let RowKey::Columns(columns) = &scan.table.key {
        key_columns.extend(columns.iter().map(|key| key.column));
        all.push(Candidate {
            index: None,
            columns: columns.iter().map(|key| (key.column, key.is_descending, key.is_nulls_first)).collect(),
            is_unique: true,
            is_covering: true,
        });
    }
    for index in &scan.table.indexes {
        if index.storage.is_none() || !index.is_valid || index.predicate.is_some() {
            continue;
        }
        let columns: Vec<_> = index
            .keys
            .iter()
            .map_while(|key| match key.what {
                IndexedValue::Column(column) => Some((column, key.is_descending, key.is_nulls_first)),
                IndexedValue::Expression(_) => None,
            })
            .collect();
        let has = |column: &usize| {
            columns.iter().any(|(known, _, _)| known == column)
                || index.included.contains(column)
                || key_columns.contains(column)
        };
        all.push(Candidate {
            is_covering: needed.iter().all(has),
            is_unique: index.is_unique && columns.len() == index.keys.len(),
            index: Some(index.clone()),
            columns,
        });
    }
    all
}

impl Planner<'_> {
    /// The node of a scan with its conditions.
    pub(super) fn lower_scan(
        &mut self,
        scan: &Scan,
        conditions: &[&Expression],
        needed: &Columns,
        order: Option<(&[SortKey], bool)>,
    ) -> SqlResult<PlanNode> {
        self.lower_ordered_scan(scan, conditions, needed, order).map(|(plan, _)| plan)
    }

    /// The node of a scan, and whether its rows come in the wanted order. The order's flag: only the first rows are wanted.
    pub(super) fn lower_ordered_scan(
        &mut self,
        scan: &Scan,
        conditions: &[&Expression],
        needed: &Columns,
        order: Option<(&[SortKey], bool)>,
    ) -> SqlResult<(PlanNode, bool)> {
        let mut all_needed = needed.clone();
        all_needed.extend(used_by_all(conditions.iter().copied()));
        if self.newest.is_some() && scan.row == self.newest {
            return Ok((self.lower_newest(scan, conditions, &all_needed)?, false));
        }
        let made = super::walk::made(&Relation::Scan(scan.clone()));
        let positions: Vec<usize> = scan
            .columns
            .iter()
            .filter(|(_, column)| all_needed.contains(column))
            .map(|(position, _)| *position)
            .collect();
        let access = self.choose(scan, conditions, &made, &positions, order);
        let is_ordered = access.is_ordered;
        let rest: Vec<&Expression> = conditions
            .iter()
            .enumerate()
            .filter(|(number, _)| !access.consumed.contains(number))
            .map(|(_, condition)| *condition)
            .collect();
        let is_correlated =
            used_by_all(conditions.iter().copied()).iter().any(|column| !made.contains(column));
        let plan = self.scan_node(scan, access, &rest, needed, is_correlated)?;
        Ok((plan, is_ordered))
    }

    fn scan_node(
        &mut self,
        scan: &Scan,
        access: Access<'_>,
        rest: &[&Expression],
        needed: &Columns,
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let mut needed = needed.clone();
        needed.extend(used_by_all(rest.iter().copied()));
        let layout = self.layout(scan, &needed);
        let (filter, later) = layout.filter(self.conjunction(rest)?);
        let mut range = RangePlan::default();
        for (value, is_null_test, of) in &access.equal {
            let value = self.expression(value)?;
            range.equal.push(KeyValue { value, of: *of, is_null_test: *is_null_test });
        }
        if let Some((array, of)) = access.list {
            let value = self.expression(array)?;
            range.list = Some(KeyValue { value, of, is_null_test: false });
        }
        for (bounds, compiled) in [(&access.lower, &mut range.lower), (&access.upper, &mut range.upper)] {
            for (value, is_inclusive, of) in bounds {
                let value = self.expression(value)?;
                compiled.push((KeyValue { value, of: *of, is_null_test: false }, *is_inclusive));
            }
        }
        let has_range = !range.equal.is_empty()
            || range.list.is_some()
            || !range.lower.is_empty()
            || !range.upper.is_empty();
        let bound = range.equal.len()
            + usize::from(range.list.is_some() || !range.lower.is_empty() || !range.upper.is_empty());
        let candidate = access.candidate;
        let key = candidate.iter().flat_map(|candidate| &candidate.columns).map(|(column, _, _)| *column);
        let plan = Arc::new(ScanPlan {
            table: scan.table.clone(),
            key: key.take(bound).collect(),
            is_covered: candidate.as_ref().is_some_and(|candidate| candidate.is_covering),
            index: candidate.and_then(|candidate| candidate.index),
            ranges: if has_range { vec![range] } else { Vec::new() },
            is_reverse: access.is_reverse,
            columns: layout.positions,
            with_identity: layout.with_identity,
            base: layout.base,
            table_oid: layout.table_oid,
            filter,
        });
        let estimate = Estimate { rows: access.rows, startup: 0.0, cost: access.cost };
        let width = 16 * plan.columns.len();
        let kind = if access.is_single { PlanKind::Lookup(plan) } else { PlanKind::Scan(plan) };
        let node = self.node(kind, estimate, width, is_correlated);
        Ok(self.copied(node, layout.copies, later))
    }

    /// The newest version of one row.
    fn lower_newest(
        &mut self,
        scan: &Scan,
        conditions: &[&Expression],
        needed: &Columns,
    ) -> SqlResult<PlanNode> {
        let layout = self.layout(scan, needed);
        let Some(row) = scan.row else {
            return Err(seawall_values::SqlError::internal("a row without identity is looked at again"));
        };
        let identity = self.slot(row);
        let (filter, later) = layout.filter(self.conjunction(conditions)?);
        let plan = NewestPlan {
            table: scan.table.clone(),
            columns: layout.positions,
            base: layout.base,
            identity,
            table_oid: layout.table_oid,
            filter,
        };
        let estimate = Estimate { rows: 1.0, startup: 0.0, cost: SEEK_COST };
        let node = self.node(PlanKind::Newest(Arc::new(plan)), estimate, 32, true);
        Ok(self.copied(node, layout.copies, later))
    }

    /// The slots of a scan: its columns one after the other, then the identity.
    fn layout(&mut self, scan: &Scan, needed: &Columns) -> Layout {
        let mut columns = Vec::new();
        let mut positions = Vec::new();
        for (position, column) in &scan.columns {
            self.types.insert(*column, scan.table.columns[*position].of);
            self.origins.insert(*column, (scan.table.clone(), *position));
            if needed.contains(column) {
                columns.push(*column);
                positions.push(*position);
            }
        }
        let with_identity = scan.row.is_some_and(|row| needed.contains(&row));
        columns.extend(scan.row.filter(|_| with_identity));
        let (base, copies) = match self.contiguous(&columns) {
            Ok(base) => (base, Vec::new()),
            Err(base) => {
                let slots = self.slots(columns.iter().copied());
                (base, slots.into_iter().enumerate().map(|(at, slot)| (slot, base + at)).collect())
            }
        };
        for (position, column) in &scan.columns {
            if needed.contains(column) {
                let name = format!("{}.{}", scan.table.name, scan.table.columns[*position].name);
                self.name(*column, &name);
            }
        }
        let table_oid = scan.table_oid.filter(|column| needed.contains(column));
        let table_oid = table_oid.map(|column| self.slot(column));
        Layout { positions, with_identity, base, table_oid, copies }
    }

    /// A scan whose columns were given other slots before: they are copied there, where the filter looks for them.
    fn copied(&mut self, input: PlanNode, copies: Vec<(usize, usize)>, filter: Option<Compiled>) -> PlanNode {
        if copies.is_empty() {
            return input;
        }
        let estimate = Estimate { rows: input.rows, startup: input.startup, cost: input.cost };
        let (width, is_correlated) = (input.width, input.is_correlated);
        let values = copies.into_iter().map(|(to, from)| (to, Compiled::Slot(from))).collect();
        let plan = ComputePlan { input, values };
        let input = self.node(PlanKind::Compute(Arc::new(plan)), estimate, width, is_correlated);
        let Some(predicate) = filter else { return input };
        let plan = FilterPlan { input, predicate };
        self.node(PlanKind::Filter(Arc::new(plan)), estimate, width, is_correlated)
    }

    /// Expected rows and effort of the best way to read a table with these conditions.
    pub(super) fn scan_estimate(&mut self, scan: &Scan, conditions: &[&Expression]) -> (f64, f64) {
        let made = super::walk::made(&Relation::Scan(scan.clone()));
        let positions: Vec<usize> = scan.columns.iter().map(|(position, _)| *position).collect();
        let access = self.choose(scan, conditions, &made, &positions, None);
        (access.rows, access.cost)
    }

    /// Whether a key or an index of the table gives its rows in this order.
    pub(super) fn gives_order(
        &mut self,
        scan: &Scan,
        conditions: &[&Expression],
        made: &Columns,
        keys: &[SortKey],
    ) -> bool {
        let positions: Vec<usize> = scan.columns.iter().map(|(position, _)| *position).collect();
        let order = Some((keys, true));
        let rows = self.table_rows(&scan.table);
        candidates(scan, &positions).into_iter().any(|candidate| {
            self.access(scan, candidate, conditions, made, order, rows, rows)
                .is_some_and(|access| access.is_ordered)
        })
    }

    fn choose<'e>(
        &mut self,
        scan: &Scan,
        conditions: &[&'e Expression],
        made: &Columns,
        needed: &[usize],
        order: Option<(&[SortKey], bool)>,
    ) -> Access<'e> {
        let rows = self.table_rows(&scan.table);
        let selectivity = self.selectivity(scan, conditions, made);
        let wanted_rows = (rows * selectivity).max(1.0);
        let sort_cost = match order {
            Some(_) => wanted_rows * wanted_rows.log2().max(1.0) * EXPRESSION_COST + wanted_rows * ROW_COST,
            None => 0.0,
        };
        let mut best = Access {
            candidate: None,
            equal: Vec::new(),
            list: None,
            lower: Vec::new(),
            upper: Vec::new(),
            consumed: Vec::new(),
            rows: wanted_rows,
            cost: rows * (ROW_COST + EXPRESSION_COST * conditions.len() as f64),
            is_reverse: false,
            is_ordered: false,
            is_single: false,
        };
        let mut best_cost = best.cost + sort_cost;
        for candidate in candidates(scan, needed) {
            let Some(access) = self.access(scan, candidate, conditions, made, order, rows, wanted_rows)
            else {
                continue;
            };
            let cost = match (access.is_ordered, order) {
                // Few rows of it are read.
                (true, Some((_, true))) => access.cost * 0.1,
                (true, _) => access.cost,
                (false, _) => access.cost + sort_cost,
            };
            if cost < best_cost || (access.is_single && !best.is_single) {
                best_cost = cost;
                best = access;
            }
        }
        best
    }

    #[expect(clippy::too_many_arguments, reason = "the facts of one choice, passed on once")]
    fn access<'e>(
        &mut self,
        scan: &Scan,
        candidate: Candidate,
        conditions: &[&'e Expression],
        made: &Columns,
        order: Option<(&[SortKey], bool)>,
        rows: f64,
        wanted_rows: f64,
    ) -> Option<Access<'e>> {
        let mut access = Access {
            candidate: None,
            equal: Vec::new(),
            list: None,
            lower: Vec::new(),
            upper: Vec::new(),
            consumed: Vec::new(),
            rows: wanted_rows,
            cost: 0.0,
            is_reverse: false,
            is_ordered: false,
            is_single: false,
        };
        let mut read_rows = rows;
        let mut has_null_test = false;
        for (position, _, _) in &candidate.columns {
            let Some(column) = column_at(scan, *position) else { break };
            let of = scan.table.columns[*position].of.oid;
            let bounds: Vec<_> = conditions
                .iter()
                .enumerate()
                .filter_map(|(number, condition)| Some((number, bound_on(condition, column, of, made)?)))
                .collect();
            if let Some((number, bound)) = bounds
                .iter()
                .find(|(_, bound)| matches!(bound, Bound::Compare(Operator::Equal, _) | Bound::IsNull))
            {
                access.consumed.push(*number);
                read_rows *= self.bound_share(&scan.table, *position, bound);
                match bound {
                    Bound::Compare(_, value) => access.equal.push((value, false, of)),
                    Bound::In(_) | Bound::IsNull => {
                        has_null_test = true;
                        access.equal.push((conditions[*number], true, of));
                    }
                }
                continue;
            }
            if let Some((number, bound @ Bound::In(array))) =
                bounds.iter().find(|(_, bound)| matches!(bound, Bound::In(_)))
            {
                access.consumed.push(*number);
                access.list = Some((array, of));
                read_rows *= self.bound_share(&scan.table, *position, bound);
                break;
            }
            read_rows *= self.bounds_share(&scan.table, *position, bounds.iter().map(|(_, bound)| bound));
            for (number, bound) in bounds {
                let Bound::Compare(operator, value) = bound else { continue };
                access.consumed.push(number);
                match operator {
                    Operator::Less => access.upper.push((value, false, of)),
                    Operator::LessOrEqual => access.upper.push((value, true, of)),
                    Operator::Greater => access.lower.push((value, false, of)),
                    Operator::GreaterOrEqual => access.lower.push((value, true, of)),
                    Operator::Equal | Operator::NotEqual => {}
                }
            }
            break;
        }
        if let Some((keys, _)) = order {
            let direction = direction(scan, &candidate, &access, keys);
            access.is_ordered = direction.is_some();
            access.is_reverse = direction.unwrap_or(false);
        }
        if access.consumed.is_empty() && !access.is_ordered {
            return None;
        }
        access.is_single = candidate.is_unique
            && access.equal.len() == candidate.columns.len()
            && !has_null_test
            && access.list.is_none();
        let read_rows = if access.is_single { 1.0 } else { read_rows.max(1.0) };
        access.rows = wanted_rows.min(read_rows);
        let per_row =
            if candidate.index.is_none() || candidate.is_covering { ROW_COST } else { ROW_COST + FETCH_COST };
        let rest = conditions.len() - access.consumed.len();
        access.cost = SEEK_COST + read_rows * (per_row + EXPRESSION_COST * rest as f64);
        access.candidate = Some(candidate);
        Some(access)
    }
}

/// Whether a key gives the wanted order: forward (`false`), in reverse, or not.
fn direction(scan: &Scan, candidate: &Candidate, access: &Access<'_>, keys: &[SortKey]) -> Option<bool> {
    let position_of = |column: ColumnId| {
        scan.columns.iter().find(|(_, known)| *known == column).map(|(position, _)| *position)
    };
    let bound: Vec<usize> =
        candidate.columns[..access.equal.len()].iter().map(|(position, _, _)| *position).collect();
    let mut rest = candidate.columns[access.equal.len()..].iter().enumerate();
    let mut direction = None;
    for key in keys {
        let position = position_of(key.column)?;
        if bound.contains(&position) {
            continue;
        }
        let (number, (at, is_descending, is_nulls_first)) = rest.next()?;
        if *at != position || (access.list.is_some() && number == 0 && *is_descending) {
            return None;
        }
        let is_reverse = *is_descending != key.is_descending;
        let is_bounded = number == 0 && (!access.lower.is_empty() || !access.upper.is_empty());
        let has_nulls = !scan.table.columns[position].is_not_null && !is_bounded;
        if has_nulls && (*is_nulls_first != is_reverse) != key.is_nulls_first {
            return None;
        }
        if *direction.get_or_insert(is_reverse) != is_reverse {
            return None;
        }
    }
    Some(direction.unwrap_or(false))
}

/// The slots of a scan.
struct Layout {
    positions: Vec<usize>,
    with_identity: bool,
    base: usize,
    table_oid: Option<usize>,
    /// Slots, and the scan's own ones that are copied to them.
    copies: Vec<(usize, usize)>,
}

impl Layout {
    /// Where a filter is evaluated: in the scan, or, where columns are copied, after that: it looks for them where they are copied to.
    fn filter(&self, filter: Option<Compiled>) -> (Option<Compiled>, Option<Compiled>) {
        if self.copies.is_empty() { (filter, None) } else { (None, filter) }
    }
}
