//! All tortures in turn, each time with seeds that were not tried yet, for as long as asked; killed and started again, it
//! goes on.
//!
//! ```text
//!   slice of crashes -> slice of lives -> model -> options -> histories -> power-loss -> crashes ...
//!        |  each: seeds from where its torture was; then
//!        v
//!   DIRECTORY/campaign.json   next seeds, counts, findings: what a campaign that is started again reads
//!             report.md, report.json   the same for people and programs
//! ```
//! A file is replaced whole after each slice. A kill loses the slice that was running, which is then run again with the same
//! seeds. Findings do not end a campaign.

mod report;
mod state;

use std::time::Duration;

use seawall_io::{Clock, SystemClock};

use crate::arguments::{
    CampaignOptions, CrashesOptions, FaultsOptions, HistoriesOptions, Level, LivesOptions, ModelOptions,
    OptionsOptions, PowerLossOptions,
};
use crate::error::TortureError;
use crate::finding::Report;
use crate::{crashes, faults, histories, metamorphic, model, power_loss};

use state::{Share, State};

/// One kind of torture, as a campaign runs it.
struct Torture {
    name: &'static str,
    /// Seeds of a slice: about a quarter of a minute of two processors.
    seeds: u64,
    /// Runs a slice from a seed on.
    run: fn(seed: u64, seeds: u64) -> Result<Report, TortureError>,
}

const TORTURES: [Torture; 7] = [
    Torture {
        name: "crashes",
        seeds: 2,
        run: |seed, seeds| {
            let (points, states, depth, lose_syncs) = (16, 128, 3, None);
            Ok(crashes::run(&CrashesOptions { seeds, seed, points, states, depth, lose_syncs }))
        },
    },
    Torture {
        name: "lives",
        seeds: 500,
        run: |seed, histories| Ok(crashes::run_lives(&LivesOptions { histories, seed })),
    },
    Torture {
        name: "model",
        seeds: 4000,
        run: |seed, histories| Ok(model::run(&ModelOptions { histories, seed })),
    },
    Torture {
        name: "options",
        seeds: 200,
        run: |seed, histories| Ok(metamorphic::run(&OptionsOptions { histories, seed, sets: 8 })),
    },
    Torture {
        name: "faults",
        seeds: 1000,
        run: |seed, runs| {
            let (swallow, keep_going) = (None, true);
            faults::run(&FaultsOptions { runs, seed, swallow, keep_going })
        },
    },
    Torture {
        name: "histories",
        seeds: 60,
        run: |seed, seeds| {
            let options = |seed| HistoriesOptions {
                seconds: 0,
                seed,
                isolation: Level::All,
                check_as: None,
                keep_going: true,
            };
            let mut all = Report::new("histories");
            for seed in seed..seed + seeds {
                all.add(histories::run(&options(seed))?);
            }
            Ok(all)
        },
    },
    Torture {
        name: "power-loss",
        seeds: 30,
        run: |seed, runs| {
            let (lose_syncs, lose_directory_syncs) = (None, None);
            power_loss::run(&PowerLossOptions {
                runs,
                seed,
                lose_syncs,
                lose_directory_syncs,
                keep_going: true,
            })
        },
    },
];

/// Runs, or goes on with, the campaign of `options.directory`.
pub(crate) fn run(options: &CampaignOptions) -> Result<Report, TortureError> {
    let mut state = State::open(&options.directory, first_seed(options))?;
    let wanted = Duration::from_secs(options.minutes.saturating_mul(60)).as_secs_f64();
    eprintln!(
        "campaign in {}: {:.0} of {wanted:.0} s are done, seeds from {} on",
        options.directory.display(),
        state.seconds,
        state.first_seed
    );
    let names = TORTURES.map(|torture| torture.name);
    while state.seconds < wanted {
        let torture = &TORTURES[state.slices % TORTURES.len()];
        slice(torture, &mut state)?;
        state.store(&options.directory)?;
        report::write(&state, &names, &options.directory)?;
    }
    Ok(state.report())
}

/// Runs the next slice of a torture.
fn slice(torture: &Torture, state: &mut State) -> Result<(), TortureError> {
    let first_seed = state.first_seed;
    state.slices += 1;
    let share = state.shares.entry(torture.name.to_owned()).or_insert_with(|| Share::new(first_seed));
    if share.skipped.is_some() {
        return Ok(());
    }
    let start = SystemClock.monotonic();
    let report = match (torture.run)(share.next_seed, torture.seeds) {
        Ok(report) => report,
        Err(TortureError::Mount(reason)) => {
            share.skipped = Some(reason.to_string());
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let seconds = (SystemClock.monotonic() - start).as_secs_f64();
    eprintln!(
        "{:>6.0} s  {} seeds {}..{}: {} found in {seconds:.1} s",
        state.seconds + seconds,
        torture.name,
        share.next_seed,
        share.next_seed + torture.seeds,
        report.findings.len()
    );
    report.findings.iter().for_each(|finding| eprintln!("{finding}"));
    share.add(report, torture.seeds, seconds);
    state.seconds += seconds;
    Ok(())
}

/// Where seeds begin that nobody has tried: the clock says.
fn first_seed(options: &CampaignOptions) -> u64 {
    let milliseconds = || u64::try_from(SystemClock.wall_micros() / 1000).unwrap_or_default();
    options.seed.unwrap_or_else(milliseconds)
}
