//! Lists of names as the values of settings: `"$user", public`.

use seawall_values::functions::quoting::quote_identifier;

/// Longer names are cut, as PostgreSQL cuts them.
const NAME_BYTES_MAX: usize = 63;

/// The names of a list; names without quotes become lower case. `None`: the text is not a list.
pub(crate) fn split(text: &str) -> Option<Vec<String>> {
    let mut rest = text.trim_start();
    let mut names = Vec::new();
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_name(quoted)?,
            None => plain_name(rest)?,
        };
        names.push(name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned());
        let after = after.trim_start();
        if after.is_empty() {
            return Some(names);
        }
        rest = after.strip_prefix(',')?.trim_start();
    }
}

/// The name up to the closing quote, and what follows it.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None => return Some((name, after)),
        }
    }
}

fn plain_name(text: &str) -> Option<(String, &str)> {
    let end = text.find(|letter: char| letter == ',' || letter.is_ascii_whitespace()).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_ascii_lowercase(), &text[end..]))
}

/// The values of `SET` as one text. `is_quoted`: each value is a name, in quotes where it needs them.
pub(super) fn join(values: &[String], is_quoted: bool) -> String {
    let mut text = String::new();
    for value in values {
        if !text.is_empty() {
            text.push_str(", ");
        }
        match is_quoted {
            true => text.push_str(&quote_identifier(value)),
            false => text.push_str(value),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_at_commas() {
        let names = |text: &str| split(text).map(|names| names.join("|"));
        assert_eq!(names("\"$user\", public").as_deref(), Some("$user|public"));
        assert_eq!(names(" A , \"B \"\"c\" ").as_deref(), Some("a|B \"c"));
        assert_eq!(names("\"\"").as_deref(), Some(""));
        assert_eq!(split(""), Some(Vec::new()));
        assert_eq!(names(&"x".repeat(70)).map(|name| name.len()), Some(63));
        for text in ["a,,b", "a,", ",", "a b", "\"a", "a, \"b c"] {
            assert_eq!(split(text), None, "{text}");
        }
    }

    #[test]
    fn values_are_quoted_where_they_need_it() {
        let values = ["a".to_owned(), "B c".to_owned(), "$user".to_owned(), "select".to_owned()];
        assert_eq!(join(&values, true), "a, \"B c\", \"$user\", \"select\"");
        assert_eq!(join(&values[..2], false), "a, B c");
    }
}
