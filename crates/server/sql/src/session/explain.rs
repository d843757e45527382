//! `EXPLAIN`.

use std::sync::Arc;

use seawall_values::{Datum, Oid, SqlError, SqlResult, oid};

use super::portal::text_column;
use super::utility::Caller;
use super::{Session, Sink};
use crate::algebra::OutputColumn;
use crate::execute::{Counting, Environment, Execution, ExplainOptions, explain, explain_json};
use crate::parse::statement::{Explain, ExplainFormat, Statement};
use crate::parse::{Dml, Text, Utility};

/// The column of its result.
pub(super) fn column(explain: &Explain) -> OutputColumn {
    let mut column = text_column("QUERY PLAN");
    if explain.options.format == ExplainFormat::Json {
        column.of = seawall_values::TypeReference::of(oid::JSON);
    }
    column
}

impl Session {
    pub(super) fn explain(
        &mut self,
        text: &Text,
        statement: &Explain,
        caller: Caller<'_>,
        sink: &mut dyn Sink,
    ) -> SqlResult<()> {
        if matches!(statement.options.format, ExplainFormat::Xml | ExplainFormat::Yaml) {
            return Err(SqlError::unsupported("EXPLAIN in this format"));
        }
        let (text, dml, parameters, types) = match &statement.statement {
            Statement::Dml(dml) => (text.clone(), dml.clone(), Vec::new(), Vec::new()),
            Statement::Utility(utility) => match &**utility {
                Utility::Execute(execute) => {
                    let prepared = self.prepared_named(&execute.name)?.clone();
                    let parameters = self.execute_arguments(execute, &prepared)?;
                    match &prepared.statement.statement {
                        Some(Statement::Dml(dml)) => (
                            prepared.statement.text.clone(),
                            dml.clone(),
                            parameters,
                            prepared.parameters.to_vec(),
                        ),
                        _ => return Err(SqlError::unsupported("EXPLAIN of this statement")),
                    }
                }
                Utility::Declare(declare) => (text.clone(), declare.query.clone(), Vec::new(), Vec::new()),
                _ => return Err(SqlError::unsupported("EXPLAIN of this statement")),
            },
        };
        let rows = self.explained(&text, &dml, (parameters, &types), statement)?;
        self.send_rows(&[column(statement)], rows, caller, sink)
    }

    fn explained(
        &mut self,
        text: &Text,
        dml: &Dml,
        (parameters, types): (Vec<Datum>, &[Oid]),
        statement: &Explain,
    ) -> SqlResult<Vec<Vec<Datum>>> {
        let as_of = self.begin_statement()?;
        let planned = self.plan(text, dml, types, as_of)?;
        let options = ExplainOptions {
            has_costs: statement.options.has_costs,
            is_verbose: statement.options.is_verbose,
        };
        let settings = self.settings.values();
        let mut executed = None;
        if statement.options.is_analyze {
            self.check_writable(dml)?;
            let (limits, cancel) = (self.limits(), Arc::clone(&self.cancel.requested));
            let mut execution =
                Execution::open(Arc::clone(&planned.plan), parameters, limits, Counting::Rows);
            self.with_tables(as_of, |tables| {
                let mut environment =
                    Environment { storage: &mut *tables, settings: &settings, cancel: &cancel };
                while execution.next(&mut environment)? {}
                tables.finish_statement()
            })?;
            executed = Some(execution);
        }
        Ok(match statement.options.format {
            ExplainFormat::Json => {
                let shown = explain_json(&planned.plan, executed.as_ref(), options, &settings);
                vec![vec![Datum::text(&shown)]]
            }
            _ => explain(&planned.plan, executed.as_ref(), options, &settings)
                .into_iter()
                .map(|line| vec![Datum::text(&line)])
                .collect(),
        })
    }
}
