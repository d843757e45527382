//! Histories of timelines in a repository, of databases and of clusters.

use std::collections::BTreeMap;

use seawall_archive::{ArchiveError, LogFileName, Repository, StoredName, StoredObject, System};
use seawall_types::{TimelineId, TimelineMark};
use seawall_wal::{TimelineFork, TimelineHistory};

use crate::error::BackupError;

/// The history of a timeline, as a repository has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredHistory {
    timeline: TimelineId,
    /// When it was archived, in microseconds since 1970. The smallest number if that cannot be read either.
    pub(crate) archived_micros: i64,
    /// Its forks, or what is wrong with it.
    pub(crate) history: Result<TimelineHistory, String>,
}

impl StoredHistory {
    /// Reads the history of a timeline; `None` if it is not there.
    ///
    /// # Errors
    /// What the repository says. A history that is damaged is none: whether it is needed is for the caller to say.
    pub(crate) fn read(
        repository: &Repository,
        system: System,
        timeline: TimelineId,
    ) -> Result<Option<StoredHistory>, BackupError> {
        let mut content = Vec::new();
        let (history, archived_micros) =
            match repository.fetch(system, LogFileName::History(timeline), &mut content) {
                Ok(header) => (parse(system, timeline, &content), header.created_micros),
                Err(ArchiveError::NotFound { .. }) => return Ok(None),
                Err(ArchiveError::Damaged { problem, .. }) => (Err(problem), i64::MIN),
                Err(error) => return Err(error.into()),
            };
        Ok(Some(StoredHistory { timeline, archived_micros, history }))
    }

    /// The history, for who cannot do without it.
    ///
    /// # Errors
    /// `Damaged` if it cannot be read.
    pub(crate) fn into_history(self) -> Result<TimelineHistory, BackupError> {
        let name = LogFileName::History(self.timeline);
        self.history.map_err(|problem| BackupError::damaged(name, problem))
    }
}

/// The histories among the objects of a system.
///
/// # Errors
/// `Damaged` for the first that cannot be read; what the repository says.
pub(crate) fn read_histories(
    repository: &Repository,
    system: System,
    objects: &[StoredObject],
) -> Result<BTreeMap<TimelineId, TimelineHistory>, BackupError> {
    let mut found = BTreeMap::new();
    for object in objects {
        let Some(StoredName::LogFile(_, LogFileName::History(timeline))) = object.name else { continue };
        if let Some(stored) = StoredHistory::read(repository, system, timeline)? {
            found.insert(timeline, stored.into_history()?);
        }
    }
    Ok(found)
}

/// The history of a timeline from its text, a database's or a cluster's.
fn parse(system: System, timeline: TimelineId, content: &[u8]) -> Result<TimelineHistory, String> {
    let text = std::str::from_utf8(content).map_err(|_| "it is not valid UTF-8".to_owned())?;
    match system {
        System::Seawall(_) => {
            TimelineHistory::parse(text, timeline, &LogFileName::History(timeline).to_string())
                .map_err(|error| error.to_string())
        }
        System::PostgreSql(_) => parse_postgresql(timeline, text),
    }
}

/// Lines of parent, position and reason, oldest first.
fn parse_postgresql(timeline: TimelineId, text: &str) -> Result<TimelineHistory, String> {
    let mut forks: Vec<TimelineFork> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let refuse = |problem: &str| format!("line {}: {problem}", index + 1);
        let (parent, rest) =
            line.split_once(char::is_whitespace).ok_or_else(|| refuse("it has no position"))?;
        let (fork, reason) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
        let parent = parent.parse().ok().and_then(TimelineId::new);
        let fork = TimelineFork {
            parent: parent.ok_or_else(|| refuse("it names no timeline"))?,
            fork: fork.parse().map_err(|_| refuse("it names no position"))?,
            mark: TimelineMark::NONE,
            reason: reason.trim().to_owned(),
        };
        let is_before = |last: &TimelineFork| last.parent < fork.parent && last.fork <= fork.fork;
        if !forks.last().is_none_or(is_before) || fork.parent >= timeline {
            return Err(refuse("timelines do not ascend"));
        }
        forks.push(fork);
    }
    if forks.is_empty() {
        Err("it names no parent".to_owned())
    } else {
        Ok(TimelineHistory { timeline, forks })
    }
}

#[cfg(test)]
mod tests {
    use seawall_types::Lsn;

    use super::*;

    fn timeline(number: u32) -> TimelineId {
        TimelineId::new(number).unwrap()
    }

    #[test]
    fn histories_of_postgresql_are_read_and_what_is_none_is_refused() {
        let text =
            "1\t0/3000158\tno recovery target specified\n\n2\t0/5000000\tbefore 2026-11-21 10:00:00+00\n";
        let history = parse_postgresql(timeline(3), text).unwrap();
        let forks: Vec<(u32, u64)> =
            history.forks.iter().map(|fork| (fork.parent.get(), fork.fork.get())).collect();
        assert_eq!(forks, [(1, 0x300_0158), (2, 0x500_0000)]);
        assert_eq!(history.forks[1].reason, "before 2026-11-21 10:00:00+00");
        assert_eq!(parse_postgresql(timeline(2), "1 0/5").unwrap().forks[0].fork, Lsn::new(5));
        for text in ["", "# x\n", "1\n", "0 0/5 x\n", "2 0/5 x\n", "1 nowhere x\n", "1 0/9 x\n1 0/9 x\n"] {
            assert!(parse_postgresql(timeline(2), text).is_err(), "{text:?}");
        }
    }
}
