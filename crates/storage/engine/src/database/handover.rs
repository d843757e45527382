//! The face of a primary that hands its role over.

use std::time::Duration;

use seawall_types::Lsn;

use super::Database;
use crate::error::Error;
use crate::handover::HandoverRecord;
use crate::log::parking::Door;

/// The role of a primary, to be handed over to a standby: see [`Database::handover`].
///
/// In this order: `park`; see that the standby has everything up to there; `record`; order the standby to go on; then `refuse_writers` if it does,
/// `take_back` if it does not, and `refuse_writers` until that is known. The order must not reach the standby before `record` has returned,
/// and `take_back` must not be called while it may still be followed.
#[derive(Clone, Copy, Debug)]
pub struct Handover<'a> {
    database: &'a Database,
}

impl<'a> Handover<'a> {
    pub(super) fn new(database: &'a Database) -> Handover<'a> {
        Handover { database }
    }

    /// Parks all writers where their records would enter the log: they wait, and can be cancelled. Where the log ends: all before is durable
    /// and visible. Readers go on.
    ///
    /// # Errors
    /// `StandbysLack` if what is in the log is not visible within `limit`, because a quorum lacks it; `Parked` if writers are parked already;
    /// `ReadOnly` on a standby; `Stopped`. Writers go on then.
    pub fn park(&self, limit: Duration) -> Result<Lsn, Error> {
        self.database.engine().park_writers(limit)
    }

    /// Puts on record, durably, what is about to be ordered: a restart takes no writes from now on.
    ///
    /// # Errors
    /// `Parked` if no writers are parked; `DiskFull`, `Io`: it may be on record, or not. Call `take_back`.
    pub fn record(&self, record: &HandoverRecord) -> Result<(), Error> {
        self.database.engine().record_handover(record)
    }

    /// Writers are refused with `HandedOver` from now on, those that are parked, too: none of them has got anything into the log.
    pub fn refuse_writers(&self) {
        self.database.engine().refuse_writers();
    }

    /// The role stays here: forgets the record, durably, and lets writers go on.
    ///
    /// # Errors
    /// `Io`: writers stay parked, or refused. Call it again.
    pub fn take_back(&self) -> Result<(), Error> {
        self.database.engine().take_back()
    }

    /// Whether writers are refused.
    pub fn is_handed_over(&self) -> bool {
        self.database.engine().log.parking.door() == Door::HandedOver
    }

    /// Whether writers are parked.
    pub fn is_parked(&self) -> bool {
        self.database.engine().log.parking.door() == Door::Parked
    }
}
