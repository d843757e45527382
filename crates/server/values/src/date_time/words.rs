//! Words that dates, times and intervals contain, and the names of their parts.

/// A unit, as inputs and `extract` name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Julian,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
    Epoch,
    Zone,
    ZoneHour,
    ZoneMinute,
    /// The word `t` before a time.
    Time,
}

/// The meaning of a word in a date or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// `at`, `on`: no meaning.
    Ignored,
    Month(i64),
    Weekday,
    Am,
    Pm,
    Bc,
    Ad,
    /// `dst` after a zone.
    DaylightSaving,
    Unit(Unit),
    /// `t` before a time.
    IsoTime,
    Now,
    Today,
    Tomorrow,
    Yesterday,
    Zulu,
    Epoch,
    Infinity,
    MinusInfinity,
}

/// The meaning of a word in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntervalWord {
    Ignored,
    Ago,
    Unit(Unit),
}

/// Characters of a word that count; the rest of a longer one is not looked at.
const SIGNIFICANT_BYTES: usize = 10;

const DATE_WORDS: &[(&str, Word)] = &[
    ("-infinity", Word::MinusInfinity),
    ("ad", Word::Ad),
    ("allballs", Word::Zulu),
    ("am", Word::Am),
    ("apr", Word::Month(4)),
    ("april", Word::Month(4)),
    ("at", Word::Ignored),
    ("aug", Word::Month(8)),
    ("august", Word::Month(8)),
    ("bc", Word::Bc),
    ("d", Word::Unit(Unit::Day)),
    ("dec", Word::Month(12)),
    ("december", Word::Month(12)),
    ("dow", Word::Unit(Unit::DayOfWeek)),
    ("doy", Word::Unit(Unit::DayOfYear)),
    ("dst", Word::DaylightSaving),
    ("epoch", Word::Epoch),
    ("feb", Word::Month(2)),
    ("february", Word::Month(2)),
    ("fri", Word::Weekday),
    ("friday", Word::Weekday),
    ("h", Word::Unit(Unit::Hour)),
    ("infinity", Word::Infinity),
    ("isodow", Word::Unit(Unit::IsoDayOfWeek)),
    ("isoyear", Word::Unit(Unit::IsoYear)),
    ("j", Word::Unit(Unit::Julian)),
    ("jan", Word::Month(1)),
    ("january", Word::Month(1)),
    ("jd", Word::Unit(Unit::Julian)),
    ("jul", Word::Month(7)),
    ("julian", Word::Unit(Unit::Julian)),
    ("july", Word::Month(7)),
    ("jun", Word::Month(6)),
    ("june", Word::Month(6)),
    ("m", Word::Unit(Unit::Month)),
    ("mar", Word::Month(3)),
    ("march", Word::Month(3)),
    ("may", Word::Month(5)),
    ("mm", Word::Unit(Unit::Minute)),
    ("mon", Word::Weekday),
    ("monday", Word::Weekday),
    ("nov", Word::Month(11)),
    ("november", Word::Month(11)),
    ("now", Word::Now),
    ("oct", Word::Month(10)),
    ("october", Word::Month(10)),
    ("on", Word::Ignored),
    ("pm", Word::Pm),
    ("s", Word::Unit(Unit::Second)),
    ("sat", Word::Weekday),
    ("saturday", Word::Weekday),
    ("sep", Word::Month(9)),
    ("sept", Word::Month(9)),
    ("september", Word::Month(9)),
    ("sun", Word::Weekday),
    ("sunday", Word::Weekday),
    ("t", Word::IsoTime),
    ("thu", Word::Weekday),
    ("thur", Word::Weekday),
    ("thurs", Word::Weekday),
    ("thursday", Word::Weekday),
    ("today", Word::Today),
    ("tomorrow", Word::Tomorrow),
    ("tue", Word::Weekday),
    ("tues", Word::Weekday),
    ("tuesday", Word::Weekday),
    ("wed", Word::Weekday),
    ("wednesday", Word::Weekday),
    ("weds", Word::Weekday),
    ("y", Word::Unit(Unit::Year)),
    ("yesterday", Word::Yesterday),
];

const INTERVAL_WORDS: &[(&str, IntervalWord)] = &[
    ("@", IntervalWord::Ignored),
    ("ago", IntervalWord::Ago),
    ("c", IntervalWord::Unit(Unit::Century)),
    ("cent", IntervalWord::Unit(Unit::Century)),
    ("centuries", IntervalWord::Unit(Unit::Century)),
    ("century", IntervalWord::Unit(Unit::Century)),
    ("d", IntervalWord::Unit(Unit::Day)),
    ("day", IntervalWord::Unit(Unit::Day)),
    ("days", IntervalWord::Unit(Unit::Day)),
    ("dec", IntervalWord::Unit(Unit::Decade)),
    ("decade", IntervalWord::Unit(Unit::Decade)),
    ("decades", IntervalWord::Unit(Unit::Decade)),
    ("decs", IntervalWord::Unit(Unit::Decade)),
    ("h", IntervalWord::Unit(Unit::Hour)),
    ("hour", IntervalWord::Unit(Unit::Hour)),
    ("hours", IntervalWord::Unit(Unit::Hour)),
    ("hr", IntervalWord::Unit(Unit::Hour)),
    ("hrs", IntervalWord::Unit(Unit::Hour)),
    ("m", IntervalWord::Unit(Unit::Minute)),
    ("microsecon", IntervalWord::Unit(Unit::Microsecond)),
    ("mil", IntervalWord::Unit(Unit::Millennium)),
    ("millennia", IntervalWord::Unit(Unit::Millennium)),
    ("millennium", IntervalWord::Unit(Unit::Millennium)),
    ("millisecon", IntervalWord::Unit(Unit::Millisecond)),
    ("mils", IntervalWord::Unit(Unit::Millennium)),
    ("min", IntervalWord::Unit(Unit::Minute)),
    ("mins", IntervalWord::Unit(Unit::Minute)),
    ("minute", IntervalWord::Unit(Unit::Minute)),
    ("minutes", IntervalWord::Unit(Unit::Minute)),
    ("mon", IntervalWord::Unit(Unit::Month)),
    ("mons", IntervalWord::Unit(Unit::Month)),
    ("month", IntervalWord::Unit(Unit::Month)),
    ("months", IntervalWord::Unit(Unit::Month)),
    ("ms", IntervalWord::Unit(Unit::Millisecond)),
    ("msec", IntervalWord::Unit(Unit::Millisecond)),
    ("msecs", IntervalWord::Unit(Unit::Millisecond)),
    ("mseconds", IntervalWord::Unit(Unit::Millisecond)),
    ("qtr", IntervalWord::Unit(Unit::Quarter)),
    ("quarter", IntervalWord::Unit(Unit::Quarter)),
    ("s", IntervalWord::Unit(Unit::Second)),
    ("sec", IntervalWord::Unit(Unit::Second)),
    ("second", IntervalWord::Unit(Unit::Second)),
    ("seconds", IntervalWord::Unit(Unit::Second)),
    ("secs", IntervalWord::Unit(Unit::Second)),
    ("timezone", IntervalWord::Unit(Unit::Zone)),
    ("timezone_h", IntervalWord::Unit(Unit::ZoneHour)),
    ("timezone_m", IntervalWord::Unit(Unit::ZoneMinute)),
    ("us", IntervalWord::Unit(Unit::Microsecond)),
    ("usec", IntervalWord::Unit(Unit::Microsecond)),
    ("usecs", IntervalWord::Unit(Unit::Microsecond)),
    ("useconds", IntervalWord::Unit(Unit::Microsecond)),
    ("w", IntervalWord::Unit(Unit::Week)),
    ("week", IntervalWord::Unit(Unit::Week)),
    ("weeks", IntervalWord::Unit(Unit::Week)),
    ("y", IntervalWord::Unit(Unit::Year)),
    ("year", IntervalWord::Unit(Unit::Year)),
    ("years", IntervalWord::Unit(Unit::Year)),
    ("yr", IntervalWord::Unit(Unit::Year)),
    ("yrs", IntervalWord::Unit(Unit::Year)),
];

fn significant(word: &str) -> &str {
    word.get(..SIGNIFICANT_BYTES).unwrap_or(word)
}

fn find<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    let word = significant(word);
    words.iter().find(|(known, _)| *known == word).map(|(_, meaning)| *meaning)
}

/// The meaning of a word in a date or time; the word is in lower case.
pub(super) fn date_word(word: &str) -> Option<Word> {
    find(DATE_WORDS, word)
}

/// The meaning of a word in an interval; the word is in lower case.
pub(super) fn interval_word(word: &str) -> Option<IntervalWord> {
    find(INTERVAL_WORDS, word)
}

/// The unit that `date_trunc` calls by this name, which is in lower case.
pub(crate) fn interval_unit(name: &str) -> Option<Unit> {
    match interval_word(name)? {
        IntervalWord::Unit(unit) => Some(unit),
        _ => None,
    }
}

/// The unit that `extract` calls by this name, which is in lower case.
pub(crate) fn unit(name: &str) -> Option<Unit> {
    if interval_word(name).is_some() {
        return interval_unit(name);
    }
    match date_word(name)? {
        Word::Unit(unit) => Some(unit),
        Word::Epoch => Some(Unit::Epoch),
        _ => None,
    }
}

/// Whether a word is one for a moment, such as `now`.
pub(crate) fn is_moment(name: &str) -> bool {
    use Word::{Infinity, MinusInfinity, Now, Today, Tomorrow, Yesterday, Zulu};
    let word = date_word(name);
    matches!(word, Some(Infinity | MinusInfinity | Now | Today | Tomorrow | Yesterday | Zulu))
}
