//! Pending copies: PostgreSQL was told that a file is archived, and a repository still lacks it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use seawall_archive::LogFileName;

use super::Pusher;
use super::failure::Failure;
use super::queue::Task;
use crate::log_line::log_line;
use crate::spool::GapNote;

impl Pusher {
    /// Takes on the copies that an earlier agent has left pending, as soon as it is known whose files these are.
    pub(super) fn take_on_pending_copies(self: &Arc<Pusher>) {
        let Ok(system) = self.shared.system() else { return };
        if self.has_taken_on_pending_copies.swap(true, Ordering::SeqCst) {
            return;
        }
        for (destination, handle) in self.shared.repositories.iter().enumerate() {
            match self.shared.spool.pending_copies(system, &handle.key()) {
                Ok(names) => {
                    let mut state = self.state.lock();
                    names.iter().for_each(|name| state.queue.add_pending_copy(name, destination));
                    self.start_workers(&mut state);
                }
                Err(error) => {
                    log_line!("cannot read which copies are pending for {}: {error}", handle.location())
                }
            }
        }
        self.changed.notify_all();
    }

    pub(super) fn note_pending_copy(&self, name: &str, destinations: &[usize]) -> Result<(), String> {
        for destination in destinations {
            let (handle, system) = (&self.shared.repositories[*destination], self.shared.system()?);
            self.shared.spool.note_pending_copy(system, &handle.key(), name).map_err(|error| {
                format!("cannot note that {} has yet to get {name}: {error}", handle.location())
            })?;
        }
        Ok(())
    }

    /// If that fails, the next agent finds out that the repository has the file.
    pub(super) fn note_copied(&self, name: &str, destination: usize) {
        let key = self.shared.repositories[destination].key();
        let noted = self.shared.system().and_then(|system| {
            self.shared.spool.note_copied(system, &key, name).map_err(|error| error.to_string())
        });
        if let Err(problem) = noted {
            log_line!("{name} was copied, and that cannot be noted: {problem}");
        }
    }

    /// The file has been removed from all other repositories before it was copied: it will not come. The gap is noted before the pending
    /// copy is forgotten, so a power loss between the two leaves both, and the next agent does the same again.
    pub(super) fn give_up_copies(&self, task: &Task) {
        // Else PostgreSQL has asked for it once more, and has it.
        let is_released = self.state.lock().queue.is_released(&task.name);
        // Without the mutex: other commands are answered while the disk of the spool works.
        let noted = if is_released { self.note_lost(task) } else { Ok(()) };
        if let Err(problem) = noted {
            self.refuse(task, &Failure::of_file(problem));
            return;
        }
        // If PostgreSQL has asked for it meanwhile it is archived after all, and the gap that is noted is none to a recovery.
        let given_up = self.state.lock().queue.give_up_copies(task, is_released);
        for destination in given_up {
            let location = self.shared.repositories[destination].location();
            log_line!(
                "{} was to be copied to {location}, and is in no repository any more: it will be missing there",
                task.name
            );
            self.note_copied(&task.name, destination);
        }
        self.changed.notify_all();
    }

    /// A gap of the repositories that were to get it, and of no other: those had it for as long as they were to keep it.
    fn note_lost(&self, task: &Task) -> Result<(), String> {
        let Some(LogFileName::Segment(place)) = LogFileName::parse(&task.name) else { return Ok(()) };
        let others = self
            .shared
            .repositories
            .iter()
            .enumerate()
            .filter(|(destination, _)| !task.destinations.contains(destination));
        let recorded = others.filter_map(|(_, other)| Some(other.record_mark(&other.id()?))).collect();
        let note = GapNote {
            system: self.shared.system()?,
            place,
            // It is nowhere to be measured; so its gap is one by itself.
            segment_bytes: 0,
            noticed_micros: self.shared.clock.wall_micros(),
            recorded,
            reason: "it was removed from the other repositories before it was copied here".to_owned(),
        };
        let noted = self.shared.gaps.note(&self.shared.spool, note);
        noted.map_err(|error| format!("{} is in no repository, and that cannot be noted: {error}", task.name))
    }
}
