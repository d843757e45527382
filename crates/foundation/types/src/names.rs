//! Identifiers.

use std::fmt;
use std::str::FromStr;

/// One line of history; starts at 1 and grows at each promotion or point-in-time recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineId(u32);

impl TimelineId {
    /// The timeline of a new database.
    pub const FIRST: TimelineId = TimelineId(1);

    /// Timeline number `number`; zero is no timeline.
    pub const fn new(number: u32) -> Option<TimelineId> {
        if number == 0 { None } else { Some(TimelineId(number)) }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for TimelineId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// 16 random bytes drawn when a timeline begins: they distinguish it from a timeline of the same number that another copy of the
/// database begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineMark([u8; 16]);

impl TimelineMark {
    /// The first timeline of a database has no mark: the database's id, drawn at the same moment, distinguishes it.
    pub const NONE: TimelineMark = TimelineMark([0; 16]);

    /// The mark with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> TimelineMark {
        TimelineMark(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for TimelineMark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for TimelineMark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The text is not 32 lowercase hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseTimelineMarkError;

impl FromStr for TimelineMark {
    type Err = ParseTimelineMarkError;

    fn from_str(text: &str) -> Result<TimelineMark, ParseTimelineMarkError> {
        let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        if text.len() != 32 || !text.as_bytes().iter().all(is_digit) {
            return Err(ParseTimelineMarkError);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| ParseTimelineMarkError)?;
        Ok(TimelineMark(number.to_be_bytes()))
    }
}

/// The storage of one table: the first eight bytes (big-endian) of the keys of its rows. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(u64);

impl TableId {
    /// Table number `number`.
    pub const fn new(number: u64) -> TableId {
        TableId(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// A page of the page file: its offset divided by the page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(u64);

impl PageId {
    /// Page number `number`.
    pub const fn new(number: u64) -> PageId {
        PageId(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// 16 random bytes drawn when a database is created: the files of another database are refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DatabaseId([u8; 16]);

impl DatabaseId {
    /// The id with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> DatabaseId {
        DatabaseId(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for DatabaseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for DatabaseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
