//! `archive-push` and `archive-get`, which PostgreSQL calls, and what belongs to them.

use std::ffi::OsString;

use seawall_archive_agent::{Form, agent, client};

use crate::events;

/// Options of all commands that have a value, of which these have some: they may stand before the command, too.
const WITH_VALUES: [&str; 4] = ["--config", "--master-key-file", "--master-key-env", "--master-key-command"];

const VERBOSITY: [&str; 3] = ["-v", "-vv", "--verbose"];

/// Runs the command, if it is one of these and not only asked for help; returns the exit code.
pub(crate) fn run(arguments: &[OsString]) -> Option<u8> {
    let (form, words) = take_form(arguments.get(1..)?);
    let words = command_first(&words);
    let (command, rest) = words.split_first()?;
    // Among other words it is wrong, and no answer to PostgreSQL, which takes an exit code of 0 for the file.
    if let [word] = rest
        && is_help(word)
    {
        return None;
    }
    let run: fn(&[OsString], Form) -> u8 = match command.to_str()? {
        "archive-push" => client::push,
        "archive-get" => client::get,
        "archive-socket" => client::socket,
        "archive-status" => client::status,
        "archive-stop" => client::stop,
        client::AGENT_COMMAND => run_agent,
        _ => return None,
    };
    Some(run(rest, form))
}

/// Whether a command line that cannot be read may be PostgreSQL's `restore_command`, with a wrong option or a typing error in the name of
/// the command: then its exit code must not look like the end of the archive. Help is for people.
pub(crate) fn is_for_recovery(arguments: &[OsString]) -> bool {
    let words = arguments.get(1..).unwrap_or_default();
    let is_for_people = match words {
        [first, ..] if first == "help" => true,
        [_, second] => is_help(second),
        _ => false,
    };
    let is_alike = words.first().is_some_and(|word| word.as_encoded_bytes().starts_with(b"archive-g"));
    !is_for_people && (is_alike || words.iter().any(|word| word == "archive-get"))
}

fn is_help(word: &OsString) -> bool {
    word == "--help" || word == "-h"
}

/// The others only talk to this one, which has a repository open, and a log for what is to be said of it.
fn run_agent(arguments: &[OsString], form: Form) -> u8 {
    events::show_in_agent(form == Form::Json);
    agent::main(arguments)
}

/// Takes `--json` out, wherever it stands.
fn take_form(arguments: &[OsString]) -> (Form, Vec<OsString>) {
    let words: Vec<OsString> = arguments.iter().filter(|argument| *argument != "--json").cloned().collect();
    let form = if words.len() < arguments.len() { Form::Json } else { Form::Text };
    (form, words)
}

/// Puts options that stand before the command after it. What is wrong with them is the command's to say then: its exit code must not
/// tell a recovery that the archive ends. How much is to be said is the agent's business: `RUST_LOG`.
fn command_first(words: &[OsString]) -> Vec<OsString> {
    let mut before = 0;
    while let Some(word) = words.get(before) {
        before += match word.to_str() {
            Some(word) if WITH_VALUES.contains(&word) => 2,
            Some(word) if WITH_VALUES.iter().any(|option| is_with_value(word, option)) => 1,
            Some(word) if VERBOSITY.contains(&word) => 1,
            _ => break,
        };
    }
    let (options, rest) = words.split_at(before.min(words.len()));
    let (command, rest) = rest.split_at(rest.len().min(1));
    let is_verbosity = |word: &&OsString| word.to_str().is_some_and(|word| VERBOSITY.contains(&word));
    let options: Vec<OsString> = options.iter().filter(|word| !is_verbosity(word)).cloned().collect();
    [command, &options, rest].concat()
}

fn is_with_value(word: &str, option: &str) -> bool {
    word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn options_before_the_command_are_the_commands() {
        for (given, expected) in [
            ("archive-get a b", "archive-get a b"),
            ("--config f archive-get a b", "archive-get --config f a b"),
            ("--config=f --master-key-env K archive-push a", "archive-push --config=f --master-key-env K a"),
            ("--config", "--config"),
            ("-v --verbose archive-push a", "archive-push a"),
            ("--config f info -v db", "info --config f -v db"),
            ("--bogus archive-push a", "--bogus archive-push a"),
            ("", ""),
        ] {
            let words: Vec<OsString> = given.split_whitespace().map(OsString::from).collect();
            let words = command_first(&words);
            assert_eq!(words.join(OsStr::new(" ")), expected);
        }
    }
}
