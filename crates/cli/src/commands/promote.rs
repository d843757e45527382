//! `promote`.

use std::time::Duration;

use seawall::DatabaseDirectory;
use serde_json::{Map, Value, json};

use super::not_a_database;
use super::serve::control::{self, AskError, Promoted};
use crate::arguments::Promote;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn promote(promote: &Promote, output: &mut Output) -> Result<(), Failure> {
    let (directory, limit) = (&promote.dir, Duration::from_secs(promote.wait));
    // An error says whether there is a database at all.
    DatabaseDirectory::at(directory).published_statistics().map_err(|error| not_a_database(error.into()))?;
    let shown = directory.display();
    let Promoted { timeline, phases } = control::promote(directory, limit).map_err(|error| match error {
        AskError::NotServed => Failure::Broken(format!(
            "no server follows another one with {shown}: start `seawall serve {shown} --follow ...` first"
        )),
        AskError::Refused(why) => Failure::Broken(format!("the server of {shown} was not promoted: {why}")),
        AskError::Io(source) => Failure::Io {
            what: format!(
                "the server of {shown} has not answered within {} s, and may be promoted yet: see pg_is_in_recovery()",
                promote.wait
            ),
            source,
        },
    })?;
    let micros: u64 = phases.iter().map(|(_, micros)| micros).sum();
    let by_phase: Map<String, Value> =
        phases.iter().map(|(name, micros)| (name.clone(), Value::from(*micros))).collect();
    let told: Vec<String> =
        phases.iter().map(|(name, micros)| format!("{name} {}", millis(*micros))).collect();
    output.answer(
        &json!({ "promoted": shown.to_string(), "timeline": timeline, "micros": micros, "phases": by_phase }),
        format_args!(
            "the server of {shown} is a primary now, on timeline {timeline}, after {} ms ({})",
            millis(micros),
            told.join(", ")
        ),
    )
}

fn millis(micros: u64) -> String {
    format!("{}.{:03}", micros / 1000, micros % 1000)
}
