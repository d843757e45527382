//! Rows of JSON lines. Numbers and nested values keep their text: nothing is rounded or reordered on the way.

use std::collections::HashSet;
use std::fmt;
use std::io::{BufRead, BufReader, Read};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{COLUMNS_MAX, ROW_BYTES_MAX, Row, Shape, check_value_length, key_of, places};
use crate::failure::Failure;
use crate::key_type::KeyType;
use crate::output::{excerpt, parse_hex};

/// More bytes than the longest row has with each of its bytes written as `\u0000`.
const LINE_BYTES_MAX: usize = 6 * ROW_BYTES_MAX;

/// The lines of a file that are not empty.
pub(super) struct JsonLines {
    reader: BufReader<Box<dyn Read>>,
    name: String,
    line: Vec<u8>,
    number: u64,
}

impl JsonLines {
    pub(super) fn new(input: Box<dyn Read>, name: String) -> JsonLines {
        JsonLines { reader: BufReader::with_capacity(1 << 16, input), name, line: Vec::new(), number: 0 }
    }

    /// The next line, or `None` after the last.
    pub(super) fn next_line(&mut self) -> Result<Option<&[u8]>, Failure> {
        loop {
            self.line.clear();
            let most = LINE_BYTES_MAX as u64 + 1;
            let read = (&mut self.reader).take(most).read_until(b'\n', &mut self.line);
            let bytes = read.map_err(Failure::io(format!("cannot read {}", self.name)))?;
            if bytes == 0 {
                return Ok(None);
            }
            self.number += 1;
            if bytes > LINE_BYTES_MAX {
                return Err(self.refused(format!("more than {LINE_BYTES_MAX} bytes, which is the limit")));
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some(&self.line));
            }
        }
    }

    /// The number of the last line, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// What is wrong with the last line.
    pub(super) fn refused(&self, problem: String) -> Failure {
        Failure::Input { name: self.name.clone(), place: format!("line {}", self.number), problem }
    }
}

/// Reads one row a line.
pub(crate) struct JsonLinesReader {
    lines: JsonLines,
    plan: Plan,
}

/// How the fields of an object become a row.
struct Plan {
    key: Vec<String>,
    separator: String,
    key_type: Option<KeyType>,
}

impl JsonLinesReader {
    pub(crate) fn new(input: Box<dyn Read>, name: String, shape: &Shape) -> JsonLinesReader {
        let (key, separator, key_type) = (shape.key.clone(), shape.separator.clone(), shape.key_type.clone());
        JsonLinesReader { lines: JsonLines::new(input, name), plan: Plan { key, separator, key_type } }
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Row>, Failure> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        self.plan.row(line).map(Some).map_err(|problem| self.lines.refused(problem))
    }
}

impl Plan {
    fn row(&self, line: &[u8]) -> Result<Row, String> {
        let Fields(fields) = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let places = places(fields.iter().map(|(name, _)| name.as_str()), "fields")?;
        let find = |name: &str| places.get(name).copied();
        let key_columns = if self.key.is_empty() {
            let unnamed = "no field `key` or `key_hex`; name the field of the key with --key";
            vec![find("key").or_else(|| find("key_hex")).ok_or(unnamed)?]
        } else {
            let missing = |name: &String| format!("no field {name:?} for the key");
            self.key.iter().map(|name| find(name).ok_or_else(|| missing(name))).collect::<Result<_, _>>()?
        };
        let texts = key_columns
            .iter()
            .map(|column| {
                scalar(fields[*column].1).map_err(|problem| format!("{}: {problem}", fields[*column].0))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let key = match (&texts[..], &key_columns[..]) {
            ([_], [column]) if fields[*column].0 == "key_hex" && self.key_type.is_some() => {
                return Err("key_hex has bytes, and no key of a type: leave --key-type out".to_owned());
            }
            ([text], [column]) if fields[*column].0 == "key_hex" => {
                parse_hex(text.as_bytes()).map_err(|problem| format!("key_hex: {problem}"))?
            }
            _ => {
                let parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
                key_of(&parts, &self.separator, self.key_type.as_ref())?
            }
        };
        let is_key: HashSet<usize> = key_columns.iter().copied().collect();
        let left = fields.iter().enumerate().filter(|(column, _)| !is_key.contains(column));
        let left: Vec<_> = left.map(|(_, field)| field).collect();
        Ok((key, value(&left)?))
    }
}

/// The value of a row that has these fields left.
fn value(left: &[&Field<'_>]) -> Result<Vec<u8>, String> {
    match left {
        [] => Ok(Vec::new()),
        [(name, json)] if name == "value" && json.get().starts_with('"') => {
            // It may still be none that means anything: `"\ud800"` is half a character.
            let text =
                serde_json::from_str::<String>(json.get()).map_err(|error| format!("value: {error}"))?;
            check_value_length(text.len()).map(|()| text.into_bytes())
        }
        [(name, json)] if name == "value" => {
            check_value_length(json.get().len()).map(|()| json.get().as_bytes().to_vec())
        }
        [(name, json)] if name == "value_hex" => {
            let text = serde_json::from_str::<String>(json.get()).map_err(|_| "value_hex is not a string")?;
            check_value_length(text.len() / 2)?;
            parse_hex(text.as_bytes()).map_err(|problem| format!("value_hex: {problem}"))
        }
        fields => {
            let mut text = String::from("{");
            for (index, (name, json)) in fields.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&serde_json::Value::from(name.as_str()).to_string());
                text.push(':');
                check_value_length(text.len() + json.get().len())?;
                text.push_str(json.get());
            }
            text.push('}');
            Ok(text.into_bytes())
        }
    }
}

/// The text of a string, number or boolean.
fn scalar(json: &RawValue) -> Result<String, String> {
    let text = json.get();
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text).map_err(|error| error.to_string()),
        Some(b'{' | b'[' | b'n') | None => {
            Err(format!("a key is a string, number or boolean, not {}", excerpt(text)))
        }
        Some(_) => Ok(text.to_owned()),
    }
}

/// Name and value, as the value is written.
type Field<'de> = (String, &'de RawValue);

/// The fields of an object in the order of the file.
struct Fields<'de>(Vec<Field<'de>>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields<'de>, D::Error> {
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
                let mut fields: Vec<Field<'de>> = Vec::new();
                while let Some(field) = map.next_entry()? {
                    if fields.len() == COLUMNS_MAX {
                        let problem = format!("more than {COLUMNS_MAX} fields, which is the limit");
                        return Err(serde::de::Error::custom(problem));
                    }
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(FieldsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Header, Quotes};
    use super::*;

    fn rows(text: &'static str, key: &[&str]) -> Result<Vec<(String, String)>, Failure> {
        let key = key.iter().map(ToString::to_string).collect();
        let shape = Shape {
            key,
            separator: "/".to_owned(),
            key_type: None,
            header: Header::Present,
            quotes: Quotes::Enclosing,
        };
        let mut reader = JsonLinesReader::new(Box::new(text.as_bytes()), "test".to_owned(), &shape);
        let mut rows = Vec::new();
        while let Some((key, value)) = reader.next_row()? {
            rows.push((
                String::from_utf8_lossy(&key).into_owned(),
                String::from_utf8_lossy(&value).into_owned(),
            ));
        }
        Ok(rows)
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn fields_beside_the_key_keep_their_text_and_order() {
        let text = "{\"z\":1.10,\"id\":7,\"a\":[1, {\"b\":null}]}\n\n{\"id\":\"x\"}";
        let found = rows(text, &["id"]).unwrap();
        assert_eq!(found, [pair("7", "{\"z\":1.10,\"a\":[1, {\"b\":null}]}"), pair("x", "")]);
    }

    #[test]
    fn key_and_value_are_taken_as_they_are() {
        let text = "{\"key\":\"a\\u0000\",\"value\":\"1\"}\n{\"key_hex\":\"ff\",\"value_hex\":\"00\"}\n{\"value\":{\"b\":1},\"key\":\"c\"}";
        let found = rows(text, &[]).unwrap();
        assert_eq!(found, [pair("a\0", "1"), pair("\u{fffd}", "\0"), pair("c", "{\"b\":1}")]);
    }

    #[test]
    fn several_key_fields_are_joined() {
        assert_eq!(rows("{\"a\":1,\"b\":true,\"value\":\"v\"}", &["b", "a"]).unwrap(), [pair("true/1", "v")]);
    }

    #[test]
    fn bad_lines_are_refused_with_their_number() {
        let message = |text, key: &[&str]| rows(text, key).unwrap_err().to_string();
        assert!(message("{\"key\":1}\n{", &[]).contains("line 2"));
        assert!(message("[1]", &[]).contains("JSON object"));
        assert!(message("{\"a\":1}", &[]).contains("--key"));
        assert!(message("{\"a\":1}", &["b"]).contains("no field \"b\""));
        assert!(message("{\"a\":null}", &["a"]).contains("not null"));
        assert!(message("{\"a\":1,\"a\":2}", &["a"]).contains("two fields"));
        assert!(message("{\"key\":1,\"value_hex\":\"0\"}", &[]).contains("value_hex"));
    }
}
