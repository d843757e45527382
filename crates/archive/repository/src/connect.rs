//! From the place of a repository to its store.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{Certificate, ClientOptions, ObjectStore, RetryConfig};
use seawall_io::OsDisk;

use crate::error::ArchiveError;
use crate::options::RepositoryOptions;
use crate::store::ObjectStorage;
use crate::store::file::FileStorage;
use crate::store::remote::RemoteStorage;
use crate::store::sftp::SftpStorage;
use crate::url::{Bucket, Place, Provider, RepositoryUrl, check_endpoint};

/// To make a connection takes one round trip or two, with TLS: more means that nobody is there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Stores close idle connections after some 20 seconds or more: those that are older are not used again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// The store at `url`. Nothing is asked of it yet.
pub(crate) fn connect(
    url: &RepositoryUrl,
    options: &RepositoryOptions,
) -> Result<Arc<dyn ObjectStorage>, ArchiveError> {
    let credentials = &options.credentials;
    let refuse = |problem: String| ArchiveError::Settings { url: url.location(), problem };
    let bucket = match &url.place {
        Place::Directory(directory) => {
            let disk = Arc::new(OsDisk::new(directory));
            return Ok(Arc::new(FileStorage::new(
                disk,
                Arc::clone(&options.random),
                Arc::clone(&options.clock),
            )));
        }
        Place::Sftp(place) => {
            let (random, clock) = (Arc::clone(&options.random), Arc::clone(&options.clock));
            let storage = SftpStorage::new(place.clone(), url.location(), random, clock);
            let storage =
                storage.map_err(|error| refuse(format!("cannot start a thread for requests: {error}")))?;
            return Ok(Arc::new(storage));
        }
        Place::Bucket(bucket) => bucket,
    };
    install_cryptography();
    let client = client_options(bucket).map_err(refuse)?;
    if bucket.provider == Provider::S3
        && bucket.endpoint.is_none()
        && let Some(endpoint) = named_elsewhere(credentials, &AmazonS3Builder::from_env())
    {
        check_endpoint(&endpoint).map_err(refuse)?;
    }
    let store = |removals| match bucket.provider {
        Provider::S3 => s3(bucket, credentials, client.clone(), removals),
        Provider::Google => google(bucket, credentials, client.clone()),
        Provider::Azure => azure(bucket, credentials, client.clone()),
    };
    let many = store(Removals::Many).map_err(|error| refuse(error.to_string()))?;
    let singly = store(Removals::Singly).map_err(|error| refuse(error.to_string()))?;
    let storage = RemoteStorage::new(many, singly, bucket.prefix.clone(), url.location(), bucket.timeout)
        .map_err(|error| refuse(format!("cannot start threads for requests: {error}")))?;
    Ok(Arc::new(storage))
}

/// How objects of S3 are removed. Some stores cannot remove several with one request, and then not one with it either.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Removals {
    Many,
    Singly,
}

/// TLS has to be told once a process which library does its cryptography. If somebody has chosen another, that is fine.
fn install_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none()
        && rustls::crypto::ring::default_provider().install_default().is_err()
    {
        tracing::debug!("another thread has just chosen the cryptography of TLS");
    }
}

fn client_options(bucket: &Bucket) -> Result<ClientOptions, String> {
    let is_plain = bucket.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    let mut options = ClientOptions::new()
        .with_allow_http(is_plain || bucket.is_emulator)
        // One limit for all requests would be too short for large objects: each has its own, where it is waited for.
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_pool_idle_timeout(IDLE_TIMEOUT);
    if let Some(path) = &bucket.ca_file {
        let refuse = |problem: String| format!("ca_file {}: {problem}", path.display());
        let text = std::fs::read(path).map_err(|error| refuse(error.to_string()))?;
        let certificates = Certificate::from_pem_bundle(&text).map_err(|error| refuse(error.to_string()))?;
        if certificates.is_empty() {
            return Err(refuse("there is no certificate in it".to_owned()));
        }
        for certificate in certificates {
            options = options.with_root_certificate(certificate);
        }
    }
    Ok(options)
}

/// None here: the repository tries again itself.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() }
}

/// Those of the credentials that this provider knows; one file may have those of several.
fn known<K: FromStr>(credentials: &BTreeMap<String, String>) -> Vec<(K, &String)> {
    let key = |name: &String| name.to_ascii_lowercase().parse().ok();
    credentials.iter().filter_map(|(name, value)| Some((key(name)?, value))).collect()
}

/// Whether a store reads the environment variable with this name: a credential, or where to get one. Of the many names that begin
/// like these, the providers' own tools read others, which count for nothing here.
pub fn is_store_variable(name: &str) -> bool {
    fn is_key<K: FromStr>(name: &str) -> bool {
        name.to_ascii_lowercase().parse::<K>().is_ok()
    }
    match name.split_once('_') {
        Some(("AWS", _)) => is_key::<AmazonS3ConfigKey>(name),
        Some(("GOOGLE", _)) => is_key::<GoogleConfigKey>(name),
        Some(("AZURE", _)) => is_key::<AzureConfigKey>(name),
        _ => false,
    }
}

fn s3(
    bucket: &Bucket,
    credentials: &BTreeMap<String, String>,
    client: ClientOptions,
    removals: Removals,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut builder = AmazonS3Builder::from_env();
    let endpoint = bucket.endpoint.clone().or_else(|| named_elsewhere(credentials, &builder));
    for (key, value) in known::<AmazonS3ConfigKey>(credentials) {
        builder = builder.with_config(key, value);
    }
    let path_style = bucket.path_style.unwrap_or(endpoint.is_some());
    builder = builder
        .with_bucket_name(&bucket.name)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_disable_bulk_delete(removals == Removals::Singly)
        .with_virtual_hosted_style_request(!path_style)
        .with_skip_signature(bucket.is_anonymous)
        .with_client_options(client)
        .with_retry(no_retries());
    if let Some(endpoint) = &endpoint {
        let endpoint = endpoint.trim_end_matches('/');
        // The library wants the bucket in it, where it is in the host name.
        let named = match endpoint.split_once("://") {
            Some((scheme, host)) if !path_style => format!("{scheme}://{}.{host}", bucket.name),
            _ => endpoint.to_owned(),
        };
        let is_plain = named.starts_with("http://");
        builder = builder.with_allow_http(is_plain).with_config(AmazonS3ConfigKey::S3Endpoint, named);
    }
    if let Some(region) = &bucket.region {
        builder = builder.with_region(region);
    }
    Ok(Arc::new(builder.build()?))
}

/// The endpoint that the settings name, or else the environment. It counts as one in the place does: the library would leave out the
/// bucket, and take the more special name of the environment before the more general one of the settings.
fn named_elsewhere(credentials: &BTreeMap<String, String>, environment: &AmazonS3Builder) -> Option<String> {
    let given = known::<AmazonS3ConfigKey>(credentials);
    let keys = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let in_settings = |key| given.iter().find(|(known, _)| known == key).map(|(_, value)| (*value).clone());
    let in_environment = |key| environment.get_config_value(key);
    keys.iter().find_map(in_settings).or_else(|| keys.iter().find_map(in_environment))
}

fn google(
    bucket: &Bucket,
    credentials: &BTreeMap<String, String>,
    client: ClientOptions,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut builder = GoogleCloudStorageBuilder::from_env();
    for (key, value) in known::<GoogleConfigKey>(credentials) {
        builder = builder.with_config(key, value);
    }
    builder = builder
        .with_bucket_name(&bucket.name)
        .with_skip_signature(bucket.is_anonymous)
        .with_client_options(client)
        .with_retry(no_retries());
    if let Some(endpoint) = &bucket.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    Ok(Arc::new(builder.build()?))
}

fn azure(
    bucket: &Bucket,
    credentials: &BTreeMap<String, String>,
    client: ClientOptions,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut builder = MicrosoftAzureBuilder::from_env();
    for (key, value) in known::<AzureConfigKey>(credentials) {
        builder = builder.with_config(key, value);
    }
    builder = builder
        .with_container_name(&bucket.name)
        .with_use_emulator(bucket.is_emulator)
        .with_skip_signature(bucket.is_anonymous)
        .with_client_options(client)
        .with_retry(no_retries());
    if let Some(account) = &bucket.account {
        builder = builder.with_account(account);
    }
    if let Some(endpoint) = &bucket.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    Ok(Arc::new(builder.build()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_in_the_settings_counts_more_than_one_in_the_environment() {
        let special = AmazonS3Builder::new().with_config(AmazonS3ConfigKey::S3Endpoint, "http://environment");
        let general = AmazonS3Builder::new().with_config(AmazonS3ConfigKey::Endpoint, "http://environment");
        let settings = |names: &[&str]| -> BTreeMap<String, String> {
            names.iter().map(|name| ((*name).to_owned(), format!("http://{name}"))).collect()
        };
        for environment in [&special, &general, &AmazonS3Builder::new()] {
            for (names, expected) in [
                (&["AWS_ENDPOINT_URL"][..], "http://AWS_ENDPOINT_URL"),
                (&["AWS_ENDPOINT_URL_S3"], "http://AWS_ENDPOINT_URL_S3"),
                (&["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"], "http://AWS_ENDPOINT_URL_S3"),
            ] {
                assert_eq!(named_elsewhere(&settings(names), environment).as_deref(), Some(expected));
            }
        }
        assert_eq!(named_elsewhere(&settings(&[]), &special).as_deref(), Some("http://environment"));
        assert_eq!(named_elsewhere(&settings(&[]), &AmazonS3Builder::new()), None);
    }

    #[test]
    fn of_the_providers_variables_only_those_count_that_are_read() {
        for name in [
            "AWS_ACCESS_KEY_ID",
            "AWS_REGION",
            "AWS_ENDPOINT_URL_S3",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_ACCOUNT_NAME",
        ] {
            assert!(is_store_variable(name), "{name}");
        }
        for name in [
            "AWS_PROFILE",
            "AWS_EXECUTION_ENV",
            "AWS_PAGER",
            "GOOGLE_CLOUD_SHELL",
            "AZURE_CONFIG_DIR",
            "PATH",
            "",
        ] {
            assert!(!is_store_variable(name), "{name}");
        }
    }
}
