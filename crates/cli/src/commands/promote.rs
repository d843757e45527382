//! `promote`.

use std::time::Duration;

use seawall::DatabaseDirectory;
use serde_json::json;

use super::not_a_database;
use super::serve::control::{self, AskError};
use crate::arguments::Promote;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn promote(promote: &Promote, output: &mut Output) -> Result<(), Failure> {
    let (directory, limit) = (&promote.dir, Duration::from_secs(promote.wait));
    // An error says whether there is a database at all.
    DatabaseDirectory::at(directory).published_statistics().map_err(|error| not_a_database(error.into()))?;
    let shown = directory.display();
    let timeline = control::promote(directory, limit).map_err(|error| match error {
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
    output.answer(
        &json!({ "promoted": shown.to_string(), "timeline": timeline.parse::<u32>().ok() }),
        format_args!("the server of {shown} is a primary now, on timeline {timeline}"),
    )
}
