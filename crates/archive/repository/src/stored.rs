//! Everything that lies in a repository, for those who examine it or clear it up.
//!
//! ```text
//!   listing --> StoredObject: path, bytes, and what the path says that it is; strangers too
//!                 |--> header_of       512 bytes: what it says of itself
//!                 |--> fetch_stored    all of it, checked
//!                 +--> remove_stored   many at once; what the store does not let go is told, the others go
//! ```
//! What is there if the power goes during a removal: any part of what was to go. Whoever needs an order removes in steps: a call
//! returns when all that it removed is gone durably.

use crate::envelope::Header;
use crate::error::ArchiveError;
use crate::gap::Gap;
use crate::layout;
use crate::name::LogFileName;
use crate::object_name::ObjectName;
use crate::repository::{ContentSink, Repository, check_identity};
use crate::store::{StoreCause, StoreError};
use crate::system::System;

/// Objects that a store is asked to remove at a time: what S3 takes in one request.
const REMOVED_AT_ONCE: usize = 1000;

/// What an object is, by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredName {
    /// The object that makes the place a repository.
    RepositoryHeader,
    /// A ring of repository keys, by its number.
    Key(u32),
    /// What a check has put and could not remove.
    Scratch,
    /// A file of a log.
    LogFile(System, LogFileName),
    /// A gap that is on record.
    Gap(System, Gap),
    /// An object of one of our directories that is no file of a log.
    Object(System, ObjectName),
}

impl StoredName {
    /// What lies at this path, if it is anything that is put there.
    pub fn parse(path: &str) -> Option<StoredName> {
        if path == layout::REPOSITORY_HEADER {
            return Some(StoredName::RepositoryHeader);
        }
        if let Some((_, number)) = layout::ring_of(path) {
            return Some(StoredName::Key(number));
        }
        if path.starts_with(layout::CHECK) {
            return Some(StoredName::Scratch);
        }
        if let Some((system, name)) = layout::parse(path) {
            return Some(StoredName::LogFile(system, name));
        }
        let (system, rest) = path.split_once('/')?;
        let system = system.parse().ok()?;
        match rest.strip_prefix("gaps/") {
            Some(name) => {
                Gap::parse(name).filter(|gap| gap.to_string() == name).map(|gap| StoredName::Gap(system, gap))
            }
            None => ObjectName::parse(rest).map(|name| StoredName::Object(system, name)),
        }
    }

    /// Where it lies; `None` for those of which there are several by one name.
    pub fn path(&self) -> Option<String> {
        match self {
            StoredName::RepositoryHeader => Some(layout::REPOSITORY_HEADER.to_owned()),
            StoredName::Key(_) | StoredName::Scratch => None,
            StoredName::LogFile(system, name) => Some(layout::path(*system, *name)),
            StoredName::Gap(system, gap) => Some(layout::gap(*system, *gap)),
            StoredName::Object(system, name) => Some(format!("{system}/{name}")),
        }
    }

    /// Whose it is; `None` for what belongs to the repository as a whole.
    pub fn system(&self) -> Option<System> {
        match self {
            StoredName::RepositoryHeader | StoredName::Key(_) | StoredName::Scratch => None,
            StoredName::LogFile(system, _) | StoredName::Gap(system, _) | StoredName::Object(system, _) => {
                Some(*system)
            }
        }
    }

    /// The name in its header, of what has one: keys and the repository's own object have none.
    fn name_in_header(&self) -> Option<(System, String)> {
        match self {
            StoredName::LogFile(system, name) => Some((*system, name.to_string())),
            StoredName::Object(system, name) => Some((*system, name.to_string())),
            StoredName::Gap(system, gap) => Some((*system, gap.to_string())),
            StoredName::RepositoryHeader | StoredName::Key(_) | StoredName::Scratch => None,
        }
    }
}

/// An object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Where it lies in the repository.
    pub path: String,
    /// Its length in bytes, as stored.
    pub bytes: u64,
    /// What it is; `None`: nothing that is put into a repository.
    pub name: Option<StoredName>,
}

/// An object that the store did not let go.
#[derive(Clone, Debug)]
pub struct NotRemoved {
    /// Where it lies in the repository.
    pub path: String,
    /// What the store said.
    pub error: StoreError,
}

impl Repository {
    /// All objects of a system, or of the whole repository, in order of path; what nobody knows too.
    ///
    /// # Errors
    /// `RepositoryGone`, `OtherRepository` or `Store`.
    pub fn stored(&self, system: Option<System>) -> Result<Vec<StoredObject>, ArchiveError> {
        let prefix = system.map_or_else(String::new, |system| format!("{system}/"));
        self.entries(&prefix, |entry| {
            let name = StoredName::parse(&entry.path);
            Some(StoredObject { path: entry.path, bytes: entry.bytes, name })
        })
    }

    /// Whether an object is there. It is asked for by its name: listings may be old.
    ///
    /// # Errors
    /// `Store`.
    pub fn is_there(&self, path: &str) -> Result<bool, ArchiveError> {
        match self.read_small(path, 1) {
            Ok(_) => Ok(true),
            Err(error) if error.cause == StoreCause::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether an object is listed.
    ///
    /// # Errors
    /// `RepositoryGone`, `OtherRepository` or `Store`.
    pub fn is_listed(&self, path: &str) -> Result<bool, ArchiveError> {
        let directory = path.rsplit_once('/').map_or(String::new(), |(parent, _)| format!("{parent}/"));
        let found = self.entries(&directory, |entry| (entry.path == path).then_some(()))?;
        Ok(!found.is_empty())
    }

    /// What an object says of itself. `None` for what has no such header: keys, the repository's own object, strangers.
    ///
    /// # Errors
    /// `NotFound`, `Damaged`, `OtherObject` or `Store`.
    pub fn header_of(&self, object: &StoredObject) -> Result<Option<Header>, ArchiveError> {
        let Some((system, name)) = object.name.as_ref().and_then(StoredName::name_in_header) else {
            return Ok(None);
        };
        let (header, _) = self.read_header(&object.path)?;
        check_identity(&header, system, &name, || self.storage.location(&object.path))?;
        Ok(Some(header))
    }

    /// Fetches an object that has a header, as [`Repository::fetch`]. `None` for what has none.
    ///
    /// # Errors
    /// As `fetch`.
    pub fn fetch_stored(
        &self,
        object: &StoredObject,
        sink: &mut dyn ContentSink,
    ) -> Result<Option<Header>, ArchiveError> {
        let Some((system, name)) = object.name.as_ref().and_then(StoredName::name_in_header) else {
            return Ok(None);
        };
        self.fetch_path(&object.path, system, &name, sink).map(Some)
    }

    /// The full name of a path, for messages.
    pub fn location(&self, path: &str) -> String {
        self.storage.location(path)
    }

    /// Removes objects, in their order as far as the store is asked several times, and many at once. Those that are not there are
    /// fine. Returns those that the store does not let go, because they are locked or the credentials do not allow it; the others
    /// are gone.
    ///
    /// # Errors
    /// `Store` if the store does not answer: any part may be gone then.
    pub fn remove_stored(&self, paths: &[String]) -> Result<Vec<NotRemoved>, ArchiveError> {
        let mut left = Vec::new();
        for some in paths.chunks(REMOVED_AT_ONCE) {
            let are_gone = self.storage.remove_many(some);
            for (path, _) in some.iter().zip(are_gone).filter(|(_, is_gone)| !is_gone) {
                // One by one: so it is known which it was, and why.
                match self.request(|storage| storage.remove(path)) {
                    Ok(()) => {}
                    Err(error) if error.cause == StoreCause::Denied || error.cause == StoreCause::Other => {
                        left.push(NotRemoved { path: path.clone(), error });
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_what_it_is_made_from() {
        let paths = [
            "seawall-repository",
            "postgresql-7301234567890123456/timelines/00000002.history",
            "postgresql-7301234567890123456/log/00000001/00000000/000000010000000000000001",
            "postgresql-7301234567890123456/log/00000001/00000000/000000010000000000000007.partial",
            "postgresql-7301234567890123456/gaps/000000010000000000000005-000000010000000000000009",
            "seawall-0123456789abcdef0123456789abcdef/backups/b/run-00000007",
            "seawall-0123456789abcdef0123456789abcdef/tails/00000001/0000000100000000000000A1.00000000-0001F000",
        ];
        for path in paths {
            assert_eq!(StoredName::parse(path).and_then(|name| name.path()).as_deref(), Some(path));
        }
        let key = StoredName::parse("keys/0123456789abcdef0123456789abcdef.00000007");
        assert_eq!(key, Some(StoredName::Key(7)));
        assert_eq!(StoredName::parse("check/1/race-0"), Some(StoredName::Scratch));
    }

    #[test]
    fn strangers_are_told_from_objects() {
        for path in [
            "readme.txt",
            "keys/other",
            "postgresql-1/log/00000001/00000001/000000010000000000000001",
            "postgresql-1/timelines/2.history",
            "postgresql-1/gaps/000000010000000000000005",
            "postgresql-1/core",
            "postgresql-x/backups/b/manifest",
        ] {
            assert_eq!(StoredName::parse(path), None, "{path}");
        }
    }
}
