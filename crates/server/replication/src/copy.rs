//! `SEAWALL_COPY`: a copy of a running primary, for a new standby; or of what has changed since a position, for a server that comes back.
//!
//! ```text
//!   primary: checkpoint --> Backup::begin --b: what it is, h: the log's segment up to the redo point, r r r ..: rows, e: the end-->
//!   standby:                Restore::begin --> begin_log --> push .. --> finish_copy --> follows from the redo point on
//!
//!   SINCE a position:  b, h, r: system keyspace, then r: rows of leaves that changed since, u: others, with a sum over their rows
//!   SEAWALL_COPY_ROWS: r: rows of ranges, as often as it is asked      SEAWALL_COPY_END: e
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
//! | `s`  | no change in the users' rows that follow is newer 8: the stamp of their leaves                              |
//! | `u`  | rows that have not changed, each time: first key 4 + n, last key 4 + n, how many 8, sum over them 8         |
//! | `k`  | the primary lives                                                                                          |
//! | `e`  | the log that the copy needs ends here 8, next storage 8, time 8, number of rows 8                           |

use std::collections::VecDeque;
use std::ops::Range;

use seawall_codec::checksum::crc32c;
use seawall_engine::{
    ArchiveMode, Backup, BackupBase, BackupEnd, BackupItem, Database, Error, RowSum, SegmentName,
    TimelineHistory,
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
    /// No change in the users' rows that follow is newer.
    Stamp(Lsn),
    /// Rows that have not changed since the position that was asked for.
    Unchanged(Unchanged<'m>),
    /// It lives.
    Alive,
    /// The copy has all rows, and how many these are.
    End(BackupEnd, u64),
}

/// Rows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows<'m>(&'m [u8]);

/// Ranges of rows that have not changed: the first key, the last one, and the sum of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unchanged<'m>(&'m [u8]);

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

impl<'m> Iterator for Unchanged<'m> {
    type Item = Result<(&'m [u8], &'m [u8], RowSum), CopyMessageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mut fields = Fields(self.0);
        let mut range = || {
            let (first, last) = (fields.bytes()?, fields.bytes()?);
            Ok((first, last, RowSum { rows: fields.number()?, sum: fields.number()? }))
        };
        let range = range();
        self.0 = if range.is_ok() { fields.0 } else { &[] };
        Some(range)
    }
}

/// Ranges of keys, for a command.
pub fn encode_ranges(ranges: &[Range<Vec<u8>>]) -> String {
    let mut bytes = Vec::new();
    for range in ranges {
        put_bytes(&mut bytes, &range.start);
        put_bytes(&mut bytes, &range.end);
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads what `encode_ranges` has written; `None` if it is something else, or the ranges do not ascend.
pub fn decode_ranges(digits: &str) -> Option<Vec<Range<Vec<u8>>>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| match pair {
        [high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()
        }
        _ => None,
    };
    let bytes = pairs.map(byte).collect::<Option<Vec<u8>>>()?;
    let mut fields = Fields(&bytes);
    let mut ranges: Vec<Range<Vec<u8>>> = Vec::new();
    while !fields.0.is_empty() {
        let range = fields.bytes().ok()?.to_vec()..fields.bytes().ok()?.to_vec();
        let ascends = range.start < range.end && ranges.last().is_none_or(|last| last.end <= range.start);
        ranges.push(Some(range).filter(|_| ascends)?);
    }
    Some(ranges)
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
            FromPrimary::Stamp(stamp) => {
                out.push(b's');
                out.extend_from_slice(&stamp.get().to_be_bytes());
            }
            FromPrimary::Unchanged(Unchanged(ranges)) => {
                out.push(b'u');
                out.extend_from_slice(ranges);
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
            b's' => FromPrimary::Stamp(Lsn::new(fields.number()?)),
            b'u' => return Ok(FromPrimary::Unchanged(Unchanged(rest))),
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
    /// Messages that come before that.
    ready: VecDeque<Vec<u8>>,
    /// Only what has changed since, and what is asked for then.
    is_rewind: bool,
    /// No row so far has a newer change.
    stamp: Lsn,
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
    /// Ranges that were asked for, of which the first one may be read in part, and how many bytes to read of it.
    Asked(VecDeque<Range<Vec<u8>>>, u64),
    End,
    Nothing,
}

/// Messages of what a walk comes by.
struct Items<'s> {
    ready: &'s mut VecDeque<Vec<u8>>,
    open: Vec<u8>,
    rows: &'s mut u64,
}

impl Items<'_> {
    fn take(&mut self, item: BackupItem<'_>) {
        match item {
            BackupItem::Row { key, value } => {
                self.open_one(b'r');
                put_bytes(&mut self.open, key);
                put_bytes(&mut self.open, value);
                *self.rows += 1;
            }
            BackupItem::Kept { first, last, sum } => {
                self.open_one(b'u');
                put_bytes(&mut self.open, first);
                put_bytes(&mut self.open, last);
                let sum = sum.unwrap_or_default();
                self.open.extend_from_slice(&sum.rows.to_be_bytes());
                self.open.extend_from_slice(&sum.sum.to_be_bytes());
            }
        }
    }

    fn open_one(&mut self, kind: u8) {
        if self.open.first() != Some(&kind) {
            self.end();
            self.open.push(kind);
        }
    }

    fn end(&mut self) {
        if !self.open.is_empty() {
            self.ready.push_back(std::mem::take(&mut self.open));
        }
    }
}

impl CopySender {
    /// Begins a copy, with a checkpoint, or with `since` one of what has changed since; `name` is that of a hold which keeps the log meanwhile. The slot is in use already
    /// ([`Replication::use_slot_for_copy`](crate::Replication::use_slot_for_copy)).
    ///
    /// # Errors
    /// `ReadOnly` on a standby; what the engine says.
    pub fn begin(database: &Database, name: &str, since: Option<Lsn>) -> Result<CopySender, Error> {
        let mut backup = Backup::begin_copy(database, name)?;
        backup.keep_since(since);
        let history = current_history(database)?;
        let archive_mode = database.log().archive_mode()?;
        Ok(CopySender {
            backup,
            history,
            archive_mode,
            next: Next::Base,
            ready: VecDeque::new(),
            is_rewind: since.is_some(),
            stamp: Lsn::ZERO,
            rows: 0,
        })
    }

    /// The rows of these ranges come next. After all messages before.
    pub fn ask(&mut self, ranges: Vec<Range<Vec<u8>>>) {
        self.backup.keep_since(None);
        self.next = Next::Asked(ranges.into(), 1);
    }

    /// The end comes next. After all messages before.
    pub fn ask_for_end(&mut self) {
        self.next = Next::End;
    }

    /// Puts the next message into `out`, which is empty; `false`: there is none.
    ///
    /// # Errors
    /// Damage met on the way; `LogHoldLost`; `Stopped`, `Closed`.
    pub fn next(&mut self, database: &Database, out: &mut Vec<u8>) -> Result<bool, Error> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                *out = ready;
                seal(out);
                return Ok(true);
            }
            if matches!(self.next, Next::Nothing) {
                return Ok(false);
            }
            self.advance(database, out)?;
            if !out.is_empty() {
                seal(out);
                return Ok(true);
            }
        }
    }

    /// Puts the next message into `out`, or those that come next into `ready`.
    fn advance(&mut self, database: &Database, out: &mut Vec<u8>) -> Result<(), Error> {
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
            Next::Range(from) => match self.read(&from, RANGE_BYTES, None)? {
                Some(next) => Next::Range(next),
                None if self.is_rewind => Next::Nothing,
                None => Next::End,
            },
            Next::Asked(mut ranges, bytes) => match ranges.pop_front() {
                Some(range) => {
                    // Most ranges are a leaf or two: what lies behind them is not to be read.
                    let next = self.read(&range.start, bytes, Some(&range.end))?;
                    match next.filter(|next| *next < range.end) {
                        Some(next) => {
                            ranges.push_front(next..range.end);
                            Next::Asked(ranges, (bytes * 16).min(RANGE_BYTES))
                        }
                        None => Next::Asked(ranges, 1),
                    }
                }
                None => Next::Nothing,
            },
            Next::End => {
                let end = self.backup.finish()?;
                put_end(out, &end, self.rows);
                Next::Nothing
            }
            Next::Nothing => Next::Nothing,
        };
        Ok(())
    }

    /// Reads rows from `from` on, and below `to`; where the next ones begin.
    fn read(&mut self, from: &[u8], bytes: u64, to: Option<&[u8]>) -> Result<Option<Vec<u8>>, Error> {
        let before = self.ready.len();
        let mut items = Items { ready: &mut self.ready, open: Vec::new(), rows: &mut self.rows };
        let range = self.backup.read_range(from, bytes, &mut |item| {
            let is_behind = matches!(item, BackupItem::Row { key, .. } if to.is_some_and(|to| key >= to));
            if !is_behind {
                items.take(item);
            }
        })?;
        items.end();
        if range.stamp > self.stamp {
            self.stamp = range.stamp;
            let stamp = [&[b's'][..], &range.stamp.get().to_be_bytes()].concat();
            self.ready.insert(before, stamp);
        }
        Ok(range.next)
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
            changed[0] = b"behrksu"[usize::try_from(random.below(7)).unwrap()];
            assert!(FromPrimary::parse(&changed).is_err(), "seed {seed}");
            let count = |found: FromPrimary<'_>| match found {
                FromPrimary::Rows(rows) => rows.count(),
                FromPrimary::Unchanged(ranges) => ranges.count(),
                _ => 0,
            };
            assert!(parse(&changed, count).unwrap_or(0) <= changed.len());
        }
    }

    #[test]
    fn ranges_come_back_and_what_is_no_list_of_them_is_refused() {
        let range = |first: &[u8], end: &[u8]| first.to_vec()..end.to_vec();
        for ranges in [vec![], vec![range(b"", b"a")], vec![range(b"a", b"b"), range(b"b", &[0xFF; 300])]] {
            let digits = encode_ranges(&ranges);
            assert_eq!(decode_ranges(&digits).as_ref(), Some(&ranges));
            for length in 0..digits.len() {
                assert_ne!(decode_ranges(&digits[..length]).as_ref(), Some(&ranges), "{length}");
            }
        }
        for ranges in [vec![range(b"b", b"a")], vec![range(b"a", b"c"), range(b"b", b"d")]] {
            assert_eq!(decode_ranges(&encode_ranges(&ranges)), None);
        }
        assert_eq!(decode_ranges("0"), None);
        assert_eq!(decode_ranges("+1+1+1+1"), None);
        assert_eq!(decode_ranges("ää"), None);
    }

    #[test]
    fn what_has_not_changed_comes_back() {
        let mut out = vec![b'u'];
        let sum = RowSum { rows: 7, sum: u64::MAX };
        for range in [(&b"a"[..], &b"b"[..]), (b"c", b"c")] {
            put_bytes(&mut out, range.0);
            put_bytes(&mut out, range.1);
            out.extend_from_slice(&sum.rows.to_be_bytes());
            out.extend_from_slice(&sum.sum.to_be_bytes());
        }
        let ranges = |found: FromPrimary<'_>| {
            let FromPrimary::Unchanged(ranges) = found else { panic!("no ranges") };
            ranges.map(|range| range.map(|(first, last, sum)| (first[0], last[0], sum))).collect::<Vec<_>>()
        };
        assert_eq!(parse(&out, ranges).unwrap(), [Ok((b'a', b'b', sum)), Ok((b'c', b'c', sum))]);
        assert!(parse(&out[..out.len() - 1], ranges).unwrap().last().unwrap().is_err());
        let stamp = FromPrimary::Stamp(Lsn::new(0x1234));
        assert_eq!(FromPrimary::parse(&stamp.encode()), Ok(stamp));
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
