//! PostgreSQL's types: values, their text and binary forms, order, operators, casts and functions.
//!
//! Nothing here knows tables, sessions or plans: `sql` finds the implementation of each function, operator and cast here, by the name
//! of the source that PostgreSQL's own catalog gives it (`pg_proc.prosrc`).
//!
//! * `datum`: one value. `error`: an error with PostgreSQL's code, message and position. `oid`: numbers of types.
//! * `system`: PostgreSQL 15's own catalogs of types, functions, operators, casts and aggregates, from a file.
//! * `text_form`, `binary_form`: input and output.
//! * `order`: what sorts, groups and joins compare.
//! * `assignment`: values of which an element or a member is set.
//! * `user_types`: types that users make.
//! * `functions`: one row for each implementation. `aggregates`, `set_returning`: those that take or give many rows.

pub mod aggregates;
pub mod assignment;
pub mod binary_form;
pub mod date_time;
pub mod datum;
pub mod error;
pub mod functions;
pub mod json;
mod jsonpath;
mod memory;
pub mod modifier;
pub mod numeric;
pub mod oid;
pub mod order;
pub mod random;
mod regex;
pub mod set_returning;
pub mod settings;
pub mod system;
pub mod text_form;
pub mod user_types;

pub use datum::{Array, Datum, Dimension, FieldNames, Interval, Record, TypeReference};
pub use error::{SqlError, SqlResult, SqlState};
pub use oid::Oid;
pub use settings::Settings;
