//! What the runs show, for people and for programs.

use serde_json::json;

use super::{Measured, Replayed, Written};
use crate::error::BenchError;

pub(super) fn show(
    clients: usize,
    puts: &Measured,
    pairs: &Measured,
    as_json: bool,
) -> Result<(), BenchError> {
    let ratio = rate(&pairs.written) / rate(&puts.written);
    if as_json {
        let line = json!({
            "workload": "twophase",
            "clients": clients,
            "puts": figures(puts),
            "pairs": figures(pairs),
            "pairs_per_put": ratio,
        });
        println!("{}", serde_json::to_string(&line)?);
        return Ok(());
    }
    println!("| {clients} clients | puts | prepare and commit prepared |");
    println!("|---|---:|---:|");
    let line = |name: &str, figure: &dyn Fn(&Measured) -> f64, decimals: usize| {
        println!("| {name} | {:.decimals$} | {:.decimals$} |", figure(puts), figure(pairs));
    };
    line("transactions a second", &|one| rate(&one.written), 0);
    line("for each put", &|one| rate(&one.written) / rate(&puts.written), 2);
    line("latency, median, us", &|one| one.written.median_micros, 0);
    line("latency, 99%, us", &|one| one.written.p99_micros, 0);
    line("latency, 99.9%, us", &|one| one.written.p99_9_micros, 0);
    line("slowest prepare, ms", &|one| one.written.slowest_prepare_micros / 1000.0, 1);
    line("slowest decision, ms", &|one| one.written.slowest_decision_micros / 1000.0, 1);
    line("checkpoints", &|one| one.written.checkpoints as f64, 0);
    line("longest freeze, ms", &|one| one.written.longest_freeze_micros / 1000.0, 2);
    line("open after the kill, seconds", &|one| one.replayed.open_seconds, 2);
    line("decided then", &|one| one.replayed.decided as f64, 0);
    line("deciding them, seconds", &|one| one.replayed.decide_seconds, 2);
    line("latency, slowest, ms", &|one| one.written.slowest_micros / 1000.0, 1);
    line("CPU a transaction, us", &|one| one.written.cpu_seconds * 1e6 / count(one), 1);
    line("log bytes a transaction", &|one| one.written.log_bytes as f64 / count(one), 0);
    line("flushes a transaction", &|one| one.written.flushes as f64 / count(one), 3);
    line("replay, seconds", &|one| one.replayed.seconds, 2);
    line("replay, records a second", &|one| records_per_second(&one.replayed), 0);
    line("replay, transactions a second", &|one| transactions_per_second(one), 0);
    line("replay, times as fast as it was produced", &replay_to_production, 1);
    println!();
    Ok(())
}

fn figures(one: &Measured) -> serde_json::Value {
    json!({
        "written": one.written,
        "replayed": one.replayed,
        "transactions_per_second": rate(&one.written),
        "log_bytes_per_transaction": one.written.log_bytes as f64 / count(one),
        "replay_records_per_second": records_per_second(&one.replayed),
        "replay_transactions_per_second": transactions_per_second(one),
        "replay_to_production": replay_to_production(one),
    })
}

fn count(one: &Measured) -> f64 {
    (one.written.transactions as f64).max(1.0)
}

fn rate(written: &Written) -> f64 {
    written.transactions as f64 / written.seconds
}

fn records_per_second(replayed: &Replayed) -> f64 {
    replayed.records as f64 / replayed.seconds
}

/// Each transaction has one row. What checkpoints have taken is not replayed.
fn transactions_per_second(one: &Measured) -> f64 {
    one.replayed.rows as f64 / one.replayed.seconds
}

fn replay_to_production(one: &Measured) -> f64 {
    transactions_per_second(one) / rate(&one.written)
}
