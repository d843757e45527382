//! Where master keys come from.

use std::path::PathBuf;

use clap::Args;
use seawall::MasterKey;

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
