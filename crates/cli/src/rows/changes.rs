//! The changes of a batch, as JSON lines:
//!
//! ```text
//!   {"put":"accounts","key":"alice","value":"70"}
//!   {"delete":"accounts","key":"bob"}
//!   {"put":"photos","key_hex":"00ff","value_hex":"ffd8"}
//! ```
//! Unlike a row of `load`, a change has these fields and no others: what is misspelt must not be left out of a transaction.

use std::io::Read;

use serde::Deserialize;

use super::json_lines::JsonLines;
use super::without_byte_order_mark;
use crate::failure::Failure;
use crate::output::parse_hex;

/// A row to write or to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Put { table: String, key: Vec<u8>, value: Vec<u8> },
    Delete { table: String, key: Vec<u8> },
}

impl Change {
    pub(crate) fn table(&self) -> &str {
        match self {
            Change::Put { table, .. } | Change::Delete { table, .. } => table,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    put: Option<String>,
    delete: Option<String>,
    key: Option<String>,
    key_hex: Option<String>,
    value: Option<String>,
    value_hex: Option<String>,
}

/// Reads one change a line; empty lines are skipped.
pub(crate) struct ChangeReader {
    lines: JsonLines,
}

impl ChangeReader {
    /// Changes of `input`, called `name` in messages.
    pub(crate) fn new(input: Box<dyn Read>, name: String) -> Result<ChangeReader, Failure> {
        let input = without_byte_order_mark(input).map_err(Failure::io(format!("cannot read {name}")))?;
        Ok(ChangeReader { lines: JsonLines::new(input, name) })
    }

    /// The number of the line and its change, or `None` after the last.
    pub(crate) fn next_change(&mut self) -> Result<Option<(u64, Change)>, Failure> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        let change = change(line);
        change
            .map(|change| Some((self.lines.number(), change)))
            .map_err(|problem| self.lines.refused(problem))
    }
}

fn change(line: &[u8]) -> Result<Change, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let key = bytes("key", line.key, line.key_hex)?.ok_or("no field `key` or `key_hex`")?;
    let value = bytes("value", line.value, line.value_hex)?;
    match (line.put, line.delete, value) {
        (Some(table), None, Some(value)) => Ok(Change::Put { table, key, value }),
        (None, Some(table), None) => Ok(Change::Delete { table, key }),
        (Some(_), None, None) => Err("a put needs a field `value` or `value_hex`".to_owned()),
        (None, Some(_), Some(_)) => Err("a delete has no value".to_owned()),
        (Some(_), Some(_), _) => Err("both `put` and `delete`: give each a line of its own".to_owned()),
        (None, None, _) => Err("no field `put` or `delete`, which names the table".to_owned()),
    }
}

/// A byte string that is given as text or in hexadecimal.
fn bytes(name: &str, text: Option<String>, in_hex: Option<String>) -> Result<Option<Vec<u8>>, String> {
    match (text, in_hex) {
        (Some(_), Some(_)) => Err(format!("both `{name}` and `{name}_hex`")),
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(digits)) => {
            parse_hex(digits.as_bytes()).map(Some).map_err(|problem| format!("{name}_hex: {problem}"))
        }
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read() {
        let put = |table: &str, key: &[u8], value: &[u8]| Change::Put {
            table: table.to_owned(),
            key: key.to_vec(),
            value: value.to_vec(),
        };
        assert_eq!(change(br#"{"put":"t","key":"a","value":"1"}"#), Ok(put("t", b"a", b"1")));
        assert_eq!(change(br#"{"value_hex":"00","key_hex":"ff","put":"t"}"#), Ok(put("t", b"\xff", b"\0")));
        assert_eq!(change(br#"{"put":"t","key":"","value":""}"#), Ok(put("t", b"", b"")));
        let delete = Change::Delete { table: "t".to_owned(), key: b"a".to_vec() };
        assert_eq!(change(br#"{"delete":"t","key":"a"}"#), Ok(delete));
    }

    #[test]
    fn an_input_that_ends_within_a_line_is_refused() {
        let input = &b"{\"delete\":\"t\",\"key\":\"a\"}\n{\"delete\":\"t\",\"key\":"[..];
        let mut reader = ChangeReader::new(Box::new(input), "input".to_owned()).unwrap();
        assert!(reader.next_change().unwrap().is_some());
        assert!(matches!(reader.next_change(), Err(Failure::Input { .. })));
    }

    #[test]
    fn every_other_line_is_refused() {
        for line in [
            r#"{"put":"t","key":"a"}"#,
            r#"{"put":"t","value":"a"}"#,
            r#"{"key":"a","value":"1"}"#,
            r#"{"put":"t","delete":"t","key":"a"}"#,
            r#"{"delete":"t","key":"a","value":"1"}"#,
            r#"{"put":"t","key":"a","key_hex":"61","value":"1"}"#,
            r#"{"put":"t","key":"a","value":"1","value_hex":"31"}"#,
            r#"{"put":"t","key":"a","value":1}"#,
            r#"{"put":"t","key":7,"value":"1"}"#,
            r#"{"put":"t","key":"a","value":"1","valeu":"2"}"#,
            r#"{"put":"t","put":"u","key":"a","value":"1"}"#,
            r#"{"put":"t","key_hex":"f","value":"1"}"#,
            r#"{"put":"t","key":"a","value":"1"} {}"#,
            "[]",
            "{",
            "",
        ] {
            assert!(change(line.as_bytes()).is_err(), "{line}");
        }
    }
}
