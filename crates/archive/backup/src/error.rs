//! Why a backup was not taken, or a database not restored.

use seawall_archive::ArchiveError;
use seawall_types::Lsn;

/// Why a backup was not taken, or a database not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The repository did not do what was asked.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The database did not.
    #[error(transparent)]
    Database(#[from] seawall_engine::Error),
    /// What a database has encrypted would lie open in the repository.
    #[error(
        "the database is encrypted and the repository {url} is not: rows in it would not be encrypted. Make an encrypted repository"
    )]
    RepositoryNotEncrypted {
        /// The repository.
        url: String,
    },
    /// The repository has no databases of Seawall, or several and none was named.
    #[error("{problem}")]
    WhichDatabase {
        /// What there is.
        problem: String,
    },
    /// Several timelines have data that the others lack, and none was named.
    #[error(
        "several timelines have data that the others lack, and nothing in the repository says which of them production is on: \
         {choices}. Name one with --timeline. A backup of what is in production now decides it for the next restore"
    )]
    WhichTimeline {
        /// What there is of each.
        choices: String,
    },
    /// No backup fits.
    #[error("no backup in the repository can be restored to the place asked for: {problem}")]
    NoBackup {
        /// What there is.
        problem: String,
    },
    /// The log that a restore needs is not in the repository.
    #[error(
        "the repository lacks the log of timeline {timeline} from {from} on, and has later log: there is a gap. `--to-lsn {from}` \
         restores all that lies before it, also if the machine was lost while it was on its way; a backup behind it restores what lies \
         behind. `verify` tells whether it is lost"
    )]
    Gap {
        /// The timeline.
        timeline: u32,
        /// Where the gap begins.
        from: Lsn,
    },
    /// The log that a restore needs was left out of the repository on purpose.
    #[error(
        "the log of timeline {timeline} from {from} on was left out of the repository on purpose (gap {gap}): {reason}. Restore to \
         a place before it, or from a backup after it"
    )]
    LeftOut {
        /// The timeline.
        timeline: u32,
        /// Where the log that is there ends.
        from: Lsn,
        /// Which segments were left out.
        gap: String,
        /// Why.
        reason: String,
    },
    /// The log in the repository is not the one that the backup was taken with.
    #[error(
        "the log of timeline {timeline} from {from} to {to} in the repository is not the log that this backup was taken with ({backup}): \
         another copy of this database has put its own there. A restore would mix both; use another backup, or another repository, \
         and give each copy a repository of its own"
    )]
    OtherLog {
        /// The timeline of the backup.
        timeline: u32,
        /// Its redo point.
        from: Lsn,
        /// Where it ended.
        to: Lsn,
        /// The backup.
        backup: String,
    },
    /// The log does not reach the end of the backup.
    #[error("the repository has the log up to {log_end} only, and the backup needs it up to {needed}")]
    LogTooShort {
        /// Where it ends.
        log_end: Lsn,
        /// How far it should go.
        needed: Lsn,
    },
    /// The attempt that this backup has resumed is missing.
    #[error(
        "objects of {id}, which was cut short and is a part of this backup, were removed while it was taken: nothing of it counts. \
         Take the backup again"
    )]
    PartGone {
        /// What was cut short.
        id: String,
    },
    /// An expiry has taken this backup for given up while it was taken.
    #[error(
        "{id} has taken longer than `expire --keep-unfinished` allows, and an expiry has begun to remove it: nothing of it counts. Take the \
         backup again, and give --keep-unfinished more time"
    )]
    GivenUp {
        /// The backup.
        id: String,
    },
    /// An object is not what a backup put there.
    #[error("{object} is damaged: {problem}; use another backup, or another repository")]
    Damaged {
        /// Its name.
        object: String,
        /// What is wrong.
        problem: String,
    },
}

impl BackupError {
    /// Whether it is what is stored that is damaged or missing, and not a store or a disk that does not work now.
    pub(crate) fn is_of_content(&self) -> bool {
        use seawall_engine::Error::{LoadedPastLog, Log};
        match self {
            BackupError::Damaged { .. }
            | BackupError::Gap { .. }
            | BackupError::LeftOut { .. }
            | BackupError::OtherLog { .. } => true,
            BackupError::Archive(error) => {
                matches!(error, ArchiveError::Damaged { .. } | ArchiveError::NotFound { .. })
            }
            BackupError::Database(error) => matches!(error, Log { .. } | LoadedPastLog { .. }),
            _ => false,
        }
    }

    /// Whether what was asked for cannot be had of what is in the repository now.
    pub(crate) fn is_refusal(&self) -> bool {
        self.is_of_content() || self.is_behind_log() || matches!(self, BackupError::LogTooShort { .. })
    }

    /// Whether a restore may do without what is missing, if it stops before.
    pub(crate) fn is_behind_log(&self) -> bool {
        use BackupError::{Database, Gap, LeftOut};
        matches!(self, Gap { .. } | LeftOut { .. } | Database(seawall_engine::Error::RestoreTarget { .. }))
    }

    /// Whether an object is there, and is not what it should be.
    pub(crate) fn is_damage(&self) -> bool {
        use BackupError::{Archive, Damaged};
        matches!(
            self,
            Damaged { .. } | Archive(ArchiveError::Damaged { .. } | ArchiveError::OtherObject { .. })
        )
    }

    /// `Damaged`: what is wrong with this object.
    pub fn damaged(object: impl ToString, problem: impl Into<String>) -> BackupError {
        BackupError::Damaged { object: object.to_string(), problem: problem.into() }
    }
}
