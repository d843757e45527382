//! `new-timeline`, `restore-point`, `release-hold`.

use seawall::{DatabaseDirectory, OpenMode, TimelineId};
use serde_json::json;

use super::{close, not_a_database, open, options};
use crate::arguments::{NamedInLog, NewTimeline, Shared};
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn new_timeline(shared: &Shared, new: &NewTimeline, output: &mut Output) -> Result<(), Failure> {
    let options = options(shared, OpenMode::Existing);
    let number = new.number.and_then(TimelineId::new);
    let database = DatabaseDirectory::at(&new.dir)
        .open_on_new_timeline(options, seawall::NewTimeline { reason: &new.reason, number })
        .map_err(|error| not_a_database(error.into()))?;
    let timeline = database.log().timeline();
    close(database, &new.dir, output);
    output.answer(
        &json!({ "timeline": timeline.get() }),
        format_args!("the log continues on timeline {timeline}"),
    )
}

pub(crate) fn restore_point(shared: &Shared, point: &NamedInLog, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &point.dir, OpenMode::Existing)?;
    let lsn = database.log().create_restore_point(&point.name)?;
    close(database, &point.dir, output);
    let name = &point.name;
    output.answer(
        &json!({ "restore_point": name, "lsn": lsn.to_string() }),
        format_args!("restore point {name:?} at {lsn}"),
    )
}

pub(crate) fn release_hold(shared: &Shared, hold: &NamedInLog, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &hold.dir, OpenMode::Existing)?;
    database.log().release_hold(&hold.name)?;
    close(database, &hold.dir, output);
    let name = &hold.name;
    output.answer(&json!({ "released": name }), format_args!("nothing is held for {name:?} any more"))
}
