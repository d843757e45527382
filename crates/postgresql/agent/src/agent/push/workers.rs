//! Threads that upload: each takes the file whose turn it is, puts it into its repositories, and tells those who wait for it.

use std::sync::Arc;

use super::queue::{Choice, Outcome, Task};
use super::work::{self, Failure, Prepared, Unprepared};
use super::{Pusher, State};
use crate::agent::stock::Share;
use crate::protocol::Answer;
use crate::say::say;
use crate::spool::FileIdentity;

impl Pusher {
    /// Starts threads for what waits, up to the limit. They stay.
    pub(super) fn staff(self: &Arc<Pusher>, state: &mut State) {
        while state.workers < self.workers_max
            && state.workers < state.queue.running() + state.queue.unstarted()
        {
            let pusher = Arc::clone(self);
            let started = std::thread::Builder::new().name("push".to_owned()).spawn(move || pusher.work());
            if let Err(error) = started {
                say!("no further thread for uploads: {error}");
                break;
            }
            state.workers += 1;
        }
    }

    fn work(&self) {
        loop {
            // A desk first, then the file whose turn it is then: what a command waits for comes before what was only taken on.
            let desk = self.limits.desks.take();
            let Some(task) = self.next() else { break };
            match work::prepare(&self.shared, &self.limits, desk, &task) {
                Ok(prepared) => self.put(&task, prepared),
                Err(Unprepared::Failed(failure)) => self.refuse(&task, &failure),
                Err(Unprepared::Nowhere) => self.write_off(&task),
            }
        }
        self.state.lock().workers -= 1;
        self.changed.notify_all();
    }

    /// The next file, when there is one and its turn has come; `None` at the end.
    fn next(&self) -> Option<Task> {
        let mut state = self.state.lock();
        loop {
            if state.is_ending {
                return None;
            }
            let now = self.shared.clock.monotonic();
            match state.queue.choose(now) {
                Choice::Task(task) => return Some(task),
                Choice::Later(at) => {
                    self.changed.wait_for(&mut state, at.saturating_sub(now));
                }
                Choice::Nothing => self.changed.wait(&mut state),
            }
        }
    }

    /// Into all of its repositories at once: each is done with it by itself. The room in memory is free again when the required ones
    /// are done with it: an optional one may hang, and no other file waits for that.
    fn put(&self, task: &Task, mut prepared: Prepared) {
        let (share, bytes) = (Arc::new(prepared.share.take()), prepared.packed.header().stored_bytes);
        let prepared = prepared;
        let put = |lane: usize, share: Option<Arc<Option<Share>>>| {
            // What is acknowledged is what was put into the repositories that there were then.
            let content = prepared.identity.map(|identity| (identity, self.shared.spool.mark()));
            self.state.lock().queue.lanes[lane].begin(bytes);
            let result = work::put(&self.shared.places[lane], &prepared);
            self.state.lock().queue.lanes[lane].end(bytes);
            drop(share);
            self.finish(task, lane, content, result);
        };
        let with_share = |lane: &usize| {
            let is_required = self.shared.places[*lane].is_required;
            (*lane, is_required.then(|| Arc::clone(&share)))
        };
        let mut lanes: Vec<(usize, Option<Arc<Option<Share>>>)> = task.lanes.iter().map(with_share).collect();
        drop(share);
        let Some((last, last_share)) = lanes.pop() else { return };
        let put = &put;
        std::thread::scope(|scope| {
            for (lane, share) in lanes {
                scope.spawn(move || put(lane, share));
            }
            put(last, last_share);
        });
    }

    pub(super) fn finish(
        &self,
        task: &Task,
        lane: usize,
        content: Option<(FileIdentity, Option<u32>)>,
        result: Result<(), Failure>,
    ) {
        self.take_on_changes();
        let (name, now) = (&*task.name, self.shared.clock.monotonic());
        let identity = content.map(|(identity, _)| identity);
        let outcome = self.state.lock().queue.finish(name, lane, identity, result.as_ref().copied(), now);
        let (answer, askers) = match (outcome, result) {
            (Outcome::Durable { owed }, _) => {
                // The stores answer again: before PostgreSQL goes on, what it went on without is on record. Nobody waits for an
                // optional repository.
                let answer = match self.record_gaps_in(self.required()) {
                    Ok(()) => self.acknowledge(task, content, &owed),
                    Err(problem) => Answer::Failed(format!(
                        "{name} is stored, and counts as archived only when an earlier gap is on record: {problem}"
                    )),
                };
                let settled = self.state.lock().queue.settle(name);
                settled.paid.into_iter().for_each(|lane| self.note_paid(name, lane));
                (answer, settled.askers)
            }
            (Outcome::Paid, _) => {
                self.note_paid(name, lane);
                (Answer::Ok, Vec::new())
            }
            (Outcome::Failed { askers }, Err(failure)) => (self.tell(name, &failure), askers),
            (Outcome::Held { askers, why }, _) => (Answer::Failed(why), askers),
            (Outcome::Failed { .. } | Outcome::Nothing, _) => (Answer::Ok, Vec::new()),
        };
        self.changed.notify_all();
        for asker in askers {
            // A command that has given up waiting.
            asker.send(answer.clone()).unwrap_or(());
        }
    }

    /// It is durable wherever that is required. What is owed is noted before PostgreSQL may remove the file.
    fn acknowledge(
        &self,
        task: &Task,
        content: Option<(FileIdentity, Option<u32>)>,
        owed: &[usize],
    ) -> Answer {
        let name = &task.name;
        if let Err(problem) = self.note_owed(name, owed) {
            return Answer::Failed(problem);
        }
        let Some((identity, mark)) = content else { return Answer::Ok };
        let now = std::fs::metadata(self.shared.data.full(&task.path));
        if now.map_or(true, |now| FileIdentity::of(&now) != identity) {
            return Answer::Failed(format!(
                "{name} was changed or removed while it was archived; what is there now is not known to be archived"
            ));
        }
        // It is archived all the same, and whoever waits is told so; the next who asks will find it there.
        if let Some(mark) = mark
            && let Err(error) = self.shared.spool.acknowledge(name, identity, mark)
        {
            say!("{name} is archived, and not acknowledged: {error}");
        }
        Answer::Ok
    }

    pub(super) fn refuse(&self, task: &Task, failure: &Failure) {
        let now = self.shared.clock.monotonic();
        let askers = self.state.lock().queue.refuse(task, failure, now);
        let answer = self.tell(&task.name, failure);
        self.changed.notify_all();
        for asker in askers {
            asker.send(answer.clone()).unwrap_or(());
        }
    }

    fn tell(&self, name: &str, failure: &Failure) -> Answer {
        if let Err(error) = self.shared.spool.note_error(name, &failure.message) {
            say!("cannot write to the spool: {error}");
        }
        // Where a store is down, all fail: that is said once, by its lane.
        if !failure.is_of_store {
            say!("{name} is not archived: {}", failure.message);
        }
        Answer::Failed(failure.message.clone())
    }
}
