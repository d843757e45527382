//! A session sees its own `Async` commits as soon as they have returned.
//!
//! A commit becomes visible behind all that are ahead of it in the log, and a `Sync` one among those only when it is
//! durable. An `Async` commit returns before that. A reader that must see it waits for a flush, so only readers for
//! whom that is worth it do: those of the same session. Everybody else reads what is visible now.
//!
//! If the database stops before that flush, only recovery knows whether the commit survives. Its session gets `Stopped` then
//! for each read, and others go on reading.

use crossbeam_utils::CachePadded;
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::Lsn;

use crate::engine::Engine;
use crate::error::Error;
use crate::snapshots::RegisteredSnapshot;
use crate::transaction::lock_wait::SessionWaits;

/// Handles to a database that see each other's commits as soon as those have returned.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// No snapshot of the session that is taken from now on is older than this.
    sees_at_least: CachePadded<AtomicU64>,
    pub(crate) waits: SessionWaits,
}

impl Session {
    /// A session whose waits are known by what `waits` says.
    pub(crate) fn with_waits(waits: SessionWaits) -> Session {
        Session { waits, ..Session::default() }
    }

    fn sees_at_least(&self) -> Lsn {
        Lsn::new(self.sees_at_least.load(Ordering::SeqCst))
    }
}

impl Engine {
    /// From now on the session sees everything stamped at most `stamp`.
    pub(crate) fn show_to(&self, session: &Session, stamp: Lsn) {
        // What is visible is seen by all.
        if self.visible() < stamp {
            session.sees_at_least.fetch_max(stamp.get(), Ordering::SeqCst);
        }
    }

    /// Waits until everything is visible that the session must see; `Stopped` if that may never be. Whatever the session
    /// read then would lack a commit that it was told has succeeded.
    pub(crate) fn wait_for_session(&self, session: &Session) -> Result<(), Error> {
        self.require_visible(session.sees_at_least(), Some(&session.waits.cancel))
    }

    /// A snapshot for the session.
    pub(crate) fn register_snapshot_for(&self, session: &Session) -> Result<RegisteredSnapshot, Error> {
        self.wait_for_session(session)?;
        Ok(self.register_snapshot())
    }
}
