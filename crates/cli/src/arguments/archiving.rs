//! Arguments of the commands that PostgreSQL runs, which read them themselves.

use clap::Args;

/// The commands that read their arguments themselves.
pub(crate) const ARCHIVE_COMMANDS: [&str; 4] =
    ["archive-push", "archive-get", "archive-status", "archive-stop"];

/// Name, value and meaning of each of their options.
pub(crate) const ARCHIVE_OPTIONS: [(&str, &str, &str); 12] = [
    ("repository", "URL", "where to; several: given again"),
    ("optional-repository", "URL", "where to, too, without waiting for it"),
    (
        "queue-max",
        "BYTES",
        "leave segments out, as a recorded gap, when more waits and the store takes nothing; default never",
    ),
    ("prometheus-file", "FILE", "statistics for Prometheus, every ten seconds"),
    (
        "spool",
        "DIRECTORY",
        "default /var/spool/seawall if there, else ~/.local/state/seawall of PostgreSQL's user",
    ),
    ("compression", "NAME", "none, lz4 (default), zstd, zstd:1 to zstd:19"),
    ("in-flight", "NUMBER", "most uploads or downloads at once, default 32"),
    ("prefetch", "NUMBER", "segments fetched ahead, default 32"),
    ("timeout", "SECONDS", "how long a command waits, default 60"),
    ("master-key-file", "FILE", "of an encrypted repository; also -env, -command"),
    ("config", "FILE", "instead of /etc/seawall/seawall.toml"),
    ("data-directory", "DIR", "PostgreSQL's, if this does not run in it and the file lies elsewhere"),
];

const BEFORE_OPTIONS: &str = "\
Run in PostgreSQL's data directory, as PostgreSQL does; or anywhere, if the file lies in a data directory. The first call starts an agent, which uploads whatever waits to be \
archived, many files at once, and fetches ahead for recovery. Later calls mostly find that the work is done.

Options. Each is also an environment variable, such as SEAWALL_QUEUE_MAX, and a line of /etc/seawall/seawall.toml: the repository \
and the master key at its top, the others in [archive], as in `queue_max = \"64GiB\"`";

const AFTER_OPTIONS: &str = "\
Exit codes of archive-get: 0 fetched; 1 not in the archive; 126 cannot tell, or in a gap, so that a recovery stops and does \
not end early (1 on a standby, which asks again).

Example, for postgresql.conf:
  archive_mode = on
  archive_command = 'seawall archive-push --repository=s3://wal/main %p'
  restore_command = 'seawall archive-get --repository=s3://wal/main %f %p'";

/// What `--help` of these commands says after the usage.
pub(crate) fn archive_help() -> String {
    let options: String = ARCHIVE_OPTIONS.iter().map(option_lines).collect();
    format!("{BEFORE_OPTIONS}:\n{options}\n{AFTER_OPTIONS}")
}

/// What their manual pages say besides the options.
pub(crate) fn archive_notes() -> String {
    format!("{BEFORE_OPTIONS}.\n\n{AFTER_OPTIONS}")
}

/// An option in two columns of a terminal of 80.
fn option_lines((name, value, meaning): &(&str, &str, &str)) -> String {
    const FIRST: usize = 29;
    const SECOND: usize = 80 - 2 - FIRST;
    let mut lines = vec![String::new()];
    for word in meaning.split(' ') {
        let line = lines.last_mut().expect("there is a first line");
        match (line.len(), line.len() + 1 + word.len()) {
            (0, _) => line.push_str(word),
            (_, ..=SECOND) => *line = format!("{line} {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    let firsts = std::iter::once(format!("--{name}={value}")).chain(std::iter::repeat(String::new()));
    firsts.zip(lines).map(|(first, second)| format!("  {first:<FIRST$}{second}\n")).collect()
}

/// Read by the archive commands themselves.
#[derive(Debug, Args)]
pub(crate) struct ArchiveArguments {
    /// Options, and what PostgreSQL gives: %p, or %f %p.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<std::ffi::OsString>,
}
