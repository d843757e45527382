//! What archiving takes of the settings: where to, how, and where the spool is. Which level counts, and what may be set, is told in
//! crate `settings`.
//!
//! Nothing here takes long: every command reads its settings, and most have nothing else to do.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::{Uid, User};
use seawall_archive::{Packing, is_store_variable};
use seawall_codec::checksum::crc32c;
use seawall_keys::MasterKey;
use seawall_settings::{KNOWN, KeyOf, Known, Names, Settings, known};

use crate::data_directory;

/// A spool that a package may provide, for all clusters of a machine.
const SYSTEM_SPOOL: &str = "/var/spool/seawall";
/// What lies below these may be gone when the machine has started again, or was not used for some days.
const PASSING_PLACES: [&str; 3] = ["/tmp", "/dev/shm", "/run"];

/// What is wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub String);

impl From<seawall_settings::SettingsError> for SettingsError {
    fn from(error: seawall_settings::SettingsError) -> SettingsError {
        SettingsError(error.to_string())
    }
}

/// The settings of archiving.
#[derive(Clone, Debug, Default)]
pub struct ArchiveSettings(Settings);

impl ArchiveSettings {
    /// Takes what is a setting out of `arguments`, and reads environment and file. The arguments that are left are returned.
    ///
    /// # Errors
    /// `SettingsError` if what is set anywhere is wrong, or an option has no value.
    pub fn load(arguments: &[OsString]) -> Result<(ArchiveSettings, Vec<OsString>), SettingsError> {
        let Given { config, options, rest } = Given::take(arguments)?;
        let settings = Settings::load(config.as_deref(), options, Names::Full)?;
        Ok((ArchiveSettings(settings), rest))
    }

    /// As text: what one process hands to another. Credentials are in it.
    pub fn to_text(&self) -> String {
        self.0.archiving_to_text()
    }

    /// Reads the text of a file, or what [`ArchiveSettings::to_text`] has written; `place` is for messages.
    ///
    /// # Errors
    /// `SettingsError` with the line.
    pub fn parse(text: &str, place: &str) -> Result<ArchiveSettings, SettingsError> {
        Ok(ArchiveSettings(Settings::parse(text, place)?))
    }

    /// Where to archive to: at least one place.
    ///
    /// # Errors
    /// If there is none.
    pub fn repositories(&self) -> Result<&[String], SettingsError> {
        match self.0.texts("repository") {
            [] => Err(SettingsError(
                "no repository is named: give --repository=URL, or set SEAWALL_REPOSITORY, or `repository` in \
                 /etc/seawall/seawall.toml"
                    .to_owned(),
            )),
            repositories => Ok(repositories),
        }
    }

    /// Where to archive to besides, without waiting for it.
    pub fn optional_repositories(&self) -> &[String] {
        self.0.texts("archive.optional_repository")
    }

    /// Bytes that may wait to be archived, if there is a limit.
    pub fn queue_max(&self) -> Option<u64> {
        self.0.bytes("archive.queue_max")
    }

    /// Where statistics for Prometheus are written to, if anywhere.
    pub fn prometheus_file(&self) -> Option<PathBuf> {
        self.0.path("archive.prometheus_file")
    }

    /// A number that tells these repositories from others.
    pub fn repositories_mark(&self) -> u32 {
        crc32c(self.0.texts("repository").join(" ").as_bytes())
    }

    /// The spool of the cluster with this data directory.
    ///
    /// # Errors
    /// If the directory is not there, or there is no place for the spool.
    pub fn spool(&self, data: &Path) -> Result<PathBuf, SettingsError> {
        // Past all links: two names of one directory are one cluster.
        let full = std::fs::canonicalize(data);
        let full =
            full.map_err(|error| SettingsError(format!("cannot look at {}: {error}", data.display())))?;
        Ok(self.spool_root()?.join(data_directory::spool_name(&full)))
    }

    fn spool_root(&self) -> Result<PathBuf, SettingsError> {
        if let Some(root) = self.0.path("archive.spool") {
            return Ok(root);
        }
        if Path::new(SYSTEM_SPOOL).is_dir() {
            return Ok(PathBuf::from(SYSTEM_SPOOL));
        }
        let listed = listed_home()?;
        let state = state_directory(listed, |name| std::env::var_os(name)).ok_or_else(|| {
            SettingsError(format!(
                "there is no place for the spool, since this user has no home directory: make {SYSTEM_SPOOL} for the user that \
                 PostgreSQL runs as (install -d -o postgres -m 700 {SYSTEM_SPOOL}), or name a directory with --spool or SEAWALL_SPOOL"
            ))
        })?;
        Ok(state.join("seawall"))
    }

    /// Refuses settings that make the spool remember what is nowhere else, if its place is one where the system removes files by
    /// itself. `place` is where it really is.
    ///
    /// # Errors
    /// With the setting and the place.
    pub(crate) fn check_memory(&self, place: &Path) -> Result<(), SettingsError> {
        let remembers = ["archive.queue_max", "archive.optional_repository"];
        let Some(setting) = remembers.into_iter().find(|path| self.0.is_set(path)) else {
            return Ok(());
        };
        let setting = known(setting).name();
        match PASSING_PLACES.iter().find(|passing| place.starts_with(passing)) {
            None => Ok(()),
            Some(passing) => Err(SettingsError(format!(
                "{setting} needs a spool that stays, since what repositories lack is remembered there: {} lies below {passing}, which \
                 the system empties; name another directory with --spool or SEAWALL_SPOOL",
                place.display()
            ))),
        }
    }

    /// How segments are compressed.
    pub fn packing(&self) -> Packing {
        self.0.packing("archive.compression").unwrap_or_default()
    }

    /// Most uploads at once to one repository.
    pub fn in_flight(&self) -> usize {
        self.0.require("archive.in_flight")
    }

    /// Most downloads at once.
    pub fn get_in_flight(&self) -> usize {
        self.0.get("archive.get_in_flight").unwrap_or_else(|| self.in_flight())
    }

    /// Segments that are read and packed at once, if that is limited.
    pub fn threads(&self) -> Option<u64> {
        self.0.get("archive.threads")
    }

    /// MiB a second that are uploaded, if that is limited.
    pub fn push_rate(&self) -> Option<u64> {
        self.0.get("archive.push_rate")
    }

    /// MiB a second that are downloaded, if that is limited.
    pub fn get_rate(&self) -> Option<u64> {
        self.0.get("archive.get_rate")
    }

    /// Whether each upload, acknowledgement and download is logged, and not only what failed.
    pub fn logs_successes(&self) -> bool {
        self.0.text("archive.log_level") == Some("info")
    }

    /// Segments that are fetched ahead.
    pub fn prefetch(&self) -> usize {
        self.0.require("archive.prefetch")
    }

    /// How long a command waits.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.0.require("archive.timeout"))
    }

    /// Where the master key comes from, if there is one.
    pub fn master_key(&self) -> Option<MasterKey> {
        self.0.master_key(KeyOf::Repositories)
    }

    /// Keeps this process out of core files and from the eyes of others if there is a master key or a credential of the file. To be
    /// called before the key is read, in each process that reads it or has it in its environment: a process that it starts does not
    /// inherit this.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn guard_secrets(&self) -> Result<(), SettingsError> {
        if !self.0.has_secrets() {
            return Ok(());
        }
        seawall_io::forbid_core_files()
            .map_err(|error| SettingsError(format!("cannot keep secrets out of core files: {error}")))
    }

    /// The environment variables that are used beside these settings, with their values: those that the stores read, and the master
    /// key if one has it. Others with such names change nothing: `AWS_PROFILE`, say, of whoever calls a command by hand.
    pub(crate) fn environment(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let master_key = self.0.text("master_key_env");
        let is_used = |name: &str| is_store_variable(name) || Some(name) == master_key;
        let used = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_used));
        used.map(|(name, value)| (name.into_vec(), value.into_vec())).collect()
    }

    /// What should be put right, though everything works.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let credentials = self.0.exposed_file().map(|path| {
            let path = path.display();
            format!(
                "everybody may read the credentials in {path}: take that right away, as `chmod o-rwx {path}` does"
            )
        });
        // If it cannot be looked at, it cannot be read, either: that is an error, and not said here.
        let key_is_open = |path: &&str| {
            std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & seawall_io::OPEN_TO_OTHERS != 0)
        };
        let key = self.0.text("master_key_file").filter(key_is_open).map(|path| {
            format!(
                "others may read the master key in {path}: take that right away, as `chmod 600 {path}` does"
            )
        });
        credentials.into_iter().chain(key).collect()
    }

    /// Credentials from the file.
    pub fn credentials(&self) -> BTreeMap<String, String> {
        self.0.credentials()
    }
}

/// The home directory that the system's list of users has for this user, if it is there.
fn listed_home() -> Result<Option<PathBuf>, SettingsError> {
    let user = match User::from_uid(Uid::effective()) {
        Ok(user) => user,
        // The manual has these for a user that is not listed.
        Err(Errno::ENOENT | Errno::ESRCH | Errno::EBADF | Errno::EPERM) => None,
        Err(error) => {
            return Err(SettingsError(format!(
                "cannot look up this user's home directory, where the spool is: {error}; name a directory with --spool or SEAWALL_SPOOL"
            )));
        }
    };
    Ok(user.map(|user| user.dir).filter(|home| home.is_absolute() && home.is_dir()))
}

/// The user's directory for what programs keep between their runs. `variable` reads the environment, for a user without a home
/// directory, as the XDG base directory specification has it. For others it does not count: calls with different environments must
/// find one spool, or one data directory would have two agents.
fn state_directory(listed: Option<PathBuf>, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let below = |home: PathBuf| home.join(".local/state");
    listed.map(below).or_else(|| named("XDG_STATE_HOME")).or_else(|| named("HOME").map(below))
}

/// What the arguments of a command give.
struct Given {
    config: Option<PathBuf>,
    /// By the paths of the settings.
    options: Vec<(&'static str, String)>,
    rest: Vec<OsString>,
}

impl Given {
    fn take(arguments: &[OsString]) -> Result<Given, SettingsError> {
        let mut given = Given { config: None, options: Vec::new(), rest: Vec::new() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let Some(option) = argument.to_str().filter(|text| text.starts_with("--")) else {
                given.rest.push(argument.clone());
                continue;
            };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option, None),
            };
            let setting = setting_of(name);
            if setting.is_none() && name != CONFIG {
                return Err(SettingsError(format!(
                    "{name} is not an option; see `seawall help archive-push`"
                )));
            }
            let next = || arguments.next().and_then(|value| value.to_str()).map(str::to_owned);
            let value = value.or_else(next).ok_or_else(|| SettingsError(format!("{name} has no value")))?;
            match setting {
                Some(setting) => given.options.push((setting.path, value)),
                None if given.config.is_some() => {
                    return Err(SettingsError(format!("{name}: it is given twice, and has one value")));
                }
                None => given.config = Some(value.into()),
            }
        }
        Ok(given)
    }
}

/// The option that names the file.
const CONFIG: &str = "--config";

/// The setting of archiving that has this option.
fn setting_of(option: &str) -> Option<&'static Known> {
    let mut of_archiving = KNOWN.iter().filter(|known| ["", "archive"].contains(&known.section()));
    of_archiving.find(|known| known.option() == option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(arguments: &[&str]) -> Result<(ArchiveSettings, Vec<OsString>), SettingsError> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        ArchiveSettings::load(&arguments)
    }

    #[test]
    fn options_come_before_the_file_and_the_rest_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("seawall.toml");
        std::fs::write(
            &file,
            "# where to\nrepository = [\"/var/a\", \"s3://b/c?region=x\"]\n\n[archive]\ncompression = \"zstd:7\"\n\
             [expire]\nkeep_count = 7\n[credentials]\nAWS_ACCESS_KEY_ID = \"me\"\n",
        )
        .unwrap();
        let file = file.display().to_string();
        let (settings, rest) =
            load(&["--config", &file, "--timeout=5", "pg_wal/x", "--in-flight", "3"]).unwrap();
        assert_eq!(rest, ["pg_wal/x"]);
        assert_eq!(settings.repositories().unwrap(), ["/var/a", "s3://b/c?region=x"]);
        assert_eq!(settings.timeout(), Duration::from_secs(5));
        assert_eq!((settings.in_flight(), settings.packing().zstd_level), (3, 7));
        assert_eq!(settings.credentials()["AWS_ACCESS_KEY_ID"], "me");
        let (settings, _) = load(&["--config", &file, "--repository", "/one", "--repository=/two"]).unwrap();
        assert_eq!(settings.repositories().unwrap(), ["/one", "/two"]);
        let handed_on = ArchiveSettings::parse(&settings.to_text(), "text").unwrap();
        assert_eq!(handed_on.to_text(), settings.to_text());
        assert_eq!(handed_on.repositories(), settings.repositories());
        let (settings, _) =
            load(&["--config", &file, "--optional-repository=/x", "--queue-max=64GiB"]).unwrap();
        assert_eq!(
            (settings.optional_repositories(), settings.queue_max()),
            (&["/x".to_owned()][..], Some(64 << 30))
        );
    }

    #[test]
    fn the_environment_has_a_say_in_the_spool_only_of_a_user_without_a_home() {
        let environment = |variables: &'static [(&str, &str)]| {
            move |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
            }
        };
        let both = &[("XDG_STATE_HOME", "/state"), ("HOME", "/other")];
        for (listed, variables, expected) in [
            (Some("/home/me"), &both[..], Some("/home/me/.local/state")),
            (Some("/home/me"), &[], Some("/home/me/.local/state")),
            (None, both, Some("/state")),
            (None, &both[1..], Some("/other/.local/state")),
            // A relative path counts for nothing, as the specification says.
            (None, &[("XDG_STATE_HOME", "state"), ("HOME", "/other")], Some("/other/.local/state")),
            (None, &[("HOME", "nowhere")], None),
            (None, &[], None),
        ] {
            let found = state_directory(listed.map(PathBuf::from), environment(variables));
            assert_eq!(found, expected.map(PathBuf::from), "{listed:?}, {variables:?}");
        }
    }

    #[test]
    fn what_is_no_option_is_refused_by_name() {
        for (arguments, words) in [
            (&["--repositry=/x"][..], "--repositry"),
            (&["--keep-count=7"], "--keep-count"),
            (&["--timeout"], "no value"),
            (&["--config=/dev/null", "--timeout=5", "--timeout=5"], "twice"),
            (&["--config=/dev/null", "--config=/dev/null"], "twice"),
            (&["--config=/dev/null", "--repository=archive"], "full name"),
            (&["--config=/nowhere/seawall.toml"], "/nowhere"),
        ] {
            let error = load(arguments).unwrap_err().to_string();
            assert!(error.contains(words), "{arguments:?}: {error}");
        }
        let error = ArchiveSettings::default().repositories().unwrap_err().to_string();
        assert!(error.contains("SEAWALL_REPOSITORY") && error.contains("seawall.toml"), "{error}");
    }
}
