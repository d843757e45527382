//! Tables that a transaction in doubt creates, drops, truncates, renames or alters.
//!
//! ```text
//!   prepare:   held, in the log's critical section       others that have written to such a table wait until the decision
//!   decision:  applied, in the log's critical section,   who waited finds the table changed, or as it was
//!              then released
//! ```
//! Others cannot define such a table, as its rows of the catalog are locked. Who has written to it, or locked rows of it, can neither
//! commit nor prepare meanwhile: what the table is when the decision comes is not known yet, and an index that the transaction has
//! built must not miss a row.
//!
//! What is on disk: the rows of the catalog in the body of the prepare. At the next open the definitions are read from there.
//! Storages that were filled in parts are listed in `reclaim` until the decision, and no checkpoint cuts them out while they are held.

use std::sync::Arc;

use seawall_types::{Lsn, TableId};

use crate::catalog::logged_definitions::LoggedDefinitions;
use crate::catalog::{OpenObject, OpenObjects};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// Tables, each with the place of its rows after the decision; `None`: it is dropped.
    tables: Vec<(Arc<OpenObject>, Option<TableId>)>,
    given_up: u64,
    filled: Vec<TableId>,
}

impl Definitions {
    /// What `logged` says of the tables that are open in `objects`. The transaction has filled the storages `filled` in parts.
    pub(crate) fn new(
        logged: &LoggedDefinitions,
        filled: Vec<TableId>,
        objects: &OpenObjects,
    ) -> Definitions {
        let tables = logged.tables.iter().map(|(id, storage)| (objects.open(*id), *storage)).collect();
        Definitions { tables, given_up: logged.given_up, filled }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The tables.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Arc<OpenObject>> {
        self.tables.iter().map(|(object, _)| object)
    }

    /// Storages that were filled in parts.
    pub(crate) fn filled(&self) -> &[TableId] {
        &self.filled
    }

    /// Storages that the decision to commit gives up.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Keeps others from the tables from now on. In the log's critical section, or before anybody writes.
    pub(crate) fn hold(&self) {
        self.objects().for_each(|object| object.hold_definition());
    }

    /// The transaction is decided.
    pub(crate) fn release(&self) {
        self.objects().for_each(|object| object.release_definition());
    }

    /// The transaction commits with this stamp. In the log's critical section.
    pub(crate) fn apply(&self, stamp: Lsn) {
        for (object, storage) in &self.tables {
            let is_known = object.is_known();
            let stays = is_known && storage.is_some() && object.newest_storage() == *storage;
            if !stays {
                object.change(*storage, stamp);
            }
            // Renamed, or altered: which is not on record. One that is being opened may have been either.
            if stays || (!is_known && storage.is_some()) {
                object.alter(stamp);
            }
        }
    }
}
