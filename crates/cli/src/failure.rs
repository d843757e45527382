//! Why a command failed, and the exit code that tells a script.
//!
//! | code | meaning                                                                   |
//! |-----:|---------------------------------------------------------------------------|
//! |    0 | done                                                                      |
//! |    1 | failed for another reason; the message says why                           |
//! |    2 | the command line or the settings are wrong                                |
//! |    3 | no such database, repository, table, key or file; log not kept any more   |
//! |    4 | damage found in the database's files or the repository's objects          |
//! |    5 | the database is in use by another process                                 |
//! |    6 | the database, table or repository exists already, or an object with other content |
//! |    7 | the input file does not hold rows, or a log, as expected                  |
//! |    8 | the disk is full; nothing acknowledged is lost                            |
//! |    9 | the master key is missing, wrong, unreadable, or not needed               |
//! |  126 | `archive-get` only: nothing that a recovery may take for the end of the archive |

use std::io;

use seawall_base_backup::PostgreSqlBackupError;
use seawall_io::is_disk_full;

use crate::standard_error::tell;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Database(seawall::Error),
    #[error("{0}")]
    Archive(#[from] seawall_archive::ArchiveError),
    #[error("{0}")]
    Backup(seawall_backup::BackupError),
    #[error("{0}")]
    PostgreSql(PostgreSqlBackupError),
    #[error("there is no row with key {key:?} in table {table:?}")]
    NoSuchKey { table: String, key: String },
    #[error("{findings} found; see above for file, offset and key range")]
    Damage { findings: String },
    #[error(
        "{places} could not be read, so what is there is unknown; see above for what the system refused, and check again"
    )]
    Unreadable { places: String },
    #[error("{name}, {place}: {problem}")]
    Input { name: String, place: String, problem: String },
    #[error("{findings}; see above")]
    Verified { findings: String },
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Settings(#[from] seawall_settings::SettingsError),
    #[error("{0}")]
    Server(#[from] seawall_server::ServerError),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("{0}")]
    Broken(String),
    #[error("see above")]
    Told(u8),
    #[error("{0}")]
    StopsRecovery(String),
    #[error("standard output was closed")]
    OutputClosed,
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}

impl Failure {
    /// A failed write to standard output.
    pub(crate) fn output(source: io::Error) -> Failure {
        match source.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Output(source),
        }
    }

    /// A failed call of the operating system; `what` says what was attempted on which file.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Failure {
        let what = what.into();
        move |source| Failure::Io { what, source }
    }

    /// The same where PostgreSQL may have asked for a file: to a recovery, exit codes up to 125 are the end of the archive.
    pub(crate) fn for_recovery(self) -> Failure {
        match self {
            // By the command itself, which knows a standby.
            told @ Failure::Told(_) => told,
            failure => Failure::StopsRecovery(failure.to_string()),
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        use seawall::Error;
        match self {
            Failure::OutputClosed => 0,
            Failure::Broken(_) | Failure::Unreadable { .. } => 1,
            Failure::Told(code) => *code,
            Failure::StopsRecovery(_) => 126,
            Failure::Usage(_)
            | Failure::Settings(_)
            | Failure::Database(
                Error::Option { .. }
                | Error::TableName { .. }
                | Error::RestorePointName { .. }
                | Error::Gid { .. }
                | Error::Owner { .. },
            ) => 2,
            Failure::NoSuchKey { .. }
            | Failure::Database(
                Error::NoDatabase { .. }
                | Error::NoSuchTable { .. }
                | Error::NoSuchLogHold { .. }
                | Error::LogNotKept { .. }
                | Error::NotInDoubt { .. }
                | Error::RestoreTarget { .. },
            ) => 3,
            Failure::Damage { .. }
            | Failure::Verified { .. }
            | Failure::Database(
                Error::Log { .. } | Error::Tree { .. } | Error::Catalog { .. } | Error::Keys { .. },
            ) => 4,
            Failure::Database(Error::InUse { .. }) => 5,
            Failure::Database(
                Error::TableExists { .. }
                | Error::NotEmpty { .. }
                | Error::OtherRestore { .. }
                | Error::RestoreMarker { .. }
                | Error::GidInUse { .. }
                | Error::TimelineNumber { .. },
            ) => 6,
            Failure::Input { .. } => 7,
            Failure::Database(Error::DiskFull { .. }) => 8,
            Failure::Database(
                Error::Encrypted { .. }
                | Error::NotEncrypted { .. }
                | Error::MasterKey { .. }
                | Error::WrongMasterKey { .. },
            ) => 9,
            Failure::Server(error) => server_exit_code(error),
            Failure::Archive(error) => archive_exit_code(error),
            Failure::Backup(error) => backup_exit_code(error),
            Failure::PostgreSql(error) => postgresql_exit_code(error),
            Failure::Io { source, .. } | Failure::Output(source) => match source.kind() {
                io::ErrorKind::NotFound => 3,
                _ if is_disk_full(source) => 8,
                _ => 1,
            },
            Failure::Database(_) => 1,
        }
    }

    /// Says it on standard error: a line of text, or of JSON.
    pub(crate) fn report(&self, json: bool) {
        if let Failure::Told(_) = self {
            return;
        }
        let line = match json {
            true => {
                serde_json::json!({ "error": self.to_string(), "exit_code": self.exit_code() }).to_string()
            }
            false => format!("seawall: {self}"),
        };
        tell(line);
    }
}

impl From<seawall::Error> for Failure {
    fn from(error: seawall::Error) -> Failure {
        match error {
            seawall::Error::Option { name, problem } => {
                Failure::Usage(format!("option {}: {problem}", name_of_option(name)))
            }
            other => Failure::Database(other),
        }
    }
}

/// The command's name for an option of the engine.
fn name_of_option(of_engine: &str) -> &str {
    match of_engine {
        "memory.memtable_bytes" => "--memtable-mib",
        "memory.cache_bytes" => "--cache-mib",
        "checkpoint.runs.run_percent" => "--run-percent",
        other => other,
    }
}

impl From<seawall_backup::BackupError> for Failure {
    fn from(error: seawall_backup::BackupError) -> Failure {
        use seawall_backup::BackupError;
        match error {
            BackupError::Archive(error) => Failure::Archive(error),
            BackupError::Database(error) => error.into(),
            other => Failure::Backup(other),
        }
    }
}

impl From<PostgreSqlBackupError> for Failure {
    fn from(error: PostgreSqlBackupError) -> Failure {
        match error {
            PostgreSqlBackupError::Backup(error) => error.into(),
            other => Failure::PostgreSql(other),
        }
    }
}

impl From<seawall_backup::ExpireError> for Failure {
    fn from(error: seawall_backup::ExpireError) -> Failure {
        use seawall_backup::ExpireError;
        match error {
            ExpireError::Backup(error) => error.into(),
            ExpireError::NoPolicy => Failure::Usage(error.to_string()),
            other => Failure::Broken(other.to_string()),
        }
    }
}

fn server_exit_code(error: &seawall_server::ServerError) -> u8 {
    use seawall_server::{ListenError, ServerError};
    match error {
        ServerError::Configuration(_) => 2,
        ServerError::Listen(ListenError::InUse { .. }) => 5,
        _ => 1,
    }
}

fn backup_exit_code(error: &seawall_backup::BackupError) -> u8 {
    use seawall_backup::BackupError;
    match error {
        BackupError::WhichDatabase { .. }
        | BackupError::WhichTimeline { .. }
        | BackupError::NoBackup { .. } => 3,
        BackupError::Damaged { .. }
        | BackupError::Gap { .. }
        | BackupError::LeftOut { .. }
        | BackupError::OtherLog { .. }
        | BackupError::LogTooShort { .. } => 4,
        BackupError::RepositoryNotEncrypted { .. } => 9,
        _ => 1,
    }
}

fn postgresql_exit_code(error: &PostgreSqlBackupError) -> u8 {
    match error {
        PostgreSqlBackupError::Target { .. } => 3,
        PostgreSqlBackupError::BadPages { .. } => 4,
        PostgreSqlBackupError::RestoreUnderWay { .. } => 5,
        PostgreSqlBackupError::NotEmpty { .. }
        | PostgreSqlBackupError::AlreadyRestored { .. }
        | PostgreSqlBackupError::OtherRestore { .. }
        | PostgreSqlBackupError::Marker { .. } => 6,
        PostgreSqlBackupError::Io { source, .. } if is_disk_full(source) => 8,
        _ => 1,
    }
}

fn archive_exit_code(error: &seawall_archive::ArchiveError) -> u8 {
    use seawall_archive::{ArchiveError, StoreCause};
    match error {
        ArchiveError::Url(_) | ArchiveError::Settings { .. } => 2,
        ArchiveError::NoRepository { .. } | ArchiveError::NotFound { .. } => 3,
        ArchiveError::Damaged { .. }
        | ArchiveError::OtherObject { .. }
        | ArchiveError::KeysPutBack { .. }
        | ArchiveError::LostMasterKeys { .. }
        | ArchiveError::Key { .. } => 4,
        ArchiveError::RepositoryExists { .. }
        | ArchiveError::OtherContent { .. }
        | ArchiveError::SealedBefore { .. } => 6,
        ArchiveError::Segment(_) => 7,
        ArchiveError::Store(error) if error.cause == StoreCause::Full => 8,
        ArchiveError::NeedsMasterKey { .. }
        | ArchiveError::NotEncrypted { .. }
        | ArchiveError::WrongMasterKey { .. }
        | ArchiveError::KeptMasterKeys { .. }
        | ArchiveError::TooManyKeys { .. }
        | ArchiveError::UnsteadyMasterKey { .. }
        | ArchiveError::MasterKey(_) => 9,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_the_engine_has_the_name_that_the_command_gives_it() {
        let problem = "too little".to_owned();
        let failure = Failure::from(seawall::Error::Option { name: "memory.memtable_bytes", problem });
        assert_eq!(failure.to_string(), "option --memtable-mib: too little");
        assert_eq!(failure.exit_code(), 2);
    }
}
