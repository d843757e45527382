//! The text of a `jsonb`.

use std::fmt::Write;

use crate::datum::Jsonb;

/// Appends a text as a JSON string: in quotes, with escapes where JSON wants them.
pub fn escape_into(text: &str, output: &mut String) {
    output.push('"');
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            8 => "\\b",
            12 => "\\f",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            ..32 => "",
            _ => continue,
        };
        output.push_str(&text[start..at]);
        start = at + 1;
        if escape.is_empty() {
            write!(output, "\\u{byte:04x}").expect("a string takes all that is written");
        } else {
            output.push_str(escape);
        }
    }
    output.push_str(&text[start..]);
    output.push('"');
}

/// Appends the text of a value as `jsonb` shows it: a space after each comma and colon.
pub fn print(value: &Jsonb, output: &mut String) {
    Printer { output, indent: None }.value(value);
}

/// Appends the text of a value as `jsonb_pretty` shows it.
pub fn print_pretty(value: &Jsonb, output: &mut String) {
    Printer { output, indent: Some(0) }.value(value);
}

struct Printer<'a> {
    output: &'a mut String,
    /// The level of lines; none: all in one line.
    indent: Option<usize>,
}

impl Printer<'_> {
    fn value(&mut self, value: &Jsonb) {
        match value {
            Jsonb::Null => self.output.push_str("null"),
            Jsonb::Bool(true) => self.output.push_str("true"),
            Jsonb::Bool(false) => self.output.push_str("false"),
            Jsonb::Number(number) => {
                write!(self.output, "{number}").expect("a string takes all that is written");
            }
            Jsonb::String(text) => escape_into(text, self.output),
            Jsonb::Array(values) => self.list('[', ']', values, |printer, value| printer.value(value)),
            Jsonb::Object(members) => self.list('{', '}', members, |printer, (key, value)| {
                escape_into(key, printer.output);
                printer.output.push_str(": ");
                printer.value(value);
            }),
        }
    }

    fn list<T>(&mut self, open: char, close: char, items: &[T], print: impl Fn(&mut Self, &T)) {
        self.output.push(open);
        self.indent = self.indent.map(|level| level + 1);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.output.push_str(if self.indent.is_some() { "," } else { ", " });
            }
            self.line();
            print(self, item);
        }
        self.indent = self.indent.map(|level| level - 1);
        self.line();
        self.output.push(close);
    }

    fn line(&mut self) {
        if let Some(level) = self.indent {
            self.output.push('\n');
            self.output.extend(std::iter::repeat_n(' ', level * 4));
        }
    }
}
