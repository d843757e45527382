//! One database from its beginning through its lives: mount, write, cut, recover, compare, again.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use seawall_io::{Disk, OpenMode, OsDisk};
use seawall_mounted_disk::{Lie, MountedDisk};
use seawall_simulation::{SeededRandom, SimulatedDisk};
use tempfile::{NamedTempFile, TempDir};

use super::acknowledged::{Acknowledged, Cut, Found, LOADER, Line};
use super::load;
use super::plan::{End, IN_FLIGHT_MAX, Life, Plan, Program, Settings};
use super::process::{Event, Outcome, Process};
use super::reader;
use crate::error::{TortureError, io_error};
use crate::finding::{Report, keep_files};

/// A process that says nothing for so many seconds has stopped for good. Nothing waits for this in a run that goes well.
/// Each is waited for by itself: when the machine, or this process, is suspended, one of them passes and not all.
const SILENT_SECONDS_MAX: u32 = 60;
/// The database's directory on the mounted disk: not its root, so that its own name can be lost, too.
const DATABASE: &str = "data/db";
/// How many commits a thread may have under way that it was not told of: those in flight, and one that it is at.
const UNACKNOWLEDGED_MAX: u64 = IN_FLIGHT_MAX as u64 + 1;

/// Why a run ended early.
pub(super) enum Stop {
    /// A promise is broken.
    Found {
        what: String,
        evidence: Option<PathBuf>,
    },
    Failed(TortureError),
}

impl<E: Into<TortureError>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Failed(error.into())
    }
}

/// How a process came to its end.
enum Ended {
    ByItself(Outcome),
    Killed,
    PowerLost,
}

pub(super) struct Run<'a> {
    plan: Plan,
    lie: Lie,
    report: &'a mut Report,
    mount_point: TempDir,
    disk: SimulatedDisk,
    mounted: Option<MountedDisk>,
    events: (Sender<Event>, Receiver<Event>),
    acknowledged: Acknowledged,
    /// The same of the loader.
    loaded: Acknowledged,
    rows_file: NamedTempFile,
    /// What may be missing at the next look.
    cut: Cut,
}

impl Run<'_> {
    /// Mounts an empty disk.
    pub(super) fn new(plan: Plan, lie: Lie, report: &mut Report) -> Result<Run<'_>, TortureError> {
        let mount_point = tempfile::Builder::new()
            .prefix("seawall-torture-")
            .tempdir()
            .map_err(io_error("make a directory to mount on"))?;
        let rows_file = NamedTempFile::new().map_err(io_error("make a file of rows"))?;
        load::write_file(rows_file.path())?;
        let disk = SimulatedDisk::new(plan.seed);
        let mut run = Run {
            plan,
            lie,
            report,
            mount_point,
            disk,
            mounted: None,
            events: channel(),
            acknowledged: Acknowledged::default(),
            loaded: Acknowledged::default(),
            rows_file,
            cut: Cut::Kill,
        };
        run.mount()?;
        Ok(run)
    }

    pub(super) fn run(&mut self) -> Result<(), Stop> {
        for life in self.plan.lives.clone() {
            self.live(&life)?;
            for &calls in &life.recoveries_cut_at {
                self.recover_and_cut(&life.settings, calls)?;
            }
            self.recover(&life.settings)?;
            self.check(&life.settings)?;
            self.look_at_loaded(&life.settings)?;
            self.report.count("lives", 1);
        }
        Ok(())
    }

    // ---- the disk --------------------------------------------------------------------------------------------

    fn mount(&mut self) -> Result<(), TortureError> {
        let events = self.events.0.clone();
        let tell = move || {
            if events.send(Event::PowerLost).is_err() {
                // The run is over.
            }
        };
        self.mounted = Some(MountedDisk::new(self.disk.clone(), self.mount_point.path(), self.lie, tell)?);
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), TortureError> {
        if let Some(mounted) = self.mounted.take() {
            let requests = mounted.unmount().map_err(io_error("unmount the disk"))?;
            requests.into_iter().for_each(|(what, count)| self.report.count(what, count));
        }
        Ok(())
    }

    /// The power goes, if it has not gone yet, and comes back. All processes have ended: whatever they left in the
    /// kernel's cache finds no disk any more.
    fn lose_power(&mut self) -> Result<(), TortureError> {
        self.disk.crash();
        self.unmount()?;
        // What the kernel has still tried told nobody anything new.
        while self.events.1.try_recv().is_ok() {}
        self.report.count("disk calls", self.disk.calls());
        self.disk = self.disk.after_power_loss(self.plan.power_loss());
        self.cut = Cut::PowerLoss;
        self.report.count("power losses", 1);
        self.mount()
    }

    // ---- processes -------------------------------------------------------------------------------------------

    fn live(&mut self, life: &Life) -> Result<(), Stop> {
        let acknowledgements = match life.end {
            End::PowerLoss { calls } => {
                self.disk.crash_at(self.disk.calls() + calls);
                u64::MAX
            }
            End::Kill { acknowledgements } | End::KillAndPowerLoss { acknowledgements } => acknowledgements,
        };
        let ended = self.run_program(life, acknowledgements)?;
        match (ended, life.end) {
            (Ended::ByItself(outcome), _) if !outcome.status.success() => Err(self
                .found(format!("{:?} failed with {}: {}", life.program, outcome.status, outcome.messages))),
            (Ended::Killed, End::Kill { .. }) => {
                self.cut = Cut::Kill;
                self.report.count("kills", 1);
                Ok(())
            }
            // A writer that came to its end has closed the database: that is durable, too.
            (Ended::ByItself(_) | Ended::Killed | Ended::PowerLost, _) => Ok(self.lose_power()?),
        }
    }

    /// Until it ends, is killed after so many lines, or finds the power gone.
    fn run_program(&mut self, life: &Life, lines_max: u64) -> Result<Ended, Stop> {
        let mut process = self.start_program(life)?;
        let mut random = SeededRandom::new(life.settings.seed);
        let mut left = lines_max;
        let mut ended = None;
        loop {
            match self.next_event()? {
                Event::Ended => break,
                Event::PowerLost => {
                    process.kill()?;
                    ended = Some(Ended::PowerLost);
                }
                Event::Line(line) => {
                    self.record(life.program, &line);
                    left = left.saturating_sub(1);
                    if left == 0 && ended.is_none() {
                        process.kill()?;
                        ended = Some(Ended::Killed);
                    } else if random.chance(1, 8) {
                        self.write_back_mappings();
                    }
                }
            }
        }
        let outcome = process.outcome()?;
        // A process that found the power gone by itself may be faster than the one that kills it.
        let ended = if self.disk.crashed() { Some(Ended::PowerLost) } else { ended };
        Ok(ended.unwrap_or(Ended::ByItself(outcome)))
    }

    fn start_program(&mut self, life: &Life) -> Result<Process, TortureError> {
        match life.program {
            Program::Writer => {
                self.acknowledged.begin(life.settings.life, UNACKNOWLEDGED_MAX);
                self.start("writer", &life.settings)
            }
            Program::Load => {
                self.loaded.begin(life.settings.life, load::BATCH);
                let arguments = load::load_arguments(self.rows_file.path(), self.loaded.committed(LOADER));
                self.start_seawall(&life.settings, "load", arguments)
            }
        }
    }

    fn record(&mut self, program: Program, line: &str) {
        let (acknowledged, line, what) = match program {
            Program::Writer => (&mut self.acknowledged, Line::decode(line), "transactions"),
            Program::Load => (&mut self.loaded, load::decode(line), "batches loaded"),
        };
        // The last line may be cut, and a flush is no transaction.
        if let Some(line) = line {
            let is_commit = program == Program::Load || matches!(line, Line::Committed { .. });
            self.report.count(what, u64::from(is_commit));
            self.report.count("prepares", u64::from(matches!(line, Line::Prepared { .. })));
            acknowledged.record(line);
        }
    }

    /// Has the kernel write pages of mapped files back, as it does when it likes: each becomes a version that a power
    /// loss may leave. Asked from outside, since the cache is the same for all.
    fn write_back_mappings(&self) {
        let disk = OsDisk::new(self.mount_point.path().join(DATABASE));
        for path in ["log/pending.1", "log/pending.2"] {
            // Missing at first, and without power.
            if let Ok(file) = disk.open(path, OpenMode::Write)
                && let Ok(bytes) = file.length()
            {
                file.start_writing(0, bytes);
            }
        }
    }

    /// A recovery that the power cuts short, unless it is faster.
    fn recover_and_cut(&mut self, settings: &Settings, calls: u64) -> Result<(), Stop> {
        self.disk.crash_at(self.disk.calls() + calls);
        self.look(settings)?;
        if self.disk.crashed() {
            self.report.count("recoveries cut short", 1);
        }
        Ok(self.lose_power()?)
    }

    /// A recovery to its end.
    fn recover(&mut self, settings: &Settings) -> Result<(), Stop> {
        // A plan for the power that was not reached is void.
        self.disk.crash_at(u64::MAX);
        self.look(settings)
    }

    /// Runs a reader, and compares if it gets to its end.
    fn look(&mut self, settings: &Settings) -> Result<(), Stop> {
        let process = self.start("reader", settings)?;
        let (outcome, lines) = self.run_command(process)?;
        if !outcome.status.success() && !self.disk.crashed() {
            return Err(
                self.found(format!("the recovery failed with {}: {}", outcome.status, outcome.messages))
            );
        }
        match reader::interpret(&lines) {
            Err(wrong) => Err(self.found(wrong)),
            Ok(None) if self.disk.crashed() => Ok(()),
            Ok(None) => Err(self.found(format!("the reader ended early: {lines:?}"))),
            Ok(Some(found)) => self.compare(found),
        }
    }

    fn compare(&mut self, found: Found) -> Result<(), Stop> {
        if let Some(difference) = self.acknowledged.difference(&found, self.cut) {
            return Err(self.found(difference));
        }
        self.report.count("transactions found in doubt", found.in_doubt.len() as u64);
        self.report.count("transactions that the power took", self.acknowledged.lost(&found));
        self.acknowledged.settle(found);
        Ok(())
    }

    /// `seawall check`, as an operator runs it.
    fn check(&mut self, settings: &Settings) -> Result<(), Stop> {
        let process = self.start_seawall(settings, "check", Vec::new())?;
        let (outcome, lines) = self.run_command(process)?;
        if outcome.status.success() {
            return Ok(());
        }
        let said = format!("{} {}", lines.join("; "), outcome.messages);
        Err(self.found(format!("`seawall check` ended with {}: {said}", outcome.status)))
    }

    /// `seawall scan`, as well.
    fn look_at_loaded(&mut self, settings: &Settings) -> Result<(), Stop> {
        let process = self.start_seawall(settings, "scan", load::scan_arguments())?;
        let (outcome, lines) = self.run_command(process)?;
        let rows = load::interpret(outcome.status.code(), &lines, &outcome.messages);
        let found = Found::counted(LOADER, rows.map_err(|wrong| self.found(wrong))?);
        match self.loaded.difference(&found, self.cut) {
            Some(difference) => Err(self.found(format!("`seawall load`, counted in rows: {difference}"))),
            None => {
                self.loaded.settle(found);
                Ok(())
            }
        }
    }

    /// Lets a process come to its end by itself; what it said.
    fn run_command(&mut self, mut process: Process) -> Result<(Outcome, Vec<String>), Stop> {
        let mut lines = Vec::new();
        loop {
            match self.next_event()? {
                Event::Ended => return Ok((process.outcome()?, lines)),
                Event::Line(line) => lines.push(line),
                Event::PowerLost => process.kill()?,
            }
        }
    }

    /// The `seawall` command, on the mounted database.
    fn start_seawall(
        &self,
        settings: &Settings,
        command: &str,
        arguments: Vec<OsString>,
    ) -> Result<Process, TortureError> {
        // The sub-command of this program, and then the name of that one.
        let mut all: Vec<OsString> = vec!["seawall".into(), "seawall".into()];
        all.extend(settings.command_line());
        all.extend([command.into(), self.directory().into_os_string()]);
        all.extend(arguments);
        Process::start(all, self.events.0.clone())
    }

    fn start(&self, command: &str, settings: &Settings) -> Result<Process, TortureError> {
        let settings = serde_json::to_string(settings)?;
        let directory = self.directory();
        let arguments = [command.as_ref(), directory.as_os_str(), settings.as_ref()];
        Process::start(arguments, self.events.0.clone())
    }

    fn directory(&self) -> PathBuf {
        self.mount_point.path().join(DATABASE)
    }

    fn next_event(&mut self) -> Result<Event, Stop> {
        for _ in 0..SILENT_SECONDS_MAX {
            match self.events.1.recv_timeout(Duration::from_secs(1)) {
                Ok(event) => return Ok(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the run itself has a sender"),
            }
        }
        Err(self.found(format!("a process has said nothing for {SILENT_SECONDS_MAX} s")))
    }

    // ---- findings --------------------------------------------------------------------------------------------

    fn found(&self, what: String) -> Stop {
        // Without the files the finding still counts.
        let evidence = keep_files(&self.disk, self.plan.seed).inspect_err(|error| eprintln!("{error}")).ok();
        Stop::Found { what, evidence }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("{error}: {}", self.mount_point.path().display());
        }
    }
}
