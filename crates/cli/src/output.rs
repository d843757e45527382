//! Answers on standard output, as text or JSON, and byte strings as text.

use std::fmt;
use std::io::{self, BufWriter, Write};

use seawall_codec::hexadecimal::to_hexadecimal;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::standard_error::Warnings;

/// Standard output.
pub(crate) struct Output {
    writer: BufWriter<io::Stdout>,
    json: bool,
    is_done: bool,
    /// Why a part of the answer to a change that is made could not be written.
    lost: Option<Failure>,
}

impl Output {
    pub(crate) fn stdout(json: bool) -> Output {
        Output { writer: BufWriter::new(io::stdout()), json, is_done: false, lost: None }
    }

    /// Whether a program reads the answer.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Notes that the change is made and durable. From now on a write that fails is no failure of the command: the answer goes on,
    /// so that whatever else the command has to report is reported, and [`Output::lost`] says what became of the answer.
    pub(crate) fn note_done(&mut self) {
        self.is_done = true;
    }

    /// Why the answer to a change that is made could not be written, or not all of it.
    pub(crate) fn lost(&self) -> Option<&Failure> {
        self.lost.as_ref()
    }

    /// A line on standard error that is no failure.
    pub(crate) fn warn(&self, text: impl fmt::Display) {
        self.warnings().warn(text);
    }

    /// Where warnings go, for those who outlive this borrow.
    pub(crate) fn warnings(&self) -> Warnings {
        Warnings { json: self.json }
    }

    /// One line of text.
    pub(crate) fn line(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        let written = writeln!(self.writer, "{text}");
        self.checked(written)
    }

    /// `value` as one line of JSON, or `text` as it is.
    pub(crate) fn answer(&mut self, value: &Value, text: impl fmt::Display) -> Result<(), Failure> {
        if self.json { self.line(value) } else { self.line(text) }
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.writer.write_all(bytes);
        self.checked(written)
    }

    /// Hands everything to whoever reads.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let flushed = self.writer.flush();
        self.checked(flushed)
    }

    fn checked(&mut self, written: io::Result<()>) -> Result<(), Failure> {
        match written.map_err(Failure::output) {
            Err(failure) if self.is_done => {
                self.lost.get_or_insert(failure);
                Ok(())
            }
            written => written,
        }
    }
}

/// How keys and values are typed in and shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    Text,
    Hex,
}

impl Notation {
    pub(crate) fn new(hex: bool) -> Notation {
        if hex { Notation::Hex } else { Notation::Text }
    }

    /// The bytes that `text` stands for.
    pub(crate) fn parse(self, text: &str) -> Result<Vec<u8>, Failure> {
        match self {
            Notation::Text => Ok(text.as_bytes().to_vec()),
            Notation::Hex => parse_hex(text.as_bytes())
                .map_err(|problem| Failure::Usage(format!("{text:?} is not hexadecimal: {problem}"))),
        }
    }

    /// The bytes on a line of their own.
    pub(crate) fn show(self, bytes: &[u8]) -> String {
        match self {
            Notation::Text => escape(bytes),
            Notation::Hex => to_hexadecimal(bytes),
        }
    }

    /// Sets `name` of a JSON object to the bytes as text, or `name_hex` where they are not text or hex is asked for.
    pub(crate) fn set(self, object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Ok(text) if self == Notation::Text => object.insert(name.to_owned(), Value::from(text)),
            _ => object.insert(format!("{name}_hex"), Value::from(to_hexadecimal(bytes))),
        };
    }
}

/// The bytes that `text` gives two digits each.
pub(crate) fn parse_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(2) {
        return Err(format!("{} digits; two make a byte", text.len()));
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        b'A'..=b'F' => Ok(byte - b'A' + 10),
        _ => Err(format!("{:?} is not a digit", char::from(byte))),
    };
    text.chunks_exact(2).map(|pair| Ok(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Printable text as it is, the rest as `\n`, `\t`, `\\` and `\xNN`: one line that stands for these bytes only.
pub(crate) fn escape(bytes: &[u8]) -> String {
    use fmt::Write as _;
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => shown.push_str("\\\\"),
                '\n' => shown.push_str("\\n"),
                '\r' => shown.push_str("\\r"),
                '\t' => shown.push_str("\\t"),
                control if control.is_control() => {
                    let mut buffer = [0; 4];
                    for byte in control.encode_utf8(&mut buffer).bytes() {
                        write!(shown, "\\x{byte:02x}").expect("writing to a String cannot fail");
                    }
                }
                printable => shown.push(printable),
            }
        }
        for byte in chunk.invalid() {
            write!(shown, "\\x{byte:02x}").expect("writing to a String cannot fail");
        }
    }
    shown
}

/// What a file says, in a message: printable, and no longer than fits into a line.
pub(crate) fn excerpt(text: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    match text.char_indices().nth(CHARACTERS_MAX) {
        None => escape(text.as_bytes()),
        Some((end, _)) => format!("{}...", escape(&text.as_bytes()[..end])),
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 row`, `1,234,567 rows`: of a word whose plural has an s.
pub(crate) fn counted(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {what}{ending}", grouped(number))
}

/// `5242880` as `5.0 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// Events a second, rounded.
pub(crate) fn rate(count: u64, elapsed: std::time::Duration) -> u64 {
    let nanoseconds = elapsed.as_nanos().max(1);
    u64::try_from(u128::from(count) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}

/// `1234567` nanoseconds as `1.23 ms`.
pub(crate) fn duration(elapsed: std::time::Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else if seconds >= 0.001 {
        format!("{:.2} ms", seconds * 1e3)
    } else {
        format!("{:.0} us", seconds * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_reads_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(parse_hex(to_hexadecimal(&bytes).as_bytes()), Ok(bytes));
        assert_eq!(parse_hex(b"0aFf"), Ok(vec![10, 255]));
        assert!(parse_hex(b"abc").is_err());
        assert!(parse_hex(b"xy").is_err());
    }

    #[test]
    fn a_line_shows_every_byte() {
        assert_eq!(escape("caf\u{e9}\n\\".as_bytes()), "caf\u{e9}\\n\\\\");
        assert_eq!(escape(&[0, b'a', 0xFF, 0x7F]), "\\x00a\\xff\\x7f");
    }

    #[test]
    fn an_excerpt_is_the_beginning_on_one_line() {
        assert_eq!(excerpt("a\u{9b}\n"), "a\\xc2\\x9b\\n");
        assert_eq!(excerpt(&"\u{e9}".repeat(60)), "\u{e9}".repeat(60));
        assert_eq!(excerpt(&"\u{e9}".repeat(61)), "\u{e9}".repeat(60) + "...");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!([0, 1, 1_000].map(|number| counted(number, "row")), ["0 rows", "1 row", "1,000 rows"]);
    }
}
