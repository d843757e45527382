//! Where to archive to, and how: from options of the command line, the environment, and a file, in this order.
//!
//! | option        | environment          | file          | meaning                                                              |
//! |---------------|----------------------|---------------|----------------------------------------------------------------------|
//! | --repository  | SEAWALL_REPOSITORY   | repository    | where to; several: given several times, or separated by spaces       |
//! | --optional-repository | SEAWALL_OPTIONAL_REPOSITORY | optional_repository | where to, too; may lag or be down     |
//! | --spool       | SEAWALL_SPOOL        | spool         | directory for acknowledgements and prefetched segments; default `/var/spool/seawall`, else `~/.local/state/seawall` |
//! | --compression | SEAWALL_COMPRESSION  | compression   | `none`, `lz4` (default), `zstd`, `zstd:LEVEL`                        |
//! | --in-flight   | SEAWALL_IN_FLIGHT    | in_flight     | most uploads or downloads at once; default 32                        |
//! | --prefetch    | SEAWALL_PREFETCH     | prefetch      | segments fetched ahead; default 32, 0: none                          |
//! | --timeout     | SEAWALL_TIMEOUT      | timeout       | seconds until a command gives up waiting; default 60                 |
//! | --queue-max   | SEAWALL_QUEUE_MAX    | queue_max     | bytes that may wait, as `64GiB`; then segments are left out; default: no limit |
//! | --prometheus-file | SEAWALL_PROMETHEUS_FILE | prometheus_file | statistics for Prometheus, written every ten seconds |
//! | --master-key-file, -env, -command | SEAWALL_MASTER_KEY_FILE, ... | master_key_file, ... | of an encrypted repository |
//! | --config      | SEAWALL_CONFIG       |               | the file; default `/etc/seawall/archive.conf`, if it is there        |
//!
//! What comes first replaces what comes later: the repositories that an option names are all; and of the three sources that a master key
//! may have, those of the environment and the file count for nothing if an option names any.
//!
//! The file has lines `name = value`; `#` begins a comment. Names in capitals are credentials, such as `AWS_ACCESS_KEY_ID`:
//! they are used as if they stood in the environment.
//!
//! Nothing here takes long: every command reads its settings, and most have nothing else to do.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::{Uid, User};
use seawall_archive::is_store_variable;
use seawall_codec::checksum::crc32c;
use seawall_keys::MasterKey;

/// The file, if none is named.
const FILE: &str = "/etc/seawall/archive.conf";
/// A spool that a package may provide, for all clusters of a machine.
const SYSTEM_SPOOL: &str = "/var/spool/seawall";
/// What lies below these may be gone when the machine has started again, or was not used for some days.
const PASSING_PLACES: [&str; 3] = ["/tmp", "/dev/shm", "/run"];
/// It is a few lines.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Names of settings, in the file; in the environment in capitals with `SEAWALL_` before.
const NAMES: [&str; 12] = [
    "repository",
    "optional_repository",
    "queue_max",
    "prometheus_file",
    "spool",
    "compression",
    "in_flight",
    "prefetch",
    "timeout",
    "master_key_file",
    "master_key_env",
    "master_key_command",
];

/// The sources that a master key may have, of which one is named.
const MASTER_KEY: [&str; 3] = ["master_key_file", "master_key_env", "master_key_command"];

/// What is wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub String);

/// The settings as text: what one process hands to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// By the names of the file.
    values: BTreeMap<String, String>,
    credentials: BTreeMap<String, String>,
    /// The file, if it has credentials that everybody may read.
    exposed: Option<PathBuf>,
}

impl Settings {
    /// Takes what is a setting out of `arguments`, and reads environment and file. The arguments that are left are returned.
    ///
    /// # Errors
    /// `SettingsError` if the file cannot be read, or an option has no value.
    pub fn load(arguments: &[OsString]) -> Result<(Settings, Vec<OsString>), SettingsError> {
        let (given, rest) = take_options(arguments)?;
        let file = given.get("config").cloned().or_else(|| std::env::var("SEAWALL_CONFIG").ok());
        let mut settings = match file {
            Some(path) => read_file(Path::new(&path), Missing::IsAnError)?,
            None => read_file(Path::new(FILE), Missing::IsFine)?,
        };
        settings.overlay(from_environment());
        settings.overlay(given);
        Ok((settings, rest))
    }

    /// Takes on values that come before those that are there. A master key has one source: whichever is named replaces all of them.
    fn overlay(&mut self, values: BTreeMap<String, String>) {
        if MASTER_KEY.iter().any(|name| values.contains_key(*name)) {
            MASTER_KEY.iter().for_each(|name| drop(self.values.remove(*name)));
        }
        let settings = values.into_iter().filter(|(name, _)| NAMES.contains(&name.as_str()));
        self.values.extend(settings);
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// As lines of a file: `parse` reads them back.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.values.iter().chain(&self.credentials) {
            writeln!(text, "{name} = {value}").expect("writing to a String cannot fail");
        }
        text
    }

    /// Reads lines of a file; `place` is for messages.
    ///
    /// # Errors
    /// `SettingsError` with the line.
    pub fn parse(text: &str, place: &str) -> Result<Settings, SettingsError> {
        let mut settings = Settings::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refuse = |problem: String| SettingsError(format!("{place}, line {}: {problem}", index + 1));
            let (name, value) =
                line.split_once('=').ok_or_else(|| refuse("expected `name = value`".to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            if NAMES.contains(&name) {
                settings.add(name, value);
            } else if is_credential(name) {
                settings.credentials.insert(name.to_owned(), value.to_owned());
            } else {
                return Err(refuse(format!("{name} is no setting; known are {}", NAMES.join(", "))));
            }
        }
        Ok(settings)
    }

    /// Repositories add up, other settings replace.
    fn add(&mut self, name: &str, value: &str) {
        match self.values.get_mut(name) {
            Some(present) if name == "repository" || name == "optional_repository" => {
                present.push(' ');
                present.push_str(value);
            }
            _ => {
                self.values.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    /// Where to archive to: at least one place.
    ///
    /// # Errors
    /// If there is none.
    pub fn repositories(&self) -> Result<Vec<&str>, SettingsError> {
        let repositories: Vec<&str> =
            self.value("repository").unwrap_or_default().split_whitespace().collect();
        if repositories.is_empty() {
            return Err(SettingsError(format!(
                "no repository is named: give --repository=URL, or set SEAWALL_REPOSITORY or `repository` in {FILE}"
            )));
        }
        Ok(repositories)
    }

    /// Where to archive to besides, without waiting for it.
    pub fn optional_repositories(&self) -> Vec<&str> {
        self.value("optional_repository").unwrap_or_default().split_whitespace().collect()
    }

    /// Bytes that may wait to be archived, if there is a limit.
    ///
    /// # Errors
    /// If it is no number of bytes.
    pub fn queue_max(&self) -> Result<Option<u64>, SettingsError> {
        let Some(text) = self.value("queue_max") else { return Ok(None) };
        let refuse = || {
            SettingsError(format!(
                "queue_max {text}: expected a number of bytes, such as 500MiB, 64GiB or 1TiB"
            ))
        };
        let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = match unit.trim() {
            "" => 1,
            "MiB" | "MB" => 1 << 20,
            "GiB" | "GB" => 1 << 30,
            "TiB" | "TB" => 1_u64 << 40,
            _ => return Err(refuse()),
        };
        let number: u64 = number.parse().map_err(|_| refuse())?;
        number.checked_mul(factor).filter(|bytes| *bytes > 0).map(Some).ok_or_else(refuse)
    }

    /// Where statistics for Prometheus are written to, if anywhere.
    pub fn prometheus_file(&self) -> Option<PathBuf> {
        self.value("prometheus_file").map(PathBuf::from)
    }

    /// A number that tells these repositories from others.
    pub fn repositories_mark(&self) -> u32 {
        crc32c(self.value("repository").unwrap_or_default().as_bytes())
    }

    /// The spool of the cluster with this data directory.
    ///
    /// # Errors
    /// If the directory cannot be told from others, or there is no place for the spool.
    pub fn spool(&self, data: &Path) -> Result<PathBuf, SettingsError> {
        let metadata = std::fs::metadata(data);
        let metadata =
            metadata.map_err(|error| SettingsError(format!("cannot look at {}: {error}", data.display())))?;
        // By the directory itself, not by its name: two names of one directory are one cluster.
        let name = format!("{:x}-{:x}", metadata.dev(), metadata.ino());
        Ok(self.spool_root()?.join(name))
    }

    fn spool_root(&self) -> Result<PathBuf, SettingsError> {
        if let Some(root) = self.value("spool") {
            return if root.starts_with('/') {
                Ok(PathBuf::from(root))
            } else {
                Err(SettingsError(format!("spool {root}: expected the full name of a directory")))
            };
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
        let remembers = ["queue_max", "optional_repository"];
        let Some(setting) = remembers.into_iter().find(|name| self.value(name).is_some()) else {
            return Ok(());
        };
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
    ///
    /// # Errors
    /// If the name is none.
    pub fn packing(&self) -> Result<seawall_archive::Packing, SettingsError> {
        use seawall_archive::{Compression, Packing};
        let default = Packing::default();
        let Some(text) = self.value("compression") else { return Ok(default) };
        let refuse =
            || SettingsError(format!("compression {text}: expected none, lz4, zstd, or zstd:1 to zstd:19"));
        let (name, level) = match text.split_once(':') {
            None => (text, None),
            Some((name, level)) => (name, Some(level.parse::<i32>().map_err(|_| refuse())?)),
        };
        match (name, level) {
            ("none", None) => Ok(Packing { compression: Compression::None, ..default }),
            ("lz4", None) => Ok(Packing { compression: Compression::Lz4, ..default }),
            ("zstd", None) => Ok(Packing { compression: Compression::Zstd, ..default }),
            ("zstd", Some(zstd_level)) if (1..=19).contains(&zstd_level) => {
                Ok(Packing { compression: Compression::Zstd, zstd_level })
            }
            _ => Err(refuse()),
        }
    }

    fn number(
        &self,
        name: &str,
        default: u32,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, SettingsError> {
        let Some(text) = self.value(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| SettingsError(format!("{name} {text}: expected a number, {least} to {most}")))
    }

    /// Most uploads, or downloads, at once.
    ///
    /// # Errors
    /// If it is none.
    pub fn in_flight(&self) -> Result<usize, SettingsError> {
        Ok(usize::try_from(self.number("in_flight", 32, 1..=256)?).expect("at most 256"))
    }

    /// Segments that are fetched ahead.
    ///
    /// # Errors
    /// If it is none.
    pub fn prefetch(&self) -> Result<usize, SettingsError> {
        Ok(usize::try_from(self.number("prefetch", 32, 0..=1024)?).expect("at most 1024"))
    }

    /// How long a command waits.
    ///
    /// # Errors
    /// If it is none.
    pub fn timeout(&self) -> Result<Duration, SettingsError> {
        Ok(Duration::from_secs(u64::from(self.number("timeout", 60, 1..=3600)?)))
    }

    /// Where the master key comes from, if there is one.
    ///
    /// # Errors
    /// If several places are named.
    pub fn master_key(&self) -> Result<Option<MasterKey>, SettingsError> {
        let file = self.value("master_key_file").map(|path| MasterKey::File(path.into()));
        let variable = self.value("master_key_env").map(|name| MasterKey::Environment(name.to_owned()));
        let command = self.value("master_key_command").map(|command| MasterKey::Command(command.to_owned()));
        let mut named = [file, variable, command].into_iter().flatten();
        let (first, second) = (named.next(), named.next());
        match second {
            None => Ok(first),
            Some(_) => {
                let problem =
                    "give one of master_key_file, master_key_env and master_key_command, not several";
                Err(SettingsError(problem.to_owned()))
            }
        }
    }

    /// Keeps this process out of core files and from the eyes of others if there is a master key. To be called before the key is
    /// read, in each process that reads it or has it in its environment: a process that it starts does not inherit this.
    ///
    /// # Errors
    /// If several places are named, or the system refuses.
    pub fn guard_master_key(&self) -> Result<(), SettingsError> {
        if self.master_key()?.is_none() {
            return Ok(());
        }
        seawall_io::forbid_core_files()
            .map_err(|error| SettingsError(format!("cannot keep the master key out of core files: {error}")))
    }

    /// The environment variables that are used beside these settings, with their values: those that the stores read, and the master
    /// key if one has it. Others with such names change nothing: `AWS_PROFILE`, say, of whoever calls a command by hand.
    pub(crate) fn environment(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let master_key = self.value("master_key_env");
        let is_used = |name: &str| is_store_variable(name) || Some(name) == master_key;
        let used = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_used));
        used.map(|(name, value)| (name.into_vec(), value.into_vec())).collect()
    }

    /// What should be put right, though everything works.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let credentials = self.exposed.as_ref().map(|path| {
            let path = path.display();
            format!(
                "everybody may read the credentials in {path}: take that right away, as `chmod o-rwx {path}` does"
            )
        });
        // If it cannot be looked at, it cannot be read, either: that is an error, and not said here.
        let key_is_open = |path: &&str| {
            std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & seawall_io::OPEN_TO_OTHERS != 0)
        };
        let key = self.value("master_key_file").filter(key_is_open).map(|path| {
            format!(
                "others may read the master key in {path}: take that right away, as `chmod 600 {path}` does"
            )
        });
        credentials.into_iter().chain(key).collect()
    }

    /// Credentials from the file.
    pub fn credentials(&self) -> &BTreeMap<String, String> {
        &self.credentials
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

/// In capitals, as the environment variables of the providers.
fn is_credential(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let prefixes = ["AWS_", "GOOGLE_", "AZURE_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) && name.bytes().all(is_plain)
}

/// Options by the names of the file, and what is left.
fn take_options(arguments: &[OsString]) -> Result<(BTreeMap<String, String>, Vec<OsString>), SettingsError> {
    let mut settings = Settings::default();
    let mut rest = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let Some(option) = argument.to_str().and_then(|text| text.strip_prefix("--")) else {
            rest.push(argument.clone());
            continue;
        };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (option, None),
        };
        let setting = name.replace('-', "_");
        if setting != "config" && !NAMES.contains(&setting.as_str()) {
            return Err(SettingsError(format!("--{name} is no option; see `seawall help archive-push`")));
        }
        let value = match value {
            Some(value) => value,
            None => arguments
                .next()
                .and_then(|value| value.to_str())
                .map(str::to_owned)
                .ok_or_else(|| SettingsError(format!("--{name} has no value")))?,
        };
        settings.add(&setting, &value);
    }
    Ok((settings.values, rest))
}

/// Settings by the names of the file. A variable that is empty says nothing.
fn from_environment() -> BTreeMap<String, String> {
    let value = |name: &str| std::env::var(format!("SEAWALL_{}", name.to_ascii_uppercase())).ok();
    let set = NAMES.iter().filter_map(|name| Some(((*name).to_owned(), value(name)?)));
    set.filter(|(_, value)| !value.is_empty()).collect()
}

/// The file may be its group's.
const OTHERS_READ: u32 = 0o004;

enum Missing {
    IsFine,
    IsAnError,
}

fn read_file(path: &Path, missing: Missing) -> Result<Settings, SettingsError> {
    use std::io::Read;
    let place = path.display().to_string();
    let refuse = |error: io::Error| SettingsError(format!("cannot read the settings in {place}: {error}"));
    let file = match (std::fs::OpenOptions::new().read(true).open(path), missing) {
        (Err(error), Missing::IsFine) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Settings::default());
        }
        (opened, _) => opened.map_err(refuse)?,
    };
    let mut text = String::new();
    let mode = file.metadata().map_err(refuse)?.mode();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(refuse)?;
    let mut settings = Settings::parse(&text, &place)?;
    let is_exposed = mode & OTHERS_READ != 0 && !settings.credentials.is_empty();
    settings.exposed = is_exposed.then(|| path.to_owned());
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(arguments: &[&str]) -> Result<(Settings, Vec<OsString>), SettingsError> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        Settings::load(&arguments)
    }

    #[test]
    fn options_come_before_the_file_and_the_rest_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("archive.conf");
        std::fs::write(
            &file,
            "# where to\nrepository = /var/a\nrepository = s3://b/c?region=x\ncompression = zstd:7\n\nAWS_ACCESS_KEY_ID = me\n",
        )
        .unwrap();
        let file = file.display().to_string();
        let (settings, rest) =
            load(&["--config", &file, "--timeout=5", "pg_wal/x", "--in-flight", "3"]).unwrap();
        assert_eq!(rest, ["pg_wal/x"]);
        assert_eq!(settings.repositories().unwrap(), ["/var/a", "s3://b/c?region=x"]);
        assert_eq!(settings.timeout().unwrap(), Duration::from_secs(5));
        assert_eq!((settings.in_flight().unwrap(), settings.packing().unwrap().zstd_level), (3, 7));
        assert_eq!(settings.credentials()["AWS_ACCESS_KEY_ID"], "me");
        let (settings, _) = load(&["--config", &file, "--repository", "/one", "--repository=/two"]).unwrap();
        assert_eq!(settings.repositories().unwrap(), ["/one", "/two"]);
        // Whether everybody may read the file is nothing that is handed on.
        let handed_on = Settings { exposed: None, ..settings };
        assert_eq!(Settings::parse(&handed_on.to_text(), "text").unwrap(), handed_on);
        let (settings, _) =
            load(&["--config", &file, "--optional-repository=/x", "--queue-max=64GiB"]).unwrap();
        assert_eq!(
            (settings.optional_repositories(), settings.queue_max()),
            (vec!["/x"], Ok(Some(64 << 30)))
        );
        assert_eq!(Settings::default().queue_max(), Ok(None));
    }

    /// A restored cluster's `restore_command` names its key, whatever the file says.
    #[test]
    fn an_option_for_the_master_key_replaces_every_source_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("archive.conf");
        std::fs::write(&file, "repository = /var/a\nmaster_key_file = /etc/key\n").unwrap();
        let file = format!("--config={}", file.display());
        for (options, expected) in [
            (&[][..], MasterKey::File("/etc/key".into())),
            (&["--master-key-env=KEY"], MasterKey::Environment("KEY".to_owned())),
            (&["--master-key-command=cat key"], MasterKey::Command("cat key".to_owned())),
            (&["--master-key-file=/other"], MasterKey::File("/other".into())),
        ] {
            let (settings, _) = load(&[&[file.as_str()], options].concat()).unwrap();
            let key = settings.master_key().unwrap().map(|key| key.to_string());
            assert_eq!(key, Some(expected.to_string()), "{options:?}");
        }
        let (settings, _) = load(&[&file, "--master-key-env=KEY", "--master-key-file=/other"]).unwrap();
        assert!(settings.master_key().is_err(), "two at one place are a mistake");
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
    fn what_is_no_setting_is_refused_by_name() {
        for (text, problem) in [
            ("repositry = x", "repositry is no setting"),
            ("repository", "line 1"),
            ("aws_access_key_id = x", "no setting"),
        ] {
            let error = Settings::parse(text, "the file").unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("the file"), "{error}");
        }
        for (text, problem) in [
            ("compression = gzip", "none, lz4, zstd"),
            ("compression = zstd:20", "zstd:19"),
            ("in_flight = 0", "1 to 256"),
            ("timeout = x", "1 to 3600"),
            ("queue_max = 7 bananas", "64GiB"),
            ("queue_max = 99999999TiB", "64GiB"),
            ("queue_max = 0", "64GiB"),
        ] {
            let settings = Settings::parse(text, "the file").unwrap();
            let errors = [
                settings.packing().err(),
                settings.in_flight().err(),
                settings.timeout().err(),
                settings.queue_max().err(),
            ];
            let error = errors.into_iter().flatten().next().unwrap().to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert!(load(&["--repositry=/x"]).unwrap_err().to_string().contains("--repositry"));
        assert!(load(&["--timeout"]).unwrap_err().to_string().contains("no value"));
        assert!(load(&["--config=/nowhere/archive.conf"]).unwrap_err().to_string().contains("/nowhere"));
        assert!(Settings::default().repositories().unwrap_err().to_string().contains("SEAWALL_REPOSITORY"));
    }
}
