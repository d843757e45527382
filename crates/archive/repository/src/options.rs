//! How a repository is opened.

use std::collections::BTreeMap;
use std::sync::Arc;

use seawall_io::{Clock, OsRandom, Random, SystemClock};
use seawall_keys::MasterKey;

use crate::store::retry::RetryPolicy;

/// How a repository is opened.
#[derive(Clone, Debug)]
pub struct RepositoryOptions {
    /// Where the master key comes from, if the repository is (or shall be) encrypted.
    pub master_key: Option<MasterKey>,
    /// Credentials of the store, by the names that its own tools give them in the environment; they come before those in the
    /// environment.
    pub credentials: BTreeMap<String, String>,
    /// How long requests that fail in passing are tried again.
    pub retry: RetryPolicy,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness for keys, nonces and names.
    pub random: Arc<dyn Random>,
}

impl Default for RepositoryOptions {
    fn default() -> RepositoryOptions {
        RepositoryOptions {
            master_key: None,
            credentials: BTreeMap::new(),
            retry: RetryPolicy::default(),
            clock: Arc::new(SystemClock),
            random: Arc::new(OsRandom),
        }
    }
}
