//! The moment that the parts of a text come to, when all of it is read.

use super::{DATE, DAY, DAY_OF_YEAR, DAYLIGHT_ADDED, MONTH, Moment, Reading, TIME, Wanted, YEAR, ZONE, Zone};
use crate::date_time::calendar::{Fields, from_julian, julian, month_days};
use crate::date_time::input::Wrong;
use crate::date_time::zone;
use crate::settings::TimeZone;

impl Reading<'_> {
    pub(super) fn finish(mut self) -> Result<Moment, Wrong> {
        self.complete_date()?;
        self.apply_meridiem()?;
        if let Some(special) = self.special {
            return Ok(special);
        }
        if self.wanted == Wanted::Time {
            return self.finish_time();
        }
        if !self.has(DATE) {
            return Err(Wrong::Form);
        }
        let east = self.east(self.fields)?;
        Ok(Moment::Fields(self.fields, east))
    }

    /// Applies the era and the day of the year, and checks the fields.
    fn complete_date(&mut self) -> Result<(), Wrong> {
        if self.has(YEAR) && !self.is_julian {
            let year = &mut self.fields.year;
            if self.is_bc {
                // There is no year 0 before or after Christ: 1 BC is year 0 here.
                *year = if *year <= 0 { return Err(Wrong::Field) } else { 1 - *year };
            } else if self.is_year_short {
                *year += match *year {
                    ..0 => return Err(Wrong::Field),
                    0..70 => 2000,
                    70..100 => 1900,
                    100.. => 0,
                };
            } else if *year <= 0 {
                return Err(Wrong::Field);
            }
        }
        if self.has(DAY_OF_YEAR) {
            let (year, month, day) = from_julian(julian(self.fields.year, 1, 1) + self.day_of_year - 1);
            self.fields = Fields { year, month, day, ..self.fields };
        }
        let Fields { year, month, day, .. } = self.fields;
        if self.has(MONTH) && !(1..=12).contains(&month) || self.has(DAY) && !(1..=31).contains(&day) {
            return Err(Wrong::MonthOrDay);
        }
        if self.has(DATE) && day > month_days(year, month) {
            return Err(Wrong::Field);
        }
        Ok(())
    }

    fn apply_meridiem(&mut self) -> Result<(), Wrong> {
        let hour = &mut self.fields.hour;
        match self.is_pm {
            Some(_) if *hour > 12 => return Err(Wrong::Field),
            Some(false) if *hour == 12 => *hour = 0,
            Some(true) if *hour != 12 => *hour += 12,
            _ => {}
        }
        Ok(())
    }

    fn finish_time(self) -> Result<Moment, Wrong> {
        let Fields { hour, minute, second, .. } = self.fields;
        if hour < 0 || !(0..60).contains(&minute) || !(0..=60).contains(&second) {
            return Err(Wrong::Field);
        }
        self.check_day_end()?;
        if !self.has(TIME) {
            return Err(Wrong::Form);
        }
        let mut moment = self.fields;
        match &self.zone {
            // Without a date, only a zone that does not change has an offset.
            Zone::Named(zone) if !self.has(DATE) => {
                let east = constant_offset(*zone).ok_or(Wrong::Form)?;
                return if self.has(DAYLIGHT_ADDED) {
                    Err(Wrong::Form)
                } else {
                    Ok(Moment::Fields(moment, east))
                };
            }
            _ if !self.has(DATE) => {
                let (today, _) = self.now();
                moment = Fields { year: today.year, month: today.month, day: today.day, ..moment };
            }
            _ => {}
        }
        let east = self.east(moment)?;
        Ok(Moment::Fields(self.fields, east))
    }

    /// The offset in seconds east of the zone that was said, or of the session's.
    fn east(&self, moment: Fields) -> Result<i64, Wrong> {
        let is_named = !matches!(self.zone, Zone::Offset(_));
        if (is_named || !self.has(ZONE)) && self.has(DAYLIGHT_ADDED) {
            return Err(Wrong::Form);
        }
        Ok(match &self.zone {
            Zone::Offset(east) if self.has(ZONE) => *east,
            Zone::Offset(_) => zone::offset_of_fields(&moment, self.settings.time_zone).east,
            Zone::Named(zone) => zone::offset_of_fields(&moment, *zone).east,
            Zone::Abbreviation(abbreviation, zone) => match moment.timestamp() {
                Some(local) => zone::abbreviated_offset(local, abbreviation, *zone).east,
                None => zone::offset_of_fields(&moment, TimeZone::Named(*zone)).east,
            },
        })
    }
}

/// The offset of a zone that has one for good: all others have changed it since 1900, or do it every year.
fn constant_offset(zone: TimeZone) -> Option<i64> {
    let years = (-100..=100).step_by(5);
    let mut offsets = years.flat_map(|year| [0, 182].map(|day| (year * 365 + day) * crate::date_time::DAY));
    let first = zone::offset_at(0, zone).east;
    offsets.all(|moment| zone::offset_at(moment, zone).east == first).then_some(first)
}
