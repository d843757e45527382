//! `switchover`.

use seawall::DatabaseDirectory;
use serde_json::json;

use super::not_a_database;
use super::serve::control::{self, AskError, SwitchoverAsked};
use crate::arguments::Switchover;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn switchover(switchover: &Switchover, output: &mut Output) -> Result<(), Failure> {
    let directory = &switchover.dir;
    // An error says whether there is a database at all.
    DatabaseDirectory::at(directory).published_statistics().map_err(|error| not_a_database(error.into()))?;
    let shown = directory.display();
    let asked = SwitchoverAsked {
        to: switchover.to.clone(),
        follow: switchover.follow.clone(),
        wait_seconds: switchover.wait,
    };
    let (timeline, parked_ms) = control::switch_over(directory, &asked).map_err(|error| match error {
        AskError::NotServed => {
            Failure::Broken(format!("no server serves {shown}: start `seawall serve {shown}` first"))
        }
        AskError::Refused(why) => Failure::Broken(format!("there was no switchover of {shown}: {why}")),
        AskError::Io(source) => Failure::Io {
            what: format!("the server of {shown} has not said what became of the switchover: see its log"),
            source,
        },
    })?;
    output.answer(
        &json!({ "switched_over": shown.to_string(), "timeline": timeline, "parked_milliseconds": parked_ms }),
        format_args!(
            "the server of {shown} becomes a standby; the new primary is on timeline {timeline}, and writes waited for {parked_ms} ms"
        ),
    )
}
