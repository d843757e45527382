//! Fields of templates for dates and times.

use super::template::{Grammar, Modifiers, Part, parse};

/// The case of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Capital,
    Lower,
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// `A.M.`, `PM`: with points or without.
    Meridiem {
        has_points: bool,
        case: Case,
    },
    /// `B.C.`, `AD`.
    Era {
        has_points: bool,
        case: Case,
    },
    Century,
    DayName(Case),
    DayNameShort(Case),
    DayOfYear,
    Day,
    Weekday,
    /// `FF1` to `FF6`: so many digits after the second's point.
    Fraction(u32),
    /// Input takes the template literally from here on.
    Exact,
    Hour24,
    Hour12,
    IsoDayOfYear,
    IsoWeekday,
    IsoWeek,
    /// The last so many digits of the year of a week.
    IsoYear(u32),
    Julian,
    Minute,
    Month,
    MonthName(Case),
    MonthNameShort(Case),
    Millisecond,
    Microsecond,
    Offset,
    Quarter,
    RomanMonth(Case),
    SecondsOfDay,
    Second,
    ZoneHour,
    ZoneMinute,
    ZoneName(Case),
    Week,
    WeekOfMonth,
    /// `Y,YYY`.
    YearWithComma,
    /// The last so many digits of the year.
    Year(u32),
}

/// A field and its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) field: Field,
    pub(super) name: &'static str,
}

use Case::{Capital, Lower, Upper};

macro_rules! fields {
    ($($name:literal => $field:expr,)*) => { &[$(($name, Named { field: $field, name: $name }),)*] };
}

const GRAMMAR: Grammar<Named> = Grammar {
    is_of_moments: true,
    fields: fields! {
        "A.D." => Field::Era { has_points: true, case: Upper },
        "A.M." => Field::Meridiem { has_points: true, case: Upper },
        "AD" => Field::Era { has_points: false, case: Upper },
        "AM" => Field::Meridiem { has_points: false, case: Upper },
        "B.C." => Field::Era { has_points: true, case: Upper },
        "BC" => Field::Era { has_points: false, case: Upper },
        "CC" => Field::Century,
        "DAY" => Field::DayName(Upper),
        "DDD" => Field::DayOfYear,
        "DD" => Field::Day,
        "DY" => Field::DayNameShort(Upper),
        "Day" => Field::DayName(Capital),
        "Dy" => Field::DayNameShort(Capital),
        "D" => Field::Weekday,
        "FF1" => Field::Fraction(1),
        "FF2" => Field::Fraction(2),
        "FF3" => Field::Fraction(3),
        "FF4" => Field::Fraction(4),
        "FF5" => Field::Fraction(5),
        "FF6" => Field::Fraction(6),
        "FX" => Field::Exact,
        "HH24" => Field::Hour24,
        "HH12" => Field::Hour12,
        "HH" => Field::Hour12,
        "IDDD" => Field::IsoDayOfYear,
        "ID" => Field::IsoWeekday,
        "IW" => Field::IsoWeek,
        "IYYY" => Field::IsoYear(4),
        "IYY" => Field::IsoYear(3),
        "IY" => Field::IsoYear(2),
        "I" => Field::IsoYear(1),
        "J" => Field::Julian,
        "MI" => Field::Minute,
        "MM" => Field::Month,
        "MONTH" => Field::MonthName(Upper),
        "MON" => Field::MonthNameShort(Upper),
        "MS" => Field::Millisecond,
        "Month" => Field::MonthName(Capital),
        "Mon" => Field::MonthNameShort(Capital),
        "OF" => Field::Offset,
        "P.M." => Field::Meridiem { has_points: true, case: Upper },
        "PM" => Field::Meridiem { has_points: false, case: Upper },
        "Q" => Field::Quarter,
        "RM" => Field::RomanMonth(Upper),
        "SSSSS" => Field::SecondsOfDay,
        "SSSS" => Field::SecondsOfDay,
        "SS" => Field::Second,
        "TZH" => Field::ZoneHour,
        "TZM" => Field::ZoneMinute,
        "TZ" => Field::ZoneName(Upper),
        "US" => Field::Microsecond,
        "WW" => Field::Week,
        "W" => Field::WeekOfMonth,
        "Y,YYY" => Field::YearWithComma,
        "YYYY" => Field::Year(4),
        "YYY" => Field::Year(3),
        "YY" => Field::Year(2),
        "Y" => Field::Year(1),
        "a.d." => Field::Era { has_points: true, case: Lower },
        "a.m." => Field::Meridiem { has_points: true, case: Lower },
        "ad" => Field::Era { has_points: false, case: Lower },
        "am" => Field::Meridiem { has_points: false, case: Lower },
        "b.c." => Field::Era { has_points: true, case: Lower },
        "bc" => Field::Era { has_points: false, case: Lower },
        "cc" => Field::Century,
        "day" => Field::DayName(Lower),
        "ddd" => Field::DayOfYear,
        "dd" => Field::Day,
        "dy" => Field::DayNameShort(Lower),
        "d" => Field::Weekday,
        "ff1" => Field::Fraction(1),
        "ff2" => Field::Fraction(2),
        "ff3" => Field::Fraction(3),
        "ff4" => Field::Fraction(4),
        "ff5" => Field::Fraction(5),
        "ff6" => Field::Fraction(6),
        "fx" => Field::Exact,
        "hh24" => Field::Hour24,
        "hh12" => Field::Hour12,
        "hh" => Field::Hour12,
        "iddd" => Field::IsoDayOfYear,
        "id" => Field::IsoWeekday,
        "iw" => Field::IsoWeek,
        "iyyy" => Field::IsoYear(4),
        "iyy" => Field::IsoYear(3),
        "iy" => Field::IsoYear(2),
        "i" => Field::IsoYear(1),
        "j" => Field::Julian,
        "mi" => Field::Minute,
        "mm" => Field::Month,
        "month" => Field::MonthName(Lower),
        "mon" => Field::MonthNameShort(Lower),
        "ms" => Field::Millisecond,
        "of" => Field::Offset,
        "p.m." => Field::Meridiem { has_points: true, case: Lower },
        "pm" => Field::Meridiem { has_points: false, case: Lower },
        "q" => Field::Quarter,
        "rm" => Field::RomanMonth(Lower),
        "sssss" => Field::SecondsOfDay,
        "ssss" => Field::SecondsOfDay,
        "ss" => Field::Second,
        "tzh" => Field::ZoneHour,
        "tzm" => Field::ZoneMinute,
        "tz" => Field::ZoneName(Lower),
        "us" => Field::Microsecond,
        "ww" => Field::Week,
        "w" => Field::WeekOfMonth,
        "y,yyy" => Field::YearWithComma,
        "yyyy" => Field::Year(4),
        "yyy" => Field::Year(3),
        "yy" => Field::Year(2),
        "y" => Field::Year(1),
    },
};

/// The parts of a template for dates and times.
pub(super) fn parts(template: &str) -> Vec<Part<Named>> {
    parse(template, &GRAMMAR)
}

impl Field {
    /// Whether the field is read as digits only.
    pub(super) fn is_digits(self) -> bool {
        !matches!(
            self,
            Field::Meridiem { .. }
                | Field::Era { .. }
                | Field::DayName(_)
                | Field::DayNameShort(_)
                | Field::MonthName(_)
                | Field::MonthNameShort(_)
                | Field::RomanMonth(_)
                | Field::Offset
                | Field::ZoneHour
                | Field::ZoneName(_)
                | Field::Exact
        )
    }

    /// Which calendar the field belongs to, if it belongs to one: whether it is that of ISO 8601's weeks.
    pub(super) fn is_of_weeks(self) -> Option<bool> {
        match self {
            Field::IsoDayOfYear | Field::IsoWeekday | Field::IsoWeek | Field::IsoYear(_) => Some(true),
            Field::DayOfYear
            | Field::Day
            | Field::Weekday
            | Field::Month
            | Field::MonthName(_)
            | Field::MonthNameShort(_)
            | Field::RomanMonth(_)
            | Field::Week
            | Field::WeekOfMonth
            | Field::YearWithComma
            | Field::Year(_) => Some(false),
            _ => None,
        }
    }
}

impl Case {
    /// A name, which begins with a capital, in this case.
    pub(super) fn of(self, name: &str) -> String {
        match self {
            Case::Upper => name.to_ascii_uppercase(),
            Case::Capital => name.to_owned(),
            Case::Lower => name.to_ascii_lowercase(),
        }
    }
}

/// Whether the number of a field ends where its digits end: nothing after it can begin with a digit.
pub(super) fn is_delimited(modifiers: Modifiers, next: Option<&Part<Named>>) -> bool {
    if modifiers.ordinal.is_some() {
        return true;
    }
    match next {
        None => true,
        Some(Part::Field(named, _)) => !named.field.is_digits(),
        Some(Part::Space(text) | Part::Separator(text) | Part::Text(text)) => !text.is_ascii_digit(),
    }
}
