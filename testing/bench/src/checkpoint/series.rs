//! Throughput over time as CSV: a line for each interval, so that a plot can be made again without the run.

use std::fmt::Write;
use std::path::Path;

use crate::error::{BenchError, file_error};
use crate::timeline::INTERVAL;

const HEADER: &str = "second,rows_per_second";

pub(super) fn write(path: &Path, intervals: &[u64], rows_per_operation: u64) -> Result<(), BenchError> {
    let mut text = format!("{HEADER}\n");
    for (index, operations) in intervals.iter().enumerate() {
        let second = index as f64 * INTERVAL.as_secs_f64();
        let rows = (operations * rows_per_operation) as f64 / INTERVAL.as_secs_f64();
        writeln!(text, "{second:.1},{rows:.0}").expect("a string takes all that is written");
    }
    std::fs::write(path, text).map_err(file_error("write", path))
}

/// Rows a second of each interval.
#[cfg_attr(not(any(test, feature = "plot")), expect(dead_code, reason = "only plots read a series again"))]
pub(super) fn read(path: &Path) -> Result<Vec<f64>, BenchError> {
    let text = std::fs::read_to_string(path).map_err(file_error("read", path))?;
    let damaged = |number: usize, line: &str| {
        let source = std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            format!("line {number} is {line:?} and should be like {HEADER}"),
        );
        file_error("read a throughput series from", path)(source)
    };
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(damaged(1, text.lines().next().unwrap_or("")));
    }
    let number = |line: &str| line.split_once(',').and_then(|(_, rows)| rows.parse::<f64>().ok());
    lines
        .enumerate()
        .map(|(index, line)| {
            number(line).filter(|rows| rows.is_finite()).ok_or_else(|| damaged(index + 2, line))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_damaged_line_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("series.csv");
        write(&path, &[3, 0, 12], 100).unwrap();
        assert_eq!(read(&path).unwrap(), [3000.0, 0.0, 12_000.0]);
        for (text, place) in [("x\n1,2\n", "line 1"), ("second,rows_per_second\n0.0,5\n0.1,NaN\n", "line 3")]
        {
            std::fs::write(&path, text).unwrap();
            let error = crate::checkpoint::series::read(&path).unwrap_err().to_string();
            assert!(error.contains(place), "{error}");
        }
    }
}
