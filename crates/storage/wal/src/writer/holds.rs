//! The holds of a log that is open, for those who need the log: an archive, a standby, a backup.

use std::sync::Arc;

use seawall_types::Lsn;

use super::Log;
use crate::holds::{HoldError, HoldInfo, HoldOptions, HoldPosition};

impl Log {
    /// Keeps the log from `from` on, until the hold is released or lost. Durable when it returns.
    /// The holder moves the position forward as it needs less.
    ///
    /// # Errors
    /// `Exists`, `Name`, `Reserved`, `TooMany`; `NotRetained` if the log is not kept from `from` on any more; `Io`.
    pub fn hold(
        &self,
        name: &str,
        options: HoldOptions,
        from: Lsn,
        created_micros: i64,
    ) -> Result<Arc<HoldPosition>, HoldError> {
        self.holds.create(name, options, from, created_micros)
    }

    /// As `hold`, in place of the hold of this name, lost or not, if there is one: that is over then. If the power goes, or the
    /// call fails, either the one or the other is there.
    ///
    /// # Errors
    /// As `hold`, but for `Exists`: the one that was there stays.
    pub fn replace_hold(
        &self,
        name: &str,
        options: HoldOptions,
        from: Lsn,
        created_micros: i64,
    ) -> Result<Arc<HoldPosition>, HoldError> {
        self.holds.replace(name, options, from, created_micros)
    }

    /// The position of a hold that was made before, by this process or another.
    ///
    /// # Errors
    /// `Unknown`, and `Lost`.
    pub fn find_hold(&self, name: &str) -> Result<Arc<HoldPosition>, HoldError> {
        self.holds.find(name)
    }

    /// Changes how many bytes a hold may hold; `None`: any number. Durable when it returns. What is held beyond is given up by the next
    /// clean-up.
    ///
    /// # Errors
    /// `Unknown`; `Io`: the limit is as it was.
    pub fn limit_hold(&self, name: &str, limit_bytes: Option<u64>) -> Result<(), HoldError> {
        self.holds.limit(name, limit_bytes)
    }

    /// Ends a hold, lost or not. Durable when it returns.
    ///
    /// # Errors
    /// `Unknown`; `Io`: it is over in this process, and may be there again in the next.
    pub fn release_hold(&self, name: &str) -> Result<(), HoldError> {
        self.holds.release(name, None)
    }

    /// As `release_hold`, of the very hold that `position` was given out for: not of one that was made since under its name.
    ///
    /// # Errors
    /// As `release_hold`.
    pub fn release_this_hold(&self, name: &str, position: &Arc<HoldPosition>) -> Result<(), HoldError> {
        self.holds.release(name, Some(position))
    }

    /// Whether the hold that `position` was given out for is still there.
    ///
    /// # Errors
    /// `Lost`; `Unknown` if it was released, even if there is another one of its name.
    pub fn check_hold(&self, name: &str, position: &Arc<HoldPosition>) -> Result<(), HoldError> {
        self.holds.check(name, position)
    }

    /// Ends the hold of `position`, which ends with the process, if it is there. Makes no disk call.
    pub fn forget_hold(&self, name: &str, position: &Arc<HoldPosition>) {
        self.holds.forget(name, position);
    }

    /// Who holds the log, by name.
    pub fn holds(&self) -> Vec<HoldInfo> {
        self.holds.list()
    }
}
