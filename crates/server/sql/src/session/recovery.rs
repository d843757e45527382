//! Sessions of a standby: they read, and notice when the server becomes a primary.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::Session;
use crate::parse::statement::{Isolation, Maintenance, Transaction, TransactionModes, Utility};

/// The setting that clients are told of.
pub(super) const IN_HOT_STANDBY: &str = "in_hot_standby";

/// The error of what only a standby can do.
pub(crate) fn not_in_recovery() -> Box<SqlError> {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "recovery is not in progress")
        .with_hint("Recovery control functions can only be executed during recovery.")
}

impl Session {
    /// Looks whether the server is a standby, before a transaction begins. The client is told of a change with the next statement.
    pub(super) fn note_role(&mut self) {
        let is_standby = self.database.is_standby();
        if self.asker.is_in_recovery != is_standby {
            self.asker.is_in_recovery = is_standby;
            self.settings.state_fact(IN_HOT_STANDBY, if is_standby { "on" } else { "off" });
        }
    }

    /// Refuses modes that a transaction on a standby cannot have.
    pub(super) fn check_modes(&self, modes: TransactionModes) -> SqlResult<()> {
        if !self.asker.is_in_recovery {
            return Ok(());
        }
        if modes.is_read_only == Some(false) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot set transaction read-write mode during recovery",
            ));
        }
        if modes.isolation == Some(Isolation::Serializable) {
            let message = "cannot use serializable mode in a hot standby";
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return Err(error.with_hint("You can use REPEATABLE READ instead."));
        }
        Ok(())
    }

    /// `25006`: utilities that write, whatever the transaction's modes.
    pub(super) fn check_utility(&self, utility: &Utility) -> SqlResult<()> {
        let is_write = match utility {
            Utility::Transaction(
                Transaction::Prepare(_) | Transaction::CommitPrepared(_) | Transaction::RollbackPrepared(_),
            )
            | Utility::Listen(_)
            | Utility::Unlisten(_)
            | Utility::Notify { .. } => true,
            Utility::Maintenance(maintenance) => !matches!(maintenance, Maintenance::Checkpoint),
            _ => false,
        };
        if !is_write || !self.database.is_standby() {
            return Ok(());
        }
        let message = format!("cannot execute {} during recovery", utility.tag());
        Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
    }
}
