//! Where a line of text or csv ends.

use std::ops::Range;

use seawall_values::SqlResult;

use super::{Input, bad_format};
use crate::parse::statement::copy::{CopyFormat, CopyOptions};

/// How lines end: the first one decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnd {
    Unknown,
    Newline,
    Return,
    ReturnNewline,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// More data is needed.
    More,
    /// A line, where the next one begins, and how many line breaks it has in quotes.
    Found { text: Range<usize>, next: usize, line_breaks: u64 },
    /// What is left before the end of the data, or before its marker `\.`.
    Last { text: Range<usize>, line_breaks: u64 },
}

/// How far the search for the end of the line under way has come.
#[derive(Debug)]
pub(super) struct Lines {
    end: LineEnd,
    is_csv: bool,
    quote: u8,
    /// `None`: a quote is escaped by another one.
    escape: Option<u8>,
    at: usize,
    is_in_quotes: bool,
    is_escaped: bool,
    line_breaks: u64,
}

impl Lines {
    pub(super) fn new(options: &CopyOptions) -> Lines {
        Lines {
            end: LineEnd::Unknown,
            is_csv: options.format == CopyFormat::Csv,
            quote: options.quote,
            escape: (options.escape != options.quote).then_some(options.escape),
            at: 0,
            is_in_quotes: false,
            is_escaped: false,
            line_breaks: 0,
        }
    }

    /// So many bytes before the line under way have been taken away.
    pub(super) fn moved(&mut self, bytes: usize) {
        self.at = self.at.saturating_sub(bytes);
    }

    /// The next line of the input.
    pub(super) fn next(&mut self, input: &Input) -> SqlResult<Line> {
        let bytes = &input.bytes;
        self.at = self.at.max(input.start);
        loop {
            self.pass_over_plain(input);
            let Some(&byte) = bytes.get(self.at) else {
                if !input.is_complete {
                    return Ok(Line::More);
                }
                return Ok(Line::Last { text: input.start..bytes.len(), line_breaks: self.reset() });
            };
            let next = bytes.get(self.at + 1).copied();
            let needs_next = match byte {
                b'\r' => !self.is_in_quotes,
                b'\\' => !self.is_csv || self.at == input.start,
                _ => false,
            };
            if needs_next && next.is_none() && !input.is_complete {
                return Ok(Line::More);
            }
            let before = (self.is_in_quotes, self.is_escaped, self.line_breaks);
            if self.is_csv {
                self.follow_quotes(byte);
            }
            match byte {
                b'\r' if !self.is_in_quotes => return self.line_return(input, next),
                b'\n' if !self.is_in_quotes => return self.newline(input),
                b'\\' if !self.is_csv || self.at == input.start => {
                    if let Some(line) = self.backslash(input, next)? {
                        if line == Line::More {
                            (self.is_in_quotes, self.is_escaped, self.line_breaks) = before;
                        }
                        return Ok(line);
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    /// Most bytes mean nothing.
    fn pass_over_plain(&mut self, input: &Input) {
        // At the beginning of a line, csv may have the marker of the end.
        if self.is_csv && (self.at == input.start || self.is_escaped) {
            return;
        }
        let rest = input.bytes.get(self.at..).unwrap_or_default();
        let found = if !self.is_csv {
            memchr::memchr3(b'\n', b'\r', b'\\', rest)
        } else if self.is_in_quotes {
            memchr::memchr3(self.quote, self.escape.unwrap_or(self.quote), self.counted_break(), rest)
        } else {
            memchr::memchr3(b'\n', b'\r', self.quote, rest)
        };
        self.at += found.unwrap_or(rest.len());
    }

    /// The byte that counts as a line break within quotes.
    fn counted_break(&self) -> u8 {
        if self.end == LineEnd::Newline { b'\n' } else { b'\r' }
    }

    /// Whether line breaks belong to a field.
    fn follow_quotes(&mut self, byte: u8) {
        if self.is_in_quotes && Some(byte) == self.escape {
            self.is_escaped = !self.is_escaped;
        }
        if byte == self.quote && !self.is_escaped {
            self.is_in_quotes = !self.is_in_quotes;
        }
        if Some(byte) != self.escape {
            self.is_escaped = false;
        }
        if self.is_in_quotes && byte == self.counted_break() {
            self.line_breaks += 1;
        }
    }

    fn line_return(&mut self, input: &Input, next: Option<u8>) -> SqlResult<Line> {
        let is_pair = next == Some(b'\n');
        match (self.end, is_pair) {
            (LineEnd::Unknown | LineEnd::ReturnNewline, true) => self.end = LineEnd::ReturnNewline,
            (LineEnd::Unknown | LineEnd::Return, _) => self.end = LineEnd::Return,
            (LineEnd::ReturnNewline | LineEnd::Newline, _) => {
                return Err(if self.is_csv {
                    bad_format("unquoted carriage return found in data")
                        .with_hint("Use quoted CSV field to represent carriage return.")
                } else {
                    bad_format("literal carriage return found in data")
                        .with_hint("Use \"\\r\" to represent carriage return.")
                });
            }
        }
        let length = if self.end == LineEnd::ReturnNewline { 2 } else { 1 };
        Ok(self.found(input, length))
    }

    fn newline(&mut self, input: &Input) -> SqlResult<Line> {
        if matches!(self.end, LineEnd::Return | LineEnd::ReturnNewline) {
            return Err(if self.is_csv {
                bad_format("unquoted newline found in data")
                    .with_hint("Use quoted CSV field to represent newline.")
            } else {
                bad_format("literal newline found in data").with_hint("Use \"\\n\" to represent newline.")
            });
        }
        self.end = LineEnd::Newline;
        Ok(self.found(input, 1))
    }

    fn found(&mut self, input: &Input, end_bytes: usize) -> Line {
        let text = input.start..self.at;
        let next = self.at + end_bytes;
        self.at = next;
        Line::Found { text, next, line_breaks: self.reset() }
    }

    fn reset(&mut self) -> u64 {
        (self.is_in_quotes, self.is_escaped) = (false, false);
        std::mem::take(&mut self.line_breaks)
    }

    /// `\.` ends the data; in text, any other byte after a backslash belongs to the field.
    fn backslash(&mut self, input: &Input, next: Option<u8>) -> SqlResult<Option<Line>> {
        if next != Some(b'.') {
            self.at += if self.is_csv || next.is_none() { 1 } else { 2 };
            return Ok(None);
        }
        let after = (input.bytes.get(self.at + 2).copied(), input.bytes.get(self.at + 3).copied());
        let is_unknown = !input.is_complete
            && (after.0.is_none()
                || (after.0 == Some(b'\r') && after.1.is_none() && self.end != LineEnd::Return));
        if is_unknown {
            return Ok(Some(Line::More));
        }
        let is_like_lines = match (self.end, after) {
            (_, (None, _)) | (LineEnd::Unknown, (Some(b'\r' | b'\n'), _)) => true,
            (LineEnd::Newline, (Some(byte), _)) => byte == b'\n',
            (LineEnd::Return, (Some(byte), _)) => byte == b'\r',
            (LineEnd::ReturnNewline, after) => after == (Some(b'\r'), Some(b'\n')),
            (LineEnd::Unknown, _) => false,
        };
        if is_like_lines {
            return Ok(Some(Line::Last { text: input.start..self.at, line_breaks: self.reset() }));
        }
        if matches!(after.0, Some(b'\r' | b'\n')) {
            return Err(bad_format("end-of-copy marker does not match previous newline style"));
        }
        if self.is_csv {
            self.at += 1;
            return Ok(None);
        }
        Err(bad_format("end-of-copy marker corrupt"))
    }
}
