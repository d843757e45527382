//! Arguments of the commands that look after repositories: `expire`, `verify`, `drill`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use seawall_settings::parse_time;

use super::postgresql::PostgreSqlDrillArguments;

pub(crate) const EXPIRE_HELP: &str = "\
What any of the --keep options names stays, with all that a restore of it needs. The newest backup always stays. Without \
--keep-window, so does all log from the oldest backup that stays: a restore to any moment since then still works. With \
--keep-window, log older than the window stays only where a backup that stays cannot do without.

Examples:
  seawall expire --repository s3://bank/main --keep-window 14d --dry-run
  seawall expire --repository s3://bank/main --keep-count 7
  seawall expire --repository s3://bank/main --keep-window 14d --keep-age 90d

Times: 90s, 30m, 12h, 14d, 4w. To be run once a day, by cron or a timer, while everything else goes on.";

#[derive(Debug, Args)]
pub(crate) struct ExpireArguments {
    /// Where; several times for several repositories. Default: those that are set.
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) repository: Vec<String>,
    /// Only this database or cluster, as `repo info` names it. Default: each in the repository, by itself.
    #[arg(long, value_name = "NAME")]
    pub(crate) system: Option<seawall_archive::System>,
    /// Keep so many backups, the newest ones.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keep_count: Option<u64>,
    /// Keep backups that ended within this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) keep_age: Option<Duration>,
    /// Keep what a restore to any moment of this time needs.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) keep_window: Option<Duration>,
    /// A backup that has not ended may be under way for so long; what is left of it goes when it is older. Default: 7d.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) keep_unfinished: Option<Duration>,
    /// A backup that has just begun may not be seen yet: what one needs that began within this time stays. Default: 1h.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) keep_recent: Option<Duration>,
    /// Show what would go and why the rest stays, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(crate) const VERIFY_HELP: &str = "\
Exit codes: 4 if something is damaged or missing, 1 if there are only objects that Seawall did not put there. Segments that \
were left out on purpose or removed by retention are shown, and are no damage.

Examples:
  seawall verify --repository s3://bank/main
  seawall verify --repository s3://bank/main --full --json";

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// Where; several times for several repositories. Default: those that are set.
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) repository: Vec<String>,
    /// Read all of every object: checksums, records of the log, rows of backups. Without it, 512 bytes of each.
    #[arg(long)]
    pub(crate) full: bool,
    /// Objects that are read at a time. Default: 8.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
    /// A segment that is missing may be on its way for so long after the next one was archived. Default: 5m.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) settle: Option<Duration>,
}

pub(crate) const DRILL_HELP: &str = "\
Restores into a directory of its own, reads and checks every page and record, removes the directory, and says how long it \
took to recover. Of a PostgreSQL cluster, a server of its release recovers there, out of everybody's reach, and every table \
is read, and every page if pages have checksums; or --query is asked. Exit codes: 0 if all is well; 1 if \
a timeline was followed while another has newer data, and none was named; else those of restore and check. Schedule it: with --prometheus-file a monitor sees when it last succeeded.

Examples:
  seawall drill --repository s3://bank/main --scratch /var/tmp
  seawall drill --repository s3://bank/main --prometheus-file drill.prom
  seawall drill --repository s3://wal/main --query 'select max(id) from orders'";

#[derive(Debug, Args)]
pub(crate) struct DrillArguments {
    /// Where from. Default: the one that is set.
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) repository: Option<String>,
    /// The scratch directory is made in this one. Default: that for temporary files.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) scratch: Option<PathBuf>,
    /// Leave what was restored where it is.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Restore with every commit up to this position.
    #[arg(long, value_name = "LSN", group = "drill_target")]
    pub(crate) to_lsn: Option<seawall::Lsn>,
    /// Restore with every commit up to this time, UTC.
    #[arg(long, value_name = "TIME", group = "drill_target", value_parser = crate::files::parse_utc)]
    pub(crate) to_time: Option<i64>,
    /// Restore up to the first restore point with this name behind the backup.
    #[arg(long, value_name = "NAME", group = "drill_target")]
    pub(crate) to_name: Option<String>,
    /// Restore up to the end of the log in the repository: the default.
    #[arg(long, group = "drill_target")]
    pub(crate) latest: bool,
    /// Along the history of this timeline. Default: the one that production is on; refused, with the choices, if the repository
    /// does not tell.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) timeline: Option<u32>,
    /// From this backup, as `backup list` names it. Default: the newest one that ends before the target.
    #[arg(long, value_name = "NAME")]
    pub(crate) backup: Option<String>,
    /// The id of the database, if the repository has several.
    #[arg(long, value_name = "ID")]
    pub(crate) database: Option<String>,
    /// Objects that are fetched at a time. Default: 4.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: Option<u16>,
    /// Write how it went to this file, for the text file collector of Prometheus' node exporter.
    #[arg(long, value_name = "FILE")]
    pub(crate) prometheus_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) postgresql: PostgreSqlDrillArguments,
}
