//! `FOR UPDATE` and the other row locks.

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{LockClause, LockType, NonBlock};

use super::super::Binder;
use crate::algebra::{ColumnId, Relation, RowLock, WaitPolicy};

impl Binder<'_> {
    pub(super) fn locked(&mut self, input: Relation, locks: &[LockClause]) -> SqlResult<Relation> {
        let mut rows: Vec<(ColumnId, RowLock, WaitPolicy)> = Vec::new();
        for lock in locks {
            let mode = match (&lock.lock_type, crate::parse::marked_lock(lock)) {
                (_, Some(mode)) => mode,
                (LockType::Update, None) => RowLock::Update,
                (LockType::Share, None) => RowLock::Share,
            };
            let policy = match lock.nonblock {
                None => WaitPolicy::Wait,
                Some(NonBlock::Nowait) => WaitPolicy::Fail,
                Some(NonBlock::SkipLocked) => WaitPolicy::Skip,
            };
            let wanted = crate::parse::locked_tables(lock);
            for name in &wanted {
                if !self.scope().tables.iter().any(|table| table.name == *name) {
                    let message =
                        format!("relation \"{name}\" in {} clause not found in FROM clause", lock_name(mode));
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
                }
            }
            let mut locked = Vec::new();
            for table in &self.scope().tables {
                if !wanted.is_empty() && !wanted.contains(&table.name) {
                    continue;
                }
                let Some(row) = table.row else { continue };
                locked.extend(table.table.as_ref().map(|table| table.oid));
                match rows.iter_mut().find(|(known, ..)| *known == row) {
                    Some(known) => {
                        known.1 = known.1.max(mode);
                        if policy != WaitPolicy::Wait {
                            known.2 = policy;
                        }
                    }
                    None => rows.push((row, mode, policy)),
                }
            }
            self.need_lock(&locked);
        }
        Ok(if rows.is_empty() { input } else { Relation::Lock { input: Box::new(input), rows } })
    }
}

/// The name of a lock in messages.
fn lock_name(mode: RowLock) -> &'static str {
    match mode {
        RowLock::KeyShare => "FOR KEY SHARE",
        RowLock::Share => "FOR SHARE",
        RowLock::NoKeyUpdate => "FOR NO KEY UPDATE",
        RowLock::Update => "FOR UPDATE",
    }
}

pub(super) fn locks_not_allowed(locks: &[LockClause], with: &str) -> Box<SqlError> {
    let mode = locks.first().map_or(RowLock::Update, |lock| match lock.lock_type {
        LockType::Update => RowLock::Update,
        LockType::Share => RowLock::Share,
    });
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{} is not allowed with {with}", lock_name(mode)))
}
