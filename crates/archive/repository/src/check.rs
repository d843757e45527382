//! Finding out what a store does: whether of two that put the same object one only is told that it did.
//!
//! Everything else rests upon that: it keeps two servers that archive into one place from overwriting each other. Stores that
//! say that they honour `If-None-Match` and look and put in two steps do exist; only putting at the same moment, many times,
//! shows them.

use std::sync::Barrier;
use std::time::Duration;

use bytes::Bytes;

use crate::error::ArchiveError;
use crate::layout;
use crate::repository::{Repository, read_range};
use crate::store::{Put, StoreCause, StoreError};

/// Races, and how many run in each.
const RACES: usize = 20;
const RUNNERS: usize = 8;
/// Puts and gets whose time is taken.
const TIMED: usize = 5;
const SMALL_BYTES: usize = 1 << 10;
const LARGE_BYTES: usize = 4 << 20;
/// Older than any put that is under way, also by the clock of another machine.
const LEFTOVERS_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Whether a store keeps an object from being overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// Of those that put at the same moment one won, each time.
    Atomic,
    /// An object that has been there for a while is not overwritten; of those that put at the same moment several were told that
    /// they won.
    NotAtomic {
        /// Races that had not exactly one winner.
        broken: usize,
    },
    /// An object that is there is overwritten.
    None,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// Whether objects are kept from being overwritten.
    pub fencing: Fencing,
    /// How many races were run.
    pub races: usize,
    /// What was put is found in a listing at once.
    pub lists_at_once: bool,
    /// Why objects cannot be removed, if they cannot: object lock, or a policy. Retention needs it; a rotation of keys leaves
    /// older rings.
    pub cannot_remove: Option<String>,
    /// What puts that were cut short a week ago or earlier had left behind. It was removed.
    pub leftovers: u64,
    /// Median time to put 1 KiB.
    pub put_small: Duration,
    /// Median time to put 4 MiB.
    pub put_large: Duration,
    /// Median time to get 4 MiB.
    pub get_large: Duration,
}

impl Repository {
    /// Puts and gets scratch objects, and removes them.
    ///
    /// # Errors
    /// `Store`, or `Damaged` if the store gives other bytes than were put.
    pub fn check(&self) -> Result<CheckReport, ArchiveError> {
        let probe = Probe { repository: self, directory: self.scratch_directory() };
        let checked = probe.run();
        let cannot_remove = probe.clean_up()?;
        let report = checked?;
        // The report counts more.
        let leftovers = self.remove_leftovers(LEFTOVERS_AGE).unwrap_or_else(|error| {
            tracing::warn!(%error, "what puts that were cut short have left is not removed");
            0
        });
        Ok(CheckReport { cannot_remove, leftovers, ..report })
    }

    /// Refuses a store that overwrites objects: it would overwrite a repository that somebody makes at the same moment. Found out with a
    /// scratch object, before anything that counts is put there.
    ///
    /// # Errors
    /// `Overwrites`; `Store`, or `Damaged` if the store gives other bytes than were put.
    pub(crate) fn check_fenced(&self) -> Result<(), ArchiveError> {
        let probe = Probe { repository: self, directory: self.scratch_directory() };
        let is_kept = probe.later_put_is_refused();
        let scratch = format!("{}{KEPT}", probe.directory);
        if let Err(error) = self.request(|storage| storage.remove(&scratch)) {
            tracing::warn!(%error, "a scratch object stays");
        }
        match is_kept? {
            true => Ok(()),
            false => Err(ArchiveError::Overwrites { url: self.url().to_owned() }),
        }
    }

    /// Removes what puts that were cut short so long ago have left behind, which nothing else counts or lists. Returns how many there
    /// were. An upload that is under way is much younger.
    ///
    /// # Errors
    /// `Store`.
    pub fn remove_leftovers(&self, age: Duration) -> Result<u64, ArchiveError> {
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let before = self.clock().wall_micros().saturating_sub(age);
        Ok(self.request(|storage| storage.remove_leftovers(before))?)
    }

    fn scratch_directory(&self) -> String {
        let mut number = [0; 8];
        self.random().fill(&mut number);
        format!("{}{:016x}/", layout::CHECK, u64::from_le_bytes(number))
    }
}

/// The object that is put twice.
const KEPT: &str = "kept";

struct Probe<'a> {
    repository: &'a Repository,
    directory: String,
}

impl Probe<'_> {
    fn run(&self) -> Result<CheckReport, ArchiveError> {
        let is_kept = self.later_put_is_refused()?;
        let lists_at_once = self.listing_shows(KEPT)?;
        let broken = if is_kept { self.broken_races()? } else { RACES };
        let fencing = match (is_kept, broken) {
            (false, _) => Fencing::None,
            (true, 0) => Fencing::Atomic,
            (true, broken) => Fencing::NotAtomic { broken },
        };
        Ok(CheckReport {
            fencing,
            races: if is_kept { RACES } else { 0 },
            lists_at_once,
            cannot_remove: None,
            leftovers: 0,
            put_small: self.median(|index| self.put_sized("small", index, SMALL_BYTES))?,
            put_large: self.median(|index| self.put_sized("large", index, LARGE_BYTES))?,
            get_large: self.median(|index| self.read(&format!("large-{index}"), LARGE_BYTES).map(|_| ()))?,
        })
    }

    fn put(&self, name: &str, content: Vec<u8>) -> Result<Put, StoreError> {
        let path = format!("{}{name}", self.directory);
        self.repository.storage.put_new(&path, &[Bytes::from(content)])
    }

    /// Reads an object that has at most `bytes_max`; of one that has more, one byte more.
    fn read(&self, name: &str, bytes_max: usize) -> Result<Vec<u8>, StoreError> {
        let path = format!("{}{name}", self.directory);
        read_range(&*self.repository.storage, &path, bytes_max as u64 + 1)
    }

    fn later_put_is_refused(&self) -> Result<bool, ArchiveError> {
        let path = format!("{}{KEPT}", self.directory);
        let put = |content: &'static [u8]| {
            self.repository.request(|storage| storage.put_new(&path, &[Bytes::from_static(content)]))
        };
        // One that is tried again may find what it has put itself.
        put(b"first")?;
        let second = put(b"second")?;
        let content = self.read(KEPT, b"second".len())?;
        match (second, content.as_slice()) {
            (Put::Exists, b"first") => Ok(true),
            (Put::Stored, _) | (Put::Exists, b"second") => Ok(false),
            (Put::Exists, _) => Err(ArchiveError::Damaged {
                object: self.repository.storage.location(&path),
                problem: "the store does not give back what was put".to_owned(),
            }),
        }
    }

    fn listing_shows(&self, name: &str) -> Result<bool, ArchiveError> {
        let path = format!("{}{name}", self.directory);
        let listed = self.repository.storage.list(&self.directory)?;
        Ok(listed.iter().any(|entry| entry.path == path))
    }

    /// How many races have not exactly one winner whose content is there.
    fn broken_races(&self) -> Result<usize, ArchiveError> {
        let mut broken = 0;
        for race in 0..RACES {
            let name = format!("race-{race}");
            let results = self.race(&name);
            let content = self.read(&name, body_of(RUNNERS - 1).len())?;
            let mut winners = Vec::new();
            for (runner, result) in results.into_iter().enumerate() {
                match result {
                    Ok(Put::Stored) => winners.push(runner),
                    Ok(Put::Exists) => {}
                    // Some stores tell those that come second to come again: they did not win.
                    Err(error) if error.cause.is_passing() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let is_sound = winners.len() == 1 && content == body_of(winners[0]);
            broken += usize::from(!is_sound);
        }
        Ok(broken)
    }

    fn race(&self, name: &str) -> Vec<Result<Put, StoreError>> {
        let start = Barrier::new(RUNNERS);
        std::thread::scope(|scope| {
            let run = |runner| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    self.put(name, body_of(runner))
                })
            };
            let threads: Vec<_> = (0..RUNNERS).map(run).collect();
            threads.into_iter().map(|thread| thread.join().expect("a put does not panic")).collect()
        })
    }

    fn put_sized(&self, name: &str, index: usize, bytes: usize) -> Result<(), StoreError> {
        let mut content = vec![0; bytes];
        // Not compressible, in case that the store does.
        self.repository.random().fill(&mut content);
        self.put(&format!("{name}-{index}"), content).map(|_| ())
    }

    fn median(&self, run: impl Fn(usize) -> Result<(), StoreError>) -> Result<Duration, StoreError> {
        let clock = self.repository.clock();
        let mut times = Vec::new();
        for index in 0..TIMED {
            let start = clock.monotonic();
            run(index)?;
            times.push(clock.monotonic().saturating_sub(start));
        }
        times.sort();
        Ok(times[TIMED / 2])
    }

    /// Removes what was put; the reason if that is not allowed.
    fn clean_up(&self) -> Result<Option<String>, ArchiveError> {
        let storage = &self.repository.storage;
        for entry in storage.list(&self.directory)? {
            match storage.remove(&entry.path) {
                Ok(()) => {}
                Err(error) if error.cause == StoreCause::Denied || error.cause == StoreCause::Other => {
                    return Ok(Some(error.message));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

fn body_of(runner: usize) -> Vec<u8> {
    format!("runner {runner} ").repeat(100 + runner).into_bytes()
}
