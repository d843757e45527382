//! Pages whose checksums a server found wrong while it was backed up, as it says so.
//!
//! ```text
//!   WARNING:  checksum verification failed in file "./base/5/16384", block 3: calculated 1A2B but expected 3C4D
//!   WARNING:  file "./base/5/16384" has a total of 7 checksum verification failures
//!   pg_basebackup: error: checksum error occurred
//! ```
//! Of each file only the first pages are named, and a total if there are several. The words are English if the server speaks that, or the
//! role of the backup is a superuser, for whom `lc_messages` is set; else the files are not known, and the end of the program, which is told apart by its own words, is all there is.

use std::collections::BTreeMap;

use seawall_backup::BadFile;

/// What `pg_basebackup` has said of bad pages, line by line.
#[derive(Debug, Default)]
pub(super) struct BadPages {
    files: BTreeMap<String, u64>,
    /// It ended for this reason, and has written everything.
    is_the_reason: bool,
}

impl BadPages {
    pub(super) fn look_at(&mut self, line: &str) {
        if line.contains("pg_basebackup:") && line.contains("checksum error occurred") {
            self.is_the_reason = true;
        }
        let Some((path, rest)) = quoted(line) else { return };
        if line.contains("checksum verification failed in file") {
            *self.files.entry(path).or_default() += 1;
        } else if let Some(total) = number_before(rest, "checksum verification failure") {
            self.files.insert(path, total);
        }
    }

    /// The files, if bad pages were the only trouble.
    pub(super) fn reason(self) -> Option<Vec<BadFile>> {
        let file = |(path, pages)| BadFile { path, pages };
        self.is_the_reason.then(|| self.files.into_iter().map(file).collect())
    }
}

/// The path between quotes, and what follows it.
fn quoted(line: &str) -> Option<(String, &str)> {
    let (path, rest) = line.split_once('"')?.1.split_once('"')?;
    let path = path.trim_start_matches("./");
    (!path.is_empty()).then(|| (path.to_owned(), rest))
}

/// `has a total of 7 checksum verification failures`
fn number_before(rest: &str, words: &str) -> Option<u64> {
    rest.split_once(words)?.0.trim_end().rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_their_pages_are_told_and_other_ends_are_no_reason() {
        let mut bad = BadPages::default();
        for line in [
            "pg_basebackup: initiating base backup",
            "WARNING:  checksum verification failed in file \"./base/5/16384\", block 3: calculated 1A but expected 3C",
            "WARNING:  checksum verification failed in file \"./base/5/16390\", block 0: calculated 1A but expected 3C",
            "WARNING:  file \"./base/5/16384\" has a total of 7 checksum verification failures",
            "WARNING:  7 total checksum verification failures",
        ] {
            bad.look_at(line);
        }
        let files = bad.files.clone();
        assert_eq!(bad.reason(), None, "it may have ended for another reason");
        let mut bad = BadPages { files, is_the_reason: false };
        bad.look_at("pg_basebackup: error: checksum error occurred");
        let file = |path: &str, pages| BadFile { path: path.to_owned(), pages };
        assert_eq!(bad.reason(), Some(vec![file("base/5/16384", 7), file("base/5/16390", 1)]));
    }
}
