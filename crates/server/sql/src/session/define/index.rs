//! `CREATE INDEX`.

use seawall_values::{SqlError, SqlResult, SqlState, TypeReference};
use sqlparser::ast::Expr;

use super::super::Session;
use super::table::Columns;
use crate::bind::Clause;
use crate::parse::statement::definition::{CreateIndex, IndexKeyDefinition};
use crate::schema::define::requests::{NewIndex, NewIndexKey};
use crate::schema::{IndexedValue, Table};

/// The columns of a table that expressions may name.
pub(super) fn columns_of(table: &Table) -> Columns {
    let live = table.columns.iter().filter(|column| !column.is_dropped);
    live.map(|column| (column.name.clone(), column.of)).collect()
}

impl Session {
    pub(super) fn create_index(&mut self, create: &CreateIndex) -> SqlResult<()> {
        if create.is_concurrent && self.is_in_block() {
            let message = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let table = self.indexed_table(&create.table)?;
        let columns = columns_of(&table);
        let mut keys = Vec::with_capacity(create.keys.len());
        for key in &create.keys {
            keys.push(self.index_key(&table, &columns, key)?);
        }
        let predicate = match &create.predicate {
            None => None,
            Some(condition) => {
                Some(self.condition_words(condition, &columns, Clause::IndexPredicate, "WHERE")?.0.text)
            }
        };
        let request = NewIndex {
            table: table.oid,
            name: create.name.clone(),
            keys,
            included: create.included.clone(),
            is_unique: create.is_unique,
            is_nulls_not_distinct: create.is_nulls_not_distinct,
            predicate,
            if_not_exists: create.if_not_exists,
        };
        self.with_definer(|definer| definer.create_index(&request)).map(|_| ())
    }

    fn index_key(
        &mut self,
        table: &Table,
        columns: &Columns,
        key: &IndexKeyDefinition,
    ) -> SqlResult<NewIndexKey> {
        super::table::check_collation(key.collation.as_ref())?;
        if let Some(class) = &key.operator_class
            && !class.name.ends_with("_ops")
        {
            let message =
                format!("operator class \"{}\" does not exist for access method \"btree\"", class.name);
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        let is_nulls_first = key.is_nulls_first.unwrap_or(key.is_descending);
        if let Expr::Identifier(name) = &key.value.expr {
            let name = crate::bind::folded(name);
            let found = table.columns.iter().position(|column| !column.is_dropped && column.name == name);
            let Some(position) = found else {
                let message = format!("column \"{name}\" does not exist");
                return Err(seawall_values::SqlError::new(
                    seawall_values::SqlState::UNDEFINED_COLUMN,
                    message,
                ));
            };
            return Ok(NewIndexKey {
                what: IndexedValue::Column(position),
                function: None,
                of: table.columns[position].of,
                is_descending: key.is_descending,
                is_nulls_first,
            });
        }
        self.begin_statement()?;
        let (words, of): (String, TypeReference) = self.bind_with(&key.value.text, &[], |binder| {
            let mut of = TypeReference::of(seawall_values::oid::UNKNOWN);
            let words =
                binder.words_of(&key.value.expr, columns, Clause::IndexExpression, |binder, value| {
                    let value = binder.known(value)?;
                    of = value.of;
                    Ok(value)
                })?;
            Ok((words.text, of))
        })?;
        let function = match &key.value.expr {
            Expr::Function(call) => Some(crate::bind::qualified(&call.name).1),
            _ => None,
        };
        Ok(NewIndexKey {
            what: IndexedValue::Expression(words),
            function,
            of,
            is_descending: key.is_descending,
            is_nulls_first,
        })
    }
}
