//! Joins: in which order, and how.
//!
//! Inner joins next to one another are one set of relations with conditions. Up to eight of them are ordered by dynamic programming over
//! subsets; more of them one by one, the cheapest next.

use std::sync::Arc;

use seawall_values::{Oid, SqlError, SqlResult};

use super::access::equal_to;
use super::compile::comparison;
use super::lower::{EXPRESSION_COST, ROW_COST, conjuncts};
use super::planner::{Estimate, Planner};
use super::selectivity::SHARE_DEFAULT;
use super::walk::{Columns, free, made, used, used_by_all};
use crate::algebra::{ColumnId, Expression, ExpressionKind, JoinKind, Relation, Scan};
use crate::catalog::finds_by;
use crate::execute::expression::Operator;
use crate::execute::plan::{HashJoinPlan, MaterializePlan, NestedLoopPlan, PlanKind, PlanNode};

/// Up to so many relations all orders are looked at.
const EXHAUSTIVE_MAX: usize = 8;

/// So many relations at most are ordered together: they are bits of a number.
const CLUSTER_MAX: usize = 60;

/// Rows that an `IN`, `=` or the like on an unknown column has.
const DISTINCT_UNKNOWN: f64 = 200.0;

/// Effort of keeping a row in a hash table, and of looking one up.
const BUILD_COST: f64 = 0.02;
const PROBE_COST: f64 = 0.01;

/// Effort of finding the rows of a system relation that have a number or a name.
const SYSTEM_LOOKUP_COST: f64 = 10.0 * ROW_COST;

/// One relation of a set of inner joins.
struct Leaf<'r> {
    relation: &'r Relation,
    made: Columns,
    /// Relations whose columns it uses (`LATERAL`), as bits.
    depends: u64,
    rows: f64,
    cost: f64,
    plan: Option<PlanNode>,
    /// Whether it reads the rounds of a recursive table, or has a row that is looked at again.
    is_open: bool,
}

/// A condition of a set of inner joins, and the relations that it is about, as bits.
struct Condition<'r> {
    expression: &'r Expression,
    about: u64,
    selectivity: f64,
    is_equality: bool,
}

/// The best way that is known to join some relations.
#[derive(Clone, Copy, Debug)]
struct Step {
    rows: f64,
    cost: f64,
    /// The sides, as bits; zeros: a relation by itself.
    left: u64,
    right: u64,
    method: Method,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Hash,
    /// The right side is read by a key or index for each left row, or uses its columns.
    Lookup,
    Materialized,
}

/// A set of inner joins.
struct Cluster<'r> {
    leaves: Vec<Leaf<'r>>,
    conditions: Vec<Condition<'r>>,
    needed: Columns,
}

/// The scan of a relation that is one, with its conditions.
fn as_scan(relation: &Relation) -> Option<(&Scan, Vec<&Expression>)> {
    match relation {
        Relation::Scan(scan) => Some((scan, Vec::new())),
        Relation::Filter { input, predicate } => match &**input {
            Relation::Scan(scan) => Some((scan, conjuncts(predicate))),
            _ => None,
        },
        _ => None,
    }
}

/// A system relation with its columns, by position, and its conditions.
struct SystemScan<'r> {
    relation: Oid,
    columns: &'r [(usize, ColumnId)],
    conditions: Vec<&'r Expression>,
}

impl<'r> SystemScan<'r> {
    /// `needed`: what others need of it. What is computed beside its columns, and nobody needs, is left out.
    fn of(relation: &'r Relation, needed: &Columns) -> Option<SystemScan<'r>> {
        match relation {
            Relation::System { relation, columns } => {
                Some(SystemScan { relation: *relation, columns, conditions: Vec::new() })
            }
            Relation::Filter { input, predicate } => {
                let own = conjuncts(predicate);
                let needed: Columns = needed.union(&used_by_all(own.iter().copied())).copied().collect();
                let mut scan = SystemScan::of(input, &needed)?;
                scan.conditions.extend(own);
                Some(scan)
            }
            Relation::Compute { input, values }
                if !values.iter().any(|(column, _)| needed.contains(column)) =>
            {
                SystemScan::of(input, needed)
            }
            _ => None,
        }
    }

    /// The scan with more conditions, if these say which rows are to be found: then it does not read all of them.
    fn finding(mut self, conditions: impl Iterator<Item = &'r Expression>) -> Option<SystemScan<'r>> {
        let made: Columns = self.columns.iter().map(|(_, column)| *column).collect();
        let own = self.conditions.len();
        self.conditions.extend(conditions);
        let is_found = |(position, column): &(usize, ColumnId)| {
            finds_by(self.relation, *position)
                && self.conditions[own..]
                    .iter()
                    .any(|condition| equal_to(condition, *column, &made).is_some())
        };
        self.columns.iter().any(is_found).then_some(self)
    }
}

/// Takes a tree of inner joins apart into its leaves, of which there are `CLUSTER_MAX` at most: what is left of the tree is one of them.
fn flatten<'r>(relation: &'r Relation, leaves: &mut Vec<&'r Relation>, conditions: &mut Vec<&'r Expression>) {
    // Each join that is taken apart adds a leaf.
    let mut joins_left = CLUSTER_MAX - 1;
    flatten_within(&mut joins_left, relation, leaves, conditions);
}

fn flatten_within<'r>(
    joins_left: &mut usize,
    relation: &'r Relation,
    leaves: &mut Vec<&'r Relation>,
    conditions: &mut Vec<&'r Expression>,
) {
    match relation {
        Relation::Join { kind: JoinKind::Inner, left, right, condition } if *joins_left > 0 => {
            *joins_left -= 1;
            flatten_within(joins_left, left, leaves, conditions);
            flatten_within(joins_left, right, leaves, conditions);
            conditions.extend(conjuncts(condition));
        }
        _ => leaves.push(relation),
    }
}

/// The sides of an equality between a left and a right relation, and whether spaces at the end do not count.
fn equality<'e>(
    condition: &'e Expression,
    left: &Columns,
    right: &Columns,
) -> Option<(&'e Expression, &'e Expression, bool)> {
    let ExpressionKind::Call(call) = &condition.kind else { return None };
    let (Operator::Equal, is_padded) = comparison(call)? else { return None };
    let [first, second] = &call.arguments[..] else { return None };
    let uses = |side: &Expression, wanted: &Columns, other: &Columns| {
        let used = used(side);
        used.iter().any(|column| wanted.contains(column)) && !used.iter().any(|column| other.contains(column))
    };
    if uses(first, left, right) && uses(second, right, left) {
        Some((first, second, is_padded))
    } else if uses(second, left, right) && uses(first, right, left) {
        Some((second, first, is_padded))
    } else {
        None
    }
}

impl<'s> Planner<'s> {
    pub(super) fn lower_join(&mut self, relation: &Relation, needed: &Columns) -> SqlResult<PlanNode> {
        let Relation::Join { kind, left, right, condition } = relation else {
            return Err(SqlError::internal("no join"));
        };
        let is_correlated = self.is_correlated(relation);
        match kind {
            JoinKind::Inner => self.lower_cluster(relation, needed),
            JoinKind::Left | JoinKind::Semi | JoinKind::Anti | JoinKind::Full => {
                self.lower_pair(*kind, left, right, condition, needed, is_correlated)
            }
            JoinKind::Right => self.lower_pair(JoinKind::Left, right, left, condition, needed, is_correlated),
        }
    }

    /// A join of two relations in the order in which they are written.
    fn lower_pair(
        &mut self,
        kind: JoinKind,
        left: &Relation,
        right: &Relation,
        condition: &Expression,
        needed: &Columns,
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let conditions = conjuncts(condition);
        let mut needed = needed.clone();
        needed.extend(used_by_all(conditions.iter().copied()));
        needed.extend(free(right));
        let left_made = made(left);
        let right_made = made(right);
        let left_plan = self.lower(left, &needed)?;
        let is_lateral = free(right).iter().any(|column| left_made.contains(column));
        let has_keys =
            conditions.iter().any(|condition| equality(condition, &left_made, &right_made).is_some());
        if kind == JoinKind::Full && !has_keys && !is_trivial(&conditions) {
            return Err(SqlError::new(
                seawall_values::SqlState::FEATURE_NOT_SUPPORTED,
                "FULL JOIN is only supported with merge-joinable or hash-joinable join conditions",
            ));
        }
        let mut sides = Sides { kind, left_made, right_made, needed, is_correlated };
        if kind == JoinKind::Full {
            let right_plan = self.lower(right, &sides.needed)?;
            return self.hash_join(left_plan, right_plan, &conditions, &sides);
        }
        if let (false, Some((scan, own))) = (is_lateral, as_scan(right)) {
            let all: Vec<_> = own.iter().chain(&conditions).copied().collect();
            let (_, lookup_cost) = self.scan_estimate(scan, &all);
            let (right_rows, right_cost) = self.scan_estimate(scan, &own);
            let hash_cost = if has_keys {
                right_cost + right_rows * BUILD_COST + left_plan.rows * PROBE_COST
            } else {
                right_cost + left_plan.rows * right_rows * EXPRESSION_COST
            };
            if left_plan.rows * lookup_cost < hash_cost {
                let right_plan = self.lower_scan(scan, &all, &sides.needed, None)?;
                return self.nested_loop(left_plan, right_plan, &[], &sides);
            }
        }
        let right_plan = self.lower(right, &sides.needed)?;
        if is_lateral {
            return self.nested_loop(left_plan, right_plan, &conditions, &sides);
        }
        if let Some(scan) =
            SystemScan::of(right, &sides.needed).and_then(|scan| scan.finding(conditions.iter().copied()))
            && left_plan.rows * SYSTEM_LOOKUP_COST < right_plan.cost
        {
            let right_plan =
                self.lower_system(scan.relation, scan.columns, &scan.conditions, &sides.needed)?;
            return self.nested_loop(left_plan, right_plan, &[], &sides);
        }
        if has_keys {
            return self.hash_join(left_plan, right_plan, &conditions, &sides);
        }
        sides.needed.extend(used_by_all(conditions.iter().copied()));
        let right_plan = self.materialized(right_plan, &sides);
        self.nested_loop(left_plan, right_plan, &conditions, &sides)
    }

    /// A relation that is read again for each row of another one.
    fn materialized(&mut self, input: PlanNode, sides: &Sides) -> PlanNode {
        if matches!(input.kind, PlanKind::Values(_) | PlanKind::OneRow | PlanKind::Nothing) {
            return input;
        }
        let kept: Columns = sides.right_made.intersection(&sides.needed).copied().collect();
        let estimate = Estimate { rows: input.rows, startup: input.startup, cost: input.cost };
        let (width, is_correlated) = (input.width, input.is_correlated);
        let plan = MaterializePlan { slots: self.slots_of(&kept), input };
        self.node(PlanKind::Materialize(Arc::new(plan)), estimate, width, is_correlated)
    }

    fn nested_loop(
        &mut self,
        left: PlanNode,
        right: PlanNode,
        conditions: &[&Expression],
        sides: &Sides,
    ) -> SqlResult<PlanNode> {
        let condition = self.conjunction(conditions)?;
        let right_slots = sides.right_made.intersection(&sides.needed).copied().collect();
        let right_slots = self.slots_of(&right_slots);
        let pairs = left.rows * right.rows;
        let estimate = Estimate {
            rows: sides.rows(left.rows, right.rows, conditions.len()),
            startup: left.startup,
            cost: left.cost
                + left.rows.max(1.0) * right.cost
                + pairs * EXPRESSION_COST * (1.0 + conditions.len() as f64),
        };
        let width = left.width + right.width;
        let plan = NestedLoopPlan { kind: sides.kind, left, right, condition, right_slots };
        Ok(self.node(PlanKind::NestedLoop(Arc::new(plan)), estimate, width, sides.is_correlated))
    }

    fn hash_join(
        &mut self,
        left: PlanNode,
        right: PlanNode,
        conditions: &[&Expression],
        sides: &Sides,
    ) -> SqlResult<PlanNode> {
        let (mut left_keys, mut right_keys, mut padded, mut rest) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for condition in conditions {
            match equality(condition, &sides.left_made, &sides.right_made) {
                Some((left, right, is_padded)) => {
                    left_keys.push(self.expression(left)?);
                    right_keys.push(self.expression(right)?);
                    padded.push(is_padded);
                }
                None => rest.push(*condition),
            }
        }
        let condition = self.conjunction(&rest)?;
        let left_slots = sides.left_made.intersection(&sides.needed).copied().collect();
        let right_slots = sides.right_made.intersection(&sides.needed).copied().collect();
        let estimate = Estimate {
            rows: sides.rows(left.rows, right.rows, conditions.len()),
            startup: right.cost + right.rows * BUILD_COST,
            cost: left.cost + right.cost + right.rows * BUILD_COST + left.rows * PROBE_COST,
        };
        let width = left.width + right.width;
        let plan = HashJoinPlan {
            kind: sides.kind,
            left,
            right,
            left_keys,
            right_keys,
            padded,
            condition,
            left_slots: self.slots_of(&left_slots),
            right_slots: self.slots_of(&right_slots),
        };
        Ok(self.node(PlanKind::HashJoin(Arc::new(plan)), estimate, width, sides.is_correlated))
    }

    fn lower_cluster(&mut self, relation: &Relation, needed: &Columns) -> SqlResult<PlanNode> {
        let (mut relations, mut expressions) = (Vec::new(), Vec::new());
        flatten(relation, &mut relations, &mut expressions);
        let mut cluster = self.cluster(&relations, &expressions, needed)?;
        let all = (1_u64 << cluster.leaves.len()) - 1;
        let steps = if cluster.leaves.len() <= EXHAUSTIVE_MAX {
            self.exhaustive(&cluster)
        } else {
            self.greedy(&cluster)
        };
        let plan = self.build(&mut cluster, &steps, all)?;
        // Conditions about no relation at all, such as `WHERE $1`.
        let constant: Vec<_> = cluster
            .conditions
            .iter()
            .filter(|condition| condition.about == 0)
            .map(|condition| condition.expression)
            .collect();
        self.filtered(plan, &constant, &made(relation))
    }

    fn cluster<'r>(
        &mut self,
        relations: &[&'r Relation],
        expressions: &[&'r Expression],
        needed: &Columns,
    ) -> SqlResult<Cluster<'r>> {
        let mut needed = needed.clone();
        needed.extend(used_by_all(expressions.iter().copied()));
        let all_made: Vec<Columns> = relations.iter().map(|relation| made(relation)).collect();
        let bits = |columns: &Columns| {
            all_made.iter().enumerate().fold(0_u64, |bits, (number, made)| {
                bits | (u64::from(columns.iter().any(|column| made.contains(column))) << number)
            })
        };
        let mut leaves = Vec::with_capacity(relations.len());
        for relation in relations {
            let free = free(relation);
            let depends = bits(&free);
            needed.extend(free);
            leaves.push(Leaf {
                relation,
                made: made(relation),
                depends,
                rows: 10.0,
                cost: 1.0,
                plan: None,
                is_open: self.reads_open_table(relation) || self.has_newest(relation),
            });
        }
        for leaf in &mut leaves {
            if let Some((scan, own)) = as_scan(leaf.relation) {
                (leaf.rows, leaf.cost) = self.scan_estimate(scan, &own);
            } else if leaf.depends == 0 {
                let plan = self.lower(leaf.relation, &needed)?;
                (leaf.rows, leaf.cost) = (plan.rows.max(1.0), plan.cost);
                leaf.plan = Some(plan);
            }
        }
        let mut conditions = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let about = bits(&used(expression));
            let is_equality = matches!(&expression.kind, ExpressionKind::Call(call)
                if comparison(call).is_some_and(|(operator, _)| operator == Operator::Equal));
            let selectivity =
                if is_equality { self.join_selectivity(expression, &leaves) } else { SHARE_DEFAULT };
            conditions.push(Condition { expression, about, selectivity, is_equality });
        }
        Ok(Cluster { leaves, conditions, needed })
    }

    /// The share of pairs for which an equality holds.
    fn join_selectivity(&mut self, condition: &Expression, leaves: &[Leaf<'_>]) -> f64 {
        let mut distinct: f64 = 1.0;
        for column in used(condition) {
            distinct = distinct.max(self.distinct_of(column, leaves));
        }
        1.0 / distinct
    }

    fn distinct_of(&mut self, column: ColumnId, leaves: &[Leaf<'_>]) -> f64 {
        let Some(leaf) = leaves.iter().find(|leaf| leaf.made.contains(&column)) else { return 1.0 };
        let Some((scan, _)) = as_scan(leaf.relation) else { return leaf.rows.min(DISTINCT_UNKNOWN) };
        match scan.columns.iter().find(|(_, known)| *known == column) {
            Some((position, _)) => self.distinct_values(&scan.table, *position),
            None => leaf.rows,
        }
    }

    /// The step that joins two sets of relations; `None`: the right one needs columns that the left one has not.
    fn step(&mut self, cluster: &Cluster<'_>, left: &Step, right: &Step, bits: (u64, u64)) -> Option<Step> {
        let (left_bits, right_bits) = bits;
        let depends = cluster.depends(right_bits);
        if depends & !left_bits != 0 || cluster.depends(left_bits) & right_bits != 0 {
            return None;
        }
        let rows = cluster.rows(left_bits | right_bits);
        let new: Vec<&Condition<'_>> = cluster.between(left_bits, right_bits).collect();
        let mut best = Step {
            rows,
            cost: left.cost + right.cost + left.rows * right.rows * EXPRESSION_COST * (1 + new.len()) as f64,
            left: left_bits,
            right: right_bits,
            method: Method::Materialized,
        };
        if depends != 0 {
            best.method = Method::Lookup;
            best.cost = left.cost + left.rows * right.cost;
            return Some(best);
        }
        if cluster.has_keys(left_bits, right_bits) {
            let cost =
                left.cost + right.cost + right.rows * BUILD_COST + left.rows * PROBE_COST + rows * ROW_COST;
            if cost < best.cost {
                (best.cost, best.method) = (cost, Method::Hash);
            }
        }
        if right_bits.is_power_of_two() {
            let leaf = &cluster.leaves[right_bits.trailing_zeros() as usize];
            if let Some((scan, mut conditions)) = as_scan(leaf.relation) {
                conditions.extend(new.iter().map(|condition| condition.expression));
                let (_, lookup) = self.scan_estimate(scan, &conditions);
                let cost = left.cost + left.rows * lookup + rows * ROW_COST;
                if cost < best.cost {
                    (best.cost, best.method) = (cost, Method::Lookup);
                }
            }
            let is_found = SystemScan::of(leaf.relation, &cluster.needed)
                .and_then(|scan| scan.finding(new.iter().map(|condition| condition.expression)))
                .is_some();
            let cost = left.cost + left.rows * SYSTEM_LOOKUP_COST + rows * ROW_COST;
            if is_found && cost < best.cost {
                (best.cost, best.method) = (cost, Method::Lookup);
            }
        }
        Some(best)
    }

    /// The best step for each subset, by its bits.
    fn exhaustive(&mut self, cluster: &Cluster<'_>) -> rustc_hash::FxHashMap<u64, Step> {
        let mut steps = cluster.single_steps();
        let all = (1_u64 << cluster.leaves.len()) - 1;
        for set in 1..=all {
            if set.is_power_of_two() {
                continue;
            }
            let mut best: Option<Step> = None;
            let mut left = (set - 1) & set;
            while left != 0 {
                let right = set & !left;
                if let (Some(left_step), Some(right_step)) =
                    (steps.get(&left).copied(), steps.get(&right).copied())
                    && let Some(step) = self.step(cluster, &left_step, &right_step, (left, right))
                    && best.is_none_or(|best| step.cost < best.cost)
                {
                    best = Some(step);
                }
                left = (left - 1) & set;
            }
            if let Some(best) = best {
                steps.insert(set, best);
            }
        }
        steps
    }

    /// One relation after the other, the cheapest next.
    fn greedy(&mut self, cluster: &Cluster<'_>) -> rustc_hash::FxHashMap<u64, Step> {
        let mut steps = cluster.single_steps();
        let all = (1_u64 << cluster.leaves.len()) - 1;
        let first = (0..cluster.leaves.len())
            .filter(|number| cluster.leaves[*number].depends == 0)
            .min_by(|left, right| cluster.leaves[*left].rows.total_cmp(&cluster.leaves[*right].rows));
        let mut joined = 1_u64 << first.unwrap_or(0);
        while joined != all {
            let mut best: Option<Step> = None;
            for number in 0..cluster.leaves.len() {
                let right = 1_u64 << number;
                if joined & right != 0 {
                    continue;
                }
                let (Some(left_step), Some(right_step)) =
                    (steps.get(&joined).copied(), steps.get(&right).copied())
                else {
                    continue;
                };
                if let Some(step) = self.step(cluster, &left_step, &right_step, (joined, right))
                    && best.is_none_or(|best| step.cost < best.cost)
                {
                    best = Some(step);
                }
            }
            let Some(best) = best else { break };
            joined |= best.right;
            steps.insert(joined, best);
        }
        steps
    }

    fn build(
        &mut self,
        cluster: &mut Cluster<'_>,
        steps: &rustc_hash::FxHashMap<u64, Step>,
        set: u64,
    ) -> SqlResult<PlanNode> {
        let Some(step) = steps.get(&set).copied() else {
            return Err(SqlError::internal("an order of joins was not found"));
        };
        if step.left == 0 {
            return self.build_leaf(cluster, set);
        }
        let left = self.build(cluster, steps, step.left)?;
        let new: Vec<&Expression> =
            cluster.between(step.left, step.right).map(|condition| condition.expression).collect();
        let sides = Sides {
            kind: JoinKind::Inner,
            left_made: cluster.made(step.left),
            right_made: cluster.made(step.right),
            needed: cluster.needed.clone(),
            is_correlated: cluster.is_correlated(set),
        };
        if step.method == Method::Lookup && step.right.is_power_of_two() {
            let leaf = &cluster.leaves[step.right.trailing_zeros() as usize];
            if let Some((scan, mut conditions)) = as_scan(leaf.relation) {
                conditions.extend(&new);
                let right = self.lower_scan(scan, &conditions, &cluster.needed, None)?;
                let mut node = self.nested_loop(left, right, &[], &sides)?;
                (node.rows, node.cost) = (step.rows, step.cost);
                return Ok(node);
            }
        }
        if step.method == Method::Lookup && step.right.is_power_of_two() {
            let leaf = &cluster.leaves[step.right.trailing_zeros() as usize];
            let scan = SystemScan::of(leaf.relation, &cluster.needed)
                .and_then(|scan| scan.finding(new.iter().copied()));
            if let Some(mut scan) = scan {
                let own = cluster.conditions.iter().filter(|condition| condition.about == step.right);
                scan.conditions.extend(own.map(|condition| condition.expression));
                let right =
                    self.lower_system(scan.relation, scan.columns, &scan.conditions, &cluster.needed)?;
                let mut node = self.nested_loop(left, right, &[], &sides)?;
                (node.rows, node.cost) = (step.rows, step.cost);
                return Ok(node);
            }
        }
        let right = self.build(cluster, steps, step.right)?;
        let mut node = match step.method {
            Method::Hash => self.hash_join(left, right, &new, &sides)?,
            Method::Lookup => self.nested_loop(left, right, &new, &sides)?,
            Method::Materialized => {
                let right = self.materialized(right, &sides);
                self.nested_loop(left, right, &new, &sides)?
            }
        };
        (node.rows, node.cost) = (step.rows, step.cost);
        Ok(node)
    }

    fn build_leaf(&mut self, cluster: &mut Cluster<'_>, set: u64) -> SqlResult<PlanNode> {
        let number = set.trailing_zeros() as usize;
        let plan = match cluster.leaves[number].plan.take() {
            Some(plan) => plan,
            None => self.lower(cluster.leaves[number].relation, &cluster.needed)?,
        };
        // Conditions about one relation only; most were moved into it before.
        let own: Vec<_> = cluster
            .conditions
            .iter()
            .filter(|condition| condition.about == set)
            .map(|condition| condition.expression)
            .collect();
        self.filtered(plan, &own, &cluster.leaves[number].made)
    }
}

/// What a join of two sides needs to know.
struct Sides {
    kind: JoinKind,
    left_made: Columns,
    right_made: Columns,
    needed: Columns,
    is_correlated: bool,
}

impl Sides {
    fn rows(&self, left: f64, right: f64, conditions: usize) -> f64 {
        let pairs = left * right * 0.1_f64.powi(i32::try_from(conditions).unwrap_or(4).min(4));
        match self.kind {
            JoinKind::Semi | JoinKind::Anti => (left * 0.5).max(1.0),
            JoinKind::Left => pairs.max(left),
            JoinKind::Right => pairs.max(right),
            JoinKind::Full => pairs.max(left + right),
            JoinKind::Inner => pairs.max(1.0),
        }
    }
}

fn is_trivial(conditions: &[&Expression]) -> bool {
    conditions.iter().all(|condition| {
        matches!(condition.kind, ExpressionKind::Constant(seawall_values::Datum::Bool(true)))
    })
}

impl<'r> Cluster<'r> {
    fn members(&self, set: u64) -> impl Iterator<Item = &Leaf<'r>> {
        self.leaves
            .iter()
            .enumerate()
            .filter(move |(number, _)| set & (1 << number) != 0)
            .map(|(_, leaf)| leaf)
    }

    /// The relations outside of a set that those in it depend on.
    fn depends(&self, set: u64) -> u64 {
        self.members(set).fold(0, |bits, leaf| bits | leaf.depends) & !set
    }

    fn made(&self, set: u64) -> Columns {
        self.members(set).flat_map(|leaf| leaf.made.iter().copied()).collect()
    }

    fn is_correlated(&self, set: u64) -> bool {
        let made = self.made(set);
        let inside = self.conditions.iter().filter(|condition| condition.about & !set == 0);
        self.members(set).any(|leaf| free(leaf.relation).iter().any(|column| !made.contains(column)))
            || self.members(set).any(|leaf| leaf.is_open)
            || used_by_all(inside.map(|condition| condition.expression))
                .iter()
                .any(|column| !made.contains(column))
    }

    fn rows(&self, set: u64) -> f64 {
        let rows: f64 = self.members(set).map(|leaf| leaf.rows).product();
        let inside = self
            .conditions
            .iter()
            .filter(|condition| condition.about & !set == 0 && condition.about.count_ones() > 1);
        (rows * inside.map(|condition| condition.selectivity).product::<f64>()).max(1.0)
    }

    /// The conditions that a join of two sets is the first to have all columns for.
    fn between(&self, left: u64, right: u64) -> impl Iterator<Item = &Condition<'r>> {
        self.conditions.iter().filter(move |condition| {
            condition.about & !(left | right) == 0
                && condition.about & left != 0
                && condition.about & right != 0
        })
    }

    fn has_keys(&self, left: u64, right: u64) -> bool {
        self.between(left, right).any(|condition| {
            condition.is_equality
                && equality(condition.expression, &self.made(left), &self.made(right)).is_some()
        })
    }

    fn single_steps(&self) -> rustc_hash::FxHashMap<u64, Step> {
        let step = |(number, leaf): (usize, &Leaf<'_>)| {
            let step =
                Step { rows: leaf.rows, cost: leaf.cost, left: 0, right: 0, method: Method::Materialized };
            (1_u64 << number, step)
        };
        self.leaves.iter().enumerate().map(step).collect()
    }
}
