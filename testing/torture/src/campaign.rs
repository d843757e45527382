//! All tortures in turn, each time with seeds that were not tried yet, for as long as asked; killed and started again, it
//! goes on.
//!
//! ```text
//!   slice of crashes -> lives -> model -> options -> faults -> histories -> power-loss -> crashes ...
//!        |  each: seeds from where its torture was, in a child process with a time limit; then
//!        v
//!   DIRECTORY/campaign.json   next seeds, counts, findings: what a campaign that is started again reads
//!             report.md, report.json   the same for people and programs
//! ```
//! A file is replaced whole after each slice. A kill loses the slice that was running, which is then run again with the same
//! seeds. Findings do not end a campaign. A child that hangs or crashes is one, with the seeds that were under way.

mod report;
mod slice;
mod state;

use std::time::Duration;

use seawall_io::{Clock, SystemClock};

use crate::arguments::CampaignOptions;
use crate::error::{TortureError, io_error};
use crate::finding::Report;

use slice::{SLICE_MAX, Slice, Torture};
use state::{Share, State};

const TORTURES: [Torture; 8] = [
    Torture {
        name: "crashes",
        seeds: 2,
        count: "--seeds",
        words: &["--points", "16", "--states", "128", "--depth", "3"],
    },
    Torture { name: "lives", seeds: 500, count: "--histories", words: &[] },
    Torture { name: "model", seeds: 4000, count: "--histories", words: &[] },
    Torture { name: "options", seeds: 200, count: "--histories", words: &["--sets", "8"] },
    Torture { name: "faults", seeds: 1000, count: "--runs", words: &[] },
    Torture { name: "histories", seeds: 60, count: "--seeds", words: &["--keep-going"] },
    Torture { name: "standbys", seeds: 20, count: "--seeds", words: &["--keep-going"] },
    Torture { name: "power-loss", seeds: 30, count: "--runs", words: &["--keep-going"] },
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
    let program = std::env::current_exe().map_err(io_error("find this program"))?;
    let first = share.next_seed;
    let slice = Slice::run(torture, torture.command(&program, first), first, SLICE_MAX)?;
    if slice.unavailable.is_some() {
        share.skipped = slice.unavailable;
        return Ok(());
    }
    eprintln!(
        "{:>6.0} s  {} seeds {first}..{}: {} found in {:.1} s",
        state.seconds + slice.seconds,
        torture.name,
        first + slice.seeds,
        slice.report.findings.len(),
        slice.seconds
    );
    slice.report.findings.iter().for_each(|finding| eprintln!("{finding}"));
    state.seconds += slice.seconds;
    share.add(slice.report, slice.seeds, slice.seconds);
    Ok(())
}

/// Where seeds begin that nobody has tried: the clock says.
fn first_seed(options: &CampaignOptions) -> u64 {
    let milliseconds = || u64::try_from(SystemClock.wall_micros() / 1000).unwrap_or_default();
    options.seed.unwrap_or_else(milliseconds)
}
