//! The log sequence number.

use std::fmt;
use std::str::FromStr;

/// Log sequence number: a byte position in the log since the database was created; also the commit order, the stamp
/// of a row version and a snapshot. LSNs of two timelines are comparable only up to the point where they fork.
///
/// A commit is stamped with the position right after its record, so a snapshot at `S` sees exactly the commits whose
/// stamp is at most `S`, and a commit is durable once the log is flushed up to its stamp.
/// Unit: bytes. Shown as two hexadecimal halves, `1/A2B3C4D8`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// Before every record; no commit has this stamp.
    pub const ZERO: Lsn = Lsn(0);
    /// After every record.
    pub const MAX: Lsn = Lsn(u64::MAX);

    /// The position `bytes` after the start of the log.
    pub const fn new(bytes: u64) -> Lsn {
        Lsn(bytes)
    }

    /// The position in bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// How many bytes lie between `earlier` and here; zero when `earlier` is not earlier.
    pub const fn bytes_since(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The text is not an LSN such as `1/A2B3C4D8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseLsnError(String);

impl fmt::Display for ParseLsnError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} is not an LSN: expected two hexadecimal halves, such as 1/A2B3C4D8", self.0)
    }
}

impl std::error::Error for ParseLsnError {}

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Lsn, ParseLsnError> {
        let refuse = || ParseLsnError(text.to_owned());
        let (high, low) = text.split_once('/').ok_or_else(refuse)?;
        // As PostgreSQL's `pg_lsn`: one to eight digits, zeros in front or not. `from_str_radix` would take a sign.
        let is_half =
            |half: &str| (1..=8).contains(&half.len()) && half.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_half(high) || !is_half(low) {
            return Err(refuse());
        }
        let high = u32::from_str_radix(high, 16).map_err(|_| refuse())?;
        let low = u32::from_str_radix(low, 16).map_err(|_| refuse())?;
        Ok(Lsn(u64::from(high) << 32 | u64::from(low)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_an_lsn_reads_back() {
        for lsn in [Lsn::ZERO, Lsn::MAX, Lsn::new(0x1_A2B3_C4D8)] {
            assert_eq!(lsn.to_string().parse(), Ok(lsn));
        }
        assert_eq!(Lsn::new(0x1_A2B3_C4D8).to_string(), "1/A2B3C4D8");
        assert!("1A2B".parse::<Lsn>().is_err());
        assert!("1/100000000".parse::<Lsn>().is_err());
    }

    #[test]
    fn as_with_postgresql_zeros_and_small_letters_are_taken_and_signs_are_not() {
        for text in ["1/2", "0001/2", "1/00000002", "00000001/00000002"] {
            assert_eq!(text.parse(), Ok(Lsn::new(1 << 32 | 2)), "{text}");
        }
        assert_eq!("a/Bc".parse(), Ok(Lsn::new(0xA << 32 | 0xBC)));
        for text in [
            "+1/+2",
            "+1/2",
            "1/+2",
            "-1/2",
            "/2",
            "1/",
            "/",
            "000000001/2",
            "1/000000002",
            " 1/2",
            "1/2/3",
            "0x1/2",
        ] {
            assert!(text.parse::<Lsn>().is_err(), "{text}");
        }
    }
}
