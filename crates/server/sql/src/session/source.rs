//! What system relations show of a session and its server.

use std::sync::Arc;

use seawall_replication::Replication;
use seawall_values::SqlResult;

use super::SqlDatabase;
use super::settings::SessionSettings;
use crate::catalog::source::{Activity, Asker, HeldLock, OpenCursor, PreparedStatement, Setting};
use crate::schema::store::SessionState;

/// The state of a session, while a statement runs.
pub(super) struct State<'a> {
    pub(super) database: &'a SqlDatabase,
    pub(super) asker: &'a Asker,
    pub(super) settings: &'a SessionSettings,
    pub(super) prepared: &'a dyn Fn() -> Vec<PreparedStatement>,
    pub(super) cursors: &'a dyn Fn() -> Vec<OpenCursor>,
    /// The number of the session.
    pub(super) session: i32,
}

impl SessionState for State<'_> {
    fn asker(&self) -> &Asker {
        self.asker
    }

    fn settings(&mut self) -> Vec<Setting> {
        self.settings.all()
    }

    fn activity(&mut self) -> Vec<Activity> {
        self.database.activity()
    }

    fn locks(&mut self) -> Vec<HeldLock> {
        self.database.locks()
    }

    fn prepared_statements(&mut self) -> Vec<PreparedStatement> {
        (self.prepared)()
    }

    fn replication(&self) -> Option<Arc<Replication>> {
        Some(Arc::clone(&self.database.replication))
    }

    fn promote(&self) -> SqlResult<()> {
        self.database.promote("pg_promote()").map(drop)
    }

    fn listening_channels(&mut self) -> Vec<String> {
        self.database.notifications.channels(self.session)
    }

    fn cursors(&mut self) -> Vec<OpenCursor> {
        (self.cursors)()
    }
}
