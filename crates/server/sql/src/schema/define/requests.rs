//! What statements ask for, with names resolved where they mean something that is there.

use seawall_values::user_types::CompositeField;
use seawall_values::{Datum, Oid, TypeReference};

use crate::schema::privilege::{ObjectKind, Privileges};
use crate::schema::{Identity, IndexedValue, MaterializedQuery, ReferentialAction};

/// What happens to objects that depend on one that goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behavior {
    /// `RESTRICT`: they are a reason to refuse.
    #[default]
    Restrict,
    /// `CASCADE`: they go, too.
    Cascade,
}

/// A kind of relation, as statements name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    /// A table.
    Table,
    /// A view.
    View,
    /// A materialized view.
    MaterializedView,
    /// A sequence.
    Sequence,
    /// An index.
    Index,
}

/// Which relation a statement means, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationName {
    /// The schema.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
}

impl RelationName {
    /// As messages show it.
    pub fn shown(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// An expression of SQL, in PostgreSQL's own words, with the sequences that it uses.
///
/// Columns are named alone (`a`), without their table. A relation in it is its number, so that it can be renamed:
/// `nextval('16390'::regclass)`. Whoever shows an expression puts names there (`catalog::definition_text::with_relation_names`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expression {
    /// The words.
    pub text: String,
    /// Numbers of sequences in it, such as of `nextval('s'::regclass)`.
    pub sequences: Vec<Oid>,
}

/// Options of a sequence; those that are not given have PostgreSQL's defaults, or stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceOptions {
    /// `AS`.
    pub of: Option<Oid>,
    /// `START`.
    pub start: Option<i64>,
    /// `INCREMENT`.
    pub increment: Option<i64>,
    /// `MINVALUE`; `Some(None)`: `NO MINVALUE`.
    pub minimum: Option<Option<i64>>,
    /// `MAXVALUE`; `Some(None)`: `NO MAXVALUE`.
    pub maximum: Option<Option<i64>>,
    /// `CACHE`.
    pub cache: Option<i64>,
    /// `CYCLE`, or `NO CYCLE`.
    pub is_cycling: Option<bool>,
    /// `RESTART`; `Some(None)`: with the start value.
    pub restart: Option<Option<i64>>,
    /// `OWNED BY`: a table and the position of its column; `Some(None)`: `NONE`.
    pub owned_by: Option<Option<(Oid, usize)>>,
}

/// A column of a new table, or one that is added.
#[derive(Clone, Debug)]
pub struct NewColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub of: TypeReference,
    /// `NOT NULL`.
    pub is_not_null: bool,
    /// `DEFAULT`.
    pub default: Option<Expression>,
    /// `GENERATED .. AS IDENTITY`, with options of its sequence.
    pub identity: Option<(Identity, SequenceOptions)>,
    /// `serial` and its like: a sequence is made for the column.
    pub is_serial: bool,
    /// `GENERATED ALWAYS AS (..) STORED`.
    pub generated: Option<Expression>,
    /// For a column that is added, with a default that gives every row the same: that value. Rows need not be written again then.
    pub missing: Option<Datum>,
    /// The domain whose conditions its values meet; 0: none.
    pub domain: Oid,
}

impl NewColumn {
    /// A column with nothing but its name and its type.
    pub fn plain(name: String, of: TypeReference) -> NewColumn {
        NewColumn {
            name,
            of,
            is_not_null: false,
            default: None,
            identity: None,
            is_serial: false,
            generated: None,
            missing: None,
            domain: 0,
        }
    }
}

/// A constraint, by itself or with a column.
#[derive(Clone, Debug)]
pub struct NewConstraint {
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// What it demands.
    pub kind: NewConstraintKind,
    /// `DEFERRABLE`.
    pub is_deferrable: bool,
    /// `INITIALLY DEFERRED`.
    pub is_deferred: bool,
    /// `NOT VALID`.
    pub is_not_valid: bool,
}

/// What a new constraint demands.
#[derive(Clone, Debug)]
pub enum NewConstraintKind {
    /// `CHECK`: the expression, and the columns in it.
    Check(Expression, Vec<String>),
    /// `PRIMARY KEY` (`true`) or `UNIQUE`.
    Key(NewKey, bool),
    /// `FOREIGN KEY`.
    ForeignKey(NewForeignKey),
}

/// A primary or unique key.
#[derive(Clone, Debug, Default)]
pub struct NewKey {
    /// Its columns.
    pub columns: Vec<String>,
    /// `INCLUDE`.
    pub included: Vec<String>,
    /// `NULLS NOT DISTINCT`.
    pub is_nulls_not_distinct: bool,
    /// `USING INDEX`: its number.
    pub index: Option<Oid>,
}

/// A foreign key.
#[derive(Clone, Debug)]
pub struct NewForeignKey {
    /// Its columns.
    pub columns: Vec<String>,
    /// The table that it refers to; 0: the new table itself.
    pub target: Oid,
    /// The columns there; empty: those of its primary key.
    pub target_columns: Vec<String>,
    /// `ON UPDATE`.
    pub on_update: ReferentialAction,
    /// `ON DELETE`.
    pub on_delete: ReferentialAction,
    /// `MATCH FULL`.
    pub is_match_full: bool,
}

/// `CREATE TABLE`.
#[derive(Clone, Debug)]
pub struct NewTable {
    /// Its name.
    pub name: String,
    /// Its schema: see `Definer::namespace_of_new`.
    pub namespace: Oid,
    /// `TEMPORARY`.
    pub is_temporary: bool,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Its columns.
    pub columns: Vec<NewColumn>,
    /// Its constraints, with those of columns, in order.
    pub constraints: Vec<NewConstraint>,
    /// `WITH (..)`, as `name=value`.
    pub options: Vec<String>,
    /// Of a materialized view: what its rows come from.
    pub query: Option<MaterializedQuery>,
}

/// A column or expression that a new index orders by.
#[derive(Clone, Debug)]
pub struct NewIndexKey {
    /// A column of the table, or an expression over its columns.
    pub what: IndexedValue,
    /// The name of the function, if the expression is a call: what PostgreSQL names the index by.
    pub function: Option<String>,
    /// The type of the value.
    pub of: TypeReference,
    /// `DESC`.
    pub is_descending: bool,
    /// `NULLS FIRST`; as `is_descending` unless said otherwise.
    pub is_nulls_first: bool,
}

/// `CREATE INDEX`.
#[derive(Clone, Debug)]
pub struct NewIndex {
    /// Its table.
    pub table: Oid,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// What it orders by.
    pub keys: Vec<NewIndexKey>,
    /// `INCLUDE`.
    pub included: Vec<String>,
    /// `UNIQUE`.
    pub is_unique: bool,
    /// `NULLS NOT DISTINCT`.
    pub is_nulls_not_distinct: bool,
    /// `WHERE`.
    pub predicate: Option<String>,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
}

/// `CREATE VIEW`.
#[derive(Clone, Debug)]
pub struct NewView {
    /// Its name.
    pub name: String,
    /// Its schema.
    pub namespace: Oid,
    /// `OR REPLACE`.
    pub or_replace: bool,
    /// Its columns.
    pub columns: Vec<(String, TypeReference)>,
    /// Its query.
    pub query: String,
    /// The search path that the query is read with.
    pub search_path: Vec<String>,
    /// Relations in the query, each with a column that it uses, from 1; 0: none of them.
    pub uses: Vec<(Oid, u16)>,
    /// Its options, as `pg_class.reloptions` shows them.
    pub options: Vec<String>,
}

/// `CREATE SEQUENCE`.
#[derive(Clone, Debug)]
pub struct NewSequence {
    /// Its name.
    pub name: String,
    /// Its schema.
    pub namespace: Oid,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Its options.
    pub options: SequenceOptions,
}

/// `ALTER COLUMN .. TYPE`.
#[derive(Clone, Debug)]
pub struct ColumnType {
    /// The new type.
    pub of: TypeReference,
    /// The new value, as an expression over the columns as they were; `None`: the values stay, as from `varchar(10)` to `text`.
    pub using: Option<String>,
    /// The default, with a cast to the new type.
    pub default: Option<String>,
    /// The domain whose conditions the values are to meet; 0: none.
    pub domain: Oid,
}

/// One action of `ALTER TABLE`. A statement with several binds each of them to the table that the one before has made.
#[derive(Clone, Debug)]
pub enum TableChange {
    /// `ADD COLUMN`, with constraints that were written with it.
    AddColumn {
        /// The column.
        column: NewColumn,
        /// Its constraints.
        constraints: Vec<NewConstraint>,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
    },
    /// `DROP COLUMN`.
    DropColumn {
        /// Its name.
        name: String,
        /// `IF EXISTS`.
        if_exists: bool,
        /// `CASCADE`.
        behavior: Behavior,
    },
    /// `RENAME COLUMN`: the name, and the new one.
    RenameColumn(String, String),
    /// `ALTER COLUMN .. TYPE`.
    SetType(String, ColumnType),
    /// `SET DEFAULT`; `None`: `DROP DEFAULT`.
    SetDefault(String, Option<Expression>),
    /// `SET NOT NULL` (`true`), `DROP NOT NULL`.
    SetNotNull(String, bool),
    /// `ADD GENERATED .. AS IDENTITY`.
    AddIdentity(String, Identity, SequenceOptions),
    /// `SET GENERATED ..`, and options of the sequence.
    SetIdentity(String, Option<Identity>, SequenceOptions),
    /// `DROP IDENTITY`; `true`: `IF EXISTS`.
    DropIdentity(String, bool),
    /// `DROP EXPRESSION`; `true`: `IF EXISTS`.
    DropExpression(String, bool),
    /// `ADD CONSTRAINT`, and keys.
    AddConstraint(NewConstraint),
    /// `DROP CONSTRAINT`.
    DropConstraint {
        /// Its name.
        name: String,
        /// `IF EXISTS`.
        if_exists: bool,
        /// `CASCADE`.
        behavior: Behavior,
    },
    /// `RENAME CONSTRAINT`: the name, and the new one.
    RenameConstraint(String, String),
    /// `ALTER CONSTRAINT`: whether it is deferrable, and deferred.
    AlterConstraint(String, bool, bool),
    /// `VALIDATE CONSTRAINT`.
    ValidateConstraint(String),
    /// `SET (..)`, as `name=value`; a name that is there already gets the value.
    SetOptions(Vec<String>),
    /// `RESET (..)`: names.
    ResetOptions(Vec<String>),
}

/// `DROP TABLE`, `DROP VIEW`, `DROP SEQUENCE`, `DROP INDEX`.
#[derive(Clone, Debug)]
pub struct DropRelations {
    /// The kind that the statement names.
    pub kind: RelationKind,
    /// The relations.
    pub names: Vec<RelationName>,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// `CASCADE`.
    pub behavior: Behavior,
}

/// `DROP SCHEMA`, `DROP ROLE`.
#[derive(Clone, Debug)]
pub struct DropNamed {
    /// The names.
    pub names: Vec<String>,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// `CASCADE`; not for roles.
    pub behavior: Behavior,
}

/// `TRUNCATE`.
#[derive(Clone, Debug)]
pub struct Truncate {
    /// The tables.
    pub tables: Vec<Oid>,
    /// `RESTART IDENTITY`.
    pub restarts_identity: bool,
    /// `CASCADE`.
    pub behavior: Behavior,
}

/// `CREATE SCHEMA`.
#[derive(Clone, Debug)]
pub struct NewNamespace {
    /// Its name.
    pub name: String,
    /// `AUTHORIZATION`; `None`: who asks.
    pub owner: Option<Oid>,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
}

/// Options of a role; those that are not given have PostgreSQL's defaults, or stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// `SUPERUSER`.
    pub is_superuser: Option<bool>,
    /// `INHERIT`.
    pub inherits: Option<bool>,
    /// `CREATEROLE`.
    pub creates_roles: Option<bool>,
    /// `CREATEDB`.
    pub creates_databases: Option<bool>,
    /// `LOGIN`.
    pub can_log_in: Option<bool>,
    /// `REPLICATION`.
    pub replicates: Option<bool>,
    /// `BYPASSRLS`.
    pub bypasses_row_security: Option<bool>,
    /// `CONNECTION LIMIT`.
    pub connection_limit: Option<i32>,
    /// `PASSWORD`, as its verifier (`crate::password`); `Some(None)`: `NULL`.
    pub password: Option<Option<String>>,
    /// `VALID UNTIL`: microseconds since 2000-01-01 UTC; `Some(None)`: for ever.
    pub valid_until: Option<Option<i64>>,
}

/// `CREATE ROLE`, `CREATE USER`.
#[derive(Clone, Debug)]
pub struct NewRole {
    /// Its name.
    pub name: String,
    /// Its options.
    pub options: RoleOptions,
    /// `IN ROLE`.
    pub member_of: Vec<Oid>,
    /// `ROLE`, and (`true`) `ADMIN`.
    pub members: Vec<(Oid, bool)>,
}

/// A setting of `ALTER ROLE .. SET` and `ALTER DATABASE .. SET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    /// `SET name = value`.
    Set(String, String),
    /// `RESET name`.
    Reset(String),
    /// `RESET ALL`.
    ResetAll,
}

/// What `COMMENT ON` is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commented {
    /// A table, view, sequence or index.
    Relation(Oid),
    /// A column of a table or view, by its name.
    Column(Oid, String),
    /// A constraint of a table, by its name.
    Constraint(Oid, String),
    /// A type, or (`true`) a domain.
    Type(RelationName, bool),
    /// A function.
    Function(Oid),
    /// A schema.
    Namespace(Oid),
    /// A role.
    Role(Oid),
    /// The database.
    Database(String),
}

/// `GRANT` and `REVOKE` of privileges, and `ALTER DEFAULT PRIVILEGES`.
#[derive(Clone, Debug)]
pub struct ChangeOfPrivileges {
    /// `GRANT`, not `REVOKE`.
    pub is_grant: bool,
    /// `WITH GRANT OPTION`, `GRANT OPTION FOR`.
    pub is_of_option: bool,
    /// Privileges, and columns that they are about (none: the object); empty: all that the objects have.
    pub privileges: Vec<WrittenPrivilege>,
    /// On what.
    pub objects: Vec<PrivilegedObject>,
    /// The roles that get or lose them; 0: all roles.
    pub grantees: Vec<Oid>,
    /// What `REVOKE` does about privileges that were granted on.
    pub behavior: Behavior,
}

/// A privilege of `GRANT` and `REVOKE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPrivilege {
    /// `None`: `ALL`, of columns.
    pub privilege: Option<Privileges>,
    /// The columns that it is about; none: the object.
    pub columns: Vec<String>,
}

/// An object that privileges are granted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivilegedObject {
    /// A table, view or sequence.
    Relation(Oid),
    /// A sequence: another relation is refused.
    Sequence(Oid),
    /// A schema.
    Schema(Oid),
    /// The database.
    Database,
    /// A function.
    Function(Oid),
    /// All relations, or functions, of a kind in a schema.
    AllIn(ObjectKind, Oid),
    /// Objects of a kind that a role makes later, in a schema or (0) in any.
    New(Oid, Oid, ObjectKind),
}

/// A change of the fields of a composite type.
#[derive(Clone, Debug)]
pub enum FieldChange {
    /// `ADD ATTRIBUTE`.
    Add(CompositeField),
    /// `DROP ATTRIBUTE`.
    Drop {
        /// Which.
        name: String,
        /// Whether it may be missing.
        if_exists: bool,
    },
    /// `ALTER ATTRIBUTE .. TYPE`.
    Alter(CompositeField),
    /// `RENAME ATTRIBUTE`.
    Rename {
        /// Which.
        name: String,
        /// Its new name.
        to: String,
    },
}

/// A label that an enum gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLabel {
    /// Its text.
    pub label: String,
    /// Whether it may be there already.
    pub if_not_exists: bool,
    /// Whether before it, and the label that it comes next to; `None`: it is the last one.
    pub neighbour: Option<(bool, String)>,
}

/// `CREATE DOMAIN`.
#[derive(Clone, Debug)]
pub struct NewDomain {
    /// Its name.
    pub name: String,
    /// The number of its schema.
    pub namespace: Oid,
    /// The type of its values.
    pub base: TypeReference,
    /// The domain that it is made of; 0: none.
    pub parent: Oid,
    /// `NOT NULL`.
    pub is_not_null: bool,
    /// `DEFAULT`, as an expression of SQL.
    pub default: Option<String>,
    /// Names, if they were given any, and expressions of SQL over `value`.
    pub checks: Vec<(Option<String>, String)>,
}

/// `ALTER DOMAIN`.
#[derive(Clone, Debug)]
pub enum DomainChange {
    /// `SET DEFAULT`; `None`: `DROP DEFAULT`.
    SetDefault(Option<String>),
    /// `SET NOT NULL`, `DROP NOT NULL`.
    SetNotNull(bool),
    /// `ADD CHECK`.
    AddCheck {
        /// Its name, if it was given one.
        name: Option<String>,
        /// An expression of SQL over `value`.
        condition: String,
        /// `NOT VALID`: rows that are there are not looked at.
        is_not_valid: bool,
    },
    /// `DROP CONSTRAINT`.
    DropCheck {
        /// Its name.
        name: String,
        /// Whether it may be gone already.
        if_exists: bool,
    },
    /// `RENAME CONSTRAINT`.
    RenameCheck {
        /// Its name.
        name: String,
        /// The new one.
        to: String,
    },
    /// `VALIDATE CONSTRAINT`.
    ValidateCheck(String),
}
