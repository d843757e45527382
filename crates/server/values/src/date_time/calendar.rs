//! Days, and the years, months and days that they are in the proleptic Gregorian calendar.
//!
//! Years are astronomical: year 0 is 1 BC, -1 is 2 BC. Days are counted as Julian days (0 is 4714-11-24 BC) or from 2000-01-01.

use super::{DATE_INFINITY, DATE_MINUS_INFINITY, DAY, HOUR, MINUTE, SECOND};

/// The Julian day of 2000-01-01.
pub const EPOCH_JULIAN: i64 = 2_451_545;
/// Days from 1970-01-01 to 2000-01-01.
pub(crate) const UNIX_EPOCH_DAYS: i64 = 10_957;
/// The least timestamp: 4714-11-24 BC.
pub(crate) const TIMESTAMP_MIN: i64 = -EPOCH_JULIAN * DAY;
/// The first timestamp that cannot be represented: 294277-01-01.
pub(crate) const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;
/// The first Julian day that is not a date: 5874898-01-01.
const DATE_END_JULIAN: i64 = 2_147_483_494;

/// Names of the months.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Names of the days of the week.
pub(crate) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A moment as clocks and calendars show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Astronomical: 0 is 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// 0 to 23; 24 at the end of a `time`.
    pub hour: i64,
    /// 0 to 59.
    pub minute: i64,
    /// 0 to 59; inputs may have 60.
    pub second: i64,
    /// Microseconds of the second.
    pub micros: i64,
}

/// Whether a year has 366 days.
pub fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The days of a month, which is 1 to 12.
pub fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The Julian day of a date. Years count from March, so that the leap day is the last one.
pub fn julian(year: i64, month: i64, day: i64) -> i64 {
    let months = year * 12 + month - 3;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12));
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day + 1_721_119
}

/// Year, month and day of a Julian day: the inverse of `julian`.
pub fn from_julian(julian: i64) -> (i64, i64, i64) {
    const CYCLE: i64 = 146_097;
    let days = julian - 1_721_120;
    let (cycle, day) = (days.div_euclid(CYCLE), days.rem_euclid(CYCLE));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + carry, month, day)
}

/// Whether a year and month are ones that a date can have, and their Julian days can be computed with.
pub fn is_valid_month(year: i64, month: i64) -> bool {
    (-4713, 11) <= (year, month) && (year, month) < (5_874_898, 6)
}

/// The day of the week of a Julian day: 0 is Sunday.
pub fn weekday(julian: i64) -> i64 {
    (julian + 1).rem_euclid(7)
}

/// The Julian day of the Monday with which week 1 of a year begins, as ISO 8601 counts weeks.
pub(crate) fn first_week(year: i64) -> i64 {
    let january_fourth = julian(year, 1, 4);
    january_fourth - (weekday(january_fourth) + 6) % 7
}

/// The year and the week of a Julian day, as ISO 8601 counts them.
pub(crate) fn iso_week(julian: i64) -> (i64, i64) {
    let (year, ..) = from_julian(julian);
    let year = if julian >= first_week(year + 1) {
        year + 1
    } else if julian < first_week(year) {
        year - 1
    } else {
        year
    };
    (year, (julian - first_week(year)) / 7 + 1)
}

/// The fields of a timestamp, which is not infinite.
pub fn split(timestamp: i64) -> Fields {
    let (year, month, day) = from_julian(timestamp.div_euclid(DAY) + EPOCH_JULIAN);
    Fields { year, month, day, ..split_time(timestamp.rem_euclid(DAY)) }
}

/// The fields of a time of day.
pub fn split_time(micros: i64) -> Fields {
    Fields {
        hour: micros / HOUR,
        minute: micros % HOUR / MINUTE,
        second: micros % MINUTE / SECOND,
        micros: micros % SECOND,
        ..Fields::default()
    }
}

impl Fields {
    /// The time of day in microseconds.
    pub fn time(&self) -> i64 {
        self.hour * HOUR + self.minute * MINUTE + self.second * SECOND + self.micros
    }

    /// The Julian day.
    pub fn julian(&self) -> i64 {
        julian(self.year, self.month, self.day)
    }

    /// The day of the year, from 1.
    pub fn day_of_year(&self) -> i64 {
        self.julian() - julian(self.year, 1, 1) + 1
    }

    /// The timestamp, if it can be represented. A time beyond the end of the day carries over.
    pub fn timestamp(&self) -> Option<i64> {
        if !is_valid_month(self.year, self.month) {
            return None;
        }
        checked(i128::from(self.julian() - EPOCH_JULIAN) * i128::from(DAY) + i128::from(self.time()))
    }

    /// The date, if it can be represented.
    pub fn date(&self) -> Option<i32> {
        if !is_valid_month(self.year, self.month) { None } else { date_of_julian(self.julian()) }
    }
}

/// A count of microseconds as a timestamp, if it can be represented.
pub(crate) fn checked(micros: i128) -> Option<i64> {
    let micros = i64::try_from(micros).ok()?;
    (TIMESTAMP_MIN..TIMESTAMP_END).contains(&micros).then_some(micros)
}

/// The date of a Julian day, if it can be represented.
pub(crate) fn date_of_julian(julian: i64) -> Option<i32> {
    let is_valid = (0..DATE_END_JULIAN).contains(&julian);
    if is_valid { i32::try_from(julian - EPOCH_JULIAN).ok() } else { None }
}

/// The Julian day of a date, which is not infinite.
pub(crate) fn julian_of_date(date: i32) -> i64 {
    i64::from(date) + EPOCH_JULIAN
}

/// The date of a timestamp; infinities stay what they are.
pub(crate) fn date_of(timestamp: i64) -> i32 {
    match timestamp {
        i64::MIN => DATE_MINUS_INFINITY,
        i64::MAX => DATE_INFINITY,
        _ => i32::try_from(timestamp.div_euclid(DAY)).unwrap_or(DATE_INFINITY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverses() {
        assert_eq!(julian(2000, 1, 1), EPOCH_JULIAN);
        assert_eq!(julian(-4713, 11, 24), 0);
        assert_eq!(julian(1970, 1, 1), EPOCH_JULIAN - UNIX_EPOCH_DAYS);
        let mut expected = (-4713, 11, 24);
        for day in 0..2_600_000 {
            assert_eq!(from_julian(day), expected);
            assert_eq!(julian(expected.0, expected.1, expected.2), day);
            expected.2 += 1;
            if expected.2 > month_days(expected.0, expected.1) {
                expected = (expected.0, expected.1 + 1, 1);
            }
            if expected.1 > 12 {
                expected = (expected.0 + 1, 1, 1);
            }
        }
    }
}
