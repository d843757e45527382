//! In-doubt transactions in the system table `prepared`. A checkpoint enters those that are in doubt at its freeze point
//! and takes out those that were decided; a transaction prepared and decided between two checkpoints never comes here.
//!
//! | bytes | field | of  | meaning                                                                                   |
//! |------:|-------|-----|-------------------------------------------------------------------------------------------|
//! |     8 | stamp | key | of the prepare: the LSN after its record, big-endian                                      |
//! |     4 | part  | key | 0: the head; of a long body 1, 2, ..., big-endian: up to 1 MiB of it each                 |
//! |     1 | version | value of the head | 1                                                                             |
//! |     8 | body length | value of the head | in all, little-endian                                                     |
//! |       | body  | value of the head | the body of the prepare record (`wal::prepared`), if that has up to 512 bytes   |
//! |       | body  | value of a part | the part                                                                          |
//!
//! The parts of long bodies are merged before the last chunk, and so before their head: the last chunk, which cannot be
//! divided, stays small. If the power goes between the two, the tree has parts without a head. A reader passes over them.
//! The replay finds their transaction in the log: still in doubt, and the same parts are put again, or decided, and nobody wants
//! them. So the first checkpoint after each open looks for such parts and deletes them. Parts are deleted with their head,
//! in the last chunk: until the redo point is behind the decision, a replay reads them.

use std::sync::Arc;

use seawall_tree::page::LeafValue;
use seawall_tree::{Change, Direction, MergeSource, Tree};
use seawall_types::{Lsn, TableId};
use seawall_wal::RECORD_BYTES_MAX;

use crate::error::Error;
use crate::in_doubt::BODY_BYTES_KEPT;
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

fn is_long(body_bytes: usize) -> bool {
    body_bytes > BODY_BYTES_KEPT
}

/// How many rows a body takes.
pub(crate) fn part_count(body_bytes: usize) -> u32 {
    let parts = if is_long(body_bytes) { body_bytes.div_ceil(PART_BYTES) } else { 0 };
    1 + u32::try_from(parts).expect("a record has at most 1 GiB")
}

/// The row that says that a transaction is in doubt.
pub(crate) fn head_row(stamp: Lsn, body: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut value = vec![VERSION];
    value.extend_from_slice(&length_of(body).to_le_bytes());
    if !is_long(body.len()) {
        value.extend_from_slice(body);
    }
    (part_key(stamp, 0), value)
}

fn length_of(body: &[u8]) -> u64 {
    u64::try_from(body.len()).expect("a record has at most 1 GiB")
}

/// A prepared write set: stamp of the prepare, and the body of its record.
pub(crate) type PreparedBody = (Lsn, Arc<[u8]>);

/// The parts of long bodies, on their way into the tree.
pub(crate) struct LongBodies<'a> {
    /// By stamp, ascending.
    bodies: &'a [PreparedBody],
    part: u32,
    key: Vec<u8>,
}

impl<'a> LongBodies<'a> {
    /// All parts of `bodies`, which are ordered by their stamps.
    pub(crate) fn new(bodies: &'a [PreparedBody]) -> LongBodies<'a> {
        assert!(bodies.is_sorted_by(|one, other| one.0 < other.0), "a merge goes in the order of the keys");
        let key = bodies.first().map_or_else(Vec::new, |(stamp, _)| part_key(*stamp, 1));
        LongBodies { bodies, part: 1, key }
    }

    /// The long bodies among `bodies`.
    pub(crate) fn only_long(bodies: impl Iterator<Item = PreparedBody>) -> Vec<PreparedBody> {
        let mut long: Vec<_> = bodies.filter(|(_, body)| is_long(body.len())).collect();
        long.sort_unstable_by_key(|(stamp, _)| *stamp);
        long
    }
}

impl MergeSource for LongBodies<'_> {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        let (_, body) = self.bodies.first()?;
        let start = (usize::try_from(self.part).expect("a small count") - 1) * PART_BYTES;
        Some((&self.key, Change::Put(&body[start..body.len().min(start + PART_BYTES)])))
    }

    fn advance(&mut self) {
        let Some((_, body)) = self.bodies.first() else { return };
        self.part += 1;
        if self.part == part_count(body.len()) {
            (self.bodies, self.part) = (&self.bodies[1..], 1);
        }
        if let Some((stamp, _)) = self.bodies.first() {
            self.key = part_key(*stamp, self.part);
        }
    }
}

/// What the value of a head says: length of the body, and the body if it is short.
fn decode_head(stamp: Lsn, value: &[u8]) -> Result<(usize, Option<&[u8]>), Error> {
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
    let here = if is_long(length) { 0 } else { length };
    if body.len() != here {
        return Err(refuse("the row has not as much of the body as it should"));
    }
    Ok((length, (!is_long(length)).then_some(body)))
}

/// Puts a body together from its rows; `read` gives the value of a row.
pub(crate) fn read_body(
    stamp: Lsn,
    mut read: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, Error>,
) -> Result<Vec<u8>, Error> {
    let missing = || damaged(stamp, "a row is missing");
    let head = read(&part_key(stamp, 0))?.ok_or_else(missing)?;
    let (length, short) = decode_head(stamp, &head)?;
    let mut body = short.unwrap_or_default().to_vec();
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

/// What a tree has in the system table.
#[derive(Default)]
pub(crate) struct StoredRows {
    /// The in-doubt transactions.
    pub(crate) prepared: Vec<StoredPrepared>,
    /// Stamp and row key of parts that have no head.
    pub(crate) strays: Vec<(Lsn, Vec<u8>)>,
}

/// An in-doubt transaction in a tree.
pub(crate) struct StoredPrepared {
    pub(crate) stamp: Lsn,
    pub(crate) body_bytes: usize,
    /// If it is short.
    pub(crate) body: Option<Arc<[u8]>>,
}

/// The system table of a tree that does not change meanwhile. Long bodies are not read.
pub(crate) fn read_all(tree: &Tree) -> Result<StoredRows, Error> {
    let failed = |error| Error::tree(&error);
    let (from, to) = row_key::table_range(PREPARED);
    let mut found = StoredRows::default();
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
                let has_head = found.prepared.last().is_some_and(|head| head.stamp == stamp);
                if !has_head {
                    found.strays.push((stamp, key));
                }
                continue;
            }
            let value = match row.value {
                LeafValue::Inline(value) => value.to_vec(),
                LeafValue::Overflow(reference) => tree
                    .read_overflow(reference, position.version())
                    .map_err(failed)?
                    .ok_or_else(|| damaged(stamp, "the tree changed while it was read"))?,
                LeafValue::Deleted => {
                    return Err(failed(tree.pages().deleted_outside_of_runs(position.page().view().id())));
                }
            };
            let (body_bytes, short) = decode_head(stamp, &value)?;
            found.prepared.push(StoredPrepared { stamp, body_bytes, body: short.map(Arc::from) });
        }
        if !tree.move_on(&mut position, Direction::Forward).map_err(failed)? {
            return Ok(found);
        }
    }
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

    const STAMP: Lsn = Lsn::new(9);

    fn read(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Vec<u8>, Error> {
        read_body(STAMP, |key| Ok(rows.get(key).cloned()))
    }

    fn body_of(length: usize) -> Arc<[u8]> {
        (0..length).map(|index| index.to_le_bytes()[0]).collect()
    }

    /// All rows, in the order in which they are merged.
    fn rows_of(bodies: &[PreparedBody]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let long = LongBodies::only_long(bodies.iter().cloned());
        let mut parts = LongBodies::new(&long);
        let mut rows = Vec::new();
        while let Some((key, Change::Put(value))) = parts.peek() {
            rows.push((key.to_vec(), value.to_vec()));
            parts.advance();
        }
        rows.extend(bodies.iter().map(|(stamp, body)| head_row(*stamp, body)));
        rows
    }

    #[test]
    fn bodies_of_any_length_come_back_from_their_rows() {
        let (kept, part) = (BODY_BYTES_KEPT, PART_BYTES);
        for length in [0, 1, kept, kept + 1, part - 1, part, part + 1, 3 * part] {
            let body = body_of(length);
            let rows: BTreeMap<_, _> = rows_of(&[(STAMP, Arc::clone(&body))]).into_iter().collect();
            assert_eq!(rows.len(), usize::try_from(part_count(length)).unwrap());
            assert!(rows.values().all(|value| value.len() <= PART_BYTES));
            assert_eq!(read(&rows).unwrap(), &body[..]);
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
    fn parts_of_several_bodies_come_in_the_order_of_their_keys() {
        let lengths = [2 * PART_BYTES + 1, 5, 1_000, PART_BYTES];
        let bodies: Vec<_> = lengths
            .iter()
            .zip([40, 10, 20, 30])
            .map(|(length, stamp)| (Lsn::new(stamp), body_of(*length)))
            .collect();
        let rows = rows_of(&bodies);
        let parts = rows.len() - bodies.len();
        assert_eq!(parts, 3 + 1 + 1);
        assert!(rows[..parts].is_sorted_by(|one, other| one.0 < other.0));
        assert!(rows[..parts].iter().all(|(key, _)| decode_key(key).unwrap().1 > 0));
    }

    #[test]
    fn unknown_versions_and_lengths_are_refused() {
        let (_, mut value) = head_row(STAMP, b"body");
        value[0] = 2;
        assert!(decode_head(STAMP, &value).is_err());
        value[0] = VERSION;
        value[1..9].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(decode_head(STAMP, &value).is_err());
        assert!(decode_key(&row_key::encode(PREPARED, b"eleven byte")).is_err());
    }
}
