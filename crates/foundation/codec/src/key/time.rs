//! Points in time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Key, KeyError};

const NANOSECONDS_PER_SECOND: u32 = 1_000_000_000;

/// A point in time. Unit: microseconds since 1970-01-01T00:00:00Z, negative before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The point `microseconds` after 1970-01-01T00:00:00Z.
    pub const fn from_micros(microseconds: i64) -> Timestamp {
        Timestamp(microseconds)
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn as_micros(self) -> i64 {
        self.0
    }
}

/// Rounds down to the microsecond; a time that does not fit (290,000 years away) becomes the nearest that does.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        let (seconds, nanoseconds) = split(time);
        let microseconds = i128::from(seconds) * 1_000_000 + i128::from(nanoseconds / 1_000);
        let nearest = microseconds.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        Timestamp(i64::try_from(nearest).expect("it was clamped to the range of i64"))
    }
}

impl Key for Timestamp {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Timestamp, KeyError> {
        i64::decode(input).map(Timestamp)
    }
}

impl Key for SystemTime {
    fn encode(&self, out: &mut Vec<u8>) {
        let (seconds, nanoseconds) = split(*self);
        seconds.encode(out);
        nanoseconds.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<SystemTime, KeyError> {
        let seconds = i64::decode(input)?;
        let nanoseconds = u32::decode(input)?;
        if nanoseconds >= NANOSECONDS_PER_SECOND {
            return Err(KeyError::Range { what: "nanoseconds", number: i64::from(nanoseconds) });
        }
        let distance = Duration::from_secs(seconds.unsigned_abs());
        let start =
            if seconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
        start
            .and_then(|start| start.checked_add(Duration::from_nanos(u64::from(nanoseconds))))
            .ok_or(KeyError::Range { what: "SystemTime", number: seconds })
    }
}

/// Whole seconds since 1970, rounded down, and the nanoseconds after them.
fn split(time: SystemTime) -> (i64, u32) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(error) => {
            let before = error.duration();
            let borrow = u64::from(before.subsec_nanos() > 0);
            let seconds = 0i64.checked_sub_unsigned(before.as_secs() + borrow).unwrap_or(i64::MIN);
            (seconds, (NANOSECONDS_PER_SECOND - before.subsec_nanos()) % NANOSECONDS_PER_SECOND)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_round_down() {
        let time = UNIX_EPOCH - Duration::from_nanos(1_500);
        assert_eq!(split(time), (-1, 999_998_500));
        assert_eq!(Timestamp::from(time).as_micros(), -2);
        assert_eq!(split(UNIX_EPOCH - Duration::from_secs(3)), (-3, 0));
    }

    #[test]
    fn system_times_keep_their_nanoseconds() {
        for time in [
            UNIX_EPOCH,
            UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789),
            UNIX_EPOCH - Duration::new(12, 1),
        ] {
            assert_eq!(super::super::decode::<SystemTime>(&super::super::encode(&time)), Ok(time));
        }
    }

    #[test]
    fn a_second_has_less_than_a_thousand_million_nanoseconds() {
        let mut bytes = super::super::encode(&UNIX_EPOCH);
        bytes[8..].copy_from_slice(&NANOSECONDS_PER_SECOND.to_be_bytes());
        assert!(matches!(super::super::decode::<SystemTime>(&bytes), Err(KeyError::Range { .. })));
    }
}
