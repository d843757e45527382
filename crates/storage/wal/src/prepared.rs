//! The bodies of the records of two-phase commit: a commit's body (`commit`), with more between its count and its changes.
//!
//! | kind              | bytes  | field        | meaning                                                                |
//! |-------------------|-------:|--------------|------------------------------------------------------------------------|
//! | prepare           |      8 | time         | of the prepare, microseconds since 1970, signed                        |
//! |                   | varint | count        | changes that follow                                                    |
//! |                   |      1 | gid length   | 1 to 200                                                               |
//! |                   |        | gid          | UTF-8: the name that the coordinator gave                              |
//! |                   |      1 | owner length | 0 to 64                                                                |
//! |                   |        | owner        | UTF-8: who prepared it                                                 |
//! |                   | varint | guard length |                                                                        |
//! |                   |        | guards       | what else the transaction holds until it is decided; not for the log   |
//! |                   |        | changes      | as in a commit: put when the decision is to commit                     |
//! | commit prepared,  |      8 | time         | of the decision                                                        |
//! | rollback prepared | varint | count        | changes that follow, mostly none                                       |
//! |                   |      8 | prepared     | stamp of the prepare: the LSN after its record                         |
//! |                   |      1 | gid length   | 1 to 200                                                               |
//! |                   |        | gid          | the transaction's                                                      |
//! |                   |        | changes      | as in a commit: put with the decision, whichever it is                 |
//!
//! A decision does not repeat the rows: a replay has them from the prepare.

use seawall_types::Lsn;

use crate::body::{BodyReader, put_varint};
use crate::commit::{Changes, Commit, CommitBuilder};
use crate::error::RecordError;
use crate::record::RecordKind;

/// The longest name of a prepared transaction, in bytes.
pub const GID_BYTES_MAX: usize = 200;
/// The longest name of its owner, in bytes.
pub const OWNER_BYTES_MAX: usize = 64;

/// What becomes of a prepared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Its changes are put.
    Commit,
    /// They are forgotten.
    Rollback,
}

impl Outcome {
    pub(crate) fn kind(self) -> RecordKind {
        match self {
            Outcome::Commit => RecordKind::CommitPrepared,
            Outcome::Rollback => RecordKind::RollbackPrepared,
        }
    }
}

/// A prepared write set, as read from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepare<'a> {
    /// The coordinator's name for the transaction.
    pub gid: &'a str,
    /// Who prepared it.
    pub owner: &'a str,
    /// What else it holds until it is decided.
    pub guards: &'a [u8],
    /// Time of the prepare, and the changes.
    pub commit: Commit<'a>,
}

/// The decision about a prepared transaction, as read from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Stamp of the prepare.
    pub prepared: Lsn,
    /// The transaction's gid.
    pub gid: &'a str,
    /// Time of the decision, and what is put with it.
    pub commit: Commit<'a>,
}

/// The records of two-phase commit begin as those of a commit do.
impl CommitBuilder {
    /// Starts an empty write set that is to be prepared: see [`Prepare`].
    ///
    /// # Panics
    /// If gid or owner have a length that no record can have.
    pub fn begin_prepare(&mut self, time_micros: i64, gid: &str, owner: &str, guards: &[u8]) {
        self.begin_kind(RecordKind::Prepare, time_micros, |bytes| {
            encode_prepare_head(bytes, gid, owner, guards);
        });
    }

    /// Starts the decision about the transaction that was prepared with the stamp `prepared`. Rows may be added to it, as
    /// to any commit: they are put with the decision, beside what was prepared.
    ///
    /// # Panics
    /// If the gid has a length that no record can have.
    pub fn begin_decision(&mut self, outcome: Outcome, time_micros: i64, prepared: Lsn, gid: &str) {
        self.begin_kind(outcome.kind(), time_micros, |bytes| {
            encode_decision_head(bytes, prepared, gid);
        });
    }
}

fn encode_prepare_head(bytes: &mut Vec<u8>, gid: &str, owner: &str, guards: &[u8]) {
    put_gid(bytes, gid);
    assert!(owner.len() <= OWNER_BYTES_MAX, "an owner of {} bytes", owner.len());
    put_short(bytes, owner);
    put_varint(bytes, guards.len() as u64);
    bytes.extend_from_slice(guards);
}

fn encode_decision_head(bytes: &mut Vec<u8>, prepared: Lsn, gid: &str) {
    bytes.extend_from_slice(&prepared.get().to_le_bytes());
    put_gid(bytes, gid);
}

fn put_gid(bytes: &mut Vec<u8>, gid: &str) {
    assert!((1..=GID_BYTES_MAX).contains(&gid.len()), "a gid of {} bytes", gid.len());
    put_short(bytes, gid);
}

fn put_short(bytes: &mut Vec<u8>, text: &str) {
    bytes.push(u8::try_from(text.len()).expect("checked to be short"));
    bytes.extend_from_slice(text.as_bytes());
}

impl<'a> Prepare<'a> {
    /// Reads a prepare's body.
    ///
    /// # Errors
    /// `RecordError` if it is none. The changes are checked one by one as they are read.
    pub fn decode(body: &'a [u8]) -> Result<Prepare<'a>, RecordError> {
        let (commit, (gid, owner, guards)) = Commit::decode_with(body, |reader| {
            let gid = read_gid(reader)?;
            let owner = read_short(reader, "owner", 0..=OWNER_BYTES_MAX)?;
            let length = reader.varint("guard length")?;
            Ok((gid, owner, reader.bytes(length, "guards")?))
        })?;
        Ok(Prepare { gid, owner, guards, commit })
    }

    /// What is put if the transaction is committed.
    pub fn changes(&self) -> Changes<'a> {
        self.commit.changes()
    }
}

impl<'a> Decision<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Decision<'a>, RecordError> {
        let (commit, (prepared, gid)) = Commit::decode_with(body, |reader| {
            let prepared = Lsn::new(u64::from_le_bytes(reader.fixed("prepared")?));
            Ok((prepared, read_gid(reader)?))
        })?;
        Ok(Decision { prepared, gid, commit })
    }

    /// What is put with the decision.
    pub fn changes(&self) -> Changes<'a> {
        self.commit.changes()
    }
}

fn read_gid<'a>(reader: &mut BodyReader<'a>) -> Result<&'a str, RecordError> {
    read_short(reader, "gid", 1..=GID_BYTES_MAX)
}

fn read_short<'a>(
    reader: &mut BodyReader<'a>,
    field: &'static str,
    lengths: std::ops::RangeInclusive<usize>,
) -> Result<&'a str, RecordError> {
    let offset = reader.offset();
    let [length] = reader.fixed(field)?;
    let text = reader.bytes(u64::from(length), field)?;
    let text = std::str::from_utf8(text).ok().filter(|text| lengths.contains(&text.len()));
    text.ok_or(RecordError::Value { field, offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoded::Record;
    use crate::record::PreparedRecord;

    const ROW: &[u8] = b"\0\0\0\0\0\0\0\x07key";

    fn prepare(gid: &str, owner: &str, guards: &[u8]) -> Vec<u8> {
        let mut builder = CommitBuilder::new();
        builder.begin_prepare(-3, gid, owner, guards);
        builder.put(ROW, b"value");
        builder.delete(b"\0\0\0\0\0\0\0\x07other");
        body(builder.finish())
    }

    fn decision(outcome: Outcome) -> Vec<u8> {
        let mut builder = CommitBuilder::new();
        builder.begin_decision(outcome, 9, Lsn::new(1 << 40), "gid");
        builder.put(ROW, b"decided");
        body(builder.finish())
    }

    fn body(record: &PreparedRecord) -> Vec<u8> {
        record.body().to_vec()
    }

    #[test]
    fn bodies_come_back() {
        let longest = ("ü".repeat(100), "o".repeat(64));
        for (gid, owner, guards) in [("g", "", &b""[..]), (&longest.0, &longest.1, &[7; 1000])] {
            let body = prepare(gid, owner, guards);
            let read = Prepare::decode(&body).unwrap();
            assert_eq!((read.gid, read.owner, read.guards), (gid, owner, guards));
            assert_eq!((read.commit.time_micros, read.commit.count), (-3, 2));
            let values: Vec<_> = read.changes().map(|change| change.unwrap().value()).collect();
            assert_eq!(values, [Some(&b"value"[..]), None]);
        }
        for outcome in [Outcome::Commit, Outcome::Rollback] {
            let body = decision(outcome);
            let read = match Record::decode(outcome.kind(), 0, &body).unwrap() {
                Record::CommitPrepared(read) if outcome == Outcome::Commit => read,
                Record::RollbackPrepared(read) if outcome == Outcome::Rollback => read,
                other => panic!("{other:?}"),
            };
            assert_eq!((read.prepared, read.gid, read.commit.time_micros), (Lsn::new(1 << 40), "gid", 9));
            assert_eq!(read.changes().count(), 1);
        }
    }

    #[test]
    fn every_cut_is_refused_and_no_changed_byte_panics() {
        let read = |kind, body: &[u8]| match Record::decode(kind, 0, body)? {
            Record::Prepare(prepare) => prepare.changes().map(|change| change.map(|_| 1)).sum(),
            Record::CommitPrepared(decision) => decision.changes().map(|change| change.map(|_| 1)).sum(),
            _ => Ok(0),
        };
        for (kind, body) in [
            (RecordKind::Prepare, prepare("gid", "owner", b"guards")),
            (RecordKind::CommitPrepared, decision(Outcome::Commit)),
        ] {
            assert!(read(kind, &body).is_ok_and(|count: usize| count > 0));
            for cut in 0..body.len() {
                assert!(read(kind, &body[..cut]).is_err(), "{kind:?} cut at {cut}");
            }
            for position in 0..body.len() {
                for value in [0, 1, 0x7F, 0x80, 0xFF] {
                    let mut damaged = body.clone();
                    damaged[position] = value;
                    // Either is fine, as long as it ends and does not panic.
                    if let Ok(count) = read(kind, &damaged) {
                        assert!(count <= damaged.len());
                    }
                }
            }
        }
    }

    #[test]
    fn lengths_that_are_never_written_are_refused() {
        let mut none = prepare("g", "", b"");
        // The gid's length stands behind time and count.
        none[9] = 0;
        assert!(matches!(Prepare::decode(&none), Err(RecordError::Value { field: "gid", .. })));
        let mut long = vec![0; 9];
        long.push(201);
        long.extend([b'g'; 201]);
        assert!(matches!(Prepare::decode(&long), Err(RecordError::Value { field: "gid", .. })));
        let mut not_utf8 = prepare("g", "", b"");
        not_utf8[10] = 0xFF;
        assert!(matches!(Prepare::decode(&not_utf8), Err(RecordError::Value { field: "gid", .. })));
    }

    #[test]
    fn a_decision_is_small() {
        let mut builder = CommitBuilder::new();
        builder.begin_decision(Outcome::Commit, 0, Lsn::new(u64::MAX >> 1), "0123456789abcdef");
        assert_eq!(builder.finish().record_bytes(), 48);
    }
}
