//! S3, Google Cloud Storage and Azure, through crate `object_store`.
//!
//! Calls come from any number of threads and each waits for its own request, while two threads of a runtime drive all of
//! them: whoever wants N requests in flight calls from N threads. Connections are kept alive and shared.
//!
//! Every put carries `If-None-Match: *` (S3), `x-goog-if-generation-match: 0` (GCS) or their like: the store decides which
//! of two comes first. Requests are not retried here, but by the repository, which knows what a second attempt means.

use std::error::Error as StdError;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};
use tokio::runtime::Runtime;

use super::{ObjectEntry, ObjectReader, ObjectStorage, Put, StoreCause, StoreError};

/// Threads that drive requests: TLS and checksums are most of what they do.
const DRIVERS: usize = 2;

/// A prefix of a bucket.
#[derive(Debug)]
pub(crate) struct RemoteStorage {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    /// Of the repository, without a slash at the end: for messages.
    url: String,
    runtime: Runtime,
}

impl RemoteStorage {
    /// `prefix` is empty, or a path with neither a slash at its start nor at its end.
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        prefix: String,
        url: String,
    ) -> std::io::Result<RemoteStorage> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(DRIVERS)
            .thread_name("archive-requests")
            .enable_all()
            .build()?;
        Ok(RemoteStorage { store, prefix, url, runtime })
    }

    fn full(&self, path: &str) -> Path {
        match (self.prefix.is_empty(), path.is_empty()) {
            (true, _) => Path::from(path),
            (false, true) => Path::from(self.prefix.as_str()),
            (false, false) => Path::from(format!("{}/{path}", self.prefix)),
        }
    }

    /// The path within the repository.
    fn relative(&self, full: &Path) -> String {
        let full = full.as_ref();
        let rest = full.strip_prefix(self.prefix.as_str()).unwrap_or(full);
        rest.trim_start_matches('/').to_owned()
    }

    fn error(&self, operation: &'static str, path: &str, error: &Error) -> StoreError {
        let object = self.location(path);
        StoreError { operation, object, cause: cause_of(error), message: message_of(error), attempts: 1 }
    }
}

impl ObjectStorage for RemoteStorage {
    fn put_new(&self, path: &str, pieces: &[Bytes]) -> Result<Put, StoreError> {
        let payload = PutPayload::from_iter(pieces.iter().cloned());
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let target = self.full(path);
        match self.runtime.block_on(self.store.put_opts(&target, payload, options)) {
            Ok(_) => Ok(Put::Stored),
            Err(Error::AlreadyExists { .. }) => Ok(Put::Exists),
            Err(error) => Err(self.error("put", path, &error)),
        }
    }

    fn open(&self, path: &str, range: Option<Range<u64>>) -> Result<Box<dyn ObjectReader + '_>, StoreError> {
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let got = self.runtime.block_on(self.store.get_opts(&self.full(path), options));
        let stream = got.map_err(|error| self.error("get", path, &error))?.into_stream();
        Ok(Box::new(RemoteReader { storage: self, path: path.to_owned(), stream }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectEntry>, StoreError> {
        let full = self.full(prefix);
        let mut stream = self.store.list(Some(&full));
        let mut entries = Vec::new();
        while let Some(entry) = self.runtime.block_on(stream.next()) {
            let entry = entry.map_err(|error| self.error("list", prefix, &error))?;
            entries.push(ObjectEntry { path: self.relative(&entry.location), bytes: entry.size });
        }
        entries.sort();
        Ok(entries)
    }

    fn list_directories(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let listed = self.runtime.block_on(self.store.list_with_delimiter(Some(&self.full(prefix))));
        let listed = listed.map_err(|error| self.error("list", prefix, &error))?;
        let last_part = |path: &Path| path.filename().map(str::to_owned);
        let mut names: Vec<String> = listed.common_prefixes.iter().filter_map(last_part).collect();
        names.sort();
        Ok(names)
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        match self.runtime.block_on(self.store.delete(&self.full(path))) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.error("remove", path, &error)),
        }
    }

    fn location(&self, path: &str) -> String {
        if path.is_empty() { self.url.clone() } else { format!("{}/{path}", self.url) }
    }
}

struct RemoteReader<'a> {
    storage: &'a RemoteStorage,
    path: String,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
}

impl ObjectReader for RemoteReader<'_> {
    fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let next = self.storage.runtime.block_on(self.stream.next());
        next.transpose().map_err(|error| self.storage.error("get", &self.path, &error))
    }
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
    let line: String = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

const MESSAGE_CHARACTERS_MAX: usize = 600;

fn cause_of(error: &Error) -> StoreCause {
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
