//! Plans: what the optimizer makes, and executions are opened from. Immutable and shared: a cached plan serves many executions.

use std::sync::Arc;

use seawall_values::system::FunctionRow;
use seawall_values::{Oid, TypeReference};

use super::compare::Key;
use super::expression::Expression;
use crate::algebra::{
    Demand, FrameExclusion, FrameUnit, JoinKind, OutputColumn, RowLock, SetOperator, WaitPolicy,
};
use crate::schema::{Index, Table};

/// The plan of a query.
#[derive(Debug)]
pub struct Plan {
    pub(crate) root: PlanNode,
    /// How many slots the row has.
    pub(crate) slots: usize,
    pub(crate) subqueries: Vec<Arc<SubqueryPlan>>,
    pub(crate) tables: Vec<Arc<CommonTablePlan>>,
    pub(crate) output: Vec<OutputColumn>,
    /// The slot of each column of the output.
    pub(crate) output_slots: Vec<usize>,
    pub(crate) parameters: Vec<Oid>,
    /// How many nodes have a number.
    pub(crate) nodes: usize,
    /// Names of columns by slot, for `EXPLAIN`.
    pub(crate) names: Vec<String>,
}

impl Plan {
    /// The columns that the client gets.
    pub fn output(&self) -> &[OutputColumn] {
        &self.output
    }

    /// The types of the parameters.
    pub fn parameters(&self) -> &[Oid] {
        &self.parameters
    }

    /// Whether it finds a row by a whole key at most: the values of its parameters would not have made another plan.
    pub(crate) fn is_of_one_row(&self) -> bool {
        self.subqueries.is_empty() && self.tables.is_empty() && self.root.is_of_one_row()
    }
}

/// A node: what it does, and what is expected of it.
#[derive(Debug)]
pub(crate) struct PlanNode {
    pub(crate) kind: PlanKind,
    /// Its number in the plan, for counters.
    pub(crate) number: usize,
    /// Expected rows of one run.
    pub(crate) rows: f64,
    /// Expected effort before the first row, and in all; in PostgreSQL's unit, a page read.
    pub(crate) startup: f64,
    pub(crate) cost: f64,
    /// Bytes of a row, about.
    pub(crate) width: usize,
    /// Whether its rows depend on slots that nodes elsewhere write: then a new outer row makes it run again from the beginning.
    pub(crate) is_correlated: bool,
}

impl PlanNode {
    fn is_of_one_row(&self) -> bool {
        match &self.kind {
            PlanKind::OneRow | PlanKind::Lookup(_) => true,
            PlanKind::Values(values) => values.rows.len() == 1,
            PlanKind::Filter(filter) => filter.input.is_of_one_row(),
            PlanKind::Compute(compute) => compute.input.is_of_one_row(),
            PlanKind::Limit(limit) => limit.input.is_of_one_row(),
            PlanKind::Lock(lock) => lock.input.is_of_one_row(),
            PlanKind::Change(change) => change.input.is_of_one_row(),
            _ => false,
        }
    }
}

/// What a node does.
#[derive(Debug)]
pub(crate) enum PlanKind {
    OneRow,
    /// No row at all: a condition is never true.
    Nothing,
    Scan(Arc<ScanPlan>),
    /// At most one row, by a full unique key.
    Lookup(Arc<ScanPlan>),
    /// The newest version of the row whose identity a slot has.
    Newest(Arc<NewestPlan>),
    System(Arc<SystemPlan>),
    Values(Arc<ValuesPlan>),
    Functions(Arc<FunctionsPlan>),
    Filter(Arc<FilterPlan>),
    Compute(Arc<ComputePlan>),
    ComputeSets(Arc<ComputeSetsPlan>),
    NestedLoop(Arc<NestedLoopPlan>),
    HashJoin(Arc<HashJoinPlan>),
    Materialize(Arc<MaterializePlan>),
    Aggregate(Arc<AggregatePlan>),
    Window(Arc<WindowPlan>),
    Sort(Arc<SortPlan>),
    Limit(Arc<LimitPlan>),
    Distinct(Arc<DistinctPlan>),
    SetOperation(Arc<SetOperationPlan>),
    With(Arc<WithPlan>),
    CommonTable(Arc<CommonTableUse>),
    Lock(Arc<LockPlan>),
    Change(Arc<ChangePlan>),
}

/// A scan of a table, by its key or by an index.
#[derive(Debug)]
pub(crate) struct ScanPlan {
    pub(crate) table: Arc<Table>,
    pub(crate) index: Option<Arc<Index>>,
    /// Ranges, one after the other; none: the whole table.
    pub(crate) ranges: Vec<RangePlan>,
    pub(crate) is_reverse: bool,
    /// The columns, by position in the table.
    pub(crate) columns: Vec<usize>,
    pub(crate) with_identity: bool,
    /// The slot of the first column; the others follow, then the identity.
    pub(crate) base: usize,
    pub(crate) table_oid: Option<usize>,
    /// What the rows are tested with.
    pub(crate) filter: Option<Expression>,
    /// Positions of the key's columns in the table, as far as ranges bind them.
    pub(crate) key: Vec<usize>,
    /// Whether all wanted columns are in the index.
    pub(crate) is_covered: bool,
}

/// A range of a key, with values to compute.
#[derive(Debug, Default)]
pub(crate) struct RangePlan {
    pub(crate) equal: Vec<KeyValue>,
    pub(crate) lower: Vec<(KeyValue, bool)>,
    pub(crate) upper: Vec<(KeyValue, bool)>,
    /// An array whose elements are, one after the other, the value of the column after `equal`.
    pub(crate) list: Option<KeyValue>,
}

/// A value of a key: it is converted to the type of the key's column.
#[derive(Debug)]
pub(crate) struct KeyValue {
    pub(crate) value: Expression,
    pub(crate) of: Oid,
    /// Whether a null stands for `IS NULL`; else it equals nothing.
    pub(crate) is_null_test: bool,
}

/// A row by its identity.
#[derive(Debug)]
pub(crate) struct NewestPlan {
    pub(crate) table: Arc<Table>,
    pub(crate) columns: Vec<usize>,
    pub(crate) base: usize,
    /// The slot with the identity.
    pub(crate) identity: usize,
    pub(crate) table_oid: Option<usize>,
    pub(crate) filter: Option<Expression>,
}

/// A scan of a system relation.
#[derive(Debug)]
pub(crate) struct SystemPlan {
    pub(crate) relation: Oid,
    pub(crate) columns: Vec<usize>,
    pub(crate) slots: Vec<usize>,
    /// Values that columns are equal to, by position in the relation.
    pub(crate) equal: Vec<(usize, Expression)>,
    pub(crate) filter: Option<Expression>,
}

#[derive(Debug)]
pub(crate) struct ValuesPlan {
    pub(crate) slots: Vec<usize>,
    pub(crate) rows: Vec<Vec<Expression>>,
}

/// Functions side by side.
#[derive(Debug)]
pub(crate) struct FunctionsPlan {
    pub(crate) functions: Vec<(SetCall, Vec<usize>)>,
    pub(crate) ordinality: Option<usize>,
}

/// A call of a function that returns a set, or of one that returns a value: a set of one row.
#[derive(Debug)]
pub(crate) struct SetCall {
    pub(crate) source: SetSource,
    pub(crate) function: Arc<FunctionRow>,
    pub(crate) arguments: Vec<Expression>,
    pub(crate) types: Vec<TypeReference>,
    pub(crate) result: TypeReference,
}

/// Where the rows of a call come from.
#[derive(Debug)]
pub(crate) enum SetSource {
    Set(seawall_values::set_returning::SetImplementation),
    /// One row with the value; fields of a row are its columns.
    Value(seawall_values::functions::Implementation),
    Session,
}

#[derive(Debug)]
pub(crate) struct FilterPlan {
    pub(crate) input: PlanNode,
    pub(crate) predicate: Expression,
}

#[derive(Debug)]
pub(crate) struct ComputePlan {
    pub(crate) input: PlanNode,
    pub(crate) values: Vec<(usize, Expression)>,
}

#[derive(Debug)]
pub(crate) struct ComputeSetsPlan {
    pub(crate) input: PlanNode,
    pub(crate) sets: Vec<(usize, SetCall)>,
}

/// For each left row, the right side from its beginning.
#[derive(Debug)]
pub(crate) struct NestedLoopPlan {
    pub(crate) kind: JoinKind,
    pub(crate) left: PlanNode,
    pub(crate) right: PlanNode,
    pub(crate) condition: Option<Expression>,
    /// The slots that the right side makes: null without a match.
    pub(crate) right_slots: Vec<usize>,
}

/// A hash table over the right side, probed with the left one.
#[derive(Debug)]
pub(crate) struct HashJoinPlan {
    pub(crate) kind: JoinKind,
    pub(crate) left: PlanNode,
    pub(crate) right: PlanNode,
    pub(crate) left_keys: Vec<Expression>,
    pub(crate) right_keys: Vec<Expression>,
    /// Which keys are `character(n)`.
    pub(crate) padded: Vec<bool>,
    /// What is left of the condition.
    pub(crate) condition: Option<Expression>,
    pub(crate) left_slots: Vec<usize>,
    pub(crate) right_slots: Vec<usize>,
}

/// Rows that are kept, to be read again.
#[derive(Debug)]
pub(crate) struct MaterializePlan {
    pub(crate) input: PlanNode,
    pub(crate) slots: Vec<usize>,
}

/// Groups and their aggregates.
#[derive(Debug)]
pub(crate) struct AggregatePlan {
    pub(crate) input: PlanNode,
    /// Slots of the grouping columns.
    pub(crate) groups: Vec<usize>,
    pub(crate) padded: Vec<bool>,
    /// Positions in `groups`.
    pub(crate) sets: Vec<Vec<usize>>,
    pub(crate) grouping: Vec<(usize, Vec<usize>)>,
    pub(crate) aggregates: Vec<AggregateCall>,
    /// Slots of the input that groups and arguments need.
    pub(crate) input_slots: Vec<usize>,
}

/// One aggregate.
#[derive(Debug)]
pub(crate) struct AggregateCall {
    pub(crate) slot: usize,
    pub(crate) name: String,
    pub(crate) new: seawall_values::aggregates::NewAccumulator,
    pub(crate) arguments: Vec<Expression>,
    pub(crate) types: Vec<TypeReference>,
    pub(crate) result: TypeReference,
    pub(crate) is_distinct: bool,
    /// Keys of `ORDER BY` within: slots.
    pub(crate) order: Vec<Key>,
    /// Which arguments are `character(n)`.
    pub(crate) padded: Vec<bool>,
    /// `WITHIN GROUP`: the ordered values are arguments as well, after the direct ones.
    pub(crate) is_ordered_set: bool,
    pub(crate) filter: Option<Expression>,
}

/// Window functions with one partitioning and one order; the input has that order.
#[derive(Debug)]
pub(crate) struct WindowPlan {
    pub(crate) input: PlanNode,
    pub(crate) partition: Vec<Key>,
    pub(crate) order: Vec<Key>,
    /// The type of the first key of the order.
    pub(crate) order_type: Option<TypeReference>,
    pub(crate) functions: Vec<WindowFunction>,
    pub(crate) input_slots: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct WindowFunction {
    pub(crate) slot: usize,
    pub(crate) kind: WindowFunctionKind,
    pub(crate) frame: FramePlan,
}

#[derive(Debug)]
pub(crate) enum WindowFunctionKind {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumulativeDistribution,
    /// The number of buckets.
    Bucket(Expression),
    /// Rows before (`lag`) or after (`lead`): value, offset, default.
    Offset {
        is_lead: bool,
        value: Expression,
        offset: Option<Expression>,
        default: Option<Expression>,
    },
    First(Expression),
    Last(Expression),
    Nth(Expression, Expression),
    Aggregate(AggregateCall),
}

#[derive(Debug)]
pub(crate) struct FramePlan {
    pub(crate) unit: FrameUnit,
    pub(crate) start: BoundPlan,
    pub(crate) end: BoundPlan,
    pub(crate) exclude: FrameExclusion,
}

#[derive(Debug)]
pub(crate) enum BoundPlan {
    UnboundedPreceding,
    /// The offset and its type.
    Preceding(Expression, TypeReference),
    CurrentRow,
    Following(Expression, TypeReference),
    UnboundedFollowing,
}

#[derive(Debug)]
pub(crate) struct SortPlan {
    pub(crate) input: PlanNode,
    /// Keys: `at` is a slot.
    pub(crate) keys: Vec<Key>,
    pub(crate) slots: Vec<usize>,
    /// Only so many rows are needed: count and offset of the limit above.
    pub(crate) top: Option<Arc<Top>>,
}

/// The expressions of a limit, which the sort below it shares.
#[derive(Debug)]
pub(crate) struct Top {
    pub(crate) count: Option<Expression>,
    pub(crate) offset: Option<Expression>,
}

#[derive(Debug)]
pub(crate) struct LimitPlan {
    pub(crate) input: PlanNode,
    pub(crate) top: Arc<Top>,
    pub(crate) ties: Option<Vec<Key>>,
}

#[derive(Debug)]
pub(crate) struct DistinctPlan {
    pub(crate) input: PlanNode,
    pub(crate) on: Vec<usize>,
    pub(crate) padded: Vec<bool>,
    pub(crate) slots: Vec<usize>,
    /// Equal rows follow one another.
    pub(crate) is_sorted: bool,
}

#[derive(Debug)]
pub(crate) struct SetOperationPlan {
    pub(crate) operator: SetOperator,
    pub(crate) is_all: bool,
    pub(crate) left: PlanNode,
    pub(crate) right: PlanNode,
    pub(crate) slots: Vec<usize>,
    pub(crate) left_slots: Vec<usize>,
    pub(crate) right_slots: Vec<usize>,
    pub(crate) padded: Vec<bool>,
}

#[derive(Debug)]
pub(crate) struct WithPlan {
    pub(crate) tables: Vec<usize>,
    pub(crate) body: PlanNode,
}

/// A common table expression.
#[derive(Debug)]
pub(crate) struct CommonTablePlan {
    pub(crate) name: String,
    pub(crate) query: PlanNode,
    pub(crate) slots: Vec<usize>,
    pub(crate) padded: Vec<bool>,
    pub(crate) types: Vec<TypeReference>,
    pub(crate) recursive: Option<RecursivePlan>,
    pub(crate) is_changing: bool,
    pub(crate) is_correlated: bool,
}

#[derive(Debug)]
pub(crate) struct RecursivePlan {
    pub(crate) query: PlanNode,
    pub(crate) slots: Vec<usize>,
    pub(crate) is_distinct: bool,
}

/// A use of a common table expression.
#[derive(Debug)]
pub(crate) struct CommonTableUse {
    pub(crate) table: usize,
    pub(crate) name: String,
    /// Positions in the table, and slots.
    pub(crate) columns: Vec<(usize, usize)>,
    /// Whether it reads the last round of the table, inside of its recursive part.
    pub(crate) is_recursive: bool,
}

#[derive(Debug)]
pub(crate) struct LockPlan {
    pub(crate) input: PlanNode,
    pub(crate) rows: Vec<LockedRow>,
    /// All slots that the input makes and somebody above uses.
    pub(crate) slots: Vec<usize>,
}

/// A scan whose rows are locked.
#[derive(Debug)]
pub(crate) struct LockedRow {
    pub(crate) table: Arc<Table>,
    /// The slot of the identity.
    pub(crate) identity: usize,
    pub(crate) mode: RowLock,
    pub(crate) wait: WaitPolicy,
    /// The input again, with the newest version of the row in the place of the scan.
    pub(crate) recheck: PlanNode,
}

/// A change of a table.
#[derive(Debug)]
pub(crate) struct ChangePlan {
    pub(crate) table: Arc<Table>,
    pub(crate) input: PlanNode,
    /// Slots of the input that the change and `RETURNING` use.
    pub(crate) input_slots: Vec<usize>,
    pub(crate) kind: ChangePlanKind,
    /// The slot of each column of the table in the row as `RETURNING` and the checks see it.
    pub(crate) new: Vec<(usize, usize)>,
    pub(crate) checks: Vec<(Demand, Expression)>,
    pub(crate) returning: Vec<(usize, Expression)>,
    /// Slots of `returning`.
    pub(crate) returning_slots: Vec<usize>,
    /// Positions of all columns of the table.
    pub(crate) all_columns: Vec<usize>,
    /// Whether the input is read to its end before anything is written.
    pub(crate) collects_input: bool,
    /// Whether the input may have a row of the table twice.
    pub(crate) may_repeat: bool,
}

#[derive(Debug)]
pub(crate) enum ChangePlanKind {
    Insert { values: Vec<(usize, usize)>, conflict: Option<ConflictPlan> },
    Update { identity: usize, values: Vec<(usize, usize)>, recheck: PlanNode, mode: RowLock },
    Delete { identity: usize, recheck: PlanNode },
    Merge { identity: usize, clauses: Vec<MergeClausePlan>, recheck: PlanNode, mode: RowLock },
}

#[derive(Debug)]
pub(crate) struct MergeClausePlan {
    pub(crate) is_matched: bool,
    pub(crate) condition: Option<Expression>,
    pub(crate) action: MergeActionPlan,
}

#[derive(Debug)]
pub(crate) enum MergeActionPlan {
    Nothing,
    Insert(Vec<(usize, Expression)>),
    Update(Vec<(usize, Expression)>),
    Delete,
}

#[derive(Debug)]
pub(crate) struct ConflictPlan {
    pub(crate) indexes: Vec<Arc<Index>>,
    pub(crate) update: Option<ConflictUpdatePlan>,
}

#[derive(Debug)]
pub(crate) struct ConflictUpdatePlan {
    pub(crate) existing: Vec<(usize, usize)>,
    pub(crate) excluded: Vec<(usize, usize)>,
    pub(crate) values: Vec<(usize, Expression)>,
    pub(crate) condition: Option<Expression>,
    pub(crate) mode: RowLock,
}

/// A query inside of an expression.
#[derive(Debug)]
pub(crate) struct SubqueryPlan {
    pub(crate) plan: PlanNode,
    pub(crate) kind: SubqueryPlanKind,
    pub(crate) slots: Vec<usize>,
    pub(crate) is_correlated: bool,
}

#[derive(Debug)]
pub(crate) enum SubqueryPlanKind {
    Scalar,
    Row(Vec<Oid>),
    Exists,
    Any(Expression),
    All(Expression),
    Array {
        element: Oid,
        is_nested: bool,
    },
    /// `IN` with a query that depends on nothing outside: the outer values, the inner ones, and which are `character(n)`.
    HashedAny {
        outer: Vec<Expression>,
        inner: Vec<Expression>,
        padded: Vec<bool>,
    },
}
