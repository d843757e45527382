//! What an in-doubt transaction holds besides the rows it wrote, as its prepare record carries it, so that a restart can
//! take it all again:
//!
//! | bytes  | field         | meaning                                                                                  |
//! |-------:|---------------|------------------------------------------------------------------------------------------|
//! | varint | object count  | tables that it wrote to or, under `Serializable`, read: no drop or truncate before the decision |
//! |        | objects       | the id of each, a varint                                                                 |
//! | varint | locked count  | rows that it locked and did not write                                                    |
//! |        | locked        | the row key of each: length, a varint, and bytes                                         |
//! | varint | read count    | what it read under `Serializable`: no commit changes it before the decision              |
//! |        | per read:     |                                                                                          |
//! |      1 | shape         | 0: a row; otherwise a range: 1 + kind of its start + 3 * kind of its end                 |
//! |        | keys          | the row key; or that of the start, then that of the end, where they are bounded          |
//!
//! Kinds of bounds: 0 unbounded, 1 included, 2 excluded. A row key is written as in `locked`.

use std::ops::Bound;

use seawall_wal::{BodyReader, RecordError, put_varint};

use crate::transaction::read_item::ReadItem;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    pub(crate) objects: Vec<u64>,
    pub(crate) locked: Vec<Vec<u8>>,
    pub(crate) reads: Vec<ReadItem>,
}

const ROW_SHAPE: u8 = 0;
const UNBOUNDED: u8 = 0;
const INCLUDED: u8 = 1;
const EXCLUDED: u8 = 2;

impl Guards {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, length_of(&self.objects));
        self.objects.iter().for_each(|object| put_varint(&mut bytes, *object));
        put_varint(&mut bytes, length_of(&self.locked));
        self.locked.iter().for_each(|key| put_key(&mut bytes, key));
        let is_written = |read: &&ReadItem| !matches!(read, ReadItem::Object(_));
        put_varint(&mut bytes, count_of(self.reads.iter().filter(is_written).count()));
        self.reads.iter().for_each(|read| put_read(&mut bytes, read));
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Guards, RecordError> {
        let mut reader = BodyReader::new(bytes);
        let mut guards = Guards::default();
        // No list is longer than its bytes, so a count that is wrong ends with `Short`, and takes no memory.
        for _ in 0..reader.varint("object count")? {
            guards.objects.push(reader.varint("object")?);
        }
        for _ in 0..reader.varint("locked count")? {
            guards.locked.push(read_key(&mut reader, "locked row")?);
        }
        for _ in 0..reader.varint("read count")? {
            guards.reads.push(read_read(&mut reader)?);
        }
        reader.finish()?;
        Ok(guards)
    }
}

fn length_of<T>(list: &[T]) -> u64 {
    count_of(list.len())
}

fn count_of(things: usize) -> u64 {
    u64::try_from(things).expect("a count of things in memory fits into 64 bits")
}

fn put_key(bytes: &mut Vec<u8>, key: &[u8]) {
    put_varint(bytes, length_of(key));
    bytes.extend_from_slice(key);
}

fn put_read(bytes: &mut Vec<u8>, read: &ReadItem) {
    match read {
        ReadItem::Row(key) => {
            bytes.push(ROW_SHAPE);
            put_key(bytes, key);
        }
        ReadItem::Range(from, to) => {
            bytes.push(1 + kind_of(from) + 3 * kind_of(to));
            [from, to].into_iter().filter_map(key_of).for_each(|key| put_key(bytes, key));
        }
        // Kept by `objects`.
        ReadItem::Object(_) => {}
    }
}

fn kind_of(bound: &Bound<Vec<u8>>) -> u8 {
    match bound {
        Bound::Unbounded => UNBOUNDED,
        Bound::Included(_) => INCLUDED,
        Bound::Excluded(_) => EXCLUDED,
    }
}

fn key_of(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
    }
}

fn read_key(reader: &mut BodyReader<'_>, field: &'static str) -> Result<Vec<u8>, RecordError> {
    // Not only keys that a row can have: somebody may lock, or scan to, one that is too long.
    let length = reader.varint(field)?;
    Ok(reader.bytes(length, field)?.to_vec())
}

fn read_read(reader: &mut BodyReader<'_>) -> Result<ReadItem, RecordError> {
    let offset = reader.offset();
    let [shape] = reader.fixed("read")?;
    if shape == ROW_SHAPE {
        return Ok(ReadItem::Row(read_key(reader, "read row")?));
    }
    let (from, to) = ((shape - 1) % 3, (shape - 1) / 3);
    if to > EXCLUDED {
        return Err(RecordError::Value { field: "read", offset });
    }
    Ok(ReadItem::Range(read_bound(reader, from)?, read_bound(reader, to)?))
}

fn read_bound(reader: &mut BodyReader<'_>, kind: u8) -> Result<Bound<Vec<u8>>, RecordError> {
    Ok(match kind {
        UNBOUNDED => Bound::Unbounded,
        INCLUDED => Bound::Included(read_key(reader, "start or end of a range")?),
        _ => Bound::Excluded(read_key(reader, "start or end of a range")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Guards {
        let bounds = || {
            [Bound::Unbounded, Bound::Included(b"included".to_vec()), Bound::Excluded(b"excluded".to_vec())]
        };
        let ranges = bounds()
            .into_iter()
            .flat_map(|from| bounds().map(|to| ReadItem::Range(from.clone(), to)))
            .collect::<Vec<_>>();
        Guards {
            objects: vec![64, u64::MAX],
            locked: vec![Vec::new(), vec![7; 10_000]],
            reads: [vec![ReadItem::Row(b"row".to_vec())], ranges].concat(),
        }
    }

    #[test]
    fn guards_come_back_and_cut_ones_are_refused() {
        for guards in [sample(), Guards::default()] {
            let bytes = guards.encode();
            let read = Guards::decode(&bytes).unwrap();
            assert_eq!((&read.objects, &read.locked), (&guards.objects, &guards.locked));
            assert_eq!(read.reads, guards.reads);
            assert!((0..bytes.len()).all(|cut| Guards::decode(&bytes[..cut]).is_err()));
            assert!(Guards::decode(&[&bytes[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_mean_something_else_and_never_panic() {
        let bytes = sample().encode();
        for position in 0..bytes.len() {
            for value in [0, 1, 9, 10, 0x7F, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[position] = value;
                drop(Guards::decode(&damaged).ok());
            }
        }
        assert!(matches!(Guards::decode(&[0, 0, 1, 10]), Err(RecordError::Value { field: "read", .. })));
        let count_too_high = [0xFF, 0xFF, 0xFF, 0xFF, 0x0F];
        assert!(matches!(Guards::decode(&count_too_high), Err(RecordError::Short { .. })));
    }
}
