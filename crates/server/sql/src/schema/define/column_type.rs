//! `ALTER COLUMN .. TYPE`.

use std::sync::Arc;

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::index::type_name;
use super::requests::{ColumnType, SequenceOptions};
use super::{Definer, dependents, find_column, no_such_column, table};
use crate::catalog::columns_of_expression;
use crate::schema::{ConstraintKind, Index, IndexedValue, Table};
use crate::storage::key::can_refer;
use crate::storage::kind::Kind;

impl Definer<'_> {
    pub(super) fn set_type(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        to: &ColumnType,
    ) -> SqlResult<Arc<Table>> {
        let position = find_column(table, name).ok_or_else(|| no_such_column(name, table))?;
        table::check_column(name, to.of)?;
        self.hold_type(to.of.oid)?;
        self.hold_type(to.domain)?;
        self.check_unused(table, position)?;
        let kind = Kind::of(to.of.oid);
        self.check_foreign_keys(table, position, to.of.oid)?;
        let old = &table.columns[position];
        let mut changed = Table::clone(table);
        changed.columns[position].of = to.of;
        changed.columns[position].domain = to.domain;
        if old.default.is_some() {
            changed.columns[position].default.clone_from(&to.default);
        }
        if old.identity.is_some() {
            let options = SequenceOptions { of: Some(to.of.oid), ..SequenceOptions::default() };
            self.alter_sequence(old.sequence, &options)?;
        }
        for index in &mut changed.indexes {
            let mut with_type = Index::clone(index);
            for key in &mut with_type.keys {
                if matches!(key.what, IndexedValue::Column(column) if column == position) {
                    super::index::check_order(to.of.oid)?;
                    key.of = to.of;
                }
            }
            *index = Arc::new(with_type);
        }
        if to.using.is_none() && Kind::of(old.of.oid) == kind && kind != Kind::Tagged {
            return self.put_changed(changed, table);
        }
        let same = super::expression_text::column(name);
        let using = to.using.as_deref().unwrap_or(&same);
        let changed = self.rewrite(table, changed, Some((position, Some(using))))?;
        for constraint in &changed.constraints {
            if let ConstraintKind::ForeignKey(key) = &constraint.kind
                && constraint.is_validated
                && (key.columns.contains(&position) || key.target == changed.oid)
            {
                self.validate_foreign_key(&changed, constraint.oid)?;
            }
        }
        for (other, constraint) in self.tables.layout(&changed)?.shape.referring.clone() {
            let other = self.tables.table(other)?;
            self.validate_foreign_key(&other, constraint)?;
        }
        Ok(changed)
    }

    /// `0A000` if something else goes by the type of the column.
    fn check_unused(&mut self, table: &Arc<Table>, position: usize) -> SqlResult<()> {
        let name = &table.columns[position].name;
        if let Some(view) = self.view_of(table, Some(position))? {
            let message = "cannot alter type of a column used by a view or rule";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_detail(format!("rule _RETURN on view {view} depends on column \"{name}\"")));
        }
        for other in &table.columns {
            if let Some(generated) = &other.generated
                && columns_of_expression(table, generated).contains(&position)
                && other.name != *name
            {
                let message = "cannot alter type of a column used by a generated column";
                let detail = format!("Column \"{name}\" is used by generated column \"{}\".", other.name);
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(detail));
            }
        }
        for index in table.indexes.iter().filter(|index| dependents::uses(table, index, position)) {
            let has_expression = index.keys.iter().any(|key| matches!(key.what, IndexedValue::Expression(_)));
            if has_expression || index.predicate.is_some() {
                let message = "alteration of the type of a column in an expression of an index";
                return Err(SqlError::unsupported(message)
                    .with_hint(format!("Drop index \"{}\" before, and create it again after.", index.name)));
            }
        }
        Ok(())
    }

    /// `42804` if foreign keys could not compare values of the new type.
    fn check_foreign_keys(&mut self, table: &Arc<Table>, position: usize, of: Oid) -> SqlResult<()> {
        for constraint in &table.constraints {
            let ConstraintKind::ForeignKey(key) = &constraint.kind else { continue };
            let target = self.tables.table(key.target)?;
            for (column, on) in key.columns.iter().zip(&key.target_columns) {
                let on_of =
                    if target.oid == table.oid && *on == position { of } else { target.columns[*on].of.oid };
                if *column == position && !can_refer(of, on_of) {
                    let names = (&table.columns[*column].name[..], &target.columns[*on].name[..]);
                    return Err(incompatible(&constraint.name, names, (of, on_of)));
                }
            }
        }
        for (other, constraint) in self.tables.layout(table)?.shape.referring.clone() {
            let other = self.tables.table(other)?;
            let Some(constraint) = other.constraints.iter().find(|known| known.oid == constraint) else {
                continue;
            };
            let ConstraintKind::ForeignKey(key) = &constraint.kind else { continue };
            for (column, on) in key.columns.iter().zip(&key.target_columns) {
                let from = other.columns[*column].of.oid;
                if *on == position && other.oid != table.oid && !can_refer(from, of) {
                    let names = (&other.columns[*column].name[..], &table.columns[*on].name[..]);
                    return Err(incompatible(&constraint.name, names, (from, of)));
                }
            }
        }
        Ok(())
    }
}

/// `42804`: a foreign key cannot compare the types of its columns.
pub(super) fn incompatible(constraint: &str, names: (&str, &str), types: (Oid, Oid)) -> Box<SqlError> {
    let message = format!("foreign key constraint \"{constraint}\" cannot be implemented");
    let detail = format!(
        "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
        names.0,
        names.1,
        type_name(types.0),
        type_name(types.1)
    );
    SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_detail(detail)
}
