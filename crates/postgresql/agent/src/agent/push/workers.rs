//! Threads that upload: each takes the file whose turn it is, puts it into its repositories, and tells those who wait for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use super::begun::Begun;
use super::end::{Required, Worker};
use super::failure::Failure;
use super::queue::{Choice, Outcome, Task};
use super::work::{self, Prepared, Unprepared};
use super::{Pusher, State};
use crate::agent::semaphore::Permit;
use crate::agent::transfers::milliseconds;
use crate::log_line::log_line;
use crate::protocol::Answer;
use crate::spool::FileIdentity;

/// Held by each upload to a required repository, until the last of them is done: room in memory, and the end of the agent.
type Held<'a> = (Arc<Option<Permit>>, Arc<Option<Required<'a>>>);

impl Pusher {
    /// Starts threads for what waits, up to the limit. They stay.
    pub(super) fn start_workers(self: &Arc<Pusher>, state: &mut State) {
        while state.workers < self.workers_max
            && state.workers < state.queue.running() + state.queue.unstarted()
        {
            let pusher = Arc::clone(self);
            let started = std::thread::Builder::new().name("push".to_owned()).spawn(move || pusher.work());
            if let Err(error) = started {
                log_line!("no further thread for uploads: {error}");
                break;
            }
            state.workers += 1;
        }
    }

    fn work(&self) {
        let _counted = Worker(self);
        loop {
            // A slot first, then the file whose turn it is then: what a command waits for comes before what was only taken on.
            let slot = self.limits.worker_slots.acquire();
            let Some((task, required)) = self.next() else { break };
            let begun = Begun::new(self, &task, &task.destinations);
            let prepared = work::prepare(&self.shared, &self.limits, slot, &task);
            begun.end();
            match prepared {
                Ok(prepared) => self.put(&task, prepared, required),
                Err(Unprepared::Failed(failure)) => self.refuse(&task, &failure),
                Err(Unprepared::Nowhere) => self.give_up_copies(&task),
            }
        }
    }

    /// The next file, when there is one and its turn has come; `None` at the end. With what the end waits for, if a required repository is
    /// to get the file.
    fn next(&self) -> Option<(Task, Option<Required<'_>>)> {
        let mut state = self.state.lock();
        loop {
            if state.is_ending {
                return None;
            }
            let now = self.shared.clock.monotonic();
            match state.queue.choose(now) {
                Choice::Task(task) => {
                    let is_required = task
                        .destinations
                        .iter()
                        .any(|destination| state.queue.destinations[*destination].is_required);
                    state.required_uploads += usize::from(is_required);
                    return Some((task, is_required.then(|| Required(self))));
                }
                Choice::Later(at) => {
                    self.changed.wait_for(&mut state, at.saturating_sub(now));
                }
                Choice::Nothing => self.changed.wait(&mut state),
            }
        }
    }

    /// Into all of its repositories at once: each is done with it by itself. When the required ones are done, the room in memory is free
    /// again, and the agent may end: an optional one may hang, and nothing waits for that.
    fn put(&self, task: &Task, mut prepared: Prepared, required: Option<Required<'_>>) {
        let bytes = prepared.packed.header().stored_bytes;
        let held = Arc::new(prepared.permit.take());
        let (prepared, required) = (prepared, Arc::new(required));
        let put = |destination: usize, held: Option<Held<'_>>| {
            // What is acknowledged is what was put into the repositories that there were then.
            let content = prepared.identity.map(|identity| (identity, self.shared.spool.mark()));
            let mut begun = Begun::new(self, task, std::slice::from_ref(&destination));
            begun.send(bytes);
            let result = self.put_one(task, destination, &prepared);
            begun.end();
            let required = held.map(|(memory, required)| {
                drop(memory);
                required
            });
            self.finish(task, destination, content, result);
            drop(required);
        };
        let with_held = |destination: &usize| {
            let is_required = self.shared.repositories[*destination].is_required;
            (*destination, is_required.then(|| (Arc::clone(&held), Arc::clone(&required))))
        };
        let mut destinations: Vec<(usize, Option<Held<'_>>)> =
            task.destinations.iter().map(with_held).collect();
        drop((held, required));
        let Some((last, last_held)) = destinations.pop() else { return };
        let put = &put;
        std::thread::scope(|scope| {
            for (destination, held) in destinations {
                scope.spawn(move || put(destination, held));
            }
            put(last, last_held);
        });
    }

    /// Into one repository, in its turn.
    fn put_one(&self, task: &Task, destination: usize, prepared: &Prepared) -> Result<(), Failure> {
        let (handle, transfers, clock) =
            (&self.shared.repositories[destination], &self.shared.transfers, &*self.shared.clock);
        let bytes = prepared.packed.header().stored_bytes;
        transfers.upload_rate.wait(clock, bytes);
        let begun = clock.monotonic();
        work::put(handle, prepared)?;
        let duration = clock.monotonic().saturating_sub(begun);
        handle.uploads.note(duration);
        handle.upload_bytes.fetch_add(bytes, Ordering::Relaxed);
        transfers.log(
            clock,
            format_args!(
                "uploaded {} to {}: {bytes} bytes in {}",
                task.name,
                handle.location(),
                milliseconds(duration)
            ),
        );
        Ok(())
    }

    pub(super) fn finish(
        &self,
        task: &Task,
        destination: usize,
        content: Option<(FileIdentity, Option<u32>)>,
        result: Result<(), Failure>,
    ) {
        self.take_on_changes();
        let (name, now) = (&*task.name, self.shared.clock.monotonic());
        let identity = content.map(|(identity, _)| identity);
        let outcome =
            self.state.lock().queue.finish(name, destination, identity, result.as_ref().copied(), now);
        let (answer, askers) = match (outcome, result) {
            (Outcome::Durable { lacking }, _) => self.settle(task, content, &lacking),
            (Outcome::Copied, _) => {
                self.note_copied(name, destination);
                (Answer::Ok, Vec::new())
            }
            (Outcome::Failed { askers }, Err(failure)) => (self.tell(name, &failure), askers),
            (Outcome::Blocked { askers, why }, _) => (Answer::Failed(why), askers),
            (Outcome::Failed { .. } | Outcome::Nothing, _) => (Answer::Ok, Vec::new()),
        };
        self.changed.notify_all();
        Pusher::tell_askers(askers, &answer);
    }

    pub(super) fn tell_askers(askers: Vec<Sender<Answer>>, answer: &Answer) {
        for asker in askers {
            // An error is a command that has given up waiting.
            asker.send(answer.clone()).unwrap_or(());
        }
    }

    /// A file is durable wherever that is required. Before PostgreSQL goes on, what it went on without is on record: the stores answer
    /// again. An optional repository is not waited for. Returns the answer, and the commands to be told.
    fn settle(
        &self,
        task: &Task,
        content: Option<(FileIdentity, Option<u32>)>,
        lacking: &[usize],
    ) -> (Answer, Vec<Sender<Answer>>) {
        let name = &task.name;
        let answer = match self.record_gaps_in(self.required()) {
            Ok(()) => self.acknowledge(task, content, lacking),
            Err(problem) => Answer::Failed(format!(
                "{name} is stored, and counts as archived only when an earlier gap is on record: {problem}"
            )),
        };
        let settled = self.state.lock().queue.settle(name);
        if let (Answer::Ok, Some(since)) = (&answer, settled.since) {
            let (transfers, clock) = (&self.shared.transfers, &*self.shared.clock);
            let duration = clock.monotonic().saturating_sub(since);
            transfers.acknowledgements.note(duration);
            transfers.log(
                clock,
                format_args!("acknowledged {name}: {} after it was there", milliseconds(duration)),
            );
        }
        settled.copied.into_iter().for_each(|destination| self.note_copied(name, destination));
        (answer, settled.askers)
    }

    /// Pending copies are noted before PostgreSQL may remove the file.
    fn acknowledge(
        &self,
        task: &Task,
        content: Option<(FileIdentity, Option<u32>)>,
        lacking: &[usize],
    ) -> Answer {
        let name = &task.name;
        if let Err(problem) = self.note_pending_copy(name, lacking) {
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
            log_line!("{name} is archived, and not acknowledged: {error}");
        }
        Answer::Ok
    }

    pub(super) fn refuse(&self, task: &Task, failure: &Failure) {
        let now = self.shared.clock.monotonic();
        let askers = self.state.lock().queue.refuse(task, failure, now);
        let answer = self.tell(&task.name, failure);
        self.changed.notify_all();
        Pusher::tell_askers(askers, &answer);
    }

    pub(super) fn tell(&self, name: &str, failure: &Failure) -> Answer {
        if let Err(error) = self.shared.spool.note_error(name, &failure.message) {
            log_line!("cannot write to the spool: {error}");
        }
        // Where a store is down, all fail: that is said once, by its destination.
        if !failure.is_of_store {
            log_line!("{name} is not archived: {}", failure.message);
        }
        Answer::Failed(failure.message.clone())
    }
}
