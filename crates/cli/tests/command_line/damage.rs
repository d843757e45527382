//! Flipped bits in a database's files: exit code 4 and the place, never a wrong answer.

use crate::support::Scratch;

#[test]
fn a_flipped_bit_in_a_page_is_4() {
    let scratch = Scratch::with_database();
    let rows: String = (0..5_000).map(|number| format!("{number:06},value {number}\n")).collect();
    scratch.write("rows.csv", rows.as_bytes());
    scratch.ok(["load", "db", "t", "rows.csv", "--no-header"]);
    scratch.ok(["checkpoint", "db"]);
    let mut pages = scratch.read("db/pages");
    // The text of a row that is in the tree.
    let place = pages.windows(10).rposition(|window| window == b"value 2500").unwrap();
    pages[place] ^= 1;
    scratch.write("db/pages", &pages);

    let output = scratch.run(["check", "db"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let found = String::from_utf8(output.stdout).unwrap();
    assert!(found.contains("pages"), "{found}");
    assert!(found.contains("(table \"t\")"), "which table the storage is: {found}");
    scratch.fails(4, ["dump", "db", "t", "--output", "out.csv"]);
    // Rows elsewhere stay readable.
    assert_eq!(scratch.ok(["get", "db", "t", "000000"]), "value 0\n");
}
