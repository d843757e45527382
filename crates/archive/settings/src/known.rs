//! All settings there are: their names, what they may be, and what counts where nothing is set.
//!
//! A setting has one name. In the file it stands as it is, in its section; the option has hyphens in it; the variable is in capitals,
//! begins with `SEAWALL_`, and has the section in it, but for `archive`.

use crate::values::{parse_bytes, parse_compression, parse_time};

/// One setting.
#[derive(Debug)]
pub struct Known {
    /// Its name in the file, with the section before it: `archive.spool`.
    pub path: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// What counts where nobody sets it.
    pub unset: Unset,
    /// What it means, for documents.
    pub meaning: &'static str,
}

/// What a setting may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// What may have a secret in it: no listing shows it.
    HiddenText,
    /// The name of a file or directory.
    Path,
    /// Places of repositories: directories and URLs.
    Repositories,
    /// `NAME=VALUE`, several.
    Assignments,
    /// Texts, several.
    Texts,
    /// A number from the first to the second.
    Number(u64, u64),
    /// A time such as `14d`.
    Time,
    /// A number of bytes such as `64GiB`.
    Bytes,
    /// A compression such as `zstd:3`.
    Compression,
    /// One of these.
    OneOf(&'static [&'static str]),
}

/// What counts where a setting is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unset {
    /// This value.
    Value(&'static str),
    /// No value: what that means, for people.
    Means(&'static str),
}

use Kind::{
    Assignments, Bytes, Compression, HiddenText, Number, OneOf, Path, Repositories, Text, Texts, Time,
};
use Unset::{Means, Value};

const fn setting(path: &'static str, kind: Kind, unset: Unset, meaning: &'static str) -> Known {
    Known { path, kind, unset, meaning }
}

const SWITCH: &[&str] = &["on", "off"];

/// More memory than machines have, in MiB.
const MIB_MAX: u64 = 1 << 24;

/// All settings, in the order of documents.
#[rustfmt::skip] // A table: one setting a line.
pub const KNOWN: &[Known] = &[
    setting("repository", Repositories, Means("none"), "where archives and backups are; several: a list"),
    setting("master_key_file", Path, Means("not encrypted"), "the file with the master key of the repositories"),
    setting("master_key_env", Text, Means("not encrypted"), "the environment variable that has it"),
    setting("master_key_command", HiddenText, Means("not encrypted"), "the command that prints it"),
    setting("archive.optional_repository", Repositories, Means("none"), "where the log goes, too, without waiting for it; several: a list"),
    setting("archive.spool", Path, Means("`/var/spool/seawall` if it is there, else `~/.local/state/seawall`"), "acknowledgements and prefetched segments"),
    setting("archive.compression", Compression, Value("lz4"), "of the log: `none`, `lz4`, `zstd`, `zstd:1` to `zstd:19`"),
    setting("archive.threads", Number(1, 256), Means("one for each processor"), "segments that are read, checked and compressed at once, at most"),
    setting("archive.in_flight", Number(1, 256), Value("32"), "uploads at once, at most"),
    setting("archive.get_in_flight", Number(1, 256), Means("as `in_flight`"), "downloads at once, at most"),
    setting("archive.push_rate", Number(1, MIB_MAX), Means("no limit"), "MiB a second that are uploaded on average, at most"),
    setting("archive.get_rate", Number(1, MIB_MAX), Means("no limit"), "MiB a second that are downloaded on average, at most"),
    setting("archive.prefetch", Number(0, 1024), Value("32"), "segments fetched ahead, at most; 0: none"),
    setting("archive.timeout", Number(1, 3600), Value("60"), "seconds that a command waits, and that a store may fail before `queue_max` counts"),
    setting("archive.queue_max", Bytes, Means("no limit"), "what may wait while the store takes nothing, such as `64GiB`"),
    setting("archive.log_level", OneOf(&["error", "info"]), Value("error"), "of the agent's log: `info` has a line with the duration of each upload, acknowledgement and download"),
    setting("archive.prometheus_file", Path, Means("none"), "statistics of the agent, every ten seconds"),
    setting("backup.compression", Compression, Value("lz4"), "of backups: `none`, `lz4`, `zstd`, `zstd:1` to `zstd:19`"),
    setting("backup.threads", Number(1, 64), Value("2"), "threads that compress and put"),
    setting("backup.rate", Number(1, MIB_MAX), Means("no limit"), "MiB a second that are read at most"),
    setting("backup.checkpoint", OneOf(&["fast", "spread"]), Value("spread"), "of a cluster: how it begins"),
    setting("backup.archive_timeout", Number(1, 86_400), Value("60"), "of a cluster: seconds without new log"),
    setting("backup.answer_timeout", Number(1, 86_400), Value("600"), "of a cluster: seconds that the server may be silent"),
    setting("backup.postgresql_programs", Path, Means("the `PATH`"), "of a cluster: where `pg_basebackup` and `psql` are"),
    setting("restore.threads", Number(1, 64), Value("4"), "objects that are fetched at a time"),
    setting("expire.keep_count", Number(1, u64::MAX), Means("none"), "so many backups stay, the newest ones"),
    setting("expire.keep_age", Time, Means("none"), "backups that ended within this time stay"),
    setting("expire.keep_window", Time, Means("none"), "what a restore to any moment of this time needs stays"),
    setting("expire.keep_unfinished", Time, Value("7d"), "how long a backup may be under way"),
    setting("expire.keep_recent", Time, Value("1h"), "how long one that has begun may be unseen"),
    setting("verify.threads", Number(1, 256), Value("8"), "objects that are read at a time"),
    setting("verify.settle", Time, Value("5m"), "how long a missing segment may be on its way"),
    setting("drill.scratch", Path, Means("that for temporary files"), "the directory for scratch directories"),
    setting("drill.threads", Number(1, 64), Value("4"), "objects that are fetched at a time"),
    setting("drill.prometheus_file", Path, Means("none"), "how the drill went, for a monitor"),
    setting("drill.postgresql_programs", Path, Means("looked for"), "of a cluster: where `postgres`, `psql` and `pg_checksums` are"),
    setting("drill.postgresql_user", Text, Value("postgres"), "as whom PostgreSQL runs if root drills"),
    setting("drill.postgresql_setting", Assignments, Means("none"), "of the server, `NAME=VALUE`; several: a list"),
    setting("drill.recovery_timeout", Time, Value("1d"), "how long the server may take to recover"),
    setting("drill.check_timeout", Time, Value("1d"), "how long reading one database may take"),
    setting("database.cache_mib", Number(1, MIB_MAX), Value("256"), "memory for cached pages, in MiB"),
    setting("database.memtable_mib", Number(1, MIB_MAX), Value("256"), "memory for changed rows, in MiB"),
    setting("database.page_protection", OneOf(&["recovery-file", "log-images"]), Value("recovery-file"), "where second copies of pages are"),
    setting("database.page_image_compression", OneOf(&["none", "skip-garbage", "lz4", "zstd", "snappy"]), Value("lz4"), "of these copies"),
    setting("database.run_percent", Number(0, 100), Value("25"), "what sorted runs may have, in percent of the rest of the tree; 5 at least, or 0: no runs"),
    setting("database.master_key_file", Path, Means("not encrypted"), "the file with the master key of databases"),
    setting("database.master_key_env", Text, Means("not encrypted"), "the environment variable that has it"),
    setting("database.master_key_command", HiddenText, Means("not encrypted"), "the command that prints it"),
    setting("server.listen", Texts, Means("`localhost`"), "addresses and names of this machine that TCP clients connect to; `*`: all; several: a list"),
    setting("server.port", Number(0, 65_535), Value("5432"), "the port, and the number in the name of the Unix socket; 0: one that is free"),
    setting("server.unix_socket", OneOf(SWITCH), Value("on"), "whether there is a Unix socket"),
    setting("server.socket_directory", Path, Value("/tmp"), "where it is"),
    setting("server.socket_permissions", OneOf(&["0777", "0770", "0700"]), Value("0777"), "who may connect to it"),
    setting("server.access", Texts, Means("this machine, without a password"), "who may connect, and how it is proved: rules as lines of `pg_hba.conf`; several: a list"),
    setting("server.tls_certificate", Path, Means("no TLS"), "the certificate, and those that lead to its authority: PEM"),
    setting("server.tls_key", Path, Means("no TLS"), "its private key, which only its owner may read: PEM"),
    setting("server.connections", Number(1, 100_000), Value("100"), "connections at a time, at most"),
    setting("server.reserved_connections", Number(0, 100_000), Value("3"), "of these, for superusers"),
    setting("server.authentication_timeout", Time, Value("1m"), "how long a login may take"),
    setting("server.write_timeout", Time, Value("1m"), "how long a client may take nothing of what it is sent"),
    setting("server.client_check_interval", Time, Value("1s"), "how often statements are looked for whose client is gone; `0s`: never"),
    setting("server.message_max", Bytes, Value("256MiB"), "bytes of a message of a client, at most 1 GiB"),
    setting("server.statement_memory_total", Bytes, Value("1GiB"), "memory of all statements, and of what sessions keep, at most"),
    setting("server.autovacuum", OneOf(SWITCH), Value("on"), "whether tables of which many rows have changed are analyzed automatically"),
    setting("server.autovacuum_naptime", Time, Value("1m"), "how often such tables are looked for"),
    setting("server.autovacuum_analyze_threshold", Number(0, 2_147_483_647), Value("50"), "more rows than so many must have changed since the last `ANALYZE`"),
    setting("server.autovacuum_analyze_scale_factor", Text, Value("0.1"), "and this share of the rows that there were"),
    setting("server.log_connections", OneOf(SWITCH), Value("off"), "whether connections and their ends are logged"),
    setting("server.http_listen", Text, Means("nowhere"), "address and port where metrics and health are served, such as `127.0.0.1:9187`"),
    setting("server.synchronous_standby_names", Text, Means("none"), "standbys that commits wait for, as PostgreSQL writes them: `a, b`, `FIRST 2 (a, b, c)` or `ANY 1 (a, b)`"),
    setting("server.alone_after", Time, Means("never"), "how long commits wait while too few of these are connected, before the server goes on alone"),
    setting("server.max_slot_wal_keep_size", Text, Means("no limit"), "bytes of log that the slot of a standby may keep, such as `64GiB`; `0` or `-1`: any number"),
    setting("server.wal_keep_size", Bytes, Means("none"), "bytes of the newest log that are kept, whoever needs them"),
    setting("server.make_standby_from", OneOf(&["primary", "archive"]), Value("primary"), "what the empty directory of a standby is made from; `primary`: from a backup in an archive if that fails"),
    setting("server.recovery_target_timeline", OneOf(&["latest", "current"]), Value("latest"), "which timelines of an archive a standby follows while no upstream says which one comes next"),
    setting("server.recovery_min_apply_delay", Time, Value("0s"), "how old a commit is at least when a standby applies it"),
    setting("server.archive", Repositories, Means("none"), "repositories that the log goes into, and that a standby gets log from; several: a list"),
];

/// The section of the file that has what stores read.
pub(crate) const CREDENTIALS: &str = "credentials";

/// The setting with this path.
///
/// # Panics
/// If there is none: paths stand in programs.
pub fn known(path: &str) -> &'static Known {
    KNOWN.iter().find(|known| known.path == path).unwrap_or_else(|| panic!("{path} is not a setting"))
}

/// The setting that the file calls so.
pub(crate) fn find(section: &str, name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.section() == section && known.name() == name)
}

/// The sections of the file, without the top of it.
pub(crate) fn sections() -> impl Iterator<Item = &'static str> {
    let mut sections: Vec<&str> = KNOWN.iter().map(Known::section).collect();
    sections.dedup();
    sections.into_iter().filter(|section| !section.is_empty()).chain([CREDENTIALS])
}

impl Known {
    /// Its section of the file; empty at the top.
    pub fn section(&self) -> &'static str {
        self.path.split_once('.').map_or("", |(section, _)| section)
    }

    /// Its name within the section.
    pub fn name(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, name)| name)
    }

    /// As an option.
    pub fn option(&self) -> String {
        format!("--{}", self.name().replace('_', "-"))
    }

    /// As an environment variable.
    pub fn variable(&self) -> String {
        let section = match self.section() {
            "" | "archive" => String::new(),
            section => format!("{section}_"),
        };
        format!("SEAWALL_{section}{}", self.name()).to_ascii_uppercase()
    }

    /// Whether it may be set several times.
    pub fn is_list(&self) -> bool {
        matches!(self.kind, Kind::Repositories | Kind::Assignments | Kind::Texts)
    }

    /// Whether it is written as a number in the file.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Number(..))
    }

    /// What is wrong with a value, if anything.
    pub(crate) fn check(&self, text: &str) -> Result<(), String> {
        if text.trim().is_empty() {
            return Err("it is empty: leave it out, or give a value".to_owned());
        }
        match self.kind {
            Kind::Text | Kind::Texts | Kind::HiddenText | Kind::Path | Kind::Repositories => Ok(()),
            Kind::Assignments => match text.split_once('=') {
                Some((name, _)) if !name.trim().is_empty() => Ok(()),
                Some(_) | None => Err("expected NAME=VALUE".to_owned()),
            },
            Kind::Number(least, most) => match text.parse::<u64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(()),
                Ok(_) | Err(_) => Err(expected_number(least, most)),
            },
            Kind::Time => parse_time(text).map(drop),
            Kind::Bytes => parse_bytes(text).map(drop),
            Kind::Compression => parse_compression(text).map(drop),
            Kind::OneOf(values) if values.contains(&text) => Ok(()),
            Kind::OneOf(values) => Err(format!("expected one of {}", values.join(", "))),
        }
    }

    /// Whether a value is the full name of what it names: one that does not depend on where a command runs.
    pub(crate) fn is_full_name(&self, text: &str) -> bool {
        match self.kind {
            Kind::Path => text.starts_with('/'),
            Kind::Repositories => text.starts_with('/') || text.contains("://"),
            Kind::Text
            | Kind::Texts
            | Kind::HiddenText
            | Kind::Assignments
            | Kind::Number(..)
            | Kind::Time
            | Kind::Bytes
            | Kind::Compression
            | Kind::OneOf(_) => true,
        }
    }
}

fn expected_number(least: u64, most: u64) -> String {
    match most {
        u64::MAX => format!("expected a number, {least} or more"),
        most => format!("expected a number, {least} to {most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_names_of_its_own_and_a_good_default() {
        for (index, known) in KNOWN.iter().enumerate() {
            for other in &KNOWN[..index] {
                assert!(known.path != other.path && known.variable() != other.variable(), "{}", known.path);
            }
            if let Unset::Value(value) = known.unset {
                assert_eq!(known.check(value), Ok(()), "{}", known.path);
            }
        }
        assert_eq!(known("archive.queue_max").variable(), "SEAWALL_QUEUE_MAX");
        assert_eq!(known("drill.prometheus_file").variable(), "SEAWALL_DRILL_PROMETHEUS_FILE");
        assert_eq!(known("repository").variable(), "SEAWALL_REPOSITORY");
        assert_eq!(known("expire.keep_count").option(), "--keep-count");
        let sections: Vec<&str> = sections().collect();
        assert_eq!(
            sections,
            [
                "archive",
                "backup",
                "restore",
                "expire",
                "verify",
                "drill",
                "database",
                "server",
                "credentials"
            ]
        );
    }

    /// A row of the table of docs/command-line.md.
    fn row(known: &Known) -> String {
        let unset = match known.unset {
            Unset::Value(value) => format!("`{value}`"),
            Unset::Means(words) => words.to_owned(),
        };
        let (path, option, variable) = (known.path, known.option(), known.variable());
        format!("| `{path}` | `{option}` | `{variable}` | {unset} | {} |", known.meaning)
    }

    #[test]
    fn the_document_has_every_setting() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/command-line.md");
        let text = std::fs::read_to_string(document).unwrap();
        let rows: Vec<String> = KNOWN.iter().map(row).collect();
        let table = rows.join("\n");
        assert!(text.contains(&table), "docs/command-line.md should have this table:\n{table}");
    }
}
