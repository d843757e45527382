//! Crash points of a workload, and at each the states that a power loss may leave: all where they are few.
//!
//! ```text
//!   Workload --disk calls--> crash points, some of each kind --> SimulatedDisk::outcomes --> states
//!        each state: opens, holds every acknowledged commit and whole others only, in order; checks; goes on
//!            \-- some: crash points of that recovery --> states --> ... to the depth that is asked for
//! ```

use std::sync::Arc;

use seawall::Options;
use seawall_crash_harness::everywhere::{state_of, watch_recovery};
use seawall_crash_harness::recover::recover;
use seawall_crash_harness::state::State;
use seawall_crash_harness::watched_disk::CrashPoint;
use seawall_crash_harness::{other_place, without_threads};
use seawall_simulation::{Coverage, PowerLoss, SeededRandom, SimulatedDisk};

use super::workload::Workload;
use crate::finding::{Finding, Report, keep_files};
use crate::panics::caught;

/// In the recovery from a state, so many crash points are looked at.
const RECOVERY_POINTS: usize = 3;
/// The number of states is divided by this at each further depth.
const FEWER_STATES: u64 = 8;
/// Of the crash points of a workload, one of so many is a kill of the process, too.
const KILLS_ONE_IN: u64 = 4;

/// How much is tried for a seed.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Crash points of the workload.
    pub points: usize,
    /// States of each of these at most.
    pub states: u64,
    /// Crashes in a row, the workload's included.
    pub depth: u32,
    /// Of so many syncs the disk loses one: something must be found then.
    pub lose_syncs: Option<u64>,
}

/// What went wrong, and on which disk.
struct Broken {
    what: String,
    disk: Option<SimulatedDisk>,
}

impl From<String> for Broken {
    fn from(what: String) -> Broken {
        Broken { what, disk: None }
    }
}

/// Runs the workload of `seed` through its crashes.
pub(crate) fn run_seed(seed: u64, effort: &Effort, report: &mut Report) -> Result<(), Finding> {
    let mut random = SeededRandom::new(seed ^ 0x5ea3_a115);
    let mut exploration = Exploration { effort, report, random: random.fork() };
    exploration.run(seed, &mut random).map_err(|broken| {
        let Effort { points, states, depth, lose_syncs } = effort;
        let lie = lose_syncs.map_or(String::new(), |one_in| format!(" --lose-syncs {one_in}"));
        let repeat = format!(
            "seawall-torture crashes --seed {seed} --points {points} --states {states} --depth {depth}{lie}"
        );
        // Without the files the finding still counts.
        let keep = |disk| keep_files(&disk, seed).inspect_err(|error| eprintln!("{error}")).ok();
        Finding { seed, what: broken.what, repeat, evidence: broken.disk.and_then(keep) }
    })
}

struct Exploration<'a> {
    effort: &'a Effort,
    report: &'a mut Report,
    random: SeededRandom,
}

impl Exploration<'_> {
    fn run(&mut self, seed: u64, random: &mut SeededRandom) -> Result<(), Broken> {
        let workload = caught(|| Ok(Workload::new(seed)))?;
        self.report.count(format!("workloads: {}", workload.name), 1);
        let named = |disk: &SimulatedDisk, broken: Broken| Broken {
            what: format!("workload {}, {}", workload.name, broken.what),
            disk: broken.disk.or_else(|| Some(disk.copy())),
        };
        let disk = workload.start();
        let calls = caught(|| workload.draw_calls(&disk, self.effort.points, random))
            .map_err(|what| named(&disk, what.into()))?;
        let (disk, lose_syncs) = (workload.start(), self.effort.lose_syncs);
        let watch = || {
            let visit = |point: CrashPoint| self.visit(&workload, &point);
            Ok(workload.watch(&disk, &calls, lose_syncs, visit))
        };
        let watched = caught(watch).map_err(Broken::from).and_then(|watched| watched);
        watched.map_err(|broken| named(&disk, broken))
    }

    fn visit(&mut self, workload: &Workload, point: &CrashPoint) -> Result<(), Broken> {
        let options = self.next_options(&workload.options);
        self.explore(point, &options, 1)?;
        if self.random.chance(1, KILLS_ONE_IN) {
            self.kill(point, &options)?;
        }
        Ok(())
    }

    /// Those of the process that finds what a crash left.
    fn next_options(&mut self, options: &Options) -> Options {
        without_threads(&if self.random.chance(1, 2) { other_place(options) } else { options.clone() })
    }

    /// Tries the states that the crash may leave.
    fn explore(&mut self, point: &CrashPoint, options: &Options, depth: u32) -> Result<(), Broken> {
        let place = |broken: Broken| Broken {
            what: format!("crash {depth} in call {} ({}): {}", point.index, point.call, broken.what),
            ..broken
        };
        let divisor = FEWER_STATES.pow(depth - 1);
        let limit = (self.effort.states / divisor).max(2);
        let outcomes = point.disk.outcomes(limit, self.random.next_u64());
        self.count_point(point, outcomes.coverage(), depth);
        // Crashes in recoveries: from the state that has lost nothing, and from another one, each as likely as any.
        let (mut whole, mut other, mut others) = (None, None, 0);
        for outcome in outcomes {
            let disk = outcome.disk.copy();
            let found = caught(|| recover(&outcome.disk, &point.candidates, options))
                .map_err(|what| Broken { what: format!("{outcome}: {what}"), disk: Some(disk.copy()) })
                .map_err(place)?;
            self.report.count(states_at(depth), 1);
            if outcome.number == 1 {
                whole = Some((disk, found));
                continue;
            }
            others += 1;
            if self.random.below(others) == 0 {
                other = Some((disk, found));
            }
        }
        if depth < self.effort.depth {
            for (disk, found) in whole.into_iter().chain(other) {
                self.report.count(cut_short_at(depth), 1);
                self.crash_recovery(&disk, &[found], options, depth).map_err(place)?;
            }
        }
        Ok(())
    }

    fn count_point(&mut self, point: &CrashPoint, coverage: Coverage, depth: u32) {
        self.report.count("crash points", 1);
        let what = match coverage {
            Coverage::Sectors => "crash points with every state, torn at 512 bytes",
            Coverage::Pages => "crash points with every state, torn at 4 KiB",
            Coverage::Changes => "crash points with every state, changes whole",
            Coverage::Sample => "crash points with a sample of states",
        };
        self.report.count(what, 1);
        if depth == 1 {
            self.report.count(format!("crash points in: {}", point.kind), 1);
        }
    }

    /// Cuts the recovery of `disk` short.
    fn crash_recovery(
        &mut self,
        disk: &SimulatedDisk,
        candidates: &[Arc<State>],
        options: &Options,
        depth: u32,
    ) -> Result<(), Broken> {
        let options = self.next_options(options);
        let mut points = Vec::new();
        caught(|| {
            watch_recovery(disk, candidates, &options, |point| {
                points.push(point);
                Ok(())
            })
        })
        .map_err(|what| Broken { what: format!("recovered once more: {what}"), disk: Some(disk.copy()) })?;
        self.random.shuffle(&mut points);
        points.truncate(RECOVERY_POINTS);
        points.iter().try_for_each(|point| self.explore(point, &options, depth + 1))
    }

    /// The process is killed in the call: what it wrote is in the system's cache, and nothing acknowledged may be missing.
    /// Then the power goes while the next one recovers.
    fn kill(&mut self, point: &CrashPoint, options: &Options) -> Result<(), Broken> {
        let disk = point.disk.copy();
        let killed = |broken: Broken| Broken {
            what: format!("killed in call {} ({}): {}", point.index, point.call, broken.what),
            ..broken
        };
        caught(|| state_of(&disk, &point.survivors, options))
            .map_err(|what| killed(Broken { what, disk: Some(disk.copy()) }))?;
        self.report.count("kills", 1);
        if self.effort.depth > 1 {
            self.crash_recovery(&disk, &point.candidates, options, 1).map_err(killed)?;
        }
        // Or before anybody has opened it.
        let crashed = disk.after_power_loss(PowerLoss::Random(self.random.next_u64()));
        caught(|| recover(&crashed.copy(), &point.candidates, options))
            .map_err(|what| killed(Broken { what, disk: Some(crashed) }))
            .map(drop)
    }
}

fn cut_short_at(depth: u32) -> &'static str {
    match depth {
        1 => "states whose recovery is cut short",
        _ => "states after a crash in a recovery whose recovery is cut short",
    }
}

fn states_at(depth: u32) -> &'static str {
    match depth {
        1 => "states after a crash",
        2 => "states after a crash in a recovery",
        _ => "states after a crash in a recovery from a crash in a recovery",
    }
}
