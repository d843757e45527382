//! `SEAWALL_COPY`: a copy of a running primary, for a new standby.
//!
//! ```text
//!   primary: checkpoint --> Backup::begin --b: what it is, h: the log's segment up to the redo point, r r r ..: rows, e: the end-->
//!   standby:                Restore::begin --> begin_log --> push .. --> finish_copy --> follows from the redo point on
//! ```
//! The slot is there before the checkpoint, and keeps all log from its redo point on: no row that is loaded from then on leaves the log, and none
//! of the log that a copy needs is removed. Timeline and history are those of the primary; the redo point may lie on an earlier timeline.
//!
//! Integers are big-endian; a length of `u32::MAX` stands for nothing. Each message ends with the CRC-32C of the bytes before: rows have no
//! checksum of their own on the way.
//!
//! | byte | fields                                                                                                     |
//! |------|------------------------------------------------------------------------------------------------------------|
//! | `b`  | version 2, whether it may archive 1, database 16, page bytes 4, segment bytes 8, created 8, redo point 8, complete from 8, in doubt 8, first new storage 8, timeline 4, keys 4 + n, history 4 + n |
//! | `h`  | bytes of the segment that the redo point is in, from its beginning on; several messages                    |
//! | `r`  | rows in the order of their keys: key 4 + n, value 4 + n                                                     |
//! | `k`  | the primary lives                                                                                          |
//! | `e`  | the log that the copy needs ends here 8, next storage 8, time 8, number of rows 8                           |

use seawall_codec::checksum::crc32c;
use seawall_engine::{
    ArchiveMode, Backup, BackupBase, BackupEnd, BackupItem, Database, Error, SegmentName, TimelineHistory,
};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId};

use crate::sender::current_history;

const VERSION: u8 = 2;
/// A message of rows has about so many bytes, and one row at least.
const ROWS_BYTES: usize = 256 << 10;
/// A walk takes so many bytes of leaves.
const RANGE_BYTES: u64 = 256 << 10;
const NOTHING: u32 = u32::MAX;

fn seal(out: &mut Vec<u8>) {
    let checksum = crc32c(out);
    out.extend_from_slice(&checksum.to_be_bytes());
}

/// What a primary says.
#[derive(Debug, PartialEq, Eq)]
pub enum FromPrimary<'m> {
    /// What the copy begins with.
    Base(Box<BackupBase>, TimelineHistory, ArchiveMode),
    /// Bytes of the segment that the redo point is in.
    Head(&'m [u8]),
    /// Rows.
    Rows(Rows<'m>),
    /// It lives.
    Alive,
    /// The copy has all rows, and how many these are.
    End(BackupEnd, u64),
}

/// Rows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows<'m>(&'m [u8]);

/// The bytes are not a message of a copy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of the copy is malformed: {0}")]
pub struct CopyMessageError(&'static str);

impl CopyMessageError {
    /// A message that comes where it has no meaning.
    pub(crate) fn out_of_order() -> CopyMessageError {
        CopyMessageError("it comes where it has no meaning")
    }
}

impl<'m> Iterator for Rows<'m> {
    type Item = Result<(&'m [u8], &'m [u8]), CopyMessageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mut fields = Fields(self.0);
        let row = fields.bytes().and_then(|key| Ok((key, fields.bytes()?)));
        self.0 = if row.is_ok() { fields.0 } else { &[] };
        Some(row)
    }
}

impl FromPrimary<'_> {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            FromPrimary::Base(base, history, archive_mode) => {
                put_base(&mut out, base, history, *archive_mode);
            }
            FromPrimary::Head(bytes) => {
                out.push(b'h');
                out.extend_from_slice(bytes);
            }
            FromPrimary::Rows(Rows(rows)) => {
                out.push(b'r');
                out.extend_from_slice(rows);
            }
            FromPrimary::Alive => out.push(b'k'),
            FromPrimary::End(end, rows) => put_end(&mut out, end, *rows),
        }
        seal(&mut out);
        out
    }

    /// Reads a message.
    ///
    /// # Errors
    /// `CopyMessageError`.
    pub fn parse(body: &[u8]) -> Result<FromPrimary<'_>, CopyMessageError> {
        let (message, checksum) = body.split_last_chunk().ok_or(CopyMessageError("it is cut short"))?;
        if crc32c(message) != u32::from_be_bytes(*checksum) {
            return Err(CopyMessageError("its checksum is wrong"));
        }
        let (kind, rest) = message.split_first().ok_or(CopyMessageError("it is empty"))?;
        let mut fields = Fields(rest);
        let parsed = match kind {
            b'b' => fields.base()?,
            b'h' => return Ok(FromPrimary::Head(rest)),
            b'r' => return Ok(FromPrimary::Rows(Rows(rest))),
            b'k' => FromPrimary::Alive,
            b'e' => {
                let end = BackupEnd {
                    end: Lsn::new(fields.number()?),
                    next_table: TableId::new(fields.number()?),
                    time_micros: fields.number()?.cast_signed(),
                };
                FromPrimary::End(end, fields.number()?)
            }
            _ => return Err(CopyMessageError("its kind is not known")),
        };
        if fields.0.is_empty() { Ok(parsed) } else { Err(CopyMessageError("it has more than its fields")) }
    }
}

struct Fields<'m>(&'m [u8]);

impl<'m> Fields<'m> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], CopyMessageError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(CopyMessageError("it is cut short"))?;
        self.0 = rest;
        Ok(*field)
    }

    fn number(&mut self) -> Result<u64, CopyMessageError> {
        self.array().map(u64::from_be_bytes)
    }

    fn small(&mut self) -> Result<u32, CopyMessageError> {
        self.array().map(u32::from_be_bytes)
    }

    fn optional(&mut self) -> Result<Option<&'m [u8]>, CopyMessageError> {
        let bytes = self.small()?;
        if bytes == NOTHING {
            return Ok(None);
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (field, rest) = self.0.split_at_checked(bytes).ok_or(CopyMessageError("it is cut short"))?;
        self.0 = rest;
        Ok(Some(field))
    }

    fn bytes(&mut self) -> Result<&'m [u8], CopyMessageError> {
        self.optional()?.ok_or(CopyMessageError("a field is missing"))
    }

    fn base(&mut self) -> Result<FromPrimary<'m>, CopyMessageError> {
        if self.array::<1>()? != [VERSION] {
            return Err(CopyMessageError(
                "the primary has another version of it: use the same version of seawall",
            ));
        }
        let archive_mode = match self.array()? {
            [0] => ArchiveMode::Off,
            [1] => ArchiveMode::Preserve,
            _ => return Err(CopyMessageError("it may archive or not")),
        };
        let base = BackupBase {
            database: DatabaseId::from_bytes(self.array()?),
            page_bytes: self.small()?,
            segment_bytes: self.number()?,
            created_micros: self.number()?.cast_signed(),
            redo_point: Lsn::new(self.number()?),
            complete_from: Lsn::new(self.number()?),
            in_doubt: self.number()?,
            first_new_table: TableId::new(self.number()?),
            timeline: TimelineId::new(self.small()?).ok_or(CopyMessageError("timeline zero"))?,
            keys: self.optional()?.map(<[u8]>::to_vec),
            loading: Vec::new(),
        };
        let is_page = base.page_bytes.is_power_of_two() && (4 << 10..=64 << 10).contains(&base.page_bytes);
        let is_segment =
            base.segment_bytes.is_power_of_two() && (64 << 10..=1 << 30).contains(&base.segment_bytes);
        if !is_page || !is_segment {
            return Err(CopyMessageError("a size cannot be"));
        }
        let text =
            std::str::from_utf8(self.bytes()?).map_err(|_| CopyMessageError("its history is no text"))?;
        let history = match text {
            "" => TimelineHistory::first(),
            text => TimelineHistory::parse(text, base.timeline, "the history that the primary sends")
                .map_err(|_| CopyMessageError("its history cannot be"))?,
        };
        // Only the first timeline has left none.
        if history.timeline != base.timeline
            || history.forks.is_empty() != (base.timeline == TimelineId::FIRST)
        {
            return Err(CopyMessageError("its history is not the one of its timeline"));
        }
        Ok(FromPrimary::Base(Box::new(base), history, archive_mode))
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Keys, values and files of keys are far shorter than 4 GiB.
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(NOTHING).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn put_base(out: &mut Vec<u8>, base: &BackupBase, history: &TimelineHistory, archive_mode: ArchiveMode) {
    out.extend_from_slice(&[b'b', VERSION, u8::from(archive_mode == ArchiveMode::Preserve)]);
    out.extend_from_slice(base.database.as_bytes());
    out.extend_from_slice(&base.page_bytes.to_be_bytes());
    for number in [
        base.segment_bytes,
        base.created_micros.cast_unsigned(),
        base.redo_point.get(),
        base.complete_from.get(),
        base.in_doubt,
        base.first_new_table.get(),
    ] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(&history.timeline.get().to_be_bytes());
    match &base.keys {
        Some(keys) => put_bytes(out, keys),
        None => out.extend_from_slice(&NOTHING.to_be_bytes()),
    }
    let text = if history.forks.is_empty() { String::new() } else { history.encode() };
    put_bytes(out, text.as_bytes());
}

fn put_end(out: &mut Vec<u8>, end: &BackupEnd, rows: u64) {
    out.push(b'e');
    for number in [end.end.get(), end.next_table.get(), end.time_micros.cast_unsigned(), rows] {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// The primary's side of a copy. See the module.
#[derive(Debug)]
pub struct CopySender {
    backup: Backup,
    /// Of the timeline that the database is on.
    history: TimelineHistory,
    archive_mode: ArchiveMode,
    next: Next,
    /// Rows so far.
    rows: u64,
}

#[derive(Debug)]
enum Next {
    Base,
    /// The rest of the segment's beginning.
    Head(Vec<u8>),
    /// The index of the next row of the system keyspace.
    System(usize),
    Range(Vec<u8>),
    End,
    Nothing,
}

impl CopySender {
    /// Begins a copy, with a checkpoint; `name` is that of a hold which keeps the log meanwhile. The slot is in use already
    /// ([`Replication::use_slot_for_copy`](crate::Replication::use_slot_for_copy)).
    ///
    /// # Errors
    /// `ReadOnly` on a standby; what the engine says.
    pub fn begin(database: &Database, name: &str) -> Result<CopySender, Error> {
        let backup = Backup::begin_copy(database, name)?;
        let history = current_history(database)?;
        let archive_mode = database.log().archive_mode()?;
        Ok(CopySender { backup, history, archive_mode, next: Next::Base, rows: 0 })
    }

    /// Puts the next message into `out`, which is empty; `false`: there is none.
    ///
    /// # Errors
    /// Damage met on the way; `LogHoldLost`; `Stopped`, `Closed`.
    pub fn next(&mut self, database: &Database, out: &mut Vec<u8>) -> Result<bool, Error> {
        self.next = match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Base => {
                put_base(out, self.backup.base(), &self.history, self.archive_mode);
                Next::Head(self.head(database)?)
            }
            Next::Head(mut head) => {
                let rest = head.split_off(head.len().min(ROWS_BYTES));
                out.push(b'h');
                out.append(&mut head);
                if rest.is_empty() { Next::System(0) } else { Next::Head(rest) }
            }
            Next::System(first) => {
                out.push(b'r');
                let mut index = first;
                while let Some((key, value)) =
                    self.backup.system_rows().get(index).filter(|_| out.len() < ROWS_BYTES)
                {
                    put_bytes(out, key);
                    put_bytes(out, value);
                    index += 1;
                    self.rows += 1;
                }
                let has_more = index < self.backup.system_rows().len();
                if has_more { Next::System(index) } else { Next::Range(self.backup.first_key()) }
            }
            Next::Range(from) => {
                out.push(b'r');
                let rows = &mut self.rows;
                let range = self.backup.read_range(&from, RANGE_BYTES, &mut |item| {
                    // Without a parent there is nothing to keep.
                    if let BackupItem::Row { key, value } = item {
                        put_bytes(out, key);
                        put_bytes(out, value);
                        *rows += 1;
                    }
                })?;
                range.next.map_or(Next::End, Next::Range)
            }
            Next::End => {
                let end = self.backup.finish()?;
                put_end(out, &end, self.rows);
                Next::Nothing
            }
            Next::Nothing => return Ok(false),
        };
        seal(out);
        Ok(true)
    }

    /// The segment that the redo point is in, up to there; nothing, if it is not begun.
    fn head(&self, database: &Database) -> Result<Vec<u8>, Error> {
        let base = self.backup.base();
        let (number, offset) =
            (base.redo_point.get() / base.segment_bytes, base.redo_point.get() % base.segment_bytes);
        let mut head = vec![0; usize::try_from(offset).unwrap_or(0)];
        let name = SegmentName { number, timeline: self.history.timeline_at(base.redo_point) };
        match database.log().read_segment(name, 0, &mut head) {
            // The first record of a segment makes it.
            Err(Error::Io { .. }) if offset <= 4096 => Ok(Vec::new()),
            read => read.map(|()| head),
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_simulation::SeededRandom;
    use seawall_types::TimelineMark;

    use super::*;

    /// Reads a message with the checksum that it should have.
    fn parse<T>(message: &[u8], take: impl FnOnce(FromPrimary<'_>) -> T) -> Result<T, CopyMessageError> {
        let mut sealed = message.to_vec();
        seal(&mut sealed);
        FromPrimary::parse(&sealed).map(take)
    }

    fn base(keys: Option<Vec<u8>>) -> (BackupBase, TimelineHistory) {
        let timeline = TimelineId::new(3).unwrap();
        let history =
            TimelineHistory::first().fork(timeline, Lsn::new(8000), TimelineMark::from_bytes([4; 16]), "why");
        let base = BackupBase {
            database: DatabaseId::from_bytes([9; 16]),
            timeline,
            page_bytes: 8192,
            segment_bytes: 1 << 20,
            created_micros: -7,
            keys,
            redo_point: Lsn::new(9000),
            complete_from: Lsn::new(9001),
            in_doubt: 2,
            first_new_table: TableId::new(77),
            loading: Vec::new(),
        };
        (base, history)
    }

    #[test]
    fn a_base_comes_back_and_none_that_is_cut_short_is_taken() {
        for keys in [None, Some(vec![1, 2, 3])] {
            let (base, history) = base(keys);
            let mut out = Vec::new();
            let mode = if base.keys.is_some() { ArchiveMode::Off } else { ArchiveMode::Preserve };
            put_base(&mut out, &base, &history, mode);
            let expected = FromPrimary::Base(Box::new(base), history, mode);
            assert_eq!(parse(&out, |found| found == expected), Ok(true));
            for length in 0..out.len() {
                parse(&out[..length], |_| ()).unwrap_err();
            }
            out.push(0);
            parse(&out, |_| ()).unwrap_err();
        }
    }

    /// A message of a server that is not one of Seawall's, or of one that is damaged.
    #[test]
    fn changed_bytes_are_refused_or_another_message() {
        let (base, history) = base(Some(vec![7; 40]));
        let mut whole = Vec::new();
        put_base(&mut whole, &base, &history, ArchiveMode::Preserve);
        for seed in 0..2_000 {
            let mut random = SeededRandom::new(seed);
            let mut changed = whole.clone();
            for _change in 0..=random.below(4) {
                let at = usize::try_from(random.below(changed.len() as u64)).unwrap();
                changed[at] = u8::try_from(random.below(256)).unwrap();
            }
            changed[0] = b"behrk"[usize::try_from(random.below(5)).unwrap()];
            assert!(FromPrimary::parse(&changed).is_err(), "seed {seed}");
            let count = |found: FromPrimary<'_>| match found {
                FromPrimary::Rows(rows) => rows.count(),
                _ => 0,
            };
            assert!(parse(&changed, count).unwrap_or(0) <= changed.len());
        }
    }

    #[test]
    fn rows_come_back_and_a_row_that_is_cut_short_ends_them() {
        let mut out = vec![b'r'];
        for (key, value) in [(&b"k"[..], &b"value"[..]), (b"", b"")] {
            put_bytes(&mut out, key);
            put_bytes(&mut out, value);
        }
        let rows = |found: FromPrimary<'_>| {
            let FromPrimary::Rows(rows) = found else { panic!("no rows") };
            rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect::<Vec<_>>()
        };
        let found = parse(&out, rows).unwrap();
        assert_eq!(found, [Ok((b"k".to_vec(), b"value".to_vec())), Ok((Vec::new(), Vec::new()))]);
        let cut_short = parse(&out[..out.len() - 1], rows).unwrap();
        assert!(cut_short.last().unwrap().is_err());
        parse(b"", |_| ()).unwrap_err();
        parse(b"x", |_| ()).unwrap_err();
        assert_eq!(FromPrimary::parse(&FromPrimary::Alive.encode()), Ok(FromPrimary::Alive));
    }
}
