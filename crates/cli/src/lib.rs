//! The `seawall` command: databases made, filled, read and examined from a shell.
//!
//! ```text
//!   seawall load DIR TABLE FILE --acks
//!        |
//!   arguments --> commands::load --> rows::reader --> (key, value) --> one durable transaction a batch
//!                       |
//!                    output: text for people, --json for programs; failure: an exit code for scripts
//! ```
//!
//! Invariants:
//! * Standard output holds the answer and nothing else; messages and progress bars go to standard error.
//! * Events are shown on standard error, warnings by default: whatever the engine has to say reaches who runs the command.
//! * `committed ROWS` is printed only after the transaction that holds these rows is durable.
//! * `dump` writes what `load` reads back to the same bytes.
//!
//! Start at [`run`]; each sub-command is a function in `commands`.

mod archiving;
mod arguments;
mod commands;
mod events;
mod failure;
mod files;
mod key_type;
mod output;
pub mod parsers;
mod progress;
mod rows;
mod standard_error;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use seawall_base_backup::{DRILL_GUARD_COMMAND, drill_guard};

use crate::arguments::{Arguments, Command, with_archive_options};
use crate::failure::Failure;
use crate::output::Output;

/// Runs the command that `arguments` (the program's name first) ask for, and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    // A write that is too long for `ulimit -f` is an error of that write.
    seawall_io::ignore_file_size_signal();
    seawall_io::give_back_freed_memory();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // What PostgreSQL calls for each segment is looked at before anything else: most of these calls take less time than to read
    // a command line.
    if let Some(code) = archiving::run(&arguments) {
        return ExitCode::from(code);
    }
    if let [_, command, rest @ ..] = &arguments[..]
        && command == DRILL_GUARD_COMMAND
    {
        return match drill_guard(rest) {
            Ok(code) => ExitCode::from(code),
            Err(error) => failed(&error.into(), false),
        };
    }
    let wants_json = arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let is_for_recovery = archiving::is_for_recovery(&arguments);
    let mut arguments = match Arguments::try_parse_from(&arguments) {
        Ok(arguments) => arguments,
        Err(error) if error.kind() == ErrorKind::DisplayHelp && !is_for_recovery => {
            let described = with_archive_options(Arguments::command());
            described.try_get_matches_from(&arguments).err().unwrap_or(error).exit()
        }
        Err(error) => {
            let failure = Failure::Usage(error.to_string().trim().to_owned());
            match is_for_recovery {
                true => return failed(&failure.for_recovery(), wants_json),
                false if wants_json && error.use_stderr() => return failed(&failure, true),
                false => error.exit(),
            }
        }
    };
    let json = arguments.shared.json;
    match matches!(arguments.command, Command::Serve(_)) {
        true => events::show_of_server(arguments.shared.verbose, json),
        false => events::show(arguments.shared.verbose, json),
    }
    let mut output = Output::stdout(json);
    let loaded = arguments.shared.load_settings(arguments.command.given()).map_err(Failure::from);
    let result = loaded.and_then(|()| commands::run(&arguments, &mut output)).and_then(|()| output.flush());
    match result {
        Ok(()) => {
            if let Some(Failure::Output(error)) = output.lost() {
                output.warn(format_args!(
                    "the change is made and durable, but the answer cannot be written to standard output: {error}"
                ));
            }
            ExitCode::SUCCESS
        }
        // Whoever reads our output has seen enough, as in `seawall scan ... | head`.
        Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(failure) => {
            // What was answered before the failure stands before its message.
            drop(output);
            match matches!(arguments.command, Command::ArchiveGet(_)) {
                true => failed(&failure.for_recovery(), json),
                false => failed(&failure, json),
            }
        }
    }
}

fn failed(failure: &Failure, json: bool) -> ExitCode {
    failure.report(json);
    ExitCode::from(failure.exit_code())
}
