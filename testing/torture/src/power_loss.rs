//! A disk that loses power under real processes.
//!
//! ```text
//!   writer process --- system calls ---> kernel --- FUSE ---> MountedDisk ---> SimulatedDisk
//!        |  "durable 3 17 90112"                                                    | crash_at, then
//!        v                                                                          | after_power_loss(seed)
//!   Acknowledged  <--- compare --- reader process ---> kernel ---> MountedDisk ---> what is left of it
//! ```
//! Nothing of ours lies between the engine and the kernel, so that the calls of `OsDisk` are tested with all the
//! rest: open flags, direct and vectored writes, `RWF_DSYNC`, `fallocate`, holes, mappings, locks, and which
//! directory is synced when. What the power takes is decided by the model that the simulated crashes use: one disk,
//! two ways to it.
//!
//! A run is one database and several lives. A life ends with the power, at a disk call chosen by the seed; with a
//! kill, after as many acknowledgements as the seed says; or with a kill and then the power. Recoveries are cut
//! short, too, up to three in a row. After each life another process recovers, compares every row, and `seawall
//! check` looks at every page.
//!
//! In some lives the process is `seawall load --acks` instead, whose rows `seawall scan` reads back.
//!
//! Compared is: what was acknowledged as durable is there; after a kill alone, everything acknowledged; a transaction
//! is there whole or not at all; of each thread the first ones are there, and over all threads nothing is there that
//! is newer than something lost; what was prepared is in doubt until it is decided, and then no more; what one
//! recovery has shown, no later one takes back; what one recovery has given up does not come back.
//!
//! **What a seed repeats**: options, workload, the disk call or acknowledgement at which a life ends, and which share
//! of the unsynced writes a power loss takes. Which thread runs when is the kernel's: what was found by seed 7 may
//! need several runs of seed 7. The files it was found on are kept.
//!
//! Start at [`run::Run`].

mod acknowledged;
mod gid;
mod load;
mod plan;
mod process;
mod reader;
mod rows;
mod run;
mod writer;

use std::path::Path;
use std::process::ExitCode;

use seawall_io::{Clock, SystemClock};
use seawall_mounted_disk::{Lie, enter_own_mounts};

use crate::arguments::PowerLossOptions;
use crate::error::TortureError;
use crate::finding::{Finding, Report};
use crate::progress;

use plan::{Plan, Settings};
use run::{Run, Stop};

/// Runs `options.runs` databases through their lives.
pub(crate) fn run(options: &PowerLossOptions) -> Result<Report, TortureError> {
    let start = SystemClock.monotonic();
    let mut report = Report::new("power-loss");
    enter_own_mounts();
    let (lie, flag) = match (options.lose_syncs, options.lose_directory_syncs) {
        (Some(one_in), _) => (Lie::LoseSyncs { one_in }, format!(" --lose-syncs {one_in}")),
        (None, Some(one_in)) => {
            (Lie::LoseDirectorySyncs { one_in }, format!(" --lose-directory-syncs {one_in}"))
        }
        (None, None) => (Lie::None, String::new()),
    };
    for seed in options.seed..options.seed.saturating_add(options.runs) {
        progress::seed(seed, &mut report, |report| run_seed(seed, lie, &flag, report))?;
        if !report.findings.is_empty() && !options.keep_going {
            break;
        }
    }
    report.seconds = (SystemClock.monotonic() - start).as_secs_f64();
    Ok(report)
}

fn run_seed(seed: u64, lie: Lie, flag: &str, report: &mut Report) -> Result<(), TortureError> {
    let stopped = Run::new(Plan::new(seed), lie, report)?.run();
    match stopped {
        Ok(()) => {}
        Err(Stop::Failed(error)) => return Err(error),
        Err(Stop::Found { what, evidence }) => {
            let repeat = format!("seawall-torture power-loss --runs 1 --seed {seed}{flag}");
            report.findings.push(Finding { seed, what, repeat, evidence });
        }
    }
    Ok(())
}

/// This process is the writer.
pub(crate) fn be_writer(directory: &Path, settings: &str) -> ExitCode {
    be(settings, |settings| writer::write(directory, settings))
}

/// This process is the reader.
pub(crate) fn be_reader(directory: &Path, settings: &str) -> ExitCode {
    be(settings, |settings| reader::read(directory, settings))
}

fn be(settings: &str, work: impl Fn(&Settings) -> Result<(), TortureError>) -> ExitCode {
    let result =
        serde_json::from_str(settings).map_err(TortureError::from).and_then(|settings| work(&settings));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
