//! Files that are to be archived, found by name, and by what they wait for: after an outage a hundred thousand of them may wait, and
//! nobody walks through all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::Source;
use crate::protocol::Answer;
use crate::spool::FileIdentity;

/// A file that is to be archived.
#[derive(Debug)]
pub(super) struct Job {
    name: Arc<str>,
    /// From the data directory on.
    pub(super) path: String,
    /// One for each repository.
    pub(super) stages: Vec<Stage>,
    /// The file that the repositories that are done with it have got.
    pub(super) identity: Option<FileIdentity>,
    /// PostgreSQL has been told that it is archived: copies are pending for repositories that lack it, whether the file is still there or not.
    pub(super) released: Option<Source>,
    /// The spool is being told what PostgreSQL will be told: that it is archived, or that it is let go. No upload of it begins meanwhile.
    pub(super) is_settling: bool,
    /// Repositories that the spool has noted a pending copy for.
    pub(super) noted: BTreeSet<usize>,
    /// Commands that wait for it.
    pub(super) askers: Vec<Sender<Answer>>,
    /// When it was taken on, until PostgreSQL is told of it. An earlier agent's pending copy has none.
    pub(super) since: Option<Duration>,
}

/// How far a file is in one repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting,
    Running,
    /// Not before this.
    Failed(Duration),
    Done,
}

/// Whose turn comes first: what is not a pending copy only, what a command waits for, histories; then by name.
type Turn = (bool, bool, bool, Arc<str>);

impl Job {
    pub(super) fn new(name: &str, path: &str, stages: Vec<Stage>, released: Option<Source>) -> Job {
        Job {
            name: name.into(),
            path: path.to_owned(),
            stages,
            identity: None,
            released,
            is_settling: false,
            noted: BTreeSet::new(),
            askers: Vec::new(),
            since: None,
        }
    }

    /// Whether a repository has got the same file as those before it. Another one may be under its name by now: in a data directory
    /// that was rolled back, or restored, in place. After its release, no upload decides which file was released.
    pub(super) fn is_still(&mut self, identity: Option<FileIdentity>) -> bool {
        let Some(identity) = identity else { return true };
        if self.identity.is_none() && self.released.is_none() {
            self.identity = Some(identity);
        }
        self.identity.is_none_or(|known| known == identity)
    }

    /// Whether what repositories have got is the file that is there `now`. An earlier agent's pending copy does not say which file it is.
    pub(super) fn is_of(&self, now: Option<FileIdentity>) -> bool {
        match self.identity {
            Some(known) => now == Some(known),
            None => self.released.is_none(),
        }
    }

    /// Each repository is to compare what it has with the file that is there now.
    pub(super) fn begin_anew(&mut self) {
        self.identity = None;
        for stage in self.stages.iter_mut().filter(|stage| **stage != Stage::Running) {
            *stage = Stage::Waiting;
        }
    }

    /// Whether it waits for a worker.
    fn is_unstarted(&self) -> bool {
        !self.is_settling && self.stages.contains(&Stage::Waiting)
    }

    fn turn(&self) -> Turn {
        let is_history = self.name.ends_with(".history");
        (self.released.is_some(), self.askers.is_empty(), !is_history, Arc::clone(&self.name))
    }

    /// The repositories that lack it.
    pub(super) fn lacking(&self) -> Vec<usize> {
        (0..self.stages.len()).filter(|destination| self.stages[*destination] != Stage::Done).collect()
    }
}

/// All of them. What is counted and sorted here follows from the jobs alone.
#[derive(Debug)]
pub(super) struct Jobs {
    by_name: BTreeMap<Arc<str>, Job>,
    /// One for each repository.
    standings: Vec<Standing>,
    /// Jobs that wait for a worker, for any repository.
    unstarted: usize,
    /// Jobs that PostgreSQL waits for.
    unreleased: usize,
}

/// What waits for one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Standing {
    waiting: BTreeSet<Turn>,
    /// Those that failed, by the time before which they rest.
    resting: BTreeSet<(Duration, Arc<str>)>,
    /// How many are not done, whatever their stage.
    lacking: usize,
}

impl Jobs {
    /// For so many repositories.
    pub(super) fn new(destinations: usize) -> Jobs {
        let standings = vec![Standing::default(); destinations];
        Jobs { by_name: BTreeMap::new(), standings, unstarted: 0, unreleased: 0 }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Job> {
        self.by_name.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Job)> {
        self.by_name.iter().map(|(name, job)| (&**name, job))
    }

    /// Takes a job on that is not there.
    pub(super) fn insert(&mut self, job: Job) {
        self.enter(&job);
        let before = self.by_name.insert(Arc::clone(&job.name), job);
        assert!(before.is_none(), "a file is taken on once");
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Job> {
        let job = self.by_name.remove(name)?;
        self.leave(&job);
        Some(job)
    }

    /// Changes a job: the only way to do so.
    pub(super) fn change<T>(&mut self, name: &str, change: impl FnOnce(&mut Job) -> T) -> Option<T> {
        let mut job = self.remove(name)?;
        let result = change(&mut job);
        self.insert(job);
        Some(result)
    }

    /// Those who wait for these files are told nothing any more.
    pub(super) fn drop_askers(&mut self, is_meant: impl Fn(&Job) -> bool) {
        let meant = self.iter().filter(|(_, job)| !job.askers.is_empty() && is_meant(job));
        let names: Vec<String> = meant.map(|(name, _)| name.to_owned()).collect();
        for name in names {
            self.change(&name, |job| job.askers.clear());
        }
    }

    /// Takes those who wait for files that are to be put into this repository next. Uploads under way tell theirs themselves.
    pub(super) fn take_askers_of_waiting(&mut self, destination: usize) -> Vec<Sender<Answer>> {
        // Files that a command waits for come first.
        let is_asked_for = |(is_released, is_unasked, ..): &&Turn| !is_released && !is_unasked;
        let asked_for = self.standings[destination].waiting.iter().take_while(is_asked_for);
        let names: Vec<Arc<str>> = asked_for.map(|(.., name)| Arc::clone(name)).collect();
        let take = |name: Arc<str>| self.change(&name, |job| std::mem::take(&mut job.askers));
        names.into_iter().filter_map(take).flatten().collect()
    }

    fn enter(&mut self, job: &Job) {
        for (standing, stage) in self.standings.iter_mut().zip(&job.stages) {
            standing.lacking += usize::from(*stage != Stage::Done);
            match stage {
                Stage::Waiting if !job.is_settling => drop(standing.waiting.insert(job.turn())),
                Stage::Failed(at) => drop(standing.resting.insert((*at, Arc::clone(&job.name)))),
                Stage::Waiting | Stage::Running | Stage::Done => {}
            }
        }
        self.unstarted += usize::from(job.is_unstarted());
        self.unreleased += usize::from(job.released.is_none());
    }

    fn leave(&mut self, job: &Job) {
        for (standing, stage) in self.standings.iter_mut().zip(&job.stages) {
            standing.lacking -= usize::from(*stage != Stage::Done);
            match stage {
                Stage::Waiting if !job.is_settling => drop(standing.waiting.remove(&job.turn())),
                Stage::Failed(at) => drop(standing.resting.remove(&(*at, Arc::clone(&job.name)))),
                Stage::Waiting | Stage::Running | Stage::Done => {}
            }
        }
        self.unstarted -= usize::from(job.is_unstarted());
        self.unreleased -= usize::from(job.released.is_none());
    }

    // ---- by what they wait for ------------------------------------------------------------------------------------

    /// The one whose turn it is, among those that wait for one of these repositories.
    pub(super) fn first(&self, destinations: impl Iterator<Item = usize>) -> Option<Arc<str>> {
        let turns = destinations.filter_map(|destination| self.standings[destination].waiting.first());
        turns.min().map(|(_, _, _, name)| Arc::clone(name))
    }

    pub(super) fn any_waits(&self, destination: usize) -> bool {
        !self.standings[destination].waiting.is_empty()
    }

    /// When the first rest of a file that failed in this repository is over.
    pub(super) fn first_rest(&self, destination: usize) -> Option<Duration> {
        self.standings[destination].resting.first().map(|(at, _)| *at)
    }

    /// Files that failed in this repository wait again, if their rest is over.
    pub(super) fn end_rests(&mut self, destination: usize, now: Duration) {
        while let Some((at, name)) = self.standings[destination].resting.first().cloned() {
            if at > now {
                break;
            }
            self.change(&name, |job| job.stages[destination] = Stage::Waiting);
        }
    }

    /// Names of the files that rest, in any repository.
    pub(super) fn resting(&self) -> BTreeSet<Arc<str>> {
        let resting = self.standings.iter().flat_map(|standing| &standing.resting);
        resting.map(|(_, name)| Arc::clone(name)).collect()
    }

    /// How many a repository lacks, and how many of them rest.
    pub(super) fn lacking(&self, destination: usize) -> (usize, usize) {
        let standing = &self.standings[destination];
        (standing.lacking, standing.resting.len())
    }

    pub(super) fn unstarted(&self) -> usize {
        self.unstarted
    }

    pub(super) fn unreleased(&self) -> usize {
        self.unreleased
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_io::Random;
    use seawall_simulation::SimulatedRandom;

    const DESTINATIONS: usize = 3;

    /// The same, made of the jobs anew.
    fn made_anew(jobs: &Jobs) -> Jobs {
        let mut anew = Jobs::new(DESTINATIONS);
        jobs.by_name.values().for_each(|job| anew.enter(job));
        anew
    }

    fn first_by_walking(jobs: &Jobs, destinations: &[usize]) -> Option<Arc<str>> {
        let waits = |job: &&Job| {
            !job.is_settling
                && destinations.iter().any(|destination| job.stages[*destination] == Stage::Waiting)
        };
        jobs.by_name.values().filter(waits).min_by_key(|job| job.turn()).map(|job| Arc::clone(&job.name))
    }

    #[test]
    fn what_is_counted_and_sorted_follows_from_the_jobs() {
        let random = SimulatedRandom::new(7);
        let below = |limit: u8| {
            let mut byte = [0];
            random.fill(&mut byte);
            byte[0] % limit
        };
        let mut jobs = Jobs::new(DESTINATIONS);
        for step in 0..3000 {
            let number = below(24);
            let name = if number < 3 { format!("{number}.history") } else { format!("{number:024X}") };
            let stage = || match below(5) {
                0 | 1 => Stage::Waiting,
                2 => Stage::Running,
                3 => Stage::Failed(Duration::from_secs(u64::from(below(100)))),
                _ => Stage::Done,
            };
            let released = || (below(3) == 0).then_some(Source::Repository);
            match (jobs.get(&name).is_some(), below(6)) {
                (false, _) => {
                    let stages = (0..DESTINATIONS).map(|_| stage()).collect();
                    jobs.insert(Job::new(&name, "x", stages, released()));
                }
                (true, 0) => assert!(jobs.remove(&name).is_some_and(|job| *job.name == *name)),
                (true, 1) => {
                    jobs.end_rests(usize::from(below(3)), Duration::from_secs(u64::from(below(100))))
                }
                (true, _) => {
                    let change = |job: &mut Job| {
                        job.stages[usize::from(below(3))] = stage();
                        job.released = released();
                        job.is_settling = below(4) == 0;
                        job.askers = (0..below(2)).map(|_| std::sync::mpsc::channel().0).collect();
                    };
                    assert!(jobs.change(&name, change).is_some());
                }
            }
            let anew = made_anew(&jobs);
            assert_eq!(jobs.standings, anew.standings, "step {step}");
            assert_eq!((jobs.unstarted, jobs.unreleased), (anew.unstarted, anew.unreleased), "step {step}");
            for destinations in [&[0][..], &[1, 2], &[0, 1, 2], &[]] {
                let first = jobs.first(destinations.iter().copied());
                assert_eq!(first, first_by_walking(&jobs, destinations), "step {step}");
            }
        }
    }
}
