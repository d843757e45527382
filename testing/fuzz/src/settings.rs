//! The settings file.

use seawall_settings::{KNOWN, Kind, Settings};

use crate::input::Entries;

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[("settings", settings)];

/// A settings file. What is accepted can be used, shown, and handed to another process, which reads the same.
pub fn settings(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let settings = match Settings::parse(&text, "the file") {
        Ok(settings) => settings,
        Err(error) => return assert!(error.to_string().starts_with("the file, line "), "{error}"),
    };
    for known in KNOWN {
        match known.kind {
            Kind::Number(..) => drop(settings.get::<u64>(known.path)),
            Kind::Time => drop(settings.time(known.path)),
            Kind::Bytes => drop(settings.bytes(known.path)),
            Kind::Compression => drop(settings.packing(known.path)),
            Kind::Text
            | Kind::Texts
            | Kind::HiddenText
            | Kind::Path
            | Kind::Repositories
            | Kind::Assignments
            | Kind::OneOf(_) => drop(settings.text(known.path)),
        }
    }
    assert!(settings.listing().len() >= KNOWN.len());
    let handed_on = settings.archiving_to_text();
    let again = Settings::parse(&handed_on, "the text").expect("what is handed on is settings");
    assert_eq!(again.archiving_to_text(), handed_on);
    assert_eq!(again.credentials(), settings.credentials());
}
