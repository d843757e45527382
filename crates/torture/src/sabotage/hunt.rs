//! One defect after the other, and for each one hunter after the other.

use std::process::Command;
use std::time::Duration;

use seawall_io::sabotage::{Defect, VARIABLE};
use serde_json::json;

use super::child::{self, Ended, Outcome};
use super::hunters::{self, Hunter};
use super::table::{Find, MARKDOWN_HEAD, Row};
use crate::arguments::SabotageOptions;
use crate::error::TortureError;

/// Who takes so many times as long as on the healthy engine, and this much more, hangs.
const SLOWER_MAX: u32 = 6;
const LONGER_MAX: Duration = Duration::from_secs(60);
/// Who has taken so long on the healthy engine is not controlled once more: what he finds is tried again without the defect.
const CONTROLS_MAX: Duration = Duration::from_secs(10);
/// Of the control run, where it is not known yet how long anybody takes.
const CONTROL_MAX: Duration = Duration::from_secs(1800);

/// So often nothing is found without the defect, where something was found with it.
const CONFIRMATIONS: u32 = 2;

/// A hunter, and how long he takes to find nothing, at most.
struct Rated {
    hunter: Hunter,
    healthy: Duration,
}

/// Hunts for the defects that the options name, or for all; whether all were found.
pub(super) fn hunt_all(options: &SabotageOptions, as_json: bool) -> Result<bool, TortureError> {
    if options.list {
        Defect::ALL.iter().for_each(|defect| println!("{:<32} {}", defect.name(), defect.broken()));
        return Ok(true);
    }
    let defects = chosen(&options.defect)?;
    let hunters = control(wanted(hunters::all(options.seed)?, &options.hunter), options)?;
    if options.markdown {
        println!("{MARKDOWN_HEAD}");
    }
    let (mut found, mut by_tortures, total) = (0, 0, defects.len());
    for defect in defects {
        let row = hunt(defect, &hunters, options.seed)?;
        found += usize::from(row.first.is_some());
        by_tortures += usize::from(row.torture.is_some());
        println!(
            "{}",
            match (as_json, options.markdown) {
                (true, _) => row.json(),
                (false, true) => row.markdown(),
                (false, false) => row.text(),
            }
        );
    }
    if as_json {
        println!("{}", json!({ "found": found, "found_by_tortures": by_tortures, "total": total }));
    } else {
        println!("\n{found} of {total} defects found, {by_tortures} by tortures");
    }
    Ok(found == total)
}

fn chosen(names: &[String]) -> Result<Vec<Defect>, TortureError> {
    if names.is_empty() {
        return Ok(Defect::ALL.to_vec());
    }
    let find = |name: &String| {
        let found = Defect::ALL.iter().copied().find(|defect| defect.name() == name);
        found.ok_or_else(|| TortureError::NoSuchDefect { name: name.clone() })
    };
    names.iter().map(find).collect()
}

/// Those whose names have one of `parts` in them.
fn wanted(mut hunters: Vec<Hunter>, parts: &[String]) -> Vec<Hunter> {
    hunters.retain(|hunter| parts.is_empty() || parts.iter().any(|part| hunter.name.contains(part)));
    hunters
}

/// Lets everybody look at the healthy engine, several times. Whoever cannot work on this machine is left out; whoever
/// finds something would find it with every defect. The fast ones come first.
fn control(hunters: Vec<Hunter>, options: &SabotageOptions) -> Result<Vec<Rated>, TortureError> {
    let mut rated = Vec::new();
    for hunter in hunters {
        let (mut slowest, mut all) = (Some(Duration::ZERO), Duration::ZERO);
        for number in 0..options.controls.max(1) {
            if number > 0 && all > CONTROLS_MAX {
                break;
            }
            let outcome = child::run(planted(hunter.command(), None), CONTROL_MAX)?;
            all += outcome.time;
            eprintln!("healthy: {}: {:?} in {:.1} s", hunter.name, outcome.ended, outcome.time.as_secs_f64());
            match outcome.ended {
                Ended::Quietly => slowest = slowest.max(Some(outcome.time)),
                Ended::Failed(Some(code)) if code == i32::from(crate::UNAVAILABLE) => slowest = None,
                _ if options.keep_going => slowest = None,
                Ended::TestFailed(_) | Ended::Failed(_) | Ended::Hung => {
                    let why = outcome.panic.unwrap_or(outcome.last_line);
                    let what = format!("{:?}: {why}", outcome.ended);
                    return Err(TortureError::Unhealthy { hunter: hunter.name, what });
                }
            }
            if slowest.is_none() {
                break;
            }
        }
        rated.extend(slowest.map(|healthy| Rated { hunter, healthy }));
    }
    rated.sort_by_key(|rated| rated.healthy);
    Ok(rated)
}

fn hunt(defect: Defect, hunters: &[Rated], seed: u64) -> Result<Row, TortureError> {
    let is_near = |rated: &&Rated| rated.hunter.package.as_deref() == Some(defect.package());
    let near = hunters.iter().filter(is_near);
    let others = hunters.iter().filter(|rated| !is_near(rated));
    let mut row = Row { defect, first: None, torture: None, time: Duration::ZERO };
    for rated in near.chain(others) {
        row.first = try_one(rated, defect, seed, &mut row.time)?;
        if row.first.is_some() {
            if rated.hunter.is_torture {
                row.torture.clone_from(&row.first);
                return Ok(row);
            }
            break;
        }
    }
    if row.first.is_none() {
        return Ok(row);
    }
    for rated in hunters.iter().filter(|rated| rated.hunter.is_torture) {
        row.torture = try_one(rated, defect, seed, &mut row.time)?;
        if row.torture.is_some() {
            break;
        }
    }
    Ok(row)
}

/// One hunter after one defect. What he would find without it, too, is no find.
fn try_one(
    rated: &Rated,
    defect: Defect,
    seed: u64,
    time: &mut Duration,
) -> Result<Option<Find>, TortureError> {
    let limit = rated.healthy * SLOWER_MAX + LONGER_MAX;
    let mut run = |command, defect| -> Result<Outcome, TortureError> {
        let outcome = child::run(planted(command, defect), limit)?;
        *time += outcome.time;
        Ok(outcome)
    };
    let mut outcome = run(rated.hunter.command(), Some(defect))?;
    if outcome.ended == Ended::Hung {
        // Twice, or it was the machine.
        outcome = run(rated.hunter.command(), Some(defect))?;
    }
    let Some(find) = Find::new(&rated.hunter, &outcome, seed) else { return Ok(None) };
    for _ in 0..CONFIRMATIONS {
        let healthy = run(rated.hunter.repeat(&outcome), None)?;
        if healthy.ended != Ended::Quietly {
            let name = &rated.hunter.name;
            eprintln!("{}: {name}: not counted: without it {healthy:?}", defect.name());
            return Ok(None);
        }
    }
    Ok(Some(find))
}

/// With the defect, or with none.
fn planted(mut command: Command, defect: Option<Defect>) -> Command {
    command.env(VARIABLE, defect.map_or("", Defect::name));
    command
}
