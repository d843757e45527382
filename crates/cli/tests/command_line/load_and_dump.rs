//! What `load` makes of a file, and that `dump` writes what `load` reads back to the byte.

use std::collections::BTreeMap;

use crate::support::{Scratch, json_lines, repository};

/// Bytes that a seed decides, with a taste for those that formats treat specially.
fn awkward_bytes(state: &mut u64) -> Vec<u8> {
    const SPECIAL: &[u8] = b",\t\"\r\n\\ \0\xff\xef\xbb\xbfa";
    let mut next = || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(*state >> 33).unwrap()
    };
    (0..next() % 12)
        .map(|_| if next() % 4 == 0 { next().to_le_bytes()[0] } else { SPECIAL[next() % SPECIAL.len()] })
        .collect()
}

#[test]
fn dump_load_dump_is_the_same_to_the_byte() {
    let scratch = Scratch::with_database();
    let mut state = 1;
    let rows: BTreeMap<_, _> =
        (0..2_000).map(|_| (awkward_bytes(&mut state), awkward_bytes(&mut state))).collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let lines: String = rows.iter().map(|(key, value)| format!("{},{}\n", hex(key), hex(value))).collect();
    scratch.write("rows.csv", format!("key_hex,value_hex\n{lines}").as_bytes());
    scratch.ok(["load", "db", "t", "rows.csv"]);

    for format in ["csv", "tsv", "jsonl"] {
        for hex in [&[][..], &["--hex"]] {
            let dump = scratch.ok_bytes([&["dump", "db", "t", "--format", format][..], hex].concat());
            scratch.pipe(&dump, ["load", "db", "again", "-", "--format", format]);
            let again = scratch.ok_bytes([&["dump", "db", "again", "--format", format][..], hex].concat());
            assert!(dump == again, "{format} {hex:?}");
            let plain = scratch.ok(["dump", "db", "again", "--hex"]);
            assert!(plain == format!("key_hex,value_hex\n{lines}"), "{format} {hex:?}");
            scratch.ok(["drop", "db", "again"]);
        }
    }
}

#[test]
fn the_shipped_data_loads_and_reads_as_documented() {
    let scratch = Scratch::with_database();
    let airports = repository("data/airports.csv");
    let text = scratch.ok(["load", "db", "airports", airports.to_str().unwrap()]);
    assert!(text.contains("3,376 rows"), "{text}");
    let value = scratch.ok(["get", "db", "airports", "LAX"]);
    let value: serde_json::Value = serde_json::from_str(&value).unwrap();
    assert_eq!(value["name"], "Los Angeles International");
    assert_eq!(value["latitude"], "33.94253611");

    let by_state = ["load", "db", "by_state", airports.to_str().unwrap(), "--key", "state", "--key", "iata"];
    scratch.ok(by_state);
    assert!(scratch.ok(["get", "db", "by_state", "CA/LAX"]).contains("Los Angeles"));

    scratch.ok(["dump", "db", "airports", "--output", "airports.jsonl"]);
    scratch.ok(["load", "db", "copy", "airports.jsonl"]);
    assert_eq!(scratch.ok_bytes(["dump", "db", "copy"]), scratch.ok_bytes(["dump", "db", "airports"]));
}

#[test]
fn every_batch_is_acknowledged_once_it_is_durable() {
    let scratch = Scratch::with_database();
    let rows: String = (0..25).map(|number| format!("{number},x\n")).collect();
    scratch.write("rows.csv", rows.as_bytes());
    let text = scratch.ok(["load", "db", "t", "rows.csv", "--no-header", "--batch", "10", "--acks"]);
    let acks: Vec<_> = text.lines().filter(|line| line.starts_with("committed")).collect();
    assert_eq!(acks, ["committed 10", "committed 20", "committed 25"]);

    let more = ["load", "db", "t", "rows.csv", "--no-header", "--skip", "20", "--acks", "--json"];
    let lines = json_lines(&scratch.ok(more));
    assert_eq!(lines[0], serde_json::json!({ "committed": 25 }));
    assert_eq!(lines[1]["rows"], 5);
}

#[test]
fn a_bad_line_keeps_the_rows_before_it() {
    let scratch = Scratch::with_database();
    scratch.write("rows.csv", b"key,value\na,1\nb,2\nc\nd,4\n");
    let message = scratch.fails(7, ["load", "db", "t", "rows.csv"]);
    assert!(message.contains("line 4") && message.contains("2 rows"), "{message}");
    assert_eq!(scratch.ok(["scan", "db", "t"]), "a\t1\nb\t2\n");
}

#[test]
fn rows_of_a_table_are_replaced_by_later_ones() {
    let scratch = Scratch::with_database();
    scratch.pipe(b"key,value\na,1\na,2\n", ["load", "db", "t", "-"]);
    scratch.pipe(b"{\"key\":\"b\",\"value\":{\"n\":1.50}}\n", ["load", "db", "t", "-", "--format", "jsonl"]);
    assert_eq!(scratch.ok(["scan", "db", "t"]), "a\t2\nb\t{\"n\":1.50}\n");
}

#[test]
fn a_misspelt_table_does_not_cost_the_output_file() {
    let scratch = Scratch::with_database();
    scratch.write("precious.csv", b"precious");
    scratch.fails(3, ["dump", "db", "tabel", "--output", "precious.csv"]);
    assert_eq!(scratch.read("precious.csv"), b"precious");
}
