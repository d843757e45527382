//! Why a PostgreSQL cluster was not backed up or restored.

use std::io;

use seawall_archive::ArchiveError;

use seawall_backup::BackupError;
use seawall_backup::BadFile;

/// Why a PostgreSQL cluster was not backed up or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgreSqlBackupError {
    /// What may go wrong with any backup, or the repository.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// A program of PostgreSQL is not there.
    #[error("cannot run {program}: {source}; name the directory of PostgreSQL's programs")]
    Program {
        /// Its name.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A program of PostgreSQL failed.
    #[error("{program} failed: {message}")]
    Failed {
        /// Its name.
        program: String,
        /// What it said.
        message: String,
    },
    /// The cluster cannot be backed up so.
    #[error("this cluster cannot be backed up: {problem}")]
    Refused {
        /// Why, and what to do.
        problem: String,
    },
    /// What came out of `pg_basebackup` is not whole.
    #[error("what pg_basebackup wrote is not whole: {problem}; take the backup again")]
    Stream {
        /// What is wrong.
        problem: String,
    },
    /// The server found pages with wrong checksums.
    #[error(
        "pg_basebackup met pages of the cluster with wrong checksums{}: nothing of the backup counts. The cluster is damaged: look at the \
         disk, and restore from an older backup if it has these pages whole. --accept-bad-pages takes the backup all the same, with the \
         list of the files in it",
        words(files)
    )]
    BadPages {
        /// Their files, as far as the server names them.
        files: Vec<BadFile>,
    },
    /// The log of the backup has not come into the repository.
    #[error("{waits_for} is not in the repository after {seconds} s, and the backup needs it: {cause}")]
    NotArchived {
        /// A segment or a history.
        waits_for: String,
        /// How long nothing has come.
        seconds: u64,
        /// What PostgreSQL says of its archiver.
        cause: String,
    },
    /// The directory is not that of a new cluster.
    #[error("{directory} is not empty: a cluster is restored into a directory that is missing or empty")]
    NotEmpty {
        /// The directory.
        directory: String,
    },
    /// A cluster was restored there before.
    #[error(
        "the cluster in {directory} was restored to its end, and may have been started since: start PostgreSQL there, or name another \
         directory. The file seawall-restoring in it means nothing any more and can be removed"
    )]
    AlreadyRestored {
        /// The directory.
        directory: String,
    },
    /// In the directory is what is left of a restore that was asked for something else.
    #[error(
        "in {directory} is what is left of a restore of {found}; this one is of {asked_for}: ask for the former again, and it resumes, \
         or remove the directory"
    )]
    OtherRestore {
        /// The directory.
        directory: String,
        /// What was asked for there.
        found: String,
        /// What is asked for now.
        asked_for: String,
    },
    /// What is left of a restore says nothing of itself that can be read.
    #[error(
        "{file} is damaged ({problem}), so it does not say what was being restored here: remove the directory, and restore again"
    )]
    Marker {
        /// The marker.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Another process restores into the directory.
    #[error("another restore is under way in {directory}: wait until it has ended")]
    RestoreUnderWay {
        /// The directory.
        directory: String,
    },
    /// The place cannot be reached.
    #[error("cannot restore to there: {problem}")]
    Target {
        /// Why, and what to do.
        problem: String,
    },
    /// What was restored could not be tried out.
    #[error("{problem}")]
    Drill {
        /// Why, and what to do.
        problem: String,
    },
    /// A file could not be written.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted on which file.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl From<ArchiveError> for PostgreSqlBackupError {
    fn from(error: ArchiveError) -> PostgreSqlBackupError {
        BackupError::from(error).into()
    }
}

/// The first files, and how many more there are.
fn words(files: &[BadFile]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> =
        files.iter().take(SHOWN).map(|file| format!("{} of {}", file.pages, file.path)).collect();
    match files.len().checked_sub(SHOWN) {
        _ if files.is_empty() => String::new(),
        Some(more) if more > 0 => format!(" ({}, and of {more} more files)", shown.join(", ")),
        _ => format!(" ({})", shown.join(", ")),
    }
}

impl PostgreSqlBackupError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> PostgreSqlBackupError {
        let what = what.into();
        move |source| PostgreSqlBackupError::Io { what, source }
    }
}
