//! What a seed means: the options of a database, what is done with it, and which of its disk calls the power goes in.

use std::collections::BTreeMap;
use std::sync::Arc;

use seawall::Options;
use seawall_crash_harness::everywhere::watch_steps;
use seawall_crash_harness::progress::Progress;
use seawall_crash_harness::session::{Session, Step};
use seawall_crash_harness::state::State;
use seawall_crash_harness::watched_disk::{CrashPoint, WatchedDisk};
use seawall_crash_harness::{Cell, plan, template, wide_options};
use seawall_simulation::{Call, SeededRandom, SimulatedDisk};

use super::lives::random_options;

/// Of ten workloads so many are random.
const RANDOM_OF_TEN: u64 = 6;

/// What is done with a database.
#[derive(Clone, Debug)]
enum Steps {
    Plan(Vec<Step>),
    Random { random: SeededRandom, count: usize },
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) options: Options,
    start: SimulatedDisk,
    steps: Steps,
}

impl Workload {
    pub(super) fn new(seed: u64) -> Workload {
        let mut random = SeededRandom::new(seed);
        let cells = Cell::all();
        let mut options = random_options(*random.pick(&cells), &mut random);
        let kind = random.below(10);
        let (name, steps) = match kind {
            0..RANDOM_OF_TEN => {
                let count = random.index(30) + 10;
                ("random", Steps::Random { random: random.fork(), count })
            }
            6 => ("thorough", Steps::Plan(plan::thorough())),
            7 => ("short", Steps::Plan(plan::short())),
            8 => match random.below(2) {
                0 => ("definitions", Steps::Plan(plan::definitions())),
                _ => ("wide", Steps::Plan(plan::wide())),
            },
            _ => {
                let first = plan::short().swap_remove(0);
                ("creation", Steps::Plan(vec![first, Step::Checkpoint, Step::Reopen]))
            }
        };
        if name == "wide" {
            options = wide_options(options);
        }
        let start = if name == "creation" { SimulatedDisk::new(seed) } else { template(&options) };
        Workload { name, options, start, steps }
    }

    /// What to do next with a database that holds a state.
    fn next_step(&self) -> impl FnMut(&State) -> Option<Step> {
        let mut steps = self.steps.clone();
        let mut number = 0;
        move |state| {
            number += 1;
            match &mut steps {
                Steps::Plan(steps) => steps.get(number - 1).cloned(),
                Steps::Random { random, count } => {
                    (number <= *count).then(|| plan::random_step(random, state))
                }
            }
        }
    }

    /// The disk before its first step.
    pub(super) fn start(&self) -> SimulatedDisk {
        self.start.copy()
    }

    /// Does it with `disk`, and names some of the calls, each kind of call on each kind of file as often as any other, in their order.
    ///
    /// # Errors
    /// If the workload itself goes wrong.
    pub(super) fn draw_calls(
        &self,
        disk: &SimulatedDisk,
        count: usize,
        random: &mut SeededRandom,
    ) -> Result<Vec<u64>, String> {
        let progress = Progress::shared(Arc::default());
        let mut session = Session::closed(Arc::new(disk.clone()), &self.options, Arc::clone(&progress));
        let mut next_step = self.next_step();
        let next = |next_step: &mut dyn FnMut(&State) -> Option<Step>| {
            let state = Arc::clone(progress.lock().current());
            next_step(&state)
        };
        while let Some(step) = next(&mut next_step) {
            session.run(&step).map_err(|error| format!("{step:?}: {error}"))?;
        }
        drop(session);
        Ok(draw_evenly(&disk.trace(), count, random))
    }

    /// Does it with `disk`, and hands `visit` those of the crash points that `calls` names.
    ///
    /// # Errors
    /// What `visit` says, or the step that failed.
    pub(super) fn watch<E: From<String>>(
        &self,
        disk: &SimulatedDisk,
        calls: &[u64],
        lose_syncs: Option<u64>,
        visit: impl FnMut(CrashPoint) -> Result<(), E>,
    ) -> Result<(), E> {
        let progress = Progress::shared(Arc::default());
        let disk = WatchedDisk::new(disk.clone(), Arc::clone(&progress));
        disk.watch_only(calls.iter().copied().collect());
        disk.lose_syncs(lose_syncs);
        watch_steps(disk, &self.options, progress, self.next_step(), visit)
    }
}

/// Draws `count` of the calls, or all.
fn draw_evenly(calls: &[Call], count: usize, random: &mut SeededRandom) -> Vec<u64> {
    let mut kinds: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for call in calls {
        let file = call.path.split(['/', '.']).next().unwrap_or_default();
        kinds.entry((call.operation, file)).or_default().push(call.index);
    }
    let mut kinds: Vec<Vec<u64>> = kinds.into_values().collect();
    kinds.iter_mut().for_each(|kind| random.shuffle(kind));
    random.shuffle(&mut kinds);
    let mut drawn = Vec::new();
    while drawn.len() < count && kinds.iter().any(|kind| !kind.is_empty()) {
        drawn.extend(kinds.iter_mut().filter_map(Vec::pop));
    }
    drawn.truncate(count);
    drawn.sort_unstable();
    drawn
}
