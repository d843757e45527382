//! `COPY`.

use sqlparser::ast::Expr;

use super::{Dml, ObjectName};

/// `COPY`.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) what: CopyWhat,
    /// `FROM`, not `TO`.
    pub(crate) is_from: bool,
    pub(crate) place: CopyPlace,
    pub(crate) options: CopyOptions,
    /// `WHERE`, of `FROM`.
    pub(crate) condition: Option<Expr>,
}

/// What is copied.
#[derive(Clone, Debug)]
pub(crate) enum CopyWhat {
    /// Columns of a table; none: all.
    Table(ObjectName, Vec<String>),
    Query(Dml),
}

/// From or to where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyPlace {
    /// `STDIN`, `STDOUT`: the client.
    Client,
    /// A file of the server.
    File(String),
    Program(String),
}

/// The form of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CopyFormat {
    #[default]
    Text,
    Csv,
    Binary,
}

/// A first line with names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CopyHeader {
    #[default]
    None,
    /// There is one.
    Line,
    /// There is one, and it has the names of the columns.
    Match,
}

/// Columns that an option is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum CopyColumns {
    #[default]
    None,
    All,
    Listed(Vec<String>),
}

/// Options, with the defaults of the format where none are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyOptions {
    pub(crate) format: CopyFormat,
    pub(crate) is_freeze: bool,
    pub(crate) delimiter: u8,
    pub(crate) null: String,
    pub(crate) header: CopyHeader,
    pub(crate) quote: u8,
    pub(crate) escape: u8,
    pub(crate) force_quote: CopyColumns,
    pub(crate) force_not_null: Vec<String>,
    pub(crate) force_null: Vec<String>,
    /// `None`: that of the client.
    pub(crate) encoding: Option<String>,
}
