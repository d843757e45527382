//! `in-doubt`, `commit-prepared`, `rollback-prepared`: transactions that are prepared and not decided.

use std::process::Command;
use std::time::Duration;

use seawall::{
    AutomaticDecision, DecisionReason, FailedRule, InDoubtAction, InDoubtHook, InDoubtRule,
    InDoubtTransaction, OpenMode, Verdict,
};
use serde_json::{Value, json};

use super::{close, close_unfinished, open};
use crate::arguments::{InDoubt, OneGid, Shared};
use crate::failure::Failure;
use crate::files::utc;
use crate::output::{Output, counted, duration, size};
use crate::standard_error::Warnings;

pub(crate) fn in_doubt(shared: &Shared, arguments: &InDoubt, output: &mut Output) -> Result<(), Failure> {
    if arguments.forget.is_some() || arguments.forget_older_than.is_some() {
        return forget(shared, arguments, output);
    }
    let age = seconds("--older-than", arguments.older_than.unwrap_or(0.0))?;
    let action = match (&arguments.ask, arguments.roll_back) {
        (Some(command), _) => InDoubtAction::Ask(ask_by(command, output.warnings())),
        (None, true) => InDoubtAction::RollBack,
        (None, false) => return list(shared, arguments, age, output),
    };
    let rule = InDoubtRule {
        owner: arguments.owner.clone(),
        gid_prefix: arguments.gid_prefix.clone(),
        ..InDoubtRule::new(age, action)
    };
    let database = open(shared, &arguments.dir, OpenMode::Existing)?;
    let applied = database.two_phase().apply_rules(&[rule])?;
    // Whatever becomes of the answers, those that stay in doubt are reported below.
    output.note_done();
    for decision in applied.decided {
        let done = if decision.committed { "committed" } else { "rolled back" };
        output.answer(&decision_json(&decision), format_args!("{done} {:?}", decision.gid))?;
    }
    let mut failed = applied.failed.into_iter();
    let first = failed.next();
    let others = failed.count();
    match first {
        None => {
            close(database, &arguments.dir, output);
            Ok(())
        }
        Some(FailedRule { gid, error }) => {
            close_unfinished(database, &arguments.dir, output);
            output.warn(format_args!("{gid:?} stays in doubt, and {others} more that could not be decided"));
            Err(error.into())
        }
    }
}

fn seconds(option: &str, seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds).map_err(|error| Failure::Usage(format!("{option}: {error}")))
}

fn forget(shared: &Shared, arguments: &InDoubt, output: &mut Output) -> Result<(), Failure> {
    let age = seconds("--forget-older-than", arguments.forget_older_than.unwrap_or(0.0))?;
    let database = open(shared, &arguments.dir, OpenMode::Existing)?;
    let forgotten = match &arguments.forget {
        Some(gid) => usize::from(database.two_phase().forget_automatic_decision(gid)?),
        None => database.two_phase().forget_old_automatic_decisions(age)?,
    };
    close(database, &arguments.dir, output);
    output.answer(
        &json!({ "forgotten": forgotten }),
        format_args!("forgot {}", counted(forgotten as u64, "decision")),
    )
}

fn list(shared: &Shared, arguments: &InDoubt, age: Duration, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &arguments.dir, OpenMode::ReadOnly)?;
    let all = database.two_phase().in_doubt()?;
    let wanted = all.iter().filter(|one| {
        one.age >= age
            && one.gid.starts_with(&arguments.gid_prefix)
            && arguments.owner.as_ref().is_none_or(|owner| *owner == one.owner)
    });
    let mut listed = 0;
    for one in wanted {
        output.answer(&transaction_json(one), transaction_text(one))?;
        listed += 1;
    }
    if output.json() || listed > 0 {
        return Ok(());
    }
    match all.len() {
        0 => output.line("nothing is in doubt"),
        others => {
            let others = counted(others as u64, "other transaction");
            output.line(format_args!("nothing of that kind is in doubt; {others}, without these options"))
        }
    }
}

fn transaction_text(one: &InDoubtTransaction) -> String {
    let owner = if one.owner.is_empty() { String::new() } else { format!(" by {:?}", one.owner) };
    let tables = one.tables.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    format!(
        "{:?}  prepared{owner} {}, {} ago: {}, {}, in {tables}; at {}",
        one.gid,
        utc(one.prepared_micros),
        duration(one.age),
        counted(one.rows, "row"),
        size(one.bytes),
        one.lsn
    )
}

fn transaction_json(one: &InDoubtTransaction) -> Value {
    json!({
        "gid": one.gid, "owner": one.owner, "prepared_micros": one.prepared_micros,
        "age_seconds": one.age.as_secs_f64(), "lsn": one.lsn.to_string(), "tables": one.tables,
        "rows": one.rows, "bytes": one.bytes,
    })
}

/// A decision that was made by a rule, for programs.
pub(crate) fn decision_json(decision: &AutomaticDecision) -> Value {
    json!({
        "gid": decision.gid, "owner": decision.owner, "lsn": decision.lsn.to_string(),
        "outcome": if decision.committed { "committed" } else { "rolled back" },
        "reason": match decision.reason {
            DecisionReason::Rule => "rule",
            DecisionReason::Asked => "asked",
        },
        "prepared_micros": decision.prepared_micros, "decided_micros": decision.decided_micros,
    })
}

/// The same, for people.
pub(crate) fn decision_text(decision: &AutomaticDecision) -> String {
    let done = if decision.committed { "committed" } else { "rolled back" };
    let why = match decision.reason {
        DecisionReason::Rule => "by a rule",
        DecisionReason::Asked => "after asking",
    };
    format!("{:?} {done} {why}, {}", decision.gid, utc(decision.decided_micros))
}

/// Asks a command, which says on standard output what the coordinator has decided. Whatever else it says or does, nothing is
/// decided.
fn ask_by(command: &str, warnings: Warnings) -> InDoubtHook {
    let command = command.to_owned();
    InDoubtHook::new(move |transaction| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &command])
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::inherit());
        shell.env("SEAWALL_GID", &transaction.gid).env("SEAWALL_OWNER", &transaction.owner);
        shell.env("SEAWALL_LSN", transaction.lsn.to_string());
        let problem = match shell.output() {
            Ok(output) if output.status.success() => match output.stdout.trim_ascii() {
                b"commit" => return Verdict::Commit,
                b"rollback" => return Verdict::RollBack,
                b"wait" => return Verdict::Wait,
                other => format!("it says \"{}\"", other[..other.len().min(100)].escape_ascii()),
            },
            Ok(output) => format!("it ended with {}", output.status),
            Err(error) => error.to_string(),
        };
        warnings.warn(format_args!(
            "{:?} stays in doubt: the command is to say commit, rollback or wait; {problem}",
            transaction.gid
        ));
        Verdict::Wait
    })
}

pub(crate) fn commit_prepared(shared: &Shared, one: &OneGid, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &one.dir, OpenMode::Existing)?;
    let lsn = database.two_phase().commit(&one.gid)?;
    close(database, &one.dir, output);
    let gid = &one.gid;
    output.answer(
        &json!({ "committed": gid, "lsn": lsn.to_string() }),
        format_args!("committed {gid:?} at {lsn}"),
    )
}

pub(crate) fn rollback_prepared(shared: &Shared, one: &OneGid, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &one.dir, OpenMode::Existing)?;
    let lsn = database.two_phase().rollback(&one.gid)?;
    close(database, &one.dir, output);
    let gid = &one.gid;
    output.answer(
        &json!({ "rolled_back": gid, "lsn": lsn.to_string() }),
        format_args!("rolled back {gid:?} at {lsn}"),
    )
}
