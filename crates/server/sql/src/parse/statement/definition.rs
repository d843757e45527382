//! Statements that define objects: names, types and expressions as they were written. The binder makes the requests of
//! `schema::define` from them.

use sqlparser::ast::{DataType, Expr};

use super::super::text::Text;
use super::{Dml, ObjectName};
use crate::schema::define::requests::{Behavior, RelationKind, SettingChange};
use crate::schema::privilege::ObjectKind;
use crate::schema::{Identity, ReferentialAction};

/// A statement that defines something.
#[derive(Clone, Debug)]
pub(crate) enum Definition {
    CreateTable(CreateTable),
    CreateTableAs(CreateTableAs),
    CreateIndex(CreateIndex),
    CreateView(CreateView),
    CreateSequence(CreateSequence),
    CreateSchema(CreateSchema),
    CreateRole(CreateRole),
    AlterRelation(AlterRelation),
    AlterSequence(AlterSequence),
    AlterRole(AlterRole),
    AlterSetting(AlterSetting),
    AlterSchema(AlterSchema),
    RenameRole {
        name: String,
        to: String,
    },
    DropRelations {
        kind: RelationKind,
        names: Vec<ObjectName>,
        if_exists: bool,
        behavior: Behavior,
    },
    DropSchemas {
        names: Vec<String>,
        if_exists: bool,
        behavior: Behavior,
    },
    DropRoles {
        names: Vec<RoleName>,
        if_exists: bool,
    },
    Comment {
        on: CommentedObject,
        text: Option<String>,
    },
    /// `GRANT role TO role`, and whether `WITH ADMIN OPTION`.
    GrantRoles {
        roles: Vec<RoleName>,
        members: Vec<RoleName>,
        is_admin: bool,
    },
    /// `REVOKE role FROM role`, and whether `ADMIN OPTION FOR`.
    RevokeRoles {
        roles: Vec<RoleName>,
        members: Vec<RoleName>,
        only_admin: bool,
    },
    ChangePrivileges(ChangePrivileges),
    CreateEnum {
        name: ObjectName,
        labels: Vec<String>,
    },
    /// `CREATE TYPE .. AS (..)`.
    CreateComposite {
        name: ObjectName,
        fields: Vec<WrittenField>,
    },
    CreateDomain(CreateDomain),
    AlterType(AlterType),
    DropTypes {
        /// `DROP DOMAIN`.
        is_domain: bool,
        names: Vec<ObjectName>,
        if_exists: bool,
        behavior: Behavior,
    },
    DropAbsent(DropAbsent),
    CreateFunction(Box<CreateFunction>),
    AlterFunction(AlterFunction),
    CreateMaterializedView(Box<CreateMaterializedView>),
    RefreshMaterializedView(RefreshMaterializedView),
    /// `DROP OWNED BY`.
    DropOwned {
        owners: Vec<RoleName>,
        behavior: Behavior,
    },
    /// `REASSIGN OWNED BY .. TO ..`.
    ReassignOwned {
        owners: Vec<RoleName>,
        to: RoleName,
    },
}

/// `ALTER TYPE`, `ALTER DOMAIN`.
#[derive(Clone, Debug)]
pub(crate) struct AlterType {
    pub(crate) name: ObjectName,
    pub(crate) is_domain: bool,
    pub(crate) action: TypeAction,
}

/// A field of a composite type.
#[derive(Clone, Debug)]
pub(crate) struct WrittenField {
    pub(crate) name: String,
    pub(crate) of: DataType,
    pub(crate) collation: Option<ObjectName>,
}

/// A change of the fields of a composite type.
#[derive(Clone, Debug)]
pub(crate) enum WrittenFieldChange {
    Add(WrittenField),
    Drop { name: String, if_exists: bool },
    Alter(WrittenField),
    Rename { name: String, to: String },
}

/// `CREATE DOMAIN`.
#[derive(Clone, Debug)]
pub(crate) struct CreateDomain {
    pub(crate) name: ObjectName,
    pub(crate) of: DataType,
    pub(crate) collation: Option<ObjectName>,
    pub(crate) default: Option<WrittenExpression>,
    /// `NOT NULL` (`true`), `NULL`.
    pub(crate) is_not_null: Option<bool>,
    /// Names, and conditions over `VALUE`.
    pub(crate) checks: Vec<(Option<String>, WrittenExpression)>,
}

/// What is done with a type.
#[derive(Clone, Debug)]
pub(crate) enum TypeAction {
    AddValue {
        label: String,
        if_not_exists: bool,
        /// Whether before it, and the label that it comes next to.
        neighbour: Option<(bool, String)>,
    },
    RenameValue {
        label: String,
        to: String,
    },
    /// Of a composite type.
    ChangeFields(Vec<WrittenFieldChange>),
    Rename(String),
    SetSchema(String),
    SetOwner(RoleName),
    /// `None`: `DROP DEFAULT`.
    SetDefault(Option<WrittenExpression>),
    SetNotNull(bool),
    AddCheck {
        name: Option<String>,
        condition: WrittenExpression,
        is_not_valid: bool,
    },
    DropConstraint {
        name: String,
        if_exists: bool,
    },
    RenameConstraint {
        name: String,
        to: String,
    },
    ValidateConstraint(String),
}

/// `DROP` of objects of a kind that users cannot make here.
#[derive(Clone, Debug)]
pub(crate) struct DropAbsent {
    pub(crate) kind: AbsentKind,
    pub(crate) objects: Vec<AbsentObject>,
    pub(crate) if_exists: bool,
    pub(crate) behavior: Behavior,
}

/// `CREATE FUNCTION`.
#[derive(Clone, Debug)]
pub(crate) struct CreateFunction {
    pub(crate) name: ObjectName,
    pub(crate) or_replace: bool,
    /// The columns of `RETURNS TABLE` are among them.
    pub(crate) parameters: Vec<WrittenParameter>,
    pub(crate) result: Option<WrittenResult>,
    pub(crate) language: Option<FunctionLanguage>,
    pub(crate) properties: FunctionProperties,
    pub(crate) body: Option<FunctionBody>,
}

/// What is said of a function besides what it computes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FunctionProperties {
    /// As `provolatile`.
    pub(crate) volatility: Option<u8>,
    pub(crate) is_strict: Option<bool>,
    pub(crate) is_leakproof: Option<bool>,
    /// As `proparallel`.
    pub(crate) parallel: Option<u8>,
    pub(crate) cost: Option<f64>,
    pub(crate) rows: Option<f64>,
}

/// A parameter as it was written.
#[derive(Clone, Debug)]
pub(crate) struct WrittenParameter {
    pub(crate) name: Option<String>,
    /// As `proargmodes`.
    pub(crate) mode: u8,
    pub(crate) of: DataType,
    pub(crate) default: Option<WrittenExpression>,
}

/// `RETURNS`.
#[derive(Clone, Debug)]
pub(crate) struct WrittenResult {
    /// `None`: `TABLE`.
    pub(crate) of: Option<DataType>,
    pub(crate) is_set: bool,
}

/// `LANGUAGE`.
#[derive(Clone, Debug)]
pub(crate) struct FunctionLanguage {
    pub(crate) name: String,
}

/// `AS`.
#[derive(Clone, Debug)]
pub(crate) struct FunctionBody {
    pub(crate) text: String,
    /// What is added to a position in it for the position in the statement; `None`: the text is written otherwise than it is.
    pub(crate) offset: Option<u32>,
}

impl FunctionBody {
    /// `literal`: as it is written, at a position.
    pub(crate) fn of(text: String, literal: &str, position: Option<u32>) -> FunctionBody {
        let before = literal.find(&text).filter(|_| !text.is_empty());
        let offset = before.and_then(|before| {
            let before = u32::try_from(literal[..before].chars().count()).ok()?;
            (position? + before).checked_sub(1)
        });
        FunctionBody { text, offset }
    }
}

/// A function as statements name it.
#[derive(Clone, Debug)]
pub(crate) struct RoutineName {
    pub(crate) name: ObjectName,
    /// `None`: they are not said.
    pub(crate) arguments: Option<Vec<DataType>>,
}

/// `ALTER FUNCTION`.
#[derive(Clone, Debug)]
pub(crate) struct AlterFunction {
    pub(crate) function: RoutineName,
    pub(crate) action: FunctionAction,
}

/// What is done with a function.
#[derive(Clone, Debug)]
pub(crate) enum FunctionAction {
    Rename(String),
    SetSchema(String),
    SetOwner(RoleName),
    SetProperties(FunctionProperties),
}

/// A kind of object of which there are at most those of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AbsentKind {
    AccessMethod,
    Aggregate,
    Collation,
    Conversion,
    Database,
    EventTrigger,
    Extension,
    ForeignDataWrapper,
    ForeignTable,
    Function,
    Language,
    Policy,
    Procedure,
    Publication,
    Routine,
    Rule,
    Server,
    Statistics,
    Subscription,
    Tablespace,
    Trigger,
}

impl AbsentKind {
    /// The tag of the statement.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            AbsentKind::AccessMethod => "DROP ACCESS METHOD",
            AbsentKind::Aggregate => "DROP AGGREGATE",
            AbsentKind::Collation => "DROP COLLATION",
            AbsentKind::Conversion => "DROP CONVERSION",
            AbsentKind::Database => "DROP DATABASE",
            AbsentKind::EventTrigger => "DROP EVENT TRIGGER",
            AbsentKind::Extension => "DROP EXTENSION",
            AbsentKind::ForeignDataWrapper => "DROP FOREIGN DATA WRAPPER",
            AbsentKind::ForeignTable => "DROP FOREIGN TABLE",
            AbsentKind::Function => "DROP FUNCTION",
            AbsentKind::Language => "DROP LANGUAGE",
            AbsentKind::Policy => "DROP POLICY",
            AbsentKind::Procedure => "DROP PROCEDURE",
            AbsentKind::Publication => "DROP PUBLICATION",
            AbsentKind::Routine => "DROP ROUTINE",
            AbsentKind::Rule => "DROP RULE",
            AbsentKind::Server => "DROP SERVER",
            AbsentKind::Statistics => "DROP STATISTICS",
            AbsentKind::Subscription => "DROP SUBSCRIPTION",
            AbsentKind::Tablespace => "DROP TABLESPACE",
            AbsentKind::Trigger => "DROP TRIGGER",
        }
    }
}

/// An object that is dropped and not there.
#[derive(Clone, Debug)]
pub(crate) struct AbsentObject {
    pub(crate) name: ObjectName,
    /// Of a function; `None`: they are not said.
    pub(crate) arguments: Option<Vec<DataType>>,
    /// Of a trigger, rule or policy.
    pub(crate) table: Option<ObjectName>,
}

/// `GRANT` and `REVOKE` of privileges, and `ALTER DEFAULT PRIVILEGES`.
#[derive(Clone, Debug)]
pub(crate) struct ChangePrivileges {
    /// `GRANT`, not `REVOKE`.
    pub(crate) is_grant: bool,
    /// `WITH GRANT OPTION`, `GRANT OPTION FOR`.
    pub(crate) is_of_option: bool,
    /// Empty: all that the objects have.
    pub(crate) privileges: Vec<PrivilegeWord>,
    pub(crate) objects: PrivilegedObjects,
    pub(crate) grantees: Vec<Grantee>,
    pub(crate) behavior: Behavior,
}

/// A privilege as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrivilegeWord {
    /// `None`: `ALL`, of columns.
    pub(crate) word: Option<String>,
    /// The columns that it is about; none: the object.
    pub(crate) columns: Vec<String>,
}

/// What privileges are granted on.
#[derive(Clone, Debug)]
pub(crate) enum PrivilegedObjects {
    /// `ON [TABLE]`: tables, views and sequences.
    Relations(Vec<ObjectName>),
    Sequences(Vec<ObjectName>),
    Schemas(Vec<String>),
    Databases(Vec<String>),
    Functions(Vec<RoutineName>),
    /// `ON ALL .. IN SCHEMA`.
    AllIn(ObjectKind, Vec<String>),
    New(NewObjects),
}

/// Objects that are made later: those of roles (none: of the user), in schemas (none: in all).
#[derive(Clone, Debug)]
pub(crate) struct NewObjects {
    pub(crate) roles: Vec<RoleName>,
    pub(crate) schemas: Vec<String>,
    pub(crate) kind: ObjectKind,
}

/// The role that gets or loses privileges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grantee {
    Public,
    Role(RoleName),
}

/// A role as statements name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoleName {
    Named(String),
    /// `CURRENT_USER`, `CURRENT_ROLE`.
    CurrentUser,
    SessionUser,
}

/// An expression, and the words that it was written in.
#[derive(Clone, Debug)]
pub(crate) struct WrittenExpression {
    pub(crate) expr: Expr,
    pub(crate) text: Text,
}

/// `CREATE TABLE`.
#[derive(Clone, Debug)]
pub(crate) struct CreateTable {
    pub(crate) name: ObjectName,
    pub(crate) is_temporary: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) elements: Vec<TableElement>,
    /// `WITH (..)`, as `name=value`.
    pub(crate) options: Vec<String>,
    pub(crate) on_commit: OnCommit,
}

/// What happens to the rows of a temporary table when the transaction ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnCommit {
    #[default]
    Preserve,
    Delete,
    Drop,
}

/// A part of a table.
#[expect(clippy::large_enum_variant, reason = "a statement has few of them")]
#[derive(Clone, Debug)]
pub(crate) enum TableElement {
    Column(ColumnDefinition),
    Constraint(ConstraintDefinition),
    Like(LikeClause),
}

/// `LIKE table INCLUDING ..`.
#[derive(Clone, Debug)]
pub(crate) struct LikeClause {
    pub(crate) table: ObjectName,
    pub(crate) with_comments: bool,
    pub(crate) with_constraints: bool,
    pub(crate) with_defaults: bool,
    pub(crate) with_generated: bool,
    pub(crate) with_identity: bool,
    pub(crate) with_indexes: bool,
}

/// A column as it was written.
#[derive(Clone, Debug)]
pub(crate) struct ColumnDefinition {
    pub(crate) name: String,
    pub(crate) of: DataType,
    pub(crate) position: Option<u32>,
    pub(crate) collation: Option<ObjectName>,
    /// `NOT NULL` (`true`), `NULL`.
    pub(crate) is_not_null: Option<bool>,
    pub(crate) default: Option<WrittenExpression>,
    pub(crate) identity: Option<(Identity, SequenceClauses)>,
    pub(crate) generated: Option<WrittenExpression>,
    /// In order.
    pub(crate) constraints: Vec<ConstraintDefinition>,
}

/// A constraint as it was written. One of a column names that column.
#[derive(Clone, Debug)]
pub(crate) struct ConstraintDefinition {
    pub(crate) name: Option<String>,
    pub(crate) kind: ConstraintClause,
    pub(crate) is_deferrable: bool,
    pub(crate) is_deferred: bool,
    pub(crate) is_not_valid: bool,
    pub(crate) position: Option<u32>,
}

/// What a constraint demands.
#[expect(clippy::large_enum_variant, reason = "a statement has few of them")]
#[derive(Clone, Debug)]
pub(crate) enum ConstraintClause {
    Check(WrittenExpression),
    /// `PRIMARY KEY` or `UNIQUE`.
    Key {
        is_primary: bool,
        columns: Vec<String>,
        included: Vec<String>,
        is_nulls_not_distinct: bool,
        /// `USING INDEX`.
        index: Option<String>,
    },
    ForeignKey {
        columns: Vec<String>,
        target: ObjectName,
        target_columns: Vec<String>,
        on_update: ReferentialAction,
        on_delete: ReferentialAction,
        is_match_full: bool,
    },
}

/// Options of a sequence as they were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceClauses {
    pub(crate) of: Option<DataType>,
    pub(crate) start: Option<i64>,
    pub(crate) increment: Option<i64>,
    /// `Some(None)`: `NO MINVALUE`.
    pub(crate) minimum: Option<Option<i64>>,
    pub(crate) maximum: Option<Option<i64>>,
    pub(crate) cache: Option<i64>,
    pub(crate) is_cycling: Option<bool>,
    /// `Some(None)`: with the start value.
    pub(crate) restart: Option<Option<i64>>,
    /// A table and a column of it; `Some(None)`: `NONE`.
    pub(crate) owned_by: Option<Option<(ObjectName, String)>>,
    /// `SEQUENCE NAME`, of identity columns.
    pub(crate) name: Option<ObjectName>,
}

/// `CREATE TABLE AS`, `SELECT INTO`.
#[derive(Clone, Debug)]
pub(crate) struct CreateTableAs {
    pub(crate) name: ObjectName,
    pub(crate) is_temporary: bool,
    pub(crate) if_not_exists: bool,
    /// Names of columns; none: those of the query.
    pub(crate) columns: Vec<String>,
    pub(crate) options: Vec<String>,
    pub(crate) on_commit: OnCommit,
    pub(crate) source: TableSource,
    pub(crate) with_data: bool,
}

/// Where the rows of a new table come from.
#[derive(Clone, Debug)]
pub(crate) enum TableSource {
    Query(Dml),
    Execute(super::Execute),
}

/// `CREATE INDEX`.
#[derive(Clone, Debug)]
pub(crate) struct CreateIndex {
    pub(crate) name: Option<String>,
    pub(crate) table: ObjectName,
    pub(crate) is_unique: bool,
    pub(crate) is_concurrent: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) keys: Vec<IndexKeyDefinition>,
    pub(crate) included: Vec<String>,
    pub(crate) is_nulls_not_distinct: bool,
    pub(crate) predicate: Option<WrittenExpression>,
}

/// What an index orders by, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct IndexKeyDefinition {
    /// A column is an identifier.
    pub(crate) value: WrittenExpression,
    pub(crate) collation: Option<ObjectName>,
    pub(crate) operator_class: Option<ObjectName>,
    pub(crate) is_descending: bool,
    pub(crate) is_nulls_first: Option<bool>,
}

/// `CREATE VIEW`.
#[derive(Clone, Debug)]
pub(crate) struct CreateView {
    pub(crate) name: ObjectName,
    pub(crate) or_replace: bool,
    pub(crate) is_temporary: bool,
    pub(crate) columns: Vec<String>,
    pub(crate) query: Dml,
    /// The words of the query.
    pub(crate) text: Text,
    /// As the schema keeps them: `check_option=local`.
    pub(crate) options: Vec<String>,
}

/// `CREATE MATERIALIZED VIEW`.
#[derive(Clone, Debug)]
pub(crate) struct CreateMaterializedView {
    pub(crate) name: ObjectName,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<String>,
    /// As the schema keeps them: `fillfactor=90`.
    pub(crate) options: Vec<String>,
    pub(crate) query: Dml,
    /// The words of the query.
    pub(crate) text: Text,
    pub(crate) with_data: bool,
}

/// `REFRESH MATERIALIZED VIEW`.
#[derive(Clone, Debug)]
pub(crate) struct RefreshMaterializedView {
    pub(crate) name: ObjectName,
    pub(crate) is_concurrent: bool,
    pub(crate) with_data: bool,
}

/// `CREATE SEQUENCE`.
#[derive(Clone, Debug)]
pub(crate) struct CreateSequence {
    pub(crate) name: ObjectName,
    pub(crate) is_temporary: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) options: SequenceClauses,
}

/// `CREATE SCHEMA`.
#[derive(Clone, Debug)]
pub(crate) struct CreateSchema {
    /// `None`: as its owner is called.
    pub(crate) name: Option<String>,
    pub(crate) owner: Option<RoleName>,
    pub(crate) if_not_exists: bool,
    /// Statements that make objects in it.
    pub(crate) elements: Vec<Definition>,
}

/// `ALTER SCHEMA`.
#[derive(Clone, Debug)]
pub(crate) enum AlterSchema {
    Rename { name: String, to: String },
    Owner { name: String, owner: RoleName },
}

/// Options of a role as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoleClauses {
    pub(crate) is_superuser: Option<bool>,
    pub(crate) inherits: Option<bool>,
    pub(crate) creates_roles: Option<bool>,
    pub(crate) creates_databases: Option<bool>,
    pub(crate) can_log_in: Option<bool>,
    pub(crate) replicates: Option<bool>,
    pub(crate) bypasses_row_security: Option<bool>,
    pub(crate) connection_limit: Option<i32>,
    /// `Some(None)`: `NULL`.
    pub(crate) password: Option<Option<String>>,
    pub(crate) valid_until: Option<String>,
    /// `IN ROLE`.
    pub(crate) member_of: Vec<RoleName>,
    /// `ROLE`, and (`true`) `ADMIN`.
    pub(crate) members: Vec<(RoleName, bool)>,
}

/// `CREATE ROLE`, `CREATE USER`. Whether it can log in is said in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CreateRole {
    pub(crate) name: String,
    pub(crate) options: RoleClauses,
}

/// `ALTER ROLE` with options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlterRole {
    pub(crate) name: RoleName,
    pub(crate) options: RoleClauses,
}

/// `ALTER ROLE .. SET`, `ALTER DATABASE .. SET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlterSetting {
    /// `None`: all.
    pub(crate) role: Option<RoleName>,
    /// `None`: all.
    pub(crate) database: Option<String>,
    pub(crate) change: SettingChange,
    /// Whether the statement was `ALTER DATABASE`.
    pub(crate) is_of_database: bool,
}

/// `ALTER SEQUENCE` with options.
#[derive(Clone, Debug)]
pub(crate) struct AlterSequence {
    pub(crate) name: ObjectName,
    pub(crate) if_exists: bool,
    pub(crate) options: SequenceClauses,
}

/// `ALTER TABLE`, `ALTER VIEW`, `ALTER INDEX`, and what `ALTER SEQUENCE` has of it.
#[derive(Clone, Debug)]
pub(crate) struct AlterRelation {
    /// The kind that the statement names.
    pub(crate) kind: RelationKind,
    pub(crate) name: ObjectName,
    pub(crate) if_exists: bool,
    pub(crate) actions: Vec<RelationAction>,
}

/// One action of `ALTER TABLE` and its like.
#[expect(clippy::large_enum_variant, reason = "a statement has few of them")]
#[derive(Clone, Debug)]
pub(crate) enum RelationAction {
    Rename(String),
    SetSchema(String),
    SetOwner(RoleName),
    RenameColumn {
        name: String,
        to: String,
    },
    RenameConstraint {
        name: String,
        to: String,
    },
    AddColumn {
        column: ColumnDefinition,
        if_not_exists: bool,
    },
    DropColumn {
        name: String,
        if_exists: bool,
        behavior: Behavior,
    },
    SetType {
        column: String,
        of: DataType,
        collation: Option<ObjectName>,
        using: Option<WrittenExpression>,
    },
    /// `None`: `DROP DEFAULT`.
    SetDefault {
        column: String,
        default: Option<WrittenExpression>,
    },
    SetNotNull {
        column: String,
        is_not_null: bool,
    },
    AddIdentity {
        column: String,
        identity: Identity,
        options: SequenceClauses,
    },
    SetIdentity {
        column: String,
        identity: Option<Identity>,
        options: SequenceClauses,
    },
    DropIdentity {
        column: String,
        if_exists: bool,
    },
    DropExpression {
        column: String,
        if_exists: bool,
    },
    AddConstraint(ConstraintDefinition),
    DropConstraint {
        name: String,
        if_exists: bool,
        behavior: Behavior,
    },
    AlterConstraint {
        name: String,
        is_deferrable: bool,
        is_deferred: bool,
    },
    ValidateConstraint(String),
    SetOptions(Vec<String>),
    ResetOptions(Vec<String>),
    /// One that changes nothing here: `CLUSTER ON`, `REPLICA IDENTITY`, `SET LOGGED`.
    Nothing,
    /// One that changes nothing here, of a column: `SET STATISTICS`, `SET STORAGE`.
    NothingOfColumn(String),
}

/// What `COMMENT ON` names.
#[derive(Clone, Debug)]
pub(crate) enum CommentedObject {
    Relation(RelationKind, ObjectName),
    /// A column of a relation.
    Column(ObjectName, String),
    /// A constraint of a table.
    Constraint(ObjectName, String),
    /// A type, or (`true`) a domain.
    Type(ObjectName, bool),
    Function(RoutineName),
    Schema(String),
    Role(RoleName),
    Database(String),
}

impl Definition {
    /// Its tag.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            Definition::CreateTable(_) => "CREATE TABLE",
            Definition::CreateTableAs(_) => "CREATE TABLE AS",
            Definition::CreateIndex(_) => "CREATE INDEX",
            Definition::CreateView(_) => "CREATE VIEW",
            Definition::CreateSequence(_) => "CREATE SEQUENCE",
            Definition::CreateSchema(_) => "CREATE SCHEMA",
            Definition::CreateRole(_) => "CREATE ROLE",
            Definition::AlterRelation(alter) => match alter.kind {
                RelationKind::Table => "ALTER TABLE",
                RelationKind::View => "ALTER VIEW",
                RelationKind::MaterializedView => "ALTER MATERIALIZED VIEW",
                RelationKind::Sequence => "ALTER SEQUENCE",
                RelationKind::Index => "ALTER INDEX",
            },
            Definition::AlterSequence(_) => "ALTER SEQUENCE",
            Definition::AlterRole(_) | Definition::RenameRole { .. } => "ALTER ROLE",
            Definition::AlterSetting(AlterSetting { is_of_database: true, .. }) => "ALTER DATABASE",
            Definition::AlterSetting(_) => "ALTER ROLE",
            Definition::AlterSchema(_) => "ALTER SCHEMA",
            Definition::DropRelations { kind: RelationKind::Table, .. } => "DROP TABLE",
            Definition::DropRelations { kind: RelationKind::View, .. } => "DROP VIEW",
            Definition::DropRelations { kind: RelationKind::MaterializedView, .. } => {
                "DROP MATERIALIZED VIEW"
            }
            Definition::DropRelations { kind: RelationKind::Sequence, .. } => "DROP SEQUENCE",
            Definition::DropRelations { kind: RelationKind::Index, .. } => "DROP INDEX",
            Definition::DropSchemas { .. } => "DROP SCHEMA",
            Definition::DropRoles { .. } => "DROP ROLE",
            Definition::Comment { .. } => "COMMENT",
            Definition::GrantRoles { .. } => "GRANT ROLE",
            Definition::RevokeRoles { .. } => "REVOKE ROLE",
            Definition::ChangePrivileges(change) => match (&change.objects, change.is_grant) {
                (PrivilegedObjects::New(_), _) => "ALTER DEFAULT PRIVILEGES",
                (_, true) => "GRANT",
                (_, false) => "REVOKE",
            },
            Definition::CreateEnum { .. } | Definition::CreateComposite { .. } => "CREATE TYPE",
            Definition::CreateDomain(_) => "CREATE DOMAIN",
            Definition::AlterType(AlterType { is_domain: false, .. }) => "ALTER TYPE",
            Definition::AlterType(_) => "ALTER DOMAIN",
            Definition::DropTypes { is_domain: false, .. } => "DROP TYPE",
            Definition::DropTypes { .. } => "DROP DOMAIN",
            Definition::DropAbsent(drop) => drop.kind.tag(),
            Definition::CreateFunction(_) => "CREATE FUNCTION",
            Definition::AlterFunction(_) => "ALTER FUNCTION",
            Definition::CreateMaterializedView(_) => "CREATE MATERIALIZED VIEW",
            Definition::RefreshMaterializedView(_) => "REFRESH MATERIALIZED VIEW",
            Definition::DropOwned { .. } => "DROP OWNED",
            Definition::ReassignOwned { .. } => "REASSIGN OWNED",
        }
    }
}
