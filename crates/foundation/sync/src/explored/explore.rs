//! Many runs, each by a seed of its own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use super::time;

/// Repeats one run: its seed.
const SEED_VARIABLE: &str = "SEAWALL_SCHEDULE_SEED";
/// How many times as many runs as usual.
const EFFORT_VARIABLE: &str = "SEAWALL_SCHEDULES";

/// Priorities change at so many places, less one, and at up to three more (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees
/// of Finding Bugs", ASPLOS 2010).
const PCT_DEPTH: u64 = 3;
/// The first run of such a scheduler only counts steps.
const PCT_RUNS: usize = 4;
/// A run with more steps than this hangs.
const STEPS_MAX: usize = 4_000_000;
const STACK_BYTES: usize = 512 << 10;

/// Which runs to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exploration {
    /// The first seed; the others follow it.
    pub seed: u64,
    /// How many seeds. An odd one stands for a run in which each step is of any thread that can go on; an even one for
    /// some in which the thread with the highest priority goes on, and priorities change a few times.
    pub seeds: u64,
}

impl Exploration {
    /// `seeds` seeds; the environment can ask for more, or for one only.
    ///
    /// # Panics
    /// If it asks for what is no number.
    pub fn from_environment(seeds: u64) -> Exploration {
        let number = |name| {
            let value = std::env::var(name).ok();
            value.map(|value| value.parse::<u64>().unwrap_or_else(|_| panic!("{name}={value} is no number")))
        };
        match number(SEED_VARIABLE) {
            Some(seed) => Exploration { seed, seeds: 1 },
            None => Exploration { seed: 1, seeds: seeds * number(EFFORT_VARIABLE).unwrap_or(1) },
        }
    }
}

/// Runs `body` by each seed. Everything that it uses of this crate it must make itself.
///
/// # Panics
/// If a run does, or ends with threads that wait for each other. The seed that repeats it is printed.
pub fn explore(name: &str, exploration: Exploration, body: impl Fn(u64) + Send + Sync + 'static) {
    let body = Arc::new(body);
    for seed in (exploration.seed..).take(usize::try_from(exploration.seeds).unwrap_or(usize::MAX)) {
        let body = Arc::clone(&body);
        let run = move || {
            time::begin();
            body(seed);
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run_seed(seed, run))) {
            eprintln!("schedule of {name} failed; {SEED_VARIABLE}={seed} repeats it");
            resume_unwind(panic);
        }
    }
}

fn run_seed(seed: u64, run: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    if seed % 2 == 1 {
        Runner::new(RandomScheduler::new_from_seed(seed, 1), config).run(run);
    } else {
        let depth = usize::try_from(PCT_DEPTH + seed / 2 % 4).unwrap_or(usize::MAX);
        Runner::new(PctScheduler::new_from_seed(seed, depth, PCT_RUNS), config).run(run);
    }
}
