//! The tour, short.

use crate::support::{Scratch, json_lines};

#[test]
fn the_tour_ends_well() {
    let scratch = Scratch::new();
    let text = scratch.ok(["tour", "--scratch", ".", "--seconds", "0.5"]);
    assert!(text.contains("kill -9") && text.contains("Everything held"), "{text}");
    assert_eq!(std::fs::read_dir(scratch.path("")).unwrap().count(), 0, "the scratch directory is removed");
}

#[test]
fn the_tour_takes_a_file_of_the_user() {
    let scratch = Scratch::new();
    let rows: String = (0..3_000).map(|number| format!("{{\"id\":{number},\"n\":[{number}]}}\n")).collect();
    scratch.write("rows.jsonl", rows.as_bytes());
    let tour =
        ["tour", "--scratch", ".", "--data", "rows.jsonl", "--key", "id", "--seconds", "0.2", "--json"];
    let facts = json_lines(&scratch.ok(tour));
    assert_eq!(facts[0]["rows"], 3_000);
    assert!(facts[0]["promotion_seconds"].is_f64() || facts[0]["psql"] == false, "{facts:?}");
    assert!(facts[0]["rows_recovered"].as_u64() >= facts[0]["rows_acknowledged"].as_u64());
}

#[test]
fn a_bench_says_what_it_measured() {
    let scratch = Scratch::new();
    let bench = ["bench", "--dir", "db", "--seconds", "0.05", "--threads", "1,2", "--json"];
    let figures = json_lines(&scratch.ok(bench));
    assert!(figures.len() >= 9);
    assert!(
        // A rate that rounds to none is a machine that was busy.
        figures.iter().all(|figure| figure["per_second"].is_u64()),
        "{figures:?}"
    );
}
