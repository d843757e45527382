//! The settings file: TOML, of which each value is known with its line.
//!
//! ```toml
//! repository = "s3://wal/main"              # at the top: what all commands share
//! master_key_file = "/etc/seawall/key"
//!
//! [archive]                                 # a section for each kind of work
//! queue_max = "64GiB"
//!
//! [credentials]                             # as the variables of the stores are called
//! AWS_ACCESS_KEY_ID = "..."
//! ```
//!
//! It is opened once, and what is looked at is what was opened: a link may lead to it, but what it leads to must be a regular file
//! that not everybody may write to. A pipe would keep each command waiting for somebody at its other end.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use seawall_archive::is_store_variable;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::error::SettingsError;
use crate::known::{CREDENTIALS, Known, find, sections};
use crate::setting::{Origin, Setting};

/// Where the file is, if none is named.
pub(crate) const DIRECTORY: &str = "/etc/seawall";
const NAME: &str = "seawall.toml";
/// What earlier builds read, for archiving only.
const OLD_NAME: &str = "archive.conf";
/// Named in its place, it sets nothing.
const NOTHING: &str = "/dev/null";
/// It is a few lines.
const BYTES_MAX: u64 = 1 << 20;
/// The file may be its group's.
const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;

/// A credential: shown nowhere.
#[derive(Clone)]
pub(crate) struct Credential {
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("hidden")
    }
}

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) settings: BTreeMap<&'static str, Setting>,
    pub(crate) credentials: BTreeMap<String, Credential>,
    /// Everybody may read it.
    pub(crate) is_open: bool,
}

/// The file that counts where none is named.
pub(crate) fn default_path() -> PathBuf {
    Path::new(DIRECTORY).join(NAME)
}

/// The same, if it is there.
pub(crate) fn default_file(directory: &Path) -> Result<Option<PathBuf>, SettingsError> {
    let (file, old) = (directory.join(NAME), directory.join(OLD_NAME));
    let is_missing = |path: &Path| match std::fs::symlink_metadata(path) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(_) => false,
    };
    match (is_missing(&file), is_missing(&old)) {
        (false, _) => Ok(Some(file)),
        (true, true) => Ok(None),
        // Whoever wrote it wants something to be archived somewhere.
        (true, false) => Err(SettingsError::refused(
            old.display(),
            format!(
                "this file is not read any more: write what it says into {}, as TOML, and remove it",
                file.display()
            ),
        )),
    }
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Content, SettingsError> {
    if path == Path::new(NOTHING) {
        return Ok(Content::default());
    }
    let unreadable = |source| SettingsError::Unreadable { path: path.display().to_string(), source };
    let refused = |problem: &str| SettingsError::refused(path.display(), problem);
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(refused("the settings are read from a regular file, and this is none"));
    }
    if metadata.mode() & OTHERS_WRITE != 0 {
        return Err(refused(
            "everybody may change these settings, so they are not believed: `chmod o-w` takes that right away",
        ));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(refused("settings are a few lines, and this file is longer than 1 MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = line_at(error.as_bytes(), good);
        SettingsError::refused(Origin::file(path, line), "this line is not UTF-8")
    })?;
    let mut content = parse(&text, path)?;
    content.is_open = metadata.mode() & OTHERS_READ != 0;
    Ok(content)
}

/// Reads the text of a file; `path` is for messages.
pub(crate) fn parse(text: &str, path: &Path) -> Result<Content, SettingsError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Its own message shows the line, which may have a credential in it.
    let document = DeTable::parse(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        let problem = format!("{}; a line is `name = \"text\"`, `name = 7` or `[section]`", error.message());
        SettingsError::refused(Origin::file(path, line_at(text.as_bytes(), place)), problem)
    })?;
    let mut reader = Reader { text, path, content: Content::default() };
    for (name, value) in document.get_ref() {
        match value.get_ref() {
            DeValue::Table(section) if name.get_ref() == CREDENTIALS => reader.credentials(section)?,
            DeValue::Table(section) => reader.section(name, section)?,
            _ => reader.setting("", name, value)?,
        }
    }
    Ok(reader.content)
}

/// The line with the byte at `index`; the first one is 1.
fn line_at(text: &[u8], index: usize) -> usize {
    1 + text[..index.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

type Name<'i> = Spanned<std::borrow::Cow<'i, str>>;

struct Reader<'i> {
    text: &'i str,
    path: &'i Path,
    content: Content,
}

impl Reader<'_> {
    fn origin<T>(&self, part: &Spanned<T>) -> Origin {
        Origin::file(self.path, line_at(self.text.as_bytes(), part.span().start))
    }

    fn section(&mut self, name: &Name<'_>, section: &DeTable<'_>) -> Result<(), SettingsError> {
        if !sections().any(|known| known == name.get_ref()) {
            let problem = unknown(name.get_ref(), "section", sections());
            return Err(SettingsError::refused(self.origin(name), problem));
        }
        section.iter().try_for_each(|(setting, value)| self.setting(name.get_ref(), setting, value))
    }

    fn setting(
        &mut self,
        section: &str,
        name: &Name<'_>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), SettingsError> {
        let origin = self.origin(name);
        let known = find(section, name.get_ref())
            .ok_or_else(|| SettingsError::refused(&origin, not_known(section, name.get_ref())))?;
        let refuse = |problem: String| SettingsError::refused(&origin, format!("{}: {problem}", known.path));
        let texts = texts_of(known, value.get_ref()).map_err(refuse)?;
        for text in &texts {
            known.check(text).map_err(|problem| refuse(shown(known, text, &problem)))?;
            if !known.is_full_name(text) {
                return Err(refuse(shown(known, text, "expected a full name, which begins with a slash")));
            }
        }
        self.content.settings.insert(known.path, Setting { texts, origin });
        Ok(())
    }

    fn credentials(&mut self, section: &DeTable<'_>) -> Result<(), SettingsError> {
        for (name, value) in section {
            let origin = self.origin(name);
            let refuse = |problem: &str| {
                SettingsError::refused(&origin, format!("{:?} in [{CREDENTIALS}]: {problem}", name.get_ref()))
            };
            let is_plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
            if !name.get_ref().bytes().all(is_plain) || !is_store_variable(name.get_ref()) {
                return Err(refuse("no store reads a variable of this name; one is AWS_SECRET_ACCESS_KEY"));
            }
            let value = match value.get_ref() {
                DeValue::String(value) if !value.is_empty() => value.to_string(),
                DeValue::Integer(value) => value.as_str().to_owned(),
                DeValue::Boolean(value) => value.to_string(),
                _ => return Err(refuse("expected text in quotes")),
            };
            self.content.credentials.insert(name.get_ref().to_string(), Credential { value, origin });
        }
        Ok(())
    }
}

/// The texts of a value, if it is written as such a setting is.
fn texts_of(known: &Known, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::Integer(number) if known.is_number() => Ok(vec![plain(number)]),
        DeValue::String(text) if !known.is_number() => Ok(vec![text.to_string()]),
        DeValue::Array(values) if known.is_list() && !values.is_empty() => {
            let text = |value: &Spanned<DeValue<'_>>| value.get_ref().as_str().map(str::to_owned);
            values
                .iter()
                .map(text)
                .collect::<Option<_>>()
                .ok_or_else(|| "expected a list of texts in quotes".to_owned())
        }
        _ if known.is_number() => Err("expected a number without quotes".to_owned()),
        _ if known.is_list() => Err("expected text in quotes, or a list of such".to_owned()),
        _ => Err("expected text in quotes".to_owned()),
    }
}

/// A number in decimal digits; what is too large stays as it is, and is refused as a value.
fn plain(number: &DeInteger<'_>) -> String {
    u64::from_str_radix(number.as_str(), number.radix())
        .map_or_else(|_| number.as_str().to_owned(), |value| value.to_string())
}

/// What is wrong with a value, which is named unless it may be secret.
pub(crate) fn shown(known: &Known, text: &str, problem: &str) -> String {
    match known.kind {
        crate::known::Kind::HiddenText => problem.to_owned(),
        _ => format!("{text:?}: {problem}"),
    }
}

fn not_known(section: &str, name: &str) -> String {
    let elsewhere: Vec<String> = crate::known::KNOWN
        .iter()
        .filter(|known| known.name() == name)
        .map(|known| match known.section() {
            "" => "at the top of the file".to_owned(),
            section => format!("in [{section}]"),
        })
        .collect();
    let here = if section.is_empty() { "at the top".to_owned() } else { format!("in [{section}]") };
    if !elsewhere.is_empty() {
        return format!("{name:?} is not a setting {here}: it stands {}", elsewhere.join(" or "));
    }
    let names = crate::known::KNOWN.iter().filter(|known| known.section() == section).map(Known::name);
    unknown(name, &format!("setting {here}"), names)
}

/// With the nearest name that there is, or all of them.
pub(crate) fn unknown(name: &str, what: &str, known: impl Iterator<Item = &'static str>) -> String {
    const NEAR: f64 = 0.6;
    let known: Vec<&str> = known.collect();
    let distance = |known: &&str| strsim::normalized_damerau_levenshtein(known, name);
    let nearest = known.iter().copied().max_by(|one, other| distance(one).total_cmp(&distance(other)));
    match nearest.filter(|nearest| distance(nearest) >= NEAR) {
        Some(nearest) => format!("{name:?} is not a {what}; did you mean {nearest}?"),
        None => format!("{name:?} is not a {what}; there are {}", known.join(", ")),
    }
}
