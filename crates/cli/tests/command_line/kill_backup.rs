//! `backup` and `restore` that are killed, or meet a full disk, at any moment: what the next command of the same kind makes of it is a state
//! that the database had, and the repository is whole.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use seawall_io::{Clock, SystemClock};
use seawall_simulation::{SeededRandom, seeds};

use crate::support::{SEAWALL, Scratch};

type Rows = BTreeMap<String, String>;

/// Databases, each with a seed of its own.
const DATABASES: u64 = 2;
const ROUNDS: usize = 3;
/// Kills of one command before it is let through.
const KILLS: usize = 3;

/// What a command was killed, or let, to make.
struct History {
    scratch: Scratch,
    random: SeededRandom,
    /// What the table was after each commit.
    states: Vec<Rows>,
    /// How long a command takes that nobody kills, by its name.
    durations: BTreeMap<&'static str, Duration>,
    /// How often a command was killed before its end, by its name.
    killed: BTreeMap<&'static str, u32>,
}

impl History {
    fn new(seed: u64) -> History {
        let scratch = Scratch::new();
        scratch.ok(["init", "db", "--segment-mib", "1"]);
        scratch.ok(["create", "db", "t"]);
        scratch.ok(["repo", "create", "repo"]);
        let states = vec![Rows::new()];
        let (durations, killed) = (BTreeMap::new(), BTreeMap::new());
        History { scratch, random: SeededRandom::new(seed), states, durations, killed }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// One durable transaction of some hundred rows, new and old.
    fn commit(&mut self) {
        let mut rows = self.states.last().unwrap().clone();
        let number = self.states.len();
        let mut file = String::new();
        for _ in 0..100 + self.below(400) {
            let (key, length) = (format!("{:05}", self.below(3_000)), 20 + self.below(300));
            let value = format!("{number}:{}", "v".repeat(usize::try_from(length).unwrap()));
            file += &format!("{key},{value}\n");
            rows.insert(key, value);
        }
        self.scratch.write("rows.csv", file.as_bytes());
        self.scratch.ok(["load", "db", "t", "rows.csv", "--no-header"]);
        self.states.push(rows);
    }

    /// Runs a command to its end, or kills it at a random moment of the time that it takes; whether it ended well.
    fn run_or_kill(&mut self, name: &'static str, arguments: &[&str]) -> bool {
        let usual = *self.durations.get(name).unwrap_or(&Duration::from_millis(200));
        let moment = usual.mul_f64(f64::from(u32::try_from(self.below(1_100)).unwrap()) / 1_000.0);
        let mut command = self.scratch.command(arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Not to wait for anything: the kill is to come in the middle of whatever the command is doing then.
        std::thread::sleep(moment);
        // It may have ended.
        child.kill().ok();
        let status = child.wait().unwrap();
        assert!(status.success() || status.code().is_none(), "{arguments:?}: {status}");
        *self.killed.entry(name).or_default() += u32::from(!status.success());
        status.success()
    }

    fn run_to_end(&mut self, name: &'static str, arguments: &[&str]) {
        let start = SystemClock.monotonic();
        self.scratch.ok(arguments);
        self.durations.insert(name, SystemClock.monotonic().saturating_sub(start));
    }

    /// The state that `directory` has, as its number; one since `oldest`.
    fn state_in(&self, directory: &str, oldest: usize) -> usize {
        assert!(self.scratch.ok(["check", directory]).contains("no damage"));
        let shown = self.scratch.ok(["scan", directory, "t"]);
        let row = |line: &str| {
            line.split_once('\t').map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap()
        };
        let found: Rows = shown.lines().map(row).collect();
        let state = self.states.iter().rposition(|state| *state == found);
        let state = state
            .unwrap_or_else(|| panic!("{directory} has {} rows of no state that there was", found.len()));
        assert!(state >= oldest, "{directory} has state {state}, before {oldest}, which was backed up");
        state
    }

    fn backups(&self) -> usize {
        self.scratch.ok(["backup", "list", "repo"]).lines().count()
    }

    /// Restores, killed again and again and resumed by the same command; the state then.
    fn restore(&mut self, directory: &str, oldest: usize) -> usize {
        let arguments = ["restore", directory, "--repository", "repo"];
        // One that is killed at its very end is complete.
        let is_done = (0..self.below(KILLS as u64 + 1)).any(|_| {
            self.run_or_kill("restore", &arguments) || self.scratch.run(["check", directory]).status.success()
        });
        if !is_done {
            self.run_to_end("restore", &arguments);
        }
        self.state_in(directory, oldest)
    }

    fn verify(&self) {
        self.scratch.ok(["verify", "--repository", "repo", "--full", "--settle", "0s"]);
    }
}

#[test]
fn a_killed_backup_or_restore_loses_nothing_and_shows_nothing_that_never_was() {
    let mut killed: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in seeds(DATABASES) {
        println!("seed {seed}");
        let mut history = History::new(seed);
        let mut backed_up = 0;
        for round in 0..ROUNDS {
            (0..=history.below(2)).for_each(|_| history.commit());
            let mut backup = vec!["backup", "db", "--repository", "repo"];
            if history.below(2) == 0 {
                backup.push("--incremental");
            }
            for _ in 0..history.below(KILLS as u64 + 1) {
                let before = history.backups();
                let is_done = history.run_or_kill("backup", &backup);
                // Killed after its manifest was there, it is a backup like any other.
                let is_there = history.backups() > before;
                assert!(is_there || !is_done, "seed {seed}: it ended with 0 and is not listed");
                if is_there {
                    backed_up = history.states.len() - 1;
                }
                history.verify();
                if history.below(2) == 0 {
                    history.commit();
                }
            }
            if round > 0 {
                // Of a backup that was cut short, its log may be there.
                history.restore(&format!("early-{round}"), backed_up);
            }
            history.run_to_end("backup", &backup);
            backed_up = history.states.len() - 1;
            history.verify();
            let restored = history.restore(&format!("restored-{round}"), backed_up);
            assert_eq!(restored, backed_up, "seed {seed}: all that was committed before the backup is there");
        }
        history.killed.into_iter().for_each(|(name, kills)| *killed.entry(name).or_default() += kills);
    }
    println!("killed: {killed:?}");
    assert!(
        killed.values().all(|kills| *kills > 0) && killed.len() == 2,
        "{killed:?} were killed before their end"
    );
}

/// Text that no page compression makes smaller.
fn random_text(random: &mut SeededRandom, bytes: usize) -> String {
    const SIGNS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let sign = |_| char::from(SIGNS[usize::try_from(random.below(64)).unwrap()]);
    (0..bytes).map(sign).collect()
}

/// Runs a command whose files may grow to so many MiB; its exit code and messages.
fn with_files_up_to(scratch: &Scratch, mib: u64, arguments: &[&str]) -> (Option<i32>, String) {
    let mut limited = Command::new("prlimit");
    limited.arg(format!("--fsize={}", mib << 20)).arg(SEAWALL).args(arguments);
    let output = limited.current_dir(scratch.path("")).stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A file that may not grow is what a full disk is to the command that writes it.
#[test]
fn a_backup_or_restore_on_a_full_disk_resumes_when_there_is_room() {
    let scratch = Scratch::new();
    scratch.ok(["init", "db", "--segment-mib", "1"]);
    scratch.ok(["repo", "create", "repo"]);
    let mut random = SeededRandom::new(1);
    let rows: String =
        (0..24).map(|number| format!("{number:02},{}\n", random_text(&mut random, 1 << 20))).collect();
    scratch.write("rows.csv", rows.as_bytes());
    scratch.ok(["load", "db", "t", "rows.csv", "--no-header"]);
    scratch.ok(["checkpoint", "db"]);
    let expected = scratch.ok_bytes(["dump", "db", "t"]);

    let backup = ["backup", "db", "--repository", "repo"];
    let restore = ["restore", "copy", "--repository", "repo"];
    let full = |arguments: &[&str]| {
        let mut refused = 0;
        // More than the fixed files of a database, less than those that grow with its rows.
        for mib in [9, 10, 12, 14, 16] {
            let (code, messages) = with_files_up_to(&scratch, mib, arguments);
            if code == Some(0) {
                continue;
            }
            assert_eq!(code, Some(8), "{arguments:?} with {mib} MiB: {messages}");
            assert!(messages.contains("full") || messages.contains("too large"), "{messages}");
            refused += 1;
        }
        refused
    };
    let refused_backups = full(&backup);
    scratch.ok(["verify", "--repository", "repo", "--full"]);
    assert!(scratch.ok(["check", "db"]).contains("no damage"));
    scratch.ok(backup);
    scratch.ok(["verify", "--repository", "repo", "--full"]);
    let refused_restores = full(&restore);
    assert!(scratch.fails(1, ["tables", "copy"]).contains("run it again"), "it is not whole yet");
    scratch.ok(restore);
    assert!(scratch.ok_bytes(["dump", "copy", "t"]) == expected, "it is another table");
    println!("refused: {refused_backups} backups, {refused_restores} restores");
    assert!(refused_restores > 0, "no restore met the limit");
}
