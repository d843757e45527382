//! In-doubt transactions in the system table `prepared`. A checkpoint enters those that are in doubt at its freeze point
//! and takes out those that were decided; a transaction prepared and decided between two checkpoints never comes here.
//!
//! | bytes | field | of  | meaning                                                                                   |
//! |------:|-------|-----|-------------------------------------------------------------------------------------------|
//! |     8 | stamp | key | of the prepare: the LSN after its record, big-endian                                      |
//! |     4 | part  | key | 0, 1, ..., big-endian: a long body is divided among several rows of 1 MiB                 |
//! |     1 | version | value of part 0 | 1                                                                               |
//! |     8 | body length | value of part 0 | of all parts together, little-endian                                        |
//! |       | body  | value | the body of the prepare record (`wal::prepared`), or a part of it                       |

use seawall_tree::page::LeafValue;
use seawall_tree::{Direction, Tree};
use seawall_types::{Lsn, TableId};
use seawall_wal::RECORD_BYTES_MAX;

use crate::error::Error;
use crate::row_key;

/// The system table.
pub(crate) const PREPARED: TableId = TableId::new(3);

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 9;
const PART_BYTES: usize = 1 << 20;

/// Row key of a part.
pub(crate) fn part_key(stamp: Lsn, part: u32) -> Vec<u8> {
    let mut key = stamp.get().to_be_bytes().to_vec();
    key.extend_from_slice(&part.to_be_bytes());
    row_key::encode(PREPARED, &key)
}

/// How many rows a body takes.
pub(crate) fn part_count(body_bytes: usize) -> u32 {
    u32::try_from(body_bytes.div_ceil(PART_BYTES).max(1)).expect("a record has at most 1 GiB")
}

/// The rows of a prepared transaction.
pub(crate) fn rows_of(stamp: Lsn, body: &[u8]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    (0..part_count(body.len())).map(move |part| {
        let start = usize::try_from(part).expect("a small count") * PART_BYTES;
        let bytes = &body[start..body.len().min(start + PART_BYTES)];
        let mut value = Vec::with_capacity(HEAD_BYTES + bytes.len());
        if part == 0 {
            value.push(VERSION);
            value.extend_from_slice(&length_of(body).to_le_bytes());
        }
        value.extend_from_slice(bytes);
        (part_key(stamp, part), value)
    })
}

fn length_of(body: &[u8]) -> u64 {
    u64::try_from(body.len()).expect("a record has at most 1 GiB")
}

/// Length of the whole body, and its first part, from the value of part 0.
pub(crate) fn first_part(stamp: Lsn, value: &[u8]) -> Result<(usize, &[u8]), Error> {
    let refuse = |problem| damaged(stamp, problem);
    let (head, body) =
        value.split_first_chunk::<HEAD_BYTES>().ok_or_else(|| refuse("the row is too short"))?;
    if head[0] != VERSION {
        return Err(refuse("the row has an unknown version"));
    }
    let (_, length) = head.split_last_chunk::<8>().expect("nine bytes hold eight");
    let length = u64::from_le_bytes(*length);
    let length = usize::try_from(length).ok().filter(|_| length <= RECORD_BYTES_MAX);
    let length = length.ok_or_else(|| refuse("no body is as long as the row says"))?;
    if body.len() != length.min(PART_BYTES) {
        return Err(refuse("the first row has not the length of a part"));
    }
    Ok((length, body))
}

/// Puts a body together from its rows; `read` gives the value of a row.
pub(crate) fn read_body(
    stamp: Lsn,
    mut read: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, Error>,
) -> Result<Vec<u8>, Error> {
    let missing = || damaged(stamp, "a row is missing");
    let first = read(&part_key(stamp, 0))?.ok_or_else(missing)?;
    let (length, body) = first_part(stamp, &first)?;
    let mut body = body.to_vec();
    for part in 1..part_count(length) {
        let value = read(&part_key(stamp, part))?.ok_or_else(missing)?;
        if value.len() != (length - body.len()).min(PART_BYTES) {
            return Err(damaged(stamp, "a row has not the length of a part"));
        }
        body.extend_from_slice(&value);
    }
    Ok(body)
}

/// What is wrong with the rows of a prepared transaction.
pub(crate) fn damaged(stamp: Lsn, problem: &'static str) -> Error {
    Error::Catalog { place: format!("the transaction prepared at {stamp}"), problem }
}

/// All in-doubt transactions in a tree that nobody changes meanwhile: the stamp of each, and its body if that is not
/// longer than `kept_bytes`.
pub(crate) fn read_all(tree: &Tree, kept_bytes: usize) -> Result<Vec<StoredPrepared>, Error> {
    let failed = |error| Error::tree(&error);
    let (from, to) = row_key::table_range(PREPARED);
    let mut found = Vec::new();
    let mut position = tree.leaf_for(&from, Direction::Forward).map_err(failed)?;
    loop {
        let leaf = position.leaf();
        for index in 0..leaf.len() {
            let row = leaf.row(index);
            let mut key = leaf.prefix().to_vec();
            key.extend_from_slice(row.key.suffix());
            if key < from {
                continue;
            }
            if key >= to {
                return Ok(found);
            }
            let (stamp, part) = decode_key(&key)?;
            if part > 0 {
                continue;
            }
            let value = match row.value {
                LeafValue::Inline(value) => value.to_vec(),
                LeafValue::Overflow(reference) => tree
                    .read_overflow(reference, position.version())
                    .map_err(failed)?
                    .ok_or_else(|| damaged(stamp, "the tree changed while it was read"))?,
            };
            let (length, body) = first_part(stamp, &value)?;
            let body = (length <= kept_bytes && length <= PART_BYTES).then(|| body.into());
            found.push(StoredPrepared { stamp, body_bytes: length, body });
        }
        if !tree.move_on(&mut position, Direction::Forward).map_err(failed)? {
            return Ok(found);
        }
    }
}

/// A row of the system table.
pub(crate) struct StoredPrepared {
    pub(crate) stamp: Lsn,
    pub(crate) body_bytes: usize,
    pub(crate) body: Option<std::sync::Arc<[u8]>>,
}

fn decode_key(row_key: &[u8]) -> Result<(Lsn, u32), Error> {
    let refuse = || Error::Catalog {
        place: format!("key {row_key:02x?} of prepared transactions"),
        problem: "the key is not 12 bytes long",
    };
    let (stamp, part) = row_key::key_of(row_key).split_first_chunk::<8>().ok_or_else(refuse)?;
    let part = part.try_into().map_err(|_| refuse())?;
    Ok((Lsn::new(u64::from_be_bytes(*stamp)), u32::from_be_bytes(part)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn read(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Vec<u8>, Error> {
        read_body(Lsn::new(9), |key| Ok(rows.get(key).cloned()))
    }

    #[test]
    fn bodies_of_any_length_come_back_from_their_rows() {
        for length in [1, 100, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES] {
            let body: Vec<u8> = (0..length).map(|index| index.to_le_bytes()[0]).collect();
            let rows: BTreeMap<_, _> = rows_of(Lsn::new(9), &body).collect();
            assert_eq!(rows.len(), usize::try_from(part_count(length)).unwrap());
            assert!(rows.values().all(|value| value.len() <= PART_BYTES + HEAD_BYTES));
            assert_eq!(read(&rows).unwrap(), body);
            for key in rows.keys() {
                let mut others = rows.clone();
                others.remove(key);
                assert!(read(&others).is_err(), "a part of {length} bytes is missing");
                let mut shorter = rows.clone();
                shorter.get_mut(key).unwrap().pop();
                assert!(read(&shorter).is_err(), "a part of {length} bytes is shorter");
            }
        }
    }

    #[test]
    fn unknown_versions_and_lengths_are_refused() {
        let rows: BTreeMap<_, _> = rows_of(Lsn::new(9), b"body").collect();
        let mut value = rows[&part_key(Lsn::new(9), 0)].clone();
        value[0] = 2;
        assert!(first_part(Lsn::new(9), &value).is_err());
        value[0] = VERSION;
        value[1..9].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(first_part(Lsn::new(9), &value).is_err());
        assert!(decode_key(&row_key::encode(PREPARED, b"eleven byte")).is_err());
    }
}
