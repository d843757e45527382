//! `BEGIN`, `COMMIT`, `ROLLBACK`, savepoints, prepared transactions.

use seawall_values::SqlResult;

use super::super::reader::Reader;
use super::super::statement::{Isolation, Transaction, TransactionModes};

pub(super) fn transaction(reader: &mut Reader<'_>) -> SqlResult<Transaction> {
    const WORDS: [&str; 9] =
        ["begin", "start", "commit", "end", "abort", "rollback", "savepoint", "release", "prepare"];
    let word = reader.take_one_of(&WORDS).ok_or_else(|| reader.error())?;
    match word {
        "begin" => {
            reader.take_one_of(&["work", "transaction"]);
            Ok(Transaction::Begin(modes(reader)?, false))
        }
        "start" => {
            reader.expect_word("transaction")?;
            Ok(Transaction::Begin(modes(reader)?, true))
        }
        "commit" if reader.take_word("prepared") => Ok(Transaction::CommitPrepared(reader.string()?)),
        "commit" | "end" => Ok(Transaction::Commit(chain(reader)?)),
        "rollback" if reader.take_word("prepared") => Ok(Transaction::RollbackPrepared(reader.string()?)),
        "rollback" | "abort" => rollback(reader, word),
        "savepoint" => Ok(Transaction::Savepoint(reader.name()?)),
        "release" => {
            reader.take_word("savepoint");
            Ok(Transaction::Release(reader.name()?))
        }
        _ => {
            reader.expect_word("transaction")?;
            Ok(Transaction::Prepare(reader.string()?))
        }
    }
}

fn rollback(reader: &mut Reader<'_>, word: &str) -> SqlResult<Transaction> {
    reader.take_one_of(&["work", "transaction"]);
    if word == "rollback" && reader.take_word("to") {
        reader.take_word("savepoint");
        return Ok(Transaction::RollbackTo(reader.name()?));
    }
    Ok(Transaction::Rollback(chain(reader)?))
}

/// `AND CHAIN`.
fn chain(reader: &mut Reader<'_>) -> SqlResult<bool> {
    reader.take_one_of(&["work", "transaction"]);
    if !reader.take_word("and") {
        return Ok(false);
    }
    let is_not = reader.take_word("no");
    reader.expect_word("chain")?;
    Ok(!is_not)
}

/// Modes with or without commas between them. The last one of a kind counts.
pub(super) fn modes(reader: &mut Reader<'_>) -> SqlResult<TransactionModes> {
    let mut modes = TransactionModes::default();
    loop {
        if reader.take(&["isolation", "level"]) {
            modes.isolation = Some(isolation(reader)?);
        } else if reader.take(&["read", "only"]) {
            modes.is_read_only = Some(true);
        } else if reader.take(&["read", "write"]) {
            modes.is_read_only = Some(false);
        } else if reader.take_word("deferrable") {
            modes.is_deferrable = Some(true);
        } else if reader.take(&["not", "deferrable"]) {
            modes.is_deferrable = Some(false);
        } else if reader.take_one_of(&["read", "isolation", "not"]).is_some() {
            return Err(reader.error());
        } else if modes == TransactionModes::default() {
            return Ok(modes);
        } else {
            return if reader.is_at_end() { Ok(modes) } else { Err(reader.error()) };
        }
        if reader.take_character(',') && reader.is_at_end() {
            return Err(reader.error());
        }
    }
}

fn isolation(reader: &mut Reader<'_>) -> SqlResult<Isolation> {
    if reader.take(&["read", "uncommitted"]) {
        Ok(Isolation::ReadUncommitted)
    } else if reader.take(&["read", "committed"]) {
        Ok(Isolation::ReadCommitted)
    } else if reader.take(&["repeatable", "read"]) {
        Ok(Isolation::RepeatableRead)
    } else if reader.take_word("serializable") {
        Ok(Isolation::Serializable)
    } else {
        // The word that may begin a level is not the one that is wrong.
        if reader.is_word("read") || reader.is_word("repeatable") {
            reader.skip(1);
        }
        Err(reader.error())
    }
}
