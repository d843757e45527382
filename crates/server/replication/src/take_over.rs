//! The standby's part in a switchover: it goes on where the primary's log ends, if that is in order, and says what became of an order.
//!
//! **Invariant:** an order that was cancelled is never followed, however late it comes. So a primary that has cancelled its order may write
//! again. Orders are in connections only: none outlives this process, and so what is cancelled need not either.

use std::collections::VecDeque;

use parking_lot::Mutex;
use seawall_engine::{Database, Error};
use seawall_types::{Lsn, TimelineId};

/// So many cancelled orders are known. A primary has one under way.
const CANCELLED_MAX: usize = 256;

/// An order to go on where the primary's log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeOver {
    /// Its name: no other order has it.
    pub order: String,
    /// The timeline that ends.
    pub timeline: TimelineId,
    /// Where it ends.
    pub at: Lsn,
}

/// Why an order is not followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeOverError<E> {
    /// It was cancelled.
    #[error("the order {order} was cancelled")]
    Cancelled {
        /// Its name.
        order: String,
    },
    /// This server does not follow another one.
    #[error("this server is not a standby")]
    NotStandby,
    /// It is not where the primary's log ends.
    #[error(
        "this standby has the log up to {flushed} on timeline {timeline}, and the primary's log ends at {at}"
    )]
    Elsewhere {
        /// What it has.
        flushed: Lsn,
        /// On which timeline.
        timeline: TimelineId,
        /// What was asked for.
        at: Lsn,
    },
    /// The engine's answer to a look at it.
    #[error(transparent)]
    Database(#[from] Error),
    /// The promotion failed.
    #[error("{0}")]
    Promotion(E),
}

/// What became of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenOver {
    /// It is not followed, now or later: this server is a standby, on this timeline.
    Cancelled(TimelineId),
    /// This server is a primary, on this timeline.
    Promoted(TimelineId),
}

/// Orders that this server was given. See the module.
#[derive(Debug, Default)]
pub(crate) struct TakeOvers {
    cancelled: Mutex<VecDeque<String>>,
}

impl TakeOvers {
    /// Follows an order, with `promote`; the new timeline.
    pub(crate) fn follow<E>(
        &self,
        database: &Database,
        take_over: &TakeOver,
        promote: impl FnOnce() -> Result<(), E>,
    ) -> Result<TimelineId, TakeOverError<E>> {
        // Held to the end: what asks meanwhile is answered when it is known.
        let cancelled = self.cancelled.lock();
        if cancelled.contains(&take_over.order) {
            return Err(TakeOverError::Cancelled { order: take_over.order.clone() });
        }
        let standby = database.standby().ok_or(TakeOverError::NotStandby)?;
        let (timeline, flushed) = (standby.statistics()?.timeline, database.log().flushed());
        if timeline != take_over.timeline || flushed != take_over.at {
            return Err(TakeOverError::Elsewhere { flushed, timeline, at: take_over.at });
        }
        promote().map_err(TakeOverError::Promotion)?;
        Ok(database.log().timeline())
    }

    /// Cancels an order, unless it was followed.
    pub(crate) fn cancel(&self, database: &Database, order: &str) -> Result<TakenOver, Error> {
        let mut cancelled = self.cancelled.lock();
        let Some(standby) = database.standby() else {
            return Ok(TakenOver::Promoted(database.log().timeline()));
        };
        // Of one that has failed half way, the next start says which timeline it is on.
        if database.statistics().stopped {
            let cause = "its promotion may have begun, and the next start says what became of it".to_owned();
            return Err(Error::Stopped { cause });
        }
        let timeline = standby.statistics()?.timeline;
        if !cancelled.iter().any(|known| known == order) {
            cancelled.push_back(order.to_owned());
            if cancelled.len() > CANCELLED_MAX {
                cancelled.pop_front();
            }
        }
        Ok(TakenOver::Cancelled(timeline))
    }
}
