//! `completions` and `man`: what shells and `man` need to know, from the definitions of the command line.

use std::io::Write;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;
use serde_json::json;

use crate::arguments::{
    ARCHIVE_COMMANDS, ARCHIVE_OPTIONS, Arguments, Completions, ManualPages, archive_notes,
};
use crate::failure::Failure;
use crate::files::OutputFile;
use crate::output::{Output, counted};

const NAME: &str = "seawall";
/// Shared options that mean nothing to the archive commands.
const OF_DATABASES: [&str; 4] = ["cache_mib", "memtable_mib", "page_protection", "page_image_compression"];

pub(crate) fn completions(completions: &Completions, output: &mut Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), NAME, &mut script);
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
    let mut command = with_archive_options(Arguments::command().disable_help_subcommand(true));
    command.build();
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
    let is_archive_command = ARCHIVE_COMMANDS.contains(&command.get_name());
    let command = command.clone().mut_args(|argument| {
        let means_nothing = is_archive_command && OF_DATABASES.contains(&argument.get_id().as_str());
        // What `-h` leaves out would be a name without an explanation.
        let argument = argument.hide_short_help(false);
        if means_nothing { argument.hide(true) } else { argument }
    });
    let page = Man::new(command).manual("Seawall");
    page.source(format!("{NAME} {}", env!("CARGO_PKG_VERSION")))
}

/// The options of the archive commands, as clap describes those of the others.
fn with_archive_options(command: Command) -> Command {
    let is_shared = |name: &str| command.get_arguments().any(|shared| shared.get_long() == Some(name));
    let options: Vec<Arg> = ARCHIVE_OPTIONS
        .iter()
        .filter(|(name, ..)| !is_shared(name))
        .map(|(name, value, meaning)| Arg::new(*name).long(*name).value_name(*value).help(*meaning))
        .collect();
    ARCHIVE_COMMANDS.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| command.args(&options).after_help(archive_notes()))
    })
}

fn with_subcommands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set()).flat_map(with_subcommands);
    std::iter::once(command).chain(below).collect()
}
