//! `DROP` of objects of which Seawall has none but those of the system: scripts drop them if they exist, before they make them.

use seawall_values::SqlResult;

use super::super::reader::Reader;
use super::super::statement::definition::{AbsentKind, AbsentObject, Definition, DropAbsent, RoutineName};
use super::{behavior, function};

/// The words after `DROP`, and what they name.
const KINDS: [(&[&str], AbsentKind); 21] = [
    (&["access", "method"], AbsentKind::AccessMethod),
    (&["aggregate"], AbsentKind::Aggregate),
    (&["collation"], AbsentKind::Collation),
    (&["conversion"], AbsentKind::Conversion),
    (&["database"], AbsentKind::Database),
    (&["event", "trigger"], AbsentKind::EventTrigger),
    (&["extension"], AbsentKind::Extension),
    (&["foreign", "data", "wrapper"], AbsentKind::ForeignDataWrapper),
    (&["foreign", "table"], AbsentKind::ForeignTable),
    (&["function"], AbsentKind::Function),
    (&["language"], AbsentKind::Language),
    (&["policy"], AbsentKind::Policy),
    (&["procedure"], AbsentKind::Procedure),
    (&["publication"], AbsentKind::Publication),
    (&["routine"], AbsentKind::Routine),
    (&["rule"], AbsentKind::Rule),
    (&["server"], AbsentKind::Server),
    (&["statistics"], AbsentKind::Statistics),
    (&["subscription"], AbsentKind::Subscription),
    (&["tablespace"], AbsentKind::Tablespace),
    (&["trigger"], AbsentKind::Trigger),
];

/// After `DROP`; `None`: another kind of object.
pub(super) fn drop(reader: &mut Reader<'_>) -> SqlResult<Option<Definition>> {
    let Some((_, kind)) = KINDS.iter().find(|(words, _)| reader.take(words)) else { return Ok(None) };
    let kind = *kind;
    let if_exists = reader.if_exists();
    let objects = match kind {
        AbsentKind::Trigger | AbsentKind::Rule | AbsentKind::Policy => {
            let name = reader.object_name()?;
            reader.expect_word("on")?;
            vec![AbsentObject { name, arguments: None, table: Some(reader.object_name()?) }]
        }
        AbsentKind::Function | AbsentKind::Procedure | AbsentKind::Routine | AbsentKind::Aggregate => {
            reader.list(routine)?
        }
        _ => reader
            .list(|reader| Ok(AbsentObject { name: reader.object_name()?, arguments: None, table: None }))?,
    };
    if kind == AbsentKind::Database && (reader.take_word("with") || reader.is_character('(')) {
        reader.expect_character('(')?;
        reader.expect_word("force")?;
        reader.expect_character(')')?;
    }
    let behavior = behavior(reader);
    Ok(Some(Definition::DropAbsent(DropAbsent { kind, objects, if_exists, behavior })))
}

fn routine(reader: &mut Reader<'_>) -> SqlResult<AbsentObject> {
    let RoutineName { name, arguments } = function::routine(reader)?;
    Ok(AbsentObject { name, arguments, table: None })
}
