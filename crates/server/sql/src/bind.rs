//! Names, types, casts, operators and functions as PostgreSQL resolves them: statements become the algebra.
//!
//! * `scope`: what a name of a column can mean. `from`, `select`, `set_operation`, `with`, `window`, `change`: clauses.
//! * `expression`, `call`, `domain`: values. `types`, `coerce`, `candidates`: the rules of PostgreSQL's chapter on type conversion.
//! * `function`: calls of functions that users have made. `materialized_view`: rows of materialized views.
//! * `needed`: the privileges that the statement takes. `kept_text`: what the text of a view has in the place of names.
//! * `same`: whether two expressions compute the same.

mod aggregate;
mod call;
mod candidates;
mod change;
mod coerce;
mod domain;
mod expression;
mod from;
mod function;
mod hypothetical;
mod kept_text;
mod literal;
mod materialized_view;
mod needed;
mod order_of_types;
mod row_locks;
mod same;
mod scope;
mod select;
mod set_operation;
pub(crate) mod type_name;
pub(crate) mod types;
mod window;
mod with;
mod written;

use rustc_hash::{FxHashMap, FxHashSet};
use seawall_values::{Datum, Oid, Settings, SqlError, SqlResult, SqlState, TypeReference, oid};

use crate::algebra::{ColumnId, CommonTableId, Expression, ExpressionKind, Query};
use crate::parse::Text;
use crate::schema::Definitions;

pub(crate) use expression::{folded, qualified};
pub(crate) use from::missing_relation;
pub(crate) use function::function_query;
pub(crate) use needed::NeededPrivileges;
pub(crate) use scope::{Clause, Scope};
pub(crate) use types::element_of as element_type;

/// Deeper statements are refused: the binder, like what follows it, is recursive.
const DEPTH_MAX: usize = 400;

/// Binds one statement.
pub(crate) struct Binder<'a> {
    /// The definitions that the transaction sees.
    pub(crate) definitions: &'a mut dyn Definitions,
    /// For literals of types whose text depends on them.
    pub(crate) settings: &'a Settings,
    /// The statement, to find positions in.
    pub(crate) text: &'a Text,
    /// Types of parameters; `UNKNOWN`: not known yet.
    pub(crate) parameters: Vec<Oid>,
    /// Whether parameters may be used, and their types found out.
    pub(crate) has_parameters: bool,
    /// Enclosing queries, innermost last.
    pub(crate) scopes: Vec<Scope>,
    /// Common table expressions that can be named, innermost last.
    pub(crate) common_tables: Vec<with::NamedTable>,
    next_column: u32,
    next_common_table: u32,
    depth: usize,
    /// Relations that the plan depends on: number and version.
    pub(crate) used: Vec<(Oid, u64)>,
    /// The search path of the view whose text is being bound.
    search_path: Option<Vec<String>>,
    /// What the text that a view keeps has in the place of parts of the statement: the columns that a `*` stands for, and numbers instead
    /// of names. `None`: the text is not kept.
    pub(crate) replaced: Option<Vec<(u32, u32, String)>>,
    /// Types of users that the statement names.
    pub(crate) used_types: Vec<Oid>,
    /// The owner of the view whose text is being bound.
    view_owner: Option<Oid>,
    /// The privileges that the statement takes.
    needed: Vec<NeededPrivileges>,
    /// The columns that texts name.
    named: FxHashSet<needed::NamedColumn>,
    /// Whether what is bound is the table's, and not the user's.
    is_for_table: bool,
    /// Locks of the query around that the rows of the next query get, too.
    pushed_locks: Vec<row_locks::RowLocking>,
    /// The rows that those locks are of, where the query around locks them itself.
    pulled_locks: Vec<row_locks::LockedRows>,
    /// Names of columns in the expression that `words_of` bound last.
    pub(crate) named_in_words: Vec<String>,
    /// `WHERE` of a `COPY` whose rows the statement inserts.
    pub(crate) copied_where: Option<sqlparser::ast::Expr>,
    /// The fields of columns that are records.
    record_fields: FxHashMap<ColumnId, Vec<(String, TypeReference)>>,
    /// Functions of users that are called.
    functions: function::FunctionState,
}

impl<'a> Binder<'a> {
    /// A binder of the statement `text`. `parameters` are the types that the client has said; 0 or `UNKNOWN`: none.
    pub(crate) fn new(
        definitions: &'a mut dyn Definitions,
        settings: &'a Settings,
        text: &'a Text,
        parameters: &[Oid],
    ) -> Binder<'a> {
        let known = |oid: &Oid| if *oid == 0 { oid::UNKNOWN } else { *oid };
        Binder {
            definitions,
            settings,
            text,
            parameters: parameters.iter().map(known).collect(),
            has_parameters: true,
            scopes: Vec::new(),
            common_tables: Vec::new(),
            next_column: 0,
            next_common_table: 0,
            depth: 0,
            used: Vec::new(),
            search_path: None,
            replaced: None,
            used_types: Vec::new(),
            view_owner: None,
            needed: Vec::new(),
            named: FxHashSet::default(),
            is_for_table: false,
            pushed_locks: Vec::new(),
            pulled_locks: Vec::new(),
            named_in_words: Vec::new(),
            copied_where: None,
            record_fields: FxHashMap::default(),
            functions: function::FunctionState::default(),
        }
    }

    /// The bound query of a statement that returns rows.
    pub(crate) fn query(&mut self, query: &sqlparser::ast::Query) -> SqlResult<Query> {
        let (relation, output) = self.bind_top_query(query)?;
        self.finish(relation, output)
    }

    /// With parameters whose type nothing has told, an error.
    pub(crate) fn finish(
        &mut self,
        relation: crate::algebra::Relation,
        output: Vec<crate::algebra::OutputColumn>,
    ) -> SqlResult<Query> {
        if let Some(index) = self.parameters.iter().position(|oid| *oid == oid::UNKNOWN) {
            return Err(SqlError::new(
                SqlState::INDETERMINATE_DATATYPE,
                format!("could not determine data type of parameter ${}", index + 1),
            ));
        }
        Ok(Query { relation, output, parameters: self.parameters.clone() })
    }

    /// Runs `body` where nothing can be named.
    pub(crate) fn in_new_scope<T>(
        &mut self,
        clause: Clause,
        body: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let outer =
            std::mem::replace(&mut self.scopes, vec![Scope { clause: Some(clause), ..Scope::default() }]);
        let result = body(self);
        self.scopes = outer;
        result
    }

    /// An expression over columns, converted by `convert`, in PostgreSQL's own words.
    pub(crate) fn words_of(
        &mut self,
        expr: &sqlparser::ast::Expr,
        columns: &[(String, TypeReference)],
        clause: Clause,
        convert: impl FnOnce(&mut Self, Expression) -> SqlResult<Expression>,
    ) -> SqlResult<crate::schema::define::requests::Expression> {
        let has_parameters = std::mem::replace(&mut self.has_parameters, false);
        let shown: Vec<scope::ScopeColumn> = columns
            .iter()
            .map(|(name, of)| scope::ScopeColumn {
                name: name.clone(),
                id: self.new_column(),
                of: *of,
                origin: (0, 0),
            })
            .collect();
        let named: Vec<(ColumnId, String)> =
            shown.iter().map(|column| (column.id, column.name.clone())).collect();
        let scope = Scope { columns: shown, clause: Some(clause), ..Scope::default() };
        let outer = std::mem::replace(&mut self.scopes, vec![scope]);
        let bound = self.expression(expr).and_then(|value| convert(self, value));
        self.scopes = outer;
        self.has_parameters = has_parameters;
        self.put_into_words(&bound?, &named)
    }

    /// A column, converted by `convert`, in PostgreSQL's own words.
    pub(crate) fn words_of_column(
        &mut self,
        name: &str,
        columns: &[(String, TypeReference)],
        convert: impl FnOnce(&mut Self, Expression) -> SqlResult<Expression>,
    ) -> SqlResult<crate::schema::define::requests::Expression> {
        let Some((_, of)) = columns.iter().find(|(known, _)| known == name) else {
            return Err(SqlError::internal(format!("no column {name}")));
        };
        let id = self.new_column();
        let value = convert(self, column(id, *of))?;
        self.put_into_words(&value, &[(id, name.to_owned())])
    }

    fn put_into_words(
        &mut self,
        value: &Expression,
        named: &[(ColumnId, String)],
    ) -> SqlResult<crate::schema::define::requests::Expression> {
        let text = written::words(value, named, self.settings)?;
        let mut used = Vec::new();
        crate::algebra::walk::visit(value, &mut |inner| {
            if let ExpressionKind::Column(id) = inner.kind
                && let Some((_, name)) = named.iter().find(|(known, _)| *known == id)
                && !used.contains(name)
            {
                used.push(name.clone());
            }
        });
        self.named_in_words = used;
        Ok(crate::schema::define::requests::Expression { text, sequences: written::relations(value) })
    }

    /// A value that a column of this type is given. `what`: as the error names the value.
    pub(crate) fn assigned_value(
        &mut self,
        value: Expression,
        of: TypeReference,
        what: &str,
        column: &str,
    ) -> SqlResult<Expression> {
        let (from, position) = (value.of.oid, value.position);
        let context = seawall_values::system::CastContext::Assignment;
        match self.coerce_to(value, of, context, crate::algebra::Written::ImplicitCast)? {
            Some(value) => Ok(value),
            None => {
                let message = format!(
                    "column \"{column}\" is of type {} but {what} is of type {}",
                    types::type_name(of.oid),
                    types::type_name(from)
                );
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                    .with_hint("You will need to rewrite or cast the expression.")
                    .at(position))
            }
        }
    }

    /// An argument of `EXECUTE`, as a value of the parameter's type.
    pub(crate) fn argument(&mut self, argument: &sqlparser::ast::Expr, of: Oid) -> SqlResult<Expression> {
        self.scopes.push(Scope { clause: Some(Clause::ExecuteParameter), ..Scope::default() });
        let bound = self.expression(argument);
        self.scopes.pop();
        let value = bound?;
        let (from, position) = (value.of.oid, value.position);
        let context = seawall_values::system::CastContext::Assignment;
        match self.coerce_to(value, TypeReference::of(of), context, crate::algebra::Written::ImplicitCast)? {
            Some(value) => Ok(value),
            None => {
                let message = format!(
                    "parameter of type {} cannot be coerced to the expected type {}",
                    types::type_name(from),
                    types::type_name(of)
                );
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                    .with_hint("You will need to rewrite or cast the expression.")
                    .at(position))
            }
        }
    }

    pub(crate) fn new_column(&mut self) -> ColumnId {
        self.next_column += 1;
        ColumnId(self.next_column)
    }

    fn new_common_table(&mut self) -> CommonTableId {
        self.next_common_table += 1;
        CommonTableId(self.next_common_table)
    }

    /// Runs `body` one level deeper.
    fn deeper<T>(&mut self, body: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        if self.depth >= DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .with_hint("Split the statement: it is nested too deeply."));
        }
        self.depth += 1;
        let result = body(self);
        self.depth -= 1;
        result
    }

    fn position(&self, of: &impl sqlparser::ast::Spanned) -> Option<u32> {
        self.text.position(of.span().start)
    }
}

/// A value that is known.
pub(crate) fn constant(datum: Datum, of: Oid) -> Expression {
    Expression { kind: ExpressionKind::Constant(datum), of: TypeReference::of(of), position: None }
}

/// A boolean expression.
pub(crate) fn boolean(kind: ExpressionKind, position: Option<u32>) -> Expression {
    Expression { kind, of: TypeReference::of(oid::BOOL), position }
}

/// The column as an expression.
pub(crate) fn column(id: ColumnId, of: TypeReference) -> Expression {
    Expression { kind: ExpressionKind::Column(id), of, position: None }
}

/// Whether an expression may give another value each time.
pub(crate) fn is_volatile(expression: &Expression) -> bool {
    let mut found = false;
    crate::algebra::walk::visit(expression, &mut |inner| {
        found |= match &inner.kind {
            ExpressionKind::Call(call) | ExpressionKind::SessionCall(call) => {
                call.function.volatility == b'v'
            }
            ExpressionKind::NextValue(_) | ExpressionKind::Subquery(_) => true,
            _ => false,
        };
    });
    found
}
