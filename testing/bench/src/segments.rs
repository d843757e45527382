//! Old log segments, by the thousand, removed while somebody works: how long it takes, how many syncs of the directory, and
//! what the longest commit and the longest open pay for it, beside a quiet run.
//!
//! ```text
//!   quiet:   commits | opens            no old segments
//!   beside:  open    | commits ...      until the last of them is gone
//!   opens:   open, close, open, close   while they go
//!   at once: checkpoint                 all of them without rest: what the file system takes
//!   after a switch: with --threads, all of them there when a new timeline begins, and many sessions commit (`after_switch`)
//! ```
//! The old segments are those of a timeline that was left, beyond the fork, as after a promotion. They are written, zero by
//! zero, or with `--content allocated` (`fallocate`) only allocated, which costs a file system less to free. Beyond
//! `--disk-gib` they are holes, which cost least; the figures say which.
//!
//! Start at `cell::measure`.

mod after_switch;
mod cell;

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::command_line::seconds;
use crate::error::{BenchError, file_error};
use crate::scratch::Scratch;

use after_switch::AfterSwitch;
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
    /// Sessions that commit before and after a new timeline begins, comma-separated; not measured if none is given
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// Seconds of commits before and after that
    #[arg(long, default_value_t = 30.0, value_parser = seconds)]
    switch_seconds: f64,
    /// Measure nothing but the seconds around a new timeline
    #[arg(long, requires = "threads")]
    only_switch: bool,
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
    let (mut measured, mut switches) = (Vec::new(), Vec::new());
    for &segment_mib in &arguments.segment_mib {
        for &segments in &arguments.segments {
            let cell = |name: String| arguments.cell(&scratch, name, segments, segment_mib);
            let mut failed = |error: BenchError| {
                eprintln!("{segments} segments of {segment_mib} MiB: {error}");
                failures += 1;
            };
            if !arguments.only_switch {
                arguments.settle();
                match cell::measure(&cell("segments".to_owned())) {
                    Ok(figures) => note(arguments, figures, &mut measured)?,
                    Err(error) => failed(error),
                }
            }
            for &threads in &arguments.threads {
                arguments.settle();
                let cell = cell(format!("switch-{threads}"));
                match after_switch::measure(&cell, threads.max(1), arguments.switch_seconds) {
                    Ok(figures) => note(arguments, figures, &mut switches)?,
                    Err(error) => failed(error),
                }
                std::fs::remove_dir_all(&cell.directory).map_err(file_error("remove", &cell.directory))?;
            }
        }
    }
    print_table(measured.iter().map(|figures: &Figures| (figures.name(), figures.rows())).collect());
    print_table(switches.iter().map(|figures: &AfterSwitch| (figures.name(), figures.rows())).collect());
    scratch.remove()?;
    Ok(failures)
}

impl Arguments {
    fn cell(&self, scratch: &Scratch, name: String, segments: u64, segment_mib: u64) -> Cell {
        Cell {
            directory: scratch.directory().join(format!("{name}-{segment_mib}-{segments}")),
            segments,
            segment_bytes: segment_mib << 20,
            seconds: self.seconds,
            opens: self.opens,
            content: match self.content.as_str() {
                _ if segments.saturating_mul(segment_mib) > self.disk_gib << 10 => Content::Holes,
                "allocated" => Content::Allocated,
                _ => Content::Written,
            },
        }
    }

    fn settle(&self) {
        if !self.unsettled {
            rustix::fs::sync();
        }
    }
}

fn note<F: serde::Serialize>(arguments: &Arguments, figures: F, kept: &mut Vec<F>) -> Result<(), BenchError> {
    if arguments.json {
        println!("{}", serde_json::to_string(&figures)?);
    } else {
        kept.push(figures);
    }
    Ok(())
}

/// A column for each cell: its name, and its lines.
fn print_table(columns: Vec<(String, Vec<(&'static str, String)>)>) {
    let Some((_, lines)) = columns.first() else { return };
    println!("| figure |{}", columns.iter().map(|(name, _)| format!(" {name} |")).collect::<String>());
    println!("|---|{}", "---:|".repeat(columns.len()));
    for (row, (name, _)) in lines.iter().enumerate() {
        let values: String = columns.iter().map(|(_, lines)| format!(" {} |", lines[row].1)).collect();
        println!("| {name} |{values}");
    }
    println!();
}
