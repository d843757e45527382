//! Text forms of dates, times and intervals: as PostgreSQL 15 reads and shows them, and there and back again.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use proptest::prelude::*;
use seawall_values::date_time::{calendar, zone};
use seawall_values::settings::{DateOrder, DateStyle, IntervalStyle};
use seawall_values::{Datum, Interval, Oid, Settings, oid, text_form};

const TYPES: [(&str, Oid); 6] = [
    ("date", oid::DATE),
    ("time", oid::TIME),
    ("timetz", oid::TIMETZ),
    ("timestamp", oid::TIMESTAMP),
    ("timestamptz", oid::TIMESTAMPTZ),
    ("interval", oid::INTERVAL),
];

fn settings(line: &str) -> Settings {
    let words: Vec<&str> = line.split(' ').collect();
    Settings {
        time_zone: zone::by_name(words[0]).unwrap(),
        date_style: match words[1] {
            "ISO" => DateStyle::Iso,
            "Postgres" => DateStyle::Postgres,
            "SQL" => DateStyle::Sql,
            _ => DateStyle::German,
        },
        date_order: match words[2] {
            "MDY" => DateOrder::MonthDayYear,
            "DMY" => DateOrder::DayMonthYear,
            _ => DateOrder::YearMonthDay,
        },
        interval_style: match words[3] {
            "postgres" => IntervalStyle::Postgres,
            "postgres_verbose" => IntervalStyle::PostgresVerbose,
            "sql_standard" => IntervalStyle::SqlStandard,
            _ => IntervalStyle::Iso8601,
        },
        ..Settings::default()
    }
}

/// The text form of `timestamp '..'`, or of `time:2 '..'`, where 2 is a modifier.
fn shown(literal: &str, settings: &Settings) -> String {
    let (type_name, text) = literal.split_once(' ').unwrap();
    let (name, modifier) = type_name.split_once(':').unwrap_or((type_name, "-1"));
    let of = TYPES.iter().find(|(known, _)| *known == name).unwrap().1;
    let text = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap();
    let value = text_form::input(of, modifier.parse().unwrap(), text, settings);
    match value.and_then(|value| text_form::text_of(of, &value, settings)) {
        Ok(text) => text,
        Err(error) => format!("! {} {}", error.code.as_str(), error.message),
    }
}

#[test]
fn text_forms_are_those_that_postgresql_has() {
    let mut current = Settings::default();
    let mut failures = Vec::new();
    for line in include_str!("recorded/date_time_forms.txt").lines().filter(|line| !line.starts_with("--")) {
        if let Some(line) = line.strip_prefix("@ ") {
            current = settings(line);
            continue;
        }
        let (literal, expected) = line.rsplit_once(" => ").unwrap();
        let answer = shown(literal, &current);
        if answer != expected {
            failures.push(format!("{literal}\n    is {answer}\n    not {expected}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn words_for_today_mean_the_day_of_the_transaction_in_the_zone_of_the_session() {
    let utc = Settings::default();
    let moment = |text| match text_form::input(oid::TIMESTAMP, -1, text, &utc).unwrap() {
        Datum::Timestamp(moment) => moment,
        other => panic!("{other:?}"),
    };
    let session = Settings {
        transaction_time: moment("2001-02-03 23:30:00.5"),
        time_zone: zone::by_name("europe/berlin").unwrap(),
        ..Settings::default()
    };
    for (literal, expected) in [
        ("date 'today'", "2001-02-04"),
        ("date 'yesterday'", "2001-02-03"),
        ("date 'tomorrow'", "2001-02-05"),
        ("timestamp 'now'", "2001-02-04 00:30:00.5"),
        ("timestamptz 'now'", "2001-02-04 00:30:00.5+01"),
        ("timestamp 'today 04:05'", "2001-02-04 04:05:00"),
        ("timestamptz 'tomorrow'", "2001-02-05 00:00:00+01"),
        ("time 'now'", "00:30:00.5"),
        ("timetz '12:00'", "12:00:00+01"),
    ] {
        assert_eq!(shown(literal, &session), expected, "{literal}");
    }
}

#[test]
fn zones_and_abbreviations_are_listed_with_their_offsets() {
    let names: Vec<_> = zone::names_at(0).collect();
    let berlin = names.iter().find(|(name, _)| *name == "Europe/Berlin").unwrap();
    assert_eq!((berlin.1.east, berlin.1.is_daylight, berlin.1.abbreviation()), (3_600, false, Some("CET")));
    let abbreviations: Vec<_> = zone::abbreviations_at(0).collect();
    assert!(abbreviations.contains(&("CEST".to_owned(), 7_200, true)));
    assert!(abbreviations.contains(&("MSK".to_owned(), 10_800, false)));
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let zones = ["UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC+3:30"];
    let styles = ["ISO", "Postgres", "SQL", "German"];
    let interval_styles = ["postgres", "postgres_verbose", "sql_standard", "iso_8601"];
    (0..zones.len(), 0..styles.len(), 0..3_usize, 0..interval_styles.len()).prop_map(
        move |(zone, style, order, interval_style)| {
            // As PostgreSQL writes a date, it reads it, in these orders only.
            let order = match styles[style] {
                "ISO" => ["MDY", "DMY", "YMD"][order],
                "German" => "DMY",
                _ => ["MDY", "DMY", "DMY"][order],
            };
            settings(&format!(
                "{} {} {order} {}",
                zones[zone], styles[style], interval_styles[interval_style]
            ))
        },
    )
}

/// The value that the text form of a value is read as.
fn there_and_back(of: Oid, value: &Datum, settings: &Settings) -> (String, Datum) {
    let text = text_form::text_of(of, value, settings).unwrap();
    let back = text_form::input(of, -1, &text, settings);
    (text.clone(), back.unwrap_or_else(|error| panic!("{text:?}: {error}")))
}

proptest! {
    #[test]
    fn dates_and_times_survive_their_text_forms(
        settings in any_settings(),
        julian in 0..2_147_483_493_i64,
        time in 0..=86_400_000_000_i64,
        offset in -57_599..57_599_i32,
        micros in -211_813_488_000_000_000..9_223_371_331_200_000_000_i64,
    ) {
        let date = i32::try_from(julian - calendar::EPOCH_JULIAN).unwrap();
        for (of, value) in [
            (oid::DATE, Datum::Date(date)),
            (oid::TIME, Datum::Time(time)),
            (oid::TIMETZ, Datum::TimeTz(time, offset)),
            (oid::TIMESTAMP, Datum::Timestamp(micros)),
        ] {
            let (text, back) = there_and_back(of, &value, &settings);
            prop_assert!(seawall_values::order::is_equal(&back, &value), "{} {:?}", text, value);
        }
        // Abbreviations do not tell all moments apart: with a zone, only ISO's form does.
        let iso = Settings { date_style: DateStyle::Iso, ..settings };
        let (text, back) = there_and_back(oid::TIMESTAMPTZ, &Datum::TimestampTz(micros), &iso);
        prop_assert!(matches!(back, Datum::TimestampTz(moment) if moment == micros), "{}", text);
    }

    #[test]
    fn intervals_survive_their_text_forms(
        settings in any_settings(),
        months in -2_147_483_647..=i32::MAX,
        days in -2_147_483_647..=i32::MAX,
        micros in prop_oneof![-9_223_372_036_854_775_807..=i64::MAX, -100_000_000_i64..100_000_000],
    ) {
        for interval in [
            Interval { months, days, micros },
            Interval { months: 0, days, micros },
            Interval { months: 0, days: 0, micros },
            Interval { months, days: 0, micros: 0 },
        ] {
            let (text, back) = there_and_back(oid::INTERVAL, &Datum::Interval(interval), &settings);
            prop_assert!(matches!(back, Datum::Interval(other) if other == interval), "{} {:?}", text, interval);
        }
    }

    #[test]
    fn no_text_makes_the_inputs_panic(
        settings in any_settings(),
        words in prop::collection::vec(
            prop_oneof![
                "[0-9]{1,9}", "[-+]?[0-9]{1,4}[-:./][0-9]{1,4}", "[-+][0-9]{1,20}", "[a-z]{1,4}", "\\PC{1,3}",
                prop::sample::select(vec![
                    "jan", "bc", "now", "j", "t", "msk", "dst", "pm", "ago", "years", "mil", "P1Y", "T", "UTC+3", "y", "m",
                    "infinity", "epoch", "9223372036854775807", "2147483647", "-9223372036854775808",
                ]).prop_map(str::to_owned),
            ],
            0..6,
        ),
        separator in prop::sample::select(vec![" ", "", "/", "-"]),
    ) {
        let text = words.join(separator);
        for (_, of) in TYPES {
            if let Ok(value) = text_form::input(of, -1, &text, &settings) {
                text_form::text_of(of, &value, &settings).unwrap();
            }
        }
    }
}
