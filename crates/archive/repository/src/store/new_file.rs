//! Names of files that are not objects yet: `.new-<time>-<random>`, the time in microseconds since 1970.

use seawall_io::{Clock, Random};

/// They begin so.
const NEW: &str = ".new-";

/// A name that nobody else uses, in this directory.
pub(super) fn name_of_new(directory: &str, random: &dyn Random, clock: &dyn Clock) -> String {
    let mut number = [0; 8];
    random.fill(&mut number);
    let (micros, number) = (clock.wall_micros(), u64::from_le_bytes(number));
    let name = format!("{NEW}{micros}-{number:016x}");
    if directory.is_empty() { name } else { format!("{directory}/{name}") }
}

/// When a put began that was not done when it left this file.
pub(super) fn time_of_new(name: &str) -> Option<i64> {
    let (micros, _) = name.strip_prefix(NEW)?.rsplit_once('-')?;
    micros.parse().ok()
}

/// The directory of a path; nothing for one without a slash.
pub(super) fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
