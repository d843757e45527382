//! Options of `backup`, `restore` and `drill` that are about PostgreSQL clusters only.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(next_help_heading = "PostgreSQL")]
pub(crate) struct PostgreSqlBackupArguments {
    /// Back up a running PostgreSQL cluster with its own pg_basebackup, instead of a database in DIR. CONNECTION is a connection
    /// string or URI, as `psql -d` takes it; without it, PGHOST and its like say where the cluster is.
    #[arg(long, value_name = "CONNECTION", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["dir", "incremental", "no_resume"])]
    pub(crate) postgresql: Option<String>,
    /// What the backup is called.
    #[arg(long, value_name = "TEXT", requires = "postgresql")]
    pub(crate) label: Option<String>,
    /// Whether the checkpoint that the backup begins with goes at full speed, or at that of an ordinary one. Default: spread.
    #[arg(long, value_name = "PACE", value_enum)]
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Seconds to wait for the log that the backup needs, while nothing of it comes into the repository. Default: 60.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) archive_timeout: Option<u64>,
    /// Seconds that the server may be silent, when it is asked something or while its files are read. Default: 600.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) answer_timeout: Option<u64>,
    /// Take the backup though pages have wrong checksums: their files are listed in it, and the exit code is 4.
    #[arg(long, requires = "postgresql")]
    pub(crate) accept_bad_pages: bool,
    /// Where pg_basebackup and psql are. Default: in the PATH.
    #[arg(long, value_name = "DIRECTORY", requires = "postgresql")]
    pub(crate) postgresql_programs: Option<PathBuf>,
}

/// Pace of the first checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Checkpoint {
    Fast,
    Spread,
}

/// As the settings write it.
impl std::str::FromStr for Checkpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Checkpoint, String> {
        ValueEnum::from_str(text, false)
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "PostgreSQL")]
pub(crate) struct PostgreSqlRestoreArguments {
    /// The cluster or database to restore, as `repo info` names it, if the repository has several.
    #[arg(long, value_name = "NAME", conflicts_with = "database")]
    pub(crate) system: Option<seawall_archive::System>,
    /// What the cluster does at its target. Default: pause.
    #[arg(long, value_name = "ACTION", value_enum)]
    pub(crate) target_action: Option<TargetAction>,
    /// Make a standby, which follows the archive.
    #[arg(long, conflicts_with_all = ["to_lsn", "to_time", "to_name", "target_action"])]
    pub(crate) standby: bool,
    /// What PostgreSQL is to fetch its log with. Default: `archive-get` of this program, from this repository.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) restore_command: Option<String>,
}

impl PostgreSqlRestoreArguments {
    /// An option that means nothing to a database of Seawall's.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.target_action.is_some(), "--target-action"),
            (self.standby, "--standby"),
            (self.restore_command.is_some(), "--restore-command"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "PostgreSQL")]
pub(crate) struct PostgreSqlDrillArguments {
    /// The cluster or database to restore, as `repo info` names it, if the repository has several.
    #[arg(long, value_name = "NAME", conflicts_with = "database")]
    pub(crate) system: Option<seawall_archive::System>,
    /// Where postgres, psql and pg_checksums are, of the cluster's release. Default: looked for in the PATH, by pg_config, and where
    /// they are usually installed.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) postgresql_programs: Option<PathBuf>,
    /// As whom PostgreSQL runs if root starts the drill. Default: postgres.
    #[arg(long, value_name = "NAME")]
    pub(crate) postgresql_user: Option<String>,
    /// A setting of the server, such as shared_buffers=1GB, before what the cluster's configuration says; several times for several.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(crate) postgresql_setting: Vec<String>,
    /// Ask this, and show the answer, instead of reading everything.
    #[arg(long, value_name = "SQL")]
    pub(crate) query: Option<String>,
    /// Where it is asked. Default: postgres.
    #[arg(long, value_name = "NAME", requires = "query")]
    pub(crate) query_database: Option<String>,
    /// How long the server may take to recover. Default: 1d.
    #[arg(long, value_name = "TIME", value_parser = seawall_settings::parse_time)]
    pub(crate) recovery_timeout: Option<Duration>,
    /// How long the query, or reading all of one database, or all pages, may take. Default: 1d.
    #[arg(long, value_name = "TIME", value_parser = seawall_settings::parse_time)]
    pub(crate) check_timeout: Option<Duration>,
    /// What PostgreSQL is to fetch its log with. Default: `archive-get` of this program, from this repository.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) restore_command: Option<String>,
}

impl PostgreSqlDrillArguments {
    /// An option that means nothing to a database of Seawall's.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.postgresql_programs.is_some(), "--postgresql-programs"),
            (self.postgresql_user.is_some(), "--postgresql-user"),
            (!self.postgresql_setting.is_empty(), "--postgresql-setting"),
            (self.query.is_some(), "--query"),
            (self.recovery_timeout.is_some(), "--recovery-timeout"),
            (self.check_timeout.is_some(), "--check-timeout"),
            (self.restore_command.is_some(), "--restore-command"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }
}

/// A name and a value.
fn parse_setting(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("{text:?}: expected NAME=VALUE, such as shared_buffers=1GB")),
    }
}

/// What a cluster does at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetAction {
    /// It can be read, and waits for `select pg_wal_replay_resume()`.
    Pause,
    /// It opens for writes, on a new timeline.
    Promote,
    /// It stops.
    Shutdown,
}
