//! Where master keys come from.

use std::path::PathBuf;

use clap::Args;
use seawall::MasterKey;

/// Where the master key of an encrypted database comes from.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MasterKeyArguments {
    /// The database or repository is encrypted, and its master key is in this file: 32 bytes, or 64 hexadecimal digits, or base64.
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
    /// What is given, as settings: the key of repositories and of databases, whichever a command works on.
    pub(crate) fn given(&self) -> Vec<(&'static str, String)> {
        let file = self.master_key_file.as_ref().map(|path| path.display().to_string());
        let sources = [
            ("master_key_file", "database.master_key_file", file),
            ("master_key_env", "database.master_key_env", self.master_key_env.clone()),
            ("master_key_command", "database.master_key_command", self.master_key_command.clone()),
        ];
        let named = sources.into_iter().filter_map(|(one, other, text)| Some((one, other, text?)));
        named.flat_map(|(one, other, text)| [(one, text.clone()), (other, text)]).collect()
    }
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
        let file = self.new_master_key_file.clone().map(MasterKey::File);
        let variable = || self.new_master_key_env.clone().map(MasterKey::Environment);
        let command = || self.new_master_key_command.clone().map(MasterKey::Command);
        file.or_else(variable).or_else(command)
    }
}
