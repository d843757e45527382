//! Errors with PostgreSQL's codes, messages and positions.

use std::fmt;

/// A five-character code of PostgreSQL's appendix A.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

impl SqlState {
    /// The code with these five ASCII characters.
    pub const fn new(code: &[u8; 5]) -> SqlState {
        SqlState(*code)
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

macro_rules! states {
    ($($name:ident = $code:literal,)*) => {
        impl SqlState { $(#[doc = concat!("`", $code, "`.")] pub const $name: SqlState = SqlState::new(state($code));)* }
    };
}

const fn state(code: &str) -> &[u8; 5] {
    match code.as_bytes().first_chunk() {
        Some(code) => code,
        None => panic!("a code has five characters"),
    }
}

states! {
    SUCCESSFUL_COMPLETION = "00000", WARNING = "01000", NO_DATA = "02000", PROTOCOL_VIOLATION = "08P01", CONNECTION_FAILURE = "08006",
    FEATURE_NOT_SUPPORTED = "0A000", CARDINALITY_VIOLATION = "21000", DATA_EXCEPTION = "22000", STRING_DATA_RIGHT_TRUNCATION = "22001",
    NUMERIC_VALUE_OUT_OF_RANGE = "22003", NULL_VALUE_NOT_ALLOWED = "22004", INVALID_DATETIME_FORMAT = "22007", DATETIME_FIELD_OVERFLOW = "22008",
    INVALID_TIME_ZONE_DISPLACEMENT = "22009", ESCAPE_CHARACTER_CONFLICT = "2200B", INVALID_ESCAPE_CHARACTER = "22019", INVALID_ESCAPE_SEQUENCE = "22025",
    DIVISION_BY_ZERO = "22012", INTERVAL_FIELD_OVERFLOW = "22015", INVALID_CHARACTER_VALUE_FOR_CAST = "22018", INVALID_REGULAR_EXPRESSION = "2201B",
    INVALID_ARGUMENT_FOR_LOG = "2201E", INVALID_ARGUMENT_FOR_POWER = "2201F", INVALID_ROW_COUNT_IN_LIMIT = "2201W", INVALID_ROW_COUNT_IN_OFFSET = "2201X",
    CHARACTER_NOT_IN_REPERTOIRE = "22021", INVALID_PARAMETER_VALUE = "22023", SUBSTRING_ERROR = "22011", ARRAY_SUBSCRIPT_ERROR = "2202E",
    INVALID_TEXT_REPRESENTATION = "22P02", INVALID_BINARY_REPRESENTATION = "22P03", BAD_COPY_FILE_FORMAT = "22P04", UNTRANSLATABLE_CHARACTER = "22P05",
    DUPLICATE_JSON_OBJECT_KEY = "22030", INTEGRITY_CONSTRAINT_VIOLATION = "23000", RESTRICT_VIOLATION = "23001", NOT_NULL_VIOLATION = "23502",
    FOREIGN_KEY_VIOLATION = "23503", UNIQUE_VIOLATION = "23505", CHECK_VIOLATION = "23514", INVALID_CURSOR_STATE = "24000",
    INVALID_TRANSACTION_STATE = "25000", ACTIVE_SQL_TRANSACTION = "25001", READ_ONLY_SQL_TRANSACTION = "25006", NO_ACTIVE_SQL_TRANSACTION = "25P01",
    IN_FAILED_SQL_TRANSACTION = "25P02", IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03", INVALID_SQL_STATEMENT_NAME = "26000",
    INVALID_AUTHORIZATION_SPECIFICATION = "28000", INVALID_PASSWORD = "28P01", DEPENDENT_OBJECTS_STILL_EXIST = "2BP01", SAVEPOINT_EXCEPTION = "3B001",
    INVALID_CATALOG_NAME = "3D000", INVALID_SCHEMA_NAME = "3F000", INVALID_CURSOR_NAME = "34000", SERIALIZATION_FAILURE = "40001", STATEMENT_COMPLETION_UNKNOWN = "40003",
    DEADLOCK_DETECTED = "40P01", SYNTAX_ERROR = "42601", INSUFFICIENT_PRIVILEGE = "42501", CANNOT_COERCE = "42846", GROUPING_ERROR = "42803",
    WINDOWING_ERROR = "42P20", INVALID_RECURSION = "42P19", INVALID_FOREIGN_KEY = "42830", INVALID_NAME = "42602", NAME_TOO_LONG = "42622",
    DATATYPE_MISMATCH = "42804", GENERATED_ALWAYS = "428C9", INDETERMINATE_DATATYPE = "42P18", COLLATION_MISMATCH = "42P21", WRONG_OBJECT_TYPE = "42809", UNDEFINED_COLUMN = "42703",
    UNDEFINED_FUNCTION = "42883", UNDEFINED_TABLE = "42P01", UNDEFINED_PARAMETER = "42P02", UNDEFINED_OBJECT = "42704", DUPLICATE_COLUMN = "42701",
    DUPLICATE_CURSOR = "42P03", DUPLICATE_DATABASE = "42P04", DUPLICATE_FUNCTION = "42723", DUPLICATE_PREPARED_STATEMENT = "42P05", DUPLICATE_SCHEMA = "42P06",
    DUPLICATE_TABLE = "42P07", DUPLICATE_ALIAS = "42712", DUPLICATE_OBJECT = "42710", AMBIGUOUS_COLUMN = "42702", AMBIGUOUS_FUNCTION = "42725",
    AMBIGUOUS_PARAMETER = "42P08", AMBIGUOUS_ALIAS = "42P09", INVALID_COLUMN_REFERENCE = "42P10", INVALID_COLUMN_DEFINITION = "42611", INVALID_CURSOR_DEFINITION = "42P11",
    INVALID_OBJECT_DEFINITION = "42P17", INVALID_TABLE_DEFINITION = "42P16", INVALID_FUNCTION_DEFINITION = "42P13", RESERVED_NAME = "42939",
    WITH_CHECK_OPTION_VIOLATION = "44000",
    INSUFFICIENT_RESOURCES = "53000", DISK_FULL = "53100", OUT_OF_MEMORY = "53200", TOO_MANY_CONNECTIONS = "53300", CONFIGURATION_LIMIT_EXCEEDED = "53400", PROGRAM_LIMIT_EXCEEDED = "54000",
    STATEMENT_TOO_COMPLEX = "54001", TOO_MANY_COLUMNS = "54011", TOO_MANY_ARGUMENTS = "54023", OBJECT_NOT_IN_PREREQUISITE_STATE = "55000", OBJECT_IN_USE = "55006",
    CANT_CHANGE_RUNTIME_PARAM = "55P02", LOCK_NOT_AVAILABLE = "55P03", QUERY_CANCELED = "57014", ADMIN_SHUTDOWN = "57P01", CRASH_SHUTDOWN = "57P02",
    CANNOT_CONNECT_NOW = "57P03", IO_ERROR = "58030", SNAPSHOT_TOO_OLD = "72000", CONFIG_FILE_ERROR = "F0000", INTERNAL_ERROR = "XX000", DATA_CORRUPTED = "XX001",
}

/// What a statement fails with: what PostgreSQL's ErrorResponse carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// The code.
    pub code: SqlState,
    /// The first line.
    pub message: String,
    /// More of it.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// Where in the statement: characters, from 1.
    pub position: Option<u32>,
    /// Where it arose: a line for each level.
    pub context: Option<String>,
    /// Names of what a constraint is about.
    pub object: Option<Box<ErrorObject>>,
}

/// The objects that an error names in fields of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorObject {
    /// Schema.
    pub schema: Option<String>,
    /// Table.
    pub table: Option<String>,
    /// Column.
    pub column: Option<String>,
    /// Type.
    pub data_type: Option<String>,
    /// Constraint.
    pub constraint: Option<String>,
}

/// What most of SQL returns. The error is boxed: values are returned often, errors seldom.
pub type SqlResult<T> = Result<T, Box<SqlError>>;

impl SqlError {
    /// An error with a code and a message.
    #[cold]
    pub fn new(code: SqlState, message: impl Into<String>) -> Box<SqlError> {
        Box::new(SqlError {
            code,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            object: None,
        })
    }

    /// `0A000`: `what` is not supported.
    #[cold]
    pub fn unsupported(what: impl fmt::Display) -> Box<SqlError> {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// `XX000`: a defect of Seawall.
    #[cold]
    pub fn internal(what: impl Into<String>) -> Box<SqlError> {
        SqlError::new(SqlState::INTERNAL_ERROR, what)
    }

    /// With a detail.
    #[must_use]
    pub fn with_detail(mut self: Box<Self>, detail: impl Into<String>) -> Box<SqlError> {
        self.detail = Some(detail.into());
        self
    }

    /// With a hint.
    #[must_use]
    pub fn with_hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<SqlError> {
        self.hint = Some(hint.into());
        self
    }

    /// With a position, unless it has one: the innermost is the most exact.
    #[must_use]
    pub fn at(mut self: Box<Self>, position: Option<u32>) -> Box<SqlError> {
        self.position = self.position.or(position);
        self
    }

    /// With the names of objects.
    #[must_use]
    pub fn about(mut self: Box<Self>, object: ErrorObject) -> Box<SqlError> {
        self.object = Some(Box::new(object));
        self
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for SqlError {}
