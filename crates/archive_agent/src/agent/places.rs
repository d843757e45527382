//! The repositories: each opened when it answers, so that one that is down keeps nobody from using the others.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_archive::{
    ArchiveError, Repository, RepositoryOptions, RepositoryUrl, RetryPolicy, StoreCause, StoreError,
};
use seawall_codec::checksum::crc32c;

use super::stock::{Stock, processors};
use crate::say::say;
use crate::settings::Settings;

/// How long requests are tried before a command is told: PostgreSQL calls again.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
/// One that could not give a file is asked last for so long.
const ASKED_LAST: Duration = Duration::from_secs(30);

/// One repository.
#[derive(Debug)]
pub(crate) struct Place {
    url: RepositoryUrl,
    options: RepositoryOptions,
    /// A file is archived when all that are required have it.
    pub(crate) is_required: bool,
    repository: OnceLock<Repository>,
    /// Why it could not be opened the last time. Held by the one that opens it.
    opening: Mutex<Option<StoreError>>,
    /// How often it could not be opened.
    failures: AtomicU64,
    /// Until then others are asked for files first.
    asked_last_until: Mutex<Duration>,
    /// Files that are fetched ahead at once. A directory has no latency to hide: more at once than there are processors would all
    /// come late, where recovery wants the first one first.
    pub(crate) fetches: Stock,
}

/// Those that the settings name, the required ones first. At least one of them answers. An optional one, which may hang, is asked only
/// where none of the others answers.
pub(crate) fn open_places(settings: &Settings) -> Result<Vec<Place>, String> {
    let refuse = |error: crate::settings::SettingsError| error.to_string();
    let required = settings.repositories().map_err(refuse)?.into_iter().map(|url| (url, true));
    let optional = settings.optional_repositories().into_iter().map(|url| (url, false));
    let in_flight = settings.in_flight().map_err(refuse)? as u64;
    let mut places = Vec::new();
    for (text, is_required) in required.chain(optional) {
        let url: RepositoryUrl = text.parse().map_err(|error| format!("{error}"))?;
        let options = RepositoryOptions {
            master_key: settings.master_key().map_err(refuse)?,
            credentials: settings.credentials().clone(),
            retry: RetryPolicy { give_up_after: GIVE_UP_AFTER, ..RetryPolicy::default() },
            ..RepositoryOptions::default()
        };
        places.push(Place::new(url, options, is_required, in_flight));
    }
    let problems_of = |is_required: bool| -> (usize, Vec<String>) {
        let asked: Vec<&Place> = places.iter().filter(|place| place.is_required == is_required).collect();
        let problems = asked.iter().filter_map(|place| place.open().err()).map(|error| error.to_string());
        (asked.len(), problems.collect())
    };
    let (required, problems) = problems_of(true);
    if problems.len() == required {
        let (optional, others) = problems_of(false);
        if others.len() == optional {
            return Err(problems.into_iter().next().expect("there is a required repository"));
        }
    }
    problems.iter().for_each(|problem| say!("a repository cannot be opened yet: {problem}"));
    Ok(places)
}

impl Place {
    fn new(url: RepositoryUrl, options: RepositoryOptions, is_required: bool, in_flight: u64) -> Place {
        let fetches = if url.is_directory() { in_flight.min(processors() + 1) } else { in_flight };
        Place {
            fetches: Stock::new(fetches),
            url,
            options,
            is_required,
            repository: OnceLock::new(),
            opening: Mutex::default(),
            failures: AtomicU64::new(0),
            asked_last_until: Mutex::default(),
        }
    }

    /// The repository; opens it, if it has not answered so far.
    pub(crate) fn open(&self) -> Result<&Repository, ArchiveError> {
        if let Some(repository) = self.repository.get() {
            return Ok(repository);
        }
        let failures = self.failures.load(Ordering::SeqCst);
        let mut last = self.opening.lock();
        if let Some(repository) = self.repository.get() {
            return Ok(repository);
        }
        // Whoever waited for one that failed has its answer: each of many trying in turn would take many times as long.
        if let Some(error) = last.as_ref().filter(|_| self.failures.load(Ordering::SeqCst) != failures) {
            return Err(error.clone().into());
        }
        match Repository::open(&self.url, self.options.clone()) {
            Ok(repository) => Ok(self.repository.get_or_init(|| repository)),
            Err(error) => {
                *last = Some(self.as_store_error(&error));
                self.failures.fetch_add(1, Ordering::SeqCst);
                Err(error)
            }
        }
    }

    fn as_store_error(&self, error: &ArchiveError) -> StoreError {
        match error {
            ArchiveError::Store(error) => error.clone(),
            other => StoreError {
                operation: "open",
                object: self.location(),
                cause: StoreCause::Other,
                message: other.to_string(),
                attempts: 1,
            },
        }
    }

    /// The repository, if it has answered once.
    pub(crate) fn opened(&self) -> Option<&Repository> {
        self.repository.get()
    }

    /// Where it is, without options.
    pub(crate) fn location(&self) -> String {
        self.url.location()
    }

    /// A number made of where it is, for the names of files.
    pub(crate) fn key(&self) -> String {
        format!("{:08x}", crc32c(self.location().as_bytes()))
    }

    /// It could not be read: others are asked first for a while.
    pub(crate) fn ask_last(&self, now: Duration) {
        *self.asked_last_until.lock() = now + ASKED_LAST;
    }

    /// In the order in which they are asked for files.
    pub(crate) fn in_order(places: &[Place], now: Duration) -> Vec<&Place> {
        let mut ordered: Vec<&Place> = places.iter().collect();
        ordered.sort_by_key(|place| *place.asked_last_until.lock() > now);
        ordered
    }
}
