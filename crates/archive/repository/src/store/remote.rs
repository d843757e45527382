//! S3, Google Cloud Storage and Azure, through crate `object_store`.
//!
//! Calls come from any number of threads and each waits for its own request, while two threads of a runtime drive all of
//! them: whoever wants N requests in flight calls from N threads. Connections are kept alive and shared.
//!
//! Every put carries `If-None-Match: *` (S3), `x-goog-if-generation-match: 0` (GCS) or their like: the store decides which
//! of two comes first. Requests are not retried here, but by the repository, which knows what a second attempt means.
//!
//! An object is one put, however large: the stores complete an upload in parts without a condition, or not all of them with
//! one, and whoever wants more speed puts several objects at once. So a put may take long, and its time limit grows with the
//! object; a download may take as long as it wants while bytes come. A range, which is short, has a time limit as a put has: a byte now
//! and then would keep whoever wants a header or keys waiting for ever.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use super::listing::{Listing, is_obeyed, shown};
use super::{ObjectEntry, ObjectReader, ObjectStorage, Put, StoreCause, StoreError};

/// Threads that drive requests: TLS and checksums are most of what they do.
const DRIVERS: usize = 2;

/// A put, or a get of a range, of so many bytes may take a second longer. Whoever is slower than that for all that is in flight has the
/// wrong store.
const BYTES_PER_SECOND_MIN: u64 = 1 << 20;

/// A prefix of a bucket.
#[derive(Debug)]
pub(crate) struct RemoteStorage {
    store: Arc<dyn ObjectStore>,
    /// The same, for what removes objects one by one.
    singly: Arc<dyn ObjectStore>,
    prefix: String,
    /// Of the repository, without a slash at the end: for messages.
    url: String,
    /// For an answer, and for the next bytes of a download.
    timeout: Duration,
    runtime: Runtime,
}

impl RemoteStorage {
    /// `prefix` is empty, or a path with neither a slash at its start nor at its end.
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        singly: Arc<dyn ObjectStore>,
        prefix: String,
        url: String,
        timeout: Duration,
    ) -> std::io::Result<RemoteStorage> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(DRIVERS)
            .thread_name("archive-requests")
            .enable_all()
            .build()?;
        Ok(RemoteStorage { store, singly, prefix, url, timeout, runtime })
    }

    fn full(&self, path: &str) -> Path {
        match (self.prefix.is_empty(), path.is_empty()) {
            (true, _) => Path::from(path),
            (false, true) => Path::from(self.prefix.as_str()),
            (false, false) => Path::from(format!("{}/{path}", self.prefix)),
        }
    }

    /// The path within the repository, which is empty for its own directory; whole, where it is not within.
    fn relative(&self, full: &Path) -> String {
        let full = full.as_ref();
        let rest = match full.strip_prefix(self.prefix.as_str()) {
            Some(rest) if self.prefix.is_empty() || rest.is_empty() => Some(rest),
            Some(rest) => rest.strip_prefix('/'),
            None => None,
        };
        rest.unwrap_or(full).to_owned()
    }

    /// Waits for a request, for at most `limit`.
    fn run<T>(
        &self,
        operation: &'static str,
        path: &str,
        limit: Duration,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, StoreError> {
        // The limit's timer belongs to the runtime: it must be made inside of it.
        let timed = self.runtime.block_on(async { tokio::time::timeout(limit, request).await });
        match timed {
            Ok(answer) => {
                answer.map_err(|error| self.failed(operation, path, cause_of(&error), message_of(&error)))
            }
            Err(_) => {
                let message = format!("no answer within {} s", limit.as_secs());
                Err(self.failed(operation, path, StoreCause::TimedOut, message))
            }
        }
    }

    fn failed(&self, operation: &'static str, path: &str, cause: StoreCause, message: String) -> StoreError {
        StoreError { operation, object: self.location(path), cause, message, attempts: 1 }
    }
}

impl ObjectStorage for RemoteStorage {
    fn put_new(&self, path: &str, pieces: &[Bytes]) -> Result<Put, StoreError> {
        let payload = PutPayload::from_iter(pieces.iter().cloned());
        let limit = limit_of(self.timeout, pieces.iter().map(|piece| piece.len() as u64).sum());
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let target = self.full(path);
        self.run("put", path, limit, async {
            match self.store.put_opts(&target, payload, options).await {
                Ok(_) => Ok(Put::Stored),
                Err(Error::AlreadyExists { .. }) => Ok(Put::Exists),
                Err(error) => Err(error),
            }
        })
    }

    fn open(&self, path: &str, range: Option<Range<u64>>) -> Result<Box<dyn ObjectReader + '_>, StoreError> {
        let limit = range.as_ref().map(|range| limit_of(self.timeout, range.end - range.start));
        let due = limit.map(|limit| (Instant::now() + limit, limit));
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let got = self.run("get", path, self.timeout, self.store.get_opts(&self.full(path), options))?;
        Ok(Box::new(RemoteReader { storage: self, path: path.to_owned(), stream: got.into_stream(), due }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectEntry>, StoreError> {
        let full = self.full(prefix);
        let mut stream = self.store.list(Some(&full));
        let mut listing = Listing::new(prefix);
        while let Some(entry) =
            self.run("list", prefix, self.timeout, async { stream.next().await.transpose() })?
        {
            let taken = listing.take(self.relative(&entry.location), entry.size);
            taken.map_err(|message| self.failed("list", prefix, StoreCause::Other, message))?;
        }
        Ok(listing.into_entries())
    }

    fn list_directories(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let full = self.full(prefix);
        let listed = self.run("list", prefix, self.timeout, self.store.list_with_delimiter(Some(&full)))?;
        let last_part = |path: &Path| path.filename().map(str::to_owned);
        let mut names: Vec<String> = listed.common_prefixes.iter().filter_map(last_part).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        let full = self.full(path);
        self.run("remove", path, self.timeout, async {
            match self.singly.delete(&full).await {
                Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }

    fn remove_many(&self, paths: &[String]) -> Vec<bool> {
        let full: Vec<Path> = paths.iter().map(|path| self.full(path)).collect();
        let given = futures_util::stream::iter(full.clone().into_iter().map(Ok)).boxed();
        let mut answers = self.store.delete_stream(given);
        let mut gone = BTreeSet::new();
        loop {
            match self.run("remove", "", self.timeout, async { Ok(answers.next().await) }) {
                Ok(Some(Ok(path))) => drop(gone.insert(path)),
                // Who is asked for it alone says more, where some stores cannot remove many at once, too.
                Ok(Some(Err(error))) => tracing::debug!(%error, "an object was not removed with others"),
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "objects were not removed together");
                    break;
                }
            }
        }
        full.iter().map(|path| gone.contains(path)).collect()
    }

    /// A put that is cut short leaves nothing.
    fn remove_leftovers(&self, _: i64) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn location(&self, path: &str) -> String {
        if path.is_empty() { self.url.clone() } else { format!("{}/{}", self.url, shown(path)) }
    }

    fn is_near(&self) -> bool {
        false
    }

    fn reads_only_durable(&self) -> bool {
        true
    }
}

struct RemoteReader<'a> {
    storage: &'a RemoteStorage,
    path: String,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    /// When all of it must be there, if there is a limit, and how long that is after the request.
    due: Option<(Instant, Duration)>,
}

impl ObjectReader for RemoteReader<'_> {
    fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let RemoteReader { storage, path, stream, due } = self;
        let left = due.map(|(due, limit)| (due.saturating_duration_since(Instant::now()), limit));
        let (wait, limit) = match left {
            Some((left, limit)) if left < storage.timeout => (left, Some(limit)),
            _ => (storage.timeout, None),
        };
        let next = storage.run("get", path, wait, async { stream.next().await.transpose() });
        next.map_err(|error| match (limit, error.cause) {
            (Some(limit), StoreCause::TimedOut) => {
                let message = format!("not all of it has come within {} s", limit.as_secs());
                StoreError { message, ..error }
            }
            _ => error,
        })
    }
}

/// How long a transfer whose length is known may take.
pub(super) fn limit_of(timeout: Duration, bytes: u64) -> Duration {
    timeout + Duration::from_secs(bytes / BYTES_PER_SECOND_MIN)
}

/// The innermost errors say most: the outer ones repeat them.
fn message_of(error: &Error) -> String {
    let mut innermost: &dyn StdError = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let (outer, inner) = (error.to_string(), innermost.to_string());
    let message = if outer.contains(&inner) { outer } else { format!("{outer}: {inner}") };
    // Stores answer with pages of XML or HTML.
    let line: String = message.split_whitespace().collect::<Vec<_>>().join(" ").replace(is_obeyed, " ");
    match line.char_indices().nth(MESSAGE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

const MESSAGE_CHARACTERS_MAX: usize = 600;

/// What S3, Azure and Google's token service say to a request from another time: it is signed with that.
const OTHER_TIME: [&str; 3] = ["RequestTimeTooSkewed", "Request date header too old", "iat and exp values"];

fn cause_of(error: &Error) -> StoreCause {
    let message = message_of(error);
    if OTHER_TIME.iter().any(|words| message.contains(words)) {
        return StoreCause::WrongClock;
    }
    match error {
        Error::NotFound { .. } => return StoreCause::NotFound,
        Error::PermissionDenied { .. } => return StoreCause::Denied,
        Error::Unauthenticated { .. } => return StoreCause::Unauthenticated,
        _ => {}
    }
    let mut link: Option<&dyn StdError> = Some(error);
    while let Some(current) = link {
        if let Some(http) = current.downcast_ref::<HttpError>() {
            return match http.kind() {
                HttpErrorKind::Connect => StoreCause::Unreachable,
                HttpErrorKind::Timeout => StoreCause::TimedOut,
                HttpErrorKind::Request | HttpErrorKind::Interrupted | HttpErrorKind::Decode => {
                    StoreCause::Interrupted
                }
                _ => StoreCause::Other,
            };
        }
        link = current.source();
    }
    status_of(&error.to_string()).map_or(StoreCause::Other, cause_of_status)
}

/// The status is in an error type that the library keeps for itself, and in its text.
fn status_of(message: &str) -> Option<u16> {
    let (_, rest) = message.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

fn cause_of_status(status: u16) -> StoreCause {
    match status {
        401 => StoreCause::Unauthenticated,
        403 => StoreCause::Denied,
        404 => StoreCause::NotFound,
        408 => StoreCause::TimedOut,
        429 | 503 => StoreCause::Busy,
        507 => StoreCause::Full,
        500..=599 => StoreCause::Faulty,
        _ => StoreCause::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_may_take_longer_the_larger_it_is() {
        let timeout = Duration::from_secs(60);
        assert_eq!(limit_of(timeout, 0), timeout);
        assert_eq!(limit_of(timeout, 16 << 20), Duration::from_secs(76));
        assert_eq!(limit_of(timeout, 1 << 30), Duration::from_secs(60 + 1024));
    }
}
