//! `options` of a start-up packet: settings as PostgreSQL's command line takes them.

use seawall_values::{SqlError, SqlResult, SqlState};

/// Reads `-c name=value`, `-cname=value` and `--name=value`; spaces separate, after a backslash they do not.
///
/// # Errors
/// `42601`: anything else.
pub(crate) fn parse(text: &str) -> SqlResult<Vec<(String, String)>> {
    let mut words = words(text).into_iter();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let refused = || {
            let message = format!("invalid command-line argument for server process: {word}");
            SqlError::new(SqlState::SYNTAX_ERROR, message)
        };
        let (assignment, is_long) = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(rest), _) => (rest.to_owned(), true),
            (None, Some("")) => (words.next().ok_or_else(refused)?, false),
            (None, Some(rest)) => (rest.to_owned(), false),
            (None, None) => return Err(refused()),
        };
        let (name, value) = assignment.split_once('=').ok_or_else(|| {
            let option = if is_long { format!("--{assignment}") } else { format!("-c {assignment}") };
            SqlError::new(SqlState::SYNTAX_ERROR, format!("{option} requires a value"))
        })?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            character if character.is_ascii_whitespace() => words.extend(word.take()),
            character => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_of_a_command_line() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let settings = parse(r" -c geqo=off  --statement-timeout=5min -cDateStyle=ISO,\ DMY").unwrap();
        let expected =
            [pair("geqo", "off"), pair("statement_timeout", "5min"), pair("DateStyle", "ISO, DMY")];
        assert_eq!(settings, expected);
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn other_options_are_refused() {
        for (text, expected) in [
            ("-d 5", "42601: invalid command-line argument for server process: -d"),
            ("x=1", "42601: invalid command-line argument for server process: x=1"),
            ("-c", "42601: invalid command-line argument for server process: -c"),
            ("--geqo", "42601: --geqo requires a value"),
            ("-c geqo", "42601: -c geqo requires a value"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected);
        }
    }
}
