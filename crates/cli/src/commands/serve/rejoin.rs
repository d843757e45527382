//! A directory that is to follow an upstream: a former primary cuts its log where the upstream's timeline left it.

use seawall::{DatabaseDirectory, Options};
use seawall_replication::{Dial, RejoinError, UpstreamSettings};

use crate::failure::Failure;

/// Cuts the log, if the upstream's history asks for that. An upstream that is not there is waited for later, as it is by a standby.
pub(super) fn rejoin(
    directory: &DatabaseDirectory,
    options: &Options,
    upstream: &UpstreamSettings,
    dial: &dyn Dial,
) -> Result<(), Failure> {
    match seawall_replication::rejoin(directory, options, upstream, dial) {
        Ok(_) => Ok(()),
        Err(error @ RejoinError::Client(_)) => {
            tracing::warn!(%error, "this standby opens with the log that it has");
            Ok(())
        }
        Err(RejoinError::Database(error)) => Err(error.into()),
        Err(error) => Err(Failure::Broken(error.to_string())),
    }
}
