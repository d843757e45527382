//! The user's own files, and the clock. The database's files are the engine's business; these are opened here and
//! nowhere else.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::time::Duration;

use seawall_io::{Clock, SystemClock};

use crate::failure::Failure;

/// A file to read rows from; `-` is standard input. With its length, where it has one.
pub(crate) fn open_input(path: &Path) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let attempt = || format!("cannot open {}", path.display());
    #[expect(clippy::disallowed_methods, reason = "a file of the user, not of a database")]
    let file = File::open(path).map_err(Failure::io(attempt()))?;
    let metadata = file.metadata().map_err(Failure::io(attempt()))?;
    if metadata.is_dir() {
        return Err(Failure::Usage(format!("{} is a directory; give a file of rows", path.display())));
    }
    Ok((Box::new(file), metadata.is_file().then_some(metadata.len())))
}

/// A file that the answer goes to; what was there is replaced.
pub(crate) struct OutputFile {
    name: String,
    writer: BufWriter<File>,
}

impl OutputFile {
    pub(crate) fn create(path: &Path) -> Result<OutputFile, Failure> {
        let name = path.display().to_string();
        #[expect(clippy::disallowed_methods, reason = "a file of the user, not of a database")]
        let file = File::create(path).map_err(Failure::io(format!("cannot create {name}")))?;
        Ok(OutputFile { name, writer: BufWriter::with_capacity(1 << 20, file) })
    }

    /// Makes what was written durable: a dump may be somebody's only copy.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.writer
            .flush()
            .and_then(|()| self.writer.get_ref().sync_all())
            .map_err(Failure::io(format!("cannot write {}", self.name)))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Measures time from its making on.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch {
    start: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch { start: SystemClock.monotonic() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        SystemClock.monotonic().saturating_sub(self.start)
    }
}

/// Microseconds since 1970 as a date and time, UTC.
pub(crate) fn utc(micros: i64) -> String {
    const DAY_MICROS: i64 = 86_400_000_000;
    let (day, time) = (micros.div_euclid(DAY_MICROS), micros.rem_euclid(DAY_MICROS));
    // Days to civil date in a calendar that starts in March, so that leap days are last (Hinnant's `civil_from_days`).
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (seconds, fraction) = (time / 1_000_000, time % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day_of_month:02} {hour:02}:{minute:02}:{second:02}.{fraction:06} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000000 UTC");
        assert_eq!(utc(1_709_164_799_000_001), "2024-02-28 23:59:59.000001 UTC");
        assert_eq!(utc(1_709_164_800_000_000), "2024-02-29 00:00:00.000000 UTC");
        assert_eq!(utc(-1), "1969-12-31 23:59:59.999999 UTC");
    }
}
