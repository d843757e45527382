//! Arguments of the commands that PostgreSQL runs, which read them themselves.

use clap::Args;

pub(crate) const ARCHIVE_HELP: &str = "\
Run in PostgreSQL's data directory, as PostgreSQL does; or anywhere, if the file lies in a data directory. The first call starts an agent, which uploads whatever waits to be \
archived, many files at once, and fetches ahead for recovery. Later calls mostly find that the work is done.

Options. Each is also an environment variable, such as SEAWALL_QUEUE_MAX, and a line of /etc/seawall/seawall.toml: the repository \
and the master key at its top, the others in [archive], as in `queue_max = \"64GiB\"`:
  --repository=URL             where to; several: given again
  --optional-repository=URL    where to, too, without waiting for it
  --queue-max=BYTES            leave segments out, as a recorded gap, when more
                               waits and the store takes nothing; default never
  --prometheus-file=FILE       statistics for Prometheus, every ten seconds
  --spool=DIRECTORY            default /var/spool/seawall if there, else
                               ~/.local/state/seawall of PostgreSQL's user
  --compression=NAME           none, lz4 (default), zstd, zstd:1 to zstd:19
  --in-flight=NUMBER           most uploads or downloads at once, default 32
  --prefetch=NUMBER            segments fetched ahead, default 32
  --timeout=SECONDS            how long a command waits, default 60
  --master-key-file=FILE       of an encrypted repository; also -env, -command
  --config=FILE                instead of /etc/seawall/seawall.toml
  --data-directory=DIR         PostgreSQL's, if this does not run in it and the
                               file lies elsewhere

Exit codes of archive-get: 0 fetched; 1 not in the archive; 126 cannot tell, or in a gap, so that a recovery stops and does \
not end early (1 on a standby, which asks again).

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
