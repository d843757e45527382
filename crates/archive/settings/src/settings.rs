//! The settings in force: what each level says, and which of them counts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use seawall_archive::{Packing, is_store_variable};
use seawall_keys::MasterKey;

use crate::error::SettingsError;
use crate::file::{self, Content, Credential, shown};
use crate::known::{KNOWN, Kind, Known, Unset, known};
use crate::setting::{Origin, Setting};
use crate::values::{parse_bytes, parse_compression, parse_time};

/// The environment variable that names the file.
const FILE_VARIABLE: &str = "SEAWALL_CONFIG";

/// Settings of one level, by their paths.
type Level = BTreeMap<&'static str, Setting>;

/// What may be named relative to where a command runs. In the file, nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Nothing: the command runs where PostgreSQL starts it, and an agent elsewhere.
    Full,
    /// What options and variables name: somebody types them at a shell.
    Relative,
}

/// What a master key opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOf {
    /// Repositories.
    Repositories,
    /// Databases.
    Databases,
}

impl KeyOf {
    /// The sources, of which one is set.
    fn sources(self) -> [&'static str; 3] {
        match self {
            KeyOf::Repositories => ["master_key_file", "master_key_env", "master_key_command"],
            KeyOf::Databases => {
                ["database.master_key_file", "database.master_key_env", "database.master_key_command"]
            }
        }
    }
}

/// A line of the listing of what is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The path of the setting, or `credentials.NAME`.
    pub name: String,
    /// What is set; nothing where nothing is, and where it is hidden.
    pub values: Vec<String>,
    /// What it means that nothing is set.
    pub unset: Option<&'static str>,
    /// It may be secret.
    pub is_hidden: bool,
    /// Where it is from.
    pub origin: Origin,
}

/// The settings in force.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    file: Option<PathBuf>,
    settings: Level,
    credentials: BTreeMap<String, Credential>,
    is_open: bool,
}

impl Settings {
    /// Takes options, the environment and the file together. `config` names the file; `options` are the values of options, by the
    /// paths of their settings, several for a list.
    ///
    /// # Errors
    /// `SettingsError` if a file that is named cannot be read, or what is set anywhere is wrong.
    pub fn load(
        config: Option<&Path>,
        options: Vec<(&'static str, String)>,
        names: Names,
    ) -> Result<Settings, SettingsError> {
        let variable = |name: &str| std::env::var_os(name);
        let file = match (config, environment_text(FILE_VARIABLE, &variable)?) {
            (Some(path), _) => Some(path.to_owned()),
            (None, Some(path)) => Some(path.into()),
            (None, None) => file::default_file(Path::new(file::DIRECTORY))?,
        };
        let content = file.as_deref().map(file::read).transpose()?.unwrap_or_default();
        Settings { file, ..Settings::default() }.assemble(content, &variable, options, names)
    }

    fn assemble(
        mut self,
        content: Content,
        variable: &dyn Fn(&str) -> Option<OsString>,
        options: Vec<(&'static str, String)>,
        names: Names,
    ) -> Result<Settings, SettingsError> {
        let Content { settings, mut credentials, is_open } = content;
        credentials.retain(|name, _| variable(name).is_none_or(|value| value.is_empty()));
        self.is_open = is_open && !credentials.is_empty();
        self.credentials = credentials;
        for level in [settings, from_environment(variable)?, from_options(options)?] {
            check_level(&level, names)?;
            self.overlay(level);
        }
        self.refuse_named_twice()?;
        Ok(self)
    }

    /// Takes on what comes before what is there. A master key has one source: whichever is named replaces all of them.
    fn overlay(&mut self, level: Level) {
        for key in [KeyOf::Repositories, KeyOf::Databases] {
            if key.sources().iter().any(|source| level.contains_key(source)) {
                key.sources().iter().for_each(|source| drop(self.settings.remove(source)));
            }
        }
        self.settings.extend(level);
    }

    /// What archiving waits for and what it does not wait for are two things.
    fn refuse_named_twice(&self) -> Result<(), SettingsError> {
        let (required, optional) = ("repository", "archive.optional_repository");
        let (Some(one), Some(other)) = (self.settings.get(required), self.settings.get(optional)) else {
            return Ok(());
        };
        match one.texts.iter().find(|text| other.texts.contains(text)) {
            None => Ok(()),
            Some(both) => Err(SettingsError::refused(
                &other.origin,
                format!(
                    "{both} is named as optional_repository here, and as repository by {}: name it once",
                    one.origin
                ),
            )),
        }
    }

    /// Reads the text of a file; `place` is for messages.
    ///
    /// # Errors
    /// `SettingsError` with the line.
    pub fn parse(text: &str, place: &str) -> Result<Settings, SettingsError> {
        let content = file::parse(text, Path::new(place))?;
        Settings::default().assemble(content, &|_| None, Vec::new(), Names::Full)
    }

    /// What archiving takes of it, as the text of a file, credentials too: what one process hands to another.
    pub fn archiving_to_text(&self) -> String {
        let mut document = toml::Table::new();
        for (path, setting) in &self.settings {
            let known = known(path);
            match known.section() {
                "" => drop(document.insert(known.name().to_owned(), value_of(known, setting))),
                section @ "archive" => {
                    let section = document.entry(section).or_insert_with(|| toml::Table::new().into());
                    let section = section.as_table_mut().expect("it was made as a table");
                    section.insert(known.name().to_owned(), value_of(known, setting));
                }
                _ => {}
            }
        }
        let credential =
            |(name, credential): (&String, &Credential)| (name.clone(), credential.value.clone().into());
        let credentials: toml::Table = self.credentials.iter().map(credential).collect();
        if !credentials.is_empty() {
            document.insert(crate::known::CREDENTIALS.to_owned(), credentials.into());
        }
        document.to_string()
    }

    /// The file that was read, if any.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The file, if an option or a variable has named it: another process may not find it by itself.
    pub fn named_file(&self) -> Option<&Path> {
        self.file().filter(|file| *file != file::default_path())
    }

    /// The file, if it has credentials that everybody may read.
    pub fn exposed_file(&self) -> Option<&Path> {
        self.file.as_deref().filter(|_| self.is_open)
    }

    /// Whether somebody has set it.
    pub fn is_set(&self, path: &str) -> bool {
        self.settings.contains_key(known(path).path)
    }

    /// Where its value is from.
    pub fn origin(&self, path: &str) -> &Origin {
        self.settings.get(known(path).path).map_or(&Origin::Default, |setting| &setting.origin)
    }

    /// Its value, or that which counts where nobody sets it.
    pub fn text(&self, path: &str) -> Option<&str> {
        let set = self.settings.get(path).and_then(|setting| setting.texts.last()).map(String::as_str);
        set.or(match known(path).unset {
            Unset::Value(value) => Some(value),
            Unset::Means(_) => None,
        })
    }

    /// Its values.
    pub fn texts(&self, path: &str) -> &[String] {
        self.settings.get(known(path).path).map_or(&[], |setting| &setting.texts)
    }

    fn value<T>(&self, path: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        self.text(path).map(|text| parse(text).expect("each value was checked when it was read"))
    }

    /// A value that `T` reads as the setting is checked: a number within its limits, or one of its words.
    ///
    /// # Panics
    /// If `T` does not.
    pub fn get<T: FromStr<Err: fmt::Display>>(&self, path: &str) -> Option<T> {
        self.value(path, |text| text.parse().map_err(|error: T::Err| error.to_string()))
    }

    /// A value of a setting that has one where nobody sets it; read as by [`Settings::get`].
    ///
    /// # Panics
    /// If there is none.
    pub fn require<T: FromStr<Err: fmt::Display>>(&self, path: &str) -> T {
        self.get(path).unwrap_or_else(|| panic!("{path} has no default"))
    }

    /// A time.
    pub fn time(&self, path: &str) -> Option<Duration> {
        self.value(path, parse_time)
    }

    /// A number of bytes.
    pub fn bytes(&self, path: &str) -> Option<u64> {
        self.value(path, parse_bytes)
    }

    /// How something is compressed.
    pub fn packing(&self, path: &str) -> Option<Packing> {
        self.value(path, parse_compression)
    }

    /// The name of a file or directory.
    pub fn path(&self, path: &str) -> Option<PathBuf> {
        self.text(path).map(PathBuf::from)
    }

    /// Where a master key comes from, if there is one.
    pub fn master_key(&self, of: KeyOf) -> Option<MasterKey> {
        let [file, variable, command] = of.sources().map(|source| self.text(source));
        let file = file.map(|path| MasterKey::File(path.into()));
        let variable = || variable.map(|name| MasterKey::Environment(name.to_owned()));
        let command = || command.map(|command| MasterKey::Command(command.to_owned()));
        file.or_else(variable).or_else(command)
    }

    /// Credentials of the file that count, by the names of the variables that they stand for.
    pub fn credentials(&self) -> BTreeMap<String, String> {
        self.credentials.iter().map(|(name, credential)| (name.clone(), credential.value.clone())).collect()
    }

    /// Whether there is a master key or a credential of the file: whatever has them in its memory leaves no core file.
    pub fn has_secrets(&self) -> bool {
        !self.credentials.is_empty()
            || [KeyOf::Repositories, KeyOf::Databases].into_iter().any(|of| self.master_key(of).is_some())
    }

    /// All settings there are, and the credentials that are set, without what is secret.
    pub fn listing(&self) -> Vec<Listed> {
        let settings = KNOWN.iter().map(|known| {
            let is_hidden = known.kind == Kind::HiddenText;
            let values = match (self.texts(known.path), known.unset) {
                ([], Unset::Value(value)) => vec![value.to_owned()],
                (texts, _) => texts.to_vec(),
            };
            let unset = match known.unset {
                Unset::Means(words) if values.is_empty() => Some(words),
                Unset::Means(_) | Unset::Value(_) => None,
            };
            Listed {
                name: known.path.to_owned(),
                is_hidden: is_hidden && !values.is_empty(),
                values: if is_hidden { Vec::new() } else { values },
                unset,
                origin: self.origin(known.path).clone(),
            }
        });
        let hidden = |name: &str, origin: Origin| Listed {
            name: format!("{}.{name}", crate::known::CREDENTIALS),
            values: Vec::new(),
            unset: None,
            is_hidden: true,
            origin,
        };
        let of_file =
            self.credentials.iter().map(|(name, credential)| hidden(name, credential.origin.clone()));
        let of_environment = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            (is_store_variable(&name) && !value.is_empty())
                .then(|| hidden(&name, Origin::Environment(name.clone())))
        });
        settings.chain(of_file).chain(of_environment).collect()
    }
}

/// A variable's text. One that is empty says nothing.
fn environment_text(
    name: &str,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Option<String>, SettingsError> {
    let Some(value) = variable(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let text = value.into_string();
    text.map(Some).map_err(|_| SettingsError::refused(name, "its value is not UTF-8"))
}

fn from_environment(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Level, SettingsError> {
    let mut level = Level::new();
    for known in KNOWN {
        let name = known.variable();
        let Some(text) = environment_text(&name, variable)? else { continue };
        // Settings of PostgreSQL and rules of access have spaces in them; places of repositories stand side by side.
        let texts: Vec<String> = match known.kind {
            Kind::Repositories => text.split_whitespace().map(str::to_owned).collect(),
            Kind::Texts => {
                text.split(';').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
            }
            _ => vec![text],
        };
        if !texts.is_empty() {
            level.insert(known.path, Setting { texts, origin: Origin::Environment(name) });
        }
    }
    Ok(level)
}

fn from_options(options: Vec<(&'static str, String)>) -> Result<Level, SettingsError> {
    let mut level = Level::new();
    for (path, text) in options {
        let known = known(path);
        let origin = Origin::Option(known.option());
        let setting = level.entry(known.path).or_insert_with(|| Setting { texts: Vec::new(), origin });
        setting.texts.push(text);
        if setting.texts.len() > 1 && !known.is_list() {
            return Err(SettingsError::refused(&setting.origin, "it is given twice, and has one value"));
        }
    }
    Ok(level)
}

fn check_level(level: &Level, names: Names) -> Result<(), SettingsError> {
    for (path, Setting { texts, origin }) in level {
        let known = known(path);
        for text in texts {
            let refuse = |problem: &str| SettingsError::refused(origin, shown(known, text, problem));
            known.check(text).map_err(|problem| refuse(&problem))?;
            if names == Names::Full && !known.is_full_name(text) {
                return Err(refuse("expected a full name, which begins with a slash"));
            }
        }
    }
    for key in [KeyOf::Repositories, KeyOf::Databases] {
        let mut named = key.sources().into_iter().filter_map(|source| level.get(source));
        if let (Some(first), Some(second)) = (named.next(), named.next()) {
            let problem = format!("a master key has one source, and {} names one, too", first.origin);
            return Err(SettingsError::refused(&second.origin, problem));
        }
    }
    Ok(())
}

/// As the file has it.
fn value_of(known: &Known, setting: &Setting) -> toml::Value {
    match (&setting.texts[..], known.kind) {
        ([text], Kind::Number(..)) => {
            let number = text.parse().expect("each value was checked when it was read");
            toml::Value::Integer(number)
        }
        ([text], _) => text.clone().into(),
        (texts, _) => texts.to_vec().into(),
    }
}

#[cfg(test)]
mod tests;
