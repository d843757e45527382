//! `COPY`: rows of a table from a client's data, and rows to a client.
//!
//! `FROM` runs an `INSERT` with parameters for each row, so defaults, checks, indexes and foreign keys are those of any insert.

use std::sync::Arc;

use seawall_values::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast::Expr;

use super::encode;
use super::plan::Planned;
use super::portal::Running;
use super::{EncodedRow, Session, Sink};
use crate::copy::{CopyColumn, CopyReader, CopyWriter, Next};
use crate::execute::{Counting, Environment, Execution};
use crate::parse::statement::Statement;
use crate::parse::statement::copy::{Copy, CopyColumns, CopyFormat, CopyOptions, CopyPlace, CopyWhat};
use crate::parse::statement::{Dml, ObjectName};
use crate::parse::{Text, parse};
use crate::schema::{Definition, Identity, Table};

/// Rows of an empty table beyond this go where no row needs a lock.
const LOAD_BYTES: u64 = if cfg!(test) { 2 << 10 } else { 256 << 10 };

impl Session {
    pub(super) fn copy(&mut self, text: &Text, copy: &Copy, sink: &mut dyn Sink) -> SqlResult<String> {
        match &copy.place {
            CopyPlace::Client => {}
            CopyPlace::File(_) => return Err(SqlError::unsupported("COPY of a file of the server")),
            CopyPlace::Program(_) => return Err(SqlError::unsupported("COPY of a program's data")),
        }
        self.open()?.has_begun_work = true;
        let rows = match (copy.is_from, &copy.what) {
            (true, CopyWhat::Table(name, columns)) => self.copy_from(text, name, columns, copy, sink)?,
            (true, CopyWhat::Query(_)) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "COPY FROM needs a table"));
            }
            (false, CopyWhat::Table(name, columns)) => {
                let text = self.copied_query(name, columns)?;
                self.copy_query(&Text::new(&text), None, &copy.options, sink)?
            }
            (false, CopyWhat::Query(dml)) => self.copy_query(text, Some(dml), &copy.options, sink)?,
        };
        Ok(format!("COPY {rows}"))
    }

    // To a client.

    fn copied_query(&mut self, name: &ObjectName, columns: &[String]) -> SqlResult<String> {
        let table = match self.named_relation(name)? {
            Definition::Table(table) if table.query.is_none() => table,
            Definition::Table(_) => {
                let message = format!("cannot copy from materialized view \"{}\"", name.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_hint("Try the COPY (SELECT ...) TO variant."));
            }
            Definition::View(_) => {
                let message = format!("cannot copy from view \"{}\"", name.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_hint("Try the COPY (SELECT ...) TO variant."));
            }
            _ => {
                let message = format!("cannot copy from \"{}\"", name.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        let listed = listed_columns(&table, columns)?;
        let names: Vec<String> =
            listed.iter().map(|position| quoted_always(&table.columns[*position].name)).collect();
        Ok(format!("SELECT {} FROM {}", names.join(", "), shown(name)))
    }

    fn copy_query(
        &mut self,
        text: &Text,
        dml: Option<&Dml>,
        options: &CopyOptions,
        sink: &mut dyn Sink,
    ) -> SqlResult<u64> {
        let (text, dml) = match dml {
            Some(dml) if !dml.returns_rows() => {
                let message = "COPY query must have a RETURNING clause";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            Some(dml) => (text.clone(), dml.clone()),
            None => parsed_dml(text.statement())?,
        };
        let now = self.begin_statement()?;
        let planned = Arc::new(self.plan(&text, &dml, &[], now)?);
        let is_binary = options.format == CopyFormat::Binary;
        let formats = [i16::from(is_binary)];
        let mut running = self.running(Arc::clone(&planned), &dml, Vec::new(), &formats)?;
        let names: Vec<&str> = planned.output().iter().map(|column| column.name.as_str()).collect();
        let quoted = forced(&options.force_quote, &names);
        let mut writer = CopyWriter::new(options, quoted);
        sink.copy_out(i8::from(is_binary), names.len())?;
        let mut data = Vec::new();
        writer.begin(names.iter().copied(), &mut data)?;
        if !is_binary && !data.is_empty() {
            sink.copy_data(&data)?;
            data.clear();
        }
        let rows = self.copy_rows(&mut running, &mut writer, &mut data, sink)?;
        writer.end(&mut data);
        if !data.is_empty() {
            sink.copy_data(&data)?;
        }
        Ok(rows)
    }

    fn copy_rows(
        &mut self,
        running: &mut Running,
        writer: &mut CopyWriter,
        data: &mut Vec<u8>,
        sink: &mut dyn Sink,
    ) -> SqlResult<u64> {
        let settings = self.settings.values();
        let cancel = Arc::clone(&self.cancel.requested);
        let mut rows = 0;
        self.with_tables(running.as_of, |tables| {
            let mut environment = Environment { storage: &mut *tables, settings: &settings, cancel: &cancel };
            let mut row = EncodedRow::default();
            while running.execution.next(&mut environment)? {
                let values = running.execution.values();
                running.encoding.encode(values, &settings, environment.storage, &mut row)?;
                writer.begin_row(data)?;
                let mut rest = row.bytes.as_slice();
                while let Some((length, after)) = rest.split_first_chunk::<4>() {
                    let length = usize::try_from(i32::from_be_bytes(*length)).ok();
                    let (value, after) = after.split_at(length.unwrap_or(0));
                    writer.field(length.map(|_| value), data)?;
                    rest = after;
                }
                writer.end_row(data);
                rows += 1;
                // A message for each row: drivers give what a message holds as a row.
                sink.copy_data(data)?;
                data.clear();
            }
            tables.finish_statement()
        })?;
        Ok(rows)
    }

    // From a client.

    fn copy_from(
        &mut self,
        text: &Text,
        name: &ObjectName,
        columns: &[String],
        copy: &Copy,
        sink: &mut dyn Sink,
    ) -> SqlResult<u64> {
        let table = match self.named_relation(name)? {
            Definition::Table(table) if table.query.is_none() => table,
            Definition::Table(_) => {
                let message = format!("cannot copy to materialized view \"{}\"", name.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            Definition::View(_) => {
                let message = format!("cannot copy to view \"{}\"", name.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_hint("To enable copying to a view, provide an INSTEAD OF INSERT trigger."));
            }
            _ => {
                let message = format!("cannot copy to \"{}\"", name.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        if self.open()?.is_read_only {
            let message = "cannot execute COPY FROM in a read-only transaction";
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        let listed = listed_columns(&table, columns)?;
        let planned = self.insert_of_parameters(text, name, &table, &listed, copy.condition.as_ref())?;
        let options = &copy.options;
        for (option, forced) in
            [("FORCE_NOT_NULL", &options.force_not_null), ("FORCE_NULL", &options.force_null)]
        {
            let is_listed =
                |name: &String| listed.iter().any(|position| table.columns[*position].name == *name);
            if let Some(name) = forced.iter().find(|name| !is_listed(name)) {
                let message = format!("{option} column \"{name}\" not referenced by COPY");
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
            }
        }
        let read = listed.iter().map(|position| {
            let name = &table.columns[*position].name;
            CopyColumn {
                name: name.clone(),
                is_never_null: options.force_not_null.contains(name),
                is_null_in_quotes: options.force_null.contains(name),
            }
        });
        let mut reader = CopyReader::new(options, &table.name, read.collect());
        let format = i16::from(options.format == CopyFormat::Binary);
        sink.copy_in(i8::from(options.format == CopyFormat::Binary), listed.len())?;
        self.insert_rows(&planned, &table, &mut reader, format, sink)
    }

    /// `INSERT INTO table (columns) VALUES ($1, ..)`, of the rows that meet the condition of the `COPY` with this text.
    fn insert_of_parameters(
        &mut self,
        text: &Text,
        name: &ObjectName,
        table: &Table,
        listed: &[usize],
        condition: Option<&Expr>,
    ) -> SqlResult<Planned> {
        let names: Vec<String> =
            listed.iter().map(|position| quoted_always(&table.columns[*position].name)).collect();
        let values: Vec<String> = (1..=listed.len()).map(|number| format!("${number}")).collect();
        // As in PostgreSQL: the data has the values of identity columns.
        let is_always = |position: &usize| table.columns[*position].identity == Some(Identity::Always);
        let overriding = if listed.iter().any(is_always) { "OVERRIDING SYSTEM VALUE " } else { "" };
        let insert = match listed.is_empty() {
            true => format!("INSERT INTO {} DEFAULT VALUES", shown(name)),
            false => format!(
                "INSERT INTO {} ({}) {overriding}VALUES ({})",
                shown(name),
                names.join(", "),
                values.join(", ")
            ),
        };
        let (_, Dml::Change(change)) = parsed_dml(&insert)? else {
            return Err(SqlError::internal("an INSERT that is none"));
        };
        let types: Vec<Oid> = listed.iter().map(|position| table.columns[*position].of.oid).collect();
        let now = self.begin_statement()?;
        // An error's position is one in the condition: what was written here has no errors.
        let (query, needed) = self.bind_with(text, &types, |binder| {
            binder.copied_where = condition.cloned();
            let (relation, output) = binder.change_statement(&change)?;
            let query = binder.finish(relation, output)?;
            Ok((query, binder.take_needed()))
        })?;
        self.check_privileges(&needed)?;
        self.planned(&query, now)
    }

    fn insert_rows(
        &mut self,
        planned: &Planned,
        table: &Arc<Table>,
        reader: &mut CopyReader,
        format: i16,
        sink: &mut dyn Sink,
    ) -> SqlResult<u64> {
        let settings = self.settings.values();
        let cancel = Arc::clone(&self.cancel.requested);
        let types = planned.parameters().iter().map(|of| (*of, encode::is_named(*of, format)));
        let types: Vec<(Oid, bool)> = types.collect();
        let mut rows = 0;
        // A block may go on for long, or end with a prepare, and others should not wait for that.
        let is_alone = !self.is_in_block();
        let mut execution =
            Execution::open(Arc::clone(&planned.plan), Vec::new(), self.limits(), Counting::Off);
        self.with_tables(planned.as_of, |tables| {
            let mut may_be_load = is_alone;
            loop {
                if may_be_load && tables.transaction.written_bytes() >= LOAD_BYTES {
                    tables.prepare_for_load(table)?;
                    may_be_load = false;
                }
                match reader.next()? {
                    Next::Row => {}
                    Next::More => {
                        match sink.next_copy_data()? {
                            Some(data) => reader.push(&data),
                            None => reader.finish(),
                        }
                        continue;
                    }
                    Next::End => break,
                }
                let values = execution.parameters_mut();
                values.clear();
                for (column, (of, is_named)) in types.iter().enumerate() {
                    let field = reader.field(column);
                    let value = match is_named {
                        true => encode::decode_named_parameter(*of, field, &settings, tables),
                        false => encode::decode_parameter(*of, format, field, &settings),
                    };
                    values.push(value.map_err(|error| reader.failed(error, Some(column)))?);
                }
                let mut environment =
                    Environment { storage: &mut *tables, settings: &settings, cancel: &cancel };
                rows +=
                    execution.change_again(&mut environment).map_err(|error| reader.failed(error, None))?;
            }
            tables.finish_statement()
        })?;
        Ok(rows)
    }
}

fn shown(name: &ObjectName) -> String {
    match &name.schema {
        Some(schema) => format!("{}.{}", quoted_always(schema), quoted_always(&name.name)),
        None => quoted_always(&name.name),
    }
}

fn quoted_always(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn parsed_dml(text: &str) -> SqlResult<(Text, Dml)> {
    match parse(text)?.pop() {
        Some(parsed) => match parsed.statement {
            Statement::Dml(dml) => Ok((parsed.text, dml)),
            Statement::Utility(_) => Err(SqlError::internal("COPY of something else than a query")),
        },
        None => Err(SqlError::internal("COPY of nothing")),
    }
}

/// Positions of the columns that are copied: those that are listed, or all but generated ones.
fn listed_columns(table: &Table, columns: &[String]) -> SqlResult<Vec<usize>> {
    let live = table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped);
    if columns.is_empty() {
        return Ok(live
            .filter(|(_, column)| column.generated.is_none())
            .map(|(position, _)| position)
            .collect());
    }
    let mut listed = Vec::with_capacity(columns.len());
    for name in columns {
        let found = table.columns.iter().position(|column| !column.is_dropped && column.name == *name);
        let Some(position) = found else {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        if table.columns[position].generated.is_some() {
            let message = format!("column \"{name}\" is a generated column");
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                .with_detail("Generated columns cannot be used in COPY."));
        }
        if listed.contains(&position) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        listed.push(position);
    }
    Ok(listed)
}

/// Which columns an option is about.
fn forced(columns: &CopyColumns, names: &[&str]) -> Vec<bool> {
    let is_forced = |name: &&str| match columns {
        CopyColumns::None => false,
        CopyColumns::All => true,
        CopyColumns::Listed(listed) => listed.iter().any(|known| known == name),
    };
    names.iter().map(is_forced).collect()
}
