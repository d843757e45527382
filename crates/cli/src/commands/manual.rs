//! `completions` and `man`: what shells and `man` need to know, from the definitions of the command line.

use std::io::Write;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use serde_json::json;

use crate::arguments::{Arguments, Completions, ManualPages, with_archive_options};
use crate::failure::Failure;
use crate::files::OutputFile;
use crate::output::{Output, counted};

const NAME: &str = "seawall";

pub(crate) fn completions(completions: &Completions, output: &mut Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    let mut command = with_archive_options(Arguments::command());
    clap_complete::generate(completions.shell, &mut command, NAME, &mut script);
    match output.json() {
        true => output.line(
            json!({ "shell": completions.shell.to_string(), "script": String::from_utf8_lossy(&script) }),
        ),
        false => output.bytes(&script),
    }
}

/// Writes a page for each command.
pub(crate) fn pages(pages: &ManualPages, output: &mut Output) -> Result<(), Failure> {
    let directory = pages.dir.display().to_string();
    std::fs::create_dir_all(&pages.dir)
        .map_err(Failure::io(format!("cannot create the directory {directory}")))?;
    // `seawall help COMMAND` shows what the page of the command does.
    let command = with_archive_options(Arguments::command().disable_help_subcommand(true));
    let commands = with_subcommands(&command);
    for command in &commands {
        let page = page_of(command);
        let path = pages.dir.join(page.get_filename());
        let failed = || format!("cannot write {}", path.display());
        let mut file = OutputFile::create(&path)?;
        let mut text = Vec::new();
        page.render(&mut text).and_then(|()| file.write_all(&text)).map_err(Failure::io(failed()))?;
        file.finish()?;
    }
    let count = u64::try_from(commands.len()).unwrap_or(u64::MAX);
    output.answer(
        &json!({ "directory": directory, "pages": count }),
        format_args!("wrote {} to {directory}", counted(count, "page")),
    )
}

fn page_of(command: &Command) -> Man {
    // What `-h` leaves out would be a name without an explanation.
    let command = command.clone().mut_args(|argument| argument.hide_short_help(false));
    let page = Man::new(command).manual("Seawall");
    page.source(format!("{NAME} {}", env!("CARGO_PKG_VERSION")))
}

fn with_subcommands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set()).flat_map(with_subcommands);
    std::iter::once(command).chain(below).collect()
}
