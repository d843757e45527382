//! A plan as PostgreSQL names its nodes.

use seawall_values::Settings;

use super::super::plan::{
    ChangePlanKind, Plan, PlanKind, PlanNode, RangePlan, ScanPlan, SubqueryPlanKind, WindowFunctionKind,
};
use super::Counter;
use super::expressions::Printer;
use crate::algebra::{JoinKind, SetOperator};

/// A node as it is shown.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) name: String,
    /// Heads and texts: `Filter`, `Sort Key`.
    pub(super) properties: Vec<(&'static str, String)>,
    /// What it is to the node above: `SubPlan 1`, `CTE t`; inputs have none.
    pub(super) relationship: Option<String>,
    pub(super) children: Vec<Shown>,
    pub(super) startup: f64,
    pub(super) cost: f64,
    pub(super) rows: f64,
    pub(super) width: usize,
    pub(super) counter: Option<Counter>,
}

pub(super) struct TreeBuilder<'p> {
    plan: &'p Plan,
    printer: Printer<'p>,
    counters: Option<&'p [Counter]>,
}

impl<'p> TreeBuilder<'p> {
    pub(super) fn new(
        plan: &'p Plan,
        settings: &'p Settings,
        counters: Option<&'p [Counter]>,
    ) -> TreeBuilder<'p> {
        TreeBuilder { plan, printer: Printer { names: plan.names.clone(), settings }, counters }
    }

    /// The whole plan; subqueries are at its root.
    pub(super) fn build(mut self, is_verbose: bool) -> Shown {
        let plan = self.plan;
        let mut root = self.node(&plan.root);
        if is_verbose {
            root.properties.insert(0, ("Output", self.printer.slots(&plan.output_slots)));
        }
        for (number, subquery) in plan.subqueries.iter().enumerate() {
            let mut shown = self.node(&subquery.plan);
            let word = match (&subquery.kind, subquery.is_correlated) {
                (SubqueryPlanKind::HashedAny { .. }, _) | (_, true) => "SubPlan",
                _ => "InitPlan",
            };
            shown.relationship = Some(format!("{word} {}", number + 1));
            root.children.push(shown);
        }
        root
    }

    fn empty(&self, plan: &PlanNode, name: impl Into<String>) -> Shown {
        Shown {
            name: name.into(),
            properties: Vec::new(),
            relationship: None,
            children: Vec::new(),
            startup: plan.startup,
            cost: plan.cost,
            rows: plan.rows,
            width: plan.width,
            counter: self.counters.and_then(|counters| counters.get(plan.number)).copied(),
        }
    }

    fn over(&mut self, plan: &PlanNode, name: impl Into<String>, inputs: &[&PlanNode]) -> Shown {
        let children = inputs.iter().map(|input| self.node(input)).collect();
        Shown { children, ..self.empty(plan, name) }
    }

    fn node(&mut self, plan: &PlanNode) -> Shown {
        match &plan.kind {
            PlanKind::OneRow => self.empty(plan, "Result"),
            PlanKind::Nothing => {
                let mut shown = self.empty(plan, "Result");
                shown.properties.push(("One-Time Filter", "false".to_owned()));
                shown
            }
            PlanKind::Scan(scan) | PlanKind::Lookup(scan) => self.scan(plan, scan),
            PlanKind::Newest(newest) => {
                self.empty(plan, format!("Row Version Scan on {}", newest.table.name))
            }
            PlanKind::System(system) => {
                let mut shown = self.empty(plan, format!("System Scan on {}", system.relation));
                self.filter(&mut shown, system.filter.as_ref());
                shown
            }
            PlanKind::Values(_) => self.empty(plan, "Values Scan on \"*VALUES*\""),
            PlanKind::Functions(functions) => {
                let name = functions.functions.first().map_or("", |(call, _)| &call.function.name);
                self.empty(plan, format!("Function Scan on {name}"))
            }
            PlanKind::Filter(filter) => {
                let mut shown = self.node(&filter.input);
                let text = self.printer.show(&filter.predicate);
                (shown.rows, shown.cost) = (plan.rows, plan.cost);
                if let Some(counters) = self.counters {
                    shown.counter = counters.get(plan.number).copied();
                }
                shown.properties.push(("Filter", text));
                shown
            }
            PlanKind::Compute(compute) => {
                let mut shown = self.node(&compute.input);
                for (slot, value) in &compute.values {
                    self.printer.names[*slot] = self.printer.show(value);
                }
                (shown.cost, shown.width) = (plan.cost, plan.width);
                shown
            }
            PlanKind::ComputeSets(sets) => {
                let shown = self.over(plan, "ProjectSet", &[&sets.input]);
                for (slot, call) in &sets.sets {
                    let arguments = self.printer.all(&call.arguments);
                    self.printer.names[*slot] = format!("{}({arguments})", call.function.name);
                }
                shown
            }
            PlanKind::NestedLoop(join) => {
                let name = join_name("Nested Loop", join.kind, true);
                let mut shown = self.over(plan, name, &[&join.left, &join.right]);
                if let Some(condition) = &join.condition {
                    shown.properties.push(("Join Filter", self.printer.show(condition)));
                }
                shown
            }
            PlanKind::HashJoin(join) => {
                let mut shown = self.over(plan, join_name("Hash", join.kind, false), &[&join.left]);
                let table = self.over(&join.right, "Hash", &[&join.right]);
                shown.children.push(table);
                let pairs: Vec<_> = join
                    .left_keys
                    .iter()
                    .zip(&join.right_keys)
                    .map(|(left, right)| {
                        format!("({} = {})", self.printer.show(left), self.printer.show(right))
                    })
                    .collect();
                let condition =
                    if pairs.len() == 1 { pairs.concat() } else { format!("({})", pairs.join(" AND ")) };
                shown.properties.push(("Hash Cond", condition));
                if let Some(condition) = &join.condition {
                    shown.properties.push(("Join Filter", self.printer.show(condition)));
                }
                shown
            }
            PlanKind::Materialize(materialize) => self.over(plan, "Materialize", &[&materialize.input]),
            PlanKind::Aggregate(aggregate) => {
                let name = match (aggregate.groups.is_empty(), aggregate.sets.len()) {
                    (true, _) => "Aggregate",
                    (false, 1) => "HashAggregate",
                    (false, _) => "MixedAggregate",
                };
                let mut shown = self.over(plan, name, &[&aggregate.input]);
                for set in aggregate.sets.iter().filter(|_| !aggregate.groups.is_empty()) {
                    let slots: Vec<usize> = set.iter().map(|at| aggregate.groups[*at]).collect();
                    shown.properties.push(("Group Key", self.printer.slots(&slots)));
                }
                for call in &aggregate.aggregates {
                    let distinct = if call.is_distinct { "DISTINCT " } else { "" };
                    let arguments = match call.arguments.is_empty() {
                        true => "*".to_owned(),
                        false => self.printer.all(&call.arguments),
                    };
                    self.printer.names[call.slot] = format!("{}({distinct}{arguments})", call.name);
                }
                shown
            }
            PlanKind::Window(window) => {
                let shown = self.over(plan, "WindowAgg", &[&window.input]);
                for function in &window.functions {
                    self.printer.names[function.slot] =
                        format!("{}(?) OVER (?)", window_name(&function.kind));
                }
                shown
            }
            PlanKind::Sort(sort) => {
                let mut shown = self.over(plan, "Sort", &[&sort.input]);
                shown.properties.push(("Sort Key", self.printer.keys(&sort.keys)));
                shown
            }
            PlanKind::Limit(limit) => self.over(plan, "Limit", &[&limit.input]),
            PlanKind::Distinct(distinct) => {
                let name = if distinct.is_sorted { "Unique" } else { "HashAggregate" };
                let mut shown = self.over(plan, name, &[&distinct.input]);
                if !distinct.is_sorted {
                    shown.properties.push(("Group Key", self.printer.slots(&distinct.on)));
                }
                shown
            }
            PlanKind::SetOperation(operation) => {
                let all = if operation.is_all { " All" } else { "" };
                let name = match operation.operator {
                    SetOperator::Union => "Append".to_owned(),
                    SetOperator::Intersect => format!("HashSetOp Intersect{all}"),
                    SetOperator::Except => format!("HashSetOp Except{all}"),
                };
                let shown = self.over(plan, name, &[&operation.left, &operation.right]);
                for (slot, left) in operation.slots.iter().zip(&operation.left_slots) {
                    self.printer.names[*slot] = self.printer.names[*left].clone();
                }
                shown
            }
            PlanKind::With(with) => {
                let mut tables = Vec::new();
                for number in &with.tables {
                    let table = &self.plan.tables[*number];
                    let mut shown = match &table.recursive {
                        None => self.node(&table.query),
                        Some(recursive) => {
                            self.over(&table.query, "Recursive Union", &[&table.query, &recursive.query])
                        }
                    };
                    shown.relationship = Some(format!("CTE {}", table.name));
                    tables.push(shown);
                }
                let mut shown = self.node(&with.body);
                tables.append(&mut shown.children);
                shown.children = tables;
                shown
            }
            PlanKind::CommonTable(table) => {
                let word = if table.is_recursive { "WorkTable" } else { "CTE" };
                let positions = &self.plan.tables[table.table];
                for (position, slot) in &table.columns {
                    let column = self.printer.slot(positions.slots[*position]).to_owned();
                    self.printer.names[*slot] = column;
                }
                self.empty(plan, format!("{word} Scan on {}", table.name))
            }
            PlanKind::Lock(lock) => self.over(plan, "LockRows", &[&lock.input]),
            PlanKind::Change(change) => {
                let word = match &change.kind {
                    ChangePlanKind::Insert { .. } => "Insert",
                    ChangePlanKind::Update { .. } => "Update",
                    ChangePlanKind::Delete { .. } => "Delete",
                    ChangePlanKind::Merge { .. } => "Merge",
                };
                self.over(plan, format!("{word} on {}", change.table.name), &[&change.input])
            }
        }
    }

    fn filter(&self, shown: &mut Shown, filter: Option<&super::super::expression::Expression>) {
        if let Some(filter) = filter {
            shown.properties.push(("Filter", self.printer.show(filter)));
        }
    }

    fn scan(&mut self, plan: &PlanNode, scan: &ScanPlan) -> Shown {
        let table = &scan.table.name;
        let primary = scan.table.indexes.iter().find(|index| index.is_primary);
        let is_by_key = scan.index.is_some() || !scan.ranges.is_empty() || scan.is_reverse;
        let mut shown = if is_by_key {
            let only = if scan.index.is_some() && scan.is_covered { " Only" } else { "" };
            let backward = if scan.is_reverse { " Backward" } else { "" };
            let index = scan.index.as_ref().or(primary);
            let index = index.map_or_else(|| format!("{table}_pkey"), |index| index.name.clone());
            self.empty(plan, format!("Index{only} Scan{backward} using {index} on {table}"))
        } else {
            self.empty(plan, format!("Seq Scan on {table}"))
        };
        for range in &scan.ranges {
            shown.properties.push(("Index Cond", self.range(scan, range)));
        }
        self.filter(&mut shown, scan.filter.as_ref());
        shown
    }

    fn range(&self, scan: &ScanPlan, range: &RangePlan) -> String {
        let column = |at: usize| {
            let position = scan.key.get(at).copied().unwrap_or(0);
            scan.table.columns.get(position).map_or("?", |column| column.name.as_str())
        };
        let mut terms = Vec::new();
        for (at, value) in range.equal.iter().enumerate() {
            terms.push(match value.is_null_test {
                true => format!("({} IS NULL)", column(at)),
                false => format!("({} = {})", column(at), self.printer.show(&value.value)),
            });
        }
        let next = column(range.equal.len());
        if let Some(list) = &range.list {
            terms.push(format!("({next} = ANY ({}))", self.printer.show(&list.value)));
        }
        for (bounds, strict, loose) in [(&range.lower, ">", ">="), (&range.upper, "<", "<=")] {
            for (value, is_inclusive) in bounds {
                let operator = if *is_inclusive { loose } else { strict };
                terms.push(format!("({next} {operator} {})", self.printer.show(&value.value)));
            }
        }
        if terms.len() == 1 { terms.concat() } else { format!("({})", terms.join(" AND ")) }
    }
}

fn join_name(method: &str, kind: JoinKind, is_inner_short: bool) -> String {
    let kind = match kind {
        JoinKind::Inner if is_inner_short => return method.to_owned(),
        JoinKind::Inner => "",
        JoinKind::Left => " Left",
        JoinKind::Right => " Right",
        JoinKind::Full => " Full",
        JoinKind::Semi => " Semi",
        JoinKind::Anti => " Anti",
    };
    format!("{method}{kind} Join")
}

fn window_name(kind: &WindowFunctionKind) -> &str {
    match kind {
        WindowFunctionKind::RowNumber => "row_number",
        WindowFunctionKind::Rank => "rank",
        WindowFunctionKind::DenseRank => "dense_rank",
        WindowFunctionKind::PercentRank => "percent_rank",
        WindowFunctionKind::CumulativeDistribution => "cume_dist",
        WindowFunctionKind::Bucket(_) => "ntile",
        WindowFunctionKind::Offset { is_lead: true, .. } => "lead",
        WindowFunctionKind::Offset { is_lead: false, .. } => "lag",
        WindowFunctionKind::First(_) => "first_value",
        WindowFunctionKind::Last(_) => "last_value",
        WindowFunctionKind::Nth(..) => "nth_value",
        WindowFunctionKind::Aggregate(call) => &call.name,
    }
}
