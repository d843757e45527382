//! Identifiers as PostgreSQL reads them.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

/// Names are cut to so many bytes.
const NAME_BYTES_MAX: usize = 63;

/// An identifier as PostgreSQL reads it: folded to lower case without quotes, and cut.
pub(crate) fn folded(ident: &Ident) -> String {
    let name = if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() };
    cut(name)
}

fn cut(mut name: String) -> String {
    if name.len() > NAME_BYTES_MAX {
        let end = (0..=NAME_BYTES_MAX).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
        name.truncate(end);
    }
    name
}

/// The parts of a name.
pub(crate) fn name_parts(name: &ObjectName) -> Vec<String> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => Some(folded(ident)),
        ObjectNamePart::Function(_) => None,
    };
    name.0.iter().filter_map(part).collect()
}

/// The schema and the name; a database before them is passed over.
pub(crate) fn qualified(name: &ObjectName) -> (Option<String>, String) {
    let mut parts = name_parts(name);
    let last = parts.pop().unwrap_or_default();
    (parts.pop(), last)
}
