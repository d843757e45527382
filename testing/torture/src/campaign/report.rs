//! What a campaign has done and found, for people and for programs.

use std::fmt::Write;
use std::path::Path;

use serde_json::json;

use super::state::{State, replace};
use crate::error::TortureError;

/// Writes `report.md` and `report.json`. `names` are all tortures, in order.
pub(super) fn write(state: &State, names: &[&str], directory: &Path) -> Result<(), TortureError> {
    replace(directory, "report.md", markdown(state, names).as_bytes())?;
    let shares = state.shares.iter().map(|(name, share)| {
        let share = json!({
            "seeds": share.seeds,
            "first_seed": state.first_seed,
            "seconds": share.seconds,
            "findings": share.findings.len(),
            "skipped": share.skipped,
            "tried": share.tried,
        });
        (name.clone(), share)
    });
    let report = json!({
        "seconds": state.seconds,
        "findings": state.findings().collect::<Vec<_>>(),
        "tortures": shares.collect::<serde_json::Map<_, _>>(),
    });
    replace(directory, "report.json", &serde_json::to_vec_pretty(&report)?)
}

fn markdown(state: &State, names: &[&str]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    write_markdown(&mut text, state, names).expect("a string takes everything");
    text
}

fn write_markdown(text: &mut String, state: &State, names: &[&str]) -> std::fmt::Result {
    let found = state.findings().count();
    writeln!(text, "# Campaign: {found} found in {:.1} minutes\n", state.seconds / 60.0)?;
    writeln!(text, "| torture | seeds | first seed | minutes | found |\n|---|---:|---:|---:|---:|")?;
    let shares: Vec<_> = names.iter().filter_map(|name| Some((name, state.shares.get(*name)?))).collect();
    for (name, share) in &shares {
        let skipped = share.skipped.as_ref().map_or(String::new(), |reason| format!(" (skipped: {reason})"));
        let (minutes, found) = (share.seconds / 60.0, share.findings.len());
        let (seeds, first) = (share.seeds, state.first_seed);
        writeln!(text, "| {name}{skipped} | {seeds} | {first} | {minutes:.1} | {found} |")?;
    }
    for (name, share) in &shares {
        writeln!(text, "\n## {name}\n\n| what | count |\n|---|---:|")?;
        share.tried.iter().try_for_each(|(what, count)| writeln!(text, "| {what} | {count} |"))?;
        share.findings.iter().try_for_each(|finding| writeln!(text, "\n```text\n{finding}\n```"))?;
    }
    Ok(())
}
