//! Where a repository is: a URL, with what the store needs to know behind a question mark.
//!
//! ```text
//!   /var/lib/archive                             a directory of this machine, also as file:///var/lib/archive
//!   s3://bucket/prefix?endpoint=https://store:9000&region=eu-1&path_style=true
//!   gs://bucket/prefix
//!   az://container/prefix?account=name
//!   sftp://user@host:port/directory?identity_file=/home/me/.ssh/id
//! ```
//! | option       | for   | meaning                                                                            |
//! |--------------|-------|------------------------------------------------------------------------------------|
//! | endpoint     | s3, gs, az | address of the store, if it is not the provider's own; `http://` is allowed. Default of s3: `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` |
//! | region       | s3    | default: `AWS_REGION`, else us-east-1                                               |
//! | path_style   | s3    | `true`: bucket in the path; `false`: in the host name. Default: true with an endpoint |
//! | account      | az    | storage account; default: `AZURE_STORAGE_ACCOUNT_NAME`                              |
//! | emulator     | az    | `true`: Azurite with its well-known account                                         |
//! | anonymous    | s3, gs, az | `true`: requests are not signed; with gs reading ones only                     |
//! | ca_file      | s3, gs, az | certificates (PEM) to trust besides those of the system                        |
//! | timeout      | s3, gs, az, sftp | seconds for an answer; a put may take one more for each MiB; default 60   |
//! | identity_file | sftp | private key; default: what `ssh` finds, an agent's too                             |
//! | known_hosts  | sftp  | keys of hosts; default: the user's and the system's                                 |
//! | connections  | sftp  | connections at once, 1 to 64; default 4                                             |
//! | unsynced     | sftp  | `true`: a server is taken that cannot make files or names durable                   |
//!
//! Credentials never stand in the URL: they come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
//! `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_KEY` and the others that the providers' own tools know), from
//! the machine's identity at the provider, or from the program ([`crate::RepositoryOptions::credentials`]).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use url::Url;

/// Default of `timeout`.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Default of `connections`.
const CONNECTIONS: usize = 4;
const SSH_PORT: u16 = 22;

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryUrl {
    text: String,
    pub(crate) place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Directory(PathBuf),
    Bucket(Bucket),
    Sftp(SftpPlace),
}

/// A directory of another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SftpPlace {
    pub(crate) user: Option<String>,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    /// Full name of the directory, without a slash at its end.
    pub(crate) path: String,
    pub(crate) identity_file: Option<PathBuf>,
    pub(crate) known_hosts: Option<PathBuf>,
    pub(crate) connections: usize,
    /// A server that cannot make durable what is put is taken.
    pub(crate) is_unsynced: bool,
    pub(crate) timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    S3,
    Google,
    Azure,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) provider: Provider,
    pub(crate) name: String,
    pub(crate) prefix: String,
    pub(crate) endpoint: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) path_style: Option<bool>,
    pub(crate) account: Option<String>,
    pub(crate) is_emulator: bool,
    pub(crate) is_anonymous: bool,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) timeout: Duration,
}

/// The text is not a valid repository URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid repository URL: {problem}")]
pub struct RepositoryUrlError {
    /// What was given.
    pub text: String,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

impl RepositoryUrl {
    /// Whether it is a directory of this machine, not a store that is asked over a network.
    pub fn is_directory(&self) -> bool {
        matches!(self.place, Place::Directory(_))
    }

    /// Without its options.
    pub fn location(&self) -> String {
        self.text.split('?').next().unwrap_or_default().trim_end_matches('/').to_owned()
    }

    /// Everything that distinguishes this place from others: scheme, bucket, prefix, endpoint, account. However a URL is written,
    /// and whatever its other options are, one place has one address.
    pub fn address(&self) -> String {
        match &self.place {
            Place::Directory(path) => path.components().collect::<PathBuf>().display().to_string(),
            Place::Bucket(bucket) => bucket.address(),
            Place::Sftp(place) => place.address(),
        }
    }
}

impl Bucket {
    fn address(&self) -> String {
        let scheme = match self.provider {
            Provider::S3 => "s3",
            Provider::Google => "gs",
            Provider::Azure => "az",
        };
        let mut address = format!("{scheme}://{}/{}", self.name, self.prefix);
        let emulator = self.is_emulator.then_some("true");
        let endpoint = self.endpoint.as_deref().map(|endpoint| endpoint.trim_end_matches('/'));
        for (name, value) in
            [("endpoint", endpoint), ("account", self.account.as_deref()), ("emulator", emulator)]
        {
            address.extend(value.map(|value| format!("?{name}={value}")));
        }
        address
    }
}

impl SftpPlace {
    fn address(&self) -> String {
        let user = self.user.as_ref().map_or(String::new(), |user| format!("{user}@"));
        let port =
            self.port.filter(|port| *port != SSH_PORT).map_or(String::new(), |port| format!(":{port}"));
        format!("sftp://{user}{}{port}{}", self.host.to_ascii_lowercase(), self.path)
    }
}

impl fmt::Display for RepositoryUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl FromStr for RepositoryUrl {
    type Err = RepositoryUrlError;

    fn from_str(text: &str) -> Result<RepositoryUrl, RepositoryUrlError> {
        let place =
            parse(text).map_err(|problem| RepositoryUrlError { text: without_secrets(text), problem })?;
        Ok(RepositoryUrl { text: text.to_owned(), place })
    }
}

/// Somebody may have put credentials in, as other tools want them, before the host or among the options: they are not shown.
fn without_secrets(text: &str) -> String {
    let (place, options) = text.split_once('?').map_or((text, ""), |(place, _)| (place, "?..."));
    match (place.find("://"), place.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}://...{}{options}", &place[..scheme], &place[at..])
        }
        _ => format!("{place}{options}"),
    }
}

fn parse(text: &str) -> Result<Place, String> {
    if text.starts_with('/') {
        return Ok(Place::Directory(PathBuf::from(text)));
    }
    const EXPECTED: &str = "expected file:///directory, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or sftp://user@host/directory";
    let url = Url::parse(text).map_err(|error| format!("{error}; {EXPECTED}"))?;
    if url.scheme() == "sftp" {
        return sftp(&url).map(Place::Sftp);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("credentials do not belong there: give them in the environment".to_owned());
    }
    if url.port().is_some() {
        return Err("a port belongs to an endpoint: ?endpoint=https://host:port".to_owned());
    }
    let provider = match url.scheme() {
        "file" => {
            if url.query().is_some() {
                return Err("a directory has no options".to_owned());
            }
            let path = url.to_file_path().map_err(|()| "three slashes: file:///directory".to_owned())?;
            return Ok(Place::Directory(path));
        }
        "s3" => Provider::S3,
        "gs" => Provider::Google,
        "az" => Provider::Azure,
        other => return Err(format!("{other}:// is not known; {EXPECTED}")),
    };
    bucket(provider, &url).map(Place::Bucket)
}

fn bucket(provider: Provider, url: &Url) -> Result<Bucket, String> {
    let name = url.host_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| "the name of the bucket is missing".to_owned())?.to_owned();
    let prefix = url.path().trim_matches('/').to_owned();
    if !prefix.is_empty() && !prefix.split('/').all(is_plain) {
        return Err("the prefix may have letters, digits and -_.=+ only, no part empty or with a dot first"
            .to_owned());
    }
    let mut options = options_of(url)?;
    let mut bucket = Bucket {
        provider,
        name,
        prefix,
        endpoint: options.remove("endpoint"),
        region: None,
        path_style: None,
        account: None,
        is_emulator: false,
        is_anonymous: flag(&mut options, "anonymous")?.unwrap_or(false),
        ca_file: options.remove("ca_file").map(PathBuf::from),
        timeout: timeout(options.remove("timeout"))?,
    };
    match provider {
        Provider::S3 => {
            bucket.region = options.remove("region");
            bucket.path_style = flag(&mut options, "path_style")?;
        }
        Provider::Google => {}
        Provider::Azure => {
            bucket.account = options.remove("account");
            bucket.is_emulator = flag(&mut options, "emulator")?.unwrap_or(false);
        }
    }
    refuse_unknown(url, &options)?;
    if let Some(endpoint) = &bucket.endpoint {
        check_endpoint(endpoint)?;
    }
    Ok(bucket)
}

/// Whether a part of a path is taken as it is by stores, servers and programs.
fn is_plain(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('.')
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.=+".contains(&byte))
}

fn options_of(url: &Url) -> Result<BTreeMap<String, String>, String> {
    let mut options = BTreeMap::new();
    for (key, value) in url.query_pairs() {
        if options.insert(key.to_string(), value.to_string()).is_some() {
            return Err(format!("option {key} is given twice"));
        }
    }
    Ok(options)
}

fn refuse_unknown(url: &Url, options: &BTreeMap<String, String>) -> Result<(), String> {
    match options.keys().next() {
        Some(unknown) => Err(format!("{}:// has no option {unknown}", url.scheme())),
        None => Ok(()),
    }
}

fn sftp(url: &Url) -> Result<SftpPlace, String> {
    if url.password().is_some() {
        return Err("a password does not belong there, and none is used: give the public key of this user to the server".to_owned());
    }
    // What begins with a hyphen would be an option of the program.
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with('-')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+".contains(&byte))
    };
    let user = Some(url.username()).filter(|user| !user.is_empty());
    if user.is_some_and(|user| !is_name(user)) {
        return Err("the name of the user may have letters, digits and -_.+ only".to_owned());
    }
    let host = url.host_str().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if !is_name(host) {
        return Err("the name of the host is missing, or has other than letters, digits and -_.".to_owned());
    }
    let path = url.path().trim_end_matches('/');
    // A directory of a user may be hidden; those of a repository below it never are.
    let is_directory = |part: &str| is_plain(part.trim_start_matches('.'));
    if path.is_empty() || !path.trim_start_matches('/').split('/').all(is_directory) {
        return Err("expected the full name of a directory: sftp://user@host/srv/archive, of letters, digits and -_.=+ only, no part \
                    empty"
            .to_owned());
    }
    let mut options = options_of(url)?;
    let path_of = |value: Option<String>, name: &str| match value {
        Some(value) if !value.starts_with('/') || value.contains(['"', '\n']) => {
            Err(format!("{name}: expected the full name of a file"))
        }
        value => Ok(value.map(PathBuf::from)),
    };
    let place = SftpPlace {
        user: user.map(str::to_owned),
        host: host.to_owned(),
        port: url.port(),
        path: path.to_owned(),
        identity_file: path_of(options.remove("identity_file"), "identity_file")?,
        known_hosts: path_of(options.remove("known_hosts"), "known_hosts")?,
        connections: connections(options.remove("connections"))?,
        is_unsynced: flag(&mut options, "unsynced")?.unwrap_or(false),
        timeout: timeout(options.remove("timeout"))?,
    };
    refuse_unknown(url, &options)?;
    Ok(place)
}

fn connections(value: Option<String>) -> Result<usize, String> {
    let Some(value) = value else { return Ok(CONNECTIONS) };
    value
        .parse()
        .ok()
        .filter(|number| (1..=64).contains(number))
        .ok_or_else(|| format!("connections={value}: expected a number, 1 to 64"))
}

pub(crate) fn check_endpoint(endpoint: &str) -> Result<(), String> {
    // It is not shown where it may have credentials.
    let shown = if endpoint.contains('@') { "" } else { endpoint };
    let parsed = Url::parse(endpoint).map_err(|error| format!("endpoint {shown}: {error}"))?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err("credentials do not belong into an endpoint: give them in the environment".to_owned());
    }
    match parsed.scheme() {
        "http" | "https" => Ok(()),
        _ => Err(format!("endpoint {shown}: expected http:// or https://")),
    }
}

fn flag(options: &mut BTreeMap<String, String>, name: &str) -> Result<Option<bool>, String> {
    match options.remove(name).as_deref() {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => Err(format!("{name}={other}: expected true or false")),
    }
}

fn timeout(value: Option<String>) -> Result<Duration, String> {
    let Some(value) = value else { return Ok(TIMEOUT) };
    match value.parse::<u32>() {
        Ok(seconds) if (1..=3600).contains(&seconds) => Ok(Duration::from_secs(u64::from(seconds))),
        _ => Err(format!("timeout={value}: expected seconds, 1 to 3600")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket_of(text: &str) -> Bucket {
        match text.parse::<RepositoryUrl>().unwrap().place {
            Place::Bucket(bucket) => bucket,
            place => panic!("{text} is {place:?}"),
        }
    }

    #[test]
    fn directories_of_other_machines_are_read() {
        let text = "sftp://me@Host.example:2222/srv/archive/?identity_file=/home/me/key&known_hosts=/etc/known&connections=8&timeout=5";
        let url: RepositoryUrl = text.parse().unwrap();
        let Place::Sftp(place) = &url.place else { panic!("{url:?}") };
        assert_eq!((place.user.as_deref(), place.port), (Some("me"), Some(2222)));
        assert_eq!((place.host.as_str(), place.path.as_str()), ("Host.example", "/srv/archive"));
        assert_eq!(place.identity_file.as_deref(), Some(std::path::Path::new("/home/me/key")));
        assert_eq!((place.connections, place.is_unsynced), (8, false));
        assert_eq!(place.timeout, Duration::from_secs(5));
        assert_eq!(url.address(), "sftp://me@host.example:2222/srv/archive");
        assert_eq!(url.location(), "sftp://me@Host.example:2222/srv/archive");
        let address = |text: &str| text.parse::<RepositoryUrl>().unwrap().address();
        assert_eq!(address("sftp://h:22/a"), address("sftp://H/a/?unsynced=true"));
        assert_ne!(address("sftp://h/a"), address("sftp://me@h/a"));
        assert!(!url.is_directory());
    }

    #[test]
    fn places_are_read() {
        for text in ["/var/archive", "file:///var/archive"] {
            let url: RepositoryUrl = text.parse().unwrap();
            assert_eq!(url.place, Place::Directory("/var/archive".into()));
        }
        let text = "s3://wal/db/one?endpoint=http://127.0.0.1:9000&region=eu-1&path_style=true&timeout=5";
        let bucket = bucket_of(text);
        assert_eq!((bucket.name.as_str(), bucket.prefix.as_str()), ("wal", "db/one"));
        assert_eq!(bucket.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!((bucket.region.as_deref(), bucket.path_style), (Some("eu-1"), Some(true)));
        assert_eq!(bucket.timeout, Duration::from_secs(5));
        assert_eq!(text.parse::<RepositoryUrl>().unwrap().location(), "s3://wal/db/one");
        assert_eq!(bucket_of("gs://wal").prefix, "");
        assert_eq!(bucket_of("az://wal/x/?account=me").account.as_deref(), Some("me"));
    }

    #[test]
    fn one_place_has_one_address() {
        let address = |text: &str| text.parse::<RepositoryUrl>().unwrap().address();
        for (one, other) in [
            ("/srv/a/", "file:///srv/a"),
            ("s3://b/p?region=x&endpoint=http://one:9000/", "s3://b/p/?endpoint=http://one:9000&timeout=5"),
            ("az://b?account=me", "az://b?account=me&anonymous=true"),
        ] {
            assert_eq!(address(one), address(other));
        }
        for (one, other) in [
            ("s3://b/p?endpoint=http://one:9000", "s3://b/p?endpoint=http://two:9000"),
            ("s3://b/p?endpoint=http://one:9000", "s3://b/p"),
            ("az://b/p?account=me", "az://b/p?account=you"),
            ("az://b/p?emulator=true", "az://b/p"),
            ("gs://b/p", "s3://b/p"),
            ("s3://b/p", "s3://b/q"),
        ] {
            assert_ne!(address(one), address(other), "{one}, {other}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_is_wrong() {
        for (text, problem) in [
            ("", "relative URL"),
            ("var/archive", "relative URL"),
            ("ftp://host/dir", "not known"),
            ("file://host/dir", "three slashes"),
            ("file:///dir?region=x", "no options"),
            ("s3:///prefix", "name of the bucket"),
            ("s3://bucket:9000/prefix", "endpoint"),
            ("s3://key:secret@bucket", "environment"),
            ("s3://key:sec@ret@bucket?x", "environment"),
            ("s3://bucket/x?secret=hunter2", "no option secret"),
            ("s3://bucket/x?timeout=0&access_key=hunter2", "seconds"),
            ("s3://bucket?endpoint=https://key:hunter2@store", "environment"),
            ("s3://bucket?endpoint=https://key:hunter2@sto re", "endpoint"),
            ("s3://bucket/a//b", "prefix"),
            ("s3://bucket/a/.hidden", "prefix"),
            ("s3://bucket?regoin=x", "no option regoin"),
            ("s3://bucket?region=x&region=y", "twice"),
            ("s3://bucket?path_style=yes", "true or false"),
            ("s3://bucket?endpoint=store:9000", "http"),
            ("s3://bucket?timeout=0", "seconds"),
            ("gs://bucket?region=x", "no option region"),
            ("sftp://me:hunter2@host/dir", "a password does not belong there"),
            ("sftp://-oProxyCommand=hunter2@host/dir", "name of the user"),
            ("sftp://-oProxyCommand/dir", "name of the host"),
            ("sftp:///dir", "name of the host"),
            ("sftp://host", "full name of a directory"),
            ("sftp://host/a b", "full name of a directory"),
            ("sftp://host/a/../b?x=hunter2", "no option x"),
            ("sftp://host/a//b", "full name of a directory"),
            ("sftp://host/a?identity_file=key", "full name of a file"),
            ("sftp://host/a?connections=0", "1 to 64"),
            ("sftp://host/a?region=x", "no option region"),
        ] {
            let error = text.parse::<RepositoryUrl>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
            for secret in ["secret@", "sec@", "hunter2", "=x"] {
                assert!(!error.contains(secret), "{text}: {error}");
            }
        }
    }
}
