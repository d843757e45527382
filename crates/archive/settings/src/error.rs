//! What is wrong with settings.

use std::io;

/// Why settings are not used. No message has a credential in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The system does not give the file.
    #[error(
        "cannot read the settings in {path}: {source}; --config names another file, or with /dev/null none"
    )]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// What is set is not a setting, or contradicts itself.
    #[error("{place}: {problem}")]
    Refused {
        /// The file with the line, the variable, or the option.
        place: String,
        /// What is wrong, and what to do.
        problem: String,
    },
}

impl SettingsError {
    pub(crate) fn refused(place: impl ToString, problem: impl Into<String>) -> SettingsError {
        SettingsError::Refused { place: place.to_string(), problem: problem.into() }
    }
}
