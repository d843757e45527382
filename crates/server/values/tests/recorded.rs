//! Calls of functions and aggregates with the answers that PostgreSQL 15 gives (C.UTF-8, UTC).
//!
//! A line of `recorded/*.txt` is a call of a source of `pg_proc`: `lpad(text 'ab', int4 '5', text 'x') text => 'xxxab'`: types and
//! texts of the arguments, the type of the result, its text. `null` has no quotes, and a quote is doubled. `! 22012 division by zero`
//! instead of a result: an error. `%` before the name: an aggregate; its arguments are rows, those of one row joined by `&`, and the
//! declared types stand after `by`.
//! `#` before the name: a set-returning function; its rows are joined by `;`, columns by `&`. `\n`, `\\` and `\t` as in C.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use seawall_values::functions::{Call, implementation};
use seawall_values::set_returning::set_implementation;
use seawall_values::{Datum, Oid, Settings, SqlError, SqlResult, TypeReference, aggregates, oid, text_form};

/// Names of types in recorded calls.
const TYPES: &[(&str, Oid)] = &[
    ("bool", oid::BOOL),
    ("bytea", oid::BYTEA),
    ("char", oid::CHAR),
    ("name", oid::NAME),
    ("int8", oid::INT8),
    ("int2", oid::INT2),
    ("int4", oid::INT4),
    ("text", oid::TEXT),
    ("oid", oid::OID),
    ("json", oid::JSON),
    ("float4", oid::FLOAT4),
    ("float8", oid::FLOAT8),
    ("bpchar", oid::BPCHAR),
    ("varchar", oid::VARCHAR),
    ("date", oid::DATE),
    ("time", oid::TIME),
    ("timestamp", oid::TIMESTAMP),
    ("timestamptz", oid::TIMESTAMPTZ),
    ("interval", oid::INTERVAL),
    ("timetz", oid::TIMETZ),
    ("bit", oid::BIT),
    ("varbit", oid::VARBIT),
    ("numeric", oid::NUMERIC),
    ("uuid", oid::UUID),
    ("jsonb", oid::JSONB),
    ("jsonpath", oid::JSONPATH),
    ("pg_lsn", oid::PG_LSN),
    ("record", oid::RECORD),
    ("text[]", oid::TEXT_ARRAY),
    ("int4[]", oid::INT4_ARRAY),
    ("int8[]", oid::INT8_ARRAY),
    ("oid[]", oid::OID_ARRAY),
    ("float8[]", oid::FLOAT8_ARRAY),
    ("bool[]", oid::BOOL_ARRAY),
    ("numeric[]", oid::NUMERIC_ARRAY),
    ("timestamptz[]", oid::TIMESTAMPTZ_ARRAY),
    ("interval[]", oid::INTERVAL_ARRAY),
    ("json[]", oid::JSON_ARRAY),
    ("jsonb[]", oid::JSONB_ARRAY),
    ("bytea[]", oid::BYTEA_ARRAY),
    ("any", oid::ANY),
    ("anyelement", oid::ANYELEMENT),
    ("anyarray", oid::ANYARRAY),
    ("anynonarray", oid::ANYNONARRAY),
];

fn type_of(name: &str) -> Oid {
    TYPES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no type {name}")).1
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn word(&mut self) -> &'a str {
        let end = self.rest.find([' ', '(', ')', ',', '&', ';', ':']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn accept(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, text: &str) {
        assert!(self.accept(text), "{text:?} is expected before {:?}", self.rest);
    }

    /// A quoted text, or null.
    fn text(&mut self) -> Option<String> {
        if self.accept("null") {
            return None;
        }
        self.expect("'");
        let mut text = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '\'' if !self.rest[at + 1..].starts_with('\'') => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                '\'' => {
                    characters.next();
                    text.push('\'');
                }
                '\\' => match characters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, other)) => text.push(other),
                    None => break,
                },
                _ => text.push(character),
            }
        }
        panic!("a quote is not closed: {}", self.rest)
    }

    fn argument(&mut self) -> (TypeReference, SqlResult<Datum>) {
        let of = type_of(self.word());
        self.expect(" ");
        let text = self.text();
        let value =
            text.map_or(Ok(Datum::Null), |text| text_form::input(of, -1, &text, &Settings::default()));
        (TypeReference::of(of), value)
    }
}

fn text_of(of: Oid, value: &Datum) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let mut text = String::new();
    text_form::output(of, value, &Settings::default(), &mut text).expect("values have text forms");
    format!("'{}'", text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t").replace('\'', "''"))
}

fn error_text(error: &SqlError) -> String {
    format!("! {} {}", error.code.as_str(), error.message.replace('\n', "\\n"))
}

/// The rows of arguments between the parentheses.
fn arguments(reader: &mut Reader<'_>) -> (Vec<TypeReference>, SqlResult<Vec<Vec<Datum>>>) {
    let (mut types, mut rows, mut row) = (Vec::new(), Vec::new(), Vec::new());
    if reader.accept(")") {
        return (types, Ok(vec![row]));
    }
    loop {
        let (of, value) = reader.argument();
        if rows.is_empty() {
            types.push(of);
        }
        match value {
            Ok(value) => row.push(value),
            Err(error) => return (types, Err(error)),
        }
        if reader.accept(")") {
            rows.push(row);
            return (types, Ok(rows));
        }
        if reader.accept(", ") {
            rows.push(std::mem::take(&mut row));
        } else {
            reader.expect(" & ");
        }
    }
}

fn call(line: &str) -> String {
    let mut reader = Reader { rest: line };
    let (is_aggregate, is_set) = (reader.accept("%"), reader.accept("#"));
    let name = reader.word();
    reader.expect("(");
    let (types, rows) = arguments(&mut reader);
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => return error_text(&error),
    };
    reader.expect(" ");
    let declared_result = reader.word();
    let result_type =
        TypeReference::of(if declared_result == "record" { oid::RECORD } else { type_of(declared_result) });
    let result = if is_aggregate {
        reader.expect(" by ");
        aggregate(name, &mut reader, &types, result_type, &rows)
    } else {
        // Of a function the arguments are one row, whatever parts them.
        let values: Vec<Datum> = rows.into_iter().flatten().collect();
        function(name, is_set, &types_of(line), result_type, &values)
    };
    result.unwrap_or_else(|error| error_text(&error))
}

/// The types of all arguments of a call.
fn types_of(line: &str) -> Vec<TypeReference> {
    let mut reader = Reader { rest: line.trim_start_matches('#') };
    reader.word();
    reader.expect("(");
    let mut types = Vec::new();
    while !reader.accept(")") {
        types.push(TypeReference::of(type_of(reader.word())));
        reader.expect(" ");
        reader.text();
        reader.accept(", ");
    }
    types
}

fn function(
    name: &str,
    is_set: bool,
    types: &[TypeReference],
    result_type: TypeReference,
    values: &[Datum],
) -> SqlResult<String> {
    let settings = Settings::default();
    let call = Call { arguments: values, argument_types: types, result_type, settings: &settings };
    if !is_set {
        let implementation = implementation(name).unwrap_or_else(|| panic!("no implementation of {name}"));
        return implementation(&call).map(|value| text_of(result_type.oid, &value));
    }
    let implementation = set_implementation(name).unwrap_or_else(|| panic!("no implementation of {name}"));
    let rows = implementation(&call)?.map(|row| {
        let row = row?;
        let single = result_type.oid != oid::RECORD;
        let texts =
            row.iter().map(|value| text_of(if single { result_type.oid } else { plain_type(value) }, value));
        Ok(texts.collect::<Vec<_>>().join(" & "))
    });
    Ok(rows.collect::<SqlResult<Vec<_>>>()?.join("; "))
}

/// The type by which a column of a record is shown.
fn plain_type(value: &Datum) -> Oid {
    match value {
        Datum::Jsonb(_) => oid::JSONB,
        Datum::Int4(_) => oid::INT4,
        Datum::Array(array) => text_form::array_of(array.element).unwrap(),
        _ => oid::TEXT,
    }
}

fn aggregate(
    name: &str,
    reader: &mut Reader<'_>,
    types: &[TypeReference],
    result_type: TypeReference,
    rows: &[Vec<Datum>],
) -> SqlResult<String> {
    let mut declared = Vec::new();
    while !reader.rest.is_empty() && !reader.accept(" ") {
        declared.push(type_of(reader.word()));
        reader.accept(",");
    }
    let new = aggregates::aggregate(name, &declared).unwrap_or_else(|| panic!("no aggregate {name}"));
    let settings = Settings::default();
    let mut whole = new(types, result_type);
    let mut shrinking = new(types, result_type);
    let mut can_remove = true;
    for row in rows {
        whole.add(row, &settings)?;
        // A second one takes each row twice and gives one back: the result must be the same.
        shrinking.add(row, &settings)?;
        shrinking.add(row, &settings)?;
        can_remove &= shrinking.remove(row, &settings)?;
    }
    let text = text_of(result_type.oid, &whole.result(&settings)?);
    if can_remove {
        assert_eq!(
            text_of(result_type.oid, &shrinking.result(&settings)?),
            text,
            "{name} after rows were taken back"
        );
    }
    Ok(text)
}

fn check(recorded: &str) {
    let mut failures = Vec::new();
    let mut count = 0;
    for line in recorded.lines().filter(|line| !line.is_empty() && !line.starts_with("--")) {
        let (asked, expected) = line.rsplit_once(" => ").unwrap_or_else(|| panic!("no answer in {line}"));
        count += 1;
        let answer = call(asked);
        if answer != expected {
            failures.push(format!("{asked}\n    is {answer}\n    not {expected}"));
        }
    }
    assert!(count > 0);
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}

macro_rules! recorded {
    ($($name:ident,)*) => {
        $(#[test] fn $name() {
            check(include_str!(concat!("recorded/", stringify!($name), ".txt")));
        })*
    };
}

recorded! {
    aggregates,
    arithmetic,
    arrays,
    bytes,
    casts,
    date_time,
    formatting,
    hashes,
    json,
    json_input,
    jsonpath,
    math,
    numeric,
    operators,
    patterns,
    quoting,
    sets,
    sizes,
    text,
    transitions,
}
