//! What became of each defect, as a table.

use std::time::Duration;

use seawall_io::sabotage::DeclaredDefect;
use serde_json::{Value, json};

use super::hunters::Hunter;
use crate::child::{Ended, Outcome};

/// A defect and who found it.
pub(super) struct Row {
    pub(super) defect: &'static DeclaredDefect,
    /// By whoever was first.
    pub(super) first: Option<Find>,
    /// By the first of the tortures.
    pub(super) torture: Option<Find>,
    /// Known to be none of theirs.
    pub(super) why_no_torture: Option<&'static str>,
    /// Of all hunters that tried.
    pub(super) time: Duration,
}

/// How it was found.
#[derive(Clone)]
pub(super) struct Find {
    hunter: String,
    test: Option<String>,
    /// What the hunter says: a finding, or a panic.
    reason: Option<String>,
    is_hang: bool,
    seeds: Option<u64>,
    /// Of the hunter who found it.
    time: Duration,
}

impl Find {
    /// What a hunter came back with; `None` if he found nothing.
    pub(super) fn new(hunter: &Hunter, outcome: &Outcome, first_seed: u64) -> Option<Find> {
        let test = match &outcome.ended {
            Ended::Quietly => return None,
            Ended::TestFailed(test) => Some(test.clone()),
            Ended::Failed(_) | Ended::Crashed(_) | Ended::Hung => None,
        };
        let finding = outcome.finding();
        let seed = finding.as_ref().and_then(|finding| finding["seed"].as_u64());
        let what = finding.as_ref().and_then(|finding| finding["what"].as_str());
        Some(Find {
            hunter: hunter.name.clone(),
            test,
            reason: what.map(first_line).or(outcome.panic.clone()),
            is_hang: outcome.ended == Ended::Hung,
            seeds: seed.map(|seed| seed.saturating_sub(first_seed) + 1),
            time: outcome.time,
        })
    }

    fn who(&self) -> String {
        let test = self.test.as_ref().map_or(String::new(), |test| format!(", {test}"));
        let hang = if self.is_hang { ", which hung" } else { "" };
        format!("{}{test}{hang}", self.hunter)
    }

    /// How much it took.
    fn cost(&self) -> String {
        let seeds = match self.seeds {
            Some(1) => "1 seed, ".to_owned(),
            Some(seeds) => format!("{seeds} seeds, "),
            None => String::new(),
        };
        format!("{seeds}{:.1} s", self.time.as_secs_f64())
    }

    fn json(&self) -> Value {
        json!({
            "hunter": self.hunter,
            "test": self.test,
            "reason": self.reason,
            "hung": self.is_hang,
            "seeds": self.seeds,
            "seconds": self.time.as_secs_f64(),
        })
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// One of the two columns.
fn told(find: Option<&Find>) -> String {
    find.map_or("nobody".to_owned(), |find| format!("{} ({})", find.who(), find.cost()))
}

impl Row {
    /// By somebody, and by a torture if some hunt and it is one of theirs.
    pub(super) fn is_found(&self, has_tortures: bool) -> bool {
        let needs_torture = has_tortures && self.why_no_torture.is_none();
        self.first.is_some() && (self.torture.is_some() || !needs_torture)
    }

    /// Some lines for people.
    pub(super) fn text(&self) -> String {
        let reason = |find: Option<&Find>| match find.and_then(|find| find.reason.as_ref()) {
            Some(reason) => format!("\n             {reason}"),
            None => String::new(),
        };
        let (first, torture) = (self.first.as_ref(), self.torture.as_ref());
        format!(
            "{}: {}\n    first:   {}{}\n    torture: {}{}",
            self.defect.name,
            self.defect.broken,
            told(first),
            reason(first),
            self.told_torture(),
            reason(torture)
        )
    }

    fn told_torture(&self) -> String {
        match (&self.torture, self.why_no_torture) {
            (None, Some(why)) => format!("none: {why}"),
            (torture, _) => told(torture.as_ref()),
        }
    }

    /// One line of a document.
    pub(super) fn markdown(&self) -> String {
        format!(
            "| `{}`: {} | {} | {} | {} |",
            self.defect.name,
            self.defect.broken,
            self.defect.breaks,
            told(self.first.as_ref()),
            self.told_torture()
        )
        .replace("seawall-torture ", "")
    }

    /// One line for programs.
    pub(super) fn json(&self) -> String {
        let row = json!({
            "defect": self.defect.name,
            "broken": self.defect.broken,
            "breaks": self.defect.breaks,
            "first": self.first.as_ref().map(Find::json),
            "torture": self.torture.as_ref().map(Find::json),
            "why_no_torture": self.why_no_torture,
            "seconds_of_all": self.time.as_secs_f64(),
        });
        row.to_string()
    }
}

/// Above the lines of [`Row::markdown`].
pub(super) const MARKDOWN_HEAD: &str = "| defect: what is broken | what should come of it | found first by | torture that finds it |\n|---|---|---|---|";
