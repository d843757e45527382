//! The torture chamber: tries to lose data, to break isolation, and says how to see it again if it can.
//!
//! ```text
//!   seawall-torture power-loss    a real process on a mounted disk that loses power
//!                   histories     clients at once; their reads and appends tell what isolation they had
//!                   standbys      a primary and two standbys: the same, on all of them, over promotions and a bad network
//!                   faults        a disk that fails, fills up, is slow or rots, and a clock that jumps
//!                   crashes       power losses in disk calls, and every state that they may leave
//!                   model         random histories against a plain model
//!                   lives         databases of several lives, each ended by a power loss or a kill
//!                   options       random histories under many option sets, which must not change an answer
//!                   campaign      all of them in turn, for as long as asked
//!                   sabotage      the engine is broken on purpose, to see who notices
//!        |
//!   seed --> plan --> run --> what was promised, compared with what is there --> Report of Findings, each with a seed
//! ```
//! Invariants:
//! * It uses what an embedding program uses, and nothing of the engine's insides. Standbys are served by the real server.
//! * Whatever it decides comes from the seed. What the kernel's scheduler decides does not: each torture says how
//!   much of a run its seed repeats.
//! * Each torture can be shown to find something: a disk that lies, a planted anomaly.
//!
//! One module is one kind of torture; `finding` is what they share.

mod arguments;
mod campaign;
mod child;
pub mod crashes;
mod error;
mod faults;
mod finding;
mod histories;
pub mod metamorphic;
pub mod model;
mod panics;
mod power_loss;
mod progress;
mod sabotage;
mod workers;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use error::TortureError;
pub use finding::Finding;
use finding::Report;

/// Something was found.
const FOUND: u8 = 1;
/// The chamber could not do its work.
const FAILED: u8 = 2;
/// This machine has no disk that could be mounted.
const UNAVAILABLE: u8 = 3;

/// Runs the command that `arguments` (the program's name first) ask for, and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = Arguments::parse_from(arguments);
    if arguments.progress {
        progress::begin();
    }
    if let Err(error) = sabotage::check_asked_for() {
        return finish(Err(error), arguments.json);
    }
    let result = match &arguments.command {
        Command::PowerLoss(options) => power_loss::run(options),
        Command::Histories(options) => histories::run(options),
        Command::Standbys(options) => histories::standbys::run(options),
        Command::Faults(options) => Ok(faults::run(options)),
        Command::Crashes(options) => Ok(crashes::run(options)),
        Command::Lives(options) => Ok(crashes::run_lives(options)),
        Command::Model(options) => Ok(model::run(options)),
        Command::Options(options) => Ok(metamorphic::run(options)),
        Command::Campaign(options) => campaign::run(options),
        Command::Sabotage(options) => return sabotage::run(options, arguments.json),
        Command::Writer { directory, settings } => return power_loss::be_writer(directory, settings),
        Command::Reader { directory, settings } => return power_loss::be_reader(directory, settings),
        Command::Seawall { arguments } => return seawall_cli::run(arguments.iter().cloned()),
    };
    finish(result, arguments.json)
}

fn finish(result: Result<Report, TortureError>, as_json: bool) -> ExitCode {
    let printed = result.and_then(|report| {
        report.print(as_json)?;
        Ok(report)
    });
    match printed {
        Ok(report) if report.findings.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(FOUND),
        Err(error) => {
            eprintln!("seawall-torture: {error}");
            ExitCode::from(if matches!(error, TortureError::Mount(_)) { UNAVAILABLE } else { FAILED })
        }
    }
}
