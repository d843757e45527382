//! What the second copy of changed pages costs, in each place and compression, on this machine's disk:
//! `cargo run --release -p seawall-engine --example page_protection -- DIRECTORY [ROWS]`.
//!
//! Puts rows of about 100 bytes into a scratch directory below DIRECTORY, overwrites a tenth of them, spread evenly,
//! and takes a checkpoint; then the same in the next combination. A changed page is written once in place, and once as
//! an image: `written per page` counts both, in pages.
#![allow(clippy::unwrap_used, reason = "a program for measuring ends where it cannot go on")]

use std::path::PathBuf;

use seawall_engine::{Database, Durability, Error, ImageCompression, OpenMode, Options, PageProtection};

const CITIES: [&str; 8] = ["Vienna", "Osaka", "Lagos", "Quito", "Perth", "Lyon", "Austin", "Turku"];

/// A row as applications have them: numbers, words, an address, some bytes that nothing makes smaller.
fn value(number: u64, round: u64) -> String {
    let mixed = (number ^ (round << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let city = CITIES[usize::try_from(mixed >> 61).unwrap()];
    let (amount, first) = (mixed % 100_000, mixed >> 40 & 0xFFFF);
    format!(
        "{{\"id\":{number},\"city\":\"{city}\",\"mail\":\"u{first}@example.org\",\"amount\":{amount},\"token\":\"{mixed:016x}\"}}"
    )
}

struct Measured {
    checkpoint: seawall_engine::CheckpointStatistics,
    log_bytes: u64,
    image_log_bytes: u64,
    page_bytes: u64,
}

fn measure(directory: PathBuf, rows: u64, options: Options) -> Result<Measured, Error> {
    let page_bytes = u64::from(options.page_bytes);
    let database = Database::open(&directory, options)?;
    let table = database.create_table("rows")?;
    // In no order, so that leaves are as full as inserts leave them: a bulk load would pack them.
    for number in (0..rows).map(|number| number.wrapping_mul(7_368_787) % rows) {
        database.put_with(&table, number.to_be_bytes(), value(number, 0), Durability::Async)?;
    }
    database.checkpoint()?;
    let before = database.statistics().log_bytes;
    for number in (0..rows).step_by(10) {
        database.put_with(&table, number.to_be_bytes(), value(number, 1), Durability::Async)?;
    }
    database.flush()?;
    let log_bytes = database.statistics().log_bytes - before;
    let checkpoint = database.checkpoint()?;
    let image_log_bytes = database.statistics().log_bytes - before - log_bytes;
    database.close()?;
    std::fs::remove_dir_all(&directory).unwrap();
    Ok(Measured { checkpoint, log_bytes, image_log_bytes, page_bytes })
}

#[expect(clippy::cast_precision_loss, reason = "ratios for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let base = PathBuf::from(arguments.next().unwrap_or_else(|| ".".to_owned()));
    let rows: u64 = arguments.next().map_or(1_000_000, |text| text.parse().unwrap());
    println!(
        "| place | compression | pages | image bytes / page | written per page | log bytes | image log bytes | pack and write | sync | page write | page sync | total |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for page_protection in PageProtection::ALL {
        for page_image_compression in ImageCompression::ALL {
            let options = Options {
                mode: OpenMode::New,
                page_protection,
                page_image_compression,
                checkpoint_log_bytes: 8 << 30,
                ..Options::default()
            };
            let directory = base.join(format!("page-protection-{page_protection}-{page_image_compression}"));
            let Measured { checkpoint, log_bytes, image_log_bytes, page_bytes } =
                measure(directory, rows, options)?;
            let stored = checkpoint.recovery_file_bytes;
            let changed = checkpoint.protected_pages * page_bytes;
            let written = stored + checkpoint.page_file_bytes;
            let parts = checkpoint.durations;
            println!(
                "| {page_protection} | {page_image_compression} | {} | {:.0} | {:.2} | {log_bytes} | {} | {:?} | {:?} | {:?} | {:?} | {:?} |",
                checkpoint.protected_pages,
                ratio(stored, checkpoint.protected_pages),
                ratio(written - checkpoint.fresh_pages * page_bytes, changed),
                image_log_bytes,
                parts.recovery_write,
                parts.recovery_sync,
                parts.page_write,
                parts.page_sync,
                parts.total,
            );
        }
    }
    Ok(())
}
