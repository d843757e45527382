//! Starting and ending the threads of a database, and the bodies of two of them.

use std::sync::Arc;
use std::time::Duration;

use seawall_sync::atomic::Ordering;
use seawall_sync::thread;
use seawall_types::Lsn;

use crate::background::IDLE;
use crate::checkpoint::priority::Priority;
use crate::checkpoint::statistics::{Totals, Trigger};
use crate::checkpoint::turn::CheckpointState;
use crate::engine::Engine;
use crate::error::Error;
use crate::in_doubt::policy::FailedRule;
use crate::options::PublishStatistics;
use crate::pacing::run_debt::RunFill;
use crate::runs::slice::Slice;

/// How long a failed checkpoint waits before it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What a thread does.
type Body = Box<dyn FnOnce(&Engine) + Send>;

impl Engine {
    /// Starts the threads of a database that takes writes.
    pub(crate) fn start_background(self: &Arc<Self>) -> Result<(), Error> {
        self.start("seawall-checkpoint", Box::new(Engine::run_checkpoints))?;
        self.start("seawall-segments", Box::new(Engine::keep_segments))?;
        self.start_writing()
    }

    /// Starts those of a standby.
    pub(crate) fn start_standby(self: &Arc<Self>) -> Result<(), Error> {
        self.start("seawall-checkpoint", Box::new(Engine::run_checkpoints))?;
        self.start("seawall-segments", Box::new(Engine::keep_segments))?;
        if !self.options.archives.is_empty() {
            self.start("seawall-archive", Box::new(Engine::keep_archive_holds))?;
        }
        self.start("seawall-apply", Box::new(Engine::keep_applying))
    }

    /// Reads the filters of runs, on a thread of its own where there may be threads.
    pub(crate) fn begin_reading_filters(self: &Arc<Self>) -> Result<(), Error> {
        if self.view().runs.is_empty() {
            return Ok(());
        }
        if self.is_manual() {
            self.read_filters(&|| true);
            return Ok(());
        }
        self.start("seawall-filters", Box::new(|engine| engine.read_filters(&|| true)))
    }

    /// Starts those that a database needs besides when it takes writes.
    pub(crate) fn start_writing(self: &Arc<Self>) -> Result<(), Error> {
        self.start("seawall-log", Box::new(Engine::keep_log))?;
        if self.members.are_required() {
            self.start("seawall-quorum", Box::new(Engine::keep_marking))?;
        }
        if !self.options.in_doubt_rules.is_empty() {
            self.start("seawall-in-doubt", Box::new(Engine::keep_rules))?;
        }
        self.start("seawall-log-clean", Box::new(Engine::keep_log_clean))?;
        if self.options.publish_statistics == PublishStatistics::EverySecond {
            self.start("seawall-statistics", Box::new(Engine::keep_statistics_published))?;
        }
        for archiver in self.archivers.all() {
            let archiver = Arc::clone(archiver);
            self.start("seawall-archive", Box::new(move |engine| engine.keep_archive(&archiver)))?;
        }
        Ok(())
    }

    fn start(self: &Arc<Self>, name: &str, body: Body) -> Result<(), Error> {
        let engine = Arc::clone(self);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || body(&engine))
            .map_err(|error| Error::Io { message: format!("starting thread {name}: {error}") })?;
        self.background.threads.lock().push(thread);
        Ok(())
    }

    /// Ends the threads; a checkpoint that is running is finished first.
    pub(crate) fn stop_background(&self) {
        self.background.stop.store(true, Ordering::SeqCst);
        self.background.checkpoint_work.wake_all();
        self.background.log_work.wake_all();
        self.background.segment_work.wake_all();
        self.background.rules_work.wake_all();
        self.background.clean_work.wake_all();
        self.background.apply_work.wake_all();
        self.queue.wake_waiting();
        self.background.stopped.wake_all();
        self.archivers.all().iter().for_each(|archiver| archiver.end());
        for thread in self.background.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a background thread of the database panicked");
            }
        }
    }

    fn run_checkpoints(&self) {
        let background = &self.background;
        loop {
            let seen = background.checkpoint_work.read();
            if background.stopping() {
                return;
            }
            let wanted = background.checkpoint_wanted.swap(false, Ordering::SeqCst);
            let left = self.view().unmerged().map(|_| Trigger::Recovery);
            let trigger = if wanted { self.limit_reached().or(left) } else { self.interval_over() };
            let Some(trigger) = trigger else {
                self.drop_unneeded_memtables();
                if self.merge_runs_meanwhile() {
                    continue;
                }
                // Merges may have left memory to those that had to do without.
                self.read_filters(&|| !background.checkpoint_wanted.load(Ordering::SeqCst));
                background.checkpoint_work.wait(seen, Some(IDLE));
                continue;
            };
            // A bug in there must not leave writers waiting for a checkpoint that nobody makes any more.
            let checkpoint = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.checkpoint_at(Priority::GivesWay, trigger)
            }));
            let error = match checkpoint {
                Ok(Ok(_)) => continue,
                Ok(Err(Error::StandbysLack { lsn })) => {
                    self.leave_checkpoint_to_standbys(lsn);
                    continue;
                }
                Ok(Err(error)) => error,
                Err(_) => self.lifecycle.stop("a checkpoint panicked".to_owned()),
            };
            tracing::error!(%error, "checkpoint failed; it will be tried again");
            *self.counters.last_checkpoint_error.lock() = Some(error);
            self.pacing.give_up_checkpoint();
            // Read again: whoever asked for a checkpoint meanwhile has its answer, and waits like us.
            let seen = background.checkpoint_work.read();
            background.checkpoint_wanted.store(true, Ordering::SeqCst);
            if !background.stopping() {
                background.checkpoint_work.wait(seen, Some(RETRY));
            }
        }
    }

    /// Merges a window of runs, or a slice of runs that become one, if one is due and nobody waits to change the tree. Returns whether it
    /// merged. Rests afterwards to keep to the limit of writes.
    fn merge_runs_meanwhile(&self) -> bool {
        let (started, mut totals) = (self.clock().monotonic(), Totals::default());
        let filled = self.active_bytes();
        let Some(slice) = self.merge_runs_in_turn(&mut totals) else {
            if self.view().runs.is_empty() {
                self.pacing.note_merge(0, self.active_limit());
            }
            return false;
        };
        self.pacing.note_merge(self.active_bytes().saturating_sub(filled), self.active_limit());
        if self.limit_reached().is_some() {
            self.background.want_checkpoint();
        }
        let has_merged = slice != Slice::Nothing;
        if has_merged {
            self.rest_after_merge(started, totals.written_bytes());
        }
        has_merged
    }

    /// `None`: it did not come to that, or failed.
    fn merge_runs_in_turn(&self, totals: &mut Totals) -> Option<Slice> {
        let may_write = self.lifecycle.check_open().and_then(|()| self.lifecycle.check_not_stopped());
        if self.view().runs.is_empty() || self.checkpoint_turn.is_wanted() || may_write.is_err() {
            return None;
        }
        let mut state = self.checkpoint_turn.try_take()?;
        let state: &mut CheckpointState = &mut state;
        let aim = self.aim_of_merges(state);
        let merge = || Priority::GivesWay.run(|| self.merge_slice(state, aim, totals));
        let merged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(merge));
        if !matches!(merged, Ok(Ok(_))) {
            // Slower writers do not help a merge that fails.
            self.pacing.note_runs(&RunFill::default(), || self.fill());
        }
        match merged {
            Ok(Ok(slice)) => {
                self.note_runs(state);
                Some(slice)
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "merging runs failed; it will be tried again");
                None
            }
            Err(_) => {
                let error = self.lifecycle.stop("a merge of runs panicked".to_owned());
                tracing::error!(%error, "merging runs failed");
                None
            }
        }
    }

    /// A checkpoint has waited for standbys in vain: the next one begins when what is up to `lsn` is visible.
    fn leave_checkpoint_to_standbys(&self, lsn: Lsn) {
        self.pacing.give_up_checkpoint();
        let seen = self.background.checkpoint_work.read();
        self.background.checkpoint_wanted.store(true, Ordering::SeqCst);
        if self.lifecycle.check_open().is_err() {
            // It was not waited for, because the database is being closed.
            if !self.background.stopping() {
                self.background.checkpoint_work.wait(seen, Some(RETRY));
            }
            return;
        }
        tracing::info!(%lsn, "a checkpoint waits for a quorum of standbys");
        let goes_on = || !self.background.stopping() && self.lifecycle.check_open().is_ok();
        let wait = || goes_on().then(|| self.go_alone_in_time().unwrap_or(IDLE).min(IDLE));
        self.queue.wait_until(None, || self.visible() >= lsn, wait);
    }

    fn keep_rules(&self) {
        let background = &self.background;
        loop {
            let seen = background.rules_work.read();
            if background.stopping() {
                return;
            }
            // A bug in there must not leave transactions in doubt for ever.
            let rules = &self.options.in_doubt_rules;
            let applied =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.apply_in_doubt_rules(rules)));
            match applied {
                Ok(Ok(applied)) => {
                    for FailedRule { gid, error } in applied.failed {
                        tracing::warn!(gid, %error, "an in-doubt transaction could not be decided; tried again in a second");
                    }
                }
                Ok(Err(error)) => tracing::warn!(%error, "rules about in-doubt transactions not applied"),
                Err(_) => {
                    tracing::error!("rules about in-doubt transactions panicked; tried again in a second")
                }
            }
            background.rules_work.wait(seen, Some(IDLE));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_simulation::SimulatedDisk;
    use seawall_sync::atomic::Ordering;

    use crate::runs::testing::{checkpoint_into_run, open_on};

    #[test]
    fn what_the_memtable_got_during_merges_counts_half_after_the_next_one() {
        let database = open_on(Arc::new(SimulatedDisk::new(1)), |_| ()).unwrap();
        let (engine, table) = (database.engine(), database.create_table("t").unwrap());
        database.checkpoint().unwrap();
        database.put(&table, "k", "v").unwrap();
        checkpoint_into_run(engine, 0);
        let limit = engine.active_limit();
        while engine.active_bytes() < limit / 8 * 7 {
            database.put(&table, engine.active_bytes().to_be_bytes(), [1; 1000]).unwrap();
        }
        let is_wanted = || engine.background.checkpoint_wanted.load(Ordering::SeqCst);
        let merge_after = |fill: u64| {
            engine.pacing.note_merge(fill, limit);
            engine.merge_runs_meanwhile();
            engine.pacing.merge_fill()
        };
        // The memtable has got nothing during these merges, so what it got before counts half.
        assert_eq!(merge_after(limit / 16), limit / 32);
        assert!(!is_wanted());
        assert_eq!(merge_after(limit / 2), limit / 4);
        assert!(is_wanted(), "less than a quarter is left");
        // Without runs there is nothing to wait for.
        database.checkpoint().unwrap();
        engine.change_view(|view| view.runs = [].into());
        assert_eq!(merge_after(limit / 2), limit / 4);
    }
}
