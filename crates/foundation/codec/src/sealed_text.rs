//! Small texts that a person can read and no damage passes: a title, a version, lines with a name each, and a checksum.
//!
//! ```text
//! Seawall backup                  title: what it is
//! version 1
//! database 0123456789abcdef       fields, always in the same order: NAME VALUE
//! run 0 12 1093                   a list: WORD NUMBER REST, numbers from 0 on
//! run 1 91204 8388702
//! runs 2                          how many there are of it
//! crc32c 1a2b3c4d                 CRC-32C of all bytes before this line
//! ```

use std::fmt::{self, Display, Write};
use std::str::{FromStr, Lines};

use crate::checksum::crc32c;

const CHECKSUM_PREFIX: &str = "crc32c ";

/// Why a text is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextProblem {
    /// It is not UTF-8.
    NoText,
    /// Its first line is another one.
    Title(&'static str),
    /// It is of another version.
    Version(u32),
    /// Its checksum is wrong or missing.
    Checksum,
    /// A field is not where it should be.
    Missing(&'static str),
    /// A field has a value that it cannot have.
    Value(&'static str),
    /// A list is not well formed.
    List(&'static str),
    /// There is more behind its last field.
    More,
}

impl Display for TextProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextProblem::NoText => formatter.write_str("it is not valid UTF-8"),
            TextProblem::Title(title) => write!(formatter, "its first line is not \"{title}\""),
            TextProblem::Version(version) => {
                write!(
                    formatter,
                    "it has version {version}, which this seawall does not read: use the one that wrote it, or a newer one"
                )
            }
            TextProblem::Checksum => formatter.write_str("its checksum is wrong or missing"),
            TextProblem::Missing(name) => write!(formatter, "it has no {name} where that should be"),
            TextProblem::Value(name) => write!(formatter, "its {name} cannot be"),
            TextProblem::List(name) => write!(formatter, "its {name} are not well formed"),
            TextProblem::More => formatter.write_str("there is data after its end"),
        }
    }
}

impl std::error::Error for TextProblem {}

impl From<TextProblem> for String {
    fn from(problem: TextProblem) -> String {
        problem.to_string()
    }
}

/// Writes a text, line by line.
#[derive(Debug)]
pub struct TextWriter {
    text: String,
}

impl TextWriter {
    /// Begins with the title and the version.
    pub fn new(title: &str, version: u32) -> TextWriter {
        TextWriter { text: format!("{title}\nversion {version}\n") }
    }

    /// A field; what of the value would not stay on one line becomes spaces.
    pub fn line(&mut self, name: &str, value: &dyn Display) {
        let begin = self.text.len();
        write!(self.text, "{name} {value}").expect("a string takes everything");
        if self.text[begin..].contains(char::is_control) {
            let line = self.text[begin..].replace(char::is_control, " ");
            self.text.truncate(begin);
            self.text.push_str(&line);
        }
        self.text.push('\n');
    }

    /// The text with its checksum.
    pub fn seal(mut self) -> String {
        let checksum = crc32c(self.text.as_bytes());
        writeln!(self.text, "{CHECKSUM_PREFIX}{checksum:08x}").expect("a string takes everything");
        self.text
    }
}

/// Reads a text, line by line.
#[derive(Debug)]
pub struct TextReader<'a> {
    lines: Lines<'a>,
}

impl<'a> TextReader<'a> {
    /// Checks title, version and checksum.
    ///
    /// # Errors
    /// Which of them is wrong.
    pub fn open(bytes: &'a [u8], title: &'static str, version: u32) -> Result<TextReader<'a>, TextProblem> {
        let text = std::str::from_utf8(bytes).map_err(|_| TextProblem::NoText)?;
        let mut lines = text.lines();
        if lines.next() != Some(title) {
            return Err(TextProblem::Title(title));
        }
        let sealed = TextReader::body(text);
        let found: u32 = TextReader { lines }.parsed("version")?;
        match sealed {
            Some(body) if found == version => {
                let mut reader = TextReader { lines: body.lines() };
                // Title and version.
                reader.lines.nth(1);
                Ok(reader)
            }
            // A newer version may be sealed in another way.
            None if found <= version || text.contains(CHECKSUM_PREFIX) => Err(TextProblem::Checksum),
            Some(_) | None => Err(TextProblem::Version(found)),
        }
    }

    /// All lines but that of the checksum, if this is right.
    fn body(text: &str) -> Option<&str> {
        let (body, checksum) = text.split_at(text.rfind(CHECKSUM_PREFIX)?);
        let expected = format!("{CHECKSUM_PREFIX}{:08x}\n", crc32c(body.as_bytes()));
        (checksum == expected && body.ends_with('\n')).then_some(body)
    }

    /// The value of the next field.
    ///
    /// # Errors
    /// `Missing`.
    pub fn field(&mut self, name: &'static str) -> Result<&'a str, TextProblem> {
        let line = self.lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.ok_or(TextProblem::Missing(name))
    }

    /// The same, as what it means.
    ///
    /// # Errors
    /// `Missing` or `Value`.
    pub fn parsed<T: FromStr>(&mut self, name: &'static str) -> Result<T, TextProblem> {
        self.field(name)?.parse().map_err(|_| TextProblem::Value(name))
    }

    /// The lines of a list, each of which begins with one of `words` and its number, up to the one that has how many there are,
    /// under the name `count`. What `item` makes of the word and the fields behind the number.
    ///
    /// # Errors
    /// `List`.
    pub fn list<T>(
        &mut self,
        words: &[&'static str],
        count: &'static str,
        mut item: impl FnMut(&'static str, &[&'a str]) -> Option<T>,
    ) -> Result<Vec<T>, TextProblem> {
        let refuse = TextProblem::List(count);
        let mut items = Vec::new();
        loop {
            let Some(line) = self.lines.next() else { return Err(refuse) };
            let fields: Vec<&str> = line.split(' ').collect();
            let [word, number, rest @ ..] = &fields[..] else { return Err(refuse) };
            if number.parse() != Ok(items.len()) {
                return Err(refuse);
            }
            if *word == count && rest.is_empty() {
                return Ok(items);
            }
            let word = words.iter().find(|known| *known == word);
            let Some(made) = word.and_then(|word| item(word, rest)) else { return Err(refuse) };
            items.push(made);
        }
    }

    /// Nothing is left.
    ///
    /// # Errors
    /// `More`.
    pub fn end(mut self) -> Result<(), TextProblem> {
        if self.lines.next().is_none() { Ok(()) } else { Err(TextProblem::More) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLE: &str = "Seawall example";

    fn text() -> String {
        let mut text = TextWriter::new(TITLE, 3);
        text.line("label", &"two\nlines\tof 7");
        text.line("empty", &"");
        text.line("run", &"0 12");
        text.line("kept", &"1 13");
        text.line("runs", &2);
        text.seal()
    }

    /// As a text with another body would be sealed.
    fn resealed(text: &str) -> String {
        let (body, _) = text.rsplit_once(CHECKSUM_PREFIX).unwrap();
        TextWriter { text: body.to_owned() }.seal()
    }

    type Read<'a> = (&'a str, &'a str, Vec<(&'static str, u32)>);

    fn read(text: &[u8]) -> Result<Read<'_>, TextProblem> {
        let mut reader = TextReader::open(text, TITLE, 3)?;
        let (label, empty) = (reader.field("label")?, reader.field("empty")?);
        let runs = reader.list(&["run", "kept"], "runs", |word, fields| {
            let [value] = fields else { return None };
            Some((word, value.parse().ok()?))
        })?;
        reader.end()?;
        Ok((label, empty, runs))
    }

    #[test]
    fn a_text_comes_back_as_it_was_written() {
        let text = text();
        assert_eq!(read(text.as_bytes()), Ok(("two lines of 7", "", vec![("run", 12), ("kept", 13)])));
        assert_eq!(resealed(&text), text);
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let text = text().into_bytes();
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut other = text.clone();
                other[at] ^= 1 << bit;
                assert!(read(&other).is_err(), "byte {at}, bit {bit}");
            }
            assert!(read(&text[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn lines_that_cannot_be_are_refused_with_the_field_at_fault() {
        for (from, to, problem) in [
            ("example", "sample", TextProblem::Title(TITLE)),
            ("version 3", "version 4", TextProblem::Version(4)),
            ("version 3", "version x", TextProblem::Value("version")),
            ("label", "table", TextProblem::Missing("label")),
            ("run 0", "run 1", TextProblem::List("runs")),
            ("run 0", "sun 0", TextProblem::List("runs")),
            ("kept 1 13", "kept 1 13 14", TextProblem::List("runs")),
            ("runs 2", "runs 3", TextProblem::List("runs")),
            ("runs 2", "runs 2 2", TextProblem::List("runs")),
            ("runs 2\n", "runs 2\nrun 3\n", TextProblem::More),
            ("runs 2\n", "", TextProblem::List("runs")),
        ] {
            let text = text();
            assert!(text.contains(from), "{from}");
            let other = resealed(&text.replacen(from, to, 1));
            assert_eq!(read(other.as_bytes()), Err(problem), "{from} -> {to}");
        }
        let newer = format!("{TITLE}\nversion 4\nanything\n");
        assert_eq!(read(newer.as_bytes()), Err(TextProblem::Version(4)));
        assert_eq!(read(b"\xFF"), Err(TextProblem::NoText));
    }
}
