//! From the order to promote to the first durable commit, by phases; and commits after it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use seawall::{Database, Durability, Options};
use serde::Serialize;

use crate::device::{settle, syncs_per_second};
use crate::error::{BenchError, file_error};
use crate::scratch::Scratch;
use crate::standby::commits::{self, BUCKET};
use crate::standby::{TABLE, copy, failed, follow, open, primary, receive, role};
use crate::usage::now;

/// Tables made by one transaction.
const TABLES_PER_COMMIT: u64 = 1000;
/// Bytes of a row that fills the log.
const LONG_ROW_BYTES: usize = 64 << 10;
const QUIET_FOR: Duration = Duration::from_secs(1);
const SETTLE_WITHIN: Duration = Duration::from_secs(60);
/// A bucket below this share of the rate before counts as a gap.
const GAP_SHARE: f64 = 0.8;

/// What a promotion is crowded with.
#[derive(Clone, Debug, Args)]
pub(crate) struct PromotionArguments {
    /// Directory for the databases; a folder is made in it and removed at the end. Must be on the disk to be measured
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Old segments, full of records, that the standby keeps
    #[arg(long, default_value_t = 1000)]
    segments: u64,
    /// Size of a segment in MiB
    #[arg(long, default_value_t = 1)]
    segment_mib: u64,
    /// Tables
    #[arg(long, default_value_t = 0)]
    tables: u64,
    /// Transactions in doubt, of one row each
    #[arg(long, default_value_t = 0)]
    prepared: u64,
    /// Promotions, each of a copy of the standby
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    tries: u64,
    /// Seconds of commits on the primary alone, and on the standby after its promotion; 0 for none
    #[arg(long, default_value_t = 0)]
    commit_seconds: u64,
    /// Threads that commit then; the tries take turns
    #[arg(long, value_delimiter = ',', default_values_t = [1, 32, 64])]
    threads: Vec<u64>,
}

/// One promotion.
#[derive(Debug, Serialize)]
struct Promotion {
    segments: u64,
    tables: u64,
    prepared: u64,
    promote_us: f64,
    phases_us: BTreeMap<&'static str, f64>,
    /// Whether the disk had become as fast again as it was before the copies were made.
    disk_had_settled: bool,
    first_commit_us: f64,
    order_to_first_commit_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    commits: Option<Commits>,
}

/// Commits by several threads, before and after.
#[derive(Debug, Serialize)]
struct Commits {
    threads: u64,
    /// Of the primary, alone.
    before_per_second: f64,
    /// The lowest bucket, as a share of the mean.
    before_lowest: f64,
    after_per_second: f64,
    /// The lowest bucket, as a share of the rate before.
    after_lowest: f64,
    /// Buckets below four fifths of the rate before.
    gaps: usize,
    /// The same of the primary: what the machine does without a promotion.
    gaps_before: usize,
    /// Of each tenth of a second.
    after: Vec<u64>,
}

/// All tries.
#[derive(Debug, Serialize)]
struct Summary {
    tries: usize,
    order_to_first_commit_median_us: f64,
    order_to_first_commit_max_us: f64,
    phases_median_us: BTreeMap<&'static str, f64>,
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns how many promotions failed: none, for the first that does ends the run.
pub(crate) fn promote(arguments: &PromotionArguments) -> Result<usize, BenchError> {
    let scratch = Scratch::create(&arguments.dir)?;
    let quiet = syncs_per_second(scratch.directory(), QUIET_FOR)?;
    let options = Options::default().with(|options| {
        options.format.segment_bytes = arguments.segment_mib << 20;
        options.log.keep_bytes = (arguments.segments + 8) * (arguments.segment_mib << 20);
    });
    let (first, crowded) = (scratch.directory().join("primary"), scratch.directory().join("standby"));
    primary(&first, &options)?.close().map_err(failed("close"))?;
    copy(&first, &crowded)?;
    let primary = open(&first, &options)?;
    crowd(&primary, arguments)?;
    let standby = follow(&crowded, &options)?;
    receive(&primary, &standby, u64::MAX)?;
    role(&standby)?.apply().map_err(failed("apply"))?;
    role(&standby)?.checkpoint().map_err(failed("checkpoint"))?;
    standby.close().map_err(failed("close"))?;
    let mut before = BTreeMap::new();
    if arguments.commit_seconds > 0 {
        for threads in &arguments.threads {
            let length = Duration::from_secs(arguments.commit_seconds.min(10));
            before.insert(*threads, commits::count(&primary, *threads, length)?);
        }
    }
    primary.close().map_err(failed("close"))?;
    let mut promotions = Vec::new();
    for (number, threads) in (0..arguments.tries).zip(arguments.threads.iter().cycle()) {
        let directory = scratch.directory().join(format!("try-{number}"));
        copy(&crowded, &directory)?;
        rustix::fs::sync();
        let before = before.get(threads).map(|before| (*threads, &before[..]));
        let promotion = promote_once(&directory, &options, arguments, quiet, before)?;
        println!("{}", serde_json::to_string(&promotion)?);
        promotions.push(promotion);
        std::fs::remove_dir_all(&directory).map_err(file_error("remove", &directory))?;
    }
    println!("{}", serde_json::to_string(&summary(&promotions))?);
    scratch.remove()?;
    Ok(0)
}

fn summary(promotions: &[Promotion]) -> Summary {
    let firsts: Vec<f64> = promotions.iter().map(|one| one.order_to_first_commit_us).collect();
    let mut phases: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for (phase, took) in promotions.iter().flat_map(|one| &one.phases_us) {
        phases.entry(phase).or_default().push(*took);
    }
    Summary {
        tries: promotions.len(),
        order_to_first_commit_max_us: firsts.iter().copied().fold(0.0, f64::max),
        order_to_first_commit_median_us: median(firsts),
        phases_median_us: phases.into_iter().map(|(phase, took)| (phase, median(took))).collect(),
    }
}

fn crowd(primary: &Database, arguments: &PromotionArguments) -> Result<(), BenchError> {
    let table = primary.table(TABLE).map_err(failed("open a table"))?;
    let asynchronous = primary.with(Durability::Async);
    let long = vec![7; LONG_ROW_BYTES];
    for row in 0..arguments.segments * (arguments.segment_mib << 20) / LONG_ROW_BYTES as u64 {
        asynchronous.put(&table, (row % 100).to_be_bytes(), &long).map_err(failed("put"))?;
    }
    let mut made = 0;
    while made < arguments.tables {
        let mut transaction = asynchronous.begin();
        for number in made..(made + TABLES_PER_COMMIT).min(arguments.tables) {
            transaction.create_table(&format!("table {number}")).map_err(failed("create a table"))?;
        }
        transaction.commit().map_err(failed("commit"))?;
        made += TABLES_PER_COMMIT;
    }
    for number in 0..arguments.prepared {
        let mut transaction = asynchronous.begin();
        let key = ((1 << 32) | number).to_be_bytes();
        transaction.put(&table, key, b"prepared").map_err(failed("put"))?;
        transaction.prepare(&format!("gid {number}")).map_err(failed("prepare"))?;
    }
    primary.put(&table, b"last", b"durable").map_err(failed("put"))?;
    Ok(())
}

fn promote_once(
    directory: &Path,
    options: &Options,
    arguments: &PromotionArguments,
    quiet: f64,
    before: Option<(u64, &[u64])>,
) -> Result<Promotion, BenchError> {
    let standby = follow(directory, options)?;
    let table = standby.table(TABLE).map_err(failed("open a table"))?;
    // What a running standby has ready; one that was just opened makes it first.
    role(&standby)?.checkpoint().map_err(failed("checkpoint"))?;
    let disk_had_settled = settle(directory, quiet, SETTLE_WITHIN)?;
    let ordered = now();
    let done = role(&standby)?.promote("a benchmark").map_err(failed("promote"))?;
    let promoted = now();
    standby.put(&table, b"first", b"row").map_err(failed("put"))?;
    let written = now();
    let commits = match before {
        None => None,
        Some((threads, before)) => {
            let after = commits::count(&standby, threads, Duration::from_secs(arguments.commit_seconds))?;
            Some(compared(threads, before, after))
        }
    };
    standby.close().map_err(failed("close"))?;
    Ok(Promotion {
        segments: arguments.segments,
        tables: arguments.tables,
        prepared: arguments.prepared,
        promote_us: micros(promoted - ordered),
        phases_us: done.phases.named().into_iter().map(|(phase, took)| (phase, micros(took))).collect(),
        disk_had_settled,
        first_commit_us: micros(written - promoted),
        order_to_first_commit_us: micros(written - ordered),
        commits,
    })
}

fn compared(threads: u64, before: &[u64], after: Vec<u64>) -> Commits {
    let mean = |buckets: &[u64]| buckets.iter().sum::<u64>() as f64 / buckets.len().max(1) as f64;
    let lowest = |buckets: &[u64]| buckets.iter().min().copied().unwrap_or(0) as f64;
    let rate = mean(before);
    let gaps = |buckets: &[u64]| buckets.iter().filter(|bucket| (**bucket as f64) < GAP_SHARE * rate).count();
    let per_second = 1.0 / BUCKET.as_secs_f64();
    Commits {
        threads,
        before_per_second: rate * per_second,
        before_lowest: lowest(before) / rate,
        after_per_second: mean(&after) * per_second,
        after_lowest: lowest(&after) / rate,
        gaps: gaps(&after),
        gaps_before: gaps(before),
        after,
    }
}
