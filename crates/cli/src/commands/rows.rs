//! `put`, `get`, `delete`, `scan`.

use std::io::Read;
use std::ops::Bound;

use seawall::OpenMode;
use serde_json::{Map, Value, json};

use super::{close, close_unfinished, open};
use crate::arguments::{Get, OneRow, Put, Scan, Shared};
use crate::failure::Failure;
use crate::files;
use crate::key_type::KeyNotation;
use crate::output::{Notation, Output};

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

pub(crate) fn put(shared: &Shared, put: &Put, output: &mut Output) -> Result<(), Failure> {
    let row = &put.row;
    let notation = Notation::new(row.hex);
    let key = key_of(row)?;
    let value = match (&put.value, &put.value_file) {
        (Some(text), _) => notation.parse(text)?,
        (None, Some(path)) => {
            let (mut input, _) = files::open_input(path)?;
            let mut bytes = Vec::new();
            input.read_to_end(&mut bytes).map_err(Failure::io(format!("cannot read {}", path.display())))?;
            bytes
        }
        (None, None) => return Err(Failure::Usage("give a value or --value-file".to_owned())),
    };
    let database = open(shared, &row.dir, OpenMode::Existing)?;
    let lsn = database.put(&database.table(&row.table)?, key, value)?;
    close(database, &row.dir, output);
    // The exit code says it all to a person; a program may want to know where it is.
    if output.json() { output.line(json!({ "lsn": lsn.to_string() })) } else { Ok(()) }
}

pub(crate) fn get(shared: &Shared, get: &Get, output: &mut Output) -> Result<(), Failure> {
    let row = &get.row;
    let notation = Notation::new(row.hex);
    let key_notation = KeyNotation::new(row.key_type.as_ref(), notation);
    let key = key_notation.parse(&row.key)?;
    let database = open(shared, &row.dir, OpenMode::ReadOnly)?;
    let Some(value) = database.get(&database.table(&row.table)?, &key)? else {
        return Err(no_such_key(row));
    };
    if get.raw {
        output.bytes(&value)
    } else if output.json() {
        output.line(row_json(&key, Some(&value), key_notation, notation)?)
    } else if row.hex {
        output.line(notation.show(&value))
    } else {
        output.bytes(&value)?;
        output.bytes(b"\n")
    }
}

pub(crate) fn delete(shared: &Shared, row: &OneRow, output: &mut Output) -> Result<(), Failure> {
    let key = key_of(row)?;
    let database = open(shared, &row.dir, OpenMode::Existing)?;
    let table = database.table(&row.table)?;
    let found = database.transact(|transaction| {
        let found = transaction.get_for_update(&table, &key)?.is_some();
        if found {
            transaction.delete(&table, &key)?;
        }
        Ok(found)
    })?;
    if !found {
        close_unfinished(database, &row.dir, output);
        return Err(no_such_key(row));
    }
    close(database, &row.dir, output);
    if output.json() { output.line(json!({ "deleted": 1 })) } else { Ok(()) }
}

pub(crate) fn scan(shared: &Shared, scan: &Scan, output: &mut Output) -> Result<(), Failure> {
    let notation = Notation::new(scan.hex);
    let keys = KeyNotation::new(scan.key_type.as_ref(), notation);
    let bounds = bounds(scan, keys)?;
    let database = open(shared, &scan.dir, OpenMode::ReadOnly)?;
    let table = database.table(&scan.table)?;
    let snapshot = database.snapshot();
    let mut rows =
        if scan.reverse { snapshot.range_reverse(&table, bounds) } else { snapshot.range(&table, bounds) };
    let mut left = scan.limit.unwrap_or(u64::MAX);
    while left > 0
        && let Some((key, value)) = rows.next_row()?
    {
        left -= 1;
        if output.json() {
            output.line(row_json(key, (!scan.keys_only).then_some(value), keys, notation)?)?;
        } else if scan.keys_only {
            output.line(keys.show(key)?)?;
        } else {
            output.line(format_args!("{}\t{}", keys.show(key)?, notation.show(value)))?;
        }
    }
    Ok(())
}

/// The key of a row that is named on the command line.
fn key_of(row: &OneRow) -> Result<Vec<u8>, Failure> {
    KeyNotation::new(row.key_type.as_ref(), Notation::new(row.hex)).parse(&row.key)
}

fn bounds(scan: &Scan, keys: KeyNotation<'_>) -> Result<Bounds, Failure> {
    let parse = |text: &Option<String>| text.as_deref().map(|text| keys.parse_beginning(text)).transpose();
    if let Some(prefix) = &scan.prefix {
        let prefix = keys.parse_prefix(prefix)?;
        let end = end_of_prefix(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
        return Ok((Bound::Included(prefix), end));
    }
    let start = parse(&scan.from)?.map_or(Bound::Unbounded, Bound::Included);
    let end = parse(&scan.to)?.map_or(Bound::Unbounded, Bound::Excluded);
    Ok((start, end))
}

/// The first byte string after all that start with `prefix`; `None` if there is none.
fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

fn row_json(
    key: &[u8],
    value: Option<&[u8]>,
    keys: KeyNotation<'_>,
    notation: Notation,
) -> Result<Value, Failure> {
    let mut object = Map::new();
    keys.set(&mut object, key)?;
    if let Some(value) = value {
        notation.set(&mut object, "value", value);
    }
    Ok(Value::from(object))
}

fn no_such_key(row: &OneRow) -> Failure {
    Failure::NoSuchKey { table: row.table.clone(), key: row.key.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_byte_string_without_it() {
        assert_eq!(end_of_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(end_of_prefix(b"a\xff"), Some(b"b".to_vec()));
        assert_eq!(end_of_prefix(b"\xff\xff"), None);
        assert_eq!(end_of_prefix(b""), None);
    }
}
