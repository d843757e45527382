//! Arguments of `repo`: where a repository is, and what is done with it.

use clap::{Args, Subcommand};

use super::master_key::NewMasterKey;

pub(crate) const REPOSITORY_HELP: &str = "\
REPOSITORY is a directory or a URL. Without it, the environment variable SEAWALL_REPOSITORY or the settings file names the repository:
  /var/lib/archive, file:///var/lib/archive
  s3://bucket/prefix?region=eu-central-1
  s3://bucket/prefix?endpoint=http://127.0.0.1:9000      any other S3 store
  s3://bucket/prefix?endpoint=...&path_style=false       with hosts for buckets
  gs://bucket/prefix
  az://container/prefix?account=name

Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, \
AZURE_STORAGE_ACCOUNT_KEY, ...), from the settings file, or from the machine's identity. An encrypted repository needs one of --master-key-file, \
--master-key-env and --master-key-command, or a master key that is set.";

#[derive(Debug, Subcommand)]
pub(crate) enum RepoCommand {
    /// Make a repository, encrypted if a master key is given. A bucket must exist, a directory is made. Exit code 1 if the store
    /// overwrites objects.
    #[command(after_help = REPOSITORY_HELP)]
    Create(OneRepository),
    /// Put and get scratch objects: is anything ever overwritten, is it listed at once, how long does it take? Exit code 1 if
    /// objects can be overwritten, or are not listed at once.
    #[command(after_help = REPOSITORY_HELP)]
    Check(OneRepository),
    /// Show whose logs it holds, from where to where, and what is missing.
    #[command(after_help = REPOSITORY_HELP)]
    Info(OneRepository),
    /// List all objects.
    #[command(after_help = REPOSITORY_HELP)]
    Ls(ListRepository),
    /// Change the master key of an encrypted repository: puts a small object, and reads and writes nothing else.
    #[command(after_help = REPOSITORY_HELP)]
    RotateKey(RotateRepositoryKey),
}

#[derive(Debug, Args)]
pub(crate) struct OneRepository {
    /// Where it is. Default: the one that is set.
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
    /// Encrypt objects with a new repository key from now on. Those that are there keep theirs. With --keep-others only if there are
    /// no master keys but the old one and the new one, since a new key can be made for those alone.
    #[arg(long)]
    pub(crate) renew: bool,
}
