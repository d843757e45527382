//! Old log segments, by the thousand, removed while somebody works: how long it takes, how many syncs of the directory, and
//! what the longest commit and the longest open pay for it, beside a quiet run.
//!
//! ```text
//!   quiet:   commits | opens            no old segments
//!   beside:  open    | commits ...      until the last of them is gone
//!   opens:   open, close, open, close   while they go
//!   at once: checkpoint                 all of them without rest: what the file system takes
//! ```
//! The old segments are those of a timeline that was left, beyond the fork, as after a promotion. They are written, zero by
//! zero, or with `--content allocated` (`fallocate`) only allocated, which costs a file system less to free. Beyond
//! `--disk-gib` they are holes, which cost least; the figures say which.
//!
//! Start at `cell::measure`.

mod cell;

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::command_line::seconds;
use crate::error::BenchError;
use crate::scratch::Scratch;

use cell::{Cell, Content, Figures};

/// What the user may ask.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Directory for the databases; a folder is made in it and removed at the end. Must be on the disk to be measured
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Numbers of old segments, comma-separated
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 10_000])]
    segments: Vec<u64>,
    /// Sizes of a segment in MiB, comma-separated
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16])]
    segment_mib: Vec<u64>,
    /// Seconds of commits in the quiet run
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Opens in the quiet run, and while segments go
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    opens: u64,
    /// Whether old segments are written, or their space is only allocated: quicker to make, and quicker to remove
    #[arg(long, default_value = "written", value_parser = PossibleValuesParser::new(["written", "allocated"]))]
    content: String,
    /// Old segments that would take more space than this are holes
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    disk_gib: u64,
    /// One JSON line a cell instead of the Markdown table
    #[arg(long)]
    json: bool,
    /// Do not write the machine's dirty pages before each cell: quicker, and cells disturb each other
    #[arg(long)]
    unsettled: bool,
}

/// Returns how many cells failed.
pub(crate) fn run(arguments: &Arguments) -> Result<usize, BenchError> {
    let scratch = Scratch::create(&arguments.dir)?;
    let mut failures = 0;
    let mut measured = Vec::new();
    for &segment_mib in &arguments.segment_mib {
        for &segments in &arguments.segments {
            let cell = Cell {
                directory: scratch.directory().join(format!("segments-{segment_mib}-{segments}")),
                segments,
                segment_bytes: segment_mib << 20,
                seconds: arguments.seconds,
                opens: arguments.opens,
                content: match arguments.content.as_str() {
                    _ if segments.saturating_mul(segment_mib) > arguments.disk_gib << 10 => Content::Holes,
                    "allocated" => Content::Allocated,
                    _ => Content::Written,
                },
            };
            if !arguments.unsettled {
                rustix::fs::sync();
            }
            match cell::measure(&cell) {
                Ok(figures) if arguments.json => println!("{}", serde_json::to_string(&figures)?),
                Ok(figures) => measured.push(figures),
                Err(error) => {
                    eprintln!("{segments} segments of {segment_mib} MiB: {error}");
                    failures += 1;
                }
            }
        }
    }
    if !arguments.json {
        print_table(&measured);
    }
    scratch.remove()?;
    Ok(failures)
}

fn print_table(measured: &[Figures]) {
    println!(
        "| figure |{}",
        measured.iter().map(|figures| format!(" {} |", figures.name())).collect::<String>()
    );
    println!("|---|{}", "---:|".repeat(measured.len()));
    for row in 0..measured.first().map_or(0, |figures| figures.rows().len()) {
        let values: String = measured.iter().map(|figures| format!(" {} |", figures.rows()[row].1)).collect();
        println!("| {} |{values}", measured[0].rows()[row].0);
    }
}
