//! Segments of PostgreSQL 13 to 18, as its `xlog_internal.h` and `xlogrecord.h` lay them out. Integers little-endian, as on
//! every machine that PostgreSQL is commonly run on. A segment is a row of pages:
//!
//! | offset | bytes | field         | meaning                                                                  |
//! |-------:|------:|---------------|--------------------------------------------------------------------------|
//! |      0 |     2 | xlp_magic     | tells the release                                                        |
//! |      2 |     2 | xlp_info      | bit 0: begins with the rest of a record; 1: long header; 2: of no interest here; 3: the record that should go on here was given up |
//! |      4 |     4 | xlp_tli       | timeline of the first record; of an ancestor in the copied part of a timeline's first segment |
//! |      8 |     8 | xlp_pageaddr  | LSN of the page                                                          |
//! |     16 |     4 | xlp_rem_len   | bytes left of the record that began on an earlier page                   |
//! |     20 |     4 |               | zero                                                                     |
//! |     24 |     8 | xlp_sysid     | long header, of a segment's first page only: system identifier           |
//! |     32 |     4 | xlp_seg_size  | length of a segment                                                      |
//! |     36 |     4 | xlp_xlog_blcksz | length of a page                                                       |
//!
//! and records, which begin at multiples of eight, go on behind the headers of as many pages as they need, and have a header
//! of their own:
//!
//! | offset | bytes | field      | meaning                                                                     |
//! |-------:|------:|------------|-----------------------------------------------------------------------------|
//! |      0 |     4 | xl_tot_len | length of the whole record                                                  |
//! |      4 |     4 | xl_xid     |                                                                             |
//! |      8 |     8 | xl_prev    | LSN of the record before                                                    |
//! |     16 |     1 | xl_info    |                                                                             |
//! |     17 |     1 | xl_rmid    |                                                                             |
//! |     20 |     4 | xl_crc     | CRC-32C of what follows this header, then of bytes 0..20                    |
//!
//! How a whole segment ends: with a record that goes on in the next one; exactly; or with a *switch record*, behind which
//! everything is zero (`pg_switch_wal`, `archive_timeout`). All else is a segment whose records end early: behind them are
//! zeros, or pages of the segment that the file was recycled from, which have older addresses. If a page with the right
//! address follows a place where the records do not go on, the place is damaged.

use seawall_codec::bytes::{u16_at, u32_at, u64_at};
use seawall_codec::checksum::Crc32c;
use seawall_types::{Lsn, TimelineId};

const SHORT_HEADER_BYTES: usize = 24;
const LONG_HEADER_BYTES: usize = 40;
const RECORD_HEADER_BYTES: usize = 24;
/// Bytes of a record's header that its CRC covers.
const RECORD_CRC_OFFSET: usize = 20;
/// Records begin at multiples of this.
const RECORD_ALIGNMENT: usize = 8;
/// `XLogRecordMaxSize` of PostgreSQL 16; before, what can be allocated at once.
const RECORD_BYTES_MAX: u32 = 1 << 30;

const FIRST_IS_CONTINUED: u16 = 1;
const LONG_HEADER: u16 = 2;
const FIRST_IS_GIVEN_UP: u16 = 8;
const KNOWN_FLAGS: u16 = 15;

/// Resource manager and kind of a switch record.
const SWITCH_RECORD: (u8, u8) = (0, 0x40);
/// Those of a restore point. It has a time and a name: 8 and 64 bytes, behind the two bytes that say so.
const RESTORE_POINT_RECORD: (u8, u8) = (0, 0x70);
const RESTORE_POINT_MARK: [u8; 2] = [0xFF, 72];
const RESTORE_POINT_NAME: std::ops::Range<usize> = 10..74;
const RESTORE_POINT_BYTES: usize = RECORD_HEADER_BYTES + RESTORE_POINT_NAME.end;

/// Resource manager of transactions, and the kinds within it that recovery to a time stops at: commit, abort, and both of a prepared
/// transaction. The highest bit of the kind says only that the record has more fields.
const TRANSACTION_MANAGER: u8 = 1;
const TRANSACTION_KIND: u8 = 0x70;
const TRANSACTION_ENDS: [u8; 4] = [0x00, 0x20, 0x30, 0x40];
/// What may stand before the time of such a record: an origin, the transaction above it, and the length of what follows.
const ORIGIN_MARK: (u8, usize) = (0xFD, 2);
const TOP_TRANSACTION_MARK: (u8, usize) = (0xFC, 4);
const SHORT_DATA_MARK: (u8, usize) = (0xFF, 1);
const LONG_DATA_MARK: (u8, usize) = (0xFE, 4);
/// All of these, and the time.
const TIME_END_MAX: usize = 3 + 5 + 5 + 8;
/// PostgreSQL counts from 2000 on.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A release of PostgreSQL whose log is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Release {
    /// Its major version.
    pub(super) major: u32,
}

impl Release {
    /// The release that writes pages with this magic.
    pub(super) fn of_magic(magic: u16) -> Option<Release> {
        let major = match magic {
            0xD106 => 13,
            0xD10D => 14,
            0xD110 => 15,
            0xD113 => 16,
            0xD116 => 17,
            0xD118 => 18,
            _ => return None,
        };
        Some(Release { major })
    }
}

/// What is wrong with a segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostgreSqlError {
    /// Shorter than its first header.
    #[error("it ends within its first header")]
    Short,
    /// Longer or shorter than its header says that segments are.
    #[error("{found} bytes instead of {expected}")]
    Length {
        /// Length of the file.
        found: u64,
        /// Length of a segment.
        expected: u64,
    },
    /// The first header has a value that no server writes.
    #[error("offset {offset}: {field} of its first page cannot be {found:#x}")]
    FirstHeader {
        /// Which field.
        field: &'static str,
        /// Where.
        offset: usize,
        /// What is there.
        found: u64,
    },
    /// A place where neither a record nor the end of all records is.
    #[error("offset {offset:#x}, LSN {lsn}: {problem}; valid pages follow")]
    Damaged {
        /// In the file.
        offset: usize,
        /// In the log.
        lsn: Lsn,
        /// What is wrong.
        problem: &'static str,
    },
    /// Something follows a switch record.
    #[error("offset {offset:#x}: there is data after the switch record at LSN {switch}")]
    BehindSwitch {
        /// In the file.
        offset: usize,
        /// Of the record.
        switch: Lsn,
    },
}

/// What a segment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) system: u64,
    pub(super) segment_bytes: u32,
    /// LSN of its first byte.
    pub(super) start: Lsn,
    /// The 16 digits of its name that say its place.
    pub(super) digits: u64,
    /// Where its last record ends; the end of the segment, if that one goes on in the next, or is a switch.
    pub(super) records_end: Lsn,
    pub(super) ending: Ending,
}

/// How the records of a segment end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// As those of a whole segment.
    Whole,
    /// Before the segment does, and nothing of this place follows.
    Early,
    /// So that something of this place follows.
    Damaged(PostgreSqlError),
}

/// Looks at a whole segment of `timeline`.
pub(super) fn check(file: &[u8], timeline: TimelineId) -> Result<Segment, PostgreSqlError> {
    let layout = Layout::of(file)?;
    let mut walk = Walk::new(file, layout, timeline);
    let (end, ending) = walk.run();
    Ok(Segment {
        system: layout.system,
        segment_bytes: layout.segment_bytes,
        start: layout.start,
        digits: layout.digits(),
        records_end: layout.lsn(end),
        ending,
    })
}

/// A name that somebody has given to a place in the log of PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestorePoint {
    /// Where its record begins.
    pub lsn: Lsn,
    /// The name.
    pub name: String,
}

/// The restore points in a segment of PostgreSQL's that was archived, oldest first; but not one whose record goes on in the next
/// segment.
///
/// # Errors
/// `PostgreSqlError` for what is no segment.
pub fn postgresql_restore_points(
    segment: &[u8],
    timeline: TimelineId,
) -> Result<Vec<RestorePoint>, PostgreSqlError> {
    let mut walk = Walk::new(segment, Layout::of(segment)?, timeline);
    walk.run();
    Ok(walk.restore_points)
}

/// Where the last record begins that a segment of PostgreSQL's has all of. A switch record does not count: it says that the segment
/// ends there, and changes nothing. `None` if there is no such record.
///
/// # Errors
/// `PostgreSqlError` for what is no segment.
pub fn postgresql_last_record(segment: &[u8], timeline: TimelineId) -> Result<Option<Lsn>, PostgreSqlError> {
    let mut walk = Walk::new(segment, Layout::of(segment)?, timeline);
    walk.run();
    Ok(walk.last_record)
}

/// The latest time at which a transaction ended, by the records that a segment of PostgreSQL's has all of; in microseconds since
/// 1970. `None` if there is no such record.
///
/// # Errors
/// `PostgreSqlError` for what is no segment.
pub fn postgresql_last_transaction_end(
    segment: &[u8],
    timeline: TimelineId,
) -> Result<Option<i64>, PostgreSqlError> {
    let mut walk = Walk::new(segment, Layout::of(segment)?, timeline);
    walk.kept_bytes = TIME_END_MAX;
    walk.run();
    Ok(walk.last_transaction_end)
}

/// What the first page says.
#[derive(Clone, Copy, Debug)]
struct Layout {
    magic: u16,
    system: u64,
    segment_bytes: u32,
    page_bytes: usize,
    start: Lsn,
}

impl Layout {
    fn of(file: &[u8]) -> Result<Layout, PostgreSqlError> {
        let header: &[u8; LONG_HEADER_BYTES] = file.first_chunk().ok_or(PostgreSqlError::Short)?;
        let refuse = |field, offset, found| Err(PostgreSqlError::FirstHeader { field, offset, found });
        let info = u16_at(header, 2);
        if info & !KNOWN_FLAGS != 0 || info & LONG_HEADER == 0 {
            return refuse("xlp_info", 2, u64::from(info));
        }
        let (segment_bytes, page_bytes) = (u32_at(header, 32), u32_at(header, 36));
        if !segment_bytes.is_power_of_two() || !(1 << 20..=1 << 30).contains(&segment_bytes) {
            return refuse("xlp_seg_size", 32, u64::from(segment_bytes));
        }
        if !page_bytes.is_power_of_two() || !(1 << 10..=1 << 16).contains(&page_bytes) {
            return refuse("xlp_xlog_blcksz", 36, u64::from(page_bytes));
        }
        let start = u64_at(header, 8);
        if !start.is_multiple_of(u64::from(segment_bytes)) {
            return refuse("xlp_pageaddr", 8, start);
        }
        if file.len() as u64 != u64::from(segment_bytes) {
            let (found, expected) = (file.len() as u64, u64::from(segment_bytes));
            return Err(PostgreSqlError::Length { found, expected });
        }
        Ok(Layout {
            magic: u16_at(header, 0),
            system: u64_at(header, 24),
            segment_bytes,
            page_bytes: usize::try_from(page_bytes).expect("at most 64 KiB"),
            start: Lsn::new(start),
        })
    }

    fn lsn(&self, offset: usize) -> Lsn {
        Lsn::new(self.start.get().saturating_add(offset as u64))
    }

    fn digits(&self) -> u64 {
        let number = (self.start.get() & 0xFFFF_FFFF) / u64::from(self.segment_bytes);
        self.start.get() >> 32 << 32 | number
    }

    /// Whether the page at `offset` was written for this place.
    fn is_of_this_place(&self, page: &[u8], offset: usize) -> bool {
        u16_at(page, 0) == self.magic && u64_at(page, 8) == self.lsn(offset).get()
    }
}

/// Where the records do not go on.
struct Stop {
    offset: usize,
    problem: &'static str,
}

struct Walk<'a> {
    file: &'a [u8],
    layout: Layout,
    timeline: TimelineId,
    /// The timeline of the page before.
    page_timeline: u32,
    /// LSN of the record before.
    previous: Option<Lsn>,
    /// LSN of the last record that was read and is no switch.
    last_record: Option<Lsn>,
    restore_points: Vec<RestorePoint>,
    /// So many bytes of each record's body are looked at. 0 where nobody asks for times: an archive reads every segment.
    kept_bytes: usize,
    /// In microseconds since 1970, as far as bodies are looked at.
    last_transaction_end: Option<i64>,
}

/// What became of a record.
enum Step {
    /// The next one begins at this offset at the earliest.
    Next(usize),
    /// It goes on in the next segment.
    GoesOn,
    /// It is a switch record, which ends at this offset.
    Switch(usize),
}

impl<'a> Walk<'a> {
    fn new(file: &'a [u8], layout: Layout, timeline: TimelineId) -> Walk<'a> {
        Walk {
            file,
            layout,
            timeline,
            page_timeline: 0,
            previous: None,
            last_record: None,
            restore_points: Vec::new(),
            kept_bytes: 0,
            last_transaction_end: None,
        }
    }

    /// The offset where the records end, and how.
    fn run(&mut self) -> (usize, Ending) {
        let whole = (self.file.len(), Ending::Whole);
        let mut offset = match self.first_record() {
            Ok(Some(offset)) => offset,
            Ok(None) => return whole,
            Err(stop) => return self.end_at(&stop),
        };
        loop {
            match self.record(offset) {
                Ok(Step::Next(next)) if next < self.file.len() => offset = next,
                Ok(Step::Next(_) | Step::GoesOn) => return whole,
                Ok(Step::Switch(end)) => match self.behind_switch(offset, end) {
                    None => return whole,
                    Some(problem) => return (end, Ending::Damaged(problem)),
                },
                Err(stop) => return self.end_at(&stop),
            }
        }
    }

    /// The records end, or are damaged, at `stop`.
    fn end_at(&self, stop: &Stop) -> (usize, Ending) {
        let page_bytes = self.layout.page_bytes;
        let next_page = (stop.offset / page_bytes + 1) * page_bytes;
        let pages = self.file[next_page.min(self.file.len())..].chunks_exact(page_bytes);
        let offsets = (next_page..).step_by(page_bytes);
        let goes_on = pages.zip(offsets).any(|(page, offset)| self.layout.is_of_this_place(page, offset));
        if !goes_on {
            return (stop.offset, Ending::Early);
        }
        let (offset, lsn) = (stop.offset, self.layout.lsn(stop.offset));
        (offset, Ending::Damaged(PostgreSqlError::Damaged { offset, lsn, problem: stop.problem }))
    }

    /// Behind a switch record, pages are zero, header and all, since the release that made them compress better.
    fn behind_switch(&self, switch: usize, end: usize) -> Option<PostgreSqlError> {
        let index = self.file[end..].iter().position(|byte| *byte != 0)?;
        Some(PostgreSqlError::BehindSwitch { offset: end + index, switch: self.layout.lsn(switch) })
    }

    /// The offset of the first record that begins in the segment; `None` if none does.
    fn first_record(&mut self) -> Result<Option<usize>, Stop> {
        let (mut left, mut offset) = self.enter_page(0)?;
        loop {
            let page_end = self.page_end(offset);
            let here = left.min(page_end - offset);
            left -= here;
            offset += here;
            if left == 0 {
                return Ok(Some(align(offset)).filter(|offset| *offset < self.file.len()));
            }
            if offset == self.file.len() {
                return Ok(None);
            }
            let is_given_up = u16_at(&self.file[offset..], 2) & FIRST_IS_GIVEN_UP != 0;
            let (rest, begin) = self.enter_page(offset)?;
            let expected = if is_given_up { 0 } else { left };
            if rest != expected {
                return Err(Stop { offset, problem: "the page does not go on with the record before it" });
            }
            (left, offset) = (rest, begin);
        }
    }

    fn page_end(&self, offset: usize) -> usize {
        (offset / self.layout.page_bytes + 1) * self.layout.page_bytes
    }

    /// Reads the header of the page that begins at `offset`: how many bytes of an earlier record go on there, and where they
    /// do.
    fn enter_page(&mut self, offset: usize) -> Result<(usize, usize), Stop> {
        let stop = |problem| Err(Stop { offset, problem });
        let page = &self.file[offset..offset + SHORT_HEADER_BYTES];
        if u16_at(page, 0) != self.layout.magic {
            return stop("no page begins here");
        }
        if u64_at(page, 8) != self.layout.lsn(offset).get() {
            return stop("the page here belongs to another place");
        }
        let info = u16_at(page, 2);
        let is_long = info & LONG_HEADER != 0;
        if info & !KNOWN_FLAGS != 0 || is_long != (offset == 0) {
            return stop("the page has flags that cannot be");
        }
        let timeline = u32_at(page, 4);
        if timeline < self.page_timeline || timeline > self.timeline.get() || timeline == 0 {
            return stop("the page is of a timeline that cannot be");
        }
        self.page_timeline = timeline;
        let left = u32_at(page, 16);
        if (info & FIRST_IS_CONTINUED != 0) != (left != 0) {
            return stop("the page does not say how a record continues");
        }
        let header_bytes = if is_long { LONG_HEADER_BYTES } else { SHORT_HEADER_BYTES };
        Ok((usize::try_from(left).expect("32 bits"), offset + header_bytes))
    }

    /// Reads the record at `offset`, a multiple of eight. At the beginning of a page its header comes first.
    fn record(&mut self, mut offset: usize) -> Result<Step, Stop> {
        if offset.is_multiple_of(self.layout.page_bytes) {
            let page = offset;
            let (left, begin) = self.enter_page(page)?;
            if left != 0 {
                return Err(Stop { offset: page, problem: "the page continues a record that has ended" });
            }
            offset = begin;
        }
        let begin = offset;
        let stop = |problem| Stop { offset: begin, problem };
        let length = u32_at(&self.file[offset..], 0);
        if !(24..=RECORD_BYTES_MAX).contains(&length) {
            return Err(stop("no record begins here"));
        }
        let mut pieces = Pieces::new(length, self.kept_bytes);
        loop {
            let page_end = self.page_end(offset);
            offset += pieces.take(&self.file[offset..page_end]);
            if pieces.left == 0 {
                break;
            }
            if offset == self.file.len() {
                return Ok(Step::GoesOn);
            }
            let info = u16_at(&self.file[offset..], 2);
            let (left, next) = self.enter_page(offset).map_err(|at_page| stop(at_page.problem))?;
            if info & FIRST_IS_GIVEN_UP != 0 {
                self.previous = None;
                return Ok(Step::Next(offset));
            }
            if left != pieces.left {
                return Err(stop("the next page does not go on with the record"));
            }
            offset = next;
        }
        if !pieces.verifies() {
            return Err(stop("the CRC of the record does not fit"));
        }
        if self.previous.is_some_and(|previous| pieces.previous() != previous) {
            return Err(stop("the record does not name the one before it"));
        }
        let lsn = self.layout.lsn(begin);
        self.previous = Some(lsn);
        self.restore_points.extend(pieces.restore_point().map(|name| RestorePoint { lsn, name }));
        self.last_transaction_end = self.last_transaction_end.max(pieces.transaction_end());
        if pieces.kind() == SWITCH_RECORD {
            return Ok(Step::Switch(offset));
        }
        self.last_record = Some(lsn);
        Ok(Step::Next(align(offset)))
    }
}

/// A record as its pieces come in, page by page.
struct Pieces {
    header: [u8; RECORD_HEADER_BYTES],
    /// How much of the header is there.
    filled: usize,
    /// How much of the record is to come.
    left: usize,
    checksum: Crc32c,
    /// The first bytes after the header.
    body: Vec<u8>,
    /// So many of them are kept: all, of a record as long as a restore point's.
    kept_bytes: usize,
}

impl Pieces {
    fn new(length: u32, kept_bytes: usize) -> Pieces {
        let left = usize::try_from(length).expect("32 bits");
        let kept_bytes = if left == RESTORE_POINT_BYTES { RESTORE_POINT_NAME.end } else { kept_bytes };
        let (header, checksum) = ([0; RECORD_HEADER_BYTES], Crc32c::new());
        Pieces { header, filled: 0, left, checksum, body: Vec::new(), kept_bytes }
    }

    /// Takes in what belongs to the record; returns how much that is.
    fn take(&mut self, bytes: &[u8]) -> usize {
        let taken = self.left.min(bytes.len());
        let of_header = taken.min(RECORD_HEADER_BYTES - self.filled);
        self.header[self.filled..self.filled + of_header].copy_from_slice(&bytes[..of_header]);
        self.filled += of_header;
        self.checksum.update(&bytes[of_header..taken]);
        if self.body.len() < self.kept_bytes {
            let kept = (taken - of_header).min(self.kept_bytes - self.body.len());
            self.body.extend_from_slice(&bytes[of_header..of_header + kept]);
        }
        self.left -= taken;
        taken
    }

    fn verifies(&self) -> bool {
        let mut checksum = self.checksum;
        checksum.update(&self.header[..RECORD_CRC_OFFSET]);
        checksum.finish() == u32_at(&self.header, RECORD_CRC_OFFSET)
    }

    fn previous(&self) -> Lsn {
        Lsn::new(u64_at(&self.header, 8))
    }

    /// The name, if it is a restore point.
    fn restore_point(&self) -> Option<String> {
        let body = Some(&self.body).filter(|body| body.starts_with(&RESTORE_POINT_MARK))?;
        let name = body.get(RESTORE_POINT_NAME).filter(|_| self.kind() == RESTORE_POINT_RECORD)?;
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        Some(String::from_utf8_lossy(&name[..length]).into_owned())
    }

    /// When the transaction ended, if that is what it says; in microseconds since 1970. `None` if too little of the body was kept.
    fn transaction_end(&self) -> Option<i64> {
        let (manager, kind) = self.kind();
        if manager != TRANSACTION_MANAGER || !TRANSACTION_ENDS.contains(&(kind & TRANSACTION_KIND)) {
            return None;
        }
        let mut body = &self.body[..];
        loop {
            let (mark, rest) = body.split_first()?;
            let marks = [ORIGIN_MARK, TOP_TRANSACTION_MARK, SHORT_DATA_MARK, LONG_DATA_MARK];
            let (_, bytes) = marks.into_iter().find(|(known, _)| known == mark)?;
            body = rest.get(bytes..)?;
            if [SHORT_DATA_MARK.0, LONG_DATA_MARK.0].contains(mark) {
                break;
            }
        }
        Some(i64::from_le_bytes(*body.first_chunk()?).saturating_add(EPOCH_MICROS))
    }

    /// Resource manager, and the kind within it.
    fn kind(&self) -> (u8, u8) {
        (self.header[17], self.header[16] & 0xF0)
    }
}

fn align(offset: usize) -> usize {
    offset.next_multiple_of(RECORD_ALIGNMENT)
}
