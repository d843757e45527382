//! Where a repository is: a URL, with what the store needs to know behind a question mark.
//!
//! ```text
//!   /var/lib/archive                             a directory of this machine, also as file:///var/lib/archive
//!   s3://bucket/prefix?endpoint=https://store:9000&region=eu-1&path_style=true
//!   gs://bucket/prefix
//!   az://container/prefix?account=name
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
//! | timeout      | s3, gs, az | seconds for an answer; a put may take one more for each MiB; default 60        |
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
    const EXPECTED: &str =
        "expected file:///directory, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix";
    let url = Url::parse(text).map_err(|error| format!("{error}; {EXPECTED}"))?;
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
    let is_plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.=+".contains(&byte))
    };
    if !prefix.is_empty() && !prefix.split('/').all(is_plain) {
        return Err("the prefix may have letters, digits and -_.=+ only, no part empty or with a dot first"
            .to_owned());
    }
    let mut options = BTreeMap::new();
    for (key, value) in url.query_pairs() {
        if options.insert(key.to_string(), value.to_string()).is_some() {
            return Err(format!("option {key} is given twice"));
        }
    }
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
    if let Some(unknown) = options.keys().next() {
        return Err(format!("{}:// has no option {unknown}", url.scheme()));
    }
    if let Some(endpoint) = &bucket.endpoint {
        check_endpoint(endpoint)?;
    }
    Ok(bucket)
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
            Place::Directory(path) => panic!("{text} is the directory {}", path.display()),
        }
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
        ] {
            let error = text.parse::<RepositoryUrl>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
            for secret in ["secret@", "sec@", "hunter2", "=x"] {
                assert!(!error.contains(secret), "{text}: {error}");
            }
        }
    }
}
