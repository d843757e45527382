//! What a server does that defines, when it has opened a database: first objects, and what was discarded.
//!
//! Commits may wait for standbys, and those log in by what is here: so nothing here waits for a commit that standbys lack.

use seawall_engine::{Database, Transaction};
use seawall_values::{SqlError, SqlResult, SqlState};

use super::SchemaStore;
use crate::catalog::numbers::{BOOTSTRAP_ROLE, DATABASE_OWNER, PG_NAMESPACE, PUBLIC};
use crate::catalog::source::{Namespace, Role};
use crate::schema::privilege::{AccessItem, AccessList, ObjectKind, Privileges};
use crate::storage::engine_error::EngineResult;

/// A table of the engine that all sessions use.
pub(super) fn open_table(database: &Database, name: &str) -> SqlResult<seawall_engine::Table> {
    // Of its own: nobody waits for the standbys that a new table waits for.
    let session = database.new_session();
    match session.table(name) {
        Err(seawall_engine::Error::NoSuchTable { .. }) => {}
        found => return found.sql(),
    }
    check_all_visible(&session)?;
    let created = session.create_table(name).sql()?;
    session.quorum().keep_mark();
    Ok(created)
}

/// `55000` where the first objects of a database may be in its log, and are not visible: it would wait for standbys, which cannot log in.
fn check_all_visible(database: &Database) -> SqlResult<()> {
    if database.quorum().newest_waiting().is_none() {
        return Ok(());
    }
    let message = "the first objects of the database are not visible before a quorum of standbys has them";
    Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        .with_hint("The server ended while they were made. Start it once without synchronous_standby_names."))
}

impl SchemaStore {
    /// What a server does that defines, when it has opened the database.
    pub(super) fn begin_defining(&self, superuser: &str) -> SqlResult<()> {
        let session = self.database.new_session();
        let quorum = session.quorum();
        let mut transaction = session.begin();
        if self.namespace(&mut transaction, PUBLIC)?.is_none() {
            check_all_visible(&session)?;
            self.put_first_objects(&mut transaction, superuser)?;
            transaction.commit().sql()?;
            // A restart that did not show them would have nobody to log in, no standby either.
            quorum.keep_mark();
            return Ok(());
        }
        if session.handover().is_handed_over() {
            // Nothing is written before it is known who is the primary.
            return Ok(());
        }
        match quorum.newest_waiting() {
            // The next open removes what was discarded: what standbys lack may be the use of it.
            Some(newest) => self.note_change(newest),
            None => {
                self.remove_discarded(&mut transaction)?;
                transaction.commit().sql()?;
            }
        }
        Ok(())
    }

    fn put_first_objects(&self, transaction: &mut Transaction, superuser: &str) -> SqlResult<()> {
        let public = Namespace { oid: PUBLIC, name: "public".to_owned(), owner: DATABASE_OWNER };
        self.put_namespace(transaction, &public, None)?;
        let mut access = AccessList::of_new(ObjectKind::Schema, DATABASE_OWNER);
        access.items.push(AccessItem {
            grantee: 0,
            grantor: DATABASE_OWNER,
            privileges: Privileges::USAGE,
            grantable: Privileges::NONE,
        });
        self.put_access_list(transaction, (PUBLIC, PG_NAMESPACE, 0), Some(&access))?;
        let role = Role {
            is_superuser: true,
            creates_roles: true,
            creates_databases: true,
            can_log_in: true,
            replicates: true,
            bypasses_row_security: true,
            ..Role::plain(BOOTSTRAP_ROLE, superuser.to_owned())
        };
        self.put_role(transaction, &role, None)
    }
}
