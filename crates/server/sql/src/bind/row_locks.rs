//! `FOR UPDATE` and the other locking clauses: whose rows they lock.
//!
//! A clause is about the tables of its query, and about those of the views and subqueries in its `FROM`. Where a subquery is no more than a
//! selection of rows, its rows are locked by the query around it, after all conditions have been looked at; else by itself.
//!
//! ```text
//!   SELECT .. FROM v, t FOR UPDATE          locks: t.row, and u.row of v's text
//!                  |
//!                  +-- v: SELECT .. FROM u              pulled: u.row
//!                  +-- or: SELECT .. FROM u LIMIT 1     locks u.row below the LIMIT's query
//! ```

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{Distinct, LockClause, LockType, NonBlock, Query, Select, SetExpr};

use super::Binder;
use super::scope::Scope;
use crate::algebra::{ColumnId, Relation, RowLock, WaitPolicy, lock_clause};
use crate::schema::privilege::Privileges;

/// How rows are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowLocking {
    pub(super) mode: RowLock,
    wait: WaitPolicy,
}

impl RowLocking {
    /// Both: the stronger lock, and the impatient way to wait.
    fn and(self, other: RowLocking) -> RowLocking {
        let rank = |wait| match wait {
            WaitPolicy::Wait => 0,
            WaitPolicy::Skip => 1,
            WaitPolicy::Fail => 2,
        };
        let wait = if rank(other.wait) > rank(self.wait) { other.wait } else { self.wait };
        RowLocking { mode: self.mode.max(other.mode), wait }
    }
}

/// The rows of one scan, and how they are locked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockedRows {
    row: ColumnId,
    how: RowLocking,
}

/// What stands in `FROM`, to a locking clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lockable {
    /// A table, view or subquery.
    Rows,
    /// Something else, as a message calls it.
    Other(&'static str),
}

fn locking_of(lock: &LockClause) -> RowLocking {
    let mode = match (&lock.lock_type, crate::parse::marked_lock(lock)) {
        (_, Some(mode)) => mode,
        (LockType::Update, None) => RowLock::Update,
        (LockType::Share, None) => RowLock::Share,
    };
    let wait = match lock.nonblock {
        None => WaitPolicy::Wait,
        Some(NonBlock::Nowait) => WaitPolicy::Fail,
        Some(NonBlock::SkipLocked) => WaitPolicy::Skip,
    };
    RowLocking { mode, wait }
}

pub(super) fn not_allowed(mode: RowLock, with: &str) -> Box<SqlError> {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("{} is not allowed with {with}", lock_clause(mode)),
    )
}

/// Clauses that stand where no row can be locked.
pub(super) fn locks_not_allowed(locks: &[LockClause], with: &str) -> Box<SqlError> {
    not_allowed(locks.first().map_or(RowLock::Update, |lock| locking_of(lock).mode), with)
}

impl Binder<'_> {
    /// The innermost query begins: its clauses, and those of the query around that are about it.
    pub(super) fn begin_locks(&mut self, clauses: &[LockClause], pushed: &[RowLocking]) {
        let own = clauses.iter().map(|lock| (locking_of(lock), crate::parse::locked_tables(lock)));
        let pushed = pushed.iter().map(|how| (*how, Vec::new()));
        self.scope().locks = own.chain(pushed).collect();
    }

    /// How the clauses of the innermost query lock what has this name in its `FROM`.
    ///
    /// # Errors
    /// `0A000`: a clause names something whose rows cannot be locked.
    pub(super) fn locks_of(&mut self, name: &str, what: Lockable) -> SqlResult<Vec<RowLocking>> {
        let mut found = Vec::new();
        for (how, tables) in &self.scope().locks {
            let is_named = tables.iter().any(|table| table == name);
            match what {
                Lockable::Other(what) if is_named => {
                    let message = format!("{} cannot be applied to {what}", lock_clause(how.mode));
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                Lockable::Rows if is_named || tables.is_empty() => found.push(*how),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Notes the rows of a scan, and the privilege that locking takes on the relation that was noted last.
    pub(super) fn note_locked(&mut self, row: Option<ColumnId>, locks: &[RowLocking]) {
        let Some(how) = locks.iter().copied().reduce(RowLocking::and) else { return };
        if let Some(needed) = self.needed.last_mut() {
            needed.privileges = needed.privileges.and(Privileges::UPDATE);
        }
        if let Some(row) = row {
            self.scope().locked.push(LockedRows { row, how });
        }
    }

    /// Binds a view or subquery of `FROM` whose rows are locked.
    pub(super) fn with_pushed_locks<T>(
        &mut self,
        locks: Vec<RowLocking>,
        body: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let outer_pushed = std::mem::replace(&mut self.pushed_locks, locks);
        let outer_pulled = std::mem::take(&mut self.pulled_locks);
        let bound = body(self);
        self.pushed_locks = outer_pushed;
        let pulled = std::mem::replace(&mut self.pulled_locks, outer_pulled);
        self.scope().locked.extend(pulled);
        bound
    }

    /// The locks that the query around pushes onto the query that begins.
    pub(super) fn take_pushed_locks(&mut self) -> Vec<RowLocking> {
        std::mem::take(&mut self.pushed_locks)
    }

    /// `42P01` if a clause names what is not in `FROM`.
    pub(super) fn check_locked_names(&mut self) -> SqlResult<()> {
        let scope = self.scope();
        for (how, tables) in &scope.locks {
            for name in tables {
                if !scope.tables.iter().any(|table| table.name == *name) {
                    let clause = lock_clause(how.mode);
                    let message = format!("relation \"{name}\" in {clause} clause not found in FROM clause");
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
                }
            }
        }
        Ok(())
    }

    /// `0A000` if rows of the innermost query cannot be told apart any more where they would be locked. `clauses`: it has such of its own.
    pub(super) fn check_locking(
        &mut self,
        select: &Select,
        has_clauses: bool,
        is_grouped: bool,
    ) -> SqlResult<()> {
        let scope = self.scope();
        let Some((how, _)) = scope.locks.first() else { return Ok(()) };
        // A view whose text names no table has nothing to lock, and nothing to refuse.
        if !has_clauses && scope.locked.is_empty() {
            return Ok(());
        }
        match what_hides_rows(select, scope, is_grouped) {
            Some(with) => Err(not_allowed(how.mode, with)),
            None => Ok(()),
        }
    }

    /// The rows of the innermost query with their locks. `is_plain`: a query around it can lock them as well.
    pub(super) fn locked(&mut self, input: Relation, is_plain: bool) -> Relation {
        let locked = std::mem::take(&mut self.scope().locked);
        if locked.is_empty() {
            return input;
        }
        if is_plain {
            self.pulled_locks.extend(locked);
            return input;
        }
        let mut rows: Vec<(ColumnId, RowLock, WaitPolicy)> = Vec::with_capacity(locked.len());
        for LockedRows { row, how } in locked {
            match rows.iter_mut().find(|(known, ..)| *known == row) {
                Some((_, mode, wait)) => {
                    let both = RowLocking { mode: *mode, wait: *wait }.and(how);
                    (*mode, *wait) = (both.mode, both.wait);
                }
                None => rows.push((row, how.mode, how.wait)),
            }
        }
        Relation::Lock { input: Box::new(input), rows }
    }
}

/// As `CheckSelectLocking` of PostgreSQL names it.
fn what_hides_rows(select: &Select, scope: &Scope, is_grouped: bool) -> Option<&'static str> {
    let has_groups = match &select.group_by {
        sqlparser::ast::GroupByExpr::Expressions(list, modifiers) => {
            !list.is_empty() || !modifiers.is_empty()
        }
        sqlparser::ast::GroupByExpr::All(_) => true,
    };
    match () {
        () if !matches!(select.distinct, None | Some(Distinct::All)) => Some("DISTINCT clause"),
        () if has_groups => Some("GROUP BY clause"),
        () if select.having.is_some() => Some("HAVING clause"),
        () if is_grouped => Some("aggregate functions"),
        () if !scope.windows.is_empty() => Some("window functions"),
        () if !scope.sets.is_empty() => Some("set-returning functions in the target list"),
        () => None,
    }
}

/// Whether a query is a selection of rows and no more, so that the query around it can lock them.
pub(super) fn is_selection(query: &Query) -> bool {
    matches!(query.body.as_ref(), SetExpr::Select(_))
        && query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
}
