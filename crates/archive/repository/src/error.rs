//! Why something could not be archived or fetched.

use std::io;

use seawall_keys::{MasterKeyError, RepositoryKeyError};

use crate::envelope::UnpackError;
use crate::segment::SegmentError;
use crate::store::{StoreCause, StoreError};
use crate::url::RepositoryUrlError;

/// Why something could not be archived or fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The text is not a valid repository URL.
    #[error(transparent)]
    Url(#[from] RepositoryUrlError),
    /// The settings of the store do not go together.
    #[error("{url}: {problem}")]
    Settings {
        /// The repository.
        url: String,
        /// What is wrong.
        problem: String,
    },
    /// There is no repository at this place.
    #[error("there is no repository at {url}: create it with `seawall repo create`, or check the URL")]
    NoRepository {
        /// The place.
        url: String,
    },
    /// The repository that was opened is not there any more.
    #[error(
        "the repository {url} is gone: its seawall-repository is not there; is the file system mounted, does the bucket exist?"
    )]
    RepositoryGone {
        /// The place.
        url: String,
    },
    /// Another repository has taken the place of the one that was opened.
    #[error(
        "at {url} is another repository now: its id is {found}, and it was {opened}; open it anew if that is meant"
    )]
    OtherRepository {
        /// The place.
        url: String,
        /// The id of the one that was opened.
        opened: String,
        /// The id of the one that is there.
        found: String,
    },
    /// There is one already.
    #[error("there is a repository at {url} already; nothing was changed")]
    RepositoryExists {
        /// The place.
        url: String,
    },
    /// The store does not keep objects from being overwritten.
    #[error(
        "{url}: this store overwrites objects, since it ignores If-None-Match: nothing would protect an archive there from a second \
         server. No repository was made; use another store, or a newer release of it"
    )]
    Overwrites {
        /// The place.
        url: String,
    },
    /// Another process has changed the master keys.
    #[error(
        "the master keys of the repository {url} were changed by another process at the same moment: look which of them open it now, \
         and run this again if need be"
    )]
    RotatedMeanwhile {
        /// The place.
        url: String,
    },
    /// A new key cannot be made for master keys that are not given.
    #[error(
        "a new repository key cannot be made for the master keys {} of {url}, which are to be kept: only for those that are given. \
         Renew without keeping them, or take them out first", .kept.join(", ")
    )]
    KeptMasterKeys {
        /// The place.
        url: String,
        /// Their fingerprints.
        kept: Vec<String>,
    },
    /// The ring of keys is damaged, and a new one would lack master keys that are to be kept.
    #[error(
        "{object} is damaged, and the copies of the keys for the master keys {} cannot be read: a rotation cannot keep them. Nothing was \
         changed, and they may still be whole in the store: run this again. If that does not help, rotate to one of them with \
         --keep-others, which makes its copies anew; or without --keep-others, which takes out all that are not given",
        .lost.join(", ")
    )]
    LostMasterKeys {
        /// The full name of the ring.
        object: String,
        /// Their fingerprints.
        lost: Vec<String>,
    },
    /// The source of a new master key gives another one each time.
    #[error(
        "the source of the new master key gave two different keys when it was asked twice: nobody could open the repository {url} \
         with it. Nothing was changed; keep the key in a file"
    )]
    UnsteadyMasterKey {
        /// The place.
        url: String,
    },
    /// Written by another release.
    #[error(
        "the repository {url} has format version {version}, and this release reads {}: use the release that made it",
        crate::repository_header::FORMAT_VERSION
    )]
    RepositoryVersion {
        /// The place.
        url: String,
        /// The version found.
        version: u32,
    },
    /// There is no such object. For PostgreSQL this is no error, but the end of the archive.
    #[error("{object} is not in the repository")]
    NotFound {
        /// Its full name.
        object: String,
    },
    /// An object is not what was put.
    #[error("{object} is damaged: {problem}; take it from another repository")]
    Damaged {
        /// Its full name.
        object: String,
        /// What is wrong.
        problem: String,
    },
    /// The object at this name says that it is another one.
    #[error("{object} holds {found}: objects were moved or renamed by hand")]
    OtherObject {
        /// Its full name.
        object: String,
        /// What it says that it is.
        found: String,
    },
    /// An object with other content has this name already.
    #[error(
        "{object} is there already with other content ({found}; this one has {given}): two servers archive into one place, or one \
         was restored and went its own way. Nothing was overwritten. Give one of them another repository, or a new timeline"
    )]
    OtherContent {
        /// Its full name.
        object: String,
        /// Length and checksum of what is there.
        found: String,
        /// Length and checksum of what was to be put.
        given: String,
    },
    /// The object at this name is encrypted with a key that the repository does not have.
    #[error(
        "{object} is there already and was sealed for the repository that was at this place before: this one does not have its key \
         {key}. Nobody can read it here: remove it, and it can be put again"
    )]
    SealedBefore {
        /// Its full name.
        object: String,
        /// The key that it names.
        key: String,
    },
    /// The repository is encrypted and no master key was given.
    #[error("the repository {url} is encrypted: give its master key")]
    NeedsMasterKey {
        /// The place.
        url: String,
    },
    /// A master key was given, and the repository is not encrypted.
    #[error(
        "the repository {url} is not encrypted, and a master key was given: nothing is put there or believed without encryption. If it \
         was encrypted, its seawall-repository was replaced; if it never was, leave the key out, or make a new repository"
    )]
    NotEncrypted {
        /// The place.
        url: String,
    },
    /// The master key is none of those that open the repository.
    #[error("the repository {url} does not know the master key {given}; it knows {known}")]
    WrongMasterKey {
        /// The place.
        url: String,
        /// Fingerprint of the key that was given.
        given: String,
        /// Fingerprints of those that would do.
        known: String,
    },
    /// There is no master key where it should come from.
    #[error(transparent)]
    MasterKey(#[from] MasterKeyError),
    /// An object with a key is damaged.
    #[error("{object}: {source}")]
    Key {
        /// Its full name.
        object: String,
        /// What is wrong.
        source: RepositoryKeyError,
    },
    /// A ring has no room for more keys.
    #[error(
        "the keys of {url} have room for {limit} copies, one of each key for each master key: nothing was changed. Take master keys out \
         (`rotate-key` without --keep-others), do not renew, or make a new repository"
    )]
    TooManyKeys {
        /// The place.
        url: String,
        /// How many it can hold.
        limit: usize,
    },
    /// The newest ring of keys has fewer keys than were known before.
    #[error(
        "{object} lacks the repository key {key}, which was known before: somebody has put an older ring of keys as the newest. What is \
         encrypted with the keys in it may be readable to whoever knows an old one. Nothing was changed; look who may write to the store, \
         and remove this object if that key is in a ring of a lower number"
    )]
    KeysPutBack {
        /// The full name of the ring.
        object: String,
        /// The key that it lacks.
        key: String,
    },
    /// The store did not do what was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file is not to be archived.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// What was fetched could not be written.
    #[error("cannot write what was fetched: {0}")]
    Output(io::Error),
}

impl ArchiveError {
    /// Whether the repository should be opened anew, with settings and credentials read again, before it is asked for anything
    /// else: it is gone or another one, it does not know the key, or the store does not know the credentials.
    pub fn asks_for_reopening(&self) -> bool {
        match self {
            ArchiveError::NoRepository { .. }
            | ArchiveError::RepositoryGone { .. }
            | ArchiveError::OtherRepository { .. }
            | ArchiveError::NeedsMasterKey { .. }
            | ArchiveError::NotEncrypted { .. }
            | ArchiveError::WrongMasterKey { .. }
            | ArchiveError::MasterKey(_)
            | ArchiveError::Key { .. } => true,
            ArchiveError::Store(error) => {
                matches!(error.cause, StoreCause::Denied | StoreCause::Unauthenticated)
            }
            ArchiveError::Url(_)
            | ArchiveError::Settings { .. }
            | ArchiveError::RepositoryExists { .. }
            | ArchiveError::Overwrites { .. }
            | ArchiveError::RotatedMeanwhile { .. }
            | ArchiveError::UnsteadyMasterKey { .. }
            | ArchiveError::KeptMasterKeys { .. }
            | ArchiveError::LostMasterKeys { .. }
            | ArchiveError::TooManyKeys { .. }
            // Opened anew, it would not know that a key is missing.
            | ArchiveError::KeysPutBack { .. }
            | ArchiveError::RepositoryVersion { .. }
            | ArchiveError::NotFound { .. }
            | ArchiveError::Damaged { .. }
            | ArchiveError::OtherObject { .. }
            | ArchiveError::OtherContent { .. }
            | ArchiveError::SealedBefore { .. }
            | ArchiveError::Segment(_)
            | ArchiveError::Output(_) => false,
        }
    }

    pub(crate) fn damaged(object: String, problem: &UnpackError) -> ArchiveError {
        ArchiveError::Damaged { object, problem: problem.to_string() }
    }
}
