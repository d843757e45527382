//! `pg_settings`, `pg_timezone_abbrevs`.

use rustc_hash::FxHashMap;
use seawall_values::system::{array_elements, system};
use seawall_values::{Datum, Interval, SqlResult, oid};

use super::super::names::Names;
use super::super::source::{Setting, Source};
use super::{Live, Rows, Table, array, text_or_null};

pub(super) const TABLE: Table =
    &[("pg_settings", Live::Once(pg_settings)), ("pg_timezone_abbrevs", Live::Once(pg_timezone_abbrevs))];

/// The settings of the session, with PostgreSQL's descriptions of those that PostgreSQL has.
fn pg_settings(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let described = descriptions();
    let mut settings = source.settings();
    settings.sort_by_key(|setting| setting.name.to_lowercase());
    rows.extend(settings.into_iter().map(|setting| row(described.get(&setting.name), setting)));
    Ok(())
}

/// Columns of the block of settings, in the order in which `row` uses them.
const DESCRIBED: [&str; 10] = [
    "name",
    "unit",
    "category",
    "short_desc",
    "extra_desc",
    "context",
    "vartype",
    "min_val",
    "max_val",
    "boot_val",
];

struct Description {
    fields: [Option<String>; 10],
    words: Option<Vec<Option<String>>>,
}

fn descriptions() -> FxHashMap<String, Description> {
    let Some(block) = system().block("pg_settings") else { return FxHashMap::default() };
    let positions = DESCRIBED.map(|column| block.position(column));
    let words = block.position("enumvals");
    let described = block.rows().map(|row| {
        let fields = positions.map(|position| row[position].as_deref().map(str::to_owned));
        let name = fields[0].clone().unwrap_or_default();
        (name, Description { fields, words: row[words].as_deref().map(array_elements) })
    });
    described.collect()
}

fn row(description: Option<&Description>, setting: Setting) -> Vec<Datum> {
    let described = |position: usize| match description {
        Some(description) => text_or_null(description.fields[position].as_ref()),
        None => Datum::Null,
    };
    let or_else = |position: usize, other: &str| match described(position) {
        Datum::Null => Datum::text(other),
        value => value,
    };
    let words = description.and_then(|description| description.words.as_ref());
    let words = words.map(|words| array(oid::TEXT, words.iter().map(|word| text_or_null(word.as_ref()))));
    vec![
        Datum::text(setting.name),
        Datum::text(setting.value),
        described(1),
        or_else(2, "Customized Options"),
        described(3),
        described(4),
        or_else(5, "user"),
        or_else(6, "string"),
        Datum::text(setting.source),
        described(7),
        described(8),
        words.unwrap_or_default(),
        described(9),
        Datum::text(setting.reset_value),
        Datum::Null,
        Datum::Null,
        Datum::Bool(false),
    ]
}

/// Abbreviations of time zones, with their offsets.
fn pg_timezone_abbrevs(_source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let Some(block) = system().block("pg_timezone_abbrevs") else { return Ok(()) };
    rows.extend(block.rows().map(|row| {
        let text = |position: usize| row[position].as_deref().unwrap_or_default();
        vec![Datum::text(text(0)), Datum::Interval(offset(text(1))), Datum::Bool(text(2) == "t")]
    }));
    Ok(())
}

/// An offset in the form `[-]hours:minutes:seconds`.
fn offset(text: &str) -> Interval {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let seconds = text.split(':').fold(0, |sum, part| sum * 60 + part.parse::<i64>().unwrap_or(0));
    Interval { months: 0, days: 0, micros: sign * seconds * 1_000_000 }
}
