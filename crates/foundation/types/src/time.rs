//! Times of day as people read them.

/// Microseconds since 1970 as a date and time, UTC.
pub fn utc(micros: i64) -> String {
    const DAY_MICROS: i64 = 86_400_000_000;
    let (day, time) = (micros.div_euclid(DAY_MICROS), micros.rem_euclid(DAY_MICROS));
    // Days to civil date in a calendar that starts in March, so that leap days are last (Hinnant's `civil_from_days`).
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (seconds, fraction) = (time / 1_000_000, time % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day_of_month:02} {hour:02}:{minute:02}:{second:02}.{fraction:06} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000000 UTC");
        assert_eq!(utc(1_709_164_799_000_001), "2024-02-28 23:59:59.000001 UTC");
        assert_eq!(utc(1_709_164_800_000_000), "2024-02-29 00:00:00.000000 UTC");
        assert_eq!(utc(-1), "1969-12-31 23:59:59.999999 UTC");
    }
}
