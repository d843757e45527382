//! Arguments of the commands that PostgreSQL runs, which read them themselves.

use clap::Args;

pub(crate) const ARCHIVE_HELP: &str = "\
Run in PostgreSQL's data directory, as PostgreSQL does; or anywhere, if the file lies in a data directory. The first call starts an agent, which uploads whatever waits to be
archived, many files at once, and fetches ahead for recovery; later calls mostly find that it is done.

Options, and the environment variables and lines of /etc/seawall/archive.conf that do the same:
  --repository=URL       SEAWALL_REPOSITORY    repository = URL     where to; several: given again, or separated by spaces
  --optional-repository=URL ...                optional_repository = where to, too, without waiting for it
  --queue-max=BYTES      SEAWALL_QUEUE_MAX     queue_max = ...      64GiB: when more waits and the store takes nothing, segments
                                                                    are left out, as a gap that is on record; default: never
  --prometheus-file=FILE ...                   prometheus_file = .. statistics for Prometheus, written every ten seconds
  --spool=DIRECTORY      SEAWALL_SPOOL         spool = ...          default: /var/spool/seawall if it is there, else
                                                                    seawall in $XDG_STATE_HOME or ~/.local/state
  --compression=NAME     SEAWALL_COMPRESSION   compression = ...    none, lz4 (default), zstd, zstd:1 to zstd:19
  --in-flight=NUMBER     SEAWALL_IN_FLIGHT     in_flight = ...      most uploads or downloads at once, default 32
  --prefetch=NUMBER      SEAWALL_PREFETCH      prefetch = ...       segments fetched ahead, default 32
  --timeout=SECONDS      SEAWALL_TIMEOUT       timeout = ...        how long a command waits, default 60
  --master-key-file=FILE ...                   master_key_file = .. of an encrypted repository, also -env and -command
  --config=FILE          SEAWALL_CONFIG                             another file than /etc/seawall/archive.conf
  --data-directory=DIR                                              PostgreSQL's, if this is not run in it, and the file is elsewhere

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
