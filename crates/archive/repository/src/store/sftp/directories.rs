//! Directories of the server: what is in them, and below them.

use super::connection::{Entry, is_directory, is_file};
use super::problem::Problem;
use super::{SftpStorage, absent_is_empty};
use crate::layout;
use crate::store::listing::{Listing, shown};
use crate::store::new_file::time_of_new;
use crate::store::{ObjectStorage, StoreCause, StoreError};

/// Names that begin so are no objects.
const HIDDEN: char = '.';
/// Directories of a repository are not so deep: whoever lists more never ends.
const DEPTH_MAX: usize = 16;

impl SftpStorage {
    /// What is in one directory, links followed; nothing that is hidden.
    pub(super) fn entries(&self, directory: &str) -> Result<Vec<Entry>, StoreError> {
        let all = self.all_entries(directory)?;
        Ok(all.into_iter().filter(|entry| !entry.name.starts_with(HIDDEN)).collect())
    }

    fn all_entries(&self, directory: &str) -> Result<Vec<Entry>, StoreError> {
        let full = self.full(directory);
        self.run("list", directory, self.place.timeout, async |connection| {
            let (mut entries, mut listing) = (Vec::new(), Listing::new(""));
            let take = |entry: Entry| {
                if entry.name.is_empty() || entry.name.contains('/') {
                    return Err(Problem::other(format!("it lists {}, which is no name", shown(&entry.name))));
                }
                listing.take(entry.name.clone(), 0).map_err(Problem::other)?;
                entries.push(entry);
                Ok(())
            };
            connection.list(&full, take).await?;
            for entry in &mut entries {
                if !is_file(&entry.attributes) && !is_directory(&entry.attributes) {
                    let found = connection.attributes(&format!("{full}/{}", entry.name)).await?;
                    entry.attributes = found.unwrap_or_default();
                }
            }
            Ok(entries)
        })
    }

    pub(super) fn walk(
        &self,
        directory: &str,
        depth: usize,
        listing: &mut Listing<'_>,
        has_found: &mut bool,
    ) -> Result<(), StoreError> {
        let refuse = |message: String| StoreError {
            operation: "list",
            object: self.location(directory),
            cause: StoreCause::Other,
            message,
            attempts: 1,
        };
        if depth > DEPTH_MAX {
            return Err(refuse("directories lie in one another without an end".to_owned()));
        }
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        for entry in self.entries(directory)? {
            let path = format!("{prefix}{}", entry.name);
            if is_file(&entry.attributes) {
                *has_found = true;
                listing.take(path, entry.attributes.len()).map_err(&refuse)?;
            } else if is_directory(&entry.attributes) {
                match self.walk(&path, depth + 1, listing, has_found) {
                    Err(error)
                        if error.cause == StoreCause::Denied
                            && directory.is_empty()
                            && !layout::is_own(&entry.name) =>
                    {
                        tracing::info!(%error, "a directory that is not the repository's is passed over");
                    }
                    walked => walked?,
                }
            }
        }
        Ok(())
    }

    pub(super) fn remove_old(
        &self,
        directory: &str,
        depth: usize,
        before_micros: i64,
    ) -> Result<u64, StoreError> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let mut removed = 0;
        for entry in passed_over(self.all_entries(directory))? {
            let path = format!("{prefix}{}", entry.name);
            if time_of_new(&entry.name).is_some_and(|micros| micros < before_micros) {
                let was_there = self.run("remove", &path, self.place.timeout, async |connection| {
                    connection.remove(&self.full(&path)).await
                });
                removed += u64::from(passed_over(was_there)?);
            } else if is_directory(&entry.attributes) && !entry.name.starts_with(HIDDEN) && depth < DEPTH_MAX
            {
                removed += self.remove_old(&path, depth + 1, before_micros)?;
            }
        }
        Ok(removed)
    }
}

/// Nothing, where nothing is or this user may not.
fn passed_over<T: Default>(result: Result<T, StoreError>) -> Result<T, StoreError> {
    match absent_is_empty(result) {
        Err(error) if error.cause == StoreCause::Denied => Ok(T::default()),
        other => other,
    }
}
