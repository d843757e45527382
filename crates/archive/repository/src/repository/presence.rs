//! Whether a repository that was opened is still there, and still the same.
//!
//! A file system that is not mounted, a bucket that was deleted and an address that leads elsewhere all answer that there is no
//! such object. For a recovery that would be the end of the archive: it would open the server for writes. And what is put into
//! another repository that has taken the place of the one that was opened is encrypted with a key that nobody has. So the header
//! is read again, and compared:
//!
//! ```text
//!   an object is not there, a listing is empty   before anybody is told so
//!   a put into a directory                       each time: it costs as much as opening a file
//!   a put into a store                           once a minute: an object costs no request more
//! ```
//! Once a minute a put also looks which keys the repository has: what is put encrypts with a renewed key by then.
//!
//! The first answer may be from the moment before the store came back, and the header from the one after: only an answer that was
//! given after the header was good says that there is no such object. That costs one request where an archive ends.

use std::time::Duration;

use parking_lot::Mutex;

use super::Repository;
use crate::error::ArchiveError;

/// How long puts into a store rely upon the last look at its header, and all puts on that at its keys.
const CONFIRMED_FOR: Duration = Duration::from_secs(60);

impl Repository {
    /// Looks whether the repository is still the one that was opened, and reads its keys again. For those that keep it open for
    /// long; what is put and fetched looks by itself where it must. After an error that
    /// [asks for it](ArchiveError::asks_for_reopening), open it anew: it keeps the credentials that it was opened with.
    ///
    /// # Errors
    /// `RepositoryGone`, `OtherRepository`; those of `open`.
    pub fn refresh(&self) -> Result<(), ArchiveError> {
        self.confirm()?;
        self.reread_keys()
    }

    /// The header is still the one that was read when the repository was opened.
    pub(super) fn confirm(&self) -> Result<(), ArchiveError> {
        let url = self.url.clone();
        let found = self.find_header()?.map(|(header, _)| header);
        let found = found.ok_or_else(|| ArchiveError::RepositoryGone { url: url.clone() })?;
        if found != self.header {
            let (opened, found) = (self.header.id_text(), found.id_text());
            return Err(ArchiveError::OtherRepository { url, opened, found });
        }
        *self.confirmed.lock() = self.clock().monotonic();
        Ok(())
    }

    /// Before a put: the repository is still the one that was opened, and its newest key is known.
    pub(crate) fn confirm_before_put(&self) -> Result<(), ArchiveError> {
        let now = self.clock().monotonic();
        let is_due = |looked: &Mutex<Duration>| now.saturating_sub(*looked.lock()) >= CONFIRMED_FOR;
        if self.storage.is_near() || is_due(&self.confirmed) {
            self.confirm()?;
        }
        if is_due(&self.keys_compared) {
            self.take_up_keys()?;
            *self.keys_compared.lock() = now;
        }
        Ok(())
    }

    /// What `list` finds. If that is nothing, the header is looked at, and what a second look finds counts.
    pub(super) fn confirm_none<T>(
        &self,
        list: impl Fn() -> Result<Vec<T>, ArchiveError>,
    ) -> Result<Vec<T>, ArchiveError> {
        let found = list()?;
        if !found.is_empty() {
            return Ok(found);
        }
        self.confirm()?;
        list()
    }

    /// What `look` finds. If it says that there is no such object, the header is looked at, and what a second look finds counts.
    pub(super) fn confirm_absence<T>(
        &self,
        mut look: impl FnMut() -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        match look() {
            Err(ArchiveError::NotFound { .. }) => {}
            other => return other,
        }
        self.confirm()?;
        look()
    }
}
