//! Arguments of `backup` and `restore`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::postgresql::{PostgreSqlBackupArguments, PostgreSqlRestoreArguments};
use super::repository::OneRepository;

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    pub(crate) command: Option<BackupCommand>,
    /// The database's directory.
    pub(crate) dir: Option<PathBuf>,
    /// Where to. Default: the one that is set.
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) repository: Option<String>,
    /// Only what has changed since the newest backup of the database's timeline that is there; everything, if there is none.
    #[arg(long)]
    pub(crate) incremental: bool,
    /// Begin anew, though the last backup was cut short.
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// Bytes a second that are read at most, in MiB.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    /// Threads that compress and put. Default: 2.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: Option<u16>,
    /// Compress with none, lz4, zstd, or zstd:1 to zstd:19. Default: lz4.
    #[arg(long, value_name = "NAME", value_parser = seawall_settings::parse_compression)]
    pub(crate) compression: Option<seawall_archive::Packing>,
    #[command(flatten)]
    pub(crate) postgresql: PostgreSqlBackupArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// List the backups of all databases, oldest first.
    List(OneRepository),
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// The directory of the new database or cluster.
    pub(crate) dir: PathBuf,
    /// Where from. Default: the one that is set.
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) repository: Option<String>,
    /// With every commit up to this position, such as 1/A2B3C4D8.
    #[arg(long, value_name = "LSN", group = "target")]
    pub(crate) to_lsn: Option<seawall::Lsn>,
    /// With every commit up to this time, UTC, such as 2026-11-22T03:15:00Z, to the microsecond.
    #[arg(long, value_name = "TIME", group = "target", value_parser = crate::files::parse_utc)]
    pub(crate) to_time: Option<i64>,
    /// Up to the first restore point with this name behind the backup.
    #[arg(long, value_name = "NAME", group = "target")]
    pub(crate) to_name: Option<String>,
    /// Up to the end of the log in the repository: the default.
    #[arg(long, group = "target")]
    pub(crate) latest: bool,
    /// Along the history of this timeline. Default: the one that production is on; refused, with the choices, if the repository
    /// does not tell.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) timeline: Option<u32>,
    /// Number of the timeline that the restored database begins. Default: one above all that the repository has or has
    /// reserved.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) new_timeline: Option<u32>,
    /// Whether what is restored archives. Default: off; of a standby, preserve.
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) archive_mode: Option<RestoredArchiveMode>,
    /// The id of the database, if the repository has several.
    #[arg(long, value_name = "ID")]
    pub(crate) database: Option<String>,
    /// Objects that are fetched at a time. Default: 4.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: Option<u16>,
    /// From this backup, as `backup list` names it. Default: the newest one that ends before the target.
    #[arg(long, value_name = "NAME")]
    pub(crate) backup: Option<String>,
    #[command(flatten)]
    pub(crate) postgresql: PostgreSqlRestoreArguments,
}

/// Whether what is restored archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RestoredArchiveMode {
    /// Not before it is told to: a copy to try something out.
    Off,
    /// As the original did: it takes the original's place.
    Preserve,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A restored database does not archive, and no backup of it is taken, until it is switched on: what the copy of \
a trial archives would become a part of the history of the original. From the next open on.

Example:
  seawall archive-mode bank on"
)]
pub(crate) struct ArchiveModeArguments {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// `on`: it archives where its program says so. `off`: it is not opened with archives, and no backup of it is taken.
    #[arg(value_enum)]
    pub(crate) mode: Switch,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}
