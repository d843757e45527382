//! Handles of the repositories: each repository is opened when it answers, so that one that is down keeps no thread from using the others.
//! It is opened anew when another one has taken its place, or when its keys or the credentials are others.
//!
//! A repository that was replaced has nothing of what the one before had. [`RepositoryHandle::take_change`] says so once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use seawall_archive::{
    ArchiveError, Packed, Repository, RepositoryOptions, RepositoryUrl, RequestStatistics, RetryPolicy,
    StoreCause, StoreError, System,
};
use seawall_codec::checksum::crc32c;
#[cfg(test)]
use seawall_io::Disk;

use super::durations::DurationCounter;
use super::semaphore::{Semaphore, processors};
use crate::log_line::log_line;
use crate::settings::ArchiveSettings;

/// How long requests are tried before a command is told: PostgreSQL calls again.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
/// One that could not give a file is asked last for so long.
const ASKED_LAST: Duration = Duration::from_secs(30);

/// A repository that the settings name, open or not.
#[derive(Debug)]
pub(crate) struct RepositoryHandle {
    url: RepositoryUrl,
    /// The disk that holds the repository in place of the directory at `url`.
    #[cfg(test)]
    disk: Option<Arc<dyn Disk>>,
    options: RepositoryOptions,
    /// A file is archived when all that are required have it.
    pub(crate) is_required: bool,
    repository: RwLock<Option<Arc<Repository>>>,
    /// Id of the repository that was opened last, by this agent or one before.
    id: Mutex<Option<String>>,
    /// That is another one than before.
    is_changed: AtomicBool,
    /// Somebody looks whether it is still the one that was opened.
    is_looked_at: AtomicBool,
    /// Of the times that it was open before.
    past: Mutex<RequestStatistics>,
    /// Why it could not be opened the last time. Held by the one that opens it.
    opening: Mutex<Option<StoreError>>,
    /// How often it could not be opened.
    failures: AtomicU64,
    /// Until then others are asked for files first.
    asked_last_until: Mutex<Duration>,
    /// The history that was put last.
    last_history: Mutex<Option<HistoryMark>>,
    /// Uploads that succeeded: how long each took, and the bytes of all.
    pub(crate) uploads: DurationCounter,
    pub(crate) upload_bytes: AtomicU64,
    /// Files that are fetched ahead at once. A directory has no latency to hide: more at once than there are processors would all
    /// come late, where recovery wants the first one first.
    pub(crate) fetches: Semaphore,
}

/// Stands for a history in a repository: of all segments of a timeline, one puts it.
#[derive(Debug, PartialEq, Eq)]
struct HistoryMark {
    repository: String,
    system: System,
    name: String,
    checksum: u64,
}

/// Those that the settings name, the required ones first. At least one of them answers, or has answered an earlier agent: what is to
/// happen while a store is down must not depend on when the agent was started. Where an earlier agent has opened a required one, none
/// is asked here: any may hang, and the agent is to listen. [`RepositoryHandle::look_at`] opens them then, each in a thread of its own.
///
/// `known` has the ids of those that an earlier agent has opened, by [`RepositoryHandle::key`].
pub(crate) fn open_repositories(
    settings: &ArchiveSettings,
    known: &BTreeMap<String, String>,
) -> Result<Vec<RepositoryHandle>, String> {
    let refuse = |error: crate::settings::SettingsError| error.to_string();
    let required = settings.repositories().map_err(refuse)?.iter().map(|url| (url, true));
    let optional = settings.optional_repositories().iter().map(|url| (url, false));
    let in_flight = settings.get_in_flight() as u64;
    let mut repositories = Vec::new();
    for (text, is_required) in required.chain(optional) {
        let url: RepositoryUrl = text.parse().map_err(|error| format!("{error}"))?;
        let options = RepositoryOptions {
            master_key: settings.master_key(),
            credentials: settings.credentials(),
            retry: RetryPolicy { give_up_after: GIVE_UP_AFTER, ..RetryPolicy::default() },
            ..RepositoryOptions::default()
        };
        repositories.push(RepositoryHandle::new(url, options, is_required, in_flight));
    }
    begin(repositories, known)
}

/// Opens as few of them as [`open_repositories`] promises.
pub(super) fn begin(
    repositories: Vec<RepositoryHandle>,
    known: &BTreeMap<String, String>,
) -> Result<Vec<RepositoryHandle>, String> {
    refuse_repeated(&repositories)?;
    for handle in &repositories {
        *handle.id.lock() = known.get(&handle.key()).cloned();
    }
    if repositories.iter().any(|handle| handle.is_required && handle.id().is_some()) {
        return Ok(repositories);
    }
    let problems_of = |is_required: bool| -> (usize, Vec<String>) {
        let asked: Vec<&RepositoryHandle> =
            repositories.iter().filter(|handle| handle.is_required == is_required).collect();
        let problems = asked.iter().filter_map(|handle| handle.open().err()).map(|error| error.to_string());
        (asked.len(), problems.collect())
    };
    let (required, problems) = problems_of(true);
    if problems.len() == required {
        let (optional, others) = problems_of(false);
        if others.len() == optional {
            return Err(problems.into_iter().next().expect("there is a required repository"));
        }
    }
    problems.iter().for_each(|problem| log_line!("a repository cannot be opened yet: {problem}"));
    Ok(repositories)
}

/// The spool knows a repository by its key alone: two with one key would count as one.
fn refuse_repeated(repositories: &[RepositoryHandle]) -> Result<(), String> {
    let mut seen: BTreeMap<String, &RepositoryHandle> = BTreeMap::new();
    for handle in repositories {
        if let Some(other) = seen.insert(handle.key(), handle) {
            return Err(format!(
                "the repository {} is named twice, as {} and as {}: name it once, as required or as optional",
                handle.location(),
                other.url,
                handle.url
            ));
        }
    }
    Ok(())
}

impl RepositoryHandle {
    fn new(
        url: RepositoryUrl,
        options: RepositoryOptions,
        is_required: bool,
        in_flight: u64,
    ) -> RepositoryHandle {
        let fetches = if url.is_directory() { in_flight.min(processors() + 1) } else { in_flight };
        RepositoryHandle {
            fetches: Semaphore::new(fetches),
            url,
            #[cfg(test)]
            disk: None,
            options,
            is_required,
            repository: RwLock::default(),
            id: Mutex::default(),
            is_changed: AtomicBool::new(false),
            is_looked_at: AtomicBool::new(false),
            past: Mutex::default(),
            opening: Mutex::default(),
            failures: AtomicU64::new(0),
            asked_last_until: Mutex::default(),
            last_history: Mutex::default(),
            uploads: DurationCounter::default(),
            upload_bytes: AtomicU64::new(0),
        }
    }

    /// A repository on a simulated disk.
    #[cfg(test)]
    pub(super) fn on(disk: Arc<dyn Disk>, options: RepositoryOptions, is_required: bool) -> RepositoryHandle {
        let url = disk.location("").replace("simulated:", "file://").parse().expect("a directory");
        RepositoryHandle { disk: Some(disk), ..RepositoryHandle::new(url, options, is_required, 2) }
    }

    /// Asks the repository for something; opens it before, if it is not open. After a failure that says that it is another one by now,
    /// or has other keys, or that the credentials are others, it is opened anew for the next request.
    ///
    /// # Errors
    /// Those of `request`, and of opening.
    pub(crate) fn ask<T>(
        &self,
        request: impl FnOnce(&Repository) -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        let repository = self.open()?;
        let result = request(&repository);
        if let Err(error) = &result
            && error.asks_for_reopening()
        {
            self.close(&repository);
        }
        result
    }

    /// Puts the history of a timeline into the repository, unless it was the last one that was put there.
    ///
    /// # Errors
    /// `OtherContent` if the timeline with this number is another one there; those of a put.
    pub(crate) fn put_history(&self, repository: &Repository, history: &Packed) -> Result<(), ArchiveError> {
        let header = history.header();
        let mark = HistoryMark {
            repository: repository.header().id_text(),
            system: header.system,
            name: header.name.clone(),
            checksum: header.plain_checksum,
        };
        if self.last_history.lock().as_ref() != Some(&mark) {
            repository.push(history)?;
            *self.last_history.lock() = Some(mark);
        }
        Ok(())
    }

    fn open(&self) -> Result<Arc<Repository>, ArchiveError> {
        if let Some(repository) = self.opened() {
            return Ok(repository);
        }
        let failures = self.failures.load(Ordering::SeqCst);
        let mut last = self.opening.lock();
        if let Some(repository) = self.opened() {
            return Ok(repository);
        }
        // Whoever waited for one that failed has its answer: each of many trying in turn would take many times as long.
        if let Some(error) = last.as_ref().filter(|_| self.failures.load(Ordering::SeqCst) != failures) {
            return Err(error.clone().into());
        }
        match self.open_repository() {
            Ok(repository) => Ok(self.take_on(repository)),
            Err(error) => {
                let error = match error {
                    // One was opened there before: to make another is not what helps.
                    ArchiveError::NoRepository { url } if self.id().is_some() => {
                        ArchiveError::RepositoryGone { url }
                    }
                    other => other,
                };
                *last = Some(self.as_store_error(&error));
                self.failures.fetch_add(1, Ordering::SeqCst);
                Err(error)
            }
        }
    }

    fn open_repository(&self) -> Result<Repository, ArchiveError> {
        #[cfg(test)]
        if let Some(disk) = &self.disk {
            return Repository::open_on(Arc::clone(disk), self.options.clone());
        }
        Repository::open(&self.url, self.options.clone())
    }

    fn take_on(&self, repository: Repository) -> Arc<Repository> {
        let (id, repository) = (repository.header().id_text(), Arc::new(repository));
        // Before anybody can put something into it.
        let before = self.id.lock().replace(id.clone());
        if before.as_ref() != Some(&id) {
            self.is_changed.store(true, Ordering::SeqCst);
            if let Some(before) = before {
                let location = self.location();
                log_line!(
                    "{location} is another repository now, {id}: it was {before}, and what that had counts no more"
                );
            }
        }
        *self.repository.write() = Some(Arc::clone(&repository));
        repository
    }

    /// It is opened anew by whoever asks next, if that has not happened already.
    fn close(&self, repository: &Arc<Repository>) {
        let mut opened = self.repository.write();
        if opened.as_ref().is_some_and(|opened| Arc::ptr_eq(opened, repository)) {
            *opened = None;
            add(&mut self.past.lock(), repository.statistics());
        }
    }

    /// Looks whether the repository is still the one that was opened, with the same keys, unless another thread does so already. Opens
    /// it if it is not open then: acknowledgements for one that was replaced count until the new one is known.
    pub(crate) fn look_at(&self) {
        if self.is_looked_at.swap(true, Ordering::SeqCst) {
            return;
        }
        let refreshed = self.opened().map_or(Ok(()), |repository| self.ask(|_| repository.refresh()));
        if let Err(error) = refreshed {
            log_line!("{} was looked at: {error}", self.location());
        }
        if let Err(error) = self.open() {
            log_line!("{} cannot be opened yet: {error}", self.location());
        }
        self.is_looked_at.store(false, Ordering::SeqCst);
    }

    /// Whether the repository is another one than at the last time that this was asked.
    pub(crate) fn take_change(&self) -> bool {
        self.is_changed.swap(false, Ordering::SeqCst)
    }

    /// Id of the repository that was opened last.
    pub(crate) fn id(&self) -> Option<String> {
        self.id.lock().clone()
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

    fn opened(&self) -> Option<Arc<Repository>> {
        self.repository.read().clone()
    }

    /// Requests, since the agent began.
    pub(crate) fn statistics(&self) -> RequestStatistics {
        let mut all = self.past.lock().clone();
        if let Some(repository) = self.opened() {
            add(&mut all, repository.statistics());
        }
        all
    }

    /// Where it is, without options.
    pub(crate) fn location(&self) -> String {
        self.url.location()
    }

    /// A number made of its whole address, for the names of files: the same bucket and prefix at another endpoint is another repository.
    pub(crate) fn key(&self) -> String {
        format!("{:08x}", crc32c(self.url.address().as_bytes()))
    }

    /// Stands for the repository with this id at this address, where notes say who has a gap on record.
    pub(crate) fn record_mark(&self, id: &str) -> String {
        format!("{}:{id}", self.key())
    }

    /// It could not be read: others are asked first for a while.
    pub(crate) fn ask_last(&self, now: Duration) {
        *self.asked_last_until.lock() = now + ASKED_LAST;
    }

    /// In the order in which they are asked for files.
    pub(crate) fn in_order(repositories: &[RepositoryHandle], now: Duration) -> Vec<&RepositoryHandle> {
        let mut ordered: Vec<&RepositoryHandle> = repositories.iter().collect();
        ordered.sort_by_key(|handle| *handle.asked_last_until.lock() > now);
        ordered
    }
}

fn add(all: &mut RequestStatistics, more: RequestStatistics) {
    all.retries += more.retries;
    all.requests.add(more.requests);
    for (cause, count) in more.failures {
        *all.failures.entry(cause).or_default() += count;
    }
    all.last_failure = more.last_failure.or(all.last_failure.take());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    use seawall_archive::{Expected, LogFileName, Packer, Packing, System, identify};

    const HISTORY: &str = "00000002.history";
    const CONTENT: &[u8] = b"1\t0/3000158\tx\n";

    fn handle(directory: &std::path::Path) -> RepositoryHandle {
        RepositoryHandle::new(directory.to_str().unwrap().parse().unwrap(), options(), true, 1)
    }

    fn options() -> RepositoryOptions {
        let key = seawall_codec::encryption::SecretKey::from_bytes([7; 32]);
        RepositoryOptions {
            master_key: Some(seawall_keys::MasterKey::Bytes(key)),
            retry: RetryPolicy::once(),
            ..RepositoryOptions::default()
        }
    }

    fn push(repository: &Repository) -> Result<(), ArchiveError> {
        let expected = Expected { system: Some(System::PostgreSql(7)), fork: None };
        let described = identify(HISTORY, CONTENT, &expected).unwrap();
        repository.push(&Packer::new(Packing::default()).pack(described.header(1), CONTENT)).map(|_| ())
    }

    /// A required repository that an earlier agent has opened: nothing is asked of any.
    fn known(urls: &[&str]) -> Result<Vec<RepositoryHandle>, String> {
        let settings = ArchiveSettings::parse(&format!("repository = {urls:?}"), "test").unwrap();
        let handle = RepositoryHandle::new(urls[0].parse().unwrap(), options(), true, 1);
        open_repositories(&settings, &BTreeMap::from([(handle.key(), "first".to_owned())]))
    }

    /// Else a gap that one of them has on record would count as recorded in the other, too.
    #[test]
    fn the_same_bucket_at_two_endpoints_is_two_places() {
        let repositories =
            known(&["s3://b/p?endpoint=http://127.0.0.1:1", "s3://b/p?endpoint=http://127.0.0.1:2"]);
        let ids: Vec<Option<String>> = repositories.unwrap().iter().map(RepositoryHandle::id).collect();
        assert_eq!(ids, [Some("first".to_owned()), None]);
    }

    #[test]
    fn one_place_that_is_named_twice_is_refused() {
        let refused = known(&[
            "s3://b/p?endpoint=http://127.0.0.1:1",
            "s3://b/p/?endpoint=http://127.0.0.1:1&timeout=5",
        ]);
        let problem = refused.unwrap_err();
        assert!(problem.contains("named twice") && problem.contains("s3://b/p"), "{problem}");
    }

    /// Lost and made again, with the same master key at the same address: what is put now must be readable there.
    #[test]
    fn a_repository_that_was_made_again_is_opened_anew() {
        let directory = tempfile::tempdir().unwrap();
        let handle = handle(&directory.path().join("repository"));
        Repository::create(&handle.url, options()).unwrap();
        handle.ask(push).unwrap();
        let first = handle.id();
        assert!(first.is_some() && handle.take_change() && !handle.take_change());
        std::fs::remove_dir_all(directory.path().join("repository")).unwrap();
        assert!(handle.ask(push).is_err());
        let again = Repository::create(&handle.url, options()).unwrap();
        // With whatever was noticed already.
        assert!(handle.ask(push).or_else(|_| handle.ask(push)).is_ok());
        assert!(handle.take_change());
        assert_eq!(handle.id(), Some(again.header().id_text()));
        let mut content = Vec::new();
        let name = LogFileName::parse(HISTORY).unwrap();
        again.fetch(System::PostgreSql(7), name, &mut content).unwrap();
        assert_eq!(content, CONTENT);
    }

    #[test]
    fn a_look_finds_out_that_a_repository_was_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let handle = handle(&directory.path().join("repository"));
        Repository::create(&handle.url, options()).unwrap();
        handle.ask(push).unwrap();
        handle.look_at();
        assert!(handle.take_change() && handle.opened().is_some());
        std::fs::remove_dir_all(directory.path().join("repository")).unwrap();
        Repository::create(&handle.url, options()).unwrap();
        handle.look_at();
        assert!(handle.opened().is_some() && handle.take_change(), "nothing else may ask for it for long");
    }

    /// A file system or a store that hangs must not keep the agent from listening.
    #[test]
    fn a_repository_that_an_earlier_agent_has_opened_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("s3://b/p?endpoint=http://127.0.0.1:{port}&region=x&anonymous=true&timeout=600");
        let opening = std::thread::spawn(move || known(&[&url]).unwrap()[0].id());
        seawall_testing::wait_until("the repositories to be known", || opening.is_finished());
        assert_eq!(opening.join().unwrap().as_deref(), Some("first"));
    }
}
