//! Tests that need what not every machine has.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Needs that make their absence a failure, by name and separated by commas; `all` is every one.
const REQUIRE: &str = "SEAWALL_REQUIRE";
/// File that each skipped test is added to. Default: `skipped.txt` in the target directory.
const SKIPPED: &str = "SEAWALL_SKIPPED";

/// What a test needs, and a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The programs of a PostgreSQL server, and somebody else than root to run it.
    PostgreSql,
    /// psql, pgbench and pg_isready.
    PostgreSqlClients,
    /// A driver of PostgreSQL in another language.
    Drivers,
    /// Headers of PostgreSQL 15 or later, and a C compiler.
    PostgreSqlHeaders,
    /// Servers of object stores: versitygw for S3, Azurite for Azure.
    Stores,
    /// A server and a client of OpenSSH.
    Sshd,
    /// `/dev/fuse`, and the right to mount.
    Fuse,
    /// Mounts of its own, for a small disk.
    SmallDisk,
    /// To be root.
    Root,
    /// A file system in memory at `/dev/shm`, `/dev/full`, `/sys`: what Linux has, and a container may hide.
    SystemFiles,
    /// The packages of the tests of schedules.
    Shuttle,
    /// Far more address space than memory.
    AddressSpace,
    /// A file system that takes holes out of files.
    HolePunching,
}

impl Need {
    fn name(self) -> &'static str {
        match self {
            Need::PostgreSql => "postgresql",
            Need::PostgreSqlClients => "postgresql-clients",
            Need::Drivers => "drivers",
            Need::PostgreSqlHeaders => "postgresql-headers",
            Need::Stores => "stores",
            Need::Sshd => "sshd",
            Need::Fuse => "fuse",
            Need::SmallDisk => "small-disk",
            Need::Root => "root",
            Need::SystemFiles => "system-files",
            Need::Shuttle => "shuttle",
            Need::AddressSpace => "address-space",
            Need::HolePunching => "hole-punching",
        }
    }

    /// Says that the running test is skipped for lack of this: the caller returns then.
    ///
    /// # Panics
    /// If `SEAWALL_REQUIRE` names it: the machine was to have it.
    #[track_caller]
    pub fn skip(self, reason: impl fmt::Display) {
        let required = std::env::var(REQUIRE).unwrap_or_default();
        assert!(!self.is_required_by(&required), "{REQUIRE}={required} asks for {}: {reason}", self.name());
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let reason = reason.to_string();
        let line = format!("skipped: {test} (needs {}): {}\n", self.name(), reason.trim().replace('\n', " "));
        crate::say(&format!("\n{line}"));
        record(&line);
    }

    fn is_required_by(self, required: &str) -> bool {
        required.split(',').map(str::trim).any(|name| name == self.name() || name == "all")
    }
}

/// Adds a line to the file that says which tests were skipped. One write: tests of several processes add to it.
fn record(line: &str) {
    let Some(path) = record_path() else { return };
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot write to {}: {error}", path.display()));
}

fn record_path() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(SKIPPED) {
        return Some(path.into());
    }
    // Cargo marks its target directory with this file.
    let program = std::env::current_exe().ok()?;
    let target = program.ancestors().find(|directory| directory.join("CACHEDIR.TAG").is_file())?;
    Some(target.join("skipped.txt"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_is_required_by_its_name_among_others_or_by_all() {
        for required in ["postgresql", "stores,postgresql", "fuse, postgresql", "all"] {
            assert!(Need::PostgreSql.is_required_by(required), "{required}");
        }
        for required in ["", "stores", "postgres", "fuse,stores"] {
            assert!(!Need::PostgreSql.is_required_by(required), "{required}");
        }
    }
}
