//! Functions in `FROM`, alone and in `ROWS FROM`, and `unnest`.

use std::sync::Arc;

use seawall_values::system::FunctionKind;
use seawall_values::user_types::is_domain;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{Expr, FunctionArg, ObjectName, TableAlias};

use super::super::call::{FunctionName, FunctionOrCast, has_set_implementation, not_there};
use super::super::expression::{folded, qualified};
use super::super::row_locks::Lockable;
use super::super::scope::{Clause, ScopeColumn};
use super::super::{Binder, constant};
use super::FromItem;
use crate::algebra::{Call, Expression, ExpressionKind, Relation, Written};

/// A function in FROM, and the columns of its rows.
type CalledRows = (Call, Vec<(String, TypeReference)>);

impl Binder<'_> {
    pub(super) fn table_function(
        &mut self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        has_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let position = self.position(name);
        let (schema, plain) = qualified(name);
        let named;
        let alias = match alias {
            Some(unnamed) if crate::parse::is_columns_mark(&unnamed.name) => {
                named =
                    TableAlias { name: sqlparser::ast::Ident::with_quote('"', &plain), ..unnamed.clone() };
                Some(&named)
            }
            alias => alias,
        };
        if schema.is_none() && plain == "unnest" && arguments.len() > 1 {
            let expressions: Option<Vec<Expr>> = arguments
                .iter()
                .map(|argument| match argument {
                    FunctionArg::Unnamed(sqlparser::ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                    _ => None,
                })
                .collect();
            if let Some(expressions) = expressions {
                return self.unnest(&expressions, has_ordinality, alias);
            }
        }
        let call = self.in_clause(Clause::From, |binder| {
            let message = "set-returning functions must appear at top level of FROM";
            let (bound, is_variadic) =
                binder.without_sets(message, |binder| binder.arguments(arguments, position))?;
            binder.call(
                &FunctionName { schema: schema.clone(), name: plain.clone() },
                bound,
                is_variadic,
                position,
            )
        })?;
        let chosen = match call {
            FunctionOrCast::Function(chosen) => *chosen,
            FunctionOrCast::Cast(value) => {
                return self.value_in_from(*value, &plain, has_ordinality, alias);
            }
        };
        match chosen.function.kind {
            FunctionKind::Aggregate => {
                let message = "aggregate functions are not allowed in functions in FROM";
                return Err(SqlError::new(SqlState::GROUPING_ERROR, message).at(position));
            }
            FunctionKind::Window => {
                let message = "window functions are not allowed in functions in FROM";
                return Err(SqlError::new(SqlState::WINDOWING_ERROR, message).at(position));
            }
            _ => {}
        }
        if let Some(own) = &chosen.own {
            let own = Arc::clone(own);
            if has_ordinality {
                return Err(SqlError::unsupported("WITH ORDINALITY of a function of a user").at(position));
            }
            let (function, arguments) = (chosen.function.clone(), chosen.arguments.clone());
            let call = Call { function, arguments, written: Written::Function };
            let outputs = self.function_columns(&call, chosen.result, &plain, alias, position)?;
            self.locks_of(&alias.map_or(plain, |alias| folded(&alias.name)), Lockable::Other("a function"))?;
            return self.own_in_from(&own, chosen, outputs, alias, position);
        }
        let takes_columns = seawall_values::set_returning::takes_columns(&chosen.function.source);
        if !chosen.function.returns_set && !takes_columns {
            let call =
                Call { function: chosen.function, arguments: chosen.arguments, written: Written::Function };
            let value = self.implemented(call, chosen.result, position)?;
            return self.value_in_from(value, &plain, has_ordinality, alias);
        }
        if !has_set_implementation(&chosen.function) {
            return Err(not_there(&chosen.function).at(position));
        }
        let mut call =
            Call { function: chosen.function, arguments: chosen.arguments, written: Written::Function };
        let outputs = self.function_columns(&call, chosen.result, &plain, alias, position)?;
        if !takes_columns {
            return self.functions(vec![(call, outputs)], &plain, has_ordinality, alias);
        }
        call.arguments.extend(column_arguments(&outputs));
        let domains = self.domains_of_rows(chosen.result, alias)?;
        let (relation, mut columns) = self.rows_of_calls(vec![(call, outputs)], has_ordinality);
        let relation = self.with_domains(relation, &mut columns, &domains)?;
        self.function_item(relation, columns, &plain, false, alias)
    }

    /// The domains of the columns of a row type, or of those that the alias defines; 0: none.
    fn domains_of_rows(&mut self, result: Oid, alias: Option<&TableAlias>) -> SqlResult<Vec<Oid>> {
        if super::super::types::is_row_type(result) {
            return self.row_domains(result);
        }
        let definitions = alias.map(|alias| alias.columns.as_slice()).unwrap_or_default();
        let mut domains = Vec::with_capacity(definitions.len());
        for of in definitions.iter().filter_map(|column| column.data_type.as_ref()) {
            let of = self.type_of(of)?.oid;
            domains.push(if is_domain(of) { of } else { 0 });
        }
        Ok(domains)
    }

    /// Rows whose values meet the conditions of domains; the columns become those with the values that were looked at.
    fn with_domains(
        &mut self,
        relation: Relation,
        columns: &mut [ScopeColumn],
        domains: &[Oid],
    ) -> SqlResult<Relation> {
        let mut values = Vec::new();
        for (column, domain) in columns.iter_mut().zip(domains).filter(|(_, domain)| **domain != 0) {
            let checked = self.checked(super::super::column(column.id, column.of), *domain, *domain)?;
            column.id = self.new_column();
            values.push((column.id, checked));
        }
        match values.is_empty() {
            true => Ok(relation),
            false => Ok(Relation::Compute { input: Box::new(relation), values }),
        }
    }

    /// The columns that a function returns: name and type.
    fn function_columns(
        &mut self,
        call: &Call,
        result: seawall_values::Oid,
        name: &str,
        alias: Option<&TableAlias>,
        position: Option<u32>,
    ) -> SqlResult<Vec<(String, TypeReference)>> {
        let outputs = super::super::types::result_columns(call);
        if !outputs.is_empty() {
            return Ok(outputs);
        }
        if super::super::types::is_row_type(result) {
            return self.row_columns(result);
        }
        if result == oid::RECORD {
            let definitions = alias.map(|alias| alias.columns.as_slice()).unwrap_or_default();
            let defined: Option<Vec<_>> = definitions
                .iter()
                .map(|column| column.data_type.as_ref().map(|of| (folded(&column.name), of)))
                .collect();
            return match defined {
                Some(defined) if !defined.is_empty() => {
                    defined.into_iter().map(|(name, of)| Ok((name, self.value_type_of(of)?))).collect()
                }
                _ => Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "a column definition list is required for functions returning \"record\"",
                )
                .at(position)),
            };
        }
        // The alias of a function that returns one value names the value, too.
        let name = alias.map_or_else(|| name.to_owned(), |alias| folded(&alias.name));
        Ok(vec![(name, TypeReference::of(result))])
    }

    fn functions(
        &mut self,
        calls: Vec<CalledRows>,
        name: &str,
        has_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let is_scalar = calls.len() == 1
            && !has_ordinality
            && calls.iter().all(|(call, outputs)| outputs.len() == 1 && call.function.result != oid::RECORD);
        let (relation, columns) = self.rows_of_calls(calls, has_ordinality);
        self.function_item(relation, columns, name, is_scalar, alias)
    }

    /// The rows of functions, and their columns.
    fn rows_of_calls(
        &mut self,
        calls: Vec<CalledRows>,
        has_ordinality: bool,
    ) -> (Relation, Vec<ScopeColumn>) {
        let mut columns = Vec::new();
        let mut functions = Vec::new();
        for (call, outputs) in calls {
            let mut made = Vec::new();
            for (name, of) in outputs {
                let id = self.new_column();
                made.push(id);
                columns.push(ScopeColumn { name, id, of, origin: (0, 0) });
            }
            functions.push((call, made));
        }
        let ordinality = has_ordinality.then(|| self.new_column());
        if let Some(id) = ordinality {
            let of = TypeReference::of(oid::INT8);
            columns.push(ScopeColumn { name: "ordinality".to_owned(), id, of, origin: (0, 0) });
        }
        (Relation::Functions { functions, ordinality }, columns)
    }

    fn function_item(
        &mut self,
        relation: Relation,
        columns: Vec<ScopeColumn>,
        name: &str,
        is_scalar: bool,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let shown = alias.map_or_else(|| name.to_owned(), |alias| folded(&alias.name));
        self.locks_of(&shown, Lockable::Other("a function"))?;
        let mut item = self.aliased(relation, name.to_owned(), None, columns, alias, None)?;
        if let Some(first) = item.tables.first_mut() {
            first.is_scalar = is_scalar;
        }
        Ok(item)
    }

    /// `ROWS FROM (f(..), g(..))`.
    pub(super) fn rows_from(
        &mut self,
        functions: &[FunctionArg],
        has_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let mut calls = Vec::with_capacity(functions.len());
        for function in functions {
            let FunctionArg::Unnamed(sqlparser::ast::FunctionArgExpr::Expr(Expr::Function(call))) = function
            else {
                return Err(SqlError::unsupported("ROWS FROM of what is no function"));
            };
            calls.extend(self.row_source(call)?);
        }
        self.functions(calls, "", has_ordinality, alias)
    }

    /// One function of `ROWS FROM`, or several `unnest` for one with several arrays.
    fn row_source(&mut self, call: &sqlparser::ast::Function) -> SqlResult<Vec<CalledRows>> {
        let position = self.position(&call.name);
        let sqlparser::ast::FunctionArguments::List(list) = &call.args else {
            return Err(SqlError::unsupported("ROWS FROM of this function").at(position));
        };
        let (schema, plain) = qualified(&call.name);
        if schema.is_none() && plain == "unnest" && list.args.len() > 1 {
            let array = |argument| match argument {
                &FunctionArg::Unnamed(sqlparser::ast::FunctionArgExpr::Expr(ref array)) => Ok(array.clone()),
                _ => Err(SqlError::unsupported("unnest of this argument").at(position)),
            };
            let arrays: Vec<Expr> = list.args.iter().map(array).collect::<SqlResult<_>>()?;
            return self.unnest_calls(&arrays, None);
        }
        let chosen = self.in_clause(Clause::From, |binder| {
            let message = "set-returning functions must appear at top level of FROM";
            let (bound, is_variadic) =
                binder.without_sets(message, |binder| binder.arguments(&list.args, position))?;
            binder.call(&FunctionName { schema, name: plain.clone() }, bound, is_variadic, position)
        })?;
        let FunctionOrCast::Function(chosen) = chosen else {
            return Err(SqlError::unsupported(format!("{plain} in ROWS FROM")).at(position));
        };
        if chosen.own.is_some() {
            return Err(SqlError::unsupported("a function of a user in ROWS FROM").at(position));
        }
        let is_set = chosen.function.returns_set;
        let is_known = chosen.function.kind == FunctionKind::Function
            && !seawall_values::set_returning::takes_columns(&chosen.function.source);
        if !is_known || (is_set && !has_set_implementation(&chosen.function)) {
            return Err(not_there(&chosen.function).at(position));
        }
        let call =
            Call { function: chosen.function, arguments: chosen.arguments, written: Written::Function };
        let outputs = self.function_columns(&call, chosen.result, &plain, None, position)?;
        Ok(vec![(call, outputs)])
    }

    pub(super) fn unnest(
        &mut self,
        arrays: &[Expr],
        has_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let calls = self.unnest_calls(arrays, alias)?;
        self.functions(calls, "unnest", has_ordinality, alias)
    }

    fn unnest_calls(&mut self, arrays: &[Expr], alias: Option<&TableAlias>) -> SqlResult<Vec<CalledRows>> {
        let mut calls = Vec::with_capacity(arrays.len());
        for array in arrays {
            let position = self.position(array);
            let value = self.in_clause(Clause::From, |binder| binder.expression(array))?;
            let name = FunctionName { schema: Some("pg_catalog".to_owned()), name: "unnest".to_owned() };
            let argument = super::super::call::Argument { name: None, value };
            let FunctionOrCast::Function(chosen) = self.call(&name, vec![argument], false, position)? else {
                return Err(SqlError::internal("unnest that is a cast"));
            };
            let call =
                Call { function: chosen.function, arguments: chosen.arguments, written: Written::Function };
            let name = match (arrays.len(), alias) {
                (1, Some(alias)) => folded(&alias.name),
                _ => "unnest".to_owned(),
            };
            let outputs = if super::super::types::is_row_type(chosen.result) {
                let columns = self.row_columns(chosen.result)?;
                if columns.len() == 1 {
                    return Err(SqlError::unsupported("unnest of rows of one field in FROM").at(position));
                }
                columns
            } else {
                vec![(name, TypeReference::of(chosen.result))]
            };
            calls.push((call, outputs));
        }
        Ok(calls)
    }

    /// A function that returns one value is a table of one row.
    fn value_in_from(
        &mut self,
        value: Expression,
        name: &str,
        has_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let shown = alias.map_or_else(|| name.to_owned(), |alias| folded(&alias.name));
        self.locks_of(&shown, Lockable::Other("a function"))?;
        let fields = self.fields_of(&value)?;
        let mut values = Vec::new();
        let mut columns = Vec::new();
        let is_scalar = fields.is_empty();
        if is_scalar {
            let (id, of) = (self.new_column(), value.of);
            let name = alias.map_or_else(|| name.to_owned(), |alias| folded(&alias.name));
            columns.push(ScopeColumn { name, id, of, origin: (0, 0) });
            values.push((id, value));
        } else {
            for (index, (name, of)) in fields.into_iter().enumerate() {
                let id = self.new_column();
                columns.push(ScopeColumn { name, id, of, origin: (0, 0) });
                let kind = ExpressionKind::Field(Box::new(value.clone()), index);
                values.push((id, Expression { kind, of, position: None }));
            }
        }
        if has_ordinality {
            let (id, of) = (self.new_column(), TypeReference::of(oid::INT8));
            columns.push(ScopeColumn { name: "ordinality".to_owned(), id, of, origin: (0, 0) });
            values.push((id, constant(seawall_values::Datum::Int8(1), oid::INT8)));
        }
        let relation = Relation::Compute { input: Box::new(Relation::OneRow), values };
        let mut item = self.aliased(relation, name.to_owned(), None, columns, alias, None)?;
        if let Some(first) = item.tables.first_mut() {
            first.is_scalar = is_scalar && !has_ordinality;
        }
        Ok(item)
    }
}

/// Names, types and modifiers of columns, as arguments of a function that makes rows of JSON.
fn column_arguments(columns: &[(String, TypeReference)]) -> [Expression; 3] {
    let array = |element: seawall_values::Oid,
                 array: seawall_values::Oid,
                 value: fn(&(String, TypeReference)) -> Datum| {
        let values = columns.iter().map(value).collect();
        constant(Datum::Array(Arc::new(seawall_values::Array::one_dimensional(element, values))), array)
    };
    [
        array(oid::TEXT, oid::TEXT_ARRAY, |(name, _)| Datum::text(name)),
        array(oid::OID, oid::OID_ARRAY, |(_, of)| Datum::Oid(of.oid)),
        array(oid::INT4, oid::INT4_ARRAY, |(_, of)| Datum::Int4(of.modifier)),
    ]
}
