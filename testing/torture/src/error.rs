//! Why the chamber could not do its work. What it finds is no error: see `finding`.

use std::io;

use seawall_mounted_disk::MountError;

/// Why a torture could not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TortureError {
    #[error(transparent)]
    Mount(#[from] MountError),
    #[error("cannot {action}: {source}")]
    Io { action: &'static str, source: io::Error },
    #[error("the database under torture: {0}")]
    Database(#[from] seawall::Error),
    #[cfg(feature = "sabotage")]
    #[error("the tests do not build")]
    Build,
    #[cfg(feature = "sabotage")]
    #[error("there is no defect {name:?}; `seawall-torture sabotage --list` shows all")]
    NoSuchDefect { name: String },
    #[cfg(not(feature = "sabotage"))]
    #[error(
        "{} asks for the defect {name:?}, and this program was built without defects: build it with --features sabotage",
        seawall_io::sabotage::VARIABLE
    )]
    BuiltWithoutDefects { name: String },
    #[cfg(feature = "sabotage")]
    #[error("{hunter} finds something on the healthy engine: {what}")]
    Unhealthy { hunter: String, what: String },
    #[error("{torture} failed: {said}")]
    Child { torture: &'static str, said: String },
    #[error("JSON between two processes of the chamber: {0}")]
    Json(#[from] serde_json::Error),
}

/// For `map_err`: what the chamber itself was doing.
pub(crate) fn io_error(action: &'static str) -> impl FnOnce(io::Error) -> TortureError {
    move |source| TortureError::Io { action, source }
}
