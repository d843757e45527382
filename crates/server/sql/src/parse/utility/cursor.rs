//! `DECLARE`, `FETCH`, `MOVE`, `CLOSE`.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::reader::Reader;
use super::super::statement::{Declare, Direction, Dml, Fetch, Utility};

pub(super) fn declare(reader: &mut Reader<'_>) -> SqlResult<Declare> {
    reader.expect_word("declare")?;
    let name = reader.name()?;
    let (mut is_binary, mut is_scrollable, mut is_insensitive) = (false, None, None);
    loop {
        if reader.take_word("binary") {
            is_binary = true;
        } else if reader.take_word("scroll") {
            set_once(&mut is_scrollable, true, "SCROLL and NO SCROLL")?;
        } else if reader.take(&["no", "scroll"]) {
            set_once(&mut is_scrollable, false, "SCROLL and NO SCROLL")?;
        } else if reader.take_word("insensitive") {
            set_once(&mut is_insensitive, true, "ASENSITIVE and INSENSITIVE")?;
        } else if reader.take_word("asensitive") {
            set_once(&mut is_insensitive, false, "ASENSITIVE and INSENSITIVE")?;
        } else {
            break;
        }
    }
    reader.expect_word("cursor")?;
    let is_holdable = reader.take(&["with", "hold"]);
    if !is_holdable && reader.take_word("without") {
        reader.expect_word("hold")?;
    }
    reader.expect_word("for")?;
    let query = super::query(reader).map(Dml::Query)?;
    let is_insensitive = is_insensitive == Some(true);
    let text = reader.text().clone();
    Ok(Declare { name, is_binary, is_holdable, is_insensitive, is_scrollable, query, text })
}

fn set_once(option: &mut Option<bool>, value: bool, both: &str) -> SqlResult<()> {
    if option.replace(value).is_some_and(|before| before != value) {
        let message = format!("cannot specify both {both}");
        return Err(SqlError::new(SqlState::INVALID_CURSOR_DEFINITION, message));
    }
    Ok(())
}

/// `FETCH` or `MOVE`.
pub(super) fn fetch(reader: &mut Reader<'_>) -> SqlResult<Fetch> {
    let is_move = reader.is_word("move");
    reader.skip(1);
    let direction = direction(reader)?;
    reader.take_one_of(&["from", "in"]);
    Ok(Fetch { cursor: reader.name()?, direction, is_move })
}

/// Words that may also be the name of the cursor are that if nothing follows them.
fn direction(reader: &mut Reader<'_>) -> SqlResult<Direction> {
    const WORDS: [&str; 8] =
        ["next", "prior", "first", "last", "absolute", "relative", "forward", "backward"];
    if reader.take_word("all") {
        return Ok(Direction::Forward(i64::MAX));
    }
    if reader.peek(1).is_none() {
        return Ok(Direction::Forward(1));
    }
    let Some(word) = reader.take_one_of(&WORDS) else {
        return Ok(Direction::Forward(count(reader)?.unwrap_or(1)));
    };
    Ok(match word {
        "next" => Direction::Forward(1),
        "prior" => Direction::Backward(1),
        "first" => Direction::Absolute(1),
        "last" => Direction::Absolute(-1),
        "absolute" => Direction::Absolute(reader.integer()?),
        "relative" => Direction::Relative(reader.integer()?),
        "forward" if reader.take_word("all") => Direction::Forward(i64::MAX),
        "backward" if reader.take_word("all") => Direction::Backward(i64::MAX),
        "forward" => Direction::Forward(count(reader)?.unwrap_or(1)),
        _ => Direction::Backward(count(reader)?.unwrap_or(1)),
    })
}

fn count(reader: &mut Reader<'_>) -> SqlResult<Option<i64>> {
    use super::super::token::TokenKind as T;
    match reader.peek(0) {
        Some(T::Number(_) | T::Operator(_)) => reader.integer().map(Some),
        _ => Ok(None),
    }
}

pub(super) fn close(reader: &mut Reader<'_>) -> SqlResult<Utility> {
    reader.expect_word("close")?;
    if reader.take_word("all") {
        return Ok(Utility::Close(None));
    }
    Ok(Utility::Close(Some(reader.name()?)))
}
