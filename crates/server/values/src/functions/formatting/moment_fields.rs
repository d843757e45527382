//! What the fields of a template have said about a moment, and the moment that this comes to.

use crate::date_time::SECOND;
use crate::date_time::calendar::{Fields, first_week, from_julian, month_days};
use crate::error::{SqlError, SqlResult, SqlState};

/// What fields have said; 0 is nothing.
#[derive(Default)]
pub(super) struct Said {
    pub(super) is_of_weeks: Option<bool>,
    pub(super) hour: i64,
    pub(super) is_12_hours: bool,
    pub(super) is_pm: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) seconds_of_day: i64,
    pub(super) weekday: i64,
    pub(super) day: i64,
    pub(super) day_of_year: i64,
    pub(super) month: i64,
    pub(super) millisecond: i64,
    pub(super) microsecond: i64,
    pub(super) year: i64,
    pub(super) year_digits: u32,
    pub(super) is_bc: i64,
    pub(super) week: i64,
    pub(super) week_of_month: i64,
    pub(super) century: i64,
    pub(super) julian: i64,
    pub(super) fraction_digits: Option<u32>,
    pub(super) zone_sign: i64,
    pub(super) zone_hour: i64,
    pub(super) zone_minute: i64,
}

/// A moment as a text says it.
pub(super) struct Moment {
    pub(super) fields: Fields,
    /// Seconds east of Greenwich.
    pub(super) east: Option<i64>,
    pub(super) precision: i32,
}

#[cold]
pub(super) fn format_error(message: String) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

#[cold]
fn field_out_of_range(text: &str) -> Box<SqlError> {
    let message = format!("date/time field value out of range: \"{text}\"");
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

impl Said {
    pub(super) fn moment(mut self, text: &str) -> SqlResult<Moment> {
        let time = self.time()?;
        let mut fields = Fields { year: 0, month: 1, day: 1, ..time };
        let mut has_date = self.set_year(&mut fields);
        if self.julian != 0 {
            set_date(&mut fields, self.julian);
            has_date = true;
        }
        has_date |= self.set_week(&mut fields);
        if self.week_of_month != 0 {
            self.day = (self.week_of_month - 1) * 7 + 1;
        }
        if self.day != 0 {
            fields.day = self.day;
            has_date = true;
        }
        if self.month != 0 {
            fields.month = self.month;
            has_date = true;
        }
        has_date |= self.set_day_of_year(&mut fields)?;
        if has_date && !is_date(&fields) || !is_time(&fields) {
            return Err(field_out_of_range(text));
        }
        let precision = self.fraction_digits.map_or(-1, |digits| i32::try_from(digits).unwrap_or(-1));
        Ok(Moment { fields, east: self.east(text)?, precision })
    }

    fn time(&self) -> SqlResult<Fields> {
        let seconds = self.seconds_of_day;
        let chosen = |said: i64, derived: i64| if said != 0 { said } else { derived };
        let mut hour = chosen(self.hour, seconds / 3_600);
        if self.is_12_hours {
            if !(1..=12).contains(&hour) {
                return Err(format_error(format!("hour \"{hour}\" is invalid for the 12-hour clock"))
                    .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            hour = hour % 12 + if self.is_pm != 0 { 12 } else { 0 };
        }
        Ok(Fields {
            hour,
            minute: chosen(self.minute, seconds % 3_600 / 60),
            second: chosen(self.second, seconds % 60),
            micros: self.millisecond.saturating_mul(1_000).saturating_add(self.microsecond),
            ..Fields::default()
        })
    }

    /// Sets the year from year and century; returns whether there was one.
    fn set_year(&mut self, fields: &mut Fields) -> bool {
        if self.century != 0 && self.is_bc != 0 && (self.year == 0 || self.year_digits <= 2) {
            self.century = -self.century;
        }
        let century = self.century;
        fields.year = match self.year {
            0 if century == 0 => return false,
            0 if century > 0 => (century - 1) * 100 + 1,
            0 => century * 100 + 1,
            year if century != 0 && self.year_digits <= 2 => match year % 100 {
                0 => century * 100 + i64::from(century < 0),
                rest if century > 0 => rest + (century - 1) * 100,
                rest => (century + 1) * 100 - rest + 1,
            },
            year => {
                let signed = if self.is_bc != 0 { -year } else { year };
                if signed < 0 { signed + 1 } else { signed }
            }
        };
        true
    }

    /// Sets the date from a week; returns whether it is one of ISO 8601.
    fn set_week(&mut self, fields: &mut Fields) -> bool {
        if self.week == 0 {
            return false;
        }
        if self.is_of_weeks != Some(true) {
            self.day_of_year = (self.week - 1) * 7 + 1;
            return false;
        }
        let days = match self.weekday {
            0 => 0,
            ..=1 => 6,
            weekday => weekday - 2,
        };
        set_date(fields, first_week(fields.year) + (self.week - 1) * 7 + days);
        true
    }

    /// Sets month and day from the day of the year, if they are not said.
    fn set_day_of_year(&self, fields: &mut Fields) -> SqlResult<bool> {
        if self.day_of_year == 0 || fields.month > 1 && fields.day > 1 {
            return Ok(false);
        }
        if fields.year == 0 && self.is_bc == 0 {
            return Err(format_error("cannot calculate day of year without year information".to_owned()));
        }
        if self.is_of_weeks == Some(true) {
            set_date(fields, first_week(fields.year) - 1 + self.day_of_year);
            return Ok(true);
        }
        let (mut month, mut day) = (1, self.day_of_year);
        while month <= 12 && day > month_days(fields.year, month) {
            day -= month_days(fields.year, month);
            month += 1;
        }
        if fields.month <= 1 {
            fields.month = month;
        }
        if fields.day <= 1 {
            fields.day = day;
        }
        Ok(true)
    }

    fn east(&self, text: &str) -> SqlResult<Option<i64>> {
        const HOURS_MAX: i64 = 15;
        if self.zone_sign == 0 {
            return Ok(None);
        }
        if !(0..=HOURS_MAX).contains(&self.zone_hour) || !(0..60).contains(&self.zone_minute) {
            let message = format!("time zone displacement out of range: \"{text}\"");
            return Err(SqlError::new(SqlState::INVALID_TIME_ZONE_DISPLACEMENT, message));
        }
        Ok(Some(self.zone_sign * (self.zone_hour * 60 + self.zone_minute) * 60))
    }
}

fn set_date(fields: &mut Fields, julian: i64) {
    let (year, month, day) = from_julian(julian);
    *fields = Fields { year, month, day, ..*fields };
}

fn is_date(fields: &Fields) -> bool {
    (1..=12).contains(&fields.month) && (1..=month_days(fields.year, fields.month)).contains(&fields.day)
}

fn is_time(fields: &Fields) -> bool {
    (0..24).contains(&fields.hour)
        && (0..60).contains(&fields.minute)
        && (0..60).contains(&fields.second)
        && (0..SECOND).contains(&fields.micros)
}
