//! Rows of CSV and TSV. Cells are bytes; they need to be UTF-8 only where they become part of a JSON object.

use std::collections::HashSet;
use std::io::Read;

use csv::{ByteRecord, ErrorKind};

use super::well_formed::{WellFormed, malformed};
use super::{Header, Quotes, Row, Shape, check_value_length, key_of, places};
use crate::failure::Failure;
use crate::key_type::KeyType;
use crate::output::{excerpt, parse_hex};

type Cells = csv::Reader<WellFormed<Box<dyn Read>>>;

/// Reads rows of cells with a delimiter between them.
pub(crate) struct DelimitedReader {
    reader: Cells,
    name: String,
    plan: Plan,
    record: ByteRecord,
    /// The first line was read to count the columns, and is a row.
    pending: bool,
}

/// How the cells of a record become a row.
struct Plan {
    key: Vec<usize>,
    key_hex: bool,
    separator: String,
    key_type: Option<KeyType>,
    value: ValuePlan,
}

enum ValuePlan {
    Cell {
        column: usize,
        hex: bool,
    },
    /// Columns with their names as JSON strings.
    Object(Vec<(usize, String)>),
    Nothing,
}

impl DelimitedReader {
    pub(crate) fn new(
        input: Box<dyn Read>,
        name: String,
        delimiter: u8,
        shape: &Shape,
    ) -> Result<DelimitedReader, Failure> {
        // The first line is always read as a record here: it tells the columns.
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .quoting(shape.quotes == Quotes::Enclosing)
            .has_headers(false)
            .buffer_capacity(1 << 16)
            .from_reader(WellFormed::new(input, delimiter, shape.quotes));
        let mut record = ByteRecord::new();
        let empty = !read(&mut reader, &mut record, &name)?;
        if empty && shape.header == Header::Present {
            return Err(input_error(&name, 1, "the file is empty; expected a line that names the columns"));
        }
        let columns = match shape.header {
            Header::Present => column_names(&record).map_err(|problem| input_error(&name, 1, problem))?,
            Header::Absent if record.len() == 2 => vec!["key".to_owned(), "value".to_owned()],
            Header::Absent => (1..=record.len()).map(|number| number.to_string()).collect(),
        };
        let plan = if empty { Plan::empty() } else { Plan::new(&columns, shape).map_err(Failure::Usage)? };
        let pending = shape.header == Header::Absent && !empty;
        Ok(DelimitedReader { reader, name, plan, record, pending })
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Row>, Failure> {
        if !std::mem::take(&mut self.pending) && !read(&mut self.reader, &mut self.record, &self.name)? {
            return Ok(None);
        }
        let row = self.plan.row(&self.record).map_err(|problem| {
            let line = self.record.position().map_or(0, csv::Position::line);
            input_error(&self.name, line, problem)
        })?;
        Ok(Some(row))
    }

    /// After the last row: whether it has no line end.
    pub(super) fn ends_in_row(&self) -> bool {
        self.reader.get_ref().ends_in_record()
    }
}

impl Plan {
    /// Of a file without a line.
    fn empty() -> Plan {
        let (separator, value) = (String::new(), ValuePlan::Nothing);
        Plan { key: Vec::new(), key_hex: false, separator, key_type: None, value }
    }

    fn new(columns: &[String], shape: &Shape) -> Result<Plan, String> {
        let places = places(columns.iter().map(String::as_str), "columns")?;
        let place = |name: &str| places.get(name).copied();
        let key = if shape.key.is_empty() {
            vec![place("key").or_else(|| place("key_hex")).unwrap_or(0)]
        } else {
            let missing =
                |name: &String| format!("no column {name:?} for the key; there are: {}", listed(columns));
            shape.key.iter().map(|name| place(name).ok_or_else(|| missing(name))).collect::<Result<_, _>>()?
        };
        let key_hex = matches!(key[..], [column] if columns[column] == "key_hex");
        if key_hex && shape.key_type.is_some() {
            return Err(
                "the column key_hex has bytes, and no keys of a type: leave --key-type out".to_owned()
            );
        }
        let is_key: HashSet<usize> = key.iter().copied().collect();
        let left: Vec<_> = (0..columns.len()).filter(|column| !is_key.contains(column)).collect();
        let value = match left[..] {
            [] => ValuePlan::Nothing,
            [column] if columns[column] == "value" => ValuePlan::Cell { column, hex: false },
            [column] if columns[column] == "value_hex" => ValuePlan::Cell { column, hex: true },
            _ => ValuePlan::Object(
                left.into_iter().map(|column| (column, json_string(&columns[column]))).collect(),
            ),
        };
        let (separator, key_type) = (shape.separator.clone(), shape.key_type.clone());
        Ok(Plan { key, key_hex, separator, key_type, value })
    }

    fn row(&self, record: &ByteRecord) -> Result<Row, String> {
        let parts: Vec<&[u8]> = self.key.iter().map(|column| &record[*column]).collect();
        let key = match parts[..] {
            [part] if self.key_hex => {
                parse_hex(part).map_err(|problem| format!("column key_hex: {problem}"))?
            }
            _ => key_of(&parts, &self.separator, self.key_type.as_ref())?,
        };
        let value = match &self.value {
            ValuePlan::Nothing => Vec::new(),
            ValuePlan::Cell { column, hex: false } => {
                check_value_length(record[*column].len())?;
                record[*column].to_vec()
            }
            ValuePlan::Cell { column, hex: true } => {
                check_value_length(record[*column].len() / 2)?;
                parse_hex(&record[*column]).map_err(|problem| format!("column value_hex: {problem}"))?
            }
            ValuePlan::Object(columns) => object(columns, record)?,
        };
        Ok((key, value))
    }
}

/// Reads the next record; `false` at the end of the file.
fn read(reader: &mut Cells, record: &mut ByteRecord, name: &str) -> Result<bool, Failure> {
    reader.read_byte_record(record).map_err(|error| {
        let line = error.position().map_or(0, csv::Position::line);
        match error.into_kind() {
            ErrorKind::Io(source) => match malformed(&source) {
                Some(found) => input_error(name, found.line, &found.problem),
                None => Failure::Io { what: format!("cannot read {name}"), source },
            },
            ErrorKind::UnequalLengths { expected_len, len, .. } => {
                input_error(name, line, format!("{len} cells, but the first line has {expected_len}"))
            }
            other => input_error(name, line, format!("{other:?}")),
        }
    })
}

fn column_names(record: &ByteRecord) -> Result<Vec<String>, String> {
    let name = |cell| std::str::from_utf8(cell).map_err(|_| "the name of a column is not UTF-8".to_owned());
    let names = record.iter().map(name).collect::<Result<Vec<&str>, _>>()?;
    places(names.iter().copied(), "columns")?;
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// The names of columns in a message: a file may have any number of them.
fn listed(columns: &[String]) -> String {
    const LISTED_MAX: usize = 20;
    let mut names: Vec<String> = columns.iter().take(LISTED_MAX).map(|name| excerpt(name)).collect();
    if columns.len() > LISTED_MAX {
        names.push(format!("and {} more", columns.len() - LISTED_MAX));
    }
    names.join(", ")
}

fn object(columns: &[(usize, String)], record: &ByteRecord) -> Result<Vec<u8>, String> {
    let mut text = String::from("{");
    for (index, (column, name)) in columns.iter().enumerate() {
        let cell = std::str::from_utf8(&record[*column]).map_err(|_| {
            let name = excerpt(name);
            format!("column {name} is not UTF-8; bytes can be given as key and value columns only")
        })?;
        if index > 0 {
            text.push(',');
        }
        text.push_str(name);
        text.push(':');
        check_value_length(text.len() + cell.len())?;
        text.push_str(&json_string(cell));
    }
    text.push('}');
    Ok(text.into_bytes())
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn input_error(name: &str, line: u64, problem: impl Into<String>) -> Failure {
    Failure::Input { name: name.to_owned(), place: format!("line {line}"), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(key: &[&str], header: Header) -> Shape {
        let key = key.iter().map(ToString::to_string).collect();
        Shape { key, separator: "/".to_owned(), key_type: None, header, quotes: Quotes::Enclosing }
    }

    fn rows(text: &'static [u8], shape: &Shape) -> Result<Vec<(String, String)>, Failure> {
        let mut reader = DelimitedReader::new(Box::new(text), "test".to_owned(), b',', shape)?;
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
    fn the_first_column_is_the_key_and_the_others_an_object() {
        let found = rows(b"id,name,note\n7,\"a \"\"b\"\"\",\n", &shape(&[], Header::Present)).unwrap();
        assert_eq!(found, [pair("7", r#"{"name":"a \"b\"","note":""}"#)]);
    }

    #[test]
    fn key_and_value_columns_are_taken_as_they_are() {
        let found = rows(b"value,key\n\"x,\ny\",a\n", &shape(&[], Header::Present)).unwrap();
        assert_eq!(found, [pair("a", "x,\ny")]);
        let found = rows(b"key_hex,value_hex\n6162,00\n", &shape(&[], Header::Present)).unwrap();
        assert_eq!(found, [pair("ab", "\0")]);
    }

    #[test]
    fn several_key_columns_are_joined() {
        let found = rows(b"a,b,value\n1,2,3\n", &shape(&["b", "a"], Header::Present)).unwrap();
        assert_eq!(found, [pair("2/1", "3")]);
    }

    #[test]
    fn without_a_header_two_columns_are_key_and_value() {
        assert_eq!(
            rows(b"a,1\nb,2\n", &shape(&[], Header::Absent)).unwrap(),
            [pair("a", "1"), pair("b", "2")]
        );
        let found = rows(b"a,1,x\n", &shape(&["2"], Header::Absent)).unwrap();
        assert_eq!(found, [pair("1", r#"{"1":"a","3":"x"}"#)]);
        assert_eq!(rows(b"", &shape(&[], Header::Absent)).unwrap(), []);
    }

    #[test]
    fn bad_files_are_refused_with_their_line() {
        let message = |text, shape: &Shape| rows(text, shape).unwrap_err().to_string();
        assert!(message(b"a,b\n1,2\n3\n", &shape(&[], Header::Present)).contains("line 3"));
        assert!(message(b"a,a\n", &shape(&[], Header::Present)).contains("two columns"));
        assert!(message(b"a,b\n", &shape(&["c"], Header::Present)).contains("there are: a, b"));
        assert!(message(b"", &shape(&[], Header::Present)).contains("empty"));
        assert!(message(b"a,b\n1,\xff\n", &shape(&[], Header::Present)).contains("UTF-8"));
        assert!(message(b"key_hex,value\nxx,1\n", &shape(&[], Header::Present)).contains("line 2"));
        assert!(message(b"a,b,c\n1/1,2,3\n", &shape(&["a", "b"], Header::Present)).contains("separator"));
    }
}
