//! The command line: sub-commands, options, and the help that teaches them.

pub(crate) mod postgresql;
mod upkeep;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use seawall::{ImageCompression, MasterKey, PageProtection};

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
  0 done   1 failed   2 wrong command line   3 no such database, table or key   4 damage found
  5 database in use by another process   6 exists already   7 input file not as expected   8 disk full
  9 master key missing, wrong or not needed

Keys and values are text; `--hex` reads and shows bytes. With `--json` every answer is JSON, one value a line.";

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
#[derive(Debug, Args)]
pub(crate) struct Shared {
    /// Answer in JSON, one value a line; errors are JSON on standard error.
    #[arg(long, global = true, display_order = 1000)]
    pub(crate) json: bool,
    /// Memory for cached pages, in MiB. Default 256.
    #[arg(long, global = true, value_name = "MIB", hide_short_help = true, display_order = 1001)]
    pub(crate) cache_mib: Option<u64>,
    /// Memory for rows changed since the last checkpoint, in MiB. Default 256.
    #[arg(long, global = true, value_name = "MIB", hide_short_help = true, display_order = 1001)]
    pub(crate) memtable_mib: Option<u64>,
    /// Where the second copy of a page is while a checkpoint overwrites it: recovery-file or log-images. Default
    /// recovery-file; what an earlier run has left is found wherever it is.
    #[arg(long, global = true, value_name = "WHERE", hide_short_help = true, display_order = 1001)]
    pub(crate) page_protection: Option<PageProtection>,
    /// How these copies are made smaller: none, skip-garbage, lz4, zstd or snappy. Default lz4.
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true, display_order = 1001)]
    pub(crate) page_image_compression: Option<ImageCompression>,
    #[command(flatten)]
    pub(crate) master_key: MasterKeyArguments,
}

/// Where the master key of an encrypted database comes from.
#[derive(Debug, Args)]
pub(crate) struct MasterKeyArguments {
    /// The database is encrypted, and its master key is in this file: 32 bytes, or 64 hexadecimal digits, or base64.
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true, display_order = 1002)]
    pub(crate) master_key_file: Option<PathBuf>,
    /// The master key is in this environment variable.
    #[arg(long, global = true, value_name = "VARIABLE", hide_short_help = true, display_order = 1002)]
    pub(crate) master_key_env: Option<String>,
    /// The master key is what this command prints, run by `sh -c`: it may ask a key management service.
    #[arg(long, global = true, value_name = "COMMAND", hide_short_help = true, display_order = 1002)]
    pub(crate) master_key_command: Option<String>,
}

impl MasterKeyArguments {
    /// Whether at most one source is named. `clap` does not check groups of options that all sub-commands have.
    pub(crate) fn are_well_formed(&self) -> bool {
        let given = [
            self.master_key_file.is_some(),
            self.master_key_env.is_some(),
            self.master_key_command.is_some(),
        ];
        given.iter().filter(|is_given| **is_given).count() <= 1
    }

    pub(crate) fn source(&self) -> Option<MasterKey> {
        source_of(&self.master_key_file, &self.master_key_env, &self.master_key_command)
    }
}

fn source_of(
    file: &Option<PathBuf>,
    variable: &Option<String>,
    command: &Option<String>,
) -> Option<MasterKey> {
    let file = file.clone().map(MasterKey::File);
    let variable = || variable.clone().map(MasterKey::Environment);
    let command = || command.clone().map(MasterKey::Command);
    file.or_else(variable).or_else(command)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a new, empty database in DIR, which must be missing or empty.
    Init(Init),
    /// Show what DIR holds: superblock, redo point, timeline, log segments, sizes, last checkpoint.
    Info(Directory),
    /// Read everything and report damage by file, offset and key range; exit code 4 if there is any.
    Check(Directory),
    /// List the tables.
    Tables(Directory),
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
    #[command(after_help = ARCHIVE_HELP)]
    ArchivePush(ArchiveArguments),
    /// PostgreSQL's restore_command = 'seawall archive-get %f %p': fetch a file; exit code 1 if there is none.
    #[command(after_help = ARCHIVE_HELP)]
    ArchiveGet(ArchiveArguments),
    /// Show what the archive agent of the data directory (the current directory) is doing, with --json for programs.
    #[command(after_help = ARCHIVE_HELP)]
    ArchiveStatus(ArchiveArguments),
    /// End the archive agent of the data directory (the current directory), when its uploads are through.
    #[command(after_help = ARCHIVE_HELP)]
    ArchiveStop(ArchiveArguments),
    /// Make and examine repositories: where archives lie.
    #[command(subcommand)]
    Repo(RepoCommand),
    /// Take a full backup of the database in DIR, with the log that it needs, or of a PostgreSQL cluster; or list the backups
    /// that a repository has.
    #[command(after_help = REPOSITORY_HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Backup(BackupArguments),
    /// Make a database in DIR, which must be missing or empty, of a backup and the log behind it: up to the end of the log, an LSN,
    /// a time or a restore point. It goes on on a new timeline. Of a PostgreSQL cluster, the files, and how it is to recover.
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
    /// Measure this machine: commits, reads and scans a second, in a scratch directory.
    Bench(Bench),
    /// Show what Seawall promises: load real data, kill -9 the loader, recover, verify, transfer money, verify.
    Tour(Tour),
}

const ARCHIVE_HELP: &str = "\
Run in PostgreSQL's data directory, as PostgreSQL does. The first call starts an agent, which uploads whatever waits to be
archived, many files at once, and fetches ahead for recovery; later calls mostly find that it is done.

Options, and the environment variables and lines of /etc/seawall/archive.conf that do the same:
  --repository=URL       SEAWALL_REPOSITORY    repository = URL     where to; several: given again, or separated by spaces
  --optional-repository=URL ...                optional_repository = where to, too, without waiting for it
  --queue-max=BYTES      SEAWALL_QUEUE_MAX     queue_max = ...      64GiB: when more waits and the store takes nothing, segments
                                                                    are left out, as a gap that is on record; default: never
  --prometheus-file=FILE ...                   prometheus_file = .. statistics for Prometheus, written every ten seconds
  --spool=DIRECTORY      SEAWALL_SPOOL         spool = ...          default: a directory of this user in /tmp
  --compression=NAME     SEAWALL_COMPRESSION   compression = ...    none, lz4 (default), zstd, zstd:1 to zstd:19
  --in-flight=NUMBER     SEAWALL_IN_FLIGHT     in_flight = ...      most uploads or downloads at once, default 32
  --prefetch=NUMBER      SEAWALL_PREFETCH      prefetch = ...       segments fetched ahead, default 32
  --timeout=SECONDS      SEAWALL_TIMEOUT       timeout = ...        how long a command waits, default 60
  --master-key-file=FILE ...                   master_key_file = .. of an encrypted repository, also -env and -command
  --config=FILE          SEAWALL_CONFIG                             another file than /etc/seawall/archive.conf

Exit codes of archive-get: 0 fetched   1 not in the archive   126 cannot be told, or in a gap: a recovery stops and does not end
early (1 on a standby, which asks again).

Example, for postgresql.conf:
  archive_mode = on
  archive_command = 'seawall archive-push --repository=s3://wal/main %p'
  restore_command = 'seawall archive-get --repository=s3://wal/main %f %p'";

/// Read by the archive commands themselves.
#[derive(Debug, Args)]
pub(crate) struct ArchiveArguments {
    /// Options, and what PostgreSQL gives: %p, or %f %p.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<std::ffi::OsString>,
}

const REPOSITORY_HELP: &str = "\
REPOSITORY is a directory or a URL; without it, the environment variable SEAWALL_REPOSITORY says:
  /var/lib/archive, file:///var/lib/archive
  s3://bucket/prefix?region=eu-central-1
  s3://bucket/prefix?endpoint=http://127.0.0.1:9000       any other S3 store; path_style=false if it wants host names
  gs://bucket/prefix
  az://container/prefix?account=name
Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS,
AZURE_STORAGE_ACCOUNT_KEY, ...) or from the machine's identity. An encrypted repository needs one of --master-key-file,
--master-key-env and --master-key-command.";

#[derive(Debug, Subcommand)]
pub(crate) enum RepoCommand {
    /// Make a repository, encrypted if a master key is given. A bucket must exist, a directory is made.
    #[command(after_help = REPOSITORY_HELP)]
    Create(OneRepository),
    /// Put and get scratch objects: is anything ever overwritten, is it listed at once, how long does it take? Exit code 1 if
    /// objects can be overwritten.
    #[command(after_help = REPOSITORY_HELP)]
    Check(OneRepository),
    /// Show whose logs it holds, from where to where, and what is missing.
    #[command(after_help = REPOSITORY_HELP)]
    Info(OneRepository),
    /// List files.
    #[command(after_help = REPOSITORY_HELP)]
    Ls(ListRepository),
    /// Change the master key of an encrypted repository: puts a small object, and reads and writes nothing else.
    #[command(after_help = REPOSITORY_HELP)]
    RotateKey(RotateRepositoryKey),
}

#[derive(Debug, Args)]
pub(crate) struct OneRepository {
    /// Where it is. Default: SEAWALL_REPOSITORY.
    #[arg(value_name = "REPOSITORY", conflicts_with = "named")]
    place: Option<String>,
    /// The same, as other commands have it.
    #[arg(long = "repository", value_name = "REPOSITORY")]
    named: Option<String>,
}

impl OneRepository {
    /// Where it is, if that is said.
    pub(crate) fn given(&self) -> &Option<String> {
        if self.named.is_some() { &self.named } else { &self.place }
    }
}

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    pub(crate) command: Option<BackupCommand>,
    /// The database's directory.
    #[arg(required_unless_present = "postgresql")]
    pub(crate) dir: Option<PathBuf>,
    /// Where to. Default: SEAWALL_REPOSITORY.
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) repository: Option<String>,
    /// Only what has changed since the newest backup of the database's timeline that is there; everything, if there is none.
    #[arg(long)]
    pub(crate) incremental: bool,
    /// Bytes a second that are read at most, in MiB.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    /// Threads that compress and put.
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// Compress with Zstandard at this level instead of LZ4.
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=19))]
    pub(crate) zstd: Option<i32>,
    #[command(flatten)]
    pub(crate) postgresql: postgresql::PostgreSqlBackupArguments,
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
    /// Where from. Default: SEAWALL_REPOSITORY.
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) repository: Option<String>,
    /// With every commit up to this position, such as 1/A2B3C4D8.
    #[arg(long, value_name = "LSN", group = "target")]
    pub(crate) to_lsn: Option<seawall::Lsn>,
    /// With every commit up to this time, UTC, such as 2026-11-22T03:15:00Z, to the microsecond.
    #[arg(long, value_name = "TIME", group = "target", value_parser = crate::files::parse_utc)]
    pub(crate) to_time: Option<i64>,
    /// Up to the last restore point with this name.
    #[arg(long, value_name = "NAME", group = "target")]
    pub(crate) to_name: Option<String>,
    /// Up to the end of the log in the repository: the default.
    #[arg(long, group = "target")]
    pub(crate) latest: bool,
    /// Along the history of this timeline. Default: the last one.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) timeline: Option<u32>,
    /// The id of the database, if the repository has several.
    #[arg(long, value_name = "ID")]
    pub(crate) database: Option<String>,
    /// Objects that are fetched at a time.
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// From this backup, as `backup list` names it. Default: the newest one that ends before the target.
    #[arg(long, value_name = "NAME")]
    pub(crate) backup: Option<String>,
    #[command(flatten)]
    pub(crate) postgresql: postgresql::PostgreSqlRestoreArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ListRepository {
    #[command(flatten)]
    pub(crate) repository: OneRepository,
    /// Only this system, as `repo info` names it.
    #[arg(long, value_name = "NAME")]
    pub(crate) system: Option<seawall_archive::System>,
    /// Only segments of this timeline.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) timeline: Option<u32>,
    /// Read what each object says of itself: positions in the log, lengths, compression. One request for each.
    #[arg(long, short)]
    pub(crate) long: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RotateRepositoryKey {
    #[command(flatten)]
    pub(crate) repository: OneRepository,
    #[command(flatten)]
    pub(crate) new: NewMasterKey,
    /// Master keys that open the repository now go on doing so, until a rotation without this option.
    #[arg(long)]
    pub(crate) keep_others: bool,
    /// Encrypt objects with a new repository key from now on. Those that are there keep theirs.
    #[arg(long)]
    pub(crate) renew: bool,
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
  seawall rotate-key bank --master-key-file old.key --new-master-key-file new.key"
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

/// Where the new master key comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct NewMasterKey {
    /// The new master key is in this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) new_master_key_file: Option<PathBuf>,
    /// The new master key is in this environment variable.
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) new_master_key_env: Option<String>,
    /// The new master key is what this command prints.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) new_master_key_command: Option<String>,
}

impl NewMasterKey {
    pub(crate) fn source(&self) -> Option<MasterKey> {
        source_of(&self.new_master_key_file, &self.new_master_key_env, &self.new_master_key_command)
    }
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
  seawall in-doubt bank --older-than 60 --ask 'coordinator outcome \"$SEAWALL_GID\"'
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
pub(crate) struct OneRow {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Name of the table.
    pub(crate) table: String,
    /// The key.
    #[arg(allow_hyphen_values = true)]
    pub(crate) key: String,
    /// Keys and values are bytes in hexadecimal.
    #[arg(long)]
    pub(crate) hex: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  seawall put bank accounts alice 100
  seawall put bank photos cat.jpg --value-file cat.jpg
  seawall put bank accounts --hex 616c696365 313030")]
pub(crate) struct Put {
    #[command(flatten)]
    pub(crate) row: OneRow,
    /// The value.
    #[arg(allow_hyphen_values = true, required_unless_present = "value_file")]
    pub(crate) value: Option<String>,
    /// Take the value from this file, byte for byte; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    pub(crate) value_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  seawall get bank accounts alice
  seawall get bank photos cat.jpg --raw > cat.jpg")]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) row: OneRow,
    /// The value's bytes and nothing else: no newline after it.
    #[arg(long, conflicts_with_all = ["hex", "json"])]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A line is the key, a tab, the value; bytes that are not printable are shown as \\n, \\t, \\\\ \
and \\xNN.

Examples:
  seawall scan bank airports --prefix SE --limit 10
  seawall scan bank airports --from A --to C --keys-only
  seawall scan bank airports --reverse --limit 1       the last row"
)]
pub(crate) struct Scan {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Name of the table.
    pub(crate) table: String,
    /// Start at this key.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// End before this key.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Only keys that start with this.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["from", "to"], allow_hyphen_values = true)]
    pub(crate) prefix: Option<String>,
    /// Show at most this many rows.
    #[arg(long, value_name = "ROWS")]
    pub(crate) limit: Option<u64>,
    /// The last row first.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Show no values.
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// Keys and values are bytes in hexadecimal.
    #[arg(long)]
    pub(crate) hex: bool,
}

/// How rows are written in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values (RFC 4180), with a header.
    Csv,
    /// As CSV, with tabs in place of commas.
    Tsv,
    /// One JSON object a line.
    Jsonl,
}

const LOAD_HELP: &str = "\
How a row becomes a key and a value:
  * The key is the column named by --key; without it, the column `key` (or `key_hex`: hexadecimal), or else the first
    one. JSON lines have no first field: name it with --key unless it is `key` or `key_hex`.
  * With several --key columns, the key is their texts joined by --separator, as in `CA/LAX`.
  * If the one column left is `value` (or `value_hex`), the value is its text. Otherwise the value is a JSON object of
    the columns left, in their order: {\"name\":\"Los Angeles International\",\"state\":\"CA\"}.
A row whose key is in the table already replaces it. A table that does not exist is made.

Each batch is one durable transaction, committed in the order of the file: after a crash the table holds whole batches,
and every batch that --acks has announced. To go on from there, give the announced number to --skip.

Examples:
  seawall load bank airports data/airports.csv
  seawall load bank by_state data/airports.csv --key state --key iata
  seawall dump other accounts | seawall load bank accounts - --format csv
  seawall load bank events events.jsonl --key id --acks --batch 100";

#[derive(Debug, Args)]
#[command(after_long_help = LOAD_HELP, after_help = "See --help for how a row becomes key and value, and examples.")]
pub(crate) struct Load {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Name of the table; made if missing.
    pub(crate) table: String,
    /// The file; `-` is standard input.
    pub(crate) file: PathBuf,
    /// Format of the file. Default: by its extension (.csv, .tsv, .jsonl, .ndjson), CSV for standard input.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// A column of the key; may be given several times.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) key: Vec<String>,
    /// Stands between the parts of a key of several columns.
    #[arg(long, value_name = "TEXT", default_value = "/", allow_hyphen_values = true)]
    pub(crate) separator: String,
    /// The first line is a row. Columns are called 1, 2, 3; if there are two, they are key and value.
    #[arg(long)]
    pub(crate) no_header: bool,
    /// Rows in a transaction. It also ends when it holds 16 MiB.
    #[arg(long, value_name = "ROWS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch: u64,
    /// Print `committed ROWS` (rows of the file so far) after each durable transaction.
    #[arg(long)]
    pub(crate) acks: bool,
    /// Leave out the first rows of the file, because they are loaded already.
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    pub(crate) skip: u64,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The columns are `key` and `value`, in one consistent snapshot, in key order. CSV and TSV hold the bytes as they are
(quoted where needed), so that what is loaded again is the same to the byte; --hex makes them `key_hex` and `value_hex`
in hexadecimal for tools that want text. JSON lines use hexadecimal for the rows that are not text, and only for those.

Examples:
  seawall dump bank airports > airports.csv
  seawall dump bank airports --format jsonl --output airports.jsonl")]
pub(crate) struct Dump {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Name of the table.
    pub(crate) table: String,
    /// Format of the output. Default: by the extension of --output, else CSV.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Write to this file (replaced if it exists; on disk when the command returns) and not to standard output.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Keys and values in hexadecimal.
    #[arg(long)]
    pub(crate) hex: bool,
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
}
