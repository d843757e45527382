//! The command line: sub-commands, options, and the help that teaches them.

mod archiving;
mod backup;
mod master_key;
pub(crate) mod postgresql;
mod repository;
mod rows;
mod serve;
mod upkeep;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use seawall::{ImageCompression, MasterKey, PageProtection};
use seawall_settings::{KeyOf, Names, Settings, SettingsError};

pub(crate) use archiving::{ArchiveArguments, archive_notes, with_archive_options};
pub(crate) use backup::{
    ArchiveModeArguments, BackupArguments, BackupCommand, RestoreArguments, RestoredArchiveMode, Switch,
};
pub(crate) use master_key::{MasterKeyArguments, NewMasterKey};
pub(crate) use repository::{
    ListRepository, OneRepository, REPOSITORY_HELP, RepoCommand, RotateRepositoryKey,
};
pub(crate) use rows::{Batch, Count, Dump, Format, Get, Load, OneRow, Put, Scan};
pub(crate) use serve::{Promote, Serve, Switchover};
pub(crate) use upkeep::{DrillArguments, ExpireArguments, VerifyArguments};

const OVERVIEW: &str = "\
A first session, to paste:

  seawall init bank
  seawall create bank accounts
  seawall put bank accounts alice 100
  seawall put bank accounts bob 50
  seawall get bank accounts alice
  seawall scan bank accounts

Real data, in and out again:

  seawall load bank airports data/airports.csv
  seawall get bank airports LAX
  seawall scan bank airports --prefix SE --limit 3
  seawall dump bank airports > airports-dump.csv

Is everything well?

  seawall info bank
  seawall check bank

`seawall tour` shows the whole story in a scratch directory: load, kill -9, recovery, verification.

Exit codes:
  0 done   1 failed   2 wrong command line   3 no such database, table or key
  4 damage found   5 database in use by another process   6 exists already
  7 input file not as expected   8 disk full
  9 master key missing, wrong or not needed

docs/command-line.md says which command has which exit code.

Keys and values are text; `--hex` reads and shows bytes. With `--json` every answer is JSON, one value a line.";

const SETTINGS_HELP: &str = "\
Settings are options, environment variables and lines of one file, in this order: what comes first counts. The file is TOML:

  repository = \"s3://wal/main\"          # SEAWALL_REPOSITORY, --repository
  master_key_file = \"/etc/seawall/key\"

  [archive]                             # archive-push and archive-get
  queue_max = \"200GiB\"                 # SEAWALL_QUEUE_MAX, --queue-max

  [expire]                              # a section for each command
  keep_window = \"14d\"                  # SEAWALL_EXPIRE_KEEP_WINDOW

  [credentials]
  AWS_ACCESS_KEY_ID = \"...\"

docs/command-line.md has all of them.";

/// Make, fill, read and examine Seawall databases.
///
/// Seawall is a transactional storage engine: ordered tables of keys and values in a directory. A put that returned
/// is on disk and survives kill -9 and power failure. One process at a time may write to a database; several may read
/// one that nobody writes to.
#[derive(Debug, Parser)]
#[command(name = "seawall", version, after_long_help = OVERVIEW, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every sub-command.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Shared {
    /// Answer in JSON, one value a line; errors are JSON on standard error.
    #[arg(long, global = true, display_order = 1000)]
    pub(crate) json: bool,
    /// Say more on standard error of what happens; twice, still more. The variable RUST_LOG says it in detail, and comes first.
    #[arg(long, short, global = true, action = clap::ArgAction::Count, display_order = 1000)]
    pub(crate) verbose: u8,
    /// Read the settings from FILE. Default: SEAWALL_CONFIG, else /etc/seawall/seawall.toml if it is there. /dev/null for none.
    #[arg(long, global = true, value_name = "FILE", display_order = 1000)]
    pub(crate) config: Option<PathBuf>,
    /// What is in force, of these options, the environment and the file.
    #[arg(skip)]
    pub(crate) settings: Settings,
    /// Memory for cached pages, in MiB. Default 256.
    #[arg(long, global = true, value_name = "MIB", hide_short_help = true, display_order = 1001)]
    pub(crate) cache_mib: Option<u64>,
    /// Memory for rows changed since the last checkpoint, in MiB. Default 256.
    #[arg(long, global = true, value_name = "MIB", hide_short_help = true, display_order = 1002)]
    pub(crate) memtable_mib: Option<u64>,
    /// Where the second copy of a page is while a checkpoint overwrites the page: recovery-file or log-images. Default
    /// recovery-file; what an earlier run has left is found wherever it is.
    #[arg(long, global = true, value_name = "WHERE", hide_short_help = true, display_order = 1003)]
    pub(crate) page_protection: Option<PageProtection>,
    /// How the copies of --page-protection are compressed: none, skip-garbage, lz4, zstd or snappy. Default lz4.
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true, display_order = 1004)]
    pub(crate) page_image_compression: Option<ImageCompression>,
    /// Let checkpoints write changes that are sparse in the tree as sorted runs, up to so many percent of the rest of the tree: 5 to 100, or 0
    /// for no runs. Default 25.
    #[arg(long, global = true, value_name = "PERCENT", hide_short_help = true, display_order = 1005)]
    pub(crate) run_percent: Option<u32>,
    #[command(flatten)]
    pub(crate) master_key: MasterKeyArguments,
}

impl Shared {
    /// Takes the settings together, of which these options are one level, with those of the command.
    pub(crate) fn load_settings(
        &mut self,
        of_command: Vec<(&'static str, String)>,
    ) -> Result<(), SettingsError> {
        let mut options = self.master_key.given();
        options.extend(of_command);
        let mut add = |path, text: Option<String>| options.extend(text.map(|text| (path, text)));
        add("database.cache_mib", self.cache_mib.map(|mib| mib.to_string()));
        add("database.memtable_mib", self.memtable_mib.map(|mib| mib.to_string()));
        add("database.page_protection", self.page_protection.map(|protection| protection.to_string()));
        add("database.page_image_compression", self.page_image_compression.map(|name| name.to_string()));
        add("database.run_percent", self.run_percent.map(|percent| percent.to_string()));
        self.settings = Settings::load(self.config.as_deref(), options, Names::Relative)?;
        Ok(())
    }

    /// Where the master key of repositories, or of databases, comes from.
    pub(crate) fn key_of(&self, of: KeyOf) -> Option<MasterKey> {
        self.settings.master_key(of)
    }
}

impl Command {
    /// Options of the command that are settings.
    pub(crate) fn given(&self) -> Vec<(&'static str, String)> {
        match self {
            Command::Serve(serve) => serve.given(),
            _ => Vec::new(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a new, empty database in DIR, which must be missing or empty.
    Init(Init),
    /// Show what DIR holds: superblock, redo point, timeline, log segments, sizes, last checkpoint.
    Info(Directory),
    /// Show the statistics of a database while another process has it open, and what `info` shows of one that is closed.
    Stats(Stats),
    /// Read everything and report damage by file, offset and key range; exit code 4 if there is any.
    Check(Directory),
    /// Look into what a database is made of.
    #[command(subcommand)]
    Inspect(InspectCommand),
    /// List the tables.
    Tables(Directory),
    /// Count the rows of tables, by reading them.
    Count(Count),
    /// Make an empty table.
    Create(OneTable),
    /// Remove a table and its rows. Costs the same whatever its size; the space is taken back later.
    Drop(OneTable),
    /// Give a table another name.
    Rename(Rename),
    /// Remove all rows of a table. Costs the same whatever its size.
    Truncate(OneTable),
    /// Set the value of a key; durable when it returns.
    Put(Put),
    /// Show the value of a key; exit code 3 if there is none.
    Get(Get),
    /// Remove a key; exit code 3 if there is none.
    Delete(OneRow),
    /// Show rows in key order, or only those of a range.
    Scan(Scan),
    /// Put and delete rows of any tables in one durable transaction: all of them, or none.
    Batch(Batch),
    /// Put the rows of a CSV, TSV or JSON-lines file into a table, in durable batches.
    Load(Load),
    /// Write all rows of a table as CSV, TSV or JSON lines, which `load` reads back exactly.
    Dump(Dump),
    /// Show the log: segments, who holds them, timelines and restore points; or, with --records, every record of it, oldest
    /// first. Works while the database is in use.
    Log(Log),
    /// List the transactions that are prepared and not decided, or decide those that are too old.
    InDoubt(InDoubt),
    /// Commit a prepared transaction, because its coordinator has decided so.
    CommitPrepared(OneGid),
    /// Roll a prepared transaction back, because its coordinator has decided so.
    RollbackPrepared(OneGid),
    /// Give the end of the log a name, to recover to it later.
    RestorePoint(NamedInLog),
    /// Go on on a new timeline, which begins where the log ends: after a copy of the database went its own way.
    NewTimeline(NewTimeline),
    /// Stop keeping the log for an archive, a standby or anybody else; also for one that has lost its hold.
    ReleaseHold(NamedInLog),
    /// Change the master key of an encrypted database: rewrites one small file and no data.
    RotateKey(RotateKey),
    /// Move everything that changed into the page file now, so that the next start has nothing to replay.
    Checkpoint(Directory),
    /// PostgreSQL's archive_command = 'seawall archive-push %p': archive a file, or learn that it is archived.
    #[command(after_help = archive_notes())]
    ArchivePush(ArchiveArguments),
    /// PostgreSQL's restore_command = 'seawall archive-get %f %p': fetch a file; exit code 1 if there is none.
    #[command(after_help = archive_notes())]
    ArchiveGet(ArchiveArguments),
    /// Show what the archive agent of the data directory (the current directory) is doing, with --json for programs.
    #[command(after_help = archive_notes())]
    ArchiveStatus(ArchiveArguments),
    /// End the archive agent of the data directory (the current directory), when its uploads are through.
    #[command(after_help = archive_notes())]
    ArchiveStop(ArchiveArguments),
    /// Let a restored database archive and be backed up, or keep a copy of a database from it.
    ArchiveMode(ArchiveModeArguments),
    /// Make and examine repositories: where archives lie.
    #[command(subcommand)]
    Repo(RepoCommand),
    /// Take a full backup of the database in DIR, with the log that it needs, or of a PostgreSQL cluster; or list the backups
    /// that a repository has.
    #[command(after_help = REPOSITORY_HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Backup(BackupArguments),
    /// Make a database in DIR, which must be missing or empty, of a backup and the log behind it: up to the end of the log, an LSN,
    /// a time or a restore point. It goes on on a new timeline. Of a PostgreSQL cluster, the files, and how it is to recover.
    /// Run again with the same arguments, it resumes what was cut short.
    #[command(after_help = REPOSITORY_HELP)]
    Restore(RestoreArguments),
    /// Remove backups and log from a repository that need not be kept any more.
    #[command(after_help = upkeep::EXPIRE_HELP)]
    Expire(ExpireArguments),
    /// Look at every object of a repository, and for what is missing: segments, the log and the objects of backups.
    #[command(after_help = upkeep::VERIFY_HELP)]
    Verify(VerifyArguments),
    /// Restore a database into a scratch directory, check it, and say how long it took.
    #[command(after_help = upkeep::DRILL_HELP)]
    Drill(DrillArguments),
    /// Serve the database in DIR, which is made if missing, to clients of PostgreSQL: psql, pgbench, drivers.
    Serve(Box<Serve>),
    /// Make a primary of the standby that a server of this machine serves from DIR. Sessions go on.
    Promote(Promote),
    /// Exchange the roles of the primary that a server of this machine serves from DIR, and a standby. No commit is lost.
    Switchover(Switchover),
    /// Show which settings are in force, and whether each is from an option, the environment, the file or nowhere.
    #[command(after_help = SETTINGS_HELP)]
    Settings,
    /// Write the script that lets a shell complete commands and options.
    Completions(Completions),
    /// Write a manual page for each command into a directory.
    Man(ManualPages),
    /// Measure this machine: commits, reads and scans a second, in a scratch directory.
    Bench(Bench),
    /// Show what Seawall promises: load real data, kill -9 the loader, recover, verify, transfer money, verify.
    Tour(Tour),
}

#[derive(Debug, Subcommand)]
pub(crate) enum InspectCommand {
    /// List the sorted runs, the newest first: what checkpoints have written beside the main part of the tree, and is to be merged into it.
    Runs(Directory),
}

#[derive(Debug, Args)]
pub(crate) struct Directory {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  seawall init bank --page-bytes 16384
  openssl rand -hex 32 > bank.key && chmod 600 bank.key
  seawall init bank --encrypt --master-key-file bank.key")]
pub(crate) struct Init {
    /// Directory of the database; made if missing.
    pub(crate) dir: PathBuf,
    /// Page size: 4096 to 65536, a power of two. Cannot be changed later.
    #[arg(long, value_name = "BYTES")]
    pub(crate) page_bytes: Option<u32>,
    /// Size of a log segment in MiB: 1 to 1024, a power of two. Cannot be changed later.
    #[arg(long, value_name = "MIB")]
    pub(crate) segment_mib: Option<u64>,
    /// Encrypt everything that is stored; needs one of --master-key-file, --master-key-env and --master-key-command, as
    /// does every later command. Cannot be changed later.
    #[arg(long)]
    pub(crate) encrypt: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The old master key is given as to every command, the new one by one of the --new options. Nobody \
may have the database open. Keep the old key until the command returns, and for as long as you keep copies of the \
database made before.

Example:
  seawall rotate-key bank --master-key-file old --new-master-key-file new"
)]
pub(crate) struct RotateKey {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) new: NewMasterKey,
    /// Master keys that open the database now go on doing so, until a rotation without this option.
    #[arg(long)]
    pub(crate) keep_others: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A command given with --ask is run by `sh -c` for each of them, with SEAWALL_GID, SEAWALL_OWNER and \
SEAWALL_LSN set, and says `commit`, `rollback` or `wait` on standard output. What --roll-back and --ask decide is recorded: \
`seawall info` shows it.

Examples:
  seawall in-doubt bank
  seawall in-doubt bank --older-than 3600 --owner billing
  seawall in-doubt bank --older-than 3600 --gid-prefix test- --roll-back
  seawall in-doubt bank --older-than 60 --ask 'outcome \"$SEAWALL_GID\"'
  seawall in-doubt bank --forget transfer-4711"
)]
pub(crate) struct InDoubt {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Only those of this owner.
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
    /// Only those whose gid starts like this.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) gid_prefix: String,
    /// Only those prepared at least so long ago.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) older_than: Option<f64>,
    /// Roll them back, though their coordinator may have decided otherwise.
    #[arg(long, requires = "older_than", conflicts_with = "ask")]
    pub(crate) roll_back: bool,
    /// Ask this command what their coordinator has decided, and do so.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) ask: Option<String>,
    /// Forget what was decided on record about this gid: its coordinator knows.
    #[arg(long, value_name = "GID", conflicts_with_all = ["ask", "roll_back", "older_than", "forget_older_than"])]
    pub(crate) forget: Option<String>,
    /// Forget what was decided on record so long ago: no coordinator asks any more.
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["ask", "roll_back", "older_than"])]
    pub(crate) forget_older_than: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct OneGid {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// The name under which it was prepared.
    #[arg(allow_hyphen_values = true)]
    pub(crate) gid: String,
}

#[derive(Debug, Args)]
pub(crate) struct OneTable {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Name of the table: 1 to 255 bytes of UTF-8.
    pub(crate) table: String,
}

#[derive(Debug, Args)]
pub(crate) struct Rename {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Name of the table now.
    pub(crate) from: String,
    /// Name of the table afterwards.
    pub(crate) to: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The process that has the database open publishes them once a second, unless its options say otherwise; this command disturbs \
neither that process nor one that is about to open the database. After a kill the last statistics are shown as such.

Examples:
  seawall stats bank
  seawall stats bank --json
  seawall stats bank --openmetrics > /var/lib/node_exporter/bank.prom")]
pub(crate) struct Stats {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// As OpenMetrics text, for a scraper; of a database that is not open only `seawall_up 0`.
    #[arg(long, conflicts_with = "json")]
    pub(crate) openmetrics: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seawall log bank\n  seawall log bank --records --limit 10\n  seawall log bank \
--from 0/1A2B00 --json"
)]
pub(crate) struct Log {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Show the records, every committed transaction, and not what the log consists of; --from and --limit mean that, too.
    #[arg(long)]
    pub(crate) records: bool,
    /// Show restore points, too: reads the whole log.
    #[arg(long, conflicts_with_all = ["records", "from", "limit"])]
    pub(crate) restore_points: bool,
    /// Start at this LSN, where a record starts. Default: the oldest record that is kept.
    #[arg(long, value_name = "LSN")]
    pub(crate) from: Option<seawall::Lsn>,
    /// Show at most this many records.
    #[arg(long, value_name = "RECORDS")]
    pub(crate) limit: Option<u64>,
}

/// A database and a name in its log.
#[derive(Debug, Args)]
pub(crate) struct NamedInLog {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// The name.
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The log of the old timeline stays valid up to where it was left; what a copy of the database writes \
on it from there on is never taken for a part of this one.\n\nExample:\n  seawall new-timeline bank --reason 'the old \
machine may still be writing'"
)]
pub(crate) struct NewTimeline {
    /// Directory of the database. Nobody may have it open.
    pub(crate) dir: PathBuf,
    /// Why, for people: it is kept in the history file.
    #[arg(long, value_name = "TEXT", default_value = "new-timeline")]
    pub(crate) reason: String,
    /// Its number, above that of the present timeline. Default: one above all numbers in the log directory.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) number: Option<u32>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seawall completions bash > /etc/bash_completion.d/seawall
  seawall completions zsh > /usr/local/share/zsh/site-functions/_seawall
  seawall completions fish > ~/.config/fish/completions/seawall.fish")]
pub(crate) struct Completions {
    /// The shell.
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  seawall man /usr/local/share/man/man1 && man seawall-restore")]
pub(crate) struct ManualPages {
    /// Directory for the pages; made if missing. Pages of the same names are replaced.
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
#[command(
    after_help = "For comparisons with other engines see crate seawall-bench.\n\nExample:\n  seawall bench \
--seconds 3 --threads 1,8,64"
)]
pub(crate) struct Bench {
    /// Database to use; made if missing, and left there. Default: a scratch directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Length of each measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Numbers of threads for durable puts.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [1u64, 8, 32],
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) threads: Vec<u64>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 0 only if every promise was kept. The scratch directory is kept if one was not.\n\n\
Example:\n  seawall tour --data rows.csv --key id"
)]
pub(crate) struct Tour {
    /// A file of rows to load (CSV, TSV or JSON lines) in place of the airports that come with Seawall.
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// With --data: a column of the key; may be given several times.
    #[arg(long, value_name = "COLUMN", requires = "data")]
    pub(crate) key: Vec<String>,
    /// Make the scratch directory in this directory. Default: the system's directory for temporary files.
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Leave the scratch directory behind, to look at.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Length of the transfers.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Seed of the transfers and of the moment of the kill.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("expected a number of seconds, more than 0 and at most 86400".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    fn with_subcommands(command: &clap::Command) -> Vec<&clap::Command> {
        command.get_subcommands().flat_map(with_subcommands).chain([command]).collect()
    }

    /// Long lines are broken where the terminal ends, so a sentence must not be broken by hand, too. What stands in columns, or is to
    /// be pasted, begins with two spaces and is no wider than a terminal.
    #[test]
    fn help_has_a_line_for_a_paragraph() {
        let root = Arguments::command();
        for command in with_subcommands(&root) {
            for help in [command.get_after_help(), command.get_after_long_help()].into_iter().flatten() {
                let help = help.to_string();
                let fits = |line: &&str| match line.starts_with("  ") && !line.starts_with("  * ") {
                    true => line.chars().count() <= 80,
                    false => line.ends_with(['.', ':', ';', '?']),
                };
                let broken: Vec<&str> =
                    help.lines().filter(|line| !line.is_empty()).filter(|line| !fits(line)).collect();
                assert!(broken.is_empty(), "{}: {broken:#?}", command.get_name());
            }
        }
    }

    /// An option that is explained by another one comes after it.
    #[test]
    fn options_of_pages_are_in_the_order_of_their_explanation() {
        let help = Arguments::command().render_long_help().to_string();
        let place = |option: &str| help.find(&format!("\n      {option} ")).unwrap();
        assert!(place("--page-protection") < place("--page-image-compression"), "{help}");
    }
}
