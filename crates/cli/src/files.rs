//! The user's own files, and the clock. The database's files are the engine's business; these are opened here and
//! nowhere else.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use seawall_io::{Clock, SystemClock};
pub(crate) use seawall_types::utc;

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

/// What a file to read from is called in messages.
pub(crate) fn input_name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// Whether the file's mode lets others read it. What is no file (a pipe, or missing) is for whoever reads it to tell.
pub(crate) fn is_open_to_others(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o077 != 0)
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

/// The time of day, as `utc` writes it.
pub(crate) fn now() -> String {
    utc(SystemClock.wall_micros())
}

/// Microseconds since 1970 of a time in UTC, as `utc` writes it, or with a T between, a Z behind it, or less of the second.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse_utc(text: &str) -> Result<i64, String> {
    let refuse =
        || format!("{text:?} is not a valid time: expected one in UTC such as 2026-11-22T03:15:00.25Z");
    let plain = text.strip_suffix('Z').or_else(|| text.strip_suffix(" UTC")).unwrap_or(text);
    let (date, time) = plain.split_once(['T', ' ']).ok_or_else(refuse)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let numbers = |text: &str, separator: char| -> Option<Vec<i64>> {
        let number =
            |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?;
        text.split(separator).map(number).collect()
    };
    let date = numbers(date, '-').ok_or_else(refuse)?;
    let time = numbers(time, ':').ok_or_else(refuse)?;
    let ([year, month, day], [hour, minute, second]) = (&date[..], &time[..]) else { return Err(refuse()) };
    let is_digits = fraction.len() <= 6 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = *hour < 24 && *minute < 60 && *second < 60 && is_digits;
    if !is_time || !(1970..=9999).contains(year) || !(1..=12).contains(month) || !(1..=31).contains(day) {
        return Err(refuse());
    }
    // Hinnant's `days_from_civil`, of years that are not negative.
    let shifted_year = year - i64::from(*month <= 2);
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days =
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    let micros: i64 = format!("{fraction:0<6}").parse().map_err(|_| refuse())?;
    let parsed = (days * 86_400 + hour * 3600 + minute * 60 + second) * 1_000_000 + micros;
    // The 31st of a month that has 30 days.
    let day_of = |micros| utc(micros).get(8..10).and_then(|day| day.parse::<i64>().ok());
    if day_of(parsed) == Some(*day) { Ok(parsed) } else { Err(refuse()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for micros in [0, 1_709_164_799_000_001, 951_782_400_000_000, 253_402_300_799_999_999] {
            assert_eq!(parse_utc(&utc(micros)), Ok(micros));
        }
        assert_eq!(parse_utc("2024-02-28T23:59:59Z"), Ok(1_709_164_799_000_000));
        assert_eq!(parse_utc("2024-02-28 23:59:59.5"), Ok(1_709_164_799_500_000));
        for wrong in
            ["", "now", "2024-02-30T00:00:00Z", "2024-02-28", "2024-02-28T24:00:00", "2024-2-28T1:2:+3"]
        {
            assert!(parse_utc(wrong).is_err(), "{wrong}");
        }
    }
}
