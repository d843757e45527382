//! What is to be archived, and how far each file has come in each repository. Decides and never waits: time comes in, choices go out.

mod jobs;

use std::sync::mpsc::Sender;
use std::time::Duration;

use super::destination::{Capacity, Destination};
use super::failure::Failure;
use crate::protocol::Answer;
use crate::spool::FileIdentity;
use jobs::{Job, Jobs, Stage};

/// A file that cannot be archived is looked at again after this, if nobody asks for it before.
const FILE_REST: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Queue {
    jobs: Jobs,
    /// One for each repository, in their order.
    pub(super) destinations: Vec<Destination>,
    /// Files that are durable in every required repository.
    pub(super) archived: u64,
    pub(super) last_archived: Option<String>,
    pub(super) last_error: Option<String>,
}

/// Where the content of a file comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// From the data directory.
    File,
    /// From there if it is still this file, else from a repository that has it.
    Archived(FileIdentity),
    /// From a repository that has it.
    Repository,
}

/// What a worker is to do.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) source: Source,
    /// The repositories to put it into.
    pub(super) destinations: Vec<usize>,
}

/// What a worker may do.
#[derive(Debug)]
pub(super) enum Choice {
    Task(Task),
    /// Not before this.
    Later(Duration),
    Nothing,
}

/// What a put has led to.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The file is now durable in every required repository. The repositories in `lacking` lack it: pending copies, which are to be
    /// noted. It stays here until `settle`: a command that asks for it before it is acknowledged does not start it again.
    Durable {
        lacking: Vec<usize>,
    },
    /// A repository has its pending copy.
    Copied,
    /// The commands in `askers` are told that it failed: those that wait for the file, and if a required repository is down now, those
    /// that wait for any file that it lacks.
    Failed {
        askers: Vec<Sender<Answer>>,
    },
    /// Some repository has the file now, and a required one that lacks it is down: those that wait for the file are told `why`.
    Blocked {
        askers: Vec<Sender<Answer>>,
        why: String,
    },
    Nothing,
}

/// How PostgreSQL may remove a file that required repositories lack.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// A required repository has it. Copies are pending for these, which lack it.
    Copied(Vec<usize>),
    /// No required repository has it: a gap. These optional ones have it.
    LeftOut(Vec<usize>),
}

/// What is left to do for a file when the spool has its note.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Those to be told.
    pub(super) askers: Vec<Sender<Answer>>,
    /// Repositories that have got it since their pending copy was noted.
    pub(super) copied: Vec<usize>,
    /// When it was taken on, if PostgreSQL was not told of it before.
    pub(super) since: Option<Duration>,
}

impl Queue {
    /// For repositories that are required or not, with so many uploads to each.
    pub(super) fn new(required: impl IntoIterator<Item = bool>, in_flight_max: usize) -> Queue {
        let destinations: Vec<Destination> =
            required.into_iter().map(|is_required| Destination::new(is_required, in_flight_max)).collect();
        Queue {
            jobs: Jobs::new(destinations.len()),
            destinations,
            archived: 0,
            last_archived: None,
            last_error: None,
        }
    }

    /// Takes a file on, if it is not known.
    pub(super) fn add(&mut self, name: &str, path: &str) {
        if !self.is_known(name) {
            self.jobs.insert(Job::new(name, path, vec![Stage::Waiting; self.destinations.len()], None));
        }
    }

    /// As `add`. How long it takes until PostgreSQL can be told of the file is measured from `now` on.
    pub(super) fn take_on(&mut self, name: &str, path: &str, now: Duration) {
        if !self.is_known(name) {
            self.add(name, path);
            self.jobs.change(name, |job| job.since = Some(now));
        }
    }

    /// Whether it is taken on already.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.jobs.get(name).is_some()
    }

    /// Takes on a copy that an earlier agent has left pending.
    pub(super) fn add_pending_copy(&mut self, name: &str, destination: usize) {
        if !self.is_known(name) {
            let stages = vec![Stage::Done; self.destinations.len()];
            self.jobs.insert(Job::new(name, "", stages, Some(Source::Repository)));
        }
        self.jobs.change(name, |job| {
            job.stages[destination] = Stage::Waiting;
            job.noted.insert(destination);
        });
    }

    /// PostgreSQL asks once more for a file that was released, and another one with its name may be there `now`: then every repository
    /// lacks it, until it has compared the two.
    pub(super) fn ask_once_more(&mut self, name: &str, path: &str, now: Option<FileIdentity>) {
        self.jobs.change(name, |job| {
            if job.released.is_some() && !job.is_settling && !job.is_of(now) {
                job.released = None;
                job.begin_anew();
                job.path = path.to_owned();
            }
        });
    }

    /// Somebody waits for a file, which is taken on, and tried at once if it was not to be tried for a while.
    pub(super) fn ask(&mut self, name: &str, path: &str, asker: Sender<Answer>) {
        self.add(name, path);
        self.jobs.change(name, |job| {
            job.askers.push(asker);
            if job.is_settling {
                return;
            }
            let is_new = job.released.take().is_some();
            if is_new {
                job.identity = None;
            }
            for stage in &mut job.stages {
                match stage {
                    Stage::Failed(_) => *stage = Stage::Waiting,
                    // Asked for again: its acknowledgement is lost, or it is another file with the same name. Repositories compare.
                    Stage::Done if is_new => *stage = Stage::Waiting,
                    Stage::Done | Stage::Waiting | Stage::Running => {}
                }
            }
            job.path = path.to_owned();
        });
    }

    /// Whether an upload of it is under way to a repository that is required.
    pub(super) fn is_running(&self, name: &str) -> bool {
        self.jobs.get(name).is_some_and(|job| {
            self.destinations
                .iter()
                .zip(&job.stages)
                .any(|(destination, stage)| destination.is_required && *stage == Stage::Running)
        })
    }

    /// Whether the spool is being told what those who ask for it will be told.
    pub(super) fn is_settling(&self, name: &str) -> bool {
        self.jobs.get(name).is_some_and(|job| job.is_settling)
    }

    /// Why a required repository that lacks the file takes none now, if so.
    pub(super) fn trouble(&self, name: &str, now: Duration) -> Option<&str> {
        self.lasting_trouble(name, now, Duration::ZERO)
    }

    /// The same, of one that has taken none for `patience`.
    pub(super) fn lasting_trouble(&self, name: &str, now: Duration, patience: Duration) -> Option<&str> {
        let job = self.jobs.get(name);
        // PostgreSQL asks once more for a file that was released: each repository is to compare it.
        let lacks =
            |index: usize| job.is_none_or(|job| job.released.is_some() || job.stages[index] != Stage::Done);
        let mut destinations = self.destinations.iter().enumerate();
        destinations.find_map(|(index, destination)| {
            if destination.is_required && lacks(index) {
                destination.lasting_trouble(now, patience)
            } else {
                None
            }
        })
    }

    /// Whether a required repository that answers, and lacks fewer files than `lag_max`, is about to get a file that none of them has.
    pub(super) fn is_about_to_be_stored(
        &self,
        name: &str,
        now: Option<FileIdentity>,
        lag_max: usize,
    ) -> bool {
        let required = || (0..self.destinations.len()).filter(|index| self.destinations[*index].is_required);
        let is_about_to_take = |index: usize| {
            self.jobs.get(name).is_some_and(|job| job.stages[index] == Stage::Waiting)
                && self.destinations[index].last_trouble().is_none()
                && self.lacking(index).0 < lag_max
        };
        !required().any(|index| self.is_in(name, index, now)) && required().any(is_about_to_take)
    }

    /// The next upload: those that a command waits for first, then histories, then by name; pending copies last.
    pub(super) fn choose(&mut self, now: Duration) -> Choice {
        let capacities: Vec<Capacity> =
            self.destinations.iter().map(|destination| destination.capacity(now)).collect();
        let free: Vec<usize> =
            (0..capacities.len()).filter(|destination| capacities[*destination] == Capacity::Free).collect();
        for destination in &free {
            self.jobs.end_rests(*destination, now);
        }
        let Some(name) = self.jobs.first(free.iter().copied()) else { return self.later(&capacities) };
        let task = self.jobs.change(&name, |job| {
            let waits = |destination: &usize| job.stages[*destination] == Stage::Waiting;
            let destinations: Vec<usize> = free.into_iter().filter(waits).collect();
            destinations.iter().for_each(|destination| job.stages[*destination] = Stage::Running);
            let source = job.released.unwrap_or(Source::File);
            Task { name: name.to_string(), path: job.path.clone(), source, destinations }
        });
        let task = task.expect("it was just found");
        for destination in &task.destinations {
            self.destinations[*destination].running += 1;
        }
        Choice::Task(task)
    }

    /// When the next file can be tried, if nothing happens before.
    fn later(&self, capacities: &[Capacity]) -> Choice {
        let time = |(destination, capacity): (usize, &Capacity)| match capacity {
            Capacity::Later(at) if self.jobs.any_waits(destination) => Some(*at),
            Capacity::Later(at) => self.jobs.first_rest(destination).map(|rest| rest.max(*at)),
            Capacity::Free => self.jobs.first_rest(destination),
            Capacity::Full => None,
        };
        let next = capacities.iter().enumerate().filter_map(time).min();
        next.map_or(Choice::Nothing, Choice::Later)
    }

    /// A put has ended. `identity` is that of the file, if the content came from one.
    pub(super) fn finish(
        &mut self,
        name: &str,
        destination: usize,
        identity: Option<FileIdentity>,
        result: Result<(), &Failure>,
        now: Duration,
    ) -> Outcome {
        self.destinations[destination].running -= 1;
        match result {
            _ if !self.is_known(name) => Outcome::Nothing,
            Ok(()) => match self.succeeded(name, destination, identity) {
                Outcome::Nothing => self.blocked(name, now),
                outcome => outcome,
            },
            Err(failure) => self.failed(name, destination, failure, now),
        }
    }

    fn failed(&mut self, name: &str, destination: usize, failure: &Failure, now: Duration) -> Outcome {
        let is_required = self.destinations[destination].is_required;
        self.last_error = Some(failure.message.clone());
        if failure.is_of_store {
            self.destinations[destination].failed(now, failure);
        }
        let askers = self.jobs.change(name, |job| {
            job.stages[destination] =
                if failure.is_of_store { Stage::Waiting } else { Stage::Failed(now + FILE_REST) };
            if is_required { std::mem::take(&mut job.askers) } else { Vec::new() }
        });
        let mut askers = askers.unwrap_or_default();
        if failure.is_of_store && is_required {
            // The next upload tells how the repository is only after a rest, and it may be that of another file.
            askers.append(&mut self.jobs.take_askers_of_waiting(destination));
        }
        Outcome::Failed { askers }
    }

    /// Tells those who wait for a file that another repository has got now that a required one that lacks it rests. If an upload of the
    /// file is under way, they wait for that.
    fn blocked(&mut self, name: &str, now: Duration) -> Outcome {
        let is_asked_for = self.jobs.get(name).is_some_and(|job| !job.is_settling && !job.askers.is_empty());
        if !is_asked_for || self.is_running(name) {
            return Outcome::Nothing;
        }
        let Some(why) = self.trouble(name, now).map(str::to_owned) else { return Outcome::Nothing };
        let askers = self.jobs.change(name, |job| std::mem::take(&mut job.askers)).unwrap_or_default();
        Outcome::Blocked { askers, why }
    }

    fn succeeded(&mut self, name: &str, destination: usize, identity: Option<FileIdentity>) -> Outcome {
        self.destinations[destination].succeeded(name);
        let destinations = &self.destinations;
        let outcome = self.jobs.change(name, |job| {
            job.stages[destination] = Stage::Done;
            if !job.is_still(identity) {
                if job.is_settling || job.released.is_some() {
                    // PostgreSQL is told of the other file: this repository still lacks its copy.
                    job.stages[destination] = Stage::Waiting;
                } else {
                    job.begin_anew();
                }
                return Outcome::Nothing;
            }
            if job.is_settling {
                // Its note may not be written yet.
                return Outcome::Nothing;
            }
            if job.released.is_some() {
                job.noted.remove(&destination);
                return Outcome::Copied;
            }
            let lacking = job.lacking();
            if lacking.iter().any(|destination| destinations[*destination].is_required) {
                return Outcome::Nothing;
            }
            job.released = Some(identity.map_or(Source::Repository, Source::Archived));
            job.is_settling = true;
            job.noted.extend(&lacking);
            Outcome::Durable { lacking }
        });
        let outcome = outcome.unwrap_or(Outcome::Nothing);
        if matches!(outcome, Outcome::Durable { .. }) {
            self.archived += 1;
            self.last_archived = Some(name.to_owned());
        }
        self.forget_done(name);
        outcome
    }

    fn forget_done(&mut self, name: &str) {
        if self.jobs.get(name).is_some_and(|job| !job.is_settling && job.lacking().is_empty()) {
            self.jobs.remove(name);
        }
    }

    /// The file is acknowledged, or let go: whoever asked for it meanwhile is told so, too.
    pub(super) fn settle(&mut self, name: &str) -> Settled {
        let settled = self.jobs.change(name, |job| {
            job.is_settling = false;
            let noted = job.noted.iter().copied();
            let copied: Vec<usize> =
                noted.filter(|destination| job.stages[*destination] == Stage::Done).collect();
            job.noted.retain(|destination| !copied.contains(destination));
            Settled { askers: std::mem::take(&mut job.askers), copied, since: job.since.take() }
        });
        self.forget_done(name);
        settled.unwrap_or_default()
    }

    /// A file cannot be archived, whatever the stores do. Returns those to be told.
    pub(super) fn refuse(&mut self, task: &Task, failure: &Failure, now: Duration) -> Vec<Sender<Answer>> {
        for destination in &task.destinations {
            self.destinations[*destination].running -= 1;
        }
        self.last_error = Some(failure.message.clone());
        let askers = self.jobs.change(&task.name, |job| {
            for destination in &task.destinations {
                job.stages[*destination] = Stage::Failed(now + FILE_REST);
            }
            std::mem::take(&mut job.askers)
        });
        askers.unwrap_or_default()
    }

    /// Pending copies will not come, if that `is_noted` as a gap. Returns for which repositories: none if PostgreSQL has asked
    /// for the file once more.
    pub(super) fn give_up_copies(&mut self, task: &Task, is_noted: bool) -> Vec<usize> {
        for destination in &task.destinations {
            self.destinations[*destination].running -= 1;
        }
        let given_up = self.jobs.change(&task.name, |job| {
            let is_lost = is_noted && job.released.is_some();
            let stage = if is_lost { Stage::Done } else { Stage::Waiting };
            task.destinations.iter().for_each(|destination| job.stages[*destination] = stage);
            if is_lost {
                job.noted.retain(|destination| !task.destinations.contains(destination));
            }
            if is_lost { task.destinations.clone() } else { Vec::new() }
        });
        self.forget_done(&task.name);
        given_up.unwrap_or_default()
    }

    /// Whether PostgreSQL has been told that the file is archived, and has not asked for it since.
    pub(super) fn is_released(&self, name: &str) -> bool {
        self.jobs.get(name).is_some_and(|job| job.released.is_some())
    }

    /// PostgreSQL is to be told that it may remove the file, although required repositories lack it. That is noted before: until
    /// [`Queue::end_release`] no upload of the file begins. `now` is the file that PostgreSQL asks for: an earlier one with its name is not
    /// what it is told of.
    pub(super) fn begin_release(&mut self, name: &str, now: Option<FileIdentity>) -> Release {
        let has = |destination: &usize| self.is_in(name, *destination, now);
        let having: Vec<usize> = (0..self.destinations.len()).filter(has).collect();
        self.jobs.change(name, |job| job.is_settling = true);
        // An optional one need not be there when somebody recovers.
        match having.iter().any(|destination| self.destinations[*destination].is_required) {
            true => Release::Copied(
                (0..self.destinations.len()).filter(|destination| !having.contains(destination)).collect(),
            ),
            false => Release::LeftOut(having),
        }
    }

    /// Whether a release is still what it was when it began. A repository may have been replaced while it was noted.
    pub(super) fn still_stands(&self, name: &str, release: &Release) -> bool {
        let has_it = |job: &Job| {
            let mut destinations = self.destinations.iter().zip(&job.stages);
            destinations.any(|(destination, stage)| destination.is_required && *stage == Stage::Done)
        };
        match release {
            Release::Copied(_) => self.jobs.get(name).is_some_and(has_it),
            Release::LeftOut(_) => true,
        }
    }

    /// The spool has the note of a release, unless it could not be written, or the release does not stand: then PostgreSQL keeps the
    /// file.
    pub(super) fn end_release(&mut self, name: &str, release: &Release, is_noted: bool) -> Settled {
        match release {
            Release::LeftOut(_) if is_noted => self.leave_out(name),
            Release::LeftOut(_) => {}
            Release::Copied(destinations) => drop(self.jobs.change(name, |job| {
                if is_noted {
                    job.released = Some(Source::Repository);
                }
                // Some may be noted even so.
                job.noted.extend(destinations);
            })),
        }
        self.settle(name)
    }

    /// Another repository has taken the place of one: it has nothing of what that had got, released or not.
    pub(super) fn repository_changed(&mut self, destination: usize) {
        let jobs = self.jobs.iter().filter(|(_, job)| job.stages[destination] == Stage::Done);
        let names: Vec<String> = jobs.map(|(name, _)| name.to_owned()).collect();
        for name in names {
            self.jobs.change(&name, |job| job.stages[destination] = Stage::Waiting);
        }
    }

    /// Nobody will archive this file. What remains are the pending copies that the spool has noted: of an earlier file with this name.
    fn leave_out(&mut self, name: &str) {
        self.jobs.change(name, |job| {
            job.released = Some(Source::Repository);
            // Not of the file that was left out: if PostgreSQL asks for that once more, every repository compares.
            job.identity = None;
            let unnoted = job.stages.iter_mut().enumerate().filter(|(index, _)| !job.noted.contains(index));
            unnoted
                .filter(|(_, stage)| **stage != Stage::Running)
                .for_each(|(_, stage)| *stage = Stage::Done);
        });
    }

    /// Forgets files that failed and that nobody will ask for again: `is_wanted` says which are.
    pub(super) fn forget_failed(&mut self, is_wanted: impl Fn(&str) -> bool) {
        for name in self.jobs.resting() {
            let job = self.jobs.get(&name).expect("what rests is there");
            let is_at_rest = !job.is_settling && !job.stages.contains(&Stage::Running);
            if job.released.is_none() && is_at_rest && !is_wanted(&name) {
                self.jobs.remove(&name);
            }
        }
    }

    /// No upload is begun any more: drops those who wait for a file that would need one. What is under way to an optional repository
    /// is not what they wait for.
    pub(super) fn drop_hopeless_askers(&mut self) {
        let is_hopeless = |(destination, stage): (&Destination, &Stage)| {
            destination.is_required && !matches!(stage, Stage::Running | Stage::Done)
        };
        let destinations = &self.destinations;
        self.jobs.drop_askers(|job| destinations.iter().zip(&job.stages).any(is_hopeless));
    }

    /// No upload is under way any more: drops all who still wait.
    pub(super) fn drop_all_askers(&mut self) {
        self.jobs.drop_askers(|_| true);
    }

    /// Paths of the files that PostgreSQL waits for.
    pub(super) fn waiting(&self) -> Vec<String> {
        let waiting = self.jobs.iter().filter(|(_, job)| job.released.is_none());
        waiting.map(|(_, job)| job.path.clone()).collect()
    }

    /// How many they are.
    pub(super) fn waiting_count(&self) -> usize {
        self.jobs.unreleased()
    }

    /// Whether a repository has the file already that is there `now`.
    pub(super) fn is_in(&self, name: &str, destination: usize, now: Option<FileIdentity>) -> bool {
        self.jobs.get(name).is_some_and(|job| job.is_of(now) && job.stages[destination] == Stage::Done)
    }

    /// How many files a repository lacks, and how many of them rest because they cannot be put there.
    pub(super) fn lacking(&self, destination: usize) -> (usize, usize) {
        self.jobs.lacking(destination)
    }

    /// Files that wait for a worker.
    pub(super) fn unstarted(&self) -> usize {
        self.jobs.unstarted()
    }

    pub(super) fn running(&self) -> usize {
        self.destinations.iter().map(|destination| destination.running).sum()
    }
}

#[cfg(test)]
mod tests;
