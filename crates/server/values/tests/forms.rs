//! Text and binary forms of values: as PostgreSQL 15 answers, and round trips of random ones.
//!
//! A line of `recorded/forms.txt` is a type, a text, and after `=>` the text that PostgreSQL shows for the value and its binary form
//! in hexadecimal; or `!`, and the code, message and detail of an error. `\n`, `\\` and `\t` as in C; a quote is doubled.

use std::fmt::Write;

use proptest::prelude::*;
use seawall_values::{Datum, Oid, Settings, SqlResult, binary_form, order, system, text_form};

fn type_of(name: &str) -> Oid {
    let element = name.trim_end_matches("[]").trim_matches('"');
    let element = if element == "boolean" { "bool" } else { element };
    let of = system::system().type_by_name(element).unwrap_or_else(|| panic!("no type {name}")).oid;
    if name.ends_with("[]") { text_form::array_of(of).expect("it has an array type") } else { of }
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t").replace('\'', "''");
    format!("'{escaped}'")
}

fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).expect("the text is quoted");
    let mut plain = String::new();
    let mut characters = inner.replace("''", "'").chars().collect::<Vec<_>>().into_iter();
    while let Some(character) = characters.next() {
        plain.extend(match character {
            '\\' => characters.next().map(|escaped| match escaped {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            other => Some(other),
        });
    }
    plain
}

fn read(of: Oid, text: &str) -> SqlResult<Datum> {
    text_form::input(of, -1, text, &Settings::default())
}

fn shown(of: Oid, value: &Datum) -> String {
    text_form::text_of(of, value, &Settings::default()).expect("the value has a text form")
}

fn sent(of: Oid, value: &Datum) -> Vec<u8> {
    let mut bytes = Vec::new();
    binary_form::send(of, value, &Settings::default(), &mut bytes).expect("the value has a binary form");
    bytes
}

fn received(of: Oid, bytes: &[u8]) -> SqlResult<Datum> {
    binary_form::receive(of, -1, bytes, &Settings::default())
}

fn answer(of: Oid, text: &str) -> String {
    match read(of, text) {
        Ok(value) => {
            let bytes = sent(of, &value);
            let back = received(of, &bytes).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(shown(of, &back), shown(of, &value), "received again");
            let mut answer = quoted(&shown(of, &value));
            answer.push(' ');
            bytes.iter().for_each(|byte| write!(answer, "{byte:02x}").expect("a text takes all"));
            answer
        }
        Err(error) => {
            let detail = error.detail.map_or(String::new(), |detail| format!(" {}", quoted(&detail)));
            format!("! {} {}{detail}", error.code.as_str(), quoted(&error.message))
        }
    }
}

#[test]
fn forms_are_those_of_postgresql() {
    let mut failures = Vec::new();
    let recorded = include_str!("recorded/forms.txt");
    for line in recorded.lines().filter(|line| !line.starts_with("--")) {
        let (asked, expected) = line.rsplit_once(" => ").unwrap_or_else(|| panic!("no answer in {line}"));
        let (name, text) = asked.split_once(' ').unwrap_or_else(|| panic!("no text in {line}"));
        let answer = answer(type_of(name), &unquoted(text));
        if answer != expected {
            failures.push(format!("{asked}\n    is {answer}\n    not {expected}"));
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));
}

/// Types with inputs that do not depend on the calendar, and what their texts are made of.
const SIMPLE: &[(&str, &str)] = &[
    ("bool", "[tfyno01 ]{0,5}"),
    ("int2", "[-+]?[0-9]{1,5}"),
    ("int4", "[-+]?[0-9]{1,10}"),
    ("int8", "[-+]?[0-9]{1,19}"),
    ("float4", "[-+]?[0-9]{1,12}(\\.[0-9]{0,12})?(e[-+]?[0-9]{1,2})?"),
    ("float8", "[-+]?[0-9]{1,20}(\\.[0-9]{0,20})?(e[-+]?[0-9]{1,3})?"),
    ("numeric", "[-+]?[0-9]{1,40}(\\.[0-9]{0,40})?(e[-+]?[0-9]{1,2})?"),
    ("text", "\\PC{0,10}"),
    ("bytea", "(\\\\x([0-9a-f]{2}){0,6}|\\PC{0,6})"),
    ("uuid", "[0-9a-f]{32}"),
    ("varbit", "[01]{0,20}"),
    ("oid", "[0-9]{1,10}"),
    ("pg_lsn", "[0-9A-F]{1,8}/[0-9A-F]{1,8}"),
    ("tid", "\\([0-9]{1,9},[0-9]{1,5}\\)"),
    ("int4[]", "[{}0-9,NUL ]{0,12}"),
    ("text[]", "[{}a-c,\"\\\\NUL ]{0,16}"),
    ("numeric[]", "\\{[0-9]{1,5},[0-9]{1,3}\\.[0-9]{1,3}\\}"),
];

fn text_of_a_type() -> impl Strategy<Value = (Oid, String)> {
    prop::sample::select(SIMPLE).prop_flat_map(|(name, pattern)| {
        let of = type_of(name);
        proptest::string::string_regex(pattern)
            .expect("the pattern is right")
            .prop_map(move |text| (of, text))
    })
}

fn hash(value: &Datum) -> u64 {
    use std::hash::Hasher;
    let mut hasher = rustc_hash::FxHasher::default();
    order::hash_into(value, &mut hasher);
    hasher.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn texts_and_bytes_give_the_value_back((of, text) in text_of_a_type()) {
        if let Ok(value) = read(of, &text) {
            let shown_once = shown(of, &value);
            let again = read(of, &shown_once).expect("what is shown can be read");
            prop_assert_eq!(shown(of, &again), shown_once.clone());
            prop_assert!(order::is_equal(&value, &again));
            prop_assert_eq!(hash(&value), hash(&again));
            let back = received(of, &sent(of, &value)).expect("what is sent can be received");
            prop_assert_eq!(shown(of, &back), shown_once);
            prop_assert!(order::is_equal(&value, &back));
        }
    }

    #[test]
    fn random_texts_do_not_panic(text in "\\PC{0,24}") {
        for (name, _) in SIMPLE {
            if let Ok(value) = read(type_of(name), &text) {
                shown(type_of(name), &value);
            }
        }
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        for row in system::system().types().iter().filter(|row| text_form::has_input(row.oid)) {
            // Dates have tests of their own.
            if row.category != b'D' && row.category != b'T' && let Ok(value) = received(row.oid, &bytes) {
                shown(row.oid, &value);
                sent(row.oid, &value);
            }
        }
    }

    #[test]
    fn order_is_total_and_agrees_with_hashes(
        (name, texts) in prop::sample::select(SIMPLE).prop_flat_map(|(name, pattern)| {
            let text = proptest::string::string_regex(pattern).expect("the pattern is right");
            (Just(name), prop::collection::vec(text, 3))
        })
    ) {
        let values: Vec<Datum> = texts.iter().flat_map(|text| read(type_of(name), text)).collect();
        for left in &values {
            for right in &values {
                let ordering = order::compare(left, right);
                prop_assert_eq!(order::compare(right, left), ordering.reverse());
                prop_assert_eq!(order::is_equal(left, right), ordering.is_eq());
                prop_assert!(ordering.is_ne() || hash(left) == hash(right));
                for third in &values {
                    let is_chain = ordering.is_le() && order::compare(right, third).is_le();
                    prop_assert!(!is_chain || order::compare(left, third).is_le());
                }
            }
        }
    }
}
