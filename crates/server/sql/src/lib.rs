//! SQL with PostgreSQL's meaning over the storage engine.
//!
//! ```text
//!   text -> statement (parse) -> algebra (bind) -> plan (optimize) -> rows (execute)
//!                                   |                                   |
//!                                 schema  <------ definitions ------> storage (rows and index entries in the engine)
//! ```
//! * `parse`: text to sqlparser's tree, and the statements that sqlparser does not know.
//! * `bind`: names, types, casts, operators and functions as PostgreSQL resolves them; gives the algebra.
//! * `algebra`: relations and expressions over numbered columns. Nothing above the binder sees sqlparser's types.
//! * `optimize`: access by keys and indexes, order of joins, decorrelation; gives plans.
//! * `execute`: rows, pulled one by one from a plan.
//! * `schema`: tables, indexes, constraints, views, sequences: rows of the engine, in transactions like all others.
//! * `storage`: rows and index entries as bytes, and the checks that a change of a row makes.
//! * `catalog`: pg_catalog and information_schema as relations.
//! * `copy`: the forms of data that `COPY` reads and writes.
//! * `monitor`: what the server counts for those who look after it.
//! * `password`: what is kept of a password.
//! * `session`: transactions, settings, prepared statements, portals, cursors.

pub mod algebra;
mod bind;
pub mod catalog;
mod copy;
pub mod execute;
mod monitor;
pub mod optimize;
mod parse;
pub mod password;
pub mod schema;
pub mod session;
pub mod storage;

/// How many statements a text has, by the parser alone: for whoever draws texts, and looks for those that it cannot bear.
///
/// # Errors
/// `42601` and others, with their place in the text.
pub fn count_statements(text: &str) -> seawall_values::SqlResult<usize> {
    parse::parse(text).map(|parsed| parsed.len())
}
