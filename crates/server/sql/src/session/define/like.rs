//! `LIKE` in `CREATE TABLE`: what a table takes over from another one.

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult, SqlState, TypeReference};
use sqlparser::ast::Expr;

use super::super::Session;
use crate::catalog::numbers::PG_CLASS;
use crate::parse::Text;
use crate::parse::statement::definition::LikeClause;
use crate::schema::define::requests::{
    Commented, Expression, NewColumn, NewConstraint, NewConstraintKind, NewIndex, NewIndexKey, NewKey,
    SequenceOptions,
};
use crate::schema::privilege::Privileges;
use crate::schema::{Column, ConstraintKind, Definition, Index, IndexedValue, Sequence, Table};

impl Session {
    pub(super) fn liked_columns(&mut self, like: &LikeClause) -> SqlResult<Vec<NewColumn>> {
        let plain = |name: &str, of: TypeReference| NewColumn {
            name: name.to_owned(),
            of,
            is_not_null: false,
            default: None,
            identity: None,
            is_serial: false,
            generated: None,
            missing: None,
            domain: 0,
        };
        let found = self.named_relation(&like.table)?;
        if matches!(found, Definition::Table(_) | Definition::View(_)) {
            self.require_on(&found, Privileges::SELECT)?;
        }
        let table = match found {
            Definition::Table(table) => table,
            Definition::View(view) => {
                return Ok(view.columns.iter().map(|(name, of)| plain(name, *of)).collect());
            }
            _ => {
                let message = format!("relation \"{}\" is invalid in LIKE clause", like.table.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        let mut columns = Vec::with_capacity(table.columns.len());
        for column in table.columns.iter().filter(|column| !column.is_dropped) {
            let identity = match column.identity.filter(|_| like.with_identity) {
                Some(identity) => Some((identity, self.options_of(column)?)),
                None => None,
            };
            columns.push(NewColumn {
                is_not_null: column.is_not_null,
                default: copied_text(column.default.as_deref(), like.with_defaults),
                identity,
                domain: column.domain,
                generated: copied_text(column.generated.as_deref(), like.with_generated),
                ..plain(&column.name, column.of)
            });
        }
        Ok(columns)
    }

    /// The options of the sequence of an identity column.
    fn options_of(&mut self, column: &Column) -> SqlResult<SequenceOptions> {
        let database = Arc::clone(&self.database);
        let found = database.store.definition(self.engine_transaction()?, column.sequence)?;
        let Some(Definition::Sequence(sequence)) = found else { return Ok(SequenceOptions::default()) };
        Ok(options(&sequence))
    }

    pub(super) fn liked_constraints(&mut self, like: &LikeClause) -> SqlResult<Vec<NewConstraint>> {
        let Definition::Table(table) = self.named_relation(&like.table)? else { return Ok(Vec::new()) };
        let mut copied = Vec::new();
        for constraint in &table.constraints {
            let name = Some(constraint.name.clone());
            let (name, kind) = match &constraint.kind {
                ConstraintKind::Check(text) if like.with_constraints => {
                    let words = Expression { text: text.clone(), sequences: Vec::new() };
                    (name, NewConstraintKind::Check(words, Vec::new()))
                }
                ConstraintKind::Unique(index) if like.with_indexes => {
                    let Some(index) = table.indexes.iter().find(|known| known.oid == *index) else {
                        continue;
                    };
                    (None, NewConstraintKind::Key(liked_key(&table, index), index.is_primary))
                }
                ConstraintKind::Check(_) | ConstraintKind::Unique(_) | ConstraintKind::ForeignKey(_) => {
                    continue;
                }
            };
            copied.push(NewConstraint {
                name,
                kind,
                is_deferrable: constraint.is_deferrable,
                is_deferred: constraint.is_deferred,
                is_not_valid: false,
            });
        }
        Ok(copied)
    }

    /// Takes over what can be made only once the table is there: indexes of no constraint, and comments.
    pub(super) fn copy_liked(&mut self, like: &LikeClause, table: &Arc<Table>) -> SqlResult<()> {
        let Definition::Table(from) = self.named_relation(&like.table)? else { return Ok(()) };
        for index in from.indexes.iter().filter(|index| like.with_indexes && index.constraint == 0) {
            let request = liked_index(&from, index, table)?;
            self.with_definer(|definer| definer.create_index(&request))?;
        }
        if !like.with_comments {
            return Ok(());
        }
        let database = Arc::clone(&self.database);
        for comment in database.store.comments(self.engine_transaction()?, Some(from.oid))? {
            let position = usize::try_from(comment.column).ok().and_then(|number| number.checked_sub(1));
            if let (PG_CLASS, Some(position)) = (comment.class, position)
                && let Some(column) = from.columns.get(position)
            {
                let on = Commented::Column(table.oid, column.name.clone());
                self.with_definer(|definer| definer.comment(&on, Some(&comment.text)))?;
            }
        }
        Ok(())
    }
}

fn options(sequence: &Sequence) -> SequenceOptions {
    SequenceOptions {
        of: Some(sequence.of),
        start: Some(sequence.start),
        increment: Some(sequence.increment),
        minimum: Some(Some(sequence.minimum)),
        maximum: Some(Some(sequence.maximum)),
        cache: Some(sequence.cache),
        is_cycling: Some(sequence.is_cycling),
        restart: None,
        owned_by: None,
    }
}

fn liked_key(table: &Table, index: &Index) -> NewKey {
    let columns = index.keys.iter().filter_map(|key| match key.what {
        IndexedValue::Column(at) => Some(table.columns[at].name.clone()),
        IndexedValue::Expression(_) => None,
    });
    NewKey {
        columns: columns.collect(),
        included: index.included.iter().map(|at| table.columns[*at].name.clone()).collect(),
        is_nulls_not_distinct: index.is_nulls_not_distinct,
        index: None,
    }
}

/// The request for an index like one of another table. Expressions name columns, which have the same names here.
fn liked_index(from: &Table, index: &Index, to: &Table) -> SqlResult<NewIndex> {
    let mut keys = Vec::with_capacity(index.keys.len());
    for key in &index.keys {
        let function = match &key.what {
            IndexedValue::Expression(text) => called_function(text)?,
            IndexedValue::Column(_) => None,
        };
        let what = match &key.what {
            IndexedValue::Column(at) => {
                let name = &from.columns[*at].name;
                let found = to.columns.iter().position(|column| column.name == *name);
                let missing = || SqlError::internal(format!("no column {name} in a copied index"));
                IndexedValue::Column(found.ok_or_else(missing)?)
            }
            IndexedValue::Expression(text) => IndexedValue::Expression(text.clone()),
        };
        keys.push(NewIndexKey {
            what,
            function,
            of: key.of,
            is_descending: key.is_descending,
            is_nulls_first: key.is_nulls_first,
        });
    }
    Ok(NewIndex {
        table: to.oid,
        name: None,
        keys,
        included: index.included.iter().map(|at| from.columns[*at].name.clone()).collect(),
        is_unique: index.is_unique,
        is_nulls_not_distinct: index.is_nulls_not_distinct,
        predicate: index.predicate.clone(),
        if_not_exists: false,
    })
}

/// The name of the function, if an expression is a call.
fn called_function(text: &str) -> SqlResult<Option<String>> {
    Ok(match crate::parse::expression(&Text::new(text))? {
        Expr::Function(call) => Some(crate::bind::qualified(&call.name).1),
        _ => None,
    })
}

fn copied_text(text: Option<&str>, is_wanted: bool) -> Option<Expression> {
    let text = text.filter(|_| is_wanted)?;
    Some(Expression { text: text.to_owned(), sequences: Vec::new() })
}
