//! What is to be archived, and how far each file has come in each repository. Decides and never waits: time comes in, choices go out.

mod jobs;

use std::sync::mpsc::Sender;
use std::time::Duration;

use super::lane::{Lane, Room};
use super::work::Failure;
use crate::protocol::Answer;
use crate::spool::FileIdentity;
use jobs::{Job, Jobs, Stage};

/// A file that cannot be archived is looked at again after this, if nobody asks for it before.
const FILE_REST: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Queue {
    jobs: Jobs,
    /// One for each repository, in their order.
    pub(super) lanes: Vec<Lane>,
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
    pub(super) lanes: Vec<usize>,
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
    /// The file is now durable in every required repository. The repositories in `owed` lack it, which is to be noted. It stays here until
    /// `settle`: who asks for it before it is acknowledged does not start it again.
    Durable {
        owed: Vec<usize>,
    },
    /// A repository has what it was owed.
    Paid,
    /// The commands in `askers` are told that it failed: those that wait for the file, and if a required repository is down now, those
    /// that wait for any file that it lacks.
    Failed {
        askers: Vec<Sender<Answer>>,
    },
    /// Some repository has the file now, and a required one that lacks it is down: those that wait for the file are told `why`.
    Held {
        askers: Vec<Sender<Answer>>,
        why: String,
    },
    Nothing,
}

/// What is left to do for a file that is acknowledged.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Those to be told.
    pub(super) askers: Vec<Sender<Answer>>,
    /// Repositories that have got it since it was noted that they are owed it.
    pub(super) paid: Vec<usize>,
}

impl Queue {
    /// For repositories that are required or not, with so many uploads to each.
    pub(super) fn new(required: impl IntoIterator<Item = bool>, in_flight_max: usize) -> Queue {
        let lanes: Vec<Lane> =
            required.into_iter().map(|is_required| Lane::new(is_required, in_flight_max)).collect();
        Queue { jobs: Jobs::new(lanes.len()), lanes, archived: 0, last_archived: None, last_error: None }
    }

    /// Takes a file on, if it is not known.
    pub(super) fn add(&mut self, name: &str, path: &str) {
        if !self.is_known(name) {
            self.jobs.insert(Job::new(name, path, vec![Stage::Waiting; self.lanes.len()], None));
        }
    }

    /// Whether it is taken on already.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.jobs.get(name).is_some()
    }

    /// Takes on what an earlier agent has left owing to one repository.
    pub(super) fn add_owed(&mut self, name: &str, lane: usize) {
        if !self.is_known(name) {
            let stages = vec![Stage::Done; self.lanes.len()];
            self.jobs.insert(Job::new(name, "", stages, Some(Source::Repository)));
        }
        self.jobs.change(name, |job| {
            job.stages[lane] = Stage::Waiting;
            job.noted.insert(lane);
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
            self.lanes
                .iter()
                .zip(&job.stages)
                .any(|(lane, stage)| lane.is_required && *stage == Stage::Running)
        })
    }

    /// Why a required repository that lacks the file takes none now, if so.
    pub(super) fn trouble(&self, name: &str, now: Duration) -> Option<&str> {
        self.lasting_trouble(name, now, Duration::ZERO)
    }

    /// The same, of one that has taken none for `patience`.
    pub(super) fn lasting_trouble(&self, name: &str, now: Duration, patience: Duration) -> Option<&str> {
        let stages = self.jobs.get(name).map(|job| &job.stages);
        let lacks = |index: usize| stages.is_none_or(|stages| stages[index] != Stage::Done);
        let mut lanes = self.lanes.iter().enumerate();
        lanes.find_map(|(index, lane)| {
            if lane.is_required && lacks(index) { lane.lasting_trouble(now, patience) } else { None }
        })
    }

    /// The next upload: those that a command waits for first, then histories, then by name, what is owed last.
    pub(super) fn choose(&mut self, now: Duration) -> Choice {
        let rooms: Vec<Room> = self.lanes.iter().map(|lane| lane.room(now)).collect();
        let free: Vec<usize> = (0..rooms.len()).filter(|lane| rooms[*lane] == Room::Free).collect();
        for lane in &free {
            self.jobs.end_rests(*lane, now);
        }
        let Some(name) = self.jobs.first(free.iter().copied()) else { return self.later(&rooms) };
        let task = self.jobs.change(&name, |job| {
            let waits = |lane: &usize| job.stages[*lane] == Stage::Waiting;
            let lanes: Vec<usize> = free.into_iter().filter(waits).collect();
            lanes.iter().for_each(|lane| job.stages[*lane] = Stage::Running);
            let source = job.released.unwrap_or(Source::File);
            Task { name: name.to_string(), path: job.path.clone(), source, lanes }
        });
        let task = task.expect("it was just found");
        for lane in &task.lanes {
            self.lanes[*lane].running += 1;
        }
        Choice::Task(task)
    }

    /// When the next file can be tried, if nothing happens before.
    fn later(&self, rooms: &[Room]) -> Choice {
        let time = |(lane, room): (usize, &Room)| match room {
            Room::Later(at) if self.jobs.any_waits(lane) => Some(*at),
            Room::Later(at) => self.jobs.first_rest(lane).map(|rest| rest.max(*at)),
            Room::Free => self.jobs.first_rest(lane),
            Room::Full => None,
        };
        let next = rooms.iter().enumerate().filter_map(time).min();
        next.map_or(Choice::Nothing, Choice::Later)
    }

    /// A put has ended. `identity` is that of the file, if the content came from one.
    pub(super) fn finish(
        &mut self,
        name: &str,
        lane: usize,
        identity: Option<FileIdentity>,
        result: Result<(), &Failure>,
        now: Duration,
    ) -> Outcome {
        self.lanes[lane].running -= 1;
        match result {
            _ if !self.is_known(name) => Outcome::Nothing,
            Ok(()) => match self.succeeded(name, lane, identity) {
                Outcome::Nothing => self.held(name, now),
                outcome => outcome,
            },
            Err(failure) => self.failed(name, lane, failure, now),
        }
    }

    fn failed(&mut self, name: &str, lane: usize, failure: &Failure, now: Duration) -> Outcome {
        let is_required = self.lanes[lane].is_required;
        self.last_error = Some(failure.message.clone());
        if failure.is_of_store {
            self.lanes[lane].failed(now, failure);
        }
        let askers = self.jobs.change(name, |job| {
            job.stages[lane] =
                if failure.is_of_store { Stage::Waiting } else { Stage::Failed(now + FILE_REST) };
            if is_required { std::mem::take(&mut job.askers) } else { Vec::new() }
        });
        let mut askers = askers.unwrap_or_default();
        if failure.is_of_store && is_required {
            // The next upload tells how the repository is only after a rest, and it may be that of another file.
            askers.append(&mut self.jobs.take_askers_of_waiting(lane));
        }
        Outcome::Failed { askers }
    }

    /// Tells those who wait for a file that another repository has got now that a required one that lacks it rests. If an upload of the
    /// file is under way, they wait for that.
    fn held(&mut self, name: &str, now: Duration) -> Outcome {
        let is_asked_for = self.jobs.get(name).is_some_and(|job| !job.askers.is_empty());
        if !is_asked_for || self.is_running(name) {
            return Outcome::Nothing;
        }
        let Some(why) = self.trouble(name, now).map(str::to_owned) else { return Outcome::Nothing };
        let askers = self.jobs.change(name, |job| std::mem::take(&mut job.askers)).unwrap_or_default();
        Outcome::Held { askers, why }
    }

    fn succeeded(&mut self, name: &str, lane: usize, identity: Option<FileIdentity>) -> Outcome {
        self.lanes[lane].succeeded(name);
        let lanes = &self.lanes;
        let outcome = self.jobs.change(name, |job| {
            job.stages[lane] = Stage::Done;
            if job.is_settling {
                // Its note may not be written yet.
                return Outcome::Nothing;
            }
            if job.released.is_some() {
                job.noted.remove(&lane);
                return Outcome::Paid;
            }
            if !job.is_still(identity) {
                job.begin_anew();
                return Outcome::Nothing;
            }
            let owed = job.lacking();
            if owed.iter().any(|lane| lanes[*lane].is_required) {
                return Outcome::Nothing;
            }
            job.released = Some(identity.map_or(Source::Repository, Source::Archived));
            job.is_settling = true;
            job.noted.extend(&owed);
            Outcome::Durable { owed }
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

    /// The file is acknowledged.
    pub(super) fn settle(&mut self, name: &str) -> Settled {
        let settled = self.jobs.change(name, |job| {
            job.is_settling = false;
            let noted = job.noted.iter().copied();
            let paid: Vec<usize> = noted.filter(|lane| job.stages[*lane] == Stage::Done).collect();
            job.noted.retain(|lane| !paid.contains(lane));
            Settled { askers: std::mem::take(&mut job.askers), paid }
        });
        self.forget_done(name);
        settled.unwrap_or_default()
    }

    /// A file cannot be archived, whatever the stores do. Returns those to be told.
    pub(super) fn refuse(&mut self, task: &Task, failure: &Failure, now: Duration) -> Vec<Sender<Answer>> {
        for lane in &task.lanes {
            self.lanes[*lane].running -= 1;
        }
        self.last_error = Some(failure.message.clone());
        let askers = self.jobs.change(&task.name, |job| {
            for lane in &task.lanes {
                job.stages[*lane] = Stage::Failed(now + FILE_REST);
            }
            std::mem::take(&mut job.askers)
        });
        askers.unwrap_or_default()
    }

    /// Repositories will not get what they are owed. Returns which those are: none if PostgreSQL has asked for the file once more.
    pub(super) fn write_off(&mut self, task: &Task) -> Vec<usize> {
        for lane in &task.lanes {
            self.lanes[*lane].running -= 1;
        }
        let written_off = self.jobs.change(&task.name, |job| {
            let is_released = job.released.is_some();
            let stage = if is_released { Stage::Done } else { Stage::Waiting };
            task.lanes.iter().for_each(|lane| job.stages[*lane] = stage);
            if is_released {
                job.noted.retain(|lane| !task.lanes.contains(lane));
            }
            if is_released { task.lanes.clone() } else { Vec::new() }
        });
        self.forget_done(&task.name);
        written_off.unwrap_or_default()
    }

    /// Whether PostgreSQL has been told that the file is archived, and has not asked for it since.
    pub(super) fn is_released(&self, name: &str) -> bool {
        self.jobs.get(name).is_some_and(|job| job.released.is_some())
    }

    /// PostgreSQL is told that the file is archived, although repositories lack it: one that is required has it, and the others are
    /// owed it. `None` if none of those has it: an optional one need not be there when somebody recovers. `now` is the file that
    /// PostgreSQL asks for: an earlier one with its name is not what it is told of.
    pub(super) fn owe(&mut self, name: &str, now: Option<FileIdentity>) -> Option<Vec<usize>> {
        let lacking = self.jobs.get(name).filter(|job| job.is_of(now))?.lacking();
        if !(0..self.lanes.len()).any(|lane| self.lanes[lane].is_required && !lacking.contains(&lane)) {
            return None;
        }
        self.jobs.change(name, |job| {
            job.released = Some(Source::Repository);
            job.noted.extend(&lacking);
        });
        Some(lacking)
    }

    /// Another repository has taken the place of one: it has nothing of what that had got.
    pub(super) fn repository_changed(&mut self, lane: usize) {
        let has = |job: &Job| job.released.is_none() && job.stages[lane] == Stage::Done;
        let jobs = self.jobs.iter().filter(|(_, job)| has(job));
        let names: Vec<String> = jobs.map(|(name, _)| name.to_owned()).collect();
        for name in names {
            self.jobs.change(&name, |job| job.stages[lane] = Stage::Waiting);
        }
    }

    /// Nobody will archive this file.
    pub(super) fn give_up(&mut self, name: &str) -> Vec<Sender<Answer>> {
        self.jobs.remove(name).map(|job| job.askers).unwrap_or_default()
    }

    /// Forgets files that failed and that nobody will ask for again: `is_wanted` says which are.
    pub(super) fn forget_failed(&mut self, is_wanted: impl Fn(&str) -> bool) {
        for name in self.jobs.resting() {
            let job = self.jobs.get(&name).expect("what rests is there");
            if job.released.is_none() && !job.stages.contains(&Stage::Running) && !is_wanted(&name) {
                self.jobs.remove(&name);
            }
        }
    }

    /// No upload is begun any more: drops those who wait for a file that would need one. What is under way to an optional repository
    /// is not what they wait for.
    pub(super) fn drop_hopeless_askers(&mut self) {
        let is_hopeless = |(lane, stage): (&Lane, &Stage)| {
            lane.is_required && !matches!(stage, Stage::Running | Stage::Done)
        };
        let lanes = &self.lanes;
        self.jobs.drop_askers(|job| lanes.iter().zip(&job.stages).any(is_hopeless));
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
    pub(super) fn is_in(&self, name: &str, lane: usize, now: Option<FileIdentity>) -> bool {
        self.jobs.get(name).is_some_and(|job| job.is_of(now) && job.stages[lane] == Stage::Done)
    }

    /// How many files a repository lacks, and how many of them rest because they cannot be put there.
    pub(super) fn lacking(&self, lane: usize) -> (usize, usize) {
        self.jobs.lacking(lane)
    }

    /// Files that wait for a worker.
    pub(super) fn unstarted(&self) -> usize {
        self.jobs.unstarted()
    }

    pub(super) fn running(&self) -> usize {
        self.lanes.iter().map(|lane| lane.running).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const NOW: Duration = Duration::from_secs(100);

    fn queue(required: &[bool], in_flight: usize) -> Queue {
        Queue::new(required.iter().copied(), in_flight)
    }

    fn chosen(queue: &mut Queue) -> Option<(String, Vec<usize>)> {
        match queue.choose(NOW) {
            Choice::Task(task) => Some((task.name, task.lanes)),
            Choice::Later(_) | Choice::Nothing => None,
        }
    }

    fn store_is_down() -> Failure {
        Failure { message: "down".to_owned(), is_of_store: true, is_too_much: false }
    }

    #[test]
    fn what_is_asked_for_comes_first_then_histories_then_segments_in_order() {
        let mut queue = queue(&[true], 8);
        for name in ["000000010000000000000003", "000000010000000000000002", "00000002.history"] {
            queue.add(name, name);
        }
        queue.ask("000000010000000000000003", "x", channel().0);
        let names: Vec<String> = std::iter::from_fn(|| chosen(&mut queue)).map(|(name, _)| name).collect();
        assert_eq!(names, ["000000010000000000000003", "00000002.history", "000000010000000000000002"]);
    }

    #[test]
    fn a_file_is_archived_when_all_required_repositories_have_it_and_the_others_are_owed_it() {
        let mut queue = queue(&[true, true, false], 8);
        queue.add("a", "a");
        let (asker, _receiver) = channel();
        queue.ask("a", "a", asker);
        assert_eq!(chosen(&mut queue), Some(("a".to_owned(), vec![0, 1, 2])));
        assert!(matches!(queue.finish("a", 0, None, Ok(()), NOW), Outcome::Nothing));
        let failed = queue.finish("a", 2, None, Err(&store_is_down()), NOW);
        assert!(
            matches!(failed, Outcome::Failed { askers } if askers.is_empty()),
            "an optional one is nobody's trouble"
        );
        let Outcome::Durable { owed } = queue.finish("a", 1, None, Ok(()), NOW) else { panic!() };
        assert_eq!((owed, queue.waiting_count()), (vec![2], 0));
        assert_eq!(queue.settle("a").askers.len(), 1);
        assert_eq!(chosen(&mut queue), None);
        let later = NOW + Duration::from_secs(2);
        let Choice::Task(task) = queue.choose(later) else { panic!() };
        assert_eq!((task.lanes, task.source), (vec![2], Source::Repository));
        assert!(matches!(queue.finish("a", 2, None, Ok(()), later), Outcome::Paid));
        assert_eq!((queue.lacking(2), queue.unstarted()), ((0, 0), 0));
    }

    /// The data directory was rolled back in place: one repository has got the file that was there, the other the one that is.
    #[test]
    fn files_that_repositories_got_at_different_times_are_held_against_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let identity = |name: &str, content: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            Some(FileIdentity::of(&std::fs::metadata(&path).unwrap()))
        };
        let (before, after) = (identity("before", b"1"), identity("after", b"22"));
        let mut queue = queue(&[true, true], 8);
        queue.add("a", "a");
        assert_eq!(chosen(&mut queue), Some(("a".to_owned(), vec![0, 1])));
        assert!(matches!(queue.finish("a", 0, before, Ok(()), NOW), Outcome::Nothing));
        queue.finish("a", 1, None, Err(&store_is_down()), NOW);
        let later = NOW + Duration::from_secs(2);
        let Choice::Task(task) = queue.choose(later) else { panic!() };
        assert_eq!(task.lanes, [1]);
        assert!(matches!(queue.finish("a", 1, after, Ok(()), later), Outcome::Nothing));
        // Each compares what it has with what is there now.
        let Choice::Task(task) = queue.choose(later) else { panic!() };
        assert_eq!(task.lanes, [0, 1]);
        assert!(matches!(queue.finish("a", 0, after, Ok(()), later), Outcome::Nothing));
        assert!(matches!(queue.finish("a", 1, after, Ok(()), later), Outcome::Durable { .. }));
    }

    #[test]
    fn who_asks_while_a_file_is_being_acknowledged_does_not_start_it_again() {
        let mut queue = queue(&[true, false], 8);
        queue.add("a", "a");
        chosen(&mut queue).unwrap();
        assert!(matches!(queue.finish("a", 0, None, Ok(()), NOW), Outcome::Durable { .. }));
        queue.ask("a", "a", channel().0);
        // The other repository has it now, too, and it is still known.
        assert!(matches!(queue.finish("a", 1, None, Ok(()), NOW), Outcome::Nothing));
        assert!(queue.is_known("a"));
        assert_eq!(chosen(&mut queue), None);
        assert_eq!(queue.settle("a").askers.len(), 1);
        assert!(!queue.is_known("a"));
    }

    #[test]
    fn a_repository_that_is_down_does_not_stop_the_other() {
        let mut queue = queue(&[true, true], 2);
        for name in ["a", "b", "c", "d", "e"] {
            queue.add(name, name);
        }
        let (name, lanes) = chosen(&mut queue).unwrap();
        assert_eq!((name.as_str(), lanes.as_slice()), ("a", &[0, 1][..]));
        queue.finish("a", 1, None, Err(&store_is_down()), NOW);
        assert_eq!(queue.trouble("a", NOW), Some("down"));
        for expected in ["b", "c", "d", "e"] {
            let (name, lanes) = chosen(&mut queue).unwrap();
            assert_eq!((name.as_str(), lanes.as_slice()), (expected, &[0][..]));
            assert!(matches!(queue.finish(&name, 0, None, Ok(()), NOW), Outcome::Nothing));
        }
        assert_eq!((queue.lacking(0).0, queue.lacking(1).0, queue.archived), (1, 5, 0));
        assert!(matches!(queue.finish("a", 0, None, Ok(()), NOW), Outcome::Nothing));
        // One finds out whether it is back, and it then gets what it lacks, alone.
        let later = NOW + Duration::from_secs(1);
        let Choice::Task(task) = queue.choose(later) else { panic!() };
        assert_eq!((task.name.as_str(), task.lanes.as_slice()), ("a", &[1][..]));
        assert!(matches!(queue.choose(later), Choice::Nothing));
        assert!(matches!(queue.finish("a", 1, None, Ok(()), later), Outcome::Durable { .. }));
        assert!(queue.settle("a").askers.is_empty());
        assert!(matches!(queue.choose(later), Choice::Task(_)));
    }

    fn askers_told(outcome: Outcome) -> usize {
        match outcome {
            Outcome::Failed { askers } | Outcome::Held { askers, .. } => askers.len(),
            Outcome::Durable { .. } | Outcome::Paid | Outcome::Nothing => 0,
        }
    }

    /// Else they wait for the next try of a file that is not theirs, up to half a minute.
    #[test]
    fn commands_for_other_files_hear_that_a_required_repository_is_down() {
        for is_required in [true, false] {
            let mut queue = queue(&[is_required, true], 1);
            for name in ["a", "b", "c"] {
                queue.ask(name, name, channel().0);
            }
            assert_eq!(chosen(&mut queue), Some(("a".to_owned(), vec![0, 1])));
            let told = askers_told(queue.finish("a", 0, None, Err(&store_is_down()), NOW));
            assert_eq!(told, if is_required { 3 } else { 0 }, "an optional one is nobody's trouble");
            assert_eq!(queue.waiting_count(), 3, "each is tried again");
        }
    }

    #[test]
    fn a_command_whose_upload_is_under_way_waits_for_it_when_another_one_fails() {
        let mut queue = queue(&[true], 2);
        for name in ["a", "b"] {
            queue.ask(name, name, channel().0);
            chosen(&mut queue).unwrap();
        }
        assert_eq!(askers_told(queue.finish("a", 0, None, Err(&store_is_down()), NOW)), 1);
        assert!(matches!(queue.finish("b", 0, None, Ok(()), NOW), Outcome::Durable { .. }));
        assert_eq!(queue.settle("b").askers.len(), 1);
    }

    /// It came while the file was on its way to the other one.
    #[test]
    fn a_command_hears_that_a_repository_is_down_when_the_others_have_the_file() {
        let mut queue = queue(&[true, true], 8);
        queue.add("a", "a");
        chosen(&mut queue).unwrap();
        queue.finish("a", 0, None, Err(&store_is_down()), NOW);
        queue.ask("a", "a", channel().0);
        assert_eq!(askers_told(queue.finish("a", 1, None, Ok(()), NOW)), 1);
    }

    #[test]
    fn a_file_that_a_repository_refuses_rests_by_itself() {
        let mut queue = queue(&[true], 8);
        queue.add("a", "a");
        let refused = Failure { is_of_store: false, ..store_is_down() };
        chosen(&mut queue).unwrap();
        queue.finish("a", 0, None, Err(&refused), NOW);
        assert_eq!((queue.lacking(0), queue.trouble("a", NOW)), ((1, 1), None));
        assert!(matches!(queue.choose(NOW), Choice::Later(at) if at == NOW + FILE_REST));
        queue.ask("a", "a", channel().0);
        let Choice::Task(task) = queue.choose(NOW) else { panic!() };
        assert_eq!(queue.refuse(&task, &refused, NOW).len(), 1);
        queue.forget_failed(|_| true);
        assert_eq!(queue.waiting_count(), 1);
        queue.forget_failed(|_| false);
        assert_eq!(queue.waiting_count(), 0);
    }

    #[test]
    fn what_one_repository_has_is_owed_to_the_others_and_what_none_has_is_a_gap() {
        let mut queue = queue(&[true, true], 8);
        queue.add("a", "a");
        chosen(&mut queue).unwrap();
        assert!(queue.is_running("a"));
        queue.finish("a", 1, None, Err(&store_is_down()), NOW);
        assert_eq!(queue.owe("a", None), None);
        queue.finish("a", 0, None, Ok(()), NOW);
        assert_eq!(queue.owe("a", None), Some(vec![1]));
        assert_eq!(queue.waiting_count(), 0);
        queue.add("b", "b");
        assert!(queue.give_up("b").is_empty());
        assert_eq!(queue.waiting_count(), 0);
    }

    /// Or the note of the spool would outlive what it says.
    #[test]
    fn a_repository_that_gets_what_it_is_owed_while_that_is_noted_is_paid() {
        let mut queue = queue(&[true, false], 8);
        queue.add("a", "a");
        chosen(&mut queue).unwrap();
        assert!(matches!(queue.finish("a", 0, None, Ok(()), NOW), Outcome::Durable { owed } if owed == [1]));
        assert!(matches!(queue.finish("a", 1, None, Ok(()), NOW), Outcome::Nothing));
        assert_eq!(queue.settle("a").paid, [1]);
        assert!(!queue.is_known("a"));
        // An earlier agent has noted it, and PostgreSQL asks once more.
        queue.add_owed("b", 1);
        queue.ask("b", "b", channel().0);
        chosen(&mut queue).unwrap();
        assert!(matches!(queue.finish("b", 1, None, Ok(()), NOW), Outcome::Nothing));
        assert!(
            matches!(queue.finish("b", 0, None, Ok(()), NOW), Outcome::Durable { owed } if owed.is_empty())
        );
        assert_eq!(queue.settle("b").paid, [1]);
    }

    /// The machine may be lost, and the optional repository need not be there when somebody recovers.
    #[test]
    fn what_only_an_optional_repository_has_is_owed_to_nobody() {
        let mut queue = queue(&[true, false], 8);
        queue.add("a", "a");
        chosen(&mut queue).unwrap();
        queue.finish("a", 0, None, Err(&store_is_down()), NOW);
        queue.finish("a", 1, None, Ok(()), NOW);
        assert_eq!(queue.owe("a", None), None);
        assert_eq!(queue.waiting_count(), 1);
    }

    #[test]
    fn a_repository_that_was_replaced_gets_again_what_is_not_acknowledged() {
        let mut queue = queue(&[true, true], 8);
        queue.add("a", "a");
        chosen(&mut queue).unwrap();
        queue.finish("a", 0, None, Ok(()), NOW);
        queue.finish("a", 1, None, Err(&store_is_down()), NOW);
        queue.repository_changed(0);
        assert_eq!(chosen(&mut queue), Some(("a".to_owned(), vec![0])));
        let later = NOW + Duration::from_secs(2);
        let Choice::Task(_) = queue.choose(later) else { panic!() };
        assert!(matches!(queue.finish("a", 1, None, Ok(()), later), Outcome::Nothing));
        assert!(matches!(queue.finish("a", 0, None, Ok(()), later), Outcome::Durable { .. }));
    }

    #[test]
    fn what_an_earlier_agent_owed_is_taken_from_a_repository() {
        let mut queue = queue(&[true, false, false], 8);
        queue.add_owed("a", 1);
        queue.add_owed("a", 2);
        let Choice::Task(task) = queue.choose(NOW) else { panic!() };
        assert_eq!((task.lanes, task.source), (vec![1, 2], Source::Repository));
        // Asked for by PostgreSQL once more, with whatever content: it is held against all of them.
        queue.ask("a", "pg_wal/a", channel().0);
        let Choice::Task(task) = queue.choose(NOW) else { panic!() };
        assert_eq!((task.lanes, task.source, task.path.as_str()), (vec![0], Source::File, "pg_wal/a"));
    }

    /// With a walk through all of them for each choice this takes minutes.
    #[test]
    fn tens_of_thousands_of_files_are_dealt_out_in_no_time() {
        const FILES: usize = 30_000;
        let mut queue = queue(&[true, true], 32);
        for number in (0..FILES).rev() {
            queue.add(&format!("{number:024X}"), "x");
        }
        for number in 0..FILES {
            let (name, lanes) = chosen(&mut queue).unwrap();
            assert_eq!((name.as_str(), lanes.as_slice()), (format!("{number:024X}").as_str(), &[0, 1][..]));
            for lane in lanes {
                queue.finish(&name, lane, None, Ok(()), NOW);
            }
            queue.settle(&name);
            assert!(!queue.is_known(&name));
        }
        assert_eq!((queue.archived, queue.waiting_count(), queue.unstarted()), (FILES as u64, 0, 0));
    }
}
