//! `archive-push` and `archive-get`, which PostgreSQL calls, and what belongs to them.

use std::ffi::OsString;

use seawall_archive_agent::{Form, agent, client};

use crate::events;

/// Runs the command, if it is one of these and no help is asked for; returns the exit code.
pub(crate) fn run(arguments: &[OsString]) -> Option<u8> {
    let (form, words) = take_form(arguments.get(1..)?);
    let (command, rest) = words.split_first()?;
    if rest.iter().any(|argument| argument == "--help" || argument == "-h") {
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
