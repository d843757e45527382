//! Page protection and compression by name. A new one is one line here.

use seawall::{ImageCompression, Options, PageProtection};
use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// A value of an option.
pub(super) struct Choice {
    pub(super) name: &'static str,
    set: fn(&mut Options),
}

pub(super) const PROTECTIONS: &[Choice] = &[
    Choice {
        name: "recovery-file",
        set: |options| options.checkpoint.page_protection = PageProtection::RecoveryFile,
    },
    Choice {
        name: "log-images",
        set: |options| options.checkpoint.page_protection = PageProtection::LogImages,
    },
];

pub(super) const COMPRESSIONS: &[Choice] = &[
    Choice {
        name: "none",
        set: |options| options.checkpoint.page_image_compression = ImageCompression::None,
    },
    Choice {
        name: "skip-garbage",
        set: |options| options.checkpoint.page_image_compression = ImageCompression::SkipGarbage,
    },
    Choice { name: "lz4", set: |options| options.checkpoint.page_image_compression = ImageCompression::Lz4 },
    Choice {
        name: "zstd",
        set: |options| options.checkpoint.page_image_compression = ImageCompression::Zstd,
    },
    Choice {
        name: "snappy",
        set: |options| options.checkpoint.page_image_compression = ImageCompression::Snappy,
    },
];

pub(super) fn names(choices: &[Choice]) -> Vec<&'static str> {
    choices.iter().map(|choice| choice.name).collect()
}

/// How torn pages are prevented: a column of the tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Configuration {
    pub(super) protection: String,
    pub(super) compression: String,
}

impl Configuration {
    /// Every protection with every compression.
    pub(super) fn product(protections: &[String], compressions: &[String]) -> Vec<Configuration> {
        let with = |protection: &String| {
            let protection = protection.clone();
            compressions.iter().map(move |compression| Configuration {
                protection: protection.clone(),
                compression: compression.clone(),
            })
        };
        protections.iter().flat_map(with).collect()
    }

    pub(super) fn label(&self) -> String {
        format!("{}, {}", self.protection, self.compression)
    }

    /// As part of a file's name.
    pub(super) fn file_words(&self) -> String {
        format!("{}-{}", self.protection, self.compression)
    }

    pub(super) fn apply(&self, options: &mut Options) -> Result<(), BenchError> {
        for (choices, name) in [(PROTECTIONS, &self.protection), (COMPRESSIONS, &self.compression)] {
            let choice = choices.iter().find(|choice| choice.name == name);
            let unknown = || BenchError::Process(format!("{name} is no page protection and no compression"));
            (choice.ok_or_else(unknown)?.set)(options);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_sets_its_option_and_an_unknown_one_is_refused() {
        let all = |choices| names(choices).into_iter().map(String::from).collect::<Vec<_>>();
        let configurations = Configuration::product(&all(PROTECTIONS), &all(COMPRESSIONS));
        assert_eq!(configurations.len(), PROTECTIONS.len() * COMPRESSIONS.len());
        for configuration in configurations {
            let mut options = Options::default();
            configuration.apply(&mut options).unwrap();
            assert_eq!(options.checkpoint.page_protection.name(), configuration.protection);
            assert_eq!(options.checkpoint.page_image_compression.name(), configuration.compression);
        }
        let unknown = Configuration { protection: "recovery-file".into(), compression: "rle".into() };
        assert!(unknown.apply(&mut Options::default()).is_err());
    }
}
