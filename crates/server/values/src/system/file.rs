//! The file of the system catalogs: a `COPY` block for each relation, as pg_dump writes them, compressed.
//!
//! ```text
//!   COPY pg_catalog.pg_cast (oid, castsource, castmethod) FROM stdin;
//!   10014<tab>20<tab>f
//!   \.
//! ```
//! `contrib/system_catalogs.py` writes it, and says how its rows differ from those of PostgreSQL. It is a part of the program, so what
//! is wrong with it is a defect and panics; the tests read every field.

use std::borrow::Cow;

static COMPRESSED: &[u8] = include_bytes!("catalogs.copy.zst");

/// The rows of one relation as text.
#[derive(Clone, Debug)]
pub struct Block {
    /// The name of its schema.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The names of its columns, and, after them, those of values beside them: they begin with an underscore.
    pub columns: Vec<&'static str>,
    lines: &'static str,
}

/// A value in its text form; `None`: null.
pub type Field = Option<Cow<'static, str>>;

impl Block {
    /// All rows: for each a field for each column.
    pub fn rows(&self) -> impl Iterator<Item = Vec<Field>> + use<> {
        self.lines.lines().map(|line| line.split('\t').map(field).collect())
    }

    /// The position of a column.
    ///
    /// # Panics
    /// There is no such column.
    pub fn position(&self, column: &str) -> usize {
        let position = self.columns.iter().position(|name| *name == column);
        position.unwrap_or_else(|| panic!("{}.{} has no column {column}", self.schema, self.name))
    }

    /// The first line with this text in a column.
    pub(super) fn line_where(&self, column: &str, text: &str) -> &'static str {
        self.line_with(&[(column, text)])
    }

    /// The first line with these texts in these columns.
    pub(super) fn line_with(&self, values: &[(&str, &str)]) -> &'static str {
        let positions: Vec<(usize, &str)> =
            values.iter().map(|(column, text)| (self.position(column), *text)).collect();
        let is_alike = |line: &&str| {
            let fields: Vec<&str> = line.split('\t').collect();
            positions.iter().all(|(position, text)| fields[*position] == *text)
        };
        let found = self.lines.lines().find(is_alike);
        found.unwrap_or_else(|| panic!("{}.{} has no row with {values:?}", self.schema, self.name))
    }

    /// Puts lines at the end. The text lives as long as the program.
    pub(super) fn append(&mut self, lines: &[String]) {
        self.lines = format!("{}\n{}", self.lines, lines.join("\n")).leak();
    }
}

/// Reads the file. Its text lives as long as the program.
pub(super) fn read() -> Vec<Block> {
    let bytes = zstd::decode_all(COMPRESSED).expect("the file of the catalogs is compressed by zstd");
    let text: &'static str = String::from_utf8(bytes).expect("the file of the catalogs is UTF-8").leak();
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((head, following)) = rest.split_once('\n') {
        let (lines, following) = match following.strip_prefix("\\.\n") {
            Some(following) => ("", following),
            None => following.split_once("\n\\.\n").expect("a block ends with \\."),
        };
        blocks.push(block(head, lines));
        rest = following;
    }
    blocks
}

/// A block with the head `COPY schema.name (column, column) FROM stdin;`.
fn block(head: &'static str, lines: &'static str) -> Block {
    let inner = head.strip_prefix("COPY ").and_then(|head| head.strip_suffix(") FROM stdin;"));
    let (name, columns) = inner.and_then(|inner| inner.split_once(" (")).expect("a block begins with COPY");
    let (schema, name) = name.split_once('.').expect("the name of a block has a schema");
    Block { schema, name, columns: columns.split(", ").collect(), lines }
}

fn field(text: &'static str) -> Field {
    match text {
        "\\N" => None,
        text if !text.contains('\\') => Some(Cow::Borrowed(text)),
        text => Some(Cow::Owned(unescaped(text))),
    }
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('v') => '\u{b}',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    plain
}

/// The elements of an array of one dimension in its text form: `{a,"b c",NULL}`.
///
/// # Panics
/// The text is not such an array.
pub fn array_elements(text: &str) -> Vec<Option<String>> {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let inner = inner.unwrap_or_else(|| panic!("{text:?} is not an array"));
    let mut elements = Vec::new();
    let mut characters = inner.chars().peekable();
    while characters.peek().is_some() {
        let mut element = String::new();
        let is_quoted = characters.next_if_eq(&'"').is_some();
        while let Some(character) = characters.next_if(|character| is_quoted || *character != ',') {
            match character {
                '"' if is_quoted => break,
                '\\' => element.extend(characters.next()),
                other => element.push(other),
            }
        }
        elements.push((is_quoted || element != "NULL").then_some(element));
        let _comma = characters.next();
    }
    elements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_copy_are_undone() {
        assert_eq!(field("\\N"), None);
        assert_eq!(field("a\\tb\\\\c\\nd").as_deref(), Some("a\tb\\c\nd"));
        assert_eq!(field("").as_deref(), Some(""));
    }

    #[test]
    fn arrays_are_split_into_elements() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(array_elements("{}"), []);
        assert_eq!(array_elements("{1,NULL,3}"), [some("1"), None, some("3")]);
        assert_eq!(
            array_elements(r#"{"a,b","\"","","NULL"}"#),
            [some("a,b"), some("\""), some(""), some("NULL")]
        );
    }

    #[test]
    fn every_row_has_a_field_for_each_column() {
        let blocks = read();
        assert!(blocks.len() > 30, "{}", blocks.len());
        for block in blocks {
            for row in block.rows() {
                assert_eq!(row.len(), block.columns.len(), "{}: {row:?}", block.name);
            }
        }
    }
}
