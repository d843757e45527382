//! What becomes of rows that refer to one that goes: they are a reason to refuse, go along, or refer to something else.

use std::sync::Arc;

use seawall_engine::RowLock;
use seawall_values::{Datum, SqlResult};

use super::{Event, What};
use crate::schema::{Constraint, ForeignKey, ReferentialAction, Table};
use crate::storage::key::converted;
use crate::storage::kind::Kind;
use crate::storage::row_check;
use crate::storage::table_storage::TableStorage;
use crate::storage::violation;

impl TableStorage<'_> {
    /// The row with the key `old` has gone, or has the key `new`.
    pub(super) fn act(
        &mut self,
        table: &Arc<Table>,
        constraint: &Constraint,
        key: &ForeignKey,
        old: &[Datum],
        new: Option<&[Datum]>,
    ) -> SqlResult<()> {
        let action = if new.is_some() { key.on_update } else { key.on_delete };
        match action {
            ReferentialAction::NoAction => self.refuse_referrers(table, constraint, key, old, true),
            ReferentialAction::Restrict => self.refuse_referrers(table, constraint, key, old, false),
            ReferentialAction::Cascade | ReferentialAction::SetNull | ReferentialAction::SetDefault => {
                self.change_referrers(table, key, action, old, new)?;
                if action == ReferentialAction::SetDefault {
                    // The default may be the key that has just gone.
                    self.session.foreign_keys.statement.push(Event {
                        table: table.oid,
                        constraint: constraint.oid,
                        is_deferrable: false,
                        is_deferred: false,
                        what: What::Acted { old: old.to_vec() },
                    });
                }
                Ok(())
            }
        }
    }

    /// An error if a row refers to the key; unless (`may_be_back`) another row has that key now.
    pub(super) fn refuse_referrers(
        &mut self,
        table: &Arc<Table>,
        constraint: &Constraint,
        key: &ForeignKey,
        old: &[Datum],
        may_be_back: bool,
    ) -> SqlResult<()> {
        if may_be_back && self.lock_target(key, old)? {
            return Ok(());
        }
        if self.referrers(table, key, old)?.is_empty() {
            return Ok(());
        }
        let (schema, target) = (self.schema_of(table)?, self.table(key.target)?);
        Err(violation::still_referenced(&schema, (table, constraint, key), &target, old, self.settings))
    }

    fn change_referrers(
        &mut self,
        table: &Arc<Table>,
        key: &ForeignKey,
        action: ReferentialAction,
        old: &[Datum],
        new: Option<&[Datum]>,
    ) -> SqlResult<()> {
        let layout = self.layout(table)?;
        let is_deleted = action == ReferentialAction::Cascade && new.is_none();
        let strength = if is_deleted { RowLock::Update } else { RowLock::NoKeyUpdate };
        for identity in self.referrers(table, key, old)? {
            let Some(row) = self.newest(&layout, &identity, strength)? else { continue };
            if !super::referrers::refers(table, key, &row, old)? {
                continue;
            }
            if is_deleted {
                self.delete_row(table, &identity, &row)?;
                continue;
            }
            let mut changed = row.clone();
            for (position, column) in key.columns.iter().copied().enumerate() {
                changed[column] = match (action, new) {
                    (ReferentialAction::Cascade, Some(new)) => {
                        converted(Kind::of(table.columns[column].of.oid), &new[position]).unwrap_or_default()
                    }
                    (ReferentialAction::SetDefault, _) => self.default_of(table, column, &row)?,
                    _ => Datum::Null,
                };
                row_check::allowed(table, column, &changed, self.expressions)?;
            }
            row_check::complete(table, &mut changed, self.expressions, self.settings)?;
            self.update_row(table, &identity, &row, &changed)?;
        }
        Ok(())
    }

    /// What the column of a row is without a value.
    fn default_of(&mut self, table: &Arc<Table>, position: usize, row: &[Datum]) -> SqlResult<Datum> {
        let column = &table.columns[position];
        match row_check::default_text(column, self.settings)? {
            Some(default) => self.expressions.assign(table, default, column, row),
            None => Ok(Datum::Null),
        }
    }
}
