//! `archive-push` and `archive-get`, which PostgreSQL calls, and what belongs to them.

use std::ffi::OsString;

use seawall_archive_agent::{agent, client};

/// Runs the command, if it is one of these and no help is asked for; returns the exit code.
pub(crate) fn run(arguments: &[OsString]) -> Option<u8> {
    let (command, rest) = arguments.get(1..)?.split_first()?;
    if rest.iter().any(|argument| argument == "--help" || argument == "-h") {
        return None;
    }
    match command.to_str()? {
        "archive-push" => Some(client::push(rest)),
        "archive-get" => Some(client::get(rest)),
        "archive-socket" => Some(client::socket(rest)),
        command @ ("archive-status" | "archive-stop") => Some(client::ask(command, rest)),
        client::AGENT_COMMAND => Some(agent::main(rest)),
        _ => None,
    }
}
