//! Histories of a database of several lives, each ended in a random call by a power loss or a kill; and where it was hit.
//!
//! ```text
//!   Cell: page protection, compression
//!     history of a seed:  life --power lost--> life --killed--> life --power lost--> ...  --> open, check, go on
//!                         each as the cell says, or with the images in the other place
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use seawall::{Background, ImageCompression, Options, PageProtection};
use seawall_crash_harness::progress::Progress;
use seawall_crash_harness::recover::{find_state, recover};
use seawall_crash_harness::session::{Session, Step};
use seawall_crash_harness::state::State;
use seawall_crash_harness::{
    Cell, draw_runs, master_key, other_place, plan, slow_down_pages, small_options, try_open, without_threads,
};
use seawall_simulation::{Call, Operation, PowerLoss, SeededRandom, SimulatedDisk};

use crate::finding::Report;

/// What the call did in which the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Wrote images of a chunk: into a region of the recovery file or as records into the log.
    Images,
    /// Wrote or synced what commits a chunk, the headers of the recovery file.
    Commit,
    /// Wrote, synced or cut the page file.
    Pages,
    /// Wrote or synced the superblock.
    Superblock,
    /// Wrote other records, or made segments.
    Log,
    /// Anything else.
    Other,
}

impl Target {
    /// Every one.
    pub const ALL: [Target; 6] =
        [Target::Images, Target::Commit, Target::Pages, Target::Superblock, Target::Log, Target::Other];

    /// Of each of `calls`, made by one step, or by opening.
    fn of_all(calls: &[Call], step: Option<&Step>, protection: PageProtection) -> Vec<Target> {
        (0..calls.len()).map(|index| Target::of(&calls[index], &calls[..index], step, protection)).collect()
    }

    fn of(call: &Call, before: &[Call], step: Option<&Step>, protection: PageProtection) -> Target {
        /// Where the recovery file's headers end.
        const IMAGES_AT: u64 = 12_288;
        let merges = matches!(step, Some(Step::Checkpoint | Step::Reopen));
        match call.path.split('/').next().unwrap_or_default() {
            "recovery" if call.range.as_ref().is_some_and(|range| range.start >= IMAGES_AT) => Target::Images,
            "recovery" => Target::Commit,
            "pages" => Target::Pages,
            "superblock" => Target::Superblock,
            // A checkpoint flushes first of all; what it appends between two calls for the page file are images.
            "log" if merges && protection == PageProtection::LogImages && follows_pages(call, before) => {
                Target::Images
            }
            "log" => Target::Log,
            _ => Target::Other,
        }
    }
}

fn follows_pages(call: &Call, before: &[Call]) -> bool {
    let other = before.iter().rev().find(|call| !call.path.starts_with("log/"));
    call.operation == Operation::WriteDurable && other.is_some_and(|call| &*call.path == "pages")
}

/// What the histories of a cell met.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many were run to their end.
    pub histories: u64,
    /// How many of these were of encrypted databases.
    pub encrypted: u64,
    /// Lives ended by a power loss.
    pub power_losses: u64,
    /// Lives ended by a kill, which leaves what was written in the system's cache.
    pub kills: u64,
    /// Lives with the images in the other place than the one before.
    pub changed_over: u64,
    /// Lives that ended before they had recovered from the end of the one before.
    pub in_recovery: u64,
    /// Lives that ended between two calls.
    pub between_calls: u64,
    /// Lives with several threads for checkpoints, on a disk that takes its time.
    pub with_checkpoint_threads: u64,
    /// Lives with threads of the database's own.
    pub with_background: u64,
    /// The calls in which lives ended that kept the images where the cell says.
    pub calls: BTreeMap<Target, u64>,
    /// The other lives, by the same.
    pub other_calls: BTreeMap<Target, u64>,
}

impl Tally {
    /// Lives as the cell says that ended in such a call.
    pub fn hits(&self, target: Target) -> u64 {
        self.calls.get(&target).copied().unwrap_or(0)
    }

    /// Adds it all to what a torture counts.
    pub(super) fn count_into(&self, report: &mut Report) {
        report.count("histories", self.histories);
        report.count("power losses", self.power_losses);
        report.count("kills", self.kills);
        report.count("lives with the images in the other place than before", self.changed_over);
        report.count("lives that ended in a recovery", self.in_recovery);
        report.count("lives that ended between two calls", self.between_calls);
        report.count("lives with several checkpoint threads", self.with_checkpoint_threads);
        report.count("lives with background threads", self.with_background);
        for (target, count) in self.calls.iter().chain(&self.other_calls) {
            report.count(format!("lives that ended in a call for: {target:?}").to_lowercase(), *count);
        }
    }
}

/// Runs the history of `seed`.
///
/// # Errors
/// What is lost or wrong.
pub fn run_history(cell: Cell, seed: u64, tally: &mut Tally) -> Result<(), String> {
    // Each cell has histories of its own.
    let mut random = SeededRandom::new(seed << 4 | cell.number());
    let options = random_options(cell, &mut random);
    let mut disk = SimulatedDisk::new(seed);
    let mut may_be = MayBe::only(Arc::default());
    let mut place = None;
    for life in 0..random.range(2..6) {
        // Each process may have been told something else.
        let options = if random.chance(1, 3) {
            let page_image_compression = *random.pick(&ImageCompression::ALL);
            let mut options = other_place(&options);
            options.checkpoint.page_image_compression = page_image_compression;
            options
        } else {
            options.clone()
        };
        // Of all these processes; a disk that takes no time would hide a write that does not wait for another.
        let options = Options { background: *random.pick(&BACKGROUNDS), ..options };
        if options.checkpoint.threads > 1 {
            slow_down_pages(&disk, *random.pick(&[Operation::Sync, Operation::Write]));
        }
        let before = place.replace(options.checkpoint.page_protection);
        tally.changed_over +=
            u64::from(before.is_some_and(|before| before != options.checkpoint.page_protection));
        tally.with_checkpoint_threads += u64::from(options.checkpoint.threads > 1);
        tally.with_background += u64::from(options.background == Background::Threads);
        let mut work = random.fork();
        disk.crash_at(crash_call(&disk, &may_be, &options, &work, &mut random));
        let ended =
            live(&disk, &may_be, &options, &mut work).map_err(|reason| format!("life {life}: {reason}"))?;
        tally.in_recovery += u64::from(life > 0 && ended.opening);
        let is_own = options.checkpoint.page_protection == cell.protection;
        let calls = if is_own { &mut tally.calls } else { &mut tally.other_calls };
        match ended.calls.last().filter(|_| ended.in_call) {
            Some(target) => *calls.entry(*target).or_default() += 1,
            None => tally.between_calls += 1,
        }
        if random.chance(1, 4) {
            tally.kills += 1;
            (disk, may_be) = (disk.copy(), ended.may_be.after_kill());
        } else {
            tally.power_losses += 1;
            let outcome = match random.below(6) {
                0 => PowerLoss::LoseAll,
                1 => PowerLoss::KeepAll,
                _ => PowerLoss::Random(random.next_u64()),
            };
            (disk, may_be) = (disk.after_power_loss(outcome), ended.may_be.after_power_loss());
        }
    }
    let last = if random.chance(1, 2) { other_place(&options) } else { options.clone() };
    recover(&disk, &may_be.now, &without_threads(&last)).map_err(|reason| format!("at the end: {reason}"))?;
    tally.histories += 1;
    tally.encrypted += u64::from(options.master_key.is_some());
    Ok(())
}

/// In which call of the life that does `work` the power goes: any, one of the first, which recover, or one that does
/// something for a chunk, which is found by living that life on a copy.
fn crash_call(
    disk: &SimulatedDisk,
    may_be: &MayBe,
    options: &Options,
    work: &SeededRandom,
    random: &mut SeededRandom,
) -> u64 {
    const CALLS: u64 = 300;
    match random.below(4) {
        0 => random.range(0..CALLS),
        1 => random.range(0..40),
        _ => {
            let copy = disk.copy();
            copy.crash_at(CALLS);
            // A failure shows in the life itself, too.
            let calls =
                live(&copy, may_be, options, &mut work.clone()).map_or(Vec::new(), |ended| ended.calls);
            let wanted = *random.pick(&[Target::Images, Target::Images, Target::Commit, Target::Pages]);
            let found: Vec<u64> =
                (0..).zip(&calls).filter(|(_, target)| **target == wanted).map(|(index, _)| index).collect();
            if found.is_empty() { random.range(0..CALLS) } else { *random.pick(&found) }
        }
    }
}

/// Of four processes one has threads of its own.
const BACKGROUNDS: [Background; 4] =
    [Background::Manual, Background::Manual, Background::Manual, Background::Threads];

/// Options of a cell, small ones.
pub(super) fn random_options(cell: Cell, random: &mut SeededRandom) -> Options {
    let mut options = small_options();
    options.format.page_bytes = *random.pick(&[4096, 4096, 8192, 16384]);
    options.format.segment_bytes = *random.pick(&[64 << 10, 64 << 10, 128 << 10]);
    options.memory.memtable_bytes = *random.pick(&[64 << 10, 128 << 10, 512 << 10]);
    options.checkpoint.chunk_bytes = *random.pick(&[16 << 10, 40 << 10, 200 << 10, 4 << 20]);
    options.checkpoint.threads = *random.pick(&[1, 1, 2, 3]);
    options.background = *random.pick(&BACKGROUNDS);
    options.checkpoint.log_bytes = *random.pick(&[100 << 10, 400 << 10, 4 << 20]);
    options.memory.cache_bytes = *random.pick(&[64 << 10, 1 << 20]);
    options.log.spare_segments = *random.pick(&[0, 1, 3]);
    options.checkpoint.page_protection = cell.protection;
    options.checkpoint.page_image_compression = cell.compression;
    options.master_key = random.chance(1, 4).then(master_key);
    options.checkpoint.runs = draw_runs(random);
    options
}

/// What a database may hold, newest first.
#[derive(Clone, Debug)]
struct MayBe {
    /// If nothing else happens to it.
    now: Vec<Arc<State>>,
    /// If the power goes before an open has made durable what is in the system's cache.
    if_power_goes: Vec<Arc<State>>,
}

impl MayBe {
    fn only(state: Arc<State>) -> MayBe {
        MayBe { now: vec![Arc::clone(&state)], if_power_goes: vec![state] }
    }
}

/// What a life may have left.
struct Left {
    /// After a power loss.
    candidates: Vec<Arc<State>>,
    /// After a kill.
    survivors: Vec<Arc<State>>,
}

impl Left {
    fn after_power_loss(self) -> MayBe {
        MayBe { now: self.candidates.clone(), if_power_goes: self.candidates }
    }

    fn after_kill(self) -> MayBe {
        let if_power_goes = self.candidates.into_iter().chain(self.survivors.iter().cloned()).collect();
        MayBe { now: self.survivors, if_power_goes }
    }
}

/// How a life ended.
struct Ended {
    may_be: Left,
    /// It had not opened the database yet, or not looked at what is there.
    opening: bool,
    /// What its calls did.
    calls: Vec<Target>,
    /// The power went in the last of them.
    in_call: bool,
}

/// Works until the power goes.
fn live(
    disk: &SimulatedDisk,
    may_be: &MayBe,
    options: &Options,
    random: &mut SeededRandom,
) -> Result<Ended, String> {
    // Nobody has looked yet which of these it was.
    let unknown = |if_power_goes: &[Arc<State>]| Ended {
        may_be: Left { candidates: if_power_goes.to_vec(), survivors: may_be.now.clone() },
        opening: true,
        calls: Target::of_all(&disk.trace(), None, options.checkpoint.page_protection),
        in_call: true,
    };
    let database = match try_open(disk, options) {
        Ok(database) => database,
        Err(_) if disk.crashed() => return Ok(unknown(&may_be.if_power_goes)),
        Err(error) => return Err(format!("open: {error}")),
    };
    let found = match find_state(&database, &may_be.now) {
        Ok(found) => found,
        // An open that has succeeded has made all of it durable.
        Err(_) if disk.crashed() => return Ok(unknown(&may_be.now)),
        Err(reason) => return Err(reason),
    };
    let progress = Progress::shared(found);
    let mut session = Session::with(database, Arc::new(disk.clone()), options, Arc::clone(&progress));
    let mut survivors = progress.lock().survivors();
    let mut calls = Target::of_all(&disk.trace(), None, options.checkpoint.page_protection);
    let mut in_call = false;
    for _ in 0..150 {
        let state = Arc::clone(progress.lock().current());
        let step = plan::random_step(random, &state);
        let result = session.run(&step);
        calls.extend(Target::of_all(
            &disk.trace()[calls.len()..],
            Some(&step),
            options.checkpoint.page_protection,
        ));
        if disk.crashed() {
            if result.is_ok() {
                // The process was dead when it was told so.
                survivors.splice(..0, progress.lock().survivors());
            } else {
                survivors = progress.lock().survivors();
            }
            in_call = true;
            break;
        }
        result.map_err(|error| format!("{step:?}: {error}"))?;
        survivors = progress.lock().survivors();
    }
    disk.crash();
    drop(session);
    let candidates = progress.lock().candidates();
    Ok(Ended { may_be: Left { candidates, survivors }, opening: false, calls, in_call })
}
