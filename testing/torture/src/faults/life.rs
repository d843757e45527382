//! One database: lives full of faults, and what must be there between them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use seawall::{
    Background, Database, Environment, Error, ImageCompression, LockWait, MasterKey, OpenMode, Options,
    PageProtection, SecretKey,
};
use seawall_crash_harness::comparison::Difference;
use seawall_crash_harness::draw_runs;
use seawall_crash_harness::state::State;
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedClock, SimulatedDisk, SimulatedRandom};

use super::account::{Account, find};
use super::causes::{Causes, DoneLater};
use super::fault::{self, Trouble};
use super::lost;
use super::rot::{self, Expected, Verdict};
use super::step::{Failure, KEPT, Step};

/// Of the steps and faults before a finding, so many are told.
const TOLD_MAX: usize = 12;

/// A seed's database and what has become of it.
pub(super) struct Run {
    seed: u64,
    random: SeededRandom,
    swallow: Option<u64>,
    options: Options,
    disk: SimulatedDisk,
    clock: SimulatedClock,
    account: Account,
    /// Once opened, it is there.
    is_made: bool,
    /// The disk has only so much room.
    is_full: bool,
    /// What may be why the next step fails.
    causes: Causes,
    steps: u64,
    told: VecDeque<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl Run {
    pub(super) fn new(seed: u64, swallow: Option<u64>, checkpoint_threads: Option<usize>) -> Run {
        let mut random = SeededRandom::new(seed);
        let mut options = draw_options(&mut random);
        options.checkpoint.threads = checkpoint_threads.unwrap_or(options.checkpoint.threads);
        let disk = SimulatedDisk::new(random.next_u64());
        if checkpoint_threads == Some(1) {
            options.background = Background::Manual;
        }
        let has_threads = options.background == Background::Threads;
        // After a failed sync, half of them show what is durable, and not what was written. A thread that has met one stops the
        // database by itself, and until the next step hears of it, pages may be refused.
        disk.forget_unsynced(!has_threads && random.chance(1, 2));
        let has_runs = options.checkpoint.runs.run_percent > 0;
        let causes = Causes::new(match (has_threads, options.checkpoint.threads) {
            (true, _) => DoneLater::Anything,
            (false, _) if has_runs => DoneLater::Merges,
            (false, 1) => DoneLater::Nothing,
            (false, _) => DoneLater::Pages,
        });
        Run {
            seed,
            random,
            swallow,
            options,
            disk,
            clock: SimulatedClock::default(),
            account: Account::new(State::default()),
            is_made: false,
            is_full: false,
            causes,
            steps: 0,
            told: VecDeque::new(),
            counts: BTreeMap::new(),
        }
    }

    /// What happened, counted.
    pub(super) fn counts(&mut self) -> BTreeMap<&'static str, u64> {
        self.count_struck();
        std::mem::take(&mut self.counts)
    }

    /// The last things that were done, oldest first.
    pub(super) fn describe(&self) -> String {
        Vec::from_iter(self.told.iter().map(String::as_str)).join("\n  ")
    }

    /// Runs it to its end; what was promised and is not so.
    pub(super) fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.random.range(2..6) {
            let database = self.open()?;
            let is_stopped = self.live(&database)?;
            self.end(database, is_stopped)?;
        }
        self.end_troubles();
        let database = self.open_soundly()?;
        self.check(&database)?;
        database.close().map_err(|error| format!("closing at the end: {error}"))
    }

    // ---- opening ---------------------------------------------------------------------------------------------

    /// Opens it among faults; once they are over it must open.
    fn open(&mut self) -> Result<Database, String> {
        if self.random.chance(1, 2) {
            (0..self.random.range(1..4)).for_each(|_| self.begin_trouble());
        }
        if self.random.chance(1, 4) {
            self.look_read_only()?;
        }
        for _ in 0..self.random.range(1..3) {
            match self.try_open(OpenMode::CreateIfMissing) {
                Ok(database) => return self.settle(database),
                Err(error) => self.refused("open", &error)?,
            }
            self.count("opens that failed");
        }
        self.open_soundly()
    }

    fn open_soundly(&mut self) -> Result<Database, String> {
        self.end_troubles();
        let database = self
            .try_open(OpenMode::CreateIfMissing)
            .map_err(|error| format!("it does not open, though nothing fails any more: {error}"))?;
        self.settle(database)
    }

    fn try_open(&mut self, mode: OpenMode) -> Result<Database, Error> {
        self.tell(|| format!("open, {mode:?}"));
        self.begin_step();
        self.causes.opened();
        let options = Options { mode, ..self.options.clone() };
        Database::open(environment(&self.disk, &self.clock), options)
    }

    /// Who only reads sees the same, and changes nothing.
    fn look_read_only(&mut self) -> Result<(), String> {
        if self.disk.list_all().iter().all(|entry| entry.name != "superblock") {
            return Ok(());
        }
        let before = self.disk.calls();
        match self.try_open(OpenMode::ReadOnly) {
            Ok(database) => match self.find(&database) {
                Ok(_) => self.count("read-only opens"),
                Err(Difference::Rows(rows)) => return Err(format!("read-only: {rows}")),
                Err(Difference::Error(error)) => self.refused("reading everything, read-only", &error)?,
            },
            // It was never made to its end.
            Err(Error::NoDatabase { .. }) if !self.is_made => {}
            Err(error) => self.refused("open read-only", &error)?,
        }
        // The lock file is made where it is missing.
        let made = self.disk.calls() - before;
        if made > 1 { Err(format!("a read-only open has changed the disk {made} times")) } else { Ok(()) }
    }

    /// Finds out which of the states is there: it is the one from now on.
    fn settle(&mut self, database: Database) -> Result<Database, String> {
        self.is_made = true;
        self.begin_step();
        let found = match self.find(&database) {
            Ok(found) => found,
            Err(Difference::Error(error)) => {
                self.refused("reading everything", &error)?;
                self.end_troubles();
                self.find(&database).map_err(|difference| format!("after an open: {difference}"))?
            }
            Err(difference) => return Err(format!("after an open: {difference}")),
        };
        self.account.opened(found);
        if !self.account.current().tables.contains_key(KEPT) {
            self.end_troubles();
            self.begin_step();
            let mut next = self.account.current().clone();
            next.tables.insert(KEPT.to_owned(), Arc::default());
            if let Err(error) = database.create_table(KEPT) {
                // A thread of the database has met a fault before they ended.
                self.refused("creating the first table", &error)?;
                self.account.stop(Some(next));
                self.kill(database, true);
                return self.open_soundly();
            }
            self.account.committed(next, true);
        }
        Ok(database)
    }

    fn find(&self, database: &Database) -> Result<State, Difference> {
        find(database, self.account.candidates()).cloned()
    }

    // ---- living ----------------------------------------------------------------------------------------------

    /// Steps and faults; whether the database has stopped taking writes.
    fn live(&mut self, database: &Database) -> Result<bool, String> {
        for _ in 0..self.random.range(5..60) {
            match self.random.below(12) {
                0 | 1 => self.begin_trouble(),
                2 => self.end_troubles(),
                3 => self.compare(database)?,
                _ => {}
            }
            if self.random.chance(1, 60) {
                self.end_troubles();
                self.begin_step();
                if let Err(error) = database.flush() {
                    self.refused("a flush before a check", &error)?;
                    self.stopped(database, None)?;
                    return Ok(true);
                }
                self.account.all_durable();
                self.check(database)?;
            }
            let step = Step::draw(&mut self.random, self.account.current(), self.steps);
            if self.step(database, &step)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does a step; whether it has left the database stopped.
    fn step(&mut self, database: &Database, step: &Step) -> Result<bool, String> {
        self.steps += 1;
        self.count("steps");
        self.tell(|| step.to_string());
        self.begin_step();
        let error = match step.run(database, self.account.current()) {
            Ok(()) => {
                let next = step.after(self.account.current());
                match next {
                    Some(next) => self.account.committed(next, step.makes_durable()),
                    None if matches!(step, Step::Checkpoint) => {
                        self.account.all_in_the_tree();
                        self.causes.checkpoint_succeeded();
                    }
                    None if step.makes_durable() => self.account.all_durable(),
                    None => {}
                }
                return Ok(false);
            }
            Err(Failure::WrongAnswer(what)) => return Err(what),
            Err(Failure::Error(error)) => error,
        };
        self.count("steps that failed");
        self.refused(&step.to_string(), &error)?;
        let attempted = step.after(self.account.current());
        match error {
            Error::Stopped { .. } => {
                self.stopped(database, attempted)?;
                return Ok(true);
            }
            // Nothing is unknown, and it may stay full.
            Error::DiskFull { .. } if self.random.chance(1, 2) => self.compare(database)?,
            _ => {
                self.end_troubles();
                match database.flush() {
                    Ok(_) => self.account.all_durable(),
                    Err(Error::Stopped { .. }) => {
                        self.stopped(database, attempted)?;
                        return Ok(true);
                    }
                    Err(other) => return Err(format!("a flush on a sound disk fails: {other}")),
                }
                self.compare(database)?;
            }
        }
        Ok(false)
    }

    /// It is read as before, and takes no write, whatever the disk does by now.
    fn stopped(&mut self, database: &Database, attempted: Option<State>) -> Result<(), String> {
        self.count("databases that stopped");
        self.account.stop(attempted);
        self.end_troubles();
        let found = match find(database, self.account.shown_once_stopped()) {
            Ok(found) => found,
            Err(difference) if self.is_of_a_lost_page(&difference) => {
                self.count("databases that stopped and refuse damaged pages");
                return Ok(());
            }
            Err(difference) => return Err(format!("reading, once stopped: {difference}")),
        };
        let kept = database.table(KEPT).map_err(|error| format!("opening a table, once stopped: {error}"))?;
        let mut transaction = database.begin();
        let put = transaction.put(&kept, "refused", "refused").and_then(|()| transaction.commit());
        let answers = [
            put.map(drop),
            database.put(&kept, "refused", "refused").map(drop),
            database.create_table("refused").map(drop),
            database.checkpoint().map(|_| ()),
            database.flush().map(drop),
            database.tables().bulk_load("refused").map(drop),
        ];
        for (number, answer) in answers.into_iter().enumerate() {
            if !matches!(answer, Err(Error::Stopped { .. })) {
                return Err(format!("once stopped, write {number} is answered with {answer:?}"));
            }
        }
        match found.compare_content(database) {
            // It was in the cache before.
            Err(difference) if self.is_of_a_lost_page(&difference) => Ok(()),
            other => other.map_err(|difference| format!("after refused writes: {difference}")),
        }
    }

    /// Whether a page is refused that a failed sync may have lost.
    fn is_of_a_lost_page(&self, difference: &Difference) -> bool {
        matches!(difference, Difference::Error(Error::Tree { .. })) && self.causes.may_have_lost_pages()
    }

    // ---- ending ----------------------------------------------------------------------------------------------

    fn end(&mut self, database: Database, is_stopped: bool) -> Result<(), String> {
        let end = match self.random.below(4) {
            0 => {
                self.kill(database, is_stopped);
                "fault: bit rot after a kill"
            }
            1 => {
                self.lose_power(database);
                "fault: bit rot after a power loss"
            }
            _ if is_stopped => {
                self.close_stopped(database)?;
                "fault: bit rot once stopped"
            }
            _ if self.close(database)? => "fault: bit rot after a close",
            // It could not: a fault was in the way.
            _ => return Ok(()),
        };
        match self.random.below(4) {
            0 | 1 => self.rot(end),
            2 => self.lose_writes(),
            _ => Ok(()),
        }
    }

    /// Nothing that was handed to the disk is gone when a process is.
    fn kill(&mut self, database: Database, is_stopped: bool) {
        self.tell(|| "the process is killed".to_owned());
        self.count("kills");
        if !is_stopped {
            self.account.all_survive();
        }
        let left = self.disk.copy();
        self.leave(database, left);
    }

    fn lose_power(&mut self, database: Database) {
        let outcome = match self.random.below(3) {
            0 => PowerLoss::LoseAll,
            _ => PowerLoss::Random(self.random.next_u64()),
        };
        self.tell(|| format!("the power goes: {outcome:?}"));
        self.count("power losses");
        let left = self.disk.after_power_loss(outcome);
        self.leave(database, left);
    }

    fn leave(&mut self, database: Database, left: SimulatedDisk) {
        self.disk.crash();
        drop(database);
        self.count_struck();
        self.disk = left;
        self.end_troubles();
    }

    fn close_stopped(&mut self, database: Database) -> Result<(), String> {
        self.tell(|| "close".to_owned());
        match database.close() {
            Err(Error::Stopped { .. }) => self.count("closes of databases that had stopped"),
            other => return Err(format!("closing a database that has stopped gives {other:?}")),
        }
        self.end_troubles();
        Ok(())
    }

    /// Whether nothing was in the way.
    fn close(&mut self, database: Database) -> Result<bool, String> {
        self.tell(|| "close".to_owned());
        self.begin_step();
        if let Err(error) = database.close() {
            self.refused("close", &error)?;
            return Ok(false);
        }
        self.account.all_in_the_tree();
        self.count("closes");
        self.end_troubles();
        if self.random.chance(1, 3) {
            self.count_struck();
            self.disk = self.disk.after_power_loss(PowerLoss::LoseAll);
        }
        Ok(true)
    }

    /// On copies: the database itself goes on as it was.
    fn rot(&mut self, when: &'static str) -> Result<(), String> {
        let expected = self.expected();
        let clock = self.clock.clone();
        let environment = |disk: &SimulatedDisk| environment(disk, &clock);
        let left = rot::on_the_disk(&self.disk, environment, &self.options, &expected)?;
        for _ in 0..3 {
            let (options, random) = (&self.without_threads(), &mut self.random);
            let verdict = rot::flip_and_look(&left, environment, options, &expected, random)
                .map_err(|what| format!("{when}: {what}"))?;
            self.count(when);
            self.count(match verdict {
                Verdict::Harmless => "bit rot that means nothing",
                Verdict::Survived => "bit rot told by check and made good",
                Verdict::Torn => "bit rot that tears the end of the log",
                Verdict::Refused => "bit rot told by check and refused",
            });
        }
        Ok(())
    }

    fn without_threads(&self) -> Options {
        Options { background: Background::Manual, ..self.options.clone() }
    }

    fn expected(&self) -> Expected {
        Expected {
            whole: self.account.candidates().cloned().collect(),
            torn: self.account.without_last_flush().cloned().collect(),
        }
    }

    /// On a copy, too.
    fn lose_writes(&mut self) -> Result<(), String> {
        let expected = self.expected();
        let clock = self.clock.clone();
        let environment = |disk: &SimulatedDisk| environment(disk, &clock);
        let left = rot::on_the_disk(&self.disk, environment, &self.options, &expected)?;
        let (options, random) = (&self.without_threads(), &mut self.random);
        let (struck, verdict) =
            lost::live_and_look(&left, environment, options, &expected.whole, self.steps, random)
                .map_err(|what| format!("with writes of pages lost: {what}"))?;
        for (call, count) in struck {
            *self.counts.entry(fault::name(call.operation, call.error)).or_default() += count;
        }
        self.count(match verdict {
            Verdict::Harmless => "lost writes that mean nothing",
            Verdict::Survived | Verdict::Torn => "lost writes told by check, with every row there",
            Verdict::Refused => "lost writes told by check and refused",
        });
        Ok(())
    }

    // ---- looking ---------------------------------------------------------------------------------------------

    fn compare(&mut self, database: &Database) -> Result<(), String> {
        self.begin_step();
        match self.account.current().compare_content(database) {
            Ok(()) => Ok(()),
            Err(Difference::Error(error)) => {
                self.refused("reading everything", &error)?;
                self.end_troubles();
                let again = self.account.current().compare_content(database);
                again.map_err(|difference| format!("reading again: {difference}"))
            }
            Err(difference) => Err(difference.to_string()),
        }
    }

    fn check(&mut self, database: &Database) -> Result<(), String> {
        self.count("checks");
        self.compare(database)?;
        let mut damages = Vec::new();
        let checked = database.check(&mut |damage| damages.push(damage.to_string()));
        checked.map_err(|error| format!("`check` fails: {error}"))?;
        if damages.is_empty() { Ok(()) } else { Err(format!("`check` finds {}", damages.join("; "))) }
    }

    /// An error that nothing on this disk can have caused, since the step began, is a finding.
    fn refused(&mut self, step: &str, error: &Error) -> Result<(), String> {
        self.tell(|| format!("  refused: {error}"));
        self.count_struck();
        if self.causes.explain(error, self.is_full) {
            return Ok(());
        }
        Err(format!("{step} fails with {error:?}, where {:?} has struck", self.causes))
    }

    // ---- faults ----------------------------------------------------------------------------------------------

    fn begin_trouble(&mut self) {
        let trouble = Trouble::draw(&mut self.random, self.swallow);
        trouble.begin(&self.disk, &self.clock);
        if matches!(trouble, Trouble::Full { .. }) {
            self.is_full = true;
        }
        if let Some(name) = trouble.name() {
            self.count(name);
        }
        self.tell(|| format!("{trouble:?}"));
    }

    fn end_troubles(&mut self) {
        fault::end_all(&self.disk);
        if std::mem::take(&mut self.is_full) {
            self.causes.disk_has_room_again();
        }
    }

    // ---- accounts --------------------------------------------------------------------------------------------

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// What strikes from now on may be why the next one fails.
    fn begin_step(&mut self) {
        self.count_struck();
        self.causes.step_begins();
    }

    /// Before the disk goes.
    fn count_struck(&mut self) {
        for (call, count) in self.disk.take_faults_struck() {
            self.causes.note(&call);
            *self.counts.entry(fault::name(call.operation, call.error)).or_default() += count;
        }
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.told.len() == TOLD_MAX {
            self.told.pop_front();
        }
        self.told.push_back(what());
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Run").field("seed", &self.seed).field("steps", &self.steps).finish()
    }
}

fn environment(disk: &SimulatedDisk, clock: &SimulatedClock) -> Environment {
    Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(clock.clone()),
        random: Arc::new(SimulatedRandom::new(1)),
    }
}

fn draw_options(random: &mut SeededRandom) -> Options {
    let mut options = Options::default();
    options.format.page_bytes = *random.pick(&[4096, 8192]);
    options.format.segment_bytes = 64 << 10;
    options.memory.memtable_bytes = *random.pick(&[128 << 10, 512 << 10]);
    options.memory.cache_bytes = *random.pick(&[64 << 10, 1 << 20]);
    options.checkpoint.log_bytes = *random.pick(&[64 << 10, 400 << 10]);
    options.checkpoint.chunk_bytes = *random.pick(&[24 << 10, 256 << 10, 4 << 20]);
    options.checkpoint.threads = *random.pick(&[1, 1, 2, 3]);
    options.recovery.threads = 1;
    options.log.spare_segments = *random.pick(&[1, 2]);
    options.checkpoint.page_protection =
        *random.pick(&[PageProtection::RecoveryFile, PageProtection::LogImages]);
    options.checkpoint.page_image_compression =
        *random.pick(&[ImageCompression::None, ImageCompression::Lz4]);
    options.memory.transaction_bytes = 512 << 10;
    options.transaction.lock_wait = LockWait::NoWait;
    options.background =
        *random.pick(&[Background::Manual, Background::Manual, Background::Manual, Background::Threads]);
    options.master_key = random.chance(1, 4).then(|| MasterKey::Bytes(SecretKey::from_bytes([7; 32])));
    options.checkpoint.runs = draw_runs(random);
    options
}
