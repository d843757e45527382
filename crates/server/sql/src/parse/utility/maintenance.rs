//! `VACUUM`, `ANALYZE`, `CHECKPOINT`, `CLUSTER`, `REINDEX`, `LOCK`, `TRUNCATE`.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::options::options;
use super::super::reader::Reader;
use super::super::statement::{MaintainedTable, Maintenance, Reindex, Reindexed, TableLock, Utility};

pub(super) fn maintenance(reader: &mut Reader<'_>) -> SqlResult<Maintenance> {
    const WORDS: [&str; 6] = ["vacuum", "analyze", "analyse", "checkpoint", "cluster", "reindex"];
    match reader.take_one_of(&WORDS).ok_or_else(|| reader.error())? {
        "vacuum" => vacuum(reader),
        "checkpoint" => Ok(Maintenance::Checkpoint),
        "cluster" => cluster(reader),
        "reindex" => reindex(reader),
        _ => analyze(reader),
    }
}

fn vacuum(reader: &mut Reader<'_>) -> SqlResult<Maintenance> {
    const OPTIONS: [&str; 11] = [
        "full",
        "freeze",
        "verbose",
        "analyze",
        "analyse",
        "disable_page_skipping",
        "skip_locked",
        "index_cleanup",
        "process_toast",
        "truncate",
        "parallel",
    ];
    let mut is_analyze = false;
    if reader.is_character('(') {
        for option in options(reader)? {
            if !OPTIONS.contains(&option.name.as_str()) {
                return Err(unrecognized("VACUUM", &option.name).at(option.position));
            }
            is_analyze |= option.name.starts_with("analy") && option.boolean()?;
        }
    } else {
        reader.take_word("full");
        reader.take_word("freeze");
        reader.take_word("verbose");
        is_analyze = reader.take_one_of(&["analyze", "analyse"]).is_some();
    }
    let tables = tables(reader)?;
    if !is_analyze && tables.iter().any(|table| !table.columns.is_empty()) {
        let message = "ANALYZE option must be specified when a column list is provided";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(Maintenance::Vacuum(tables, is_analyze))
}

fn analyze(reader: &mut Reader<'_>) -> SqlResult<Maintenance> {
    if reader.is_character('(') {
        for option in options(reader)? {
            if !["verbose", "skip_locked"].contains(&option.name.as_str()) {
                return Err(unrecognized("ANALYZE", &option.name).at(option.position));
            }
            option.boolean()?;
        }
    } else {
        reader.take_word("verbose");
    }
    Ok(Maintenance::Analyze(tables(reader)?))
}

fn unrecognized(command: &str, option: &str) -> Box<SqlError> {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("unrecognized {command} option \"{option}\""))
}

fn tables(reader: &mut Reader<'_>) -> SqlResult<Vec<MaintainedTable>> {
    if reader.is_at_end() {
        return Ok(Vec::new());
    }
    reader
        .list(|reader| Ok(MaintainedTable { name: reader.object_name()?, columns: reader.optional_names()? }))
}

fn cluster(reader: &mut Reader<'_>) -> SqlResult<Maintenance> {
    if reader.is_character('(') {
        options(reader)?;
    } else {
        reader.take_word("verbose");
    }
    if reader.is_at_end() {
        return Ok(Maintenance::Cluster(None));
    }
    let mut table = reader.object_name()?;
    if reader.take_word("using") {
        reader.name()?;
    } else if reader.take_word("on") {
        table = reader.object_name()?;
    }
    Ok(Maintenance::Cluster(Some(table)))
}

fn reindex(reader: &mut Reader<'_>) -> SqlResult<Maintenance> {
    let mut is_concurrent = false;
    if reader.is_character('(') {
        for option in options(reader)? {
            match option.name.as_str() {
                "concurrently" => is_concurrent = option.boolean()?,
                "verbose" => {
                    option.boolean()?;
                }
                "tablespace" => {}
                other => return Err(unrecognized("REINDEX", other).at(option.position)),
            }
        }
    }
    let what = match reader.take_one_of(&["index", "table", "schema", "database", "system"]) {
        Some("index") => Reindexed::Index,
        Some("table") => Reindexed::Table,
        Some("schema") => Reindexed::Schema,
        Some("database") => Reindexed::Database,
        Some(_) => Reindexed::System,
        None => return Err(reader.error()),
    };
    is_concurrent |= reader.take_word("concurrently");
    Ok(Maintenance::Reindex(Reindex { what, name: reader.object_name()?, is_concurrent }))
}

pub(super) fn lock(reader: &mut Reader<'_>) -> SqlResult<Utility> {
    reader.expect_word("lock")?;
    reader.take_word("table");
    let tables = reader.list(Reader::relation_name)?;
    let mode = if reader.take_word("in") {
        let mode = table_lock(reader)?;
        reader.expect_word("mode")?;
        mode
    } else {
        TableLock::AccessExclusive
    };
    Ok(Utility::Lock { tables, mode, is_nowait: reader.take_word("nowait") })
}

fn table_lock(reader: &mut Reader<'_>) -> SqlResult<TableLock> {
    let modes: [(&[&str], TableLock); 8] = [
        (&["access", "share"], TableLock::AccessShare),
        (&["row", "share"], TableLock::RowShare),
        (&["row", "exclusive"], TableLock::RowExclusive),
        (&["share", "update", "exclusive"], TableLock::ShareUpdateExclusive),
        (&["share", "row", "exclusive"], TableLock::ShareRowExclusive),
        (&["share"], TableLock::Share),
        (&["exclusive"], TableLock::Exclusive),
        (&["access", "exclusive"], TableLock::AccessExclusive),
    ];
    let mode = modes.into_iter().find(|(words, _)| reader.take(words)).map(|(_, mode)| mode);
    mode.ok_or_else(|| reader.error())
}

pub(super) fn truncate(reader: &mut Reader<'_>) -> SqlResult<Utility> {
    reader.expect_word("truncate")?;
    reader.take_word("table");
    let tables = reader.list(Reader::relation_name)?;
    let is_restarting = reader.take(&["restart", "identity"]);
    if !is_restarting {
        reader.take(&["continue", "identity"]);
    }
    let is_cascading = reader.take_one_of(&["cascade", "restrict"]) == Some("cascade");
    Ok(Utility::Truncate { tables, is_restarting, is_cascading })
}
