//! `kill -9` in the middle of `load --acks`: every acknowledged row is there, in whole batches, and `check` is clean.
//! The long version is `seawall-torture power-loss`, which kills and cuts the power, of loaders and of threads with all kinds of commits.

#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::Scratch;

const ROWS: u64 = 20_000;
const BATCH: u64 = 50;

#[test]
fn acknowledged_rows_survive_kill_9() {
    let scratch = Scratch::with_database();
    let rows: String = (0..ROWS).map(|number| format!("{number:08},value of {number}\n")).collect();
    scratch.write("rows.csv", rows.as_bytes());
    let mut loaded = 0;
    for round in 1..=5 {
        let skip = loaded.to_string();
        let batch = BATCH.to_string();
        let load =
            ["load", "db", "t", "rows.csv", "--no-header", "--batch", &batch, "--acks", "--skip", &skip];
        let mut loader = scratch.command(load).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(loader.stdout.take().unwrap()).lines();
        let mut acknowledged = loaded;
        for line in lines {
            let Some(rows) =
                line.unwrap().strip_prefix("committed ").map(|rows| rows.parse::<u64>().unwrap())
            else {
                continue;
            };
            acknowledged = rows;
            if acknowledged >= round * ROWS / 6 {
                // A second kill of a dead process is an error that does not matter.
                loader.kill().ok();
            }
        }
        loader.wait().unwrap();

        let check = scratch.ok(["check", "db"]);
        assert!(check.contains("no damage"), "{check}");
        let table = scratch.ok(["scan", "db", "t"]);
        let found = u64::try_from(table.lines().count()).unwrap();
        assert!(found >= acknowledged, "round {round}: {acknowledged} acknowledged, {found} found");
        assert!(
            found.is_multiple_of(BATCH) || found == ROWS,
            "round {round}: {found} rows are no whole batches"
        );
        let expected: String = (0..found).map(|number| format!("{number:08}\tvalue of {number}\n")).collect();
        assert!(table == expected, "round {round}: the table is not the first {found} rows of the file");
        loaded = found;
    }
}
