//! What the binder gives: relations and expressions over numbered columns.
//!
//! Each column that a relation makes has a number that is used once in a statement, so relations can be moved without renaming
//! anything. A column that a relation uses and none below it makes comes from outside: the relation is correlated, and the number
//! belongs to a row of an enclosing query.

pub(crate) mod walk;

pub use seawall_engine::RowLock;
use std::sync::Arc;

use seawall_values::system::FunctionRow;
use seawall_values::{Datum, FieldNames, Oid, TypeReference};

use crate::schema::{Index, Table};

/// The number of a column within a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnId(pub u32);

/// The number of a common table expression within a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommonTableId(pub u32);

/// A value to compute, with its type.
#[derive(Clone, Debug)]
pub struct Expression {
    /// How.
    pub kind: ExpressionKind,
    /// Of what type.
    pub of: TypeReference,
    /// Where in the statement: characters, from 1. For errors that arise when it is computed there is none.
    pub position: Option<u32>,
}

/// How a value is computed. Nulls are as in PostgreSQL's expressions of the same names.
#[derive(Clone, Debug)]
pub enum ExpressionKind {
    /// A value that is known.
    Constant(Datum),
    /// A column of the row, or of a row of an enclosing query.
    Column(ColumnId),
    /// `$n`, from 0.
    Parameter(usize),
    /// A function, an operator's function or a cast's function of `pg_proc`.
    Call(Call),
    /// All of them.
    And(Vec<Expression>),
    /// One of them.
    Or(Vec<Expression>),
    /// The opposite.
    Not(Box<Expression>),
    /// `IS NULL`; of a row: all fields are.
    IsNull(Box<Expression>),
    /// `IS NOT NULL`; of a row: no field is null.
    IsNotNull(Box<Expression>),
    /// `IS TRUE`, `IS FALSE` (`true`), or with `NOT` around.
    IsBoolean(Box<Expression>, bool),
    /// `IS DISTINCT FROM`, by the equality operator's call over two columns that stand for the sides.
    IsDistinct {
        /// The left side.
        left: Box<Expression>,
        /// The right side.
        right: Box<Expression>,
        /// The function of `=`.
        equals: Arc<FunctionRow>,
    },
    /// `CASE`: conditions (already comparisons, if there was an operand) and results; without a match the last, or null.
    Case {
        /// Conditions and their results.
        branches: Vec<(Expression, Expression)>,
        /// The result without a match.
        otherwise: Option<Box<Expression>>,
    },
    /// The first that is not null.
    Coalesce(Vec<Expression>),
    /// Null if both are equal by this function, else the left one.
    NullIf {
        /// The left side.
        left: Box<Expression>,
        /// The right side.
        right: Box<Expression>,
        /// The function of `=`.
        equals: Arc<FunctionRow>,
    },
    /// The greatest (`true`) or least of those that are not null.
    Extreme(Vec<Expression>, bool),
    /// `ARRAY[...]`; elements that are arrays make one of a dimension more (`is_nested`).
    Array {
        /// The elements.
        elements: Vec<Expression>,
        /// The type of what is innermost.
        element: Oid,
        /// Whether they are arrays.
        is_nested: bool,
    },
    /// `ROW(...)`.
    Row(Vec<Expression>),
    /// A comparison of rows by `<`, `<=`, `>`, `>=`: fields and the function of the operator, of `=` and of the order for each.
    RowCompare {
        /// `<`, `<=`, `>` or `>=`.
        operator: RowOrder,
        /// The left fields.
        left: Vec<Expression>,
        /// The right fields.
        right: Vec<Expression>,
    },
    /// A field of a row, from 0.
    Field(Box<Expression>, usize),
    /// `a[1]`, `a[1:2]`, `j['x']`.
    Subscript {
        /// The container.
        container: Box<Expression>,
        /// For each dimension: from, to. A single subscript has only `to`.
        subscripts: Vec<Subscript>,
        /// Whether one of them is a slice.
        is_slice: bool,
    },
    /// The container with a part of it set: `SET a[1] = x`, `SET a[1:2] = x`, `SET j['x'] = y`. A container that is null counts as empty.
    Assign {
        /// The container.
        container: Box<Expression>,
        /// As of `Subscript`.
        subscripts: Vec<Subscript>,
        /// Whether one of them is a slice.
        is_slice: bool,
        /// What is set.
        value: Box<Expression>,
    },
    /// `left operator ANY (array)` (`is_any`) or `ALL`.
    ScalarArray {
        /// The left side.
        left: Box<Expression>,
        /// The array.
        array: Box<Expression>,
        /// The operator's function.
        function: Arc<FunctionRow>,
        /// `ANY`, not `ALL`.
        is_any: bool,
    },
    /// A cast through the text forms.
    ConvertByText(Box<Expression>),
    /// A cast that leaves the value as it is.
    Relabel(Box<Expression>),
    /// A cast of each element of an array, by the expression over the column `element`.
    ConvertElements {
        /// The array.
        array: Box<Expression>,
        /// Stands for an element.
        element: ColumnId,
        /// What becomes of it.
        converted: Box<Expression>,
    },
    /// A value that is to meet the conditions of a domain; its type is the one that the domain's values have.
    CheckDomain(Box<DomainCheck>),
    /// A query as a value.
    Subquery(Box<Subquery>),
    /// `nextval` of a column's own sequence.
    NextValue(Oid),
    /// The row as a whole as one value, with the names of its columns: `t.*` or `t` where a value is expected.
    WholeRow(Vec<ColumnId>, FieldNames),
    /// The current value of the row's default, in `VALUES (DEFAULT)`; gone after binding.
    Default,
    /// A function of the session: its source in `pg_proc`, such as `current_user` or `nextval`.
    SessionCall(Call),
}

/// What a domain demands of a value.
#[derive(Clone, Debug)]
pub struct DomainCheck {
    /// The value.
    pub value: Expression,
    /// The number of the domain.
    pub domain: Oid,
    /// Its name, as messages show it.
    pub name: String,
    /// `NOT NULL`.
    pub is_not_null: bool,
    /// Stands for the value in the conditions.
    pub column: ColumnId,
    /// Names of conditions, and what they compute.
    pub checks: Vec<(String, Expression)>,
}

/// One subscript.
#[derive(Clone, Debug)]
pub struct Subscript {
    /// Where a slice begins.
    pub from: Option<Expression>,
    /// The subscript, or where a slice ends.
    pub to: Option<Expression>,
}

/// An operator that orders rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
}

/// A function with its arguments, which have the types that it declares.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which.
    pub function: Arc<FunctionRow>,
    /// The arguments.
    pub arguments: Vec<Expression>,
    /// How it was written, for `EXPLAIN` and `pg_get_expr`.
    pub written: Written,
}

/// How a call was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// `f(x)`.
    Function,
    /// `x + y`, with the operator's number.
    Operator(Oid),
    /// `x::t`.
    ExplicitCast,
    /// Not at all.
    ImplicitCast,
}

/// A query inside an expression.
#[derive(Clone, Debug)]
pub struct Subquery {
    /// What is asked of it.
    pub kind: SubqueryKind,
    /// The query.
    pub relation: Relation,
    /// Its columns, in order.
    pub columns: Vec<ColumnId>,
}

/// What is asked of a subquery.
#[derive(Clone, Debug)]
pub enum SubqueryKind {
    /// The only value of its only row; null without a row; 21000 with more.
    Scalar,
    /// All columns of its only row as a row.
    Row,
    /// Whether it has a row.
    Exists,
    /// Whether the test, over its columns, is true for one row (`ANY`, `IN`), with PostgreSQL's nulls.
    Any(Box<Expression>),
    /// Whether the test is true for all rows.
    All(Box<Expression>),
    /// The values of its column, as an array.
    Array,
}

/// How rows are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs that match.
    Inner,
    /// And left rows without a match.
    Left,
    /// And right rows without a match.
    Right,
    /// And both.
    Full,
    /// Left rows with a match.
    Semi,
    /// Left rows without a match.
    Anti,
}

/// A key to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The column.
    pub column: ColumnId,
    /// Its type.
    pub of: TypeReference,
    /// Largest first.
    pub is_descending: bool,
    /// Nulls first.
    pub is_nulls_first: bool,
}

/// An aggregate, or a window function, with its arguments.
#[derive(Clone, Debug)]
pub struct Aggregation {
    /// Which.
    pub function: Arc<FunctionRow>,
    /// The arguments: expressions over the input's columns.
    pub arguments: Vec<Expression>,
    /// `DISTINCT`.
    pub is_distinct: bool,
    /// `ORDER BY` within; keys are columns that the input makes. For `WITHIN GROUP`, the ordered arguments.
    pub order: Vec<SortKey>,
    /// `FILTER`.
    pub filter: Option<Expression>,
    /// The type of the result.
    pub of: TypeReference,
}

/// A window function, and what it looks at.
#[derive(Clone, Debug)]
pub struct WindowCall {
    /// The function: a window function or an aggregate.
    pub call: Aggregation,
    /// `PARTITION BY`.
    pub partition: Vec<ColumnId>,
    /// `ORDER BY`.
    pub order: Vec<SortKey>,
    /// The frame.
    pub frame: Frame,
}

/// The frame of a window.
#[derive(Clone, Debug)]
pub struct Frame {
    /// In what it counts.
    pub unit: FrameUnit,
    /// Where it begins.
    pub start: FrameBound,
    /// Where it ends.
    pub end: FrameBound,
    /// What is left out.
    pub exclude: FrameExclusion,
}

/// In what a frame counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    /// Rows.
    Rows,
    /// Values of the one key.
    Range,
    /// Groups of equal rows.
    Groups,
}

/// One end of a frame.
#[derive(Clone, Debug)]
pub enum FrameBound {
    /// The first row of the partition.
    UnboundedPreceding,
    /// So much before. For `Range`: with the functions that subtract the offset and compare.
    Preceding(Box<Expression>),
    /// The current row, or its equals.
    CurrentRow,
    /// So much after.
    Following(Box<Expression>),
    /// The last row of the partition.
    UnboundedFollowing,
}

/// What a frame leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameExclusion {
    /// Nothing.
    NoOthers,
    /// The current row.
    CurrentRow,
    /// The current row and its equals.
    Group,
    /// The equals of the current row.
    Ties,
}

/// `UNION`, `INTERSECT`, `EXCEPT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperator {
    /// Both.
    Union,
    /// What both have.
    Intersect,
    /// What only the left one has.
    Except,
}

/// A lock as its clause is written.
pub(crate) fn lock_clause(mode: RowLock) -> &'static str {
    match mode {
        RowLock::KeyShare => "FOR KEY SHARE",
        RowLock::Share => "FOR SHARE",
        RowLock::NoKeyUpdate => "FOR NO KEY UPDATE",
        RowLock::Update => "FOR UPDATE",
    }
}

/// Who demands something of a new row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A `CHECK` constraint of the table, with its name.
    Constraint(String),
    /// `WITH CHECK OPTION` of a view, with its name.
    View(String),
}

/// What to do about a row that somebody else has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Wait.
    Wait,
    /// Fail: `NOWAIT`.
    Fail,
    /// Leave it out: `SKIP LOCKED`.
    Skip,
}

/// A set of rows.
#[derive(Clone, Debug)]
pub enum Relation {
    /// One row without columns: `SELECT 1`.
    OneRow,
    /// Rows of a table.
    Scan(Scan),
    /// Rows of a system relation, which `catalog` makes.
    System {
        /// Its number in `pg_class`.
        relation: Oid,
        /// Columns by their position in it, from 0.
        columns: Vec<(usize, ColumnId)>,
    },
    /// `VALUES`.
    Values {
        /// Its columns.
        columns: Vec<ColumnId>,
        /// Its rows.
        rows: Vec<Vec<Expression>>,
    },
    /// `FROM f(x)`, `ROWS FROM (..)`: functions side by side, the shorter ones filled with nulls.
    Functions {
        /// The calls, each with the columns that it makes.
        functions: Vec<(Call, Vec<ColumnId>)>,
        /// `WITH ORDINALITY`.
        ordinality: Option<ColumnId>,
    },
    /// Rows for which the predicate is true.
    Filter {
        /// From.
        input: Box<Relation>,
        /// The condition.
        predicate: Expression,
    },
    /// Values computed for each row, beside its columns.
    Compute {
        /// From.
        input: Box<Relation>,
        /// What is added.
        values: Vec<(ColumnId, Expression)>,
    },
    /// Set-returning functions in a list of results: side by side for each row.
    ComputeSets {
        /// From.
        input: Box<Relation>,
        /// What is added.
        sets: Vec<(ColumnId, Call)>,
    },
    /// Pairs of rows. The right side of an inner, left, semi or anti join may use columns of the left one (`LATERAL`).
    Join {
        /// How.
        kind: JoinKind,
        /// Left.
        left: Box<Relation>,
        /// Right.
        right: Box<Relation>,
        /// Which pairs match.
        condition: Expression,
    },
    /// One row for each group. Without groups: one row, also of no input.
    Aggregate {
        /// From.
        input: Box<Relation>,
        /// The columns that rows are grouped by; they are also in the output.
        groups: Vec<(ColumnId, TypeReference)>,
        /// `GROUPING SETS`: for each set, positions in `groups`; those left out are null in its rows. Empty: one set of all.
        sets: Vec<Vec<usize>>,
        /// `GROUPING(..)`: the column, and positions in `groups`.
        grouping: Vec<(ColumnId, Vec<usize>)>,
        /// The aggregates.
        aggregates: Vec<(ColumnId, Aggregation)>,
    },
    /// Window functions, beside the columns of each row.
    Window {
        /// From.
        input: Box<Relation>,
        /// The functions.
        functions: Vec<(ColumnId, WindowCall)>,
    },
    /// In order.
    Sort {
        /// From.
        input: Box<Relation>,
        /// By.
        keys: Vec<SortKey>,
    },
    /// Some of the rows.
    Limit {
        /// From.
        input: Box<Relation>,
        /// How many; null: all.
        count: Option<Expression>,
        /// How many are left out first.
        offset: Option<Expression>,
        /// `WITH TIES`: equals of the last row, too; the input is a `Sort` with these keys.
        with_ties: Option<Vec<SortKey>>,
    },
    /// The first of equal rows. `DISTINCT ON` keeps the first in the order of the input.
    Distinct {
        /// From.
        input: Box<Relation>,
        /// What is compared.
        on: Vec<(ColumnId, TypeReference)>,
    },
    /// Two relations with the same number of columns.
    SetOperation {
        /// How.
        operator: SetOperator,
        /// `ALL`.
        is_all: bool,
        /// The columns of the result: its number, type, and those of each side.
        columns: Vec<(ColumnId, TypeReference, ColumnId, ColumnId)>,
        /// Left.
        left: Box<Relation>,
        /// Right.
        right: Box<Relation>,
    },
    /// `WITH`: tables that are computed once, when first used (a changing one: at once, before the body).
    With {
        /// In order; later ones use earlier ones.
        tables: Vec<CommonTable>,
        /// The query.
        body: Box<Relation>,
    },
    /// A use of a common table expression, or, inside of a recursive one, of the rows of its last round.
    CommonTable {
        /// Which.
        table: CommonTableId,
        /// The columns of this use, by position in the table's.
        columns: Vec<(usize, ColumnId)>,
    },
    /// Locks rows on their way, and leaves out those that do not match any more (their newest version is looked at).
    Lock {
        /// From.
        input: Box<Relation>,
        /// Scans whose rows are locked, by the number of the column that `Scan::row` makes.
        rows: Vec<(ColumnId, RowLock, WaitPolicy)>,
    },
    /// A change of a table, which returns rows.
    Change(Box<Change>),
}

/// A common table expression.
#[derive(Clone, Debug)]
pub struct CommonTable {
    /// Its number.
    pub id: CommonTableId,
    /// Its name.
    pub name: String,
    /// The query, or the part of a recursive one that is not recursive.
    pub query: Relation,
    /// Its columns, in order.
    pub columns: Vec<(ColumnId, TypeReference)>,
    /// The recursive part and its columns, and whether repeats are left out (`UNION`).
    pub recursive: Option<(Relation, Vec<ColumnId>, bool)>,
    /// Whether it changes tables, and is run to its end once.
    pub is_changing: bool,
}

/// A scan of a table. Which index serves it, `optimize` decides.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The table.
    pub table: Arc<Table>,
    /// The columns that are used: position in `Table::columns`, number.
    pub columns: Vec<(usize, ColumnId)>,
    /// The identity of the row (its key in the table), for locks and changes. A value of the type `bytea`.
    pub row: Option<ColumnId>,
    /// `tableoid`.
    pub table_oid: Option<ColumnId>,
}

/// `INSERT`, `UPDATE`, `DELETE`.
#[derive(Clone, Debug)]
pub struct Change {
    /// The table.
    pub table: Arc<Table>,
    /// What is done.
    pub kind: ChangeKind,
    /// Rows to insert, or rows of the table with what they are changed to.
    pub input: Relation,
    /// `RETURNING`: values over the columns of `new`, and of the input.
    pub returning: Vec<(ColumnId, Expression)>,
    /// The columns of the new (of a delete: the old) row as `returning` sees them, by position in the table.
    pub new: Vec<(usize, ColumnId)>,
    /// What a new row must meet, over `new`.
    pub checks: Vec<(Demand, Expression)>,
}

/// What a change does.
#[derive(Clone, Debug)]
pub enum ChangeKind {
    /// Inserts rows: for each column of the table that is given a value, its position and the input's column. Others are null: defaults
    /// are computed in the input.
    Insert {
        /// Values.
        values: Vec<(usize, ColumnId)>,
        /// What to do about a row that is there.
        conflict: Option<Conflict>,
    },
    /// Sets columns of rows: the row's identity, positions and the input's columns.
    Update {
        /// The identity.
        row: ColumnId,
        /// What is set.
        values: Vec<(usize, ColumnId)>,
    },
    /// Deletes rows.
    Delete {
        /// The identity.
        row: ColumnId,
    },
    /// `MERGE`: the input has rows of the source beside those of the table that match, if there are any.
    Merge {
        /// The identity; null: the row of the source has no match.
        row: ColumnId,
        /// What is done, in order: the first clause counts whose condition is true.
        clauses: Vec<MergeClause>,
    },
}

/// `WHEN MATCHED ..`, `WHEN NOT MATCHED ..`.
#[derive(Clone, Debug)]
pub struct MergeClause {
    /// Whether it is for rows with a match.
    pub is_matched: bool,
    /// `AND ..`.
    pub condition: Option<Expression>,
    /// `THEN ..`.
    pub action: MergeAction,
}

/// What a clause of `MERGE` does. Values are given with their positions in the table.
#[derive(Clone, Debug)]
pub enum MergeAction {
    /// `DO NOTHING`.
    Nothing,
    /// `INSERT`, with defaults.
    Insert(Vec<(usize, Expression)>),
    /// `UPDATE SET`.
    Update(Vec<(usize, Expression)>),
    /// `DELETE`.
    Delete,
}

impl MergeClause {
    /// Its expressions.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let values = match &self.action {
            MergeAction::Insert(values) | MergeAction::Update(values) => values.as_slice(),
            MergeAction::Nothing | MergeAction::Delete => &[],
        };
        self.condition.iter().chain(values.iter().map(|(_, value)| value))
    }
}

/// `ON CONFLICT`.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The indexes that may conflict; empty: any unique one (`DO NOTHING` without a target).
    pub indexes: Vec<Arc<Index>>,
    /// `DO UPDATE`; else `DO NOTHING`.
    pub update: Option<ConflictUpdate>,
}

/// `ON CONFLICT DO UPDATE`.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// The columns of the row that is there, by position in the table.
    pub existing: Vec<(usize, ColumnId)>,
    /// The columns of `excluded`, by position.
    pub excluded: Vec<(usize, ColumnId)>,
    /// What is set: position and value.
    pub values: Vec<(usize, Expression)>,
    /// `WHERE`.
    pub condition: Option<Expression>,
}

/// A query with the columns that its client gets.
#[derive(Clone, Debug)]
pub struct Query {
    /// The rows.
    pub relation: Relation,
    /// What is returned, in order.
    pub output: Vec<OutputColumn>,
    /// The types of its parameters.
    pub parameters: Vec<Oid>,
}

/// A column that a client gets.
#[derive(Clone, Debug)]
pub struct OutputColumn {
    /// Which.
    pub column: ColumnId,
    /// Its name.
    pub name: String,
    /// Its type.
    pub of: TypeReference,
    /// The table's number and the column's, from 1, if it is one of a table as it is; else zeros.
    pub origin: (Oid, i16),
}
