//! Rows and index entries as bytes of the engine, and the checks that a change of a row makes.
//!
//! ```text
//!   t16384:  key of the row        -> version, bitmap, values              row
//!   i16390:  index columns, key    -> (included columns)                   index_entry, not unique
//!   i16391:  index columns         -> key of the row, (included columns)   index_entry, unique
//! ```
//! A session has one [`StorageSession`] and goes through these steps:
//!
//! ```text
//!   statement:    transaction.begin_statement() --> as_of
//!                 SchemaReader: binder. Plan: kept until SchemaStore::definitions_changed_at() is after its as_of
//!                 TableStorage { transaction, as_of of the plan, .. }
//!                   --> Environment { storage: &mut tables, .. } --> Execution::next, or Definer { tables, .. }
//!                 TableStorage::finish_statement()        foreign keys are looked at, and act
//!   savepoint:    StorageSession::foreign_keys.mark(); after a rollback to it return_to(), forget_definitions()
//!   commit:       TableStorage::finish_transaction()      what is deferred
//!                 transaction.commit() --> end_transaction(); with changed definitions also forget_definitions(), SchemaStore::note_change()
//!   rollback:     the same without finish_transaction()
//! ```
//! A commit that answers 40001 for a table that was changed (`TableChanged`) has planned with an older definition: a statement that is
//! a transaction by itself can be planned and run again.
//!
//! * `kind`, `value`, `key`: one value in a row, and in a key.
//! * `row`: all of a row. `index_entry`: what an index has of it.
//! * `layout`: what statements need of a table, by its version. `table_storage`: what the executor calls; start there.
//! * `scan`: rows in the order of a key. `change`: rows come and go, and index entries with them.
//! * `new_rows`: tables are filled at once, as when they are rewritten or an index is built.
//! * `foreign_key`: rows that refer to others. `violation`: what is said of rows that break a constraint.
//! * `unique`: keys of deferrable constraints. `table_lock`: writers, and those who change a table or look at all of its rows, wait for each other.
//! * `lock_tag`: what the engine's locks stand for.
//! * `engine_error`: PostgreSQL's codes for what the engine says.

mod change;
pub mod engine_error;
pub mod foreign_key;
pub mod index_entry;
pub mod key;
pub mod kind;
pub(crate) mod layout;
pub(crate) mod lock_tag;
pub(crate) mod new_rows;
pub mod row;
pub(crate) mod row_check;
mod scan;
pub(crate) mod table_lock;
pub mod table_storage;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod unique;
pub mod value;
pub(crate) mod violation;

pub use index_entry::RowExpressions;
pub use table_lock::TableLockMode;
pub use table_storage::{SessionCalls, StorageSession, TableStorage};
