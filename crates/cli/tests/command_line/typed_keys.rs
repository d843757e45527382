//! `--key-type`: the command line finds, writes, loads and dumps what a program has in a `TypedTable`.

use seawall::{Database, Options, TypedTable};

use crate::support::{Scratch, json_lines};

type Orders = TypedTable<(u64, String), String>;

/// A table of a program's: two customers, three orders.
fn with_orders() -> Scratch {
    let scratch = Scratch::new();
    let database = Database::open(scratch.path("db"), Options::default()).unwrap();
    let orders = Orders::create(&database, "orders").unwrap();
    for (customer, day) in [(7, "mon,day"), (7, "tuesday"), (256, "monday")] {
        orders.put_now(&database, (customer, day.to_owned()), format!("{customer} {day}")).unwrap();
    }
    database.close().unwrap();
    scratch
}

#[test]
fn rows_of_a_program_are_found_by_typed_keys() {
    let scratch = with_orders();
    let typed = ["--key-type", "u64,text"];
    let ok = |words: &[&str]| scratch.ok([words, &typed].concat());
    assert_eq!(ok(&["get", "db", "orders", "7,tuesday"]), "7 tuesday\n");
    assert_eq!(ok(&["get", "db", "orders", "7,mon\\,day"]), "7 mon,day\n");
    assert_eq!(
        ok(&["scan", "db", "orders"]),
        "7,mon\\,day\t7 mon,day\n7,tuesday\t7 tuesday\n256,monday\t256 monday\n"
    );
    assert_eq!(ok(&["scan", "db", "orders", "--prefix", "7", "--keys-only"]), "7,mon\\,day\n7,tuesday\n");
    assert_eq!(ok(&["scan", "db", "orders", "--from", "7,n", "--to", "256", "--keys-only"]), "7,tuesday\n");
    let json = json_lines(&ok(&["scan", "db", "orders", "--from", "256", "--json"]));
    assert_eq!(json, [serde_json::json!({ "key": "256,monday", "value": "256 monday" })]);

    ok(&["put", "db", "orders", "8,friday", "new"]);
    ok(&["delete", "db", "orders", "7,tuesday"]);
    scratch.fails(3, ["get", "db", "orders", "7,tuesday", "--key-type", "u64,text"]);
    let database = Database::open(scratch.path("db"), Options::default()).unwrap();
    let orders = Orders::open(&database, "orders").unwrap();
    assert_eq!(orders.get_now(&database, (8, "friday".to_owned())).unwrap().as_deref(), Some("new"));
    assert_eq!(orders.get_now(&database, (7, "tuesday".to_owned())).unwrap(), None);
    database.close().unwrap();
}

#[test]
fn values_may_be_bytes_beside_typed_keys() {
    let scratch = Scratch::with_database();
    scratch.ok(["create", "db", "t"]);
    scratch.ok(["put", "db", "t", "--key-type", "u32", "5", "--hex", "00ff"]);
    assert_eq!(scratch.ok(["get", "db", "t", "00000005", "--hex"]), "00ff\n");
    assert_eq!(scratch.ok(["scan", "db", "t", "--key-type", "u32", "--hex"]), "5\t00ff\n");
}

#[test]
fn a_dump_with_typed_keys_loads_to_the_same_rows() {
    let scratch = with_orders();
    let rows = scratch.ok(["scan", "db", "orders", "--hex"]);
    for format in ["csv", "tsv", "jsonl"] {
        for hex in [&[][..], &["--hex"]] {
            let typed = ["--format", format, "--key-type", "u64,text"];
            let dumped = scratch.ok_bytes([&["dump", "db", "orders"], &typed[..], hex].concat());
            assert!(dumped.windows(10).any(|window| window == b"256,monday"), "{format}");
            scratch.pipe(&dumped, [&["load", "db", "again", "-"], &typed[..]].concat());
            assert_eq!(scratch.ok(["scan", "db", "again", "--hex"]), rows, "{format}");
            scratch.ok(["drop", "db", "again"]);
        }
    }
}

#[test]
fn a_column_for_each_part_of_the_key_is_loaded() {
    let scratch = Scratch::with_database();
    let csv = b"customer,day,value\n7,\"mon,day\",a\n300,x\\y,b\n";
    let typed = ["--key", "customer", "--key", "day", "--key-type", "u64,text"];
    scratch.pipe(csv, [&["load", "db", "t", "-"], &typed[..]].concat());
    let scanned = scratch.ok(["scan", "db", "t", "--key-type", "u64,text"]);
    assert_eq!(scanned, "7,mon\\,day\ta\n300,x\\\\y\tb\n");
    let json = b"{\"id\":10,\"value\":\"a\"}\n{\"id\":9,\"value\":\"b\"}\n";
    scratch.pipe(json, ["load", "db", "n", "-", "--format", "jsonl", "--key", "id", "--key-type", "i16"]);
    assert_eq!(scratch.ok(["scan", "db", "n", "--key-type", "i16"]), "9\tb\n10\ta\n");
}

#[test]
fn what_is_not_of_the_type_is_refused() {
    let scratch = with_orders();
    // A type that there is not, keys that are not of the type, rows that are not.
    scratch.fails(2, ["get", "db", "orders", "7", "--key-type", "u65"]);
    scratch.fails(2, ["get", "db", "orders", "seven", "--key-type", "u64"]);
    scratch.fails(2, ["put", "db", "orders", "7", "1", "--key-type", "u64,text"]);
    scratch.fails(2, ["scan", "db", "orders", "--prefix", "7,a", "--key-type", "u64,text"]);
    let message = scratch.fails(2, ["scan", "db", "orders", "--key-type", "u64"]);
    assert!(message.contains("not of the type"), "{message}");
    scratch.fails(2, ["dump", "db", "orders", "--key-type", "u64"]);
    // A file says in which line.
    scratch.write("rows.csv", b"key,value\n1,a\n-1,b\n");
    let message = scratch.fails(7, ["load", "db", "t", "rows.csv", "--key-type", "u64"]);
    assert!(message.contains("line 3") && message.contains("--skip 1"), "{message}");
    scratch.write("bytes.csv", b"key_hex,value\n01,a\n");
    scratch.fails(2, ["load", "db", "t", "bytes.csv", "--key-type", "u8"]);
    scratch.write("bytes.jsonl", b"{\"key_hex\":\"01\",\"value\":\"a\"}\n");
    scratch.fails(7, ["load", "db", "t", "bytes.jsonl", "--key-type", "u8"]);
}
