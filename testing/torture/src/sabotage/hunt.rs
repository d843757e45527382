//! One defect after the other, and for each one hunter after the other.

use std::cell::OnceCell;
use std::process::Command;
use std::time::Duration;

use seawall_io::sabotage::{DeclaredDefect, VARIABLE};
use serde_json::json;

use super::beyond;
use super::defects;
use super::hunters::{self, Hunter};
use super::table::{Find, MARKDOWN_HEAD, Row};
use crate::arguments::SabotageOptions;
use crate::child::{self, Ended, Outcome};
use crate::error::TortureError;
use crate::finding::say;

/// Who takes so many times as long as on the healthy engine, and this much more, hangs.
const SLOWER_MAX: u32 = 6;
const LONGER_MAX: Duration = Duration::from_secs(60);
/// Who has taken so long on the healthy engine is not controlled once more: what he finds is tried again without the defect.
const CONTROLS_MAX: Duration = Duration::from_secs(10);
/// Of the control run, where it is not known yet how long anybody takes.
const CONTROL_MAX: Duration = Duration::from_secs(1800);

/// So often nothing is found without the defect, where something was found with it.
const CONFIRMATIONS: u32 = 2;
/// In so many further tries with the defect something is found once more: a race may need some, and what was only a busy machine
/// is not taken for a find.
const TRIES_AGAIN: u32 = 5;

/// A hunter, controlled when he is needed first.
struct Controlled<'o> {
    hunter: Hunter,
    options: &'o SabotageOptions,
    healthy: OnceCell<Healthy>,
}

/// What the healthy engine is for a hunter.
#[derive(Clone, Copy, Debug)]
enum Healthy {
    /// He finds nothing, in so much time at most.
    For(Duration),
    /// He cannot work on this machine, or is left out.
    LeftOut,
}

/// Hunts for the defects that the options name, or for all; whether each was found, by a torture, too, if it is not beyond them.
pub(super) fn hunt_all(options: &SabotageOptions, as_json: bool) -> Result<bool, TortureError> {
    if options.list {
        defects::all().for_each(|defect| {
            say(format_args!("{:<32} {}", defect.name, defect.broken));
        });
        return Ok(true);
    }
    let chosen = chosen(&options.defect)?;
    let hunters: Vec<Controlled<'_>> = wanted(hunters::all(options.seed)?, &options.hunter)
        .into_iter()
        .map(|hunter| Controlled { hunter, options, healthy: OnceCell::new() })
        .collect();
    if options.markdown {
        say(MARKDOWN_HEAD);
    }
    let has_tortures = hunters.iter().any(|controlled| controlled.hunter.is_torture);
    let mut all_found = true;
    let (mut found, mut by_tortures, mut beyond, total) = (0, 0, 0, chosen.len());
    for defect in chosen {
        let row = hunt(defect, &hunters)?;
        all_found &= row.is_found(has_tortures);
        found += usize::from(row.first.is_some());
        by_tortures += usize::from(row.torture.is_some());
        beyond += usize::from(row.why_no_torture.is_some());
        say(match (as_json, options.markdown) {
            (true, _) => row.json(),
            (false, true) => row.markdown(),
            (false, false) => row.text(),
        });
    }
    if as_json {
        say(
            json!({ "found": found, "found_by_tortures": by_tortures, "beyond_tortures": beyond, "total": total }),
        );
    } else {
        say(format_args!(
            "\n{found} of {total} defects found, {by_tortures} by tortures; {beyond} are beyond them"
        ));
    }
    Ok(all_found)
}

fn chosen(names: &[String]) -> Result<Vec<&'static DeclaredDefect>, TortureError> {
    if names.is_empty() {
        return Ok(defects::all().collect());
    }
    let find =
        |name: &String| defects::find(name).ok_or_else(|| TortureError::NoSuchDefect { name: name.clone() });
    names.iter().map(find).collect()
}

/// Those whose names have one of `parts` in them.
fn wanted(mut hunters: Vec<Hunter>, parts: &[String]) -> Vec<Hunter> {
    hunters.retain(|hunter| parts.is_empty() || parts.iter().any(|part| hunter.name.contains(part)));
    hunters
}

impl Controlled<'_> {
    /// Lets him look at the healthy engine, several times, if he has not yet. Who finds something there would find it with
    /// every defect.
    fn healthy(&self) -> Result<Healthy, TortureError> {
        if let Some(healthy) = self.healthy.get() {
            return Ok(*healthy);
        }
        let healthy = self.control()?;
        Ok(*self.healthy.get_or_init(|| healthy))
    }

    fn control(&self) -> Result<Healthy, TortureError> {
        let (mut slowest, mut all, mut number) = (Duration::ZERO, Duration::ZERO, 0);
        while number == 0 || number < self.options.controls && all < CONTROLS_MAX {
            let outcome = child::run(planted(self.hunter.command(), None), CONTROL_MAX, |_| {})?;
            let (name, seconds) = (&self.hunter.name, outcome.time.as_secs_f64());
            eprintln!("healthy: {name}: {:?} in {seconds:.1} s", outcome.ended);
            match outcome.ended {
                Ended::Quietly => {}
                Ended::Failed(code) if code == i32::from(crate::UNAVAILABLE) => {
                    return Ok(Healthy::LeftOut);
                }
                _ if self.options.keep_going => return Ok(Healthy::LeftOut),
                Ended::TestFailed(_) | Ended::Failed(_) | Ended::Crashed(_) | Ended::Hung => {
                    let why = outcome.panic.unwrap_or(outcome.last_line);
                    let what = format!("{:?}: {why}", outcome.ended);
                    return Err(TortureError::Unhealthy { hunter: name.clone(), what });
                }
            }
            slowest = slowest.max(outcome.time);
            all += outcome.time;
            number += 1;
        }
        Ok(Healthy::For(slowest))
    }

    /// After one defect. What he would find without it, too, is no find.
    fn hunt(&self, defect: &DeclaredDefect, time: &mut Duration) -> Result<Option<Find>, TortureError> {
        let Healthy::For(healthy) = self.healthy()? else { return Ok(None) };
        let limit = healthy * SLOWER_MAX + LONGER_MAX;
        let mut run = |command, defect| -> Result<Outcome, TortureError> {
            let outcome = child::run(planted(command, defect), limit, |_| {})?;
            *time += outcome.time;
            Ok(outcome)
        };
        let mut outcome = run(self.hunter.command(), Some(defect))?;
        if outcome.ended == Ended::Hung {
            // Twice, or it was the machine.
            outcome = run(self.hunter.command(), Some(defect))?;
        }
        if let Ended::Failed(code) = outcome.ended
            && self.is_no_find(&outcome)
        {
            let what = format!("exit code {code}, nothing was tried: {}", outcome.last_error);
            self.not_counted(defect, &what);
            return Ok(None);
        }
        let Some(find) = Find::new(&self.hunter, &outcome, self.options.seed) else { return Ok(None) };
        for _ in 0..CONFIRMATIONS {
            for command in [self.hunter.repeat(&outcome), self.hunter.command()] {
                let healthy = run(command, None)?;
                if healthy.ended != Ended::Quietly {
                    // Perhaps a find of its own.
                    let Outcome { scratch, ended, panic, last_line, .. } = healthy;
                    let kept = scratch.keep();
                    let what = panic.as_ref().unwrap_or(&last_line);
                    self.not_counted(
                        defect,
                        &format!("without it {ended:?}, {what}; see {}", kept.display()),
                    );
                    return Ok(None);
                }
            }
        }
        for _ in 0..TRIES_AGAIN {
            let again = run(self.hunter.command(), Some(defect))?;
            if again.ended != Ended::Quietly && !self.is_no_find(&again) {
                return Ok(Some(find));
            }
        }
        let what = outcome.panic.as_ref().unwrap_or(&outcome.last_line);
        self.not_counted(defect, &format!("seen once and not again: {what}"));
        Ok(None)
    }

    /// The chamber itself failed, or cannot work here: nothing is said about the engine.
    fn is_no_find(&self, outcome: &Outcome) -> bool {
        let codes = [crate::FAILED, crate::UNAVAILABLE].map(i32::from);
        self.hunter.is_torture && matches!(outcome.ended, Ended::Failed(code) if codes.contains(&code))
    }

    fn not_counted(&self, defect: &DeclaredDefect, why: &str) {
        eprintln!("{}: {}: not counted: {why}", defect.name, self.hunter.name);
    }
}

fn hunt(defect: &'static DeclaredDefect, hunters: &[Controlled<'_>]) -> Result<Row, TortureError> {
    let is_near = |controlled: &&Controlled<'_>| controlled.hunter.package.as_deref() == Some(defect.package);
    let near = hunters.iter().filter(is_near);
    let others = hunters.iter().filter(|controlled| !is_near(controlled));
    let why_no_torture = beyond::why(defect.name);
    let mut row = Row { defect, first: None, torture: None, why_no_torture, time: Duration::ZERO };
    for controlled in near.chain(others) {
        row.first = controlled.hunt(defect, &mut row.time)?;
        if row.first.is_some() {
            if controlled.hunter.is_torture {
                row.torture.clone_from(&row.first);
                return Ok(row);
            }
            break;
        }
    }
    if row.first.is_none() || row.why_no_torture.is_some() {
        return Ok(row);
    }
    for controlled in hunters.iter().filter(|controlled| controlled.hunter.is_torture) {
        row.torture = controlled.hunt(defect, &mut row.time)?;
        if row.torture.is_some() {
            break;
        }
    }
    Ok(row)
}

/// With the defect, or with none.
fn planted(mut command: Command, defect: Option<&DeclaredDefect>) -> Command {
    command.env(VARIABLE, defect.map_or("", |defect| defect.name));
    command
}
